"""``fastem reproduce``: run the paper's experiments."""

from __future__ import annotations

from pathlib import Path

from .errors import Usage
from .parser import add_command

__all__ = ["NAMES", "add_to"]

#: The names in fastem.experiments, which imports NumPy.
NAMES = ("hmm", "kalman", "dirichlet", "mixture", "open-question")

EXAMPLES = """
fastem reproduce
fastem reproduce kalman --quick --out results
"""


def add_to(commands):
    """Add the command to a parser."""
    parser = add_command(
        commands, "reproduce", _run,
        help="run the paper's experiments",
        description="Run the paper's experiments: absorbing hidden Markov models, Kalman filters, "
        "the compound Dirichlet distribution, and Gaussian mixtures trained on several machines. "
        "Print the paper's claims with what was measured and whether it held; write curves, "
        "figures and report.html. Without --full this takes about two minutes, on synthetic data "
        "and on scikit-learn's digits.",
        examples=EXAMPLES,
    )  # fmt: skip
    parser.add_argument(
        "experiments",
        nargs="*",
        metavar="experiment",
        help=f"{', '.join(NAMES)} (default: all but the last)",
    )
    size = parser.add_mutually_exclusive_group()
    size.add_argument(
        "--full", action="store_true",
        help="the paper's sizes and data sets, 20 starts (under an hour on two cores)",
    )  # fmt: skip
    size.add_argument("--quick", action="store_true", help="one start, small: does it run?")
    parser.add_argument("--starts", type=int, help="random starts (default 3; 20 with --full)")
    parser.add_argument(
        "--data", type=Path, metavar="DIR",
        help="folder with covtype.npz, cifar-10.npy and fashion-mnist/ for --full; they are "
        "downloaded otherwise",
    )  # fmt: skip
    parser.add_argument(
        "--resume", action="store_true", help="keep results that are already in the folder"
    )
    parser.add_argument(
        "--out", type=Path, default=Path("fastem-reproduction"), help="folder for the results"
    )


def _run(options):
    from ..experiments import PAPER, Size, reproduce
    from ..experiments.datasets import DataMissing

    unknown = [name for name in options.experiments if name not in NAMES]
    if unknown:
        raise Usage(f"there is no experiment {unknown[0]!r}; choose from {', '.join(NAMES)}.")
    kind = "full" if options.full else "quick" if options.quick else "default"
    starts = options.starts
    if starts is None:
        starts = {"full": 20, "quick": 1, "default": 3}[kind]
    if starts < 1:
        raise Usage("--starts must be 1 or more.")
    if options.data is not None and not options.data.is_dir():
        raise Usage(f"--data: there is no folder {options.data}.")
    names = options.experiments or PAPER
    try:
        reproduce(names, Size(kind, starts), options.out, options.data, resume=options.resume)
    except DataMissing as error:
        raise Usage(str(error)) from error
