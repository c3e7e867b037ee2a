"""Hidden Markov models to measure: shapes, sequences, a start, and how fastem does it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .side import Problem, Side

__all__ = ["HMMShape", "decode", "em", "estimator", "path_log_probability", "score"]


class HMMShape(NamedTuple):
    """The size of a model with Gaussian emissions and of its data."""

    n_sequences: int
    n_steps: int
    n_states: int
    n_features: int
    covariance_type: str = "diag"
    #: Whether lengths are spread evenly from 1 to twice ``n_steps``, less one.
    ragged: bool = False

    def __str__(self):
        steps = f"T=1–{2 * self.n_steps - 1}" if self.ragged else f"T={self.n_steps:,}"
        return f"{self.n_sequences:,} × {steps} K={self.n_states} D={self.n_features}"

    @property
    def n_observations(self) -> int:
        return self.n_sequences * self.n_steps

    @property
    def useful_flops(self) -> float:
        """Emissions and their statistics as for mixtures; forward, backward, and transitions."""
        K, D = self.n_states, self.n_features
        emissions = 2.0 * K * D * D if self.covariance_type == "full" else 8.0 * K * D
        return self.n_observations * (emissions + 6.0 * K * K)

    def lengths(self) -> np.ndarray:
        """The number of steps of each sequence."""
        if not self.ragged:
            return np.full(self.n_sequences, self.n_steps)
        lengths = 1 + np.arange(self.n_sequences) % (2 * self.n_steps - 1)
        # The same number of rows as without, whatever the number of sequences.
        lengths[-1] += self.n_observations - lengths.sum()
        return np.random.default_rng(0).permutation(lengths)

    def problem(self, folder=None) -> Problem:
        """Sequences from a model, and a start at some distance from it."""
        rng = np.random.default_rng(0)
        K, D = self.n_states, self.n_features
        transmat = 0.5 * rng.dirichlet(np.ones(K), K) + 0.5 * np.eye(K)
        startprob = np.full(K, 1.0 / K)
        means = 2.0 * rng.normal(size=(K, D))
        lengths = self.lengths()
        states = _paths(startprob, transmat, lengths, rng)
        X = means[states] + rng.normal(size=(len(states), D))
        covars = np.ones((K, D))
        if self.covariance_type == "full":
            covars = np.repeat(np.eye(D)[None], K, axis=0)
        start = {
            "startprob": rng.dirichlet(np.full(K, 5.0)),
            "transmat": rng.dirichlet(np.full(K, 5.0), K),
            "means": means + 0.5 * rng.normal(size=(K, D)),
            "covars": 2.0 * covars,
        }
        return Problem(self, X, start, lengths, _no_prior(self))


def _no_prior(shape):
    """hmmlearn's priors, off, except where dynamax has none so weak."""
    # dynamax divides the scatter of full covariances by 2D + 2 more than the mass of a state.
    weight = 3.0 * shape.n_features + 2.0 if shape.covariance_type == "full" else 0.0
    return {"covars_prior": 0.0, "covars_weight": weight}


def _paths(startprob, transmat, lengths, rng):
    """States of all sequences, one after another."""
    longest = int(lengths.max())
    edges, first = transmat.cumsum(axis=1), startprob.cumsum()
    uniform = rng.random((longest, len(lengths)))
    states = np.empty((longest, len(lengths)), dtype=np.int64)
    states[0] = np.minimum(np.searchsorted(first, uniform[0]), len(first) - 1)
    for t in range(1, longest):
        passed = edges[states[t - 1]] < uniform[t][:, None]
        states[t] = np.minimum(passed.sum(axis=1), len(first) - 1)
    kept = np.arange(longest)[:, None] < lengths
    return states.T[kept.T]


def estimator(kind, problem: Problem, **settings):
    """A ``GaussianHMM`` of fastem or hmmlearn that starts from the problem's parameters."""
    model = kind(
        problem.shape.n_states, covariance_type=problem.shape.covariance_type, tol=-np.inf,
        init_params="", implementation="scaling", **problem.settings, **settings,
    )  # fmt: skip
    model.startprob_ = problem.start["startprob"]
    model.transmat_ = problem.start["transmat"]
    model.means_ = problem.start["means"]
    model.covars_ = problem.start["covars"]
    model.n_features = problem.shape.n_features
    return model


def path_log_probability(problem: Problem, states) -> float:
    """The log-probability of paths with the data, by whoever found them, per row."""
    start, X = problem.start, problem.X
    variances = start["covars"]
    left = X - start["means"][states]
    log_density = -0.5 * (left**2 / variances[states] + np.log(2 * np.pi * variances)[states])
    first = np.concatenate([[0], np.cumsum(problem.lengths)[:-1]])
    inner = np.ones(len(X), dtype=bool)
    inner[first] = False
    total = log_density.sum() + np.log(start["startprob"][states[first]]).sum()
    rows = np.flatnonzero(inner)
    total += np.log(start["transmat"][states[rows - 1], states[rows]]).sum()
    return float(total / len(X))


def em(problem: Problem) -> Side:
    """Batch EM by fastem."""
    import fastem

    X, lengths = problem.X, problem.lengths

    def run(n_iter):
        return estimator(fastem.GaussianHMM, problem, n_iter=n_iter).fit(X, lengths)

    return Side(run, lambda model: model.score(X, lengths) / len(X), compiles=True)


def score(problem: Problem) -> Side:
    """The log-likelihood by fastem."""
    import fastem

    model = estimator(fastem.GaussianHMM, problem)
    X, lengths = problem.X, problem.lengths
    return Side(
        lambda _: model.score(X, lengths), lambda total: total / len(X), iterates=False,
        compiles=True,
    )  # fmt: skip


def decode(problem: Problem) -> Side:
    """The likeliest paths by fastem."""
    import fastem

    model = estimator(fastem.GaussianHMM, problem)
    return Side(
        lambda _: model.decode(problem.X, problem.lengths)[1],
        lambda states: path_log_probability(problem, states), iterates=False, compiles=True,
    )  # fmt: skip
