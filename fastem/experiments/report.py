"""What an experiment leaves behind: a table on the screen, curves as JSON, a figure."""

from __future__ import annotations

import json
from pathlib import Path

from .mixture import Curves, claims

__all__ = ["print_claims", "write"]


def print_claims(curves: Curves) -> None:
    """The claims as a table."""
    setting = curves.setting
    print(
        f"\nGaussian mixtures on {setting.name}: {setting.n_machines} machines, "
        f"K = {setting.n_components}, synchronised every {setting.sync_every} observations, "
        f"η = {setting.eta0}/t^{setting.beta}, {len(curves.entropic)} starts"
    )
    for claim, measured, held in claims(curves):
        print(f"  {'held    ' if held else 'NOT held'}  {claim}: {measured}")


def write(curves: Curves, folder: Path) -> list[Path]:
    """Write the curves and, where matplotlib is installed, the figure."""
    folder.mkdir(parents=True, exist_ok=True)
    name = f"mixture-{curves.setting.name}"
    written = [folder / f"{name}.json"]
    content = {
        "setting": curves.setting._asdict(),
        "entropic": curves.entropic.tolist(),
        "averaged": curves.averaged.tolist(),
        "claims": claims(curves),
    }
    written[0].write_text(json.dumps(content, indent=1))
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        print('  (no figure: pip install "fastem[experiments]" brings matplotlib)')
        return written
    figure = Figure(figsize=(5, 3.6), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    for label, losses, colour in [
        ("averaging", curves.averaged, "tab:orange"),
        ("entropic", curves.entropic, "tab:blue"),
    ]:
        steps = range(losses.shape[1])
        mean, spread = losses.mean(axis=0), losses.std(axis=0)
        axes.plot(steps, mean, color=colour, label=label, marker=".")
        axes.fill_between(steps, mean - spread, mean + spread, color=colour, alpha=0.2, lw=0)
    axes.set_xlabel(f"synchronisations (every {curves.setting.sync_every} observations)")
    axes.set_ylabel("negative log-likelihood")
    axes.set_title(
        f"{curves.setting.name}: M = {curves.setting.n_machines}, K = {curves.setting.n_components}"
    )
    axes.legend()
    written.append(folder / f"{name}.png")
    figure.savefig(written[-1], dpi=150)
    return written
