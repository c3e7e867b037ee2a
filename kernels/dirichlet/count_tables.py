"""Counts of documents, tabulated once, so that an iteration does not depend on their number.

With ``T_j(c) = #{n : v_nj > c}``, and ``T(c)`` alike for the lengths of documents,

    Σ_n log p(v_n) = Σ_j Σ_c T_j(c) log(α_j + c) - Σ_c T(c) log(α₀ + c) + constant,

and the derivatives by α follow term by term. Words have tables of their own lengths; what exceeds
the width of the tables, and would make them long, is kept as values and how often they occur.
"""

from collections import namedtuple

import numpy as np

from ..options import inlined, kernel
from ..rows import N_FLOATS, block_width, read_block
from ..special import polygamma_changes
from .documents import sparse_rows_of_block
from .newton import copy_into, log_rise, moved, newton_step

#: The table of word j is ``above[starts[j] : starts[j + 1]]``, and its values beyond the end of
#: that are ``far_values[far_starts[j] : far_starts[j + 1]]``, with the weight ``far_weights``. The
#: last "word" is the length of the document. ``weight`` is that of all documents.
Tables = namedtuple("Tables", "starts above far_starts far_values far_weights weight")

# A step rises by half of its square, in the norm of the curvature. If that square is below the
# first number, or below the rounding of the likelihood (relative, so large for huge counts), the
# rise may be lost in the rounding, and a fall by no more than that is no fall. From the last number
# on a step may be too long for Newton's method, and has to be seen to rise.
_SURE_RISE = 1e-8
_ROUNDING = 1e-13
_LONG_STEP = 0.01
_MAX_HALVINGS = 12
_MAX_LEAPS = 20


#: Values beyond the tables, as they come.
Far = namedtuple("Far", "words values weights")

# Columns with no larger value in a block are counted by one pass for each value.
_SMALL = 12


@inlined
def _put_far(far, n_far, j, v, w):
    """Note that word j occurs v times, with weight w; returns how many far values there are."""
    far.words[n_far] = j
    far.values[n_far] = v
    far.weights[n_far] = w
    return n_far + 1


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
    fractions = rows.code < N_FLOATS
    n_far = 0
    for first in range(0, n_rows, size):
        n = min(size, n_rows - first)
        read_block(rows, first, n, block, stride)
        for i in range(n):
            lengths[i] = 0.0
            if weights.shape[0] > 0:
                w[i] = weights[first + i]
        for c in range(n_columns):
            values = block[c * stride : c * stride + n]
            # Each loop by itself vectorizes; one for all three would not.
            wrong = 0
            for i in range(n):
                lengths[i] += values[i]
                wrong += 0 if values[i] >= 0.0 else 1
            largest = 0.0
            for i in range(n):
                largest = values[i] if values[i] > largest else largest
            if largest == np.inf:
                wrong += 1
            if fractions:
                for i in range(n):
                    wrong += 0 if values[i] == np.floor(values[i]) else 1
            if wrong > 0:
                return n_far, _first_wrong(block, stride, n, n_columns, first)
            if largest <= _SMALL:
                # One pass for each value has no branch and vectorizes: measured, 0.5 ns an entry
                # for three values, whatever share of the entries is zero.
                for k in range(1, int(largest) + 1):
                    total = 0.0
                    for i in range(n):
                        total += w[i] if values[i] == k else 0.0
                    below[c * width + k - 1] += total
            else:
                for i in range(n):
                    v = values[i]
                    if v > width:
                        n_far = _put_far(far, n_far, c, v, w[i])
                    elif v > 0.0:
                        below[c * width + int(v) - 1] += w[i]
        for i in range(n):
            if lengths[i] > length_width:
                n_far = _put_far(far, n_far, n_columns, lengths[i], w[i])
            elif lengths[i] > 0.0:
                lengths_below[int(lengths[i]) - 1] += w[i]
    return n_far, -1


@inlined
def _first_wrong(block, stride, n, n_columns, first):
    """The number, row by row, of the first entry of a block that is not a count."""
    for i in range(n):
        for c in range(n_columns):
            v = block[c * stride + i]
            if not (v >= 0.0 and v == np.floor(v) and v < np.inf):
                return (first + i) * n_columns + c
    return -1


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
            length += v
            if v > width:
                n_far = _put_far(far, n_far, indices[p], v, w)
            elif v > 0.0:
                below[indices[p] * width + int(v) - 1] += w
        if length > length_width:
            n_far = _put_far(far, n_far, n_words, length, w)
        elif length > 0.0:
            lengths_below[int(length) - 1] += w
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


@kernel
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


@kernel
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
def log_likelihood(tables, alpha, total):
    """The mean log-likelihood of the documents, without the multinomial coefficients.

    ``total`` is ``α₀``. With ones for it and for each α, it is minus the mean log-coefficient, as
    ``v! = Γ(1 + v)``.
    """
    n_words = alpha.shape[0]
    value = -_log_sum(tables, n_words, total)
    for j in range(n_words):
        value += _log_sum(tables, j, alpha[j])
    return value / tables.weight


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
    lower bound that touches the likelihood, and so a step that never falls; and leaps from there.
    """
    n_words = alpha.shape[0]
    gradient = np.empty(n_words)
    for j in range(n_words):
        gradient[j] = first[j] - first[n_words]
    new = np.empty(n_words)
    step = np.empty(n_words)
    expected = newton_step(gradient, second, second[n_words], step)
    if expected > 0.0:
        rounding = _ROUNDING * abs(level)
        unseen = expected < max(_SURE_RISE, min(rounding, _LONG_STEP))
        least = level - rounding if unseen else level
        scale = 1.0
        for _ in range(_MAX_HALVINGS):
            moved(alpha, step, scale, new)
            reached = log_likelihood(tables, new, new.sum())
            if reached >= least:
                copy_into(new, alpha)
                return reached, True
            scale *= 0.5
    for j in range(n_words):
        if first[j] > 0.0:  # a word never seen keeps its α
            new[j] = alpha[j] * (first[j] / first[n_words])
        else:
            new[j] = alpha[j]
    reached = log_likelihood(tables, new, new.sum())
    if not reached >= level:
        return level, False
    # That step says little about the precision where it is far too large: go by factors of four
    # the way the likelihood rises, for as long as it does. Four may lead beyond the maximum from
    # where the likelihood is not concave yet; then it is two, and then its root.
    slope = 0.0
    for j in range(n_words):
        slope += alpha[j] * gradient[j]
    leap = 4.0
    copy_into(new, alpha)
    n_leaps = 0
    while n_leaps < _MAX_LEAPS:
        factor = leap if slope > 0.0 else 1.0 / leap
        for j in range(n_words):
            new[j] = factor * alpha[j]
        further = log_likelihood(tables, new, new.sum())
        if further > reached:
            reached = further
            copy_into(new, alpha)
            n_leaps += 1
        elif n_leaps == 0 and leap > 1.5:
            leap = np.sqrt(leap)
        else:
            break
    return reached, False


@kernel
def moments(tables, first, second):
    """``first[j] = Σ_n v_nj`` and ``second[j] = Σ_n v_nj (v_nj - 1)``; lengths are the last."""
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
