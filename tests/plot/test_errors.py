"""What cannot be drawn is refused with a word on what to do."""

import subprocess
import sys

import given_models as given
import numpy as np
import pytest
from sklearn import mixture as scikit_learns
from sklearn.exceptions import NotFittedError

import fastem
from fastem import plot

X = given.mixture_data(50)
GM, HMM, KF = given.gaussian_mixture(), given.gaussian_hmm(), given.kalman_filter()
SEEN = np.array(KF.sample(10, random_state=0)[1])


@pytest.mark.parametrize(
    ("draw", "error", "message"),
    [
        (lambda: plot.components(KF), TypeError, "hidden Markov models; got Ka"),
        (lambda: plot.components(given.poisson_mixture()), TypeError, "plot.densities draws"),
        (lambda: plot.components("model"), TypeError, "fitted estimator of fastem; got str"),
        (lambda: plot.components(fastem.GaussianMixture), TypeError, "fit it first"),
        (lambda: plot.components(GM, X[:, :1]), ValueError, r"shape \(rows, 2\)"),
        (lambda: plot.components(GM, columns=(0, 2)), ValueError, "less than 2"),
        (lambda: plot.components(GM, columns=(0, 0)), ValueError, "different"),
        (lambda: plot.components(GM, columns=(0, 1, 1)), ValueError, "one or 2 columns; got 3"),
        (lambda: plot.components(GM, columns="wind"), ValueError, "no column 'wind'"),
        (lambda: plot.components(GM, columns=None), ValueError, "numbers or names"),
        (lambda: plot.components(GM, n_std=0), ValueError, "positive number; got 0"),
        (lambda: plot.components(GM, X, lengths=[50]), ValueError, "leave them out"),
        (lambda: plot.components(GM, ax=3), TypeError, "must be matplotlib axes; got int"),
        (lambda: plot.densities(GM, column=1.5), ValueError, "number or name of a column"),
        (lambda: plot.densities(GM, columns=(0,)), ValueError, "two columns"),
        (lambda: plot.densities(HMM, iter([X])), ValueError, "got a stream"),
        (lambda: plot.responsibilities(KF, SEEN), TypeError, "KalmanFilter"),
        (lambda: plot.responsibilities(GM, None), ValueError, "needs the data"),
        (lambda: plot.responsibilities(GM, X, kind="bars"), ValueError, "'areas' or 'image'"),
        (lambda: plot.states(GM, X), TypeError, "draws hidden Markov models; got Mixture"),
        (lambda: plot.states(HMM, None), ValueError, "needs the data"),
        (lambda: plot.states(HMM, X, sequence=1), ValueError, "below 1"),
        (lambda: plot.states(HMM, X, [20, 20]), ValueError, "40|sum"),
        (lambda: plot.states(HMM, X, times=np.arange(7)), ValueError, "50 steps"),
        (lambda: plot.states(HMM, X, times=["a"] * 50), ValueError, "numbers or dates"),
        (lambda: plot.states(HMM, X[:, :1]), ValueError, "1 features|columns"),
        (lambda: plot.transitions(KF), TypeError, "hidden Markov"),
        (lambda: plot.transitions(HMM, labels=["a"]), ValueError, "3 states; got 1"),
        (lambda: plot.transitions(HMM, least=2), ValueError, "from 0 to 1"),
        (lambda: plot.bands(HMM, X), TypeError, "draws Kalman filters; got GaussianHMM"),
        (lambda: plot.bands(KF), ValueError, "pass observations X, or steps"),
        (lambda: plot.bands(KF, SEEN, kind="raw"), ValueError, "'smoothed' or 'filtered'"),
        (lambda: plot.bands(KF, SEEN, of="noise"), ValueError, "'observations' or 'states'"),
        (lambda: plot.bands(KF, SEEN, steps=-1), ValueError, "0 or more"),
        (lambda: plot.bands(KF, SEEN, level=95), ValueError, "between 0 and 1"),
        (lambda: plot.bands(KF, SEEN, column=3), ValueError, "less than 3"),
        (lambda: plot.bands(KF, SEEN, column=2, of="states"), ValueError, "less than 2"),
        (lambda: plot.bands(KF, SEEN[:, :2]), ValueError, "2 columns, and the model observes 3"),
        (lambda: plot.learning_curves([]), ValueError, "one model or more"),
        (lambda: plot.learning_curves(3), TypeError, "in a list or in a dict"),
        (lambda: plot.learning_curves(GM), ValueError, "no course of learning"),
        (lambda: plot.learning_curves([GM], labels=["a", "b"]), ValueError, "1 models, 2 labels"),
        (lambda: plot.drift(GM), ValueError, "set drift_alarm"),
        (
            lambda: plot.components(scikit_learns.GaussianMixture(), X), TypeError,
            "got sklearn's GaussianMixture",
        ),
        (lambda: plot.divergences([GM]), ValueError, "two models or more"),
        (lambda: plot.divergences([GM, HMM]), ValueError, "different kinds|kind"),
        (lambda: plot.matches(GM, HMM), ValueError, "different kinds|kind"),
        (lambda: plot.matches(GM, GM, labels="ab"), ValueError, "names of the two models"),
        (lambda: plot.color(-1), ValueError, "numbered 0, 1"),
    ],
)  # fmt: skip
def test_what_cannot_be_drawn(draw, error, message):
    with pytest.raises(error, match=message):
        draw()


@pytest.mark.parametrize(
    "draw",
    [
        lambda: plot.components(fastem.GaussianMixture(2), X),
        lambda: plot.densities(fastem.PoissonHMM(2)),
        lambda: plot.responsibilities(fastem.GaussianMixture(2), X),
        lambda: plot.states(fastem.GaussianHMM(2), X),
        lambda: plot.transitions(fastem.GaussianHMM(2)),
        lambda: plot.bands(fastem.KalmanFilter(n_dim_state=2), SEEN),
        lambda: plot.divergences([GM, fastem.Mixture("gaussian", 3)]),
        lambda: plot.matches(fastem.GaussianMixture(2), GM),
    ],
)
def test_models_that_are_not_fitted_are_refused(draw):
    with pytest.raises(NotFittedError):
        draw()


def test_nothing_is_drawn_before_an_error():
    from matplotlib import pyplot

    _, ax = pyplot.subplots()
    for draw in (
        lambda: plot.components(GM, X[:, :1], ax=ax),
        lambda: plot.densities(GM, column=9, ax=ax),
        lambda: plot.states(HMM, X, times=[1], ax=ax),
        lambda: plot.bands(KF, SEEN, column=7, ax=ax),
    ):
        with pytest.raises(ValueError):
            draw()
    assert not ax.has_data()


def run(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


def test_matplotlib_is_imported_when_something_is_drawn_and_not_before():
    found = run(
        "import sys, fastem; from fastem import plot; fastem.plot.components; "
        "import fastem.cli; print('matplotlib' in sys.modules)"
    )
    assert found.stdout.strip() == "False", found.stderr


def test_without_matplotlib_the_extra_is_named():
    found = run(
        "import sys; sys.modules['matplotlib'] = None\n"
        "import numpy as np, fastem\n"
        "model = fastem.HMM('gaussian', 1)\n"
        "model.startprob_, model.transmat_ = np.ones(1), np.ones((1, 1))\n"
        "model.means_, model.covariances_ = np.zeros((1, 1)), np.ones((1, 1, 1))\n"
        "try:\n    fastem.plot.transitions(model)\n"
        "except ImportError as error:\n    print(error)"
    )
    assert 'pip install "fastem[plot]"' in found.stdout, found.stderr
