"""Online learning of hidden Markov models, and inference as observations come in."""

import numpy as np
import pytest

from fastem import algebra
from fastem.data.sequences import Sequences
from fastem.families import Categorical, Gaussian, Poisson
from fastem.hmm.model import HMMModel
from fastem.hmm.stream import StateFilter
from fastem.learning_rate import Decay
from fastem.lengths import Lengths

from cases.families import assert_same_model, assert_same_statistics
from cases.hmm import ALL, BY_NAME, Hidden, log_densities
from oracles import hmm as hmm_oracles

COMPILED = [case for case in ALL if case.family.compiled]
every = pytest.mark.parametrize("case", ALL, ids=str)
both = pytest.mark.parametrize("absorbing", [False, True], ids=["fixed length", "absorbing"])
memories = pytest.mark.parametrize("keep", [False, True], ids=["model", "statistics"])

LENGTHS = [5, 2, 7, 3, 3, 6, 2, 4, 9, 2, 5, 4]


def step_by_step(model, data, rates, batch_size, memory=None):
    """The algebra's step for each batch; a batch of no weight is no step at all."""
    keep, total, weight = memory is not None, 0.0, 0.0
    for t, first in enumerate(range(0, len(data), batch_size)):
        part = data.part(first, min(first + batch_size, len(data)))
        if part.sample_weight is not None and not part.sample_weight.any():
            continue
        before = model.expect(part)
        model, statistics = algebra.online(model, part, rates[t], memory)
        memory = statistics if keep else None
        total += before.weight * before.log_likelihood
        weight += before.weight
    return model, memory, total / weight


def assert_same_learning(model, data, batch_size, memory, in_kernel):
    rates = 0.8 / np.arange(1, len(data) + 1) ** 0.6
    assert model._in_kernel(data, batch_size) == in_kernel
    want, remembered, mean = step_by_step(model, data, rates, batch_size, memory)
    got, kept, score = model.learn(data, rates, batch_size, memory)
    assert_same_model(got, want, rtol=1e-8, atol=1e-10)
    assert score == pytest.approx(mean, rel=1e-10)
    assert (kept is None) == (memory is None)
    if memory is not None:
        assert_same_statistics(kept, remembered, rtol=1e-8, atol=1e-10)
    return got


# The two memories -----------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["diag", "full", "poisson", "mixture-full"])
@pytest.mark.parametrize("ending", ["absorbed", "cut off", "fixed length"])
def test_the_memories_coincide_if_every_sequence_is_absorbed_and_only_then(name, ending):
    """``S(M(s)) = s`` needs as many arrivals in a transient state as departures from it."""
    case = BY_NAME[name]
    hidden, X, lengths = case.problem(31, [6] * 40, absorbing=ending != "fixed length")
    cut_off = None
    if ending == "cut off":
        # The last row of some sequences is gone, and with it the absorbing state.
        cut_off = (lengths > 1) & (np.arange(len(lengths)) % 2 == 0)
        kept = np.ones(len(X), dtype=bool)
        kept[np.cumsum(lengths)[cut_off] - 1] = False
        X, lengths = X[kept], lengths - cut_off
    data = Sequences(X, lengths, cut_off=cut_off)
    model = case.model(hidden)
    s = model.expect(data).statistics
    fitted = model.maximize(s)
    again = fitted.own(data.horizon if ending == "fixed length" else None)
    gap = np.abs(again["mass"] - s["mass"]).max() / s["mass"].max()
    learned = {}
    for memory in (None, s):
        now, kept = fitted, memory
        for first in range(0, len(data), 10):
            part = data.part(first, first + 10)
            now, statistics = algebra.online(now, part, 0.7, kept)
            kept = None if memory is None else statistics
        learned[memory is None] = now
    if ending == "absorbed":
        assert_same_statistics(again, s, rtol=1e-9, atol=1e-12)
        assert_same_model(learned[True], learned[False], rtol=1e-8, atol=1e-10)
    else:
        assert gap > 1e-4
        assert np.abs(learned[True].transmat - learned[False].transmat).max() > 1e-5


# The loop in the kernel -----------------------------------------------------------------------


@every
@both
@memories
def test_the_loop_is_the_algebra_step_by_step(case, absorbing, keep):
    hidden, X, lengths = case.problem(1, LENGTHS, absorbing=absorbing)
    weights = np.random.default_rng(2).uniform(0.2, 2, len(lengths))
    weights[[3, 4]] = 0.0
    model = case.model(hidden)
    memory = model.own(6) if keep else None
    for batch_size, w in ((1, None), (2, weights), (5, weights)):
        data = Sequences(X, lengths, w)
        learned = assert_same_learning(model, data, batch_size, memory, case.family.compiled)
        # The model that began is as it was.
        for name, array in case.model(hidden).parameters.items():
            np.testing.assert_array_equal(model.parameters[name], array)
        assert not np.array_equal(learned.transmat, model.transmat)


@pytest.mark.parametrize("case", COMPILED, ids=str)
def test_parameters_that_are_held_are_held(case):
    hidden, X, lengths = case.problem(3, LENGTHS)
    for fixed in (("startprob", "transmat"), *((name,) for name in case.family.parameter_names)):
        model = case.model(hidden, fixed=fixed)
        learned = assert_same_learning(model, Sequences(X, lengths), 2, None, True)
        for name in fixed:
            np.testing.assert_array_equal(learned.parameters[name], model.parameters[name])


@memories
def test_large_batches_and_missing_values_are_left_to_python(keep):
    case = BY_NAME["full"]
    hidden, X, lengths = case.problem(4, [60] * 40)
    model = case.model(hidden)
    memory = model.own(60) if keep else None
    assert_same_learning(model, Sequences(X, lengths), 20, memory, False)
    X[np.random.default_rng(5).random(X.shape) < 0.2] = np.nan
    learned = assert_same_learning(model, Sequences(X, lengths), 4, memory, False)
    assert all(np.isfinite(array).all() for array in learned.parameters.values())


@both
@memories
@pytest.mark.parametrize("in_kernel", [False, True])
def test_zeros_of_the_chain_stay_zero_and_rows_sum_to_one(monkeypatch, absorbing, keep, in_kernel):
    case = BY_NAME["categorical"]
    rng = np.random.default_rng(6)
    hidden = case.hidden(rng, 4, absorbing, zeros=True)
    X, lengths = case.draw(hidden, rng, [8] * 150)
    model = case.model(hidden)
    monkeypatch.setattr(HMMModel, "_in_kernel", lambda *_: in_kernel)
    learned, _, _ = model.learn(
        Sequences(X, lengths), np.full(150, 0.3), 1, model.own(8) if keep else None
    )
    assert (learned.startprob[hidden.startprob == 0] == 0).all()
    assert (learned.transmat[hidden.transmat == 0] == 0).all()
    sums = [learned.startprob.sum(), *learned.transmat.sum(axis=1)]
    np.testing.assert_allclose(sums, 1.0, rtol=0, atol=4 * 2**-53)
    if absorbing:
        np.testing.assert_array_equal(learned.transmat[-1], hidden.transmat[-1])


@pytest.mark.parametrize("in_kernel", [False, True])
def test_steps_that_cannot_be_taken_say_so(monkeypatch, in_kernel):
    monkeypatch.setattr(HMMModel, "_in_kernel", lambda *_: in_kernel)
    emissions = {"probabilities": np.full((3, 1, 2), 0.5)}
    chain = np.array([[0.5, 0.5, 0], [0, 0.5, 0.5], [0, 0, 1.0]])
    model = HMMModel(Categorical(2), [1.0, 0, 0], chain, emissions, absorbing=[2])
    data = Sequences(np.zeros((8, 1)), [3, 3, 2])
    with pytest.raises(ValueError, match="probability zero under the model.*online step 3"):
        model.learn(data, np.ones(3), 1)
    ignored = Sequences(np.zeros((8, 1)), [3, 3, 2], [1.0, 1.0, 0.0])
    learned, _, score = model.learn(ignored, np.ones(3), 1)
    assert np.isfinite(score) and np.isfinite(learned.transmat).all()
    trapped = HMMModel(Categorical(2), [1.0, 0, 0], np.eye(3), emissions, absorbing=[2])
    cut = Sequences(np.zeros((2, 1)), [2], None, True)
    with pytest.raises(ValueError, match="need not ever be absorbed"):
        trapped.learn(cut, np.ones(1), 1)


@memories
def test_sequences_that_leave_the_range_of_plain_numbers(keep):
    transmat = [[1 - 1e-300, 1e-300], [0.0, 1.0]]
    rng = np.random.default_rng(7)
    X = np.concatenate([rng.normal(size=(5, 2)) + shift for shift in (0, 50, 0, 50, 0, 50)])
    parameters = {"means": np.array([[0.0, 0], [50, 50]]), "covariances": np.ones((2, 2))}
    hidden = Hidden(np.array([1.0, 0]), np.array(transmat), parameters)
    case = BY_NAME["diag"]
    model = case.model(hidden)
    learned = assert_same_learning(
        model, Sequences(X, [10] * 3), 1, model.own(10) if keep else None, True
    )
    assert 0.01 < learned.transmat[0, 1] < 0.5


# The paper's example --------------------------------------------------------------------------


def test_online_learning_of_an_absorbing_chain_improves_as_the_paper_says():
    """3 transient states, 1 absorbing, 4 columns, 2,000 sequences, η = 0.5 / t^0.9.

    One sequence a step. Soon better than a step of batch EM, and after one pass close to ten.
    """
    rng = np.random.default_rng(8)
    transmat = np.array([[0.6, 0.2, 0.1, 0.1], [0.1, 0.6, 0.2, 0.1], [0.2, 0.1, 0.6, 0.1],
                         [0, 0, 0, 1.0]])  # fmt: skip
    family, K = Gaussian("full", reg_covar=0.0), 4
    means = 2.0 * rng.normal(size=(K, 4))
    spread = np.stack([np.eye(4)] * K)
    parameters = {"means": means, "covariances": spread}
    truth = HMMModel(family, [0.5, 0.3, 0.2, 0.0], transmat, parameters, absorbing=[3])
    data = truth.draw(2000, rng)
    rates = np.array([Decay(0.5, 0.9)(t) for t in range(1, 2001)])
    plain = [[0.25] * 4, [0.25] * 4, [0.25] * 4, [0, 0, 0, 1.0]]
    finals = []
    for _ in range(6):
        parameters = {"means": means + rng.normal(size=(K, 4)), "covariances": 4 * spread}
        start = HMMModel(family, [1 / 3, 1 / 3, 1 / 3, 0.0], plain, parameters, absorbing=[3])
        batches = [start]
        for _ in range(10):
            batches.append(algebra.batch(batches[-1], data))
        early, _, _ = start.learn(data.part(0, 100), rates[:100], 1)
        late, _, _ = start.learn(data, rates, 1)
        losses = [
            -m.expect(data).log_likelihood for m in (start, batches[1], batches[10], early, late)
        ]
        finals.append(losses)
    first, one, ten, early, late = np.array(finals).T
    assert (early < first).all() and (late < early).all()
    assert (late < one).all()
    # Most of what ten steps of batch EM gain.
    assert np.median((first - late) / (first - ten)) > 0.9


# Inference as observations come in ------------------------------------------------------------


def filtered(case, hidden, X):
    """By the forward recursion in logarithms, absorbing states having no next one."""
    log_b = case.oracle.log_density(hidden.parameters, X)
    transmat = hidden.transmat.copy()
    transmat[list(hidden.absorbing)] = 0.0
    return hmm_oracles.filtered(hidden.startprob, transmat, log_b)


@every
def test_the_filter_is_the_forward_recursion(case):
    rng = np.random.default_rng(9)
    hidden = case.hidden(rng, 4, zeros=True)
    X, _ = case.draw(hidden, rng, [25])
    states, total = StateFilter(case.model(hidden)), 0.0
    for _ in range(2):
        states.reset()
        total = 0.0
        for x, p, log_density in zip(X, *filtered(case, hidden, X), strict=True):
            now = states.update(x)
            total += log_density
            np.testing.assert_allclose(now.probabilities, p, rtol=1e-10, atol=1e-14)
            assert now.log_density == pytest.approx(log_density, rel=1e-9, abs=1e-10)
            assert now.log_likelihood == pytest.approx(total, rel=1e-11)
        assert states.n_steps == 25
    assert total == pytest.approx(case.model(hidden).infer(X)[0][0], rel=1e-11)


def test_the_filter_of_an_absorbing_chain():
    case = BY_NAME["diag"]
    hidden = case.hidden(np.random.default_rng(10), 3, absorbing=True)
    X = np.random.default_rng(11).normal(size=(6, 2))
    states = StateFilter(case.model(hidden))
    for x, p in zip(X, filtered(case, hidden, X)[0], strict=True):
        np.testing.assert_allclose(states.update(x).probabilities, p, rtol=1e-11)
    # All that may yet be, ended or cut off, is all that the filter sees.
    model = case.model(hidden)
    ended, cut = (model.infer(Sequences(X, [6], None, c))[0][0] for c in (False, True))
    assert states.log_likelihood == pytest.approx(np.logaddexp(ended, cut), rel=1e-12)


def test_the_filter_and_missing_values():
    case = BY_NAME["full"]
    hidden, X, _ = case.problem(12, [30])
    X[np.random.default_rng(13).random(X.shape) < 0.3] = np.nan
    X[5] = np.nan
    log_b = hmm_oracles.Gaussian("full").log_density(X, hidden.parameters)
    states = StateFilter(case.model(hidden))
    ps, logs = hmm_oracles.filtered(hidden.startprob, hidden.transmat, log_b)
    for x, p, log_density in zip(X, ps, logs, strict=True):
        now = states.update(x)
        np.testing.assert_allclose(now.probabilities, p, rtol=1e-10)
        assert now.log_density == pytest.approx(log_density, rel=1e-10, abs=1e-12)
    assert now.log_likelihood == pytest.approx(case.model(hidden).infer(X)[0][0], rel=1e-12)


def test_the_filter_beyond_the_range_of_plain_numbers():
    case = BY_NAME["diag"]
    rng = np.random.default_rng(14)
    transmat = np.array([[1 - 1e-300, 1e-300, 0], [1e-300, 1, 0], [0.5, 0.25, 0.25]])
    parameters = {"means": np.array([[0.0, 0], [50, 50], [5, 5]]), "covariances": np.ones((3, 2))}
    hidden = Hidden(np.array([1.0, 0, 0]), transmat, parameters)
    X = rng.normal(size=(20, 2)) + 50 * np.repeat([0, 1, 0, 1], 5)[:, None]
    states = StateFilter(case.model(hidden))
    for x, p, log_density in zip(X, *filtered(case, hidden, X), strict=True):
        now = states.update(x)
        np.testing.assert_allclose(now.probabilities, p, rtol=1e-9, atol=1e-300)
        assert now.log_density == pytest.approx(log_density, rel=1e-10)
    log_b = log_densities(case, hidden, X, [20])[0]
    want = hmm_oracles.log_likelihood(hidden.startprob, transmat, log_b)
    assert now.log_likelihood == pytest.approx(want, rel=1e-12) and want < -1000


def test_an_impossible_observation_is_refused_and_changes_nothing():
    probabilities = np.array([[[0.5, 0.5, 0.0]], [[0.0, 0.5, 0.5]]])
    model = HMMModel(
        Categorical(3), [1.0, 0.0], [[0.0, 1.0], [1.0, 0.0]], {"probabilities": probabilities}
    )
    states = StateFilter(model)
    with pytest.raises(ValueError, match=r"Observation 0 .* is impossible"):
        states.update([2])
    assert states.update([0]).log_density == pytest.approx(np.log(0.5))
    with pytest.raises(ValueError, match=r"Observation 1 .* is impossible"):
        states.update([0])
    assert states.n_steps == 1 and states.log_likelihood == pytest.approx(np.log(0.5))
    now = states.update([1])
    np.testing.assert_array_equal(now.probabilities, [0.0, 1.0])
    assert now.log_likelihood == pytest.approx(np.log(0.25)) and states.n_steps == 2
    with pytest.raises(ValueError, match="1 values; got 2"):
        states.update([0, 1])


def test_lengths_are_added_to_those_of_a_horizon_that_is_a_pair():
    model = HMMModel(Poisson(), [1.0], [[1.0]], {"rates": [[2.0]]}, horizon=(4, None))
    after = model.after_learning_from(Sequences(np.ones((2, 1)), [2]), 1.0)
    assert after.horizon == 0.5 * Lengths(4) + 0.5 * Lengths(2)
