"""pomegranate: Gaussian mixtures and hidden Markov models, on PyTorch in double precision."""

from contextlib import contextmanager

import numpy as np
import torch
from pomegranate.distributions import Normal
from pomegranate.gmm import GeneralMixtureModel
from pomegranate.hmm import DenseHMM

from ..side import Problem, Side

# Sequences must end by a transition to the end; the same from all states tells nothing.
_END = 1e-3


@contextmanager
def _doubles():
    """Some of its buffers are of the default type, whatever the parameters are."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def _normals(means, covariances, kind):
    pairs = zip(means, covariances, strict=True)
    return [Normal(torch.tensor(m), torch.tensor(c), covariance_type=kind) for m, c in pairs]


def mixture_em(problem: Problem) -> Side:
    start, kind = problem.start, problem.shape.covariance_type
    precisions = start["precisions_init"]
    covariances = np.linalg.inv(precisions) if kind == "full" else 1.0 / precisions
    X = torch.tensor(np.asarray(problem.X, dtype=float))

    def run(n_iter):
        with _doubles():
            model = GeneralMixtureModel(
                _normals(start["means_init"], covariances, kind),
                priors=torch.tensor(start["weights_init"]), max_iter=n_iter, tol=-np.inf,
            )  # fmt: skip
            return model.fit(X)

    def answer(model):
        with _doubles():
            return float(model.log_probability(X).mean())

    return Side(run, answer)


def hmm_em(problem: Problem) -> Side:
    start, shape = problem.start, problem.shape
    pieces = np.split(problem.X, np.cumsum(problem.lengths)[:-1])
    groups = {}
    for piece in pieces:
        groups.setdefault(len(piece), []).append(piece)
    rows = [torch.tensor(np.stack(group)) for group in groups.values()]
    # What the end costs each sequence, and each transition that is not to the end.
    extra = sum(
        len(group) * ((length - 1) * np.log1p(-_END) + np.log(_END))
        for length, group in groups.items()
    )

    def run(n_iter):
        with _doubles():
            model = DenseHMM(
                _normals(start["means"], start["covars"], shape.covariance_type),
                edges=torch.tensor((1.0 - _END) * start["transmat"]),
                starts=torch.tensor(start["startprob"]),
                ends=torch.full((shape.n_states,), _END),
                max_iter=max(n_iter, 1), tol=0.0,
            )  # fmt: skip
            return model.fit(rows) if n_iter else model

    def answer(model):
        with _doubles():
            total = sum(float(model.log_probability(part).sum()) for part in rows)
        return (total - extra) / len(problem.X)

    return Side(run, answer, agrees_after=0, note="its model also learns where sequences end")
