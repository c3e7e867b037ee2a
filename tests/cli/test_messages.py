"""Exit codes, errors in one line, help, and what is imported."""

import gzip
import os
import subprocess
import sys

import numpy as np
import pytest
from scipy import sparse

import fastem as library
from fastem.cli import main

COMMANDS = ("fit", "score", "predict", "sample", "forecast", "combine", "divergence", "show",
            "plot", "warmup", "reproduce", "bench")  # fmt: skip


@pytest.fixture
def run(fitted, monkeypatch, capsys):
    """The command in this process: its exit code, and what it says."""
    monkeypatch.chdir(fitted.folder)
    for name, content in {
        "short.csv": "a,b\n1,2\n3\n", "long.csv": "1,2\n3,4,5\n", "open.csv": 'a,b\n1,"2\n',
        "empty.csv": "", "header.csv": "a,b\n", "twice.csv": "a,a\n1,2\n",
        "gap.csv": "height,weight\n1,2\n1,\n", "foreign.fastem": "no model", "words.npy": "none",
        "words.npz": "none", "words.parquet": "none", "nogroup.csv": "g,x\na,1\n,2\n",
        "far.csv": "height,weight\n1,2\n1,inf\n", "sum.csv": "40\n50\n",
        "mac.csv": "a,b\r1,2\r3,x\r", "head.csv": '"a,b\n1,2\n', "text.csv": "n\nten\nsome\n",
        "bar.csv": "a|b\n1|2\n3|4\n", "comma.csv": "a;b\n1,5;2\n3,5;4\n",
    }.items():  # fmt: skip
        (fitted.folder / name).write_text(content)
    (fitted.folder / "bytes.csv").write_bytes(b"1,2\n\xff\xfe,3\n")
    packed = gzip.compress((fitted.folder / "measurements.csv").read_bytes())
    (fitted.folder / "half.csv.gz").write_bytes(packed[: len(packed) // 2])
    (fitted.folder / "flipped.csv.gz").write_bytes(packed[:20] + b"\xff" * 20 + packed[40:])
    (fitted.folder / "plain.csv.gz").write_text("1,2\n3,4\n")
    content = (fitted.folder / "model.fastem").read_bytes()
    (fitted.folder / "cut.fastem").write_bytes(content[:300])
    np.savez(fitted.folder / "none.npz")
    np.save(fitted.folder / "group.npy", [[0.0, 1.0], [np.nan, 2.0]])
    sparse.save_npz(fitted.folder / "sparse.npz", sparse.csr_array(np.eye(3)))
    np.savez(fitted.folder / "two.npz", one=np.ones((3, 2)), other=np.ones((3, 2)))
    np.save(fitted.folder / "objects.npy", np.array([{}, {}], dtype=object))
    library.save(library.GaussianMixture(), fitted.folder / "unfitted.fastem")

    def run(line):
        try:
            code = main(line.split())
        except SystemExit as end:
            code = end.code
        out, err = capsys.readouterr()
        return code, out, err

    return run


FIT = "fit gmm {} -o o.fastem"


@pytest.mark.parametrize("line", [
    "fit gmm measurements.csv -o o.fastem", "fit gmm measurements.csv --online -o o.fastem",
    "combine a.fastem b.fastem -o o.fastem", "plot model.fastem -o o.png",
    "predict model.fastem measurements.csv -o o.csv",
    "predict model.fastem measurements.csv -o measurements.csv",
])  # fmt: skip
def test_what_cannot_be_written_is_said_before_anything_is_computed(line, run, monkeypatch):
    def nothing(*_):
        raise AssertionError("it has begun")

    # The superuser may write everywhere.
    monkeypatch.setattr(os, "access", lambda path, mode: not mode & os.W_OK)
    monkeypatch.setattr("fastem.load", nothing)
    monkeypatch.setattr("fastem.cli.data.read", nothing)
    code, out, err = run(line)
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert "--out: nothing can be written into the folder" in err or "cannot be written" in err


@pytest.mark.parametrize("line, code, words", [
    ("", 2, "the following arguments are required: COMMAND"),
    ("fit", 2, "the following arguments are required"),
    ("fit som x.csv -o o", 2, "invalid choice: 'som'"),
    (FIT.format("nothing.csv"), 1, "nothing.csv: No such file or directory"),
    (FIT.format("model.fastem"), 1, "the format of a file is known by its ending"),
    ("fit gmm measurements.csv -o none/o.fastem", 1, "there is no folder"),
    (FIT.format("visits.csv"), 1, "column 'patient' holds text ('ann' in row 1)"),
    (FIT.format("measurements.csv --columns height,age"), 1, "there is no column 'age'; the"),
    (FIT.format("measurements.csv --columns 2"), 1, "there is no column 2; they are 0 to 1"),
    (FIT.format("measurements.csv --columns 0,height"), 2, "names a column twice"),
    (FIT.format("measurements.csv --group height"), 2, "--group and --lengths are for models of"),
    (FIT.format("short.csv"), 1, "line 3 has 1 value, and the first line has 2"),
    (FIT.format("short.csv --online"), 1, "line 3 has 1 value, and the first line has 2"),
    (FIT.format("long.csv"), 1, "line 2 has 3 values, and the first line has 2"),
    (FIT.format("open.csv"), 1, "line 2 is not CSV"),
    (FIT.format("empty.csv"), 1, "the input is empty"),
    (FIT.format("empty.csv --online"), 1, "there are no rows"),
    (FIT.format("header.csv"), 1, "there are no rows"),
    (FIT.format("twice.csv"), 1, "two columns have the name 'a'"),
    (FIT.format("bytes.csv"), 1, "not text in UTF-8"),
    (FIT.format("gap.csv"), 1, "a value is missing in column 'weight', row 2"),
    (FIT.format("gap.csv --online"), 1, "a value is missing in column 'weight', row 2"),
    (FIT.format("far.csv"), 1, "infinity"),
    (FIT.format("words.npy"), 1, "words.npy is not a file of NumPy arrays"),
    (FIT.format("words.npz"), 1, "words.npz is not a file of NumPy arrays"),
    (FIT.format("objects.npy"), 1, "not a file of NumPy arrays without pickles"),
    (FIT.format("words.npy --format parquet"), 1, "words.npy is not a Parquet file"),
    (FIT.format("two.npz"), 1, "the file has the arrays one, other: choose with --key"),
    (FIT.format("measurements.csv -k 1000"), 1, "n_components"),
    (FIT.format("measurements.csv --covariance round"), 2, "'covariance_type'"),
    (FIT.format("measurements.csv --iterations -3"), 2, "'max_iter'"),
    (FIT.format("measurements.csv --family gausian"), 2, "family must be one of"),
    (FIT.format("measurements.csv --set foo=1"), 2, "has no setting 'foo'; it has"),
    (FIT.format("measurements.csv --set tol"), 2, "--set needs NAME=VALUE"),
    (FIT.format("measurements.csv --set tol={"), 2, "is not JSON"),
    (FIT.format("measurements.csv --emissions poisson"), 2, "--emissions is for hmm"),
    (FIT.format("measurements.csv --from model.fastem"), 2, "go with --online"),
    (FIT.format("measurements.csv --online --from visits.fastem"), 2, "which is no gmm"),
    (FIT.format("measurements.csv --online --from model.fastem -k 9"), 2, "cannot change to 9"),
    (FIT.format("measurements.csv --checkpoint-every often"), 2, "must be like 30s"),
    ("fit hmm visits.csv --columns 1 --n-init 3 -o o.fastem", 2, "has no such setting"),
    *((FIT.format(f"{name}.csv.gz {how}"), 1, f"{name}.csv.gz cannot be unpacked: ")
      for name in ("half", "flipped", "plain") for how in ("", "--online")),
    ("fit gmm . --format csv --online -o o.fastem", 1, ".: Is a directory"),
    (FIT.format("measurements.csv --chunk ten"), 2, "--chunk: must be a whole number, 1 or more;"),
    (FIT.format("bar.csv"), 1, "('1|2' in row 1): if these are several numbers, name what separ"),
    (FIT.format("bar.csv --online"), 1, "name what separates them: --separator '|'"),
    (FIT.format("comma.csv"), 1, "('1,5' in row 1): decimals begin with a point, not with a comma"),
    ("fit gmm measurements.csv -o .", 2, "--out: . is a folder"),
    ("combine a.fastem b.fastem -o .", 2, "--out: . is a folder"),
    (FIT.format("mac.csv"), 1, "column 'b' holds text ('x' in row 2)"),
    (FIT.format("mac.csv --online"), 1, "line 1 is not CSV: a carriage return is not followed"),
    (FIT.format("head.csv"), 1, "line 2 is not CSV: unexpected end of data"),
    (FIT.format("head.csv --online"), 1, "line 2 is not CSV: unexpected end of data"),
    (FIT.format("none.npz"), 1, "the file holds no arrays"),
    (FIT.format("sparse.npz"), 1, "sparse matrix, which a GaussianMixture does not take: write"),
    (FIT.format("measurements.csv --separator ="), 1, "column"),
    (FIT.format("measurements.csv --separator=--"), 2, "--separator must be one character"),
    (FIT.format("measurements.csv --separator="), 2, "--separator must be one character"),
    (FIT.format("measurements.csv --separator= --online"), 2, "--separator must be one"),
    (FIT.format('measurements.csv --separator="'), 2, "--separator must be one character"),
    (FIT.format("measurements.csv --online --iterations 3"), 2, "--iterations is for whole"),
    (FIT.format("measurements.csv --online --solver incremental"), 2, "--solver is for whole"),
    (FIT.format("measurements.csv --online --group height"), 2, "--group and --lengths are for"),
    (FIT.format("measurements.csv --family categorical"), 2, "--family must be one of bern"),
    ("fit hmm visits.csv --emissions some -o o", 2, "--emissions must be one of bernoulli, "),
    ("fit hmm measurements.csv --emissions categorical -o o", 1, "one column of symbols, and"),
    ("fit hmm measurements.csv --emissions categorical --online -o o", 1, "one column of sym"),
    ("fit hmm visits.csv --columns 1 --lengths text.csv -o o", 1, "a length is a whole number"),
    ("fit hmm group.npy --group 0 -o o.fastem", 1, "row 2 has no value in the column of --gr"),
    ("fit hmm nogroup.csv --group g --online -o o.fastem", 1, "row 2 has no value in the col"),
    ("fit hmm nogroup.csv --group g -o o.fastem", 1, "row 2 has no value in the column of --gr"),
    ("fit hmm visits.csv --columns 1 --lengths sum.csv -o o", 1, "sum to 90, and there are 140"),
    ("score foreign.fastem measurements.csv", 1, "foreign.fastem is not a fastem file"),
    ("score cut.fastem measurements.csv", 1, "cut.fastem is cut short"),
    ("score measurements.csv measurements.csv", 1, "not a fastem file"),
    ("score nothing.fastem measurements.csv", 1, "nothing.fastem: No such file or directory"),
    ("score unfitted.fastem measurements.csv", 1, "without a model"),
    ("score model.fastem visits.csv", 1, "there is no column 'height', which the model has"),
    ("score model.fastem counts.csv --columns 0", 1, "expecting 2 features"),
    ("predict model.fastem measurements.csv -o p.docx", 2, "must end with .csv"),
    ("predict series.fastem series.csv --proba", 2, "has no labels"),
    ("predict model.fastem gap.csv", 1, "a value is missing"),
    ("sample model.fastem -n 0", 2, "-n must be 1 or more"),
    ("sample model.fastem --seed -3", 2, "--seed must be from 0 to"),
    ("sample model.fastem --length 3", 2, "--length is for compound Dirichlet"),
    ("forecast model.fastem measurements.csv", 1, "nothing to forecast"),
    ("forecast series.fastem series.csv --level 1.5", 2, "--level must be between 0 and 1"),
    ("combine a.fastem -o o.fastem", 2, "two models or more"),
    ("combine a.fastem visits.fastem -o o.fastem", 1, "visits.fastem holds a GaussianHMM, and"),
    ("combine a.fastem a.fastem o -o o.fastem", 1, "o: No such file or directory"),
    ("combine a.fastem b.fastem --weights 1 -o o", 2, "there are 1 for 2 models"),
    ("divergence a.fastem nothing.fastem", 1, "nothing.fastem: No such file"),
    ("show gap.csv", 1, "not a fastem file"),
    ("plot model.fastem -o x.gif", 2, "a picture ends with"),
    ("plot model.fastem --kind states -o x.png", 2, "--kind states needs DATA"),
    ("plot model.fastem --kind matches -o x.png", 2, "needs other models"),
    ("plot a.fastem --with visits.fastem -o x.png", 1, "models must be of one kind"),
    ("plot model.fastem -o x.png --dpi 0", 2, "--dpi must be more than 0"),
    ("plot model.fastem -o x.png --dpi nan", 2, "--dpi must be more than 0"),
    ("plot series.fastem series.csv -o x.png --level 2", 2, "--level must be between 0 and 1"),
    ("plot series.fastem series.csv -o x.png --steps -1", 2, "--steps must be 0 or more"),
    ("plot series.fastem series.csv -o x.png --sequence 50", 2, "there is 1 sequence, numb"),
    ("plot visits.fastem visits.csv -o x.png --sequence 50", 2, "there is 1 sequence, numb"),
    ("plot model.fastem --kind densities -o x.png --column 2", 2, "there is no column '2'"),
    ("plot series.fastem series.csv -o x.png --of states --column level", 2, "model, state0."),
    ("plot model.fastem -o x.png --weight id", 2, "--weight id (see fastem plot --help)"),
    ("warmup nothing", 2, "no model 'nothing'"),
])  # fmt: skip
def test_errors_are_one_line(line, code, words, run):
    found, out, err = run(line)
    assert (found, out) == (code, ""), err
    assert err.startswith("fastem") and err.count("\n") == 1 and err.endswith("\n"), err
    assert words in err


def test_a_traceback_can_be_asked_for(fastem):
    _, err = fastem.process("show", "nothing.fastem", "--traceback", code=1)
    assert err[0].startswith("Traceback") and "FileNotFoundError" in err[-1]
    _, err = fastem.process("show", "nothing.fastem", code=1, env={"FASTEM_DEBUG": "1"})
    assert err[0].startswith("Traceback")
    _, err = fastem.process("show", "nothing.fastem", code=1)
    assert err == ["fastem show: nothing.fastem: No such file or directory"]


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such pipes")
def test_a_pipe_that_nobody_reads(fitted):
    rows = "height,weight\n" + "1.5,2\n" * 100_000
    (fitted.folder / "many.csv").write_text(rows)
    process = fitted.start("predict", "model.fastem", "many.csv", "--proba")
    assert process.stdout.readline() == "p0,p1,p2\n"
    process.stdout.close()
    assert process.stderr.read() == ""
    process.stderr.close()
    assert process.wait() == 141


@pytest.mark.parametrize("name", COMMANDS)
def test_help_ends_with_examples(name, run):
    code, out, err = run(f"{name} --help")
    assert (code, err) == (0, "")
    examples = out.partition("\nexamples:\n")[2].splitlines()
    assert examples
    assert all(line.startswith("  ") and f"fastem {name}" in line for line in examples)


def test_help_imports_nothing_heavy():
    heavy = "numpy", "numba", "sklearn", "scipy", "pandas", "matplotlib"
    code = (
        "import sys\nfrom fastem.cli import main\n"
        "try: main(['fit', '--help'])\nexcept SystemExit: pass\n"
        f"print([name for name in {heavy!r} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_help_lists_all_commands(run):
    code, out, _ = run("--help")
    assert code == 0
    assert all(f"\n    {name}" in out for name in COMMANDS)


CLOSED = """
import os, sys
os.close({})
os.execv(sys.executable, [sys.executable, "-m", "fastem", *sys.argv[1:]])
"""


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has other streams")
def test_closed_streams(fitted):
    def process(stream, *arguments, code):
        return fitted.process(*arguments, code=code, main=("-c", CLOSED.format(stream)))

    fit = ("fit", "gmm", "measurements.csv", "-k", 1, "-o", "closed.fastem")
    assert len(process(1, *fit, code=0)[1]) == 1
    score = ("score", "a.fastem", "measurements.csv")
    for arguments in (("show", "a.fastem"), ("sample", "a.fastem"), score):
        expected = [f"fastem {arguments[0]}: standard output is closed."]
        assert process(1, *arguments, code=1)[1] == expected
    for more in ((), ("--online",)):
        _, err = process(0, "fit", "gmm", "-", "-o", "closed.fastem", *more, code=1)
        assert err == ["fastem fit: standard input is closed."]
    assert process(2, *fit, code=0) == ("", [])
    assert process(2, "show", "nothing.fastem", code=1) == ("", [])


@pytest.mark.parametrize("module", ["argparse", "numpy"])
def test_an_interrupt_while_modules_are_imported(module, fitted):
    code = (
        "import sys\nfrom fastem.cli import main\n"
        "class Interrupted:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        f"        if name == {module!r}: raise KeyboardInterrupt\n"
        f"sys.modules.pop({module!r}, None)\n"
        "sys.meta_path.insert(0, Interrupted())\n"
        "raise SystemExit(main(sys.argv[1:]))"
    )
    out, err = fitted.process("sample", "a.fastem", main=("-c", code), code=130)
    name = "fastem" if module == "argparse" else "fastem sample"
    assert (out, err) == ("", [f"{name}: interrupted"])


def test_what_libraries_log_is_one_line(fitted, monkeypatch):
    import logging

    from fastem.cli import models

    def load(path):
        logging.getLogger("some.library").warning("a cache\nis %s", "built")
        raise OSError("no")

    monkeypatch.setattr(models, "load", load)
    # As in a process of its own: pytest configures logging.
    monkeypatch.setattr(logging.getLogger(), "handlers", [])
    before = logging.lastResort
    _, err = fitted("show", "a.fastem", code=1)
    assert err == ["fastem show: warning: a cache is built", "fastem show: no"]
    assert logging.lastResort is before


def test_verbose_is_lines_where_there_is_no_terminal(fitted):
    fit = ("fit", "gmm", "measurements.csv", "-k", 3, "--seed", 1, "-o", "o.fastem")
    _, err = fitted.process(*fit, "-vv")
    assert err[0].startswith("GaussianMixture.fit, iteration 1: log-likelihood -")
    assert len(err) > 3 and "converged after" in err[-2] and err[-1].endswith("wrote o.fastem")
    _, err = fitted.process(*fit, "-v")
    assert len(err) == 2 and err[0].startswith("GaussianMixture.fit: converged after")
