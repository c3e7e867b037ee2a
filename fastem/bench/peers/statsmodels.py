"""statsmodels: smoothing of one sequence."""

import numpy as np
from statsmodels.tsa.statespace.kalman_smoother import (
    SMOOTHER_STATE,
    SMOOTHER_STATE_AUTOCOV,
    SMOOTHER_STATE_COV,
    KalmanSmoother,
)

from ..side import Problem, Side

# What is asked for, and no more: it would also smooth disturbances.
_STATES = SMOOTHER_STATE | SMOOTHER_STATE_COV
_PAIRS = _STATES | SMOOTHER_STATE_AUTOCOV


def _smoother(problem: Problem):
    shape, start = problem.shape, problem.start
    model = KalmanSmoother(k_endog=shape.n_features, k_states=shape.n_states)
    model.bind(np.ascontiguousarray(problem.X[0]))
    model["design"] = start["observation_matrices"]
    model["obs_cov"] = start["observation_covariance"]
    model["transition"] = start["transition_matrices"]
    model["selection"] = np.eye(shape.n_states)
    model["state_cov"] = start["transition_covariance"]
    model.initialize_known(start["initial_state_mean"], start["initial_state_covariance"])
    return model


def kalman_smooth(problem: Problem) -> Side:
    model = _smoother(problem)
    return Side(
        lambda _: model.smooth(smoother_output=_STATES), lambda found: found.smoothed_state.T,
        iterates=False, tolerance=1e-6,
    )  # fmt: skip


def kalman_em(problem: Problem) -> Side:
    model = _smoother(problem)

    def run(n_iter):
        # Of no iterations the log-likelihood is asked, which the smoother gives too.
        for _ in range(max(n_iter, 1)):
            found = model.smooth(smoother_output=_PAIRS)
        return found

    return Side(
        run, lambda found: found.llf / problem.shape.n_observations, agrees_after=0,
        note="the smoother alone: it has no EM",
    )  # fmt: skip
