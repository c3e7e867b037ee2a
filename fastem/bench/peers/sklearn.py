"""scikit-learn: Gaussian mixtures."""

from dataclasses import replace

import numpy as np
from sklearn.mixture import GaussianMixture

from .. import mixtures
from ..side import Problem, Side


def mixture_em(problem: Problem) -> Side:
    # Its fit takes bytes as they are; its score would square them as bytes, modulo 256.
    return replace(
        mixtures.em(problem, GaussianMixture), compiles=False,
        answer=lambda model: model.score(np.asarray(problem.X, dtype=float)),
    )  # fmt: skip
