"""scikit-learn: Gaussian mixtures."""

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

    return Side(run, lambda model: model.score(problem.X))
