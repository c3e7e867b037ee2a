"""``fastem show``: what is in a model."""

from __future__ import annotations

import json
from pathlib import Path

from .parser import add_command

__all__ = ["add_to"]

EXAMPLES = """
fastem show model.fastem
fastem show model.fastem --digits 8
fastem show model.fastem --json
"""

#: Tables of more rows or columns are shown in part.
_ROWS, _COLUMNS = 20, 12

#: Parameters whose columns are states or components, however many columns the data have.
_OF_STATES = ("transmat", "weights", "initial_state", "transition", "observation_matrices")


def add_to(commands):
    """Add the command to a parser."""
    parser = add_command(
        commands, "show", _run,
        help="what is in a model",
        description="Print the class of a model, its sizes, what it has learned from, and its "
        "parameters; with --json everything, with all digits.",
        examples=EXAMPLES,
    )  # fmt: skip
    parser.add_argument("model", type=Path, metavar="MODEL", help="a file that fastem has written")
    parser.add_argument("--json", action="store_true", help="as JSON, for programs")
    parser.add_argument(
        "--digits", type=int, default=4, metavar="N", help="digits of parameters (default: 4)"
    )


def _run(options):
    from .models import load

    model = load(options.model)
    if options.json:
        print(json.dumps(_plain(described(model)), indent=2))
        return
    print(text(model, max(1, options.digits)))


def described(model) -> dict:
    """Everything about a model that people ask for, by name."""
    import inspect

    from .models import names_of

    defaults = {
        name: parameter.default
        for name, parameter in inspect.signature(type(model)).parameters.items()
    }
    settings = {
        name: value for name, value in model.get_params(deep=False).items()
        if name != "callback" and not _same(value, defaults.get(name))
    }  # fmt: skip
    found = {
        "class": type(model).__name__,
        "n_columns": getattr(model, "n_features_in_", None),
        "columns": names_of(model),
        "settings": settings,
        # The models within a mixture have not learned by themselves.
        "n_observations": getattr(model, "n_observations_", None),
        "observations": "sequences" if model._learns_sequences else "rows",
        "n_online_steps": getattr(model, "n_steps_", 0),
    }
    if getattr(model, "n_iter_", 0):
        found |= {
            "n_iterations": model.n_iter_,
            "converged": bool(model.converged_),
            "lower_bound": model.lower_bound_,
        }
    found["parameters"] = parameters(model)
    members = getattr(model, "members_", None)
    if members is not None:
        found["members"] = [described(member) for member in members]
    return found


def parameters(model) -> dict:
    """The parameters, under the names without the underscore."""
    import numpy as np

    shown = {}
    for name in model._parameter_attributes():
        public = name.strip("_")
        # Precisions are the inverses of covariances that are shown.
        if not public.startswith("precisions") and hasattr(model, name):
            shown[public] = np.asarray(getattr(model, name))
    return shown


def text(model, digits: int) -> str:
    """A summary for people."""
    from .models import kind_of

    found = described(model)
    lines = [f"{found['class']}"]

    def say(name, value):
        lines.append(f"  {name:<14}{value}")

    n_components = getattr(model, "n_components", None)
    if n_components is not None:
        say("states" if kind_of(model) in ("hmm", "vhmm") else "components", n_components)
    columns = found["columns"]
    say("columns", f"{found['n_columns']}" + (f": {_listed(columns)}" if columns else ""))
    count = found["n_observations"]
    if count is not None:
        count = int(count) if count == int(count) else round(count, 3)
        observations = found["observations"] if count != 1 else found["observations"][:-1]
        say("learned from", f"{count} {observations}")
    if "n_iterations" in found:
        end = "converged" if found["converged"] else "not converged"
        say("iterations", f"{found['n_iterations']}, {end}")
        say("lower bound", f"{found['lower_bound']:.{digits + 3}g}")
    if found["n_online_steps"]:
        say("online steps", f"{found['n_online_steps']:g}")
    others = {name: value for name, value in found["settings"].items() if name != "n_components"}
    if others:
        say("settings", ", ".join(f"{name}={_short(value)}" for name, value in others.items()))
    for name, value in found["parameters"].items():
        lines += ["", *_shown(name, value, columns, digits)]
    for number, member in enumerate(getattr(model, "members_", ())):
        lines += ["", f"component {number}: {text(member, digits)}"]
    return "\n".join(lines)


def _shown(name, value, columns, digits):
    """The lines of one parameter."""
    import numpy as np

    if value.ndim == 2 and value.shape[0] <= _ROWS and value.shape[1] <= _COLUMNS:
        has_names = (
            columns is not None and len(columns) == value.shape[1]
            and not name.startswith(_OF_STATES)
        )  # fmt: skip
        header = columns if has_names else [str(n) for n in range(value.shape[1])]
        cells = [["", *header]]
        cells += [
            [str(number), *(_number(x, digits) for x in row)] for number, row in enumerate(value)
        ]
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        rows = ["  ".join(c.rjust(w) for c, w in zip(r, widths, strict=True)) for r in cells]
        return [name, *(f"  {row}" for row in rows)]
    with np.printoptions(
        formatter={"float_kind": lambda x: _number(x, digits)}, threshold=200, linewidth=96
    ):
        rows = [row for row in str(value).splitlines() if row.strip()]
    return [f"{name}  {rows[0]}"] if len(rows) == 1 else [name, *(f"  {row}" for row in rows)]


def _number(value, digits):
    return f"{value:.{digits}g}"


def _listed(names):
    return ", ".join(names[:_COLUMNS]) + (", ..." if len(names) > _COLUMNS else "")


def _short(value):
    import numpy as np

    if isinstance(value, np.ndarray):
        return f"array of shape {value.shape}"
    return str(value) if isinstance(value, str) else " ".join(repr(value).split())


def _same(value, default):
    import numpy as np

    if isinstance(value, np.ndarray) or isinstance(default, np.ndarray):
        return False
    return type(value) is type(default) and value == default


def _plain(value):
    """A value as JSON has it; infinity and NaN, which it has not, are None."""
    import math

    import numpy as np

    if isinstance(value, np.ndarray):
        return _plain(value.tolist())
    if isinstance(value, np.generic):
        return _plain(value.item())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {str(name): _plain(item) for name, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_plain(item) for item in value]
    if value is None or isinstance(value, (str, int, bool)):
        return value
    return repr(value)
