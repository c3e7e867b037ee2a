"""fastem.CompoundDirichlet and fastem.Dirichlet: optima, online learning, edges, bad input."""

import warnings

import numpy as np
import pytest
from scipy import sparse, stats
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError

import fastem
from fastem.dirichlet.ascent import moments_match
from fastem.dirichlet.count_tables import CountTables

from oracles import dirichlet as oracles

ALPHA = np.array([0.4, 2.0, 0.9, 5.0, 1.3])


def documents(seed=0, n_documents=400, alpha=ALPHA, longest=40):
    rng = np.random.default_rng(seed)
    return oracles.documents(np.asarray(alpha), rng.integers(1, longest, n_documents), rng)


solvers = pytest.mark.parametrize("solver", ["em", "newton"])


def fit(X, solver="newton", **options):
    options = {"tol": 1e-9, "max_iter": 20_000, **options}
    return fastem.CompoundDirichlet(solver=solver, **options).fit(X)


# The optimum ----------------------------------------------------------------------------------


@solvers
def test_the_end_is_a_stationary_point_of_the_likelihood(solver):
    X = documents()
    model = fit(X, solver)
    assert model.converged_ and model.solver_ == solver
    slope = oracles.gradient(lambda u: oracles.nll(np.exp(u), X), np.log(model.alpha_), 1e-4)
    np.testing.assert_allclose(slope, 0.0, atol=2e-8)
    # And a maximum: every neighbor is worse.
    rng = np.random.default_rng(1)
    least = oracles.nll(model.alpha_, X)
    for _ in range(20):
        assert oracles.nll(model.alpha_ * np.exp(0.05 * rng.normal(size=5)), X) > least
    assert model.lower_bound_ == pytest.approx(-least, rel=1e-12)


def test_em_and_newton_and_lbfgs_reach_the_same_optimum():
    X = documents(2)
    em, newton = fit(X, "em"), fit(X, "newton")
    np.testing.assert_allclose(em.alpha_, newton.alpha_, rtol=1e-6)
    np.testing.assert_allclose(newton.alpha_, oracles.fit(X, np.ones(5)), rtol=1e-5)
    assert newton.n_iter_ < 15 < em.n_iter_


@solvers
@pytest.mark.parametrize("start", [None, np.full(5, 1e-5), np.full(5, 1e5)])
def test_the_likelihood_never_falls(solver, start):
    X = documents(3)
    # EM crawls from 1e5: some steps are enough to see it climb.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = fit(X, solver, alpha_init=start, max_iter=300)
    bounds = np.array(model.lower_bounds_)
    assert len(bounds) == model.n_iter_ > 1
    assert (np.diff(bounds) >= -1e-12 * np.abs(bounds[:-1])).all()
    begun = moments_match(CountTables.of(X)) if start is None else start
    assert bounds[0] >= -oracles.nll(begun, X) - 1e-12
    assert model.lower_bound_ == bounds[-1]
    if solver == "newton":
        np.testing.assert_allclose(model.alpha_, fit(X).alpha_, rtol=1e-7)


def test_alpha_is_recovered_from_many_documents():
    rng = np.random.default_rng(4)
    X = oracles.documents(ALPHA, rng.integers(20, 80, 200_000), rng)
    model = fit(X)
    np.testing.assert_allclose(model.alpha_, ALPHA, rtol=0.02)
    assert model.score(X) > -oracles.nll(ALPHA, X[:2000]) - 1.0


def test_tolerance_is_on_the_gradient():
    X = documents(5)
    for tol in (1e-2, 1e-5, 1e-9):
        model = fit(X, "em", tol=tol)
        first, _ = CountTables.of(X).derivatives(model.alpha_)
        assert np.abs(model.alpha_ * (first[:-1] - first[-1])).max() <= tol
    with pytest.warns(ConvergenceWarning, match="gradient is still .* after 2 iterations"):
        assert not fit(X, "em", max_iter=2).converged_


def test_newton_leaps_over_where_the_likelihood_is_not_concave():
    """Up to twice as far out as the maximum, four times less is too little, and EM's steps tiny."""
    rng = np.random.default_rng(0)
    X = oracles.documents(np.array([100.0, 40.0, 160.0]), rng.integers(10, 25, 3000), rng)
    best = fit(X)
    assert 100 < best.alpha_.sum() < 1000
    for factor in (1.3, 1.5, 1.7, 2.0, 2.3, 2.7, 3.5):
        model = fit(X, alpha_init=factor * best.alpha_)
        assert model.converged_ and model.n_iter_ < 12
        np.testing.assert_allclose(model.alpha_, best.alpha_, rtol=1e-3)


def test_the_advice_is_not_what_was_done():
    for solver in ("newton", "em"):
        with pytest.warns(ConvergenceWarning, match="Try ") as caught:
            fastem.CompoundDirichlet(solver=solver, max_iter=1).fit(documents(5))
        assert ("Try solver='newton'" in str(caught[0].message)) == (solver == "em")


@pytest.mark.parametrize("scale", [1e-6, 1e-3, 1e3, 1e6])
def test_small_and_large_alpha(scale):
    alpha = scale * np.array([0.5, 1.0, 2.0])
    rng = np.random.default_rng(6)
    if scale == 1e-6:
        # NumPy cannot draw these: nearly every document has one word only.
        X = np.zeros((3000, 3), int)
        X[np.arange(3000), rng.choice(3, size=3000, p=alpha / alpha.sum())] = 50
        X[0] = [49, 1, 0]
    else:
        # It takes many documents to tell a small precision, and long ones to tell a large one.
        n_documents, length = (60_000, 50) if scale < 1 else (3000, 50 * int(scale))
        X = oracles.documents(alpha, np.full(n_documents, length), rng)
    model = fit(X, tol=1e-10)
    assert model.converged_ and (model.alpha_ > 0).all()
    slope = model.alpha_ * (oracles.expect(model.alpha_, X) - oracles.own(model.alpha_))
    np.testing.assert_allclose(slope, 0.0, atol=1e-8)
    if scale == 1e-6:
        assert 1e-6 < model.alpha_.sum() < 1e-3
    else:
        np.testing.assert_allclose(model.alpha_, alpha, rtol=0.15)


def test_alpha_of_a_millionth_is_found():
    """One document in 300,000 is mixed, which puts α₀ near 1e-6 by the closed form."""
    X = np.zeros((300_000, 2), int)
    X[:150_000, 0] = X[150_000:, 1] = 50
    X[0] = [49, 1]
    model = fit(X, tol=1e-12)
    # For α → 0: log p(mixed) ≈ log α₀ + const, log p(pure) ≈ -α₀/2 Σ_{c=1}^{49} 1/c + const.
    expected = 1 / (300_000 * 0.5 * (1 / np.arange(1, 50)).sum())
    assert model.alpha_.sum() == pytest.approx(expected, rel=1e-3)
    assert 1e-7 < model.alpha_.sum() < 2e-6


def test_sample_weight_is_repetition():
    X = documents(7)
    times = np.random.default_rng(8).integers(0, 4, len(X))
    weighted = fastem.CompoundDirichlet(tol=1e-10).fit(X, sample_weight=times)
    repeated = fastem.CompoundDirichlet(tol=1e-10).fit(np.repeat(X, times, axis=0))
    np.testing.assert_allclose(weighted.alpha_, repeated.alpha_, rtol=1e-8)
    assert weighted.lower_bound_ == pytest.approx(repeated.lower_bound_, rel=1e-12)
    w = np.random.default_rng(9).uniform(0, 2, len(X))
    got = fastem.CompoundDirichlet(tol=1e-10).fit(X, sample_weight=w)
    np.testing.assert_allclose(got.alpha_, oracles.fit(X, np.ones(5), w), rtol=1e-5)
    assert got.score(X, sample_weight=w) == pytest.approx(-oracles.nll(got.alpha_, X, w), rel=1e-12)


@pytest.mark.parametrize("form", ["csr_array", "csc_array", "coo_array", "csr_matrix"])
def test_sparse_is_dense(form):
    X = documents(10, 300, np.full(40, 0.1))
    thin = getattr(sparse, form)(X)
    dense = fit(X)
    model = fit(thin)
    np.testing.assert_array_equal(model.alpha_, dense.alpha_)
    np.testing.assert_allclose(model.score_samples(thin), dense.score_samples(X), rtol=1e-13)
    assert model.score(thin) == pytest.approx(dense.score(X), rel=1e-13)
    np.testing.assert_array_equal(model.transform(thin), dense.transform(X))
    options = {"batch_size": 30, "learning_rate": 0.3}
    one, other = (
        fastem.CompoundDirichlet(**options).partial_fit(part).alpha_ for part in (X, thin)
    )
    np.testing.assert_allclose(one, other, rtol=1e-12)


def test_any_number_of_threads_gives_the_same_bits():
    X = np.tile(documents(11, 5000, np.full(30, 0.2)), (6, 1))
    w = np.random.default_rng(12).uniform(0, 2, len(X))
    for data in (X, sparse.csr_array(X)):
        models = [fastem.CompoundDirichlet(n_jobs=n).fit(data, sample_weight=w) for n in (1, 2, 5)]
        for model in models[1:]:
            np.testing.assert_array_equal(model.alpha_, models[0].alpha_)
            np.testing.assert_array_equal(model.score_samples(X), models[0].score_samples(X))


def test_streams_are_their_arrays_in_a_row():
    X = documents(13)
    whole = fit(X)
    parts = [X[:100], sparse.csr_array(X[100:250]), X[250:]]
    for stream in (parts, iter(parts), lambda: iter(parts)):
        np.testing.assert_allclose(fit(stream).alpha_, whole.alpha_, rtol=1e-12)
    assert whole.score(parts) == pytest.approx(whole.score(X), rel=1e-12)
    ones = [(part, np.full(part.shape[0], 2.0)) for part in parts]
    np.testing.assert_allclose(fit(ones).alpha_, whole.alpha_, rtol=1e-8)
    with pytest.raises(ValueError, match="goes with an array"):
        fastem.CompoundDirichlet().fit(parts, sample_weight=np.ones(len(X)))


def test_warm_start_goes_on():
    X = documents(14)
    model = fastem.CompoundDirichlet(solver="em", tol=1e-9, max_iter=5, warm_start=True)
    with pytest.warns(ConvergenceWarning):
        model.fit(X)
    first = model.lower_bound_
    model.set_params(solver="newton", max_iter=50).fit(X)
    assert model.converged_ and model.lower_bounds_[0] > first


# Scores, draws, topics ------------------------------------------------------------------------


def test_scores_are_the_log_probabilities():
    X = documents(15)
    X[3] = 0
    model = fit(X)
    expected = oracles.log_likelihoods(model.alpha_, X)
    np.testing.assert_allclose(model.score_samples(X), expected, rtol=1e-11, atol=1e-12)
    assert model.score(X) == pytest.approx(expected.mean(), rel=1e-12)
    n = len(X)
    assert model.bic(X) == pytest.approx(-2 * expected.sum() + 5 * np.log(n), rel=1e-12)
    assert model.aic(X) == pytest.approx(-2 * expected.sum() + 10, rel=1e-12)
    # Probabilities of all documents of one length sum to one.
    every = np.array([(i, j, 4 - i - j) for i in range(5) for j in range(5 - i)])
    three = fit(documents(16, alpha=ALPHA[:3]))
    assert np.exp(three.score_samples(every)).sum() == pytest.approx(1.0, rel=1e-12)


def test_topics_are_the_posterior_means():
    X = documents(17)
    model = fit(X)
    topics = model.transform(X)
    posterior = stats.dirichlet(X[7] + model.alpha_)
    np.testing.assert_allclose(topics[7], posterior.mean(), rtol=1e-12)
    np.testing.assert_allclose(topics.sum(axis=1), 1.0, rtol=1e-12)
    np.testing.assert_array_equal(fastem.CompoundDirichlet(tol=1e-9).fit_transform(X), topics)


def test_samples_have_the_lengths_asked_for_and_lead_back_to_the_model():
    model = fit(documents(18))
    model.set_params(random_state=0)
    lengths = np.array([0, 3, 100])
    np.testing.assert_array_equal(model.sample(3, lengths).sum(axis=1), lengths)
    default = model.sample(4)
    assert (default.sum(axis=1) == round(model.mean_length_)).all()
    np.testing.assert_array_equal(model.sample(4), default)
    X = model.sample(20_000, 50, as_sparse=True)
    assert sparse.issparse(X) and X.shape == (20_000, 5)
    np.testing.assert_allclose(fit(X).alpha_, model.alpha_, rtol=0.08)
    assert model.sample(2, 9).dtype.kind == "i"


# Online ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("eta0", [0.5, 1.0, 2.0])
@pytest.mark.parametrize("inertia", ["exact", "sampled"])
def test_the_papers_example_ends_where_batch_em_does(eta0, inertia):
    """10 words, 2,000 documents, mini-batches of 100, 2,000 pseudo-documents, η₀/t^0.9.

    The model starts from its first mini-batch and sees each document once.
    """
    rng = np.random.default_rng(19)
    X = oracles.documents(rng.gamma(1.0, 2.0, 10) + 0.1, np.full(2000, 100), rng)
    batch = fit(X, "em", tol=1e-6)
    online = fastem.CompoundDirichlet(
        learning_rate=fastem.Decay(eta0, 0.9), inertia=inertia, n_pseudo=2000, random_state=0
    )
    for mini_batch in X.reshape(20, 100, 10):
        online.partial_fit(mini_batch)
    reached, best = oracles.nll(online.alpha_, X), oracles.nll(batch.alpha_, X)
    assert online.n_steps_ == 20
    assert best <= reached < 1.005 * best
    # That says something: the model of the first mini-batch, scaled, would not do.
    assert oracles.nll(online.alpha_ * 2, X) > 1.005 * best


@pytest.mark.parametrize("eta0", [1.0, 2.0])
def test_one_pass_with_exact_inertia_forgets_a_bad_start(eta0):
    rng = np.random.default_rng(19)
    X = oracles.documents(rng.gamma(1.0, 2.0, 10) + 0.1, np.full(2000, 100), rng)
    online = fastem.CompoundDirichlet(
        learning_rate=fastem.Decay(eta0, 0.9), batch_size=100, alpha_init=np.ones(10)
    ).partial_fit(X)
    best = oracles.nll(fit(X).alpha_, X)
    assert oracles.nll(np.ones(10), X) > 1.05 * best
    assert oracles.nll(online.alpha_, X) < 1.005 * best


@pytest.mark.parametrize("batch_size", [None, 1, 40, 10_000])
def test_memories_of_the_model_and_of_statistics_agree(batch_size):
    X = documents(20)
    options = {"batch_size": batch_size, "learning_rate": 0.2, "alpha_init": np.ones(5)}
    one = fastem.CompoundDirichlet(memory="model", **options)
    other = fastem.CompoundDirichlet(memory="statistics", **options)
    for part in (X[:200], X[200:]):
        one.partial_fit(part)
        other.partial_fit(part)
    np.testing.assert_allclose(one.alpha_, other.alpha_, rtol=1e-8)
    assert one.n_steps_ == other.n_steps_ == 400 / (batch_size or 200)
    assert not hasattr(one, "statistics_")
    np.testing.assert_allclose(
        other.statistics_["log_topics"], oracles.own(other.alpha_), rtol=1e-9
    )


def test_calls_may_be_cut_anywhere_between_batches():
    X = documents(21)
    options = {"batch_size": 20, "learning_rate": fastem.Decay(1.0, 0.7)}
    whole = fastem.CompoundDirichlet(alpha_init=np.ones(5), **options).partial_fit(X)
    cut = fastem.CompoundDirichlet(alpha_init=np.ones(5), **options)
    for start in range(0, len(X), 100):
        cut.partial_fit(X[start : start + 100])
    np.testing.assert_allclose(cut.alpha_, whole.alpha_, rtol=1e-12)
    stream = fastem.CompoundDirichlet(alpha_init=np.ones(5), **options)
    stream.partial_fit(iter([X[:200], X[200:]]))
    np.testing.assert_allclose(stream.alpha_, whole.alpha_, rtol=1e-12)


def test_online_learning_goes_on_after_fit_and_counts_its_steps():
    X = documents(22)
    model = fit(X)
    before = model.alpha_
    model.set_params(batch_size=100, learning_rate=1e-4).partial_fit(X)
    np.testing.assert_allclose(model.alpha_, before, rtol=1e-2)
    assert model.n_steps_ == 4 and not hasattr(model, "solver_")
    assert not np.array_equal(model.alpha_, before)


def test_a_word_first_seen_late_is_learned():
    rng = np.random.default_rng(23)
    early = oracles.documents(np.array([1.0, 2.0, 1.0]), np.full(300, 30), rng)
    late = oracles.documents(np.array([1.0, 2.0, 1.0, 1.0]), np.full(3000, 30), rng)
    model = fastem.CompoundDirichlet(batch_size=500, learning_rate=3.0)
    model.partial_fit(np.pad(early, ((0, 0), (0, 1))))
    assert model.alpha_[3] < 0.1
    for _ in range(5):
        model.partial_fit(late)
    np.testing.assert_allclose(model.alpha_, [1.0, 2.0, 1.0, 1.0], rtol=0.25)


# Edges ----------------------------------------------------------------------------------------


@solvers
def test_words_never_seen_are_almost_impossible(solver):
    X = np.insert(documents(24), [2, 5], 0, axis=1)
    model = fit(X, solver)
    assert model.converged_
    assert (model.alpha_[[2, 6]] <= 1e-10).all() and (model.alpha_ > 0).all()
    others = np.delete(model.alpha_, [2, 6])
    np.testing.assert_allclose(others, fit(documents(24)).alpha_, rtol=1e-6)
    unseen = np.zeros((1, 7), int)
    unseen[0, 2] = 1
    assert -40 < model.score(unseen) < -20


@solvers
def test_empty_documents_say_nothing(solver):
    X = documents(25)
    padded = np.vstack([X, np.zeros((100, 5), int)])
    np.testing.assert_allclose(fit(padded, solver).alpha_, fit(X, solver).alpha_, rtol=1e-6)
    assert fit(X).score(np.zeros((2, 5), int)) == 0.0


@solvers
def test_only_empty_documents_leave_the_start(solver):
    model = fit(np.zeros((10, 3), int), solver)
    assert model.converged_ and np.isfinite(model.alpha_).all() and (model.alpha_ > 0).all()
    assert model.lower_bound_ == 0.0


@solvers
def test_a_vocabulary_of_one_word(solver):
    model = fit(np.arange(1, 20)[:, None], solver)
    assert model.converged_ and model.n_iter_ == 0
    assert model.alpha_.shape == (1,) and model.alpha_[0] > 0
    assert model.lower_bound_ == pytest.approx(0.0, abs=1e-12)
    np.testing.assert_array_equal(model.transform([[3]]), [[1.0]])


@solvers
def test_documents_of_one_word_give_the_shares(solver):
    X = np.repeat(np.eye(3, dtype=int), [10, 30, 60], axis=0)
    model = fit(X, solver)
    assert model.converged_
    np.testing.assert_allclose(model.alpha_ / model.alpha_.sum(), [0.1, 0.3, 0.6], rtol=1e-6)


def test_counts_that_vary_too_little_have_a_large_precision():
    X = np.full((50, 4), 25)
    model = fastem.CompoundDirichlet(tol=1e-6, max_iter=500).fit(X)
    assert model.converged_ and np.isfinite(model.alpha_).all()
    assert model.alpha_.sum() > 1e5
    multinomial = stats.multinomial.logpmf(X[0], 100, np.full(4, 0.25))
    assert model.score(X) == pytest.approx(multinomial, rel=1e-4)


def test_one_document():
    model = fit(np.array([[3, 1, 0, 6]]))
    assert (model.alpha_ > 0).all() and np.isfinite(model.lower_bound_)


@pytest.mark.parametrize("seed", [0, 2, 3, 8, 26, 45])
def test_huge_counts(seed):
    rng = np.random.default_rng(seed)
    X = oracles.documents(ALPHA, rng.integers(10**6, 10**9, 500), rng)
    model = fit(X)
    slope = model.alpha_ * (oracles.expect(model.alpha_, X) - oracles.own(model.alpha_))
    np.testing.assert_allclose(slope, 0.0, atol=2e-9)
    np.testing.assert_allclose(model.alpha_, ALPHA, rtol=0.15)


# Bad input ------------------------------------------------------------------------------------


def wrong(value):
    X = documents(27).astype(float)
    X[12, 3] = value
    return X


BAD = [
    (wrong(-1), r"Negative values in data: documents are counts of words; row 12, column 3 is -1"),
    (wrong(2.5), r"counts of words and must be whole numbers; row 12, column 3 is 2.5"),
    (wrong(np.nan), "contains NaN"),
    (wrong(np.inf), "contains infinity"),
    (np.empty((0, 5)), "0 sample"),
    (np.arange(5), "Expected 2D array"),
    (np.empty((3, 0)), "0 feature"),
]


@pytest.mark.parametrize("X, words", BAD)
@pytest.mark.parametrize("thin", [False, True])
def test_bad_counts_are_refused_and_nothing_changes(X, words, thin):
    if thin:
        if X.ndim == 1 or not X.size:
            X = sparse.csr_array((0, 5))
            words = "0 sample"
        else:
            X = sparse.csr_array(X)
    good = documents(28)
    model = fastem.CompoundDirichlet().fit(good)
    model.partial_fit(good)
    before = {name: np.copy(value) for name, value in vars(model).items() if name.endswith("_")}
    for method in (model.fit, model.partial_fit, model.score, model.score_samples, model.transform):
        with pytest.raises(ValueError, match=words):
            method(X)
    for name, value in before.items():
        np.testing.assert_array_equal(getattr(model, name), value)
    with pytest.raises(ValueError, match=words):
        fastem.CompoundDirichlet().partial_fit(X)


def test_a_failed_batch_of_a_stream_leaves_the_model_as_it_was():
    model = fastem.CompoundDirichlet().fit(documents(29))
    before, steps = model.alpha_.copy(), model.n_steps_
    with pytest.raises(ValueError, match="In array 1 of the stream: .*features"):
        model.partial_fit([documents(30), documents(30)[:, :4]])
    with pytest.raises(ValueError, match="Negative values"):
        model.partial_fit([documents(30), wrong(-2)])
    np.testing.assert_array_equal(model.alpha_, before)
    assert model.n_steps_ == steps


@pytest.mark.parametrize(
    "options, words",
    [
        ({"learning_rate": 0.0}, "learning rate must be positive; at step 1 it is 0.0"),
        ({"learning_rate": -1.0}, "learning rate must be positive"),
        ({"learning_rate": lambda t: 1.0 - t}, "at step 1 it is 0.0"),
        ({"learning_rate": "fast"}, "learning_rate"),
        ({"batch_size": 0}, "batch_size"),
        ({"memory": "all"}, "memory"),
        ({"inertia": "none"}, "inertia"),
        ({"n_pseudo": 0}, "n_pseudo"),
        ({"solver": "lbfgs"}, "solver"),
        ({"n_jobs": 0}, "n_jobs"),
        ({"alpha_init": [1.0, 2.0]}, "should have 5 entries, one for each column; got 2"),
        ({"alpha_init": [1.0, 2.0, 0.0, 1.0, 1.0]}, r"positive and finite; alpha\[2\] is 0.0"),
        ({"fixed": ["beta"]}, r"fixed: 'beta' is not one of the parameters \('alpha',\)"),
    ],
)
def test_settings_that_make_no_sense_are_refused(options, words):
    with pytest.raises(ValueError, match=words):
        fastem.CompoundDirichlet(**options).partial_fit(documents(31))


def test_weights_that_make_no_sense_are_refused():
    X = documents(32)
    for weights, words in [
        (np.zeros(len(X)), "all zero|at least one non-zero"),
        (np.full(len(X), -1.0), "[Nn]egative"),
        (np.ones(3), "sample_weight"),
        (np.full(len(X), np.nan), "NaN"),
    ]:
        for method in (fastem.CompoundDirichlet().fit, fastem.CompoundDirichlet().partial_fit):
            with pytest.raises(ValueError, match=words):
                method(X, sample_weight=weights)


def test_width_must_be_that_of_the_fit():
    model = fastem.CompoundDirichlet().fit(documents(33))
    for method in (model.score, model.score_samples, model.partial_fit, model.transform):
        with pytest.raises(ValueError, match="4 features"):
            method(documents(33)[:, :4])


def test_nothing_can_be_asked_before_learning():
    model = fastem.CompoundDirichlet()
    for ask in (
        lambda: model.score(documents()), lambda: model.score_samples(documents()),
        lambda: model.sample(), lambda: model.transform(documents()),
        lambda: fastem.combine([model, model]),
    ):  # fmt: skip
        with pytest.raises(NotFittedError):
            ask()


@pytest.mark.parametrize(
    "arguments, words",
    [
        ((0,), "n_samples must be 1 or more; got 0"),
        ((3, [1, 2]), r"one for each of the 3 documents; got the shape \(2,\)"),
        ((2, -1), "whole numbers, zero or more"),
        ((2, 1.5), "whole numbers, zero or more"),
        ((2, np.nan), "whole numbers, zero or more"),
    ],
)
def test_samples_that_make_no_sense_are_refused(arguments, words):
    model = fastem.CompoundDirichlet().fit(documents(34))
    with pytest.raises(ValueError, match=words):
        model.sample(*arguments)


# Combining and files --------------------------------------------------------------------------


def test_estimators_combine_average_and_diverge():
    one, other = fit(documents(35)), fit(documents(36, alpha=ALPHA + 1))
    combined = fastem.combine([one, other], [1, 3])
    assert isinstance(combined, fastem.CompoundDirichlet)
    expected = 0.25 * oracles.own(one.alpha_) + 0.75 * oracles.own(other.alpha_)
    np.testing.assert_allclose(oracles.own(combined.alpha_), expected, rtol=1e-10)
    assert combined.n_features_in_ == 5
    sampled = fastem.combine(
        [one, other], [1, 3], n_pseudo=20_000, random_state=0, horizon=30
    )  # fmt: skip
    np.testing.assert_allclose(sampled.alpha_, combined.alpha_, rtol=0.1)
    averaged = fastem.average([one, other])
    np.testing.assert_allclose(averaged.alpha_, (one.alpha_ + other.alpha_) / 2)
    got = fastem.divergence(one, other)
    assert got == pytest.approx(oracles.divergence(one.alpha_, other.alpha_), rel=1e-10)
    with pytest.raises(ValueError, match="give the lengths"):
        combined.sample(2)
    assert combined.sample(2, 5).sum() == 10
    with pytest.raises(ValueError, match="a compound Dirichlet distribution and a Dirichlet d"):
        fastem.combine([one, fastem.Dirichlet().fit(one.transform(documents(35)))])


def test_files_bring_everything_back(tmp_path):
    X = documents(37)
    model = fit(X)
    model.set_params(memory="statistics", batch_size=50).partial_fit(X)
    topics = fastem.Dirichlet(memory="statistics").partial_fit(model.transform(X))
    for estimator, data in ((model, X), (topics, model.transform(X))):
        path = tmp_path / f"{type(estimator).__name__}.fastem"
        fastem.save(estimator, path)
        back = fastem.load(path)
        assert type(back) is type(estimator)
        assert back.get_params() == estimator.get_params()
        np.testing.assert_array_equal(back.alpha_, estimator.alpha_)
        np.testing.assert_array_equal(
            back.partial_fit(data).alpha_, estimator.partial_fit(data).alpha_
        )


def test_clones_and_tags():
    model = fastem.CompoundDirichlet(solver="em", n_pseudo=7)
    assert clone(model).get_params() == model.get_params()
    tags = model.__sklearn_tags__().input_tags
    assert tags.sparse and tags.positive_only


# Topics that are observed ---------------------------------------------------------------------


def topics(seed=40, n_points=300, alpha=ALPHA):
    return np.random.default_rng(seed).dirichlet(alpha, size=n_points)


def test_dirichlet_is_the_likeliest():
    X = topics()
    w = np.random.default_rng(41).uniform(0, 2, len(X))
    for weights in (None, w):
        model = fastem.Dirichlet().fit(X, sample_weight=weights)
        expected = oracles.maximum(np.average(np.log(X), axis=0, weights=weights), np.ones(5))
        np.testing.assert_allclose(model.alpha_, expected, rtol=1e-6)
        densities = stats.dirichlet.logpdf(X.T, model.alpha_)
        assert model.lower_bound_ == pytest.approx(np.average(densities, weights=weights))
        np.testing.assert_allclose(model.score_samples(X), densities, rtol=1e-10, atol=1e-12)
        got = model.score(X, sample_weight=weights)
        assert got == pytest.approx(np.average(densities, weights=weights), rel=1e-12)


def test_dirichlet_is_recovered_and_can_be_drawn_from():
    model = fastem.Dirichlet(random_state=0).fit(topics(42, 200_000))
    np.testing.assert_allclose(model.alpha_, ALPHA, rtol=0.01)
    X = model.sample(50_000)
    np.testing.assert_allclose(fastem.Dirichlet().fit(X).alpha_, model.alpha_, rtol=0.03)


def test_dirichlet_learns_online_in_either_memory():
    X = topics(43, 3000)
    options = {"batch_size": 100, "learning_rate": fastem.Decay(1.0, 0.9)}
    models = [fastem.Dirichlet(memory=m, **options).partial_fit(X) for m in ("model", "statistics")]
    np.testing.assert_allclose(models[0].alpha_, models[1].alpha_, rtol=1e-8)
    best = fastem.Dirichlet().fit(X)
    assert models[0].score(X) > best.score(X) - 0.01
    assert models[0].n_steps_ == 30
    # With η = 1/t from the first batch on, nothing is forgotten: the end is the fit itself.
    exact = fastem.Dirichlet(
        batch_size=100, learning_rate=lambda t: np.inf if t == 1 else 1 / (t - 1)
    ).partial_fit(X)
    np.testing.assert_allclose(exact.alpha_, best.alpha_, rtol=1e-8)


def test_dirichlet_of_streams_and_threads():
    X = topics(44, 20_000)
    whole = fastem.Dirichlet(n_jobs=1).fit(X)
    np.testing.assert_array_equal(fastem.Dirichlet(n_jobs=3).fit(X).alpha_, whole.alpha_)
    stream = fastem.Dirichlet().fit([X[:7], X[7:]])
    np.testing.assert_allclose(stream.alpha_, whole.alpha_, rtol=1e-10)


@pytest.mark.parametrize(
    "row, words",
    [
        ([0.5, 0.25, 0.26], "must sum to one; row 4 sums to 1.01"),
        ([0.5, 0.5, 0.0], "positive in every column.*; row 4, column 2 is 0.0"),
        ([0.7, 0.5, -0.2], "positive in every column.*; row 4, column 2 is -0.2"),
        ([np.nan, 0.5, 0.5], "NaN"),
    ],
)
def test_topics_outside_the_simplex_are_refused(row, words):
    X = topics(45, 10, ALPHA[:3])
    model = fastem.Dirichlet().fit(X)
    before = model.alpha_
    X[4] = row
    for method in (model.fit, model.partial_fit, model.score, model.score_samples):
        with pytest.raises(ValueError, match=words):
            method(X)
    np.testing.assert_array_equal(model.alpha_, before)


def test_topics_that_do_not_vary_have_no_maximum():
    with pytest.raises(ValueError, match="likeliest alpha does not exist: the topics do not vary"):
        fastem.Dirichlet().fit(np.full((5, 4), 0.25))
