"""Nothing reaches a kernel with a size that nobody compared, whoever brings it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import sizes_driver
from scipy import sparse
from sklearn.mixture import GaussianMixture as Reference

import fastem
from fastem.data.rows import Table
from fastem.data.sequences import Sequences, as_sequences
from fastem.dirichlet.model import CompoundDirichletModel, DirichletModel
from fastem.families import (
    Bernoulli,
    Beta,
    Categorical,
    DirichletMultinomial,
    Exponential,
    Gamma,
    Gaussian,
    MixtureOf,
    Multinomial,
    Poisson,
    Product,
)
from fastem.hmm.model import HMMModel
from fastem.mixture.model import MixtureModel
from fastem.saving import files

HERE = Path(__file__).parent


def run(*arguments, **environment):
    """A script in a process of its own, which may be killed."""
    return subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, timeout=600,
        env={**os.environ, **environment},
    )  # fmt: skip


# Attributes, memories and statistics --------------------------------------------------------------


@pytest.mark.parametrize("name", sizes_driver.SUBJECTS)
def test_whatever_is_set_by_hand(name):
    """Every attribute and memory, wrong in every way, and every method: an error, no crash."""
    done = run(str(HERE / "sizes_driver.py"), name)
    lines = done.stdout.splitlines()
    assert done.returncode == 0, f"{done.returncode} at {lines[-1:]}\n{done.stderr[-2000:]}"
    assert lines[-1].startswith("done ")
    assert len(lines) > 100
    found = json.loads(lines[-1].removeprefix("done "))
    assert not found, "\n".join(found[:20])


# Precisions ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["full", "tied"])
@pytest.mark.parametrize("shape", ["lower", "square", "upper"])
def test_factors_of_precisions_of_any_shape_are_as_in_scikit_learn(kind, shape):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(40, 5))
    mine = fastem.GaussianMixture(3, covariance_type=kind, random_state=0, max_iter=2)
    with pytest.warns(Warning):
        mine.fit(X)
    factors = rng.normal(size=(3, 5, 5) if kind == "full" else (5, 5))
    factors = {"lower": np.tril, "upper": np.triu, "square": np.asarray}[shape](factors)
    diagonal = np.arange(5)
    factors[..., diagonal, diagonal] = 1.0 + np.abs(factors[..., diagonal, diagonal])
    theirs = Reference(3, covariance_type=kind)
    for model in (mine, theirs):
        model.weights_, model.means_ = mine.weights_, mine.means_
        model.covariances_ = mine.covariances_
        model.precisions_cholesky_ = factors
    np.testing.assert_allclose(mine.score_samples(X), theirs.score_samples(X), rtol=1e-12)
    np.testing.assert_allclose(mine.predict_proba(X), theirs.predict_proba(X), atol=1e-12)


# One observation at a time ------------------------------------------------------------------------


def chain(family, parameters):
    n = 2
    return HMMModel(family, np.full(n, 0.5), np.full((n, n), 0.5), parameters, horizon=3)


HALF = np.full((2, 2), 0.5)
FILTERED = {
    "categorical": (Categorical(4), {"probabilities": np.full((2, 2, 4), 0.25)}, [1, 3]),
    "poisson": (Poisson(), {"rates": 1 + HALF}, [0, 7]),
    "bernoulli": (Bernoulli(), {"probabilities": HALF}, [0, 1]),
    "exponential": (Exponential(), {"scales": HALF}, [0.0, 2.5]),
    "gamma": (Gamma(), {"shapes": HALF, "scales": HALF}, [0.1, 2.5]),
    "beta": (Beta(), {"alphas": HALF, "betas": HALF}, [0.1, 0.9]),
    "multinomial": (Multinomial(), {"probabilities": HALF}, [3, 2]),
    "compound": (DirichletMultinomial(), {"alphas": HALF}, [3, 2]),
    "gaussian": (Gaussian("full"), {"means": HALF, "covariances": [np.eye(2)] * 2}, [-3.5, 2]),
    "members": (
        MixtureOf(Categorical(4), 1),
        {"weights": np.ones((2, 1)), "probabilities": np.full((2, 1, 2, 4), 0.25)},
        [1, 3],
    ),
    "product": (
        Product((Gaussian("diag"), [1]), (Categorical(4), [0])),
        {
            "gaussian_means": np.ones((2, 1)),
            "gaussian_covariances": np.ones((2, 1)),
            "categorical_probabilities": np.full((2, 1, 4), 0.25),
        },
        [3, -1.5],
    ),
    "own": (sizes_driver.Rayleigh(), {"natural": -HALF}, [0.5, 2.5]),
}
OUTSIDE = {
    "categorical": [4, -1, 1.5, 1e9],
    "poisson": [-1, 0.5],
    "bernoulli": [2, 0.5],
    "exponential": [-1],
    "gamma": [0.0, -1],
    "beta": [0.0, 1.0],
    "multinomial": [-1, 0.5],
    "compound": [-1, 0.5],
    "members": [4, -1, 1.5, 1e9],
    "product": [4, -1, 1.5, 1e9],
}


@pytest.mark.parametrize("name", FILTERED)
def test_a_filter_takes_in_what_a_table_may_hold(name):
    family, parameters, good = FILTERED[name]
    model = chain(family, parameters)
    state = fastem.hmm_stream.StateFilter(model)
    expected = model.infer(Sequences(np.array([good, good], dtype=float)))[0][0]
    for _ in range(2):
        state.update(good)
    assert state.log_likelihood == pytest.approx(expected, rel=1e-12)
    before = state.n_steps, state.log_likelihood, state._log_p.copy()
    wrong = [[value, good[1]] for value in (*OUTSIDE.get(name, ()), np.inf, -np.inf)]
    wrong += [good[:1], [*good, 1.0], [good, good], [], 1.0]
    for x in wrong:
        with pytest.raises(ValueError, match=r"\w+ \w+ \w+"):
            state.update(x)
    for x in (["a", "b"], [1j, 1.0], [None, 1.0], None, "word"):
        with pytest.raises(TypeError, match="real numbers"):
            state.update(x)
    if not family.separable and name != "product":
        with pytest.raises(ValueError, match="can only be missing whole"):
            state.update([np.nan, good[1]])
    else:
        state.update([np.nan, good[1]])
        state.reset()
        for _ in range(2):
            state.update(good)
    assert (state.n_steps, state.log_likelihood) == before[:2]
    np.testing.assert_array_equal(state._log_p, before[2])
    state.update([np.nan, np.nan])
    assert state.log_likelihood == pytest.approx(expected, rel=1e-12)


# Data given to models, without an estimator that checks them --------------------------------------


def symbols_model():
    return MixtureModel(Categorical(4), [0.5, 0.5], {"probabilities": np.full((2, 2, 4), 0.25)})


@pytest.mark.parametrize("worst", [4, -1, 10**9, np.nan])
def test_symbols_that_are_none_reach_no_kernel(worst):
    X = np.zeros((6, 2), dtype=float)
    X[3, 1] = worst
    mixture = symbols_model()
    hmm = chain(Categorical(4), {"probabilities": np.full((2, 2, 4), 0.25)})
    table = Table(X)
    missing_denied = Sequences(X, missing=False)
    calls = [
        lambda: mixture.expect(X),
        lambda: mixture.expect(table),
        lambda: mixture.expect([X, X]),
        lambda: mixture.infer(X, log_totals=True),
        lambda: mixture.learn(Table(X), np.ones(6), 1),
        lambda: hmm.expect(missing_denied),
        lambda: hmm.infer(missing_denied, posteriors=True),
        lambda: hmm.decode(missing_denied),
        lambda: hmm.learn(missing_denied, np.ones(1), 1),
    ]
    if worst == worst:
        calls += [lambda: hmm.expect(X), lambda: hmm.infer(X), lambda: hmm.decode(X)]
    for call in calls:
        with pytest.raises(ValueError, match=r"whole numbers from 0 to 3|NaN or infinity"):
            call()


def test_a_stream_whose_symbols_change():
    """The number of symbols is found in the first pass; another pass may bring others."""
    passes = iter(range(100))

    def stream():
        top = 3 if next(passes) < 3 else 10**8
        yield np.array([[0], [1], [2], [top]])

    model = fastem.CategoricalHMM(2, n_iter=5, random_state=0)
    with pytest.raises(ValueError, match="whole numbers from 0 to 3"):
        model.fit(stream)


def test_rows_of_other_widths_kinds_or_weights():
    good = np.zeros((6, 2))
    mixture = MixtureModel(Poisson(), [0.5, 0.5], {"rates": np.ones((2, 2))})
    hmm = chain(Poisson(), {"rates": np.ones((2, 2))})
    dirichlet = DirichletModel(np.ones(2))
    documents = CompoundDirichletModel(np.ones(2))
    points = np.full((6, 2), 0.5)
    for X in (good[:, :1], np.zeros((6, 3)), np.zeros(6), np.zeros((2, 3, 2))):
        calls = [
            lambda X=X: mixture.expect(X),
            lambda X=X: mixture.infer(X, labels=True),
            lambda X=X: mixture.learn(Table(X), np.ones(6), 1),
            lambda X=X: dirichlet.expect(X + 0.5),
            lambda X=X: dirichlet.log_likelihoods(X + 0.5),
            lambda X=X: dirichlet.learn(Table(X + 0.5), np.ones(6), 2),
            lambda X=X: documents.expect(X),
            lambda X=X: documents.log_likelihoods(X),
            lambda X=X: documents.learn(Table(X), np.ones(6), 2),
        ]
        if X.ndim < 3:
            calls += [lambda X=X: hmm.expect(X), lambda X=X: hmm.decode(X)]
        for call in calls:
            with pytest.raises(ValueError, match=r"columns|dimensions|words|2D array"):
                call()
    for kind in (complex, str, object):
        X = good.astype(kind)
        for call in (mixture.expect, mixture.infer, hmm.expect, hmm.infer, documents.expect):
            with pytest.raises(TypeError, match="real numbers"):
                call(X)
    short = Table(good, np.ones(3))
    for call in (
        lambda: mixture.expect(short),
        lambda: mixture.learn(Table(good, np.ones(3)), np.ones(6), 1),
        lambda: documents.expect(short),
        lambda: documents.learn(Table(good, np.ones(3)), np.ones(6), 1),
        lambda: dirichlet.expect(Table(points, np.ones(3))),
    ):
        with pytest.raises(ValueError, match="one entry for each of the 6 rows"):
            call()
    for model, X in ((mixture, good), (documents, good), (dirichlet, points)):
        with pytest.raises(ValueError, match="One rate is needed for each of the 6 online steps"):
            model.learn(Table(X), np.ones(5), 1)
        with pytest.raises(ValueError, match="batch_size must be a whole number, 1 or more"):
            model.learn(Table(X), np.ones(6), 0)
    with pytest.raises(ValueError, match="One rate is needed for each of the 2 online steps"):
        hmm.learn(as_sequences([good, good]), np.ones(1), 1)


def test_sparse_documents_that_point_elsewhere():
    counts = sparse.csr_array(np.array([[1, 2, 0], [0, 1, 5]]))
    model = fastem.CompoundDirichlet(max_iter=2)
    for spoil in (
        lambda X: X.indices.__setitem__(0, 10**6),
        lambda X: X.indices.__setitem__(0, -5),
        lambda X: X.indptr.__setitem__(1, 10**6),
    ):
        X = counts.copy()
        spoil(X)
        for call in (
            lambda X=X: model.fit(X),
            lambda X=X: CompoundDirichletModel(np.ones(3)).expect(X),
            lambda X=X: CompoundDirichletModel(np.ones(3)).log_likelihoods(X),
        ):
            with pytest.raises(ValueError, match="ind"):
                call()


# Chains -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"startprob": [0.5, np.nan]}, "startprob holds probabilities"),
        ({"startprob": [0.5, 0.6]}, "startprob must sum to 1"),
        ({"startprob": [1.0]}, r"startprob has the shape \(1,\)"),
        ({"transmat": [[0.5, 0.5], [np.nan, 1.0]]}, "transmat holds probabilities"),
        ({"transmat": [[0.5, 0.5], [0.5, 0.4]]}, r"transmat\[1\] must sum to 1"),
        ({"absorbing": [2]}, "absorbing: 2 is not one of the states"),
        ({"absorbing": [-1]}, "absorbing: -1 is not one of the states"),
        ({"horizon": "long"}, "A length is a whole number"),
        ({"horizon": 0}, "1 step or more"),
    ],
)
def test_chains_that_are_none(changes, words):
    right = {"startprob": [0.5, 0.5], "transmat": [[0.5, 0.5], [0.5, 0.5]]}
    arguments = {**right, **changes}
    start, transitions = arguments.pop("startprob"), arguments.pop("transmat")
    with pytest.raises(ValueError, match=words):
        HMMModel(Poisson(), start, transitions, {"rates": np.ones((2, 1))}, **arguments)


def test_families_whose_parameters_are_missing():
    with pytest.raises(ValueError, match=r"lacking \['covariances'\]"):
        MixtureModel(Gaussian("full"), [1.0], {"means": np.zeros((1, 2))})


# Products -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_columns", [1, 2, 4])
def test_a_product_says_how_many_columns_it_takes(n_columns):
    family = Product((Gaussian("diag"), 2), (Poisson(), 1))
    X = np.ones((12, n_columns))
    for model in (fastem.Mixture(family, 2), fastem.HMM(family, 2)):
        for learn in (model.fit, model.partial_fit):
            with pytest.raises(ValueError, match=f"have {n_columns} columns, and .* take 3 in all"):
                learn(X)
    with pytest.raises(ValueError, match="a pair of a family and its columns"):
        Product(("poisson", 2))


# Families of the user's own -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "answer"),
    [
        ("sufficient", lambda X: X[:, 0]),
        ("sufficient", lambda X: X[1:]),
        ("sufficient", lambda X: np.hstack([X, X])),
        ("log_base", lambda X: np.zeros((len(X), 1))),
        ("log_base", lambda X: 0.0),
        ("log_partition", lambda natural: np.zeros(len(natural) + 1)),
        ("log_partition", lambda natural: np.zeros_like(natural)),
        ("mean", lambda natural: -1 / natural[:, :1]),
        ("mean", lambda natural: None),
        ("natural", lambda mean: -1 / mean[:1]),
        ("sample", lambda natural, rng: np.ones(len(natural))),
    ],
)
def test_what_a_family_of_ones_own_returns_is_compared(method, answer):
    X = np.abs(sizes_driver.POINTS)
    model = fastem.Mixture(sizes_driver.Rayleigh(), 2, random_state=0, max_iter=3).fit(X)
    kind = type("Wrong", (sizes_driver.Rayleigh,), {method: lambda self, *given: answer(*given)})
    model.set_params(family=kind())

    def use():
        model.sample(3)
        model.partial_fit(X)

    with pytest.raises((ValueError, TypeError), match=rf"Wrong\.{method}\(\) must|columns"):
        use()


# Mixtures as components ---------------------------------------------------------------------------

# One with statistics of the name of the mixture's own, one whose observations have a size, one
# within which there are several, one that kernels cannot maximize: each compiles its own kernels.
MEMBERS = {
    "poisson": (Poisson(), sizes_driver.COUNTS),
    "categorical": (Categorical(4), sizes_driver.SYMBOLS),
    "multinomial": (Multinomial(), sizes_driver.COUNTS),
    "product": (sizes_driver.MIXED_FAMILY, sizes_driver.MIXED),
    "own": (sizes_driver.Rayleigh(), np.abs(sizes_driver.POINTS)),
}


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(
    ("make", "name"),
    [
        (fastem.HMM, "poisson"),
        (fastem.HMM, "product"),
        (fastem.Mixture, "categorical"),
        (fastem.Mixture, "multinomial"),
        (fastem.Mixture, "own"),
    ],
)
def test_one_member_is_the_plain_family(make, name):
    member, X = MEMBERS[name]
    settings = {"random_state": 0}
    plain = make(member, 3, **settings).fit(X)
    one = make(MixtureOf(member, 1), 3, **settings).fit(X)
    assert one.score(X) == pytest.approx(plain.score(X), rel=1e-8)
    assert one.bic(X) == pytest.approx(plain.bic(X), rel=1e-8)
    for model in (plain, one):
        model.partial_fit(X)
    assert one.score(X) == pytest.approx(plain.score(X), rel=1e-8)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", ["poisson", "categorical", "own"])
def test_a_mixture_of_mixtures_is_a_mixture(name):
    """Its likelihood is that of the flat mixture of all members, and EM raises it."""
    member, X = MEMBERS[name]
    model = fastem.Mixture(MixtureOf(member, 2), 2, random_state=0, max_iter=20, tol=0).fit(X)
    assert model.weights_.shape == (2,)
    assert model.member_weights_.shape == (2, 2)
    parameters = {n: getattr(model, f"{n}_") for n in member.parameter_names}
    flat = {n: array.reshape(-1, *array.shape[2:]) for n, array in parameters.items()}
    weights = (model.weights_[:, None] * model.member_weights_).ravel()
    expected = MixtureModel(member, weights, flat).infer(X, log_totals=True)[0]
    np.testing.assert_allclose(model.score_samples(X), expected, rtol=1e-10)
    assert (np.diff(model.lower_bounds_) > -1e-9).all()
    # The members are not all alike: the start has moved them apart.
    assert any(not np.allclose(array[:, 0], array[:, 1]) for array in parameters.values())


def test_mixtures_within_mixtures_are_refused():
    with pytest.raises(ValueError, match="A mixture of mixtures is a mixture"):
        MixtureOf(MixtureOf(Poisson(), 2), 2)
    with pytest.raises(ValueError, match="cannot share parameters"):
        MixtureOf(Product((Gaussian("tied"), 2), (Poisson(), 1)), 2)


# Files --------------------------------------------------------------------------------------------


def saved(model, path):
    fastem.save(model, path)
    return files.read(path)


@pytest.mark.parametrize("name", ["GaussianMixture diag", "CategoricalHMM", "CompoundDirichlet"])
def test_files_whose_arrays_do_not_agree(name, tmp_path):
    model, X = sizes_driver.fitted(name)
    model.set_params(memory="statistics").partial_fit(X)
    path = tmp_path / "model"
    kind, settings, arrays = saved(model, path)
    fastem.load(path).partial_fit(X)
    tried = 0
    for key, array in arrays.items():
        if "precisions_" in key and "cholesky" not in key:
            continue
        cases = [*sizes_driver.wrong_sizes(array), ("complex", array + 1j)]
        if "lengths_.weight" not in key:
            cases.append(("NaN", np.full(array.shape, np.nan)))
        for how, wrong in cases:
            wrong = np.asarray(wrong)
            if key == "attribute.alpha_" and "axis 0" in how:
                continue
            files.write(path, kind, settings, {**arrays, key: wrong})
            try:
                fastem.load(path)
            except files.FileError as error:
                assert "is damaged" in str(error)
                tried += 1
            else:
                pytest.fail(f"{key} {how} was loaded")
    assert tried > 20


@pytest.mark.parametrize(
    "attribute", ["fit", "__dict__", "__class__", "_model", "covariances", "n_components", "x_"]
)
def test_files_set_only_what_is_learned(attribute, tmp_path):
    model, _ = sizes_driver.fitted("GaussianMixture diag")
    path = tmp_path / "model"
    kind, settings, arrays = saved(model, path)
    settings["attributes"][attribute] = {"value": {}}
    files.write(path, kind, settings, arrays)
    with pytest.raises(files.FileError, match="which this version of fastem does not know"):
        fastem.load(path)


@pytest.mark.parametrize(
    ("attribute", "entry"),
    [
        ("n_steps_", {"value": "7"}),
        ("n_steps_", {"value": -1}),
        ("n_steps_", {"value": None}),
        ("n_iter_", {"value": 1.5}),
        ("converged_", {"value": "yes"}),
        ("lower_bound_", {"value": [1.0]}),
        ("lower_bounds_", {"value": 1.0}),
        ("n_features_in_", {"value": "2"}),
        ("feature_names_in_", {"strings": ["a"]}),
        ("statistics_", {"value": 1.0}),
        ("lengths_", {"value": 5}),
        ("lengths_", {"array": "attribute.startprob_"}),
        ("n_sequences_", {"value": "many"}),
        ("means_", {"value": "none"}),
        ("means_", {"value": 1.0, "array": "attribute.means_"}),
    ],
)
def test_files_whose_attributes_are_of_other_kinds(attribute, entry, tmp_path):
    model, _ = sizes_driver.fitted("GaussianHMM diag")
    path = tmp_path / "model"
    kind, settings, arrays = saved(model, path)
    settings["attributes"][attribute] = entry
    files.write(path, kind, settings, arrays)
    with pytest.raises(files.FileError, match="is damaged"):
        fastem.load(path)


def test_files_whose_lengths_are_none(tmp_path):
    model, _ = sizes_driver.fitted("GaussianHMM diag")
    path = tmp_path / "model"
    kind, settings, arrays = saved(model, path)
    for part, wrong in (
        ("lengths", np.array([24.0])),
        ("lengths", np.array([-24])),
        ("lengths", np.array([[24]])),
        ("shares", np.array([0.5])),
        ("shares", np.array([0.5, 0.5])),
        ("weight", np.array([1.0, 1.0])),
        ("weight", np.array(-1.0)),
    ):
        files.write(path, kind, settings, {**arrays, f"attribute.lengths_.{part}": wrong})
        with pytest.raises(files.FileError, match="is damaged"):
            fastem.load(path)


# Kernels ------------------------------------------------------------------------------------------

OVERRUN = """
import numpy as np
from fastem.kernels import simd
from fastem.kernels.options import kernel
from fastem.kernels.rows import read_block, read_row, rows_of

@kernel
def load(a, i):
    return simd.total(simd.load(a, i))

@kernel
def store(a, i):
    simd.store(a, i, simd.splat(1.0))

@kernel
def load8(a, i):
    return simd.total(simd.load8(a, i))

@kernel
def store8(a, i):
    simd.store(a, i, simd.splat8(1.0))

@kernel
def transposed(a, i, stride):
    x = simd.splat(1.0)
    simd.store_transposed(a, i, stride, x, x, x, x)

@kernel
def pick(a, offset, places, i):
    return simd.total(simd.pick(a, offset, places, i))

a, places = np.ones(10), np.array([0, 3, 1, 2, 9, 0])
within = [
    lambda: load(a, 6), lambda: store(a, 0), lambda: transposed(a, 0, 2),
    lambda: load8(a, 2), lambda: store8(a, 0),
    lambda: pick(a, 6, places, 0), lambda: read_row(rows_of(np.ones((3, 5))), 2, np.ones(5)),
    lambda: read_block(rows_of(np.ones((9, 5))), 1, 8, np.ones(80), 16),
]
beyond = [
    lambda: load(a, 7), lambda: load(a, -1), lambda: store(a, 10), lambda: transposed(a, 1, 2),
    lambda: load8(a, 3), lambda: load8(a, -1), lambda: store8(a, 3),
    lambda: pick(a, 7, places, 0), lambda: pick(a, 0, places, 3), lambda: pick(a, -1, places, 0),
    lambda: read_row(rows_of(np.ones((3, 5))), 3, np.ones(5)),
    lambda: read_block(rows_of(np.ones((9, 5))), 2, 8, np.ones(80), 16),
    lambda: read_block(rows_of(np.ones((9, 5))), 1, 8, np.ones(70), 16),
]
for call in within:
    call()
caught = 0
for call in beyond:
    try:
        call()
    except IndexError as error:
        caught += "within the array" in str(error)
print(caught, len(beyond))
"""


def test_vectors_beyond_the_end_of_an_array_are_noticed(tmp_path):
    settings = {"FASTEM_CHECK_BOUNDS": "1", "NUMBA_CACHE_DIR": str(tmp_path)}
    script = tmp_path / "overrun.py"
    script.write_text(OVERRUN)
    done = run(str(script), **settings)
    assert done.returncode == 0, done.stderr[-2000:]
    caught, tried = map(int, done.stdout.split())
    assert caught == tried > 0
