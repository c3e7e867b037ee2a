"""Micro-benchmarks of the kernels: ``pytest benchmarks/``.

One thread, no estimators, no checks: what a change to a kernel does to its own time.
"""

import numpy as np
import pytest

from fastem.bench.hidden_markov import HMMShape
from fastem.bench.kalman import KalmanShape
from fastem.bench.mixtures import MixtureShape
from fastem.data.rows import Table
from fastem.data.sequences import as_sequences
from fastem.dirichlet.count_tables import CountTables
from fastem.dirichlet.model import CompoundDirichletModel
from fastem.families import Gaussian
from fastem.hmm.model import HMMModel
from fastem.kalman.data import as_observations
from fastem.kalman.model import NAMES, KalmanModel
from fastem.mixture.model import MixtureModel

pytest.importorskip("pytest_benchmark")


def _mixture(kind, n_columns, n_rows=20_000, n_components=8):
    problem = MixtureShape(kind, n_rows, n_columns, n_components).problem()
    precisions = problem.start["precisions_init"]
    covariances = np.linalg.inv(precisions) if kind in ("full", "tied") else 1.0 / precisions
    parameters = {"means": problem.start["means_init"], "covariances": covariances}
    weights = problem.start["weights_init"]
    return MixtureModel(Gaussian(kind, 0.0), weights, parameters, n_jobs=1), problem.X


@pytest.mark.parametrize("kind, n_columns", [
    *((kind, D) for kind in ("full", "tied", "diag", "spherical") for D in (2, 16, 64)),
    ("diag", 784),
])  # fmt: skip
def test_mixture_expect(benchmark, kind, n_columns):
    model, X = _mixture(kind, n_columns)
    found = benchmark(model.expect, X)
    assert np.isfinite(found.log_likelihood)


@pytest.mark.parametrize("dtype", ["float64", "float32", "uint8", "int64"])
def test_mixture_reads(benchmark, dtype):
    model, X = _mixture("diag", 64)
    X = np.clip(20 * X + 100, 0, 255).astype(dtype)
    assert np.isfinite(benchmark(model.expect, X).log_likelihood)


@pytest.mark.parametrize("kind", ["full", "diag"])
def test_mixture_infer(benchmark, kind):
    model, X = _mixture(kind, 16)
    totals, _, _ = benchmark(model.infer, X, log_totals=True)
    assert np.isfinite(totals).all()


@pytest.mark.parametrize("kind", ["full", "diag"])
def test_mixture_online(benchmark, kind):
    model, X = _mixture(kind, 16, n_rows=2000)
    learned, _, _ = benchmark(model.learn, Table(X), np.full(len(X), 0.01), 1)
    assert np.isfinite(learned.weights).all()


def _hmm(n_sequences, n_steps, n_states):
    problem = HMMShape(n_sequences, n_steps, n_states, 4).problem()
    start = problem.start
    parameters = {"means": start["means"], "covariances": start["covars"]}
    model = HMMModel(
        Gaussian("diag", 0.0), start["startprob"], start["transmat"], parameters, n_jobs=1
    )
    return model, as_sequences(problem.X, problem.lengths)


@pytest.mark.parametrize("shape", [(400, 50, 4), (400, 50, 16), (1, 20_000, 8), (4000, 5, 4)])
@pytest.mark.parametrize("work", ["expect", "infer", "decode"])
def test_hmm(benchmark, work, shape):
    model, data = _hmm(*shape)
    found = benchmark(getattr(model, work), data)
    total = found.log_likelihood if work == "expect" else found[0].sum()
    assert np.isfinite(total)


@pytest.mark.parametrize("shape", [(400, 50), (1, 20_000)])
@pytest.mark.parametrize("missing", [0.0, 0.1])
def test_kalman_expect(benchmark, shape, missing):
    problem = KalmanShape(*shape, 5, 10).problem()
    X = np.where(np.random.default_rng(0).random(problem.X.shape) < missing, np.nan, problem.X)
    offsets = {"transition_offsets": np.zeros(5), "observation_offsets": np.zeros(10)}
    parameters = {**problem.start, **offsets}
    model = KalmanModel({name: parameters[name] for name in NAMES}, n_jobs=1)
    assert np.isfinite(benchmark(model.expect, as_observations(X)).log_likelihood)


def test_count_tables(benchmark):
    X = np.random.default_rng(0).poisson(2.0, size=(20_000, 50))
    tables = benchmark(lambda: CountTables.of(X).finished())
    assert tables is not None


def test_compound_dirichlet_expect(benchmark):
    X = np.random.default_rng(0).poisson(2.0, size=(20_000, 50))
    model, tables = CompoundDirichletModel(np.full(50, 2.0)), CountTables.of(X)
    assert np.isfinite(benchmark(model.expect, tables).log_likelihood)
