"""Incremental EM: against an oracle, on streams, with priors, weights and threads.

What holds for every model is in ``conformance.py``.
"""

import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

import fastem
from fastem import algebra
from fastem.data.blocks import Size, blocks_of, number_of_blocks, spread
from fastem.data.rows import Stream, Table
from fastem.data.sequences import Sequences
from fastem.families import Gaussian
from fastem.mixture.model import MixtureModel
from fastem.stopping import StoppingRule

from oracles import incremental as oracle

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def rows(n=90, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, 2)) + 2.5 * rng.integers(2, size=(n, 1)) * [1.0, -1.0]


def start():
    return np.array([0.3, 0.7]), np.array([[0.0, 1.0], [1.0, -2.0]]), np.array([[1, 2], [3, 0.5]])


def mixture(**settings):
    settings = {"covariance_type": "diag", "random_state": 0, **settings}
    return fastem.GaussianMixture(2, **settings)


@pytest.mark.parametrize("keep_start", [True, False])
def test_steps_and_free_energies_are_the_oracles(keep_start):
    X, w = rows(), np.random.default_rng(1).uniform(0.5, 2.0, 90)
    weights, means, variances = start()
    model = MixtureModel(
        Gaussian("diag", 0.0), weights, {"means": means, "covariances": variances}, n_jobs=1
    )
    rule = StoppingRule(4)
    found = algebra.incremental(model, Table(X, w), rule, n_blocks=6, keep_start=keep_start).model
    edges = range(15, 90, 15)
    *expected, free = oracle.incremental_em(X, w, *start(), edges, 4, keep_start)
    names = ("weights", "means", "covariances")
    for name, value in zip(names, expected, strict=True):
        np.testing.assert_allclose(found.parameters[name], value, rtol=1e-10)
    np.testing.assert_allclose(rule.log_likelihoods, free, rtol=1e-12)


def test_data_far_from_the_origin_lose_no_digits():
    near = mixture(solver="incremental", n_blocks=6, reg_covar=0.0, max_iter=20, tol=0.0)
    near.set_params(means_init=[[0.0, 0.0], [2.5, -2.5]])
    far = clone(near).set_params(means_init=np.array(near.means_init) + 1e8)
    near.fit(rows())
    far.fit(rows() + 1e8)
    np.testing.assert_allclose(far.covariances_, near.covariances_, rtol=1e-5)


def test_the_first_pass_of_a_rough_start_learns_and_a_given_one_is_kept():
    X = rows(2000)
    rough = mixture(solver="incremental", max_iter=1, init_params="random").fit(X)
    batch = mixture(max_iter=1, init_params="random").fit(X)
    assert rough.score(X) > batch.score(X)
    given = {"means_init": start()[1], "weights_init": start()[0]}
    kept = mixture(solver="incremental", max_iter=1, **given).fit(X)
    np.testing.assert_allclose(kept.means_, mixture(max_iter=1, **given).fit(X).means_, rtol=1e-10)


def test_a_converged_model_stays_in_a_warm_start():
    # Sorted rows: each block by itself would pull the model away.
    X = np.sort(rows(600), axis=0)
    model = mixture(solver="incremental", n_blocks=6, max_iter=1000, tol=1e-13, warm_start=True)
    before = clone(model).fit(X)
    after = model.set_params(max_iter=1000).fit(X).set_params(max_iter=1).fit(X)
    np.testing.assert_allclose(after.means_, before.means_, atol=1e-5)
    assert after.lower_bound_ >= before.lower_bound_ - 1e-12


def test_fewer_passes_than_batch_em_to_the_same_level():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(8000, 3)) + 1.5 * rng.integers(3, size=(8000, 1))
    scores = {
        solver: fastem.GaussianMixture(
            3, covariance_type="diag", max_iter=n, tol=0.0, random_state=0, solver=solver,
            init_params="random",
        ).fit(X).score(X)
        for solver, n in (("em", 9), ("incremental", 5))
    }  # fmt: skip
    assert scores["incremental"] >= scores["em"]


def test_priors_of_hidden_markov_models_count_once():
    rng = np.random.default_rng(4)
    X = [rng.normal(size=(20, 1)) + 4.0 * rng.integers(2, size=(20, 1)) for _ in range(12)]
    settings = {"means_prior": -3.0, "means_weight": 200.0, "startprob_prior": 3.0,
                "transmat_prior": 30.0, "covars_prior": 5.0}  # fmt: skip
    found = {
        solver: fastem.GaussianHMM(
            2, random_state=0, n_iter=400, tol=-np.inf, solver=solver, n_blocks=4, **settings
        ).fit(X)
        for solver in ("em", "incremental")
    }  # fmt: skip
    for name in ("startprob_", "transmat_", "means_", "covars_"):
        one, other = (getattr(model, name) for model in found.values())
        np.testing.assert_allclose(other, one, rtol=1e-5, atol=1e-6)
    plain = fastem.GaussianHMM(2, random_state=0, n_iter=400, solver="incremental", n_blocks=4)
    assert np.abs(plain.fit(X).means_ - found["incremental"].means_).max() > 1.0


def test_threads_make_no_difference_to_the_bit():
    X = rows(30_000)
    one, two = (
        mixture(solver="incremental", n_blocks=2, max_iter=3, n_jobs=n_jobs).fit(X)
        for n_jobs in (1, 2)
    )
    assert one.means_.tobytes() == two.means_.tobytes()
    assert one.lower_bounds_ == two.lower_bounds_


# The sample that improves a start --------------------------------------------------------------


def far_start(n=40_000):
    """Data of two groups, sorted, and a start that is far from both."""
    X = rows(n)
    X = X[np.argsort(X[:, 0])]
    return X, {"means_init": [[0.0, 0.0], [0.1, 0.1]], "weights_init": [0.5, 0.5],
               "precisions_init": [[0.1] * 2] * 2, "max_iter": 1, "reg_covar": 0.0}  # fmt: skip


def test_a_poor_start_is_improved_on_a_sample_before_the_first_pass():
    X, settings = far_start()
    one_pass = mixture(solver="incremental", **settings).fit(X)
    settings["max_iter"] = 15
    batch = mixture(tol=0.0, **settings).fit(X)
    assert one_pass.score(X) > batch.score(X) - 1e-3
    # The first lower bound is the likelihood that the first pass begins with.
    start = mixture(**{**settings, "max_iter": 0}).fit(X)
    assert one_pass.lower_bounds_[0] > start.score(X) + 0.1


def test_a_start_that_a_sample_cannot_improve_stays_as_it_is():
    X, settings = far_start()
    settings["max_iter"] = 300
    best = mixture(tol=1e-12, **settings).fit(X)._model()
    for seed in range(20):
        # Other samples of the same data.
        blocks = blocks_of(Table(X[np.random.default_rng(seed).permutation(len(X))]), 10)
        assert algebra.improved_on_sample(best, blocks) is best
        sample, _ = blocks.samples(10)
        moved = algebra.fit(best, sample, StoppingRule(40)).model
        assert moved.expect(sample).log_likelihood > best.expect(sample).log_likelihood


def test_a_start_of_its_own_takes_any_gain_and_a_given_one_only_a_clear_gain():
    X, settings = far_start()
    settings["max_iter"] = 50
    taken = 0
    for seed in range(10):
        # As good as a few rows can tell, so that more of them gain a little.
        shuffled = X[np.random.default_rng(seed).permutation(len(X))]
        model = mixture(**settings).fit(shuffled[:200])._model()
        blocks = blocks_of(Table(shuffled), 10)
        assert algebra.improved_on_sample(model, blocks) is model
        better = algebra.improved_on_sample(model, blocks, clearly=False)
        if better is not model:
            taken += 1
            _, other = blocks.samples(10)
            assert better.expect(other).log_likelihood > model.expect(other).log_likelihood
    assert taken >= 5


def test_callbacks_are_told_of_blocks_and_can_end_a_pass():
    X, told = rows(4000), []
    model = mixture(solver="incremental", n_blocks=4, tol=0.0, max_iter=3, callback=told.append)
    model.fit(X)
    assert [(report.n_iter, report.within) for report in told] == [
        (n_iter, within)
        for done in range(3)
        for n_iter, within in [(done, True)] * 3 + [(done + 1, False)]
    ]
    assert [report.weight for report in told[:4]] == [1000.0, 1000.0, 1000.0, 4000.0]
    # The likelihood of a block is that under the model before it.
    first = told[4].model.expect(Table(X[1000:2000])).log_likelihood
    assert told[5].log_likelihood == pytest.approx(first, rel=1e-12)

    def stop(report):
        return report.n_iter == 1 and report.within

    ended = mixture(solver="incremental", n_blocks=4, tol=0.0, max_iter=3, callback=stop).fit(X)
    assert ended.n_iter_ == 1
    np.testing.assert_array_equal(ended.means_, told[4].model.parameters["means"])


def test_the_prior_counts_beside_a_sample_as_beside_all_data():
    X, settings = far_start()
    model = mixture(**{**settings, "max_iter": 0}).fit(X)._model()
    weights = []

    def maximize(model, expectation):
        weights.append(expectation.weight)
        return model.maximize(expectation.statistics)

    better = algebra.improved_on_sample(model, blocks_of(Table(X), 10), maximize)
    assert set(weights) == {len(X)}
    same = algebra.improved_on_sample(model, blocks_of(Table(X), 10))
    np.testing.assert_array_equal(better.parameters["means"], same.parameters["means"])


def test_a_component_that_dies_on_a_sample_leaves_the_start_and_the_telling_to_the_pass():
    X, _ = far_start()
    far = np.array([[0.0, 0.0], [1e4, 1e4]])
    model = mixture(solver="incremental", means_init=far, precisions_init=np.ones((2, 2)))
    with pytest.warns(RuntimeWarning, match="no points left") as told:
        model.fit(X)
    assert len(told) == 1


def test_samples_are_spread_and_have_nothing_in_common():
    X = np.arange(64_000.0)[:, None]
    one, other = blocks_of(Table(X, np.ones(64_000)), 10).samples(100)
    assert len(one) == pytest.approx(2000, rel=0.05)
    assert len(other) == 60 * 16
    assert not set(one.X.ravel()) & set(other.X.ravel())
    for sample in (one, other):
        assert np.histogram(sample.X, bins=40, range=(0, 64_000))[0].min() > 0
    # A sample for many parameters is larger; there is none if it would be too large, if the
    # observations are too few, have no weight there, or are read anew in each pass.
    assert len(blocks_of(Table(X), 10).samples(300)[0]) == pytest.approx(3000, rel=0.05)
    assert blocks_of(Table(X), 10).samples(500) is None
    assert blocks_of(Table(X[:3000]), 10).samples(1) is None
    assert blocks_of(Stream([X]), 10).samples(100) is None
    w = np.zeros(64_000)
    w[900::1000] = 1.0
    w[0] = 0.0
    assert blocks_of(Table(X, w), 10).samples(100) is None


def test_samples_of_sequences_are_whole_sequences():
    lengths = np.full(2000, 5)
    data = Sequences(np.arange(10_000.0)[:, None], lengths)
    one, other = blocks_of(data, 10).samples(20)
    assert (one.lengths == 5).all()
    assert (one.X[::5] % 5 == 0).all()
    assert not set(one.X.ravel()) & set(other.X.ravel())


# Blocks ---------------------------------------------------------------------------------------


def test_the_number_of_blocks_follows_from_the_size():
    assert number_of_blocks(Size(100_000, 100_000, 54, 1e5)) == 10
    assert number_of_blocks(Size(2000, 2000, 10, 2e3)) == 8
    # As many rows as columns, and some sequences.
    assert number_of_blocks(Size(2000, 2000, 784, 2e3)) == 2
    assert number_of_blocks(Size(30, 10**6, 3, 30.0)) == 7
    assert number_of_blocks(Size(200, 200, 10, 200.0)) == 1
    # As asked for, as far as there are observations.
    assert number_of_blocks(Size(200, 200, 10, 200.0), 11) == 11
    assert number_of_blocks(Size(5, 5, 1, 5.0), 11) == 5


def test_blocks_of_a_stream_do_not_depend_on_how_it_is_cut():
    X, w = rows(50), np.arange(50.0)
    whole = list(blocks_of(Table(X, w), 7))
    assert [len(block) for block in whole] == [8] * 6 + [2]
    for edges in ([], [3, 20, 21], range(1, 50)):
        pairs = list(zip(np.split(X, edges), np.split(w, edges), strict=True))
        blocks = blocks_of(Stream(pairs), 7)
        assert (len(blocks), blocks.weight) == (7, w.sum())
        for _ in range(2):
            for block, expected in zip(blocks, whole, strict=True):
                np.testing.assert_array_equal(block.X, expected.X)
                np.testing.assert_array_equal(block.sample_weight, expected.sample_weight)


def test_blocks_without_weight_are_left_out():
    w = np.ones(60)
    w[10:20] = 0.0
    assert len(blocks_of(Table(rows(60), w), 6)) == 5
    # All of the weight in one block: that is batch EM.
    w[:] = 0.0
    w[20:30] = 1.0
    X = rows(60)
    model = mixture(solver="incremental", n_blocks=6).fit(X, sample_weight=w)
    batch = mixture().fit(X, sample_weight=w)
    assert model.means_.tobytes() == batch.means_.tobytes()


def test_blocks_of_hardly_any_weight_do_no_harm():
    X, w = rows(60), np.ones(60)
    w[20:] = 1e-30
    model = mixture(solver="incremental", n_blocks=6).fit(X, sample_weight=w)
    batch = mixture().fit(X[:20])
    assert np.isfinite(model.lower_bounds_).all()
    assert model.score(X[:20]) == pytest.approx(batch.score(X[:20]), abs=0.5)


def test_a_stream_that_changes_from_pass_to_pass_is_refused():
    lengths = iter([40, 40, 40, 40, 20, 20, 20, 20])
    model = mixture(solver="incremental", n_blocks=4)
    with pytest.raises(ValueError, match="must have the same data each time"):
        model.fit(lambda: [rows(next(lengths))])
    assert not hasattr(model, "means_")


def test_a_stream_is_read_once_more_to_count():
    X, reads = rows(60), []

    def stream():
        reads.append(1)
        return iter([X[:25], X[25:]])

    settings = {"means_init": start()[1], "max_iter": 3, "tol": 0.0}
    mixture(**settings).fit(stream)
    n_batch = len(reads)
    reads.clear()
    model = mixture(solver="incremental", n_blocks=4, **settings).fit(stream)
    assert len(reads) == n_batch + 1
    assert model.n_iter_ == 3
    w = np.repeat([1.0, 0.0, 0.0, 2.0], 15)
    weighted = [(X[:25], w[:25]), (X[25:], w[25:])]
    blocks = blocks_of(Stream(weighted), 4)
    assert len(blocks) == len(list(blocks)) == 2


def test_one_sequence_is_batch_em():
    X = rows(3000)
    one, other = (
        fastem.GaussianHMM(2, random_state=0, solver=solver).fit(X)
        for solver in ("em", "incremental")
    )
    assert one.means_.tobytes() == other.means_.tobytes()


# Settings -------------------------------------------------------------------------------------


@pytest.mark.parametrize("settings", [{"solver": "newton"}, {"n_blocks": 0}, {"n_blocks": 2.5}])
def test_wrong_settings_are_refused(settings):
    with pytest.raises(ValueError, match=next(iter(settings))):
        mixture(**settings).fit(rows())


def test_a_component_that_dies_keeps_its_parameters():
    X = rows(400)
    far = np.array([[0.0, 0.0], [1e4, 1e4]])
    model = mixture(
        solver="incremental", n_blocks=5, means_init=far, precisions_init=np.ones((2, 2))
    )
    with pytest.warns(RuntimeWarning, match="no points left") as told:
        model.fit(X)
    assert len(told) == 1
    assert np.isfinite(model.lower_bounds_).all()
    np.testing.assert_array_equal(model.means_[1], far[1])


def test_impossible_sequences_are_named():
    X = [np.array([[0], [1]]), np.array([[1], [0]])] * 4 + [np.array([[1], [1]])] * 4
    model = fastem.CategoricalHMM(2, init_params="", solver="incremental", n_blocks=4)
    model.startprob_, model.transmat_ = np.array([1.0, 0.0]), np.array([[0.0, 1.0], [1.0, 0.0]])
    model.emissionprob_ = np.array([[1.0, 0.0], [0.5, 0.5]])
    with pytest.raises(ValueError, match=r"[Ss]equence 1 "):
        model.fit(X)


class Scores:
    """What a model says of observations."""

    def __init__(self, values):
        self.values = values

    def log_likelihoods(self, data):
        return self.values


@pytest.mark.parametrize("weighted", [False, True])
def test_clearly_better_is_five_standard_errors(weighted):
    rng, n = np.random.default_rng(0), 60
    weights = rng.integers(1, 4, size=n).astype(float) if weighted else None
    shares = np.full(n, 1 / n) if weights is None else weights / weights.sum()
    table = Table(np.zeros((n, 1)), weights)
    noise = rng.normal(size=n)
    error = np.sqrt(np.sum(shares**2 * (noise - shares @ noise) ** 2))
    base = Scores(rng.normal(size=n))
    for factor, expected in ((4.9, False), (5.1, True), (-5.1, False)):
        other = Scores(base.values + noise - shares @ noise + factor * error)
        assert algebra.is_better(other, base, table) == expected
    for value in (np.inf, -np.inf, np.nan):
        other = Scores(np.where(np.arange(n) == 3, value, base.values + 100.0))
        assert not algebra.is_better(other, base, table)
    assert not algebra.is_better(base, base, table)


def test_neighbors_that_are_alike_and_few_observations_prove_little():
    base = Scores(np.zeros(6400))
    # 64 values 100 times each, at most three standard errors of 64 values.
    steps = np.repeat(np.random.default_rng(0).normal(size=64), 100)
    steps += 3.0 * steps.std() / 8.0 - steps.mean()
    assert not algebra.is_better(Scores(steps), base, Table(np.zeros((6400, 1))))
    assert not algebra.is_better(Scores(np.ones(19)), Scores(np.zeros(19)),
                                         Table(np.zeros((19, 1))))  # fmt: skip
    weights = np.where(np.arange(6400) < 300, 1.0, 1e-9)
    heavy = Table(np.zeros((6400, 1)), weights)
    assert not algebra.is_better(Scores(np.ones(6400)), base, heavy)
    assert algebra.is_better(Scores(np.ones(6400)), base, Table(np.zeros((6400, 1))))


def test_an_earlier_fit_of_a_random_walk_does_not_get_worse():
    """Neighbors are so alike that a sample beside another one is nearly its copy."""
    steps = 0.05 * np.random.default_rng(0).normal(size=(20_000, 4))
    X = np.zeros_like(steps)
    for t in range(1, len(X)):
        X[t] = 0.999 * X[t - 1] + steps[t]
    model = fastem.GaussianMixture(3, random_state=0, tol=1e-7, max_iter=500).fit(X)
    before = model.score(X)
    with pytest.warns(ConvergenceWarning):
        model.set_params(solver="incremental", warm_start=True, max_iter=1, tol=0.0).fit(X)
    assert model.score(X) > before - 1e-6


def test_filters_of_warnings_are_left_alone_by_fits_in_threads():
    X = np.random.default_rng(0).normal(size=(20_000, 4))
    before = list(warnings.filters)

    def fit(seed):
        fastem.GaussianMixture(
            4, solver="incremental", random_state=seed, max_iter=3, tol=100.0,
            init_params="random_from_data",
        ).fit(X)  # fmt: skip

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(fit, range(24)))
    assert list(warnings.filters) == before


def test_a_spread_sample_and_each_beginning_of_it_are_from_all_over_the_data():
    data = Table(np.arange(100_000.0)[:, None], np.ones(100_000))
    sample = spread(data, 10_000)
    assert len(sample) == pytest.approx(10_000, rel=0.01) and len(sample) >= 10_000
    assert len(np.unique(sample.X)) == len(sample)
    for n_rows, bins in ((10_000, 60), (2_500, 15), (800, 3)):
        beginning = sample.X[:n_rows]
        assert np.histogram(beginning, bins=bins, range=(0, 100_000))[0].min() > 0
    # The data themselves, where a sample would be no shorter, or has rows that do not count.
    assert spread(Table(data.X[:30_000]), 10_000).X.shape == (30_000, 1)
    weights = np.ones(100_000)
    weights[0] = 0.0
    weighted = Table(data.X, weights)
    assert spread(weighted, 10_000) is weighted
    stream = Stream([data.X])
    assert spread(stream, 10) is stream


def test_many_sorted_rows_start_from_a_sample_and_a_given_start_stays():
    rng = np.random.default_rng(0)
    labels = np.sort(rng.integers(4, size=60_000))
    X = rng.normal(size=(60_000, 2)) + 8.0 * np.array([[0, 0], [0, 1], [1, 0], [1, 1]])[labels]
    batch = fastem.GaussianMixture(4, random_state=0).fit(X)
    model = fastem.GaussianMixture(4, random_state=0, solver="incremental").fit(X)
    assert model.score(X) > batch.score(X) - 1e-3
    given = {"means_init": batch.means_, "weights_init": batch.weights_}
    given["precisions_init"] = batch.precisions_
    stays = fastem.GaussianMixture(4, solver="incremental", max_iter=0, **given).fit(X)
    np.testing.assert_allclose(stays.means_, batch.means_, rtol=1e-12)


# Covariances that vanish ------------------------------------------------------------------------


def beside_a_constant(n=480):
    changing = np.random.default_rng(0).normal(size=n) + 3.0 * (np.arange(n) // 16 % 2)
    return np.column_stack([np.zeros(n), changing])


@pytest.mark.filterwarnings("ignore::fastem.exceptions.CovarianceWarning")
@pytest.mark.parametrize("kind", ["diag", "full", "tied"])
def test_a_constant_column_ends_where_batch_em_ends(kind, caplog):
    X, settings = beside_a_constant(), {"covariance_type": kind, "random_state": 0, "n_iter": 100}
    batch = fastem.GMMHMM(2, 2, **settings).fit(X, [8] * 60)
    model = fastem.GMMHMM(2, 2, solver="incremental", n_blocks=4, **settings).fit(X, [8] * 60)
    assert model.converged_
    assert model.lower_bound_ == pytest.approx(batch.lower_bound_, abs=0.1)
    # Once min_covar has its place, nothing falls.
    assert np.diff(model.lower_bounds_[1:]).min() > 0.0
    # A fall is not the end, nor is it called one.
    fell = np.argmin(np.diff(model.lower_bounds_)) + 2
    stopped = fastem.GMMHMM(2, 2, solver="incremental", n_blocks=4, **{**settings, "n_iter": fell})
    stopped.fit(X, [8] * 60)
    assert stopped.n_iter_ == fell
    assert not stopped.converged_


def test_a_fall_within_tol_is_the_end():
    rng = np.random.default_rng(4)
    X = [rng.normal(size=(20, 1)) + 4.0 * rng.integers(2, size=(20, 1)) for _ in range(12)]
    # The prior pulls the likelihood down.
    settings = {"means_prior": -3.0, "means_weight": 200.0, "init_params": "stc", "n_iter": 200}
    model = fastem.GaussianHMM(2, random_state=0, solver="incremental", n_blocks=4, **settings)
    model.means_ = np.array([[0.0], [4.0]])
    model.fit(X)
    changes = np.diff(model.lower_bounds_)
    assert changes.min() < -model.tol
    assert model.converged_
    assert abs(changes[-1]) < model.tol


def test_a_free_energy_that_is_no_number_is_refused(monkeypatch):
    X, model = rows(), mixture(solver="incremental", n_blocks=6).fit(rows())
    before = model.means_.copy()
    monkeypatch.setattr(MixtureModel, "log_joint", lambda self, statistics: np.nan)
    with pytest.raises(ValueError, match="free energy is not finite at pass 1: squares of the da"):
        model.fit(X)
    np.testing.assert_array_equal(model.means_, before)


@pytest.mark.filterwarnings("ignore::fastem.exceptions.CovarianceWarning")
@pytest.mark.parametrize("kind", ["diag", "full", "tied", "spherical"])
def test_data_whose_squares_vanish_have_finite_bounds(kind):
    settings = {"covariance_type": kind, "random_state": 0, "solver": "incremental", "n_blocks": 4}
    model = fastem.GMMHMM(2, 2, **settings).fit(beside_a_constant() * 1e-160, [8] * 60)
    assert np.isfinite(model.lower_bounds_).all()
