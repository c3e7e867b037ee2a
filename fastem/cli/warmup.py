"""``fastem warmup``: compile kernels ahead of time."""

from __future__ import annotations

from .. import ESTIMATORS
from .errors import Usage
from .parser import add_command

__all__ = ["add_to"]

EXAMPLES = """
fastem warmup
fastem warmup GaussianMixture GaussianHMM --jobs 2
"""


def add_to(commands):
    """Add the command to a parser."""
    parser = add_command(
        commands, "warmup", _run,
        help="compile kernels ahead of time",
        description="Compile the kernels of estimators on all cores, so that no later process "
        "waits for them: for images of containers and continuous integration. They are kept in "
        "NUMBA_CACHE_DIR, or beside the code.",
        examples=EXAMPLES,
    )  # fmt: skip
    parser.add_argument(
        "models", nargs="*", metavar="model",
        help=f"{', '.join(ESTIMATORS)} (default: all)",
    )  # fmt: skip
    parser.add_argument(
        "--jobs", type=int, metavar="N", help="processes that compile (default: all cores)"
    )


def _run(options):
    from ..warming import warmup

    unknown = [name for name in options.models if name not in ESTIMATORS]
    if unknown:
        raise Usage(f"there is no model {unknown[0]!r}; choose from {', '.join(ESTIMATORS)}.")
    if options.jobs == 0:
        raise Usage("--jobs must not be 0.")
    done = warmup(*options.models, n_jobs=options.jobs)
    print(f"Compiled {done.n_compiled} kernels in {done.seconds:.1f} s, for:")
    print(f"  {', '.join(done.models)}")
    print(f"They are in {done.folder}")
