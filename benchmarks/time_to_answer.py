"""Time to an answer: ``python -m benchmarks.time_to_answer``.

On the same data, from the same start: the seconds until the held-out negative log-likelihood is
within 0.1 % of where the peer's batch EM stops; for the peer itself, and for fastem in batch,
incrementally and online (in mini-batches of several sizes) with the default learning rate: no
setting is tuned. A quarter of the observations is held out. Scoring them is not counted; neither is
compilation. ``--write`` puts the table into docs/performance.md; ``--rows`` takes fewer of Covtype.

EM ends at one of many optima, and which one is chance: everything is measured from several random
starts. The seconds are medians over them, where a start from which the loss was never reached
counts as longer than any; how many reached it is said beside.

Mixtures: scikit-learn on digits, and on Covtype. Hidden Markov models: hmmlearn and dynamax on
digits, each a sequence of its eight rows of eight pixels.
"""

from __future__ import annotations

import argparse
import json
import warnings
from functools import partial
from itertools import chain, pairwise, repeat
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits

import fastem
from fastem.bench import hidden_markov, mixtures
from fastem.bench.hidden_markov import HMMShape
from fastem.bench.mixtures import MixtureShape
from fastem.bench.side import Problem
from fastem.bench.timing import seconds

from .generated import table, write

warnings.filterwarnings("ignore")

PAGE = "docs/performance.md"
_N_STARTS, _PASSES, _PIECES = 5, 10, 20


def digits():
    """Digits in random order, pixels between zero and one."""
    X = load_digits().data / 16.0
    return X[np.random.default_rng(0).permutation(len(X))]


def until(step, loss, target, limit):
    """Seconds of ``step()`` until ``loss()`` is at most ``target``; None if it never is."""
    spent = 0.0
    for _ in range(limit):
        spent += seconds(step)[0]
        if loss() <= target:
            return spent
    return None


def passes_until(make, learn, loss, target, limit):
    """Seconds of the shortest fit, in passes, that ends with a loss of at most ``target``.

    A fit of one pass more begins anew: what incremental EM keeps of each block ends with a fit.
    """
    learn(make(1))  # compiled, if it was not
    for n_passes in range(1, limit + 1):
        spent, model = seconds(learn, make(n_passes))
        if loss(model) <= target:
            return spent
    return None


def within(loss):
    """What counts as the same loss."""
    return loss + 1e-3 * abs(loss)


def pieces(n):
    """Slices of the training data, several times over."""
    edges = np.linspace(0, n, _PIECES + 1).astype(int)
    slices = [slice(a, b) for a, b in pairwise(edges)]
    return chain.from_iterable(repeat(slices, _PASSES))


def mixture(X, shape, reg_covar, seed):
    """scikit-learn's mixture, and ours."""
    from sklearn.mixture import GaussianMixture

    n_train = len(X) * 3 // 4
    train, test = X[:n_train], X[n_train:]
    settings = {
        "n_components": shape.n_components,
        "covariance_type": shape.covariance_type,
        "reg_covar": reg_covar,
        **mixtures.start(train, shape, seed),
    }
    whole, final = seconds(GaussianMixture(max_iter=200, **settings).fit, train)
    target = within(-final.score(test))
    row = {"target": target, "scikit-learn stops after": [final.n_iter_, whole], "spent": {}}
    spent = row["spent"]
    # Kernels are loaded once; the first fit on few rows takes that out of the count.
    fastem.GaussianMixture(max_iter=1, **settings).fit(train[:1000]).score(test[:100])
    kinds = {"scikit-learn": GaussianMixture, "fastem, batch": fastem.GaussianMixture}
    for side, kind in kinds.items():
        kind(max_iter=1, tol=0.0, warm_start=True, **settings).fit(train[:1000])
        model = kind(max_iter=1, tol=0.0, warm_start=True, **settings)
        loss = partial(lambda model: -model.score(test), model)
        spent[side] = until(partial(model.fit, train), loss, target, final.n_iter_ + 5)
    spent["fastem, incremental"] = passes_until(
        lambda n: fastem.GaussianMixture(solver="incremental", max_iter=n, tol=0.0, **settings),
        lambda model: model.fit(train), lambda model: -model.score(test), target, final.n_iter_ + 5,
    )  # fmt: skip
    for batch_size in (1000, 100, 1):
        make = partial(fastem.GaussianMixture, batch_size=batch_size, **settings)
        make().partial_fit(train[:1000])
        online, todo = make(), pieces(n_train)
        spent[f"fastem, online, batches of {batch_size:,}"] = until(
            partial(lambda online, todo: online.partial_fit(train[next(todo)]), online, todo),
            partial(lambda online: -online.score(test), online), target, _PASSES * _PIECES,
        )  # fmt: skip
    return row


def hmm(seed, n_states=8):
    """hmmlearn and dynamax, and ours, on digits read row by row."""
    rows = digits().reshape(-1, 8, 8)
    n_train = len(rows) * 3 // 4
    train, test = (part.reshape(-1, 8) for part in (rows[:n_train], rows[n_train:]))
    rng = np.random.default_rng(seed)
    shape = HMMShape(n_train, 8, n_states, 8)
    start = {
        "startprob": np.full(n_states, 1.0 / n_states),
        "transmat": np.full((n_states, n_states), 1.0 / n_states),
        "means": train[rng.choice(len(train), n_states, replace=False)],
        "covars": np.tile(train.var(axis=0) + 1e-2, (n_states, 1)),
    }
    # Pixels that are always blank have no variance: hmmlearn's own prior keeps it above zero.
    problem = Problem(shape, train, start, np.full(n_train, 8), {"covars_prior": 1e-2})
    lengths = {"train": np.full(n_train, 8), "test": np.full(len(rows) - n_train, 8)}

    def loss(model):
        return -model.score(test, lengths["test"]) / len(test)

    from hmmlearn.hmm import GaussianHMM

    final = hidden_markov.estimator(GaussianHMM, problem, n_iter=200)
    final.tol = 1e-3 * len(train)
    final.monitor_.tol = final.tol
    whole, _ = seconds(final.fit, train, lengths["train"])
    target = within(loss(final))
    n_iter = final.monitor_.iter
    row = {"target": target, "hmmlearn stops after": [n_iter, whole], "spent": {}}
    spent = row["spent"]
    kinds = {"hmmlearn": GaussianHMM, "fastem, batch": fastem.GaussianHMM}
    for side, kind in kinds.items():
        hidden_markov.estimator(kind, problem, n_iter=1).fit(train, lengths["train"])
        model = hidden_markov.estimator(kind, problem, n_iter=1)
        step = partial(model.fit, train, lengths["train"])
        spent[side] = until(step, partial(loss, model), target, n_iter + 5)
    spent["fastem, incremental"] = passes_until(
        lambda n: hidden_markov.estimator(
            fastem.GaussianHMM, problem, n_iter=n, solver="incremental"
        ),
        lambda model: model.fit(train, lengths["train"]), loss, target, n_iter + 5,
    )  # fmt: skip
    spent["dynamax"] = _dynamax(problem, test, target, n_iter + 5)
    for batch_size in (1000, 100, 1):
        make = partial(
            hidden_markov.estimator, fastem.GaussianHMM, problem, batch_size=batch_size
        )  # fmt: skip
        make().partial_fit(train[:800], lengths["train"][:100])
        online, todo = make(), pieces(n_train)

        def step(online=online, todo=todo):
            piece = next(todo)
            part = train[8 * piece.start : 8 * piece.stop]
            online.partial_fit(part, lengths["train"][piece])

        spent[f"fastem, online, batches of {batch_size:,}"] = until(
            step, partial(loss, online), target, _PASSES * _PIECES
        )
    return row


def _dynamax(problem, test, target, limit):
    """Seconds of dynamax's EM, compiled before; None if it is not installed or never arrives."""
    try:
        from fastem.bench.peers import dynamax as peer
    except ImportError:
        print("dynamax is not installed: not measured.")
        return None
    import jax

    model, state, properties, rows = peer._hmm(problem)
    # The prior of hmmlearn: 0.01 is added to each sum of squares, half of it to half of that.
    model.emission_component.emission_prior_scale = 0.5e-2
    compiled, total = peer._compiled_em(model, properties), peer._total(model)
    jax.block_until_ready(compiled(1, state, rows))
    held_out = jax.numpy.asarray(test.reshape(-1, 8, 8))

    def step():
        nonlocal state
        state = jax.block_until_ready(compiled(1, state, rows))

    return until(step, lambda: -float(total(state, held_out)) / len(test), target, limit)


def measurements(folder, n_rows):
    """All of them, by name."""
    X = digits()
    yield "digits, mixture, diag", partial(mixture, X, MixtureShape("diag", *X.shape, 10), 1e-2)
    yield "digits as sequences, HMM, diag", hmm
    for kind in ("full", "diag"):
        shape = MixtureShape(kind, n_rows, 54, 7, "Covtype")
        if shape.data_name(folder) != "Covtype":
            print("Covtype is not there: not measured (--data is a folder with covtype.npz).")
            return
        X = mixtures.load(shape, folder)
        # Some indicators are all but constant: without noise of their own scale, the loss of rows
        # held out is that of a few rare ones.
        yield f"Covtype {len(X):,} × 54, mixture, {kind}", partial(mixture, X, shape, 0.1)


def middle(times) -> float:
    """The median, infinite where more than half of the starts never arrived."""
    return float(np.median([np.inf if spent is None else spent for spent in times]))


def said(times, base):
    """Seconds and how many times faster than the peer, and how many starts arrived."""
    reached = sum(spent is not None for spent in times)
    share = "" if reached == len(times) else f", {reached} of {len(times)}"
    if not np.isfinite(middle(times)):
        return f"not reached{share}"
    return f"{middle(times):.3g} ({base / middle(times):.3g}×{share})"


def page(results) -> str:
    """The table, with what was done."""
    sides = list(dict.fromkeys(side for row in results.values() for side in row["spent"]))
    ours = [side for side in sides if side.startswith("fastem")]
    rows = []
    for name, row in results.items():
        peer = next(iter(row["spent"]))
        base = middle(row["spent"][peer])
        others = [
            f"{side} {said(spent, base)}"
            for side, spent in row["spent"].items()
            if side not in ours and side != peer
        ]
        cells = [said(row["spent"][side], base) if side in row["spent"] else "" for side in ours]
        rows.append([name, ", ".join([f"{peer} {base:.3g}", *others]), *cells])
    head = ["data", "peer, seconds", *[side.removeprefix("fastem, ") for side in ours]]
    n_starts = len(next(iter(results.values()))["target"])
    note = (
        f'Medians over {n_starts} starts; "4 of 5" says how many reached the loss, where not all '
        f"did. Learning rates are the default; online learning had {_PASSES} passes."
    )
    return f"{table(head, rows)}\n\n{note}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, help="folder with covtype.npz")
    parser.add_argument("--rows", type=int, default=500_000, help="rows of Covtype")
    parser.add_argument("--starts", type=int, default=_N_STARTS)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--write", action="store_true", help=f"put the table into {PAGE}")
    options = parser.parse_args()
    results = {}
    for name, measure in measurements(options.data, options.rows):
        rows = [measure(seed=seed) for seed in range(options.starts)]
        what = list(rows[0])[1]
        sides = rows[0]["spent"]
        row = results[name] = {
            "target": [r["target"] for r in rows],
            what: [r[what] for r in rows],
            "spent": {side: [r["spent"][side] for r in rows] for side in sides},
        }
        base = middle(next(iter(row["spent"].values())))
        print(f"\n{name}: targets {np.round(row['target'], 3)} nats; {what} (iterations, s):")
        print("  " + ", ".join(f"({n}, {whole:.3g})" for n, whole in row[what]))
        for side, times in row["spent"].items():
            print(f"  {side}: {said(times, base)}", flush=True)
    if options.json:
        options.json.write_text(json.dumps(results, indent=1) + "\n")
    if options.write:
        write(PAGE, "time to an answer", page(results))


if __name__ == "__main__":
    main()
