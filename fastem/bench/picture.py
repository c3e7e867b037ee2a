"""The sweep as a picture: how many times as fast as the peer, over the size of the data."""

from __future__ import annotations

from pathlib import Path

__all__ = ["GROUPS", "draw"]

#: Methods that do about the same have one color; the first is solid, the others are dashed.
GROUPS = {
    "fit, fit_predict, em": "#1b4f9c",
    "predict, decode, filter": "#d1495b",
    "predict_proba, smooth": "#edae49",
    "score, score_samples, loglikelihood": "#2e8b57",
    "bic, aic": "#8c6bb1",
    "sample": "#8c8c8c",
    "filter_update": "#000000",
}
_SOLID = ("fit", "em", "predict", "filter", "predict_proba", "smooth", "score", "loglikelihood",
          "bic", "sample", "filter_update")  # fmt: skip


def draw(curves: list[dict], path) -> Path:
    """A panel for each estimator, a line for each method; returns the path of the picture."""
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    estimators = list(dict.fromkeys(curve["estimator"] for curve in curves))
    n_columns = min(5, max(1, len(estimators)))
    n_rows = -(-len(estimators) // n_columns)
    figure = Figure(figsize=(2.6 * n_columns, 2.5 * n_rows + 0.9), layout="constrained")
    panels = figure.subplots(n_rows, n_columns, sharex=True, squeeze=False).ravel()
    for panel, estimator in zip(panels, estimators, strict=False):
        own = [curve for curve in curves if curve["estimator"] == estimator]
        _draw_panel(panel, estimator, own)
    for panel in panels[len(estimators) :]:
        panel.set_axis_off()
    for panel in panels[-n_columns:]:
        panel.set_xlabel("rows or steps", fontsize=9)
    figure.supylabel("time of the peer / time of fastem", fontsize=10)
    lines = [Line2D([], [], color=color, label=name) for name, color in GROUPS.items()]
    figure.legend(handles=lines, loc="outside lower center", ncols=4, fontsize=8, frameon=False)
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)
    return path


def _draw_panel(panel, estimator, curves):
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    panel.set_xscale("log")
    panel.set_yscale("log")
    for curve in curves:
        sizes = [cell["size"] for cell in curve["cells"]]
        ratios = [cell["ratio"] for cell in curve["cells"]]
        method = curve["method"]
        color = next(color for name, color in GROUPS.items() if method in name.split(", "))
        style = "-" if method in _SOLID else "--"
        panel.plot(sizes, ratios, style, color=color, linewidth=1.2, marker=".", markersize=3)
    ratios = [cell["ratio"] for curve in curves for cell in curve["cells"]]
    limits = min(0.5, 0.8 * min(ratios)), max(20.0, 1.3 * max(ratios))
    panel.axhline(1.0, color="black", linewidth=0.9)
    panel.axhspan(limits[0], 1.0, color="#b00020", alpha=0.08, linewidth=0)
    panel.set_ylim(*limits)
    panel.yaxis.set_major_locator(LogLocator(10.0))
    panel.yaxis.set_major_formatter(FuncFormatter(lambda ratio, _: f"{ratio:g}×"))
    panel.yaxis.set_minor_formatter(NullFormatter())
    # Below the line fastem is the slower one.
    panel.annotate(
        "slower", (0.98, 0.03), xycoords="axes fraction", ha="right", va="bottom", fontsize=7,
        color="#b00020",
    )  # fmt: skip
    panel.set_title(f"{estimator}\nbeside {curves[0]['peer']}", fontsize=9)
    panel.tick_params(labelsize=8)
    panel.grid(True, which="major", linewidth=0.3)
