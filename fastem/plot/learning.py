"""The course of learning: log-likelihoods of batch and online fits, and drift."""

from __future__ import annotations

import numpy as np

from ..hmm.custom import BaseHMM
from ..vhmm.base import BaseVariationalHMM
from . import style
from .fitted import estimator_of, named_estimators

__all__ = ["drift", "learning_curves"]

#: Lines are told apart by their dashes as well.
_DASHES = ("-", "--", "-.", ":")


def learning_curves(models, *, labels=None, ax=None):
    """The log-likelihood along batch, incremental and online fits.

    Batch and incremental fits have a point for each pass over their data. Online fits show the
    progressive log-likelihood: that of observations before they are learned from. If some fits are
    online, all are drawn over the number of observations that were read, those of each pass
    counted again.

    Parameters
    ----------
    models : estimator, sequence of estimators, or dict of estimators by label
        Fitted estimators of fastem, of any kind.
    labels : sequence of str, optional
        Their names; by default those of their classes, with the solver.
    ax : matplotlib.axes.Axes, optional
        Where to draw; by default the current axes.

    Returns
    -------
    matplotlib.axes.Axes

    Notes
    -----
    Log-likelihoods are means over observations: rows, or sequences. Those of incremental fits are
    lower bounds, and those of Bayesian models bounds of the evidence.

    Examples
    --------
    >>> import fastem
    >>> from fastem import plot
    >>> from sklearn.datasets import load_iris
    >>> X = load_iris().data
    >>> batch = fastem.GaussianMixture(3, random_state=0).fit(X)
    >>> incremental = fastem.GaussianMixture(3, random_state=0, solver="incremental").fit(X)
    >>> ax = plot.learning_curves({"batch": batch, "incremental": incremental})
    """
    models, labels = named_estimators(models, labels, "learning_curves")
    curves = [_curves(model) for model in models]
    for model, (passes, progress, _) in zip(models, curves, strict=True):
        if not len(passes) and not len(progress):
            raise ValueError(
                f"This {type(model).__name__} has no course of learning to draw: neither "
                "lower_bounds_, of fit, nor history_, of partial_fit. Fit it first; combined "
                "models have none."
            )
    if labels is None:
        labels = _default_labels(models, curves)
    online = any(len(progress) for _, progress, _ in curves)
    ax = style.axes(ax)
    for number, (label, curve) in enumerate(zip(labels, curves, strict=True)):
        x, y = _read(*curve) if online else (np.arange(len(curve[0])) + 1.0, curve[0])
        ax.plot(
            x, y, _DASHES[number % len(_DASHES)], color=style.color(number), label=label,
            linewidth=1.5, marker="o" if len(x) <= 30 else None, markersize=3,
        )  # fmt: skip
    if len(models) > 1:
        ax.legend(frameon=False, fontsize="small")
    if not online:
        _count(ax.xaxis)
    return style.finish(ax, "observations read" if online else "pass over the data", _what(models))


def _count(axis):
    from matplotlib.ticker import MaxNLocator

    axis.set_major_locator(MaxNLocator(integer=True))


def _curves(model):
    """Mean log-likelihoods of passes, (observations, log-likelihood) of streams, weight of a pass.

    A log-likelihood that is not known is left away.
    """
    history = np.array(getattr(model, "history_", ()), dtype=float).reshape(-1, 3)
    weight = float(getattr(model, "n_observations_", 0.0)) - history[:, 1].sum()
    if isinstance(model, BaseHMM):
        passes = np.array(model.monitor_.history, dtype=float)
        if len(passes):
            # Chains show the sum over all sequences; one fit through hooks does not count them.
            passes = passes / (weight if weight > 0 else 1.0)
    else:
        passes = np.array(getattr(model, "lower_bounds_", ()), dtype=float)
    progress = history[:, [0, 2]]
    return passes, progress[np.isfinite(progress[:, 1])], max(weight, 0.0)


def _read(passes, progress, weight):
    """A curve over the observations that were read so far."""
    x = weight * (np.arange(len(passes)) + 1.0)
    before = weight * max(len(passes) - 1, 0)
    return np.concatenate([x, before + progress[:, 0]]), np.concatenate([passes, progress[:, 1]])


def _what(models):
    bayesian = [
        isinstance(model, BaseVariationalHMM) or type(model).__name__ == "BayesianGaussianMixture"
        for model in models
    ]
    if all(bayesian):
        return "bound of the log-evidence"
    return "mean log-likelihood" if not any(bayesian) else "mean log-likelihood, or bound"


def _default_labels(models, curves):
    """The names of the classes, with how they learned; numbered where that is the same."""
    labels = []
    for model, (passes, progress, _) in zip(models, curves, strict=True):
        incremental = getattr(model, "solver", "em") == "incremental"
        how = ("incremental" if incremental else "batch") if len(passes) else "online"
        if len(passes) and len(progress):
            how += ", then online"
        labels.append(f"{type(model).__name__}, {how}")
    return [
        label if labels.count(label) == 1 else f"{label} {labels[: i + 1].count(label)}"
        for i, label in enumerate(labels)
    ]


def drift(model, *, ax=None):
    """The progressive log-likelihood of a stream, and where its test of drift gave the alarm.

    Parameters
    ----------
    model : estimator or learner
        That has learned online with ``drift_alarm`` set.
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
    >>> X = rng.normal(size=(20_000, 2))
    >>> X[10_000:] += 3.0
    >>> model = fastem.GaussianMixture(1, drift_alarm=0.01, random_state=0)
    >>> for batch in np.split(X, 200):
    ...     model = model.partial_fit(batch)
    >>> ax = plot.drift(model)
    """
    model = estimator_of(model, "drift")
    entries = np.array(getattr(model, "history_", ()), dtype=float).reshape(-1, 3)
    entries = entries[np.isfinite(entries[:, 2])]
    found = getattr(model, "drift_", None)
    if not len(entries) or found is None:
        raise ValueError(
            f"This {type(model).__name__} has made no test of drift: set drift_alarm, the "
            "probability of a false alarm, before it learns with partial_fit."
        )
    ax = style.axes(ax)
    x, y = entries[:, 0], entries[:, 2]
    ax.plot(x, y, color=style.color(0), linewidth=1.2, label="progressive log-likelihood",
            marker="o" if len(x) <= 30 else None, markersize=3)  # fmt: skip
    if found.detected:
        shade = style.color(1)
        ax.axvline(found.at, color=shade, linewidth=1.5, linestyle="--",
                   label=f"alarm at {found.at:,.0f}")  # fmt: skip
        if x[-1] > found.at:
            ax.axvspan(found.at, x[-1], color=shade, alpha=0.08, linewidth=0)
    else:
        needed = 1.0 / model.drift_alarm if model.drift_alarm else np.inf
        ax.plot([], [], " ", label=f"no alarm: evidence {found.evidence:.3g} of {needed:.3g}")
    ax.margins(x=0.01)
    ax.legend(frameon=False, fontsize="small")
    return style.finish(ax, "observations", "mean log-likelihood")
