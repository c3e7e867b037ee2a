"""The commands that use models print the numbers that Python gives, with all digits."""

import io
import json

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import fastem as library


@pytest.fixture(autouse=True)
def narrow(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")


def table(out):
    """The columns of CSV, by name."""
    found = np.genfromtxt(
        io.StringIO(out), delimiter=",", names=True, dtype=None, deletechars="", replace_space=" ",
        encoding=None,
    )  # fmt: skip
    return {name: np.atleast_1d(found[name]) for name in found.dtype.names}


def loaded(fitted, name):
    """A model, for arrays without names."""
    model = library.load(fitted.folder / f"{name}.fastem")
    del model.feature_names_in_
    return model


@pytest.fixture(scope="module")
def rows(fitted):
    return np.loadtxt(fitted.folder / "measurements.csv", delimiter=",", skiprows=1)


@pytest.fixture(scope="module")
def pulse(fitted):
    return np.loadtxt(fitted.folder / "visits.csv", delimiter=",", skiprows=1, usecols=1)[:, None]


LENGTHS = [40, 50, 30, 20]
BY_PATIENT = ("visits.fastem", "visits.csv", "--group", "patient")


def test_score(fitted, rows, pulse):
    model = loaded(fitted, "model")
    out, err = fitted("score", "model.fastem", "measurements.csv")
    assert err == [] and float(out) == model.score(rows)
    out, _ = fitted("score", "model.fastem", "measurements.csv", "--each")
    assert_array_equal(table(out)["log_likelihood"], model.score_samples(rows))
    each = loaded(fitted, "visits").score_sequences(pulse, LENGTHS)
    out, _ = fitted("score", *BY_PATIENT, "--each")
    found = table(out)
    assert found["patient"].tolist() == ["ann", "bob", "cy", "dee"]
    assert_array_equal(found["log_likelihood"], each)
    out, _ = fitted("score", *BY_PATIENT)
    assert float(out) == each.mean()


def test_columns_are_found_by_name(fitted):
    # more.csv has them in another order.
    text = (fitted.folder / "more.csv").read_text()
    assert text.startswith("weight,height\n")
    X = np.loadtxt(io.StringIO(text), delimiter=",", skiprows=1)[:, ::-1]
    model = loaded(fitted, "model")
    out, _ = fitted("score", "model.fastem", "more.csv")
    assert float(out) == model.score(X)
    out, _ = fitted.process("score", "model.fastem", "-", "--columns", "0,1", stdin=text)
    assert float(out) == model.score(X[:, ::-1])


def test_predict(fitted, rows):
    model = loaded(fitted, "model")
    out, _ = fitted("predict", "model.fastem", "measurements.csv")
    assert_array_equal(table(out)["label"], model.predict(rows))
    out, _ = fitted("predict", "model.fastem", "measurements.csv", "--proba")
    assert_array_equal(np.column_stack(list(table(out).values())), model.predict_proba(rows))


def test_output_of_all_kinds(fitted, rows):
    probabilities = loaded(fitted, "model").predict_proba(rows)
    given = ("predict", "model.fastem", "measurements.csv", "--proba", "-o")
    for name in ("p.csv", "p.tsv", "p.npy", "p.npz"):
        out, err = fitted(*given, name)
        assert (out, err) == ("", [])
    folder = fitted.folder
    assert_array_equal(np.loadtxt(folder / "p.csv", delimiter=",", skiprows=1), probabilities)
    assert_array_equal(np.loadtxt(folder / "p.tsv", delimiter="\t", skiprows=1), probabilities)
    assert_array_equal(np.load(folder / "p.npy"), probabilities)
    with np.load(folder / "p.npz") as file:
        assert_array_equal(file["p1"], probabilities[:, 1])
    pytest.importorskip("pyarrow")
    from pyarrow import parquet

    fitted(*given, "p.parquet")
    assert_array_equal(parquet.read_table(folder / "p.parquet")["p2"].to_numpy(),
                       probabilities[:, 2])  # fmt: skip


def test_predict_of_a_kalman_filter(fitted, series):
    model = loaded(fitted, "series")
    means, covariances = model.smooth(series)
    out, _ = fitted("predict", "series.fastem", "series.csv")
    found = table(out)
    assert_array_equal(found["state0"], means[:, 0])
    assert_array_equal(found["state0_sd"], np.sqrt(covariances[:, 0, 0]))
    out, _ = fitted("predict", "series.fastem", "series.csv", "--of", "observations", "--filtered")
    means, covariances = model.filter(series)
    found, C = table(out), model.observation_matrices_
    np.testing.assert_allclose(found["level"], (means @ C.T + model.observation_offsets_)[:, 0],
                               rtol=1e-12)  # fmt: skip
    np.testing.assert_allclose(
        found["level_sd"], np.sqrt(covariances[:, 0, 0]) * abs(C[0, 0]), rtol=1e-12
    )


def test_sample(fitted):
    out, _ = fitted("sample", "model.fastem", "-n", 5, "--seed", 4)
    X, labels = loaded(fitted, "model").set_params(random_state=4).sample(5)
    found = table(out)
    assert_array_equal(np.column_stack([found["height"], found["weight"]]), X)
    assert_array_equal(found["label"], labels)
    out, _ = fitted("sample", "series.fastem", "-n", 5, "--seed", 4)
    states, X = loaded(fitted, "series").sample(5, random_state=4)
    found = table(out)
    assert_array_equal(found["level"], np.asarray(X)[:, 0])
    assert_array_equal(found["state0"], states[:, 0])
    out, _ = fitted("sample", "counts.fastem", "-n", 3, "--length", 9, "--seed", 4)
    assert_array_equal(np.sum(list(table(out).values()), axis=0), [9, 9, 9])


def test_forecast_of_a_kalman_filter(fitted, series):
    means, covariances = loaded(fitted, "series").forecast(series, 3)
    out, _ = fitted("forecast", "series.fastem", "series.csv", "--steps", 3, "--level", 0.9)
    found = table(out)
    assert found["step"].tolist() == [1, 2, 3]
    assert_array_equal(found["level"], means[:, 0])
    width = 1.6448536269514722 * np.sqrt(covariances[:, 0, 0])
    np.testing.assert_allclose(found["level_upper"], means[:, 0] + width, rtol=1e-12)
    np.testing.assert_allclose(found["level_lower"], means[:, 0] - width, rtol=1e-12)


def test_forecast_of_a_hidden_markov_model(fitted, pulse):
    from scipy.stats import norm

    model = loaded(fitted, "visits")
    out, _ = fitted("forecast", *BY_PATIENT, "--steps", 2, "--level", 0.8)
    found = table(out)
    assert found["patient"].tolist() == [name for name in ("ann", "bob", "cy", "dee") for _ in "12"]
    state = model.predict_proba(pulse, LENGTHS)[89] @ model.transmat_  # the last row of bob
    for row in (2, 3):
        weights = np.array([found[f"p{n}"][row] for n in range(4)])
        np.testing.assert_allclose(weights, state, rtol=1e-9, atol=1e-300)
        assert found["pulse"][row] == pytest.approx(state @ model.means_[:, 0], rel=1e-12)
        deviations = np.sqrt(np.asarray(model.covars_)[:, 0, 0])
        for end, level in (("lower", 0.1), ("upper", 0.9)):
            below = norm.cdf(found[f"pulse_{end}"][row], model.means_[:, 0], deviations)
            assert state @ below == pytest.approx(level, abs=1e-9)
        state = state @ model.transmat_


@pytest.mark.parametrize("rates", [[1.0, 40.0], [3.0, 3.0]])
def test_bands_of_counts(rates):
    from scipy.stats import poisson

    from fastem.cli.forecast import _poisson_quantile

    weights, rates = np.array([0.3, 0.7]), np.array(rates)
    for level in (0.05, 0.3, 0.5, 0.95):
        count = _poisson_quantile(weights, rates, rates, level)
        assert weights @ poisson.cdf(count, rates) >= level
        assert count == 0 or weights @ poisson.cdf(count - 1, rates) < level


def test_combine(fitted):
    models = [library.load(fitted.folder / f"{name}.fastem") for name in "abc"]
    names = [f"{name}.fastem" for name in "abc"]
    for arguments, expected in [
        ((), library.combine(models)),
        (("--weights", "1,2,3.5"), library.combine(models, [1, 2, 3.5])),
        (("--direction", "reverse"), library.combine(models, direction="reverse")),
        (("--average", "--no-align"), library.average(models, align=False)),
        (("--weights", "observations", "--align"), library.combine(models, [300] * 3)),
    ]:
        out, err = fitted("combine", *names, *arguments, "-o", "all.fastem")
        assert (out, err) == ("", [])
        found = library.load(fitted.folder / "all.fastem")
        assert_array_equal(found.means_, expected.means_)
        assert_array_equal(found.covariances_, expected.covariances_)
        assert found.feature_names_in_.tolist() == ["height", "weight"]


def test_divergence(fitted):
    # One iteration makes another model.
    fitted("fit", "gmm", "measurements.csv", "-k", 3, "--iterations", 1, "--seed", 9, "-o",
           "d.fastem")  # fmt: skip
    a, d = (library.load(fitted.folder / f"{name}.fastem") for name in "ad")
    out, _ = fitted("divergence", "a.fastem", "d.fastem")
    assert float(out) == library.divergence(a, d) > 0
    out, _ = fitted("divergence", "a.fastem", "d.fastem", "a.fastem")
    lines = [line.split(",") for line in out.splitlines()]
    assert [line[0] for line in lines] == ["model", "0:a.fastem", "1:d.fastem", "2:a.fastem"]
    assert float(lines[1][2]) == library.divergence(a, d)
    assert float(lines[2][1]) == library.divergence(d, a)
    assert float(lines[1][1]) == 0.0


def test_show(fitted):
    out, err = fitted("show", "model.fastem")
    assert err == []
    assert out.startswith("GaussianMixture\n  components    3\n  columns       2: height, weight\n")
    assert "learned from  300 rows" in out and "random_state=1" in out
    model = library.load(fitted.folder / "model.fastem")
    assert f"{model.means_[1, 0]:.4g}" in out and "precisions" not in out
    out, _ = fitted("show", "visits.fastem")
    assert "states        4" in out and "learned from  4 sequences" in out


def test_names_of_columns_stand_above_columns_of_the_data(fastem):
    """As many states as columns are no reason to name states by columns."""
    fastem("fit", "hmm", "measurements.csv", "-k", 2, "--seed", 1, "-o", "square.fastem")
    fastem("fit", "kalman", "measurements.csv", "-d", 2, "--iterations", 1, "-o", "both.fastem")
    named = set()
    for name in ("square", "both"):
        lines = fastem("show", f"{name}.fastem")[0].splitlines()
        above = dict(zip(lines[1:], lines, strict=False))
        named |= {above[line] for line in lines if line.split() == ["height", "weight"]}
    assert named == {"means", "covars", "observation_covariance"}


def test_a_mixture_of_models_is_shown_with_the_models_in_it(fastem):
    X = np.random.default_rng(0).normal(size=(12, 8, 2))
    for inner in (library.GaussianHMM(2), library.GaussianMixture(2), library.KalmanFilter(1)):
        model = library.MixtureOfModels(inner, 2, max_iter=2, random_state=0)
        library.save(model.fit(X if inner._learns_sequences else X[0]), fastem.folder / "of.fastem")
        out, err = fastem("show", "of.fastem")
        assert err == [] and out.startswith("MixtureOfModels\n  components    2\n")
        assert out.count("component 0: " + type(inner).__name__) == 1
        assert len(json.loads(fastem("show", "of.fastem", "--json")[0])["members"]) == 2


def test_show_as_json(fitted):
    for name in ("model", "visits", "series", "counts"):
        model = library.load(fitted.folder / f"{name}.fastem")
        found = json.loads(fitted("show", f"{name}.fastem", "--json")[0])
        assert found["class"] == type(model).__name__
        assert found["n_observations"] == model.n_observations_
        assert found["n_columns"] == model.n_features_in_ == len(found["columns"])
        for parameter, values in found["parameters"].items():
            attribute = "_covars_" if parameter == "covars" else f"{parameter}_"
            assert_array_equal(values, getattr(model, attribute))


def test_the_other_commands(fastem, tmp_path):
    out, _ = fastem("warmup", "Dirichlet", "--jobs", 1)
    assert "Dirichlet" in out
    out, _ = fastem("--version")
    assert out == f"fastem {library.__version__}\n"
    _, err = fastem("reproduce", "nothing", code=2)
    assert err == [
        "fastem reproduce: there is no experiment 'nothing'; choose from hmm, kalman, dirichlet, "
        "mixture, open-question."
    ]
    _, err = fastem("bench", "--repeats", 0, code=2)
    assert err == ["fastem bench: --repeats must be 1 or more."]


def test_the_names_of_experiments_are_known():
    from fastem.cli.reproduce import NAMES
    from fastem.experiments import NAMES as there

    assert NAMES == there


PROCESSES = {
    "fit": ("gmm", "measurements.csv", "-k", 3, "--seed", 1, "-o", "f.fastem"),
    "score": ("model.fastem", "measurements.csv"),
    "predict": ("model.fastem", "measurements.csv"),
    "sample": ("model.fastem", "-n", 4, "--seed", 1),
    "forecast": ("series.fastem", "series.csv", "--steps", 2),
    "combine": ("a.fastem", "b.fastem", "-o", "all.fastem"),
    "divergence": ("a.fastem", "b.fastem"),
    "show": ("visits.fastem", "--json"),
    "plot": ("visits.fastem", "-o", "p.png"),
    "warmup": ("--help",),
    "reproduce": ("--help",),
    "bench": ("--help",),
}


@pytest.mark.parametrize("name", PROCESSES)
def test_a_process_says_the_same(name, fitted):
    if name == "plot":
        pytest.importorskip("matplotlib")
    there = fitted.process(name, *PROCESSES[name], env={"COLUMNS": "80"})
    assert there == fitted(name, *PROCESSES[name])


def header(out):
    return out.splitlines()[0].split(",")


def test_columns_of_the_data_keep_their_names(fitted):
    visits = (fitted.folder / "visits.csv").read_text()
    for name in ("label", "log_likelihood", "step"):
        (fitted.folder / "group.csv").write_text(visits.replace("patient", name))
        given = ("visits.fastem", "group.csv", "--group", name)
        for command, *more in (("predict",), ("score", "--each"), ("forecast",)):
            out, _ = fitted(command, *given, *more)
            plain, _ = fitted(command, *BY_PATIENT, *more)
            expected = [f"{n}_" if n == name else n for n in header(plain)]
            assert header(out) == [name, *expected[1:]]
            assert out.splitlines()[1:] == plain.splitlines()[1:]


def test_columns_of_the_data_keep_their_names_beside_those_of_models(fitted, rows):
    np.savetxt(fitted.folder / "l.csv", rows, delimiter=",", header="label,x", comments="")
    fitted("fit", "gmm", "l.csv", "-k", 2, "--seed", 0, "-o", "l.fastem")
    out, _ = fitted("sample", "l.fastem", "-n", 2)
    assert header(out) == ["label", "x", "label_"]
    np.savetxt(fitted.folder / "p.csv", rows, delimiter=",", header="p0,p0_lower", comments="")
    fitted("fit", "hmm", "p.csv", "-k", 2, "--seed", 0, "-o", "p.fastem")
    out, _ = fitted("forecast", "p.fastem", "p.csv")
    assert header(out) == ["step", "p0_", "p1", "p0", "p0_lower_", "p0_upper", "p0_lower",
                           "p0_lower_lower", "p0_lower_upper"]  # fmt: skip
    found = table(out)
    assert found["p0_"] + found["p1"] == pytest.approx(1.0)
    assert found["p0_lower_"] < found["p0"] < found["p0_upper"]
    np.savetxt(fitted.folder / "s.csv", rows[:50], delimiter=",", header="state0,state0_sd",
               comments="")  # fmt: skip
    fitted("fit", "kalman", "s.csv", "-d", 1, "--iterations", 2, "-o", "s.fastem")
    out, _ = fitted("sample", "s.fastem")
    assert header(out) == ["state0", "state0_sd", "state0_"]
    out, _ = fitted("predict", "s.fastem", "s.csv", "--of", "observations")
    assert header(out) == ["state0", "state0_sd_", "state0_sd", "state0_sd_sd"]


def test_a_model_may_be_called_model(fitted):
    (fitted.folder / "model").write_bytes((fitted.folder / "a.fastem").read_bytes())
    out, _ = fitted("divergence", "model", "b.fastem", "c.fastem")
    assert header(out) == ["model_", "model", "b.fastem", "c.fastem"]


def test_a_single_number_is_written_in_the_format_of_the_file(fitted):
    for command, name in (("divergence", "divergence"), ("score", "log_likelihood")):
        given = (command, "a.fastem", "b.fastem" if command == "divergence" else "more.csv")
        number = float(fitted(*given)[0])
        for ending in ("csv", "tsv", "npy", "npz"):
            fitted(*given, "-o", f"number.{ending}")
        for ending in ("csv", "tsv"):
            assert float((fitted.folder / f"number.{ending}").read_text()) == number
        assert_array_equal(np.load(fitted.folder / "number.npy"), [number])
        assert_array_equal(np.load(fitted.folder / "number.npz")[name], [number])
        parquet = pytest.importorskip("pyarrow.parquet")
        fitted(*given, "-o", "number.parquet")
        found = parquet.read_table(fitted.folder / "number.parquet")
        assert found.to_pydict() == {name: [number]}


def test_titles_and_names_of_files_are_no_formulas(fitted):
    pytest.importorskip("matplotlib")
    name = "a$^$.fastem"
    (fitted.folder / name).write_bytes((fitted.folder / "a.fastem").read_bytes())
    fitted("plot", name, "--with", "b.fastem", "-o", "t.png", "--title", r"$\nothing$")


def test_columns_of_pictures(fitted):
    pytest.importorskip("matplotlib")
    model = library.KalmanFilter(
        transition_matrices=[[1]], observation_matrices=[[1]], transition_covariance=[[1]],
        observation_covariance=[[1]], initial_state_mean=[0], initial_state_covariance=[[1]],
    )  # fmt: skip
    library.save(model, fitted.folder / "given.fastem")
    for name in ("series", "given"):
        given = ("plot", f"{name}.fastem", "series.csv", "-o", "t.png", "--column")
        fitted(*given, 0)
        fitted(*given, "state0", "--of", "states")
        for words in (("level_",), ("level", "--of", "states"), ("1", "--of", "states")):
            _, err = fitted(*given, *words, code=2)
            assert err[0].startswith(f"fastem plot: --column: there is no column {words[0]!r}")
