"""What all pictures have in common: axes, colors, and the import of matplotlib."""

from __future__ import annotations

from numbers import Integral

import numpy as np

__all__ = ["GREY", "axes", "color", "colors", "finish", "ink", "limits_around", "plain",
           "show_dates", "text_color"]  # fmt: skip

# Lines and texts that belong to no component, on light and on dark axes.
_DARK_INK = "#24292f"
_LIGHT_INK = "#e6edf3"
#: Data, and what is in the background.
GREY = "#8b949e"

# Eight colors that people who see red and green alike can tell apart, on white and in print.
_HUES = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#5b3fa0", "#8a8d1f")
# Further components have the same hues: darker, lighter, darker still.
_SHADES = (0.0, -0.4, 0.5, -0.65)


def axes(ax=None):
    """The axes to draw on: ``ax``, or the current ones of pyplot."""
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise ImportError(
            "fastem.plot needs matplotlib, which is not installed: "
            'pip install "fastem[plot]", or pip install matplotlib.'
        ) from None
    if ax is None:
        from matplotlib import pyplot

        return pyplot.gca()
    if not hasattr(ax, "transAxes"):
        raise TypeError(
            f"ax must be matplotlib axes; got {type(ax).__name__}. Take one of those that "
            "matplotlib.pyplot.subplots() returns."
        )
    return ax


def color(k: int) -> tuple[float, float, float]:
    """The color of component or state ``k`` in every picture.

    Parameters
    ----------
    k : int
        The number of the component, from 0.

    Returns
    -------
    tuple of three floats
        Red, green and blue, from 0 to 1.

    Examples
    --------
    >>> from fastem import plot
    >>> [round(part, 2) for part in plot.color(0)]
    [0.0, 0.45, 0.7]
    """
    if not isinstance(k, Integral) or k < 0:
        raise ValueError(f"Components are numbered 0, 1, ...; got {k!r}.")
    hue = _HUES[k % len(_HUES)]
    parts = [int(hue[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    shade = _SHADES[k // len(_HUES) % len(_SHADES)]
    if shade < 0:
        return tuple(part * (1 + shade) for part in parts)
    return tuple(part + (1 - part) * shade for part in parts)


def colors(n: int) -> np.ndarray:
    """The colors of ``n`` components, (n, 3)."""
    return np.array([color(k) for k in range(n)]).reshape(n, 3)


def ink(ax) -> str:
    """The color of lines and texts that belong to no component: dark, or light on dark axes."""
    from matplotlib.colors import to_rgba

    backgrounds = [to_rgba(part.get_facecolor()) for part in (ax, ax.figure)]
    # A style may leave the axes, or all, without a color of their own: they are seen on white.
    seen = next((color for color in backgrounds if color[3] > 0.5), (1.0, 1.0, 1.0, 1.0))
    return _DARK_INK if text_color(seen) == "black" else _LIGHT_INK


def text_color(background) -> str:
    """The color of a text that can be read on a background: black or white."""
    red, green, blue = (
        part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4
        for part in background[:3]
    )
    luminance = 0.2126 * red + 0.7152 * green + 0.0722 * blue
    return "black" if (luminance + 0.05) / 0.05 > 1.05 / (luminance + 0.05) else "white"


def finish(ax, x_label="", y_label=""):
    """Label the axes, and leave away the lines that carry nothing."""
    ax.set_xlabel(plain(x_label))
    ax.set_ylabel(plain(y_label))
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    return ax


def plain(text: str) -> str:
    """A text that matplotlib draws as it is: names of columns are no formulas."""
    return text.replace("$", r"\$")


def show_dates(ax):
    """Write dates on the axis of times so shortly that they keep clear of each other."""
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

    locator = AutoDateLocator(maxticks=8)
    ax.xaxis.set_major_locator(locator)
    ax.xaxis.set_major_formatter(ConciseDateFormatter(locator))


def limits_around(low, high, share=0.05) -> tuple[float, float]:
    """Limits of an axis with a margin on either side, also where all values are the same."""
    margin = share * (high - low)
    if not margin > 0:
        margin = 0.5 * abs(low) or 0.5
    return low - margin, high + margin
