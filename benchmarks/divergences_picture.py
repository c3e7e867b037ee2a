"""The picture of docs/divergences.md: ``python -m benchmarks.divergences_picture``.

Two mixtures, and their combinations in both directions: the models of the example on that page.
"""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

import fastem

from .generated import ROOT

#: Where the left component of the second model is; that of the first is at -1.
LEFT = {"Components that overlap": -1.5, "Components apart": -7.0}


def mixture(left: float) -> fastem.GaussianMixture:
    """A mixture with components at ``left`` and at 4."""
    rng = np.random.default_rng(0)
    X = np.concatenate([left + rng.normal(size=(500, 1)), 4 + rng.normal(size=(500, 1))])
    return fastem.GaussianMixture(2, means_init=[[left], [4.0]], random_state=0).fit(X)


def draw(path):
    """Densities of the models and of their combinations."""
    figure = Figure(figsize=(8.2, 6.2), layout="constrained")
    x = np.linspace(-11.0, 9.0, 500)
    panels = figure.subplots(2, 1, sharex=True)
    for axes, (title, left) in zip(panels, LEFT.items(), strict=True):
        models = [mixture(-1.0), mixture(left)]
        for model, label in zip(models, ("the two models", None), strict=True):
            density = np.exp(model.score_samples(x[:, None]))
            axes.fill_between(x, density, color="0.5", alpha=0.3, linewidth=0, label=label)
        for direction, style in (("forward", "-"), ("reverse", "--")):
            combined = fastem.combine(models, direction=direction)
            weight, variance = combined.weights_[0], combined.covariances_[0].item()
            print(f"{title}, {direction}: weight {weight:.3f}, variance {variance:.3f} on the left")
            density = np.exp(combined.score_samples(x[:, None]))
            axes.plot(x, density, style, linewidth=2, label=direction)
        axes.set(title=title, ylabel="density")
    panels[0].legend(loc="upper left")
    panels[1].set_xlabel("x")
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    draw(ROOT / "docs/figures/divergences.png")
