"""Documents of words from topics that are hidden: likelihoods, draws, and the online loop.

A document has counts ``v`` of D words, drawn from a topic ``h ~ Dirichlet(α)``. Its statistics are

    E[log h_j | v] = ψ(v_j + α_j) - ψ(n + α₀) = E[log h_j] + ∂ log p(v) / ∂α_j,

with ``n = Σ v_j`` and ``α₀ = Σ α_j``. The derivative has a term only for each word that occurs,
which is what makes the cost of a document that of its distinct words.

Documents come as sparse rows: those of document i are the entries ``indptr[i] .. indptr[i+1] - 1``
of ``indices`` (words) and ``counts``.
"""

import numpy as np

from ..options import inlined, kernel
from ..rows import block_width, read_block, whole_groups
from ..special import log_factorial
from .newton import (
    FEW,
    LARGEST_FACTOR,
    digamma_rise,
    log_rise,
    maximum,
    own_statistics,
)

# Products between these can be multiplied once more without overflow or underflow.
_SMALL, _LARGE = 1e-150, 1e150


@inlined
def sparse_rows_of_block(n_columns):
    """How many rows of an array are read at a time: the block should stay in the cache."""
    return whole_groups(min(max(131072 // n_columns, 8), 256))


@kernel
def sparse_rows(rows, n_rows, indptr, indices, counts):
    """Take the nonzero entries of an array's rows.

    Returns the number of the first entry (row by row) that is not a count, or -1.
    """
    n_columns = rows.offsets.shape[0]
    size = sparse_rows_of_block(n_columns)
    width = block_width(size)
    block = np.zeros(n_columns * width)
    at = 0
    indptr[0] = 0
    for first in range(0, n_rows, size):
        n = min(size, n_rows - first)
        read_block(rows, first, n, block, width)
        for i in range(n):
            for c in range(n_columns):
                v = block[c * width + i]
                if v != 0.0:
                    if not (v > 0.0 and v == np.floor(v) and v < np.inf):
                        return (first + i) * n_columns + c
                    indices[at] = c
                    counts[at] = v
                    at += 1
            indptr[first + i + 1] = at
    return -1


@kernel
def log_likelihoods(indptr, indices, counts, alpha, out):
    """``out[i]``: the log of the probability of the counts of document i, given its length."""
    total = alpha.sum()
    for i in range(out.shape[0]):
        length = 0.0
        value = 0.0
        for p in range(indptr[i], indptr[i + 1]):
            v = float(counts[p])
            length += v
            value += log_rise(alpha[indices[p]], v) - log_factorial(v)
        out[i] = value + log_factorial(length) - log_rise(total, length)


@kernel
def add_gradient(indptr, indices, counts, start, stop, weights, alpha, total, gradient):
    """Add the documents' part of ``∂ log p(v) / ∂α_j`` that is j's own.

    Returns the common part, and the sum of the documents' log-likelihoods. The gradient is made
    of ``1 / (α_j + c)`` for ``c = 0 .. v_j - 1``, and the likelihood of the product of the same
    factors, of which one logarithm is taken for many words.
    """
    common = 0.0
    log_likelihood = 0.0
    for i in range(start, stop):
        w = weights[i] if weights.shape[0] > 0 else 1.0
        if w <= 0.0:
            continue
        length = 0.0
        value = 0.0
        products = 1.0
        for p in range(indptr[i], indptr[i + 1]):
            j = indices[p]
            v = float(counts[p])
            a = alpha[j]
            length += v
            value -= log_factorial(v)
            if v <= FEW and a < LARGEST_FACTOR:
                slope = 0.0
                product = 1.0
                c = 0.0
                while c < v:
                    slope += 1.0 / (a + c)
                    product *= a + c
                    c += 1.0
                gradient[j] += w * slope
                if product > _SMALL and product < _LARGE:
                    products *= product
                    if products < _SMALL or products > _LARGE:
                        value += np.log(products)
                        products = 1.0
                else:
                    value += np.log(product)
            else:
                gradient[j] += w * digamma_rise(a, v)
                value += log_rise(a, v)
        common += w * digamma_rise(total, length)
        value += np.log(products) + log_factorial(length) - log_rise(total, length)
        log_likelihood += w * value
    return common, log_likelihood


@inlined
def next_word(i, words, cumulative):
    """Word ``i`` of a document of which ``words[:i]`` are drawn: from Pólya's urn.

    It is a new draw from α with probability ``α₀ / (α₀ + i)``, and else a copy of an earlier word:
    the same law as words drawn from a topic that was drawn first, but for any α, however small,
    without the topic, whose entries would be rounded to zero.
    """
    total = cumulative[cumulative.shape[0] - 1]
    u = np.random.random() * (total + i)  # noqa: NPY002 (numba's, seeded by the caller)
    if u >= total:
        return words[min(int(u - total), i - 1)]
    low, high = 0, cumulative.shape[0] - 1
    while low < high:  # the first entry above u
        middle = (low + high) // 2
        if cumulative[middle] > u:
            high = middle
        else:
            low = middle + 1
    return low


@kernel
def draw_words(cumulative, starts, seed, words):
    """Draw documents; the words of document i are ``words[starts[i] : starts[i + 1]]``."""
    np.random.seed(seed)  # noqa: NPY002 (numba's, of this thread)
    for i in range(starts.shape[0] - 1):
        document = words[starts[i] : starts[i + 1]]
        for t in range(starts[i + 1] - starts[i]):
            document[t] = next_word(t, document, cumulative)


@kernel
def add_pseudo_gradient(lengths, n_lengths, n_pseudo, alpha, cumulative, seen, words, gradient):
    """``add_gradient`` for ``n_pseudo`` documents drawn from the model, of the given lengths."""
    total = cumulative[cumulative.shape[0] - 1]
    common = 0.0
    for p in range(n_pseudo):
        length = lengths[p % n_lengths]
        for t in range(length):
            j = next_word(t, words, cumulative)
            words[t] = j
            gradient[j] += 1.0 / (alpha[j] + seen[j])
            seen[j] += 1.0
        common += digamma_rise(total, float(length))
        for t in range(length):
            seen[words[t]] = 0.0
    return common


@kernel
def online(
    indptr, indices, counts, batch_size, rates, weights, alpha, memory, keep, n_pseudo, seed
):
    """Online EM: one step ``α ← M(ρ S(V_t|α) + (1 - ρ) s)`` for each batch of documents, in place.

    ``rates[t]`` is η of step t and ``ρ = η / (1 + η)``. With ``keep``, ``s`` is ``memory``, which
    becomes what M was given; without it, ``s = S(α)``: exactly if ``n_pseudo`` is zero, or else
    the mean over as many documents drawn from the model, their lengths those of the batch.
    Returns the number of the step that found no maximum, or -1, and the sum of the documents'
    log-likelihoods, each under the α of its step, times their weights.
    """
    n_words = alpha.shape[0]
    n_documents = indptr.shape[0] - 1
    gradient = np.empty(n_words)
    target = np.empty(n_words)
    seen = np.zeros(n_words)
    cumulative = np.empty(n_words)
    lengths = np.empty(batch_size, np.int64)
    words = np.empty(0, np.int64)
    step = 0
    log_likelihood = 0.0
    if n_pseudo > 0:
        np.random.seed(seed)  # noqa: NPY002 (numba's, of this thread)
    for start in range(0, n_documents, batch_size):
        stop = min(start + batch_size, n_documents)
        eta = rates[step]
        step += 1
        weight = float(stop - start)
        if weights.shape[0] > 0:
            weight = 0.0
            for i in range(start, stop):
                weight += weights[i]
        if not weight > 0.0:
            continue
        rho = eta / (1.0 + eta) if eta < np.inf else 1.0
        total = alpha.sum()
        for j in range(n_words):
            gradient[j] = 0.0
        common, gained = add_gradient(
            indptr, indices, counts, start, stop, weights, alpha, total, gradient
        )  # fmt: skip
        log_likelihood += gained
        own_statistics(alpha, target)
        if keep:
            for j in range(n_words):
                new = target[j] + (gradient[j] - common) / weight
                memory[j] = rho * new + (1.0 - rho) * memory[j]
                target[j] = memory[j]
        else:
            # Both parts are S(α) plus a gradient.
            for j in range(n_words):
                target[j] += rho * (gradient[j] - common) / weight
        if n_pseudo > 0 and not keep:
            longest = 0
            kept = 0
            for i in range(start, stop):
                if weights.shape[0] > 0 and weights[i] <= 0.0:
                    continue
                length = 0
                for p in range(indptr[i], indptr[i + 1]):
                    length += int(counts[p])
                lengths[kept] = length
                kept += 1
                longest = max(longest, length)
            if words.shape[0] < longest:
                words = np.empty(longest, np.int64)
            running = 0.0
            for j in range(n_words):
                gradient[j] = 0.0
                running += alpha[j]
                cumulative[j] = running
            common = add_pseudo_gradient(
                lengths, kept, n_pseudo, alpha, cumulative, seen, words, gradient
            )  # fmt: skip
            for j in range(n_words):
                target[j] += (1.0 - rho) * (gradient[j] - common) / n_pseudo
        if not maximum(target, alpha):
            return step - 1, log_likelihood
    return -1, log_likelihood
