"""What learning on many machines costs, from rates measured here: writes docs/scale.md's tables.

``python -m benchmarks.scale``. Measured: observations a core expects in a second, online and in
batch; bytes of a model and of its statistics; how long two statistics take to add, and to be
packed and unpacked; what a round of a Dask cluster costs besides, by the number of tasks; bytes
that workers exchange, by the number of observations. The network is not measured but assumed.
"""

from __future__ import annotations

import math
import pickle
import warnings
from time import perf_counter
from typing import NamedTuple

import dask.array as da
import numpy as np
import psutil
from distributed import Client, LocalCluster

import fastem
from fastem.distributed.chunks import chunks_of
from fastem.distributed.shards import _FAN_IN, Shards

from .generated import table, write

CORES = 16  # of each machine
NETWORK = 1.25e9  # bytes a second: 10 Gb/s
LATENCY = 1e-3  # of a message between machines, with what Dask does about it
MACHINES = (10, 100, 1000)


class Work(NamedTuple):
    """A kind of model, and how many observations there are of it."""

    name: str
    model: object
    data: object
    observation: str
    total: float
    online: bool = True


class Rates(NamedTuple):
    """What was measured of it."""

    model_bytes: int
    statistics_bytes: int
    expect: float  # seconds an observation, one core
    online: float
    add: float  # seconds
    packing: float  # seconds, of statistics, both ways


def best(function, repeats=3):
    """The least time of several."""
    times = []
    for _ in range(repeats):
        begun = perf_counter()
        function()
        times.append(perf_counter() - begun)
    return min(times)


def works():
    rng = np.random.default_rng(0)

    def gaussian(n, D, K, kind, total, options=None):
        X = rng.normal(size=(n, D)) + rng.integers(K, size=(n, 1))
        model = fastem.GaussianMixture(
            K, covariance_type=kind, init_params="random_from_data", random_state=0, max_iter=1,
            n_jobs=1, learning_rate=fastem.Decay(0.05, 0.5), batch_size=1,
        )  # fmt: skip
        return Work(
            f"Gaussian mixture, {kind}, D={D} K={K}", model.fit(X), X, "points", total,
            **(options or {}),
        )  # fmt: skip

    counts = rng.multinomial(100, rng.dirichlet(np.ones(1000), size=5000))
    yield gaussian(40_000, 54, 7, "full", 1e9)
    yield gaussian(6000, 784, 10, "diag", 1e9)
    yield gaussian(1500, 784, 10, "full", 1e8)
    dirichlet = fastem.CompoundDirichlet(batch_size=100, n_jobs=1).fit(counts)
    yield Work("compound Dirichlet, D=1,000", dirichlet, counts, "documents of 100 words", 1e9)
    yield from sequences(rng)


def sequences(rng):
    """Hidden Markov models and Kalman filters, 50 steps a sequence."""
    V = rng.normal(size=(2000, 50, 4)) + rng.integers(4, size=(2000, 1, 1))
    online = {"batch_size": 1, "learning_rate": fastem.Decay(0.5, 0.9), "n_jobs": 1}
    hmm = fastem.GaussianHMM(4, covariance_type="diag", n_iter=1, random_state=0, **online)
    yield Work("HMM, K=4 D=4, 50 steps", hmm.fit(V), V, "sequences", 1e8)
    V = rng.normal(size=(2000, 50, 10)).cumsum(axis=1)
    kalman = fastem.KalmanFilter(n_dim_state=5, max_iter=1, tol=0, random_state=0, **online)
    yield Work("Kalman filter, 5 and 10, 50 steps", kalman.fit(V), V, "sequences", 1e8)


def measure(work) -> Rates:
    model = work.model._model()
    model.n_jobs = 1
    data = work.model._check_data(work.data, reset=False)
    expectation = model.expect(data)
    n = work.data.shape[0]
    packed = pickle.dumps(expectation, protocol=5)
    statistics = expectation.statistics
    online = math.nan
    if work.online:
        few = work.data[: max(200, n // 20)]
        work.model.partial_fit(few)
        online = best(lambda: work.model.partial_fit(few)) / len(few)
    return Rates(
        len(pickle.dumps(model, protocol=5)),
        len(packed),
        best(lambda: model.expect(data)) / n,
        online,
        best(lambda: statistics + statistics),
        best(lambda: pickle.loads(pickle.dumps(expectation, protocol=5))),
    )


def rounds(client):
    """Seconds a round of exact EM takes when there is next to nothing to compute, by shards."""
    X = da.from_array(np.random.default_rng(0).normal(size=(2560, 2)), chunks=(10, -1))
    took = {}
    for per_worker in (1, 8, 64, 128):
        model = fastem.GaussianMixture(2, random_state=0)
        shards = Shards(client, chunks_of(X), per_worker=per_worker).checked(model, reset=True)
        first = model._start(shards, np.random.RandomState(0))
        fastem.algebra.expect(first, shards)
        took[len(shards.futures)] = best(lambda f=first, s=shards: fastem.algebra.expect(f, s), 5)
    return took


def transfers(client):
    """Bytes a round that all processes of the cluster say to each other, by rows."""

    def said():
        return psutil.net_io_counters(pernic=True)["lo"].bytes_sent

    rows = []
    for n in (10_000, 100_000, 1_000_000):
        X = da.random.default_rng(0).normal(size=(n, 20), chunks=(n // 8, 20)).persist()
        model = fastem.GaussianMixture(5, init_params="random_from_data", random_state=0)
        shards = Shards(client, chunks_of(X)).checked(model, reset=True)
        first = model._start(shards, np.random.RandomState(0))
        expectation = fastem.algebra.expect(first, shards)
        before = said()
        for _ in range(10):
            expectation = fastem.algebra.expect(first, shards)
        moved = (said() - before) / 10
        sizes = len(pickle.dumps(first.expect)), len(pickle.dumps(expectation))
        rows.append((f"{n:,}", f"{X.nbytes:,}", *(f"{s:,}" for s in sizes), f"{moved:,.0f}"))
    return rows


def spread():
    """How much longer than the median some shards take: of equal work, on this machine."""
    X = np.random.default_rng(0).normal(size=(4000, 20))
    model = fastem.GaussianMixture(5, max_iter=1, random_state=0, n_jobs=1).fit(X)._model()
    times = []
    for _ in range(400):
        begun = perf_counter()
        model.expect(X)
        times.append(perf_counter() - begun)
    return np.quantile(times, [0.9, 0.99, 1.0]) / np.median(times)


def seconds(value):
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6), ("ns", 1e-9)):
        if value >= scale:
            return f"{value / scale:.3g} {unit}"
    return "0 s"


def power(value):
    return "10" + str(round(math.log10(value))).translate(str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹"))


def size(value):
    for unit, scale in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if value >= scale:
            return f"{value / scale:.3g} {unit}"
    return f"{value:.0f} B"


def price(work, rates, machines, fixed, per_shard):
    """A round of exact EM on so many machines, part by part, in seconds."""
    # A machine's threads add their statistics one after another.
    compute = work.total / (machines * CORES) * rates.expect + CORES * rates.add
    step = rates.packing + (_FAN_IN - 1) * (rates.statistics_bytes / NETWORK + rates.add)
    tree = math.ceil(math.log(machines, _FAN_IN)) * (step + LATENCY)
    down = math.ceil(math.log2(machines)) * (rates.model_bytes / NETWORK + LATENCY)
    return compute, down, tree, fixed + per_shard * machines


def main():
    warnings.simplefilter("ignore")
    measured = [(work, measure(work)) for work in works()]
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster,
        Client(cluster) as client,
    ):
        by_shards = rounds(client)
        moved = transfers(client)
    per_shard, fixed = np.polyfit(list(by_shards), list(by_shards.values()), 1)
    per_shard, fixed = max(per_shard, 1e-6), max(fixed, 0.0)
    slow = spread()

    rate_rows, price_rows, online_rows = [], [], []
    for work, rates in measured:
        rate_rows.append((
            work.name, size(rates.model_bytes), size(rates.statistics_bytes),
            seconds(rates.expect), seconds(rates.online), seconds(rates.add),
            seconds(rates.packing),
        ))  # fmt: skip
        for machines in MACHINES:
            parts = price(work, rates, machines, fixed, per_shard)
            whole = sum(parts)
            names = ("computing", "the model's way down", "the tree", "the scheduler")
            limit = names[int(np.argmax(parts))]
            moving = (machines - 1) * (rates.model_bytes + rates.statistics_bytes)
            price_rows.append((
                work.name, f"{power(work.total)} {work.observation}", machines,
                *map(seconds, parts), seconds(whole), f"{parts[0] / whole:.0%}", size(moving),
                limit,
            ))  # fmt: skip
        _, down, tree, overhead = price(work, rates, 100, fixed, per_shard)
        between = 5000 * rates.online
        online_rows.append((
            work.name, seconds(between), seconds(down + tree + overhead),
            f"{between / (between + down + tree + overhead):.0%}",
        ))  # fmt: skip

    write("docs/scale.md", "rates", table(
        ["model", "Θ", "statistics", "expect, an observation and core", "online, an observation",
         "add two", "pack and unpack"], rate_rows))  # fmt: skip
    write("docs/scale.md", "rounds", "\n\n".join([
        table(["tasks that go to data", "a round"],
              [(n, seconds(t)) for n, t in by_shards.items()]),
        f"So a round costs {seconds(fixed)}, and {seconds(per_shard)} more for each task, with "
        "client, scheduler and workers on two cores; on a cluster the workers do their part of it "
        "side by side. Equal "
        f"work on this machine takes, of its median time, {slow[0]:.2f} at the 90th percentile, "
        f"{slow[1]:.2f} at the 99th and {slow[2]:.2f} at the worst of 400.",
    ]))  # fmt: skip
    write("docs/scale.md", "bytes", table(
        ["points (D=20, K=5)", "bytes of data", "of the model", "of the statistics",
         "sent in all, a round"], moved))  # fmt: skip
    write("docs/scale.md", "prices", table(
        ["model", "data", "machines", "computing", "model down", "tree up", "scheduler",
         "a round", "of it computing", "moved in all", "most goes to"], price_rows))  # fmt: skip
    write("docs/scale.md", "online", table(
        ["model", "5,000 observations", "a synchronization, 100 machines", "of it learning"],
        online_rows))  # fmt: skip


if __name__ == "__main__":
    main()
