"""scikit-learn: Gaussian mixtures."""

import numpy as np
from sklearn.mixture import GaussianMixture

from ..side import Problem, Side


def mixture_em(problem: Problem) -> Side:
    shape = problem.shape

    def run(n_iter):
        model = GaussianMixture(
            shape.n_components, covariance_type=shape.covariance_type, max_iter=n_iter, tol=0.0,
            **problem.settings, **problem.start,
        )  # fmt: skip
        return model.fit(problem.X)

    # Its fit takes bytes as they are; its score would square them as bytes, modulo 256.
    return Side(run, lambda model: model.score(np.asarray(problem.X, dtype=float)))
