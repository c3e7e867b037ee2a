"""Components of mixtures and states of chains: ellipses, densities, responsibilities."""

from __future__ import annotations

from numbers import Real

import numpy as np

from ..data.sequences import as_sequences, is_sequence_stream
from ..hmm.custom import BaseHMM
from . import style
from .fitted import (
    CHAINS,
    WITH_COMPONENTS,
    WITH_RESPONSIBILITIES,
    check_columns,
    column_number,
    column_numbers,
    copied,
    gaussians,
    is_series,
    names_of,
    parts_of,
    responsibilities_of,
    state_shares,
)
from .marginals import joints, marginal

__all__ = ["components", "densities", "responsibilities"]

#: More rows than this are not told apart in a picture, and take long to draw.
_MOST_POINTS = 10_000
#: Up to so many components have an entry in a legend.
_MOST_IN_LEGEND = 10
#: Components of a lower weight, in shares of the largest, are empty: an outline shows where.
_ALMOST_NONE = 2e-3


def components(model, X=None, *, columns=(0, 1), n_std=2.0, lengths=None, ax=None):
    """The Gaussian components of a mixture, or the states of a chain, as ellipses over the data.

    An ellipse reaches ``n_std`` standard deviations from the mean of its component in every
    direction of the plane that is drawn. The area of the dot at a mean, and how dark the ellipse
    is, are the component's weight; a component of almost no weight is a dotted outline. Data of
    one column, or a single one of ``columns``, are drawn as intervals, one component above
    another.

    Parameters
    ----------
    model : estimator
        A fitted :class:`~fastem.GaussianMixture`, :class:`~fastem.BayesianGaussianMixture`,
        :class:`~fastem.GaussianHMM`, :class:`~fastem.GMMHMM`,
        :class:`~fastem.VariationalGaussianHMM`, or a :class:`~fastem.Mixture` or
        :class:`~fastem.HMM` of Gaussians, with covariances of any type.
    X : array-like, optional
        Data, as ``model.predict`` takes them. Each row has the color of its likeliest component.
        Of more than 10,000 rows as many are drawn, chosen at random.
    columns : tuple of two ints or str, default=(0, 1)
        The columns that are drawn, by their numbers or names.
    n_std : float, default=2.0
        How far the ellipses reach, in standard deviations.
    lengths : array-like of int, optional
        The lengths of the sequences in ``X``, for chains.
    ax : matplotlib.axes.Axes, optional
        Where to draw; by default the current axes.

    Returns
    -------
    matplotlib.axes.Axes

    Notes
    -----
    The weight of a state is the mean of its probability over the rows of ``X``; without data the
    share of time that the chain spends in it in the long run.

    Examples
    --------
    >>> import fastem
    >>> from fastem import plot
    >>> from sklearn.datasets import load_iris
    >>> X = load_iris(as_frame=True).data
    >>> model = fastem.GaussianMixture(3, random_state=0).fit(X)
    >>> ax = plot.components(model, X, columns=("petal length (cm)", "petal width (cm)"))
    """
    estimator = copied(model, WITH_COMPONENTS, "mixtures and hidden Markov models", "components")
    parts = parts_of(estimator, "components")
    found = gaussians(parts, "components")
    if not isinstance(n_std, Real) or not 0 < n_std < np.inf:
        raise ValueError(f"n_std must be a positive number; got {n_std!r}.")
    names = names_of(estimator, X, parts.n_columns)
    default = isinstance(columns, tuple) and columns == (0, 1)
    numbers = column_numbers((0,) if default and parts.n_columns == 1 else columns, names)
    ax = style.axes(ax)
    rows, labels, weights = _labeled(estimator, X, lengths, parts, "components")
    weights = weights[found.owners] * found.shares
    if len(numbers) == 1:
        _draw_intervals(ax, found, weights, numbers[0], n_std, rows, labels, parts.n_components)
        kind = "state" if parts.weights is None else "component"
        return style.finish(ax, names[numbers[0]], kind)
    if rows is not None:
        _draw_rows(ax, rows[:, numbers], labels)
    _draw_ellipses(ax, found, weights, numbers, n_std)
    return style.finish(ax, *(names[c] for c in numbers))


def _as_rows(estimator, X, lengths, parts, function):
    """Data as the estimator takes them, and their rows as an array."""
    if isinstance(estimator, CHAINS):
        if is_sequence_stream(X):
            raise ValueError(
                f"fastem.plot.{function} takes data as an array or a list of sequences; got a "
                "stream: draw a part of it."
            )
        if is_series(X):
            X = np.asarray(X)[:, None]
        X, lengths = estimator._as_read(X, lengths)
        return X, lengths, check_columns(as_sequences(X, lengths).X, parts.n_columns, function)
    if lengths is not None:
        raise ValueError(
            f"lengths are those of sequences, which {type(estimator).__name__} does not have: "
            "leave them out."
        )
    rows = check_columns(X, parts.n_columns, function)
    return (rows if is_series(X) else X), None, rows


def _labeled(estimator, X, lengths, parts, function):
    """The rows of X, the likeliest component of each, and the weights of the components."""
    if X is None:
        return None, None, _weights_without_data(parts)
    X, lengths, rows = _as_rows(estimator, X, lengths, parts, function)
    probabilities = responsibilities_of(estimator, X, lengths)
    labels = probabilities.argmax(axis=1)
    weights = probabilities.mean(axis=0) if parts.weights is None else parts.weights
    return rows, labels, weights


def _weights_without_data(parts):
    if parts.weights is not None:
        return parts.weights
    if parts.model.absorbing.any():
        usages = parts.model.usages()[0]
        return usages / usages.sum()
    return state_shares(parts.model.startprob, parts.model.transmat)


def _some(rows, labels):
    """Rows that are drawn, with their labels: without missing values, and not too many."""
    complete = np.isfinite(rows).all(axis=1)
    rows, labels = rows[complete], labels[complete]
    if len(rows) > _MOST_POINTS:
        chosen = np.random.default_rng(0).choice(len(rows), _MOST_POINTS, replace=False)
        rows, labels = rows[chosen], labels[chosen]
    return rows, labels


def _point_size(n):
    """Fewer points are larger."""
    return float(np.clip(2000.0 / max(n, 1), 3.0, 16.0))


def _draw_rows(ax, rows, labels):
    rows, labels = _some(rows, labels)
    shades = style.colors(int(labels.max()) + 1 if len(labels) else 0)
    ax.scatter(
        rows[:, 0], rows[:, 1], c=shades[labels], s=_point_size(len(rows)), alpha=0.55,
        linewidths=0, rasterized=len(rows) > 2000, zorder=1,
    )  # fmt: skip


def _darkness(weights):
    """From 0 to 1, of each weight beside the largest."""
    top = weights.max()
    return weights / top if top > 0 else np.zeros(len(weights))


def _draw_ellipses(ax, found, weights, numbers, n_std):
    from matplotlib.patches import Ellipse

    share = _darkness(weights)
    ends = []
    for i in np.argsort(weights, kind="stable")[::-1]:
        k, mean = found.owners[i], found.means[i, numbers]
        covariance = found.covariances[i][np.ix_(numbers, numbers)]
        values, vectors = np.linalg.eigh(covariance)
        radii = n_std * np.sqrt(np.maximum(values, 0.0))
        angle = np.degrees(np.arctan2(vectors[1, 1], vectors[0, 1]))
        shade = style.color(k)
        is_there = share[i] > _ALMOST_NONE
        ellipse = Ellipse(
            mean, 2 * radii[1], 2 * radii[0], angle=angle, zorder=2,
            facecolor=(*shade, 0.25 * share[i]), edgecolor=(*shade, 0.2 + 0.8 * np.sqrt(share[i])),
            linewidth=1.4 if is_there else 0.6, linestyle="-" if is_there else ":",
        )  # fmt: skip
        ax.add_patch(ellipse)
        reach = n_std * np.sqrt(np.maximum(np.diag(covariance), 0.0))
        ends += [mean - reach, mean + reach]
    ax.update_datalim(np.array(ends))
    ax.autoscale_view()
    _draw_means(ax, found, found.means[:, numbers], weights)


def _draw_means(ax, found, points, weights):
    """A dot for each component, of an area like its weight, and beside it its number."""
    from matplotlib.patheffects import withStroke

    share = _darkness(weights)
    seen = share > _ALMOST_NONE
    owners, points, areas = found.owners[seen], points[seen], 80.0 * share[seen]
    ax.scatter(
        points[:, 0], points[:, 1], s=areas, c=style.colors(owners.max() + 1)[owners],
        edgecolors="white", linewidths=0.8, zorder=3,
    )  # fmt: skip
    for k, point, area in zip(owners, points, areas, strict=True):
        text = ax.annotate(
            str(k), point, xytext=(0.5 * np.sqrt(area) + 2.0, 2.0),
            textcoords="offset points", fontsize="small", fontweight="bold", zorder=4,
            color=tuple(0.75 * part for part in style.color(k)), va="bottom",
        )  # fmt: skip
        text.set_path_effects([withStroke(linewidth=2.0, foreground="white")])


def _draw_intervals(ax, found, weights, column, n_std, rows, labels, n_components):
    """Components of one column: an interval about each mean, one above another."""
    share = _darkness(weights)
    spread = n_std * np.sqrt(found.covariances[:, column, column])
    points = np.stack([found.means[:, column], found.owners.astype(float)], axis=1)
    if rows is not None:
        rows, labels = _some(rows[:, [column]], labels)
        # So that equal values do not hide each other.
        shift = _shifts(len(rows), 1)[:, 0]
        ax.scatter(
            rows[:, 0], labels + shift, c=style.colors(n_components)[labels],
            s=_point_size(len(rows)), alpha=0.4, linewidths=0, zorder=1,
            rasterized=len(rows) > 2000,
        )  # fmt: skip
    for i, (k, (x, y)) in enumerate(zip(found.owners, points, strict=True)):
        ax.plot(
            [x - spread[i], x + spread[i]], [y, y], color=style.color(k), zorder=2,
            linewidth=1.5 + 3.0 * share[i], solid_capstyle="round",
        )  # fmt: skip
    ax.scatter(
        points[:, 0], points[:, 1], s=20.0 + 60.0 * share,
        c=style.colors(n_components)[found.owners], edgecolors="white", linewidths=1.0, zorder=3,
    )  # fmt: skip
    ax.set_ylim(-0.6, n_components - 0.4)
    _whole_ticks(ax.yaxis)


def _whole_ticks(axis):
    from matplotlib.ticker import MaxNLocator

    axis.set_major_locator(MaxNLocator(integer=True, nbins=12))


# Densities --------------------------------------------------------------------------------------


def densities(model, X=None, *, column=0, columns=None, bins=None, lengths=None, ax=None):
    """The density of a column, with the share of each component, over a histogram of the data.

    The shares of the components add up to the density of the model, which integrates to one, as
    the histogram does. Of counts and categories probabilities are drawn.

    Parameters
    ----------
    model : estimator
        A fitted mixture of any family, Bayesian or not, or a fitted hidden Markov model.
    X : array-like, optional
        Data, as ``model.predict`` takes them.
    column : int or str, default=0
        The column, by its number or name.
    columns : tuple of two ints or str, optional
        Two columns: contours of their joint density, over the rows of the data, in place of
        ``column``.
    bins : int, sequence or str, optional
        The bins of the histogram of a continuous column, as :func:`numpy.histogram_bin_edges`
        takes them. By default so many that several components are told apart: twice the root of
        the number of rows, and 100 at most.
    lengths : array-like of int, optional
        The lengths of the sequences in ``X``, for chains.
    ax : matplotlib.axes.Axes, optional
        Where to draw; by default the current axes.

    Returns
    -------
    matplotlib.axes.Axes

    Notes
    -----
    The weight of a state is the mean of its probability over the rows of ``X``; without data the
    share of time that the chain spends in it in the long run.

    Examples
    --------
    >>> import fastem
    >>> from fastem import plot
    >>> from sklearn.datasets import load_iris
    >>> X = load_iris(as_frame=True).data
    >>> model = fastem.GaussianMixture(3, random_state=0).fit(X)
    >>> ax = plot.densities(model, X, column="petal length (cm)")
    """
    estimator = copied(model, WITH_COMPONENTS, "mixtures and hidden Markov models", "densities")
    parts = parts_of(estimator, "densities")
    names = names_of(estimator, X, parts.n_columns)
    if columns is None:
        numbers = [column_number(column, names)]
    else:
        numbers = column_numbers(columns, names)
        if len(numbers) != 2:
            raise ValueError(f"columns must name two columns, or use column; got {columns!r}.")
    ax = style.axes(ax)
    rows, labels, weights = _labeled(estimator, X, lengths, parts, "densities")
    n_trials = getattr(estimator, "n_trials_", None)
    n_trials = getattr(estimator, "n_trials", None) if n_trials is None else n_trials
    if len(numbers) == 2:
        laws = [marginal(parts, c, rows, n_trials) for c in numbers]
        functions = joints(parts, *numbers, rows, n_trials)
        _draw_joint(ax, functions, laws, weights, numbers, rows, labels)
        return style.finish(ax, *(names[c] for c in numbers))
    law = marginal(parts, numbers[0], rows, n_trials)
    values = None
    if rows is not None:
        values = rows[:, numbers[0]]
        values = values[np.isfinite(values)]
    kind = "state" if parts.weights is None else "component"
    (_draw_probabilities if law.whole else _draw_density)(ax, law, weights, values, bins, kind)
    ax.set_ylim(bottom=0.0)
    return style.finish(ax, names[numbers[0]], "probability" if law.whole else "density")


def _in_sight(law, weights, values, tail=1e-3):
    """The ends of what is drawn: the data, and nearly all of each component that has a weight."""
    used = weights > 1e-3 * weights.max()
    shown = law._replace(members=[m for m, has in zip(law.members, used, strict=True) if has])
    ends = shown.quantiles([tail, 1 - tail])
    low, high = np.nanmin(ends[:, 0]), np.nanmax(ends[:, 1])
    if values is not None and len(values):
        low, high = min(low, values.min()), max(high, values.max())
    return float(low), float(high), shown


def _draw_density(ax, law, weights, values, bins, kind):
    low, high, shown = _in_sight(law, weights, values)
    grid = np.linspace(*style.limits_around(low, high, 0.02), 600)
    # Narrow components need points of their own.
    quantiles = shown.quantiles(np.linspace(1e-4, 1 - 1e-4, 101)).ravel()
    borders = shown.borders(1e-6 * (grid[-1] - grid[0]))
    borders = borders[(grid[0] <= borders) & (borders <= grid[-1])]
    grid = np.unique(np.concatenate([grid, quantiles[np.isfinite(quantiles)], borders]))
    parts = weights[:, None] * law.densities(grid)
    finite = np.isfinite(parts).all(axis=0)
    grid, parts = grid[finite], parts[:, finite]
    top = 0.0
    if values is not None and len(values):
        heights, edges = np.histogram(values, bins=_bins(values, bins), density=True)
        top = heights.max()
        ax.stairs(heights, edges, fill=True, color=style.GREY, alpha=0.35, label="data")
    _draw_curves(ax, grid, parts, kind, "-")
    total = parts.sum(axis=0)
    # A density can be infinite at an end of the support.
    usual = np.quantile(np.interp(np.linspace(grid[0], grid[-1], 600), grid, total), 0.99)
    if total.max() > 5 * max(usual, top):
        ax.set_ylim(0.0, 1.5 * max(usual, top))


def _bins(values, bins):
    if bins is None:
        bins = int(np.clip(2 * np.sqrt(len(values)), 5, 100))
    edges = np.histogram_bin_edges(values, bins=bins)
    # Few far values make very many bins, which would take long and show nothing.
    return edges if len(edges) <= 201 else np.linspace(edges[0], edges[-1], 201)


def _draw_probabilities(ax, law, weights, values, bins, kind):
    low, high, _ = _in_sight(law, weights, values)
    grid = np.arange(np.floor(low), np.ceil(high) + 1)
    parts = weights[:, None] * law.densities(grid)
    if values is not None and len(values):
        # Of many different counts, some at a time.
        width = max(1, int(np.ceil(len(grid) / 100)))
        edges = np.arange(grid[0] - 0.5, grid[-1] + 0.5 + width, width)
        heights = np.histogram(values, bins=edges)[0] / (len(values) * width)
        ax.bar(
            edges[:-1] + 0.5 * width, heights, 0.9 * width, color=style.GREY, alpha=0.35,
            label="data",
        )  # fmt: skip
    _draw_curves(ax, grid, parts, kind, "o-" if len(grid) <= 60 else "-")
    _whole_ticks(ax.xaxis)


def _draw_curves(ax, grid, parts, kind, marks):
    total = parts.sum(axis=0)
    # A curve that cannot be told from the axis needs no line of the legend.
    is_seen = parts.max(axis=1, initial=0.0) > _ALMOST_NONE * total.max(initial=0.0)
    is_named = is_seen if is_seen.sum() <= _MOST_IN_LEGEND else np.zeros(len(parts), bool)
    if len(parts) > 1:
        for k, part in enumerate(parts):
            shade = style.color(k)
            label = f"{kind} {k}" if is_named[k] else None
            ax.plot(grid, part, marks, color=shade, linewidth=1.3, markersize=3, label=label)
            ax.fill_between(grid, part, color=shade, alpha=0.15, linewidth=0)
    ax.plot(grid, total, marks, color=style.ink(ax), linewidth=1.6, markersize=3,
            label="all", zorder=3)  # fmt: skip
    ax.margins(x=0)
    handles, names = ax.get_legend_handles_labels()
    if len(names) > 1:
        # Bars come after lines otherwise.
        order = sorted(range(len(names)), key=lambda i: names[i] != "data")
        ax.legend(
            [handles[i] for i in order], [names[i] for i in order], frameon=False, fontsize="small"
        )


def _draw_joint(ax, functions, laws, weights, numbers, rows, labels):
    """Contours of the joint density; of counts, cells."""
    values = [None, None] if rows is None else [rows[:, c] for c in numbers]
    grids = []
    for law, column in zip(laws, values, strict=True):
        if column is not None:
            column = column[np.isfinite(column)]
        low, high, _ = _in_sight(law, weights, column)
        if law.whole:
            grids.append(_whole_grid(low, high))
        else:
            grids.append(np.linspace(*style.limits_around(low, high, 0.08), 161))
    x, y = np.meshgrid(*grids)
    total = sum(w * f(x, y) for w, f in zip(weights, functions, strict=True) if w > 0)
    total = np.where(np.isfinite(total), total, 0.0)
    if any(law.whole for law in laws):
        ax.pcolormesh(x, y, total, cmap="Blues", shading="nearest", zorder=0, rasterized=True)
        if rows is not None:
            _draw_shifted(ax, rows[:, numbers], labels, [law.whole for law in laws])
        return
    if rows is not None:
        _draw_rows(ax, rows[:, numbers], labels)
    ax.contour(x, y, total, levels=_levels(total), colors=style.ink(ax), linewidths=0.9, zorder=2)


def _whole_grid(low, high):
    step = max(1, int(np.ceil((high - low) / 200)))
    return np.arange(np.floor(low), np.ceil(high) + 1, step)


def _draw_shifted(ax, rows, labels, whole):
    """Rows of counts, moved a little so that equal ones do not hide each other."""
    _draw_rows(ax, rows + _shifts(len(rows), 2) * np.array(whole), labels)


def _shifts(n, n_columns):
    """Even shifts from -0.3 to 0.3, by multiples of irrational numbers: no chance is in them."""
    steps = np.array([0.7548776662466927, 0.5698402909980532])[:n_columns]
    return 0.6 * (np.arange(n)[:, None] * steps % 1.0) - 0.3


def _levels(density):
    """Heights whose contours contain 95, 80, ..., 10 percent of what is drawn."""
    falling = np.sort(density.ravel())[::-1]
    inside = np.cumsum(falling) / falling.sum()
    shares = [0.99, 0.95, 0.8, 0.6, 0.4, 0.2]
    return np.unique(falling[np.minimum(np.searchsorted(inside, shares), len(falling) - 1)])


# Responsibilities -------------------------------------------------------------------------------


def responsibilities(model, X, *, kind="areas", lengths=None, ax=None):
    """How sure the model is of the component of each row, with rows sorted by component.

    Rows of one component stand beside each other, those it is surest of first. Where one color
    fills the height, there is no doubt.

    Parameters
    ----------
    model : estimator
        A fitted mixture, of models too, or a fitted hidden Markov model.
    X : array-like
        Data, as ``model.predict_proba`` takes them.
    kind : {'areas', 'image'}, default='areas'
        Stacked areas in the colors of the components, or an image with a line for each component.
    lengths : array-like of int, optional
        The lengths of the sequences in ``X``.
    ax : matplotlib.axes.Axes, optional
        Where to draw; by default the current axes.

    Returns
    -------
    matplotlib.axes.Axes

    Notes
    -----
    Of more than 2000 rows, means over neighbors in this order are drawn.

    Examples
    --------
    >>> import fastem
    >>> from fastem import plot
    >>> from sklearn.datasets import load_iris
    >>> X = load_iris().data
    >>> model = fastem.GaussianMixture(3, random_state=0).fit(X)
    >>> ax = plot.responsibilities(model, X)
    """
    what = "mixtures and hidden Markov models"
    estimator = copied(model, WITH_RESPONSIBILITIES, what, "responsibilities")
    if kind not in ("areas", "image"):
        raise ValueError(f"kind must be 'areas' or 'image'; got {kind!r}.")
    if X is None:
        raise ValueError("fastem.plot.responsibilities needs the data X; got None.")
    ax = style.axes(ax)
    probabilities = responsibilities_of(estimator, X, lengths)
    n_rows, n_components = probabilities.shape
    labels = probabilities.argmax(axis=1)
    order = np.lexsort((-probabilities.max(axis=1), labels))
    means, edges = _in_groups(probabilities[order], 2000)
    chains = isinstance(estimator, BaseHMM)
    name = "state" if chains else "component"
    if kind == "image":
        ax.pcolormesh(
            edges, np.arange(n_components + 1) - 0.5, means.T, cmap="cividis", vmin=0.0, vmax=1.0,
            rasterized=True,
        )  # fmt: skip
        ax.set_ylim(n_components - 0.5, -0.5)
        _whole_ticks(ax.yaxis)
        return style.finish(ax, f"rows, sorted by {name}", name)
    _stack(ax, edges, means)
    ax.set_xlim(0, n_rows)
    ax.set_ylim(0, 1)
    _name_groups(ax, np.bincount(labels, minlength=n_components))
    return style.finish(ax, f"rows, sorted by {name}", "responsibility")


def _in_groups(rows, most):
    """Means of neighboring rows, in ``most`` groups at most, and the edges of the groups."""
    n = len(rows)
    edges = np.unique(np.linspace(0, n, min(n, most) + 1).round().astype(int))
    sums = np.add.reduceat(rows, edges[:-1], axis=0)
    return sums / np.diff(edges)[:, None], edges


def _stack(ax, edges, shares, bottom=0.0, height=1.0, **given):
    """Stacked areas of shares that are constant between edges."""
    base = np.full(len(shares), bottom)
    for k in range(shares.shape[1]):
        top = base + height * shares[:, k]
        if shares[:, k].max() > 1e-3:
            ax.fill_between(
                edges, np.append(base, base[-1]), np.append(top, top[-1]), step="post",
                color=style.color(k), linewidth=0, **given,
            )  # fmt: skip
        base = top


def _name_groups(ax, counts):
    """The number of each component in the middle of its rows, where there is room."""
    end = np.cumsum(counts)
    for k, count in enumerate(counts):
        if count > 0.025 * counts.sum():
            shade = style.color(k)
            ax.text(
                end[k] - 0.5 * count, 0.5, str(k), ha="center", va="center", fontweight="bold",
                color=style.text_color(shade), clip_on=True,
            )  # fmt: skip
