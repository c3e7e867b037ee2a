"""The ``fastem`` command."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from .. import ESTIMATORS, __version__
from ..bench import command as bench


def main(arguments=None) -> int:
    """Run the command line; returns the exit code."""
    parser = argparse.ArgumentParser(prog="fastem", description="EM for hidden-variable models.")
    parser.add_argument("--version", action="version", version=f"fastem {__version__}")
    commands = parser.add_subparsers(dest="command", required=True)
    _add_reproduce(commands)
    bench.add_to(commands)
    _add_warmup(commands)
    options = parser.parse_args(arguments)
    return options.run(options)


def _add_warmup(commands):
    parser = commands.add_parser(
        "warmup",
        help="compile kernels ahead of time",
        description="Compile the kernels of estimators on all cores, so that no later process "
        "waits for them: for images of containers and continuous integration. They are kept in "
        "NUMBA_CACHE_DIR, or beside the code.",
    )
    parser.add_argument(
        "models", nargs="*", metavar="model",
        help=f"{', '.join(ESTIMATORS)} (default: all)",
    )  # fmt: skip
    parser.add_argument(
        "--jobs", type=int, metavar="N", help="processes that compile (default: all cores)"
    )
    parser.set_defaults(run=_warmup)


def _warmup(options) -> int:
    from ..warming import warmup

    unknown = [name for name in options.models if name not in ESTIMATORS]
    if unknown:
        return _refuse(
            f"there is no model {unknown[0]!r}; choose from {', '.join(ESTIMATORS)}.", "warmup"
        )
    if options.jobs == 0:
        return _refuse("--jobs must not be 0.", "warmup")
    try:
        done = warmup(*options.models, n_jobs=options.jobs)
    except RuntimeError as error:
        print(f"fastem warmup: {error}", file=sys.stderr)
        return 1
    print(f"Compiled {done.n_compiled} kernels in {done.seconds:.1f} s, for:")
    print(f"  {', '.join(done.models)}")
    print(f"They are in {done.folder}")
    return 0


def _add_reproduce(commands):
    from ..experiments import NAMES

    parser = commands.add_parser(
        "reproduce",
        help="run the paper's experiments",
        description="Run the paper's experiments: absorbing hidden Markov models, Kalman filters, "
        "the compound Dirichlet distribution, and Gaussian mixtures trained on several machines. "
        "Print the paper's claims with what was measured and whether it held; write curves, "
        "figures and report.html. Without --full this takes about two minutes, on synthetic data "
        "and on scikit-learn's digits.",
    )
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
    parser.set_defaults(run=_reproduce)


def _reproduce(options) -> int:
    from ..experiments import NAMES, PAPER, Size, reproduce
    from ..experiments.datasets import DataMissing

    unknown = [name for name in options.experiments if name not in NAMES]
    if unknown:
        return _refuse(f"there is no experiment {unknown[0]!r}; choose from {', '.join(NAMES)}.")
    kind = "full" if options.full else "quick" if options.quick else "default"
    starts = options.starts
    if starts is None:
        starts = {"full": 20, "quick": 1, "default": 3}[kind]
    if starts < 1:
        return _refuse("--starts must be 1 or more.")
    if options.data is not None and not options.data.is_dir():
        return _refuse(f"--data: there is no folder {options.data}.")
    names = options.experiments or PAPER
    try:
        reproduce(names, Size(kind, starts), options.out, options.data, resume=options.resume)
    except DataMissing as error:
        return _refuse(str(error))
    return 0


def _refuse(message, command="reproduce") -> int:
    print(f"fastem {command}: {message}", file=sys.stderr)
    return 2
