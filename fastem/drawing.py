"""Random counts, in memory that depends on the number of draws and not on the size of counts."""

from __future__ import annotations

import numpy as np

__all__ = ["MOST_WORDS", "check_drawable", "draw_long_document", "draw_topics", "is_long"]

#: The largest number of words that are drawn one by one at a time (128 megabytes).
MOST_WORDS = 2**24

_MOST_TRIALS = np.iinfo(np.int64).max


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


def is_long(length, n_words) -> bool:
    """Whether a document is drawn by :func:`draw_long_document` if there are too many words."""
    return length > max(n_words, MOST_WORDS // 2**10)


def draw_long_document(alpha, length, rng) -> np.ndarray:
    """The counts of a document of any length: its topic is drawn, then all words at once."""
    check_drawable(length)
    topic = draw_topics(alpha, 1, rng)[0]
    return rng.multinomial(int(length), topic / topic.sum())
