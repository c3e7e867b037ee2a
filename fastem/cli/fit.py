"""``fastem fit``: learn a model from a file or a stream."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from .errors import Usage, check_place
from .parser import add_command, add_data
from .settings import add_settings

__all__ = ["add_to"]

KINDS = ("gmm", "hmm", "kalman", "dirichlet")

EXAMPLES = """
fastem fit gmm measurements.csv -k 3 --seed 1 -o model.fastem
fastem fit gmm measurements.csv --columns height,weight -k 3 --covariance diag -o model.fastem
fastem fit hmm visits.csv --group patient -k 4 -o model.fastem
fastem fit kalman series.csv -d 2 --iterations 50 -o model.fastem
fastem fit dirichlet counts.csv -o model.fastem
fastem fit gmm counts.csv --family poisson -k 2 -o model.fastem
cat log.csv | fastem fit gmm - -k 3 --online --checkpoint-every 1m -o model.fastem
fastem fit gmm more.csv --online --from model.fastem -o model.fastem
"""


def add_to(commands):
    """Add the command to a parser."""
    parser = add_command(
        commands, "fit", _run,
        help="learn a model from a table or a stream",
        description="Learn a mixture (gmm), a hidden Markov model (hmm), a Kalman filter (kalman) "
        "or a compound Dirichlet distribution (dirichlet) by EM, or online from a stream, and "
        "write it to a file.",
        examples=EXAMPLES,
    )  # fmt: skip
    parser.add_argument("kind", choices=KINDS, help="which model")
    parser.add_argument(
        "-o", "--out", type=Path, required=True, metavar="MODEL", help="where the model is written"
    )
    add_data(parser, weight=True)
    parser.add_argument(
        "--drop-missing", action="store_true", help="leave out rows with missing values"
    )
    add_settings(parser)
    group = parser.add_argument_group("online learning")
    add = group.add_argument
    add("--online", action="store_true",
        help="learn from rows as they come, also without end; Ctrl-C or SIGTERM saves and "
        "ends")  # fmt: skip
    add("--from", dest="start", type=Path, metavar="MODEL", help="go on from this model")
    add("--resume", action="store_true", help="go on from the model in --out, if there is one")
    add("--checkpoint-every", type=_interval, default=(60.0, None), metavar="TIME",
        help="how often the model is written: 30s, 5m, 1h, 10000rows (default: 60s)")  # fmt: skip
    add("--chunk", type=_positive, default=1000, metavar="ROWS",
        help="rows that are learned from at once, at most (default: 1000). Without --group, "
        "so many are a sequence")  # fmt: skip


def _run(options):
    check_place(options.out, replaced=True)
    if options.online:
        from .online import run

        return run(options)
    if options.start or options.resume:
        raise Usage("--from and --resume go with --online.")
    return _batch(options)


def _batch(options):
    from .settings import class_of, made, settings_of

    name = class_of(options)
    model = made(name, settings_of(options, name))

    from . import data
    from .models import save

    given = data.read(options.data, options, model, drop_missing=options.drop_missing)
    model.fit(given.X, **given.given())
    save(model, given.names, options.out)
    print(f"{_learned(model, given)}; wrote {options.out}", file=sys.stderr)


def _learned(model, given):
    """What was learned, in one line."""
    n_rows, n_columns = given.X.shape
    data = f"{_count(n_rows, 'row')} of {_count(n_columns, 'column')}"
    if given.lengths is not None and len(given.lengths) > 1:
        data = f"{len(given.lengths)} sequences, {data}"
    end = f", {_count(model.n_iter_, 'iteration')}" if getattr(model, "n_iter_", 0) else ""
    if end and not model.converged_:
        end += " (the most allowed)"
    return f"{type(model).__name__} of {data}{end}"


def _count(number, what):
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _positive(text):
    try:
        value = int(text)
    except ValueError:
        value = 0
    if value < 1:
        raise argparse.ArgumentTypeError(f"must be a whole number, 1 or more; got {text!r}")
    return value


def _interval(text):
    """Seconds and rows between checkpoints, one of which is None."""
    units = {"rows": None, "row": None, "s": 1.0, "m": 60.0, "h": 3600.0, "": 1.0}
    number = text.rstrip("abcdefghijklmnopqrstuvwxyz ")
    unit = text[len(number) :].strip()
    try:
        value = float(number)
    except ValueError:
        value = -1.0
    if unit not in units or not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"must be like 30s, 5m, 1h or 10000rows; got {text!r}")
    return (None, value) if units[unit] is None else (value * units[unit], None)
