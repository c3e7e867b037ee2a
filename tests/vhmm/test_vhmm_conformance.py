"""What the common suite asks of every estimator, asked of posteriors.

Left out is what only the likelihood of a single model promises: that own statistics are those of
draws, that steps descend in the likelihood, and settings that posteriors do not have.
"""

import functools

import conformance
import numpy as np
import pytest
from conformance import CASES as COMMON
from conformance import (
    ONLINE,
    POSTERIORS,
    SETTINGS_OF_LEARNERS,
    Case,
    categories,
    sequences_of,
    states,
)

import fastem

pytestmark = conformance.pytestmark


class PosteriorCase(Case):
    """A case whose estimator leaves out the settings that posteriors do not have."""

    def make(self, n_iter=2, **settings):
        names = self.estimator.get_params()
        known = {name: value for name, value in settings.items() if name in names}
        return super().make(n_iter, **{"tol": -np.inf, **known})

    @functools.cached_property
    def model(self):
        return self.fitted._model().with_n_jobs(1)


def _cases():
    for kind in ("full", "tied", "diag", "spherical"):
        estimator = fastem.VariationalGaussianHMM(2, kind, random_state=0)
        yield PosteriorCase(f"VariationalGaussianHMM-{kind}", estimator, states)
    estimator = fastem.VariationalCategoricalHMM(2, random_state=0, n_features=3)
    one_column = sequences_of(lambda rng, n: categories(rng, n)[:, :1])
    yield PosteriorCase("VariationalCategoricalHMM", estimator, one_column)


CASES = list(_cases())
LEARNERS = {
    name: settings for name, settings in SETTINGS_OF_LEARNERS.items()
    if name != "statistics"
}  # fmt: skip

#: Tests of the common suite that take a case alone.
TESTS = [
    "test_a_model_has_the_whole_interface",
    "test_nothing_can_be_assigned_to_a_model",
    "test_parameters_make_the_same_model",
    "test_expectations_of_shards_add_to_that_of_the_whole",
    "test_weights_equal_repetition",
    "test_aligning_undoes_what_makes_no_difference",
    "test_a_callback_is_told_of_each_iteration_and_each_call",
    "test_a_callback_ends_a_fit",
    "test_a_clone_has_the_settings_and_has_learned_nothing",
    "test_a_learner_calls_the_callback_as_partial_fit_does",
    "test_a_learner_and_its_estimator_do_not_touch_each_other",
    "test_a_learner_predicts_what_the_estimator_does",
    "test_a_learner_needs_a_model_to_begin_with",
    "test_fit_reads_a_stream_as_an_array",
    "test_the_two_parts_of_a_distributed_step_are_an_iteration_of_fit",
]
every = pytest.mark.parametrize("case", CASES, ids=str)


def test_both_suites_have_all_estimators():
    assert {type(case.estimator).__name__ for case in CASES} == POSTERIORS
    names = {type(case.estimator).__name__ for case in COMMON}
    assert names | POSTERIORS == set(fastem.ESTIMATORS)


@every
@pytest.mark.parametrize("name", TESTS)
def test_common(case, name):
    getattr(conformance, name)(case)


@every
def test_threads_make_no_difference_to_the_bit(case, monkeypatch):
    conformance.test_threads_make_no_difference_to_the_bit(case, monkeypatch)


@every
@pytest.mark.parametrize("online", [ONLINE[0], {"batch_size": 7}], ids=["decay", "auto"])
def test_files_and_pickles_and_failures(case, online, tmp_path):
    conformance.test_files_keep_every_bit_and_learning_continues(case, online, tmp_path)
    conformance.test_pickles_keep_every_bit_and_learning_continues(case, online)
    conformance.test_a_stream_that_fails_in_the_middle_changes_nothing(case, online)
    conformance.test_a_learner_that_fails_stays_as_it_was(case, online)


@every
def test_a_test_of_drift_changes_nothing(case, tmp_path):
    conformance.test_a_test_of_drift_changes_nothing_and_continues_in_files(case, tmp_path)


@every
@pytest.mark.parametrize("weighted", [False, True], ids=["", "weighted"])
@pytest.mark.parametrize("batch_size", [1, 7, None])
def test_how_a_stream_is_cut_makes_no_difference(case, batch_size, weighted):
    conformance.test_how_a_stream_is_cut_makes_no_difference(case, ONLINE[0], batch_size, weighted)


@every
@pytest.mark.parametrize("settings", LEARNERS.values(), ids=LEARNERS.keys())
def test_a_learner_is_partial_fit_to_the_bit(case, settings):
    conformance.test_a_learner_is_partial_fit_to_the_bit(case, settings)
