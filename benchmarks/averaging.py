"""What averaging over time is worth: ``python -m benchmarks.averaging``.

Rows come in random order, in calls of ``partial_fit`` with 100 of them, once each: in batches of a
row or of all 100, with the default rate. Three models learn from the same rows: one that is not
averaged, one with ``average_from`` half of the rows, and one with ``average_from="auto"``. Measured
is the mean log-likelihood of held-out rows. The sets are those of ``benchmarks.online_quality``;
each seed has another order and another start.

``--write`` puts the table into docs/rates.md, ``--seeds`` takes fewer, ``--sets`` some.
"""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path

import numpy as np

from .generated import table, write
from .online_quality import covtype, digits, mixtures

PAGE = "docs/rates.md"
N_CALL, BATCHES = 100, (1, 100)
KINDS = ("diag", "full")
HEAD = ["data", "model", "batch", "last model", "from the middle on", '`"auto"`',
        "least and largest gain, from the middle", 'least and largest gain, `"auto"`']  # fmt: skip


def cases(folder):
    """Mixtures of the two sets."""
    images = digits()
    yield from mixtures("digits", images.reshape(len(images), -1) / 4.0, 10, KINDS)
    yield from mixtures("Covtype", covtype(folder), 7, KINDS)


def scores(case, seed: int, batch_size: int) -> list[float]:
    """The held-out log-likelihood of the last model, and of the two averages."""
    rng = np.random.default_rng(seed)
    X = case.observations[rng.permutation(len(case.observations))]
    n_held_out = len(X) // 5
    held_out, X = X[:n_held_out], X[n_held_out:]
    found = []
    for average_from in (None, len(X) // 2, "auto"):
        model = case.online(seed).set_params(batch_size=batch_size, average_from=average_from)
        for first in range(0, len(X), N_CALL):
            model.partial_fit(X[first : first + N_CALL])
        found.append(model.score(held_out))
    return found


def row(case, batch_size: int, found: np.ndarray) -> list[str]:
    """A line of the table, from the scores of each seed."""
    gains = found[:, 1:] - found[:, :1]
    ranges = zip(gains.min(axis=0), gains.max(axis=0), strict=True)
    return [
        case.set, case.model, str(batch_size), *map(number, found.mean(axis=0)),
        *(f"{number(least, 2)}, {number(largest, 2)}" for least, largest in ranges),
    ]  # fmt: skip


def number(value: float, digits: int = 1) -> str:
    """A number with a minus sign, and none before zero."""
    return f"{value:z.{digits}f}".replace("-", "−")


def summary(runs: np.ndarray) -> str:
    """In how many runs the averages are better than the last model."""
    middle, auto = (runs[:, 1:] > runs[:, :1]).sum(axis=0)
    return (
        f"The average from the middle on is better than the last model in {middle} of "
        f'{len(runs)} runs, and that of `"auto"` in {auto}.'
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, help="folder with covtype.npz")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--sets", nargs="+", default=[])
    parser.add_argument("--write", action="store_true", help=f"put the table into {PAGE}")
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore")
    rows, runs = [], []
    for case in cases(arguments.data):
        if arguments.sets and not any(w.lower() in str(case).lower() for w in arguments.sets):
            continue
        for batch_size in BATCHES:
            found = np.array([scores(case, seed, batch_size) for seed in range(arguments.seeds)])
            rows.append(row(case, batch_size, found))
            runs.append(found)
            print(" | ".join(rows[-1]), flush=True)
    if not rows:
        parser.error(f"no set is called {' or '.join(arguments.sets)}")
    end = f"Means of {arguments.seeds} seeds. {summary(np.concatenate(runs))}"
    print(end)
    if arguments.write:
        write(PAGE, "averaging", f"{table(HEAD, rows)}\n\n{end}")


if __name__ == "__main__":
    main()
