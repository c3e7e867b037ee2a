"""Forward and backward over one long sequence, shared between threads.

Runs of steps are independent where the chain has forgotten what lies before and after them
(``kernels/hmm/forgetting.py``). A sequence that does not forget in time, or has missing values, is
smoothed as a whole: forward and backward at once, in segments if it is very long.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from ..kernels.hmm.backward import backward_alone, posteriors_alone
from ..kernels.hmm.forgetting import (
    DIFFERENT,
    FINE,
    IMPRECISE,
    LOST_TO_UNDERFLOW,
    agree,
    smooth_forgetting,
)
from ..kernels.hmm.forward import forward_alone
from ..kernels.hmm.forward_backward import add_transitions_alone, may_be_lost, sum_steps
from ..parallel import add_into, in_order
from .workspace import large_enough, workspace

__all__ = ["smooth_long"]

# Steps after which the chain is hoped to have forgotten, one after another.
_FORGET_STEPS = (64, 1024)
# States times steps of a stretch that fits the cache, and of a run of stretches.
_STRETCH_ENTRIES = 2**14
_RUN_ENTRIES = 2**17
_MOST_RUNS = 64
# A whole sequence is cut into this number of stretches for threads.
_STRETCHES = 4
# A sequence of more entries is smoothed in segments, so that they need not all be kept.
_SEGMENT_ENTRIES = 2**23

_NO_ROWS = np.empty((0, 0))


def smooth_long(work, batch, piece, sums):
    """The log-likelihood of a piece's one sequence; None if it was lost to underflow.

    ``work`` is the ``Pass``, and what it counts is added to ``sums``.
    """
    if not batch.missing:
        # What did not do once is not tried again with the same data.
        plans = work.table.plans
        for forget in _FORGET_STEPS:
            if forget <= plans.get("not forgotten", 0):
                continue
            score, outcome = _smooth_runs(work, batch, piece, forget, sums)
            if outcome == IMPRECISE:
                work.precise = False  # and all is done again
            if outcome in (FINE, IMPRECISE):
                return score
            if outcome == LOST_TO_UNDERFLOW:
                return None
            plans["not forgotten"] = forget
    return _smooth_whole(work, batch, piece, sums)


# Runs of steps that have forgotten each other ------------------------------------------------


def _smooth_runs(work, batch, piece, forget, sums):
    """As ``smooth_long``, with what became of it; nothing is added unless all is fine."""
    score, outcome, parts = _add_runs(work, batch, piece, forget, work.smoothing)
    if outcome == LOST_TO_UNDERFLOW and not work.smoothing:
        # What may be lost is certified with β.
        score, outcome, parts = _add_runs(work, batch, piece, forget, True)
    if outcome == FINE:
        add_into(sums, parts)
    return score, outcome


def _add_runs(work, batch, piece, forget, smoothing):
    """The log-likelihood, what became of it, and the sums over all runs."""
    length = int(piece.lengths[0])
    steps = max(_STRETCH_ENTRIES // work.size, 4 * forget)
    n_entries, n_steps = (steps + forget + 16) * work.size, steps + forget + 16
    out = _NO_ROWS if work.out is None else work.out[piece.begin : piece.end]

    def smooth(run):
        arrays = workspace.take(n_entries, n_steps)
        edges = np.empty((5, work.size))
        parts = work.sums()
        start, counts, _, mass, buffers = parts
        score, outcome = smooth_forgetting(
            work.chain, work.computed, batch, 0, *run, steps, forget, work.weight(batch, 0),
            smoothing, work.counting, arrays, edges, (start, counts, mass, buffers), out,
        )  # fmt: skip
        return score, outcome, parts, edges

    sums, total, before = work.sums(), 0.0, None
    for score, outcome, parts, edges in in_order(smooth, _runs(length, work.size), work.n_jobs):
        if outcome != FINE:
            return 0.0, outcome, sums
        if before is not None and not _meet(before, edges, work.n_states, smoothing):
            return 0.0, DIFFERENT, sums
        add_into(sums, parts)
        total += score
        before = edges
    return total, FINE, sums


def _runs(length, size):
    """First and last steps of the runs, which depend on the sizes alone."""
    n_runs = min(max(length * size // _RUN_ENTRIES, _STRETCHES), _MOST_RUNS)
    return list(pairwise(length * i // n_runs for i in range(n_runs + 1)))


def _meet(one, other, n_states, smoothing):
    """Whether a run of steps and the next have found the same where they meet."""
    forward = agree(one[1], other[0], n_states)
    return forward and (not smoothing or agree(one[3], other[2], n_states))


# The whole sequence --------------------------------------------------------------------------


def _smooth_whole(work, batch, piece, sums):
    """Forward over all segments but the last, then all of them backward."""
    size, length = work.size, int(piece.lengths[0])
    per_segment = max(_SEGMENT_ENTRIES // size, 1)
    segments = list(pairwise([*range(0, length, per_segment), length]))
    # α before each segment; a sequence of one segment has it at once.
    befores, score = [np.zeros(size)], 0.0
    backwards = work.smoothing
    for start, stop in segments[:-1]:
        before, part, doubtful = _forward_only(work, batch, start, stop, befores[-1])
        befores.append(before)
        score += part
        # What may be lost is certified with β, which comes from the end of the sequence.
        backwards = backwards or doubtful
    after = np.zeros(size)
    after[: work.n_states] = 1.0
    for segment in reversed(segments):
        part = _smooth_segment(work, batch, piece, *segment, befores.pop(), after, sums, backwards)
        if part is None:
            return None
        if segment is segments[-1]:
            score += part
        if not backwards:
            break  # the other segments are known by now
    return score


def _begin_segment(work, batch, start, stop, before):
    """Arrays as of a workspace, with the emissions of the steps, and α before them.

    They are kept with the data, because fresh memory is slow at first.
    """
    size, n_steps, plans = work.size, stop - start + 16, work.table.plans
    arrays = large_enough(plans.get("buffers"), n_steps * size, n_steps)
    plans["buffers"] = arrays
    b, alpha, _, shifts, totals = arrays
    alpha[:size] = before
    totals[0] = 1.0

    def emit(stretch):
        at = stretch[0] - start
        work.emit(batch, 0, *stretch, False, b[at * size :], shifts[at:])

    work.in_threads(emit, _stretches(start, stop))
    return arrays


def _forward_only(work, batch, start, stop, before):
    """α after a segment, its log-likelihood, and whether something may be lost to underflow."""
    size, n_steps = work.size, stop - start
    b, alpha, _, shifts, totals = _begin_segment(work, batch, start, stop, before)
    forward_alone(work.chain, size, b, n_steps, start > 0, alpha, totals)
    after = alpha[n_steps * size : (n_steps + 1) * size] / totals[n_steps]
    doubtful = may_be_lost(alpha[size:], work.n_states, 1, size, n_steps)
    return after, sum_steps(totals, n_steps, shifts), doubtful


def _smooth_segment(work, batch, piece, start, stop, before, after, sums, backwards):
    """One segment of a long sequence; its log-likelihood, None if it was lost to underflow.

    ``after`` is β after it, and becomes β before it, which ``backwards`` asks for.
    """
    chain, size, n_steps = work.chain, work.size, stop - start
    b, alpha, gamma, shifts, totals = _begin_segment(work, batch, start, stop, before)

    def forward():
        forward_alone(chain, size, b, n_steps, start > 0, alpha, totals)

    def backward():
        backward_alone(chain, size, b, n_steps, after, gamma)

    if backwards:
        work.in_threads(lambda job: job(), [forward, backward])
    else:
        forward()
        if not may_be_lost(alpha[size:], work.n_states, 1, size, n_steps):
            return sum_steps(totals, n_steps, shifts)
        backward()

    def combine(stretch):
        a, z = (edge - start for edge in stretch)
        if posteriors_alone(size, b, alpha, totals, gamma, a, z, work.weight(batch, 0)):
            return None
        parts = work.sums()
        if work.counting:
            # The first step of all follows no other.
            add_transitions_alone(alpha, b, size, max(a, int(start == 0)), z, parts[1])
        work.take(batch, piece, 0, *stretch, gamma[a * size :], parts)
        return parts

    alright = True
    for parts in in_order(combine, _stretches(start, stop), work.n_jobs):
        alright = alright and parts is not None
        if alright:
            add_into(sums, parts)
    return sum_steps(totals, n_steps, shifts) if alright else None


def _stretches(start, stop):
    """A long run of steps cut for threads; whole blocks of rows but for the last."""
    step = -(-(stop - start) // (_STRETCHES * 256)) * 256
    return [(a, min(a + step, stop)) for a in range(start, stop, step)]
