"""The ``fastem`` command: its parser, and where each command is."""

from __future__ import annotations

from .. import __version__
from ..bench import command as bench
from . import errors, fit, forecast, merge, plot, reproduce, show, use, warmup
from .parser import Parser

#: The modules of the commands. They import what computes when a command runs, because NumPy, numba
#: and scikit-learn take over a second.
COMMANDS = (fit, use, forecast, merge, show, plot, warmup, reproduce, bench)


def main(arguments=None) -> int:
    """Run the command line; returns the exit code."""
    parser = Parser(
        prog="fastem",
        description="Fit mixtures, hidden Markov models, Kalman filters and Dirichlet "
        "distributions to files and streams, and use, merge and show the models.",
        epilog="fastem COMMAND --help tells more, with examples.",
    )
    parser.add_argument("--version", action="version", version=f"fastem {__version__}")
    parser.set_defaults(traceback=False)
    commands = parser.add_subparsers(
        dest="command", required=True, metavar="COMMAND", title="commands"
    )
    for module in COMMANDS:
        module.add_to(commands)
    return errors.run(parser.parse_args(arguments))
