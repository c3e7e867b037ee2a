"""What incremental EM is worth: ``python -m benchmarks.incremental --data FOLDER``.

Mixtures on rows of Covtype, batch and incremental EM from the same starts, half of them centers of
k-means and half random rows: how long incremental EM takes to the log-likelihood that batch EM has
after 5, 10, 20 and 40 iterations, in iterations of batch EM, and which of the two ends higher. The
improvement of the start on a sample counts; the log-likelihoods that this program computes do not.
``--write`` puts the table into docs/incremental.md.
"""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path

import numpy as np
from sklearn.cluster import KMeans

from fastem.bench import mixtures
from fastem.bench.mixtures import MixtureShape

from .generated import table, write
from .time_to_answer import MixtureTask, course_of_fit

warnings.filterwarnings("ignore")

PAGE = "docs/incremental.md"
_N_ROWS, _N_COMPONENTS, _REG_COVAR = 100_000, 7, 1e-3
_LEVELS, _PASSES = (5, 10, 20, 40), 25
#: A level counts as reached, and two ends as the same, within so many nats a row.
_SAME = 1e-3


class TrainingTask(MixtureTask):
    """Mixtures whose loss is that of the training data."""

    def __init__(self, X, covariance_type):
        shape = MixtureShape(covariance_type, *X.shape, _N_COMPONENTS)
        super().__init__(X, shape, _REG_COVAR, given=True)
        self.train = self.test = X
        self.n_train = len(X)

    def make(self, kind, seed, **settings):
        """Odd starts are random rows, even ones centers of k-means."""
        begin = mixtures.start(self.train, self.shape, seed)
        if seed % 2 == 0:
            found = KMeans(_N_COMPONENTS, n_init=1, random_state=seed).fit(self.train)
            begin["means_init"] = found.cluster_centers_
        return kind(**self.settings, **begin, **settings)

    def course(self, seed, **settings):
        """Seconds and log-likelihoods a row of one fit, at each report."""
        model = self.make(self.kind, seed, tol=0.0, **settings)
        return np.array([(spent, -loss) for spent, loss in course_of_fit(self, model)])


def compared(task, n_starts):
    """For each start: what levels cost, by how much incremental EM ends higher, and a pass."""
    for solver in ("em", "incremental"):
        task.course(0, solver=solver, max_iter=2)
    found = []
    for seed in range(n_starts):
        # Reports of batch EM are of the model that an iteration begins with.
        batch = task.course(seed, max_iter=max(_LEVELS) + 1)
        iteration = np.median(np.diff(batch[:, 0]))
        course = task.course(seed, solver="incremental", max_iter=_PASSES)
        costs = []
        for level in _LEVELS:
            arrived = course[:, 1] >= batch[level, 1] - _SAME
            costs.append(course[arrived.argmax(), 0] / iteration if arrived.any() else np.inf)
        a_pass = (course[-1, 0] - course[0, 0]) / (_PASSES - 1 / _blocks(course)) / iteration
        found.append((costs, course[-1, 1] - batch[-1, 1], a_pass))
    return found


def _blocks(course):
    """How many reports a pass has."""
    return len(course) / _PASSES


def cells(found):
    """A row of the table."""
    costs = np.array([one[0] for one in found])
    gains = np.array([one[1] for one in found])
    middle = [f"{cost:.2g}" if np.isfinite(cost) else "never" for cost in np.median(costs, axis=0)]
    return [
        " / ".join(middle),
        " / ".join(str(count) for count in np.isinf(costs).sum(axis=0)),
        " / ".join(
            str(int(count.sum())) for count in (gains > _SAME, abs(gains) <= _SAME, gains < -_SAME)
        ),
        f"{np.median([one[2] for one in found]):.2g}",
    ]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="folder with covtype.npz")
    parser.add_argument("--rows", type=int, default=_N_ROWS)
    parser.add_argument("--starts", type=int, default=10)
    parser.add_argument("--write", action="store_true", help=f"put the table into {PAGE}")
    options = parser.parse_args()
    levels = " / ".join(map(str, _LEVELS))
    header = [
        "data",
        f"the level of batch EM after {levels} iterations, reached in the time of so many",
        "starts that never reach it",
        f"after {_PASSES} passes higher / same / lower than batch EM after {max(_LEVELS)}",
        "a pass, in iterations",
    ]
    X = mixtures.load(MixtureShape("full", options.rows, 54, 7, "Covtype"), options.data)
    rows = []
    for columns, name in ((slice(10), "10 quantitative columns"), (slice(None), "54 columns")):
        for kind in ("diag", "full"):
            task = TrainingTask(np.ascontiguousarray(X[:, columns]), kind)
            rows.append([f"{name}, {kind}", *cells(compared(task, options.starts))])
            print(" | ".join(rows[-1]), flush=True)
    if options.write:
        write(PAGE, "incremental", table(header, rows))


if __name__ == "__main__":
    main()
