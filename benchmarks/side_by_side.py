"""fastem and scikit-learn side by side, per EM iteration: ``python -m benchmarks.side_by_side``.

For each shape: first that both sides reach the same log-likelihood after the same iterations from
the same start, then the times, interleaved, the best of several; the ratio and its spread. A time
per iteration is the difference of a long fit and a short one, so that nothing that happens once
counts. Run it on a machine that does nothing else.
"""

from __future__ import annotations

import argparse
import json
import platform
import time
import warnings
from pathlib import Path

import numpy as np
import sklearn
from sklearn.mixture import GaussianMixture as Peer
from tqdm import tqdm

import fastem

from .shapes import SHAPES, load, start

warnings.filterwarnings("ignore")

REG_COVAR = {"Fashion-MNIST, uint8": 1.0, "Covtype": 1e-3}


def matrix_product_rate(size=2000):
    """Operations a second of a matrix product, on all cores."""
    a = np.random.default_rng(0).normal(size=(size, size))
    best = np.inf
    for _ in range(3):
        begun = time.perf_counter()
        a @ a
        best = min(best, time.perf_counter() - begun)
    return 2 * size**3 / best


def seconds_of(kind, X, n_iter, settings):
    model = kind(max_iter=n_iter, tol=0.0, **settings)
    begun = time.perf_counter()
    model.fit(X)
    return time.perf_counter() - begun, model


def compare(shape, folder, repeats):
    """One row of the table."""
    X, what = load(shape, folder)
    settings = {
        "n_components": shape.n_components,
        "covariance_type": shape.covariance_type,
        "reg_covar": REG_COVAR.get(what, 1e-6),
        **start(X, shape),
    }
    few, ours_more, peer_more = 1, 11, 3
    _, ours = seconds_of(fastem.GaussianMixture, X, peer_more, settings)
    _, peer = seconds_of(Peer, X, peer_more, settings)
    agreement = np.abs(np.subtract(ours.lower_bounds_, peer.lower_bounds_)).max()
    agreement /= np.abs(peer.lower_bounds_).max()
    if not agreement < 1e-8:
        raise AssertionError(f"{shape}: log-likelihoods differ by {agreement:.2g} (relative)")
    times = {"ours": [], "peer": []}
    for _ in range(repeats):
        for side, kind, more in [
            ("ours", fastem.GaussianMixture, ours_more), ("peer", Peer, peer_more)
        ]:  # fmt: skip
            long, _ = seconds_of(kind, X, more, settings)
            short, _ = seconds_of(kind, X, few, settings)
            times[side].append((long - short) / (more - few))
    best_ours, best_peer = min(times["ours"]), min(times["peer"])
    ratios = [p / o for p, o in zip(times["peer"], times["ours"], strict=True)]
    return {
        "work": shape.name,
        "shape": f"N={shape.n_samples:,} D={shape.n_features} K={shape.n_components}",
        "data": what,
        "scikit-learn (s)": best_peer,
        "fastem (s)": best_ours,
        "ratio": best_peer / best_ours,
        "spread": [min(ratios), max(ratios)],
        "bar": shape.bar,
        "goal": shape.goal,
        "limit": shape.useful_flops / best_ours,
        "agreement": float(agreement),
    }


def markdown(results) -> str:
    """The table, as README shows it."""
    lines = [
        "| work | shape | data | scikit-learn, s/iteration | fastem | ratio (spread) | bar | goal "
        "| share of matrix-product rate |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for row in results["rows"]:
        bar = f"{row['bar']}×" if row["bar"] else "–"
        goal = f"{row['goal']}×" if row["goal"] else "–"
        lost = row["bar"] is not None and row["ratio"] < row["bar"]
        ratio = f"{row['ratio']:.1f}×"
        lines.append(
            f"| {row['work']} | {row['shape']} | {row['data']} | {row['scikit-learn (s)']:.4g} | "
            f"{row['fastem (s)']:.4g} | {'**below bar** ' if lost else ''}{ratio} "
            f"({row['spread'][0]:.1f}–{row['spread'][1]:.1f}) | {bar} | {goal} | "
            f"{row['limit'] / results['matrix_product_rate']:.0%} |"
        )
    lines.append("")
    lines.append(
        f"Measured on {results['cpu']}, {results['cores']} cores, Python {results['python']}, "
        f"scikit-learn {results['scikit-learn']}, fastem {results['fastem']}; matrix product "
        f"{results['matrix_product_rate'] / 1e9:.0f} GF/s."
    )
    return "\n".join(lines)


def write_into(path, table):
    """Put the table between the marks in a Markdown file."""
    text = Path(path).read_text()
    begin, end = "<!-- benchmark table: generated -->", "<!-- end of benchmark table -->"
    head, rest = text.split(begin)
    _, tail = rest.split(end)
    Path(path).write_text(f"{head}{begin}\n{table}\n{end}{tail}")


def cpu_name():
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.split(":")[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", help="folder with covtype.npz and fashion-mnist/")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--only", help="run shapes whose description contains this")
    parser.add_argument("--json", help="write the results here")
    parser.add_argument("--readme", help="put the table into this Markdown file")
    options = parser.parse_args()
    results = {
        "cpu": cpu_name(),
        "cores": len(__import__("os").sched_getaffinity(0)),
        "python": platform.python_version(),
        "scikit-learn": sklearn.__version__,
        "fastem": fastem.__version__,
        "matrix_product_rate": matrix_product_rate(),
        "rows": [],
    }
    chosen = [s for s in SHAPES if not options.only or options.only in f"{s}"]
    for shape in tqdm(chosen, desc="side by side", leave=False):
        results["rows"].append(compare(shape, options.data, options.repeats))
        tqdm.write(markdown({**results, "rows": results["rows"][-1:]}).splitlines()[2])
    table = markdown(results)
    print(table)
    if options.json:
        Path(options.json).write_text(json.dumps(results, indent=1))
    if options.readme:
        write_into(options.readme, table)


if __name__ == "__main__":
    main()
