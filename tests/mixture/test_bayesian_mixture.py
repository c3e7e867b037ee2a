"""``fastem.BayesianGaussianMixture``: scikit-learn's numbers, and what it has in addition."""

import copy
import itertools
import pickle

import numpy as np
import pytest
from scipy.special import digamma, gammaln
from scipy.stats import dirichlet, multivariate_normal, wishart
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import BayesianGaussianMixture as Peer
from sklearn.utils.estimator_checks import check_estimator

import fastem
from fastem import BayesianGaussianMixture, Statistics, algebra
from fastem.mixture.variational import Prior, VariationalMixture, moments_of, updated
from fastem.statistics import Moments, SharedMoments

KINDS = ("full", "tied", "diag", "spherical")
WEIGHTS = ("dirichlet_process", "dirichlet_distribution")
every_kind = pytest.mark.parametrize("kind", KINDS)
every_prior = pytest.mark.parametrize("weights", WEIGHTS)
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

POSTERIOR = (
    "weights_", "weight_concentration_", "mean_precision_", "means_", "degrees_of_freedom_",
    "covariances_", "precisions_", "precisions_cholesky_",
)  # fmt: skip
PRIOR = (
    "weight_concentration_prior_", "mean_precision_prior_", "mean_prior_",
    "degrees_of_freedom_prior_", "covariance_prior_",
)  # fmt: skip


def rows(seed, n=300, n_columns=3):
    rng = np.random.default_rng(seed)
    scale = np.linspace(0.5, 2.0, n_columns)
    return rng.normal(size=(n, n_columns)) * scale + 4.0 * rng.integers(3, size=(n, 1))


def shown(model, name):
    # scikit-learn's bounds of tied covariances are arrays of one number.
    return np.asarray(getattr(model, name)).ravel()


def assert_alike(one, other, names=(*POSTERIOR, *PRIOR), rtol=1e-8):
    for name in names:
        np.testing.assert_allclose(
            shown(one, name), shown(other, name), rtol=rtol, atol=rtol, err_msg=name
        )


# The numbers of scikit-learn ---------------------------------------------------------------------


@every_kind
@every_prior
@pytest.mark.parametrize("init", ["kmeans", "random", "random_from_data", "k-means++"])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_all_numbers_are_those_of_scikit_learn(kind, weights, init, seed):
    X, new = rows(seed), rows(seed + 100, 50)
    settings = {
        "n_components": 5, "covariance_type": kind, "weight_concentration_prior_type": weights,
        "init_params": init, "random_state": seed, "max_iter": 40,
    }  # fmt: skip
    ours, peer = BayesianGaussianMixture(**settings).fit(X), Peer(**settings).fit(X)
    assert_alike(ours, peer, (*POSTERIOR, *PRIOR, "lower_bounds_", "lower_bound_"))
    assert (ours.n_iter_, ours.converged_) == (peer.n_iter_, peer.converged_)
    np.testing.assert_allclose(ours.score_samples(new), peer.score_samples(new), rtol=1e-8)
    np.testing.assert_allclose(ours.predict_proba(new), peer.predict_proba(new), atol=1e-9)
    np.testing.assert_array_equal(ours.predict(new), peer.predict(new))
    assert ours.score(new) == pytest.approx(peer.score(new), rel=1e-9)
    for one, other in zip(ours.sample(20), peer.sample(20), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-7, atol=1e-7)
    np.testing.assert_array_equal(clone(ours).fit_predict(X), clone(peer).fit_predict(X))


@every_kind
@every_prior
def test_so_they_are_with_priors_of_ones_own_and_several_starts(kind, weights):
    X, rng = rows(7), np.random.default_rng(8)
    root = rng.normal(size=(3, 3))
    covariances = {"full": root @ root.T + np.eye(3), "diag": [1.0, 2.0, 0.3], "spherical": 0.7}
    settings = {
        "n_components": 4, "covariance_type": kind, "weight_concentration_prior_type": weights,
        "weight_concentration_prior": 0.03, "mean_precision_prior": 2.5,
        "mean_prior": [1.0, -2.0, 3.0], "degrees_of_freedom_prior": 4.5,
        "covariance_prior": covariances.get(kind, covariances["full"]), "random_state": 3,
        "init_params": "random", "n_init": 3, "reg_covar": 0.01, "max_iter": 15,
    }  # fmt: skip
    ours, peer = BayesianGaussianMixture(**settings).fit(X), Peer(**settings).fit(X)
    assert_alike(ours, peer, (*POSTERIOR, *PRIOR, "lower_bounds_"))
    for model in (ours, peer):
        model.set_params(warm_start=True, max_iter=5)
        # With other data, a fit that resumes has another prior by default.
        model.set_params(mean_prior=None, covariance_prior=None).fit(rows(9))
    assert_alike(ours, peer, (*POSTERIOR, *PRIOR, "lower_bounds_"))


@every_kind
def test_components_without_rows_and_rows_far_from_the_origin(kind):
    X = 100.0 + rows(3, 60, 2)
    # The 2e-15 rows that scikit-learn adds to each component are nothing beside this prior.
    settings = {"n_components": 12, "covariance_type": kind, "random_state": 0, "max_iter": 300,
                "weight_concentration_prior": 1e-4}  # fmt: skip
    ours, peer = BayesianGaussianMixture(**settings).fit(X), Peer(**settings).fit(X)
    assert (ours.weights_ < 1e-6).sum() >= 5
    assert_alike(ours, peer, rtol=1e-6)
    assert ours.lower_bound_ == pytest.approx(float(np.squeeze(peer.lower_bound_)), rel=1e-7)


def test_starts_of_all_covariance_types_agree():
    X = rows(5)
    settings = {"n_components": 4, "max_iter": 0, "random_state": 0}
    started = {
        kind: BayesianGaussianMixture(covariance_type=kind, **settings).fit(X) for kind in KINDS
    }
    scales = {
        kind: np.asarray(model.covariances_).T * model.degrees_of_freedom_
        for kind, model in started.items()
    }
    np.testing.assert_allclose(scales["tied"], scales["full"].mean(axis=2), rtol=1e-9)
    diagonals = np.diagonal(scales["full"], axis1=0, axis2=1).T
    np.testing.assert_allclose(scales["diag"], diagonals, rtol=1e-9)
    np.testing.assert_allclose(scales["spherical"], scales["diag"].mean(axis=0), rtol=1e-9)


@pytest.mark.parametrize(
    "estimator",
    [
        *(BayesianGaussianMixture(covariance_type=kind) for kind in KINDS),
        BayesianGaussianMixture(weight_concentration_prior_type=WEIGHTS[1], batch_size=10),
    ],
    ids=str,
)
def test_scikit_learns_checks(estimator):
    results = check_estimator(estimator, on_fail=None, on_skip=None)
    failed = {r["check_name"]: r["exception"] for r in results if r["status"] == "failed"}
    assert failed == {}
    assert sum(r["status"] == "passed" for r in results) > 40


# The mathematics ---------------------------------------------------------------------------------


@every_kind
@every_prior
def test_the_bound_never_falls(kind, weights):
    for seed in range(4):
        model = BayesianGaussianMixture(
            n_components=6, covariance_type=kind, weight_concentration_prior_type=weights,
            reg_covar=0.0, tol=0.0, max_iter=40, init_params="random", random_state=seed,
        ).fit(rows(seed, 200))  # fmt: skip
        bounds = np.array(model.lower_bounds_)
        assert (np.diff(bounds) >= -1e-11 * np.abs(bounds).max()).all()
        assert bounds[-1] > bounds[0]


@pytest.mark.parametrize("kind", [Moments, SharedMoments])
@every_prior
def test_a_posterior_is_a_prior_and_statistics(kind, weights):
    rng = np.random.default_rng(0)
    prior = Prior(weights == WEIGHTS[0], 0.4, 1.5, rng.normal(size=2), 3.5, np.diag([2.0, 1.0]))
    roots = rng.normal(size=(3, 2, 2))
    scatter = roots @ roots.swapaxes(1, 2)
    moments = kind(
        rng.uniform(1, 9, 3), rng.normal(size=(3, 2)),
        scatter.sum(axis=0) if kind is SharedMoments else scatter,
    )  # fmt: skip
    again = moments_of(prior, updated(prior, moments), kind)
    for name in ("mass", "mean", "scatter"):
        np.testing.assert_allclose(getattr(again, name), getattr(moments, name), rtol=1e-12)


def test_the_complexity_is_the_relative_entropy_of_posterior_and_prior():
    """By the formulas of each factor: Dirichlet, Wishart, and Gaussian given the precision."""
    X = rows(1, 80, 2)
    fitted = BayesianGaussianMixture(
        n_components=3, weight_concentration_prior_type=WEIGHTS[1], random_state=0,
        weight_concentration_prior=0.7, reg_covar=0.0,
    ).fit(X)  # fmt: skip
    alpha, before = fitted.weight_concentration_, np.full(3, 0.7)
    total = gammaln(alpha.sum()) - gammaln(alpha).sum() - gammaln(2.1) + gammaln(before).sum()
    total += (alpha - before) @ (digamma(alpha) - digamma(alpha.sum()))
    d, v0, scale0 = 2, fitted.degrees_of_freedom_prior_, np.linalg.inv(fitted.covariance_prior_)
    for k in range(3):
        v, precision = fitted.degrees_of_freedom_[k], fitted.precisions_[k]
        scale = precision / v
        # E[log p] of both Wishart distributions is linear in E[log det] and E[precision].
        log_det = (
            digamma(0.5 * (v - np.arange(d))).sum() + d * np.log(2) + np.linalg.slogdet(scale)[1]
        )
        total += -wishart(v, scale).entropy() - (
            0.5 * (v0 - d - 1) * log_det
            - 0.5 * np.trace(np.linalg.inv(scale0) @ precision)
            - 0.5 * v0 * (d * np.log(2) + np.linalg.slogdet(scale0)[1])
            - 0.25 * d * (d - 1) * np.log(np.pi)
            - gammaln(0.5 * (v0 - np.arange(d))).sum()
        )
        ratio = fitted.mean_precision_prior_ / fitted.mean_precision_[k]
        shift = fitted.means_[k] - fitted.mean_prior_
        total += 0.5 * d * (ratio - 1 - np.log(ratio))
        total += 0.5 * fitted.mean_precision_prior_ * shift @ precision @ shift
    model = fitted._model()
    assert model.complexity * 80 == pytest.approx(total, rel=1e-9)
    # The evidence is the score minus that.
    data = fitted._check_data(X, reset=False)
    assert model.expect(data).log_likelihood == pytest.approx(fitted.score(X) - total / 80)
    assert dirichlet(alpha).entropy() < dirichlet(before).entropy() or total > 0


def test_expectations_are_means_over_draws_from_the_posterior():
    fitted = BayesianGaussianMixture(
        n_components=2, weight_concentration_prior_type=WEIGHTS[1], random_state=0
    ).fit(rows(2, 40, 2))
    x, rng = np.array([[1.0, 2.0]]), np.random.default_rng(3)
    logs = np.empty((4000, 2))
    for draw, k in itertools.product(range(4000), range(2)):
        v = fitted.degrees_of_freedom_[k]
        precision = wishart(v, fitted.precisions_[k] / v).rvs(random_state=rng)
        covariance = np.linalg.inv(precision)
        mean = rng.multivariate_normal(fitted.means_[k], covariance / fitted.mean_precision_[k])
        logs[draw, k] = multivariate_normal(mean, covariance).logpdf(x[0])
    w = rng.dirichlet(fitted.weight_concentration_, 4000)
    logs += np.log(w)
    error = 5 * logs.std(axis=0) / np.sqrt(4000)
    model = fitted._model()
    found = [
        model.expected[k]
        + multivariate_normal(fitted.means_[k], fitted.covariances_[k]).logpdf(x[0])
        for k in range(2)
    ]
    assert (np.abs(logs.mean(axis=0) - found) < error).all()


# Weights, streams and files ----------------------------------------------------------------------


@every_kind
@every_prior
def test_weights_equal_repetition(kind, weights):
    X, times = rows(4, 120), np.random.default_rng(5).integers(0, 4, 120)
    settings = {
        "n_components": 4, "covariance_type": kind, "weight_concentration_prior_type": weights,
        "random_state": 0, "max_iter": 20, "init_params": "kmeans", "tol": 0.0,
    }  # fmt: skip
    start = BayesianGaussianMixture(**settings).fit(X)
    # The starts of k-means differ, so that both begin with the same posterior.
    weighted, repeated = (copy.deepcopy(start).set_params(warm_start=True) for _ in range(2))
    weighted.fit(X, sample_weight=times.astype(float))
    repeated.fit(np.repeat(X, times, axis=0))
    assert_alike(weighted, repeated, (*POSTERIOR, *PRIOR, "lower_bounds_"))
    assert weighted.n_observations_ == times.sum()


def test_the_prior_of_a_stream_is_that_of_all_its_rows():
    X = rows(6, 500)
    whole = BayesianGaussianMixture(n_components=3, random_state=0).fit(X)
    stream = BayesianGaussianMixture(n_components=3, random_state=0).fit(
        lambda: iter(np.array_split(X, 7))
    )
    assert_alike(stream, whole)
    assert stream.score(lambda: iter([X])) == pytest.approx(whole.score(X), rel=1e-12)


@every_kind
@every_prior
def test_files_and_pickles_keep_every_bit(kind, weights, tmp_path):
    model = BayesianGaussianMixture(
        n_components=3, covariance_type=kind, weight_concentration_prior_type=weights,
        random_state=0, total_samples=1e4,
    ).fit(rows(1))  # fmt: skip
    fastem.save(model, tmp_path / "model")
    for again in (fastem.load(tmp_path / "model"), pickle.loads(pickle.dumps(model))):
        assert isinstance(again.weight_concentration_, tuple) == (weights == WEIGHTS[0])
        for name in (*POSTERIOR, *PRIOR, "lower_bound_"):
            np.testing.assert_array_equal(getattr(again, name), getattr(model, name))
        np.testing.assert_array_equal(again.score_samples(rows(2)), model.score_samples(rows(2)))


# Online learning ---------------------------------------------------------------------------------


@every_kind
@every_prior
def test_one_batch_at_an_infinite_rate_is_a_batch_step(kind, weights):
    X = rows(10)
    settings = {
        "n_components": 4, "covariance_type": kind, "weight_concentration_prior_type": weights,
        "random_state": 0,
    }  # fmt: skip
    batch = BayesianGaussianMixture(max_iter=1, **settings).fit(X)
    online = BayesianGaussianMixture(learning_rate=np.inf, **settings).partial_fit(X)
    assert_alike(online, batch)
    # So it is later on: what is forgotten does not count.
    new = rows(11, 90)
    batch.set_params(warm_start=True, mean_prior=batch.mean_prior_).set_params(
        covariance_prior=batch.covariance_prior_
    )
    batch.fit(new)
    online.partial_fit(new)
    assert_alike(online, batch)


def test_batches_of_one_share_each_add_their_statistics():
    """With the rate ``b/n`` a posterior is made of all rows: streaming variational Bayes."""
    X = rows(12, 600)
    start = BayesianGaussianMixture(n_components=3, random_state=0).fit(X[:200])
    online = copy.deepcopy(start).set_params(learning_rate=lambda t: 100 / (100 * (t + 1)))
    model = start._model()
    sums, prior = model.moments * model.count, model.prior
    for first in range(200, 600, 100):
        part = X[first : first + 100]
        found = online._model().expect(online._check_data(part, reset=False))
        sums = sums + found.statistics["moments"] * 100.0
        online.partial_fit(part)
        want = updated(prior, sums)
        np.testing.assert_allclose(online.means_, want.means, rtol=1e-9)
        np.testing.assert_allclose(online.covariances_, want.covariances, rtol=1e-8)
        np.testing.assert_allclose(online.mean_precision_, want.mean_precision, rtol=1e-9)
    assert (online.mean_precision_ - online.mean_precision_prior_).sum() == pytest.approx(600)


def test_a_posterior_is_made_of_no_more_rows_than_were_seen_or_said():
    X = rows(13, 4000)
    model = BayesianGaussianMixture(n_components=3, random_state=0)
    for part in np.array_split(X, 8):
        model.partial_fit(part)
        count = (model.mean_precision_ - model.mean_precision_prior_).sum()
        assert 0.3 * model.n_observations_ < count <= model.n_observations_ * (1 + 1e-9)
    steady = clone(model).set_params(learning_rate=0.25)
    said = clone(model).set_params(total_samples=1e6)
    for part in np.array_split(X, 40):
        steady.partial_fit(part)
        said.partial_fit(part)
    # With rho = 1/5, mixtures of batches of 100 are worth 100 (2 - rho) / rho rows.
    count = (steady.mean_precision_ - steady.mean_precision_prior_).sum()
    assert count == pytest.approx(900, rel=0.01)
    assert (said.mean_precision_ - said.mean_precision_prior_).sum() == pytest.approx(1e6)


def test_one_pass_online_is_nearly_as_good_as_batch():
    rng = np.random.default_rng(14)
    centers = 6.0 * rng.normal(size=(4, 3))
    X = centers[rng.integers(4, size=20_000)] + rng.normal(size=(20_000, 3))
    held_out = centers[rng.integers(4, size=2000)] + rng.normal(size=(2000, 3))
    settings = {"n_components": 10, "random_state": 0, "weight_concentration_prior": 1e-3}
    batch = BayesianGaussianMixture(max_iter=300, **settings).fit(X)
    online = BayesianGaussianMixture(**settings)
    for part in np.array_split(X, 20):
        online.partial_fit(part)
    assert online.score(held_out) > batch.score(held_out) - 0.05


# Combining ---------------------------------------------------------------------------------------


@every_kind
@every_prior
def test_shards_with_the_same_responsibilities_combine_to_the_whole(kind, weights):
    """Posteriors are multiplied, and the prior is divided by for all but one."""
    X = rows(15, 400)
    whole = BayesianGaussianMixture(
        n_components=3, covariance_type=kind, weight_concentration_prior_type=weights,
        random_state=0, max_iter=3,
    ).fit(X)  # fmt: skip
    # One step of each shard from one posterior, with the prior of the whole.
    shards = []
    for part in np.split(X, [70, 250]):
        shard = copy.deepcopy(whole).set_params(
            warm_start=True, max_iter=1, mean_prior=whole.mean_prior_,
            covariance_prior=whole.covariance_prior_,
        )  # fmt: skip
        shards.append(shard.fit(part))
    combined = fastem.combine(shards, align=False)
    again = copy.deepcopy(whole).set_params(warm_start=True, max_iter=1).fit(X)
    assert_alike(combined, again)
    assert combined.n_observations_ == 400
    # In natural parameters: the sum, minus the prior's, once less than there are shards.
    precisions = sum(shard.mean_precision_ for shard in shards)
    np.testing.assert_allclose(
        combined.mean_precision_, precisions - 2 * whole.mean_precision_prior_, rtol=1e-10
    )
    if weights == WEIGHTS[1]:
        total = sum(shard.weight_concentration_ for shard in shards)
        total -= 2 * whole.weight_concentration_prior_
        np.testing.assert_allclose(combined.weight_concentration_, total, rtol=1e-10)
    assert_alike(fastem.combine(shards), again)


@every_prior
def test_models_of_other_orders_are_aligned(weights):
    X = rows(16, 600, 2)
    settings = {
        "n_components": 3, "weight_concentration_prior_type": weights, "random_state": 0,
        "mean_prior": X.mean(axis=0), "covariance_prior": np.cov(X.T), "max_iter": 300,
    }  # fmt: skip
    one = BayesianGaussianMixture(**settings).fit(X[:300])
    other = BayesianGaussianMixture(**settings).fit(X[300:])
    turned = copy.deepcopy(other)
    turned._set_model(other._model().reordered([2, 0, 1]))
    a, b = fastem.combine([one, other]), fastem.combine([one, turned])
    assert a.score(X) == pytest.approx(b.score(X), abs=1e-6)
    assert a.score(X) > max(one.score(X), other.score(X)) - 0.05


def test_combining_says_what_it_cannot_do():
    one = BayesianGaussianMixture(n_components=2, random_state=0).fit(rows(0))
    other = clone(one).set_params(weight_concentration_prior_type=WEIGHTS[1]).fit(rows(1))
    with pytest.raises(ValueError, match="one weight_concentration_prior_type"):
        fastem.combine([one, other])
    plain = fastem.GaussianMixture(2, random_state=0).fit(rows(0))
    for pair in ([one, plain], [plain, one]):
        with pytest.raises(ValueError, match="different kinds"):
            fastem.combine(pair)
    with pytest.raises(ValueError, match=r"product, .*Leave out direction='reverse'"):
        fastem.combine([one, one], direction="reverse")


def test_the_divergence_is_the_relative_entropy_of_posteriors():
    """``KL(q̃, q)`` for each row, of posteriors that are made of as many rows."""
    one, other = (
        BayesianGaussianMixture(
            n_components=2,
            weight_concentration_prior_type=WEIGHTS[1],
            random_state=0,
            mean_prior=[0.0, 0.0],
            covariance_prior=np.eye(2),
            reg_covar=0.0,
        ).fit(rows(seed, 50, 2))
        for seed in (0, 1)
    )
    # Seen from the second, the first is a prior.
    p, q = one._model(), other._model()
    found = fastem.divergence(one, other, align=False)
    assert found > 0
    alpha, before = other.weight_concentration_, one.weight_concentration_
    total = gammaln(alpha.sum()) - gammaln(alpha).sum()
    total += gammaln(before).sum() - gammaln(before.sum())
    total += (alpha - before) @ (digamma(alpha) - digamma(alpha.sum()))
    for k in range(2):
        v, w = other.degrees_of_freedom_[k], one.degrees_of_freedom_[k]
        precision, scale = other.precisions_[k], other.precisions_[k] / v
        inverse = one.covariances_[k] * w
        log_det = digamma(0.5 * (v - np.arange(2))).sum() + 2 * np.log(2)
        log_det += np.linalg.slogdet(scale)[1]
        total += -wishart(v, scale).entropy() - (
            0.5 * (w - 3) * log_det - 0.5 * np.trace(inverse @ precision)
            - 0.5 * w * (2 * np.log(2) - np.linalg.slogdet(inverse)[1])
            - 0.5 * np.log(np.pi) - gammaln(0.5 * (w - np.arange(2))).sum()
        )  # fmt: skip
        ratio = one.mean_precision_[k] / other.mean_precision_[k]
        shift = other.means_[k] - one.means_[k]
        total += ratio - 1 - np.log(ratio)
        total += 0.5 * one.mean_precision_[k] * shift @ precision @ shift
    assert p.count == pytest.approx(q.count) == pytest.approx(50)
    assert found * 50 == pytest.approx(total, rel=1e-8)


# Errors ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "settings, message",
    [
        ({"mean_prior": [1.0]}, "'means' should have the shape of \\(3,\\)"),
        ({"mean_prior": [1.0, np.nan, 0.0]}, "finite|NaN"),
        ({"covariance_prior": np.eye(2)}, "'full covariance_prior' should have the shape"),
        ({"covariance_prior": -np.eye(3)}, "'full precision' should be symmetric"),
        ({"covariance_prior": [-1.0, 1, 1], "covariance_type": "diag"}, "should be positive"),
        ({"covariance_prior": [1.0], "covariance_type": "spherical"}, "shape of \\(\\)"),
        ({"degrees_of_freedom_prior": 2.0}, "should be greater than 2, but got 2.000"),
        ({"weight_concentration_prior": 0.0}, "weight_concentration_prior"),
        ({"total_samples": -1}, "total_samples"),
    ],
)
def test_wrong_settings_are_named(settings, message):
    model = BayesianGaussianMixture(n_components=2, random_state=0, **settings)
    before = copy.deepcopy(vars(model))
    for learn in (model.fit, model.partial_fit):
        with pytest.raises(ValueError, match=message):
            learn(rows(0))
        assert vars(model).keys() == before.keys()


def test_weights_of_less_than_a_row_have_no_covariance():
    X = rows(0, 50)
    model = BayesianGaussianMixture(n_components=2, random_state=0)
    with pytest.raises(ValueError, match="covariance_prior, or weights that count rows"):
        model.fit(X, sample_weight=np.full(50, 0.01))
    model.set_params(covariance_prior=np.eye(3)).fit(X, sample_weight=np.full(50, 0.01))
    assert np.isfinite(model.score(X))


@pytest.mark.parametrize("name", [*POSTERIOR[:-2], POSTERIOR[-1], *PRIOR])
def test_attributes_of_other_sizes_are_refused(name):
    fitted = BayesianGaussianMixture(n_components=3, random_state=0).fit(rows(0))
    value = np.asarray(getattr(fitted, name))
    for wrong in (value[None], np.repeat(value[..., None], 3, axis=-1), "x", None,
                  np.full(value.shape, np.nan)):  # fmt: skip
        broken = copy.deepcopy(fitted)
        setattr(broken, name, wrong)
        for use in (broken.predict, broken.score_samples, broken.partial_fit):
            with pytest.raises((ValueError, TypeError)):
                use(rows(1, 20))


def test_models_refuse_statistics_of_other_sizes():
    model = BayesianGaussianMixture(n_components=3, random_state=0).fit(rows(0))._model()
    own = model.own()
    short = Statistics(mass=own["mass"][:2], moments=own["moments"])
    with pytest.raises(ValueError):
        model.maximize(short)
    with pytest.raises(ValueError, match="no mass"):
        model.maximize(own * 0.0)
    with pytest.raises(ValueError):
        model.with_parameters({**model.parameters, "means": np.zeros((3, 2))})
    assert isinstance(algebra.average([model, model]), VariationalMixture)


def test_a_fit_that_does_not_converge_warns():
    with pytest.warns(ConvergenceWarning):
        BayesianGaussianMixture(n_components=3, random_state=0, max_iter=1).fit(rows(0))
