"""Emissions of float32: computed in float32 where that is as precise as they are."""

import numpy as np
import pytest

from fastem import GaussianHMM
from fastem.data.sequences import Sequences
from fastem.families import Gaussian
from fastem.hmm import long_sequences
from fastem.kernels.hmm import emissions

N_STATES, N_COLUMNS = 4, 9


@pytest.fixture
def types_computed_in(monkeypatch):
    """The types of the factors or scales that emissions were computed with."""
    seen = []
    # Few columns are enough to see it.
    monkeypatch.setattr(type(Gaussian("diag")), "single_columns", 8)

    def watch(module, name):
        kernel = getattr(module, name)

        def watched(*arguments):
            packed = arguments[1]._asdict()
            seen.append(packed.get("factors", packed.get("scales")).dtype)
            return kernel(*arguments)

        monkeypatch.setattr(module, name, watched)

    for name in ("emit_lanes", "emit_alone", "absorb_lanes", "absorb_alone"):
        watch(emissions, name)
    watch(long_sequences, "smooth_forgetting")
    return seen


def sequences(lengths, seed=0, offset=0.0):
    rng = np.random.default_rng(seed)
    means = 1.5 * rng.normal(size=(N_STATES, N_COLUMNS))
    n_rows = sum(lengths)
    states = np.repeat(rng.integers(N_STATES, size=n_rows // 4 + 1), 4)[:n_rows]
    X = offset + means[states] + rng.normal(size=(n_rows, N_COLUMNS))
    return X.astype(np.float32), list(lengths)


def expectations(kind, X, lengths):
    """What one model expects of float32, and of the same rows in float64."""
    start = GaussianHMM(N_STATES, covariance_type=kind, n_iter=2, random_state=0)
    complete = np.nan_to_num(X.astype(float), nan=1.0)
    complete[np.abs(complete) > 1e9] = 0.0
    model = start.fit(complete[:600], [600])._model()
    tables = [start._check_data(data, lengths, reset=True) for data in (X, X.astype(float))]
    return [model.expect(table) for table in tables]


def assert_near(got, expected):
    assert got.log_likelihood == pytest.approx(expected.log_likelihood, rel=1e-6)
    for name in ("start", "transitions", "mass"):
        if name in expected.statistics:
            np.testing.assert_allclose(
                got.statistics[name], expected.statistics[name], rtol=1e-4, atol=1e-5
            )
    ours, exact = got.statistics["moments"], expected.statistics["moments"]
    np.testing.assert_allclose(ours.mean, exact.mean, rtol=1e-6, atol=1e-5)
    np.testing.assert_allclose(ours.scatter, exact.scatter, atol=1e-5 * exact.scatter.max())


@pytest.mark.parametrize("offset", [0.0, 1e4])
@pytest.mark.parametrize(
    "lengths", [[50] * 700, [7, 1, 30_003, 2], [100_001], list(range(1, 280))],
    ids=["lanes", "alone", "long", "mixed"],
)  # fmt: skip
@pytest.mark.parametrize("kind", ["full", "diag"])
def test_statistics_of_float32(kind, lengths, offset, types_computed_in):
    X, lengths = sequences(lengths, offset=offset)
    got, expected = expectations(kind, X, lengths)
    assert np.dtype(np.float32) in types_computed_in
    assert got.log_likelihood != expected.log_likelihood
    assert_near(got, expected)


@pytest.mark.parametrize("kind", ["full", "diag"])
def test_missing_values_among_float32(kind, types_computed_in):
    X, lengths = sequences([50] * 700)
    rng = np.random.default_rng(1)
    X[rng.integers(len(X), size=300), rng.integers(N_COLUMNS, size=300)] = np.nan
    X[777] = np.nan
    assert_near(*expectations(kind, X, lengths))
    assert np.dtype(np.float32) in types_computed_in


@pytest.mark.parametrize("value", [1e5, 1e25])
@pytest.mark.parametrize("kind", ["full", "diag"])
def test_rows_that_float32_is_not_good_enough_for(kind, value, types_computed_in):
    X, lengths = sequences([50] * 700)
    X[1234, 5] = value
    got, expected = expectations(kind, X, lengths)
    assert np.dtype(np.float32) in types_computed_in
    assert got.log_likelihood == expected.log_likelihood
    np.testing.assert_array_equal(got.statistics["mass"], expected.statistics["mass"])


@pytest.mark.parametrize("kind", ["full", "diag"])
def test_fits_and_what_is_inferred(kind):
    X, lengths = sequences([50] * 700, offset=100.0)
    doubles = X.astype(float)

    start = GaussianHMM(N_STATES, covariance_type=kind, n_iter=1, random_state=0)
    start.fit(doubles[:1000], [50] * 20)

    def fit(data, **others):
        # K-means of float32 would number the states otherwise.
        model = GaussianHMM(
            N_STATES, covariance_type=kind, n_iter=4, tol=0, init_params="", **others
        )
        model.startprob_, model.transmat_ = start.startprob_, start.transmat_
        model.means_ = start.means_
        covariances = start.covars_
        model.covars_ = (
            covariances if kind == "full" else np.diagonal(covariances, axis1=1, axis2=2)
        )
        return model.fit(data, lengths)

    model, reference = fit(X), fit(doubles)
    np.testing.assert_allclose(model.means_, reference.means_, atol=1e-4)
    np.testing.assert_allclose(model.covars_, reference.covars_, atol=1e-4)
    np.testing.assert_array_equal(fit(X, n_jobs=1).means_, model.means_)
    assert model.score(X, lengths) == model.score(doubles, lengths)
    np.testing.assert_array_equal(model.predict(X, lengths), model.predict(doubles, lengths))
    np.testing.assert_array_equal(
        model.predict_proba(X, lengths), model.predict_proba(doubles, lengths)
    )


@pytest.mark.parametrize(
    "kind, n_columns, is_single",
    [("diag", 9, False), ("diag", 16, True), ("full", 9, True), ("full", 4, False)],
)
def test_float32_only_where_densities_take_most_of_the_time(kind, n_columns, is_single):
    rng = np.random.default_rng(5)
    X = (rng.normal(size=(80_000, n_columns)) + 3.0).astype(np.float32)
    model = GaussianHMM(4, covariance_type=kind, n_iter=1, random_state=0).fit(X[:500])._model()
    got, expected = (model.expect(Sequences(data, [50] * 1600)) for data in (X, X.astype(float)))
    assert (got.log_likelihood != expected.log_likelihood) == is_single


def test_rounding_of_float32_is_not_taken_for_a_fall(caplog):
    X, lengths = sequences([50] * 700, offset=100.0)
    model = GaussianHMM(N_STATES, covariance_type="full", n_iter=60, tol=-np.inf, random_state=0)
    model.fit(X, lengths)
    history = np.array(model.monitor_.history)
    assert (np.diff(history) < 0).any()  # there is something that could be mentioned
    assert not caplog.records
    assert "_rounding" not in repr(model.monitor_)
    # What is more than rounding is mentioned all the same.
    model.monitor_.report(history[-1] * (1 + 1e-6))
    assert "Model is not converging" in caplog.text
