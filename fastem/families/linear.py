"""Families whose statistics are plain sums of features, column by column."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..drawing import check_drawable
from ..kernels.families import linear as kernels
from ..kernels.families.linear import Linear, Shaped, refresh_linear, refresh_shaped
from ..log_linear import geometric_mean, log_mean, weighted_sum
from .sums import NaturalFamily, outcomes_missed
from .support import check_counts, first_wrong, is_count, no_negatives

__all__ = ["Bernoulli", "Beta", "Exponential", "Gamma", "Multinomial", "Poisson"]


_LARGEST, _LEAST = np.finfo(float).max.item(), np.nextafter(0.0, 1.0).item()

# One less a probability is known to this.
_NEVER_ELSE = 4 * np.finfo(float).eps


class _LinearFamily(NaturalFamily):
    """Independent columns with features ``φ(x) = x`` and one parameter each."""

    kind: int
    packed_kind = Linear
    refresh_kernel = staticmethod(refresh_linear)
    nonnegative = True
    #: What parameters may be: the words of an error, and a test.
    domain = ("positive and finite", lambda values: np.isfinite(values) & (values > 0))

    #: Whether one value is finite and in the support.
    in_support: Callable

    #: The least and the largest value, and whether values are whole numbers.
    range: tuple[float, float, bool] = (0.0, _LARGEST, True)

    def entry_tests(self, n_columns):
        return [self.in_support] * n_columns

    def support(self):
        return self.range

    def pack(self, parameters):
        arrays = list(self.given(parameters).values())
        words, inside = self.domain
        for name, array in zip(self.parameter_names, arrays, strict=True):
            if array.ndim != 2 or array.shape != arrays[0].shape or 0 in array.shape:
                raise ValueError(
                    f"{name} must have the shape (components, columns), the same for all "
                    f"parameters; got {array.shape}."
                )
            if not inside(array).all():
                at = tuple(int(i) for i in np.argwhere(~inside(array))[0])
                raise ValueError(f"{name} must be {words}; {name}[{at}] is {array[at]}.")
        stacked = np.ascontiguousarray(np.concatenate(arrays, axis=1))
        n_components = len(stacked)
        packed = self.packed_kind(
            self.kind, stacked, np.zeros_like(stacked), np.zeros(n_components),
            np.zeros_like(stacked), self.least,
        )  # fmt: skip
        self.refresh(packed)
        return packed

    def refresh(self, packed):
        self.refresh_kernel(packed)
        return True

    def unpack(self, packed):
        parts = np.split(packed.parameters, len(self.parameter_names), axis=1)
        return dict(zip(self.parameter_names, parts, strict=True))

    def cross(self, packed, other, horizon=None):
        # The logarithm of zero is huge here, and may overflow.
        with np.errstate(over="ignore"):
            table = self.kernel_horizon(horizon) * packed.expected @ other.natural.T
            table = table + other.offsets
        missed = self.missed(packed.expected, other)
        return table if missed is None else np.where(missed, -np.inf, table)

    def missed(self, expected, packed):
        """Which components of ``packed`` rule out what has the given expectations, for all pairs.

        None if a component of this family rules nothing out.
        """
        return None

    def rules_out(self, blocks, mass, packed):
        alive = mass > 0
        chosen = packed._replace(parameters=packed.parameters[alive])
        missed = self.missed(blocks["sums"][alive] / mass[alive, None], chosen)
        return missed is not None and bool(np.diag(missed).any())


class Poisson(_LinearFamily):
    """Counts: each column is Poisson with its own rate. Parameters: ``rates`` (K, D).

    Examples
    --------
    >>> import numpy as np
    >>> import fastem
    >>> counts = np.random.default_rng(0).poisson([[2.0, 9.0]] * 300 + [[20.0, 1.0]] * 100)
    >>> model = fastem.Mixture("poisson", 2, random_state=0).fit(counts)
    >>> model.rates_[model.weights_.argsort()].round()
    array([[20.,  1.],
           [ 2.,  9.]])
    """

    kind = kernels.POISSON
    separable = True
    parameter_names = ("rates",)
    domain = ("zero or more, and finite", lambda values: np.isfinite(values) & (values >= 0))

    in_support = staticmethod(is_count)

    def check(self, X):
        check_counts(X, "Poisson")

    def missed(self, expected, packed):
        return outcomes_missed(expected, packed.parameters)

    def start(self, centers):
        return {"rates": np.maximum(centers, 1e-3)}

    def log_linear_parameters(self, parameters, alphas, held):
        return {"rates": np.exp(log_mean([p["rates"] for p in parameters], alphas))}

    def draw(self, parameters, labels, rng, horizon=None):
        return rng.poisson(parameters["rates"][labels])


class Bernoulli(_LinearFamily):
    """Zeros and ones: a product of coins. Parameters: ``probabilities`` (K, D).

    Examples
    --------
    >>> import numpy as np
    >>> import fastem
    >>> rng = np.random.default_rng(0)
    >>> answers = rng.random((400, 9)) < np.where(np.arange(400) < 100, 0.1, 0.8)[:, None]
    >>> model = fastem.Mixture("bernoulli", 2, random_state=0).fit(answers)
    >>> np.sort(model.probabilities_.mean(axis=1)).round(1)
    array([0.1, 0.8])
    """

    kind = kernels.BERNOULLI
    separable = True
    parameter_names = ("probabilities",)
    domain = ("between 0 and 1", lambda values: (values >= 0) & (values <= 1))

    in_support = staticmethod(lambda value: value in (0.0, 1.0))
    range = (0.0, 1.0, True)

    def check(self, X):
        no_negatives(X, "Bernoulli data must be 0 or 1")
        if X.dtype.kind != "b":
            first_wrong(X, (X != 0) & (X != 1), "Bernoulli data must be 0 or 1")

    def missed(self, expected, packed):
        ones = outcomes_missed(expected, packed.parameters)
        return ones | outcomes_missed(1.0 - expected, 1.0 - packed.parameters, _NEVER_ELSE)

    def start(self, centers):
        return {"probabilities": np.clip(centers, 0.01, 0.99)}

    def draw(self, parameters, labels, rng, horizon=None):
        p = parameters["probabilities"][labels]
        return (rng.random(p.shape) < p).astype(float)

    def log_linear_parameters(self, parameters, alphas, held):
        both = [np.stack([1.0 - p["probabilities"], p["probabilities"]], -1) for p in parameters]
        return {"probabilities": geometric_mean(both, alphas)[..., 1]}


class Multinomial(_LinearFamily):
    """Rows of counts over D outcomes. Parameters: ``probabilities`` (K, D), rows summing to one.

    Parameters
    ----------
    n_trials : int, optional
        The number of trials of a row that is drawn from the model, and of the divergence between
        models; one unless given. When fitting it is read from each row.

    Examples
    --------
    >>> import numpy as np
    >>> import fastem
    >>> rng = np.random.default_rng(0)
    >>> kinds = [0.6, 0.3, 0.1], [0.1, 0.3, 0.6]
    >>> counts = np.concatenate([rng.multinomial(50, kind, 200) for kind in kinds])
    >>> model = fastem.Mixture("multinomial", 2, random_state=0).fit(counts)
    >>> np.sort(model.probabilities_[:, 0]).round(1)
    array([0.1, 0.6])
    """

    kind = kernels.MULTINOMIAL
    parameter_names = ("probabilities",)
    domain = ("between 0 and 1", lambda values: (values >= 0) & (values <= 1))

    in_support = staticmethod(is_count)

    def __init__(self, n_trials=None):
        self.n_trials = n_trials

    def settings(self):
        return {"n_trials": self.n_trials}

    def check(self, X):
        check_counts(X, "Multinomial")

    def pack(self, parameters):
        packed = super().pack(parameters)
        sums = packed.parameters.sum(axis=1)
        if not np.allclose(sums, 1.0, rtol=0, atol=1e-6):
            k = int(np.argmax(np.abs(sums - 1.0)))
            raise ValueError(f"probabilities[{k}] must sum to one; it sums to {sums[k]}.")
        return packed

    def missed(self, expected, packed):
        return outcomes_missed(expected, packed.parameters)

    def horizon(self, packed, total, buffers):
        return float(buffers.first.sum() / total) if total > 0 else None

    def kernel_horizon(self, horizon):
        return float(horizon if horizon is not None else self.n_trials or 1)

    def start(self, centers):
        shares = np.asarray(centers, dtype=float) + 1e-3
        return {"probabilities": shares / shares.sum(axis=1, keepdims=True)}

    def draw(self, parameters, labels, rng, horizon=None):
        trials = round(self.kernel_horizon(horizon))
        check_drawable(trials)
        return rng.multinomial(trials, parameters["probabilities"][labels])

    def n_parameters(self, parameters):
        n_components, n_columns = parameters["probabilities"].shape
        return n_components * (n_columns - 1)

    def log_linear_parameters(self, parameters, alphas, held):
        return {"probabilities": geometric_mean([p["probabilities"] for p in parameters], alphas)}


class Exponential(_LinearFamily):
    """Waiting times: each column is exponential. Parameters: ``scales`` (K, D), the means.

    Examples
    --------
    >>> import numpy as np
    >>> import fastem
    >>> rng = np.random.default_rng(0)
    >>> waits = np.concatenate([rng.exponential(1.0, (300, 2)), rng.exponential(30.0, (300, 2))])
    >>> model = fastem.Mixture("exponential", 2, random_state=0).fit(waits)
    >>> model.scales_.shape, model.predict([[0.5, 0.9]]) == model.scales_.mean(axis=1).argmin()
    ((2, 2), array([ True]))
    """

    kind = kernels.EXPONENTIAL
    separable = True
    parameter_names = ("scales",)

    in_support = staticmethod(lambda value: 0.0 <= value < np.inf)
    range = (0.0, _LARGEST, False)

    def check(self, X):
        no_negatives(X, "Exponential data cannot be negative")

    def start(self, centers):
        return {"scales": np.maximum(centers, 1e-300)}

    def draw(self, parameters, labels, rng, horizon=None):
        return rng.exponential(parameters["scales"][labels])

    def log_linear_parameters(self, parameters, alphas, held):
        return {"scales": 1.0 / weighted_sum([1.0 / p["scales"] for p in parameters], alphas)}


class _ShapedFamily(_LinearFamily):
    """Independent columns with two features and two parameters each."""

    packed_kind = Shaped
    refresh_kernel = staticmethod(refresh_shaped)
    separable = True


class Gamma(_ShapedFamily):
    """Positive columns, each gamma. Parameters: ``shapes`` and ``scales`` (K, D).

    Examples
    --------
    >>> import numpy as np
    >>> import fastem
    >>> rng = np.random.default_rng(0)
    >>> sizes = np.concatenate([rng.gamma(2.0, 1.0, (300, 1)), rng.gamma(50.0, 1.0, (300, 1))])
    >>> model = fastem.Mixture("gamma", 2, random_state=0).fit(sizes)
    >>> np.sort((model.shapes_ * model.scales_).ravel()).round()  # the means
    array([ 2., 50.])
    """

    kind = kernels.GAMMA
    parameter_names = ("shapes", "scales")
    failure = (
        "The gamma shape of some component does not exist: all its weight is on one value. "
        "Use fewer components, or add points."
    )

    in_support = staticmethod(lambda value: 0.0 < value < np.inf)
    range = (_LEAST, _LARGEST, False)

    def check(self, X):
        no_negatives(X, "Gamma data must be positive")
        first_wrong(X, ~(X > 0), "Gamma data must be positive")

    def start(self, centers):
        return {"shapes": np.ones(np.shape(centers)), "scales": np.maximum(centers, 1e-300)}

    def draw(self, parameters, labels, rng, horizon=None):
        return rng.gamma(parameters["shapes"][labels], parameters["scales"][labels])

    def log_linear_parameters(self, parameters, alphas, held):
        self._none_held(held)
        return {
            "shapes": weighted_sum([p["shapes"] for p in parameters], alphas),
            "scales": 1.0 / weighted_sum([1.0 / p["scales"] for p in parameters], alphas),
        }


class Beta(_ShapedFamily):
    """Columns between 0 and 1, each beta. Parameters: ``alphas`` and ``betas`` (K, D).

    Examples
    --------
    >>> import numpy as np
    >>> import fastem
    >>> rng = np.random.default_rng(0)
    >>> shares = np.concatenate([rng.beta(2.0, 8.0, (300, 1)), rng.beta(8.0, 2.0, (300, 1))])
    >>> model = fastem.Mixture("beta", 2, random_state=0).fit(shares)
    >>> np.sort((model.alphas_ / (model.alphas_ + model.betas_)).ravel()).round(1)  # the means
    array([0.2, 0.8])
    """

    kind = kernels.BETA
    parameter_names = ("alphas", "betas")
    failure = (
        "The beta shapes of some component do not exist: all its weight is on one value. "
        "Use fewer components, or add points."
    )

    in_support = staticmethod(lambda value: 0.0 < value < 1.0)
    range = (_LEAST, np.nextafter(1.0, 0.0).item(), False)

    def check(self, X):
        no_negatives(X, "Beta data must lie strictly between 0 and 1")
        first_wrong(X, ~((X > 0) & (X < 1)), "Beta data must lie strictly between 0 and 1")

    def start(self, centers):
        centers = np.clip(centers, 1e-3, 1 - 1e-3)
        return {"alphas": 2 * centers, "betas": 2 * (1 - centers)}

    def draw(self, parameters, labels, rng, horizon=None):
        drawn = rng.beta(parameters["alphas"][labels], parameters["betas"][labels])
        # A draw within half an ulp of an end is rounded onto it, where there is no density.
        return np.clip(drawn, np.nextafter(0.0, 1.0), np.nextafter(1.0, 0.0))

    def log_linear_parameters(self, parameters, alphas, held):
        self._none_held(held)
        return {
            name: weighted_sum([p[name] for p in parameters], alphas)
            for name in self.parameter_names
        }
