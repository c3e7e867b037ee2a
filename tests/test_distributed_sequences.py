"""Sequences on a real cluster: hidden Markov models and Kalman filters."""

import copy

import dask
import dask.array as da
import dask.bag as db
import numpy as np
import pytest
from distributed import Client, LocalCluster
from numpy.testing import assert_allclose

import fastem
from fastem import algebra
from fastem.distributed import expect, fit, fit_online, maximize, score

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


@pytest.fixture(scope="module")
def client():
    with (
        LocalCluster(
            n_workers=2, threads_per_worker=2, processes=True, dashboard_address=":0"
        ) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        yield client


def sequences(n_sequences=150, n_columns=3, seed=0):
    """Sequences of one to ten steps, whose rows walk between three places."""
    rng = np.random.default_rng(seed)
    places = 4 * rng.normal(size=(3, n_columns))
    found = []
    for length in rng.integers(1, 11, n_sequences):
        states = np.minimum(np.cumsum(rng.random(length) < 0.3), 2)
        found.append(places[states] + rng.normal(size=(length, n_columns)))
    return found


def absorbed(n_sequences=150):
    """The same, each with a last row from a place of its own."""
    rng = np.random.default_rng(1)
    return [np.vstack([x, 9 + rng.normal(size=(1, 3))]) for x in sequences(n_sequences)]


def hmm(**options):
    return fastem.GaussianHMM(3, covariance_type="diag", random_state=0, n_iter=8, **options)


def ending_hmm(**options):
    return fastem.GaussianHMM(
        4, absorbing=[3], covariance_type="full", random_state=0, n_iter=5, **options
    )


def kalman(**options):
    return fastem.KalmanFilter(n_dim_state=2, random_state=0, max_iter=5, tol=0, **options)


KINDS = {
    "hmm": (hmm, sequences),
    "absorbing": (ending_hmm, absorbed),
    "kalman": (kalman, sequences),
}


def assert_same(one, other, rtol=1e-10):
    mine, theirs = one._model().parameters, other._model().parameters
    assert mine.keys() == theirs.keys()
    for name in mine:
        assert_allclose(mine[name], theirs[name], rtol=rtol, atol=1e-11, err_msg=name)


@pytest.mark.parametrize("name", KINDS)
def test_exact_em_on_bags_and_lists(client, name):
    make, data = KINDS[name]
    V = data()
    here = make().fit(V)
    there = fit(make(), db.from_sequence(V, npartitions=5), client=client)
    assert_same(there, here)
    assert there.n_iter_ == here.n_iter_
    assert_allclose(there.lower_bounds_, here.lower_bounds_, rtol=1e-11)
    weights = np.random.default_rng(2).integers(0, 3, len(V)).astype(float)
    weights[:40] = 0.0
    cut = range(0, len(V), 40)
    there = fit(
        make(), [dask.delayed(V[i : i + 40]) for i in cut],
        [dask.delayed(weights[i : i + 40]) for i in cut], client=client,
    )  # fmt: skip
    # Pieces of no weight are as if they were not there, to the start too.
    assert_same(there, make().fit(V[40:], sample_weight=weights[40:]))


@pytest.mark.parametrize("name", ["hmm", "kalman"])
def test_exact_em_on_arrays_of_sequences(client, name):
    make, _ = KINDS[name]
    rng = np.random.default_rng(3)
    V = np.cumsum(rng.normal(size=(90, 7, 3)), axis=1)
    here = make().fit(V)
    there = fit(make(), da.from_array(V, chunks=(17, 3, 2)), client=client)
    assert_same(there, here)
    total = sum(expect(here, part) for part in (V[:30], V[30:]))
    assert_allclose(
        score(here, da.from_array(V, chunks=(20, -1, -1)), client=client), total.log_likelihood
    )


@pytest.mark.parametrize("combine", ["entropic", "average"])
@pytest.mark.parametrize("name", KINDS)
def test_online_is_the_same_as_on_one_machine(client, name, combine):
    make, data = KINDS[name]
    V = data()
    start = make(batch_size=1, learning_rate=fastem.Decay(0.5, 0.9)).fit(V[:30])
    model = copy.deepcopy(start)
    # Five pieces of 30 in two shards, of 90 and of 60 sequences.
    for begin in range(0, 90, 20):
        machines, weights = [], []
        for shard in (V[:90], V[90:]):
            part = shard[begin : begin + 20]
            if part:
                machines.append(copy.deepcopy(model).partial_fit(part))
                weights.append(len(part))
        models = [machine._model() for machine in machines]
        shares = np.array(weights) / sum(weights)
        if combine == "entropic":
            total = sum(m.own() * share for m, share in zip(models, shares, strict=True))
            merged = model._model().maximize(total)
        else:
            merged = model._model().with_parameters(algebra.average(models, weights).parameters)
        model._set_model(merged)
        model.n_steps_ = max(machine.n_steps_ for machine in machines)
    there = fit_online(
        copy.deepcopy(start), db.from_sequence(V, npartitions=5), 20, combine=combine, n_shards=2,
        client=client,
    )  # fmt: skip
    assert_same(there, model, rtol=1e-8)
    assert there.n_steps_ == model.n_steps_


def test_models_as_they_arrive(client):
    for make, data in KINDS.values():
        V = data()
        model = make(batch_size=1, learning_rate=fastem.Decay(0.5, 0.9))
        seen = []

        def watch(model, n, V=V, seen=seen):
            seen.append((n, expect(model, V).log_likelihood))

        fit_online(
            model, db.from_sequence(V, npartitions=6), 20, "async", n_shards=2, callback=watch,
            client=client,
        )  # fmt: skip
        assert seen[-1][0] == len(V)
        assert seen[-1][1] > seen[0][1]


@pytest.mark.parametrize("name", KINDS)
def test_the_halves_of_a_step(name):
    make, data = KINDS[name]
    V = data()
    steps = {"n_iter": 1} if name != "kalman" else {"max_iter": 1}
    here = make().set_params(**steps).fit(V)
    there = copy.deepcopy(here)
    total = sum(expect(there, V[i : i + 60]) for i in range(0, len(V), 60))
    maximize(there, total)
    again = copy.deepcopy(here)
    whole = expect(again, V)
    assert_allclose(total.log_likelihood, whole.log_likelihood, rtol=1e-12)
    assert_same(there, maximize(again, whole))
    assert expect(there, V).log_likelihood > whole.log_likelihood
