"""``fastem bench``."""

from __future__ import annotations

import sys
from pathlib import Path

__all__ = ["add_to", "run"]

EXAMPLES = """
fastem bench
fastem bench --peers --rows hmmlearn small --out results
"""


def add_to(commands) -> None:
    """Add ``bench`` to the commands of a parser."""
    from ..cli.parser import add_command

    parser = add_command(
        commands,
        "bench",
        run,
        help="measure this machine, alone or beside other libraries",
        description="Print how many observations a second each model takes on this machine, and "
        "how far that is from the rate of a matrix product. With --peers, the tables against other "
        "libraries, each in a process of its own: for each row first that all sides give the same "
        "log-likelihood from the same start, then the times, interleaved, the best of several; "
        "then small inputs; then a sweep over sizes from one row up.",
        examples=EXAMPLES,
    )
    parser.add_argument(
        "--peers", action="store_true",
        help='measure beside other libraries (about 15 minutes; pip install "fastem[bench]")',
    )  # fmt: skip
    parser.add_argument(
        "--rows", nargs="+", default=[], metavar="WORD",
        help="only rows whose description contains one of these, such as HMM, hmmlearn, small or "
        "sweep",
    )  # fmt: skip
    parser.add_argument(
        "--sizes", nargs="+", type=int, default=[], metavar="N",
        help="only these sizes of the sweep (default 1, 3, 10, 30, ... 100000)",
    )  # fmt: skip
    parser.add_argument("--repeats", type=int, default=3, help="times for each side (default 3)")
    parser.add_argument(
        "--out", type=Path, metavar="DIR",
        help="write bench.json, bench.md and sizes.png here; what is there already and is not "
        "measured again stays",
    )  # fmt: skip
    parser.add_argument(
        "--resume", action="store_true", help="measure only what is not in the bench.json of --out"
    )
    parser.add_argument(
        "--checkout", type=Path, metavar="DIR",
        help="put all of --out into the README.md, docs/performance.md and docs/figures of a "
        "checkout",
    )  # fmt: skip
    parser.add_argument(
        "--data", type=Path, metavar="DIR",
        help="folder with covtype.npz and fashion-mnist/; synthetic data take their place without",
    )  # fmt: skip


def run(options) -> int:
    """Run the command; returns the exit code."""
    if options.repeats < 1:
        return _refuse("--repeats must be 1 or more.")
    if any(size < 1 for size in options.sizes):
        return _refuse("--sizes must be 1 or more.")
    for name in ("data", "checkout"):
        path = getattr(options, name)
        if path is not None and not path.exists():
            return _refuse(f"--{name}: there is no {path}.")
    if not options.peers:
        if options.rows or options.sizes or options.checkout or options.data or options.resume:
            return _refuse("--rows, --sizes, --resume, --checkout and --data go with --peers.")
        return _throughput(options)
    if options.out is None and (options.resume or options.checkout):
        return _refuse("--resume and --checkout take what is in --out: give both.")
    from . import peer_tables

    if not peer_tables.chosen(options.rows, options.sizes):
        return _refuse(f"no row contains any of {options.rows}.")
    return peer_tables.run(options)


def _throughput(options):
    from . import throughput

    results = throughput.measure(options.repeats)
    print(throughput.text(results))
    if options.out:
        print(f"wrote {throughput.write(results, options.out)}")
    return 0


def _refuse(message):
    print(f"fastem bench: {message}", file=sys.stderr)
    return 2
