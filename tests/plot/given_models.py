"""Models of given parameters, and data of given seeds: no fit changes what is drawn of them."""

import numpy as np

import fastem
from fastem.families import Gaussian


def with_attributes(model, **attributes):
    """A fitted estimator, whose parameters are set by hand."""
    for name, value in attributes.items():
        setattr(model, name, value)
    return model


WEIGHTS = np.array([0.5, 0.3, 0.2])
MEANS = np.array([[0.0, 0.0], [4.0, 1.0], [1.0, 5.0]])
COVARIANCES = np.array(
    [[[1.0, 0.6], [0.6, 0.8]], [[0.5, -0.2], [-0.2, 1.5]], [[2.0, 0.3], [0.3, 0.4]]]
)
TRANSMAT = np.array([[0.9, 0.07, 0.03], [0.1, 0.85, 0.05], [0.0, 0.25, 0.75]])
#: Covariances of each type, for the same means.
OF_TYPE = {
    "full": COVARIANCES,
    "tied": COVARIANCES[0],
    "diag": np.array([[1.0, 0.5], [0.3, 2.0], [0.7, 0.7]]),
    "spherical": np.array([0.5, 1.0, 2.0]),
}


def as_matrices(covariance_type):
    """The same as matrices."""
    values = OF_TYPE[covariance_type]
    return {
        "full": lambda: values,
        "tied": lambda: np.repeat(values[None], 3, axis=0),
        "diag": lambda: np.array([np.diag(row) for row in values]),
        "spherical": lambda: values[:, None, None] * np.eye(2),
    }[covariance_type]()


def gaussian_mixture(covariance_type="full"):
    return with_attributes(
        fastem.Mixture(Gaussian(covariance_type), 3), weights_=WEIGHTS, means_=MEANS,
        covariances_=OF_TYPE[covariance_type], n_features_in_=2,
    )  # fmt: skip


def gaussian_hmm(covariance_type="full"):
    return with_attributes(
        fastem.GaussianHMM(3, covariance_type), startprob_=WEIGHTS, transmat_=TRANSMAT,
        means_=MEANS, covars_=OF_TYPE[covariance_type], n_features_in_=2,
    )  # fmt: skip


def poisson_mixture():
    return with_attributes(
        fastem.Mixture("poisson", 3), weights_=WEIGHTS, n_features_in_=2,
        rates_=np.array([[1.5, 8.0], [6.0, 2.0], [15.0, 15.0]]),
    )  # fmt: skip


def categorical_hmm():
    return with_attributes(
        fastem.CategoricalHMM(2), startprob_=np.array([0.6, 0.4]), n_features_in_=1,
        transmat_=np.array([[0.95, 0.05], [0.1, 0.9]]),
        emissionprob_=np.array([[0.7, 0.2, 0.1], [0.1, 0.1, 0.8]]),
    )  # fmt: skip


def kalman_filter():
    """Two states, of which three numbers are observed, with an offset each."""
    return fastem.KalmanFilter(
        transition_matrices=[[0.95, 0.2], [-0.2, 0.9]],
        observation_matrices=[[1.0, 0.0], [0.5, 1.0], [0.0, -1.0]],
        transition_covariance=[[0.3, 0.1], [0.1, 0.2]],
        observation_covariance=[[0.5, 0.1, 0.0], [0.1, 0.4, 0.0], [0.0, 0.0, 1.0]],
        transition_offsets=[0.1, 0.0],
        observation_offsets=[10.0, 0.0, -5.0],
        initial_state_mean=[1.0, -1.0],
        initial_state_covariance=[[2.0, 0.0], [0.0, 1.0]],
    )


def local_level():
    """A level that moves at random, as for the flow of the Nile."""
    return fastem.KalmanFilter(
        [[1.0]], [[1.0]], [[0.1]], [[1.0]], initial_state_mean=[0.0],
        initial_state_covariance=[[4.0]],
    )  # fmt: skip


def mixture_data(n=300, seed=0):
    rng = np.random.default_rng(seed)
    labels = rng.choice(3, n, p=WEIGHTS)
    roots = np.linalg.cholesky(COVARIANCES)[labels]
    return MEANS[labels] + np.einsum("nij,nj->ni", roots, rng.standard_normal((n, 2)))


def chain_data(n=200, seed=0):
    """A series of three regimes, each of 10 to 40 steps."""
    rng = np.random.default_rng(seed)
    labels = np.repeat(np.arange(30) % 3, rng.integers(10, 40, 30))[:n]
    roots = np.linalg.cholesky(COVARIANCES)[labels]
    return MEANS[labels] + np.einsum("nij,nj->ni", roots, rng.standard_normal((n, 2)))


def level_data(n=80, seed=0):
    rng = np.random.default_rng(seed)
    level = np.cumsum(np.sqrt(0.1) * rng.standard_normal(n))
    series = (level + rng.standard_normal(n))[:, None]
    series[30:40] = np.nan
    return series
