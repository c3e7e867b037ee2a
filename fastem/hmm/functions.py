"""Recursions of hidden Markov models over log-likelihoods that somebody else has computed."""

from __future__ import annotations

from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from .. import checks
from ..data.sequences import check_lengths
from ..kernels.hmm.given import (
    FINE,
    NOT_DONE,
    WRONG_START,
    WRONG_TRANSITIONS,
    WRONG_VALUES,
    decode_at_once,
    decode_given,
    forward_at_once,
    forward_given,
    sample_given,
    smooth_at_once,
    smooth_given,
)
from ..kernels.hmm.usages import absorbing_usages, fixed_length_usages
from ..kernels.options import limited_to
from ..lengths import Lengths
from ..parallel import in_order

__all__ = ["ExpectedTransitions", "Forward", "ForwardBackward", "Occupancies", "Viterbi",
           "expected_transitions", "forward", "forward_backward", "occupancies", "sample_states",
           "viterbi"]  # fmt: skip

_DOUBLE, _INTEGER = np.dtype(float), np.dtype(np.int64)
# States times steps of the sequences that a thread takes at a time.
_RUN_ENTRIES = 2**16
_MOST_RUNS = 64

# Looking up attributes of modules takes a tenth of a call of ten steps.
_ARRAY, _contiguous, _empty, _tuple = np.ndarray, np.ascontiguousarray, np.empty, tuple.__new__


class Forward(NamedTuple):
    """What :func:`forward` returns."""

    #: ``log p(x)``: a number, or one for each sequence if ``lengths`` were given.
    log_likelihood: float | np.ndarray
    #: ``P(z_t = k | x_1 .. x_t)``, (n_rows, n_states).
    filtered: np.ndarray
    #: ``log p(x_t | x_1 .. x_{t-1})``, (n_rows,); their sum over a sequence is ``log p(x)``.
    log_scales: np.ndarray


class ForwardBackward(NamedTuple):
    """What :func:`forward_backward` returns."""

    #: ``log p(x)``: a number, or one for each sequence if ``lengths`` were given.
    log_likelihood: float | np.ndarray
    #: ``P(z_t = k | x)``, (n_rows, n_states).
    posteriors: np.ndarray
    #: ``Σ_t P(z_t = i, z_{t+1} = j | x)`` over all sequences, (n_states, n_states).
    transitions: np.ndarray


class ExpectedTransitions(NamedTuple):
    """What :func:`expected_transitions` returns."""

    #: ``log p(x)``: a number, or one for each sequence if ``lengths`` were given.
    log_likelihood: float | np.ndarray
    #: ``P(z_1 = k | x)``, summed over all sequences, (n_states,).
    start: np.ndarray
    #: ``Σ_t P(z_t = i, z_{t+1} = j | x)`` over all sequences, (n_states, n_states).
    transitions: np.ndarray


class Viterbi(NamedTuple):
    """What :func:`viterbi` returns."""

    #: ``max_z log p(x, z)``: a number, or one for each sequence if ``lengths`` were given.
    log_probability: float | np.ndarray
    #: The likeliest path, (n_rows,).
    states: np.ndarray


class Occupancies(NamedTuple):
    """What :func:`occupancies` returns."""

    #: The expected number of steps that each state is visited in, (n_states,).
    visits: np.ndarray
    #: The expected number of transitions out of each state, (n_states,).
    departures: np.ndarray


def forward(log_likelihoods, startprob, transmat, lengths=None, *, n_jobs=None) -> Forward:
    """The forward recursion: likelihood, and probabilities of states given what came so far.

    Parameters
    ----------
    log_likelihoods : array-like of shape (n_rows, n_states)
        ``log p(x_t | z_t = k)``, up to a constant of each row; minus infinity for what cannot be.
        Several sequences lie one after another.
    startprob : array-like of shape (n_states,)
        Probabilities of the first state; zeros are allowed.
    transmat : array-like of shape (n_states, n_states)
        Probabilities of the next state, a row for each state; zeros are allowed.
    lengths : array-like of int, optional
        The numbers of rows of the sequences; by default all rows are one.
    n_jobs : int, optional
        Threads that share several sequences; None: as many as there are cores, one inside a
        worker. No influence on the result.

    Returns
    -------
    Forward
        With ``log_likelihood``, ``filtered`` and ``log_scales``. A sequence that cannot be has the
        log-likelihood minus infinity, and probabilities of zero from the step on that cannot be.

    Raises
    ------
    ValueError
        If sizes differ, log-likelihoods are NaN or plus infinity, or probabilities are none.

    Examples
    --------
    >>> import numpy as np
    >>> from fastem import functional
    >>> log_likelihoods = np.log([[0.9, 0.2], [0.1, 0.8]])
    >>> found = functional.forward(log_likelihoods, [0.5, 0.5], [[0.7, 0.3], [0.3, 0.7]])
    >>> round(float(np.exp(found.log_likelihood)), 4)
    0.1985
    >>> found.filtered.round(3)
    array([[0.818, 0.182],
           [0.174, 0.826]])
    """
    if lengths is None and type(log_likelihoods) is _ARRAY and log_likelihoods.dtype is _DOUBLE:
        # For a few rows, anything more in Python would take longer than the recursion.
        try:
            x = _contiguous(log_likelihoods)
            filtered, log_scales = _empty(x.shape), _empty(len(x))
            score = _at_once.forward(
                x, _contiguous(startprob), _contiguous(transmat), filtered, log_scales
            )
        except (TypeError, ValueError):  # no arrays of doubles of these dimensions
            score = NOT_DONE
        if score == score:
            return _tuple(Forward, (score, filtered, log_scales))
    x, start, matrix, runs = _checked(log_likelihoods, startprob, transmat, lengths)
    filtered, log_scales = np.empty(x.shape), np.empty(len(x))

    def one(run):
        rows, part, scores = run
        return forward_given(
            x[rows], part, start, matrix, False, filtered[rows], log_scales[rows], scores
        )

    score = _taken(one, runs, (x, start, matrix), lengths, n_jobs)
    return Forward(score, filtered, log_scales)


def forward_backward(
    log_likelihoods, startprob, transmat, lengths=None, *, n_jobs=None
) -> ForwardBackward:
    """Forward and backward: posteriors of states, and expected transitions.

    Parameters
    ----------
    log_likelihoods, startprob, transmat, lengths, n_jobs
        As for :func:`forward`.

    Returns
    -------
    ForwardBackward
        With ``log_likelihood``, ``posteriors`` and ``transitions``. A sequence that cannot be has
        the log-likelihood minus infinity and posteriors of zero, and adds no transitions.

    Raises
    ------
    ValueError
        As for :func:`forward`.

    Examples
    --------
    >>> import numpy as np
    >>> from fastem import functional
    >>> log_likelihoods = np.log([[0.9, 0.2], [0.1, 0.8]])
    >>> found = functional.forward_backward(log_likelihoods, [0.5, 0.5], [[0.7, 0.3], [0.3, 0.7]])
    >>> found.posteriors.round(3)
    array([[0.703, 0.297],
           [0.174, 0.826]])
    >>> found.transitions.round(3)
    array([[0.159, 0.544],
           [0.015, 0.282]])
    """
    score, gamma, _, transitions = _smoothed(log_likelihoods, startprob, transmat, lengths, n_jobs)
    return ForwardBackward(score, gamma, transitions)


def expected_transitions(
    log_likelihoods, startprob, transmat, lengths=None, *, n_jobs=None
) -> ExpectedTransitions:
    """What an M-step of the chain needs: expected first states and transitions.

    Parameters
    ----------
    log_likelihoods, startprob, transmat, lengths, n_jobs
        As for :func:`forward`.

    Returns
    -------
    ExpectedTransitions
        With ``log_likelihood``, ``start`` and ``transitions``, summed over sequences. A sequence
        that cannot be has the log-likelihood minus infinity and adds nothing.

    Raises
    ------
    ValueError
        As for :func:`forward`.

    Examples
    --------
    One step of EM for the chain, with a neural network for the emissions, say:

    >>> import numpy as np
    >>> from fastem import functional
    >>> log_likelihoods = np.log([[0.9, 0.2], [0.1, 0.8], [0.9, 0.1]])
    >>> found = functional.expected_transitions(
    ...     log_likelihoods, [0.5, 0.5], [[0.7, 0.3], [0.3, 0.7]]
    ... )
    >>> (found.transitions / found.transitions.sum(axis=1, keepdims=True)).round(2)
    array([[0.53, 0.47],
           [0.6 , 0.4 ]])
    """
    score, _, start, transitions = _smoothed(log_likelihoods, startprob, transmat, lengths, n_jobs)
    return ExpectedTransitions(score, start, transitions)


def viterbi(log_likelihoods, startprob, transmat, lengths=None, *, n_jobs=None) -> Viterbi:
    """The likeliest path of states.

    Parameters
    ----------
    log_likelihoods, startprob, transmat, lengths, n_jobs
        As for :func:`forward`.

    Returns
    -------
    Viterbi
        With ``log_probability`` and ``states``. The log-probability of a sequence that cannot be
        is minus infinity, and its states mean nothing.

    Raises
    ------
    ValueError
        As for :func:`forward`.

    Examples
    --------
    >>> import numpy as np
    >>> from fastem import functional
    >>> log_likelihoods = np.log([[0.9, 0.2], [0.1, 0.8]])
    >>> functional.viterbi(log_likelihoods, [0.5, 0.5], [[0.7, 0.3], [0.3, 0.7]]).states
    array([0, 1])
    """
    if lengths is None and type(log_likelihoods) is _ARRAY and log_likelihoods.dtype is _DOUBLE:
        try:
            x = _contiguous(log_likelihoods)
            states = _empty(len(x), _INTEGER)
            score = _at_once.decode(x, _contiguous(startprob), _contiguous(transmat), states)
        except (TypeError, ValueError):
            score = NOT_DONE
        if score == score:
            return _tuple(Viterbi, (score, states))
    x, start, matrix, runs = _checked(log_likelihoods, startprob, transmat, lengths)
    states = np.empty(len(x), dtype=np.int64)

    def one(run):
        rows, part, scores = run
        return decode_given(x[rows], part, start, matrix, states[rows], scores)

    return Viterbi(_taken(one, runs, (x, start, matrix), lengths, n_jobs), states)


def sample_states(
    log_likelihoods, startprob, transmat, lengths=None, *, n_samples=1, random_state=None
) -> np.ndarray:
    """Paths of states drawn from their posterior: forward, and draws from the end backward.

    Parameters
    ----------
    log_likelihoods, startprob, transmat, lengths
        As for :func:`forward`.
    n_samples : int, default=1
        The number of paths of each sequence.
    random_state : int, numpy.random.Generator or None
        The seed, or the generator that draws.

    Returns
    -------
    ndarray of int of shape (n_samples, n_rows)

    Raises
    ------
    ValueError
        As for :func:`forward`, and if a sequence cannot be: it has no posterior.

    Examples
    --------
    >>> import numpy as np
    >>> from fastem import functional
    >>> log_likelihoods = np.log([[0.9, 0.2], [0.1, 0.8]])
    >>> paths = functional.sample_states(
    ...     log_likelihoods, [0.5, 0.5], [[0.7, 0.3], [0.3, 0.7]], n_samples=10_000, random_state=0
    ... )
    >>> paths.shape
    (10000, 2)
    >>> bool(abs(paths[:, 0].mean() - 0.297) < 0.02)  # the posterior of the second state
    True
    """
    if not (isinstance(n_samples, (int, np.integer)) and n_samples >= 1):
        raise ValueError(f"n_samples must be a whole number, 1 or more; got {n_samples!r}.")
    x, start, matrix, runs = _checked(log_likelihoods, startprob, transmat, lengths, cut=False)
    rng = np.random.default_rng(random_state)
    uniforms = rng.random((len(x), int(n_samples)))
    states = np.empty((int(n_samples), len(x)), dtype=np.int64)
    log_alpha = np.empty(x.shape)

    def one(run):
        _, part, scores = run
        return sample_given(x, part, start, matrix, uniforms, log_alpha, states, scores)

    score = np.atleast_1d(_taken(one, runs, (x, start, matrix), lengths, 1))
    if (score == -np.inf).any():
        raise ValueError(
            f"Sequence {int(np.argmax(score == -np.inf))} has probability zero, and so no "
            "posterior to draw from. Look for rows of minus infinity, and for zeros in startprob "
            "and transmat."
        )
    return states


def occupancies(startprob, transmat, n_steps=None, absorbing=None) -> Occupancies:
    """How often a chain is expected to visit its states, and to leave them.

    Parameters
    ----------
    startprob : array-like of shape (n_states,)
    transmat : array-like of shape (n_states, n_states)
        Rows of absorbing states are not looked at, but for their shape.
    n_steps : int, array-like of int or Lengths, optional
        The length of a sequence, or lengths that are equally likely, or their distribution.
    absorbing : array-like of int or of bool, optional
        Instead of ``n_steps``: the states that end a sequence, as numbers, or as a flag for each.

    Returns
    -------
    Occupancies
        With ``visits`` and ``departures``. For a fixed length T these are ``Σ_{t≤T} δ_t`` and
        ``Σ_{t<T} δ_t`` with ``δ_{t+1} = δ_t A``. With absorbing states, transient ones are visited
        and left ``π (I - Q)⁻¹`` times, Q being the transitions among them, and an absorbing one
        is visited with the probability that the sequence ends there.

    Raises
    ------
    ValueError
        If sizes differ, probabilities are none, or the chain need not ever be absorbed.

    Examples
    --------
    >>> from fastem import functional
    >>> functional.occupancies([1.0, 0.0], [[0.5, 0.5], [0.0, 1.0]], n_steps=3).visits
    array([1.75, 1.25])
    >>> functional.occupancies([1.0, 0.0], [[0.5, 0.5], [0.0, 1.0]], absorbing=[1]).visits
    array([2., 1.])
    """
    if (n_steps is None) == (absorbing is None):
        raise ValueError(
            "Give either n_steps, the length of a sequence, or absorbing, the states that end it."
        )
    start = _array("startprob", startprob, 1)
    n_states = len(start)
    matrix = checks.shaped("transmat", _array("transmat", transmat, 2), (n_states, n_states))
    checks.check_probabilities("startprob", start)
    visits, departures = np.empty(n_states), np.empty(n_states)
    if absorbing is None:
        checks.check_probabilities("transmat", matrix)
        survival = Lengths.of_sequences(n_steps).survival()
        fixed_length_usages(start, matrix, survival, visits, departures)
        return Occupancies(visits, departures)
    flags = _flags(absorbing, n_states)
    matrix = np.where(flags[:, None], np.eye(n_states), matrix)
    checks.check_probabilities("transmat", matrix)
    if not absorbing_usages(start, matrix, flags.astype(np.uint8), visits, departures):
        raise ValueError(
            "The chain need not ever be absorbed: from some state no absorbing one can be reached. "
            "Give that state a way to one, or make it absorbing."
        )
    return Occupancies(visits, departures)


def _flags(absorbing, n_states):
    """A flag for each state."""
    given = np.asarray(absorbing)
    if given.dtype == bool:
        return checks.shaped("absorbing", given, (n_states,))
    if given.ndim != 1 or given.size == 0 or not checks.are_whole(given):
        raise ValueError(
            f"absorbing must be a list of states, or a flag for each; got {absorbing!r}."
        )
    if given.min() < 0 or given.max() >= n_states:
        raise ValueError(f"absorbing must be states, 0 .. {n_states - 1}; got {absorbing!r}.")
    return np.isin(np.arange(n_states), given)


# What these have in common -----------------------------------------------------------------------


class _AtOnce:
    """Kernels for one sequence in arrays that are plain: a call is the check of their types.

    They compare sizes, look at values and compute. Each is compiled when it is first used.
    """

    @cached_property
    def forward(self):
        return limited_to(forward_at_once, *self._given, np.ones((1, 1)), np.ones(1))

    @cached_property
    def smooth(self):
        table, row = np.ones((1, 1)), np.ones(1)
        return limited_to(smooth_at_once, *self._given, table, row, table)

    @cached_property
    def decode(self):
        return limited_to(decode_at_once, *self._given, np.ones(1, _INTEGER))

    @property
    def _given(self):
        given = np.ones((1, 1)), np.ones(1), np.ones((1, 1))
        for array in given:
            array.flags.writeable = False
        return given


_at_once = _AtOnce()


def _smoothed(log_likelihoods, startprob, transmat, lengths, n_jobs):
    """Log-likelihoods, posteriors, and sums of those of first steps and of transitions."""
    if lengths is None and type(log_likelihoods) is _ARRAY and log_likelihoods.dtype is _DOUBLE:
        try:
            x, matrix = _contiguous(log_likelihoods), _contiguous(transmat)
            gamma, start, transitions = _empty(x.shape), _empty(len(matrix)), _empty(matrix.shape)
            score = _at_once.smooth(x, _contiguous(startprob), matrix, gamma, start, transitions)
        except (TypeError, ValueError):
            score = NOT_DONE
        if score == score:
            return score, gamma, start, transitions
    x, start, matrix, runs = _checked(log_likelihoods, startprob, transmat, lengths)
    n_states = len(start)
    gamma, totals = np.empty(x.shape), np.empty(len(x))
    # Each run has its own, which are added in the order of the runs.
    firsts = np.zeros((len(runs), n_states))
    transitions = np.zeros((len(runs), n_states, n_states))

    def one(item):
        number, (rows, part, scores) = item
        return smooth_given(
            x[rows], part, start, matrix, gamma[rows], totals[rows], firsts[number],
            transitions[number], scores,
        )  # fmt: skip

    score = _taken(one, runs, (x, start, matrix), lengths, n_jobs, numbered=True)
    if len(runs) == 1:
        return score, gamma, firsts[0], transitions[0]
    return score, gamma, firsts.sum(axis=0), transitions.sum(axis=0)


def _taken(one, runs, arrays, lengths, n_jobs, numbered=False):
    """Let ``one`` take each run; returns the log-likelihood, or that of each sequence."""
    if len(runs) == 1:
        problems = [one((0, runs[0]) if numbered else runs[0])]
    else:
        problems = in_order(one, list(enumerate(runs)) if numbered else runs, n_jobs)
    for problem in problems:
        if problem != FINE:
            _explain(problem, *arrays)
    if lengths is None:
        return float(runs[0][2][0])
    return runs[0][2] if len(runs) == 1 else np.concatenate([scores for _, _, scores in runs])


def _checked(log_likelihoods, startprob, transmat, lengths, cut=True):
    """The arrays as kernels take them, and runs of sequences for threads.

    A run is a slice of rows, the lengths of its sequences, and room for their log-likelihoods.
    Kernels look at the values.
    """
    x = _array("log_likelihoods", log_likelihoods, 2)
    start = _array("startprob", startprob, 1)
    matrix = _array("transmat", transmat, 2)
    n_rows, n_states = x.shape
    if n_rows == 0 or n_states == 0:
        raise ValueError(
            "log_likelihoods must have the shape (rows, states), with one or more of each; got "
            f"{x.shape}."
        )
    if start.shape != (n_states,):
        why = ", one for each column of log_likelihoods"
        checks.shaped("startprob", start, (n_states,), why)
    if matrix.shape != (n_states, n_states):
        why = ", one row and one column for each column of log_likelihoods"
        checks.shaped("transmat", matrix, (n_states, n_states), why)
    if lengths is None:
        return x, start, matrix, [(slice(None), np.array([n_rows]), np.empty(1))]
    lengths = check_lengths(lengths, n_rows)
    if not cut:
        return x, start, matrix, [(slice(None), lengths, np.empty(len(lengths)))]
    return x, start, matrix, _runs(lengths, n_states)


def _runs(lengths, n_states):
    """Runs of sequences of about equal work, which depend on the sizes alone."""
    ends = np.cumsum(lengths)
    n_runs = min(max(int(ends[-1]) * n_states // _RUN_ENTRIES, 1), _MOST_RUNS, len(lengths))
    goals = ends[-1] * np.arange(1, n_runs) // n_runs
    edges = np.unique([0, *np.searchsorted(ends, goals, side="right"), len(lengths)])
    starts = np.concatenate([[0], ends])
    return [
        (slice(int(starts[a]), int(starts[b])), lengths[a:b], np.empty(b - a))
        for a, b in pairwise(edges.tolist())
    ]


def _array(name, values, n_axes):
    """Doubles whose rows lie one after another, of so many axes."""
    if not (type(values) is np.ndarray and values.dtype is _DOUBLE and values.flags.carray):
        # Kernels are compiled for arrays that can be written to.
        values = checks.numbers(name, checks.unmasked(name, values))
        values = np.require(values, requirements="CAW")
    if values.ndim != n_axes:
        raise ValueError(
            f"{name} must be an array of {n_axes} dimension{'s' if n_axes > 1 else ''}; got the "
            f"shape {values.shape}."
        )
    return values


def _explain(problem, x, start, matrix):
    """Raise ``ValueError`` for what a kernel found."""
    if problem == WRONG_START:
        checks.check_probabilities("startprob", start)
    if problem == WRONG_TRANSITIONS:
        checks.check_probabilities("transmat", matrix)
    if problem == WRONG_VALUES:
        row, column = np.argwhere(~(x < np.inf))[0].tolist()
        raise ValueError(
            f"log_likelihoods must be numbers or minus infinity; row {row}, column {column} is "
            f"{x[row, column]}."
        )
    raise ValueError("startprob and transmat must be probabilities that sum to 1.")
