"""``fastem plot``: a picture of a model."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

from .errors import Failure, Usage, check_place
from .parser import add_command, add_data

__all__ = ["add_to"]

EXAMPLES = """
fastem plot model.fastem measurements.csv -o clusters.png
fastem plot model.fastem measurements.csv --kind densities --column height -o height.pdf
fastem plot visits.fastem -o transitions.svg
fastem plot visits.fastem visits.csv --group patient --sequence 1 -o states.png
fastem plot series.fastem series.csv --steps 12 -o forecast.png
fastem plot a.fastem --with b.fastem --with c.fastem -o sites.png
"""

#: Pictures, and what each needs besides the model: data, other models.
KINDS = {
    "components": ("data?",),
    "densities": ("data?",),
    "responsibilities": ("data",),
    "states": ("data",),
    "transitions": (),
    "bands": ("data",),
    "learning-curves": ("models?",),
    "drift": (),
    "divergences": ("models",),
    "matches": ("models",),
}
_ENDINGS = (".png", ".pdf", ".svg", ".jpg", ".jpeg", ".webp", ".eps", ".tif", ".tiff")


def add_to(commands):
    """Add the command to a parser."""
    parser = add_command(
        commands, "plot", _run,
        help="a picture of a model",
        description="Draw a model, with data or beside other models. Without --kind: the "
        "components of a Gaussian mixture, the densities of another one; the states of a hidden "
        "Markov model along its data, or its transitions without data; the bands of a Kalman "
        "filter; the divergences between several models.",
        examples=EXAMPLES,
    )  # fmt: skip
    parser.add_argument("model", type=Path, metavar="MODEL", help="a file that fastem has written")
    add_data(parser, optional=True)
    add = parser.add_argument
    add("-o", "--out", type=Path, required=True, metavar="PICTURE",
        help="where the picture is written: .png, .pdf, .svg")  # fmt: skip
    add("--kind", choices=list(KINDS), help="which picture")
    add("--with", dest="others", action="append", type=Path, default=[], metavar="MODEL",
        help="another model, for divergences, matches and learning-curves; may be "
        "repeated")  # fmt: skip
    add("--column", action="append", default=[], metavar="COLUMN",
        help="the column that is drawn, by name or number among those of the model; twice for the "
        "two axes of components")  # fmt: skip
    add("--sequence", type=int, default=0, metavar="N", help="which sequence (default: 0)")
    add("--steps", type=int, default=0, metavar="N", help="steps ahead in bands (default: 0)")
    add("--of", choices=["observations", "states"], default="observations", help="of bands")
    add("--filtered", action="store_true", help="bands given the rows so far, and not all")
    add("--level", type=float, default=0.95, metavar="P", help="of bands (default: 0.95)")
    add("--title", help="above the picture")
    add("--size", default="7x4.5", metavar="WxH", help="in inches (default: 7x4.5)")
    add("--dpi", type=float, default=150.0, help="dots per inch (default: 150)")


def _run(options):
    size = _size(options.size)
    if not 0.0 < options.dpi < float("inf"):
        raise Usage(f"--dpi must be more than 0; got {options.dpi:g}.")
    if not 0.0 < options.level < 1.0:
        raise Usage("--level must be between 0 and 1.")
    if options.steps < 0:
        raise Usage("--steps must be 0 or more.")
    if options.out.suffix.lower() not in _ENDINGS:
        raise Usage(f"--out: a picture ends with one of {', '.join(_ENDINGS)}.")
    check_place(options.out)
    try:
        import matplotlib
    except ImportError as error:
        raise Failure(
            'pictures need matplotlib, which is not installed: pip install "fastem[plot]".'
        ) from error
    matplotlib.use("Agg")
    from matplotlib.figure import Figure

    from ..plot.style import plain
    from . import data
    from .models import check_alike, load, named, names_of

    model = load(options.model)
    given = None
    if options.data is not None:
        given = data.read(options.data, options, model, known=names_of(model))
        # Columns with other names may take the place of those of the model.
        named(model, given.names if names_of(model) is None else None)
    kind = options.kind or _natural(model, given, options)
    _check_given(kind, given, options)
    models = [model, *map(load, options.others)]
    if "models" in KINDS[kind]:
        check_alike(models, [options.model, *options.others])
    figure = Figure(figsize=size, layout="constrained")
    ax = figure.add_subplot()
    with warnings.catch_warnings():
        # Columns were found by their names.
        warnings.filterwarnings("ignore", "X does not have valid feature names")
        _draw(kind, models, given, options, ax)
    if options.title:
        figure.suptitle(plain(options.title))
    figure.savefig(options.out, dpi=options.dpi)


def _size(text):
    try:
        width, height = (float(side) for side in text.lower().split("x"))
    except ValueError:
        width = height = 0.0
    if not (0 < width < 100 and 0 < height < 100):
        raise Usage(f"--size must be like 7x4.5; got {text!r}.")
    return width, height


def _natural(model, given, options):
    """The picture that shows most of a model."""
    from ..families import Gaussian, as_family
    from .models import described, kind_of

    if options.others:
        return "divergences"
    kind = kind_of(model)
    if kind in ("hmm", "vhmm"):
        return "transitions" if given is None else "states"
    if kind == "kalman":
        return "bands"
    if kind == "mixture":
        is_gaussian = isinstance(as_family(getattr(model, "family", "gaussian")), Gaussian)
        return "components" if is_gaussian and model.n_features_in_ > 1 else "densities"
    if getattr(model, "lower_bounds_", None):
        return "learning-curves"
    raise Usage(f"{described(model)} has no picture of its own: choose with --kind.")


def _check_given(kind, given, options):
    needs = KINDS[kind]
    if "data" in needs and given is None:
        raise Usage(f"--kind {kind} needs DATA.")
    if given is not None and not {"data", "data?"} & set(needs):
        raise Usage(f"--kind {kind} takes no DATA.")
    if "models" in needs and not options.others:
        raise Usage(f"--kind {kind} needs other models: --with OTHER.")
    if options.others and not {"models", "models?"} & set(needs):
        raise Usage(f"--kind {kind} takes one model.")
    if kind == "matches" and len(options.others) != 1:
        raise Usage("--kind matches takes one other model.")
    most = 2 if kind in ("components", "densities") else 1
    if len(options.column) > most:
        raise Usage(f"--column may be given {'twice' if most == 2 else 'once'} here.")


def _draw(kind, models, given, options, ax):
    from .. import plot

    model = models[0]
    X = None if given is None else given.X
    lengths = None if given is None else given.lengths
    columns = [_column(word, model, kind, options) for word in options.column]
    one = {"column": columns[0]} if len(columns) == 1 else {}
    two = {"columns": tuple(columns)} if len(columns) == 2 else {}
    cut = {} if lengths is None else {"lengths": lengths}
    if kind == "components":
        if one:
            raise Usage("--kind components needs two columns: --column A --column B.")
        plot.components(model, X, **two, **cut, ax=ax)
    elif kind == "densities":
        plot.densities(model, X, **one, **two, **cut, ax=ax)
    elif kind == "responsibilities":
        plot.responsibilities(model, X, **cut, ax=ax)
    elif kind == "states":
        _check_sequence(given, options)
        plot.states(model, X, lengths, sequence=options.sequence, **one, ax=ax)
    elif kind == "transitions":
        plot.transitions(model, ax=ax)
    elif kind == "bands":
        _check_sequence(given, options)
        plot.bands(
            model, given.sequences()[options.sequence], of=options.of, steps=options.steps, **one,
            kind="filtered" if options.filtered else "smoothed", level=options.level, ax=ax,
        )  # fmt: skip
    elif kind == "learning-curves":
        plot.learning_curves(models, labels=_labels(options), ax=ax)
    elif kind == "drift":
        plot.drift(model, ax=ax)
    elif kind == "divergences":
        plot.divergences(models, labels=_labels(options), ax=ax)
    else:
        plot.matches(*models, ax=ax)


def _check_sequence(given, options):
    n_sequences = 1 if given.lengths is None else len(given.lengths)
    if not -n_sequences <= options.sequence < n_sequences:
        are = "is 1 sequence" if n_sequences == 1 else f"are {n_sequences} sequences"
        raise Usage(f"--sequence: there {are}, numbered from 0.")


def _labels(options):
    from ..plot.style import plain

    return [plain(path.stem) for path in (options.model, *options.others)]


def _column(word, model, kind, options):
    """A column by its number among those of the model, or among its states."""
    from .models import kind_of, names_of

    # A model whose parameters were given has counted no columns: the picture checks the number.
    names, n_columns = names_of(model), getattr(model, "n_features_in_", sys.maxsize)
    if kind == "bands" and kind_of(model) == "kalman" and options.of == "states":
        matrices = getattr(model, "transition_matrices_", model.transition_matrices)
        n_columns = len(matrices[-1])
        names = [f"state{n}" for n in range(n_columns)]
    if names is not None and word in names:
        return names.index(word)
    if word.isdecimal() and int(word) < n_columns:
        return int(word)
    listed = "which have no names" if names is None else ", ".join(names)
    raise Usage(f"--column: there is no column {word!r} among those of the model, {listed}.")
