"""Time to an answer: ``python -m benchmarks.time_to_answer``.

On the same data, from the same start: the seconds until the held-out negative log-likelihood is
within 0.1 % of where scikit-learn's batch EM stops, for scikit-learn itself, for fastem in batch,
and for fastem online (mini-batches, then one observation at a time). A quarter of the rows is held
out. Scoring the held-out rows is not counted; compilation is not either.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits
from sklearn.mixture import GaussianMixture as Peer

import fastem

from .shapes import Shape, load, start

warnings.filterwarnings("ignore")


def data_sets(folder):
    digits = load_digits().data / 16.0
    digits = digits[np.random.default_rng(0).permutation(len(digits))]
    yield "digits, diag", digits, Shape("digits", "diag", 1797, 64, 10), 1e-2
    for kind in ("full", "diag"):
        shape = Shape("Covtype", kind, 500_000, 54, 7, "covtype")
        X, what = load(shape, folder)
        # Some indicators are all but constant: without noise of their own scale, the loss of rows
        # held out is that of a few rare ones.
        yield f"{what} {X.shape[0]:,} × 54, {kind}", X, shape, 0.1


def until(step, loss, target, limit):
    """Seconds of ``step()`` until ``loss()`` is at most ``target``; None if it never is."""
    spent = 0.0
    for _ in range(limit):
        begun = time.perf_counter()
        step()
        spent += time.perf_counter() - begun
        if loss() <= target:
            return spent
    return None


def measure(X, shape, reg_covar):
    n_train = len(X) * 3 // 4
    train, test = X[:n_train], X[n_train:]
    settings = {
        "n_components": shape.n_components,
        "covariance_type": shape.covariance_type,
        "reg_covar": reg_covar,
        **start(train, shape),
    }
    begun = time.perf_counter()
    final = Peer(max_iter=200, **settings).fit(train)
    whole = time.perf_counter() - begun
    loss = -final.score(test)
    target = loss + 1e-3 * abs(loss)
    row = {"target": target, "peer iterations": final.n_iter_, "peer whole fit": whole}

    # Kernels are loaded once; the first fit on few rows takes that out of the count.
    fastem.GaussianMixture(max_iter=1, **settings).fit(train[:1000]).score(test[:100])
    for side, kind in [("scikit-learn", Peer), ("fastem batch", fastem.GaussianMixture)]:
        model = kind(max_iter=1, tol=0.0, warm_start=True, **settings)
        row[side] = until(
            lambda model=model: model.fit(train), lambda model=model: -model.score(test), target,
            final.n_iter_ + 5,
        )  # fmt: skip
    # One observation must not move the model as a thousand may: the second rate is the paper's.
    for batch_size, rate in [(1000, fastem.Decay(1.0, 0.6)), (1, fastem.Decay(0.05, 0.5))]:
        online = fastem.GaussianMixture(
            max_iter=0, batch_size=batch_size, learning_rate=rate, **settings
        )
        online.fit(train[:5000]).partial_fit(train[:50])
        online.fit(train[:5000])
        pieces = iter(np.array_split(np.arange(n_train), 20) * 5)
        row[f"fastem online, batches of {batch_size}"] = until(
            lambda online=online, pieces=pieces: online.partial_fit(train[next(pieces)]),
            lambda online=online: -online.score(test), target, 100,
        )  # fmt: skip
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", help="folder with covtype.npz")
    parser.add_argument("--json")
    options = parser.parse_args()
    results = {}
    for name, X, shape, reg_covar in data_sets(options.data):
        row = results[name] = measure(X, shape, reg_covar)
        base = row["scikit-learn"]
        print(f"\n{name}: target {row['target']:.4f} nats, scikit-learn's {row['peer iterations']} "
              f"iterations took {row['peer whole fit']:.3g} s")  # fmt: skip
        for side, spent in row.items():
            if side.startswith(("scikit", "fastem")):
                what = "not reached" if spent is None else f"{spent:.4g} s ({base / spent:.1f}×)"
                print(f"  {side}: {what}")
    if options.json:
        Path(options.json).write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
