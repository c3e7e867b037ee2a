"""simdkalman: EM of many sequences at a time."""

import numpy as np
from simdkalman import KalmanFilter

from ..side import Problem, Side


def kalman_em(problem: Problem) -> Side:
    X, start = problem.X, problem.start
    n, T, p = X.shape
    first = {
        "initial_value": np.tile(start["initial_state_mean"][None, :, None], (n, 1, 1)),
        "initial_covariance": start["initial_state_covariance"],
    }
    model = KalmanFilter(
        state_transition=start["transition_matrices"],
        process_noise=start["transition_covariance"],
        observation_model=start["observation_matrices"],
        observation_noise=start["observation_covariance"],
    )

    def answer(learned):
        found = learned.compute(X, 0, **first, smoothed=False, log_likelihood=True)
        # It leaves the constant of the densities out.
        return found.log_likelihood.mean() / T - 0.5 * p * np.log(2 * np.pi)

    return Side(
        lambda n_iter: model.em(X, n_iter=n_iter, **first), answer, agrees_after=0,
        note="learns the noise of each sequence by itself, and no matrices",
    )  # fmt: skip
