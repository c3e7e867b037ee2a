"""``fastem bench``."""

from __future__ import annotations

import sys
from pathlib import Path

__all__ = ["add_to", "run"]


def add_to(commands) -> None:
    """Add ``bench`` to the commands of a parser."""
    parser = commands.add_parser(
        "bench",
        help="measure this machine, alone or beside other libraries",
        description="Print how many observations a second each model takes on this machine, and "
        "how far that is from the rate of a matrix product. With --peers, the table against other "
        "libraries: for each row first that both sides give the same log-likelihood from the same "
        "start, then the times, interleaved, the best of several.",
    )
    parser.add_argument(
        "--peers", action="store_true",
        help='measure beside other libraries (about ten minutes; pip install "fastem[bench]")',
    )  # fmt: skip
    parser.add_argument(
        "--rows", nargs="+", default=[], metavar="WORD",
        help="only rows whose description contains one of these, such as HMM or hmmlearn",
    )  # fmt: skip
    parser.add_argument("--repeats", type=int, default=3, help="times for each side (default 3)")
    parser.add_argument(
        "--out", type=Path, metavar="DIR", help="write bench.json and bench.md here"
    )
    parser.add_argument("--readme", type=Path, help="put the table into this Markdown file")
    parser.add_argument(
        "--data", type=Path, metavar="DIR",
        help="folder with covtype.npz and fashion-mnist/; synthetic data take their place without",
    )  # fmt: skip
    parser.set_defaults(run=run)


def run(options) -> int:
    """Run the command; returns the exit code."""
    from .rows import chosen

    if options.repeats < 1:
        return _refuse("--repeats must be 1 or more.")
    for name in ("data", "readme"):
        path = getattr(options, name)
        if path is not None and not path.exists():
            return _refuse(f"--{name}: there is no {path}.")
    if not options.peers:
        if options.rows or options.readme or options.data:
            return _refuse("--rows, --readme and --data go with --peers.")
        return _throughput(options)
    if not chosen(options.rows):
        return _refuse(f"no row contains any of {options.rows}.")
    return _side_by_side(options, chosen(options.rows))


def _throughput(options):
    from . import throughput

    results = throughput.measure(options.repeats)
    print(throughput.text(results))
    if options.out:
        print(f"wrote {throughput.write(results, options.out)}")
    return 0


def _side_by_side(options, rows):
    from tqdm import tqdm

    from . import machine, peers, table
    from .compare import compare

    there = peers.installed()
    wanted = [name for name in there if any(name in row.peers for row in rows)]
    results = {
        "machine": machine.describe(),
        "versions": {name: there[name] for name in wanted if there[name]},
        "missing": [name for name in wanted if there[name] is None],
        "failures": [],
        "rows": [],
    }
    for name in results["missing"]:
        print(f'{name} is not installed: not measured (pip install "fastem[bench]").')
    rate = results["machine"]["matrix_product_rate"]
    with tqdm(rows, unit="row") as bar:
        for row in bar:
            bar.set_description(f"{row.work}, {row.shape}")
            found = compare(row, options.data, options.repeats, bar.set_postfix_str)
            results["rows"].append(found)
            for message in found["failures"]:
                results["failures"].append(f"{row.work}, {row.shape}: {message}")
                bar.write(results["failures"][-1])
            for peer, it in found["peers"].items():
                bar.write(f"agree {it['agrees']}: {it['our answer']:.12g} fastem, "
                          f"{it['answer']:.12g} {peer}")  # fmt: skip
                bar.write(table.line(found, peer, rate, []))
            if options.out:
                table.write(results, options.out)
    print(table.markdown(results))
    if options.out:
        for path in table.write(results, options.out):
            print(f"wrote {path}")
    if options.readme:
        table.write_into(options.readme, table.markdown(results))
        print(f"wrote {options.readme}")
    return 1 if results["failures"] else 0


def _refuse(message):
    print(f"fastem bench: {message}", file=sys.stderr)
    return 2
