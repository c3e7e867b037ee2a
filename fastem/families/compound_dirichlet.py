"""Counts whose probabilities vary from row to row: compound Dirichlet components."""

from __future__ import annotations

import numpy as np

from ..drawing import check_drawable, draw_documents
from ..kernels.dirichlet.newton import height, own_statistics
from ..kernels.families.compound_dirichlet import CompoundDirichlet, LogTopics
from ..log_linear import weighted_sum
from .sums import SummedFamily
from .support import check_counts, is_count

__all__ = ["DirichletMultinomial"]


class DirichletMultinomial(SummedFamily):
    """Rows of counts, each with a topic of its own from its component's Dirichlet.

    For clustering documents or samples whose words are more bursty than a multinomial allows. The
    component and the topic are both hidden. Parameters: ``alphas`` (K, D).

    Parameters
    ----------
    n_trials : int, optional
        The number of words of a row that is drawn from the model, 100 unless given. When fitting
        it is read from each row.

    Examples
    --------
    >>> import numpy as np
    >>> import fastem
    >>> from fastem.families import DirichletMultinomial
    >>> rng = np.random.default_rng(0)
    >>> topics = np.concatenate([rng.dirichlet(a, 200) for a in ([9.0, 1.0, 1.0], [1.0, 1.0, 9.0])])
    >>> counts = rng.multinomial(50, topics)
    >>> model = fastem.Mixture(DirichletMultinomial(), 2, random_state=0).fit(counts)
    >>> model.alphas_.shape
    (2, 3)
    """

    parameter_names = ("alphas",)
    nonnegative = True
    block_name = "log_topics"
    sums_kind = LogTopics
    shaped_as = "alphas"
    failure = (
        "The likeliest alphas of some component do not exist: its topics do not vary. "
        "Use fewer components, or add rows."
    )

    def __init__(self, n_trials=None):
        self.n_trials = n_trials

    def settings(self):
        return {"n_trials": self.n_trials}

    def check(self, X):
        check_counts(X, "DirichletMultinomial")

    def pack(self, parameters):
        alphas = np.ascontiguousarray(self.given(parameters)["alphas"])
        if alphas.ndim != 2 or 0 in alphas.shape:
            raise ValueError(
                f"alphas must have the shape (components, columns); got {alphas.shape}."
            )
        wrong = ~((alphas > 0) & np.isfinite(alphas))
        if wrong.any():
            at = tuple(int(i) for i in np.argwhere(wrong)[0])
            raise ValueError(f"alphas must be positive and finite; alphas[{at}] is {alphas[at]}.")
        return CompoundDirichlet(alphas)

    def entry_tests(self, n_columns):
        return [is_count] * n_columns

    def refresh(self, packed):
        return True  # kernels need nothing but α

    def unpack(self, packed):
        return {"alphas": packed.alphas}

    def start(self, centers):
        # The precision of a row of ones: one for each word.
        centers = np.asarray(centers, dtype=float) + 1e-2
        shares = centers / centers.sum(axis=1, keepdims=True)
        return {"alphas": shares * centers.shape[1]}

    def draw(self, parameters, labels, rng, horizon=None):
        alphas = parameters["alphas"]
        length = round(horizon) if horizon is not None else self.n_trials or 100
        check_drawable(length)
        counts = np.empty((len(labels), alphas.shape[1]), np.int64)
        for k, alpha in enumerate(alphas):
            rows = np.flatnonzero(np.asarray(labels) == k)
            lengths = np.full(len(rows), length, np.int64)
            counts[rows] = draw_documents(alpha, lengths, rng).toarray()
        return counts

    def cross(self, packed, other, horizon=None):
        alphas, others = packed.alphas, other.alphas
        table = np.empty((len(alphas), len(others)))
        log_topics = np.empty(alphas.shape[1])
        for h, alpha in enumerate(alphas):
            own_statistics(np.ascontiguousarray(alpha), log_topics)
            table[h] = [height(alpha, log_topics) for alpha in others]
        return table

    def log_linear_parameters(self, parameters, alphas, held):
        return {"alphas": weighted_sum([p["alphas"] for p in parameters], alphas)}

    def log_joint(self, blocks, mass, packed):
        self.check_blocks(blocks, packed)
        return float(
            sum(
                m * height(alpha, sums / m)
                for m, alpha, sums in zip(mass, packed.alphas, blocks["log_topics"], strict=True)
                if m > 0
            )
        )
