"""Pictures beside those that somebody has looked at.

``python tests/plot/test_images.py`` draws them anew: look at each before you commit it.
"""

from pathlib import Path

import given_models as given
import matplotlib
import numpy as np
import pytest
from matplotlib.testing.compare import compare_images

import fastem
from fastem import plot

BASELINE = Path(__file__).parent / "baseline"
#: The root of the mean square of differences, of 255.
TOLERANCE = 2.0


def curves():
    batch = given.with_attributes(
        given.gaussian_mixture(), n_observations_=100.0,
        lower_bounds_=[-4.0, -3.0, -2.6, -2.5, -2.45],
    )  # fmt: skip
    online = given.with_attributes(
        given.gaussian_mixture(),
        n_observations_=400.0,
        history_=[[100.0 * i, 100.0, -2.4 - 2.0 / i] for i in range(1, 5)],
    )
    return {"batch": batch, "online": online}


def drifting():
    from fastem import drift

    scores = np.r_[np.sin(np.arange(60)), -4 + np.sin(np.arange(20))]
    return given.with_attributes(
        given.gaussian_mixture(), n_observations_=8000.0, drift_alarm=0.01,
        history_=[[100.0 * (i + 1), 100.0, score] for i, score in enumerate(scores)],
        _drift={**drift.beginning(), "at": 6800.0, "n_scores": 68},
    )  # fmt: skip


def sites():
    shifted = [given.gaussian_mixture() for _ in range(3)]
    for number, model in enumerate(shifted):
        model.means_ = model.means_ + number**2
    return shifted


def reordered():
    model = given.gaussian_mixture()
    order = [2, 0, 1]
    return given.with_attributes(
        given.gaussian_mixture(), weights_=model.weights_[order],
        means_=model.means_[order] + 0.3, covariances_=model.covariances_[order],
    )  # fmt: skip


def many_components():
    rng = np.random.default_rng(1)
    return given.with_attributes(
        fastem.Mixture("gaussian", 30), weights_=rng.dirichlet(np.ones(30)), n_features_in_=2,
        means_=rng.normal(0, 6, (30, 2)), covariances_=rng.uniform(0.2, 1.5, (30, 1, 1)) * np.eye(2)
    )  # fmt: skip


X, SERIES, LEVEL = given.mixture_data(), given.chain_data(), given.level_data()
COUNTS = np.random.default_rng(0).poisson([[1.5, 8.0]] * 100 + [[6.0, 2.0]] * 60 + [[15, 15]] * 40)
SYMBOLS = np.random.default_rng(0).choice(3, (80, 1))

PICTURES = {
    "components": lambda ax: plot.components(given.gaussian_mixture(), X, ax=ax),
    "components_of_one_column": lambda ax: plot.components(
        given.gaussian_mixture(), X, columns=1, ax=ax
    ),
    "components_without_data": lambda ax: plot.components(given.gaussian_hmm("tied"), ax=ax),
    "components_many": lambda ax: plot.components(many_components(), ax=ax),
    "densities": lambda ax: plot.densities(given.gaussian_mixture(), X, column=1, ax=ax),
    "densities_of_counts": lambda ax: plot.densities(given.poisson_mixture(), COUNTS, ax=ax),
    "densities_of_two_columns": lambda ax: plot.densities(
        given.gaussian_mixture(), X, columns=(0, 1), ax=ax
    ),
    "densities_of_two_counts": lambda ax: plot.densities(
        given.poisson_mixture(), COUNTS, columns=(0, 1), ax=ax
    ),
    "responsibilities": lambda ax: plot.responsibilities(given.gaussian_mixture(), X, ax=ax),
    "responsibilities_image": lambda ax: plot.responsibilities(
        given.gaussian_mixture(), X, kind="image", ax=ax
    ),
    "states": lambda ax: plot.states(given.gaussian_hmm(), SERIES, column=1, ax=ax),
    "states_of_symbols": lambda ax: plot.states(given.categorical_hmm(), SYMBOLS, ax=ax),
    "transitions": lambda ax: plot.transitions(given.gaussian_hmm(), ax=ax),
    "transitions_of_two": lambda ax: plot.transitions(given.categorical_hmm(), ax=ax),
    "bands_smoothed": lambda ax: plot.bands(given.local_level(), LEVEL, steps=15, ax=ax),
    "bands_filtered_states": lambda ax: plot.bands(
        given.local_level(), LEVEL, kind="filtered", of="states", level=0.5, ax=ax
    ),
    "bands_forecast": lambda ax: plot.bands(given.kalman_filter(), steps=20, column=1, ax=ax),
    "learning_curves": lambda ax: plot.learning_curves(curves(), ax=ax),
    "drift": lambda ax: plot.drift(drifting(), ax=ax),
    "divergences": lambda ax: plot.divergences(sites(), ax=ax),
    "matches": lambda ax: plot.matches(given.gaussian_mixture(), reordered(), ax=ax),
}


def save(name, path):
    """Draw a picture without texts, whose shapes depend on the fonts of a machine."""
    from matplotlib import pyplot
    from matplotlib.text import Text

    with matplotlib.rc_context(matplotlib.rcParamsDefault):
        matplotlib.use("Agg")
        figure, ax = pyplot.subplots(figsize=(4, 3), dpi=60)
        PICTURES[name](ax)
        # Where the best place of a legend is depends on the size of its texts.
        if ax.get_legend() is not None:
            ax.get_legend().remove()
        figure.canvas.draw()
        for text in figure.findobj(Text):
            text.set_visible(False)
        figure.savefig(path, dpi=60, metadata={"Software": None})
        pyplot.close(figure)


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_is_as_it_was(name, tmp_path):
    expected, drawn = BASELINE / f"{name}.png", tmp_path / f"{name}.png"
    assert expected.exists(), f"{expected} is missing: python tests/plot/test_images.py draws it."
    save(name, drawn)
    # A copy, because what is compared writes beside it.
    copy = tmp_path / "expected.png"
    copy.write_bytes(expected.read_bytes())
    assert compare_images(str(copy), str(drawn), TOLERANCE) is None


def test_baselines_are_small_and_all_of_them_are_used():
    found = {path.stem: path.stat().st_size for path in BASELINE.glob("*.png")}
    assert found.keys() == PICTURES.keys()
    assert max(found.values()) < 30_000


def test_a_changed_picture_is_noticed(tmp_path):
    """One component less is more than the tolerance."""
    changed = tmp_path / "changed.png"
    two = given.with_attributes(given.gaussian_mixture(), weights_=np.array([0.5, 0.5, 0.0]))
    PICTURES["changed"] = lambda ax: plot.components(two, X, ax=ax)
    try:
        save("changed", changed)
    finally:
        del PICTURES["changed"]
    copy = tmp_path / "expected.png"
    copy.write_bytes((BASELINE / "components.png").read_bytes())
    assert compare_images(str(copy), str(changed), TOLERANCE) is not None


if __name__ == "__main__":
    BASELINE.mkdir(exist_ok=True)
    for picture in PICTURES:
        save(picture, BASELINE / f"{picture}.png")
