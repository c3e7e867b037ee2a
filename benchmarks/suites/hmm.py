"""asv suite of hidden Markov models."""

from __future__ import annotations

from functools import partial
from typing import ClassVar

from fastem.bench import hidden_markov
from fastem.bench.hidden_markov import HMMShape

from . import measuring

_BASE = HMMShape(2000, 50, 4, 4)
_SHAPES = [
    _BASE,
    HMMShape(2000, 50, 16, 8),
    HMMShape(1, 100_000, 8, 4),
    HMMShape(1, 100_000, 64, 4),
    HMMShape(20_000, 10, 4, 4),
    _BASE._replace(covariance_type="full"),
]
_MANY = [HMMShape(20, 50, 4, 4), HMMShape(20, 50, 16, 8), HMMShape(20, 50, 64, 4)]


def _fitted(shape):
    problem = shape.problem()
    return hidden_markov.em(problem).run(1), (problem.X, problem.lengths)


def _checked(X, lengths):
    from fastem.data.sequences import as_sequences

    return as_sequences(X, lengths)


_MAKER = measuring.Maker(_fitted, _checked)


class Iteration(measuring._Iterations):
    """One step of batch EM."""

    works = _MAKER.works("iteration", _SHAPES, "step")
    shapes: ClassVar = dict(zip(works, _SHAPES, strict=True))
    params = tuple(works)

    def setup_cache(self):
        return measuring.with_rate(measuring.seconds(self.works))


class Speed(measuring._Suite):
    """Inference, online EM, streams, and models that are merged and compared."""

    works = (
        _MAKER.works("using", _SHAPES[:3], "score", "score")
        | _MAKER.works("using", _SHAPES[:3], "Viterbi", "decode")
        | _MAKER.works("using", _SHAPES[:3], "posteriors", "predict_proba")
        | _MAKER.works("online", _SHAPES[:3], "online, one by one", batch_size=1)
        | _MAKER.works("online", _SHAPES[:2], "online, batches of 20", batch_size=20)
        | _MAKER.works("iteration", [_BASE._replace(ragged=True)], "step, ragged")
        | _MAKER.works("combine", _MANY, "combine")
        | _MAKER.works("divergence", _MANY[:2], "divergence")
        | _MAKER.works("stream", _SHAPES[:1], "a thousand updates of a filter", "filter")
    )
    params = tuple(works)

    def setup_cache(self):
        return measuring.seconds(self.works)


class Memory(measuring._Peak):
    """Memory of one step of batch EM."""

    prepare = staticmethod(partial(_MAKER.iteration, _BASE))


class FirstCall(measuring._FirstCall):
    """The first fit of a hidden Markov model."""

    estimator = "GaussianHMM"
    data = "X = rng.normal(size=(1000, 3))"
    fit = "GaussianHMM(2, n_iter=5).fit(X)"
