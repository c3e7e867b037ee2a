"""The Bayesian models beside their peers: ``python -m benchmarks.variational``.

Seconds of an iteration of variational Bayes: ``BayesianGaussianMixture`` beside scikit-learn's,
``VariationalGaussianHMM`` beside hmmlearn's, from the same start, on the shapes of ``fastem bench
--peers``. Iterations are timed by the difference of a long and a short fit, both sides in turn; the
least of several. ``--write`` puts the tables into docs/bayesian.md and docs/variational-hmm.md.
"""

from __future__ import annotations

import argparse
import logging
import warnings
from pathlib import Path

import hmmlearn.vhmm
import numpy as np
import sklearn.mixture

import fastem
from fastem.bench import mixtures
from fastem.bench.hidden_markov import HMMShape
from fastem.bench.mixtures import MixtureShape
from fastem.bench.timing import seconds

from .generated import table, write

MIXTURES = (
    MixtureShape("full", 200_000, 2, 8),
    MixtureShape("full", 200_000, 16, 16),
    MixtureShape("full", 100_000, 64, 10),
    MixtureShape("full", 500_000, 54, 7, "Covtype"),
    MixtureShape("diag", 500_000, 54, 7, "Covtype"),
    MixtureShape("diag", 60_000, 784, 10, "Fashion-MNIST"),
    MixtureShape("diag", 200_000, 16, 16),
    MixtureShape("tied", 200_000, 16, 16),
    MixtureShape("spherical", 200_000, 16, 16),
)
CHAINS = (
    HMMShape(2000, 50, 4, 4),
    HMMShape(2000, 50, 16, 8),
    HMMShape(1, 100_000, 8, 4),
    HMMShape(1, 100_000, 64, 4),
    HMMShape(20_000, 10, 4, 4),
    HMMShape(2000, 50, 4, 4, covariance_type="full"),
)
#: Iterations of the short and the long fit: ours, the peer's.
_OURS, _THEIRS = (2, 12), (2, 5)
_POSTERIOR = ("startprob", "transmat", "means", "beta", "dof", "scale")


def compared(ours, theirs, repeats):
    """Seconds of an iteration of both, in turn, after one of ours to compile."""
    seconds(ours, 1)
    sides = ((ours, _OURS), (theirs, _THEIRS))
    # The least of the long fits and that of the short ones: other programs disturb either.
    found = np.min(
        [
            [[seconds(fit, n_iter)[0] for n_iter in counts] for fit, counts in sides]
            for _ in range(repeats)
        ],
        axis=0,
    )
    return [
        (long - short) / (counts[1] - counts[0])
        for (short, long), (_, counts) in zip(found, sides, strict=True)
    ]


def mixture(shape, folder):
    """Fits of so many iterations by both sides."""
    X = np.asarray(mixtures.load(shape, folder), dtype=float)

    # Rows as first means cost nothing, and both sides choose the same.
    settings = {"init_params": "random_from_data", "random_state": 0, "tol": 0.0, "reg_covar": 1e-2}
    settings |= {"n_components": shape.n_components, "covariance_type": shape.covariance_type}

    def fit(kind, n_iter):
        return kind(max_iter=n_iter, **settings).fit(X)

    return (
        lambda n_iter: fit(fastem.BayesianGaussianMixture, n_iter),
        lambda n_iter: fit(sklearn.mixture.BayesianGaussianMixture, n_iter),
    )


def chain(shape):
    """The same of a hidden Markov model."""
    problem = shape.problem()
    X, lengths = problem.X, problem.lengths
    kind, K = shape.covariance_type, shape.n_states
    source = fastem.VariationalGaussianHMM(K, kind, random_state=0, n_iter=1).fit(X, lengths)

    def fit(package, n_iter):
        model = package.VariationalGaussianHMM(
            K, kind, init_params="", n_iter=n_iter, tol=-np.inf, implementation="scaling"
        )
        model.n_features = X.shape[1]
        for name in _POSTERIOR:
            for which in ("prior", "posterior"):
                name_here = f"{name}_{which}_"
                setattr(model, name_here, np.copy(getattr(source, name_here)))
        return model.fit(X, lengths)

    return lambda n_iter: fit(fastem, n_iter), lambda n_iter: fit(hmmlearn.vhmm, n_iter)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, help="folder with covtype.npz and fashion-mnist/")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--write", action="store_true", help="put the tables into the pages")
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore")
    logging.disable(logging.WARNING)
    for page, name, peer, cases in (
        ("docs/bayesian.md", "bayesian-speed", "scikit-learn", mixture_cases(arguments.data)),
        ("docs/variational-hmm.md", "variational-speed", "hmmlearn", chain_cases()),
    ):
        rows = []
        for case, sides in cases:
            ours, theirs = compared(*sides, arguments.repeats)
            cells = f"{1e3 * theirs:.3g}", f"{1e3 * ours:.3g}", f"{theirs / ours:.3g}×"
            rows.append([case, *cells])
            print(" | ".join(rows[-1]), flush=True)
        if arguments.write:
            head = ["an iteration", f"{peer}, ms", "fastem, ms", "ratio"]
            write(page, name, table(head, rows))


def mixture_cases(folder):
    """The name and both sides of each shape."""
    for shape in MIXTURES:
        yield f"{shape.covariance_type}, {shape}, {shape.data_name(folder)}", mixture(shape, folder)


def chain_cases():
    """The same of hidden Markov models."""
    for shape in CHAINS:
        yield f"{shape.covariance_type}, {shape}", chain(shape)


if __name__ == "__main__":
    main()
