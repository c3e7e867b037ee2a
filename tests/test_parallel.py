"""How many threads there are, and where: one inside a worker of something else."""

import multiprocessing
import os
import subprocess
import sys
import threading
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

import joblib
import numpy as np
import pytest
from threadpoolctl import threadpool_info

from fastem import GMMHMM, HMM, GaussianHMM, GaussianMixture, clustering, parallel
from fastem.parallel import n_threads

CORES = joblib.cpu_count()


@pytest.fixture
def many_cores(monkeypatch):
    """Seven cores, so that one is seen to be another number."""
    monkeypatch.setattr(joblib, "cpu_count", lambda: 7)
    parallel._n_cores_of.cache_clear()
    yield
    parallel._n_cores_of.cache_clear()


def in_another_thread(function):
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(function).result()


def test_the_cores_are_those_of_joblib(many_cores):
    # It knows the quota of a container, which the affinity does not.
    assert n_threads(None) == 7
    assert n_threads(-1) == 7
    assert n_threads(-3) == 5
    assert n_threads(-99) == 1
    assert in_another_thread(lambda: n_threads(None)) == 7
    with pytest.raises(ValueError, match="n_jobs=0"):
        n_threads(0)


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="affinity of Linux")
def test_a_change_of_the_affinity_is_seen():
    before = os.sched_getaffinity(0)
    n_threads(None)
    try:
        os.sched_setaffinity(0, {min(before)})
        assert n_threads(None) == 1
    finally:
        os.sched_setaffinity(0, before)
    assert n_threads(None) == CORES


def counts(_=None):
    """Threads for None, for all cores by name, and for three."""
    return n_threads(None), n_threads(-1), n_threads(3)


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_one_thread_in_a_process_of_multiprocessing(method):
    if method not in multiprocessing.get_all_start_methods():
        pytest.skip(f"no {method} here")
    context = multiprocessing.get_context(method)
    with context.Pool(1) as pool:
        assert pool.map(counts, [0]) == [(1, CORES, 3)]
    with ProcessPoolExecutor(1, mp_context=context) as pool:
        assert pool.submit(counts).result() == (1, CORES, 3)


@pytest.mark.parametrize("backend", ["loky", "threading", "multiprocessing"])
def test_one_thread_in_a_worker_of_joblib(backend, many_cores):
    found = joblib.Parallel(2, backend=backend)(joblib.delayed(counts)() for _ in range(2))
    assert {(one, three) for one, _, three in found} == {(1, 3)}


def test_all_threads_where_joblib_runs_one_after_another(many_cores):
    for given in ({"n_jobs": 1}, {"n_jobs": 2, "backend": "sequential"}):
        assert joblib.Parallel(**given)(joblib.delayed(counts)() for _ in range(2)) == [
            (7, 7, 3),
            (7, 7, 3),
        ]
    with joblib.parallel_config(backend="threading", n_jobs=2):
        assert in_another_thread(counts) == (7, 7, 3)
        assert counts() == (7, 7, 3)


def test_one_thread_in_a_worker_of_dask_that_is_a_thread(many_cores):
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(
            n_workers=1, threads_per_worker=2, processes=False, dashboard_address=":0"
        ) as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
    ):
        assert client.submit(counts, pure=False).result() == (1, 7, 3)
    # Dask is loaded now, and a thread of one's own is none of its workers.
    assert counts() == in_another_thread(counts) == (7, 7, 3)


def test_dask_is_not_loaded_for_it():
    code = """
import sys, threading
from fastem.parallel import n_threads
thread = threading.Thread(target=n_threads, args=(None,))
thread.start(); thread.join()
print([name for name in sys.modules if name.partition('.')[0] in ('dask', 'distributed')])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


# K-means ---------------------------------------------------------------------------------------


def openmp_threads():
    return {info["num_threads"] for info in threadpool_info() if info["user_api"] == "openmp"}


def spied_fit(monkeypatch):
    """The numbers of OpenMP threads that k-means has had, as they come."""
    from sklearn.cluster import KMeans

    seen, fit = [], KMeans.fit

    def spy(self, *arguments, **options):
        seen.append(openmp_threads())
        return fit(self, *arguments, **options)

    monkeypatch.setattr(KMeans, "fit", spy)
    return seen


@pytest.mark.parametrize("kind", [GaussianMixture, HMM, GaussianHMM, GMMHMM])
def test_small_starts_have_one_thread(monkeypatch, kind):
    seen = spied_fit(monkeypatch)
    monkeypatch.setattr(clustering, "lloyd_iteration", lambda: None)
    before = openmp_threads()
    model = kind(n_components=2, random_state=0)
    model.fit(np.random.default_rng(0).normal(size=(200, 2)))
    assert len(seen) >= 1
    assert seen == [{1}] * len(seen)
    assert openmp_threads() == before


def test_large_starts_have_all_threads(monkeypatch):
    seen = spied_fit(monkeypatch)
    before = openmp_threads()
    monkeypatch.setattr(clustering, "_SMALL", 10)
    clustering.kmeans(np.random.default_rng(0).normal(size=(50, 2)), 2, n_init=1, random_state=0)
    assert seen == [before]


@pytest.mark.parametrize("n_rows", [10, 256])
def test_clusters_of_few_rows_are_the_same_to_the_bit(monkeypatch, n_rows):
    X = np.random.default_rng(n_rows).normal(size=(n_rows, 3))
    weights = np.random.default_rng(1).random(n_rows)
    for sample_weight in (None, weights):
        settings = {"n_init": 2, "random_state": 0, "sample_weight": sample_weight}
        one = clustering.kmeans(X, 4, **settings)
        with monkeypatch.context() as patch:
            patch.setattr(clustering, "_SMALL", 0)
            many = clustering.kmeans(X, 4, **settings)
        np.testing.assert_array_equal(one.labels, many.labels)
        np.testing.assert_array_equal(one.centers, many.centers)


def test_clusters_of_more_rows_are_the_same_to_rounding(monkeypatch):
    # scikit-learn adds up by blocks of 256 rows, in an order that depends on the threads.
    X = np.random.default_rng(0).normal(size=(3000, 3))
    one = clustering.kmeans(X, 4, n_init=1, random_state=0)
    monkeypatch.setattr(clustering, "_SMALL", 0)
    many = clustering.kmeans(X, 4, n_init=1, random_state=0)
    np.testing.assert_array_equal(one.labels, many.labels)
    np.testing.assert_allclose(one.centers, many.centers, rtol=1e-12, atol=1e-13)


def test_starts_in_many_threads_at_once_leave_openmp_as_it_was(monkeypatch):
    monkeypatch.setattr(clustering, "lloyd_iteration", lambda: None)
    before = openmp_threads()
    X = np.random.default_rng(0).normal(size=(300, 2))
    expected = clustering.kmeans(X, 3, n_init=1, random_state=0).centers
    barrier = threading.Barrier(4)

    def start(_):
        barrier.wait()
        return clustering.kmeans(X, 3, n_init=1, random_state=0).centers

    with ThreadPoolExecutor(4) as pool:
        for centers in pool.map(start, range(4)):
            np.testing.assert_array_equal(centers, expected)
    assert openmp_threads() == before
