"""Normal random numbers: those that NumPy's ``RandomState`` draws, in half its time.

The Mersenne Twister makes 624 words at a time; two words make a uniform number; Marsaglia's polar
method makes two normal numbers of each pair ``(x, y)`` in the unit disk: ``y f`` and then ``x f``
with ``f = sqrt(-2 log r / r)``, ``r = x² + y²``. NumPy makes one pair after another. Here each step
is done for many pairs at a time, so that all but the logarithms vectorize. All is rounded as in
NumPy, and so the numbers are the same to the bit.
"""

import math

import numpy as np

from .options import inlined, strict_kernel

__all__ = ["N_WORDS", "standard_normals"]

#: The words of the generator's state, and how far apart the words are that are mixed.
N_WORDS = 624
_APART = 397

_HIGHEST_BIT, _LOWER_BITS = np.uint32(0x80000000), np.uint32(0x7FFFFFFF)
_TWIST = np.uint32(0x9908B0DF)
_MASK_7, _MASK_15 = np.uint32(0x9D2C5680), np.uint32(0xEFC60000)
_1, _5, _6, _7, _11, _15, _18 = (np.uint32(n) for n in (1, 5, 6, 7, 11, 15, 18))

#: Pairs at a time.
_PAIRS = 256
_TO_UNIFORM = 2.0**-53


@inlined
def _twisted(word, following):
    bits = (word & _HIGHEST_BIT) | (following & _LOWER_BITS)
    return (bits >> _1) ^ ((bits & _1) * _TWIST)


@inlined
def _twist(key):
    """The next words of the state, in place of the last ones."""
    for i in range(N_WORDS - _APART):
        key[i] = key[i + _APART] ^ _twisted(key[i], key[i + 1])
    for i in range(N_WORDS - _APART, N_WORDS - 1):
        key[i] = key[i + _APART - N_WORDS] ^ _twisted(key[i], key[i + 1])
    key[N_WORDS - 1] = key[_APART - 1] ^ _twisted(key[N_WORDS - 1], key[0])


@inlined
def _temper(key, first, n, words, at):
    """Words of the state as random numbers of 32 bits."""
    for i in range(n):
        y = key[first + i]
        y ^= y >> _11
        y ^= (y << _7) & _MASK_7
        y ^= (y << _15) & _MASK_15
        y ^= y >> _18
        words[at + i] = y


@inlined
def _between_minus_one_and_one(words, at):
    """A uniform number of 53 bits of two words, stretched to (-1, 1)."""
    bits = np.int64(words[at] >> _5) * 2**26 + np.int64(words[at + 1] >> _6)
    return 2.0 * (bits * _TO_UNIFORM) - 1.0


@strict_kernel
def standard_normals(key, position, out):
    """Fill ``out``, of even length, from a generator that has no number left over.

    Parameters
    ----------
    key : ndarray of uint32, shape (624,)
        The state of the generator, which changes.
    position : int
        The word of the state that is next; 624 if none is left.
    out : ndarray of shape (n,)

    Returns
    -------
    int
        The next position.
    """
    n_pairs = out.shape[0] // 2
    words = np.empty(4 * _PAIRS, np.uint32)
    x, y, scale = np.empty(_PAIRS), np.empty(_PAIRS), np.empty(_PAIRS)
    done = 0
    while done < n_pairs:
        # No more than are wanted, even if all of them lie in the disk.
        n = min(_PAIRS, n_pairs - done)
        n_words = 0
        while n_words < 4 * n:
            if position == N_WORDS:
                _twist(key)
                position = 0
            n_more = min(N_WORDS - position, 4 * n - n_words)
            _temper(key, position, n_more, words, n_words)
            n_words += n_more
            position += n_more
        for i in range(n):
            x[i] = _between_minus_one_and_one(words, 4 * i)
            y[i] = _between_minus_one_and_one(words, 4 * i + 2)
        for i in range(n):
            scale[i] = x[i] * x[i] + y[i] * y[i]
        n_kept = 0
        for i in range(n):
            r = scale[i]
            x[n_kept], y[n_kept], scale[n_kept] = x[i], y[i], r
            n_kept += (r < 1.0) & (r > 0.0)
        for i in range(n_kept):
            scale[i] = math.log(scale[i]) / scale[i]
        for i in range(n_kept):
            scale[i] = math.sqrt(-2.0 * scale[i])
        for i in range(n_kept):
            out[2 * (done + i)] = y[i] * scale[i]
            out[2 * (done + i) + 1] = x[i] * scale[i]
        done += n_kept
    return position
