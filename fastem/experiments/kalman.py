"""A Kalman filter learned online, as in the paper's Figure 1b.

A hidden state of five dimensions, observations of ten; the covariances Q and R of the noise are
known, and the start, the transition and the observation matrix are learned.
"""

from __future__ import annotations

import numpy as np

from ..kalman import KalmanFilter
from ..learning_rate import Decay
from .claims import above, overtakes, stable
from .learning import batch_levels, batch_losses, online_losses, places
from .result import Curve, Figure, Result, Size

__all__ = ["run"]

N_STATE, N_OUTPUT, N_STEPS, BETA = 5, 10, 5, 0.9
RATES = (0.1, 1.0, 10.0)
N_BATCH_STEPS = 10
Q, R = 0.1 * np.eye(N_STATE), 0.5 * np.eye(N_OUTPUT)


def some_parameters(rng):
    """π₁, V, A and C at random; A turns and shrinks."""
    turn, _ = np.linalg.qr(rng.normal(size=(N_STATE, N_STATE)))
    return {
        "initial_state_mean": rng.normal(size=N_STATE),
        "initial_state_covariance": np.eye(N_STATE),
        "transition_matrices": 0.9 * turn,
        "observation_matrices": rng.normal(size=(N_OUTPUT, N_STATE)),
    }


def sequences(n_sequences: int, seed: int = 0) -> np.ndarray:
    """Sequences of a random model, (n_sequences, N_STEPS, N_OUTPUT)."""
    rng = np.random.default_rng(seed)
    truth = some_parameters(rng)
    h = truth["initial_state_mean"] + rng.normal(size=(n_sequences, N_STATE))
    V = np.empty((n_sequences, N_STEPS, N_OUTPUT))
    for t in range(N_STEPS):
        noise = rng.normal(size=(n_sequences, N_OUTPUT)) @ np.sqrt(R)
        V[:, t] = h @ truth["observation_matrices"].T + noise
        h = h @ truth["transition_matrices"].T
        h += rng.normal(size=(n_sequences, N_STATE)) @ np.sqrt(Q)
    return V


def first_model(V, seed: int) -> KalmanFilter:
    """Random parameters, drawn as the truth was."""
    return KalmanFilter(
        transition_covariance=Q, observation_covariance=R, n_dim_state=N_STATE,
        n_dim_obs=N_OUTPUT, batch_size=1,
        em_vars=("initial_state_mean", "initial_state_covariance", "transition_matrices",
                 "observation_matrices"),
        **some_parameters(np.random.default_rng(1000 + seed)),
    )  # fmt: skip


def run(size: Size, data_folder, bars, done=()):
    """All starts; yields the result."""
    if "kalman" in done:
        return
    V = sequences(300 if size.quick else 2000)
    at = places(len(V))
    online = {eta: [] for eta in RATES}
    batch = []
    with bars(size.n_starts * (1 + len(RATES)), "kalman") as bar:
        for seed in range(size.n_starts):
            start = first_model(V, seed)
            data = start._check_data(V, reset=True)
            batch.append(batch_losses(start, data, N_BATCH_STEPS))
            bar.update()
            for eta, found in online.items():
                found.append(online_losses(start, V, data, at, learning_rate=Decay(eta, BETA)))
                bar.update()
    yield report(size, V, at, online, batch)


def report(size, V, at, online, batch) -> Result:
    """Figure and claims."""
    curves = {
        eta: Curve(f"online, η₀ = {eta:g}", at, found, shown=eta == 1.0)
        for eta, found in online.items()
    }
    one, ten = batch_levels(batch, 1, N_BATCH_STEPS)
    chosen = curves[1.0]
    claims = [
        overtakes(chosen, one, 40),
        above(chosen, ten, 2.0),
        stable(list(curves.values()), 18.0, "89.36 and 75.90 for η₀ = 0.1 and 10 there, 17.7 %"),
    ]
    figure = Figure(
        "kalman",
        "Kalman filter",
        "sequences learned from",
        [chosen, *[c for c in curves.values() if not c.shown]],
        [one, ten],
        y_label="negative log-likelihood of a sequence",
        log_x=True,
        caption="Online EM in one pass over the sequences, one at a time, and batch EM from the "
        "same starts.",
    )
    return Result(
        "kalman", "kalman", "Kalman filter", size.name, size.n_starts,
        {
            "data": f"{len(V):,} sequences of {N_STEPS} steps, drawn from the model",
            "truth": f"a state of {N_STATE}, observations of {N_OUTPUT}; A is 0.9 times a random "
            "rotation, C and π₁ are standard normal, V = I, Q = 0.1 I, R = 0.5 I",
            "known": "Q and R",
            "start": "π₁, A and C drawn anew as the truth was, V = I",
            "online": f"one pass, one sequence at a time, η = η₀/t^{BETA}, η₀ = 1 (also 0.1, 10)",
        },
        [figure],
        claims,
        [
            "The paper says neither how many sequences there are nor how long they are, nor from "
            "what model they come. As many sequences are taken as for the other experiments, of a "
            "length at which the losses are about as large as those it reports.",
        ],
    )  # fmt: skip
