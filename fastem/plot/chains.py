"""Hidden Markov models: the states along a series, and the graph of transitions."""

from __future__ import annotations

from itertools import pairwise
from numbers import Integral, Real

import numpy as np

from ..data.sequences import as_sequences, is_sequence_stream
from . import style
from .fitted import CHAINS, column_number, copied, is_series, names_of, state_shares

__all__ = ["states", "transitions"]

#: Up to so many states have an entry in a legend.
_MOST_IN_LEGEND = 10
#: The heights of the decoded path and of the probabilities, in shares of the axes, and the gap.
_PATH, _RIBBON, _GAP = 0.07, 0.16, 0.025
#: Up to so many arrows have their probability written beside them.
_MOST_LABELS = 40


def states(model, X, lengths=None, *, sequence=0, column=0, times=None, ax=None):
    """A series, with the probabilities of the states and the likeliest path under it.

    Parameters
    ----------
    model : estimator
        A fitted hidden Markov model of any kind.
    X : array-like
        Data, as ``model.predict`` takes them: an array, with ``lengths`` if it has several
        sequences, or a list of sequences. NaN is missing.
    lengths : array-like of int, optional
        The lengths of the sequences.
    sequence : int, default=0
        Which sequence is drawn.
    column : int or str, default=0
        Which column is drawn, by its number or name.
    times : array-like, optional
        The times of the steps of the sequence, or of all rows: numbers or dates. By default the
        index of a pandas table with an index of dates, or the number of the step.
    ax : matplotlib.axes.Axes, optional
        Where to draw; by default the current axes.

    Returns
    -------
    matplotlib.axes.Axes
        The series has the scale of the axes; probabilities and path lie in their lower part.

    Examples
    --------
    >>> import numpy as np
    >>> import fastem
    >>> from fastem import plot
    >>> rng = np.random.default_rng(0)
    >>> returns = rng.normal(0, np.repeat([1.0, 3.0, 1.0], 100)).reshape(-1, 1)
    >>> model = fastem.GaussianHMM(2, random_state=0, n_iter=50).fit(returns)
    >>> ax = plot.states(model, returns)
    """
    estimator = copied(model, CHAINS, "hidden Markov models", "states")
    table, first, last = one_sequence(estimator, X, lengths, sequence, "states")
    names = names_of(estimator, X, table.X.shape[1])
    column = column_number(column, names)
    series = np.asarray(table.X, dtype=float)[first:last, column]
    given, times = times, times_of(times, X, first, last, len(table.X))
    _, path = estimator.decode(table.X, table.lengths)
    posteriors = estimator.predict_proba(table.X, table.lengths)[first:last]
    ax = style.axes(ax)
    _draw_series(ax, times, series, _has_categories(estimator))
    # In the units of the axis, which is one of dates now if times are dates.
    edges = np.asarray(ax.convert_xunits(_edges(times)), dtype=float)
    _draw_ribbon(ax, edges, posteriors)
    labeled = _draw_path(ax, edges, path[first:last])
    _make_room(ax, series, _legend(ax, path[first:last], labeled))
    ax.set_xlim(edges[0], edges[-1])
    if times.dtype.kind == "M":
        style.show_dates(ax)
    return style.finish(ax, name_of_times(given, times), names[column])


def one_sequence(estimator, X, lengths, sequence, function):
    """All sequences as a table, and the first row of one of them and the row after its last."""
    if X is None:
        raise ValueError(f"fastem.plot.{function} needs the data X; got None.")
    if is_sequence_stream(X):
        raise ValueError(
            f"fastem.plot.{function} takes data as an array or a list of sequences; got a stream: "
            "draw one of its sequences."
        )
    if is_series(X):
        X = np.asarray(X)[:, None]
    if hasattr(estimator, "_as_read"):
        X, lengths = estimator._as_read(X, lengths)
    table = as_sequences(X, lengths)
    return (table, *bounds_of(table, sequence))


def bounds_of(table, sequence):
    """The first row of a sequence, and the row after its last."""
    n = len(table)
    if not isinstance(sequence, Integral) or isinstance(sequence, bool) or not -n <= sequence < n:
        raise ValueError(
            f"sequence must be a whole number below {n}, the number of sequences; got "
            f"{sequence!r}. Sequences are counted from 0."
        )
    first, last = table.bounds[sequence % n], table.bounds[sequence % n + 1]
    return int(first), int(last)


def times_of(times, X, first, last, n_rows):
    """The times of the steps of one sequence, as numbers or dates."""
    n_steps = last - first
    if times is None:
        index = getattr(X, "index", None)
        if index is None or callable(index) or not hasattr(index, "to_numpy"):
            return np.arange(n_steps)
        times = np.asarray(calendar_of(index))
        if times.dtype.kind not in "iufM":
            return np.arange(n_steps)
    times = np.asarray(calendar_of(times))
    if times.dtype == object:
        try:
            times = times.astype("datetime64[us]")
        except (TypeError, ValueError):
            raise ValueError(
                f"times must be numbers or dates; got {type(times.flat[0]).__name__}."
            ) from None
    if times.ndim != 1 or len(times) not in (n_steps, n_rows):
        raise ValueError(
            f"times must be one for each of the {n_steps} steps of the sequence, or of the "
            f"{n_rows} rows of the data; got the shape {times.shape}."
        )
    if times.dtype.kind not in "iufM":
        raise ValueError(f"times must be numbers or dates; got {times.dtype}.")
    return times if len(times) == n_steps else times[first:last]


def name_of_times(given, times) -> str:
    """The label of the axis of times: the name that was given; dates need none."""
    name = getattr(given, "name", None)
    if isinstance(name, str):
        return name
    return "" if times.dtype.kind == "M" else "step" if given is None else "time"


def calendar_of(times):
    """The values of a pandas index or column, periods as the dates on which they begin."""
    times = getattr(times, "array", times)
    if hasattr(times, "to_timestamp"):
        times = times.to_timestamp()
    # In the time of the place, as it was given.
    return times if getattr(times, "tz", None) is None else times.tz_localize(None)


def _edges(times):
    """The borders between steps, half way from each to the next."""
    if len(times) == 1:
        half = np.timedelta64(12, "h") if times.dtype.kind == "M" else 0.5
        return np.array([times[0] - half, times[0] + half])
    if times.dtype.kind == "M":
        times = times.astype("datetime64[us]")
        halves = np.diff(times) // 2
    else:
        times = times.astype(float)
        halves = np.diff(times) / 2
    inner = times[:-1] + halves
    return np.concatenate([times[:1] - halves[:1], inner, times[-1:] + halves[-1:]])


def _has_categories(estimator):
    """Whether values are names, between which no line leads."""
    if not hasattr(estimator, "_learned_model"):
        return False
    return estimator._learned_model().family.indexes


def _draw_series(ax, times, series, categories):
    n = len(series)
    if categories:
        size = float(np.clip(600.0 / n, 1.0, 3.0))
        ax.plot(
            times, series, "o", color=style.ink(ax), markersize=size, markeredgewidth=0, zorder=2
        )
        return
    few = n <= 150
    ax.plot(
        times, series, color=style.ink(ax), linewidth=0.9, markersize=3, zorder=2,
        marker="o" if few else None,
    )  # fmt: skip
    if not few:
        # A value between missing ones has no line.
        missing = np.isnan(series)
        before = np.concatenate([[True], missing[:-1]])
        after = np.concatenate([missing[1:], [True]])
        alone = ~missing & before & after
        ax.plot(times[alone], series[alone], ".", color=style.ink(ax), markersize=2, zorder=2)


def _draw_ribbon(ax, edges, posteriors):
    """Stacked probabilities, in shares of the axes."""
    across = ax.get_xaxis_transform()
    base = np.full(len(posteriors), _PATH + _GAP)
    for k in range(posteriors.shape[1]):
        top = base + _RIBBON * posteriors[:, k]
        if posteriors[:, k].max() > 1e-3:
            ax.fill_between(
                edges, np.append(base, base[-1]), np.append(top, top[-1]), step="post",
                color=style.color(k), linewidth=0, transform=across, zorder=1,
            )  # fmt: skip
        base = top


def _draw_path(ax, edges, path):
    """A bar for each run of the decoded path; returns the states whose number is written there."""
    across = ax.get_xaxis_transform()
    starts = np.flatnonzero(np.concatenate([[True], path[1:] != path[:-1]]))
    lefts, rights = edges[starts], edges[np.append(starts[1:], len(path))]
    runs = path[starts]
    for k in np.unique(runs):
        mine = runs == k
        ax.broken_barh(
            np.stack([lefts[mine], (rights - lefts)[mine]], axis=1), (0.0, _PATH),
            color=style.color(k), linewidth=0, transform=across, zorder=1,
        )  # fmt: skip
    long = rights - lefts >= 0.03 * (edges[-1] - edges[0])
    for k, left, right in zip(runs[long], lefts[long], rights[long], strict=True):
        ax.text(
            0.5 * (left + right), 0.5 * _PATH, str(k), transform=across, ha="center",
            va="center", fontsize="small", color=style.text_color(style.color(k)), clip_on=True,
        )  # fmt: skip
    return set(runs[long].tolist())


def _legend(ax, path, labeled):
    """A legend, if some state has no number in the path; returns how many lines it has."""
    from matplotlib.patches import Patch

    present = np.unique(path).tolist()
    if set(present) <= labeled or not 1 < len(present) <= _MOST_IN_LEGEND:
        return 0
    n_lines = 1 if len(present) <= 5 else 2
    handles = [Patch(color=style.color(k), label=f"state {k}") for k in present]
    ax.legend(
        handles=handles, loc="upper center", ncols=-(-len(present) // n_lines), frameon=False,
        fontsize="small", handlelength=1.0, columnspacing=1.2, borderaxespad=0.2,
    )  # fmt: skip
    return n_lines


def _make_room(ax, series, n_lines):
    """Let the series keep to the part of the axes above the ribbon, and below a legend."""
    from matplotlib.ticker import MaxNLocator

    seen = series[np.isfinite(series)]
    low, high = (seen.min(), seen.max()) if len(seen) else (0.0, 1.0)
    whole = bool((seen == np.floor(seen)).all())
    low, high = style.limits_around(low, high, 0.04)
    below = _PATH + _RIBBON + 2 * _GAP
    above = 0.085 * n_lines
    unit = (high - low) / (1.0 - below - above)
    ax.set_ylim(low - below * unit, high + above * unit)
    ticks = MaxNLocator(6, integer=whole).tick_values(low, high)
    ax.set_yticks([tick for tick in ticks if low <= tick <= high])
    for y, text in ((0.5 * _PATH, "path"), (_PATH + _GAP + 0.5 * _RIBBON, "P(state)")):
        ax.annotate(
            text, (0.0, y), xycoords="axes fraction", xytext=(-4, 0), textcoords="offset points",
            ha="right", va="center", fontsize="x-small", color=style.ink(ax),
        )  # fmt: skip


# Transitions ------------------------------------------------------------------------------------


def transitions(model, *, labels=None, least=0.01, ax=None):
    """The graph of transitions: an arrow for each that is likely enough.

    The area of a state is the share of time that the chain spends in it in the long run; the width
    of an arrow is its probability, which is written beside it if there are not too many.

    Parameters
    ----------
    model : estimator
        A fitted hidden Markov model of any kind.
    labels : sequence of str, optional
        The names of the states; by default their numbers.
    least : float, default=0.01
        Transitions of lower probability are left away.
    ax : matplotlib.axes.Axes, optional
        Where to draw; by default the current axes.

    Returns
    -------
    matplotlib.axes.Axes

    Examples
    --------
    >>> import numpy as np
    >>> import fastem
    >>> from fastem import plot
    >>> rng = np.random.default_rng(0)
    >>> returns = rng.normal(0, np.repeat([1.0, 3.0, 1.0], 100)).reshape(-1, 1)
    >>> model = fastem.GaussianHMM(2, random_state=0, n_iter=50).fit(returns)
    >>> ax = plot.transitions(model, labels=["calm", "turbulent"])
    """
    estimator = copied(model, CHAINS, "hidden Markov models", "transitions")
    if not isinstance(least, Real) or not 0 <= least <= 1:
        raise ValueError(f"least must be a probability, from 0 to 1; got {least!r}.")
    transmat = np.asarray(estimator.transmat_, dtype=float)
    n = len(transmat)
    if labels is None:
        labels = [str(k) for k in range(n)]
    labels = [str(label) for label in labels]
    if len(labels) != n:
        raise ValueError(f"There must be a label for each of the {n} states; got {len(labels)}.")
    ax = style.axes(ax)
    from matplotlib.path import Path

    shares = state_shares(np.asarray(estimator.startprob_, dtype=float), transmat)
    points, radii = _places(n, shares)
    drawn = [(i, j) for i in range(n) for j in range(n) if transmat[i, j] >= max(least, 1e-12)]
    # Where something is: no label should hide it, or be hidden.
    taken, ends = list(points), [points - radii[:, None], points + radii[:, None]]
    for i, j in sorted(drawn, key=lambda pair: pair[0] != pair[1]):
        if i == j:
            curve = _loop(points[i], radii[i])
            path, places = Path(curve, [1, 4, 4, 4]), [_top_of_loop(curve)]
            ends.append(_on_curve(curve, np.linspace(0, 1, 21)))
        else:
            curve = _bow(points, radii, i, j)
            path, places = Path(curve, [1, 3, 3]), _on_curve(curve, np.linspace(0.25, 0.65, 9))
        _draw_arrow(ax, path, style.color(i), transmat[i, j])
        if len(drawn) <= _MOST_LABELS:
            at = _free_place(places, taken)
            taken.append(at)
            ends.append(at[None])
            _write_probability(ax, at, transmat[i, j], style.color(i))
    _draw_states(ax, points, radii, labels)
    ends = np.concatenate(ends)
    ax.set_xlim(ends[:, 0].min() - 0.15, ends[:, 0].max() + 0.15)
    ax.set_ylim(ends[:, 1].min() - 0.12, ends[:, 1].max() + 0.12)
    ax.set_aspect("equal")
    ax.set_axis_off()
    return ax


def _places(n, shares):
    """Where states are, on a circle from the top clockwise, and how large."""
    if n == 1:
        return np.zeros((1, 2)), np.array([0.3])
    angles = 0.5 * np.pi - 2 * np.pi * np.arange(n) / n
    if n == 2:
        angles = np.array([np.pi, 0.0])
    # As large as neighbors leave room for.
    largest = min(0.3, 0.33 * 2 * np.sin(np.pi / n))
    radii = largest * np.sqrt(0.3 + 0.7 * shares / shares.max())
    return np.stack([np.cos(angles), np.sin(angles)], axis=1), radii


def _width(probability):
    return 0.6 + 3.4 * probability


def _draw_arrow(ax, path, shade, probability):
    from matplotlib.patches import FancyArrowPatch

    arrow = FancyArrowPatch(
        path=path, arrowstyle="-|>", mutation_scale=8 + 6 * probability, color=shade,
        linewidth=_width(probability), alpha=0.85, zorder=1, joinstyle="miter", capstyle="butt",
    )  # fmt: skip
    ax.add_patch(arrow)


def _bow(points, radii, i, j):
    """The points of a quadratic curve from one state to another; the one back is beside it."""
    start, end = points[i], points[j]
    along = end - start
    length = np.hypot(*along)
    across = np.array([along[1], -along[0]]) / length
    middle = 0.5 * (start + end) - 0.18 * length * across
    return np.array([
        _on_rim(start, middle, radii[i]), middle, _on_rim(end, middle, radii[j] + 0.02)
    ])  # fmt: skip


def _on_rim(center, toward, radius):
    direction = toward - center
    return center + radius * direction / np.hypot(*direction)


def _loop(center, radius):
    """The points of a cubic curve from a state to itself, on its outer side."""
    outward = center / np.hypot(*center) if np.any(center) else np.array([0.0, 1.0])
    side = np.array([-outward[1], outward[0]])
    size, angle = max(radius, 0.12), 0.45

    def on_rim(sign, radius):
        return center + radius * (np.cos(angle) * outward + sign * np.sin(angle) * side)

    far = [center + (radius + 1.5 * size) * outward + sign * 1.1 * size * side for sign in (1, -1)]
    return np.array([on_rim(1, radius), *far, on_rim(-1, radius + 0.02)])


def _on_curve(curve, t):
    """Points of a quadratic or cubic curve, (len(t), 2)."""
    t = np.asarray(t)[:, None]
    while len(curve) > 1:
        # De Casteljau: between neighbors, again and again.
        curve = [(1 - t) * one + t * two for one, two in pairwise(curve)]
    return curve[0]


def _top_of_loop(curve):
    """A little beyond the outermost point of a loop."""
    inner, outer = 0.5 * (curve[0] + curve[3]), _on_curve(curve, [0.5])[0]
    # A number is wider than high.
    return outer + np.array([0.19, 0.11]) * (outer - inner) / np.hypot(*(outer - inner))


def _free_place(places, taken):
    """The place farthest from all that is there; of equally good ones the first."""
    distances = np.hypot(*(np.asarray(places)[:, None] - np.array(taken)[None]).T).min(axis=0)
    return places[int(np.argmax(np.minimum(distances, 0.35).round(6)))]


def _write_probability(ax, at, probability, shade):
    text = f"{probability:.2f}" if probability < 0.995 or probability == 1.0 else ">0.99"
    ax.text(
        *at, text, ha="center", va="center", fontsize="small", zorder=4,
        color=tuple(0.65 * part for part in shade),
        bbox={"boxstyle": "round,pad=0.12", "facecolor": "white", "edgecolor": "none",
              "alpha": 0.8},
    )  # fmt: skip


def _draw_states(ax, points, radii, labels):
    from matplotlib.colors import to_rgba
    from matplotlib.patches import Circle
    from matplotlib.patheffects import withStroke

    for k, (point, radius, label) in enumerate(zip(points, radii, labels, strict=True)):
        shade = style.color(k)
        ax.add_patch(
            Circle(point, radius, facecolor=shade, edgecolor="white", linewidth=1.5, zorder=3)
        )
        fits = len(label) * 0.075 < 2 * radius
        text = ax.text(
            *point, label, ha="center", va="center", zorder=5, fontweight="bold",
            fontsize="medium" if fits else "small",
            color=style.text_color(shade) if fits else style.ink(ax),
        )  # fmt: skip
        if not fits:
            halo = style.text_color(to_rgba(style.ink(ax)))
            text.set_path_effects([withStroke(linewidth=3.0, foreground=halo)])
