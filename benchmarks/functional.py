"""``fastem.functional`` beside hmmlearn's compiled recursions and dynamax's functions.

``python -m benchmarks.functional`` measures, and writes the table of ``docs/functional.md``. The
sides take turns, and the best time of each counts; dynamax is compiled before, and runs in double
precision. Answers are compared first.
"""

from __future__ import annotations

import argparse
from time import perf_counter

import jax
import jax.numpy as jnp
import numpy as np
from dynamax.hidden_markov_model import hmm_posterior_mode, hmm_smoother
from dynamax.linear_gaussian_ssm.inference import lgssm_smoother, make_lgssm_params
from hmmlearn import _hmmc
from scipy.special import logsumexp

from benchmarks.generated import table, write
from fastem import functional
from fastem.bench import machine

jax.config.update("jax_enable_x64", True)

STEPS = (10, 100, 1000, 10_000, 100_000, 1_000_000)
STATES = (2, 4, 8)


def timed(sides, budget=0.15, turns=7, slow=0.1):
    """The best seconds of a call of each side, which take turns; slow ones take fewer."""
    counts, best = {}, {}
    for name, call in sides.items():
        call()
        begun = perf_counter()
        call()
        best[name] = perf_counter() - begun
        counts[name] = max(1, min(2000, int(budget / turns / max(best[name], 1e-7))))
    for turn in range(turns):
        for name, call in sides.items():
            if best[name] * turn > slow:
                continue
            begun = perf_counter()
            for _ in range(counts[name]):
                call()
            best[name] = min(best[name], (perf_counter() - begun) / counts[name])
    return best


def posteriors_of_hmmlearn(start, matrix, x):
    """As hmmlearn's ``_compute_posteriors_log``."""
    _, log_alpha = _hmmc.forward_log(start, matrix, x)
    log_beta = _hmmc.backward_log(start, matrix, x)
    log_gamma = log_alpha + log_beta
    log_gamma -= logsumexp(log_gamma, axis=1, keepdims=True)
    return np.exp(log_gamma)


def transitions_of_hmmlearn(start, matrix, x):
    _, log_alpha = _hmmc.forward_log(start, matrix, x)
    log_beta = _hmmc.backward_log(start, matrix, x)
    return np.exp(_hmmc.compute_log_xi_sum(log_alpha, matrix, log_beta, x))


_smoother = jax.jit(hmm_smoother)
_mode = jax.jit(hmm_posterior_mode)
_rts = jax.jit(lgssm_smoother)


def recursions(n_steps, n_states):
    """For each function: calls of fastem and of the others on the same problem."""
    rng = np.random.default_rng(n_steps + n_states)
    start, matrix = rng.dirichlet(np.ones(n_states)), rng.dirichlet(np.ones(n_states), n_states)
    x = 2.0 * rng.normal(size=(n_steps, n_states))
    ours, theirs = (x, start, matrix), (start, matrix, x)
    on_jax = tuple(map(jnp.asarray, theirs))
    found = functional.forward_backward(*ours)
    assert np.isclose(functional.forward(*ours)[0], _hmmc.forward_log(*theirs)[0])
    assert np.allclose(found.posteriors, posteriors_of_hmmlearn(*theirs), atol=1e-8)
    assert np.allclose(found.posteriors, _smoother(*on_jax).smoothed_probs, atol=1e-8)
    assert np.isclose(functional.viterbi(*ours)[0], _hmmc.viterbi(*theirs)[0])
    assert np.array_equal(functional.viterbi(*ours)[1], _mode(*on_jax))
    if n_steps > 1:
        # hmmlearn adds logarithms one after another, and rounds each sum.
        rounding = 1e-6 + 1e-10 * n_steps
        assert np.isclose(found.transitions.sum(), n_steps - 1, rtol=1e-10)
        assert np.allclose(found.transitions, transitions_of_hmmlearn(*theirs), rtol=rounding)
    yield (
        "`forward`",
        {
            "fastem": lambda: functional.forward(*ours),
            "hmmlearn": lambda: _hmmc.forward_log(*theirs),
        },
    )
    yield (
        "`forward_backward`",
        {
            "fastem": lambda: functional.forward_backward(*ours),
            "hmmlearn": lambda: posteriors_of_hmmlearn(*theirs),
            "dynamax": lambda: jax.block_until_ready(_smoother(*on_jax)),
        },
    )
    yield (
        "`expected_transitions`",
        {
            "fastem": lambda: functional.expected_transitions(*ours),
            "hmmlearn": lambda: transitions_of_hmmlearn(*theirs),
        },
    )
    yield (
        "`viterbi`",
        {
            "fastem": lambda: functional.viterbi(*ours),
            "hmmlearn": lambda: _hmmc.viterbi(*theirs),
            "dynamax": lambda: jax.block_until_ready(_mode(*on_jax)),
        },
    )


def smoothing(n_steps, d=4, p=2):
    rng = np.random.default_rng(n_steps)
    A = 0.9 * np.linalg.qr(rng.normal(size=(d, d)))[0]
    C, Q, R, m, V = rng.normal(size=(p, d)), 0.1 * np.eye(d), np.eye(p), np.zeros(d), np.eye(d)
    x = rng.normal(size=(n_steps, p))
    parameters, rows = make_lgssm_params(*map(jnp.asarray, (m, V, A, Q, C, R))), jnp.asarray(x)
    ours, theirs = functional.rts_smoother(x, A, C, Q, R, m, V), _rts(parameters, rows)
    assert np.allclose(ours.means, theirs.smoothed_means, atol=1e-6)
    assert np.allclose(ours.log_likelihood, theirs.marginal_loglik)
    yield (
        "`rts_smoother`",
        {
            "fastem": lambda: functional.rts_smoother(x, A, C, Q, R, m, V),
            "dynamax": lambda: jax.block_until_ready(_rts(parameters, rows)),
        },
    )


def in_words(seconds):
    """Seconds in a fitting unit."""
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 1e-6:.3g} µs"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, nargs="+", default=STEPS, help="numbers of steps")
    parser.add_argument("--dry", action="store_true", help="print the table, and write nothing")
    options = parser.parse_args()
    rows, ratios = [], {"hmmlearn": [], "dynamax": []}
    busy = machine.busy()
    for n_steps in options.steps:
        problems = [(K, cell) for K in STATES for cell in recursions(n_steps, K)]
        for states, (name, sides) in [*problems, *((4, cell) for cell in smoothing(n_steps))]:
            best = timed(sides)
            cells = []
            for peer in ratios:
                if peer in best:
                    ratio = best[peer] / best["fastem"]
                    ratios[peer].append(ratio)
                    cells += [in_words(best[peer]), f"{ratio:.2g}×"]
                else:
                    cells += ["–", "–"]
            rows.append([name, f"{n_steps:,}", states, in_words(best["fastem"]), *cells])
            print(*rows[-1], flush=True)
    rows.sort(key=lambda row: row[0])
    text = table(["", "steps", "states", "fastem", "hmmlearn", "", "dynamax", ""], rows)
    means = "; ".join(
        f"{peer}: {np.exp(np.mean(np.log(found))):.1f} times on average (geometric mean), "
        f"{min(found):.2g} at least, slower in {sum(r < 1 for r in found)} of {len(found)}"
        for peer, found in ratios.items()
    )
    text += (
        f"\n\n{means}. Measured on {machine.cores()} cores ({machine.cpu_name()}), "
        f"{100 * busy:.0f} % of which other programs used."
    )
    print(text)
    if not options.dry:
        write("docs/functional.md", "functions", text)


if __name__ == "__main__":
    main()
