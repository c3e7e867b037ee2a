"""Figures like those of the paper: the mean over starts, and a band of one deviation."""

from __future__ import annotations

import io
from dataclasses import replace

import numpy as np

from .result import Figure

__all__ = ["as_png", "as_svg"]

#: Of the last curve, the one before it, and so on.
COLORS = ("#1f5fa8", "#c2571a", "#3c8d5a", "#7a4fa3")
GREY = "#6b7280"
INK = "#1f2937"


def as_svg(figure: Figure) -> str:
    """The figure as a drawing to be put into a page, which has the title."""
    content = _save(replace(figure, title=""), "svg").decode()
    return content[content.index("<svg") :]


def as_png(figure: Figure) -> bytes:
    """The figure as a picture."""
    return _save(figure, "png")


def _save(figure, kind):
    import matplotlib

    buffer = io.BytesIO()
    with matplotlib.rc_context({"svg.fonttype": "path", "svg.hashsalt": "fastem"}):
        canvas = _draw(figure)
        canvas.savefig(
            buffer, format=kind, dpi=160, metadata={"Date": None} if kind == "svg" else None
        )
    return buffer.getvalue()


def _draw(figure: Figure):
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure as Canvas
    from matplotlib.ticker import MaxNLocator, NullLocator

    canvas = Canvas(figsize=(6.4, 3.9), layout="constrained")
    FigureCanvasAgg(canvas)
    axes = canvas.add_subplot()
    shown = [curve for curve in figure.curves if curve.shown]
    for number, curve in enumerate(shown):
        before = len(shown) - 1 - number
        # Curves that lie on each other are both seen: the later ones are thinner.
        color, width = COLORS[before % len(COLORS)], 1.8 + 0.6 * before
        x, mean, spread = np.array(curve.x, float), curve.mean, curve.spread
        if figure.log_x:
            # The start is at zero, which has no logarithm.
            x = np.where(x > 0, x, 0.5)
        few = len(x) <= 30
        axes.plot(
            x, mean, color=color, lw=width, label=curve.label, marker="o" if few else None, ms=4
        )
        axes.fill_between(x, mean - spread, mean + spread, color=color, alpha=0.15, lw=0)
    for level, dash in zip(figure.levels, ((4, 2), (1, 2), (6, 2, 1, 2)), strict=False):
        axes.axhline(level.mean, color=GREY, lw=1.3, dashes=dash, label=level.label)
    if figure.log_x:
        axes.set_xscale("log")
        decades = 10 ** np.arange(0, 1 + int(np.log10(max(max(c.x) for c in shown))))
        axes.set_xticks([0.5, *decades], ["0", *(f"{n:,}" for n in decades)])
        axes.xaxis.set_minor_locator(NullLocator())
    else:
        several = max(max(curve.x) for curve in shown) > 2
        axes.xaxis.set_major_locator(MaxNLocator(integer=several))
    axes.set_ylim(*_limits(figure, shown))
    axes.set_xlabel(figure.x_label, color=INK)
    axes.set_ylabel(figure.y_label, color=INK)
    axes.set_title(figure.title, color=INK, loc="left", fontsize=12, fontweight="bold")
    axes.grid(axis="y", color="#e5e7eb", lw=0.8)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        axes.spines[side].set_color("#9ca3af")
    axes.tick_params(colors=INK, labelsize=9)
    # The last curve drawn, which is ours, comes first.
    handles, labels = axes.get_legend_handles_labels()
    order = [*range(len(shown) - 1, -1, -1), *range(len(shown), len(handles))]
    axes.legend(
        [handles[n] for n in order], [labels[n] for n in order],
        frameon=False, fontsize=9, labelcolor=INK,
    )  # fmt: skip
    return canvas


def _limits(figure, shown):
    """From the lowest to the highest loss; a start far above all that is compared is cut off."""
    levels = [level.mean for level in figure.levels]
    low = min([float((curve.mean - curve.spread).min()) for curve in shown] + levels)
    high = max([float((curve.mean + curve.spread).max()) for curve in shown] + levels)
    ends = [float(curve.mean[-1] + curve.spread[-1]) for curve in shown]
    compared = max(levels + ends)
    if levels and high - low > 6 * (compared - low):
        high = low + 6 * (compared - low)
    margin = 0.05 * (high - low) or 1.0
    return low - margin, high + margin
