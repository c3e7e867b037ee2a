"""Kalman filters: filtered, smoothed and forecast means with their bands."""

from __future__ import annotations

import warnings
from numbers import Integral, Real

import numpy as np

from ..kalman import KalmanFilter
from ..kalman.checks import at_times, check_constant, check_times
from . import style
from .chains import bounds_of, calendar_of, name_of_times, times_of
from .fitted import column_number, copied, names_of

__all__ = ["bands"]


def bands(
    model, X=None, *, kind="smoothed", steps=0, column=0, level=0.95, sequence=0, times=None,
    of="observations", lengths=None, ax=None,
):  # fmt: skip
    """The mean of a series and its uncertainty by a Kalman filter, with a forecast.

    Parameters
    ----------
    model : KalmanFilter
        Fitted, or with given parameters.
    X : array-like, optional
        The observations, as ``model.smooth`` takes them; NaN is missing. Without them, a forecast
        of ``steps`` steps from the beginning is drawn.
    kind : {'smoothed', 'filtered'}, default='smoothed'
        What is known at each step: given all observations, or given those up to it.
    steps : int, default=0
        How many steps after the last are forecast.
    column : int or str, default=0
        Which coordinate of the observations is drawn, or of the states.
    level : float, default=0.95
        The probability that the band contains the observation, or the state, of a step.
    sequence : int, default=0
        Which of several sequences is drawn.
    times : array-like, optional
        The times of the steps, numbers or dates; with those of the forecast, or without them. By
        default the index of a pandas table, or the number of the step. Times of a forecast that
        are not given continue at the last distances.
    of : {'observations', 'states'}, default='observations'
        What the mean and the band are of. Bands of observations contain the observation noise, as
        a new observation would have it; those of states do not.
    lengths : array-like of int, optional
        The lengths of the sequences in ``X``.
    ax : matplotlib.axes.Axes, optional
        Where to draw; by default the current axes.

    Returns
    -------
    matplotlib.axes.Axes

    Examples
    --------
    The flow of the Nile, as a level that moves at random, with a forecast of ten years:

    >>> import fastem
    >>> from fastem import plot
    >>> from statsmodels.datasets import nile
    >>> flow = nile.load_pandas().data
    >>> level = fastem.KalmanFilter(
    ...     transition_matrices=[[1]], observation_matrices=[[1]], transition_covariance=[[1469]],
    ...     observation_covariance=[[15099]], initial_state_mean=[1120],
    ...     initial_state_covariance=[[30000]],
    ... )
    >>> ax = plot.bands(level, flow["volume"], times=flow["year"], steps=10)
    """
    estimator = copied(model, (KalmanFilter,), "Kalman filters", "bands")
    if kind not in ("smoothed", "filtered"):
        raise ValueError(f"kind must be 'smoothed' or 'filtered'; got {kind!r}.")
    if of not in ("observations", "states"):
        raise ValueError(f"of must be 'observations' or 'states'; got {of!r}.")
    if not isinstance(steps, Integral) or isinstance(steps, bool) or steps < 0:
        raise ValueError(f"steps must be a whole number, 0 or more; got {steps!r}.")
    if not isinstance(level, Real) or not 0 < level < 1:
        raise ValueError(f"level must be a probability between 0 and 1; got {level!r}.")
    if X is None and steps == 0:
        raise ValueError("There is nothing to draw: pass observations X, or steps to forecast.")
    found = _inferred(estimator, X, lengths, sequence, kind, steps)
    system = found.model
    names = (
        names_of(estimator, X, system.C.shape[-2])
        if of == "observations"
        else [f"state {d}" for d in range(system.A.shape[-1])]
    )
    column = column_number(column, names)
    means, variances = found.of(of, column)
    n_seen = len(found.rows)
    given, times = times, _times(times, X, found, steps)
    ax = style.axes(ax)
    _draw(ax, times, means, np.sqrt(variances), n_seen, level, kind)
    if of == "observations" and n_seen:
        ax.plot(
            times[:n_seen], found.rows[:, column], "o", color=style.ink(ax), markeredgewidth=0,
            markersize=float(np.clip(80.0 / np.sqrt(n_seen), 1.5, 4.0)), label="observed", zorder=3,
        )  # fmt: skip
    ax.margins(x=0.01)
    ax.legend(frameon=False, fontsize="small")
    label = names[column] if of == "states" or not names[column].startswith("column ") else (
        "observation" if len(names) == 1 else f"observation {column}"
    )  # fmt: skip
    if times.dtype.kind == "M":
        style.show_dates(ax)
    return style.finish(ax, name_of_times(given, times), label)


class _Found:
    """Means and covariances of the states, of the steps of one sequence and of those forecast."""

    def __init__(self, model, rows, bounds, n_rows, means, covariances):
        self.model, self.rows, self.bounds, self.n_rows = model, rows, bounds, n_rows
        self.means, self.covariances = means, covariances

    def of(self, what, column):
        """The mean and the variance at each step, of a coordinate of the states or observations."""
        if what == "states":
            return self.means[:, column], self.covariances[:, column, column]
        # What changes with time was refused for forecasts.
        steps = np.arange(len(self.means))
        C, c, R = (
            at_times(f"observation_{name}", self.model.parameters[f"observation_{name}"], steps)
            for name in ("matrices", "offsets", "covariance")
        )
        rows = C[:, column]
        means = np.einsum("td,td->t", rows, self.means) + c[:, column]
        variances = np.einsum("td,tde,te->t", rows, self.covariances, rows)
        return means, variances + R[:, column, column]


def _inferred(estimator, X, lengths, sequence, kind, steps):
    """The states given the observations, and the forecast."""
    if X is None:
        model = estimator._inferring_model(estimator._n_columns())
        check_constant(model.parameters)
        rows, bounds, n_rows = np.empty((0, model.C.shape[-2])), (0, 0), 0
        means, covariances = np.empty((0, len(model.m))), np.empty((0, *model.V.shape))
        after = model.m, model.V
    else:
        model, table = estimator._inferring(X, lengths)
        bounds, n_rows = bounds_of(table, sequence), len(table.X)
        rows = table.X[bounds[0] : bounds[1]]
        check_times(model.parameters, len(rows))
        one = table.part(sequence % len(table), sequence % len(table) + 1)
        means, covariances = model.infer(one, kind == "smoothed", scores=False)[:2]
        if steps:
            check_constant(model.parameters)
            # The last state given all observations is the same by both.
            after = _moved(model, means[-1], covariances[-1])
    if steps:
        ahead = [after]
        while len(ahead) < steps:
            ahead.append(_moved(model, *ahead[-1]))
        means = np.concatenate([means, [mean for mean, _ in ahead]])
        covariances = np.concatenate([covariances, [spread for _, spread in ahead]])
    return _Found(model, rows, bounds, n_rows, means, covariances)


def _moved(model, mean, covariance):
    """The state one step later."""
    spread = model.A @ covariance @ model.A.T + model.Q
    return model.A @ mean + model.b, 0.5 * (spread + spread.T)


def _times(times, X, found, steps):
    """The times of all steps that are drawn, those of the forecast last."""
    first, last = found.bounds
    n_seen = last - first
    if times is not None and steps and len(times) == n_seen + steps:
        return times_of(times, None, 0, n_seen + steps, n_seen + steps)
    if n_seen == 0:
        return np.arange(steps) if times is None else times_of(times, None, 0, steps, steps)
    later = _later(times if times is not None else getattr(X, "index", None), steps)
    times = times_of(times, X, first, last, found.n_rows)
    if steps == 0:
        return times
    if later is not None and last == found.n_rows and len(later) == steps:
        return np.concatenate([times.astype("datetime64[us]"), later])
    distance = np.median(np.diff(times).astype(float)) if n_seen > 1 else 1.0
    ahead = distance * np.arange(1, steps + 1)
    if times.dtype.kind == "M":
        unit = np.diff(times).dtype if n_seen > 1 else np.dtype("timedelta64[D]")
        return np.concatenate([times, times[-1] + ahead.astype(unit)])
    return np.concatenate([times.astype(float), times[-1] + ahead])


def _later(index, steps):
    """The dates after those of a pandas index that has a calendar, such as months."""
    given, index = index, getattr(index, "array", index)
    if hasattr(index, "to_timestamp"):
        dates = [(index[-1] + number).to_timestamp() for number in range(1, steps + 1)]
    elif hasattr(index, "tz"):
        frequency = getattr(given, "freq", None) or _frequency_of(given)
        if frequency is None:
            return None
        dates = [calendar_of(index)[-1] + number * frequency for number in range(1, steps + 1)]
    else:
        return None
    return np.array([date.to_datetime64() for date in dates], dtype="datetime64[us]")


def _frequency_of(index):
    """The calendar that dates keep to, if there is one."""
    from pandas import infer_freq
    from pandas.tseries.frequencies import to_offset

    try:
        # What pandas returns is about to change, and it says so.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return to_offset(infer_freq(index))
    except (TypeError, ValueError):
        return None


def _draw(ax, times, means, spreads, n_seen, level, kind):
    from scipy.stats import norm

    reach = norm.ppf(0.5 * (1.0 + level)) * spreads
    percent = f"{100 * level:.4g}% band"
    if n_seen:
        seen, shade = slice(0, n_seen), style.color(0)
        ax.fill_between(
            times[seen], (means - reach)[seen], (means + reach)[seen], color=shade, alpha=0.2,
            linewidth=0, label=percent, zorder=1,
        )  # fmt: skip
        ax.plot(times[seen], means[seen], color=shade, linewidth=1.5, label=kind, zorder=2)
    if len(means) > n_seen:
        shade = style.color(1)
        # The forecast begins at the last step, so that there is no gap.
        ahead = slice(max(n_seen - 1, 0), None)
        ax.fill_between(
            times[ahead], (means - reach)[ahead], (means + reach)[ahead], color=shade, alpha=0.2,
            linewidth=0, label=None if n_seen else percent, zorder=1,
        )  # fmt: skip
        ax.plot(times[ahead], means[ahead], color=shade, linewidth=1.5, label="forecast", zorder=2)
