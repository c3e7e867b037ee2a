"""The paper's experiments, as ``fastem reproduce`` runs them."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from pathlib import Path
from time import perf_counter

from .result import Result, Size

__all__ = ["NAMES", "PAPER", "Size", "reproduce"]

#: The paper's experiments in its order. Each is a module with ``run(size, data_folder, bars,
#: done)``, which yields its results, but for those whose names are in ``done``; ``names(size)`` are
#: all of them.
PAPER = ("hmm", "kalman", "dirichlet", "mixture")
#: These, and one on a question that the paper leaves open.
NAMES = (*PAPER, "open-question")


def reproduce(
    names: Iterable[str], size: Size, folder: Path, data_folder: Path | None = None, *,
    resume: bool = False,
) -> list[Result]:  # fmt: skip
    """Run experiments, print their claims, and write curves, figures and the report.

    Parameters
    ----------
    names : iterable of str
        Which of :data:`NAMES`.
    size : Size
        How much of each.
    folder : path
        Where the results go.
    data_folder : path, optional
        Where the real data sets are.
    resume : bool, default=False
        Keep results of the same size and number of starts that are already there.

    Returns
    -------
    list of Result
    """
    from . import report

    results = []
    for name in names:
        experiment = import_module(f".{name.replace('-', '_')}", __name__)
        kept = _kept(name, experiment.names(size), size, folder) if resume else []
        for result in kept:
            print(f"{result.heading}: kept from before")
        results += kept
        begun = perf_counter()
        done = {result.name for result in kept}
        for result in experiment.run(size, data_folder, bars, done):
            result.seconds = perf_counter() - begun
            begun = perf_counter()
            written = ", ".join(path.name for path in report.write(result, folder))
            print(f"{result.heading}: {result.seconds:.0f} s, wrote {written}", flush=True)
            results.append(result)
    page = report.write_page(results, folder)
    print(f"\n{report.summary(results)}\n\nFigures and numbers: {page}")
    return results


def bars(total: int, name: str):
    """A progress bar, on a terminal."""
    from tqdm import tqdm

    return tqdm(total=total, desc=name, leave=False, disable=None)


def _kept(name, wanted, size, folder):
    """Results that are there already, in the order in which they are wanted."""
    kept = []
    for path in (folder / f"{result}.json" for result in wanted):
        if path.exists():
            result = Result.from_json(path.read_text(encoding="utf-8"))
            if (result.experiment, result.size, result.n_starts) == (name, *size):
                kept.append(result)
    return kept
