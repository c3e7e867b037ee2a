"""``fastem fit``: the same models as in Python, from every kind of file."""

import gzip

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy import sparse

import fastem as library

ARGUMENTS = ("-k", 3, "--seed", 1, "-o", "m.fastem")


def assert_same(one, other):
    names = [name for name in one._parameter_attributes() if hasattr(one, name)]
    assert names
    for name in names:
        assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name)
    assert one.n_observations_ == other.n_observations_


@pytest.fixture(scope="module")
def rows(fastem):
    """The rows of measurements.csv, and of all other kinds of files, which are written."""
    X = np.loadtxt(fastem.folder / "measurements.csv", delimiter=",", skiprows=1)
    text = (fastem.folder / "measurements.csv").read_text()
    (fastem.folder / "rows.tsv").write_text(text.replace(",", "\t"))
    (fastem.folder / "semicolons.csv").write_text(text.replace(",", ";"))
    (fastem.folder / "quoted.csv").write_text("\ufeff" + text.replace("height", '"height"'))
    (fastem.folder / "plain.csv").write_text(text.split("\n", 1)[1])
    with gzip.open(fastem.folder / "rows.csv.gz", "wt") as file:
        file.write(text)
    lines = text.splitlines()
    named = ["name," + lines[0], *(f"n{n},{line}" for n, line in enumerate(lines[1:]))]
    (fastem.folder / "named.csv").write_text("\n".join(named))
    np.save(fastem.folder / "rows.npy", X)
    np.savez(fastem.folder / "rows.npz", other=X[:5], rows=X)
    return X


def test_what_stands_in_quotation_marks_separates_nothing(fastem):
    text = '"height, in cm";"a ""long"", name"\n' + "".join(f"{n};{n * n % 7}\n" for n in range(20))
    (fastem.folder / "marks.csv").write_text(text)
    for more in ((), ("--online",)):
        fastem("fit", "gmm", "marks.csv", "-k", 2, "--seed", 0, "-o", "m.fastem", *more)
        found = library.load(fastem.folder / "m.fastem")
        assert found.feature_names_in_.tolist() == ["height, in cm", 'a "long", name']


@pytest.fixture(scope="module")
def expected(rows):
    return library.GaussianMixture(3, random_state=1).fit(rows)


@pytest.mark.parametrize("source", [
    ("measurements.csv",), ("rows.tsv",), ("semicolons.csv",), ("quoted.csv",), ("plain.csv",),
    ("rows.csv.gz",), ("rows.npy",), ("rows.npz", "--key", "rows"),
    ("named.csv", "--ignore", "name"), ("named.csv", "--columns", "height,2"),
    ("named.csv", "--columns", "1-2"),
])  # fmt: skip
def test_files_of_all_kinds_give_the_same_model(source, fastem, rows, expected):
    out, err = fastem("fit", "gmm", *source, *ARGUMENTS)
    assert out == "" and len(err) == 1 and "300 rows of 2 columns" in err[0]
    model = library.load(fastem.folder / "m.fastem")
    assert_same(model, expected)
    assert model.n_iter_ == expected.n_iter_
    has_names = source[0] not in ("plain.csv", "rows.npy", "rows.npz")
    assert hasattr(model, "feature_names_in_") == has_names
    if has_names:
        assert model.feature_names_in_.tolist() == ["height", "weight"]


def test_standard_input_gives_the_same_model(fastem, rows, expected):
    text = (fastem.folder / "measurements.csv").read_text()
    fastem.process("fit", "gmm", "-", *ARGUMENTS, stdin=text)
    assert_same(library.load(fastem.folder / "m.fastem"), expected)


def test_parquet_gives_the_same_model(fastem, rows, expected):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    names = [f"n{n}" for n in range(len(rows))]
    table = pyarrow.table({"name": names, "height": rows[:, 0], "weight": rows[:, 1]})
    parquet.write_table(table, fastem.folder / "rows.parquet")
    fastem("fit", "gmm", "rows.parquet", "--columns", "height,weight", *ARGUMENTS)
    assert_same(library.load(fastem.folder / "m.fastem"), expected)
    _, err = fastem("fit", "gmm", "rows.parquet", *ARGUMENTS, code=1)
    assert len(err) == 1 and "column 'name' holds text" in err[0]


WITHOUT = """
import sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name in {absent!r}:
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Absent())
import importlib.util as util
real = util.find_spec
util.find_spec = lambda name, *rest: None if name in {absent!r} else real(name, *rest)
from fastem.cli import main
raise SystemExit(main(sys.argv[1:]))
"""


def test_without_pandas_and_pyarrow(fastem, rows, expected):
    without = ("-c", WITHOUT.format(absent=("pandas", "pyarrow")))
    for source in (("measurements.csv",), ("named.csv", "--ignore", "name")):
        fastem.process("fit", "gmm", *source, *ARGUMENTS, main=without)
        assert_same(library.load(fastem.folder / "m.fastem"), expected)
    (fastem.folder / "some.parquet").write_bytes(b"")
    _, err = fastem.process("fit", "gmm", "some.parquet", *ARGUMENTS, main=without, code=1)
    assert err == [
        'fastem fit: Parquet needs pyarrow, which is not installed: pip install "fastem[tables]".'
    ]


def test_settings_reach_the_constructor(fastem, rows):
    fastem("fit", "gmm", "rows.npy", *ARGUMENTS, "--covariance", "diag", "--iterations", 7,
           "--tolerance", "0", "--n-init", 2, "--set", "reg_covar=1e-3", "--jobs", 1, "-vv",
           "--set", "means_init=[[0,0],[6,5],[0,8]]", "--set", "init_params=random")  # fmt: skip
    model = library.load(fastem.folder / "m.fastem")
    settings = {"covariance_type": "diag", "max_iter": 7, "tol": 0.0, "n_init": 2,
                "reg_covar": 1e-3, "n_jobs": 1, "random_state": 1, "init_params": "random",
                "means_init": np.array([[0.0, 0.0], [6.0, 5.0], [0.0, 8.0]])}  # fmt: skip
    for name, value in settings.items():
        assert_array_equal(getattr(model, name), value, err_msg=name)
    assert model.verbose == 0  # it is of the command, and not of the model
    with pytest.warns(library.mixture.base.ConvergenceWarning):
        # Iterations that are shown are rounded otherwise than those that a kernel takes at once.
        expected = library.GaussianMixture(3, verbose=2, **settings).fit(rows)
    assert_same(model, expected)


def test_weights_and_missing_values(fastem, rows):
    weights = np.arange(len(rows)) % 3 + 0.5
    lines = ["a,w,b", *(f"{x},{w},{y}" for (x, y), w in zip(rows, weights, strict=True))]
    lines.insert(5, "NA,1,2.0")
    (fastem.folder / "weighted.csv").write_text("\n".join(lines))
    given = ("fit", "gmm", "weighted.csv", "--weight", "w", *ARGUMENTS)
    _, err = fastem(*given, code=1)
    assert len(err) == 1 and "missing in column 'a', row 5" in err[0]
    fastem(*given, "--drop-missing")
    expected = library.GaussianMixture(3, random_state=1).fit(rows, sample_weight=weights)
    assert_same(library.load(fastem.folder / "m.fastem"), expected)


def test_families_and_bayesian(fastem):
    X = np.loadtxt(fastem.folder / "counts.csv", delimiter=",", skiprows=1)
    fastem("fit", "gmm", "counts.csv", "--family", "poisson", "-k", 2, "--seed", 0, "-o", "p")
    model = library.load(fastem.folder / "p")
    assert_same(model, library.Mixture("poisson", 2, random_state=0).fit(X))
    fastem("fit", "gmm", "counts.csv", "--bayesian", "-k", 2, "--seed", 0, "-o", "b")
    assert type(library.load(fastem.folder / "b")) is library.BayesianGaussianMixture


def visits(fastem):
    rows = (fastem.folder / "visits.csv").read_text().splitlines()[1:]
    labels, pulse = zip(*(row.split(",") for row in rows), strict=True)
    return list(labels), np.array(pulse, dtype=float)[:, None]


def test_sequences_by_group_or_lengths(fastem):
    labels, X = visits(fastem)
    expected = library.GaussianHMM(3, random_state=1).fit(X, [40, 50, 30, 20])
    fastem("fit", "hmm", "visits.csv", "--group", "patient", *ARGUMENTS)
    assert_same(library.load(fastem.folder / "m.fastem"), expected)
    np.save(fastem.folder / "pulse.npy", X)
    (fastem.folder / "lengths.csv").write_text("length\n40\n50\n30\n20\n")
    fastem("fit", "hmm", "pulse.npy", "--lengths", "lengths.csv", *ARGUMENTS)
    assert_same(library.load(fastem.folder / "m.fastem"), expected)
    # Rows of several groups may alternate.
    order = np.argsort(np.concatenate([np.arange(n) for n in (40, 50, 30, 20)]), kind="stable")
    mixed = ["patient,pulse", *(f"{labels[n]},{X[n, 0]}" for n in order)]
    (fastem.folder / "mixed.csv").write_text("\n".join(mixed))
    fastem("fit", "hmm", "mixed.csv", "--group", "patient", *ARGUMENTS)
    assert_same(library.load(fastem.folder / "m.fastem"), expected)
    out, _ = fastem("predict", "m.fastem", "mixed.csv", "--group", "patient")
    found = [line.split(",") for line in out.splitlines()[1:]]
    assert [name for name, _ in found] == [labels[n] for n in order]
    states = expected.predict(X, [40, 50, 30, 20])[order]
    assert [int(state) for _, state in found] == states.tolist()


@pytest.mark.parametrize("emissions, kind, n_values", [
    ("poisson", "PoissonHMM", 9), ("categorical", "CategoricalHMM", 3), ("exponential", "HMM", 9),
])  # fmt: skip
def test_emissions(emissions, kind, n_values, fastem):
    X = 1 + np.random.default_rng(0).integers(0, n_values, (60, 1)) % n_values
    X -= emissions == "categorical"
    (fastem.folder / "symbols.csv").write_text("\n".join(["x", *map(str, X[:, 0])]))
    fastem("fit", "hmm", "symbols.csv", "--emissions", emissions, "-k", 2, "--seed", 1, "-o", "m")
    settings = {"random_state": 1, "n_components": 2}
    if kind == "HMM":
        settings["family"] = emissions
    expected = getattr(library, kind)(**settings).fit(X)
    assert_same(library.load(fastem.folder / "m"), expected)


def test_kalman_takes_missing_values_and_three_dimensions(fastem, series):
    fastem("fit", "kalman", "series.csv", "-d", 2, "--tolerance", "1e-2", "-o", "m")
    assert_same(
        library.load(fastem.folder / "m"), library.KalmanFilter(n_dim_state=2, tol=1e-2).fit(series)
    )
    several = np.random.default_rng(0).normal(size=(5, 12, 2)).cumsum(axis=1)
    np.save(fastem.folder / "several.npy", several)
    fastem("fit", "kalman", "several.npy", "-d", 1, "--tolerance", "1e-2", "-o", "m")
    expected = library.KalmanFilter(n_dim_state=1, tol=1e-2).fit(several)
    assert_same(library.load(fastem.folder / "m"), expected)


def test_counts_dense_and_sparse(fastem):
    X = np.loadtxt(fastem.folder / "counts.csv", delimiter=",", skiprows=1)
    expected = library.CompoundDirichlet().fit(X)
    sparse.save_npz(fastem.folder / "sparse.npz", sparse.csr_array(X))
    for source in ("counts.csv", "sparse.npz"):
        fastem("fit", "dirichlet", source, "-o", "m")
        np.testing.assert_allclose(
            library.load(fastem.folder / "m").alpha_, expected.alpha_, rtol=1e-12
        )
    shares = (X + 1) / (X + 1).sum(axis=1, keepdims=True)
    np.save(fastem.folder / "shares.npy", shares)
    fastem("fit", "dirichlet", "shares.npy", "--proportions", "-o", "m")
    assert_same(library.load(fastem.folder / "m"), library.Dirichlet().fit(shares))


def test_missing_values_of_a_single_column(fastem, series):
    fit = ("fit", "kalman", "-d", 1, "--iterations", 2, "-o", "m")
    text = (fastem.folder / "series.csv").read_text()
    expected = library.KalmanFilter(n_dim_state=1, max_iter=2)
    with pytest.warns(library.mixture.base.ConvergenceWarning):
        expected.fit(series)
    # As pandas writes it, with other words, with other line ends, at the end of the file.
    for name, content in {
        "quoted.csv": text.replace("\n\n", '\n""\n'), "word.csv": text.replace("\n\n", "\nNA\n"),
        "windows.csv": text.replace("\n", "\r\n"), "more_lines.csv": text + "\n\n",
    }.items():  # fmt: skip
        (fastem.folder / name).write_bytes(content.encode())
        fastem(*fit, name)
        assert_same(library.load(fastem.folder / "m"), expected)


def test_missing_rows_of_sequences_are_dropped(fastem):
    several = np.random.default_rng(0).normal(size=(4, 15, 1))
    several[1, 3] = several[3, -1] = several[2] = np.nan
    expected = library.GaussianHMM(2, random_state=1).fit(
        np.concatenate([x[~np.isnan(x[:, 0])] for x in several]), [15, 14, 14]
    )
    np.save(fastem.folder / "several.npy", several)
    np.save(fastem.folder / "flat.npy", several.reshape(-1, 1))
    (fastem.folder / "lengths.csv").write_text("15\n" * 4)
    rows = [f"{n // 15},{x}" for n, x in enumerate(several.ravel())]
    (fastem.folder / "grouped.csv").write_text("\n".join(["g,x", *rows]))
    fit = ("fit", "hmm", "-k", 2, "--seed", 1, "--drop-missing", "-o", "m.fastem")
    for source in (("several.npy",), ("flat.npy", "--lengths", "lengths.csv"),
                   ("grouped.csv", "--group", "g")):  # fmt: skip
        _, err = fastem(*fit, *source)
        assert "3 sequences, 43 rows" in err[0]
        assert_same(library.load(fastem.folder / "m.fastem"), expected)


def test_missing_rows_and_weights_of_sparse_counts(fastem):
    X = np.loadtxt(fastem.folder / "counts.csv", delimiter=",", skiprows=1)
    weights = np.arange(len(X)) % 3 + 1.0
    expected = library.CompoundDirichlet().fit(X, sample_weight=weights)
    gap = np.vstack([X[:4], [[np.nan, 0, 0, 2]], X[4:]])
    weighted = np.column_stack([gap, np.insert(weights, 4, 1.0)])
    sparse.save_npz(fastem.folder / "gap.npz", sparse.csr_array(weighted))
    fit = ("fit", "dirichlet", "gap.npz", "--weight", 4, "-o", "m")
    fastem(*fit, "--drop-missing")
    np.testing.assert_allclose(
        library.load(fastem.folder / "m").alpha_, expected.alpha_, rtol=1e-12
    )
    _, err = fastem(*fit, code=1)
    assert "a value is missing in column 0, row 5" in err[0]


def test_names_over_several_lines_and_other_line_ends(fastem, rows, expected):
    text = (fastem.folder / "measurements.csv").read_text()
    (fastem.folder / "mac.csv").write_bytes(text.replace("\n", "\r").encode())
    (fastem.folder / "high.csv").write_text(text.replace("weight", '"weight\n(kg)"', 1))
    for more in ((), ("--online", "--chunk", 300)):
        fastem("fit", "gmm", "high.csv", *ARGUMENTS, *more)
        names = library.load(fastem.folder / "m.fastem").feature_names_in_
        assert names.tolist() == ["height", "weight\n(kg)"]
    for name in ("mac.csv", "high.csv"):
        fastem("fit", "gmm", name, *ARGUMENTS)
        assert_same(library.load(fastem.folder / "m.fastem"), expected)
    (fastem.folder / "wrong.csv").write_text('\n"a\nb",c\n1,2\n3\n')
    _, err = fastem("fit", "gmm", "wrong.csv", *ARGUMENTS, code=1)
    assert err == ["fastem fit: line 5 has 1 value, and the first line has 2."]
