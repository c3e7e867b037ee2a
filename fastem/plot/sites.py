"""Models of several sites beside each other: divergences, and matches of their components."""

from __future__ import annotations

import numpy as np

from .. import algebra
from ..combining import divergence
from ..matching import best_matching
from ..mixture_of_models import MixtureOfModels
from ..waiting import check_is_fitted
from . import style
from .fitted import WITH_RESPONSIBILITIES, copied, named_estimators

__all__ = ["divergences", "matches"]

#: Matrices of so many rows have their values written in them.
_MOST_WITH_VALUES = 12


def divergences(models, *, labels=None, ax=None):
    """The divergence of each of several models to each other, as a matrix.

    Models are aligned first, as :func:`fastem.divergence` does. The divergence is not symmetric:
    it is that of the model of the row to the model of the column.

    Parameters
    ----------
    models : sequence of estimators, or dict of estimators by label
        Fitted estimators of one kind and size.
    labels : sequence of str, optional
        The names of the models, or of their sites; by default their numbers.
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
    >>> sites = {
    ...     name: fastem.GaussianMixture(2, random_state=0).fit(
    ...         rng.normal(rng.choice([0.0, 5.0 + shift], (500, 1)), 1.0)
    ...     )
    ...     for name, shift in [("Aarhus", 0.0), ("Basel", 0.0), ("Cork", 2.0)]
    ... }
    >>> ax = plot.divergences(sites)
    """
    models, labels = named_estimators(models, labels, "divergences")
    for model in models:
        check_is_fitted(model)
    if len(models) < 2:
        raise ValueError("Divergences are between two models or more; got one.")
    n = len(models)
    labels = [str(i) for i in range(n)] if labels is None else labels
    table = np.zeros((n, n))
    for i in range(n):
        for j in range(n):
            if i != j:
                table[i, j] = divergence(models[i], models[j])
    ax = style.axes(ax)
    _draw_matrix(ax, np.maximum(table, 0.0), labels, labels, "divergence")
    return _finish_matrix(ax, "to", "from")


def _draw_matrix(ax, table, rows, columns, what):
    """An image with its values, light for small ones; what is infinite is grey."""
    from matplotlib import colormaps
    from matplotlib.colors import PowerNorm

    finite = np.isfinite(table)
    top = table[finite].max() if finite.any() else 0.0
    cmap = colormaps["Blues"].with_extremes(bad="#c8ccd1")
    image = ax.imshow(
        np.where(finite, table, np.nan), cmap=cmap,
        # Small divergences are told apart beside large ones.
        norm=PowerNorm(0.5, vmin=0.0, vmax=top if top > 0 else 1.0),
        aspect="auto" if max(table.shape) > 2 * min(table.shape) else "equal",
    )  # fmt: skip
    if max(table.shape) <= _MOST_WITH_VALUES:
        for (i, j), value in np.ndenumerate(table):
            shade = image.cmap(image.norm(value)) if finite[i, j] else cmap.get_bad()
            ax.text(
                j, i, _short(value), ha="center", va="center",
                fontsize="small", color=style.text_color(shade),
            )  # fmt: skip
    else:
        ax.figure.colorbar(image, ax=ax, label=what)
    for axis, names in ((ax.xaxis, columns), (ax.yaxis, rows)):
        step = max(1, int(np.ceil(len(names) / 16)))
        axis.set_ticks(range(0, len(names), step), names[::step])
    if max(map(len, columns)) * min(len(columns), 16) > 40:
        ax.tick_params(axis="x", labelrotation=90)
    return image


def _short(value):
    """A number of few characters."""
    if not np.isfinite(value):
        return "∞"
    return f"{value:.0f}" if 99.5 <= value < 1e5 else f"{value:.2g}"


def _finish_matrix(ax, x_label, y_label):
    ax.set_xlabel(x_label)
    ax.set_ylabel(y_label)
    ax.tick_params(length=0)
    return ax


def matches(one, other, *, labels=None, ax=None):
    """Which component of one model corresponds to which of another.

    Each cell is the divergence of a component of one model to a component of the other, light if
    it is small; pairs that are matched have a frame. The matching is that of least divergence of
    the whole models, as in :func:`fastem.divergence` and :func:`fastem.combine`: for chains it
    depends on transitions too.

    Parameters
    ----------
    one, other : estimator
        Fitted mixtures or hidden Markov models of one kind and size.
    labels : tuple of two str, optional
        The names of the two models.
    ax : matplotlib.axes.Axes, optional
        Where to draw; by default the current axes.

    Returns
    -------
    matplotlib.axes.Axes

    Examples
    --------
    >>> import fastem
    >>> from fastem import plot
    >>> from sklearn.datasets import load_iris
    >>> X = load_iris().data
    >>> one = fastem.GaussianMixture(3, random_state=0).fit(X[::2])
    >>> other = fastem.GaussianMixture(3, random_state=1).fit(X[1::2])
    >>> ax = plot.matches(one, other)
    """
    what = "mixtures and hidden Markov models"
    pair = [copied(model, WITH_RESPONSIBILITIES, what, "matches") for model in (one, other)]
    for estimator in pair:
        if not hasattr(estimator, "_learned_model"):
            raise TypeError(
                "fastem.plot.matches needs the family of the emissions, which a subclass of "
                f"fastem.hmm.BaseHMM does not name; got {type(estimator).__name__}."
            )
    if labels is not None and (isinstance(labels, str) or len(labels) != 2):
        raise ValueError(f"labels must be the names of the two models; got {labels!r}.")
    models = [estimator._learned_model() for estimator in pair]
    models[0].check_same_kind(models[1])
    table = _between_components(*models, isinstance(pair[0], MixtureOfModels))
    partners = best_matching(*models[0].matching_gains(models[1]))
    ax = style.axes(ax)
    names = [str(k) for k in range(len(table))]
    _draw_matrix(ax, np.maximum(table, 0.0), names, names, "divergence")
    _frame(ax, partners)
    kind = "state" if hasattr(models[0], "transmat") else "component"
    first, second = ("one", "the other") if labels is None else map(str, labels)
    return _finish_matrix(ax, f"{kind} of {second}", f"{kind} of {first}")


def _between_components(one, other, of_models):
    """The divergence of each component of one model to each of the other."""
    if of_models:
        return np.array([
            [algebra.divergence(member.brought_to(partner), partner) for partner in other.members]
            for member in one.members
        ])  # fmt: skip
    itself = np.diag(one.family.cross(one.packed, one.packed))
    return itself[:, None] - one.family.cross(one.packed, other.packed)


def _frame(ax, partners):
    from matplotlib.patches import Rectangle

    for h, partner in enumerate(partners):
        corner = partner - 0.5, h - 0.5
        frame = Rectangle(corner, 1, 1, fill=False, edgecolor=style.color(1), linewidth=2.5)
        frame.set_clip_on(False)
        ax.add_patch(frame)
