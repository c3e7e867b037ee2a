"""``fastem.Mixture``: a mixture of any family."""

from __future__ import annotations

import numpy as np

from .. import checks
from ..families import FAMILY_NAMES, Family, as_family
from ..learning_rate import DEFAULT_RATE
from .base import BaseMixture

__all__ = ["Mixture"]


class Mixture(BaseMixture):
    """A mixture of components of one family.

    Parameters
    ----------
    family : Family or str, default="gaussian"
        An instance from :mod:`fastem.families`, of a subclass of
        :class:`fastem.ExponentialFamily`, or a name such as ``"poisson"``.
    n_components : int, default=1
        The number of components.
    tol : float, default=1e-3
        EM stops when the mean log-likelihood changes by less.
    max_iter : int, default=100
        The most iterations of EM.
    n_init : int, default=1
        The number of starts, of which the best is kept.
    init_params : {'kmeans', 'k-means++', 'random', 'random_from_data'}, default='kmeans'
        How responsibilities are first chosen.
    init : dict, optional
        Parameters to start from by name (``"weights"`` and the family's); what is missing comes
        from the data.
    random_state : int, RandomState instance or None, default=None
    warm_start : bool, default=False
        Whether ``fit`` goes on from the last fit.
    verbose : int, default=0
    verbose_interval : int, default=10
    learning_rate : 'auto', float, callable or Decay, default='auto'
        The rate of online learning. ``'auto'`` counts observations: it goes on from those behind
        the model, and how data are cut into batches hardly matters. A number η, or a function of
        the step 1, 2, ..., is the rate of a whole batch; a smaller one takes its share of it.
    batch_size : int or None, default=None
        Rows of a mini-batch in ``partial_fit``; None takes each call's rows as one
        batch, and a stream in batches of 1000.
    memory : {'model', 'statistics'}, default='model'
        What online learning remembers: the model alone, or running statistics (Cappé, Moulines).
    fixed : iterable of str, default=()
        Names of parameters that learning leaves alone.
    n_jobs : int or None, default=None
        Threads; None: as many as there are cores, one inside a worker. The result does not depend
        on it.

    Attributes
    ----------
    weights_ : ndarray of shape (n_components,)
    converged_, n_iter_, lower_bound_, lower_bounds_, n_features_in_
        As for scikit-learn's mixtures.
    n_steps_ : int or float
        Online steps since the last ``fit``; a batch of a half counts a half.
    n_observations_ : float
        The weight of the observations behind the model, of the last ``fit`` and since.

    The family's parameters are attributes too, with an underscore: ``rates_``, ``means_``.

    Examples
    --------
    >>> import numpy as np
    >>> import fastem
    >>> counts = np.random.default_rng(0).poisson([[2.0], [30.0]], size=(2, 200)).reshape(-1, 1)
    >>> model = fastem.Mixture("poisson", 2, random_state=0).fit(counts)
    >>> np.sort(model.rates_.ravel()).round()
    array([ 2., 30.])
    """

    _parameter_constraints = {  # noqa: RUF012
        **BaseMixture._parameter_constraints,
        "family": [Family, str],
        "init": [dict, None],
    }

    def __init__(
        self,
        family="gaussian",
        n_components=1,
        *,
        tol=1e-3,
        max_iter=100,
        n_init=1,
        init_params="kmeans",
        init=None,
        random_state=None,
        warm_start=False,
        verbose=0,
        verbose_interval=10,
        learning_rate=DEFAULT_RATE,
        batch_size=None,
        memory="model",
        fixed=(),
        n_jobs=None,
    ):
        self.family = family
        self.n_components = n_components
        self.tol = tol
        self.max_iter = max_iter
        self.n_init = n_init
        self.init_params = init_params
        self.init = init
        self.random_state = random_state
        self.warm_start = warm_start
        self.verbose = verbose
        self.verbose_interval = verbose_interval
        self.learning_rate = learning_rate
        self.batch_size = batch_size
        self.memory = memory
        self.fixed = fixed
        self.n_jobs = n_jobs

    def _family(self):
        return as_family(self.family).beside_weights()

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        if isinstance(self.family, Family) or self.family in FAMILY_NAMES:
            family = self._family()
            tags.input_tags.positive_only = family.nonnegative
            tags.input_tags.categorical = family.indexes
        return tags

    def _given_start(self, row):
        given = {
            name: checks.numbers(f"init: {name!r}", array)
            for name, array in (self.init or {}).items()
        }
        # The shapes are those of any parameters for this many components and columns.
        example = self._family().start(np.repeat(row[None], self.n_components, axis=0))
        for name, array in given.items():
            if name == "weights":
                check_weights(array, self.n_components)
            elif name not in example:
                names = ("weights", *example)
                raise ValueError(f"init: {name!r} is not one of the parameters {names}.")
            elif array.shape != np.shape(example[name]):
                raise ValueError(
                    f"init: {name!r} should have the shape {np.shape(example[name])} for "
                    f"{self.n_components} components and {len(row)} columns, but got {array.shape}."
                )
            elif not np.isfinite(array).all():
                raise ValueError(f"init: {name!r} contains NaN or infinity.")
        return given


def check_weights(weights, n_components):
    """Raise ``ValueError`` unless these are the weights of ``n_components`` components."""
    if weights.shape != (n_components,):
        raise ValueError(
            f"The parameter 'weights' should have the shape of ({n_components},), "
            f"but got {weights.shape}"
        )
    if not np.isfinite(weights).all():
        raise ValueError("The parameter 'weights' contains NaN or infinity.")
    if not ((weights >= 0) & (weights <= 1)).all():
        raise ValueError(
            "The parameter 'weights' should be in the range [0, 1], but got max value "
            f"{weights.max():.5f}, min value {weights.min():.5f}"
        )
    if abs(weights.sum() - 1) > 1e-6:
        raise ValueError(
            "The parameter 'weights' should be normalized, but got sum(weights) = "
            f"{weights.sum():.5f}"
        )
