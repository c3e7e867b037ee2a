"""What a batch is worth: its weight, not the way in which data were cut, moves a model."""

import copy

import numpy as np
import pytest
from scipy import sparse

import fastem
from fastem import algebra
from fastem.data.batches import in_batches
from fastem.data.rows import Table
from fastem.families import Gaussian
from fastem.hmm.model import HMMModel
from fastem.learning_rate import Clock, Decay, batch_weights, schedule, step_size
from fastem.mixture.model import MixtureModel
from fastem.revival import revival

from cases.families import ALL, GAUSSIAN, pair_of

# Rates ------------------------------------------------------------------------------------------


def kept(learning_rate, weights, size, clock=None, memory=100.0):
    """The share of the memory that is left after batches of these weights."""
    etas, _ = schedule(learning_rate, clock or Clock(), np.asarray(weights, float), size, memory)
    return np.prod([1.0 - step_size(eta) for eta in etas])


@pytest.mark.parametrize("n", [0, 7, 5000, 10**6])
@pytest.mark.parametrize("count", [1, 10, 1000])
@pytest.mark.parametrize("memory", [20.0, 100.0, 3e4])
def test_the_automatic_rate_is_the_product_over_observations(n, count, memory):
    """Nearly: it is an integral, so that weights need not be whole."""
    steps = 2.0 / memory * (1.0 + (n + 0.5 + np.arange(count)) / memory) ** -0.8
    expected = np.exp(np.log1p(-steps).sum())
    share = kept("auto", [count], 1, Clock(0, n), memory)
    assert share == pytest.approx(expected, rel=2e-3, abs=1e-6)


def test_the_automatic_rate_against_quadrature():
    from scipy.integrate import quad

    for before, weight, m in ((0.0, 0.3, 20.0), (3.3, 4.4, 100.0), (1e4, 250.0, 33.3),
                              (2e8, 1e-3, 7e5)):  # fmt: skip
        integral = quad(lambda u, m=m: np.log1p(-2 / m * (1 + u / m) ** -0.8), before,
                        before + weight, epsabs=0, epsrel=1e-13)[0]  # fmt: skip
        etas, clock = schedule("auto", Clock(0, before), np.array([weight]), 1, m)
        assert np.log1p(etas[0]) == pytest.approx(-integral, rel=1e-10)
        assert clock.observations == before + weight


@pytest.mark.parametrize("seed", range(5))
def test_however_data_are_cut_as_much_is_forgotten(seed):
    rng = np.random.default_rng(seed)
    weights = rng.exponential(size=500)
    whole = kept("auto", [weights.sum()], 1)
    for size in (1, 3, 50, 499):
        cut = batch_weights(500, size, weights)
        assert kept("auto", cut, size) == pytest.approx(whole, rel=1e-9)
    # Over several calls, too.
    clock, share = Clock(), 1.0
    for part in np.split(weights, np.sort(rng.integers(1, 499, 6))):
        if len(part):
            etas, clock = schedule("auto", clock, batch_weights(len(part), 7, part), 7)
            share *= np.prod(1.0 / (1.0 + etas))
    assert share == pytest.approx(whole, rel=1e-9)
    assert clock.observations == pytest.approx(weights.sum(), rel=1e-12)


def test_a_short_batch_takes_its_share_of_a_rate():
    etas, clock = schedule(0.5, Clock(), batch_weights(10_001, 1000), 1000)
    np.testing.assert_allclose(etas, [0.5] * 10 + [0.0005], rtol=1e-15)
    assert clock == Clock(10.001, 10_001.0)
    # The step goes on where it was: 999 more rows make it whole.
    etas, clock = schedule(Decay(1.0, 1.0), clock, batch_weights(1999, 1000), 1000)
    np.testing.assert_allclose(etas, [1 / 11, 0.999 / 12], rtol=1e-12)
    assert clock.steps == pytest.approx(12.0, abs=1e-9)
    assert schedule(Decay(1.0, 1.0), Clock(12.0 - 1e-12, 0), np.ones(1), 1)[0] == [1 / 13]


def test_batches_of_no_weight_and_infinite_rates():
    etas, clock = schedule(np.inf, Clock(), np.array([0.0, 3.0]), 3)
    np.testing.assert_array_equal(etas, [0.0, np.inf])
    assert clock == Clock(1.0, 3.0)
    assert schedule("auto", Clock(), np.array([1e12]), 1)[0] == [np.inf]


@pytest.mark.parametrize("sizes", [[3, 4, 5], [1] * 12, [12], [5, 0, 7], [11, 1]])
@pytest.mark.parametrize("size", [1, 4, 5, 12, 20])
@pytest.mark.parametrize("is_sparse", [False, True])
def test_batches_go_on_from_table_to_table(sizes, size, is_sparse):
    X, w = np.arange(24.0).reshape(12, 2), np.arange(12.0)
    ends = np.cumsum(sizes)
    tables = [Table(X[e - n : e], w[e - n : e]) for e, n in zip(ends, sizes, strict=True)]
    if is_sparse:
        tables = [Table(sparse.csr_array(t.X), t.sample_weight) for t in tables]
    got = list(in_batches(tables, size))
    assert all(len(table) % size == 0 for table in got[:-1])
    rows = [table.X.toarray() if is_sparse else table.X for table in got]
    np.testing.assert_array_equal(np.concatenate(rows), X)
    np.testing.assert_array_equal(np.concatenate([table.sample_weight for table in got]), w)


# Estimators -------------------------------------------------------------------------------------


def rows(rng, n):
    return rng.normal(size=(n, 2)) + 5.0 * rng.integers(2, size=(n, 1))


def counts(rng, n):
    return rng.multinomial(20, rng.dirichlet([1.0, 2.0, 4.0], size=n))


def sequences(rng, n):
    lengths = rng.integers(2, 9, n)
    return [rows(rng, T) for T in lengths]


MAKERS = {
    "gaussian": (lambda **o: fastem.GaussianMixture(2, random_state=0, **o), rows),
    "poisson": (lambda **o: fastem.Mixture("poisson", 2, random_state=0, **o), counts),
    "compound Dirichlet": (lambda **o: fastem.CompoundDirichlet(**o), counts),
    "Dirichlet": (
        lambda **o: fastem.Dirichlet(**o), lambda rng, n: rng.dirichlet([1.0, 2.0, 4.0], size=n)
    ),
    "hmm": (lambda **o: fastem.GaussianHMM(2, random_state=0, **o), sequences),
    "kalman": (
        lambda **o: fastem.KalmanFilter(n_dim_state=2, random_state=0, **o), sequences
    ),
}  # fmt: skip
SEQUENCES = ("hmm", "kalman")


def parameters_of(model):
    return {name: np.asarray(array) for name, array in model._model().parameters.items()}


def assert_alike(one, other, rtol=1e-7):
    a, b = parameters_of(one), parameters_of(other)
    for name in a:
        np.testing.assert_allclose(a[name], b[name], rtol=rtol, atol=1e-9, err_msg=name)


@pytest.mark.parametrize("name", MAKERS)
@pytest.mark.parametrize("rate", [0.3, Decay(1.0, 0.6)], ids=["constant", "decay"])
def test_a_batch_of_one_has_a_fiftieth_of_the_influence_of_fifty(name, rate):
    make, data = MAKERS[name]
    X = data(np.random.default_rng(4), 251)
    model = make(batch_size=50, learning_rate=rate).partial_fit(X[:250])
    share = copy.deepcopy(model).partial_fit(X[250:])
    assert share.n_steps_ == pytest.approx(5.02)
    # As a whole batch it would take the whole rate.
    whole = copy.deepcopy(model).set_params(batch_size=1).partial_fit(X[250:])
    for key, array in parameters_of(model).items():
        moved = np.abs(parameters_of(share)[key] - array).max()
        too_far = np.abs(parameters_of(whole)[key] - array).max()
        assert moved <= 0.1 * too_far + 1e-12, key


def test_the_error_of_a_mean_does_not_jump_with_one_row():
    errors = {10_000: [], 10_001: []}
    for seed in range(30):
        X = np.random.default_rng(seed).normal(size=(10_001, 1))
        for n, found in errors.items():
            model = fastem.GaussianMixture(1, batch_size=1000, learning_rate=Decay(1.0, 0.6))
            found.append(model.partial_fit(X[:n]).means_[0, 0])
    assert np.std(errors[10_001]) < 1.1 * np.std(errors[10_000])


@pytest.mark.parametrize("name", MAKERS)
@pytest.mark.parametrize("rate", [0.5, "auto"])
@pytest.mark.parametrize("batch_size", [None, 40])
def test_weights_say_how_far_a_model_moves(name, rate, batch_size):
    make, data = MAKERS[name]
    rng = np.random.default_rng(5)
    X, new = data(rng, 100), data(rng, 40)
    start = make(batch_size=batch_size, learning_rate=rate).fit(X)
    moved = {}
    for weight in (1e-6, 1.0, 1e6):
        model = copy.deepcopy(start)
        model.partial_fit(new, sample_weight=np.full(len(new), weight))
        moved[weight] = max(
            np.abs(array - parameters_of(start)[key]).max()
            for key, array in parameters_of(model).items()
        )
    assert moved[1e-6] < 1e-4 * moved[1.0]
    assert moved[1e6] > 1.05 * moved[1.0]
    # Weights of one are no weights.
    plain = copy.deepcopy(start).partial_fit(new)
    weighted = copy.deepcopy(start).partial_fit(new, sample_weight=np.ones(len(new)))
    assert_alike(weighted, plain, rtol=1e-9)


@pytest.mark.parametrize("name", MAKERS)
def test_with_the_automatic_rate_a_weight_of_two_is_two_observations(name):
    make, data = MAKERS[name]
    rng = np.random.default_rng(6)
    X, new = data(rng, 100), data(rng, 40)
    start = make().fit(X)
    twice = new + new if name in SEQUENCES else np.concatenate([new, new])
    once = copy.deepcopy(start).partial_fit(new, sample_weight=np.full(len(new), 2.0))
    assert_alike(once, copy.deepcopy(start).partial_fit(twice), rtol=1e-9)


@pytest.mark.parametrize("name", MAKERS)
def test_the_observations_behind_a_model_are_counted(name, tmp_path):
    make, data = MAKERS[name]
    rng = np.random.default_rng(7)
    X, new = data(rng, 60), data(rng, 40)
    model = make().fit(X)
    assert model.n_observations_ == 60 and model.n_steps_ == 0
    w = rng.uniform(0.5, 2.0, len(new))
    model.partial_fit(new, sample_weight=w)
    assert model.n_observations_ == pytest.approx(60 + w.sum())
    fastem.save(model, tmp_path / "model")
    assert fastem.load(tmp_path / "model").n_observations_ == model.n_observations_
    other = make().fit(X)
    merged = fastem.combine([model, other])
    assert merged.n_observations_ == pytest.approx(120 + w.sum())
    assert model.fit(X).n_observations_ == 60


# A model that was fitted ------------------------------------------------------------------------


def blobs(rng, n, K=5, D=8):
    centers = np.random.default_rng(8).normal(scale=3.0, size=(K, D))
    return centers[rng.integers(K, size=n)] + rng.normal(size=(n, D))


@pytest.mark.parametrize("kind", ["full", "tied", "diag", "spherical"])
@pytest.mark.parametrize("batch_size", [1, 50, None])
def test_learning_on_does_not_destroy_a_fit(kind, batch_size):
    rng = np.random.default_rng(9)
    X, new, held_out = blobs(rng, 3000), blobs(rng, 1000), blobs(rng, 2000)
    model = fastem.GaussianMixture(5, covariance_type=kind, random_state=0).fit(X)
    before, weights = model.score(held_out), model.weights_.copy()
    model.batch_size = batch_size
    model.partial_fit(new)
    # Less is remembered than all that was fitted to: some hundred rows, which have their noise.
    assert model.score(held_out) > before - (0.1 if kind == "full" else 0.05)
    assert (model.weights_ > 0.5 * weights).all()


def test_one_row_a_call_does_not_destroy_a_fit():
    rng = np.random.default_rng(10)
    X, new, held_out = blobs(rng, 3000), blobs(rng, 300), blobs(rng, 2000)
    model = fastem.GaussianMixture(5, covariance_type="diag", random_state=0).fit(X)
    before = model.score(held_out)
    for row in new:
        model.partial_fit(row[None])
    assert model.score(held_out) > before - 0.05
    assert model.n_observations_ == 3300


# Components that come back ----------------------------------------------------------------------


@pytest.mark.parametrize("case", [c for c in GAUSSIAN if c.name != "tied"], ids=str)
@pytest.mark.parametrize("batch_size", [1, 3])
@pytest.mark.parametrize("keep", [False, True], ids=["model", "statistics"])
@pytest.mark.parametrize("eta", [0.05, 0.5])
def test_a_component_that_died_comes_back_as_a_component(case, batch_size, keep, eta):
    """Rows near a dead component revive it; its variance stays of the order that it had."""
    rng = np.random.default_rng(11)
    means = np.array([[0.0, 0.0, 0.0], [6.0, 0.0, 0.0], [0.0, 60.0, 0.0]])
    covariances = {
        "full": np.repeat(np.eye(3)[None], 3, axis=0), "diag": np.ones((3, 3)),
        "spherical": np.ones(3),
    }[case.name]  # fmt: skip
    weights = np.array([0.5, 0.5, 1e-14])
    model = MixtureModel(
        Gaussian(case.name, reg_covar=1e-6), weights, {"means": means, "covariances": covariances}
    )
    X = means[2] + np.array([3.0, 0.0, 0.0]) + rng.normal(size=(30, 3))
    memory = model.own() if keep else None
    learned, _, _ = model.learn(Table(X[:batch_size]), np.array([eta]), batch_size, memory)
    variances = np.linalg.eigvalsh(case.oracle.matrices(pair_of(learned)[1])[2])
    assert variances.min() > 0.02
    # With more rows it becomes their component.
    learned, _, _ = model.learn(Table(X), np.full(30 // batch_size, eta), batch_size, memory)
    got = learned.parameters
    assert got["weights"][2] > 0.9 * (1.0 - (1.0 + eta) ** -(30 // batch_size))
    np.testing.assert_allclose(got["means"][2], X.mean(axis=0), atol=1.0)
    variances = np.linalg.eigvalsh(case.oracle.matrices(pair_of(learned)[1])[2])
    assert 0.05 < variances.min() and variances.max() < 5.0


def test_what_comes_back_is_given_no_more_than_it_gains():
    rng = np.random.default_rng(12)
    for _ in range(200):
        K = rng.integers(1, 6)
        inertia = rng.exponential(size=K) * 10.0 ** rng.uniform(-12, 2, K)
        gained = rng.exponential(size=K) * 10.0 ** rng.uniform(-6, 1, K)
        observation = rng.exponential()
        more = revival(inertia, gained, observation)
        least = min(observation, 0.1 * inertia.sum() / K)
        assert (more >= 0).all() and (more <= gained).all()
        assert (more[inertia >= least] == 0).all()
        assert (inertia + more <= np.maximum(inertia, least) * (1 + 1e-12)).all()
        shrinks = gained / gained.sum() < inertia / inertia.sum()
        assert (more[shrinks] == 0).all()
    assert not revival(np.zeros(3), np.ones(3), 1.0).any()


@pytest.mark.parametrize("case", ALL, ids=str)
def test_a_step_never_raises_the_loss_of_its_batch_however_small_a_weight(case):
    """Whatever the rate, and with components near death, dead or coming back."""
    rng = np.random.default_rng(13)
    for _ in range(40):
        pair, X = case.problem(rng.integers(2**31), n_rows=int(rng.integers(2, 30)))
        weights = pair[0] * 10.0 ** -rng.choice([0, 2, 4, 8, 13], size=3)
        model = case.model((weights / weights.sum(), pair[1]))
        eta = 10.0 ** rng.uniform(-3, 1)
        before = model.expect(X).log_likelihood
        try:
            after = algebra.online(model, X, eta)[0]
        except ValueError as error:
            assert case.family.failure in str(error)
            continue
        assert after.expect(X).log_likelihood > before - 1e-9 * max(1.0, abs(before))


@pytest.mark.parametrize("keep", [False, True], ids=["model", "statistics"])
@pytest.mark.parametrize("batch_size", [1, 4])
def test_a_state_that_comes_back_in_the_kernel_and_in_the_plain_loop(keep, batch_size):
    """And its row of transitions does not become a single one."""
    rng = np.random.default_rng(14)
    start = np.array([0.5, 0.5 - 1e-12, 1e-12])
    transmat = np.array([[0.6, 0.4, 1e-13], [0.4, 0.6, 1e-13], [0.3, 0.3, 0.4]])
    transmat /= transmat.sum(axis=1, keepdims=True)
    parameters = {"means": np.array([[0.0], [3.0], [30.0]]), "covariances": np.ones((3, 1))}
    model = HMMModel(Gaussian("diag"), start, transmat, parameters)
    X = rng.normal(size=(8, 6, 1)) + 3.0 * rng.integers(2, size=(8, 6, 1))
    X[::2, 3] += 31.0
    etas = np.full(-(-8 // batch_size), 0.05)
    memory = model.own(6) if keep else None
    table = fastem.data.sequences.as_sequences(X)
    assert model._in_kernel(table, batch_size)
    got, _, _ = model.learn(table, etas, batch_size, memory)
    plain, remembered = model, memory
    for t, first in enumerate(range(0, 8, batch_size)):
        plain, statistics = algebra.online(
            plain, X[first : first + batch_size], etas[t], remembered
        )
        remembered = statistics if keep else None
    for key, array in plain.parameters.items():
        np.testing.assert_allclose(got.parameters[key], array, rtol=1e-8, atol=1e-12, err_msg=key)
    assert got.parameters["covariances"][2, 0] > 0.1
    assert got.parameters["transmat"][2].min() > 0.02


def test_a_step_of_a_hidden_markov_model_never_raises_the_loss_however_small_a_usage():
    rng = np.random.default_rng(15)
    for _ in range(60):
        start = rng.dirichlet(np.ones(3)) * 10.0 ** -rng.choice([0, 3, 9], size=3)
        transmat = rng.dirichlet(np.ones(3), size=3) * 10.0 ** -rng.choice([0, 3, 9], size=(1, 3))
        model = HMMModel(
            Gaussian("diag", reg_covar=0.0), start / start.sum(),
            transmat / transmat.sum(axis=1, keepdims=True),
            {"means": 3 * rng.normal(size=(3, 2)), "covariances": rng.gamma(2.0, size=(3, 2))},
        )  # fmt: skip
        X = 3 * rng.normal(size=(int(rng.integers(1, 5)), int(rng.integers(3, 12)), 2))
        before = model.expect(X).log_likelihood
        try:
            after = algebra.online(model, X, 10.0 ** rng.uniform(-3, 1))[0]
        except ValueError as error:
            assert model.family.failure in str(error)
            continue
        assert after.expect(X).log_likelihood > before - 1e-9 * max(1.0, abs(before))
