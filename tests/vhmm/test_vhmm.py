"""Posteriors of hidden Markov models: hmmlearn's numbers, and what the algebra promises."""

import copy
import itertools
import logging
import warnings

import hmmlearn.vhmm
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import digamma, logsumexp

import fastem
from fastem.vhmm import VariationalCategoricalHMM, VariationalGaussianHMM

pytestmark = pytest.mark.filterwarnings("ignore:Fitting a model with")

LENGTHS = [17, 1, 40, 2, 60]
N_ROWS = sum(LENGTHS)
KINDS = ("full", "tied", "diag", "spherical", "categorical")
GAUSSIAN = ("means", "beta", "dof", "scale")
every_kind = pytest.mark.parametrize("kind", KINDS)


def names_of(kind):
    emissions = ("emissionprob",) if kind == "categorical" else GAUSSIAN
    return ("startprob", "transmat", *emissions)


def data(kind, seed=0, n_rows=N_ROWS):
    rng = np.random.default_rng(seed)
    states = np.repeat(rng.integers(0, 3, n_rows // 5 + 1), 5)[:n_rows]
    if kind == "categorical":
        probabilities = rng.dirichlet(np.full(4, 0.5), size=3)[states]
        symbols = np.array([[rng.choice(4, p=p)] for p in probabilities])
        symbols[:4, 0] = range(4)
        return symbols
    centers = rng.normal(scale=2.0, size=(3, 2))
    return centers[states] + rng.normal(size=(n_rows, 2)) @ np.array([[1.0, 0.3], [0.3, 0.8]])


def make(kind, **settings):
    settings = {"n_components": 3, "random_state": 5, "tol": -np.inf, "n_iter": 3, **settings}
    if kind == "categorical":
        return VariationalCategoricalHMM(**settings)
    return VariationalGaussianHMM(covariance_type=kind, **settings)


def theirs_of(ours):
    """hmmlearn's estimator with the same settings."""
    kind = getattr(hmmlearn.vhmm, type(ours).__name__)
    names = set(kind().get_params())
    return kind(**{name: value for name, value in ours.get_params().items() if name in names})


def fitted_quietly(estimator, X, lengths=LENGTHS):
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return estimator.fit(X, lengths)
    finally:
        logging.disable(logging.NOTSET)


def posterior(estimator, which=("posterior",)):
    kind = getattr(estimator, "covariance_type", "categorical")
    return {
        f"{name}_{each}_": getattr(estimator, f"{name}_{each}_")
        for name in names_of(kind)
        for each in which
    }


def assert_same_posterior(one, other, rtol=1e-8, which=("posterior", "prior")):
    other = posterior(other, which)
    for name, array in posterior(one, which).items():
        assert np.shape(array) == np.shape(other[name]), name
        assert_allclose(array, other[name], rtol=rtol, atol=1e-8, err_msg=name)


def set_posterior(estimator, source):
    """Start where another is, its prior included."""
    for name, value in posterior(source, ("prior", "posterior")).items():
        setattr(estimator, name, np.copy(value) if np.ndim(value) else value)
    return estimator.set_params(init_params="")


# hmmlearn -------------------------------------------------------------------------------------


@every_kind
@pytest.mark.parametrize("seed", range(4))
def test_numbers_are_those_of_hmmlearn_iteration_by_iteration(kind, seed):
    X = data(kind, seed)
    for n_iter in (0, 1, 2, 5, 20):
        ours = make(kind, random_state=seed, n_iter=n_iter)
        theirs = theirs_of(ours)
        for model in (ours, theirs):
            fitted_quietly(model, X)
        assert_same_posterior(ours, theirs)
        assert ours.monitor_.iter == theirs.monitor_.iter == n_iter
        assert_allclose(ours.monitor_.history, theirs.monitor_.history, rtol=1e-10)
        assert ours.lower_bounds_ == list(ours.monitor_.history)


def log_probability(model, X, path):
    """The logarithm of the probability of symbols and a path of states."""
    total = np.log(model.emissionprob_[path, X[:, 0]]).sum()
    for states in np.split(path, np.cumsum(LENGTHS)[:-1]):
        total += np.log(model.startprob_[states[0]])
        total += np.log(model.transmat_[states[:-1], states[1:]]).sum()
    return total


@every_kind
def test_what_is_inferred_is_that_of_hmmlearn(kind):
    X, Y = data(kind), data(kind, seed=7)
    ours = make(kind, n_iter=10)
    theirs = theirs_of(ours)
    for model in (ours, theirs):
        fitted_quietly(model, X)
    assert_allclose(ours.startprob_, theirs.startprob_, rtol=1e-8)
    assert_allclose(ours.transmat_, theirs.transmat_, rtol=1e-8)
    if kind == "categorical":
        assert_allclose(ours.emissionprob_, theirs.emissionprob_, rtol=1e-8)
    else:
        assert_allclose(ours.means_, theirs.means_, rtol=1e-8)
        assert_allclose(ours.covars_, theirs.covars_, rtol=1e-8, atol=1e-12)
    assert ours.n_features == theirs.n_features
    assert ours.score(Y) == pytest.approx(theirs.score(Y), rel=1e-10)
    n_free = sum(theirs._get_n_fit_scalars_per_param().values())
    assert ours.aic(Y) == pytest.approx(-2 * theirs.score(Y) + 2 * n_free, rel=1e-10)
    assert ours.bic(Y) == pytest.approx(-2 * theirs.score(Y) + n_free * np.log(len(Y)), rel=1e-10)
    assert_allclose(ours.predict_proba(Y, LENGTHS), theirs.predict_proba(Y, LENGTHS), atol=1e-10)
    for algorithm in ("viterbi", "map"):
        (score, path), (their_score, their_path) = (
            model.decode(Y, LENGTHS, algorithm) for model in (ours, theirs)
        )
        assert score == pytest.approx(their_score, rel=1e-10)
        if kind == "categorical" and algorithm == "viterbi":
            # Symbols have several likeliest paths.
            found = [log_probability(theirs, Y, each) for each in (path, their_path)]
            assert found == pytest.approx([score, score], rel=1e-10)
        else:
            assert_array_equal(path, their_path)
    assert_array_equal(ours.predict(Y, LENGTHS), ours.decode(Y, LENGTHS)[1])
    (drawn, path), (their_drawn, their_path) = (
        model.sample(50, random_state=3) for model in (ours, theirs)
    )
    assert_array_equal(path, their_path)
    assert_allclose(drawn, their_drawn, rtol=1e-8)
    stationary = ours.get_stationary_distribution()
    assert_allclose(stationary @ ours.transmat_, stationary, atol=1e-12)


@every_kind
def test_it_stops_where_hmmlearn_does(kind):
    X = data(kind)
    ours = make(kind, n_iter=200, tol=1e-3)
    theirs = theirs_of(ours)
    for model in (ours, theirs):
        fitted_quietly(model, X)
    assert ours.n_iter_ == theirs.monitor_.iter < 200
    assert ours.converged_
    assert_same_posterior(ours, theirs, rtol=1e-7)


@every_kind
def test_random_states_are_used_as_in_hmmlearn(kind):
    X = data(kind)
    ours, theirs = make(kind), theirs_of(make(kind))
    for model in (ours, theirs):
        model.random_state = np.random.RandomState(11)
        fitted_quietly(model, X)
    assert_same_posterior(ours, theirs)


@every_kind
def test_priors_are_those_of_hmmlearn(kind):
    given = {
        "startprob_prior": 2.0,
        "transmat_prior": np.array([[5.0, 1, 1], [1, 5, 1], [1, 1, 5]]),
    }
    if kind == "categorical":
        given["emissionprob_prior"] = 0.7
    else:
        matrix = np.array([[2.0, 0.5], [0.5, 1.0]])
        given |= {
            "means_prior": np.array([[0.0, 1.0], [2.0, 3.0], [-1.0, 1.0]]),
            "beta_prior": np.array([0.5, 1.0, 2.0]),
            "dof_prior": 4.0 if kind == "tied" else np.array([2.5, 3.0, 8.0]),
            "scale_prior": {
                "full": matrix * np.array([1.0, 2.0, 3.0])[:, None, None], "tied": matrix,
                "diag": np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]),
                "spherical": np.array([1.0, 2.0, 3.0]),
            }[kind],
        }  # fmt: skip
    ours = make(kind, n_iter=6, **given)
    theirs = theirs_of(ours)
    for model in (ours, theirs):
        fitted_quietly(model, data(kind))
    assert_same_posterior(ours, theirs)
    assert_allclose(ours.monitor_.history, theirs.monitor_.history, rtol=1e-10)


@every_kind
@pytest.mark.parametrize("init_params", ["", "s", "te", "mc", "stm"])
def test_posteriors_that_are_set_are_kept_as_in_hmmlearn(kind, init_params):
    letters = "ste" if kind == "categorical" else "stmc"
    init_params = "".join(letter for letter in init_params if letter in letters)
    source = make(kind, n_iter=2, random_state=1).fit(data(kind, 1), LENGTHS)
    ours = set_posterior(make(kind), source).set_params(init_params=init_params)
    theirs = set_posterior(theirs_of(make(kind)), source).set_params(init_params=init_params)
    if kind != "categorical":
        theirs._covars_ = np.copy(source._covars_)
        theirs.n_features = 2
    for model in (ours, theirs):
        fitted_quietly(model, data(kind))
    assert_same_posterior(ours, theirs)


@every_kind
def test_what_params_leaves_out_is_held(kind):
    X, letters = data(kind), "ste" if kind == "categorical" else "stmc"
    # Of a tied covariance the degrees of freedom are the number of rows, learned or not.
    groups = {"s": ["startprob"], "t": ["transmat"], "m": ["means", "beta"],
              "c": ["scale"] if kind == "tied" else ["dof", "scale"],
              "e": ["emissionprob"]}  # fmt: skip
    start = fitted_quietly(make(kind, n_iter=2), X)
    for left_out in letters:
        params = letters.replace(left_out, "")
        ours = set_posterior(make(kind, params=params), start)
        fitted_quietly(ours, X)
        for letter, names in groups.items():
            if letter not in letters:
                continue
            held = [
                np.array_equal(getattr(ours, f"{n}_posterior_"), getattr(start, f"{n}_posterior_"))
                for n in names
            ]
            assert held == [letter == left_out] * len(names)
        if left_out != "m":
            theirs = set_posterior(theirs_of(make(kind, params=params)), start)
            for name in ("startprob_", "transmat_"):
                setattr(theirs, name, np.copy(getattr(start, name)))
            if kind != "categorical":
                theirs.n_features = 2
            fitted_quietly(theirs, X)
            assert_same_posterior(ours, theirs)
        bounds = np.array(ours.lower_bounds_)
        assert (np.diff(bounds) > -1e-9 * np.abs(bounds[1:])).all()


# The bound ------------------------------------------------------------------------------------


@every_kind
@pytest.mark.parametrize("seed", range(6))
def test_the_bound_never_falls(kind, seed):
    rng = np.random.default_rng(seed)
    X = data(kind, seed)
    n_components = int(rng.integers(1, 6))
    model = fitted_quietly(make(kind, n_components=n_components, n_iter=60, random_state=seed), X)
    bounds = np.array(model.lower_bounds_)
    assert (np.diff(bounds) > -1e-9 * np.abs(bounds[1:])).all()
    assert model.lower_bound_ == bounds[-1]


def brute_force_bound(model, X):
    """The bound of one sequence by the sum over all paths, for full covariances or symbols."""
    n_states = model.n_components
    log_start = digamma(model.startprob_posterior_) - digamma(model.startprob_posterior_.sum())
    totals = model.transmat_posterior_.sum(axis=1, keepdims=True)
    log_steps = digamma(model.transmat_posterior_) - digamma(totals)
    log_p = np.empty((len(X), n_states))
    for k in range(n_states):
        if hasattr(model, "emissionprob_posterior_"):
            counts = model.emissionprob_posterior_[k]
            log_p[:, k] = (digamma(counts) - digamma(counts.sum()))[X[:, 0]]
            continue
        # The expectation of the logarithm of a Gaussian, without its constant.
        n_columns = X.shape[1]
        scale, dof = model.scale_posterior_[k], model.dof_posterior_[k]
        log_det = sum(digamma((dof - i) / 2) for i in range(n_columns))
        log_det += n_columns * np.log(2.0) - np.log(np.linalg.det(scale))
        for t, x in enumerate(X):
            d = x - model.means_posterior_[k]
            square = dof * d @ np.linalg.inv(scale) @ d + n_columns / model.beta_posterior_[k]
            log_p[t, k] = 0.5 * log_det - 0.5 * square
    paths, counts = [], []
    for path in itertools.product(range(n_states), repeat=len(X)):
        total = log_start[path[0]] + log_p[range(len(X)), path].sum()
        total += sum(log_steps[i, j] for i, j in itertools.pairwise(path))
        paths.append(total)
        steps = np.zeros((n_states, n_states))
        for i, j in itertools.pairwise(path):
            steps[i, j] += 1
        counts.append(steps)
    total = logsumexp(paths)
    steps = np.tensordot(np.exp(np.array(paths) - total), np.array(counts), 1)
    return total, steps


@pytest.mark.parametrize("kind", ["full", "categorical"])
def test_an_e_step_is_the_sum_over_all_paths(kind):
    model = make(kind, n_iter=4).fit(data(kind), LENGTHS)
    X = data(kind, 3)[:6]
    found = model._model().expect(model._check_data(X, reset=False))
    total, steps = brute_force_bound(model, X)
    assert found.log_likelihood == pytest.approx(total, rel=1e-11)
    assert_allclose(found.statistics["transitions"], steps, rtol=1e-9, atol=1e-12)


@every_kind
def test_an_m_step_is_the_maximum_of_the_bound(kind):
    X = data(kind)
    start = fitted_quietly(make(kind, n_iter=2), X)
    model = start._model()
    found = model.expect(start._check_data(X, LENGTHS, reset=False))

    def bound_of(posterior):
        """Up to what does not depend on the posterior: minus the distance from the M-step."""
        chain = sum(
            fastem.vhmm.posteriors.dirichlet_divergence(posterior[n], best[n])
            for n in ("startprob", "transmat")
        )
        return -chain - model.kind.divergence(posterior, best)

    best = model.after(found.statistics, found.weight).posterior
    assert bound_of(best) == pytest.approx(0.0, abs=1e-8)
    rng = np.random.default_rng(0)
    for _ in range(5):
        moved = {
            name: array + 0.1 * rng.normal(size=array.shape) if name == "means"
            else array * np.exp(0.1 * rng.normal())
            for name, array in best.items()
        }  # fmt: skip
        assert bound_of(moved) < 0


# Weights, shards, online ----------------------------------------------------------------------


@every_kind
def test_weights_equal_repetition(kind):
    X = np.split(data(kind), np.cumsum(LENGTHS)[:-1])
    times = [2, 0, 1, 3, 1]
    start = fitted_quietly(make(kind, n_iter=1), data(kind))
    weighted = set_posterior(make(kind), start).fit(X, sample_weight=np.array(times, dtype=float))
    repeated = set_posterior(make(kind), start).fit(list(itertools.chain(
        *([x] * n for x, n in zip(X, times, strict=True))
    )))  # fmt: skip
    assert_same_posterior(weighted, repeated, rtol=1e-9)
    assert_allclose(weighted.lower_bounds_, repeated.lower_bounds_, rtol=1e-11)
    assert weighted.evidence_ == repeated.evidence_ == sum(times)


@every_kind
def test_shards_combine_to_the_whole(kind):
    X = np.split(data(kind), np.cumsum(LENGTHS)[:-1])
    start = fitted_quietly(make(kind, n_iter=4), data(kind))
    parts = [set_posterior(make(kind, n_iter=1), start) for _ in range(3)]
    for part, shard in zip(parts, (X[:2], X[2:4], X[4:]), strict=True):
        if kind == "categorical":
            part.n_features = 4
        part.fit(shard)
    whole = set_posterior(make(kind, n_iter=1), start).fit(X)
    for align in (True, False):
        assert_same_posterior(fastem.combine(parts, align=align), whole, rtol=1e-9)
    combined = fastem.combine(parts)
    assert combined.evidence_ == pytest.approx(5.0)
    assert combined.n_observations_ == 5.0
    assert_allclose(combined.startprob_, whole.startprob_, rtol=1e-9)
    assert combined.score(X) == pytest.approx(whole.score(X), rel=1e-9)
    # Two equal posteriors are that of all data twice, and so is one that counts twice.
    twice = set_posterior(make(kind, n_iter=1), start).fit(X, sample_weight=np.full(5, 2.0))
    assert_same_posterior(fastem.combine([whole, whole]), twice, rtol=1e-9)
    assert_same_posterior(fastem.combine([whole, whole], [1.5, 0.5]), twice, rtol=1e-9)


@every_kind
def test_shards_with_other_orders_of_states_combine(kind):
    whole = fitted_quietly(make(kind, n_iter=30), data(kind))
    other = copy.deepcopy(whole)
    other._set_model(whole._model().reordered([2, 0, 1]))
    assert_same_posterior(fastem.combine([whole, other]), fastem.combine([whole, whole]))
    assert fastem.divergence(whole, other) == pytest.approx(0.0, abs=1e-9)
    with pytest.raises(ValueError, match="direction='reverse'"):
        fastem.combine([whole, other], direction="reverse")


def test_shards_with_other_priors_combine():
    # Each posterior brings what it has learned, and the prior is that of the first.
    X = np.split(data("full"), np.cumsum(LENGTHS)[:-1])
    parts = [fitted_quietly(make("full", n_iter=1), np.concatenate(x), list(map(len, x)))
             for x in (X[:3], X[3:])]  # fmt: skip
    combined = fastem.combine(parts, align=False)
    assert_array_equal(combined.means_prior_, parts[0].means_prior_)
    for name in ("startprob", "transmat", "beta", "dof"):
        gained = sum(getattr(p, f"{name}_posterior_") - getattr(p, f"{name}_prior_") for p in parts)
        expected = getattr(parts[0], f"{name}_prior_") + gained
        assert_allclose(getattr(combined, f"{name}_posterior_"), expected, rtol=1e-10)


@every_kind
def test_online_learning_at_an_infinite_rate_is_a_batch_step(kind):
    start = fitted_quietly(make(kind, n_iter=3), data(kind))
    online = set_posterior(make(kind, learning_rate=np.inf), start)
    for seed in (1, 2):
        X, before = data(kind, seed), copy.deepcopy(online)
        online.partial_fit(X, LENGTHS)
        batch = set_posterior(make(kind, n_iter=1), before).fit(X, LENGTHS)
        assert_same_posterior(online, batch, rtol=1e-10)
        assert_allclose(online.startprob_, batch.startprob_, rtol=1e-10)
        assert online.evidence_ == batch.evidence_ == 5.0


@every_kind
def test_online_learning_at_the_rate_of_the_weights_adds_statistics_up(kind):
    start = fitted_quietly(make(kind, n_iter=3), data(kind))
    online = copy.deepcopy(start).set_params(learning_rate=1.0)  # as many sequences as before
    X = data(kind, 1)
    online.partial_fit(X, LENGTHS)
    step = set_posterior(make(kind, n_iter=1), start).fit(X, LENGTHS)
    assert online.evidence_ == 10.0
    for name in set(names_of(kind)) - {"means", "scale"}:
        expected = getattr(start, f"{name}_posterior_") + getattr(step, f"{name}_posterior_")
        expected = expected - getattr(start, f"{name}_prior_")
        assert_allclose(getattr(online, f"{name}_posterior_"), expected, rtol=1e-10)
    assert_same_posterior(online, fastem.combine([start, step], align=False), rtol=1e-10)


@every_kind
def test_rates_weigh_the_batch_against_the_posterior(kind):
    start = fitted_quietly(make(kind, n_iter=3), data(kind))
    X = data(kind, 1)
    # Five sequences beside five others: a rate of 4 keeps a quarter of what was before.
    fast = copy.deepcopy(start).set_params(learning_rate=4.0).partial_fit(X, LENGTHS)
    assert fast.evidence_ == pytest.approx(5.0 + 1.25)
    slow = copy.deepcopy(start).set_params(learning_rate=0.1).partial_fit(X, LENGTHS)
    assert slow.evidence_ == pytest.approx(5.0 + 0.5)
    for model in (fast, slow):
        counts = model.startprob_posterior_.sum() - model.startprob_prior_.sum()
        assert counts == pytest.approx(model.evidence_)
    still = copy.deepcopy(start).set_params(learning_rate=1e-12).partial_fit(X, LENGTHS)
    assert_same_posterior(still, start, rtol=1e-9)


@every_kind
def test_stochastic_inference_ends_where_batch_learning_does(kind):
    rows = data(kind, n_rows=3000)
    if kind == "categorical":
        # States that can be told apart: batch learning takes few steps, too.
        rng = np.random.default_rng(1)
        states = np.repeat(rng.integers(0, 3, (600, 1)), 5, axis=0)
        rows = np.where(rng.random((3000, 1)) < 0.9, states, rng.integers(0, 4, (3000, 1)))
    X = np.split(rows, 60)
    rows, lengths = np.concatenate(X), list(map(len, X))
    start = fitted_quietly(make(kind, n_iter=5), rows, lengths)
    batch = fitted_quietly(set_posterior(make(kind, n_iter=300), start), rows, lengths)
    online = set_posterior(
        make(kind, total_sequences=60, batch_size=10, learning_rate=fastem.Decay(1.0, 0.8)), start
    )
    rng = np.random.default_rng(0)
    for _ in range(30):
        online.partial_fit([X[i] for i in rng.permutation(60)])
    assert online.evidence_ == pytest.approx(60.0)
    last = fitted_quietly(set_posterior(make(kind, n_iter=1), online), rows, lengths)
    assert last.lower_bound_ > batch.lower_bound_ - 1e-3 * abs(batch.lower_bound_)
    assert last.lower_bound_ > batch.lower_bounds_[0]


@every_kind
def test_online_learning_starts_by_itself(kind):
    settings = {"n_features": 4} if kind == "categorical" else {}
    model = make(kind, tol=1e-6, **settings)
    for seed in range(3):
        # The same model for all: other rows of one draw.
        X = data(kind, n_rows=900)[300 * seed : 300 * (seed + 1)]
        model.partial_fit(X, [30] * 10)
    assert model.n_observations_ == 30.0
    assert 10.0 <= model.evidence_ <= 30.0 + 1e-9
    batch = fitted_quietly(make(kind, n_iter=50, **settings), data(kind, n_rows=900), [30] * 30)
    Y = data(kind, n_rows=900)
    assert model.score(Y) > batch.score(Y) - 0.05 * abs(batch.score(Y))


# Mistakes -------------------------------------------------------------------------------------


def test_missing_values_are_refused():
    X = data("full")
    X[3, 1] = np.nan
    model = make("full")
    before = copy.deepcopy(vars(model))
    with pytest.raises(ValueError, match="NaN.*no missing values"):
        model.fit(X)
    assert vars(model).keys() == before.keys()


@pytest.mark.parametrize("settings, message", [
    ({"dof_prior": 1.0}, "dof_prior_ must be above 1"),
    ({"beta_prior": -1.0}, "beta_prior_ must be positive"),
    ({"scale_prior": np.ones((3, 2, 2))}, "scale_prior_ must be positive definite"),
    ({"scale_prior": np.ones((2, 3))}, "scale_prior must be a number, or have the shape"),
    ({"transmat_prior": 0.0}, "transmat_prior_ must be positive"),
    ({"means_prior": np.nan}, "means_prior_ contains NaN"),
    ({"params": "stx"}, "params: 'x' stands for nothing"),
    ({"covariance_type": "other"}, "covariance_type"),
])  # fmt: skip
def test_wrong_settings_are_named_and_change_nothing(settings, message):
    model = make("full").fit(data("full"), LENGTHS)
    model.set_params(**settings)
    before = copy.deepcopy(vars(model))
    with pytest.raises(ValueError, match=message):
        model.fit(data("full"), LENGTHS)
    assert vars(model).keys() == before.keys()
    assert_array_equal(model.means_posterior_, before["means_posterior_"])
    assert list(model.monitor_.history) == list(before["_monitor"].history)


def test_wrong_attributes_are_named():
    model = make("full").fit(data("full"), LENGTHS)
    model.dof_posterior_ = np.array([5.0, 0.5, 5.0])
    with pytest.raises(ValueError, match="dof_posterior_ must be above 1"):
        model.score(data("full"))
    with pytest.raises(ValueError, match="dof_posterior_ must be above 1"):
        model.partial_fit(data("full"))
    model = make("categorical").fit(data("categorical"))
    model.emissionprob_posterior_ = np.ones((3, 5))
    with pytest.raises(ValueError, match="emissionprob"):
        model.score(data("categorical"))


def test_posteriors_combine_with_posteriors_alone():
    posterior = make("full").fit(data("full"), LENGTHS)
    plain = fastem.GaussianHMM(3, "full", random_state=0).fit(data("full"), LENGTHS)
    with pytest.raises(ValueError, match="different kinds"):
        fastem.combine([posterior, plain])


def test_a_posterior_that_is_overwritten_is_told_of(caplog):
    """In the log, as hmmlearn has it."""
    model = make("full")
    model.startprob_posterior_ = np.ones(3)
    model.fit(data("full"), LENGTHS)
    assert "startprob_posterior_ was set, and is overwritten" in caplog.text


def test_a_stream_of_floats_and_single_precision():
    X = data("full").astype(np.float32)
    single = make("full").fit(X, LENGTHS)
    double = make("full").fit(X.astype(float), LENGTHS)
    assert_same_posterior(single, double, rtol=1e-3)


# Incremental EM -------------------------------------------------------------------------------

EQUAL = [10] * 12


@every_kind
def test_incremental_em_of_one_block_is_batch_em_to_the_bit(kind):
    X = data(kind)
    batch = make(kind, n_iter=5).fit(X, EQUAL)
    single = make(kind, n_iter=5, solver="incremental", n_blocks=1).fit(X, EQUAL)
    assert single.lower_bounds_ == batch.lower_bounds_
    for name, array in posterior(batch).items():
        assert_array_equal(getattr(single, name), array)


@every_kind
@pytest.mark.parametrize("seed", range(3))
def test_the_bound_of_incremental_em_never_falls_and_ends_where_batch_em_stays(kind, seed):
    X = data(kind, seed)
    settings = {"solver": "incremental", "n_blocks": 4, "n_iter": 3000, "tol": 1e-10}
    model = make(kind, random_state=seed, **settings).fit(X, EQUAL)
    assert model.converged_
    assert np.diff(model.lower_bounds_).min() > -1e-9
    batch = make(kind, n_iter=2)
    set_posterior(batch, model).fit(X, EQUAL)
    assert_allclose(batch.lower_bounds_, model.lower_bound_, rtol=1e-10)
    for name, array in posterior(batch).items():
        assert_allclose(getattr(model, name), array, rtol=1e-3, atol=1e-4, err_msg=name)


@pytest.mark.parametrize(
    ("kind", "params"),
    [
        *itertools.product(KINDS[:-1], ["st", "tmc", "mc", "tm"]),
        *itertools.product(KINDS[-1:], ["st", "se", "e"]),
    ],
)
def test_incremental_em_holds_what_is_not_learned(kind, params):
    X = data(kind)
    start = make(kind, n_iter=2).fit(X, EQUAL)
    settings = {"solver": "incremental", "n_blocks": 4, "n_iter": 20, "params": params}
    model = set_posterior(make(kind, **settings), start).fit(X, EQUAL)
    assert np.diff(model.lower_bounds_).min() > -1e-9
    # From a given start the first pass is a step of batch EM.
    assert model.lower_bounds_[0] == pytest.approx(
        set_posterior(make(kind, n_iter=1, params=params), start).fit(X, EQUAL).lower_bound_
    )
    for name, letter in model._letters().items():
        if letter not in params:
            name = f"{name}_posterior_"
            assert_array_equal(getattr(model, name), getattr(start, name))


@pytest.mark.parametrize("kind", ["full", "categorical"])
def test_streams_weights_and_callbacks_of_incremental_em(kind):
    X = data(kind)
    sequences = np.split(X, 12)
    settings = {"solver": "incremental", "n_blocks": 4, "n_iter": 4}
    if kind == "categorical":
        settings["n_features"] = 4
    model = make(kind, **settings).fit(sequences)
    streamed = make(kind, **settings).fit(lambda: iter(sequences))
    assert_same_posterior(streamed, model, rtol=1e-12)
    weighted = make(kind, **settings).fit(sequences, sample_weight=np.full(12, 1.0))
    assert_same_posterior(weighted, model, rtol=1e-12)
    seen = []
    make(kind, **settings, callback=seen.append).fit(sequences)
    assert [report.n_iter for report in seen if not report.within] == [1, 2, 3, 4]
    assert any(report.within for report in seen)
