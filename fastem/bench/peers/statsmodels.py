"""statsmodels: smoothing of one sequence."""

import numpy as np
from statsmodels.tsa.statespace.kalman_smoother import KalmanSmoother

from ..side import Problem, Side


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
        lambda _: model.smooth(), lambda found: found.smoothed_state.T, iterates=False,
        tolerance=1e-6,
    )  # fmt: skip


def kalman_em(problem: Problem) -> Side:
    model = _smoother(problem)

    def run(n_iter):
        for _ in range(n_iter):
            found = model.smooth()
        return model.smooth() if n_iter == 0 else found

    return Side(
        run, lambda found: found.llf / problem.shape.n_observations, agrees_after=0,
        note="the smoother alone: it has no EM",
    )  # fmt: skip
