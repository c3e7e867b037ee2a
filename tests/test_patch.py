"""fastem.patch: users of other libraries get fastem's classes, and unpatch undoes it exactly."""

import copy
import copyreg
import io
import logging
import pickle
import subprocess
import sys
import types

import hmmlearn.base
import hmmlearn.hmm
import hmmlearn.vhmm
import joblib
import numpy as np
import pykalman
import pykalman.standard
import pytest
import sklearn.mixture
import sklearn.mixture._gaussian_mixture
from hmmlearn import _hmmc
from sklearn.base import clone

import fastem
import fastem.vhmm
from fastem import patching
from fastem.hmm.custom import overridden_hooks

CLASSES = {
    "GaussianMixture": sklearn.mixture, "GaussianHMM": hmmlearn.hmm, "GMMHMM": hmmlearn.hmm,
    "CategoricalHMM": hmmlearn.hmm, "MultinomialHMM": hmmlearn.hmm, "PoissonHMM": hmmlearn.hmm,
    "KalmanFilter": pykalman, "BayesianGaussianMixture": sklearn.mixture,
    "VariationalGaussianHMM": hmmlearn.vhmm, "VariationalCategoricalHMM": hmmlearn.vhmm,
}  # fmt: skip
RECURSIONS = [
    "forward_log", "forward_scaling", "backward_log", "backward_scaling", "viterbi",
    "compute_log_xi_sum", "compute_scaling_xi_sum",
]  # fmt: skip


def home(name):
    """The module that has fastem's class."""
    return fastem.vhmm if name.startswith("Variational") else fastem


def attributes():
    """All attributes of all modules but fastem's, by identity."""
    return {
        (name, attribute): value
        for name, module in list(sys.modules.items())
        if isinstance(module, types.ModuleType) and name.partition(".")[0] != "fastem"
        for attribute, value in list(vars(module).items())
        # What the interpreter and the test itself change.
        if name not in (__name__, "builtins") and not attribute.startswith("_pytest")
    }


def same(one, other):
    changed = [key for key in one if key in other and one[key] is not other[key]]
    kinds = (type, types.FunctionType, types.BuiltinFunctionType)
    return not [key for key in changed if isinstance(one[key], kinds)]


@pytest.fixture(autouse=True)
def undone():
    yield
    fastem.unpatch()


@pytest.mark.parametrize("name", CLASSES)
def test_classes_are_both(name):
    module, ours = CLASSES[name], getattr(home(name), name)
    original = getattr(module, name)
    before = original()
    with fastem.patch():
        patched = getattr(module, name)
        model = patched()
        assert isinstance(model, ours) and isinstance(model, original)
        assert isinstance(model, patched) and issubclass(patched, original)
        # Models that were there before are instances of what now has the name.
        assert isinstance(before, patched) and issubclass(original, patched)
        assert patched.__name__ == name and repr(model) == repr(ours())
        if hasattr(model, "get_params"):
            assert model.get_params() == ours().get_params()
            assert type(clone(model)) is patched
    assert getattr(module, name) is original and not issubclass(original, ours)
    assert not isinstance(before, ours) and not isinstance(3, original)
    assert issubclass(type("Derived", (ours,), {}), ours)


@pytest.mark.parametrize("name", CLASSES)
def test_everything_of_fastem_is_fastems(name):
    ours = getattr(home(name), name)
    with fastem.patch():
        patched = getattr(CLASSES[name], name)

    def definition(kind, attribute):
        return next(vars(c)[attribute] for c in kind.__mro__ if attribute in vars(c))

    made_for_each = {"__doc__", "__module__", "__dict__", "__weakref__", "__annotations__",
                     "__init_subclass__", "__subclasshook__", "__slots__",
                     "__abstractmethods__", "_abc_impl"}  # fmt: skip
    for attribute in set(dir(ours)) - made_for_each:
        if attribute.startswith("set_") and attribute.endswith("_request"):
            continue  # scikit-learn makes these for each class
        assert definition(patched, attribute) is definition(ours, attribute), attribute


def test_modules_that_have_the_names_already_are_patched():
    module = types.ModuleType("somebodys_module")
    module.Mixture = sklearn.mixture.GaussianMixture
    module.viterbi = _hmmc.viterbi
    module.unrelated = unrelated = object()
    original = module.Mixture
    sys.modules[module.__name__] = module
    try:
        with fastem.patch():
            assert module.Mixture is sklearn.mixture.GaussianMixture is not original
            assert sklearn.mixture._gaussian_mixture.GaussianMixture is module.Mixture
            assert pykalman.standard.KalmanFilter is pykalman.KalmanFilter
            assert module.viterbi is _hmmc.viterbi
            assert module.unrelated is unrelated
            # What somebody imports meanwhile is put back as well.
            module.Later = sklearn.mixture.GaussianMixture
        assert module.Mixture is module.Later is original
    finally:
        del sys.modules[module.__name__]


def test_unpatch_restores_every_attribute():
    # Modules that models load later are loaded first.
    with fastem.patch():
        pass
    before = attributes()
    fastem.patch()
    assert not same(before, attributes())
    fastem.patch()
    fastem.unpatch()
    assert same(before, attributes())
    fastem.unpatch()
    assert same(before, attributes())
    with fastem.patch():
        with fastem.patch():
            assert not same(before, attributes())
        assert not same(before, attributes())
    assert same(before, attributes())
    with pytest.raises(ZeroDivisionError), fastem.patch():
        1 / 0  # noqa: B018
    assert same(before, attributes())
    for name in RECURSIONS:
        assert isinstance(getattr(_hmmc, name), types.BuiltinFunctionType)


def test_what_is_patched_twice_is_the_same():
    with fastem.patch():
        one = sklearn.mixture.GaussianMixture
    with fastem.patch():
        assert sklearn.mixture.GaussianMixture is one


def test_a_log_line_says_which_class_went_where(caplog):
    with caplog.at_level(logging.INFO, "fastem.patch"), fastem.patch():
        for name, module in CLASSES.items():
            assert (
                f"{module.__name__}.{name} is now {home(name).__name__}.{name}" in caplog.messages
            )
        for name in RECURSIONS:
            assert f"hmmlearn._hmmc.{name} is now fastem's {name}" in caplog.messages
    assert "sklearn.mixture.GaussianMixture is the original again" in caplog.messages


def test_models_learn_the_same_as_fastems():
    X = np.random.default_rng(0).normal(size=(200, 2))
    with fastem.patch():
        mixture = sklearn.mixture.GaussianMixture(2, random_state=0).fit(X)
        hmm = hmmlearn.hmm.GaussianHMM(2, n_iter=3, random_state=0).fit(X, [100, 100])
        kalman = pykalman.KalmanFilter(n_dim_state=1, n_dim_obs=2).em(X, n_iter=2)
        again = pickle.loads(pickle.dumps(mixture))
    other = fastem.GaussianMixture(2, random_state=0).fit(X)
    np.testing.assert_array_equal(mixture.means_, other.means_)
    np.testing.assert_array_equal(again.means_, other.means_)
    other = fastem.GaussianHMM(2, n_iter=3, random_state=0).fit(X, [100, 100])
    np.testing.assert_array_equal(hmm.means_, other.means_)
    other = fastem.KalmanFilter(n_dim_state=1, n_dim_obs=2).em(X, n_iter=2)
    np.testing.assert_array_equal(kalman.smooth(X)[0], other.smooth(X)[0])
    # They stay what they are, and can be pickled, when the names are the originals again.
    assert pickle.loads(pickle.dumps(hmm)).score(X) == hmm.score(X)


def test_bayesian_mixtures_learn_the_same_as_fastems():
    X = np.random.default_rng(0).normal(size=(200, 2))
    with fastem.patch():
        model = sklearn.mixture.BayesianGaussianMixture(n_components=2, random_state=0).fit(X)
        again = pickle.loads(pickle.dumps(model))
    other = fastem.BayesianGaussianMixture(n_components=2, random_state=0).fit(X)
    for one in (model, again):
        np.testing.assert_array_equal(one.means_, other.means_)
        np.testing.assert_array_equal(one.predict_proba(X), other.predict_proba(X))
    original = sklearn.mixture.BayesianGaussianMixture(n_components=2, random_state=0).fit(X)
    assert not isinstance(original, fastem.BayesianGaussianMixture)
    np.testing.assert_allclose(original.means_, other.means_, atol=1e-6)


@pytest.mark.parametrize("name", ["VariationalGaussianHMM", "VariationalCategoricalHMM"])
def test_variational_models_learn_the_same_as_fastems(name):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 2)) if "Gaussian" in name else rng.integers(3, size=(200, 1))
    with fastem.patch():
        model = getattr(hmmlearn.vhmm, name)(2, n_iter=5, random_state=0).fit(X, [100, 100])
        again = pickle.loads(pickle.dumps(model))
    other = getattr(fastem.vhmm, name)(2, n_iter=5, random_state=0).fit(X, [100, 100])
    for one in (model, again):
        np.testing.assert_array_equal(one.transmat_posterior_, other.transmat_posterior_)
        np.testing.assert_array_equal(one.predict(X), other.predict(X))
        assert one.score(X) == other.score(X)
    original = getattr(hmmlearn.vhmm, name)(2, n_iter=5, random_state=0).fit(X, [100, 100])
    assert not isinstance(original, getattr(fastem.vhmm, name))


@pytest.mark.parametrize("name", [name for name in CLASSES if name.endswith("HMM")])
def test_nothing_of_a_class_in_place_is_taken_for_an_override(name):
    with fastem.patch():
        model = getattr(CLASSES[name], name)()
    assert overridden_hooks(model) == []
    model._do_mstep = lambda stats: None
    assert overridden_hooks(model) == ["_do_mstep"]


def test_subclasses_derive_from_the_original():
    X = np.random.default_rng(0).normal(size=(60, 1))
    original = hmmlearn.hmm.GaussianHMM
    with fastem.patch():

        class Custom(hmmlearn.hmm.GaussianHMM):
            """Overrides what only hmmlearn calls, and uses ``super``."""

            n_calls = 0

            def _compute_log_likelihood(self, X):
                self.n_calls += 1
                return super()._compute_log_likelihood(X)

        assert Custom.__bases__ == (original,)
        model = Custom(2, n_iter=2, random_state=0).fit(X)
        assert model.n_calls > 0
        assert isinstance(model, hmmlearn.hmm.GaussianHMM)
        patched = model.means_
    model = Custom(2, n_iter=2, random_state=0).fit(X)
    np.testing.assert_allclose(model.means_, patched, rtol=1e-8)


# The recursions ----------------------------------------------------------------------------------


def problems():
    for n_steps, n_states, seed in ((1, 2, 0), (2, 3, 1), (40, 2, 2), (70, 5, 3), (3000, 3, 4),
                                    (900, 9, 5)):  # fmt: skip
        rng = np.random.default_rng(seed)
        start, matrix = rng.dirichlet(np.ones(n_states)), rng.dirichlet(np.ones(n_states), n_states)
        yield start, matrix, 2 * rng.normal(size=(n_steps, n_states))
    # Zeros, ties, and probabilities that underflow or do not sum to one.
    chain = 0.9 * np.eye(4) + 0.1 * np.eye(4, k=1)
    chain[-1, -1] = 1.0
    yield np.eye(4)[0], chain, np.random.default_rng(0).normal(size=(100, 4))
    start, matrix = np.full(3, 1 / 3), np.full((3, 3), 1 / 3)
    yield start, matrix, np.random.default_rng(0).integers(-2, 0, size=(80, 3)).astype(float)
    yield start, matrix, np.random.default_rng(0).normal(size=(50, 3)) * 1000.0
    yield 0.5 * start, 0.7 * matrix, np.random.default_rng(0).normal(size=(50, 3))
    start, matrix = np.full(20, 1 / 20), np.full((20, 20), 1 / 20)
    yield start, matrix, np.random.default_rng(0).integers(-2, 0, size=(600, 20)).astype(float)
    yield 0.5 * start, matrix, np.random.default_rng(0).normal(size=(500, 20))


def run_all(start, matrix, x):
    """All recursions, by name."""
    log_p, alpha = _hmmc.forward_log(start, matrix, x)
    beta = _hmmc.backward_log(start, matrix, x)
    found = {"log_p": log_p, "alpha": alpha, "beta": beta}
    found["viterbi"], found["path"] = _hmmc.viterbi(start, matrix, x)
    if len(x) > 1:
        found["xi"] = _hmmc.compute_log_xi_sum(alpha, matrix, beta, x)
    p = np.exp(x - x.max(axis=1, keepdims=True))
    try:
        found["scaled"], alpha, scaling = _hmmc.forward_scaling(start, matrix, p)
    except ValueError as error:
        found["error"] = str(error)
        return found
    beta = _hmmc.backward_scaling(start, matrix, p, scaling)
    found |= {"scaled alpha": alpha, "scaling": scaling, "scaled beta": beta}
    found["scaled xi"] = _hmmc.compute_scaling_xi_sum(alpha, matrix, beta, p)
    return found


@pytest.mark.parametrize("always", [False, True])
@pytest.mark.parametrize("problem", list(problems()))
def test_recursions_are_hmmlearns(problem, always, monkeypatch):
    if always:  # also where hmmlearn's take less time
        monkeypatch.setattr(patching, "_WORTH", dict.fromkeys(patching._WORTH, (0, 0)))
    kept = [array.copy() for array in problem]
    expected = run_all(*problem)
    with fastem.patch():
        found = run_all(*problem)
    assert found.keys() == expected.keys()
    assert found.pop("error", None) == expected.pop("error", None)
    np.testing.assert_array_equal(found.pop("path"), expected.pop("path"))
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, rtol=1e-8, atol=1e-10, err_msg=name)
        assert type(found[name]) is type(value), name
    for before, after in zip(kept, problem, strict=True):
        np.testing.assert_array_equal(before, after)


def outcome(function, *arguments):
    try:
        return function(*arguments)
    except (ValueError, TypeError) as error:
        return type(error), str(error)


@pytest.mark.parametrize("name", RECURSIONS)
def test_other_arguments_are_left_to_hmmlearn(name, monkeypatch):
    monkeypatch.setattr(patching, "_WORTH", dict.fromkeys(patching._WORTH, (0, 0)))
    rng = np.random.default_rng(0)
    start, matrix = np.full(3, 1 / 3), np.full((3, 3), 1 / 3)
    x = rng.random((5, 3))
    good = {
        "forward_log": (start, matrix, x), "backward_log": (start, matrix, x),
        "viterbi": (start, matrix, x), "forward_scaling": (start, matrix, x),
        "backward_scaling": (start, matrix, x, np.ones(5)),
        "compute_log_xi_sum": (x, matrix, x, x), "compute_scaling_xi_sum": (x, matrix, x, x),
    }[name]  # fmt: skip
    wrong = []
    for i, array in enumerate(good):
        for change in (array[:-1], array[None], np.full_like(array, np.nan), array.astype(str)):
            wrong.append((*good[:i], change, *good[i + 1 :]))
        for change in (np.asfortranarray(array), array.astype(np.float32), array.tolist()):
            wrong.append((*good[:i], change, *good[i + 1 :]))
    original = getattr(_hmmc, name)
    with fastem.patch():
        replaced = getattr(_hmmc, name)
    assert replaced is not original
    for arguments in wrong:
        one, two = outcome(original, *arguments), outcome(replaced, *arguments)
        assert type(one) is type(two)
        if isinstance(one, tuple) and isinstance(one[0], type):
            assert one == two
        else:
            for a, b in zip(np.atleast_1d(one) if not isinstance(one, tuple) else one,
                            np.atleast_1d(two) if not isinstance(two, tuple) else two,
                            strict=True):  # fmt: skip
                np.testing.assert_allclose(a, b, rtol=1e-5)


@pytest.mark.parametrize("implementation", ["log", "scaling"])
def test_a_hidden_markov_model_of_ones_own(implementation):
    class Steps(hmmlearn.base.BaseHMM):
        """Emissions on a ramp that are not learned."""

        def _init(self, X, lengths=None):
            super()._init(X, lengths)

        def _get_n_fit_scalars_per_param(self):
            return {"s": 1, "t": 2}

        def _compute_log_likelihood(self, X):
            return -0.5 * (X - np.arange(self.n_components)) ** 2

    X = np.random.default_rng(0).normal(size=(300, 1)) + np.repeat([0, 1, 2], 100)[:, None]

    def fitted():
        model = Steps(3, n_iter=5, tol=-np.inf, random_state=0, params="st", init_params="st",
                      implementation=implementation)  # fmt: skip
        return model.fit(X)

    expected = fitted()
    with fastem.patch():
        found = fitted()
        assert found.score(X) == pytest.approx(expected.score(X), rel=1e-9)
        np.testing.assert_array_equal(found.predict(X), expected.predict(X))
    np.testing.assert_allclose(found.transmat_, expected.transmat_, rtol=1e-7)


# Processes ---------------------------------------------------------------------------------------

SCRIPT = """
import sys
import helper_beside
from hmmlearn.hmm import GaussianHMM
from pykalman import KalmanFilter
from sklearn.mixture import GaussianMixture
print(__name__, sys.argv[1:], helper_beside.VALUE)
for kind in (GaussianMixture, GaussianHMM, KalmanFilter):
    print(kind.__name__, any(c.__module__.startswith("fastem.") for c in kind.__mro__))
model = GaussianMixture(2, random_state=0).fit([[0.0], [0.1], [5.0], [5.1]])
print(sorted(model.means_.round(2).ravel().tolist()))
"""


def run(*arguments, cwd=None):
    done = subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, check=False, cwd=cwd
    )
    return done.returncode, done.stdout.splitlines(), done.stderr


@pytest.fixture
def script(tmp_path):
    (tmp_path / "helper_beside.py").write_text("VALUE = 7\n")
    path = tmp_path / "script.py"
    path.write_text(SCRIPT)
    return path


def test_a_script_runs_with_fastems_classes(script, tmp_path):
    code, plain, errors = run(str(script), "a", "--b")
    assert code == 0, errors
    code, patched, errors = run("-m", "fastem.patch", str(script), "a", "--b")
    assert code == 0, errors
    assert plain[0] == patched[0] == "__main__ ['a', '--b'] 7"
    assert [line.split()[1] for line in plain[1:4]] == ["False"] * 3
    assert [line.split()[1] for line in patched[1:4]] == ["True"] * 3
    assert plain[4] == patched[4] == "[0.05, 5.05]"
    code, as_module, errors = run("-m", "fastem.patch", "-m", "script", "a", "--b", cwd=tmp_path)
    assert code == 0, errors
    assert as_module == patched


def test_a_script_says_what_went_where_if_asked_to(script):
    code, _, errors = run("-m", "fastem.patch", "--verbose", str(script))
    assert code == 0 and "sklearn.mixture.GaussianMixture is now fastem.GaussianMixture" in errors


def test_errors_and_ends_of_scripts(tmp_path):
    path = tmp_path / "ends.py"
    path.write_text("import sys\nsys.exit(3)\n")
    assert run("-m", "fastem.patch", str(path))[0] == 3
    path.write_text("1 / 0\n")
    code, _, errors = run("-m", "fastem.patch", str(path))
    assert code == 1 and "ZeroDivisionError" in errors
    assert run("-m", "fastem.patch")[0] == 2
    assert run("-m", "fastem.patch", "-m")[0] == 2
    code, lines, _ = run("-m", "fastem.patch", "--help")
    assert code == 0 and lines[0].startswith("usage")


@pytest.mark.parametrize(
    "code",
    [
        "import fastem; fastem.patch()",
        "import fastem.patch; import fastem; fastem.patch()",
        "import fastem; fastem.patch; import fastem.patch; fastem.patch()",
        "import fastem; fastem.patch(); import fastem.patch; fastem.patch()",
        "from fastem import patch; patch()",
        "import fastem.patch; from fastem import patch; patch()",
        "import importlib; importlib.import_module('fastem.patch')()",
    ],
)
def test_the_function_and_the_module_in_any_order(code):
    lines = [
        "import sklearn.mixture as m", "originals = [m.GaussianMixture]", code,
        "assert m.GaussianMixture is not originals[0]", "import fastem", "fastem.unpatch()",
        "assert m.GaussianMixture is originals[0]",
    ]  # fmt: skip
    returned, _, errors = run("-c", "\n".join(lines))
    assert returned == 0, errors


def test_a_pickle_is_read_by_another_process(tmp_path):
    path = tmp_path / "model.pickle"
    with fastem.patch():
        model = sklearn.mixture.GaussianMixture(1).fit([[0.0], [1.0], [3.0]])
        path.write_bytes(pickle.dumps(model))
    code = (
        f"import pickle; model = pickle.load(open({str(path)!r}, 'rb')); "
        "print(type(model).__name__, model.means_.round(3).tolist())"
    )
    returned, lines, errors = run("-c", code)
    assert returned == 0 and lines == ["GaussianMixture [[1.333]]"], errors


def test_models_travel_while_classes_are_patched():
    import hmmlearn.hmm
    import pykalman

    X = np.random.default_rng(0).normal(size=(60, 2))
    theirs = hmmlearn.hmm.GaussianHMM(2, n_iter=2, random_state=0).fit(X)
    kind, filter_kind = type(theirs), pykalman.KalmanFilter
    with fastem.patch():
        ours = fastem.GaussianHMM.from_hmmlearn(theirs)
        assert type(ours) is fastem.GaussianHMM
        assert type(ours.to_hmmlearn()) is kind
        there = fastem.KalmanFilter(transition_matrices=[[1.0]]).to_pykalman()
        assert type(there) is filter_kind
        assert type(fastem.KalmanFilter.from_pykalman(there)) is fastem.KalmanFilter
    np.testing.assert_allclose(ours.score(X), theirs.score(X), rtol=1e-9)


def of_peers():
    """Fitted models of the original classes, by name."""
    rows = np.random.default_rng(3).normal(size=(60, 2))
    made = {
        "GaussianMixture": sklearn.mixture.GaussianMixture(2, random_state=0),
        "GaussianHMM": hmmlearn.hmm.GaussianHMM(2, random_state=0),
    }
    models = {name: model.fit(rows) for name, model in made.items()}
    models["KalmanFilter"] = pykalman.KalmanFilter(n_dim_state=2, n_dim_obs=2).em(rows, n_iter=2)
    return models, rows


def test_models_that_were_made_before_are_pickled_and_copied():
    models, _ = of_peers()
    registered = dict(copyreg.dispatch_table)
    fastem.patch()
    pickles = {}
    for name, model in models.items():
        for version in range(pickle.HIGHEST_PROTOCOL + 1):
            text = pickle.dumps(model, version)
            assert b"fastem" not in text
            pickles[name, version] = text
            # Its name is that of fastem's class now.
            assert type(pickle.loads(text)) is getattr(CLASSES[name], name)
        joblib.dump(model, file := io.BytesIO())
        file.seek(0)
        assert type(joblib.load(file)) is getattr(CLASSES[name], name)
        for twin in (copy.copy(model), copy.deepcopy(model)):
            assert type(twin) is type(model) and vars(twin).keys() == vars(model).keys()
        assert (copy.copy(model).__dict__ is not model.__dict__) and not (
            name == "GaussianMixture" and copy.deepcopy(model).means_ is model.means_
        )
    learned = sklearn.mixture.GaussianMixture(2).fit(np.eye(5)).to_sklearn()
    pickles["GaussianMixture", "sent"] = pickle.dumps(learned)
    read = pickle.loads(pickles["GaussianHMM", 4]).monitor_
    fastem.unpatch()
    assert copyreg.dispatch_table == registered
    for (name, _), text in pickles.items():
        assert type(pickle.loads(text)) is type(models[name])
    before = models["GaussianHMM"].monitor_
    assert list(read.history) == list(before.history) and read.iter == before.iter
    assert read.converged == before.converged and before.iter > 0


def test_methods_that_are_called_by_the_name_of_the_class():
    models, rows = of_peers()
    expected = models["GaussianMixture"].predict(rows)
    fastem.patch()
    mixture, chain = sklearn.mixture.GaussianMixture, hmmlearn.hmm.GaussianHMM

    class Mixture(mixture):
        def __init__(self, n_components=1):
            mixture.__init__(self, n_components=n_components, random_state=0)

        def _m_step(self, X, log_resp, xp=None):
            mixture._m_step(self, X, log_resp, xp=xp)

    class Chain(chain):
        def _do_mstep(self, stats):
            chain._do_mstep(self, stats)

    class Filter(pykalman.KalmanFilter):
        def filter(self, X):
            return pykalman.KalmanFilter.filter(self, X)

    np.testing.assert_array_equal(Mixture(2).fit(rows).predict(rows), expected)
    np.testing.assert_array_equal(mixture.predict(models["GaussianMixture"], rows), expected)
    assert Chain(2, random_state=0).fit(rows).score(rows) == pytest.approx(
        models["GaussianHMM"].score(rows)
    )
    assert len(Filter(n_dim_state=2, n_dim_obs=2).filter(rows)) == 2
    # And fastem's methods for its own objects.
    ours = mixture(2, random_state=0).fit(rows)
    np.testing.assert_array_equal(mixture.predict(ours, rows), ours.predict(rows))
    assert mixture.predict is mixture.predict and mixture.predict.__name__ == "predict"


def test_a_model_of_a_class_in_place_travels():
    rows = np.random.default_rng(3).normal(size=(60, 2))
    with fastem.patch():
        model = hmmlearn.hmm.GaussianHMM(2, random_state=0).fit(rows)
        ours = fastem.GaussianHMM.from_hmmlearn(model)
        assert type(ours) is fastem.GaussianHMM and ours.score(rows) == model.score(rows)


@pytest.mark.parametrize("kind", ["tied", "full", "diag", "spherical"])
@pytest.mark.parametrize("name", ["GaussianMixture", "BayesianGaussianMixture"])
def test_mixtures_that_were_saved_before_classes_were_patched(name, kind):
    X = np.random.default_rng(0).normal(size=(200, 3)) + [[0.0], [4.0]] * 100
    original = getattr(sklearn.mixture, name)(n_components=2, covariance_type=kind, random_state=0)
    blank = pickle.dumps(original)
    saved = pickle.dumps(original.set_params(warm_start=True).fit(X))
    with fastem.patch():
        model = pickle.loads(saved)
        assert isinstance(model, getattr(home(name), name))
        assert "_sklearn_version" not in vars(model)
        assert repr(model) == repr(clone(model))
        np.testing.assert_allclose(model.score_samples(X), original.score_samples(X), rtol=1e-9)
        np.testing.assert_array_equal(model.sample(5)[1], original.sample(5)[1])
        model.fit(X)
        original.fit(X)
        np.testing.assert_allclose(model.means_, original.means_, rtol=1e-8, atol=1e-8)
        model.partial_fit(X)
        assert model.n_observations_ == 400
        fitted = pickle.loads(blank).fit(X)
    assert fitted.score(X) == pytest.approx(original.score(X), rel=1e-2)


def test_other_models_that_were_saved_before_classes_were_patched():
    X = np.random.default_rng(0).normal(size=(60, 2))
    chain = hmmlearn.hmm.GaussianHMM(2, random_state=0).fit(X)
    tracker = pykalman.KalmanFilter(transition_matrices=np.eye(2), observation_matrices=np.eye(2))
    counts = np.random.default_rng(1).integers(4, size=(60, 1))
    symbols = hmmlearn.hmm.CategoricalHMM(2, random_state=0).fit(counts)
    saved = pickle.dumps((chain, tracker, symbols))
    with fastem.patch():
        ours = pickle.loads(saved)
        assert ours[2].n_features == 4
        assert ours[2].score(counts) == pytest.approx(symbols.score(counts), rel=1e-9)
        assert clone(ours[2]).fit(counts).n_features == 4
        assert isinstance(ours[0], fastem.GaussianHMM) and isinstance(ours[1], fastem.KalmanFilter)
        assert ours[0].score(X) == pytest.approx(chain.score(X), rel=1e-9)
        np.testing.assert_array_equal(ours[0].predict(X), chain.predict(X))
        np.testing.assert_allclose(ours[1].filter(X)[0], tracker.filter(X)[0], rtol=1e-9)
        ours[0].fit(X)
