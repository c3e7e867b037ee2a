"""mlpack: Gaussian mixtures. It takes no start, so that all sides begin from its own."""

import numpy as np
from mlpack import gmm_probability, gmm_train

from ..side import Problem, Side

# Few rounds of its k-means: they are in the long fit and in the short one alike.
_SETTINGS = {"seed": 1, "tolerance": 0.0, "kmeans_max_iterations": 3, "no_force_positive": True}


def _train(problem, n_iter):
    shape = problem.shape
    found = gmm_train(
        input_=problem.X, gaussians=shape.n_components,
        diagonal_covariance=shape.covariance_type == "diag",
        # One is none: it stops when the count is reached, and counts from one.
        max_iterations=1 + n_iter, **_SETTINGS,
    )  # fmt: skip
    return found["output_model"]


def mixture_start(problem: Problem) -> dict[str, np.ndarray]:
    """The parameters that it starts from."""
    model = _train(problem, 0).get_cpp_params()["GMM"]
    covariances = np.array([part["covariance"] for part in model["dists"]])
    full = problem.shape.covariance_type == "full"
    precisions = np.linalg.inv(covariances) if full else 1.0 / np.einsum("kii->ki", covariances)
    return {
        "weights_init": np.ravel(model["weights"]),
        "means_init": np.array([np.ravel(part["mean"]) for part in model["dists"]]),
        "precisions_init": precisions,
    }


def mixture_em(problem: Problem) -> Side:
    def answer(model):
        found = gmm_probability(input_model=model, input_=problem.X)
        return float(np.log(found["output"]).mean())

    return Side(lambda n_iter: _train(problem, n_iter), answer)
