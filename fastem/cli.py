"""The ``fastem`` command."""

from __future__ import annotations

import argparse
from pathlib import Path

from . import __version__


def main(arguments=None) -> int:
    """Run the command line; returns the exit code."""
    parser = argparse.ArgumentParser(prog="fastem", description="EM for hidden-variable models.")
    parser.add_argument("--version", action="version", version=f"fastem {__version__}")
    commands = parser.add_subparsers(dest="command", required=True)
    reproduce = commands.add_parser(
        "reproduce",
        help="run the paper's experiments on data that come with the package",
        description="Train Gaussian mixtures on several machines and combine them, entropically "
        "and by averaging; print the paper's claims with what was measured; write curves and "
        "figures.",
    )
    reproduce.add_argument("--starts", type=int, default=3, help="random starts (default 3)")
    reproduce.add_argument("--quick", action="store_true", help="one start, synthetic data only")
    reproduce.add_argument(
        "--out", type=Path, default=Path("fastem-reproduction"), help="folder for the results"
    )
    options = parser.parse_args(arguments)
    return _reproduce(options)


def _reproduce(options) -> int:
    from .experiments import mixture, report

    if options.starts < 1:
        print("fastem reproduce: --starts must be 1 or more.")
        return 2
    names = ["synthetic"] if options.quick else list(mixture.DATA_SETS)
    for name in names:
        curves = mixture.run(name, 1 if options.quick else options.starts)
        report.print_claims(curves)
        for path in report.write(curves, options.out):
            print(f"  wrote {path}")
    return 0
