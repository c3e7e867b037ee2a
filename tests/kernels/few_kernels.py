"""What a few kernels of every model compute, in a process of its own.

Run as a program, it prints why kernels are compiled plainly, and the results, as JSON.
"""

import json

import numpy as np

from fastem.data.rows import Table
from fastem.data.sequences import Sequences
from fastem.kernels import options
from fastem.kernels.dirichlet import newton
from fastem.kernels.kalman import maximize

from cases import families, hmm


def mixture():
    case = next(case for case in families.ALL if case.name == "poisson")
    pair, X = case.problem(1, n_rows=101)
    model = case.model(pair)
    expected = model.expect(Table(X))
    return [expected.log_likelihood, *model.maximize(expected.statistics).parameters.values()]


def chain():
    case = hmm.BY_NAME["categorical"]
    # The first eight go side by side, the last alone.
    lengths = [9, 7, 8, 9, 9, 6, 9, 9, 80]
    hidden, X, lengths = case.problem(seed=2, lengths=lengths, n_states=3)
    return case.model(hidden).infer(Sequences(X, lengths), posteriors=True)


def kalman():
    k, l = 2, 3
    m = k + l
    rng = np.random.default_rng(3)
    factor = rng.standard_normal((m, m))
    room = np.zeros(k * l + k + k * k + 2 * m * m + k)
    x = np.concatenate([(factor @ factor.T).ravel(), rng.standard_normal(m), room])
    maximize.maximum(x, k, l, 7.0, True, True, maximize.FULL)
    return [x]


def dirichlet():
    alpha = np.array([0.3, 2.0, 17.0])
    mean_log = np.empty(3)
    newton.own_statistics(alpha, mean_log)
    found = np.ones(3)
    assert newton.maximum(mean_log, found)
    return [mean_log, found]


if __name__ == "__main__":
    results = {
        compute.__name__: np.concatenate([np.ravel(array) for array in compute()]).tolist()
        for compute in (mixture, chain, kalman, dirichlet)
    }
    print(json.dumps([options.WHY_PLAIN, results]))
