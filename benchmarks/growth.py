"""How time and memory grow: ``python -m benchmarks.growth``.

Doubles N, K and D one at a time, fits the exponent of the time of an EM iteration, and prints it
beside the expected one. Then fits a large float32 memory map and prints the resident memory.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np

import fastem

from .shapes import Shape, mixture, start

warnings.filterwarnings("ignore")

BASE = {"N": 200_000, "K": 16, "D": 32}
EXPECTED = {
    "full": {"N": 1, "K": 1, "D": 2},
    "tied": {"N": 1, "K": 1, "D": 2},
    "diag": {"N": 1, "K": 1, "D": 1},
    "spherical": {"N": 1, "K": 1, "D": 1},
}


def seconds(kind, N, K, D, repeats=7):
    """The best time of one iteration."""
    shape = Shape("", kind, N, D, K)
    X = mixture(N, D, K)
    model = fastem.GaussianMixture(
        K, covariance_type=kind, tol=0.0, max_iter=1, **start(X, shape)
    ).fit(X)._model()  # fmt: skip
    best = np.inf
    for _ in range(repeats):
        begun = time.perf_counter()
        model.maximize(model.expect(X).statistics)
        best = min(best, time.perf_counter() - begun)
    return best


def exponents(kind):
    found = {}
    for name in BASE:
        sizes = [BASE[name] * factor for factor in (1, 2, 4)]
        times = [seconds(kind, **{**BASE, name: size}) for size in sizes]
        found[name] = float(np.polyfit(np.log(sizes), np.log(times), 1)[0])
    return found


MEMORY = """
import resource, sys, warnings
import numpy as np, fastem
warnings.filterwarnings("ignore")
X = np.memmap(sys.argv[1], dtype=np.float32, mode="r", shape=(int(sys.argv[2]), 50))
def resident():
    for line in open("/proc/self/status"):
        if line.startswith("RssAnon"):
            return int(line.split()[1]) / 1024
before = resident()
fastem.GaussianMixture(5, covariance_type="diag", max_iter=2, tol=0.0, random_state=0).fit(X)
print(resident(), resident() - before)
"""


def memory(n_rows, folder):
    """Resident memory, in MB, of a process that fits a float32 map of (n_rows, 50)."""
    path = Path(folder) / "rows.f32"
    rng = np.random.default_rng(0)
    with path.open("wb") as file:
        for _ in range(0, n_rows, 100_000):
            file.write(rng.normal(size=(100_000, 50)).astype(np.float32).tobytes())
    command = [sys.executable, "-c", MEMORY, str(path), str(n_rows)]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    path.unlink()
    return [float(part) for part in printed.split()]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=10_000_000, help="rows of the memory map")
    parser.add_argument("--folder", default=tempfile.gettempdir(), help="where to put the map")
    parser.add_argument("--json")
    options = parser.parse_args()
    results = {"cores": os.cpu_count(), "exponents": {}, "memory": {}}
    print("| covariance | N | K | D |\n| --- | --- | --- | --- |")
    for kind, expected in EXPECTED.items():
        found = results["exponents"][kind] = exponents(kind)
        cells = " | ".join(f"{found[name]:.2f} (expected {expected[name]})" for name in BASE)
        print(f"| {kind} | {cells} |")
    print("\n| rows × 50, float32 map | resident memory (MB) | grown by the fit (MB) |")
    print("| --- | --- | --- |")
    for n_rows in (options.rows // 4, options.rows):
        total, grown = results["memory"][n_rows] = memory(n_rows, options.folder)
        print(f"| {n_rows:,} | {total:.0f} | {grown:.0f} |")
    if options.json:
        Path(options.json).write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
