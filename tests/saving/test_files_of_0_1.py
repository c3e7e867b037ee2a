"""Files that version 0.1 saved: they load, answer as they did, and go on learning."""

import contextlib
import json
import shutil
import warnings
from pathlib import Path

import numpy as np
import pytest

import fastem

FOLDER = Path(__file__).parent / "files_of_0_1"
NAMES = sorted(path.stem for path in FOLDER.glob("*.fastem"))


# A score is a sum, and the order in which it is added up may have changed.
CLOSE = 1e-12

every_file = pytest.mark.parametrize("name", NAMES)


class InverseGaussian(fastem.ExponentialFamily):
    """Positive columns, each inverse Gaussian: the user's own family of some of the files."""

    nonnegative = True

    def sufficient(self, X):
        return np.hstack([X, 1 / X])

    def log_base(self, X):
        return -0.5 * np.log(2 * np.pi * X**3).sum(axis=1)

    def log_partition(self, natural):
        first, second = np.hsplit(natural, 2)
        return (-2 * np.sqrt(first * second) - 0.5 * np.log(-2 * second)).sum(axis=1)

    def mean(self, natural):
        m, shape = self.usual(natural)
        return np.hstack([m, 1 / m + 1 / shape])

    def natural(self, mean):
        m, reciprocal = np.hsplit(mean, 2)
        shape = 1 / np.maximum(reciprocal - 1 / m, 1e-6 / m)
        return np.hstack([-shape / (2 * m**2), -shape / 2])

    def sample(self, natural, rng):
        return rng.wald(*self.usual(natural))

    def usual(self, natural):
        first, second = np.hsplit(natural, 2)
        return np.sqrt(second / first), -2 * second


@pytest.fixture(scope="module")
def expected():
    """What 0.1 had and answered: for each file a dict from (kind, name, ...) to an array."""
    found = {name: {} for name in NAMES}
    with np.load(FOLDER / "expected.npz") as file:
        # All arrays lie one after another, as thousands of small ones would make a large file.
        data, index = file["data"].tobytes(), json.loads(file["index"].tobytes())
    for key, (dtype, shape, start, size) in index.items():
        name, *rest = key.split("|")
        array = np.frombuffer(data[start : start + size], dtype).reshape(shape)
        found[name][tuple(rest)] = array
    return found


def loaded(path):
    """The estimator in a file."""
    return fastem.load(path, families=[InverseGaussian])


def data_of(known):
    """The few observations that 0.1 was asked about, as arguments."""
    given = {} if ("data", "lengths") not in known else {"lengths": known["data", "lengths"]}
    return known["data", "X"], given


def part_of(model, name):
    """An attribute or setting by its name, or a part of one: ``lengths_.shares``."""
    name, _, part = name.partition(".")
    value = getattr(model, name)
    if part == "decay":
        return np.array([value.eta0, value.beta])
    return value.to_arrays()[part] if part else value


def assert_same_bits(got, wanted, name):
    """Equal in shape, and in every bit but those of a type that holds the same numbers."""
    got = np.asarray(got)
    assert got.shape == wanted.shape, name
    if wanted.dtype.kind == "f":
        assert got.astype(float).tobytes() == wanted.astype(float).tobytes(), name
    else:
        assert (got == wanted).all(), name


def test_there_are_files_of_every_kind():
    kinds = {type(loaded(FOLDER / f"{name}.fastem")).__name__ for name in NAMES}
    assert kinds == {
        "CategoricalHMM", "CompoundDirichlet", "Dirichlet", "GMMHMM", "GaussianHMM",
        "GaussianMixture", "HMM", "KalmanFilter", "Mixture", "MultinomialHMM", "PoissonHMM",
    }  # fmt: skip


@every_file
def test_parameters_and_settings_are_those_that_were_saved(name, expected):
    model, n_seen = loaded(FOLDER / f"{name}.fastem"), 0
    for (kind, *rest), wanted in expected[name].items():
        if kind in ("attribute", "setting"):
            assert_same_bits(part_of(model, rest[0]), wanted, rest[0])
            n_seen += 1
    assert n_seen > 3


@every_file
def test_answers_are_those_of_0_1(name, expected):
    model, known = loaded(FOLDER / f"{name}.fastem"), expected[name]
    X, given = data_of(known)
    answers = sorted({rest[0] for kind, *rest in known if kind == "answer"})
    assert answers
    for answer in answers:
        with quiet():
            got = getattr(model, answer)(X, **given)
        got = got if isinstance(got, tuple) else (got,)
        for i, part in enumerate(got):
            wanted = known["answer", answer, str(i)]
            if wanted.dtype.kind in "iu":
                np.testing.assert_array_equal(part, wanted, err_msg=answer)
            else:
                scale = np.abs(wanted).max(initial=1.0)
                np.testing.assert_allclose(
                    part, wanted, rtol=CLOSE, atol=CLOSE * scale, err_msg=answer
                )


@contextlib.contextmanager
def quiet():
    """Without the notices of what has changed since 0.1, or of too few rows."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@every_file
def test_learning_goes_on(name, expected):
    if name == "kalman_varying":
        pytest.skip("what changes with time is not learned online")
    model = loaded(FOLDER / f"{name}.fastem")
    X, given = data_of(expected[name])
    before = getattr(model, "n_steps_", 0)
    with quiet():
        model.partial_fit(X, **given)
        model.partial_fit(X, **given)
        assert model.n_steps_ > before
        score = model.score(X, **given)
    assert not np.isnan(score)


@every_file
def test_a_loaded_model_is_saved_again(name, expected, tmp_path):
    model = loaded(FOLDER / f"{name}.fastem")
    fastem.save(model, tmp_path / "again.fastem")
    again = loaded(tmp_path / "again.fastem")
    assert vars(again).keys() == vars(model).keys()
    for (kind, *rest), wanted in expected[name].items():
        if kind in ("attribute", "setting"):
            assert_same_bits(part_of(again, rest[0]), wanted, rest[0])
    # The file itself was only read.
    shutil.copy(FOLDER / f"{name}.fastem", tmp_path / "copy.fastem")
    assert repr(loaded(tmp_path / "copy.fastem")) == repr(model)
