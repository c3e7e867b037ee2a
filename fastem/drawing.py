"""Random numbers: normal ones as NumPy draws them, and counts.

Many normal numbers of a ``RandomState`` take half of NumPy's time, and are the same to the bit.
Counts take memory that depends on the number of draws and not on the size of counts.
"""

from __future__ import annotations

import ctypes
from functools import cache

import numpy as np
from scipy import sparse

from .kernels.dirichlet.documents import draw_words
from .kernels.normals import N_WORDS, standard_normals

__all__ = ["MOST_WORDS", "check_drawable", "draw_documents", "draw_topics", "multivariate_normal",
           "standard_normal"]  # fmt: skip

#: Fewer normal numbers are drawn by NumPy: a kernel would first have to be compiled or loaded, or,
#: if it has been, would take as long.
_FEW, _FEW_IF_LOADED = 8192, 2048
_is_loaded = False

#: The largest number of words that are drawn one by one at a time (128 megabytes).
MOST_WORDS = 2**24

_MOST_TRIALS = np.iinfo(np.int64).max


def standard_normal(rng, shape) -> np.ndarray:
    """Normal numbers, the next of this ``RandomState`` or ``Generator``."""
    n = int(np.prod(shape))
    # A subclass may draw otherwise.
    if n < (_FEW_IF_LOADED if _is_loaded else _FEW) or type(rng) is not np.random.RandomState:
        return rng.standard_normal(shape)
    # The generator that a RandomState has. NumPy documents no other way to it that is as quick.
    twister = getattr(rng, "_bit_generator", None)
    if type(twister) is not np.random.MT19937 or not _kernel_draws_as_numpy():
        return rng.standard_normal(shape)
    key, position = _state_of(twister)
    with twister.lock:
        before = position.value
        if not 0 <= before <= N_WORDS:  # a state set by hand, which NumPy does not check
            return rng.standard_normal(shape)
        out = np.empty(n)
        # NumPy makes two numbers at a time and keeps the second. If it has kept one, this is it,
        # and otherwise it keeps another.
        out[0] = rng.standard_normal()
        first = 1
        if position.value != before:
            out[1] = rng.standard_normal()
            first = 2
        last = n - (n - first) % 2
        position.value = standard_normals(key, position.value, out[first:last])
        if last < n:
            out[last] = rng.standard_normal()
    return out.reshape(shape)


def multivariate_normal(rng, covariance, n) -> np.ndarray:
    """Rows of mean zero with this covariance, the next of this generator."""
    n_columns = len(covariance)
    if n * n_columns < _FEW or type(rng) is not np.random.RandomState:
        return rng.multivariate_normal(np.zeros(n_columns), covariance, n, check_valid="ignore")
    _, variances, directions = np.linalg.svd(covariance)
    root = np.sqrt(variances)[:, None] * directions
    return standard_normal(rng, (n, n_columns)) @ root


def _state_of(twister):
    """The words of the state of a Mersenne Twister, and its position, in place."""
    address = twister.ctypes.state_address
    key = np.ctypeslib.as_array((ctypes.c_uint32 * N_WORDS).from_address(address))
    return key, ctypes.c_int.from_address(address + N_WORDS * ctypes.sizeof(ctypes.c_uint32))


@cache
def _kernel_draws_as_numpy() -> bool:
    """Whether this NumPy lays out the state as the kernel takes it, locks, and rounds alike.

    A NumPy whose compiler fused multiplications and additions, or a logarithm that is not that of
    the C library, would round otherwise.
    """
    twister = np.random.MT19937(0)
    twister.random_raw(1000)
    with twister.lock:
        if not twister.lock.acquire(blocking=False):
            return False
        twister.lock.release()
    key, position = _state_of(twister)
    state = twister.state["state"]
    if (key != state["key"]).any() or position.value != state["pos"]:
        return False
    found = np.empty(4096)
    standard_normals(key.copy(), position.value, found)
    global _is_loaded
    _is_loaded = True
    return np.array_equal(found, np.random.RandomState(twister).standard_normal(len(found)))


def check_drawable(n_trials: float) -> None:
    """Raise ``ValueError`` if this number of trials, or words, is more than NumPy can draw."""
    if int(n_trials) > _MOST_TRIALS:
        raise ValueError(
            f"A row of {float(n_trials):.6g} trials cannot be drawn: the most are 2**63 - 1. Give "
            "the number of trials, or the lengths, to draw."
        )


def draw_topics(alpha, n_topics, rng) -> np.ndarray:
    """Points on the simplex from a Dirichlet, all their entries positive."""
    # The logarithm of a gamma variable of shape a < 1 is that of one of shape a + 1, plus
    # log(u) / a, for a uniform u: it cannot be rounded to that of zero.
    shape = (n_topics, len(alpha))
    logs = np.log(rng.standard_gamma(alpha + 1.0, shape))
    logs += np.log1p(-rng.random(shape)) / alpha
    logs -= logs.max(axis=1, keepdims=True)
    points = np.exp(logs)
    points /= points.sum(axis=1, keepdims=True)
    # An entry that is too small for a double lies on the border, where there is no density.
    return np.maximum(points, np.finfo(float).tiny)


def draw_documents(alpha, lengths, rng) -> sparse.csr_array:
    """Documents of these lengths, each with a topic of its own, as sparse rows of counts."""
    if np.sum(lengths, dtype=float) <= MOST_WORDS:
        return _draw_words(alpha, lengths, rng)
    # Only so many words are drawn one by one at a time, and long documents not at all.
    parts, first = [], 0
    while first < len(lengths):
        if lengths[first] > max(len(alpha), MOST_WORDS // 2**10):
            counts = _draw_long_document(alpha, lengths[first], rng)
            parts.append(sparse.csr_array(counts[None]))
            first += 1
            continue
        last, total = first + 1, lengths[first]
        while last < len(lengths) and total + lengths[last] <= MOST_WORDS:
            total += lengths[last]
            last += 1
        parts.append(_draw_words(alpha, lengths[first:last], rng))
        first = last
    return sparse.csr_array(sparse.vstack(parts, format="csr"))


def _draw_words(alpha, lengths, rng):
    """Documents word by word, of which each has seen those before it."""
    starts = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
    words = np.empty(starts[-1], np.int64)
    draw_words(np.cumsum(alpha), starts, int(rng.integers(2**32)), words)
    ones = np.ones(len(words), np.int64)
    X = sparse.csr_array((ones, words, starts), shape=(len(lengths), len(alpha)))
    X.sum_duplicates()
    return X


def _draw_long_document(alpha, length, rng):
    """The counts of a document of any length: its topic is drawn, then all words at once."""
    check_drawable(length)
    topic = draw_topics(alpha, 1, rng)[0]
    return rng.multinomial(int(length), topic / topic.sum())
