"""The rows of the table: the task, the shape, and whom it is measured beside."""

from __future__ import annotations

from typing import Any, NamedTuple

from . import documents, hidden_markov, kalman, mixtures, peers
from .documents import DocumentsShape
from .hidden_markov import HMMShape
from .kalman import KalmanShape
from .mixtures import MixtureShape
from .side import Side

__all__ = ["OURS", "ROWS", "Bar", "Posed", "Row", "chosen"]

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

    def data_name(self, folder=None) -> str:
        """What the data are."""
        named = getattr(self.shape, "data_name", None)
        return named(folder) if named else "synthetic"

    def start_of(self, folder=None):
        """The start of the peer that all sides take it from; in the process of that peer."""
        start = getattr(peers.find(self.start_from), self.task.replace("_em", "_start"))
        return start(self.shape.problem(folder))


class Posed(NamedTuple):
    """A row with its data, as a task for the process of a library."""

    row: Row
    folder: Any = None
    #: Takes the place of the start of the shape.
    start: Any = None

    def side(self, library: str) -> Side:
        """How a library, or fastem, does it."""
        problem = self.row.shape.problem(self.folder)
        if self.start is not None:
            problem.start = self.start
        if library == "fastem":
            return OURS[self.row.task](problem)
        return getattr(peers.find(library), self.row.task)(problem)


def _row(work, task, shape, start_from=None, **bars):
    """A row; of each peer, the arguments of its :class:`Bar`."""
    return Row(work, task, shape, {name: Bar(*bar) for name, bar in bars.items()}, start_from)


def _mixture(shape, *bar, **others):
    work = f"GMM {shape.covariance_type}"
    return _row(work, "mixture_em", shape, **{"scikit-learn": bar}, **others)


def _armadillo(shape, *bar):
    """Armadillo takes doubles alone, and has no ``reg_covar``: rows of its own.

    Its start is such that no component is left with a single row, whose variances would be zero.
    """
    shape = shape._replace(n_start_rows=100)
    return _row(f"GMM {shape.covariance_type}", "mixture_em", shape, Armadillo=bar)


def _hmm(shape, hmmlearn=(), **others):
    work = f"HMM {shape.covariance_type} Gaussian{', ragged' if shape.ragged else ''}"
    return _row(work, "hmm_em", shape, hmmlearn=hmmlearn, **others)


_SMOOTHING = "Kalman smoothing", "kalman_smooth"
_DOCUMENTS = "compound Dirichlet, whole fit to 1e-8", "dirichlet_fit"

ROWS = [
    _mixture(MixtureShape("full", 200_000, 2, 8), 25, 50, pomegranate=()),
    _mixture(MixtureShape("full", 200_000, 16, 16), 14, 25, pomegranate=()),
    _mixture(MixtureShape("full", 100_000, 64, 10), 9, 15, pomegranate=()),
    _mixture(MixtureShape("full", 20_000, 784, 10, "Fashion-MNIST"), 3.5, 5),
    _mixture(MixtureShape("full", 500_000, 54, 7, "Covtype"), 9, 15),
    _mixture(MixtureShape("diag", 500_000, 54, 7, "Covtype"), 8, 15),
    _mixture(MixtureShape("diag", 60_000, 784, 10, "Fashion-MNIST"), 9, 15),
    _mixture(MixtureShape("diag", 200_000, 16, 16), pomegranate=()),
    _mixture(MixtureShape("tied", 200_000, 16, 16)),
    _mixture(MixtureShape("spherical", 200_000, 16, 16)),
    # Of full covariances mlpack's start is another in each call, so that it cannot be shared.
    _row("GMM diag", "mixture_em", MixtureShape("diag", 200_000, 16, 16), "mlpack", mlpack=()),
    _armadillo(MixtureShape("diag", 500_000, 54, 7, "Covtype with noise"), 3, 6),
    _armadillo(MixtureShape("diag", 60_000, 784, 10), 2.5, 5),
    _armadillo(MixtureShape("full", 200_000, 16, 16), 9, 20),
    _armadillo(MixtureShape("diag", 200_000, 16, 16), 5, 10),
    _hmm(HMMShape(2000, 50, 4, 4), (40, 80), dynamax=(10, 20), pomegranate=()),
    _hmm(HMMShape(2000, 50, 16, 8), (25, 50), dynamax=(18, 30)),
    _hmm(HMMShape(1, 100_000, 8, 4), (9, 15), dynamax=(25, 40)),
    _hmm(HMMShape(1, 100_000, 64, 4), (17, 30), dynamax=(9, 15)),
    _hmm(HMMShape(20_000, 10, 4, 4), (100, 200), dynamax=(8, 20)),
    _hmm(HMMShape(2000, 50, 4, 4, covariance_type="full"), (100, 200), dynamax=(6, 12)),
    _hmm(HMMShape(2000, 50, 4, 4, ragged=True)),
    _row("HMM score", "hmm_score", HMMShape(2000, 50, 4, 4), hmmlearn=(), dynamax=(10, 25)),
    _row("HMM score", "hmm_score", HMMShape(1, 100_000, 8, 4), hmmlearn=(), dynamax=()),
    _row("HMM Viterbi", "hmm_decode", HMMShape(2000, 50, 4, 4), hmmlearn=(), dynamax=(10, 25)),
    _row("HMM Viterbi", "hmm_decode", HMMShape(1, 100_000, 8, 4), hmmlearn=(), dynamax=()),
    _row("Kalman EM", "kalman_em", KalmanShape(2000, 50, 5, 10),
         dynamax=(25, 50), simdkalman=(350, 700)),
    _row("Kalman EM", "kalman_em", KalmanShape(1, 100_000, 5, 10),
         dynamax=(150, 300), statsmodels=(150, 300)),
    _row("Kalman EM", "kalman_em", KalmanShape(1, 2000, 5, 10), pykalman=(800, 2000)),
    _row(*_SMOOTHING, KalmanShape(1, 100_000, 5, 10), statsmodels=(20, 50)),
    _row(*_SMOOTHING, KalmanShape(1, 2000, 5, 10), pykalman=(), statsmodels=(12, 30)),
    _row(*_SMOOTHING, KalmanShape(1, 20_000, 5, 10, 0.1), statsmodels=(6, 20)),
    _row(*_DOCUMENTS, DocumentsShape(100_000, 10, 100), SciPy=(200, None)),
    _row(*_DOCUMENTS, DocumentsShape(20_000, 1000, 200), SciPy=(1000, None)),
    _row(*_DOCUMENTS,
         DocumentsShape(50_000, 30_000, 150, is_sparse=True, most_evaluations=30), SciPy=()),
]  # fmt: skip


def chosen(words: list[str]) -> list[Row]:
    """The rows whose description contains one of the words, whatever their case; else all."""
    if not words:
        return ROWS
    return [row for row in ROWS if any(word.lower() in str(row).lower() for word in words)]
