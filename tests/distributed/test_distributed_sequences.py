"""Sequences on a real cluster: hidden Markov models and Kalman filters."""

import copy
import functools

import dask
import dask.array as da
import dask.bag as db
import numpy as np
import pytest
from distributed import Client, LocalCluster
from lost_workers import kill_one, logged_chunks, wait_for_two
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

import fastem
from fastem import algebra
from fastem.data.sequences import Sequences
from fastem.distributed import expect, fit, fit_online, maximize, score
from fastem.distributed.shards import Shards

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
    # Chunks of no weight are as if they were not there, to the start too.
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
    # Five chunks of 30 in two shards, of 90 and of 60 sequences.
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
        # By it, new lengths are weighed with those of before.
        model.n_observations_ += sum(weights)
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
def test_the_two_functions_of_a_step(name):
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


def test_a_delayed_array_is_one_sequence(client):
    for make in (hmm, kalman):
        V = sequences(30)
        weights = np.arange(30.0)
        single = [dask.delayed(x) for x in V]
        there = fit(make(), single, weights, client=client)
        # One of no weight is as if it was not there.
        assert_same(there, make().fit(V[1:], sample_weight=weights[1:]))
        start = make(batch_size=1, learning_rate=0.1).fit(V)
        here = copy.deepcopy(start).partial_fit(V)
        there = fit_online(copy.deepcopy(start), single, 7, n_shards=1, client=client)
        assert_same(there, here)
        assert there.n_steps_ == here.n_steps_ == 30


def test_arrays_of_different_lengths_and_masks(client):
    rng = np.random.default_rng(4)
    arrays = [rng.normal(size=(30, n_steps, 2)) for n_steps in (4, 6, 9)]
    V = [x for array in arrays for x in array]
    for make in (hmm, kalman):
        assert_same(fit(make(), list(map(dask.delayed, arrays)), client=client), make().fit(V))
    masked = np.ma.masked_greater(arrays[2], 1.5)
    there = fit(kalman(), [dask.delayed(masked[:13]), dask.delayed(masked[13:])], client=client)
    assert_same(there, kalman().fit(masked))


def discrete(kind):
    rng = np.random.default_rng(5)
    lengths = rng.integers(1, 9, 60)
    if kind == "categorical":
        return [rng.integers(0, 4, (n, 1)) for n in lengths]
    if kind == "multinomial":
        return [rng.multinomial(6, [0.2, 0.3, 0.5], n) for n in lengths]
    return [rng.poisson(3.0, (n, 2)) for n in lengths]


EMISSIONS = {
    "poisson": (fastem.PoissonHMM, lambda: discrete("poisson")),
    "categorical": (fastem.CategoricalHMM, lambda: discrete("categorical")),
    "multinomial": (fastem.MultinomialHMM, lambda: discrete("multinomial")),
    "mixtures": (fastem.GMMHMM, sequences),
    "any family": (functools.partial(fastem.HMM, "poisson"), lambda: discrete("poisson")),
}


@pytest.mark.parametrize("name", EMISSIONS)
def test_every_hidden_markov_model(client, name):
    make, data = EMISSIONS[name]
    V = data()
    model = make(n_components=2, random_state=0, n_iter=4)
    there = fit(copy.deepcopy(model), db.from_sequence(V, npartitions=4), client=client)
    assert_same(there, model.fit(V))


def test_what_the_sample_does_not_show(client, monkeypatch):
    monkeypatch.setattr("fastem.distributed.shards._SAMPLE_ROWS", 40)
    symbols, counts = discrete("categorical"), discrete("multinomial")
    symbols[7][0] = 9
    counts[7][0] = [5, 5, 5]
    there = fit(
        fastem.CategoricalHMM(2, random_state=0, n_iter=4),
        db.from_sequence(symbols, npartitions=4), client=client,
    )  # fmt: skip
    assert_same(there, fastem.CategoricalHMM(2, random_state=0, n_iter=4).fit(symbols))
    there = fit(
        fastem.MultinomialHMM(2, random_state=0, n_iter=1),
        db.from_sequence(counts, npartitions=4), client=client,
    )  # fmt: skip
    assert there.n_trials_ is None


def test_rows_without_the_ends_of_sequences_are_refused(client):
    rows = da.from_array(np.concatenate(sequences(30)), chunks=(20, -1))
    for learn in (fit, fit_online):
        with pytest.raises(ValueError, match="do not say where sequences begin"):
            learn(hmm(), rows, client=client)


# Sequences that were cut off -------------------------------------------------------------------


def cut_short(n_sequences=120):
    """Absorbed sequences, of which every third lacks the end."""
    flags = np.arange(n_sequences) % 3 == 1
    V = [x[:-1] if cut else x for x, cut in zip(absorbed(n_sequences), flags, strict=True)]
    return V, flags


def cut_short_array(n_sequences=120, n_steps=6):
    """The same in an array."""
    V, flags = cut_short(n_sequences)
    return np.stack([np.resize(x[::-1], (n_steps, 3))[::-1] for x in V]), flags


def blocks_of(values, size=35):
    return [values[i : i + size] for i in range(0, len(values), size)]


def as_delayed(values):
    return [dask.delayed(block) for block in blocks_of(values)]


def bag_of(V):
    return db.from_sequence(V, npartitions=4)


def objects_of(V, flags):
    parts = zip(blocks_of(V), blocks_of(flags), strict=True)
    return [
        dask.delayed(Sequences(np.concatenate(x), [len(i) for i in x], cut_off=f)) for x, f in parts
    ]


def tuples_of(V, flags):
    parts = zip(blocks_of(V), blocks_of(flags), strict=True)
    return [dask.delayed((x, None if len(x) == 35 else np.ones(len(x)), f)) for x, f in parts]


#: Data and flags, as functions of the sequences and the flags.
RAGGED = {
    "bag, array": lambda V, flags: (bag_of(V), flags),
    "bag, Dask array": lambda V, flags: (bag_of(V), da.from_array(flags, chunks=50)),
    "bag, bag": lambda V, flags: (bag_of(V), bag_of(flags.tolist())),
    "lists, array": lambda V, flags: (as_delayed(V), flags),
    "lists, lists": lambda V, flags: (as_delayed(V), as_delayed(flags)),
    "one in a block, a list": lambda V, flags: ([dask.delayed(x) for x in V], flags.tolist()),
    "tuples": lambda V, flags: (tuples_of(V, flags), None),
    "objects": lambda V, flags: (objects_of(V, flags), None),
}
EQUAL = {
    "array, array": lambda V, flags: (da.from_array(V, chunks=(35, 3, -1)), flags),
    "array, Dask array": lambda V, flags: (
        da.from_array(V, chunks=(35, -1, -1)), da.from_array(flags, chunks=50)
    ),
    "array, lists": lambda V, flags: (da.from_array(V, chunks=(35, -1, -1)), as_delayed(flags)),
    "blocks, array": lambda V, flags: (as_delayed(V), flags),
}  # fmt: skip
CUT = {name: (cut_short, give) for name, give in RAGGED.items()} | {
    name: (cut_short_array, give) for name, give in EQUAL.items()
}


@pytest.mark.parametrize("name", CUT)
def test_cut_off_is_that_of_one_machine(client, name):
    data, give = CUT[name]
    V, flags = data()
    here = ending_hmm().fit(V, cut_off=flags)
    there, there_flags = give(V, flags)
    model = fit(ending_hmm(), there, cut_off=there_flags, client=client)
    assert_same(model, here)
    assert_allclose(model.lower_bounds_, here.lower_bounds_, rtol=1e-11)
    found = score(here, there, cut_off=there_flags, client=client)
    assert_allclose(found * len(V), here.score(V, cut_off=flags), rtol=1e-11)


def test_cut_off_and_weights(client):
    V, flags = cut_short()
    weights = np.random.default_rng(6).integers(0, 3, len(V)).astype(float)
    here = ending_hmm().fit(V, sample_weight=weights, cut_off=flags)
    futures = [client.submit(list, block) for block in blocks_of(V)]
    assert_same(fit(ending_hmm(), futures, weights, flags, client=client), here)
    # One flag for all.
    V = sequences(60)
    assert_same(
        fit(ending_hmm(), bag_of(V), cut_off=True, client=client),
        ending_hmm().fit(V, cut_off=True),
    )


@pytest.mark.parametrize("mode", ["sync", "async"])
@pytest.mark.parametrize("name", ["bag, array", "lists, lists", "tuples", "array, array"])
def test_cut_off_online(client, name, mode):
    data, give = CUT[name]
    V, flags = data()
    here = ending_hmm(learning_rate=1e-300).partial_fit(V, cut_off=flags)
    here.n_steps_ = 0
    rate = {"batch_size": 1, "learning_rate": fastem.Decay(0.5, 0.9)}
    here.set_params(**rate)
    for begin in range(0, len(V), 50):
        part = slice(begin, begin + 50)
        here.partial_fit(V[part], cut_off=flags[part])
    there, there_flags = give(V, flags)
    model = fit_online(
        ending_hmm(**rate), there, 50, mode, cut_off=there_flags, n_shards=1, client=client
    )
    assert_same(model, here)
    assert model.n_steps_ == len(V)


def test_cut_off_in_the_two_functions_of_a_step():
    V, flags = cut_short()
    here = ending_hmm().set_params(n_iter=1).fit(V, cut_off=flags)
    there = copy.deepcopy(here)
    parts = zip(blocks_of(V), blocks_of(flags), strict=True)
    total = sum(expect(there, x, cut_off=f) for x, f in parts)
    maximize(there, total)
    assert_allclose(total.log_likelihood * len(V), here.score(V, cut_off=flags), rtol=1e-11)
    assert_same(there, ending_hmm().set_params(n_iter=2).fit(V, cut_off=flags))


def test_cut_off_of_a_worker_that_is_lost(client, monkeypatch, tmp_path):
    wait_for_two(client)
    V, flags = cut_short()
    plain, rounds = Shards.sum, []

    def deadly(self, function):
        rounds.append(len(list(tmp_path.iterdir())))
        if len(rounds) == 2:
            kill_one(client, self.futures)
        return plain(self, function)

    monkeypatch.setattr(Shards, "sum", deadly)
    there = fit(ending_hmm(), logged_chunks(tmp_path, V, 12), cut_off=flags, client=client)
    assert_same(there, ending_hmm().fit(V, cut_off=flags))
    # Each was loaded once, though they had to be counted; what was lost, once more.
    assert rounds[0] == 10
    assert 10 < len(list(tmp_path.iterdir())) <= 20
    wait_for_two(client)


def wrong_cut_offs():
    V, flags = cut_short()
    bag, lists, array = bag_of(V), as_delayed(V), da.from_array(cut_short_array()[0], chunks=35)
    short = as_delayed(flags)
    short[1] = dask.delayed(flags[:7])
    return {
        "too short": (bag, flags[:7], r"cut_off has the shape \(7,\), and there are 120"),
        "too short for an array": (array, flags[:7], r"the shape \(7,\), and there are 120"),
        "too few": (lists, short[:2], "cut_off has 2 chunks, and the data have 4"),
        "one too short": (lists, short, r"In chunk 1 .*shape \(7,\), and there are 35"),
        "numbers": (bag, flags.astype(int), "In chunk . .*cut_off must be True or False"),
        "twice": (tuples_of(V, flags), flags, "have their own cut_off: give it once"),
    }


@pytest.mark.parametrize("name", wrong_cut_offs())
def test_cut_off_that_does_not_fit(client, name):
    data, cut_off, message = wrong_cut_offs()[name]
    for learn in (fit, fit_online):
        model = ending_hmm()
        with pytest.raises(ValueError, match=message):
            learn(model, data, cut_off=cut_off, client=client)
        with pytest.raises(NotFittedError):
            check_is_fitted(model)
    V, flags = cut_short()
    model = ending_hmm().fit(V, cut_off=flags)
    before = model.means_.copy()
    for use in (fit, fit_online, score):
        with pytest.raises(ValueError, match=message):
            use(model, data, cut_off=cut_off, client=client)
        assert_array_equal(model.means_, before)


def test_models_that_take_no_cut_off(client):
    V, flags = cut_short()
    for model, error, message in [
        (hmm(), ValueError, "this model has no absorbing states"),
        (kalman(), TypeError, "KalmanFilter.* unexpected keyword argument 'cut_off'"),
        (fastem.GaussianMixture(2), TypeError, "unexpected keyword argument 'cut_off'"),
    ]:
        for learn in (fit, fit_online):
            with pytest.raises(error, match=message):
                learn(model, bag_of(V), cut_off=flags, client=client)
            assert not hasattr(model, "n_features_in_")
    with pytest.raises(TypeError, match="unexpected keyword argument 'cut_off'"):
        fit(kalman(), tuples_of(V, flags), client=client)
    for model in (hmm(), kalman()):
        model.fit(V)
        for use in (score, expect):
            data, options = (V, {}) if use is expect else (bag_of(V), {"client": client})
            with pytest.raises((TypeError, ValueError), match="cut_off"):
                use(model, data, cut_off=flags, **options)


def test_a_sequence_that_is_not_absorbed_must_be_cut_off(client):
    model = ending_hmm(init_params="", params="st")
    model.startprob_ = [1, 0, 0, 0]
    model.transmat_ = np.diag([0.5] * 3, 1) + np.diag([0.5] * 3 + [1])
    model.means_, model.covars_ = np.zeros((4, 3)), np.repeat(np.eye(3)[None], 4, axis=0)
    V = [np.zeros((2, 3))] * 20  # absorption takes three steps
    with pytest.raises(ValueError, match="probability zero.*unless cut_off says"):
        fit(model, bag_of(V), client=client)
    fit(model, bag_of(V), cut_off=np.ones(20, bool), client=client)


def test_what_is_given_to_a_kalman_filter_stays_on_a_cluster_too(client):
    V = sequences()
    given = {
        "transition_matrices": np.array([[0.8, 0.1], [-0.1, 0.7]]),
        "observation_matrices": np.eye(3, 2),
    }
    bag = db.from_sequence(V, npartitions=4)
    fitted = fit(kalman(**given, fixed=tuple(given)), bag, client=client)
    online = fit_online(kalman(**given, fixed=tuple(given)), bag, sync_every=20, client=client)
    for model in (fitted, online):
        for name, value in given.items():
            assert_array_equal(getattr(model, f"{name}_"), value)
        assert not np.array_equal(model.observation_covariance_, np.eye(3))
    assert_same(fitted, kalman(**given, fixed=tuple(given)).fit(V))
