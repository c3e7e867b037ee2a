"""How time and memory grow: ``python -m benchmarks.growth``.

Doubles N, T, K and D one at a time, twice each, fits the exponent of the time of an EM iteration
(of a whole fit, for the compound Dirichlet), and prints it beside the expected one. Then fits a
float32 memory map, a quarter of it and all, and prints the resident memory.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np

from fastem.bench import documents, hidden_markov, kalman, machine, mixtures
from fastem.bench.documents import DocumentsShape
from fastem.bench.hidden_markov import HMMShape
from fastem.bench.kalman import KalmanShape
from fastem.bench.mixtures import MixtureShape
from fastem.bench.timing import interleave, plan, seconds

warnings.filterwarnings("ignore")

_SIZES = {"N": "n_samples", "K": "n_components", "D": "n_features"}

#: For each model: the shape to begin with, how it is fitted, what the letters stand for, and the
#: exponents expected of each. Of the Kalman filter the covariances do not depend on N, and reach a
#: steady state, so that products of matrices and vectors are what grows.
MODELS = {
    **{
        f"GMM {kind}": (MixtureShape(kind, 100_000, 32, 16), mixtures.em, _SIZES, powers)
        for kind, powers in {
            "full": {"N": 1, "K": 1, "D": 2},
            "tied": {"N": 1, "K": 1, "D": 2},
            "diag": {"N": 1, "K": 1, "D": 1},
            "spherical": {"N": 1, "K": 1, "D": 1},
        }.items()
    },
    "HMM diag": (
        HMMShape(1000, 50, 16, 4),
        hidden_markov.em,
        {"N": "n_sequences", "T": "n_steps", "K": "n_states", "D": "n_features"},
        {"N": 1, "T": 1, "K": 2, "D": 1},
    ),
    "HMM diag, one sequence": (
        HMMShape(1, 50_000, 16, 4),
        hidden_markov.em,
        {"T": "n_steps", "K": "n_states"},
        {"T": 1, "K": 2},
    ),
    "Kalman filter": (
        KalmanShape(500, 100, 8, 8),
        kalman.em,
        {"N": "n_sequences", "T": "n_steps", "K": "n_states", "D": "n_features"},
        {"N": 1, "T": 1, "K": 2, "D": 1},
    ),
    "compound Dirichlet": (
        DocumentsShape(20_000, 200, 200),
        documents.fit,
        {"N": "n_documents", "D": "n_words"},
        {"N": 1, "D": 1},
    ),
}


def exponent(shape, make, field, repeats=3):
    """The exponent of the time in one of the sizes."""
    base = getattr(shape, field)
    sizes, times = [base, 2 * base, 4 * base], []
    for size in sizes:
        side = make(shape._replace(**{field: size}).problem())
        n_iter = 2 if side.iterates else None
        side.run(n_iter)
        warm_up, _ = seconds(side.run, n_iter)
        how = plan(side.run, warm_up, iterates=side.iterates, repeats=repeats)
        times.append(interleave({"": side.run}, {"": how})[""].best)
    return float(np.polyfit(np.log(sizes), np.log(times), 1)[0])


MEMORY = """
import sys, warnings
import numpy as np, psutil, fastem
warnings.filterwarnings("ignore")
X = np.memmap(sys.argv[1], dtype=np.float32, mode="r", shape=(int(sys.argv[2]), 50))
def resident():
    # Pages of the map itself come and go as the system likes.
    memory = psutil.Process().memory_info()
    return (memory.rss - getattr(memory, "shared", 0)) / 2**20
before = resident()
fastem.GaussianMixture(5, covariance_type="diag", max_iter=2, tol=0.0, random_state=0).fit(X)
print(resident(), resident() - before)
"""


def memory(n_rows, folder):
    """Resident memory, in MB, of a process that fits a float32 map of (n_rows, 50)."""
    Path(folder).mkdir(parents=True, exist_ok=True)
    path = Path(folder) / "rows.f32"
    rng = np.random.default_rng(0)
    with path.open("wb") as file:
        for begun in range(0, n_rows, 100_000):
            rows = min(100_000, n_rows - begun)
            file.write(rng.normal(size=(rows, 50)).astype(np.float32).tobytes())
    command = [sys.executable, "-c", MEMORY, str(path), str(n_rows)]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    path.unlink()
    return [float(part) for part in printed.split()]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="models whose name contains this")
    parser.add_argument("--rows", type=int, default=10_000_000, help="of the memory map; 0: none")
    parser.add_argument("--folder", default=tempfile.gettempdir(), help="where to put the map")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    results = {"cpu": machine.cpu_name(), "cores": machine.cores(), "exponents": {}, "memory": {}}
    letters = ("N", "T", "K", "D")
    print(f"| model | {' | '.join(letters)} |\n|{' --- |' * (1 + len(letters))}")
    for name, (shape, make, fields, expected) in MODELS.items():
        if options.only.lower() not in name.lower():
            continue
        found = {letter: exponent(shape, make, field) for letter, field in fields.items()}
        results["exponents"][name] = found
        cells = [f"{found[l]:.2f} ({expected[l]})" if l in found else "–" for l in letters]
        print(f"| {name}, from {shape} | {' | '.join(cells)} |", flush=True)
    print("\nIn brackets what is expected. Below it, what does not grow still counts.")
    if options.rows:
        print("\n| rows × 50, float32 map | resident memory (MB) | grown by the fit (MB) |")
        print("| --- | --- | --- |")
        for n_rows in (options.rows // 4, options.rows):
            total, grown = results["memory"][n_rows] = memory(n_rows, options.folder)
            print(f"| {n_rows:,} | {total:.0f} | {grown:.0f} |", flush=True)
    if options.json:
        options.json.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
