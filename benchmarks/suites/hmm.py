"""asv suite of hidden Markov models."""

from __future__ import annotations

from typing import ClassVar

from fastem.bench import hidden_markov
from fastem.bench.hidden_markov import HMMShape
from fastem.data.sequences import as_sequences

from . import measuring
from .measuring import doublings, named

_BASE = HMMShape(2000, 50, 4, 4)
_SHAPES = named(
    _BASE,
    HMMShape(2000, 50, 16, 8),
    HMMShape(1, 100_000, 8, 4),
    HMMShape(1, 100_000, 64, 4),
    HMMShape(20_000, 10, 4, 4),
    *doublings(_BASE, "n_sequences", "n_steps", "n_states", "n_features"),
)
_OTHERS = named(_BASE._replace(covariance_type="full"), _BASE._replace(ragged=True))


class _HMM:
    @staticmethod
    def fitted(shape):
        problem = shape.problem()
        return hidden_markov.em(problem).run(1), (problem.X, problem.lengths)

    checked = staticmethod(as_sequences)


class Iteration(_HMM, measuring._Iteration):
    """One step of batch EM."""

    params = _SHAPES + _OTHERS


class Online(_HMM, measuring._Online):
    """One pass of online EM, one sequence at a time."""

    params = _SHAPES


class MiniBatches(Online):
    """The same, twenty sequences at a time."""

    params = _SHAPES[:2]
    settings: ClassVar = {"batch_size": 20}


class Score(_HMM, measuring._Using):
    """The log-likelihood."""

    params = _SHAPES


class Decode(_HMM, measuring._Using):
    """The likeliest paths."""

    params = _SHAPES
    method = "decode"


class Posteriors(_HMM, measuring._Using):
    """The probabilities of the states."""

    params = _SHAPES[:3]
    method = "predict_proba"


class Combine(_HMM, measuring._Combine):
    """Combining twenty fitted models."""

    params = named(HMMShape(20, 50, 4, 4), HMMShape(20, 50, 16, 8), HMMShape(20, 50, 64, 4))


class Divergence(_HMM, measuring._Divergence):
    """Comparing two fitted models."""

    params = Combine.params[:2]


class Stream(_HMM, measuring._Stream):
    """A thousand observations, one at a time."""

    params = _SHAPES[:1]


class FirstCall(measuring._FirstCall):
    """The first fit of a hidden Markov model."""

    estimator = "GaussianHMM"
    data = "X = rng.normal(size=(1000, 3))"
    fit = "GaussianHMM(2, n_iter=5).fit(X)"
