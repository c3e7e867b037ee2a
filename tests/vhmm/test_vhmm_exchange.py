"""Posteriors that travel to hmmlearn and back."""

import hmmlearn.vhmm
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from fastem import vhmm

CASES = [
    *(("VariationalGaussianHMM", {"covariance_type": kind})
      for kind in ("full", "tied", "diag", "spherical")),
    ("VariationalCategoricalHMM", {}),
]  # fmt: skip


def data(name):
    rng = np.random.default_rng(0)
    if name == "VariationalCategoricalHMM":
        return rng.integers(0, 4, size=(90, 1))
    return rng.normal(np.repeat([[0, 0], [4, 1], [0, 0]], 30, axis=0))


@pytest.mark.parametrize(("name", "settings"), CASES)
def test_posteriors_travel_both_ways(name, settings):
    X = data(name)
    ours = getattr(vhmm, name)(2, random_state=0, n_iter=4, **settings).fit(X)
    theirs = ours.to_hmmlearn()
    assert type(theirs) is getattr(hmmlearn.vhmm, name)
    back = type(ours).from_hmmlearn(theirs)
    for one in (theirs, back):
        assert_allclose(one.score(X), ours.score(X), rtol=1e-9)
        assert_array_equal(one.predict(X), ours.predict(X))
        assert list(one.monitor_.history) == list(ours.monitor_.history)
        assert np.ndim(getattr(one, "dof_posterior_", 0)) == np.ndim(
            getattr(ours, "dof_posterior_", 0)
        )
    # Learning goes on from the same posteriors.
    for one in (theirs, back, ours):
        one.init_params = ""
        one.n_iter = one.monitor_.n_iter = 2
        one.fit(X)
    assert_allclose(back.startprob_posterior_, ours.startprob_posterior_, rtol=1e-9)
    assert_allclose(back.transmat_posterior_, theirs.transmat_posterior_, rtol=1e-7)
    assert_allclose(back.score(X), theirs.score(X), rtol=1e-8)


@pytest.mark.parametrize(("name", "settings"), CASES)
def test_a_model_of_hmmlearn_comes_here(name, settings):
    X = data(name)
    theirs = getattr(hmmlearn.vhmm, name)(2, random_state=1, n_iter=4, **settings).fit(X)
    ours = getattr(vhmm, name).from_hmmlearn(theirs)
    assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), rtol=1e-7, atol=1e-12)
    unfitted = getattr(vhmm, name).from_hmmlearn(type(theirs)(3, tol=0.5))
    assert (unfitted.n_components, unfitted.tol) == (3, 0.5)
    assert type(unfitted.to_hmmlearn()) is type(theirs)


@pytest.mark.parametrize("hook", ["_do_mstep", "_compute_subnorm_log_likelihood", "_estep_begin"])
def test_a_hook_is_not_ignored_in_silence(hook):
    X = data("VariationalGaussianHMM")
    model = vhmm.VariationalGaussianHMM(2, random_state=0, n_iter=3).fit(X)
    setattr(model, hook, lambda *arguments: None)
    for call in (model.fit, model.partial_fit, model.score, model.predict):
        with pytest.raises(TypeError, match=f"overrides {hook}.*hmmlearn.vhmm.VariationalG"):
            call(X)
    with pytest.raises(TypeError, match="overrides"):
        model.sample(3)
