"""The ``fastem`` command: its parser, and where each command is."""

from __future__ import annotations

from .errors import INTERRUPTED, say


def main(arguments=None) -> int:
    """Run the command line; returns the exit code."""
    # Ctrl-C may come while modules are imported, too.
    try:
        return _main(arguments)
    except KeyboardInterrupt:
        say("", "interrupted")
        return INTERRUPTED


def _main(arguments):
    from .. import __version__
    from ..bench import command as bench
    from . import errors, fit, forecast, merge, plot, reproduce, show, use, warmup
    from .parser import Parser

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
    # They import what computes when a command runs, because NumPy, numba and scikit-learn take over
    # a second.
    for module in (fit, use, forecast, merge, show, plot, warmup, reproduce, bench):
        module.add_to(commands)
    options, unknown = parser.parse_known_args(arguments)
    if unknown:
        # In the words of the command, whose help tells what it knows.
        commands.choices[options.command].error(f"unrecognized arguments: {' '.join(unknown)}")
    return errors.run(options)
