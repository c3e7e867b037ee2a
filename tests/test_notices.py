"""Warnings: at the caller's line, and once for each death of a component."""

import warnings

import numpy as np
import pytest

import fastem
from fastem.exceptions import ConvergenceWarning, DeadComponentWarning
from fastem.families import Poisson
from fastem.hmm.model import HMMModel
from fastem.mixture.model import MixtureModel
from fastem.notices import warn_of_dead
from fastem.statistics import Statistics

MESSAGE = "{count} of {total}: {numbers}"


def told_of(masses, least=1.0):
    """What is said while the masses of three components change."""
    told = set()
    said = []
    for mass in masses:
        mass = np.asarray(mass, dtype=float)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            warn_of_dead(mass < least, mass, least, told, MESSAGE)
        said.append([str(w.message) for w in caught])
    return said


def test_a_death_is_told_once_while_it_lasts():
    alive, dead, hardly = [1e6, 1e6, 1e6], [1e6, 0.5, 1e6], [1e6, 1.5, 1e6]
    said = told_of([alive, dead, dead, hardly, dead, alive, dead])
    assert said == [[], ["1 of 3: [1]"], [], [], [], [], ["1 of 3: [1]"]]


def test_a_slow_death_is_told():
    said = told_of([[1e6, share, 1e6] for share in (3.0, 2.0, 1.5, 1.1, 0.9, 0.8)])
    assert said == [[], [], [], [], ["1 of 3: [1]"], []]


def test_another_death_is_told_with_all_that_are_dead():
    said = told_of([[1e6, 0.0, 1e6], [1e6, 0.0, 0.0], [1e6, 1e6, 0.0]])
    assert said == [["1 of 3: [1]"], ["2 of 3: [1, 2]"], []]


def far_mixture(**settings):
    """A mixture of which one component is where no row ever is."""
    model = fastem.Mixture(
        "poisson", 2, init={"weights": [0.5, 0.5], "rates": [[3.0], [1e7]]}, **settings
    )
    return model


@pytest.mark.parametrize("batch_size", [None, 1, 4])
def test_online_learning_tells_of_a_dead_component_once_and_here(batch_size):
    rows = np.random.default_rng(0).poisson(3.0, (200, 8, 1))
    model = far_mixture(batch_size=batch_size, learning_rate=5.0)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for batch in rows:
            model.partial_fit(batch)
    assert [w.category for w in caught] == [DeadComponentWarning]
    assert "1 of 2 components have no points left (numbers [1])" in str(caught[0].message)
    assert caught[0].filename == __file__


def test_each_fit_tells_anew():
    rows = np.random.default_rng(0).poisson(3.0, (50, 1))
    model = far_mixture()
    for _ in range(2):
        with pytest.warns(RuntimeWarning, match="no points left") as caught:
            model.fit(rows)
        assert len(caught) == 1
        assert caught[0].filename == __file__
    # What fit told is known when online learning goes on.
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.partial_fit(rows)


def test_an_unvisited_state_is_told_once_and_here():
    counts = np.random.default_rng(0).poisson(3.0, (60, 1))
    model = fastem.HMM("poisson", 2, init_params="", n_iter=6, tol=-np.inf)
    model.startprob_, model.transmat_ = [1.0, 0.0], [[1.0, 0.0], [0.5, 0.5]]
    model.rates_ = [[2.0], [5.0]]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(counts)
        for _ in range(5):
            model.partial_fit(counts)
    told = [w for w in caught if "never visited" in str(w.message)]
    assert len(told) == 1
    assert told[0].filename == __file__


def test_models_made_of_one_another_share_what_was_told():
    model = MixtureModel(Poisson(), [0.5, 0.5], {"rates": [[1.0], [2.0]]})
    statistics = Statistics(mass=[1.0, 0.0], sums=[[3.0], [0.0]])
    with pytest.warns(RuntimeWarning, match="no points left"):
        after = model.maximize(statistics)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        after.maximize(statistics)
    with pytest.warns(RuntimeWarning, match=r"numbers \[1\]"):
        # In another order it is another one that dies.
        after.reordered([1, 0]).maximize(statistics)


def test_a_reordered_chain_tells_of_its_own_states():
    model = HMMModel(
        Poisson(), [1.0, 0.0], [[1.0, 0.0], [0.5, 0.5]], {"rates": [[1.0], [2.0]]}, horizon=3
    )
    with pytest.warns(RuntimeWarning, match="never visited"):
        model.maximize(model.own())
    with pytest.warns(RuntimeWarning, match=r"numbers \[0\]"):
        other = model.reordered([1, 0])
        other.maximize(other.own())


@pytest.mark.parametrize("case", ["mixture", "dirichlet", "few rows", "overwritten"])
def test_warnings_point_here(case):
    rng = np.random.default_rng(0)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        if case == "mixture":
            fastem.GaussianMixture(3, max_iter=1, random_state=0).fit_predict(rng.random((50, 2)))
        elif case == "dirichlet":
            fastem.CompoundDirichlet(max_iter=1, tol=0.0).fit(rng.integers(0, 9, (20, 3)))
        elif case == "few rows":
            fastem.HMM("poisson", 3, n_iter=1, random_state=0).fit([[1], [2], [4]])
        else:
            model = fastem.HMM("poisson", 2, n_iter=1, random_state=0)
            model.rates_ = [[1.0], [2.0]]
            model.fit(rng.poisson(3.0, (50, 1)))
    assert caught
    assert {w.filename for w in caught} == {__file__}
    if case in ("mixture", "dirichlet"):
        assert caught[0].category is ConvergenceWarning
