"""The parser of the command line, and options that several commands have."""

from __future__ import annotations

import argparse
from pathlib import Path

__all__ = ["Parser", "add_align", "add_command", "add_data", "add_out"]


class Parser(argparse.ArgumentParser):
    """A parser whose errors are one line."""

    def error(self, message):
        self.exit(2, f"{self.prog}: {' '.join(message.split())} (see {self.prog} --help)\n")


def add_command(commands, name, run, *, help, description, examples):
    """A parser for one command; its help ends with examples."""
    lines = "\n".join(f"  {line}" for line in examples.strip().splitlines())
    parser = commands.add_parser(
        name, help=help, description=description, epilog=f"examples:\n{lines}",
        formatter_class=_Formatter, allow_abbrev=False,
    )  # fmt: skip
    parser.add_argument(
        "--traceback", action="store_true",
        help="show where an error comes from (also if FASTEM_DEBUG is set)",
    )  # fmt: skip
    parser.set_defaults(run=run)
    return parser


class _Formatter(argparse.HelpFormatter):
    """Wraps descriptions, and leaves examples as they are."""

    def _fill_text(self, text, width, indent):
        if text.startswith("examples:"):
            return text
        return super()._fill_text(text, width, indent)


def add_data(parser, *, optional=False, weight=False, sequences=True):
    """The data of a command, and what to read of them."""
    group = parser.add_argument_group("data")
    group.add_argument(
        "data", metavar="DATA", nargs="?" if optional else None,
        help="a table: .csv, .tsv (also .gz), .parquet, .npy, .npz, or - for CSV from standard "
        "input",
    )  # fmt: skip
    group.add_argument(
        "--columns", metavar="A,B,...",
        help="columns by name or by number from 0, ranges such as 2-5 too (default: those of the "
        "model, or all that are not named otherwise)",
    )  # fmt: skip
    group.add_argument("--ignore", metavar="A,...", help="all columns but these")
    if sequences:
        group.add_argument(
            "--group", metavar="COLUMN", help="rows with one value of this column are a sequence"
        )
        group.add_argument(
            "--lengths", metavar="FILE",
            help="a table of one column: the number of rows of each sequence",
        )  # fmt: skip
    if weight:
        group.add_argument("--weight", metavar="COLUMN", help="the weight of each row or sequence")
    group.add_argument("--key", metavar="NAME", help="which array of a .npz file")
    group.add_argument(
        "--format", choices=["csv", "tsv", "parquet", "npy", "npz"],
        help="the format, if the name does not end with it",
    )  # fmt: skip
    group.add_argument(
        "--separator", metavar="CHARACTER",
        help="between values of text (default: comma, tab or semicolon, as in the first line)",
    )  # fmt: skip
    group.add_argument(
        "--header", choices=["auto", "yes", "no"], default="auto",
        help="whether text begins with the names of its columns (default: if not all are numbers)",
    )  # fmt: skip
    parser.set_defaults(**({} if sequences else {"group": None, "lengths": None}))
    if not weight:
        parser.set_defaults(weight=None)


def add_out(parser, help="where to write: .csv, .tsv, .parquet, .npy or .npz (default: CSV, here)"):
    """Where the output goes."""
    parser.add_argument("-o", "--out", type=Path, metavar="FILE", help=help)


def add_align(parser):
    """Whether components are matched first."""
    parser.add_argument(
        "--align", action=argparse.BooleanOptionalAction, default=True,
        help="match components or states of the models first, whose order is arbitrary (default)",
    )  # fmt: skip
