"""A long sequence in stretches that fit the cache, each begun where the chain has forgotten.

α at a step is nearly the same whatever it was many steps before, and β whatever it is many steps
later. So a run of steps starts from equal α some steps before it, and each stretch of it from equal
β some steps after it. That is a guess, and it is checked: the neighbor, for which the same step is
not at the edge, must agree. Multiplying by a matrix that has no negative entries never enlarges
Hilbert's distance, ``log(max_k (x_k/y_k) / min_k (x_k/y_k))``, so what an edge is
wrong by, ``AGREED`` at most, no step that follows is wrong by more for it.
"""

import numpy as np

from ..options import kernel
from .backward import backward_alone, posteriors_alone
from .chain import padded_states
from .emissions import absorb_alone, emit_alone
from .forward import forward_alone
from .forward_backward import add_transitions_alone, may_be_lost, sum_steps

#: The largest distance between two vectors that pass for the same.
AGREED = 1e-12

#: What became of a run of steps.
FINE, DIFFERENT, LOST_TO_UNDERFLOW, IMPRECISE = 0, 1, 2, 3


@kernel
def agree(x, y, n):
    """Whether two vectors of states are the same up to a factor: see ``AGREED``."""
    least = np.inf
    most = 0.0
    for k in range(n):
        if x[k] > 0.0 and y[k] > 0.0:
            ratio = x[k] / y[k]
            least = min(least, ratio)
            most = max(most, ratio)
        elif x[k] != 0.0 or y[k] != 0.0:
            return False
    return most - least <= AGREED * least


@kernel
def smooth_forgetting(
    chain, family, batch, s, begin, end, steps, forget, weight, smoothing, counting, arrays, edges,
    sums, out,
):  # fmt: skip
    """Forward and backward over steps ``begin .. end - 1`` of sequence ``s``.

    They are cut into stretches of ``steps``, and ``forget`` steps are gone before and after. The
    first four of ``edges``, (5, size), come back as α before the first step, guessed; α of the last
    step; β before the first step; β of the last step, guessed; where nothing lies beyond, they are
    zero. ``sums`` are of the start, the transitions, the mass and the family, and ``out`` (T, K)
    or empty is filled with posteriors. ``arrays`` are b, α and γ of ``steps + forget + 16`` steps,
    and shifts and totals of as many.

    Returns the log-likelihood, and one of the outcomes above.
    """
    b, alpha, gamma, shifts, totals = arrays
    start, counts, mass, statistics = sums
    n_states = chain.n_states
    size = padded_states(n_states)
    length = batch.lengths[s]
    last = np.zeros(size)
    edges[:] = 0.0
    alpha[:size] = 0.0
    totals[0] = 1.0
    if begin > 0:
        before = min(forget, begin)
        if not emit_alone(chain, family, batch, s, begin - before, begin, False, b, shifts):
            return 0.0, IMPRECISE
        for k in range(n_states):
            alpha[k] = 1.0 / n_states
        forward_alone(chain, size, b, before, before < begin, alpha, totals)
        for k in range(size):
            alpha[k] = alpha[before * size + k]
            edges[0, k] = alpha[k]
        totals[0] = totals[before]
    score = 0.0
    known = begin  # b is known up to here
    for a in range(begin, end, steps):
        z = min(a + steps, end)
        n = z - a
        far = min(z + forget, length) if smoothing else z
        if far > known:
            at = known - a
            if not emit_alone(
                chain, family, batch, s, known, far, False, b[at * size :], shifts[at:]
            ):
                return 0.0, IMPRECISE
            known = far
        forward_alone(chain, size, b, n, a > 0, alpha, totals)
        if smoothing:
            last[:] = 0.0
            for k in range(n_states):
                last[k] = 1.0
            backward_alone(chain, size, b, far - a, last, gamma)
            # The stretch before guessed what this one knows.
            if a > begin:
                if not agree(edges[4], last, n_states):
                    return 0.0, DIFFERENT
            elif begin > 0:
                for k in range(size):
                    edges[2, k] = last[k]
            for k in range(size):
                edges[4, k] = gamma[(n - 1) * size + k]
            if posteriors_alone(size, b, alpha, totals, gamma, 0, n, weight):
                return 0.0, LOST_TO_UNDERFLOW
        elif may_be_lost(alpha[size:], n_states, 1, size, n):
            return 0.0, LOST_TO_UNDERFLOW
        if counting:
            # The first step of all follows no other.
            add_transitions_alone(alpha, b, size, 1 if a == 0 else 0, n, counts)
            if a == 0:
                for k in range(n_states):
                    start[k] += gamma[k]
            absorb_alone(n_states, family, batch, s, a, z, gamma, mass, statistics)
        if out.shape[0] > 0:
            for t in range(n):
                for k in range(n_states):
                    out[a + t, k] = gamma[t * size + k]
        for t in range(far - z):
            for k in range(size):
                b[t * size + k] = b[(n + t) * size + k]
        score += sum_steps(totals, n, shifts)
        for t in range(far - z):
            shifts[t] = shifts[n + t]
        for k in range(size):
            alpha[k] = alpha[n * size + k]
        totals[0] = totals[n]
    if end < length:
        for k in range(size):
            edges[1, k] = alpha[k]
            edges[3, k] = edges[4, k]
    return score, FINE
