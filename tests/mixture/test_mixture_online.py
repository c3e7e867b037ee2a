"""The online loop in a kernel against the plain loop, and full covariances against dense ones."""

import numpy as np
import pytest

from fastem import algebra
from fastem.data.rows import Table
from fastem.exceptions import LearningRateError
from fastem.families import Gaussian
from fastem.learning_rate import Clock, Decay, rates, schedule, step_size
from fastem.mixture.model import MixtureModel

from cases.families import (
    COMPILED,
    GAUSSIAN,
    UNEQUAL,
    assert_same_model,
    assert_same_statistics,
    pair_of,
)
from oracles import families as oracles

ETAS = Decay(0.3, 0.6)


def plain_loop(model, X, sample_weight, etas, batch_size, memory=None):
    """algebra.online over batches; also the mean log-likelihood of rows under their models."""
    keep = memory is not None
    total = weight = 0.0
    for t, start in enumerate(range(0, len(X), batch_size)):
        part = slice(start, start + batch_size)
        table = Table(X[part], None if sample_weight is None else sample_weight[part])
        if sample_weight is not None and not sample_weight[part].any():
            continue
        expectation = model.expect(table)
        total += expectation.log_likelihood * expectation.weight
        weight += expectation.weight
        model, statistics = algebra.online(model, table, etas[t], memory)
        memory = statistics if keep else None
    return model, memory, total / weight


@pytest.mark.parametrize("case", [*COMPILED, UNEQUAL], ids=str)
@pytest.mark.parametrize("keep", [False, True], ids=["model", "statistics"])
@pytest.mark.parametrize("weighted", [False, True], ids=["", "weighted"])
@pytest.mark.parametrize("batch_size", [1, 3, 32])
def test_loop_in_the_kernel_is_the_plain_loop(case, batch_size, keep, weighted):
    pair, X = case.problem(61, n_rows=100)
    w = None
    if weighted:
        w = np.random.default_rng(62).uniform(0.2, 3.0, len(X))
        w[40:44] = 0.0  # some batches are of no weight at all
    model = case.model(pair)
    etas = rates(ETAS, 1, -(-len(X) // batch_size))
    memory = model.own() if keep else None
    got = model.learn(Table(X, w), etas, batch_size, memory)
    want = plain_loop(model, X, w, etas, batch_size, memory)
    assert_same_model(got[0], want[0], rtol=1e-9)
    if keep:
        assert_same_statistics(got[1], want[1], rtol=1e-9)
    else:
        assert got[1] is None
    assert got[2] == pytest.approx(want[2], rel=1e-11)


@pytest.mark.parametrize("case", COMPILED, ids=str)
def test_loop_in_the_kernel_holds_what_is_fixed(case):
    pair, X = case.problem(63, n_rows=60)
    for name in ("weights", *case.family.parameter_names):
        model = case.model(pair, fixed=(name,))
        for batch_size in (1, 30):
            etas = rates(0.2, 1, 60 // batch_size)
            got, _, _ = model.learn(Table(X), etas, batch_size)
            want, _, _ = plain_loop(model, X, None, etas, batch_size)
            np.testing.assert_array_equal(got.parameters[name], model.parameters[name])
            assert_same_model(got, want, rtol=1e-9)


@pytest.mark.parametrize("case", COMPILED, ids=str)
def test_learning_leaves_the_old_model_and_memory_alone(case):
    pair, X = case.problem(64, n_rows=20)
    model = case.model(pair)
    memory = model.own()
    before = {name: array.copy() for name, array in model.parameters.items()}
    remembered = {name: array.copy() for name, array in memory.to_arrays().items()}
    for kept in (None, memory):
        learned, _, _ = model.learn(Table(X), np.full(20, 0.5), 1, kept)
        assert not np.array_equal(learned.weights, before["weights"])
    for name, array in model.parameters.items():
        np.testing.assert_array_equal(array, before[name])
    for name, array in memory.to_arrays().items():
        np.testing.assert_array_equal(array, remembered[name])


@pytest.mark.parametrize("case", COMPILED, ids=str)
@pytest.mark.parametrize("batch_size", [1, 3])
@pytest.mark.filterwarnings("ignore:.*no points left")
def test_a_component_that_dies_stays_finite(case, batch_size):
    """A weight that shrinks with each step is at last too small to divide by with any precision."""
    pair, X = case.problem(69, n_rows=60)
    model = case.model((np.array([0.5, 0.5, 1e-310]), pair[1]))
    learned, _, mean = model.learn(Table(X), np.full(60 // batch_size, 0.3), batch_size)
    assert np.isfinite(mean)
    for array in learned.parameters.values():
        assert np.isfinite(array).all()
    assert learned.weights.sum() == pytest.approx(1.0, rel=1e-12)
    assert np.isfinite(learned.expect(X).log_likelihood)


@pytest.mark.parametrize("case", COMPILED, ids=str)
@pytest.mark.parametrize("batch_size", [1, 3])
@pytest.mark.filterwarnings("ignore:.*no points left")
def test_a_component_whose_memory_is_gone_never_makes_nan(case, batch_size):
    """Running statistics without mass may leave no maximum, which is an error; never NaN."""
    pair, X = case.problem(69, n_rows=60)
    model = case.model((np.array([0.5, 0.5, 1e-310]), pair[1]))
    etas = np.full(60 // batch_size, 0.3)
    try:
        learned, memory, mean = model.learn(Table(X), etas, batch_size, model.own())
    except ValueError as error:
        assert case.family.failure in str(error)
        return
    assert np.isfinite(mean)
    for array in [*learned.parameters.values(), *memory.to_arrays().values()]:
        assert np.isfinite(array).all()


@pytest.mark.parametrize("case", GAUSSIAN, ids=str)
@pytest.mark.parametrize("batch_size", [1, 3])
@pytest.mark.filterwarnings("ignore:.*no points left")
def test_a_component_without_points_keeps_its_parameters(case, batch_size):
    pair, X = case.problem(70, n_rows=300)
    pair[1]["means"][2] += 1e3
    model = case.model((np.array([0.5, 0.5, 1e-306]), pair[1]))
    # Steps small enough that the others' covariances stay well conditioned.
    etas = np.full(300 // batch_size, 0.05)
    learned, _, _ = model.learn(Table(X), etas, batch_size)
    np.testing.assert_array_equal(learned.parameters["means"][2], pair[1]["means"][2])
    want, _, _ = plain_loop(model, X, None, etas, batch_size)
    got, want = learned.parameters, want.parameters
    np.testing.assert_allclose(got["means"], want["means"], rtol=1e-9)
    np.testing.assert_allclose(got["covariances"], want["covariances"], rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(got["weights"], want["weights"], rtol=1e-9, atol=1e-13)


@pytest.mark.parametrize("case", GAUSSIAN, ids=str)
def test_online_with_reg_covar_is_the_plain_loop(case):
    pair, X = case.problem(65, n_rows=96)
    model = MixtureModel(Gaussian(case.name, reg_covar=0.01), *pair)
    # Row by row, full covariances take in the noise once in a while: they have tests of their own.
    for batch_size in (3, 32) if case.name == "full" else (1, 3, 32):
        etas = rates(ETAS, 1, 96 // batch_size)
        got, _, _ = model.learn(Table(X), etas, batch_size)
        want, _, _ = plain_loop(model, X, None, etas, batch_size)
        assert_same_model(got, want, rtol=1e-9)


# Rank-one changes of a full covariance ------------------------------------------------------------


def stream(n_rows, n_columns, seed=66, n_components=3):
    """A model of full covariances, and rows from one somewhat wider and off."""
    oracle = oracles.Gaussian("full", n_columns)
    rng = np.random.default_rng(seed)
    weights = np.array([0.2, 0.3, 0.5])[:n_components]
    parameters = oracle.random(rng, n_components)
    start = (weights / weights.sum(), parameters)
    labels = rng.choice(n_components, size=n_rows, p=start[0])
    lower = np.linalg.cholesky(parameters["covariances"])
    noise = np.einsum("nab,nb->na", lower[labels], rng.normal(size=(n_rows, n_columns)))
    X = parameters["means"][labels] + 0.5 + 1.3 * noise
    return start, X


def dense(start, X, etas, blur=0.0, w=None):
    parameters = start[1]
    return oracles.online_full(
        X, etas, start[0], parameters["means"], parameters["covariances"], blur, w
    )


def learned(start, X, etas, blur=0.0, w=None):
    model = MixtureModel(Gaussian("full", reg_covar=blur), *start)
    model, _, mean = model.learn(Table(X, w), etas, 1)
    return model, mean


def worst(model, expected):
    w, m, S = expected[:3]
    got = model.parameters
    pairs = ((got["weights"], w), (got["means"], m), (got["covariances"], S))
    return max(np.abs(a - b).max() / np.abs(b).max() for a, b in pairs)


@pytest.mark.parametrize("n_columns", [1, 2, 3, 4, 5, 8, 9])
@pytest.mark.parametrize("eta", [0.02, ETAS], ids=["constant", "decay"])
def test_rank_one_is_dense(n_columns, eta):
    start, X = stream(2000, n_columns)
    etas = rates(eta, 1, len(X))
    model, mean = learned(start, X, etas)
    expected = dense(start, X, etas)
    assert worst(model, expected) < 1e-9
    assert mean == pytest.approx(expected[3] / len(X), rel=1e-11)
    # What is left behind is consistent: the factors are those of the covariances.
    again = MixtureModel(model.family, *pair_of(model))
    np.testing.assert_allclose(model.packed.factors, again.packed.factors, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(model.packed.offsets, again.packed.offsets, rtol=1e-12)


@pytest.mark.parametrize("eta", [0.5, 5.0, 1e6, np.inf])
def test_rank_one_refactors_after_large_steps(eta):
    """One component: every step is large, and the noise goes in at once."""
    start, X = stream(40, 3, n_components=1)
    etas = np.full(len(X), eta)
    model, _ = learned(start, X, etas, blur=1.0)
    assert worst(model, dense(start, X, etas, blur=1.0)) < 1e-9


def test_rank_one_among_small_steps_and_large():
    start, X = stream(600, 5)
    etas = np.where(np.arange(600) % 20 == 19, 1.0, 0.05)
    model, _ = learned(start, X, etas)
    assert worst(model, dense(start, X, etas)) < 1e-9


def test_rank_one_with_sample_weights():
    """A batch of one row weighs nothing but its share of the likelihood; none at all is skipped."""
    start, X = stream(500, 3)
    w = np.random.default_rng(67).uniform(0.1, 3, len(X))
    w[::7] = 0.0
    etas = rates(ETAS, 1, len(X))
    model, mean = learned(start, X, etas, w=w)
    kept = w > 0
    expected = dense(start, X[kept], etas[kept], w=w[kept])
    assert worst(model, expected) < 1e-9
    assert mean == pytest.approx(expected[3] / w.sum(), rel=1e-11)


@pytest.mark.parametrize("n_columns", [3, 6])
def test_rank_one_tends_to_dense_as_the_noise_vanishes(n_columns):
    """Noise is put in once in D rows, not at each: an error of the order of reg_covar."""
    start, X = stream(2000, n_columns)
    etas = np.full(len(X), 0.02)
    errors = [
        worst(learned(start, X, etas, blur)[0], dense(start, X, etas, blur))
        for blur in (1e-2, 1e-4, 1e-6)
    ]
    assert errors[2] < 1e-6
    assert errors[0] > 10 * errors[1] > 100 * errors[2]


def test_rank_one_noise_is_all_there_at_the_end():
    """However it is put in, r · reg_covar a step sums to the same."""
    start, X = stream(3000, 4, n_components=1)
    etas = np.full(len(X), 0.05)
    model, _ = learned(start, X, etas, blur=1e-3)
    assert worst(model, dense(start, X, etas, blur=1e-3)) < 1e-9


def test_rank_one_does_not_drift():
    """Without noise a factor is never computed anew; 50 000 changes of it are still exact."""
    start, X = stream(50_000, 3, n_components=2)
    etas = np.full(len(X), 0.002)  # small enough that both components live
    model, _ = learned(start, X, etas)
    assert worst(model, dense(start, X, etas)) < 1e-9
    for covariance in model.parameters["covariances"]:
        np.testing.assert_array_equal(covariance, covariance.T)
        assert np.linalg.eigvalsh(covariance).min() > 0


# Far from the origin --------------------------------------------------------------------------


FAR = 1e8


def far_problem(case, n_rows, seed=68):
    """A model and rows at 1e8, and the same about the origin: the shift is exact in doubles."""
    rng = np.random.default_rng(seed)
    pair = case.pair(rng, 2)
    X = FAR + case.data(case.near(pair, rng, 0.2), rng, n_rows)
    means = FAR + pair[1]["means"]
    far = (pair[0], {**pair[1], "means": means})
    near = (pair[0], {**pair[1], "means": means - FAR})
    return case.model(far), X, case.model(near), X - FAR


def assert_shifted(far, near, atol):
    a, b = far.parameters, near.parameters
    np.testing.assert_allclose(a["means"] - FAR, b["means"], rtol=0, atol=atol)
    np.testing.assert_allclose(a["covariances"], b["covariances"], rtol=0, atol=atol)
    np.testing.assert_allclose(a["weights"], b["weights"], rtol=0, atol=atol)


@pytest.mark.parametrize("case", GAUSSIAN, ids=str)
def test_batch_em_far_from_the_origin(case):
    far, X, near, Z = far_problem(case, 2000)
    assert far.expect(X).log_likelihood == pytest.approx(near.expect(Z).log_likelihood, rel=1e-12)
    # Only the new means are rounded, to 7e-9; the statistics are not.
    far, near = algebra.batch(far, X), algebra.batch(near, Z)
    assert_shifted(far, near, atol=2e-8)
    for _ in range(10):
        far, near = algebra.batch(far, X), algebra.batch(near, Z)
    # Ten more roundings, each of them moved on by EM, which is slow to forget.
    assert_shifted(far, near, atol=2e-7)
    unit = case.oracle.matrices(pair_of(far)[1])
    assert np.linalg.eigvalsh(unit).min() > 0.1


@pytest.mark.parametrize("case", GAUSSIAN, ids=str)
@pytest.mark.parametrize("keep", [False, True], ids=["model", "statistics"])
@pytest.mark.parametrize("batch_size", [1, 50])
def test_online_em_far_from_the_origin(case, keep, batch_size):
    far, X, near, Z = far_problem(case, 2000)
    etas = np.full(2000 // batch_size, 0.01 if batch_size == 1 else 0.3)
    a = far.learn(Table(X), etas, batch_size, far.own() if keep else None)[0]
    b = near.learn(Table(Z), etas, batch_size, near.own() if keep else None)[0]
    # Each step rounds the means by 7e-9 at most; about a hundred of them are remembered.
    assert_shifted(a, b, atol=1e-6)


# Rates ----------------------------------------------------------------------------------------


def test_rates_are_those_of_the_steps():
    np.testing.assert_allclose(rates(Decay(2.0, 0.5), 3, 3), 2.0 / np.sqrt([3, 4, 5]), rtol=1e-15)
    np.testing.assert_array_equal(rates(0.25, 9, 4), np.full(4, 0.25))
    np.testing.assert_array_equal(rates(lambda t: 1 / t, 1, 3), [1, 1 / 2, 1 / 3])
    decay = Decay(0.7, 0.9)
    np.testing.assert_allclose(rates(decay, 5, 20), [decay(t) for t in range(5, 25)], rtol=1e-14)


@pytest.mark.parametrize("wrong", [0.0, -1.0, np.nan, lambda t: 2.0 - t, Decay(1.0, 2000.0)])
def test_rates_that_are_not_positive_are_refused(wrong):
    with pytest.raises(ValueError, match="positive"):
        rates(wrong, 1, 5)


@pytest.mark.parametrize(
    "wrong", [(0.0,), (-1.0,), (np.inf,), (np.nan, 1.0), (1.0, -1.0), (1.0, np.inf)]
)
def test_a_decay_of_impossible_numbers_is_refused(wrong):
    with pytest.raises(LearningRateError, match="of a Decay"):
        Decay(*wrong)


@pytest.mark.parametrize("wrong", [("a",), (True,), (1.0, None), (1.0, "a")])
def test_a_decay_of_what_are_no_numbers_is_refused(wrong):
    with pytest.raises(TypeError, match="of a Decay must be a number"):
        Decay(*wrong)


@pytest.mark.parametrize("wrong", [1e-310, lambda t: 5e-324, Decay(1.0, 1020.0)])
def test_rates_too_small_for_a_double_are_refused(wrong):
    with pytest.raises(LearningRateError, match=r"too small|positive; at step 3 it is 0\.0"):
        rates(wrong, 1, 3)


@pytest.mark.parametrize("weights", [[1e-3], [1e-3, 0.0, 1.0]])
def test_a_part_of_a_batch_of_the_smallest_rate_leaves_the_model_alone(weights):
    least = np.finfo(float).tiny
    etas, _ = schedule(least, Clock(), np.array(weights), 10.0)
    np.testing.assert_array_equal(etas, np.where(np.array(weights) > 0, least, 0.0))


@pytest.mark.parametrize("wrong", ["fast", None, True])
def test_what_is_no_rate_is_refused(wrong):
    with pytest.raises(TypeError, match="learning_rate"):
        rates(wrong, 1, 5)


def test_step_size():
    assert step_size(np.inf) == 1.0
    assert step_size(1.0) == 0.5
    assert step_size(1e-300) == pytest.approx(1e-300)
