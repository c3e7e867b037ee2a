"""``fastem.HMM``: a hidden Markov model with emissions of any family."""

from __future__ import annotations

import numpy as np
from sklearn.utils import check_random_state

from ..data.rows import Table
from ..families import Family, as_family
from ..learning_rate import DEFAULT_RATE
from ..mixture.model import MixtureModel
from .base import BaseHMM
from .initialization import clusters

__all__ = ["HMM"]


class HMM(BaseHMM):
    """A hidden Markov model with emissions of any family.

    Parameters
    ----------
    family : Family or str, default="gaussian"
        An instance from :mod:`fastem.families`, of a subclass of
        :class:`fastem.ExponentialFamily`, or a name such as ``"poisson"``.
    n_components : int, default=1
        The number of states.
    startprob_prior, transmat_prior : float or array-like, default=1.0
        Dirichlet priors of ``startprob_`` and of the rows of ``transmat_``; one is none. Priors
        act in :meth:`fit` alone: online, the present model plays their part.
    algorithm : {'viterbi', 'map'}, default='viterbi'
        How :meth:`decode` and :meth:`predict` choose states.
    random_state : int, RandomState instance or None, default=None
    n_iter : int, default=10
        The most iterations of EM.
    tol : float, default=1e-2
        EM stops when the log-likelihood of all sequences rises by less.
    verbose : bool, default=False
        Whether each iteration is printed to standard error.
    params, init_params : str, default='ste'
        What is learned, and what the start decides: any of 's' for ``startprob_``, 't' for
        ``transmat_`` and 'e' for all parameters of the emissions. The start of the emissions is
        by k-means, that of the chain even.
    implementation : {'log', 'scaling'}, default='log'
        Both are the same here, as fast as scaling and as exact as logarithms.
    absorbing, learning_rate, batch_size, memory, n_jobs
        As for :class:`~fastem.GaussianHMM`.
    fixed : iterable of str, default=()
        Names of parameters that learning leaves alone: ``"startprob"``, ``"transmat"``, and the
        family's.

    Attributes
    ----------
    startprob_ : ndarray of shape (n_components,)
    transmat_ : ndarray of shape (n_components, n_components)
    n_features, monitor_, converged_, n_iter_, lower_bounds_, n_steps_
        As for :class:`~fastem.GaussianHMM`.

    The family's parameters are attributes too, with an underscore: ``rates_``, ``means_``.

    Examples
    --------
    >>> import numpy as np
    >>> import fastem
    >>> waits = np.random.default_rng(0).exponential(np.repeat([1.0, 50.0], 100)).reshape(-1, 1)
    >>> model = fastem.HMM("exponential", 2, random_state=0, n_iter=50).fit(waits)
    >>> model.scales_.shape
    (2, 1)
    """

    _parameter_constraints = {  # noqa: RUF012
        **BaseHMM._parameter_constraints,
        "family": [Family, str],
    }
    _random_chain = False

    def __init__(
        self,
        family="gaussian",
        n_components=1,
        startprob_prior=1.0,
        transmat_prior=1.0,
        algorithm="viterbi",
        random_state=None,
        n_iter=10,
        tol=1e-2,
        verbose=False,
        params="ste",
        init_params="ste",
        implementation="log",
        *,
        absorbing=None,
        learning_rate=DEFAULT_RATE,
        batch_size=None,
        memory="model",
        fixed=(),
        n_jobs=None,
    ):
        super().__init__(
            n_components, startprob_prior, transmat_prior, algorithm, random_state, n_iter, tol,
            verbose, params, init_params, implementation, absorbing=absorbing,
            learning_rate=learning_rate, batch_size=batch_size, memory=memory, fixed=fixed,
            n_jobs=n_jobs,
        )  # fmt: skip
        self.family = family

    def _family(self):
        return as_family(self.family)

    @property
    def n_features(self) -> int:
        """The number of columns."""
        return self.n_features_in_

    @n_features.setter
    def n_features(self, n_features):
        self.n_features_in_ = int(n_features)

    @property
    def _letters(self):
        return {"startprob": "s", "transmat": "t", **dict.fromkeys(self._emission_names(), "e")}

    def _emission_names(self):
        return self._family().parameter_names

    def _emission_shapes(self, n_columns):
        example = self._family().start(np.full((self.n_components, n_columns), 0.5))
        return {name: np.shape(array) for name, array in example.items()}

    def _n_emission_parameters(self, n_columns):
        example = self._family().start(np.full((self.n_components, n_columns), 0.5))
        return {"emissions": self._family().n_parameters(example)}

    def _is_learned(self, name):
        return "e" in self.params if name == "emissions" else super()._is_learned(name)

    def _start_emissions(self, data, wanted, n_columns):
        family, n_states = self._family(), self.n_components
        random_state = check_random_state(self.random_state)
        found = clusters(
            data, n_states, random_state, self.random_state, self._absorbing(), n_init=1
        )

        def one_hot(start, stop):
            return np.eye(n_states)[found.labels[start:stop]]

        uniform = np.full(n_states, 1.0 / n_states)
        in_mixture = family.beside_weights()
        start = in_mixture.start(found.centers)
        rough = MixtureModel(in_mixture, uniform, start, n_jobs=self.n_jobs)
        rows = Table(found.X, found.sample_weight)
        parameters = rough.maximize(rough.expect_given(rows, one_hot)).parameters
        names = zip(family.parameter_names, in_mixture.parameter_names, strict=True)
        return {name: parameters[its_name] for name, its_name in names if name in wanted}

    def sample(
        self, n_samples=1, random_state=None, currstate=None
    ) -> tuple[np.ndarray, np.ndarray]:
        random_state = check_random_state(
            self.random_state if random_state is None else random_state
        )
        _, states = super().sample(n_samples, random_state, currstate)
        model = self._model()
        rng = np.random.default_rng(random_state.randint(2**31))
        return model.family.draw(model.family.unpack(model.packed), states, rng), states

    sample.__doc__ = BaseHMM.sample.__doc__

    def _emit(self, random_state):
        # The rows are drawn together, after the states.
        return lambda state: ()
