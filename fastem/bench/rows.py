"""The rows of the table: the task, the shape, and whom it is measured beside."""

from __future__ import annotations

from typing import Any, NamedTuple

from . import documents, hidden_markov, kalman, mixtures
from .documents import DocumentsShape
from .hidden_markov import HMMShape
from .kalman import KalmanShape
from .mixtures import MixtureShape

__all__ = ["OURS", "ROWS", "Bar", "Row", "chosen"]

#: How fastem does each task.
OURS = {
    "mixture_em": mixtures.em,
    "hmm_em": hidden_markov.em,
    "hmm_score": hidden_markov.score,
    "hmm_decode": hidden_markov.decode,
    "kalman_em": kalman.em,
    "kalman_smooth": kalman.smooth,
    "dirichlet_fit": documents.fit,
}


class Bar(NamedTuple):
    """How many times as fast as a peer fastem should be, at least, and what we are after."""

    bar: float | None = None
    goal: float | None = None


class Row(NamedTuple):
    """One comparison."""

    work: str
    task: str
    shape: Any
    peers: dict[str, Bar]
    #: The peer that cannot be given a start, so that all sides take its own.
    start_from: str | None = None

    def __str__(self):
        return f"{self.work}, {self.shape}, {' '.join(self.peers)}"


def _mixture(*size, bar=None, goal=None, data="synthetic", others=()):
    shape = MixtureShape(*size, data)
    peers = {"scikit-learn": Bar(bar, goal), **{name: Bar() for name in others}}
    return Row(f"GMM {shape.covariance_type}", "mixture_em", shape, peers)


def _mlpack(*size):
    shape = MixtureShape(*size)
    work = f"GMM {shape.covariance_type}"
    return Row(work, "mixture_em", shape, {"mlpack": Bar()}, start_from="mlpack")


def _hmm(*size, hmmlearn=(), dynamax=None, pomegranate=False, **options):
    shape = HMMShape(*size, **options)
    peers = {"hmmlearn": Bar(*hmmlearn)}
    if dynamax is not None:
        peers["dynamax"] = Bar(*dynamax)
    if pomegranate:
        peers["pomegranate"] = Bar()
    work = f"HMM {shape.covariance_type} Gaussian{', ragged' if shape.ragged else ''}"
    return Row(work, "hmm_em", shape, peers)


def _use(work, task, *size, names=("hmmlearn", "dynamax"), kind=HMMShape):
    return Row(work, task, kind(*size), {name: Bar() for name in names})


ROWS = [
    _mixture("full", 200_000, 2, 8, bar=15, goal=40, others=["pomegranate"]),
    _mixture("full", 200_000, 16, 16, bar=10, goal=20, others=["pomegranate"]),
    _mixture("full", 100_000, 64, 10, bar=5, goal=10, others=["pomegranate"]),
    _mixture("full", 20_000, 784, 10, bar=2, goal=3, data="Fashion-MNIST"),
    _mixture("full", 500_000, 54, 7, bar=5, goal=10, data="Covtype"),
    _mixture("diag", 500_000, 54, 7, bar=6, goal=15, data="Covtype"),
    _mixture("diag", 60_000, 784, 10, bar=4, goal=10, data="Fashion-MNIST"),
    _mixture("diag", 200_000, 16, 16, others=["pomegranate"]),
    _mixture("tied", 200_000, 16, 16),
    _mixture("spherical", 200_000, 16, 16),
    # Of full covariances mlpack's start is another in each call, so that it cannot be shared.
    _mlpack("diag", 200_000, 16, 16),
    _hmm(2000, 50, 4, 4, hmmlearn=(25, 60), dynamax=(5, 10), pomegranate=True),
    _hmm(2000, 50, 16, 8, hmmlearn=(15, 30), dynamax=(7, 15)),
    _hmm(1, 100_000, 8, 4, hmmlearn=(3, 6), dynamax=(10, 20)),
    _hmm(1, 100_000, 64, 4, hmmlearn=(10, 20), dynamax=(5, 10)),
    _hmm(20_000, 10, 4, 4, hmmlearn=(100, 200), dynamax=(6, 12)),
    _hmm(2000, 50, 4, 4, covariance_type="full", dynamax=()),
    _hmm(2000, 50, 4, 4, ragged=True),
    _use("HMM score", "hmm_score", 2000, 50, 4, 4),
    _use("HMM score", "hmm_score", 1, 100_000, 8, 4),
    _use("HMM Viterbi", "hmm_decode", 2000, 50, 4, 4),
    _use("HMM Viterbi", "hmm_decode", 1, 100_000, 8, 4),
    Row(
        "Kalman EM",
        "kalman_em",
        KalmanShape(2000, 50, 5, 10),
        {"dynamax": Bar(20, 40), "simdkalman": Bar(200, 400)},
    ),
    Row(
        "Kalman EM",
        "kalman_em",
        KalmanShape(1, 100_000, 5, 10),
        {"dynamax": Bar(30, 100), "statsmodels": Bar(30, 100)},
    ),
    Row("Kalman EM", "kalman_em", KalmanShape(1, 2000, 5, 10), {"pykalman": Bar(500, 2000)}),
    _use(
        "Kalman smoothing", "kalman_smooth", 1, 100_000, 5, 10, names=["statsmodels"],
        kind=KalmanShape,
    ),
    _use(
        "Kalman smoothing", "kalman_smooth", 1, 2000, 5, 10, names=["pykalman", "statsmodels"],
        kind=KalmanShape,
    ),
    _use(
        "Kalman smoothing", "kalman_smooth", 1, 20_000, 5, 10, 0.1, names=["statsmodels"],
        kind=KalmanShape,
    ),
    Row(
        "compound Dirichlet, whole fit to 1e-8",
        "dirichlet_fit",
        DocumentsShape(100_000, 10, 100),
        {"SciPy": Bar(10, 50)},
    ),
    Row(
        "compound Dirichlet, whole fit to 1e-8",
        "dirichlet_fit",
        DocumentsShape(20_000, 1000, 200),
        {"SciPy": Bar(50, 300)},
    ),
    Row(
        "compound Dirichlet, whole fit to 1e-8",
        "dirichlet_fit",
        DocumentsShape(50_000, 30_000, 150, is_sparse=True, most_evaluations=30),
        {"SciPy": Bar()},
    ),
]  # fmt: skip


def chosen(words: list[str]) -> list[Row]:
    """The rows whose description contains one of the words, whatever their case; else all."""
    if not words:
        return ROWS
    return [row for row in ROWS if any(word.lower() in str(row).lower() for word in words)]
