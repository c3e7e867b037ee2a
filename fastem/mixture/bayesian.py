"""``fastem.BayesianGaussianMixture``, as in scikit-learn: variational Bayes for mixtures."""

from __future__ import annotations

from numbers import Real

import numpy as np

from .. import algebra, checks
from ..data.batches import check_total
from ..data.remote import sample_of
from ..data.sampling import sample_rows
from ..exceptions import NotEnoughData
from ..families import Gaussian
from ..learning_rate import DEFAULT_RATE
from ..sklearn_compat import Interval, StrOptions
from ..statistics import Statistics
from ..stopping import Tolerance
from .base import BaseMixture
from .hooks import BayesianScikitSteps
from .model import MixtureModel
from .variational import Posterior, Prior, VariationalMixture

__all__ = ["BayesianGaussianMixture"]

#: Attributes that show the prior, in the order of its fields after the first.
_PRIOR = (
    "weight_concentration_prior_", "mean_precision_prior_", "mean_prior_",
    "degrees_of_freedom_prior_", "covariance_prior_",
)  # fmt: skip
_PRIOR_NAMES = frozenset(_PRIOR)
#: Attributes that show the posterior, in the order of its fields.
_POSTERIOR = (
    "weight_concentration_", "mean_precision_", "means_", "degrees_of_freedom_", "covariances_",
)  # fmt: skip

#: So many rows give the point about which the moments of all are summed.
_FIRST_ROWS = 65_536


class _EvidenceTolerance(Tolerance):
    """Stop when the lower bound of the evidence of all data changes by less than ``tol``."""

    #: The bound after the last M-step.
    bound = -np.inf
    measure = "lower bound"

    def limit(self):
        return None

    def after_step(self, expectation):
        return super().after_step(expectation._replace(log_likelihood=self.bound))


class BayesianGaussianMixture(BayesianScikitSteps):
    """Variational Bayes for a mixture of Gaussians, with the interface of scikit-learn's class.

    The parameters of the mixture have a prior, and ``fit`` finds an approximation of their
    posterior. Components that the data do not need keep a weight near zero, so that
    ``n_components`` is an upper limit. From the same initialization all numbers are those of
    scikit-learn, in each iteration. In addition there are ``partial_fit``, which is stochastic
    variational inference, ``sample_weight``, streams of arrays, and :func:`fastem.combine`, which
    multiplies posteriors and divides by the priors. See :doc:`/bayesian`.

    Parameters
    ----------
    n_components : int, default=1
        The largest number of components.
    covariance_type : {'full', 'tied', 'diag', 'spherical'}, default='full'
        A covariance matrix for each component, one for all, a variance for each column, or one
        variance for each component.
    tol : float, default=1e-3
        EM stops when the lower bound of the evidence of all data changes by less.
    reg_covar : float, default=1e-6
        The variance of the noise that every row is taken to carry in each direction.
    max_iter : int, default=100
        The largest number of iterations of EM.
    n_init : int, default=1
        The number of initializations, of which the best is kept.
    init_params : {'kmeans', 'k-means++', 'random', 'random_from_data'}, default='kmeans'
        How responsibilities are initialized.
    weight_concentration_prior_type : {'dirichlet_process', 'dirichlet_distribution'}
        The prior of the weights: the sticks of a Dirichlet process (default), or a Dirichlet
        distribution.
    weight_concentration_prior : float, optional
        The concentration of either; the smaller, the fewer components have weight. None:
        ``1 / n_components``.
    mean_precision_prior : float, optional
        The number of rows that the prior of a mean counts for. None: 1.
    mean_prior : array-like of shape (n_features,), optional
        The prior mean. None: the mean of the data; of the first rows in ``partial_fit``.
    degrees_of_freedom_prior : float, optional
        The degrees of freedom of the Wishart prior of the precisions, above ``n_features - 1``.
        None: ``n_features``.
    covariance_prior : float or array-like, optional
        The inverse of its scale: (n_features, n_features) if full or tied, (n_features,) if diag,
        a number if spherical. None: the covariance of the data; of the first rows in
        ``partial_fit``.
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
    total_samples : float, optional
        The number of rows that ``partial_fit`` takes the data for, if it reads them in any order
        and as often as you like. None: as many as it has read, less what the learning rate has
        forgotten.

    Attributes
    ----------
    weights_ : ndarray of shape (n_components,)
        The expected weights.
    means_ : ndarray of shape (n_components, n_features)
        The expected means.
    covariances_, precisions_, precisions_cholesky_ : ndarray
        The expected precisions, their inverses and their factors, in the shapes of
        :class:`~fastem.GaussianMixture`.
    weight_concentration_ : ndarray of shape (n_components,), or tuple of two
        The parameters of the Dirichlet distribution, or of the Beta distributions of the sticks.
    mean_precision_, degrees_of_freedom_ : ndarray of shape (n_components,)
        The precision of each mean in units of that of its component, and the degrees of freedom
        of each precision; one number for the latter if tied.
    weight_concentration_prior_, mean_precision_prior_, mean_prior_
        The prior: what was given, or what it is by default.
    degrees_of_freedom_prior_, covariance_prior_
        The same for the precisions.
    lower_bound_ : float
        The lower bound of the evidence of all data, up to a constant.
    lower_bounds_, converged_, n_iter_, n_steps_, n_observations_, n_features_in_
        As for :class:`~fastem.GaussianMixture`.

    Examples
    --------
    >>> import numpy as np
    >>> from fastem import BayesianGaussianMixture
    >>> X = np.array([[1, 2], [1, 4], [1, 0], [4, 2], [12, 4], [10, 7]])
    >>> model = BayesianGaussianMixture(n_components=2, random_state=42).fit(X)
    >>> model.means_.round(2)
    array([[2.5 , 2.29],
           [8.46, 4.52]])
    >>> model.predict([[0, 0], [9, 3]])
    array([0, 1])
    """

    _parameter_constraints = {  # noqa: RUF012
        **BaseMixture._parameter_constraints,
        "covariance_type": [StrOptions({"full", "tied", "diag", "spherical"})],
        "reg_covar": [Interval(Real, 0.0, None, closed="left")],
        "weight_concentration_prior_type": [
            StrOptions({"dirichlet_process", "dirichlet_distribution"})
        ],
        "weight_concentration_prior": [None, Interval(Real, 0.0, None, closed="neither")],
        "mean_precision_prior": [None, Interval(Real, 0.0, None, closed="neither")],
        "mean_prior": [None, "array-like"],
        "degrees_of_freedom_prior": [None, Interval(Real, 0.0, None, closed="neither")],
        "covariance_prior": [None, "array-like", Interval(Real, 0.0, None, closed="neither")],
        "total_samples": [None, Interval(Real, 0.0, None, closed="neither")],
    }
    _more_online_settings = ("total_samples",)
    #: All is learned; that is no setting here.
    fixed = ()
    #: The factors are what densities are computed with.
    _not_in_model = BaseMixture._not_in_model | {"precisions_"}

    def __init__(
        self, *, n_components=1, covariance_type="full", tol=1e-3, reg_covar=1e-6, max_iter=100,
        n_init=1, init_params="kmeans", weight_concentration_prior_type="dirichlet_process",
        weight_concentration_prior=None, mean_precision_prior=None, mean_prior=None,
        degrees_of_freedom_prior=None, covariance_prior=None, random_state=None, warm_start=False,
        verbose=0, verbose_interval=10, learning_rate=DEFAULT_RATE, batch_size=None,
        memory="model", n_jobs=None, forgetting=None, average_from=None, callback=None,
        drift_alarm=None, solver="em", n_blocks=None, total_samples=None,
    ):  # fmt: skip
        super().__init__(
            n_components=n_components, tol=tol, max_iter=max_iter, n_init=n_init,
            random_state=random_state, warm_start=warm_start, verbose=verbose,
            verbose_interval=verbose_interval, learning_rate=learning_rate,
            batch_size=batch_size, memory=memory, fixed=(), n_jobs=n_jobs,
            forgetting=forgetting, average_from=average_from, callback=callback,
            drift_alarm=drift_alarm, solver=solver, n_blocks=n_blocks,
        )  # fmt: skip
        self.covariance_type = covariance_type
        self.reg_covar = reg_covar
        self.init_params = init_params
        self.weight_concentration_prior_type = weight_concentration_prior_type
        self.weight_concentration_prior = weight_concentration_prior
        self.mean_precision_prior = mean_precision_prior
        self.mean_prior = mean_prior
        self.degrees_of_freedom_prior = degrees_of_freedom_prior
        self.covariance_prior = covariance_prior
        self.total_samples = total_samples

    def _family(self):
        return Gaussian(self.covariance_type, self.reg_covar)

    # The prior -------------------------------------------------------------------------------

    @property
    def _is_process(self):
        return self.weight_concentration_prior_type == "dirichlet_process"

    def _prior_of(self, data) -> Prior:
        """The prior that the settings say, with what they leave to the data."""
        first = next(sample_of(data).tables()).X[:_FIRST_ROWS]
        n_features = first.shape[1]
        if self.weight_concentration_prior is None:
            concentration = 1.0 / self.n_components
        else:
            concentration = float(self.weight_concentration_prior)
        freedom = self.degrees_of_freedom_prior
        if freedom is None:
            freedom = n_features
        elif not freedom > n_features - 1.0:
            raise ValueError(
                "The parameter 'degrees_of_freedom_prior' should be greater than "
                f"{n_features - 1}, but got {freedom:.3f}."
            )
        mean, covariance = self._given_mean(n_features), self._given_covariance(n_features)
        if mean is None or covariance is None:
            center = np.asarray(first, dtype=float).mean(axis=0)
            weight, data_mean, scatter = self._moments_of(data, center)
            mean = data_mean if mean is None else mean
            if covariance is None:
                covariance = self._covariance_of(weight, scatter)
        precision = 1.0 if self.mean_precision_prior is None else float(self.mean_precision_prior)
        return Prior(self._is_process, concentration, precision, mean, freedom, covariance)

    def _given_mean(self, n_features):
        if self.mean_prior is None:
            return None
        return _given("mean_prior", self.mean_prior, (n_features,), "means")

    def _given_covariance(self, n_features):
        if self.covariance_prior is None:
            return None
        kind = self.covariance_type
        shapes = {"diag": (n_features,), "spherical": ()}
        called = f"{kind} covariance_prior"
        shape = shapes.get(kind, (n_features, n_features))
        covariance = _given("covariance_prior", self.covariance_prior, shape, called)
        if kind in shapes:
            if not (covariance > 0).all():
                raise ValueError(f"'{kind} precision' should be positive")
            return covariance
        if not np.allclose(covariance, covariance.T) or np.linalg.eigvalsh(covariance)[0] <= 0:
            raise ValueError(f"'{kind} precision' should be symmetric, positive-definite")
        return covariance

    def _moments_of(self, data, center):
        """The weight, the mean and the scatter of all data, which may be a stream or elsewhere."""
        kind = "full" if self.covariance_type in ("full", "tied") else "diag"
        family = Gaussian(kind, 0.0)
        single = MixtureModel(family, [1.0], family.start(center[None]), n_jobs=self.n_jobs)
        found = algebra.expect(single, data)
        moments = found.statistics["moments"]
        if not np.isfinite(moments.scatter).all():
            raise ValueError(
                "The covariance of the data is not finite: squares of the data overflow. Scale the "
                "columns to a moderate range."
            )
        return found.weight, moments.mean[0], moments.scatter[0] * found.weight

    def _covariance_of(self, weight, scatter):
        """The prior of covariances from the scatter of data, without bias."""
        if not weight > 1.0:
            raise NotEnoughData(
                "The covariance of the data, which is the prior of covariances, needs weights that "
                f"sum to more than one row; the sum is {weight:g}. Give covariance_prior, or "
                "weights that count rows."
            )
        covariance = scatter / (weight - 1.0)
        return covariance.mean() if self.covariance_type == "spherical" else covariance

    def _set_prior(self, prior: Prior):
        for name, value in zip(_PRIOR, prior[1:], strict=True):
            # Arrays of their own, and plain numbers.
            setattr(self, name, np.array(value) if np.ndim(value) else value)
        self.covariance_prior_ = _number_or_array(prior.covariance)

    def _shown_prior(self) -> Prior:
        return Prior(self._is_process, *(getattr(self, name) for name in _PRIOR))

    def _prepared(self, data):
        # As in scikit-learn, a fit that resumes has the prior of its own data.
        self._set_prior(self._prior_of(data))
        return super()._prepared(data)

    # The model -------------------------------------------------------------------------------

    def _parameter_attributes(self):
        return ("weights_", *_POSTERIOR, "precisions_cholesky_", "precisions_", *_PRIOR)

    def _set_model(self, model):
        self._set_prior(model.prior)
        for name, value in zip(_POSTERIOR, model.posterior, strict=True):
            setattr(self, name, _number_or_array(value))
        if self._is_process:
            self.weight_concentration_ = tuple(self.weight_concentration_)
        self.weights_ = np.array(model.weights)
        factors = self.precisions_cholesky_ = model.family.precisions_cholesky(model.packed)
        if self.covariance_type in ("full", "tied"):
            self.precisions_ = factors @ np.swapaxes(factors, -1, -2)
        else:
            self.precisions_ = factors**2

    def _model(self):
        posterior = Posterior(*(checks.numbers(name, getattr(self, name)) for name in _POSTERIOR))
        factors = checks.numbers("precisions_cholesky_", self.precisions_cholesky_)
        model = VariationalMixture(
            self._family(), self._shown_prior(), posterior, precisions_cholesky=factors,
            total=self.total_samples, seen=getattr(self, "n_observations_", None),
            n_jobs=self.n_jobs,
        )  # fmt: skip
        return model.with_weights(self.weights_)

    def _has_prior(self):
        return vars(self).keys() >= _PRIOR_NAMES

    def _answers_itself(self):
        # A posterior that was set by hand, without the prior, answers as in scikit-learn.
        return super()._answers_itself() or not self._has_prior()

    def _to_draw_from(self):
        if self._has_prior():
            return super()._to_draw_from()
        family = self._family()
        parameters = {"means": checks.numbers("means_", self.means_),
                      "covariances": checks.numbers("covariances_", self.covariances_)}  # fmt: skip
        return family, checks.numbers("weights_", self.weights_), parameters

    # Learning --------------------------------------------------------------------------------

    def _start(self, data, random_state, *, batch=False):
        family = self._family()
        prior = self._shown_prior() if batch else self._prior_of(data)
        sample = sample_rows(sample_of(data), random_state)
        n_rows = len(sample.X)
        if n_rows < self.n_components:
            raise NotEnoughData(
                "Expected n_samples >= n_components but got n_components = "
                f"{self.n_components}, n_samples = {n_rows}. Start from more rows."
            )
        check_total(sample.sample_weight)
        responsibilities, centers, share = self._responsibilities(sample, random_state)
        uniform = np.full(self.n_components, 1.0 / self.n_components)
        rough = MixtureModel(family, uniform, family.start(centers), n_jobs=self.n_jobs)
        statistics = rough.expect_given(sample, responsibilities)
        if share < 1.0 and self.covariance_type == "tied":
            statistics = self._with_all_rows(statistics, sample, share)
        weights = sample.sample_weight
        weight = float(n_rows if weights is None else weights.sum())
        model = VariationalMixture.made_of(
            family, prior, statistics, share * weight, total=self.total_samples, n_jobs=self.n_jobs
        )
        return model.standing_for(weight if model.total is None else model.total)

    def _with_all_rows(self, statistics, sample, share):
        """The statistics of a start from a few rows, with the scatter of all, as scikit-learn."""
        moments = statistics["moments"]
        _, mean, scatter = self._moments_of(sample, moments.mean[0])
        weight = len(sample.X) if sample.sample_weight is None else sample.sample_weight.sum()
        # About the mean of all rows: means far from the origin would lose their digits.
        from_mean = np.outer(mean, mean) / share - moments.spread(moments.mass, moments.mean)
        noise = self.reg_covar * np.eye(len(mean))
        scatter = scatter / (weight * share) + from_mean + noise
        moments = type(moments)(moments.mass, moments.mean, scatter)
        return Statistics(mass=statistics["mass"], moments=moments)

    def _stopping_rule(self, data):
        rule = super()._stopping_rule(data)
        return _EvidenceTolerance(rule.max_iter, rule.tol, before=rule.before)

    def _maximize(self, model, expectation):
        """The prior, and the statistics of all rows."""
        stands = model.standing_for(expectation.weight)
        return stands.maximize(expectation.statistics)

    def _maximize_until(self, rule):
        def maximize(model, expectation):
            new = self._maximize(model, expectation)
            rule.bound = new.evidence(model, expectation)
            return new

        return maximize

    def _generator(self, random_state):
        # The same draws as scikit-learn's.
        return random_state


def _number_or_array(value):
    """A copy of an array, or a number if it has no axes."""
    return np.array(value) if np.ndim(value) else float(value)


def _given(name, values, shape, called):
    """A setting as finite doubles of this shape; errors say what scikit-learn's do."""
    array = checks.numbers(name, values)
    if array.shape != shape:
        raise ValueError(
            f"The parameter '{called}' should have the shape of {shape}, but got {array.shape}"
        )
    return checks.finite(name, array)
