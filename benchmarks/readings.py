"""Which reading of the paper's synthetic experiments is closest to the numbers it prints.

``python -m benchmarks.readings`` applies the rule of docs/reproduction.md and writes its table
there; only last losses are compared, no claim has a say.
"""

from __future__ import annotations

import numpy as np

from fastem.experiments import dirichlet, hmm, kalman
from fastem.experiments.learning import distance

from .generated import table, write

PAGE = "docs/reproduction.md"
TRUTHS, N_STARTS = range(1, 6), 3
EXPERIMENTS = {
    "HMM": (hmm, hmm.READINGS),
    "Kalman filter": (kalman, kalman.CANDIDATES),
    "compound Dirichlet": (dirichlet, dirichlet.READINGS),
}


def spread(losses: dict[float, float]) -> float:
    """How many percent the last losses of two learning rates are apart."""
    return 100 * (max(losses.values()) / min(losses.values()) - 1)


def main():
    rows = []
    for title, (experiment, readings) in EXPERIMENTS.items():
        printed = experiment.PRINTED
        medians = {}
        for reading in readings:
            found = [experiment.last_losses(reading, truth, N_STARTS) for truth in TRUTHS]
            distances = [distance(losses, printed) for losses in found]
            medians[reading] = float(np.median(distances))
            ranges = "; ".join(
                f"{min(f[eta] for f in found):.2f} to {max(f[eta] for f in found):.2f} "
                f"({loss:.2f}) for η₀ = {eta:g}"
                for eta, loss in printed.items()
            )
            each = ", ".join(f"{d:.3f}" for d in distances)
            apart = ", ".join(f"{spread(losses):.1f}" for losses in found)
            apart += f" ({spread(printed):.1f})"
            rows.append([title, reading.title, ranges, apart, each, f"{medians[reading]:.3f}"])
            print(*rows[-1], sep=" | ", flush=True)
        chosen = min(medians, key=medians.get)
        if chosen is not experiment.READINGS[0]:
            print(f"{title}: the rule chooses {chosen.title}, which is not the main reading.")
    head = [
        "experiment", "reading", "last losses over the truths (the paper's)",
        "% apart (the paper's)", "distances", "their median",
    ]  # fmt: skip
    write(PAGE, "readings", table(head, rows))


if __name__ == "__main__":
    main()
