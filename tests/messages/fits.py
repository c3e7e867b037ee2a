"""Every estimator and every way of fitting, for the tests of what is shown of it."""

import numpy as np

import fastem

rng = np.random.default_rng(0)
ROWS = rng.normal(size=(240, 2)) + 5.0 * rng.integers(2, size=(240, 1))
SEQUENCES = list(ROWS.reshape(24, 10, 2))
COUNTS = rng.poisson(3.0, size=(60, 3)) + 1
SYMBOLS = [rng.integers(3, size=(10, 1)) for _ in range(24)]
COUNTED = [rng.poisson(3.0, size=(10, 1)) for _ in range(24)]
TRIALS = [rng.multinomial(5, [0.2, 0.3, 0.5], size=10) for _ in range(24)]
SIMPLEX = rng.dirichlet([1.0, 2.0, 3.0], 60)

#: Of each estimator its settings, and data.
KINDS = {
    "GaussianMixture": ({"n_components": 2, "random_state": 0}, ROWS),
    "BayesianGaussianMixture": ({"n_components": 2, "random_state": 0}, ROWS),
    "Mixture": ({"family": "gaussian", "n_components": 2, "random_state": 0}, ROWS),
    "GaussianHMM": ({"n_components": 2, "random_state": 0}, SEQUENCES),
    "GMMHMM": ({"n_components": 2, "n_mix": 1, "random_state": 0}, SEQUENCES),
    "PoissonHMM": ({"n_components": 2, "random_state": 0}, COUNTED),
    "CategoricalHMM": ({"n_components": 2, "random_state": 0}, SYMBOLS),
    "MultinomialHMM": ({"n_components": 2, "n_trials": 5, "random_state": 0}, TRIALS),
    "HMM": ({"family": "gaussian", "n_components": 2, "random_state": 0}, SEQUENCES),
    "VariationalGaussianHMM": ({"n_components": 2, "random_state": 0}, SEQUENCES),
    "VariationalCategoricalHMM": ({"n_components": 2, "random_state": 0}, SYMBOLS),
    "KalmanFilter": ({"n_dim_state": 1, "random_state": 0}, SEQUENCES),
    "CompoundDirichlet": ({}, COUNTS),
    "Dirichlet": ({}, SIMPLEX),
    "MixtureOfModels": (
        {"estimator": fastem.GaussianHMM(1), "n_components": 2, "random_state": 0},
        SEQUENCES,
    ),
}
#: Those that have no incremental EM.
_BATCH_ALONE = {"VariationalGaussianHMM", "VariationalCategoricalHMM"}


def make(name, **settings):
    """An estimator of a kind; its fits take few iterations."""
    given, _ = KINDS[name]
    if name in ("CompoundDirichlet", "Dirichlet"):
        few = {}
    elif name.endswith("HMM"):
        few = {"n_iter": 4}
    else:
        few = {"max_iter": 4}
    return getattr(fastem, name)(**{**given, **few, **settings})


def pieces(data, n=3):
    """Data in ``n`` parts."""
    size = len(data) // n
    return [data[i * size : (i + 1) * size] for i in range(n)]


def _fit(name, **settings):
    return make(name, **settings).fit(KINDS[name][1])


def _online(name, **settings):
    return make(name, **settings).partial_fit(KINDS[name][1])


def _stream(name, **settings):
    return make(name, batch_size=20, **settings).partial_fit(iter(pieces(KINDS[name][1])))


def _incremental(name, **settings):
    return make(name, solver="incremental", n_blocks=3, **settings).fit(KINDS[name][1])


def _em(name, **settings):
    return make(name, **settings).em(KINDS[name][1], n_iter=4)


def _documents_by_em(name, **settings):
    return make(name, solver="em", tol=1e-9, max_iter=5, **settings).fit(KINDS[name][1])


#: Each way of fitting each estimator: ``act(name, **settings)`` returns it fitted.
WAYS = {
    **{f"{name}-fit": (name, "fit", _fit) for name in KINDS},
    **{
        f"{name}-incremental": (name, "fit", _incremental)
        for name in KINDS if name not in _BATCH_ALONE
    },
    **{f"{name}-partial_fit": (name, "partial_fit", _online) for name in KINDS},
    **{f"{name}-stream": (name, "partial_fit", _stream) for name in KINDS},
    "KalmanFilter-em": ("KalmanFilter", "em", _em),
    "CompoundDirichlet-em": ("CompoundDirichlet", "fit", _documents_by_em),
}  # fmt: skip
