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
    from .output import Output, write_number

    model, data = read_both(options)
    if not options.each and kind_of(model) not in ("hmm", "vhmm"):
        number = model.score(data.X, **data.given())
        write_number("log_likelihood", number, options.out)
        return
    given = data.given(weights=False)
    by_sequence = hasattr(model, "score_sequences")
    each = (model.score_sequences if by_sequence else model.score_samples)(data.X, **given)
    if not options.each:
        # hmmlearn's interface has the sum.
        write_number("log_likelihood", np.average(each, weights=data.weights), options.out)
        return
    output = Output()
    if data.labels is not None:
        output.add(options.group, data.labels, of_data=True)
    output.add("log_likelihood", each)
    output.write(options.out)


def read_both(options):
    """The model of a command, and its data."""
    from . import data
    from .models import load, names_of, without_names
    from .output import check_out

    check_out(options.out)
    model = load(options.model)
    known = names_of(model)
    given = data.read(options.data, options, model, known=known)
    return without_names(model), given


def _predict(options):
    from .models import described, kind_of
    from .output import Output

    model, data = read_both(options)
    kind = kind_of(model)
    if kind != "kalman" and (options.of or options.filtered):
        raise Usage("--of and --filtered are for Kalman filters.")
    of_rows = kind != "mixture_of_models"
    output = Output()
    labels = data.row_labels if of_rows else data.labels
    if labels is not None:
        output.add(options.group, labels, of_data=True)
    if kind == "kalman":
        if options.proba:
            raise Usage("--proba: a Kalman filter has no labels.")
        _add_of_kalman(output, model, data, options)
    elif kind == "dirichlet":
        if options.proba or not hasattr(model, "transform"):
            raise Usage(f"{described(model)} has no labels.")
        shares = model.transform(data.X)
        output.add_all(shares, column_names(data.names, shares.shape[1]), of_data=True)
    else:
        method = model.predict_proba if options.proba else model.predict
        found = method(data.X, **data.given(weights=False))
        found = data.in_order(found) if of_rows else found
        if options.proba:
            output.add_all(found, [f"p{n}" for n in range(found.shape[1])])
        else:
            output.add("label", found)
    output.write(options.out)


def column_names(names, n_columns) -> list[str]:
    """Names for columns of data, which may have none."""
    return [f"x{n}" for n in range(n_columns)] if names is None else list(names)


def _add_of_kalman(output, model, data, options):
    """Means and standard deviations of states or observations."""
    import numpy as np

    infer = model.filter if options.filtered else model.smooth
    means, covariances = infer(data.sequences())
    names = [f"state{n}" for n in range(means[0].shape[1])]
    of_data = options.of == "observations"
    if of_data:
        names = column_names(data.names, data.X.shape[1])
        C, c = model.observation_matrices_, model.observation_offsets_
        if C.ndim > 2 or c.ndim > 1:
            raise Failure("--of observations: the observation matrices change with time.")
        means = [mean @ C.T + c for mean in means]
        covariances = [C @ covariance @ C.T for covariance in covariances]
    means, covariances = np.concatenate(means), np.concatenate(covariances)
    deviations = np.sqrt(np.maximum(np.diagonal(covariances, axis1=1, axis2=2), 0.0))
    for number, name in enumerate(names):
        output.add(name, data.in_order(means[:, number]), of_data=of_data)
        output.add(f"{name}_sd", data.in_order(deviations[:, number]))


def _sample(options):
    import numpy as np

    from .models import described, kind_of, load, names_of
    from .output import Output, check_out

    if options.n < 1:
        raise Usage("-n must be 1 or more.")
    if options.seed is not None and not 0 <= options.seed < 2**32:
        raise Usage("--seed must be from 0 to 4294967295.")
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
        raise Failure(
            f"{options.model} holds {described(model)}, which is drawn from in Python only."
        )
    output = Output()
    output.add_all(X, column_names(names_of(model), X.shape[1]), of_data=True)
    if hidden is not None and np.ndim(hidden) == 2:
        output.add_all(hidden, [f"state{n}" for n in range(hidden.shape[1])])
    elif hidden is not None:
        output.add("label", hidden)
    output.write(options.out)
