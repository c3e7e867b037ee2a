"""What float32 gains: ``python -m benchmarks.single_precision``.

The seconds of an EM iteration (an E-step and an M-step of one model) on the same rows in float64
and in float32, in turn in one process, the best of many. Means of components lie two standard
deviations about zero in each column. Of hidden Markov models also the part that knows the type of
the rows: the densities of all states, and the sums over the rows. ``--write`` puts the table into
docs/performance.md.
"""

from __future__ import annotations

import argparse
import warnings
from contextlib import ExitStack
from time import perf_counter
from unittest import mock

import numpy as np

import fastem
from fastem.hmm import passes

from .generated import table, write

PAGE = "docs/performance.md"
#: Covariances, rows, columns, components.
MIXTURES = (
    ("full", 60_000, 64, 10),
    ("full", 200_000, 16, 16),
    ("full", 60_000, 32, 10),
    ("full", 100_000, 8, 8),
    ("full", 200_000, 2, 8),
    ("diag", 1_000_000, 16, 16),
    ("diag", 400_000, 32, 8),
    ("diag", 200_000, 16, 16),
    ("diag", 100_000, 32, 8),
    ("diag", 60_000, 64, 10),
    ("diag", 200_000, 16, 4),
    ("spherical", 200_000, 64, 10),
    ("spherical", 100_000, 32, 8),
    ("spherical", 60_000, 16, 16),
    ("tied", 100_000, 32, 8),
    ("tied", 200_000, 16, 16),
)
#: Covariances and columns of hidden Markov models: 2,000 sequences of 50 steps, 8 states.
CHAINS = (("full", 32), ("full", 16), ("diag", 64), ("diag", 16))
_SPREAD, _SECONDS, _N_TIMES = 2.0, 2.0, 5


def rows_of(n, n_columns, n_components):
    """Rows of float32, and the means of their components."""
    rng = np.random.default_rng(0)
    means = _SPREAD * rng.normal(size=(n_components, n_columns))
    X = means[rng.integers(n_components, size=n)] + rng.normal(size=(n, n_columns))
    return X.astype(np.float32), means


def mixture(kind, n, n_columns, n_components):
    """A model, and the same rows in both precisions."""
    X, means = rows_of(n, n_columns, n_components)
    settings = {"covariance_type": kind, "means_init": means, "max_iter": 3, "random_state": 0}
    estimator = fastem.GaussianMixture(n_components, **settings).fit(X.astype(float))
    return estimator._model(), [
        estimator._check_data(rows, reset=False) for rows in (X.astype(float), X)
    ]


def chain(kind, n_columns):
    """A hidden Markov model, and the same sequences in both precisions."""
    X, _ = rows_of(100_000, n_columns, 8)
    lengths = [50] * 2000
    estimator = fastem.GaussianHMM(8, kind, n_iter=2, tol=-np.inf, random_state=0)
    estimator.fit(X.astype(float), lengths)
    return estimator._model(), [
        estimator._check_data(rows, lengths=lengths, reset=False) for rows in (X.astype(float), X)
    ]


def an_iteration(model, rows):
    """Seconds of an E-step and an M-step."""
    start = perf_counter()
    model.maximize(model.expect(rows).statistics)
    return perf_counter() - start


def its_emissions(model, rows):
    """Seconds of the kernels of the emissions within an iteration, by one thread."""
    spent = 0.0

    def timed(function):
        def called(*arguments):
            nonlocal spent
            start = perf_counter()
            function(*arguments)
            spent += perf_counter() - start

        return called

    with ExitStack() as stack:
        for owner, name in ((passes.Pass, "_emit_lanes"), (passes.emissions, "absorb_lanes")):
            stack.enter_context(mock.patch.object(owner, name, timed(getattr(owner, name))))
        an_iteration(model.with_n_jobs(1), rows)
    return spent


def seconds_of(model, data, measure=an_iteration):
    """The least seconds on each of the data, in turn."""
    found = [[] for _ in data]
    begun, warm = perf_counter(), False
    while perf_counter() - begun < _SECONDS or len(found[0]) < _N_TIMES:
        for times, rows in zip(found, data, strict=True):
            times.append(measure(model, rows))
        if not warm:
            found, begun, warm = [[] for _ in data], perf_counter(), True
    return [min(times) for times in found]


def cases():
    """The name of each row, and both of its numbers of seconds."""
    for kind, n, n_columns, n_components in MIXTURES:
        name = f"{kind}, N = {n:,}, D = {n_columns}, K = {n_components}"
        yield name, seconds_of(*mixture(kind, n, n_columns, n_components))
    for kind, n_columns in CHAINS:
        name = f"hidden Markov model, {kind}, 2,000 × 50, D = {n_columns}, K = 8"
        model, data = chain(kind, n_columns)
        yield name, seconds_of(model, data)
        yield "its emissions, one thread", seconds_of(model, data, its_emissions)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help=f"put the table into {PAGE}")
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore")
    rows = []
    for name, (double, single) in cases():
        milliseconds = f"{1e3 * double:.3g}", f"{1e3 * single:.3g}"
        rows.append([name, *milliseconds, f"{double / single:.2f}"])
        print(" | ".join(rows[-1]), flush=True)
    if arguments.write:
        head = ["an EM iteration", "float64, ms", "float32, ms", "ratio"]
        write(PAGE, "float32", table(head, rows))


if __name__ == "__main__":
    main()
