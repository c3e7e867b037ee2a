"""Learning on a real cluster: two worker processes with two threads each."""

import copy
import pickle
import subprocess
import sys
import threading
import warnings
from functools import partial

import dask
import dask.array as da
import dask.bag as db
import distributed
import numpy as np
import psutil
import pytest
from distributed import Client, LocalCluster
from lost_workers import kill_one, logged_chunks, wait_for_two
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.exceptions import NotFittedError

import fastem
from fastem import algebra, drift
from fastem.data.rows import Table
from fastem.distributed import expect, fit, fit_online, maximize, score
from fastem.distributed.chunks import chunks_of
from fastem.distributed.shards import Shards, shards_of
from fastem.families import DirichletMultinomial, Gaussian, Poisson, Product
from fastem.stopping import StoppingRule
from fastem.waiting import KEPT


@pytest.fixture(scope="module")
def client():
    with (
        LocalCluster(
            n_workers=2, threads_per_worker=2, processes=True, dashboard_address=":0"
        ) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        yield client


def points(n_rows=3000, n_columns=4, seed=0):
    rng = np.random.default_rng(seed)
    centers = 3 * rng.normal(size=(3, n_columns))
    labels = rng.integers(3, size=n_rows)
    return centers[labels] + rng.normal(size=(n_rows, n_columns))


def counts(n_rows=1500, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.multinomial(rng.integers(1, 60, n_rows), rng.dirichlet([1, 2, 3, 0.5], n_rows))
    X[7, 1] = 4321  # beyond the width of the tables
    X[900, 1] = 4321
    return X


def topics(n_rows=800, seed=0):
    return np.random.default_rng(seed).dirichlet([1.0, 2.0, 4.0], n_rows)


def unit(n_rows=600, seed=0):
    return np.random.default_rng(seed).beta([2.0, 0.5], [1.0, 3.0], size=(n_rows, 2))


def mixed(n_rows=600, seed=0):
    rng = np.random.default_rng(seed)
    return np.column_stack([points(n_rows, 1), rng.poisson(4.0, n_rows), points(n_rows, 1, 1)])


def parameters(estimator):
    return estimator._model().parameters


def assert_same(one, other, rtol=1e-10):
    mine, theirs = parameters(one), parameters(other)
    assert mine.keys() == theirs.keys()
    for name in mine:
        assert_allclose(mine[name], theirs[name], rtol=rtol, atol=1e-12, err_msg=name)


def mixture(kind="full", **options):
    options = {"tol": 1e-6, "random_state": 0, **options}
    return fastem.GaussianMixture(3, covariance_type=kind, **options)


BATCH = {
    "full": (mixture, points),
    "tied": (lambda: mixture("tied"), points),
    "diagonal": (lambda: mixture("diag", init_params="k-means++"), points),
    "spherical, random start": (lambda: mixture("spherical", init_params="random"), points),
    "two starts": (lambda: mixture(n_init=2), points),
    "poisson": (lambda: fastem.Mixture("poisson", 2, random_state=0, tol=1e-6), counts),
    "multinomial": (lambda: fastem.Mixture("multinomial", 2, random_state=0), counts),
    "beta": (lambda: fastem.Mixture("beta", 2, random_state=0, max_iter=5), unit),
    "product": (
        lambda: fastem.Mixture(
            Product((Gaussian(), [0, 2]), (Poisson(), [1])), 2, random_state=0, max_iter=5
        ),
        mixed,
    ),
    "documents": (
        lambda: fastem.Mixture(DirichletMultinomial(), 2, random_state=0, max_iter=5), counts
    ),
    "compound Dirichlet, newton": (lambda: fastem.CompoundDirichlet(tol=1e-8), counts),
    "compound Dirichlet, em": (
        lambda: fastem.CompoundDirichlet(solver="em", max_iter=30, tol=0), counts
    ),
    "Dirichlet": (fastem.Dirichlet, topics),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", BATCH)
def test_exact_em_is_that_of_one_machine(client, name):
    make, data = BATCH[name]
    X = data()
    here = make().fit(X)
    there = fit(make(), da.from_array(X, chunks=(417, 2)), client=client)
    assert_same(there, here)
    assert there.n_iter_ == here.n_iter_
    assert there.converged_ == here.converged_
    assert there.n_features_in_ == X.shape[1]
    assert_allclose(there.lower_bound_, here.lower_bound_, rtol=1e-12)
    assert_allclose(there.lower_bounds_, here.lower_bounds_, rtol=1e-12)
    assert_allclose(
        score(there, da.from_array(X, chunks=(500, -1)), client=client), here.score(X), rtol=1e-12
    )


def weights_of(n_rows):
    weights = np.random.default_rng(5).integers(0, 4, n_rows).astype(float)
    weights[:600] = 0.0  # whole chunks of no weight
    return weights


@pytest.mark.parametrize("kind", ["array", "dask", "list"])
@pytest.mark.parametrize("name", ["full", "compound Dirichlet, newton"])
def test_weights_are_those_of_one_machine(client, name, kind):
    make, data = BATCH[name]
    X = data()
    weights = weights_of(len(X))
    given = {
        "array": weights,
        "dask": da.from_array(weights, chunks=333),
        "list": [dask.delayed(weights[i : i + 300]) for i in range(0, len(X), 300)],
    }[kind]
    start = start_of(4) if name == "full" else {}
    here = make().set_params(**start).fit(X, sample_weight=weights)
    there = fit(
        make().set_params(**start), da.from_array(X, chunks=(300, -1)), given, client=client
    )
    assert there.n_iter_ == here.n_iter_
    assert_same(there, here)


def test_sparse_counts_in_delayed_blocks(client):
    X = counts()
    blocks = [dask.delayed(sparse.csr_array(X[i : i + 200])) for i in range(0, len(X), 200)]
    assert_same(
        fit(fastem.CompoundDirichlet(), blocks, client=client), fastem.CompoundDirichlet().fit(X)
    )
    pairs = [dask.delayed((sparse.csc_matrix(X[i : i + 200]), np.full(200, 1.0 + i)))
             for i in range(0, 1400, 200)]  # fmt: skip
    weights = np.repeat(1.0 + np.arange(0, 1400, 200), 200)
    assert_same(
        fit(fastem.CompoundDirichlet(), pairs, client=client),
        fastem.CompoundDirichlet().fit(X[:1400], sample_weight=weights),
    )


def test_bags_and_futures(client):
    X = points()
    here = mixture().fit(X)
    bag = db.from_sequence(list(X.reshape(30, 100, 4)), npartitions=5)
    assert_same(fit(mixture(), bag, client=client), here)
    futures = [client.submit(np.array, X[i : i + 1000]) for i in range(0, 3000, 1000)]
    assert_same(fit(mixture(), futures, client=client), here)


def test_weights_of_rows_in_several_arrays(client):
    X = points()
    weights = weights_of(len(X))
    here = mixture(**start_of(4)).fit(X, sample_weight=weights)
    arrays = [(X[i : i + 300], weights[i : i + 300]) for i in range(0, 3000, 300)]
    blocks = [dask.delayed(arrays[:3]), dask.delayed(arrays[3:])]
    assert_same(fit(mixture(**start_of(4)), blocks, client=client), here)
    bag = db.from_sequence([x for x, _ in arrays], npartitions=4)
    assert_same(fit(mixture(**start_of(4)), bag, weights, client=client), here)
    # Dask does not know how many rows are in these chunks.
    array = da.from_array(X, chunks=(700, -1))
    kept = X[:, 0] > 0
    assert_same(
        fit(mixture(**start_of(4)), array[array[:, 0] > 0], weights[kept], client=client),
        mixture(**start_of(4)).fit(X[kept], sample_weight=weights[kept]),
    )
    with pytest.raises(ValueError, match="their own sample_weight"):
        fit(mixture(), [dask.delayed((X, weights))], weights, client=client)


def test_data_frames_keep_their_names(client):
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(points(), columns=["a", "b", "c", "d"])
    here = mixture().fit(frame)
    blocks = [dask.delayed(frame[i : i + 700]) for i in range(0, 3000, 700)]
    there = fit(mixture(), blocks, client=client)
    assert_same(there, here)
    assert_array_equal(there.feature_names_in_, ["a", "b", "c", "d"])
    other = [*blocks, dask.delayed(frame.rename(columns={"a": "z"}))]
    with pytest.raises(ValueError, match=r"not alike|feature names"):
        fit(mixture(), other, client=client)


def test_dask_data_frames(client):
    import dask.dataframe as dd
    import pandas as pd

    frame = pd.DataFrame(points(), columns=["a", "b", "c", "d"])
    weights = weights_of(len(frame))
    there = dd.from_pandas(frame.assign(w=weights), npartitions=5)
    columns = there[["a", "b", "c", "d"]]
    found = fit(mixture(), columns, client=client)
    assert_same(found, mixture().fit(frame))
    assert_array_equal(found.feature_names_in_, ["a", "b", "c", "d"])
    here = mixture(**start_of(4)).fit(frame, sample_weight=weights)
    for given in (weights, there["w"]):
        assert_same(fit(mixture(**start_of(4)), columns, given, client=client), here)


def start_of(n_columns):
    return {
        "weights_init": [0.2, 0.3, 0.5],
        "means_init": 3 * np.random.default_rng(0).normal(size=(3, n_columns)),
        "precisions_init": np.repeat(np.eye(n_columns)[None], 3, axis=0),
    }


def said():
    """Bytes that processes of this machine have sent each other."""
    return psutil.net_io_counters(pernic=True)["lo"].bytes_sent


@pytest.mark.skipif("lo" not in psutil.net_io_counters(pernic=True), reason="no loopback counter")
def test_bytes_of_a_step_do_not_depend_on_the_number_of_observations(client):
    sizes, moved = [], []
    for n_rows in (1000, 200_000):
        load = dask.delayed(points, pure=False)
        X = [load(n_rows // 20, 8, seed) for seed in range(20)]
        model = mixture(**start_of(8))
        shards = Shards(client, chunks_of(X)).checked(model, reset=True)
        first = model._start(shards, np.random.RandomState(0))
        expectation = fastem.algebra.expect(first, shards)
        assert expectation.weight == n_rows
        sizes.append((len(pickle.dumps(first.expect)), len(pickle.dumps(expectation))))
        before = said()
        for _ in range(5):
            fastem.algebra.expect(first, shards)
        moved.append(said() - before)
    assert sizes[0] == sizes[1]
    # The data are 12.8 MB, of which two hundred times as much would be seen.
    assert moved[1] < 5 * sum(sizes[0]) * 4 + 500_000
    assert moved[1] < 2 * moved[0] + 200_000


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_large_start_is_a_sample_that_does_not_depend_on_the_chunks(client, monkeypatch):
    monkeypatch.setattr("fastem.distributed.shards._SAMPLE_ROWS", 500)
    X = points()
    starts = [
        fit(mixture(max_iter=0), da.from_array(X, chunks=(rows, -1)), client=client)
        for rows in (211, 1000)
    ]
    assert_array_equal(starts[0].means_, starts[1].means_)
    assert not np.allclose(starts[0].means_, mixture(max_iter=0).fit(X).means_, rtol=1e-9)


def test_warm_start_goes_on(client):
    X = da.from_array(points(), chunks=(500, -1))
    model = fit(mixture(warm_start=True), X, client=client)
    before = model.lower_bound_
    fit(model, X, client=client)
    assert model.lower_bound_ >= before - 1e-9
    assert model.n_iter_ <= 2


# Online ---------------------------------------------------------------------------------------


def online_mixture(**options):
    return mixture(learning_rate=fastem.Decay(0.05, 0.5), **{"batch_size": 1, **options})


ONLINE = {
    "mixture": (online_mixture, points),
    "mixture, statistics": (lambda: online_mixture(memory="statistics"), points),
    "poisson": (
        lambda: fastem.Mixture("poisson", 2, random_state=0, batch_size=50), counts
    ),
    "compound Dirichlet": (
        lambda: fastem.CompoundDirichlet(batch_size=20, learning_rate=0.5), counts
    ),
    "Dirichlet": (lambda: fastem.Dirichlet(batch_size=20, learning_rate=0.5), topics),
}  # fmt: skip


def simulate(model, shards, sync_every, merge):
    """The same on one machine, plainly."""
    for begin in range(0, max(map(len, shards)), sync_every):
        parts = [shard[begin : begin + sync_every] for shard in shards]
        machines, weights = [], []
        for part in parts:
            if len(part):
                machines.append(copy.deepcopy(model).partial_fit(part))
                weights.append(len(part))
        memories = [getattr(machine, "statistics_", None) for machine in machines]
        behind = model.n_observations_ + sum(weights)
        model = merge(machines, weights)
        model.n_observations_ = behind
        if memories[0] is not None:
            model.statistics_ = sum(
                s * (w / sum(weights)) for s, w in zip(memories, weights, strict=True)
            )
    return model


def begun(make, X):
    """An estimator at its start, with no step taken."""
    model = make()
    rate, size = model.learning_rate, model.batch_size
    model.set_params(learning_rate=1e-300, batch_size=None).partial_fit(X)
    model.n_steps_, model.n_observations_ = 0, 0.0
    return model.set_params(learning_rate=rate, batch_size=size)


@pytest.mark.parametrize("combine", ["entropic", "average"])
@pytest.mark.parametrize("name", ONLINE)
def test_online_is_the_same_as_on_one_machine(client, name, combine):
    make, data = ONLINE[name]
    X = data()
    merge = partial(fastem.combine if combine == "entropic" else fastem.average, align=False)
    # Chunks of 150, in three shards, which are not equally long.
    cuts = np.array_split(np.arange(-(-len(X) // 150)) * 150, 3)
    ends = [cut[-1] + 150 for cut in cuts]
    shards = [X[cut[0] : end] for cut, end in zip(cuts, ends, strict=True)]
    here = simulate(begun(make, X), shards, 200, merge)
    seen = []
    there = fit_online(
        make(), da.from_array(X, chunks=(150, -1)), sync_every=200, combine=combine, n_shards=3,
        callback=lambda model, n: seen.append((n, model.n_steps_)), client=client,
    )  # fmt: skip
    assert_same(there, here, rtol=1e-9)
    assert there.n_steps_ == here.n_steps_
    assert seen[0] == (0, 0)
    assert [n for n, _ in seen] == sorted(n for n, _ in seen)
    assert seen[-1] == (len(X), there.n_steps_)


@pytest.mark.parametrize("mode", ["sync", "async"])
@pytest.mark.parametrize("batch_size", [20, None])
def test_models_are_combined_once_at_the_end(client, mode, batch_size):
    X = np.concatenate([points(), points()])[:4000]

    def make():
        return mixture(learning_rate=0.1, batch_size=batch_size)

    merge = partial(fastem.combine, align=False)
    # Without a batch_size, a batch is that of a stream.
    begin = begun(make, X).set_params(batch_size=batch_size or 1000)
    here = simulate(begin, [X[:2400], X[2400:]], len(X), merge)
    seen = []
    there = fit_online(
        make(), da.from_array(X, chunks=((2400, 1600), -1)), None, mode, n_shards=2,
        callback=lambda model, n: seen.append(n), client=client,
    )  # fmt: skip
    assert_same(there, here, rtol=1e-9)
    assert there.n_observations_ == len(X)
    assert there.batch_size == batch_size
    assert len(seen) == (2 if mode == "sync" else 3)


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_a_last_portion_of_one_row_has_the_influence_of_one(client, mode):
    X = np.concatenate([points(), points()])[:2001]

    def end(n):
        model = mixture(learning_rate=0.5, batch_size=None)
        data = da.from_array(X[:n], chunks=(n, -1))
        return fit_online(model, data, 500, mode, n_shards=1, client=client)

    without, with_it = end(2000), end(2001)
    assert with_it.n_steps_ == pytest.approx(4.002)
    assert with_it.n_observations_ == 2001
    # One row of 500 at a rate of 0.5: a thousandth of its distance.
    furthest = np.abs(X[2000] - without.means_).max()
    assert np.abs(with_it.means_ - without.means_).max() < 0.01 * furthest


@pytest.mark.parametrize("name", ONLINE)
def test_one_shard_is_partial_fit_in_either_mode(client, name):
    make, data = ONLINE[name]
    X = data()
    here = begun(make, X)
    for begin in range(0, len(X), 400):
        here.partial_fit(X[begin : begin + 400])
    chunks = da.from_array(X, chunks=(250, -1))
    for mode in ("sync", "async"):
        there = fit_online(
            make(), chunks, sync_every=400, mode=mode, n_shards=1, client=client
        )  # fmt: skip
        assert_same(there, here, rtol=1e-8)


def at_start():
    model = online_mixture(**start_of(4))
    return begun(lambda: model, points())


def test_models_that_arrive_one_by_one(client):
    X = points(6000)
    seen = []
    model = at_start()
    before = model.score(X)
    fit_online(
        model, da.from_array(X, chunks=((400, 5600), -1)), sync_every=300, mode="async",
        n_shards=2, callback=lambda model, n: seen.append(n), client=client,
    )  # fmt: skip
    # Two times from the short shard, nineteen from the long one, and the start.
    assert len(seen) == 1 + 2 + 19
    assert seen[-1] == 6000
    together = at_start()
    fit_online(
        together, da.from_array(X, chunks=(3000, -1)), sync_every=300, n_shards=2, client=client
    )
    assert model.score(X) > before + 0.05
    assert_allclose(model.score(X), together.score(X), atol=0.05)


def test_a_fitted_model_goes_on_online(client):
    X = points()
    model = mixture().fit(X[:50])
    before = model.score(X)
    model.set_params(learning_rate=fastem.Decay(0.05, 0.5), batch_size=1)
    fit_online(model, da.from_array(X, chunks=(300, -1)), 500, client=client)
    assert model.score(X) > before
    assert 0 < model.n_steps_ <= 3000


def test_weights_online(client):
    X = points()
    weights = weights_of(len(X))
    here = at_start()
    for begin in range(600, 3000, 300):
        here.partial_fit(X[begin : begin + 300], sample_weight=weights[begin : begin + 300])
    there = fit_online(
        at_start(), da.from_array(X, chunks=(300, -1)), 300, sample_weight=weights, n_shards=1,
        client=client,
    )  # fmt: skip
    assert_same(there, here, rtol=1e-8)


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_a_worker_without_weight_has_no_running_statistics_yet(client, mode):
    X = points(1200)
    weights = np.ones(len(X))
    weights[:300] = 0.0
    model = mixture().fit(X).set_params(memory="statistics")
    data = da.from_array(X, chunks=(600, -1))
    options = {"sample_weight": weights, "n_shards": 2, "client": client}
    fit_online(model, data, 300, mode, **options)
    assert_allclose(model.statistics_["mass"].sum(), 1.0)
    # A model that is its own memory drops them.
    fit_online(model.set_params(memory="model"), data, 300, mode, **options)
    assert not hasattr(model, "statistics_")


# Watching, averaging, forgetting ----------------------------------------------------------------


class Watch:
    """A callback that stays in its process: it cannot be pickled."""

    def __init__(self, last=None):
        self.lock, self.reports, self.last = threading.Lock(), [], last

    def __call__(self, report):
        with self.lock:
            self.reports.append(report)
        return len(self.reports) == self.last


def rounds(X, n_shards, sync_every):
    """What each round learns from, if the shards are equally long."""
    parts = np.split(X, n_shards)
    for begin in range(0, len(parts[0]), sync_every):
        yield np.concatenate([part[begin : begin + sync_every] for part in parts])


@pytest.mark.parametrize(("mode", "n_shards"), [("sync", 3), ("async", 1)])
@pytest.mark.parametrize("average_from", [1000, "auto"])
def test_combinations_are_averaged(client, mode, n_shards, average_from):
    data = da.from_array(points(), chunks=(200, -1))
    models, ends = [], []

    def keep(model, n):
        models.append(model._model())
        ends.append(n)

    settings = {"n_shards": n_shards, "mode": mode, "client": client}
    fit_online(mixture(batch_size=50), data, 250, callback=keep, **settings)
    averaged = mixture(batch_size=50, average_from=average_from)
    fit_online(averaged, data, 250, **settings)
    weights = np.diff(ends) * (ends[1:] if average_from == "auto" else np.ones(len(ends) - 1))
    if average_from != "auto":
        weights[np.array(ends[1:]) <= average_from] = 0.0
    statistics = [model.own() * w for model, w in zip(models[1:], weights, strict=True)]
    expected = models[-1].maximize(sum(statistics[1:], statistics[0]) / weights.sum())
    for name, values in expected.parameters.items():
        assert_allclose(parameters(averaged)[name], values, rtol=1e-7, atol=1e-9, err_msg=name)
    # The attributes show the average, and learning goes on from the last combination.
    iterate = dict(averaged._averaging["iterate"])
    assert_allclose(iterate["means"], models[-1].parameters["means"], rtol=1e-9)
    assert np.abs(averaged.means_ - iterate["means"]).max() > 1e-4
    again = copy.deepcopy(averaged).partial_fit(points(200, seed=1))
    assert averaged._averaging["weight"] < again._averaging["weight"]


@pytest.mark.parametrize("combine", ["entropic", "average"])
def test_forgetting_is_that_of_one_machine(client, combine):
    X = points()
    merge = partial(fastem.combine if combine == "entropic" else fastem.average, align=False)
    start = mixture(batch_size=20).fit(X[:300])
    # Each of three workers meets a third of the observations.
    here = simulate(
        copy.deepcopy(start).set_params(forgetting=300.0), np.split(X, 3), 200, merge
    )  # fmt: skip
    there = fit_online(
        copy.deepcopy(start).set_params(forgetting=900.0), da.from_array(X, chunks=(500, -1)), 200,
        combine=combine, n_shards=3, client=client,
    )  # fmt: skip
    assert_same(there, here, rtol=1e-9)
    assert there.forgetting == 900.0
    plain = fit_online(
        copy.deepcopy(start), da.from_array(X, chunks=(500, -1)), 200, n_shards=3, client=client
    )
    assert np.abs(there.means_ - plain.means_).max() > 1e-3


@pytest.mark.parametrize(
    ("mode", "n_shards"), [("sync", 1), ("sync", 2), ("sync", 4), ("async", 1), ("async", 2)]
)
def test_a_half_life_counts_the_observations_of_all_workers(client, mode, n_shards):
    rng = np.random.default_rng(0)
    model = fastem.GaussianMixture(1, forgetting=2000.0, batch_size=1)
    model.fit(rng.normal(size=(2000, 1)))
    # So many that the automatic steps are smaller.
    model.n_observations_, model.means_ = 1e9, np.zeros((1, 1))
    X = 1.0 + 1e-3 * rng.normal(size=(2000, 1))
    fit_online(
        model, da.from_array(X, chunks=(500, -1)), 50, mode, n_shards=n_shards, client=client
    )
    if mode == "sync" or n_shards == 1:
        assert_allclose(model.means_, 0.5, atol=0.002)
    else:
        # Models that arrive one by one are combined with older ones, and forget later: if the two
        # take turns, the half-life is 5/4 as long. Without a thought of the other it were 5/2.
        assert 1.0 - 2.0**-0.6 < model.means_.item() < 0.55


def test_the_history_of_a_cluster_is_that_of_the_rounds(client):
    X, models, watch = points(), [], Watch()
    model = mixture(callback=watch)
    fit_online(
        model, da.from_array(X, chunks=(250, -1)), 200, n_shards=3, client=client,
        callback=lambda model, n: models.append(copy.copy(model).set_params(callback=None)),
    )  # fmt: skip
    # A round is one batch of each worker.
    expected = [
        [n * 600.0, 600.0, before.score(part)]
        for n, before, part in zip(range(1, 6), models[:-1], rounds(X, 3, 200), strict=True)
    ]
    assert_allclose(model.history_, expected, rtol=1e-9)
    assert [list(report[:3]) for report in watch.reports] == model.history_
    assert [report.n_iter for report in watch.reports] == [0] * 5
    for report, after in zip(watch.reports, models[1:], strict=True):
        assert_same(report.estimator, after, rtol=0)
    # It goes on with what this machine learns.
    model.partial_fit(X[:100])
    assert len(model.history_) == len(watch.reports) == 6


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_a_history_has_each_observation_once(client, mode):
    X, weights = points(), weights_of(3000)
    model = mixture(batch_size=10, drift_alarm=0.01)
    fit_online(
        model, da.from_array(X, chunks=(250, -1)), 100, mode, sample_weight=weights, n_shards=2,
        client=client,
    )  # fmt: skip
    n, entry_weights, means = np.array(model.history_).T
    assert entry_weights.sum() == pytest.approx(weights.sum(), rel=1e-12)
    assert_allclose(n, np.cumsum(entry_weights), rtol=1e-12)
    assert_allclose(np.average(means, weights=entry_weights), model.score(X), atol=0.3)
    # The test of drift has seen the same.
    state = drift.beginning()
    for entry_n, weight, mean in model.history_:
        state = drift.next_drift(state, 0.01, entry_n, weight, mean)
    assert model.drift_ == drift.shown(state)
    assert model.drift_.n_scores == len(n)


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_a_shift_on_a_cluster_is_found(client, mode):
    X = np.concatenate([points(16_000), points(4000) + 2.0]).reshape(-1, 2, 40, 4)
    # Each worker meets it after 8,000 of its 10,000 rows.
    X = np.concatenate([X[:, 0].reshape(-1, 4), X[:, 1].reshape(-1, 4)])
    model = mixture(drift_alarm=0.01).fit(points(3000))
    data = da.from_array(X, chunks=(5000, -1))
    fit_online(model, data, 40, mode, n_shards=2, client=client)
    assert model.drift_.detected
    # One worker may be ahead of the other unless they wait.
    assert 3000 + (16_000 if mode == "sync" else 8000) < model.drift_.at <= 3000 + 20_000
    plain = model.set_params(drift_alarm=None)
    fit_online(plain, data, 3000, mode, n_shards=2, client=client)
    assert not hasattr(plain, "drift_")


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_a_callback_ends_a_pass(client, mode):
    X, watch = points(), Watch(last=3)
    model = mixture(batch_size=10, callback=watch)
    fit_online(model, da.from_array(X, chunks=(250, -1)), 100, mode, n_shards=2, client=client)
    n = 200 if mode == "sync" else 100
    assert [report.n_observations for report in watch.reports] == [n, 2 * n, 3 * n]
    assert model.n_observations_ == 3 * n
    assert model.callback is watch


def test_a_callback_that_fails_leaves_the_estimator(client):
    def fail(report):
        raise KeyError("no")

    model = mixture().fit(points(300))
    before = copy.deepcopy(vars(model))
    model.set_params(callback=fail)
    with pytest.raises(KeyError):
        fit_online(model, da.from_array(points(), chunks=(500, -1)), 100, client=client)
    assert vars(model).keys() == before.keys()
    assert_array_equal(model.means_, before["means_"])


def test_a_callback_of_exact_em_stays_here(client):
    watch = Watch(last=3)
    model = fit(mixture(callback=watch), da.from_array(points(), chunks=(500, -1)), client=client)
    assert [report.n_iter for report in watch.reports] == [1, 2, 3]
    assert model.n_iter_ == 3


@pytest.mark.parametrize("started", [False, True], ids=["waiting", "started"])
def test_what_was_kept_for_a_start_is_not_begun_again_with(client, started):
    X = points()
    model = mixture("diag", batch_size=50).partial_fit(X[: 40 if started else 2])
    assert hasattr(model, "means_") == started
    assert KEPT in vars(model)
    fit_online(model, da.from_array(X, chunks=(500, -1)), 200, n_shards=3, client=client)
    assert KEPT not in vars(model)
    assert model.n_observations_ == 3000 + (40 if started else 0)


# Workers that are lost ------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["full", "poisson", "compound Dirichlet, em"])
def test_a_worker_lost_in_the_middle_changes_nothing(client, name, monkeypatch, tmp_path):
    wait_for_two(client)
    make, data = BATCH[name]
    X = data()
    with warnings.catch_warnings(action="ignore"):
        here = make().fit(X)
    plain, rounds = Shards.sum, []

    def deadly(self, function):
        rounds.append(len(list(tmp_path.iterdir())))
        if len(rounds) == (2 if name != "compound Dirichlet, em" else 1):
            if name == "full":  # while tasks run
                threading.Timer(0.01, kill_one, (client, self.futures)).start()
            else:
                kill_one(client, self.futures)
        return plain(self, function)

    monkeypatch.setattr(Shards, "sum", deadly)
    with warnings.catch_warnings(action="ignore"):
        there = fit(make(), logged_chunks(tmp_path, X, 250), client=client)
    loads = len(list(tmp_path.iterdir()))
    assert rounds[0] == -(-len(X) // 250)
    if name != "full":
        assert loads > rounds[0]  # what was lost was loaded again
    assert there.n_iter_ == here.n_iter_
    assert_same(there, here)


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_a_worker_lost_online(client, mode, tmp_path):
    wait_for_two(client)
    X = points(4000)
    calls = []

    def deadly(model, n_observations):
        calls.append(n_observations)
        if len(calls) == 3:
            # In the other mode a task is running: it goes to another worker.
            kill_one(client)

    def learn(callback):
        return fit_online(
            at_start(), logged_chunks(tmp_path, X, 250), 250, mode, n_shards=2,
            callback=callback, client=client,
        )  # fmt: skip

    undisturbed = learn(None)
    assert len(list(tmp_path.iterdir())) == 16
    there = learn(deadly)
    assert len(list(tmp_path.iterdir())) > 32  # what was lost was loaded again
    assert calls[-1] == 4000  # every observation was learned from
    assert there.n_steps_ >= 2000 - 250
    if mode == "sync":
        assert_same(there, undisturbed)
    else:
        assert_allclose(there.score(X), undisturbed.score(X), atol=0.05)


# Clusters -------------------------------------------------------------------------------------


def test_without_a_client_a_local_cluster_comes_and_goes():
    X = points(600)
    here = mixture().fit(X)
    there = fit(mixture(), da.from_array(X, chunks=(200, -1)))
    assert_same(there, here)
    with pytest.raises(ValueError):
        distributed.default_client()


def test_the_current_client_is_used(client, monkeypatch):
    monkeypatch.setattr("fastem.distributed.shards.default_client", lambda: client)
    monkeypatch.setattr("fastem.distributed.shards.LocalCluster", None)
    X = points(600)
    assert_same(fit(mixture(), da.from_array(X, chunks=(200, -1))), mixture().fit(X))
    assert client.status == "running"


# Any other engine -----------------------------------------------------------------------------


def test_the_two_functions_of_a_step_make_exact_em():
    X = points()
    here = mixture(max_iter=4, **start_of(4)).set_params(tol=0)
    there = mixture(max_iter=0, **start_of(4)).fit(X[:100])
    with warnings.catch_warnings(action="ignore"):
        here.fit(X)
    for _ in range(4):
        parts = [expect(there, X[i : i + 700]) for i in range(0, 3000, 700)]
        parts = [pickle.loads(pickle.dumps(part)) for part in parts]  # as they travel
        maximize(there, sum(parts))
    assert_same(there, here)
    assert there.n_iter_ == 4
    assert_allclose(there.lower_bound_, here.lower_bound_, rtol=1e-12)
    with pytest.raises(NotFittedError):
        expect(mixture(), X)


# Bad input ------------------------------------------------------------------------------------


def test_what_is_not_on_a_cluster_is_refused(client):
    for data, got in [(points(50), "a ndarray"), ([points(50)], "of ndarray"), ([], "empty")]:
        with pytest.raises(TypeError, match=f"got .*{got}.*from_array"):
            fit(mixture(), data, client=client)


def test_a_bad_chunk_is_named_and_nothing_changes(client):
    X = points()
    good = fit(mixture(), da.from_array(X, chunks=(500, -1)), client=client)
    before = {name: np.copy(array) for name, array in parameters(good).items()}
    X[1234, 2] = np.nan
    bad = da.from_array(X, chunks=(500, -1))
    for learn in (fit, fit_online):
        with pytest.raises(ValueError, match="In chunk 2 of the data.*NaN"):
            learn(good, bad, client=client)
        for name, array in parameters(good).items():
            assert_array_equal(array, before[name])


def test_chunks_that_are_not_alike(client):
    blocks = [dask.delayed(points(100, width)) for width in (3, 3, 4)]
    with pytest.raises(ValueError, match=r"not alike: n_features_in_|has 4 features"):
        fit(mixture(), blocks, client=client)


def test_nothing_to_learn_from(client):
    X = da.from_array(points(300), chunks=(100, -1))
    for data, weights in [(X[:0], None), (X, np.zeros(300))]:
        with pytest.raises(ValueError, match="nothing to learn from"):
            fit(mixture(), data, weights, client=client)


def test_weights_that_do_not_fit(client):
    X = da.from_array(points(300), chunks=(100, -1))
    with pytest.raises(ValueError, match=r"sample_weight has the shape \(7,\).*300"):
        fit(mixture(), X, np.ones(7), client=client)
    with pytest.raises(ValueError, match="sample_weight has 1 chunks, and the data have 3"):
        fit(mixture(), X, [dask.delayed(np.ones(300))], client=client)
    message = r"In chunk . .*sample_weight has the shape \(7,\), and there are 100 observations"
    with pytest.raises(ValueError, match=message):
        fit(mixture(), X, [dask.delayed(np.ones(7))] * 3, client=client)


@pytest.mark.parametrize(
    "options, message",
    [
        ({"mode": "slow"}, "mode must be one of 'sync', 'async'"),
        ({"combine": "mean"}, "combine must be one of 'entropic', 'average'"),
        ({"sync_every": 0}, "sync_every must be a whole number"),
        ({"n_shards": -1}, "n_shards must be a whole number"),
        ({"n_shards": 0}, "n_shards must be a whole number"),
    ],
)
def test_bad_options_of_online_learning(client, options, message):
    with pytest.raises(ValueError, match=message):
        fit_online(mixture(), da.from_array(points(90), chunks=30), **options, client=client)


def test_without_dask_the_message_says_what_to_install():
    code = (
        "import sys; sys.modules['dask'] = sys.modules['distributed'] = None\n"
        "from fastem.distributed import expect, maximize\n"
        "try:\n    from fastem.distributed import fit\n"
        "except ImportError as error:\n    print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert 'pip install "fastem[dask]"' in done.stdout, done.stderr


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_blocks_of_incremental_em_have_a_part_of_every_shard(client):
    X = points(600)
    w = np.random.default_rng(5).uniform(0.5, 2.0, 600)
    # A part of the second shard has no weight.
    w[420:480] = 0.0
    estimator = mixture(max_iter=1, init_params="random")
    model = estimator.fit(X)._model()
    chunks = [dask.delayed((X[i : i + 100], w[i : i + 100])) for i in range(0, 600, 100)]
    with shards_of(estimator, chunks, client, n_shards=2) as shards:
        there = shards.checked(estimator, reset=True)
        blocks = there.blocks(5)
        assert [len(block.futures) for block in blocks] == [2, 2, 1, 2, 2]
        assert blocks.weight == pytest.approx(w.sum())
        found = [
            algebra.incremental(model, there, StoppingRule(3), n_blocks=5).model for _ in range(2)
        ]
    # On one machine, the same blocks one after another.
    order = np.concatenate([np.r_[i : i + 60, 300 + i : 360 + i] for i in range(0, 300, 60)])
    here = algebra.incremental(model, Table(X[order], w[order]), StoppingRule(3), n_blocks=5).model
    for name, value in here.parameters.items():
        assert_allclose(found[0].parameters[name], value, rtol=1e-9, atol=1e-12)
        assert found[0].parameters[name].tobytes() == found[1].parameters[name].tobytes()
