"""Time to an answer: ``python -m benchmarks.time_to_answer``.

On the same data, from the same start: the seconds until the held-out negative log-likelihood is
within 0.1 % of where the peer's batch EM stops; for the peer itself, and for fastem in batch,
incrementally and online (in mini-batches of several sizes). No setting is tuned: learning rates,
blocks and tolerances are the defaults. A quarter of the observations is held out. Scoring them is
not counted; neither is compilation. ``--write`` puts the table into docs/performance.md; ``--rows``
takes fewer of Covtype.

Batch EM is one fit of as many iterations as it takes, on both sides, with the check of the data.
Incremental EM is looked at after each block of each pass of a fit, by a callback, whose seconds are
not counted.
Online learning is ``partial_fit`` with a twentieth of the data at a time; once with the default
batches, and with others beside.

EM ends at one of many optima, which differ by more than 0.1 %, and which one is chance. Everything
is measured from several starts. Where a run ends at a worse optimum than the peer's (the loss of
online learning or of incremental EM has changed by less than 0.1 % over the last 20,000
observations or over a whole pass; incremental EM has converged, or online learning has had its
passes) the next start is taken, as its user would, and the seconds of all runs count. The seconds
are medians over the starts; the mean number of runs is said beside, where it is not one.

There are two kinds of starts: given ones (means are random rows), the same for all sides; and the
default of each side, which is part of what is timed, as it is for who calls ``Estimator().fit``.

Mixtures: scikit-learn on digits, and on Covtype. Hidden Markov models: hmmlearn and dynamax on
digits, each a sequence of its eight rows of eight pixels.
"""

from __future__ import annotations

import argparse
import copy
import json
import math
import warnings
from functools import partial
from itertools import pairwise
from pathlib import Path
from time import perf_counter

import numpy as np
from sklearn.datasets import load_digits

import fastem
from fastem.bench import hidden_markov, mixtures
from fastem.bench.hidden_markov import HMMShape
from fastem.bench.mixtures import MixtureShape
from fastem.bench.side import Problem
from fastem.bench.timing import seconds
from fastem.data.rows import Table
from fastem.data.sequences import Sequences

from .generated import table, write

warnings.filterwarnings("ignore")

PAGE = "docs/performance.md"
_N_STARTS, _PIECES, _BATCHES = 5, 20, (None, 100, 1)
_MOST_ITERATIONS = 200
#: Passes of online learning: over few data and over many.
_FEW, _PASSES_OF_FEW, _PASSES_OF_MANY = 10_000, 10, 2
#: A run has ended when the loss has not changed over so many observations, or a pass.
_PATIENCE = 20_000


def digits():
    """Digits in random order, pixels between zero and one."""
    X = load_digits().data / 16.0
    return X[np.random.default_rng(0).permutation(len(X))]


def within(loss):
    """What counts as the same loss."""
    return loss + 1e-3 * abs(loss)


def until(course, target):
    """The seconds of a run up to ``target``, and whether it got there.

    ``course`` has the seconds so far and the loss, again and again.
    """
    for spent, loss in course:
        if loss <= target:
            return spent, True
    return course[-1][0], False


def with_restarts(courses, first, target):
    """Seconds and number of runs until one arrives, from start ``first`` on; None if none does."""
    total = 0.0
    for count in range(len(courses)):
        spent, arrived = until(courses[(first + count) % len(courses)], target)
        total += spent
        if arrived:
            return total, count + 1
    return None


class MixtureTask:
    """scikit-learn's mixture and ours."""

    peer, iterations, tol = "scikit-learn", "max_iter", 1e-3

    def __init__(self, X, shape, reg_covar, *, given):
        from sklearn.mixture import GaussianMixture

        self.n_train = len(X) * 3 // 4
        self.train, self.test = X[: self.n_train], X[self.n_train :]
        self.shape, self.given, self.peer_kind = shape, given, GaussianMixture
        self.kind = fastem.GaussianMixture
        self.settings = {
            "n_components": shape.n_components,
            "covariance_type": shape.covariance_type,
            "reg_covar": reg_covar,
        }

    def make(self, kind, seed, **settings):
        """An estimator with the start of this number."""
        start = {"random_state": seed}
        if self.given:
            start = mixtures.start(self.train, self.shape, seed)
        return kind(**self.settings, **start, **settings)

    def fit(self, model):
        return model.fit(self.train)

    def learn(self, model, piece):
        return model.partial_fit(self.train[piece])

    def loss(self, model):
        return -model.score(self.test)

    def loss_of(self, model):
        """The same of a model without its estimator."""
        return -model.expect(Table(self.test)).log_likelihood

    def n_iter(self, model):
        return model.n_iter_

    def others(self, seed, target):
        """Other peers, from a given start: their seconds by name."""
        return {}


class HMMTask:
    """hmmlearn's hidden Markov model and ours, on digits read row by row."""

    peer, iterations = "hmmlearn", "n_iter"

    def __init__(self, n_states=8, *, given):
        from hmmlearn.hmm import GaussianHMM

        rows = digits().reshape(-1, 8, 8)
        self.n_train = len(rows) * 3 // 4
        self.train, self.test = (
            part.reshape(-1, 8) for part in (rows[: self.n_train], rows[self.n_train :])
        )
        self.lengths = np.full(self.n_train, 8)
        self.test_lengths = np.full(len(rows) - self.n_train, 8)
        self.n_states, self.given = n_states, given
        self.kind, self.peer_kind = fastem.GaussianHMM, GaussianHMM
        # Per row, as scikit-learn has it.
        self.tol = 1e-3 * len(self.train)

    def problem(self, seed):
        rng, K = np.random.default_rng(seed), self.n_states
        start = {
            "startprob": np.full(K, 1.0 / K),
            "transmat": np.full((K, K), 1.0 / K),
            "means": self.train[rng.choice(len(self.train), K, replace=False)],
            "covars": np.tile(self.train.var(axis=0) + 1e-2, (K, 1)),
        }
        # Pixels that are always blank have no variance: hmmlearn's own prior keeps it above zero.
        shape = HMMShape(self.n_train, 8, K, 8)
        return Problem(shape, self.train, start, self.lengths, {"covars_prior": 1e-2})

    def make(self, kind, seed, **settings):
        """An estimator with the start of this number."""
        tol = settings.pop("tol", self.tol)
        if not self.given:
            return kind(self.n_states, tol=tol, random_state=seed, **settings)
        model = hidden_markov.estimator(kind, self.problem(seed), **settings)
        model.tol = tol
        if hasattr(model, "monitor_"):
            model.monitor_.tol = tol
        return model

    def fit(self, model):
        if model.implementation != "scaling":
            return model.fit(self.train, self.lengths)
        begin = copy.deepcopy(model)
        try:
            return model.fit(self.train, self.lengths)
        except ValueError as error:
            if "underflow" not in str(error):
                raise
            # What hmmlearn then advises: it takes longer.
            return begin.set_params(implementation="log").fit(self.train, self.lengths)

    def learn(self, model, piece):
        part = self.train[8 * piece.start : 8 * piece.stop]
        return model.partial_fit(part, self.lengths[piece])

    def loss(self, model):
        return -model.score(self.test, self.test_lengths) / len(self.test)

    def loss_of(self, model):
        """The same of a model without its estimator."""
        return -model.log_likelihoods(Sequences(self.test, self.test_lengths)).sum() / len(
            self.test
        )

    def n_iter(self, model):
        return model.monitor_.iter

    def others(self, seed, target):
        """Other peers, from a given start: their seconds by name."""
        if not self.given:
            return {}
        return {"dynamax": _dynamax(self.problem(seed), self.test, target, _MOST_ITERATIONS)}


def course_of_fit(task, model, *, to_the_end=True):
    """Seconds and losses of a fit, at each report; scoring is not counted.

    Batch EM reports once in each iteration, incremental EM for each block. It goes on until it has
    converged, or only until the loss stands still.
    """
    course, begun, scoring = [], perf_counter(), 0.0
    # Until a block is reported nobody knows how large they are.
    patience = math.inf

    def tell(report):
        nonlocal scoring, patience
        now = perf_counter()
        course.append((now - begun - scoring, task.loss_of(report.model)))
        if report.within:
            patience = math.ceil(min(_PATIENCE, task.n_train) / report.weight)
        stops = not to_the_end and stands_still(course, patience)
        scoring += perf_counter() - now
        return stops

    task.fit(model.set_params(callback=tell))
    return course


def course_online(task, model):
    """The same of online learning, after each piece of the training data, several times over."""
    edges = np.linspace(0, task.n_train, _PIECES + 1).astype(int)
    patience = min(-(-_PATIENCE * _PIECES // task.n_train), _PIECES)
    course, spent = [], 0.0
    for _ in range(_PASSES_OF_FEW if task.n_train < _FEW else _PASSES_OF_MANY):
        for first, last in pairwise(edges):
            spent += seconds(task.learn, model, slice(first, last))[0]
            # The first few observations may be kept for later.
            course.append((spent, task.loss(model) if hasattr(model, "means_") else np.inf))
            if stands_still(course, patience):
                return course
    return course


def stands_still(course, patience):
    """Whether the loss is what it was so many reports before."""
    if len(course) <= patience:
        return False
    before, loss = course[-patience - 1][1], course[-1][1]
    return np.isfinite(before) and loss <= within(before) and before <= within(loss)


def measured(task, n_starts):
    """Everything about a task: for each side the seconds and the runs of each start."""
    warm_up(task)
    row = {"target": [], f"{task.peer} stops after": [], "spent": {}}
    spent = row["spent"]
    never = 0.0 if task.iterations == "max_iter" else -np.inf
    for seed in range(n_starts):
        peer = partial(task.make, task.peer_kind, seed)
        whole, final = seconds(task.fit, peer(**{task.iterations: _MOST_ITERATIONS}))
        target, n_final = within(task.loss(final)), task.n_iter(final)
        row["target"].append(target)
        row[f"{task.peer} stops after"].append([n_final, whole])
        # Both take the same steps: ours say after how many the loss is low enough.
        ours = partial(task.make, task.kind, seed, tol=never)
        course = course_of_fit(task, ours(**{task.iterations: n_final + 1}))
        losses = [loss for _, loss in course[1:]]
        n = next((k for k, loss in enumerate(losses, 1) if loss <= target), n_final)
        theirs, model = seconds(task.fit, peer(tol=never, **{task.iterations: n}))
        if task.loss(model) > target + 1e-6 * abs(target):
            theirs = whole
        spent.setdefault(task.peer, []).append((theirs, 1))
        for name, found in task.others(seed, target).items():
            spent.setdefault(name, []).append(None if found is None else (found, 1))
        batch, model = seconds(task.fit, ours(**{task.iterations: n}))
        arrived = task.loss(model) <= target + 1e-6 * abs(target)
        spent.setdefault("fastem, batch", []).append((batch, 1) if arrived else None)

    sides = {"fastem, incremental": lambda seed: course_incremental(task, seed)}
    for size in _BATCHES:
        name = "fastem, online" if size is None else f"fastem, online, batches of {size}"
        sides[name] = partial(
            lambda size, seed: course_online(task, task.make(task.kind, seed, batch_size=size)),
            size,
        )
    for side, course in sides.items():
        courses = [course(seed) for seed in range(n_starts)]
        spent[side] = [with_restarts(courses, *start) for start in enumerate(row["target"])]
    return row


def course_incremental(task, seed):
    """Seconds and losses of incremental EM with the tolerance that the peer has."""
    settings = {"solver": "incremental", "tol": task.tol, task.iterations: _MOST_ITERATIONS}
    return course_of_fit(task, task.make(task.kind, seed, **settings), to_the_end=False)


def warm_up(task):
    """Compile what will be called."""
    for settings in ({}, {"solver": "incremental"}):
        model = task.make(task.kind, 0, **{task.iterations: 2}, **settings)
        task.loss(task.fit(model))
    for size in _BATCHES:
        model = task.make(task.kind, 0, batch_size=size)
        for piece in (slice(0, task.n_train // 4), slice(0, task.n_train // 8)):
            task.learn(model, piece)
        task.loss(model)


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

    spent = 0.0
    for _ in range(limit):
        spent += seconds(step)[0]
        if -float(total(state, held_out)) / len(test) <= target:
            return spent
    return None


def tasks(folder, n_rows):
    """All of them, by name."""
    kinds = ((True, "given start"), (False, "default start"))
    X = digits()
    for given, start in kinds:
        shape = MixtureShape("diag", *X.shape, 10)
        yield f"digits, mixture, diag, {start}", MixtureTask(X, shape, 1e-2, given=given)
    for given, start in kinds:
        yield f"digits as sequences, HMM, diag, {start}", HMMTask(given=given)
    for kind in ("full", "diag"):
        shape = MixtureShape(kind, n_rows, 54, 7, "Covtype")
        if shape.data_name(folder) != "Covtype":
            print("Covtype is not there: not measured (--data is a folder with covtype.npz).")
            return
        X = mixtures.load(shape, folder)
        for given, start in kinds:
            # Some indicators are all but constant: without noise of their own scale, the loss of
            # rows held out is that of a few rare ones.
            task = MixtureTask(X, shape, 0.1, given=given)
            yield f"Covtype {len(X):,} × 54, mixture, {kind}, {start}", task


def middle(found) -> float:
    """The median of the seconds, infinite where more than half of the starts never arrived."""
    return float(np.median([np.inf if one is None else one[0] for one in found]))


def said(found, base):
    """Seconds and how many times faster than the peer, and how many runs it took."""
    if not np.isfinite(middle(found)):
        return f"not reached from {sum(one is None for one in found)} of {len(found)} starts"
    missed = sum(one is None for one in found)
    runs = np.mean([one[1] for one in found if one is not None])
    share = f", {runs:.2g} runs" if runs > 1 else ""
    share += f", {len(found) - missed} of {len(found)}" if missed else ""
    return f"{middle(found):.3g} ({base / middle(found):.3g}×{share})"


def page(results) -> str:
    """The table, with what was done."""
    sides = list(dict.fromkeys(side for row in results.values() for side in row["spent"]))
    ours = [side for side in sides if side.startswith("fastem")]
    rows = []
    for name, row in results.items():
        peer = next(iter(row["spent"]))
        base = middle(row["spent"][peer])
        others = [
            f"{side} {said(found, base)}"
            for side, found in row["spent"].items()
            if side not in ours and side != peer
        ]
        cells = [said(row["spent"][side], base) for side in ours]
        rows.append([name, ", ".join([f"{peer} {base:.3g}", *others]), *cells])
    head = ["data", "peer, seconds", *[side.removeprefix("fastem, ") for side in ours]]
    n_starts = len(next(iter(results.values()))["target"])
    note = (
        f"Medians over {n_starts} starts. Where a run ended at an optimum that is worse than the "
        'peer\'s, the next start was taken and its seconds were added: "1.4 runs" is the mean '
        f'number of runs, "{n_starts - 1} of {n_starts}" how many starts arrived at all, where not '
        "all did. Settings are the defaults, apart from the batches of the last two columns; a "
        f"run of online learning had at most {_PASSES_OF_FEW} passes over digits and "
        f"{_PASSES_OF_MANY} over Covtype."
    )
    return f"{table(head, rows)}\n\n{note}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, help="folder with covtype.npz")
    parser.add_argument("--rows", type=int, default=500_000, help="rows of Covtype")
    parser.add_argument("--starts", type=int, default=_N_STARTS)
    parser.add_argument("--only", default="", help="tasks whose name contains this")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--write", action="store_true", help=f"put the table into {PAGE}")
    options = parser.parse_args()
    results = {}
    for name, task in tasks(options.data, options.rows):
        if options.only not in name:
            continue
        row = results[name] = measured(task, options.starts)
        what = list(row)[1]
        base = middle(next(iter(row["spent"].values())))
        print(f"\n{name}: targets {np.round(row['target'], 3)} nats; {what} (iterations, s):")
        print("  " + ", ".join(f"({n}, {whole:.3g})" for n, whole in row[what]))
        for side, found in row["spent"].items():
            print(f"  {side}: {said(found, base)}", flush=True)
    if options.json:
        options.json.write_text(json.dumps(results, indent=1) + "\n")
    if options.write:
        write(PAGE, "time to an answer", page(results))


if __name__ == "__main__":
    main()
