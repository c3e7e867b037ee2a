"""Counts of documents, tabulated once, so that an iteration does not depend on their number.

With ``T_j(c) = #{n : v_nj > c}``, and ``T(c)`` alike for the lengths of documents,

    Σ_n log p(v_n) = Σ_j Σ_c T_j(c) log(α_j + c) - Σ_c T(c) log(α₀ + c) + constant,

and the derivatives by α follow term by term. Words have tables of their own lengths; what exceeds
the width of the tables, and would make them long, is kept as values and how often they occur.
"""

from collections import namedtuple

import numpy as np

from .dirichlet import log_rise, moved, newton_step, sparse_rows_of_block
from .options import inlined, kernel
from .rows import block_width, read_block
from .special import polygamma_changes

#: The table of word j is ``above[starts[j] : starts[j + 1]]``, and its values beyond the end of
#: that are ``far_values[far_starts[j] : far_starts[j + 1]]``, with the weight ``far_weights``. The
#: last "word" is the length of the document. ``weight`` is that of all documents.
Tables = namedtuple("Tables", "starts above far_starts far_values far_weights weight")

# Below this square of the step, in the norm of the curvature, the rise may be lost in the rounding
# of the likelihood, and a fall by no more than that rounding, relatively, is no fall.
_SURE_RISE = 1e-8
_ROUNDING = 1e-13
_MAX_HALVINGS = 12


@inlined
def _count(j, width, v, w, below, far, n_far):
    """Note that word j occurs v times, with weight w; returns how many far values there are."""
    if v <= width:
        below[int(v) - 1] += w
        return n_far
    far.words[n_far] = j
    far.values[n_far] = v
    far.weights[n_far] = w
    return n_far + 1


#: Values beyond the tables, as they come.
Far = namedtuple("Far", "words values weights")


@kernel
def count_array(rows, n_rows, weights, width, below, length_width, lengths_below, far):
    """Count the values of an array: ``below[j * width + v - 1]`` documents have v of word j.

    ``weights`` is empty when every document counts once. Returns the number of far values, and the
    number of the first entry (row by row) that is not a count, or -1.
    """
    n_columns = rows.offsets.shape[0]
    size = sparse_rows_of_block(n_columns)
    stride = block_width(size)
    block = np.zeros(n_columns * stride)
    lengths = np.empty(size)
    w = np.ones(size)
    n_far = 0
    for first in range(0, n_rows, size):
        n = min(size, n_rows - first)
        read_block(rows, first, n, block, stride)
        if weights.shape[0] > 0:
            w[:n] = weights[first : first + n]
        lengths[:] = 0.0
        wrong = -1
        for c in range(n_columns):
            table = below[c * width : (c + 1) * width]
            for i in range(n):
                v = block[c * stride + i]
                if v != 0.0:
                    if not (v > 0.0 and v == np.floor(v) and v < np.inf):
                        at = (first + i) * n_columns + c
                        wrong = at if wrong < 0 else min(wrong, at)
                        continue
                    lengths[i] += v
                    n_far = _count(c, width, v, w[i], table, far, n_far)
        if wrong >= 0:
            return n_far, wrong
        for i in range(n):
            if lengths[i] > 0.0:
                n_far = _count(
                    n_columns, length_width, lengths[i], w[i], lengths_below, far, n_far
                )  # fmt: skip
    return n_far, -1


@kernel
def count_sparse(
    indptr, indices, counts, n_words, weights, width, below, length_width, lengths_below, far
):
    """``count_array`` for documents as sparse rows, whose entries are known to be counts."""
    n_far = 0
    for i in range(indptr.shape[0] - 1):
        w = weights[i] if weights.shape[0] > 0 else 1.0
        length = 0.0
        for p in range(indptr[i], indptr[i + 1]):
            v = float(counts[p])
            if v > 0.0:
                j = indices[p]
                length += v
                # Not a slice: one for each entry would cost more than the entry.
                if v <= width:
                    below[j * width + int(v) - 1] += w
                else:
                    n_far = _count(j, width, v, w, below, far, n_far)
        if length > 0.0:
            n_far = _count(n_words, length_width, length, w, lengths_below, far, n_far)
    return n_far


@kernel
def table_sizes(below, n_tables, width, far_starts, first, sizes):
    """The length of each table: up to its largest value, or all of it if there are larger ones."""
    for j in range(n_tables):
        size = width
        if far_starts[first + j] == far_starts[first + j + 1]:
            while size > 0 and below[j * width + size - 1] == 0.0:
                size -= 1
        sizes[first + j] = size


@kernel
def fill_tables(below, n_tables, width, far_starts, far_weights, first, starts, above):
    """Sum the numbers of each value to numbers of larger values."""
    for j in range(n_tables):
        at = starts[first + j]
        size = starts[first + j + 1] - at
        running = 0.0
        for p in range(far_starts[first + j], far_starts[first + j + 1]):
            running += far_weights[p]
        for c in range(size - 1, -1, -1):
            running += below[j * width + c]
            above[at + c] = running


@inlined
def _log_sum(tables, j, a):
    """``Σ_n log Γ(v_nj + a) - log Γ(a)``."""
    start, stop = tables.starts[j], tables.starts[j + 1]
    total = 0.0
    for i in range(start, stop):
        total += tables.above[i] * np.log(a + (i - start))
    size = float(stop - start)
    for p in range(tables.far_starts[j], tables.far_starts[j + 1]):
        total += tables.far_weights[p] * log_rise(a + size, tables.far_values[p] - size)
    return total


@inlined
def _derivatives(tables, j, a):
    """``Σ_n ψ(v_nj + a) - ψ(a)`` and minus its derivative by a."""
    start, stop = tables.starts[j], tables.starts[j + 1]
    first = 0.0
    second = 0.0
    for i in range(start, stop):
        r = 1.0 / (a + (i - start))
        term = tables.above[i] * r
        first += term
        second += term * r
    size = float(stop - start)
    for p in range(tables.far_starts[j], tables.far_starts[j + 1]):
        one, two = polygamma_changes(a + size, tables.far_values[p] - size)
        first += tables.far_weights[p] * one
        second += tables.far_weights[p] * two
    return first, second


@kernel
def log_coefficient(tables):
    """The mean of ``log(n! / Π v_j!)``: the same sums at one, as ``v! = Γ(1 + v)``."""
    n_words = tables.starts.shape[0] - 2
    value = _log_sum(tables, n_words, 1.0)
    for j in range(n_words):
        value -= _log_sum(tables, j, 1.0)
    return value / tables.weight


@inlined
def _log_likelihood(tables, alpha):
    n_words = alpha.shape[0]
    value = -_log_sum(tables, n_words, alpha.sum())
    for j in range(n_words):
        value += _log_sum(tables, j, alpha[j])
    return value / tables.weight


@kernel
def log_likelihood(tables, alpha):
    """The mean log-likelihood of the documents, without the multinomial coefficients."""
    return _log_likelihood(tables, alpha)


@kernel
def derivatives(tables, alpha, first, second):
    """Of the mean log-likelihood, each word's own part, and last the part common to all.

    The gradient is ``first[j] - first[D]``; the Hessian has ``-second[j]`` on its diagonal, and
    everywhere ``second[D]``.
    """
    n_words = alpha.shape[0]
    total = alpha.sum()
    for j in range(n_words + 1):
        a = alpha[j] if j < n_words else total
        one, two = _derivatives(tables, j, a)
        first[j] = one / tables.weight
        second[j] = two / tables.weight


@kernel
def ascend(tables, alpha, first, second, level):
    """One safeguarded Newton step up the mean log-likelihood, in place.

    ``first`` and ``second`` are the ``derivatives`` at α, and ``level`` its log-likelihood.
    Returns the new one, and whether the step was Newton's. Where the likelihood is not concave,
    or Newton's step cannot be made to rise, it is ``α_j ← α_j first_j / first_D``: the top of a
    lower bound that touches the likelihood, and so a step that never falls.
    """
    n_words = alpha.shape[0]
    gradient = first[:n_words] - first[n_words]
    new = np.empty(n_words)
    step = np.empty(n_words)
    expected = newton_step(gradient, second[:n_words], second[n_words], step)
    if expected > 0.0:
        least = level - _ROUNDING * abs(level) if expected < _SURE_RISE else level
        scale = 1.0
        for _ in range(_MAX_HALVINGS):
            moved(alpha, step, scale, new)
            reached = _log_likelihood(tables, new)
            if reached >= least:
                alpha[:] = new
                return reached, True
            scale *= 0.5
    for j in range(n_words):
        if first[j] > 0.0:  # a word never seen keeps its α
            new[j] = alpha[j] * (first[j] / first[n_words])
        else:
            new[j] = alpha[j]
    reached = _log_likelihood(tables, new)
    if reached >= level:
        alpha[:] = new
        return reached, False
    return level, False


@kernel
def moments(tables, first, second):
    """``first[j] = Σ_n v_nj`` and ``second[j] = Σ_n v_nj (v_nj - 1)``; the lengths' are the last."""
    for j in range(first.shape[0]):
        start, stop = tables.starts[j], tables.starts[j + 1]
        one = 0.0
        two = 0.0
        for i in range(start, stop):
            one += tables.above[i]
            two += tables.above[i] * 2.0 * (i - start)
        size = float(stop - start)
        for p in range(tables.far_starts[j], tables.far_starts[j + 1]):
            v = tables.far_values[p]
            one += tables.far_weights[p] * (v - size)
            two += tables.far_weights[p] * (v * (v - 1.0) - size * (size - 1.0))
        first[j] = one
        second[j] = two
