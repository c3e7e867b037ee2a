"""pykalman: EM and smoothing of one sequence."""

from pykalman import KalmanFilter

from ..side import Problem, Side


def kalman_em(problem: Problem) -> Side:
    X = problem.X[0]
    names = list(problem.start)

    def run(n_iter):
        return KalmanFilter(**problem.start, em_vars=names).em(X, n_iter=n_iter)

    return Side(run, lambda model: model.loglikelihood(X) / len(X))


def kalman_smooth(problem: Problem) -> Side:
    model = KalmanFilter(**problem.start)
    X = problem.X[0]
    return Side(lambda _: model.smooth(X), lambda found: found[0], iterates=False)
