"""``fastem score``, ``predict`` and ``sample``."""

from __future__ import annotations

from pathlib import Path

from .errors import Failure, Usage
from .parser import add_command, add_data, add_out

__all__ = ["add_to"]

SCORE = """
fastem score model.fastem measurements.csv
fastem score model.fastem measurements.csv --each -o scores.csv
fastem score visits.fastem visits.csv --group patient --each
"""
PREDICT = """
fastem predict model.fastem measurements.csv > labels.csv
fastem predict model.fastem measurements.csv --proba -o probabilities.parquet
fastem predict visits.fastem visits.csv --group patient
fastem predict series.fastem series.csv --of observations
"""
SAMPLE = """
fastem sample model.fastem -n 100 --seed 1
fastem sample visits.fastem -n 50 -o steps.csv
fastem sample counts.fastem -n 10 --length 30
"""


def add_to(commands):
    """Add the commands to a parser."""
    parser = add_command(
        commands, "score", _score,
        help="the mean log-likelihood of data",
        description="Print the mean log-likelihood of the rows of a table, or of its sequences.",
        examples=SCORE,
    )  # fmt: skip
    _add_model(parser)
    add_data(parser, weight=True)
    parser.add_argument(
        "--each", action="store_true", help="the log-likelihood of each row or sequence"
    )
    add_out(parser)

    parser = add_command(
        commands, "predict", _predict,
        help="labels, states or their probabilities",
        description="Print the component or the state of each row, in the order of the table. Of a "
        "Kalman filter: the means and standard deviations of states or observations, given the "
        "whole sequence. Of a compound Dirichlet distribution: the mean proportions of each row.",
        examples=PREDICT,
    )  # fmt: skip
    _add_model(parser)
    add_data(parser)
    parser.add_argument(
        "--proba", action="store_true", help="the probability of each component or state"
    )
    parser.add_argument(
        "--of", choices=["states", "observations"],
        help="of a Kalman filter: which of them (default: states). Observations are what the "
        "model expects without noise",
    )  # fmt: skip
    parser.add_argument(
        "--filtered", action="store_true",
        help="of a Kalman filter: given the rows so far, and not all",
    )  # fmt: skip
    add_out(parser)

    parser = add_command(
        commands, "sample", _sample,
        help="draw rows from a model",
        description="Draw rows from a model, with their components or states; of a hidden Markov "
        "model or a Kalman filter they are one sequence.",
        examples=SAMPLE,
    )  # fmt: skip
    _add_model(parser)
    parser.add_argument("-n", type=int, default=1, metavar="N", help="how many rows (default: 1)")
    parser.add_argument("--seed", type=int, metavar="N", help="seed of the random numbers")
    parser.add_argument(
        "--length", type=int, metavar="N",
        help="of a compound Dirichlet distribution: the sum of each row (default: the mean of "
        "those learned from)",
    )  # fmt: skip
    add_out(parser)


def _add_model(parser):
    parser.add_argument("model", type=Path, metavar="MODEL", help="a file that fastem has written")


def _score(options):
    import numpy as np

    from .models import kind_of
    from .output import write

    model, data = read_both(options)
    if not options.each and kind_of(model) not in ("hmm", "vhmm"):
        write_number(model.score(data.X, **data.given()), options)
        return
    given = data.given(weights=False)
    by_sequence = hasattr(model, "score_sequences")
    each = (model.score_sequences if by_sequence else model.score_samples)(data.X, **given)
    if not options.each:
        # hmmlearn's interface has the sum.
        write_number(np.average(each, weights=data.weights), options)
        return
    columns = {} if data.labels is None else {options.group: data.labels}
    write({**columns, "log_likelihood": each}, options.out)


def read_both(options):
    """The model of a command, and its data."""
    from . import data
    from .models import load, names_of, without_names
    from .output import check_out

    check_out(options.out)
    model = load(options.model)
    known = names_of(model)
    given = data.read(options.data, options, sequences=model._learns_sequences, known=known)
    return without_names(model), given


def write_number(number, options):
    """A single number to standard output or a file."""
    if options.out is None:
        print(repr(float(number)))
    else:
        options.out.write_text(f"{float(number)!r}\n", encoding="utf-8")


def _predict(options):
    from .models import kind_of
    from .output import columns_of, write

    model, data = read_both(options)
    kind = kind_of(model)
    if kind != "kalman" and (options.of or options.filtered):
        raise Usage("--of and --filtered are for Kalman filters.")
    labels = data.row_labels
    if kind == "kalman":
        if options.proba:
            raise Usage("--proba: a Kalman filter has no labels.")
        columns = _of_kalman(model, data, options)
    elif kind == "dirichlet":
        if options.proba or not hasattr(model, "transform"):
            raise Usage(f"a {type(model).__name__} has no labels.")
        shares = model.transform(data.X)
        columns = columns_of(shares, column_names(data.names, shares.shape[1]))
    else:
        method = model.predict_proba if options.proba else model.predict
        found = method(data.X, **data.given(weights=False))
        if len(found) == data.X.shape[0] and kind != "mixture_of_models":
            found = data.in_order(found)
        else:
            labels = data.labels
        columns = (
            columns_of(found, [f"p{n}" for n in range(found.shape[1])])
            if options.proba else {"label": found}
        )  # fmt: skip
    group = {} if labels is None else {options.group: labels}
    write({**group, **columns}, options.out)


def column_names(names, n_columns) -> list[str]:
    """Names for columns of data, which may have none."""
    return [f"x{n}" for n in range(n_columns)] if names is None else list(names)


def _of_kalman(model, data, options):
    """Means and standard deviations of states or observations."""
    import numpy as np

    infer = model.filter if options.filtered else model.smooth
    means, covariances = infer(data.sequences())
    names = [f"state{n}" for n in range(means[0].shape[1])]
    if options.of == "observations":
        names = column_names(data.names, data.X.shape[1])
        C, c = model.observation_matrices_, model.observation_offsets_
        if C.ndim > 2 or c.ndim > 1:
            raise Failure("--of observations: the observation matrices change with time.")
        means = [mean @ C.T + c for mean in means]
        covariances = [C @ covariance @ C.T for covariance in covariances]
    means, covariances = np.concatenate(means), np.concatenate(covariances)
    deviations = np.sqrt(np.maximum(np.diagonal(covariances, axis1=1, axis2=2), 0.0))
    columns = {}
    for number, name in enumerate(names):
        columns[name] = data.in_order(means[:, number])
        columns[f"{name}_sd"] = data.in_order(deviations[:, number])
    return columns


def _sample(options):
    import numpy as np

    from .models import kind_of, load, names_of
    from .output import check_out, columns_of, write

    if options.n < 1:
        raise Usage("-n must be 1 or more.")
    check_out(options.out)
    model = load(options.model)
    kind = kind_of(model)
    if options.length is not None and type(model).__name__ != "CompoundDirichlet":
        raise Usage("--length is for compound Dirichlet distributions.")
    if options.seed is not None:
        model.set_params(random_state=options.seed)
    hidden = None
    if kind == "kalman":
        hidden, X = model.sample(options.n)
        X = np.asarray(X)
    elif type(model).__name__ == "CompoundDirichlet":
        X = model.sample(options.n, options.length)
    elif kind == "dirichlet":
        X = model.sample(options.n)
    elif kind in ("mixture", "hmm", "vhmm"):
        X, hidden = model.sample(options.n)
    else:
        raise Failure(f"{options.model} holds a {type(model).__name__}, which is drawn from in "
                      "Python only.")  # fmt: skip
    columns = columns_of(X, column_names(names_of(model), X.shape[1]))
    if hidden is not None and np.ndim(hidden) == 2:
        columns |= columns_of(hidden, [f"state{n}" for n in range(hidden.shape[1])])
    elif hidden is not None:
        columns["label"] = hidden
    write(columns, options.out)
