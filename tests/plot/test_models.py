"""Every estimator of its kind is drawn, and none is changed."""

import copy
import pickle

import given_models as given
import numpy as np
import pytest
from matplotlib import pyplot
from matplotlib.axes import Axes

import fastem
from fastem import families, plot

ROWS = given.mixture_data(120)
SERIES = given.chain_data(120)
COUNTS = np.random.default_rng(0).poisson(np.repeat([[2.0, 9.0]], 120, axis=0)).astype(float)
SYMBOLS = np.random.default_rng(0).choice(3, (120, 1))
TRIALS = np.random.default_rng(0).multinomial(20, [0.2, 0.5, 0.3], 120)
MIXED = np.column_stack([ROWS, np.arange(120) % 2])


def product(covariance_type):
    """A family over fewer columns beside another."""
    return families.Product((families.Gaussian(covariance_type), 2), (families.Bernoulli(), 1))


def fitted():
    """Estimators and data, by kind."""
    types = given.OF_TYPE
    mixtures = {
        **{f"gaussian-{t}": (fastem.GaussianMixture(3, covariance_type=t), ROWS) for t in types},
        **{
            f"bayesian-{t}": (
                fastem.BayesianGaussianMixture(n_components=4, covariance_type=t),
                ROWS,
            )
            for t in types
        },
        "one-component": (fastem.GaussianMixture(1), ROWS),
        "one-column": (fastem.GaussianMixture(2), ROWS[:, :1]),
        "mixture-of-mixtures": (
            fastem.Mixture(families.MixtureOf(families.Gaussian("diag"), 2), 2), ROWS
        ),
        **{f"product-{t}": (fastem.Mixture(product(t), 2), MIXED) for t in types},
        "poisson": (fastem.Mixture("poisson", 2), COUNTS),
        "multinomial": (fastem.Mixture("multinomial", 2), TRIALS),
    }  # fmt: skip
    chains = {
        **{f"hmm-{t}": (fastem.GaussianHMM(3, t), SERIES) for t in types},
        **{f"gmmhmm-{t}": (fastem.GMMHMM(2, 2, covariance_type=t), SERIES) for t in types},
        "poisson-hmm": (fastem.PoissonHMM(2), COUNTS.astype(int)),
        "categorical-hmm": (fastem.CategoricalHMM(2), SYMBOLS),
        "multinomial-hmm": (fastem.MultinomialHMM(2, 20), TRIALS),
        "product-chain": (fastem.HMM(product("diag"), 2), MIXED),
        "hmm-of-gamma": (fastem.HMM("gamma", 2), np.exp(SERIES)),
        "variational-gaussian": (fastem.VariationalGaussianHMM(2), SERIES),
        "variational-categorical": (fastem.VariationalCategoricalHMM(2), SYMBOLS),
        "one-state": (fastem.GaussianHMM(1), SERIES),
    }
    return mixtures, chains


MIXTURES, CHAINS = fitted()
BOTH = {**MIXTURES, **CHAINS}


def fit(estimator, X):
    settings = {"random_state": 0}
    if hasattr(estimator, "n_iter"):
        settings["n_iter"] = 5
    elif hasattr(estimator, "max_iter"):
        settings["max_iter"] = 20
    return copy.copy(estimator).set_params(**settings).fit(X)


def state_of(model):
    return pickle.dumps(vars(model))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", BOTH)
def test_all_that_has_components_is_drawn(name):
    estimator, X = BOTH[name]
    model = fit(estimator, X)
    before = state_of(model)
    is_gaussian = any(word in name for word in ("gaussian", "gmm", "hmm-full", "hmm-tied", "one-"))
    for function, given_to in (
        (plot.densities, {}), (plot.densities, {"X": X}), (plot.responsibilities, {"X": X}),
        (plot.matches, {"other": model}),
        *([(plot.components, {}), (plot.components, {"X": X})] if is_gaussian else []),
        *([(plot.states, {"X": X}), (plot.transitions, {})] if name in CHAINS else []),
        *([(plot.densities, {"X": X, "columns": (0, 1)})] if X.shape[1] > 1 else []),
    ):  # fmt: skip
        if name == "multinomial" and not given_to:
            # How many trials a row has is not known.
            with pytest.raises(ValueError, match="number of trials"):
                function(model)
            continue
        if "categorical" in name and function is plot.components:
            continue
        figure, ax = pyplot.subplots()
        assert function(model, **given_to, ax=ax) is ax
        figure.canvas.draw()
        pyplot.close(figure)
    figure, ax = pyplot.subplots()
    assert plot.learning_curves(model, ax=ax) is ax
    assert state_of(model) == before


@pytest.mark.parametrize("n_dim_obs", [1, 3])
def test_all_kalman_filters_are_drawn(n_dim_obs):
    X = np.cumsum(np.random.default_rng(0).standard_normal((60, n_dim_obs)), axis=0)
    X[20:25] = np.nan
    model = fastem.KalmanFilter(n_dim_state=2, max_iter=5, random_state=0)
    with pytest.warns():
        model.fit([X, X[:30]])
    before = state_of(model)
    for of in ("observations", "states"):
        for sequence in (0, 1):
            _, ax = pyplot.subplots()
            plot.bands(model, [X, X[:30]], of=of, sequence=sequence, steps=3, column=-1, ax=ax)
            assert len(ax.lines[0].get_xdata()) == (60, 30)[sequence]
    assert state_of(model) == before
    plot.bands(model, X, lengths=[40, 20], sequence=1, ax=ax)
    assert isinstance(plot.learning_curves(model), Axes)


def test_a_model_of_the_users_own_and_mixtures_of_models():
    from fastem.hmm import BaseHMM

    class Own(BaseHMM):
        def _compute_log_likelihood(self, X):
            return -((X[:, :1] - np.array([0.0, 4.0])) ** 2)

    own = Own(2)
    own.startprob_, own.transmat_ = np.array([0.5, 0.5]), np.array([[0.9, 0.1], [0.1, 0.9]])
    for ax in (plot.states(own, SERIES), plot.transitions(own), plot.responsibilities(own, SERIES)):
        assert isinstance(ax, Axes)
    with pytest.raises(TypeError, match="does not name"):
        plot.densities(own, SERIES)
    X = np.array([given.chain_data(30, seed) for seed in range(8)])
    both = fastem.MixtureOfModels(fastem.GaussianHMM(2, n_iter=3), 2, max_iter=3, random_state=0)
    with np.errstate(all="ignore"):
        both.fit(X)
    plot.responsibilities(both, X)
    ax = plot.matches(both, both)
    assert np.allclose(np.diag(ax.images[0].get_array()), 0, atol=1e-8)


def test_names_and_dates_of_tables_are_shown():
    pandas = pytest.importorskip("pandas")
    days = pandas.date_range("2024-01-01", periods=120)
    table = pandas.DataFrame(SERIES, columns=["wind", "waves"], index=days)
    model = fastem.GaussianHMM(2, random_state=0, n_iter=5).fit(table)
    ax = plot.states(model, table, column="waves")
    assert ax.get_ylabel() == "waves"
    times = np.asarray(ax.lines[0].get_xdata(orig=True), "datetime64[D]")
    assert np.array_equal(times, days.to_numpy().astype("datetime64[D]"))
    ax = plot.components(model, table, columns=("waves", "wind"), ax=pyplot.figure().gca())
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("waves", "wind")
    # Names are known from the fit, too.
    assert plot.densities(model, column="waves").get_xlabel() == "waves"


def test_missing_values_and_learners():
    series = SERIES.copy()
    series[10:20] = np.nan
    model = given.gaussian_hmm()
    plot.states(model, series)
    plot.densities(model, series, ax=pyplot.figure().gca())
    ax = plot.components(model, series, ax=pyplot.figure().gca())
    assert len(ax.collections[0].get_offsets()) == 110
    learner = fastem.GaussianMixture(2, random_state=0, drift_alarm=0.01)
    learner = learner.partial_fit(ROWS).learner()
    for row in ROWS:
        learner.learn_one(row)
    assert isinstance(plot.drift(learner), Axes)
    assert isinstance(plot.components(learner), Axes)


@pytest.mark.parametrize("detected", [False, True])
def test_drift_says_whether_there_was_an_alarm(detected):
    from fastem import drift

    model = given.with_attributes(
        given.gaussian_mixture(), drift_alarm=0.05, n_observations_=300.0,
        history_=[[100.0, 100.0, -1.0], [200.0, 100.0, -2.0], [300.0, 100.0, -3.0]],
        _drift={**drift.beginning(), "at": 200.0 if detected else None},
    )  # fmt: skip
    ax = plot.drift(model)
    labels = [text.get_text() for text in ax.get_legend().get_texts()]
    assert labels[1] == ("alarm at 200" if detected else "no alarm: evidence 0.5 of 20")
    assert [line.get_xdata()[0] for line in ax.lines[1:2] if detected] == [200.0] * detected


def test_columns_of_different_members_of_a_product_are_independent():
    from fastem.plot.fitted import parts_of
    from fastem.plot.marginals import joints, marginal

    both = families.Gaussian("diag")  # one object in two places
    model = fastem.Mixture(families.Product((both, 2), (both, 1)), 2, random_state=0)
    model.fit(np.column_stack([ROWS, ROWS[:, 0] ** 2]))
    parts = parts_of(model, "densities")
    x, y = np.array([0.5, 1.0]), np.array([2.0, 3.0])
    first, last = (marginal(parts, c).densities(v) for c, v in ((1, x), (2, y)))
    for k, joint in enumerate(joints(parts, 1, 2)):
        np.testing.assert_allclose(joint(x, y), first[k] * last[k], rtol=1e-12)


def test_names_are_no_formulas():
    names = ["price ($)", "a$b$"]
    model = given.with_attributes(
        given.gaussian_mixture(), feature_names_in_=np.array(names, dtype=object)
    )
    ax = plot.components(model, ROWS)
    for label, name in ((ax.xaxis.label, names[0]), (ax.yaxis.label, names[1])):
        assert label._preprocess_math(label.get_text()) == (name, False)
