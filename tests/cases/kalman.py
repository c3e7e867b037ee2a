"""What the tests of the Kalman filter share: models of fastem from oracles, statistics as sums."""

import numpy as np

from fastem.kalman.model import NAMES, KalmanModel

from oracles import kalman as oracles


def parameters(lds):
    return {name: getattr(lds, letter) for name, letter in NAMES.items()}


def model(lds, **options):
    return KalmanModel(parameters(lds), **options)


def lds_of(model):
    return oracles.LDS(**{letter: getattr(model, letter) for letter in NAMES.values()})


def sums(statistics):
    """fastem's moments as the oracle's raw sums."""

    def raw(name):
        moments = statistics[name]
        n, mean = moments.mass[0], moments.mean[0]
        return n, n * mean, moments.scatter[0] + n * np.outer(mean, mean)

    n, h1, P1 = raw("initial")
    transitions, z, Z = raw("transition")
    observed, y, Y = raw("observation")
    d = len(h1)
    p = len(y) - d
    return {
        "n": n,
        "transitions": transitions,
        "observed": observed,
        "h1": h1,
        "P1": P1,
        "h_to": z[:d],
        "h_from": z[d:],
        "S11": Z[:d, :d],
        "S00": Z[d:, d:],
        "S10": Z[:d, d:],
        "h": y[p:],
        "v": y[:p],
        "Shh": Y[p:, p:],
        "Svh": Y[:p, p:],
        "Svv": Y[:p, :p],
    }


def assert_same_sums(got, expected, tolerance=1e-10):
    assert got.keys() == expected.keys()
    for name in expected:
        np.testing.assert_allclose(
            got[name], expected[name], rtol=tolerance, atol=tolerance, err_msg=name
        )


def with_gaps(v, rng, share):
    v = v.copy()
    v[rng.random(v.shape) < share] = np.nan
    return v
