"""Columns of categories."""

from __future__ import annotations

import numpy as np

from ..kernels.families.categorical import Categorical as Packed
from ..kernels.families.categorical import CategoricalCounts, refresh_categorical
from ..log_linear import geometric_mean
from .sums import NEVER, SummedFamily, outcomes_missed
from .support import first_wrong, no_negatives

__all__ = ["Categorical"]


class Categorical(SummedFamily):
    """Columns of categories 0 .. C-1. Parameters: ``probabilities`` (K, D, C).

    Parameters
    ----------
    n_categories : int
        How many categories a column may have.

    Examples
    --------
    >>> import numpy as np
    >>> import fastem
    >>> from fastem.families import Categorical
    >>> rng = np.random.default_rng(0)
    >>> ratings = np.concatenate([rng.integers(0, 2, (200, 4)), rng.integers(2, 5, (200, 4))])
    >>> model = fastem.Mixture(Categorical(5), 2, random_state=0).fit(ratings)
    >>> model.probabilities_.shape
    (2, 4, 5)
    """

    parameter_names = ("probabilities",)
    nonnegative = True
    separable = True
    indexes = True
    block_name = "counts"
    sums_kind = CategoricalCounts
    shaped_as = "probabilities"

    def __init__(self, n_categories):
        if not (isinstance(n_categories, (int, np.integer)) and n_categories >= 1):
            raise ValueError(f"n_categories must be a whole number >= 1; got {n_categories!r}.")
        self.n_categories = int(n_categories)

    def settings(self):
        return {"n_categories": self.n_categories}

    def check(self, X):
        top = self.n_categories - 1
        what = f"Categorical data must be whole numbers from 0 to {top}"
        no_negatives(X, what)
        first_wrong(X, ~((X >= 0) & (X <= top)) | (X != np.floor(X)), what)

    def check_indices(self, X, missing=False):
        if X.size == 0:
            return
        # One pass for each end, and no copy: NaN that is not expected makes both comparisons fail.
        least, most = (np.fmin, np.fmax) if missing else (np.minimum, np.maximum)
        low, high = least.reduce(X, axis=None), most.reduce(X, axis=None)
        top = self.n_categories - 1
        if not (low >= 0 and high <= top) and not (missing and np.isnan(low)):
            raise ValueError(
                f"Categorical data must be whole numbers from 0 to {top}; they go from {low} to "
                f"{high}."
            )

    def entry_tests(self, n_columns):
        n_categories = self.n_categories

        def is_category(value):
            return 0.0 <= value < n_categories and value.is_integer()

        return [is_category] * n_columns

    def support(self):
        return 0.0, self.n_categories - 1.0, True

    def pack(self, parameters):
        probabilities = np.array(self.given(parameters)["probabilities"], order="C")
        wrong = probabilities.ndim != 3 or probabilities.shape[2] != self.n_categories
        if wrong or 0 in probabilities.shape:
            raise ValueError(
                f"probabilities must have the shape (components, columns, {self.n_categories}); "
                f"got {probabilities.shape}."
            )
        if not (probabilities >= 0).all():
            raise ValueError("probabilities must not be negative or NaN.")
        sums = probabilities.sum(axis=2)
        if not np.allclose(sums, 1.0, rtol=0, atol=1e-6):
            k, c = (int(i) for i in np.argwhere(~np.isclose(sums, 1.0, rtol=0, atol=1e-6))[0])
            raise ValueError(f"probabilities[{k}, {c}] must sum to one; it sums to {sums[k, c]}.")
        packed = Packed(probabilities, np.empty_like(probabilities), self.least)
        self.refresh(packed)
        return packed

    def refresh(self, packed):
        refresh_categorical(packed)
        return True

    def unpack(self, packed):
        return {"probabilities": packed.probabilities}

    def start(self, centers):
        shape = (*np.shape(centers), self.n_categories)
        return {"probabilities": np.full(shape, 1.0 / self.n_categories)}

    def stirred(self, parameters, rng):
        shares = parameters["probabilities"] * rng.uniform(
            0.5, 1.5, parameters["probabilities"].shape
        )
        return {"probabilities": shares / shares.sum(axis=2, keepdims=True)}

    def draw(self, parameters, labels, rng, horizon=None):
        cumulative = np.cumsum(parameters["probabilities"], axis=2)[labels]
        u = rng.random(cumulative.shape[:2])[:, :, None]
        return (u > cumulative[:, :, :-1]).sum(axis=2).astype(float)

    def log_joint(self, blocks, mass, packed):
        self.check_blocks(blocks, packed)
        return float((blocks["counts"] * packed.logarithms).sum())

    def cross(self, packed, other, horizon=None):
        ours, theirs = (p.probabilities.reshape(len(p.probabilities), -1) for p in (packed, other))
        # The logarithm of zero is huge here, and may overflow.
        with np.errstate(over="ignore"):
            table = ours @ other.logarithms.reshape(theirs.shape).T
        return np.where(outcomes_missed(ours, theirs), -np.inf, table)

    def log_linear_parameters(self, parameters, alphas, held):
        return {"probabilities": geometric_mean([p["probabilities"] for p in parameters], alphas)}

    def rules_out(self, blocks, mass, packed):
        counts = blocks["counts"] > NEVER * mass[:, None, None]
        return bool((counts & (packed.probabilities == 0.0)).any())

    def n_parameters(self, parameters):
        n_components, n_columns, n_categories = parameters["probabilities"].shape
        return n_components * n_columns * (n_categories - 1)
