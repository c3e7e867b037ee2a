"""fastem.KalmanFilter beside its peers: ``python -m benchmarks.side_by_side_kalman``.

EM iterations against dynamax, simdkalman and pykalman, and smoothing alone against statsmodels,
simdkalman and pykalman, complete and with a tenth of the values missing. First both sides must give
the same log-likelihood, or the same smoothed states where a peer has no likelihood; then the
times, interleaved, the best of several. Run it on a machine that does nothing else.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from pathlib import Path

import numpy as np

import fastem
from fastem.kalman_data import as_observations

from .kalman_shapes import ROWS, Shape, load
from .side_by_side import cpu_name

warnings.filterwarnings("ignore")


def timed(function):
    begun = time.perf_counter()
    result = function()
    return time.perf_counter() - begun, result


def dynamax_e_step(model, X):
    """A compiled function of dynamax that computes the expected statistics of all sequences."""
    import jax

    jax.config.update("jax_enable_x64", True)
    import jax.numpy as jnp
    from dynamax.linear_gaussian_ssm import LinearGaussianSSM

    peer = LinearGaussianSSM(state_dim=len(model.m), emission_dim=len(model.c))
    params, _ = peer.initialize(
        jax.random.PRNGKey(0), initial_mean=jnp.array(model.m),
        initial_covariance=jnp.array(model.V), dynamics_weights=jnp.array(model.A),
        dynamics_bias=jnp.array(model.b), dynamics_covariance=jnp.array(model.Q),
        emission_weights=jnp.array(model.C), emission_bias=jnp.array(model.c),
        emission_covariance=jnp.array(model.R),
    )  # fmt: skip
    data = jnp.array(X)
    step = jax.jit(jax.vmap(lambda v: peer.e_step(params, v)))

    def run():
        statistics, log_likelihoods = step(data)
        jax.block_until_ready(statistics)
        return float(log_likelihoods.sum())

    run()
    return run


def simdkalman_em(model, X):
    """One iteration of simdkalman's EM, which learns Q, R, m and V."""
    import simdkalman

    kf = simdkalman.KalmanFilter(model.A, model.Q, model.C, model.R)

    def run():
        # It starts from its own guess of the first state.
        kf.em(X, n_iter=1)

    return run


def pykalman_em(model, X):
    import pykalman

    kf = pykalman.KalmanFilter(**model.parameters)

    def run():
        kf.em(X[0], n_iter=1, em_vars="all")

    return run


def ours_em(model, X):
    sequences = as_observations(X)
    model.expect(sequences)

    def run():
        expectation = model.expect(sequences)
        model.maximize(expectation.statistics)
        return expectation.log_likelihood * len(sequences)

    return run


def smoothers(model, X, names):
    """Functions that smooth all sequences and return the means of the first."""
    found = {}
    kf = fastem.KalmanFilter(**model.parameters)
    found["fastem"] = lambda: kf.smooth(X)[0][0]
    if "pykalman" in names:
        import pykalman

        peer = pykalman.KalmanFilter(**model.parameters)
        found["pykalman"] = lambda: _all(lambda v: peer.smooth(v)[0], X)
    if "simdkalman" in names:
        import simdkalman

        simd = simdkalman.KalmanFilter(model.A, model.Q, model.C, model.R)
        found["simdkalman"] = lambda: simd.smooth(
            X, initial_value=model.m, initial_covariance=model.V
        ).states.mean[0]
    if "statsmodels" in names:
        from statsmodels.tsa.statespace.kalman_smoother import KalmanSmoother

        def one(v):
            peer = KalmanSmoother(k_endog=len(model.c), k_states=len(model.m))
            peer.bind(v)
            peer["design"], peer["obs_cov"] = model.C, model.R
            peer["transition"], peer["state_cov"] = model.A, model.Q
            peer["selection"] = np.eye(len(model.m))
            peer.initialize_known(model.m, model.V)
            return peer.smooth().smoothed_state.T

        found["statsmodels"] = lambda: _all(one, X)
    return found


def _all(function, X):
    """Apply to every sequence; the first result."""
    results = [function(v) for v in X]
    return results[0]


def interleaved(ours, peer, repeats, peer_repeats):
    times = {"ours": [], "peer": []}
    for i in range(max(repeats, peer_repeats)):
        if i < peer_repeats:
            times["peer"].append(timed(peer)[0])
        if i < repeats:
            # Several at a time, as iterations follow one another in a fit.
            times["ours"].append(min(timed(ours)[0] for _ in range(5)))
    return min(times["ours"]), min(times["peer"]), times


def compare_em(shape, name, bar, goal, repeats):
    model, X = load(shape)
    ours = ours_em(model, X)
    likelihood = ours()
    if name.startswith("dynamax"):
        peer = dynamax_e_step(model, X)
        other = peer()
    else:
        peer = (simdkalman_em if name == "simdkalman" else pykalman_em)(model, X)
        # These say no likelihood of an iteration: the models' is compared instead.
        few = X[:3]
        if name == "pykalman":
            import pykalman

            other = pykalman.KalmanFilter(**model.parameters).loglikelihood(X[0])
        else:
            likelihood = fastem.KalmanFilter(**model.parameters).loglikelihood(few)
            other = likelihood + _simdkalman_gap(model, few)
    if abs(likelihood - other) > 1e-6 * abs(likelihood):
        raise AssertionError(f"{shape}: log-likelihoods {likelihood} and {other}")
    best, best_peer, times = interleaved(ours, peer, repeats, min(repeats, 3))
    return {
        "work": "EM", "shape": str(shape), "peer": name, "peer (s)": best_peer, "fastem (s)": best,
        "ratio": best_peer / best, "bar": bar, "goal": goal, "times": times,
    }  # fmt: skip


def _simdkalman_gap(model, X):
    """Zero if simdkalman smooths to the same states."""
    found = smoothers(model, X, ("simdkalman",))
    return float(np.abs(found["fastem"]() - found["simdkalman"]()).max())


def compare_smoothing(shape, names, repeats):
    model, X = load(shape)
    found = smoothers(model, X, names)
    reference = found["fastem"]()
    rows = []
    for name in names:
        if not np.allclose(reference, found[name](), rtol=1e-5, atol=1e-6):
            raise AssertionError(f"{shape}: {name} smooths to other states")
        best, best_peer, times = interleaved(found["fastem"], found[name], repeats, 1)
        rows.append(
            {"work": "smoothing", "shape": str(shape), "peer": name, "peer (s)": best_peer,
             "fastem (s)": best, "ratio": best_peer / best, "times": times}
        )  # fmt: skip
    return rows


def growth(repeats=5):
    """Exponents of the time of an EM iteration in d, p, T and n."""
    base = Shape(200, 100)
    found = {}
    for name, least in (("d", 8), ("p", 8), ("T", 100), ("n", 200)):
        sizes = [least, 2 * least, 4 * least]
        times = []
        for size in sizes:
            run = ours_em(*load(base._replace(**{name: size})))
            times.append(min(timed(run)[0] for _ in range(repeats)))
        found[name] = float(np.polyfit(np.log(sizes), np.log(times), 1)[0])
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--peers", nargs="*", help="only these peers")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    rows = []

    def show(row):
        bar = f"  bar {row['bar']}×  goal {row['goal']}×" if "bar" in row else ""
        print(
            f"{row['work']:<10}{row['shape']:<42}{row['peer']:<16}{row['peer (s)']:>10.4f} s"
            f"{row['fastem (s)'] * 1e3:>11.3f} ms{row['ratio']:>9.1f}×{bar}",
            flush=True,
        )
        rows.append(row)

    def wanted(name):
        return not options.peers or any(name.startswith(peer) for peer in options.peers)

    print(f"{cpu_name()}, numpy {np.__version__}")
    for shape, name, bar, goal in ROWS:
        if wanted(name):
            show(compare_em(shape, name, bar, goal, options.repeats))
    for shape, names in (
        (Shape(1, 20_000), ("statsmodels",)),
        (Shape(1, 2000), ("pykalman", "statsmodels")),
        (Shape(500, 50), ("simdkalman",)),
        (Shape(1, 20_000, gaps=0.1), ("statsmodels",)),
    ):
        names = tuple(name for name in names if wanted(name))
        if names:
            for row in compare_smoothing(shape, names, options.repeats):
                show(row)
    exponents = growth()
    print("growth:", ", ".join(f"{name} {value:.2f}" for name, value in exponents.items()))
    if options.out:
        options.out.write_text(json.dumps({"rows": rows, "growth": exponents}, indent=2))


if __name__ == "__main__":
    main()
