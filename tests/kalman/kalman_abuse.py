"""Kalman filters abused, case after case, in a process of its own: see test_kalman_bad_input.

Each case is printed before it runs, so that the last one is known if the process dies. An answer
must be an error that says something, or numbers of the right shape.
"""

import sys
import warnings

import numpy as np

import fastem
from fastem.kalman.model import NAMES, KalmanModel
from fastem.statistics import Moments, Statistics

X = np.random.default_rng(0).normal(size=(12, 3))
D, P = 2, 3


def good():
    return {
        "transition_matrices": 0.5 * np.eye(D),
        "transition_offsets": np.zeros(D),
        "transition_covariance": np.eye(D),
        "observation_matrices": np.eye(P, D),
        "observation_offsets": np.zeros(P),
        "observation_covariance": np.eye(P),
        "initial_state_mean": np.zeros(D),
        "initial_state_covariance": np.eye(D),
    }


def wrong(name):
    """Values of a parameter that must not reach a kernel."""
    value = good()[name]
    yield from (np.zeros(shape) for shape in ((), (1,), (5,), (1, 1), (5, 5), (5, 2), (2, 5), (0,),
                                              (0, 0), (3, 5, 5), (2, 2, 2, 2)))  # fmt: skip
    yield np.full_like(value, np.nan)
    yield np.full_like(value, np.inf)
    yield value.astype(complex)
    yield "text"
    yield [["a", "b"], ["c", "d"]]
    yield object()
    yield [[1.0], [1.0, 2.0]]
    yield np.ma.masked_all(value.shape)
    # Time where it is not allowed, or too short.
    yield np.stack([value] * 2)
    if name.endswith("covariance"):
        n = len(value)
        yield -np.eye(n)
        yield np.eye(n) + np.triu(np.ones((n, n)), 1)
        yield np.diag(np.r_[-1.0, np.ones(n - 1)])


METHODS = {
    "smooth": lambda kf: kf.smooth(X),
    "smooth many": lambda kf: kf.smooth(np.stack([X, X])),
    "filter": lambda kf: kf.filter(X),
    "loglikelihood": lambda kf: kf.loglikelihood(X),
    "score": lambda kf: kf.score(X),
    "score_samples": lambda kf: kf.score_samples([X, X[:5]]),
    "forecast": lambda kf: kf.forecast(X, 2),
    "stream": lambda kf: kf.stream().update(X[0]),
    "sample": lambda kf: kf.sample(12, random_state=0),
    "filter_update": lambda kf: kf.filter_update(np.zeros(D), np.eye(D), X[0]),
    "em": lambda kf: kf.em(X, n_iter=1),
    "fit": lambda kf: kf.fit(X),
    "partial_fit": lambda kf: kf.partial_fit(X),
    "divergence": lambda kf: fastem.divergence(kf, kf, horizon=5),
    "combine": lambda kf: fastem.combine([kf, kf], horizon=5),
    "model": lambda kf: kf._model().expect(X),
}

UPDATES = {
    "transition_matrix": "transition_matrices",
    "transition_offset": "transition_offsets",
    "transition_covariance": "transition_covariance",
    "observation_matrix": "observation_matrices",
    "observation_offset": "observation_offsets",
    "observation_covariance": "observation_covariance",
}


def cases():
    options = {"max_iter": 2, "tol": 0.0}
    for name in NAMES:
        for number, value in enumerate(wrong(name)):
            for method, call in METHODS.items():

                def constructed(value=value, call=call, name=name):
                    return call(fastem.KalmanFilter(**{**good(), name: value}, **options))

                def replaced(value=value, call=call, name=name):
                    kf = fastem.KalmanFilter(n_dim_state=D, warm_start=True, **options).fit(X)
                    setattr(kf, f"{name}_", value)
                    return call(kf)

                yield f"{method}, {name} given as {number}", constructed
                yield f"{method}, {name}_ set to {number}", replaced
    for argument, name in UPDATES.items():
        for number, value in enumerate(wrong(name)):

            def update(value=value, argument=argument):
                kf = fastem.KalmanFilter(**good())
                return kf.filter_update(np.zeros(D), np.eye(D), X[0], **{argument: value})

            yield f"filter_update, {argument} {number}", update
    for number, value in enumerate(wrong("initial_state_covariance")):
        yield (
            f"filter_update, mean {number}",
            lambda v=value: fastem.KalmanFilter(**good()).filter_update(v, np.eye(D), X[0]),
        )
        yield (
            f"filter_update, covariance {number}",
            lambda v=value: fastem.KalmanFilter(**good()).filter_update(np.zeros(D), v, X[0]),
        )
        if number != 0:
            yield (
                f"filter_update, observation {number}",
                lambda v=value: fastem.KalmanFilter(**good()).filter_update(
                    np.zeros(D), np.eye(D), v
                ),
            )
        yield (
            f"initial_state {number}",
            lambda v=value: fastem.KalmanFilter(**good()).sample(5, initial_state=v),
        )
        yield f"stream {number}", lambda v=value: fastem.KalmanFilter(**good()).stream().update(v)
        yield f"lengths_ {number}", lambda v=value: _with_lengths(v)
    model = KalmanModel(good())
    statistics = model.own(5)
    for block in statistics:
        for part in ("mass", "mean", "scatter"):
            for number, shape in enumerate(((), (1,), (1, 1), (1, 9), (1, 9, 9), (2, 2))):
                if shape == getattr(statistics[block], part).shape:
                    continue
                spoiled = _spoiled(statistics, block, part, np.ones(shape))
                for method in ("maximize", "log_joint"):
                    yield (
                        f"{method}, {part} of {block} {number}",
                        lambda s=spoiled, f=method: getattr(model, f)(s),
                    )
                yield (
                    f"memory, {part} of {block} {number}",
                    lambda s=spoiled: _with_memory(s),
                )
    long = {**good(), "observation_matrices": np.stack([np.eye(P, D)] * 3)}
    for name, call in (
        ("expect", lambda: KalmanModel(long).expect(X)),
        ("infer", lambda: KalmanModel(long).infer(X, True)),
        ("log_likelihoods", lambda: KalmanModel(long).log_likelihoods(X)),
        ("own", lambda: KalmanModel(long).own(3)),
        ("maximize", lambda: KalmanModel(long).maximize(statistics)),
        ("draw", lambda: KalmanModel(long).draw(2, np.random.default_rng(0), 3)),
    ):
        yield f"time, {name}", call
    yield "width", lambda: fastem.KalmanFilter(observation_matrices=2.0).smooth(X)


def _spoiled(statistics, block, part, value):
    blocks = dict(statistics)
    parts = {name: getattr(blocks[block], name) for name in Moments.__slots__}
    blocks[block] = Moments(**{**parts, part: value})
    return Statistics(**blocks)


def _with_memory(statistics):
    kf = fastem.KalmanFilter(n_dim_state=D, memory="statistics").partial_fit(X)
    kf.statistics_ = statistics
    return kf.partial_fit(X)


def _with_lengths(value):
    kf = fastem.KalmanFilter(n_dim_state=D, max_iter=2, tol=0.0).fit(X)
    kf.lengths_ = value
    return fastem.divergence(kf, kf)


def finite(answer):
    if isinstance(answer, fastem.KalmanFilter):
        names = [f"{name}_" for name in NAMES if hasattr(answer, f"{name}_")] or list(NAMES)
        return all(np.isfinite(getattr(answer, name)).all() for name in names)
    if isinstance(answer, (tuple, list)):
        return all(map(finite, answer))
    if isinstance(answer, (np.ndarray, float)):
        return bool(np.isfinite(answer).all())
    return True


def main():
    warnings.simplefilter("ignore")
    answered = 0
    for name, call in cases():
        print(name, flush=True)
        try:
            answer = call()
        except (ValueError, TypeError) as error:
            if not str(error) or isinstance(error, np.linalg.LinAlgError):
                sys.exit(f"{name}: an error that says nothing: {error!r}")
        except Exception as error:
            sys.exit(f"{name}: {error!r}")
        else:
            answered += 1
            if not finite(answer):
                sys.exit(f"{name}: an answer that is not finite")
    print(f"done {answered}", flush=True)


if __name__ == "__main__":
    main()
