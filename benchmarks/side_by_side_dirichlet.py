"""fastem.CompoundDirichlet beside SciPy's L-BFGS: ``python -m benchmarks.side_by_side_dirichlet``.

Whole fits, from the same start, until no entry of the gradient of the mean log-likelihood by
log α is above 1e-8; on the corpus SciPy is stopped long before. Times are interleaved, the best of
several; both must end at the same log-likelihood, or SciPy, if stopped, at a lower one. Run it on a
machine that does nothing else.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from pathlib import Path

import numpy as np
import scipy

import fastem
from fastem.compound_dirichlet import start_from_moments
from fastem.count_tables import CountTables

from .dirichlet_shapes import SHAPES, lbfgs, load
from .side_by_side import cpu_name

TOL = 1e-8


def timed(function):
    begun = time.perf_counter()
    result = function()
    return time.perf_counter() - begun, result


def compare(shape, repeats, peer_repeats):
    """One row of the table."""
    X = load(shape)
    tables = CountTables.of(X)
    start = start_from_moments(tables)
    seen = np.asarray(X.sum(axis=0)).ravel() > 0
    # A word that is never seen has no likeliest α above zero, and L-BFGS would chase it for ever.
    X, start = (X, start) if seen.all() else (X[:, seen], start[seen])

    def ours():
        return fastem.CompoundDirichlet(tol=TOL).fit(X)

    def peer():
        return lbfgs(X, start, TOL, shape.most_evaluations)

    ours()  # compiles
    times = {"ours": [], "peer": []}
    for i in range(max(repeats, peer_repeats)):
        if i < peer_repeats:
            seconds, (alpha, value, evaluations, slope) = timed(peer)
            times["peer"].append(seconds)
        if i < repeats:
            seconds, model = timed(ours)
            times["ours"].append(seconds)
    coefficient = CountTables.of(X).log_coefficient
    agreement = (model.lower_bound_ - (value + coefficient)) / abs(model.lower_bound_)
    stopped = evaluations >= shape.most_evaluations
    if agreement < -1e-9 or (agreement > 1e-9 and not stopped):
        raise AssertionError(f"{shape}: log-likelihoods differ by {agreement:.2g} (relative)")
    best_ours, best_peer = min(times["ours"]), min(times["peer"])
    pairs = zip(times["peer"], times["ours"], strict=False)
    ratios = [p / o for p, o in pairs]
    return {
        "work": shape.name,
        "shape": f"{shape.n_documents:,} × {X.shape[1]:,}, {shape.length} words",
        "SciPy (s)": best_peer,
        "fastem (s)": best_ours,
        "ratio": best_peer / best_ours,
        "spread": [min(ratios), max(ratios)],
        "bar": shape.bar,
        "goal": shape.goal,
        "iterations": model.n_iter_,
        "evaluations": evaluations,
        "stopped": stopped,
        "slope of the peer": float(slope),
        "agreement of the log-likelihoods": float(agreement),
        "agreement of alpha": float(np.abs(np.log(alpha / model.alpha_)).max()),
        "nonzeros": int(X.nnz if shape.is_sparse else np.count_nonzero(X)),
        "times": times,
    }


def growth(repeats=5):
    """Exponents of the time of a fit in N, D and nonzeros."""

    def seconds(**changes):
        base = SHAPES[2] if changes.pop("corpus", False) else SHAPES[1]._replace(n_words=200)
        X = load(base._replace(**changes))
        model = fastem.CompoundDirichlet(tol=TOL)
        size = X.nnz if base.is_sparse else 0
        return min(timed(lambda: model.fit(X))[0] for _ in range(repeats)), size

    found = {}
    for name, sizes in {
        "n_documents": (20_000, 40_000, 80_000),
        "n_words": (200, 400, 800),
    }.items():
        times = [seconds(**{name: size})[0] for size in sizes]
        found[name] = float(np.polyfit(np.log(sizes), np.log(times), 1)[0])
    measured = [seconds(corpus=True, n_documents=n) for n in (25_000, 50_000, 100_000)]
    times, sizes = zip(*measured, strict=True)
    found["nonzeros"] = float(np.polyfit(np.log(sizes), np.log(times), 1)[0])
    return found


def markdown(results) -> str:
    """The table, as docs/dirichlet.md shows it."""
    lines = [
        "| documents | nonzeros | SciPy L-BFGS (s) | fastem (s) | ratio (spread) | bar | goal |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for row in results["rows"]:
        more = "> " if row["stopped"] else ""
        bar, goal = (f"{row[k]}×" if row[k] else "–" for k in ("bar", "goal"))
        lines.append(
            f"| {row['work']}, {row['shape']} | {row['nonzeros']:,} | {more}{row['SciPy (s)']:.3g} "
            f"({row['evaluations']} evaluations) | {row['fastem (s)']:.3g} ({row['iterations']} "
            f"iterations) | {more}{row['ratio']:.0f}× ({row['spread'][0]:.0f}–"
            f"{row['spread'][1]:.0f}) | {bar} | {goal} |"
        )
    lines.append("")
    lines.append(
        f"Measured on {results['cpu']}, {results['cores']} cores, SciPy {results['scipy']}, "
        f"fastem {results['fastem']}."
    )
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--peer-repeats", type=int, default=2)
    parser.add_argument("--only", help="run shapes whose description contains this")
    parser.add_argument("--growth", action="store_true", help="also fit exponents of growth")
    parser.add_argument("--json", help="write the results here")
    options = parser.parse_args()
    results = {
        "cpu": cpu_name(),
        "cores": len(os.sched_getaffinity(0)),
        "scipy": scipy.__version__,
        "fastem": fastem.__version__,
        "rows": [],
    }
    for shape in SHAPES:
        if not options.only or options.only in f"{shape}":
            results["rows"].append(compare(shape, options.repeats, options.peer_repeats))
            print(json.dumps(results["rows"][-1]), flush=True)
    if options.growth:
        results["growth"] = growth()
        print("exponents of the time of a fit:", results["growth"])
    print(markdown(results))
    if options.json:
        Path(options.json).write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
