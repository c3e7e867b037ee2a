"""``fastem.GaussianMixture``, as in scikit-learn, and ``fastem.Mixture`` of any family."""

from __future__ import annotations

import contextlib
from numbers import Real

import numpy as np
from scipy.linalg.lapack import dtrtri

from .. import checks
from ..families import FAMILY_NAMES, Family, Gaussian, as_family
from ..learning_rate import DEFAULT_RATE
from ..sklearn_compat import Interval, StrOptions
from .base import BaseMixture
from .hooks import ScikitSteps
from .model import check_sizes

__all__ = ["GaussianMixture", "Mixture"]


class GaussianMixture(ScikitSteps):
    """A mixture of Gaussians, with the interface of scikit-learn's class of that name.

    From the same initialization it gives the same parameters and lower bounds as scikit-learn, in
    each iteration. In addition it has ``partial_fit``, ``sample_weight``, fixed parameters and
    streams of arrays, and reads input of any real type without a copy.

    Parameters
    ----------
    n_components : int, default=1
        The number of components.
    covariance_type : {'full', 'tied', 'diag', 'spherical'}, default='full'
        A covariance matrix for each component, one for all, a variance for each column, or one
        variance for each component.
    tol : float, default=1e-3
        EM stops when the mean log-likelihood changes by less.
    reg_covar : float, default=1e-6
        Added to the variances of the data in every direction.
    max_iter : int, default=100
        The largest number of iterations of EM.
    n_init : int, default=1
        The number of initializations, of which the best is kept.
    init_params : {'kmeans', 'k-means++', 'random', 'random_from_data'}, default='kmeans'
        How responsibilities are initialized.
    weights_init : array-like of shape (n_components,), optional
        Weights to start from; by default those of the initialization.
    means_init : array-like of shape (n_components, n_features), optional
        Means to start from; by default those of the initialization.
    precisions_init : array-like, optional
        Inverses of the covariances to start from, in the shape that ``covariance_type`` gives them:
        (n_components, n_features, n_features) if full, (n_features, n_features) if tied,
        (n_components, n_features) if diag, (n_components,) if spherical.
    random_state : int, RandomState instance or None, default=None
        The random numbers of the initialization and of :meth:`sample`. With an int, every call
        draws the same ones.
    warm_start : bool, default=False
        Whether ``fit`` continues from the last fit.
    verbose : int or bool, default=0
        How progress is shown: 0 not at all; 1 by a bar with the log-likelihood, on a terminal; 2 by
        a line for each iteration. Without a terminal, lines go to the logger ``fastem`` (INFO), or
        to standard error if logging is not configured. No number depends on it.
    verbose_interval : int, default=10
        With ``verbose=1`` and without a terminal, a line is written for so many iterations.
    learning_rate : 'auto', float, callable or Decay, default='auto'
        The rate of online learning. ``'auto'`` counts the observations that the model has learned
        from, and how data are cut into batches hardly matters. A number η, or a function of the
        step 1, 2, ..., is the rate of a whole batch; it is reduced in proportion for a smaller one.
    batch_size : int or None, default=None
        Rows of a mini-batch in ``partial_fit``. None: 1000 at most in a call or a stream with the
        automatic rate; with a rate of your own, the rows of a call are one batch.
    memory : {'model', 'statistics'}, default='model'
        What online learning remembers: the model alone, or running statistics (Cappé, Moulines).
    forgetting : float or None, default=None
        For streams that drift, with ``learning_rate='auto'``: a half-life in observations. Steps do
        not fall below ``1 - 2^(-1/forgetting)``; None: they go on falling.
    average_from : float, 'auto' or None, default=None
        Whether the model shown is the average over time (Polyak, Ruppert) of those that online
        learning goes through: of those after this number of observations, or, with 'auto', of all,
        the later the more. Learning itself goes on from the last one.
    callback : callable or None, default=None
        Called after each iteration of ``fit``, and after each call or part of a stream that
        ``partial_fit`` learns from, with a :class:`fastem.monitoring.Report`. If it returns True,
        learning ends.
    drift_alarm : float or None, default=None
        The probability of a false alarm with which ``partial_fit`` tests whether the progressive
        log-likelihood has fallen; ``drift_`` is what it found. None: no test.
    fixed : iterable of str, default=()
        Which of ``"weights"``, ``"means"``, ``"covariances"`` learning leaves alone.
    n_jobs : int or None, default=None
        Threads; None: as many as there are cores, one inside a worker. The result does not depend
        on it.
    solver : {'em', 'incremental'}, default='em'
        How ``fit`` maximizes the likelihood: by batch EM, one step for each pass over the data, or
        by incremental EM, one step for each block of them. See :doc:`/incremental`.
    n_blocks : int or None, default=None
        The number of blocks of incremental EM; None: 10, or fewer for few data.

    Attributes
    ----------
    weights_ : ndarray of shape (n_components,)
    means_ : ndarray of shape (n_components, n_features)
    covariances_, precisions_, precisions_cholesky_ : ndarray
        Of shape (n_components, n_features, n_features) if full, (n_features, n_features) if tied,
        (n_components, n_features) if diag, (n_components,) if spherical.
    converged_ : bool
    n_iter_ : int
    lower_bound_ : float
        The mean log-likelihood at the last E-step of the best initialization.
    lower_bounds_ : list of float
        The same for each iteration. With ``solver="incremental"`` both are free energies, which
        are bounds of it: see :doc:`/incremental`.
    n_steps_ : int or float
        Online steps since the last ``fit``; half a batch counts as half a step.
    n_observations_ : float
        The weight of the observations that the model has learned from, in ``fit`` and since.
    n_features_in_, feature_names_in_
        As usual in scikit-learn.

    Examples
    --------
    >>> import numpy as np
    >>> from fastem import GaussianMixture
    >>> X = np.array([[1, 2], [1, 4], [1, 0], [10, 2], [10, 4], [10, 0]])
    >>> model = GaussianMixture(n_components=2, random_state=0).fit(X)
    >>> model.predict([[0, 0], [12, 3]]) == model.predict([[1, 1], [9, 3]])
    array([ True,  True])
    """

    _parameter_constraints = {  # noqa: RUF012
        **BaseMixture._parameter_constraints,
        "covariance_type": [StrOptions({"full", "tied", "diag", "spherical"})],
        "reg_covar": [Interval(Real, 0.0, None, closed="left")],
        "weights_init": ["array-like", None],
        "means_init": ["array-like", None],
        "precisions_init": ["array-like", None],
    }

    def __init__(
        self, n_components=1, *, covariance_type="full", tol=1e-3, reg_covar=1e-6, max_iter=100,
        n_init=1, init_params="kmeans", weights_init=None, means_init=None, precisions_init=None,
        random_state=None, warm_start=False, verbose=0, verbose_interval=10,
        learning_rate=DEFAULT_RATE, batch_size=None, memory="model", fixed=(), n_jobs=None,
        forgetting=None, average_from=None, callback=None,
        drift_alarm=None, solver="em", n_blocks=None,
    ):  # fmt: skip
        super().__init__(
            n_components=n_components, tol=tol, max_iter=max_iter, n_init=n_init,
            random_state=random_state, warm_start=warm_start, verbose=verbose,
            verbose_interval=verbose_interval, learning_rate=learning_rate,
            batch_size=batch_size, memory=memory, fixed=fixed, n_jobs=n_jobs,
            forgetting=forgetting, average_from=average_from, callback=callback,
            drift_alarm=drift_alarm,
            solver=solver, n_blocks=n_blocks,
        )  # fmt: skip
        self.covariance_type = covariance_type
        self.reg_covar = reg_covar
        self.init_params = init_params
        self.weights_init = weights_init
        self.means_init = means_init
        self.precisions_init = precisions_init

    def _family(self):
        return Gaussian(self.covariance_type, self.reg_covar)

    def _given_start(self, row):
        return self._given_parameters(self.n_components, len(row))

    def _given_parameters(self, n_components, n_features):
        """The parameters to start from that the user gave, checked, by name."""
        given = {}
        if self.weights_init is not None:
            given["weights"] = checks.numbers("weights_init", self.weights_init)
            check_weights(given["weights"], n_components)
        if self.means_init is not None:
            shape = (n_components, n_features)
            given["means"] = _checked("means_init", self.means_init, shape, "means")
        if self.precisions_init is not None:
            kind = self.covariance_type
            shape = self._family().covariance_shape(n_components, n_features)
            precisions = _checked(
                "precisions_init", self.precisions_init, shape, f"{kind} precision"
            )
            given["covariances"] = _inverse(precisions, kind)
        return given

    def _is_given_start(self):
        given = (self.weights_init, self.means_init, self.precisions_init)
        return super()._is_given_start() or any(value is not None for value in given)

    def _first_model(self, model, sample, share):
        # Where a start knows the components of only a few rows, scikit-learn divides the weights
        # by the number of all rows, and takes all rows for the tied covariance. It makes no
        # difference to the responsibilities, but it does to the first lower bound, and to where
        # EM with a tied covariance goes.
        if share == 1.0:
            return model
        weights = model.weights * share
        if self.covariance_type == "tied":
            second = _second_moment(sample) / share
            means = model.parameters["means"]
            covariance = second - (model.weights[:, None] * means).T @ means
            covariance[np.diag_indices_from(covariance)] += self.reg_covar
            # Far from the origin that is no covariance in floating point: then the other stays.
            with contextlib.suppress(ValueError):
                other = {"weights": weights, "covariances": covariance}
                return model.with_parameters({**model.parameters, **other})
        return model.with_weights(weights)

    def _generator(self, random_state):
        # The same draws as scikit-learn's.
        return random_state

    # The factors are what densities are computed with.
    _not_in_model = BaseMixture._not_in_model | {"precisions_"}

    def _parameter_attributes(self):
        factors = ("precisions_cholesky_", "precisions_")
        return (*super()._parameter_attributes(), *factors)

    def _set_model(self, model):
        vars(self).pop("_in_double", None)
        super()._set_model(model)
        factors = model.family.precisions_cholesky(model.packed)
        self.precisions_cholesky_ = factors
        if self.covariance_type in ("full", "tied"):
            self.precisions_ = factors @ np.swapaxes(factors, -1, -2)
        else:
            self.precisions_ = factors**2

    def _model(self):
        parameters = self._parameters()
        shape = parameters["means"].shape[:1]
        return self._make_model(self._attribute("weights_", shape), parameters)

    def _parameters(self):
        """The parameters of the components that the attributes show, checked, by name.

        Factors are what scikit-learn's class uses to score, and covariances to draw: attributes
        set by hand work as they do there.
        """
        means = self.means_
        shape = (means if isinstance(means, np.ndarray) else checks.numbers("means_", means)).shape
        if len(shape) != 2 or 0 in shape:
            raise ValueError(f"means_ should have two dimensions, but got shape {shape}")
        parameters = {"means": self._attribute("means_", shape)}
        shape = self._family().covariance_shape(*shape)
        for name in ("covariances_", "precisions_cholesky_"):
            if hasattr(self, name):
                kind = f"{name} ({self.covariance_type})"
                parameters[name[:-1]] = self._attribute(name, shape, kind)
        if (
            self._family().matrices
            and getattr(vars(self).get("covariances_"), "dtype", None) == np.float32
        ):
            parameters["covariances"] = _symmetric(parameters["covariances"])
        if "covariances" not in parameters:
            if "precisions_cholesky" not in parameters:
                raise AttributeError(
                    f"This {type(self).__name__} has means_, but neither covariances_ nor "
                    "precisions_cholesky_."
                )
            factors = parameters["precisions_cholesky"]
            parameters["covariances"] = _covariances(factors, self.covariance_type)
        return parameters

    def _attribute(self, name, shape, called=None):
        """A parameter that an attribute shows, checked; one that is no array becomes one."""
        array = _checked(name, self._exact(name), shape, called or name)
        if not isinstance(getattr(self, name), np.ndarray):
            setattr(self, name, array.copy())
        return array

    def _to_draw_from(self):
        # Nothing is drawn with factors: covariances that have none, as they are singular, will do.
        parameters, family = self._parameters(), self._family()
        weights = self._attribute("weights_", parameters["means"].shape[:1])
        check_sizes(weights)
        parameters.pop("precisions_cholesky", None)
        if not family.matrices and not (parameters["covariances"] >= 0).all():
            raise ValueError("covariances_ must not be negative.")
        return family, weights, parameters


def _second_moment(sample):
    """The mean of ``x xᵀ`` over the rows, computed in chunks."""
    n_rows, n_features = sample.X.shape
    total, weight = np.zeros((n_features, n_features)), 0.0
    for start in range(0, n_rows, 65536):
        rows = np.asarray(sample.X[start : start + 65536], dtype=float)
        if sample.sample_weight is None:
            total += rows.T @ rows
            weight += len(rows)
        else:
            w = sample.sample_weight[start : start + 65536]
            total += (w[:, None] * rows).T @ rows
            weight += w.sum()
    return total / weight


def _covariances(factors, kind):
    """Covariances from the Cholesky factors of their inverses."""
    if kind in ("diag", "spherical"):
        with np.errstate(divide="ignore"):
            return factors**-2.0
    try:
        inverses = np.linalg.inv(factors)
    except np.linalg.LinAlgError:
        raise ValueError("precisions_cholesky_ holds a matrix that is singular.") from None
    return np.swapaxes(inverses, -1, -2) @ inverses


def _symmetric(covariances):
    """Covariances that were computed in float32 by others, without what rounding left in them."""
    others = np.swapaxes(covariances, -1, -2)
    scale = np.sqrt(np.abs(np.diagonal(covariances, axis1=-2, axis2=-1)))
    # Far from the origin, their squares have canceled.
    allowed = 0.05 * scale[..., None] * scale[..., None, :]
    is_rounding = (np.abs(covariances - others) <= allowed).all()
    return 0.5 * (covariances + others) if is_rounding else covariances


def _checked(name, values, shape, called):
    """``values`` as finite doubles of this shape; errors say what scikit-learn's do."""
    array = checks.numbers(name, values)
    _check_shape(called, array, shape)
    return array


def _check_shape(name, array, shape):
    if array.shape != shape:
        raise ValueError(
            f"The parameter '{name}' should have the shape of {shape}, but got {array.shape}"
        )
    if not np.isfinite(array).all():
        raise ValueError(f"The parameter '{name}' contains NaN or infinity.")


def _inverse(precisions, kind):
    """Covariances from precisions, which must be symmetric and positive definite."""
    if kind in ("diag", "spherical"):
        if not (precisions > 0).all():
            raise ValueError(f"'{kind} precision' should be positive")
        return 1.0 / precisions
    matrices = precisions if kind == "full" else precisions[None]
    inverses = np.empty_like(matrices)
    for k, matrix in enumerate(matrices):
        try:
            if not np.allclose(matrix, matrix.T):
                raise np.linalg.LinAlgError
            lower = np.linalg.cholesky(matrix)
        except np.linalg.LinAlgError:
            raise ValueError(f"'{kind} precision' should be symmetric, positive-definite") from None
        root, _ = dtrtri(lower, lower=1)
        inverses[k] = root.T @ root
    return inverses if kind == "full" else inverses[0]


class Mixture(BaseMixture):
    """A mixture of components of one family.

    Parameters
    ----------
    family : Family or str, default="gaussian"
        An instance from :mod:`fastem.families`, of a subclass of
        :class:`fastem.ExponentialFamily`, or a name such as ``"poisson"``.
    n_components : int, default=1
        The number of components.
    init : dict, optional
        Parameters to start from by name (``"weights"`` and the family's); what is missing comes
        from the data.
    fixed : iterable of str, default=()
        Names of parameters that learning leaves alone.
    tol : float, default=0.001
        EM stops when the mean log-likelihood changes by less.
    max_iter : int, default=100
        The largest number of iterations of EM.
    n_init : int, default=1
        The number of initializations, of which the best is kept.
    init_params : {'kmeans', 'k-means++', 'random', 'random_from_data'}, default='kmeans'
        How responsibilities are initialized.
    random_state : int, RandomState instance or None, default=None
        The random numbers of the initialization and of :meth:`sample`. With an int, every call
        draws the same ones.
    warm_start : bool, default=False
        Whether ``fit`` continues from the last fit.
    verbose : int or bool, default=0
        How progress is shown: 0 not at all; 1 by a bar with the log-likelihood, on a terminal; 2 by
        a line for each iteration. Without a terminal, lines go to the logger ``fastem`` (INFO), or
        to standard error if logging is not configured. No number depends on it.
    verbose_interval : int, default=10
        With ``verbose=1`` and without a terminal, a line is written for so many iterations.
    learning_rate : 'auto', float, callable or Decay, default='auto'
        The rate of online learning. ``'auto'`` counts the observations that the model has learned
        from, and how data are cut into batches hardly matters. A number η, or a function of the
        step 1, 2, ..., is the rate of a whole batch; it is reduced in proportion for a smaller one.
    batch_size : int or None, default=None
        Rows of a mini-batch in ``partial_fit``. None: 1000 at most in a call or a stream with the
        automatic rate; with a rate of your own, the rows of a call are one batch.
    memory : {'model', 'statistics'}, default='model'
        What online learning remembers: the model alone, or running statistics (Cappé, Moulines).
    forgetting : float or None, default=None
        For streams that drift, with ``learning_rate='auto'``: a half-life in observations. Steps do
        not fall below ``1 - 2^(-1/forgetting)``; None: they go on falling.
    average_from : float, 'auto' or None, default=None
        Whether the model shown is the average over time (Polyak, Ruppert) of those that online
        learning goes through: of those after this number of observations, or, with 'auto', of all,
        the later the more. Learning itself goes on from the last one.
    callback : callable or None, default=None
        Called after each iteration of ``fit``, and after each call or part of a stream that
        ``partial_fit`` learns from, with a :class:`fastem.monitoring.Report`. If it returns True,
        learning ends.
    drift_alarm : float or None, default=None
        The probability of a false alarm with which ``partial_fit`` tests whether the progressive
        log-likelihood has fallen; ``drift_`` is what it found. None: no test.
    n_jobs : int or None, default=None
        Threads; None: as many as there are cores, one inside a worker. The result does not depend
        on it.
    solver : {'em', 'incremental'}, default='em'
        How ``fit`` maximizes the likelihood: by batch EM, one step for each pass over the data, or
        by incremental EM, one step for each block of them. See :doc:`/incremental`.
    n_blocks : int or None, default=None
        The number of blocks of incremental EM; None: 10, or fewer for few data.

    Attributes
    ----------
    weights_ : ndarray of shape (n_components,)
    converged_, n_iter_, lower_bound_, lower_bounds_, n_steps_, n_observations_, n_features_in_
        As for :class:`~fastem.GaussianMixture`.

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
        self, family="gaussian", n_components=1, *, tol=1e-3, max_iter=100, n_init=1,
        init_params="kmeans", init=None, random_state=None, warm_start=False, verbose=0,
        verbose_interval=10, learning_rate=DEFAULT_RATE, batch_size=None, memory="model",
        forgetting=None, average_from=None, callback=None, drift_alarm=None,
        fixed=(), n_jobs=None,
        solver="em", n_blocks=None,
    ):  # fmt: skip
        super().__init__(
            n_components=n_components, tol=tol, max_iter=max_iter, n_init=n_init,
            random_state=random_state, warm_start=warm_start, verbose=verbose,
            verbose_interval=verbose_interval, learning_rate=learning_rate,
            batch_size=batch_size, memory=memory, fixed=fixed, n_jobs=n_jobs,
            forgetting=forgetting, average_from=average_from, callback=callback,
            drift_alarm=drift_alarm,
            solver=solver, n_blocks=n_blocks,
        )  # fmt: skip
        self.family = family
        self.init_params = init_params
        self.init = init

    def _family(self):
        return as_family(self.family).beside_weights()

    def _is_given_start(self):
        return super()._is_given_start() or bool(self.init)

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
    _check_shape("weights", weights, (n_components,))
    if not ((weights >= 0) & (weights <= 1)).all():
        least, greatest = f"{weights.min():.5f}", f"{weights.max():.5f}"
        # scikit-learn names the least weight first, and calls it the greatest.
        raise ValueError(
            "The parameter 'weights' should be in the range [0, 1], but got max value "
            f"{least}, min value {greatest}: they are between {least} and {greatest}."
        )
    if abs(weights.sum() - 1) > 1e-6:
        raise ValueError(
            "The parameter 'weights' should be normalized, but got sum(weights) = "
            f"{weights.sum():.5f}"
        )
