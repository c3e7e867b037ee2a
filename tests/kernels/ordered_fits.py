"""Mixtures and chains of every family, fitted one after another in a process of their own.

Run as a program with the names of fits, it prints what they learned as JSON.
"""

import hashlib
import json
import sys
import warnings
from functools import partial

import numpy as np

import fastem

from cases.hmm import ALL


def fit_in_order(names):
    """What models learn that are fitted one after another: a digest of each, by name."""
    # A component may lose its points in so few rows; what is learned then must be the same too.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {name: FITS[name]() for name in names}


def _mixture(case):
    _, X, _ = case.problem(seed=3, lengths=[101], n_states=2)
    model = fastem.Mixture(case.family, 2, random_state=0, max_iter=4, batch_size=16)
    model.fit(X)
    learned = [*_parameters(model), model.score_samples(X), model.predict_proba(X)]
    model.partial_fit(X)
    return _digest([*learned, *_parameters(model)])


def _chain(case):
    # The first eight go side by side, the last alone.
    _, X, lengths = case.problem(seed=4, lengths=[9, 7, 8, 9, 9, 6, 9, 9, 80], n_states=2)
    model = fastem.HMM(case.family, 2, random_state=0, n_iter=4)
    model.fit(X, lengths)
    learned = [*_parameters(model), model.score_samples(X, lengths)[1], model.predict(X, lengths)]
    model.partial_fit(X, lengths)
    return _digest([*learned, *_parameters(model)])


def _parameters(model):
    return [array for _, array in sorted(model._model().parameters.items())]


def _digest(arrays):
    digest = hashlib.sha256()
    for array in map(np.asarray, arrays):
        assert np.isfinite(array).all()
        digest.update(repr((array.dtype.str, array.shape)).encode() + array.tobytes())
    return digest.hexdigest()


#: Every family, and mixtures of the two kinds that have kernels of their own.
_CASES = [
    case for case in ALL if not case.name.startswith("mixture") and case.name != "interleaved"
]
_OF_MIXTURES = [case for case in ALL if case.name in ("mixture-full", "mixture-tied")]

#: The fits by name.
FITS = {
    **{f"mixture of {case.name}": partial(_mixture, case) for case in _CASES},
    **{f"chain of {case.name}": partial(_chain, case) for case in _CASES + _OF_MIXTURES},
}


if __name__ == "__main__":
    print(json.dumps(fit_in_order(sys.argv[1:])))
