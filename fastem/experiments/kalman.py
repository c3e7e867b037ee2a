"""A Kalman filter learned online, as in the paper's Figure 1b.

A hidden state of five dimensions, observations of ten; the covariances Q and R of the noise are
known, and the start, the transition and the observation matrix are learned.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..kalman import KalmanFilter
from ..learning_rate import Decay
from .claims import above, overtakes, stable
from .learning import batch_levels, batch_losses, online_losses, places
from .result import Curve, Figure, Result, Size

__all__ = ["CANDIDATES", "PRINTED", "READINGS", "last_losses", "names", "run"]

N_STATE, N_OUTPUT, BETA = 5, 10, 0.9
RATES = (0.1, 1.0, 10.0)
N_BATCH_STEPS = 10
#: What the paper prints: the last losses, by η₀.
PRINTED = {0.1: 89.36, 10.0: 75.90}


class Reading(NamedTuple):
    """The model the sequences come from and the starts, which are drawn in the same way."""

    name: str
    title: str
    n_steps: int
    q: float
    r: float
    scale: float
    about: str

    def some_parameters(self, rng):
        """π₁, V, A and C at random; A turns and shrinks."""
        turn, _ = np.linalg.qr(rng.normal(size=(N_STATE, N_STATE)))
        return {
            "initial_state_mean": rng.normal(size=N_STATE),
            "initial_state_covariance": np.eye(N_STATE),
            "transition_matrices": 0.9 * turn,
            "observation_matrices": self.scale * rng.normal(size=(N_OUTPUT, N_STATE)),
        }

    def data(self, n_sequences: int, seed: int = 0) -> np.ndarray:
        """Sequences of a random model, (n_sequences, n_steps, N_OUTPUT)."""
        rng = np.random.default_rng(seed)
        truth = self.some_parameters(rng)
        h = truth["initial_state_mean"] + rng.normal(size=(n_sequences, N_STATE))
        V = np.empty((n_sequences, self.n_steps, N_OUTPUT))
        for t in range(self.n_steps):
            noise = np.sqrt(self.r) * rng.normal(size=(n_sequences, N_OUTPUT))
            V[:, t] = h @ truth["observation_matrices"].T + noise
            h = h @ truth["transition_matrices"].T
            h += np.sqrt(self.q) * rng.normal(size=(n_sequences, N_STATE))
        return V

    def first_model(self, V, seed: int) -> KalmanFilter:
        """Random parameters, drawn as the truth was."""
        return KalmanFilter(
            transition_covariance=self.q * np.eye(N_STATE),
            observation_covariance=self.r * np.eye(N_OUTPUT),
            n_dim_state=N_STATE, n_dim_obs=N_OUTPUT, batch_size=1,
            em_vars=("initial_state_mean", "initial_state_covariance", "transition_matrices",
                     "observation_matrices"),
            **self.some_parameters(np.random.default_rng(1000 + seed)),
        )  # fmt: skip


#: Among which the rule of docs/reproduction.md chose.
CANDIDATES = (
    Reading(
        "unit", "unit covariances", 4, 1.0, 1.0, 0.5,
        "π₁ is standard normal, the entries of C have variance 1/4, Q = R = V = I",
    ),
    Reading(
        "unit-5", "unit covariances, 5 steps", 5, 1.0, 1.0, 0.5,
        "π₁ is standard normal, the entries of C have variance 1/4, Q = R = V = I",
    ),
    Reading(
        "small", "small noise", 5, 0.1, 0.5, 1.0,
        "C and π₁ are standard normal, V = I, Q = 0.1 I, R = 0.5 I",
    ),
)  # fmt: skip

#: Those that are run, the main one first.
READINGS = (CANDIDATES[0], CANDIDATES[2])


def last_losses(reading: Reading, seed_of_truth: int, n_starts: int) -> dict[float, float]:
    """The last losses of the learning rates for which the paper prints them."""
    V = reading.data(2000, seed_of_truth)
    found = {eta: [] for eta in PRINTED}
    for seed in range(n_starts):
        start = reading.first_model(V, seed)
        data = start._check_data(V, reset=True)
        for eta, losses in found.items():
            rate = Decay(eta, BETA)
            losses.append(online_losses(start, V, data, [0, len(V)], learning_rate=rate)[-1])
    return {eta: float(np.mean(losses)) for eta, losses in found.items()}


def names(size: Size) -> list[str]:
    """The names of the results, the main reading's first."""
    return [f"kalman-{reading.name}" for reading in READINGS]


def run(size: Size, data_folder, bars, done=()):
    """All starts; yields a result for each reading."""
    for reading, name in zip(READINGS, names(size), strict=True):
        if name not in done:
            yield run_reading(size, bars, reading, name)


def run_reading(size: Size, bars, reading: Reading, name: str) -> Result:
    """Online and batch EM from all starts."""
    V = reading.data(200 if size.quick else 2000)
    at = places(len(V))
    online = {eta: [] for eta in RATES}
    batch = []
    with bars(size.n_starts * (1 + len(RATES)), f"kalman, {reading.title}") as bar:
        for seed in range(size.n_starts):
            start = reading.first_model(V, seed)
            data = start._check_data(V, reset=True)
            batch.append(batch_losses(start, data, N_BATCH_STEPS))
            bar.update()
            for eta, found in online.items():
                found.append(online_losses(start, V, data, at, learning_rate=Decay(eta, BETA)))
                bar.update()
    return report(size, reading, name, V, at, online, batch)


def report(size, reading, name, V, at, online, batch) -> Result:
    """Figure and claims."""
    curves = {
        eta: Curve(f"online, η₀ = {eta:g}", at, found, shown=eta == 1.0)
        for eta, found in online.items()
    }
    one, ten = batch_levels(batch, 1, N_BATCH_STEPS)
    chosen = curves[1.0]
    claims = [
        overtakes(chosen, one, 40),
        above(chosen, ten, 2.0, "a loss close to 10 steps"),
        stable(
            list(curves.values()), 18.0, "89.36 and 75.90 for η₀ = 0.1 and 10: 17.7 % apart"
        ),
    ]  # fmt: skip
    figure = Figure(
        name,
        f"Kalman filter: {reading.title}",
        "sequences learned from",
        [chosen, *[c for c in curves.values() if not c.shown]],
        [one, ten],
        y_label="negative log-likelihood of a sequence",
        log_x=True,
        caption="Online EM in one pass over the sequences, one at a time, and batch EM from the "
        "same starts.",
    )
    return Result(
        name, "kalman", "Kalman filter", size.name, size.n_starts,
        {
            "data": f"{len(V):,} sequences of {reading.n_steps} steps, drawn from the model",
            "truth": f"a state of {N_STATE}, observations of {N_OUTPUT}; A is 0.9 times a random "
            f"rotation, {reading.about}",
            "known": "Q and R",
            "start": "π₁, A and C drawn anew as the truth was, V = I",
            "online": f"one pass, one sequence at a time, η = η₀/t^{BETA}, η₀ = 1 (also 0.1, 10)",
        },
        [figure],
        claims,
        [
            "The paper says neither how many sequences there are nor how long they are. As many "
            "are taken as for the other experiments.",
        ],
        reading=reading.title,
        main=reading is READINGS[0],
    )  # fmt: skip
