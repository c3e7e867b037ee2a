"""What all mixture estimators do: conventions, weights, streams, online learning, threads."""

import itertools
import multiprocessing
import tracemalloc
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.estimator_checks import check_estimator

import fastem
from fastem import Decay, GaussianMixture, Mixture
from fastem.families import Categorical, Gaussian, Poisson, Product

KINDS = ["full", "tied", "diag", "spherical"]


def clusters(n_rows=400, n_columns=3, seed=0, gap=6.0):
    """Two clusters of unit variance, their rows mixed."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(2, size=n_rows)
    return rng.normal(size=(n_rows, n_columns)) + gap * labels[:, None]


def precisions(kind, n_components, n_columns):
    return {
        "full": np.tile(np.eye(n_columns), (n_components, 1, 1)),
        "tied": np.eye(n_columns),
        "diag": np.ones((n_components, n_columns)),
        "spherical": np.ones(n_components),
    }[kind]


def given(kind="full", n_columns=3, center=0.0, gap=6.0, **settings):
    """A model with a start of its own, so that nothing depends on random numbers."""
    means = np.repeat([[1.0], [gap - 1.0]], n_columns, axis=1) + center
    return GaussianMixture(
        2,
        covariance_type=kind,
        weights_init=[0.4, 0.6],
        means_init=means,
        precisions_init=precisions(kind, 2, n_columns),
        **{"max_iter": 5, "tol": 0.0, **settings},
    )


def fit(model, *args, **kwargs):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(*args, **kwargs)


def state(model):
    """All that an estimator holds, as bytes where it is an array."""

    def frozen(value):
        if isinstance(value, np.ndarray):
            return value.dtype.str, value.shape, value.tobytes()
        if isinstance(value, fastem.Statistics):
            return {name: frozen(array) for name, array in value.to_arrays().items()}
        return value

    return {name: frozen(value) for name, value in vars(model).items()}


def assert_same(one, other, exact=False):
    """Equal parameters, to the bit or to rounding."""
    for name in ("weights_", "means_", "covariances_"):
        a, b = getattr(one, name), getattr(other, name)
        if exact:
            # After a fit of float32, attributes are rounded and models are not.
            np.testing.assert_array_equal(a, b.astype(a.dtype), err_msg=name)
            a, b = (model._model().parameters[name[:-1]] for model in (one, other))
            np.testing.assert_array_equal(a, b, err_msg=name)
        else:
            np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-11, err_msg=name)


# Conventions --------------------------------------------------------------------------------------


class AnyNonnegative(Poisson):
    """The Poisson log-density for any x ≥ 0, since scikit-learn's checks have no counts."""

    def check(self, X):
        if (X < 0).any():
            raise ValueError("Negative values in data")


@pytest.mark.parametrize(
    "estimator",
    [
        *(GaussianMixture(covariance_type=kind) for kind in KINDS),
        GaussianMixture(batch_size=10, memory="statistics"),
        Mixture("gaussian"),
        Mixture(Gaussian("diag")),
        Mixture("exponential"),
        Mixture(AnyNonnegative()),
    ],
    ids=str,
)
def test_scikit_learns_checks(estimator):
    results = check_estimator(estimator, on_fail=None, on_skip=None)
    failed = {r["check_name"]: r["exception"] for r in results if r["status"] == "failed"}
    assert failed == {}
    assert sum(r["status"] == "passed" for r in results) > 40


@pytest.mark.parametrize(
    ("estimator", "words"),
    [
        (Mixture("poisson"), "must be whole numbers"),
        (Mixture(Categorical(400)), "must be whole numbers"),
        (Mixture("gamma"), "must be positive"),
    ],
    ids=str,
)
def test_scikit_learns_checks_fail_only_for_their_data(estimator, words):
    # There is no tag for counts, nor for values above zero: the checks' data are then refused, and
    # nothing else may go wrong.
    results = check_estimator(estimator, on_fail=None, on_skip=None)
    for result in results:
        if result["status"] == "failed":
            # A check that wraps the error in its own words keeps it as the context.
            error = result["exception"]
            assert words in f"{error} {error.__context__}", result["check_name"]
    assert sum(r["status"] == "passed" for r in results) > 20


def test_attributes_are_not_shared_with_what_was_given():
    weights = np.array([0.5, 0.5])
    model = fit(given(fixed="weights").set_params(weights_init=weights), clusters())
    model.weights_[0] = 9.0
    np.testing.assert_array_equal(weights, [0.5, 0.5])


def test_failed_fit_leaves_a_fitted_model_alone():
    model = fit(given(), clusters())
    before = state(model)
    for bad in (np.full((9, 3), np.nan), np.zeros((9, 4)), np.zeros((0, 3))):
        with pytest.raises(ValueError):
            model.set_params(n_components=2).fit(bad)
        assert state(model) == before


# Sample weights -----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_weights_count_rows(kind):
    X = clusters()
    counts = np.random.default_rng(1).integers(0, 4, len(X))
    weighted = fit(given(kind), X, sample_weight=counts)
    repeated = fit(given(kind), np.repeat(X, counts, axis=0))
    assert_same(weighted, repeated)
    np.testing.assert_allclose(weighted.lower_bounds_, repeated.lower_bounds_, rtol=1e-12)
    assert weighted.score(X, sample_weight=counts) == pytest.approx(
        repeated.score(np.repeat(X, counts, axis=0)), rel=1e-12
    )


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("batch_size", [None, 1, 40])
def test_rows_of_weight_zero_are_no_rows_online(kind, batch_size):
    X = clusters(200)
    weights = np.where(np.arange(200) % 40 < 25, 1.0, 0.0)
    whole = given(kind, batch_size=batch_size).partial_fit(X, sample_weight=weights)
    small = 25 if batch_size == 40 else batch_size
    kept = given(kind, batch_size=small).partial_fit(X[weights > 0])
    assert_same(whole, kept)


# Online learning ----------------------------------------------------------------------------------


@pytest.mark.parametrize("memory", ["model", "statistics"])
@pytest.mark.parametrize("kind", KINDS)
def test_partial_fit_in_calls_is_partial_fit_in_batches(kind, memory):
    X = clusters(105)
    settings = {"memory": memory, "learning_rate": Decay(0.8, 0.7)}
    at_once = given(kind, batch_size=7, **settings).partial_fit(X)
    by_call = given(kind, **settings)
    for start in range(0, len(X), 7):
        by_call.partial_fit(X[start : start + 7])
    assert_same(at_once, by_call)
    assert at_once.n_steps_ == by_call.n_steps_ == 15
    streamed = given(kind, batch_size=7, **settings)
    streamed.partial_fit(X[i : i + 7] for i in range(0, len(X), 7))
    assert_same(streamed, at_once)


@pytest.mark.parametrize("kind", KINDS)
def test_both_memories_are_the_same_for_mixtures(kind):
    X = clusters(120)
    one = given(kind, batch_size=10, memory="model").partial_fit(X)
    other = given(kind, batch_size=10, memory="statistics").partial_fit(X)
    assert_same(one, other)
    assert hasattr(other, "statistics_")
    assert not hasattr(one, "statistics_")
    # What was remembered is out of date once the model has learned without it.
    other.set_params(memory="model").partial_fit(X)
    assert not hasattr(other, "statistics_")


@pytest.mark.parametrize(
    ("batch_size", "n_steps"), [(None, 1), (1, 50), (8, 6.25), (50, 1), (1000, 0.05)]
)
def test_steps_are_counted(batch_size, n_steps):
    X = clusters(50)
    model = given(batch_size=batch_size).partial_fit(X)
    assert model.n_steps_ == n_steps
    assert model.partial_fit(X).n_steps_ == 2 * n_steps
    assert fit(model, X).n_steps_ == 0


@pytest.mark.parametrize("kind", KINDS)
def test_a_batch_larger_than_the_data_is_the_data(kind):
    X = clusters(50)
    whole = given(kind, batch_size=None).partial_fit(X)
    assert_same(given(kind, batch_size=10_000).partial_fit(X), whole)


@pytest.mark.parametrize("kind", KINDS)
def test_infinite_rate_is_batch_em(kind):
    X = clusters(100)
    online = given(kind, learning_rate=np.inf).partial_fit(X)
    assert_same(online, fit(given(kind, max_iter=1), X))
    halves = given(kind, learning_rate=np.inf, batch_size=50).partial_fit(X)
    second = given(kind, learning_rate=np.inf).partial_fit(X[:50]).partial_fit(X[50:])
    assert_same(halves, second)


def test_rates_of_all_kinds_agree():
    X = clusters(60)
    fits = [
        given(batch_size=10, learning_rate=rate).partial_fit(X)
        for rate in (0.25, lambda t: 0.25, Decay(0.25, 0.0))
    ]
    assert_same(fits[0], fits[1], exact=True)
    assert_same(fits[0], fits[2], exact=True)


def test_the_rate_is_asked_for_each_step_in_turn():
    asked = []

    def rate(t):
        asked.append(t)
        return 1.0 / t

    model = given(batch_size=10, learning_rate=rate).partial_fit(clusters(25))
    model.partial_fit(clusters(10))
    # Five of ten rows are half a step.
    assert asked == [1, 2, 3, 3]


@pytest.mark.parametrize("kind", KINDS)
def test_one_row_at_a_time(kind):
    X = clusters(120)
    one_by_one = given(kind, learning_rate=0.1)
    for row in X:
        one_by_one.partial_fit(row[None])
    together = given(kind, learning_rate=0.1, batch_size=1).partial_fit(X)
    assert one_by_one.n_steps_ == together.n_steps_ == 120
    assert_same(one_by_one, together)


def test_partial_fit_starts_from_the_first_rows():
    X = clusters(300)
    model = GaussianMixture(2, random_state=0).partial_fit(X)
    assert model.n_features_in_ == 3
    assert (model.n_iter_, model.converged_, model.lower_bounds_) == (0, False, [])
    np.testing.assert_allclose(np.sort(model.means_[:, 0]), [0, 6], atol=0.5)
    assert not hasattr(GaussianMixture(5).partial_fit(X[:3]), "means_")


@pytest.mark.parametrize("init", ["kmeans", "k-means++", "random", "random_from_data"])
@pytest.mark.parametrize("kind", KINDS)
def test_online_learning_improves_the_held_out_score(kind, init):
    X, held_out = clusters(3000, seed=1), clusters(1000, seed=2)
    model = GaussianMixture(
        2, covariance_type=kind, init_params=init, random_state=0, batch_size=50
    ).partial_fit(X[:100])
    first = model.score(held_out)
    model.partial_fit(X)
    best = GaussianMixture(2, covariance_type=kind, random_state=0).fit(X).score(held_out)
    assert model.score(held_out) >= min(first, best - 0.02)
    if init == "kmeans":
        assert model.score(held_out) > best - 0.02


def test_partial_fit_after_a_start_without_iterations():
    # Such a start leaves weights that do not sum to one, as scikit-learn's does.
    X = clusters(200)
    model = GaussianMixture(2, init_params="random_from_data", max_iter=0, random_state=0).fit(X)
    assert model.weights_.sum() == pytest.approx(2 / 200)
    model.partial_fit(X)
    assert model.weights_.sum() == pytest.approx(1.0)


def _bad_batches():
    X = clusters(20)
    with_nan, with_inf = X.copy(), X.copy()
    with_nan[3, 1] = np.nan
    with_inf[19, 2] = np.inf
    return {
        "nan": (with_nan, {}),
        "inf": (with_inf, {}),
        "width": (X[:, :2], {}),
        "empty": (X[:0], {}),
        "one dimension": (X[0], {}),
        "text": (np.array([["a", "b", "c"]]), {}),
        "complex": (X + 1j, {}),
        "weights too short": (X, {"sample_weight": np.ones(19)}),
        "negative weights": (X, {"sample_weight": -np.ones(20)}),
        "weights of nan": (X, {"sample_weight": np.full(20, np.nan)}),
        "weights of zero": (X, {"sample_weight": np.zeros(20)}),
        "stream with weights": (lambda: iter([X]), {"sample_weight": np.ones(20)}),
        "stream that goes bad": (lambda: iter([X, X, with_nan]), {}),
        "stream that changes width": ([X, X[:, :2]], {}),
        "empty stream": (lambda: iter([]), {}),
    }


@pytest.mark.parametrize("memory", ["model", "statistics"])
@pytest.mark.parametrize("batch_size", [None, 1, 7])
@pytest.mark.parametrize("name", _bad_batches())
def test_failed_partial_fit_leaves_the_model_alone(name, batch_size, memory):
    X, kwargs = _bad_batches()[name]
    fresh = given(batch_size=batch_size, memory=memory)
    before = state(fresh)
    with pytest.raises((ValueError, TypeError)):
        fresh.partial_fit(X, **kwargs)
    assert state(fresh) == before
    started = given(batch_size=batch_size, memory=memory).partial_fit(clusters(30))
    before = state(started)
    with pytest.raises((ValueError, TypeError)):
        started.partial_fit(X, **kwargs)
    assert state(started) == before


@pytest.mark.parametrize(
    "settings",
    [
        {"learning_rate": 0.0}, {"learning_rate": lambda t: 1.0 if t < 40 else -1.0},
        {"learning_rate": "fast"}, {"batch_size": 0}, {"batch_size": -1}, {"memory": "both"},
        {"fixed": ["nothing"]}, {"n_jobs": 0},
    ],
    ids=lambda settings: str(settings).partition(" at 0x")[0],
)  # fmt: skip
def test_settings_that_went_bad_leave_the_model_alone(settings):
    model = given(batch_size=1).partial_fit(clusters(30))
    model.set_params(**settings)
    before = state(model)
    with pytest.raises((ValueError, TypeError)):
        model.partial_fit(clusters(30))
    assert state(model) == before


# Parameters held fixed ----------------------------------------------------------------------------

COMBINATIONS = [
    combination
    for size in (1, 2, 3)
    for combination in itertools.combinations(("weights", "means", "covariances"), size)
]


@pytest.mark.parametrize("fixed", COMBINATIONS, ids="+".join)
@pytest.mark.parametrize("kind", KINDS)
def test_fixed_parameters_stay_to_the_bit(kind, fixed):
    X = clusters(90)
    begun = given(kind, max_iter=0).fit(X)
    models = [fit(given(kind, fixed=fixed), X)]
    for batch_size, memory in itertools.product((None, 1, 7), ("model", "statistics")):
        model = given(kind, fixed=fixed, batch_size=batch_size, memory=memory)
        models.append(model.partial_fit(X).partial_fit(X))
    for model in models:
        for name in ("weights", "means", "covariances"):
            first, last = getattr(begun, f"{name}_"), getattr(model, f"{name}_")
            if name in fixed:
                np.testing.assert_array_equal(last, first, err_msg=name)
            else:
                assert np.abs(last - first).max() > 1e-3, name


def test_fixed_as_a_word_and_as_a_set():
    X = clusters(50)
    assert_same(fit(given(fixed="means"), X), fit(given(fixed={"means"}), X), exact=True)
    with pytest.raises(ValueError, match="fixed: 'mean' is not one of the parameters"):
        given(fixed="mean").fit(X)


@pytest.mark.parametrize("batch_size", [None, 5])
def test_fixed_rates_of_poisson(batch_size):
    rates = np.array([[2.0], [9.0]])
    model = Mixture("poisson", 2, init={"rates": rates}, fixed=("rates",), batch_size=batch_size)
    X = np.random.default_rng(0).poisson(3.0, size=(40, 1))
    np.testing.assert_array_equal(fit(model, X).rates_, rates)
    np.testing.assert_array_equal(model.partial_fit(X).rates_, rates)


# Streams ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_streams_give_the_answer_of_their_concatenation(kind):
    X = clusters(300)
    weights = np.random.default_rng(0).uniform(0.5, 2, 300)
    cuts = [slice(0, 100), slice(100, 101), slice(101, 300)]
    parts, pairs = [X[c] for c in cuts], [(X[c], weights[c]) for c in cuts]
    plain, weighted = fit(given(kind), X), fit(given(kind), X, sample_weight=weights)
    assert_same(fit(given(kind), parts), plain)
    assert_same(fit(given(kind), tuple(parts)), plain)
    assert_same(fit(given(kind), lambda: iter(parts)), plain)
    assert_same(fit(given(kind), lambda: (part for part in parts)), plain)
    assert_same(fit(given(kind), pairs), weighted)
    assert_same(fit(given(kind), lambda: iter(pairs)), weighted)
    assert plain.score(lambda: iter(parts)) == pytest.approx(plain.score(X), rel=1e-12)
    labels = given(kind, max_iter=0).fit_predict(X)
    np.testing.assert_array_equal(given(kind, max_iter=0).fit_predict(parts), labels)


class Again:
    """An object that can be iterated over again and again."""

    def __init__(self, *parts):
        self.parts = parts

    def __iter__(self):
        return iter(self.parts)


@pytest.mark.parametrize("init", ["kmeans", "k-means++", "random", "random_from_data"])
def test_streams_start_as_their_concatenation(init):
    X = clusters(300)
    settings = {"init_params": init, "random_state": 4, "n_init": 2, "max_iter": 3}
    whole = fit(GaussianMixture(2, **settings), X)
    stream = fit(GaussianMixture(2, **settings), Again(X[:120], X[120:]))
    assert_same(stream, whole)
    assert stream.n_features_in_ == 3


def test_long_streams_start_from_a_sample(monkeypatch):
    import fastem.data.sampling
    import fastem.mixture.base as base

    monkeypatch.setattr(fastem.data.sampling, "_SAMPLE_ROWS", 200)
    X = clusters(5000, 2)
    seen = []
    start = base.BaseMixture._responsibilities

    def spy(self, sample, random_state):
        seen.append(sample.X)
        return start(self, sample, random_state)

    monkeypatch.setattr(base.BaseMixture, "_responsibilities", spy)
    model = GaussianMixture(2, random_state=0).fit([X[i : i + 37] for i in range(0, 5000, 37)])
    assert seen[0].shape == (200, 2)
    # Every row of the sample is one of the data, in their order, and from all over them.
    places = [int(np.flatnonzero((X == row).all(axis=1))[0]) for row in seen[0]]
    assert places == sorted(set(places))
    assert min(places) < 500
    assert max(places) > 4500
    np.testing.assert_allclose(np.sort(model.means_[:, 0]), [0, 6], atol=0.2)


def test_streams_that_cannot_be_used():
    X = clusters(30)
    with pytest.raises(TypeError, match="read only once.*function that returns a new iterator"):
        given().fit(part for part in [X])
    with pytest.raises(TypeError, match="or learn in one pass with partial_fit"):
        given().fit(iter([X]))
    with pytest.raises(ValueError, match="The stream has no data"):
        given().fit(lambda: iter([]))
    with pytest.raises(ValueError, match="The stream has no data"):
        GaussianMixture(2).fit(Again())
    with pytest.raises(ValueError, match="a stream yields pairs"):
        given().fit([X], sample_weight=np.ones(30))
    with pytest.raises(ValueError, match="In array 1 of the stream: Input X contains NaN"):
        given().fit([X, np.full((3, 3), np.nan)])
    with pytest.raises(ValueError, match="In array 1 of the stream: X has 2 features"):
        given().fit([X, X[:, :2]])
    with pytest.raises(ValueError, match="n_samples >= n_components"):
        GaussianMixture(50).fit([X])


# Input of all types -------------------------------------------------------------------------------

DTYPES = [
    "float32", "float16", "float64", "longdouble", ">f8", ">f4", ">i2", "int8", "int16", "int32",
    "int64", "uint8", "uint16", "uint32", "uint64",
]  # fmt: skip


def layouts(X):
    wide = np.zeros((2 * len(X), 3 * X.shape[1]), X.dtype)
    wide[::2, 1::3] = X
    read_only = X.copy()
    read_only.setflags(write=False)
    shifted = np.frombuffer(b"\0" + X.tobytes(), dtype=np.uint8)[1:].view(X.dtype)
    return {
        "C": np.ascontiguousarray(X),
        "Fortran": np.asfortranarray(X),
        "slice": wide[::2, 1::3],
        "backwards": X[::-1].copy()[::-1],
        "columns backwards": X[:, ::-1].copy()[:, ::-1],
        "read-only": read_only,
        "broadcast": np.broadcast_to(X, (1, *X.shape))[0],
        "unaligned": shifted.reshape(X.shape),
        "list": X.tolist(),
    }


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_type_and_layout_gives_the_same_answer(dtype):
    X = np.round(3 * clusters(150) + 20).clip(0, 120)
    expected = fit(given(center=20.0, gap=18.0), X)
    online = given(center=20.0, gap=18.0, batch_size=10).partial_fit(X)
    for name, array in layouts(X.astype(dtype)).items():
        assert_same(fit(given(center=20.0, gap=18.0), array), expected, exact=True)
        assert_same(
            given(center=20.0, gap=18.0, batch_size=10).partial_fit(array), online, exact=True
        )
        np.testing.assert_array_equal(
            expected.score_samples(array), expected.score_samples(X), err_msg=name
        )


def test_booleans():
    X = np.random.default_rng(0).random((80, 4)) < [0.1, 0.9, 0.5, 0.3]
    for model in (Mixture("bernoulli", 2, random_state=0), GaussianMixture(2, random_state=0)):
        a, b = fit(model, X).score_samples(X), fit(model, X.astype(float)).score_samples(X)
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("dtype", ["uint8", "float32", "float64", "int8"])
def test_memory_maps(dtype, tmp_path):
    X = np.round(3 * clusters(150) + 20).clip(0, 120)
    mapped = np.memmap(tmp_path / "rows", dtype=dtype, mode="w+", shape=(150, 5))
    mapped[:, 1:4] = X
    mapped.flush()
    mapped = np.memmap(tmp_path / "rows", dtype=dtype, mode="r", shape=(150, 5))
    expected = fit(given(center=20.0, gap=18.0), X)
    assert_same(fit(given(center=20.0, gap=18.0), mapped[:, 1:4]), expected, exact=True)


def peak_memory(work):
    """The most bytes that NumPy and Python allocate; what is compiled for it is not counted."""
    work()
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("dtype", "init", "view"),
    [
        ("uint8", "kmeans", "whole"),
        ("int8", "random", "array"),
        ("float32", "kmeans", "rows"),
        ("float32", "random", "array"),
    ],
)
def test_no_copy_of_large_data(dtype, init, view, tmp_path):
    n_rows, n_columns = 400_000, 20
    mapped = np.memmap(tmp_path / "rows", dtype=dtype, mode="w+", shape=(n_rows + 10, n_columns))
    rng = np.random.default_rng(0)
    mapped[:] = rng.integers(0, 100, mapped.shape, dtype=np.uint8)
    X = {"whole": mapped, "rows": mapped[10:], "array": np.asarray(mapped)[5:]}[view]
    model = GaussianMixture(
        2, covariance_type="diag", init_params=init, random_state=0, max_iter=2, n_jobs=2
    )

    def work():
        model.set_params(batch_size=None)
        fit(model, X)
        model.set_params(batch_size=1000).partial_fit(X)

    peak = peak_memory(work)
    # A start needs its sample of 50 000 rows in float64, of which k-means makes two copies.
    sample = 50_000 * n_columns * 8
    assert peak < 3.2 * sample <= 0.4 * n_rows * n_columns * 8


@pytest.mark.parametrize("dtype", ["uint8", "float32"])
def test_no_copy_at_all_from_a_given_start(dtype):
    X = np.random.default_rng(0).integers(0, 100, (200_000, 20), dtype=np.uint8).astype(dtype)
    model = given("diag", n_columns=20, center=30.0, gap=40.0, max_iter=2, n_jobs=2)
    model.precisions_init = model.precisions_init / 1000

    def work():
        fit(model, X)
        model.partial_fit(X)
        model.score(X)

    peak = peak_memory(work)
    # What scores need: one number for each row.
    assert peak < 0.15 * X.size * 8


# Edge cases ---------------------------------------------------------------------------------------


def assert_sane(model, X):
    for name in ("weights_", "means_", "covariances_", "precisions_"):
        assert np.isfinite(getattr(model, name)).all(), name
    assert model.weights_.sum() == pytest.approx(1.0)
    assert np.isfinite(model.score_samples(X)).all()
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1.0)


@pytest.mark.parametrize("kind", KINDS)
def test_degenerate_data(kind):
    rng = np.random.default_rng(0)
    cases = {
        "one column": rng.normal(size=(30, 1)),
        "as many rows as components": rng.normal(size=(3, 2)),
        "duplicates": np.repeat(rng.normal(size=(4, 2)), 10, axis=0),
        "one point": np.ones((12, 2)),
        "constant column": np.column_stack([rng.normal(size=30), np.full(30, 5.0)]),
        "outlier": np.vstack([rng.normal(size=(30, 2)), [[1e6, -1e6]]]),
    }
    for name, X in cases.items():
        for n_components in (1, 3):
            model = GaussianMixture(n_components, covariance_type=kind, random_state=0)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                model.fit(X)
            assert_sane(model, X)
            if n_components == 1:
                np.testing.assert_allclose(model.means_[0], X.mean(axis=0), err_msg=name)


@pytest.mark.parametrize("kind", KINDS)
def test_single_component_is_the_sample_covariance(kind):
    X = clusters(100)
    model = GaussianMixture(1, covariance_type=kind, reg_covar=0.0).fit(X)
    covariance = np.cov(X.T, bias=True)
    expected = {
        "full": covariance[None],
        "tied": covariance,
        "diag": np.diag(covariance)[None],
        "spherical": np.array([np.diag(covariance).mean()]),
    }[kind]
    np.testing.assert_allclose(model.covariances_, expected, rtol=1e-12, atol=1e-13)
    assert model.n_iter_ == 2


@pytest.mark.parametrize("kind", KINDS)
def test_a_component_without_points_keeps_its_parameters(kind):
    X = clusters(60)
    far = given(kind, max_iter=20)
    far.means_init = np.array([[0.0] * 3, [1e6] * 3])
    with pytest.warns(RuntimeWarning, match=r"1 of 2 components have no points left.*\[1\]"):
        fit(far, X)
    assert_sane(far, X)
    np.testing.assert_array_equal(far.means_[1], [1e6] * 3)
    assert 0 < far.weights_[1] < 1e-10
    np.testing.assert_allclose(far.means_[0], X.mean(axis=0), rtol=1e-10)
    if kind != "tied":
        np.testing.assert_array_equal(far.covariances_[1], precisions(kind, 2, 3)[1])


@pytest.mark.parametrize("rate", [0.2, 5.0])
@pytest.mark.parametrize("batch_size", [None, 1, 7])
@pytest.mark.parametrize("kind", KINDS)
def test_a_component_without_points_online(kind, batch_size, rate):
    X = clusters(400)
    far = given(kind, batch_size=batch_size, learning_rate=rate)
    far.means_init = np.array([[0.0] * 3, [1e6] * 3])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        for _ in range({None: 150, 1: 1, 7: 3}[batch_size]):
            far.partial_fit(X)
    assert_sane(far, X)
    np.testing.assert_allclose(far.means_[1], [1e6] * 3, rtol=1e-12)
    assert 0 < far.weights_[1] < 1e-10


@pytest.mark.parametrize("kind", KINDS)
def test_data_far_from_the_origin(kind):
    X = np.round(clusters(200) * 1024) / 1024
    near = fit(given(kind, max_iter=20), X)
    far = fit(given(kind, center=2.0**27, max_iter=20), X + 2.0**27)
    # Numbers of this size carry eight digits behind the point.
    np.testing.assert_allclose(far.means_ - 2.0**27, near.means_, atol=1e-7)
    np.testing.assert_allclose(far.covariances_, near.covariances_, rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(far.weights_, near.weights_, rtol=1e-6)
    np.testing.assert_allclose(far.lower_bounds_, near.lower_bounds_, rtol=1e-6)
    from_data = GaussianMixture(2, covariance_type=kind, random_state=0).fit(X + 1e8)
    np.testing.assert_allclose(np.sort(from_data.means_[:, 0]) - 1e8, [0, 6], atol=0.5)
    online = GaussianMixture(2, covariance_type=kind, random_state=0, batch_size=1)
    online.partial_fit(X + 1e8)
    reference = GaussianMixture(2, covariance_type=kind, random_state=0, batch_size=1)
    reference.partial_fit(X)
    np.testing.assert_allclose(online.covariances_, reference.covariances_, rtol=1e-5, atol=1e-5)


# Combining ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_combining_estimators(kind):
    X = clusters(400)
    parts = [fit(given(kind, max_iter=50), X[:200]), fit(given(kind, max_iter=50), X[200:])]
    parts[1].partial_fit(X[200:])
    for function in (fastem.combine, fastem.average):
        for merged in (function(parts), function(parts, weights=[1, 3], align=True)):
            assert type(merged) is GaussianMixture
            assert str(merged.get_params()) == str(parts[0].get_params())
            assert merged.n_features_in_ == 3
            assert merged.n_steps_ == 1
            assert_sane(merged, X)
            assert np.mean(merged.predict(X) == parts[0].predict(X)) > 0.99
            merged.partial_fit(X)
    same = fastem.combine([parts[0], parts[0], parts[0]])
    assert_same(same, parts[0])
    assert fastem.divergence(parts[0], parts[0]) == pytest.approx(0.0, abs=1e-12)
    assert fastem.divergence(*parts) > 0


def test_aligning_finds_the_order():
    X = clusters(300)
    one = fit(given(max_iter=50), X)
    other = given(max_iter=50)
    other.means_init = np.array(other.means_init)[::-1]
    fit(other, X)
    assert np.abs(one.means_ - other.means_[::-1]).max() < 1e-3
    assert fastem.divergence(one, other, align=False) > 1
    assert fastem.divergence(one, other) == pytest.approx(0.0, abs=1e-3)
    merged = fastem.combine([one, other])
    np.testing.assert_allclose(merged.means_, one.means_, atol=1e-3)
    wrong = fastem.combine([one, other], align=False)
    assert np.abs(wrong.means_ - one.means_).max() > 1


def test_combining_poisson_estimators():
    rng = np.random.default_rng(0)
    X = rng.poisson([[2.0], [20.0]], size=(2, 300)).reshape(-1, 1)
    parts = [Mixture("poisson", 2, random_state=s).fit(X[rng.permutation(600)]) for s in (0, 1)]
    merged = fastem.combine(parts, weights=[600, 600], align=True)
    assert type(merged) is Mixture
    np.testing.assert_allclose(np.sort(merged.rates_.ravel()), [2, 20], rtol=0.1)
    np.testing.assert_array_equal(merged.predict(X), parts[0].predict(X))


# Threads and processes ----------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_the_number_of_threads_changes_nothing(kind):
    X = clusters(100_000, 4)
    fits = [fit(given(kind, 4, n_jobs=n, max_iter=3), X) for n in (1, 2, 3, 7, None, -1)]
    for other in fits[1:]:
        assert_same(fits[0], other, exact=True)
        assert other.lower_bounds_ == fits[0].lower_bounds_
        np.testing.assert_array_equal(other.score_samples(X), fits[0].score_samples(X))
    assert len(fits[0]._model().chunks(*X.shape)) > 1


def test_several_python_threads_at_once():
    X = clusters(100_000)
    expected = given(n_jobs=2, tol=1.0).fit(X)
    with ThreadPoolExecutor(4) as pool:
        fits = list(pool.map(lambda i: given(n_jobs=2, tol=1.0).fit(X), range(8)))
    for other in fits:
        assert_same(other, expected, exact=True)


def _fit_in_child(connection):
    connection.send(given(n_jobs=2, tol=1.0).fit(clusters(100_000)).means_)
    connection.close()


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_forked_processes():
    expected = given(n_jobs=2, tol=1.0).fit(clusters(100_000)).means_
    context = multiprocessing.get_context("fork")
    receiving, sending = context.Pipe(duplex=False)
    child = context.Process(target=_fit_in_child, args=(sending,))
    child.start()
    try:
        # Without this a child that waits for threads it does not have would wait forever.
        assert receiving.poll(60)
        np.testing.assert_array_equal(receiving.recv(), expected)
    finally:
        child.kill()
        child.join()


# Other families -----------------------------------------------------------------------------------


def test_product_of_families_online_and_in_batch():
    rng = np.random.default_rng(0)
    labels = rng.integers(2, size=500)
    X = np.column_stack([rng.normal(8.0 * labels), rng.poisson(1 + 20 * labels)])
    family = Product((Gaussian("diag"), 1), (Poisson(), 1))
    model = Mixture(family, 2, random_state=0).fit(X)
    order = np.argsort(model.poisson_rates_.ravel())
    np.testing.assert_allclose(model.poisson_rates_[order].ravel(), [1, 21], atol=1)
    np.testing.assert_allclose(model.gaussian_means_[order].ravel(), [0, 8], atol=0.3)
    before = model.score(X)
    model.set_params(batch_size=20, learning_rate=0.05).partial_fit(X)
    assert model.score(X) > before - 0.05
    rows, y = model.sample(50)
    assert rows.shape == (50, 2)
    assert (np.diff(y) >= 0).all()


@pytest.mark.parametrize(
    "family", ["gaussian", "poisson", "bernoulli", "multinomial", "exponential", "gamma", "beta"]
)
def test_every_named_family_fits_samples_and_scores(family):
    rng = np.random.default_rng(0)
    X = {
        "gaussian": rng.normal(size=(60, 2)),
        "poisson": rng.poisson(4, size=(60, 2)),
        "bernoulli": rng.integers(0, 2, size=(60, 2)),
        "multinomial": rng.multinomial(9, [0.2, 0.3, 0.5], size=60),
        "exponential": rng.exponential(size=(60, 2)),
        "gamma": rng.gamma(2.0, size=(60, 2)),
        "beta": rng.beta(2.0, 3.0, size=(60, 2)),
    }[family]
    model = fit(Mixture(family, 2, random_state=0, max_iter=20), X)
    assert np.diff(model.lower_bounds_).min() > -1e-9
    assert model.score(X) == pytest.approx(model.score_samples(X).mean())
    drawn, _ = model.sample(40)
    assert np.isfinite(model.score(drawn))
    n = model._n_parameters()
    assert model.aic(X) == pytest.approx(-2 * 60 * model.score(X) + 2 * n)
    assert model.bic(X) == pytest.approx(-2 * 60 * model.score(X) + np.log(60) * n)
