"""This machine alone: observations a second for each model, in under a minute."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from itertools import chain, groupby
from pathlib import Path
from typing import Any, NamedTuple

from . import documents, hidden_markov, kalman, machine, mixtures
from .compiling import compiled
from .documents import DocumentsShape
from .hidden_markov import HMMShape
from .kalman import KalmanShape
from .measured import Measured
from .mixtures import MixtureShape
from .side import Problem, Side
from .timing import interleave, plan

__all__ = ["TASKS", "Task", "measure", "text", "write"]

#: Without an estimate of what remains: steps take from a tenth of a second to half a minute.
_BAR = "{l_bar}{bar}| {n_fmt}/{total_fmt} [{elapsed}{postfix}]"


class Task(NamedTuple):
    """What is measured of a model."""

    model: str
    shape: Any
    #: By the name of the work, how it is done.
    works: dict[str, Callable[[Problem], Side]]


def _online(problem: Problem) -> Side:
    """One pass of online EM in mini-batches of a hundred rows."""
    model = mixtures.em(problem).run(1).set_params(batch_size=100)
    return Side(lambda _: model.partial_fit(problem.X), lambda _: 0.0, iterates=False)


def _scored(problem: Problem) -> Side:
    model = mixtures.em(problem).run(1)
    return Side(lambda _: model.score(problem.X), lambda score: score, iterates=False)


_MIXTURE = {"EM iteration": mixtures.em, "score": _scored}

TASKS = [
    Task("GaussianMixture, full", MixtureShape("full", 100_000, 16, 16), _MIXTURE),
    Task(
        "GaussianMixture, diag",
        MixtureShape("diag", 100_000, 16, 16),
        {**_MIXTURE, "online pass, batches of 100": _online},
    ),
    Task(
        "GaussianHMM, diag",
        HMMShape(2000, 50, 4, 4),
        {
            "EM iteration": hidden_markov.em,
            "score": hidden_markov.score,
            "Viterbi": hidden_markov.decode,
        },
    ),
    Task("KalmanFilter", KalmanShape(2000, 50, 5, 10), {"EM iteration": kalman.em}),
    Task("KalmanFilter", KalmanShape(1, 100_000, 5, 10), {"smooth": kalman.smooth}),
    Task("CompoundDirichlet", DocumentsShape(100_000, 10, 100), {"whole fit": documents.fit}),
]


def measure(repeats: int = 3, tasks=None) -> dict[str, Any]:
    """Measure every task; a terminal shows how far it is."""
    from tqdm import tqdm

    tasks = TASKS if tasks is None else tasks
    results = {"machine": machine.describe(), "rows": []}
    total = sum(len(task.works) for task in tasks)
    # Tasks of one model share kernels.
    models = [list(group) for _, group in groupby(tasks, lambda task: task.model.split(",")[0])]
    # None: elsewhere than on a terminal.
    settings = {"desc": "loading kernels", "disable": None, "bar_format": _BAR}
    with warnings.catch_warnings(), tqdm(total=total, **settings) as bar:
        warnings.simplefilter("ignore")
        for task, sides in chain.from_iterable(compiled(_called, models, bar)):
            bar.set_description(f"{task.model}, {task.shape}")
            for work, side in sides.items():
                bar.set_postfix_str(work)
                results["rows"].append(_one(task, work, side, repeats))
                bar.update()
    return results


def _called(tasks):
    """Tasks with the sides of their works, each of which was run once."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return [(task, _sides(task)) for task in tasks]


def _sides(task):
    problem = task.shape.problem()
    sides = {work: make(problem) for work, make in task.works.items()}
    for side in sides.values():
        side.run(_n_iter(side))
    return sides


def _n_iter(side):
    return 2 if side.iterates else None


def _one(task, work, side, repeats):
    timed = Measured(side).seconds
    warm_up = timed(_n_iter(side))
    how = plan(timed, warm_up, iterates=side.iterates, repeats=repeats, budget=2.0)
    best = interleave({"": timed}, {"": how})[""].best
    return {
        "model": task.model, "work": work, "shape": str(task.shape), "seconds": best,
        "observations per second": task.shape.n_observations * _steps(task.shape) / best,
        "useful_flops": task.shape.useful_flops if side.iterates else None,
    }  # fmt: skip


def _steps(shape):
    """Documents count as what they hold: their words."""
    return getattr(shape, "length", 1)


def text(results) -> str:
    """A table to print."""
    rate = results["machine"]["matrix_product_rate"]
    it = results["machine"]
    lines = [
        f"{it['cpu']}, {it['cores']} cores; matrix product {rate / 1e9:.0f} GF/s",
        f"{'model':24}{'shape':34}{'work':30}{'seconds':>10}{'million/s':>11}{'limit':>8}",
    ]
    for row in results["rows"]:
        flops = row["useful_flops"]
        share = f"{flops / row['seconds'] / rate:.0%}" if flops else "–"
        lines.append(
            f"{row['model']:24}{row['shape']:34}{row['work']:30}{row['seconds']:10.4g}"
            f"{row['observations per second'] / 1e6:11.3g}{share:>8}"
        )
    lines.append(
        "million/s: rows, steps or words. limit: share of the matrix-product rate, counting only "
        "the operations\nthat no method can spare; rows of few columns are held up by "
        "exponentials and memory instead."
    )
    return "\n".join(lines)


def write(results, folder) -> Path:
    """``throughput.json`` in a folder; its path."""
    path = Path(folder) / "throughput.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    return path
