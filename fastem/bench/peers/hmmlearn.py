"""hmmlearn: hidden Markov models with Gaussian emissions, by its faster recursions."""

from hmmlearn.hmm import GaussianHMM

from ..hidden_markov import estimator, path_log_probability
from ..side import Problem, Side


def hmm_em(problem: Problem) -> Side:
    X, lengths = problem.X, problem.lengths

    def run(n_iter):
        return estimator(GaussianHMM, problem, n_iter=n_iter).fit(X, lengths)

    return Side(run, lambda model: model.score(X, lengths) / len(X))


def hmm_score(problem: Problem) -> Side:
    model = estimator(GaussianHMM, problem)
    X, lengths = problem.X, problem.lengths
    return Side(lambda _: model.score(X, lengths), lambda total: total / len(X), iterates=False)


def hmm_decode(problem: Problem) -> Side:
    model = estimator(GaussianHMM, problem)
    return Side(
        lambda _: model.decode(problem.X, problem.lengths)[1],
        lambda states: path_log_probability(problem, states), iterates=False,
    )  # fmt: skip
