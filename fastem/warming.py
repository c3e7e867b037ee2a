"""Kernels compiled ahead of time, on all cores: for containers, continuous integration and classes.

Every estimator is fitted to a handful of rows, in the variants that users meet, so that its kernels
are in numba's cache on disk afterwards. Processes share the work, because numba compiles one kernel
at a time in each; a last one goes through all of it again, to see that nothing is missing.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

__all__ = ["Warmup", "warmup"]


class Warmup(NamedTuple):
    """What :func:`warmup` has done."""

    #: The estimators whose kernels are on disk now.
    models: list[str]
    #: How many kernels were compiled; those that were on disk before do not count.
    n_compiled: int
    #: How long it took.
    seconds: float
    #: The folder that the kernels are in.
    folder: str


def warmup(*models: str, n_jobs: int | None = None) -> Warmup:
    """Compile the kernels of estimators ahead of time, so that no later process has to.

    Parameters
    ----------
    *models : str
        Names of estimators, such as ``"GaussianMixture"``; all of them if there are none.
    n_jobs : int, optional
        The number of processes that compile. All cores are used by default.

    Returns
    -------
    Warmup
        The names, the number of kernels that were compiled, the seconds it took, and the folder.

    Raises
    ------
    ValueError
        If there is no estimator of a name.
    RuntimeError
        If kernels cannot be kept on disk, or a process that compiled them failed.

    Examples
    --------
    >>> import fastem
    >>> fastem.warmup("GaussianMixture", "GaussianHMM")  # doctest: +SKIP
    """
    from .parallel import n_threads

    unknown = [name for name in models if not isinstance(name, str) or name not in _TASKS]
    if unknown:
        raise ValueError(
            f"There is no estimator {unknown[0]!r}; choose from {', '.join(sorted(_TASKS))}."
        )
    began = time.perf_counter()
    names = [name for name in _TASKS if name in models or not models]
    tasks = [(name, number) for name in names for number in range(len(_TASKS[name]))]
    _folder()
    n_processes = max(1, min(n_threads(n_jobs), len(tasks)))
    n_compiled = 0
    if n_processes > 1:
        # Every n-th: neighbors take about the same time.
        n_compiled += _in_processes([tasks[i::n_processes] for i in range(n_processes)])
    # Whatever two processes have taken from one another is compiled here.
    n_compiled += _in_processes([tasks])
    return Warmup(names, n_compiled, time.perf_counter() - began, _folder())


def _in_processes(portions):
    """Run each portion of the tasks in a process; returns how many kernels were compiled."""
    # They import what this process would, and nothing from the folder that it was started in: its
    # files may have names of modules, and a checkout there has kernels of its own.
    path = [os.fspath(entry) for entry in sys.path]
    processes = [
        subprocess.Popen(
            [sys.executable, "-P", "-c", _CHILD, json.dumps(path), json.dumps(portion)],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        for portion in portions
    ]  # fmt: skip
    try:
        ends = [process.communicate() for process in processes]
    finally:
        for process in processes:
            process.kill()
    for process, (_, complaint) in zip(processes, ends, strict=True):
        if process.returncode != 0:
            raise RuntimeError(
                f"A process that compiled kernels ended with code {process.returncode}:\n"
                f"{complaint.strip()}"
            )
    reports = [json.loads(answer.splitlines()[-1]) for answer, _ in ends]
    for report in reports:
        if report["unkept"]:
            raise RuntimeError(report["unkept"])
    return sum(report["n_compiled"] for report in reports)


_CHILD = """
import json
import sys

sys.path[:] = json.loads(sys.argv[1])
from fastem import warming

warming._run(sys.argv[2])
"""


def _run(portion):
    """Run tasks, and print how many kernels they compiled."""
    from . import notices
    from .kernels import options

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for name, number in json.loads(portion):
            _TASKS[name][number]()
    unkept = ""
    if notices.keeps_no_kernels():
        messages = [str(warning.message) for warning in caught]
        unkept = next((text for text in messages if "on disk" in text), "The disk is full.")
    print(json.dumps({"n_compiled": options.n_compiled(), "unkept": unkept}))


def _folder():
    """The folder of the kernels on disk, which has others in it for each folder of the code."""
    from .kernels.dirichlet.newton import maximum
    from .kernels.normals import standard_normals

    paths = [kernel.stats.cache_path for kernel in (maximum, standard_normals)]
    if None in paths:
        raise RuntimeError(
            "Compiled kernels cannot be kept on disk. Set the environment variable "
            "NUMBA_CACHE_DIR to a folder that can be written."
        )
    return os.path.commonpath(paths)


# What estimators are asked ------------------------------------------------------------------------


#: Rows that go into several chunks.
_MANY = 80_000
#: Rows of a sequence that threads share.
_LONG = 70_000
#: Columns with which so many rows are computed with in float32, and columns that are many.
_SOME, _WIDE = 16, 300


def _rng():
    return np.random.default_rng(0)


def _rows(dtype, n=40, n_columns=3):
    half = n // 2
    centers = np.repeat([[0.0], [4.0]], half, axis=0)
    return (centers + _rng().standard_normal((2 * half, n_columns))).astype(dtype)


def _counts(dtype=np.int64, n=40):
    return _rng().poisson(4.0, (n, 3)).astype(dtype)


def _ask(model, methods, *data):
    """Call those of some methods that the model has."""
    for name in methods.split():
        if hasattr(model, name):
            getattr(model, name)(*data)


def _mixture(make: Callable, X) -> None:
    model = make().fit(X)
    # Many rows have other kernels than few, and another one for responsibilities of k-means.
    many = np.tile(X, (_MANY // len(X), 1))
    make(init_params="random").fit(many)
    _ask(make().fit(many), "predict predict_proba", many)
    make().partial_fit(X).partial_fit(X[:1])
    make(batch_size=1).partial_fit(X).partial_fit(X[:1])
    make(init_params="random").fit(X, sample_weight=np.ones(len(X)))
    _ask(model, "predict predict_proba score score_samples", X)
    _ask(model, "predict predict_proba score score_samples", X[:1])
    model.sample(3)
    model.sample(_MANY)
    _learner(model, X[0])


def _learner(model, x):
    """What arrives one observation at a time."""
    if not hasattr(model, "learner"):
        return
    learner = model.learner()
    _ask(learner, "learn_one score_one predict_one", x)
    _ask(learner, "model")


def _chain(make: Callable, X, stream=True) -> None:
    # Many rows have other kernels than few, in sequences of any length.
    some, tiled, long = (np.tile(X, (n // len(X), 1)) for n in (_MANY // 20, _MANY, _LONG))
    short = [len(X)] * (len(tiled) // len(X))
    for rows, lengths in [(tiled, short), (some, None), (tiled, None), (long, None)]:
        model = make().fit(rows, lengths)
        _ask(model, "predict predict_proba score", rows, lengths)
    one, many = len(X), [len(X) // 10] * 10
    for lengths in ([one], many):
        model = make().fit(X, lengths)
        make().partial_fit(X, lengths)
        make(batch_size=1).partial_fit(X, lengths)
        _ask(model, "predict predict_proba score score_samples score_sequences decode", X, lengths)
        make(algorithm="map").fit(X, lengths).predict(X, lengths)
    model.sample(3)
    if stream:
        update = model.filter()
        update.update(X[0])
    _learner(model, X[:4])


def _kalman(shape) -> None:
    from . import KalmanFilter

    rng = _rng()
    X = np.cumsum(rng.standard_normal((40, 2)), axis=0)
    if shape == "one":
        data = [(X, None)]
    elif shape == "many":
        data = [(X, [4] * 10)]
    elif shape == "long":
        data = [(np.cumsum(rng.standard_normal((1200, 2)), axis=0), None)]
    else:
        missing = X.copy()
        missing[3], missing[7, 0], missing[11, 1] = np.nan, np.nan, np.nan
        data = [(missing, None), (missing, [4] * 10)]

    def make(**more):
        return KalmanFilter(n_dim_state=2, max_iter=2, random_state=0, **more)

    for Y, lengths in data:
        model = make().fit(Y, lengths=lengths)
        make().partial_fit(Y, lengths=lengths)
        make(batch_size=1).partial_fit(Y, lengths=lengths)
        model.score(Y, lengths=lengths)
        model.score_samples(Y, lengths=lengths)
        for name in ("filter", "smooth"):
            getattr(model, name)(Y)
        model.forecast(Y, 2)
        model.filter_update(*(state[-1] for state in model.filter(Y)), Y[0])
        stream = model.stream()
        stream.update(Y[0])
        model.sample(_MANY)
        _learner(model, Y[:4])


def _documents(X) -> None:
    from . import CompoundDirichlet

    def make(**more):
        return CompoundDirichlet(random_state=0, **more)

    model = make().fit(X)
    make().partial_fit(X)
    make(batch_size=1).partial_fit(X)
    _ask(model, "score score_samples transform", X)
    model.sample(3)
    _learner(model, X[0])


def _proportions() -> None:
    from . import Dirichlet

    X = _rng().dirichlet(np.ones(3), 20)
    model = Dirichlet().fit(X)
    Dirichlet(batch_size=1).partial_fit(X)
    _ask(model, "score score_samples", X)
    model.sample(3)
    model.sample(_MANY)
    _learner(model, X[0])


def _gaussian_mixture(kind, X) -> None:
    from . import GaussianMixture

    _mixture(
        lambda **more: GaussianMixture(
            2, covariance_type=kind, max_iter=3, tol=1e-2, random_state=0, **more
        ),
        X,
    )


def _bayesian_mixture(kind, X) -> None:
    from . import BayesianGaussianMixture

    _mixture(
        lambda **more: BayesianGaussianMixture(
            n_components=2, covariance_type=kind, max_iter=3, tol=1e-2, random_state=0, **more
        ),
        X,
    )


def _mixture_of(family, X) -> None:
    from . import Mixture

    _mixture(lambda **more: Mixture(family, 2, max_iter=3, tol=1e-2, random_state=0, **more), X)


def _hmm(name, X, stream=True, **settings) -> None:
    import fastem

    estimator = getattr(fastem, name)
    _chain(
        lambda **more: estimator(
            n_components=2, n_iter=2, tol=-np.inf, random_state=0, **{**settings, **more}
        ),
        X,
        stream,
    )


def _mixture_of_models() -> None:
    from . import GaussianHMM, MixtureOfModels

    X, lengths = _rows(np.float64), [4] * 10
    model = MixtureOfModels(GaussianHMM(2), 2, max_iter=2, random_state=0).fit(X, lengths=lengths)
    _ask(model, "predict predict_proba score_samples", X, lengths)
    model.score(X, lengths=lengths)
    model.sample(3)


def _tasks(function, *variants) -> list[Callable[[], None]]:
    def task(arguments, settings):
        return lambda: function(*arguments, **settings)

    return [task(arguments, settings) for arguments, settings in variants]


def _with(*arguments, **settings) -> tuple:
    return arguments, settings


def _all_tasks() -> Iterator[tuple[str, list[Callable[[], None]]]]:
    kinds = ("full", "tied", "diag", "spherical")
    # Very few columns of float32 are computed with in float64; many independent columns have other
    # kernels than few.
    gaussian = [
        *((kind, _rows(np.float64)) for kind in kinds),
        *((kind, _rows(np.float32, n_columns=_SOME)) for kind in kinds),
        *(("diag", _rows(dtype, n_columns=_WIDE)) for dtype in (np.float64, np.float32)),
    ]
    yield "GaussianMixture", _tasks(_gaussian_mixture, *(_with(*each) for each in gaussian))
    yield "BayesianGaussianMixture", _tasks(_bayesian_mixture, *(_with(*each) for each in gaussian))
    yield (
        "Mixture",
        _tasks(
            _mixture_of,
            _with("gaussian", _rows(np.float64)),
            *(_with("poisson", _counts(dtype)) for dtype in (np.int64, np.float64)),
        ),
    )
    yield "GaussianHMM", _tasks(
        _hmm, *(_with("GaussianHMM", X, covariance_type=kind) for kind, X in gaussian)
    )  # fmt: skip
    yield "GMMHMM", _tasks(_hmm, _with("GMMHMM", _rows(np.float64), n_mix=2))
    yield "PoissonHMM", _tasks(_hmm, _with("PoissonHMM", _counts()))
    symbols = _rng().integers(0, 3, (40, 1))
    yield "CategoricalHMM", _tasks(_hmm, _with("CategoricalHMM", symbols))
    yield "VariationalGaussianHMM", _tasks(
        _hmm, *(_with("VariationalGaussianHMM", _rows(np.float64), covariance_type=kind)
                for kind in kinds)
    )  # fmt: skip
    yield "VariationalCategoricalHMM", _tasks(_hmm, _with("VariationalCategoricalHMM", symbols))
    trials = _rng().multinomial(5, np.ones(3) / 3, 40)
    yield "MultinomialHMM", _tasks(_hmm, _with("MultinomialHMM", trials, n_trials=5))
    yield "HMM", _tasks(
        _hmm, _with("HMM", _rows(np.float64), family="gaussian"),
        _with("HMM", _counts(), family="poisson"),
    )  # fmt: skip
    yield (
        "KalmanFilter",
        _tasks(_kalman, _with("one"), _with("many"), _with("long"), _with("missing")),
    )
    yield "CompoundDirichlet", _tasks(_documents, _with(_counts()), _with(_counts(np.float64)))
    yield "Dirichlet", _tasks(_proportions, _with())
    yield "MixtureOfModels", _tasks(_mixture_of_models, _with())


#: What has to be compiled for each estimator: functions whose kernels are independent.
_TASKS = dict(_all_tasks())
