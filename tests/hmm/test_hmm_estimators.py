"""Hidden Markov estimators beyond hmmlearn: forms of data, weights, online, absorbing, missing."""

import copy
import pickle
import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone

import fastem
from fastem import (
    GMMHMM,
    HMM,
    CategoricalHMM,
    Decay,
    GaussianHMM,
    MultinomialHMM,
    PoissonHMM,
    algebra,
)
from fastem.data.sequences import Sequences
from fastem.families import Bernoulli, Beta, Categorical, Exponential, Gamma, Poisson, Product
from fastem.stopping import ConvergenceMonitor

from oracles import hmm as oracles

LENGTHS = [9, 1, 30, 2, 18]
N_ROWS = sum(LENGTHS)
KINDS = ("full", "tied", "diag", "spherical")


def gaussian_rows(seed=0, n_rows=N_ROWS, n_columns=2):
    rng = np.random.default_rng(seed)
    states = np.repeat(rng.integers(0, 3, n_rows), 4)[:n_rows]
    return 3.0 * rng.normal(size=(3, n_columns))[states] + rng.normal(size=(n_rows, n_columns))


def counts(seed=0):
    rng = np.random.default_rng(seed)
    return rng.poisson(np.repeat(rng.choice([1.0, 9.0], N_ROWS), 4)[:N_ROWS, None] * [1.0, 2.0])


def symbols(seed=0):
    return counts(seed)[:, :1] % 4


def split(X, lengths=LENGTHS):
    return np.split(X, np.cumsum(lengths)[:-1])


ESTIMATORS = {
    "GaussianHMM full": (GaussianHMM(3, "full", random_state=0), gaussian_rows),
    "GaussianHMM tied": (GaussianHMM(3, "tied", random_state=0), gaussian_rows),
    "GaussianHMM diag": (GaussianHMM(3, "diag", random_state=0), gaussian_rows),
    "GaussianHMM spherical": (GaussianHMM(3, "spherical", random_state=0), gaussian_rows),
    "GMMHMM": (GMMHMM(2, 2, random_state=0), gaussian_rows),
    "PoissonHMM": (PoissonHMM(2, random_state=0), counts),
    "CategoricalHMM": (CategoricalHMM(2, random_state=0), symbols),
    "MultinomialHMM": (MultinomialHMM(2, random_state=0), counts),
    "HMM": (HMM(Poisson(), 2, random_state=0), counts),
}
NAMES = list(ESTIMATORS)


def estimator(name, **settings):
    model, data = ESTIMATORS[name]
    return clone(model).set_params(**settings), data()


def learned(model):
    return {name: getattr(model, name) for name in model._parameter_attributes()}


def assert_same(one, other, rtol=1e-9, atol=1e-10):
    for name, array in learned(one).items():
        assert_allclose(learned(other)[name], array, rtol=rtol, atol=atol, err_msg=name)


def naive(model):
    """The same estimator over the naive model."""
    kind = type(model)
    twin = type(kind.__name__, (kind,), {"_model_class": oracles.NaiveHMMModel})
    twin = twin(**copy.deepcopy(model.get_params()))
    for name, array in vars(model).items():
        if name.endswith("_"):
            setattr(twin, name, array)
    return twin


# Forms of data ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_all_forms_of_sequences_are_the_same(name):
    model, X = estimator(name, n_iter=3)
    expected = clone(model).fit(X, LENGTHS)
    parts = split(X)
    forms = [parts, tuple(parts), lambda: iter(parts), lambda: iter([parts[:2], parts[2:]])]
    for data in forms:
        found = clone(model).fit(data)
        assert_same(found, expected)
        assert_allclose(found.score(data), expected.score(X, LENGTHS), rtol=1e-12)
        # The same model: another might differ by rounding, and paths of equal probability with it.
        assert_array_equal(expected.predict(data), expected.predict(X, LENGTHS))
        assert_allclose(found.predict_proba(data), expected.predict_proba(X, LENGTHS), atol=1e-12)
        assert_allclose(found.score_sequences(data), expected.score_sequences(X, LENGTHS))
        assert_allclose(found.bic(data), expected.bic(X, LENGTHS))
    square = np.stack(split(X, [15] * 4))
    assert_same(clone(model).fit(square), clone(model).fit(X, [15] * 4))


@pytest.mark.parametrize("dtype", [np.float32, np.int16, np.uint8, np.int64, ">f8"])
def test_types_are_read_in_place(dtype):
    X = counts().astype(dtype)
    expected = GaussianHMM(2, random_state=0, n_iter=3).fit(X.astype(float), LENGTHS)
    found = GaussianHMM(2, random_state=0, n_iter=3, init_params="")
    for name, array in learned(
        GaussianHMM(2, random_state=0, n_iter=0).fit(X.astype(float), LENGTHS)
    ).items():
        setattr(found, name, array)
    assert_same(found.fit(X, LENGTHS), expected)


def test_one_score_for_each_sequence():
    model, X = estimator("GaussianHMM diag", n_iter=2)
    model.fit(X, LENGTHS)
    scores = model.score_sequences(X, LENGTHS)
    assert_allclose(scores, [model.score(part) for part in split(X)])
    assert_allclose(scores.sum(), model.score(X, LENGTHS))


@pytest.mark.parametrize("name", ["GaussianHMM full", "GMMHMM", "HMM"])
def test_long_streams_and_files_start_from_a_sample(monkeypatch, tmp_path, name):
    import fastem.data.sampling
    import fastem.hmm.initialization

    monkeypatch.setattr(fastem.data.sampling, "_SAMPLE_ROWS", 40)
    seen = []
    cluster = fastem.hmm.initialization._cluster

    def spy(table, *rest):
        seen.append(len(table.X))
        return cluster(table, *rest)

    monkeypatch.setattr(fastem.hmm.initialization, "_cluster", spy)
    model, X = estimator(name, n_iter=2)
    X = X.astype(float)
    parts = split(X)
    clone(model).fit(lambda: iter(parts))
    np.save(tmp_path / "X.npy", X)
    clone(model).fit(np.load(tmp_path / "X.npy", mmap_mode="r"), LENGTHS)
    assert seen == [40, 40]
    clone(model).fit(X, LENGTHS)
    assert seen[-1] == N_ROWS


@pytest.mark.parametrize("name", NAMES)
def test_threads_make_no_difference(name):
    model, X = estimator(name, n_iter=3)
    one = clone(model).set_params(n_jobs=1).fit(X, LENGTHS)
    two = clone(model).set_params(n_jobs=2).fit(X, LENGTHS)
    for attribute, array in learned(one).items():
        assert_array_equal(learned(two)[attribute], array)


# Weights ----------------------------------------------------------------------------------------


def from_start(model, X, **fit):
    """Fit from a start that does not depend on the weights."""
    start = clone(model).set_params(n_iter=0).fit(X, LENGTHS)
    begun = clone(model).set_params(init_params="")
    for name, array in learned(start).items():
        setattr(begun, name, array)
    return begun


@pytest.mark.parametrize("name", NAMES)
def test_weights_are_repetitions(name):
    model, X = estimator(name, n_iter=4, tol=-np.inf)
    weights = [2, 1, 0, 3, 1]
    weighted = from_start(model, X).fit(X, LENGTHS, sample_weight=weights)
    repeated = [part for part, w in zip(split(X), weights, strict=True) for _ in range(w)]
    plain = from_start(model, X).fit(repeated)
    assert_same(weighted, plain)
    assert_allclose(weighted.monitor_.history, plain.monitor_.history, rtol=1e-12)
    pairs = zip(split(X), weights, strict=True)
    stream = [(part, float(w)) for part, w in pairs]
    assert_same(from_start(model, X).fit(lambda: iter(stream)), plain)


# Against the naive model ------------------------------------------------------------------------


def with_holes(X, seed=0, whole=False):
    rng = np.random.default_rng(seed)
    X = X.astype(float)
    X[rng.random(len(X)) < 0.15] = np.nan
    if not whole:
        X[rng.random(X.shape) < 0.15] = np.nan
    return X


@pytest.mark.parametrize("missing", [False, True], ids=["complete", "missing"])
@pytest.mark.parametrize("absorbing", [None, [1]], ids=["plain", "absorbing"])
@pytest.mark.parametrize("name", [name for name in NAMES if name != "HMM"])
def test_fit_as_the_naive_model_does(name, absorbing, missing):
    model, X = estimator(name, n_iter=3, tol=-np.inf, absorbing=absorbing)
    if missing:
        X = with_holes(X, whole=name == "MultinomialHMM")
    cut_off = None if absorbing is None else np.array([False, True, False, True, False])
    start = clone(model).set_params(n_iter=0).fit(X, LENGTHS, cut_off=cut_off)
    found, expected = start, naive(start)
    for one in (found, expected):
        one.set_params(n_iter=3, init_params="")
        one.fit(X, LENGTHS, sample_weight=[1.0, 0.5, 2.0, 1.0, 0.3], cut_off=cut_off)
    assert_same(found, expected, rtol=1e-8, atol=1e-9)
    assert_allclose(found.monitor_.history, expected.monitor_.history, rtol=1e-10)
    for ask in ("score_sequences", "predict_proba"):
        mine, yours = (getattr(m, ask)(X, LENGTHS, cut_off=cut_off) for m in (found, expected))
        assert_allclose(mine, yours, rtol=1e-8, atol=1e-9)
    mine, yours = (m.decode(X, LENGTHS, cut_off=cut_off)[0] for m in (found, expected))
    assert_allclose(mine, yours, rtol=1e-9)


def test_far_from_the_origin():
    X = gaussian_rows(n_columns=1)
    for kind in KINDS:
        settings = {"covariance_type": kind, "random_state": 0, "n_iter": 5, "tol": -np.inf}
        near = GaussianHMM(2, **settings).fit(X, LENGTHS)
        far = GaussianHMM(2, init_params="st", **settings)
        far.means_, far.covars_ = near.means_ + 1e8, near.covars_
        near = GaussianHMM(2, init_params="st", **settings)
        near.means_, near.covars_ = far.means_ - 1e8, far.covars_
        # The data at 1e8 are rounded to 1e-8.
        near.fit((X + 1e8) - 1e8, LENGTHS)
        far.fit(X + 1e8, LENGTHS)
        assert_allclose(far.means_ - 1e8, near.means_, atol=1e-6)
        assert_allclose(far.covars_, near.covars_, rtol=1e-6)


# Parameters held fixed, and zeros that stay -----------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_fixed_parameters_stay(name):
    model, X = estimator(name, n_iter=3)
    start = clone(model).set_params(n_iter=0).fit(X, LENGTHS)
    table = model._shown()
    for held in [shown.name for shown in table]:
        one = clone(model).set_params(fixed=(held,)).fit(X, LENGTHS)
        online = copy.deepcopy(start).set_params(fixed=held, learning_rate=0.5)
        online.partial_fit(X, LENGTHS)
        online.set_params(batch_size=1).partial_fit(X, LENGTHS)
        for changed in (one, online):
            for other, _, _, attribute in table:
                same = np.array_equal(getattr(changed, attribute), getattr(start, attribute))
                assert same == (other == held), (held, other)


def left_to_right(**settings):
    model = GaussianHMM(3, init_params="mc", random_state=0, **settings)
    model.startprob_ = np.array([1.0, 0.0, 0.0])
    model.transmat_ = np.array([[0.5, 0.5, 0.0], [0.0, 0.5, 0.5], [0.0, 0.0, 1.0]])
    return model


@pytest.mark.parametrize("memory", ["model", "statistics"])
@pytest.mark.parametrize("batch_size", [None, 1, 2])
def test_zeros_stay_zero(memory, batch_size):
    X = gaussian_rows()
    zeros = np.array([[0, 0, 1], [1, 0, 0], [1, 1, 0]], bool)
    model = left_to_right(n_iter=5, memory=memory, batch_size=batch_size).fit(X, LENGTHS)
    assert_array_equal(model.transmat_ == 0, zeros)
    for _ in range(3):
        model.partial_fit(X, LENGTHS)
        assert_array_equal(model.transmat_ == 0, zeros)
        assert_allclose(model.startprob_, [1, 0, 0], rtol=0, atol=1e-15)
        assert_allclose(model.transmat_.sum(axis=1), 1.0, rtol=0, atol=1e-15)
    # The states of both are meant in the order in which they follow one another.
    merged = fastem.combine([model, left_to_right().fit(X)], align=False)
    assert_array_equal(merged.transmat_ == 0, zeros)


# Online -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("memory", ["model", "statistics"])
@pytest.mark.parametrize("name", NAMES)
def test_partial_fit_is_the_online_step(name, memory):
    model, X = estimator(name, n_iter=2, memory=memory, learning_rate=Decay(0.7, 0.5))
    model.fit(X, LENGTHS)
    expected, statistics = model._model(), None
    parts = split(X)
    for t, batch in enumerate([parts[:2], parts[2:]], start=1):
        if memory == "statistics" and statistics is None:
            statistics = expected.own(expected.expect(batch).horizon)
        kept = statistics if memory == "statistics" else None
        expected, statistics = algebra.online(expected, batch, 0.7 / t**0.5, kept)
        model.partial_fit(batch)
        assert model.n_steps_ == t
        for parameter, array in model._model().parameters.items():
            assert_allclose(array, expected.parameters[parameter], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("memory", ["model", "statistics"])
@pytest.mark.parametrize("name", NAMES)
def test_batches_in_one_call_or_in_many(name, memory):
    model, X = estimator(name, n_iter=1, memory=memory, learning_rate=Decay(0.5, 0.6))
    model.fit(X, LENGTHS)
    # Running statistics start from the model's own over the lengths of the first call.
    model.partial_fit(X, LENGTHS)
    parts = split(X)
    for size in (1, 2):
        whole = copy.deepcopy(model).set_params(batch_size=size).partial_fit(X, LENGTHS)
        pieces = copy.deepcopy(model).set_params(batch_size=size)
        for first in range(0, len(parts), size):
            pieces.partial_fit(parts[first : first + size])
        assert whole.n_steps_ == pieces.n_steps_ == 1 + 5 / size
        assert_same(whole, pieces, rtol=1e-8)
        stream = copy.deepcopy(model).set_params(batch_size=size).partial_fit(iter(parts))
        assert_same(stream, whole, rtol=1e-12)


def test_an_infinite_rate_is_batch_em():
    X = gaussian_rows()
    model = GaussianHMM(3, covars_prior=0.0, random_state=0, n_iter=1).fit(X, LENGTHS)
    start = GaussianHMM(3, random_state=0, n_iter=0).fit(X, LENGTHS)
    start.set_params(learning_rate=np.inf).partial_fit(X, LENGTHS)
    assert_same(start, model)


@pytest.mark.parametrize("name", NAMES)
def test_online_learning_from_nothing(name):
    model, X = estimator(name, batch_size=1, learning_rate=Decay(0.1, 0.6))
    lengths = [15] * 4
    start = clone(model).set_params(n_iter=0).fit(X, lengths).score(X, lengths)
    for _ in range(10):
        model.partial_fit(X, lengths)
    assert model.n_steps_ == 40
    assert model.n_iter_ == 0
    assert model.score(X, lengths) > start
    assert model.n_features_in_ == X.shape[1]


@pytest.mark.parametrize("eta", [0.01, 1.0, 100.0])
@pytest.mark.parametrize("absorbing", [None, [0]])
def test_a_step_never_raises_the_loss_of_its_batch(eta, absorbing):
    X = gaussian_rows()
    model = GaussianHMM(3, absorbing=absorbing, random_state=0, n_iter=1, learning_rate=eta)
    model.fit(X, LENGTHS)
    for seed in range(3):
        batch = gaussian_rows(seed)
        before = model.score(batch, LENGTHS)
        model.partial_fit(batch, LENGTHS)
        assert model.score(batch, LENGTHS) >= before - 1e-9 * abs(before)


def test_online_learning_keeps_what_was_set():
    model = GaussianHMM(2, random_state=0, learning_rate=1e-12)
    model.means_ = np.array([[5.0, 5.0], [-5.0, -5.0]])
    model.partial_fit(gaussian_rows(), LENGTHS)
    assert_allclose(model.means_, [[5.0, 5.0], [-5.0, -5.0]], atol=1e-6)


def test_the_lengths_that_were_seen_are_kept():
    X = gaussian_rows()
    model = GaussianHMM(2, random_state=0, n_iter=1).fit(X, LENGTHS)
    assert_array_equal(model.lengths_.lengths, sorted(LENGTHS))
    model.partial_fit(X[:9])
    assert_allclose(model.lengths_.shares[model.lengths_.lengths == 9], 2 / 6)
    assert model.n_observations_ == 6
    assert "lengths_" not in vars(GaussianHMM(2, absorbing=[0], random_state=0).fit(X, LENGTHS))


# Absorbing --------------------------------------------------------------------------------------


def absorbed(n_sequences=200, seed=0):
    model = GaussianHMM(3, absorbing=[2])
    model.startprob_ = [0.6, 0.4, 0.0]
    model.transmat_ = [[0.7, 0.2, 0.1], [0.1, 0.7, 0.2], [0.0, 0.0, 1.0]]
    model.means_, model.covars_ = [[0.0], [5.0], [-6.0]], np.ones((3, 1))
    rng = np.random.RandomState(seed)
    drawn = [model.sample(1000, random_state=rng) for _ in range(n_sequences)]
    return model, [X for X, _ in drawn], [states for _, states in drawn]


def test_sequences_end_when_they_are_absorbed():
    _, X, states = absorbed()
    assert max(map(len, X)) < 1000
    for rows, path in zip(X, states, strict=True):
        assert len(rows) == len(path)
        assert path[-1] == 2
        assert (path[:-1] != 2).all()


def test_absorbing_models_are_found_again():
    truth, X, states = absorbed()
    model = GaussianHMM(3, absorbing=[2], random_state=0, n_iter=50).fit(X)
    # The state that ends sequences starts from their last rows.
    assert_allclose(model.means_[2], [-6.0], atol=0.3)
    assert model.score(X) >= truth.score(X)
    assert_array_equal(model.transmat_[2], [0, 0, 1])
    assert model.startprob_[2] == 0
    order = np.argsort(model.means_[:2, 0])
    assert_allclose(model.means_[order, 0], [0.0, 5.0], atol=0.4)
    expected = truth._model().parameters["transmat"][:2][:, [0, 1, 2]]
    assert_allclose(model.transmat_[np.ix_(order, [*order, 2])], expected, atol=0.08)
    path = model.predict(X)
    ends = np.cumsum([len(rows) for rows in X]) - 1
    assert (path[ends] == 2).all()
    assert (path == 2).sum() == len(X)
    assert (
        np.mean(np.where(path == 2, 2, np.argsort(order)[path % 2]) == np.concatenate(states)) > 0.9
    )


def test_cut_off_sequences():
    truth, X, _ = absorbed()
    cut = [rows[:-1] for rows in X if len(rows) > 1]
    path = truth.predict(cut, cut_off=True)
    assert (path != 2).all()
    both = cut + X
    flags = np.array([True] * len(cut) + [False] * len(X))
    model = copy.deepcopy(truth).set_params(init_params="", n_iter=10)
    model.fit(both, cut_off=flags)
    assert model.score(both, cut_off=flags) > truth.score(both, cut_off=flags)
    assert_allclose(
        truth.score(both, cut_off=flags), truth.score(cut, cut_off=True) + truth.score(X)
    )


@pytest.mark.parametrize("memory", ["model", "statistics"])
def test_absorbing_models_online(memory):
    truth, X, _ = absorbed()
    model = GaussianHMM(
        3, absorbing=[2], random_state=0, batch_size=10, learning_rate=Decay(0.5, 0.6),
        memory=memory,
    ).partial_fit(X[:100])  # fmt: skip
    before = model.score(X)
    for _ in range(3):
        model.partial_fit(iter(X))
    assert model.score(X) > before
    assert model.score(X) > truth.score(X) - 0.01 * abs(truth.score(X))
    assert_array_equal(model.transmat_[2], [0, 0, 1])


# Combining --------------------------------------------------------------------------------------


@pytest.mark.parametrize("absorbing", [None, [1]])
@pytest.mark.parametrize("name", NAMES)
def test_combining_estimators(name, absorbing):
    model, X = estimator(name, n_iter=4, absorbing=absorbing)
    one = clone(model).fit(X, LENGTHS)
    other = copy.deepcopy(one).set_params(learning_rate=0.3).partial_fit(X[:30])
    if absorbing is None:
        assert fastem.divergence(one, other, horizon=7) > 0
    assert fastem.divergence(one, other) > 0
    assert_allclose(fastem.divergence(one, one), 0.0, atol=1e-9)
    both = fastem.combine([one, other], weights=[3, 1])
    assert type(both) is type(one)
    assert np.isfinite(both.score(X, LENGTHS))
    assert_same(fastem.combine([one, one]), one, rtol=1e-8, atol=1e-8)
    averaged = fastem.average([one, other], align=False)
    assert_allclose(averaged.startprob_, (one.startprob_ + other.startprob_) / 2)
    order = (
        np.roll(np.arange(one.n_components), 1)
        if absorbing is None
        else [0, 1, 2][: one.n_components]
    )
    turned = copy.deepcopy(one)
    turned._set_model(one._model().reordered(order))
    assert_same(fastem.combine([one, turned]), one, rtol=1e-8, atol=1e-8)


# The filter -------------------------------------------------------------------------------------


def test_the_filter_is_the_forward_recursion():
    X = gaussian_rows()
    model = GaussianHMM(3, "full", random_state=0, n_iter=3).fit(X, LENGTHS)
    log_b = oracles.Gaussian("full").log_density(
        X, {"means": model.means_, "covariances": model.covars_}
    )
    probabilities, densities = oracles.filtered(model.startprob_, model.transmat_, log_b)
    state = model.filter()
    for t, x in enumerate(X):
        found = state.update(x)
        assert_allclose(found[0], probabilities[t], atol=1e-10)
        assert_allclose(found[1], densities[t], rtol=1e-9)
    assert_allclose(found[2], model.score(X), rtol=1e-10)


# HMM of any family ------------------------------------------------------------------------------


def family_rows(family, seed=0):
    rng = np.random.default_rng(seed)
    start = family.start(np.array([[0.3, 0.3], [0.7, 0.8]]))
    if "rates" in start:
        start["rates"] = np.array([[1.0, 2.0], [9.0, 15.0]])
    if "scales" in start:
        start["scales"] = np.array([[1.0, 2.0], [30.0, 40.0]])
    if isinstance(family, Categorical):
        start["probabilities"] = rng.dirichlet(np.full(3, 0.5), size=(2, 2))
    return family.draw(start, np.repeat([0, 1, 0, 1], 30), rng)


@pytest.mark.parametrize(
    "family",
    [Poisson(), Bernoulli(), Exponential(), Gamma(), Beta(), Categorical(3),
     Product((Poisson(), 1), (Bernoulli(), 1))],
    ids=lambda family: type(family).__name__,
)  # fmt: skip
def test_any_family(family):
    if isinstance(family, Product):
        X = np.hstack([family_rows(Poisson())[:, :1], family_rows(Bernoulli())[:, :1]])
    else:
        X = np.asarray(family_rows(family), dtype=float)
    model = HMM(family, 2, random_state=0, n_iter=20, tol=-np.inf).fit(X, [50, 70])
    assert (np.diff(model.monitor_.history) > -1e-9).all()
    for name in family.parameter_names:
        assert len(getattr(model, f"{name}_")) == 2
    rows, states = model.sample(25, random_state=3)
    assert rows.shape == (25, 2)
    assert np.isfinite(model.score(rows))
    assert set(states) <= {0, 1}
    again = model.sample(25, random_state=3)
    assert_array_equal(rows, again[0])
    before = model.score(X, [50, 70])
    model.set_params(learning_rate=0.1, batch_size=1).partial_fit(X, [50, 70])
    assert np.isfinite(before)
    assert model.aic(X) < model.bic(X)
    assert model.n_features == 2


def test_the_poisson_family_is_poisson_hmm():
    X = counts()
    one = PoissonHMM(2, random_state=0, n_iter=0).fit(X, LENGTHS)
    other = HMM("poisson", 2, init_params="", n_iter=5, tol=-np.inf)
    other.startprob_, other.transmat_, other.rates_ = one.startprob_, one.transmat_, one.lambdas_
    other.fit(X, LENGTHS)
    one.set_params(init_params="", n_iter=5, tol=-np.inf).fit(X, LENGTHS)
    assert_allclose(other.rates_, one.lambdas_, rtol=1e-10)
    assert_allclose(other.transmat_, one.transmat_, rtol=1e-10)
    assert_allclose(other.score(X), one.score(X), rtol=1e-12)
    assert_allclose(other.bic(X), one.bic(X), rtol=1e-12)


class Rayleigh(fastem.ExponentialFamily):
    def sufficient(self, X):
        return X**2

    def log_base(self, X):
        return np.log(X).sum(axis=1)

    def log_partition(self, natural):
        return -np.log(-2 * natural).sum(axis=1)

    def mean(self, natural):
        return -1 / natural

    def natural(self, mean):
        return -1 / mean

    def sample(self, natural, rng):
        return rng.rayleigh(np.sqrt(-0.5 / natural))


def test_a_family_of_the_users_own():
    rng = np.random.default_rng(0)
    X = rng.rayleigh(np.repeat([1.0, 9.0, 1.0], 50))[:, None]
    model = HMM(Rayleigh(), 2, random_state=0, n_iter=30).fit(X, [60, 90])
    scales = np.sort(np.sqrt(-0.5 / model.natural_).ravel())
    assert_allclose(scales, [1.0, 9.0], rtol=0.2)
    for batch_size in (None, 1):
        model.set_params(batch_size=batch_size, learning_rate=0.2).partial_fit(X, [60, 90])
    assert model.n_steps_ == 3
    assert model.score(X) > -1e4
    assert model.sample(5)[0].shape == (5, 1)


# The life of an estimator -----------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_clone_settings_and_pickle(name):
    model, X = estimator(name, n_iter=2)
    assert clone(model).get_params() == model.get_params()
    model.fit(X, LENGTHS)
    again = pickle.loads(pickle.dumps(model))
    assert_same(again, model)
    assert again.score(X, LENGTHS) == model.score(X, LENGTHS)
    assert list(again.monitor_.history) == list(model.monitor_.history)
    fresh = clone(model)
    assert not fresh.__sklearn_is_fitted__()
    assert repr(fresh) == repr(clone(fresh))


@pytest.mark.parametrize("absorbing", [None, [1]])
@pytest.mark.parametrize("name", NAMES)
def test_saving(tmp_path, name, absorbing):
    model, X = estimator(name, n_iter=2, absorbing=absorbing, memory="statistics")
    model.fit(X, LENGTHS).partial_fit(X, LENGTHS)
    fastem.save(model, tmp_path / "model")
    again = fastem.load(tmp_path / "model")
    assert type(again) is type(model)
    for attribute, array in learned(model).items():
        assert_array_equal(learned(again)[attribute], array)
    assert again.score(X, LENGTHS) == model.score(X, LENGTHS)
    assert again.get_params().keys() == model.get_params().keys()
    for one in (model, again):
        one.partial_fit(X, LENGTHS)
    for attribute, array in learned(model).items():
        assert_array_equal(learned(again)[attribute], array)
    assert again.n_steps_ == 2
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        again.fit(X, LENGTHS)


def test_refitting_is_fitting():
    for name in NAMES:
        model, X = estimator(name, n_iter=2)
        once = clone(model).fit(X, LENGTHS)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            twice = clone(model).fit(X[:40], [10, 30]).fit(X, LENGTHS)
        assert_same(twice, once, rtol=1e-12)


def test_what_was_set_is_not_overwritten_in_silence(caplog):
    model = GaussianHMM(2, random_state=0, n_iter=1)
    model.means_ = np.zeros((2, 2))
    model.fit(gaussian_rows())
    assert "means_ was set, and will be overwritten by the start" in caplog.text
    model.transmat_ = np.full((2, 2), 0.5)
    model.fit(gaussian_rows())
    assert "transmat_ was set" in caplog.text
    # hmmlearn has no class of this name.
    model = HMM("gaussian", 2, random_state=0, n_iter=1)
    model.means_ = np.zeros((2, 2))
    with pytest.warns(UserWarning, match="means_ was set, and will be overwritten by the start"):
        model.fit(gaussian_rows())


def test_too_few_data(caplog):
    GaussianHMM(2, random_state=0, n_iter=1).fit(gaussian_rows(n_rows=4))
    assert "degenerate solution" in caplog.text
    with pytest.warns(RuntimeWarning, match="degenerate solution"):
        HMM("gaussian", 2, random_state=0, n_iter=1).fit(gaussian_rows(n_rows=4))


@pytest.mark.parametrize("kind", KINDS)
def test_covariances_can_be_set_as_they_are_shown(kind):
    X = gaussian_rows()
    model = GaussianHMM(3, kind, random_state=0, n_iter=2).fit(X, LENGTHS)
    assert model.covars_.shape == (3, 2, 2)
    other = GaussianHMM(3, kind)
    other.startprob_, other.transmat_ = model.startprob_, model.transmat_
    other.means_, other.covars_ = model.means_, model.covars_
    assert other.score(X) == model.score(X)
    other.covars_ = model._covars_
    assert other.score(X) == model.score(X)
    if kind == "spherical":
        other.covars_ = np.repeat(model._covars_[:, None], 2, axis=1)
        assert other.score(X) == model.score(X)


def test_attributes_of_the_data():
    X = gaussian_rows()
    model = GaussianHMM(2, random_state=0, n_iter=1)
    assert not hasattr(model, "n_features")
    model.fit(X)
    assert model.n_features == model.n_features_in_ == 2
    # Parameters of another width, set by hand, are what counts.
    model.means_, model.covars_ = np.zeros((2, 3)), np.ones((2, 3))
    assert model.n_features == 3
    assert np.isfinite(model.score(gaussian_rows(n_columns=3)))
    symbolic = CategoricalHMM(2, random_state=0, n_iter=1)
    assert symbolic.n_features is None
    symbolic.fit(symbols())
    assert symbolic.n_features == 4
    assert symbolic.fit(symbols() % 2).n_features == 2
    assert CategoricalHMM(2, n_features=6, random_state=0).fit(symbols()).emissionprob_.shape == (
        2,
        6,
    )
    stream = CategoricalHMM(2, random_state=0).fit(lambda: iter(split(symbols())))
    assert stream.n_features == 4


def test_names_of_columns():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(gaussian_rows(), columns=["a", "b"])
    model = GaussianHMM(2, random_state=0, n_iter=1).fit(frame, LENGTHS)
    assert list(model.feature_names_in_) == ["a", "b"]
    assert model.score(frame, LENGTHS) == model.score(frame.to_numpy(), LENGTHS)
    with pytest.raises(ValueError, match="feature names"):
        model.score(frame[["b", "a"]])


# When it stops ----------------------------------------------------------------------------------


def test_a_monitor_of_the_users_own():
    class Threshold(ConvergenceMonitor):
        @property
        def converged(self):
            return self.iter == self.n_iter or self.history[-1] >= self.tol

    X = gaussian_rows()
    reached = GaussianHMM(2, random_state=0, n_iter=8, tol=-np.inf).fit(X, LENGTHS)
    level = reached.monitor_.history[3]
    model = GaussianHMM(2, random_state=0, n_iter=50, tol=level)
    monitor = Threshold(model.monitor_.tol, model.monitor_.n_iter, model.monitor_.verbose)
    model.monitor_ = monitor
    model.fit(X, LENGTHS)
    assert model.monitor_ is monitor
    assert monitor.iter == 4
    assert model.n_iter_ == 4


def test_settings_changed_after_the_monitor_was_made():
    X = gaussian_rows()
    model = GaussianHMM(2, random_state=0, n_iter=2, tol=-np.inf).fit(X)
    model.set_params(n_iter=5)
    assert model.fit(X).monitor_.iter == 5
    model.monitor_.tol = np.inf
    assert model.fit(X).monitor_.iter == 2
    assert model.converged_
    assert "history" in repr(model.monitor_)


def test_no_iterations_is_the_start():
    model = GaussianHMM(2, random_state=0, n_iter=0).fit(gaussian_rows())
    assert model.n_iter_ == 0
    assert not model.converged_
    assert model.lower_bound_ == -np.inf
    assert np.isfinite(model.score(gaussian_rows()))


# Edges ------------------------------------------------------------------------------------------


def test_one_state_and_one_step():
    X = np.array([[1.0], [3.0]])
    model = GaussianHMM(1, covars_prior=0.0, n_iter=3, random_state=0).fit(X, [1, 1])
    assert_allclose(model.means_, [[2.0]])
    assert_allclose(model.covars_, [[[1.0]]])
    assert_allclose(model.transmat_, [[1.0]])
    assert_array_equal(model.predict(X, [1, 1]), [0, 0])


def test_states_without_rows_keep_their_parameters():
    X = gaussian_rows(n_columns=1)
    for kind in KINDS:
        model = GaussianHMM(2, kind, init_params="", n_iter=3, tol=-np.inf)
        model.startprob_, model.transmat_ = [1.0, 0.0], [[1.0, 0.0], [0.5, 0.5]]
        model.means_ = [[0.0], [77.0]]
        model.covars_ = {"full": [[[1.0]], [[2.0]]], "tied": [[1.0]], "diag": [[1.0], [2.0]],
                         "spherical": [1.0, 2.0]}[kind]  # fmt: skip
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            model.fit(X, LENGTHS)
        assert model.means_[1] == 77.0
        assert_array_equal(model.transmat_[1], [0.5, 0.5])
        if kind != "tied":
            assert model.covars_[1, 0, 0] == 2.0
        assert_allclose(model.means_[0], X.mean(axis=0))


@pytest.mark.parametrize("kind", ["full", "diag", "spherical"])
def test_states_without_rows_need_no_new_covariances(kind):
    model = GaussianHMM(2, kind, min_covar=0.0, covars_prior=0.0, init_params="", n_iter=1)
    model.startprob_, model.transmat_ = [1.0, 0.0], [[1.0, 0.0], [0.5, 0.5]]
    model.means_ = [[0.0], [77.0]]
    model.covars_ = {"full": [[[1.0]], [[2.0]]], "diag": [[1.0], [2.0]],
                     "spherical": [1.0, 2.0]}[kind]  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.fit(gaussian_rows(n_columns=1), LENGTHS)
    assert model.covars_[1, 0, 0] == 2.0


@pytest.mark.parametrize(
    "kind, words", [("full", "2 covariances are"), ("tied", "1 covariance is")]
)
def test_covariances_that_are_mended_are_counted(kind, words, caplog):
    X = gaussian_rows(n_columns=1)
    GaussianHMM(2, kind, covars_prior=0.0, random_state=0, n_iter=1).fit(np.hstack([X, X]))
    assert f"{words} not positive definite" in caplog.text


def test_columns_that_depend_on_one_another(caplog):
    X = gaussian_rows(n_columns=1)
    X = np.hstack([X, X])
    model = GaussianHMM(2, "full", covars_prior=0.0, random_state=0, n_iter=2)
    model.fit(X)
    assert "not positive definite" in caplog.text
    assert np.isfinite(model.score(X))
    model.set_params(min_covar=0.0, init_params="st")
    with pytest.raises(ValueError, match="covariance of some state is not positive definite"):
        model.fit(X)


def test_all_rows_missing_in_part():
    X = gaussian_rows()
    X[::2, 0] = np.nan
    X[1::2, 1] = np.nan
    model = GaussianHMM(2, "full", random_state=0, n_iter=5, tol=-np.inf).fit(X, LENGTHS)
    assert np.isfinite(model.means_).all()
    assert (np.diff(model.monitor_.history) > -1).all()


def test_stationary_distribution():
    model = GaussianHMM(3)
    model.startprob_ = [1.0, 0.0, 0.0]
    model.transmat_ = np.random.default_rng(0).dirichlet(np.ones(3), size=3)
    model.means_, model.covars_ = np.zeros((3, 1)), np.ones((3, 1))
    pi = model.get_stationary_distribution()
    assert_allclose(pi @ model.transmat_, pi, atol=1e-14)
    assert_allclose(pi.sum(), 1.0)


def test_data_that_are_sequences_already():
    X = gaussian_rows()
    data = Sequences(X, LENGTHS, sample_weight=[1, 2, 1, 1, 1])
    model = GaussianHMM(2, random_state=0, n_iter=2).fit(data)
    other = GaussianHMM(2, random_state=0, n_iter=2).fit(X, LENGTHS, [1, 2, 1, 1, 1])
    assert_same(model, other)
    assert model.score(data) == other.score(X, LENGTHS)
