"""Files of estimators: settings of all kinds, families of the user's own, and what is refused."""

import os

import numpy as np
import pytest

import fastem
from fastem import Decay, ExponentialFamily, GaussianMixture, Mixture
from fastem.saving import files


class Rayleigh(ExponentialFamily):
    """A family that files know nothing of."""

    def __init__(self, unit=1.0):
        self.unit = unit

    def settings(self):
        return {"unit": self.unit}

    def sufficient(self, X):
        return (X / self.unit) ** 2

    def log_base(self, X):
        return np.log(X / self.unit**2).sum(axis=1)

    def log_partition(self, natural):
        return -np.log(-2 * natural).sum(axis=1)

    def mean(self, natural):
        return -1 / natural

    def natural(self, mean):
        return -1 / mean

    def sample(self, natural, rng):
        return self.unit * rng.rayleigh(np.sqrt(-0.5 / natural))


def data(seed=0):
    rng = np.random.default_rng(seed)
    return {
        "normal": rng.normal(size=(40, 2)),
        "counts": rng.poisson(4.0, size=(40, 2)),
        "positive": rng.gamma(2.0, size=(40, 2)),
    }


def same(one, other):
    """Equality of what estimators hold, to the bit."""
    if isinstance(one, np.ndarray):
        return (
            isinstance(other, np.ndarray)
            and one.dtype == other.dtype
            and one.shape == other.shape
            and one.tobytes() == other.tobytes()
        )
    if isinstance(one, fastem.Statistics):
        one, other = one.to_arrays(), other.to_arrays()
        return one.keys() == other.keys() and all(same(one[name], other[name]) for name in one)
    return type(one) is type(other) and one == other


def assert_same_state(one, other):
    assert vars(one).keys() == vars(other).keys()
    for name, value in vars(one).items():
        assert same(value, vars(other)[name]), name


def there_and_back(model, path, **options):
    fastem.save(model, path)
    return fastem.load(path, **options)


def test_every_kind_of_setting(tmp_path):
    X = data()["normal"]
    model = GaussianMixture(
        2, tol=0.5, weights_init=[0.25, 0.75], means_init=np.array([[0.0, 0.0], [1.0, 1.0]]),
        random_state=7, learning_rate=Decay(0.5, 0.9), batch_size=4, fixed=("means",), n_jobs=-1,
    ).fit(X)  # fmt: skip
    loaded = there_and_back(model, tmp_path / "model")
    assert_same_state(loaded, model)
    assert isinstance(loaded.lower_bounds_, list)
    model.set_params(learning_rate=np.inf, fixed={"weights", "means"}, random_state=None)
    loaded = there_and_back(model, tmp_path / "model")
    assert loaded.learning_rate == np.inf
    assert loaded.fixed == ("means", "weights")
    assert loaded.random_state is None
    init = {"rates": [[1.0, 1.0]], "weights": np.ones(1)}
    mixture = Mixture("poisson", init=init).fit(data()["counts"])
    loaded = there_and_back(mixture, tmp_path / "model")
    assert loaded.init["rates"] == [[1.0, 1.0]]
    np.testing.assert_array_equal(loaded.init["weights"], [1.0])


def test_names_of_columns(tmp_path):
    model = GaussianMixture().fit(data()["normal"])
    model.feature_names_in_ = np.array(["height", "Gewicht in ½ kg"], dtype=object)
    loaded = there_and_back(model, tmp_path / "model")
    assert loaded.feature_names_in_.dtype == object
    assert loaded.feature_names_in_.tolist() == ["height", "Gewicht in ½ kg"]


def test_a_state_of_random_numbers_is_not_kept(tmp_path):
    model = GaussianMixture(random_state=np.random.RandomState(0)).fit(data()["normal"])
    loaded = there_and_back(model, tmp_path / "model")
    assert loaded.random_state is None
    assert loaded.sample(3)[0].shape == (3, 2)


def test_an_estimator_that_is_not_fitted(tmp_path):
    loaded = there_and_back(GaussianMixture(3, covariance_type="diag"), tmp_path / "model")
    assert loaded.get_params() == GaussianMixture(3, covariance_type="diag").get_params()
    assert not hasattr(loaded, "weights_")


def test_a_family_of_ones_own_is_asked_for(tmp_path):
    path = tmp_path / "model"
    model = Mixture(Rayleigh(2.0), 2, random_state=0).fit(data()["positive"])
    fastem.save(model, path)
    with pytest.raises(ValueError, match=r"family Rayleigh.*load\(path, families=\[Rayleigh\]\)"):
        fastem.load(path)
    for given in (Rayleigh, Rayleigh(2.0)):
        loaded = fastem.load(path, families=[given])
        assert loaded.family == Rayleigh(2.0)
    with pytest.raises(ValueError, match=r"settings \{'unit': 2.0\}, and .* has \{'unit': 3.0\}"):
        fastem.load(path, families=[Rayleigh(3.0)])


def test_a_function_as_learning_rate_is_refused(tmp_path):
    class Slower(Decay):
        def __call__(self, t):
            return 0.1

    for rate in (lambda t: 1.0 / t, Slower()):
        model = GaussianMixture(learning_rate=rate).fit(data()["normal"])
        with pytest.raises(TypeError, match=r"learning_rate is a function.*fastem\.Decay\(\)"):
            fastem.save(model, tmp_path / "model")
    assert list(tmp_path.iterdir()) == []


def test_only_our_estimators(tmp_path):
    from sklearn.mixture import GaussianMixture as Reference

    class Mine(GaussianMixture):
        pass

    for other in (Reference(), Mine(), {"weights": 1}):
        with pytest.raises(TypeError, match="Only fastem's own estimators can be saved"):
            fastem.save(other, tmp_path / "model")


def test_a_crash_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "model"
    old = GaussianMixture().fit(data()["normal"])
    fastem.save(old, path)

    def crash(*args):
        raise OSError("the power went")

    for step in ("replace", "fsync"):
        with monkeypatch.context() as patch:
            patch.setattr(os, step, crash)
            with pytest.raises(OSError, match="the power went"):
                fastem.save(GaussianMixture().fit(data(1)["normal"]), path)
        assert_same_state(fastem.load(path), old)
        assert [entry.name for entry in tmp_path.iterdir()] == ["model"]


@pytest.mark.parametrize(
    ("kind", "settings", "words"),
    [
        ("Telescope", {}, "holds a Telescope, which this version of fastem does not know. Upgrade"),
        ("GaussianMixture", {}, "is damaged: it is not what fastem.save writes"),
        (
            "GaussianMixture",
            {"parameters": {"n_components": 3}, "attributes": {}},
            "is damaged: it is not what fastem.save writes",
        ),
        (
            "GaussianMixture",
            {"parameters": {}, "attributes": {"means_": {"array": "lost"}}},
            "is damaged: it is not what fastem.save writes",
        ),
        (
            "GaussianMixture",
            {"parameters": {"priors": {"value": 1}}, "attributes": {}},
            r"settings \['priors'\], which this version of fastem does not know. Upgrade",
        ),
    ],
)
def test_files_that_say_what_we_do_not_know(kind, settings, words, tmp_path):
    path = tmp_path / "model"
    files.write(path, kind, settings, {})
    with pytest.raises(files.FileError, match=words):
        fastem.load(path)
