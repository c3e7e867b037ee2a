"""``fastem combine`` and ``divergence``: models that were trained apart."""

from __future__ import annotations

from pathlib import Path

from .errors import Failure, Usage, check_place
from .parser import add_align, add_command, add_out

__all__ = ["add_to"]

COMBINE = """
fastem combine a.fastem b.fastem c.fastem -o all.fastem
fastem combine a.fastem b.fastem --weights 1000,250 -o all.fastem
fastem combine a.fastem b.fastem --weights observations -o all.fastem
fastem combine a.fastem b.fastem --direction reverse -o all.fastem
fastem combine a.fastem b.fastem --average -o mean.fastem
"""
DIVERGENCE = """
fastem divergence a.fastem b.fastem
fastem divergence a.fastem b.fastem c.fastem -o divergences.csv
"""


def add_to(commands):
    """Add the commands to a parser."""
    parser = add_command(
        commands, "combine", _combine,
        help="merge models that were trained apart",
        description="Write the model of least total divergence to several models of one kind and "
        "size.",
        examples=COMBINE,
    )  # fmt: skip
    parser.add_argument("models", nargs="+", type=Path, metavar="MODEL", help="two files or more")
    parser.add_argument(
        "-o", "--out", type=Path, required=True, metavar="MODEL", help="where the result is written"
    )
    add_align(parser)
    parser.add_argument(
        "--weights", metavar="W1,W2,...",
        help="the weight of each model, or 'observations' for the number that each has learned "
        "from (default: equal)",
    )  # fmt: skip
    how = parser.add_mutually_exclusive_group()
    how.add_argument(
        "--average", action="store_true", help="the plain mean of all parameters instead"
    )
    how.add_argument(
        "--direction", choices=["forward", "reverse"], default="forward",
        help="which divergence is the least in total: of the models to the result (default), which "
        "covers all that is likely under some of them; or of the result to the models, which keeps "
        "to what is likely under all",
    )  # fmt: skip

    parser = add_command(
        commands, "divergence", _divergence,
        help="how far models are from each other",
        description="Print the relative entropy of one model to another; of more than two models a "
        "matrix, each row that of one model to all.",
        examples=DIVERGENCE,
    )  # fmt: skip
    parser.add_argument("models", nargs="+", type=Path, metavar="MODEL", help="two files or more")
    add_align(parser)
    add_out(parser)


def _combine(options):
    if len(options.models) < 2:
        raise Usage("two models or more are needed.")
    weights = options.weights
    if weights not in (None, "observations"):
        weights = _as_weights(weights, len(options.models))
    check_place(options.out, replaced=True)
    models = _loaded(options.models)

    import fastem

    if weights == "observations":
        weights = [model.n_observations_ for model in models]
        if not sum(weights) > 0:
            raise Failure("--weights observations: none of the models has learned from any.")
    if options.average:
        merged = fastem.average(models, weights, align=options.align)
    else:
        merged = fastem.combine(models, weights, align=options.align, direction=options.direction)
    fastem.save(merged, options.out)


def _as_weights(text, n_models):
    try:
        weights = [float(weight) for weight in text.split(",")]
    except ValueError:
        raise Usage(f"--weights must be numbers or 'observations'; got {text!r}.") from None
    if len(weights) != n_models:
        raise Usage(f"--weights: there are {len(weights)} for {n_models} models.")
    return weights


def _loaded(paths):
    from .models import check_alike, load

    models = [load(path) for path in paths]
    check_alike(models, paths)
    return models


def _divergence(options):
    if len(options.models) < 2:
        raise Usage("two models or more are needed.")

    from .output import Output, check_out, write_number

    check_out(options.out)
    models = _loaded(options.models)

    import numpy as np

    import fastem

    if len(models) == 2:
        number = fastem.divergence(*models, align=options.align)
        write_number("divergence", number, options.out)
        return
    table = np.array([
        [0.0 if one is other else fastem.divergence(one, other, align=options.align)
         for other in models]
        for one in models
    ])  # fmt: skip
    names = [str(path) for path in options.models]
    if len(set(names)) < len(names):
        names = [f"{number}:{name}" for number, name in enumerate(names)]
    output = Output()
    output.add("model", names)
    output.add_all(table, names, of_data=True)
    output.write(options.out)
