"""What is drawn, read from the artists, beside what it must be."""

import given_models as given
import numpy as np
import pytest
from matplotlib import pyplot
from matplotlib.colors import to_rgb
from matplotlib.patches import Circle, Ellipse, FancyArrowPatch, Rectangle
from scipy import stats

import fastem
from fastem import families, plot
from fastem.plot.fitted import parts_of, state_shares
from fastem.plot.marginals import joints, marginal

X = given.mixture_data()


def ends_of(band):
    """The times of a band, and its lower and upper ends."""
    vertices = band.get_paths()[0].vertices
    times = np.unique(vertices[:, 0])
    return times, *np.array([
        [function(vertices[vertices[:, 0] == t, 1]) for t in times] for function in (min, max)
    ])  # fmt: skip


def line(ax, label):
    return next(line for line in ax.lines if line.get_label() == label)


# Components -------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [given.gaussian_mixture, given.gaussian_hmm])
@pytest.mark.parametrize("covariance_type", given.OF_TYPE)
@pytest.mark.parametrize("columns", [(0, 1), (1, 0)])
def test_ellipses_have_the_eigenvalues_of_the_covariances(make, covariance_type, columns):
    ax = plot.components(make(covariance_type), columns=columns, n_std=1.5)
    ellipses = [patch for patch in ax.patches if isinstance(patch, Ellipse)]
    expected = given.as_matrices(covariance_type)[:, columns][:, :, columns]
    by_color = {to_rgb(ellipse.get_edgecolor()): ellipse for ellipse in ellipses}
    assert len(by_color) == 3
    for k in range(3):
        ellipse = by_color[plot.color(k)]
        radii = np.array([ellipse.width, ellipse.height]) / 2 / 1.5
        angle = np.radians(ellipse.angle)
        turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
        assert np.allclose(turn @ np.diag(radii**2) @ turn.T, expected[k])
        assert np.allclose(np.sort(radii**2), np.linalg.eigvalsh(expected[k]))
        assert np.allclose(ellipse.center, given.MEANS[k, columns])


def test_two_deviations_of_a_plane_contain_the_right_share_of_the_data():
    """In two dimensions an ellipse of two deviations contains 1 - exp(-2) of its component."""
    model = given.with_attributes(
        fastem.Mixture("gaussian", 1), weights_=np.ones(1), means_=given.MEANS[:1],
        covariances_=given.COVARIANCES[:1], n_features_in_=2,
    )  # fmt: skip
    rng = np.random.default_rng(1)
    rows = rng.multivariate_normal(given.MEANS[0], given.COVARIANCES[0], 20_000)
    ax = plot.components(model, rows)
    inside = (
        ax.patches[0]
        .get_path()
        .contains_points(ax.patches[0].get_patch_transform().inverted().transform(rows))
    )
    assert abs(inside.mean() - (1 - np.exp(-2))) < 0.01
    # No more are drawn than can be told apart.
    assert len(ax.collections[0].get_offsets()) == 10_000


def test_rows_have_the_color_of_their_likeliest_component():
    model = given.gaussian_mixture()
    ax = plot.components(model, X)
    points = ax.collections[0]
    assert np.array_equal(points.get_offsets(), X)
    expected = [plot.color(k) for k in model.predict(X)]
    assert np.allclose(points.get_facecolor()[:, :3], expected)


def test_the_areas_of_dots_are_the_weights():
    ax = plot.components(given.gaussian_mixture())
    dots = ax.collections[-1]
    assert np.allclose(dots.get_sizes() / dots.get_sizes().sum(), given.WEIGHTS)
    # Of a chain, the shares of time in the long run.
    _, ax = pyplot.subplots()
    plot.components(given.gaussian_hmm(), ax=ax)
    sizes = ax.collections[-1].get_sizes()
    values, vectors = np.linalg.eig(given.TRANSMAT.T)
    stationary = np.abs(vectors[:, np.argmax(values.real)].real)
    assert np.allclose(sizes / sizes.sum(), stationary / stationary.sum())


def test_members_of_a_gmmhmm_have_the_color_of_their_state():
    means = np.arange(8.0).reshape(2, 2, 2)
    model = given.with_attributes(
        fastem.GMMHMM(2, 2, covariance_type="diag"), startprob_=np.array([0.5, 0.5]),
        transmat_=np.array([[0.9, 0.1], [0.1, 0.9]]), weights_=np.array([[0.8, 0.2], [0.4, 0.6]]),
        means_=means, covars_=np.arange(1.0, 9.0).reshape(2, 2, 2), n_features_in_=2,
    )  # fmt: skip
    ax = plot.components(model)
    found = {tuple(e.center): to_rgb(e.get_edgecolor()) for e in ax.patches}
    assert found == {tuple(means[k, m]): plot.color(k) for k in range(2) for m in range(2)}
    sizes = ax.collections[-1].get_sizes()
    assert np.allclose(sizes / sizes.sum(), [0.4, 0.1, 0.2, 0.3])


def test_colors_of_components_differ_and_stay():
    assert len({plot.color(k) for k in range(32)}) == 32
    for n in (1, 5, 30):
        _, ax = pyplot.subplots()
        model = given.with_attributes(
            fastem.Mixture("gaussian", n), weights_=np.full(n, 1 / n), n_features_in_=1,
            means_=np.arange(n)[:, None] * 1.0, covariances_=np.full((n, 1, 1), 0.1),
        )  # fmt: skip
        plot.components(model, ax=ax)
        drawn = ax.collections[-1].get_facecolor()[:, :3]
        assert np.allclose(drawn, [plot.color(k) for k in range(n)])


def test_intervals_of_one_column():
    ax = plot.components(given.gaussian_mixture(), X, columns=1)
    ends = np.array([drawn.get_xdata() for drawn in ax.lines])
    spread = 2 * np.sqrt(given.COVARIANCES[:, 1, 1])
    assert np.allclose(ends, np.stack([given.MEANS[:, 1] - spread, given.MEANS[:, 1] + spread], 1))


# Densities --------------------------------------------------------------------------------------


def mixtures_of_families():
    """A mixture of each family, and data of it."""
    P, rng = given.WEIGHTS, np.random.default_rng(0)
    shares = np.array([[0.7, 0.2, 0.1], [0.1, 0.6, 0.3], [0.2, 0.2, 0.6]])
    each = {
        "gaussian": ("gaussian", {"means": given.MEANS, "covariances": given.COVARIANCES}),
        "poisson": ("poisson", {"rates": np.array([[1.5, 8.0], [60.0, 2.0], [15.0, 15.0]])}),
        "bernoulli": ("bernoulli", {"probabilities": shares[:, :2]}),
        "exponential": ("exponential", {"scales": np.array([[1.0, 2], [5.0, 3], [9.0, 4]])}),
        "gamma": (
            "gamma",
            {"shapes": np.array([[2.0, 2], [5, 3], [9, 4]]), "scales": np.ones((3, 2))},
        ),
        "beta": (
            "beta",
            {"alphas": np.array([[2.0, 2], [5, 3], [9, 4]]), "betas": np.full((3, 2), 3.0)},
        ),
        "categorical": (families.Categorical(3), {"probabilities": np.stack([shares] * 2, 1)}),
        "multinomial": (families.Multinomial(20), {"probabilities": shares}),
        "dirichlet_multinomial": (families.DirichletMultinomial(20), {"alphas": 5 * shares}),
        "product": (
            families.Product((families.Poisson(), 1), (families.Gaussian("diag"), [1])),
            {"poisson_rates": np.array([[1.0], [9], [30]]), "gaussian_means": given.MEANS[:, 1:],
             "gaussian_covariances": np.array([[1.0], [2], [0.5]])},
        ),
    }  # fmt: skip
    for name, (family, parameters) in each.items():
        family_now = families.as_family(family)
        labels = rng.choice(3, 400, p=P)
        rows = np.asarray(family_now.draw(parameters, labels, rng), dtype=float)
        model = given.with_attributes(
            fastem.Mixture(family, 3), weights_=P, n_features_in_=rows.shape[1],
            **{f"{key}_": value for key, value in parameters.items()},
        )  # fmt: skip
        yield pytest.param(model, rows, id=name)


FAMILIES = list(mixtures_of_families())


@pytest.mark.parametrize("column", [0, 1])
@pytest.mark.parametrize("with_data", [False, True])
@pytest.mark.parametrize(("model", "rows"), FAMILIES)
def test_a_density_integrates_to_one_as_the_histogram_does(model, rows, with_data, column):
    ax = plot.densities(model, rows if with_data else None, column=column)
    x, y = line(ax, "all").get_data()
    parts = sum(line(ax, f"component {k}").get_ydata() for k in range(3))
    assert np.allclose(parts, y)
    whole = ax.get_ylabel() == "probability"
    total = y.sum() if whole else np.trapezoid(y, x)
    # Nearly all of each component is in sight.
    assert 0.99 < total < 1.002
    if not with_data:
        return
    if whole:
        width = ax.patches[0].get_width() / 0.9
        assert np.isclose(sum(bar.get_height() for bar in ax.patches) * width, 1)
    else:
        heights, edges, _ = ax.patches[0].get_data()
        assert np.isclose(heights @ np.diff(edges), 1)


@pytest.mark.parametrize(("model", "rows"), FAMILIES)
def test_marginal_and_joint_densities_agree(model, rows):
    """The sum or integral of the joint density over one column is the density of the other."""
    parts = parts_of(model, "densities")
    laws = [marginal(parts, c, rows) for c in range(2)]
    joint = joints(parts, 0, 1, rows)
    low, high = laws[1].quantiles([1e-6, 1 - 1e-6]).T
    grid = (
        np.arange(low.min(), high.max() + 1) if laws[1].whole
        else np.linspace(low.min(), high.max(), 4001)
    )  # fmt: skip
    for x in np.unique(laws[0].quantiles([0.3, 0.8])):
        expected = laws[0].densities([x])[:, 0]
        values = np.array([f(np.full(len(grid), x), grid) for f in joint])
        found = values.sum(1) if laws[1].whole else np.trapezoid(values, grid)
        assert np.allclose(found, expected, atol=2e-3 * expected.max())


@pytest.mark.parametrize(("model", "rows"), FAMILIES)
def test_marginal_densities_are_those_of_draws(model, rows):
    parts = parts_of(model, "densities")
    draws = parts.family.draw(parts.parameters, np.full(20_000, 1), np.random.default_rng(3))[:, 0]
    law = marginal(parts, 0, None)
    ((_, one),) = law.members[1]
    for level in (0.2, 0.5, 0.9):
        value = one.ppf(level)
        assert abs((draws <= value).mean() - one.cdf(value)) < 0.015


def test_a_density_is_that_of_the_model():
    """For data of one column the line is ``exp(score_samples)``."""
    model = given.with_attributes(
        fastem.Mixture("gaussian", 2), weights_=np.array([0.3, 0.7]), n_features_in_=1,
        means_=np.array([[0.0], [3.0]]), covariances_=np.array([[[1.0]], [[0.2]]]),
    )  # fmt: skip
    x, y = line(plot.densities(model), "all").get_data()
    assert np.allclose(y, np.exp(model.score_samples(x[:, None])))


def test_the_density_of_a_family_of_the_users_own():
    class Rayleigh(fastem.ExponentialFamily):
        def sufficient(self, X):
            return X**2

        def log_base(self, X):
            return np.log(X).sum(axis=1)

        def log_partition(self, natural):
            return -np.log(-2 * natural).sum(axis=1)

        def mean(self, natural):
            return -1 / natural

        def natural(self, mean):
            return -1 / mean

        def sample(self, natural, rng):
            return rng.rayleigh(np.sqrt(-0.5 / natural))

    model = given.with_attributes(
        fastem.Mixture(Rayleigh(), 2), weights_=np.array([0.5, 0.5]),
        natural_=np.array([[-0.5], [-0.5 / 81]]), n_features_in_=1,
    )  # fmt: skip
    x, y = line(plot.densities(model), "all").get_data()
    expected = 0.5 * stats.rayleigh.pdf(x) + 0.5 * stats.rayleigh.pdf(x, scale=9)
    assert np.allclose(y, expected)


def test_states_weigh_as_often_as_the_data_visit_them():
    model, series = given.gaussian_hmm(), given.chain_data()
    ax = plot.densities(model, series)
    x, _ = line(ax, "all").get_data()
    shares = [np.trapezoid(line(ax, f"state {k}").get_ydata(), x) for k in range(3)]
    assert np.allclose(shares, model.predict_proba(series).mean(axis=0), atol=5e-3)


def test_state_shares_of_chains_with_periods_and_ends():
    assert np.allclose(state_shares([1.0, 0.0], [[0.0, 1.0], [1.0, 0.0]]), 0.5)
    ends = np.array([[0.5, 0.25, 0.25], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    assert np.allclose(state_shares([1.0, 0.0, 0.0], ends), [0.0, 0.5, 0.5])


def test_responsibilities_fill_the_height():
    model = given.gaussian_mixture()
    ax = plot.responsibilities(model, X)
    labels = model.predict(X)
    # Along the middle line each component has as many rows as it is likeliest for.
    sure = model.predict_proba(X).max(axis=1) > 0.5
    for k, area in enumerate(ax.collections):
        at = np.arange(len(X)) + 0.5
        inside = area.get_paths()[0].contains_points(np.stack([at, np.full(len(X), 0.999)], 1))
        assert abs(inside.sum() - (labels[sure] == k).sum()) <= 0.1 * len(X)
    heights = np.zeros(len(X))
    for area in ax.collections:
        vertices = area.get_paths()[0].vertices
        heights[0] = max(heights[0], vertices[:, 1].max())
    assert np.isclose(heights[0], 1.0)


# Chains -----------------------------------------------------------------------------------------


def test_the_path_under_a_series_is_the_decoded_one():
    model, series = given.gaussian_hmm(), given.chain_data()
    ax = plot.states(model, series)
    path = model.predict(series)
    found = np.full(len(series), -1)
    for bars in ax.collections:
        for outline in bars.get_paths():
            low, high = outline.vertices[:, 1].min(), outline.vertices[:, 1].max()
            if low == 0.0 and high < 0.1:
                left, right = outline.vertices[:, 0].min(), outline.vertices[:, 0].max()
                state = [to_rgb(bars.get_facecolor()[0]) == plot.color(k) for k in range(3)]
                found[int(np.ceil(left)) : int(np.floor(right)) + 1] = state.index(True)
    assert np.array_equal(found, path)
    assert np.array_equal(ax.lines[0].get_ydata(), series[:, 0])


def test_the_ribbon_has_the_posterior_probabilities():
    model, series = given.gaussian_hmm(), given.chain_data()
    ax = plot.states(model, series)
    posteriors = model.predict_proba(series)
    areas = [
        path.get_paths()[0] for path in ax.collections
        if path.get_paths()[0].vertices[:, 1].min() > 0.05
    ]  # fmt: skip
    top = max(area.vertices[:, 1].max() for area in areas)
    bottom = min(area.vertices[:, 1].min() for area in areas)
    first = areas[0].vertices
    for t in (0, 77, 150):
        # The upper end of the first state's area, within the step.
        at = first[(first[:, 0] >= t - 0.5) & (first[:, 0] <= t + 0.5)]
        heights = (at[:, 1] - bottom) / (top - bottom)
        assert np.isclose(heights, posteriors[t, 0], atol=1e-6).any()


def test_a_sequence_of_several_and_its_times():
    model = given.gaussian_hmm()
    series = given.chain_data(120)
    dates = np.datetime64("2020-01-01") + np.arange(120)
    ax = plot.states(model, series, [50, 40, 30], sequence=1, column=1, times=dates)
    times, values = ax.lines[0].get_data(orig=True)
    assert np.array_equal(values, series[50:90, 1])
    assert np.array_equal(np.asarray(times, "datetime64[D]"), dates[50:90])
    _, ax = pyplot.subplots()
    plot.states(model, [series[:50], series[50:90], series[90:]], sequence=-1, ax=ax)
    assert np.array_equal(ax.lines[0].get_ydata(), series[90:, 0])


def test_arrows_are_the_likely_transitions():
    ax = plot.transitions(given.gaussian_hmm(), least=0.04)
    arrows = [patch for patch in ax.patches if isinstance(patch, FancyArrowPatch)]
    assert len(arrows) == (given.TRANSMAT >= 0.04).sum()
    texts = sorted(text.get_text() for text in ax.texts)
    expected = [f"{p:.2f}" for p in given.TRANSMAT[given.TRANSMAT >= 0.04]]
    assert texts == sorted(["0", "1", "2", *expected])
    states = [patch for patch in ax.patches if isinstance(patch, Circle)]
    assert [to_rgb(state.get_facecolor()) for state in states] == [plot.color(k) for k in range(3)]


# Kalman filters ---------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["smoothed", "filtered"])
@pytest.mark.parametrize("of", ["observations", "states"])
def test_bands_contain_what_is_simulated(kind, of):
    """New observations for those of observations, the states for those of states."""
    kf = given.kalman_filter()
    rng = np.random.default_rng(5)
    noise = np.linalg.cholesky(kf.observation_covariance)
    inside, n_steps, steps, column = [], 12, 4, 1
    for seed in range(250):
        states, seen = kf.sample(n_steps + steps, random_state=seed)
        seen = np.array(seen)
        seen[3:6, 1] = np.nan
        figure, ax = pyplot.subplots()
        plot.bands(
            kf, seen[:n_steps], kind=kind, of=of, steps=steps, column=column, level=0.8, ax=ax
        )
        lower, upper = np.empty((2, n_steps + steps))
        for band in reversed(ax.collections):
            times, low, high = ends_of(band)
            lower[times.astype(int)], upper[times.astype(int)] = low, high
        truth = states[:, column]
        if of == "observations":
            new = states @ np.array(kf.observation_matrices).T + kf.observation_offsets
            truth = (new + rng.standard_normal(new.shape) @ noise.T)[:, column]
        inside.append((lower <= truth) & (truth <= upper))
        pyplot.close(figure)
    inside = np.array(inside)
    assert abs(inside[:, :n_steps].mean() - 0.8) < 0.03
    assert abs(inside[:, n_steps:].mean() - 0.8) < 0.04
    assert np.all(np.abs(inside.mean(axis=0) - 0.8) < 0.1)


def test_a_band_is_wider_by_the_noise_of_observations():
    kf, level = given.local_level(), given.level_data()
    reach = stats.norm.ppf(0.975)
    means, covariances = kf.smooth(level)
    for of, noise in (("observations", 1.0), ("states", 0.0)):
        _, ax = pyplot.subplots()
        plot.bands(kf, level, of=of, ax=ax)
        _, low, high = ends_of(ax.collections[0])
        assert np.allclose(high - low, 2 * reach * np.sqrt(covariances[:, 0, 0] + noise))
        assert np.allclose(line(ax, "smoothed").get_ydata(), means[:, 0])


def test_a_forecast_is_that_of_the_filter():
    kf, (_, seen) = given.kalman_filter(), given.kalman_filter().sample(30, random_state=1)
    expected, spreads = kf.forecast(np.array(seen), 7)
    ax = plot.bands(kf, np.array(seen), steps=7, column=2, level=0.9)
    assert np.allclose(line(ax, "forecast").get_ydata()[1:], expected[:, 2])
    times, low, high = ends_of(ax.collections[1])
    assert np.array_equal(times, np.arange(29, 37))
    reach = stats.norm.ppf(0.95) * np.sqrt(spreads[:, 2, 2])
    assert np.allclose((high - low)[1:], 2 * reach)
    # Without observations it begins with the initial state.
    _, ax = pyplot.subplots()
    plot.bands(kf, steps=3, column=0, of="states", ax=ax)
    assert line(ax, "forecast").get_ydata()[0] == kf.initial_state_mean[0]


def test_systems_that_change_with_time():
    changing = fastem.KalmanFilter(
        np.ones((1, 1)), np.arange(1.0, 6.0).reshape(5, 1, 1), initial_state_mean=[2.0]
    )
    _, seen = changing.sample(5, random_state=0)
    ax = plot.bands(changing, np.array(seen))
    means, covariances = changing.smooth(np.array(seen))
    assert np.allclose(line(ax, "smoothed").get_ydata(), np.arange(1, 6) * means[:, 0])
    _, low, high = ends_of(ax.collections[0])
    spread = np.sqrt(np.arange(1, 6) ** 2 * covariances[:, 0, 0] + 1)
    assert np.allclose(high - low, 2 * stats.norm.ppf(0.975) * spread)
    with pytest.raises(ValueError, match="changes with time"):
        plot.bands(changing, np.array(seen), steps=2)


def test_dates_of_a_forecast_follow_the_calendar():
    pandas = pytest.importorskip("pandas")
    months = pandas.date_range("2020-01-01", periods=24, freq="MS")
    series = pandas.DataFrame({"sales": given.level_data(24)[:, 0]}, index=months)
    ax = plot.bands(given.local_level(), series, steps=3)
    times = np.asarray(line(ax, "forecast").get_xdata(orig=True), "datetime64[D]")
    wanted = ["2021-12-01", "2022-01-01", "2022-02-01", "2022-03-01"]
    assert times.astype(str).tolist() == wanted
    assert ax.get_ylabel() == "sales"
    quarters = pandas.period_range("2020Q1", periods=24, freq="Q")
    _, ax = pyplot.subplots()
    plot.bands(given.local_level(), series.to_numpy(), times=quarters, steps=1, ax=ax)
    last = np.asarray(line(ax, "forecast").get_xdata(orig=True), "datetime64[D]")[-1]
    assert str(last) == "2026-01-01"
    # Dates that were read from a file know of no calendar, but keep to one.
    series.index = pandas.DatetimeIndex(months.to_list())
    _, ax = pyplot.subplots()
    plot.bands(given.local_level(), series["sales"], steps=1, ax=ax)
    last = np.asarray(line(ax, "forecast").get_xdata(orig=True), "datetime64[D]")[-1]
    assert str(last) == "2022-01-01"


# Learning, sites --------------------------------------------------------------------------------


def test_learning_curves_are_over_passes_or_observations():
    rows = given.mixture_data(200)
    batch = fastem.GaussianMixture(3, random_state=0).fit(rows)
    online = fastem.GaussianMixture(3, random_state=0)
    for part in np.split(rows, 4):
        online.partial_fit(part)
    ax = plot.learning_curves(batch)
    assert np.array_equal(ax.lines[0].get_xdata(), np.arange(1, len(batch.lower_bounds_) + 1))
    assert np.array_equal(ax.lines[0].get_ydata(), batch.lower_bounds_)
    _, ax = pyplot.subplots()
    plot.learning_curves([batch, online], labels=["b", "o"], ax=ax)
    assert np.array_equal(line(ax, "o").get_data(), np.array(online.history_)[:, [0, 2]].T)
    assert np.array_equal(
        line(ax, "b").get_xdata(), 200.0 * np.arange(1, len(batch.lower_bounds_) + 1)
    )
    batch.partial_fit(rows[:50])
    _, ax = pyplot.subplots()
    plot.learning_curves({"then": batch}, ax=ax)
    x = line(ax, "then").get_xdata()
    assert (np.diff(x) > 0).all()
    assert x[-1] - x[-2] == 50


def test_curves_of_chains_are_means_over_sequences():
    series = given.chain_data(200)
    model = fastem.GaussianHMM(2, random_state=0, n_iter=5).fit(series, [50] * 4)
    ax = plot.learning_curves(model)
    assert np.allclose(ax.lines[0].get_ydata(), np.array(model.monitor_.history) / 4)


def test_the_matrix_of_divergences():
    models = [given.gaussian_mixture() for _ in range(3)]
    for number, model in enumerate(models):
        model.means_ = model.means_ + number
    ax = plot.divergences(models, labels=["x", "y", "z"])
    found = np.ma.filled(ax.images[0].get_array(), np.inf)
    expected = [[fastem.divergence(a, b) if a is not b else 0 for b in models] for a in models]
    assert np.allclose(found, expected)
    assert [text.get_text() for text in ax.get_yticklabels()] == ["x", "y", "z"]


def test_an_infinite_divergence_is_said():
    one, other = given.categorical_hmm(), given.categorical_hmm()
    for model in (one, other):
        model.lengths_ = fastem.Lengths([10])
    other.emissionprob_ = np.array([[1.0, 0.0, 0.0], [0.1, 0.1, 0.8]])
    other.transmat_ = np.eye(2)
    ax = plot.divergences([one, other])
    assert "∞" in [text.get_text() for text in ax.texts]


def test_matched_pairs_have_frames():
    one, other = given.gaussian_mixture(), given.gaussian_mixture()
    order = [2, 0, 1]
    other.weights_, other.means_ = other.weights_[order], other.means_[order] + 0.1
    other.covariances_ = other.covariances_[order]
    ax = plot.matches(one, other)
    frames = [patch for patch in ax.patches if isinstance(patch, Rectangle)]
    pairs = {(round(f.get_y() + 0.5), round(f.get_x() + 0.5)) for f in frames}
    assert pairs == {(k, order.index(k)) for k in range(3)}
    # The relative entropy of Gaussians, in closed form.
    P, Q = given.COVARIANCES[0], given.COVARIANCES[1]
    d = given.MEANS[1] + 0.1 - given.MEANS[0]
    inverse = np.linalg.inv(Q)
    expected = 0.5 * (
        np.trace(inverse @ P) + d @ inverse @ d - 2
        + np.log(np.linalg.det(Q) / np.linalg.det(P))
    )  # fmt: skip
    assert np.isclose(ax.images[0].get_array()[0, order.index(1)], expected)


def test_what_has_no_component_is_seen_on_dark_axes():
    def lines():
        model = given.gaussian_hmm()
        rows = given.chain_data(40)
        yield plot.states(model, rows, ax=pyplot.subplots()[1]).lines[0]
        yield plot.densities(model, rows, ax=pyplot.subplots()[1]).lines[-1]

    for line in lines():
        assert np.mean(to_rgb(line.get_color())) < 0.3
    with pyplot.style.context("dark_background"):
        for line in lines():
            assert np.mean(to_rgb(line.get_color())) > 0.7


def test_components_without_weight_are_not_in_the_legend():
    model = fastem.BayesianGaussianMixture(
        n_components=8, covariance_type="diag", weight_concentration_prior=1e-3, random_state=0
    ).fit(np.random.default_rng(0).normal(size=(200, 1)) + 9.0 * (np.arange(200) % 2)[:, None])
    _, names = plot.densities(model).get_legend_handles_labels()
    seen = np.flatnonzero(model.weights_ > 0.01)
    assert len(seen) < 8
    assert names == [*(f"component {k}" for k in seen), "all"]
