"""asv suite of hidden Markov models."""

from __future__ import annotations

from typing import ClassVar

import fastem
from fastem.bench import hidden_markov
from fastem.bench.hidden_markov import HMMShape
from fastem.bench.timing import best_of
from fastem.sequences import as_sequences

from . import measuring

_BASE = HMMShape(2000, 50, 4, 4)
_SHAPES = measuring.with_doublings(
    [
        _BASE,
        HMMShape(2000, 50, 16, 8),
        HMMShape(1, 100_000, 8, 4),
        HMMShape(1, 100_000, 64, 4),
        HMMShape(20_000, 10, 4, 4),
        HMMShape(2000, 50, 4, 4, "full"),
        HMMShape(2000, 50, 4, 4, ragged=True),
    ],
    _BASE,
    ("n_sequences", "n_steps", "n_states", "n_features"),
)
_USED = (_BASE, HMMShape(2000, 50, 16, 8), HMMShape(1, 100_000, 8, 4))


def _fitted(shape):
    problem = shape.problem()
    return hidden_markov.em(problem).run(1), problem


class Iteration(measuring._IterationOfProducts):
    """One step of batch EM."""

    shapes = _SHAPES
    params: ClassVar = list(_SHAPES)

    def prepare(self, shape):
        model, problem = _fitted(shape)
        return model._model(), as_sequences(problem.X, problem.lengths)


class Online:
    """One pass of online EM, one sequence at a time and in mini-batches."""

    params: ClassVar = [["2000xT=50-K=4-D=4", "200xT=50-K=16-D=8"], [1, 20]]
    param_names = ("shape", "batch_size")
    timeout = 300

    def setup(self, name, batch_size):
        n, T, K, D = (2000, 50, 4, 4) if name.startswith("2000x") else (200, 50, 16, 8)
        self.model, self.problem = _fitted(HMMShape(n, T, K, D))
        self.model.set_params(batch_size=batch_size)
        self.time_epoch(name, batch_size)

    def time_epoch(self, name, batch_size):
        self.model.partial_fit(self.problem.X, self.problem.lengths)

    def track_observations_per_second(self, name, batch_size):
        return len(self.problem.X) / best_of(lambda: self.time_epoch(name, batch_size), 3)

    track_observations_per_second.unit = "observations/s"


class Use:
    """Scoring, decoding and posteriors."""

    params: ClassVar = [name for name, shape in _SHAPES.items() if shape in _USED]
    param_names = ("shape",)
    timeout = 300

    def setup(self, name):
        self.model, problem = _fitted(_SHAPES[name])
        self.X, self.lengths = problem.X, problem.lengths
        self.model.decode(self.X[:50])
        self.model.predict_proba(self.X[:50])

    def time_score(self, name):
        self.model.score(self.X, self.lengths)

    def time_decode(self, name):
        self.model.decode(self.X, self.lengths)

    def time_predict_proba(self, name):
        self.model.predict_proba(self.X, self.lengths)

    def peakmem_score(self, name):
        self.model.score(self.X, self.lengths)


class Combine:
    """Combining twenty fitted models, and comparing two."""

    def setup(self):
        self.model, _ = _fitted(HMMShape(20, 50, 16, 8))
        self.time_combine_20()

    def time_combine_20(self):
        fastem.combine([self.model] * 20)

    def time_divergence(self):
        fastem.divergence(self.model, self.model)


class Streaming:
    """One observation at a time."""

    def setup(self):
        self.model, problem = _fitted(_BASE)
        self.rows = problem.X[:1000]
        self.model.filter().update(self.rows[0])

    def time_thousand_updates(self):
        stream = self.model.filter()
        for row in self.rows:
            stream.update(row)


class FirstCall(measuring._FirstCall):
    """The first fit of a hidden Markov model."""

    estimator = "GaussianHMM"
    data = "X = rng.normal(size=(1000, 3))"
    fit = "GaussianHMM(2, n_iter=5).fit(X)"
