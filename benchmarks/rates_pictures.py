"""The pictures of docs/rates.md: ``python -m benchmarks.rates_pictures``.

How steps fall and memories grow with each rate, and what forgetting is for: a stream that shifts in
the middle. All is drawn from seeds, and takes some seconds.
"""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from fastem import GaussianMixture
from fastem.learning_rate import Clock, Forgetting, schedule, step_size

from .generated import ROOT

#: Of the first picture: the first memory of a model, a half-life, and a constant rate.
FIRST_MEMORY, HALF_LIFE, RATE = 200.0, 5000.0, 0.002
#: Of the second: rows of a stream, of a call, and half-lives to compare.
N_ROWS, N_CALL, HALF_LIVES = 400_000, 1000, (None, 10_000, 1000)
N_SEEDS = 5


def steps(rate, n: int) -> np.ndarray:
    """The step size of each of ``n`` single observations."""
    etas, _ = schedule(rate, Clock(), np.ones(n), 1.0, FIRST_MEMORY)
    return np.array([step_size(eta) for eta in etas])


def half_memories(step_sizes: np.ndarray) -> np.ndarray:
    """After each observation, how many of the last ones hold half of the weight.

    NaN where all observations together hold less than half, and the start the rest.
    """
    forgotten = np.concatenate([[0.0], np.cumsum(-np.log1p(-step_sizes))])
    n = np.arange(1, len(forgotten))
    before = np.interp(
        forgotten[1:] - np.log(2.0), forgotten, np.arange(len(forgotten)), left=np.nan
    )
    return n - before


def draw_steps(path):
    """Step sizes and memories over observations."""
    rates = {
        f"default, m = {FIRST_MEMORY:g}": "auto",
        f"forgetting={HALF_LIFE:g}": Forgetting(HALF_LIFE),
        f"learning_rate={RATE:g}, single rows": RATE,
    }
    figure = Figure(figsize=(10, 3.6), layout="constrained")
    left, right = figure.subplots(1, 2)
    for (name, rate), style in zip(rates.items(), ("-", "--", ":"), strict=True):
        sizes = steps(rate, 200_000)
        n = np.arange(1, len(sizes) + 1)
        left.loglog(n, sizes, style, label=name, linewidth=2)
        right.loglog(n, half_memories(sizes), style, label=name, linewidth=2)
    left.set(xlabel="observations", ylabel="step size of the next one", title="Steps")
    right.set(xlabel="observations", ylabel="the last ones that hold half of the weight")
    right.set_title("Memory")
    left.legend()
    figure.savefig(path, dpi=110)


def shifting_rows(rng, n: int, *, shifted: bool) -> np.ndarray:
    """Rows of three clusters, before or after all have moved."""
    centers = np.array([[0.0, 0.0], [6.0, 0.0], [0.0, 6.0]]) + (2.0 if shifted else 0.0)
    return centers[rng.integers(3, size=n)] + rng.normal(size=(n, 2))


def scores_of_stream(half_life, seed: int) -> tuple[np.ndarray, float]:
    """The held-out log-likelihood after each call, and the observations at the alarm."""
    rng = np.random.default_rng(seed)
    held_out = {shifted: shifting_rows(rng, 2000, shifted=shifted) for shifted in (False, True)}
    model = GaussianMixture(3, random_state=seed, forgetting=half_life, drift_alarm=0.01)
    scores = []
    for first in range(0, N_ROWS, N_CALL):
        shifted = first >= N_ROWS // 2
        model.partial_fit(shifting_rows(rng, N_CALL, shifted=shifted))
        scores.append(model.score(held_out[shifted]))
    found = model.drift_
    return np.array(scores), found.at if found.detected else np.nan


def draw_shift(path):
    """Held-out log-likelihoods on a stream that shifts."""
    figure = Figure(figsize=(10, 3.6), layout="constrained")
    axes = figure.subplots()
    n = np.arange(N_CALL, N_ROWS + 1, N_CALL)
    for half_life, style in zip(HALF_LIVES, ("-", "--", ":"), strict=True):
        runs = [scores_of_stream(half_life, seed) for seed in range(N_SEEDS)]
        scores = np.array([scores for scores, _ in runs])
        name = "default" if half_life is None else f"forgetting={half_life}"
        (line,) = axes.plot(n, scores.mean(axis=0), style, label=name, linewidth=1.5)
        axes.fill_between(
            n, scores.min(axis=0), scores.max(axis=0), color=line.get_color(), alpha=0.2
        )
        before, after = (scores[:, i].mean() for i in (N_ROWS // 2 // N_CALL - 1, -1))
        alarms = [at for _, at in runs]
        print(f"{name}: {before:.3f} before the shift, {after:.3f} at the end, alarms at {alarms}")
    axes.set(xlabel="observations", ylabel="held-out log-likelihood", title="A shift in the middle")
    axes.set_xlim(0.45 * N_ROWS, 0.8 * N_ROWS)
    axes.legend(loc="lower right")
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    draw_steps(ROOT / "docs/figures/rates-steps.png")
    draw_shift(ROOT / "docs/figures/rates-shift.png")
