"""``fastem forecast``: what comes next, with bands."""

from __future__ import annotations

from pathlib import Path

from .errors import Failure, Usage
from .parser import add_command, add_data, add_out

__all__ = ["add_to"]

EXAMPLES = """
fastem forecast series.fastem series.csv --steps 12
fastem forecast series.fastem series.csv --steps 12 --level 0.8 -o forecast.csv
fastem forecast visits.fastem visits.csv --group patient --steps 3
"""


def add_to(commands):
    """Add the command to a parser."""
    parser = add_command(
        commands, "forecast", _run,
        help="the next rows, with bands",
        description="Print the mean of each of the next rows after each sequence, with the band "
        "that a value lies in with probability --level: for Kalman filters, and for hidden Markov "
        "models with Gaussian or Poisson emissions, which also give the probability of each state. "
        "For categorical emissions: the probability of each category.",
        examples=EXAMPLES,
    )  # fmt: skip
    parser.add_argument("model", type=Path, metavar="MODEL", help="a file that fastem has written")
    add_data(parser)
    parser.add_argument("--steps", type=int, default=1, metavar="N", help="how many (default: 1)")
    parser.add_argument(
        "--level", type=float, default=0.95, metavar="P",
        help="the probability of the bands (default: 0.95)",
    )  # fmt: skip
    add_out(parser)


def _run(options):
    import numpy as np

    from .models import described, kind_of
    from .output import Output
    from .use import column_names, read_both

    if options.steps < 1:
        raise Usage("--steps must be 1 or more.")
    if not 0.0 < options.level < 1.0:
        raise Usage("--level must be between 0 and 1.")
    model, data = read_both(options)
    kind = kind_of(model)
    if kind == "mixture_of_models":
        raise Failure(f"{options.model} holds {described(model)}, which has no forecast.")
    if kind not in ("kalman", "hmm", "vhmm"):
        raise Failure(
            f"{options.model} holds {described(model)}, whose rows have no order: there is "
            "nothing to forecast."
        )
    names = column_names(data.names, data.X.shape[1])
    ahead = _of_kalman if kind == "kalman" else _of_hmm
    parts = [ahead(model, X, names, options) for X in data.sequences()]
    output = Output()
    if data.labels is not None:
        output.add(options.group, np.repeat(data.labels, options.steps), of_data=True)
    elif len(parts) > 1:
        output.add("sequence", np.repeat(np.arange(len(parts)), options.steps))
    output.add("step", np.tile(np.arange(1, options.steps + 1), len(parts)))
    for of_all in zip(*parts, strict=True):
        name, _, of_data = of_all[0]
        output.add(name, np.concatenate([values for _, values, _ in of_all]), of_data=of_data)
    output.write(options.out)


def _of_kalman(model, X, names, options):
    """Names, values, and whether the name is that of a column of the data."""
    import numpy as np
    from scipy.special import ndtri

    means, covariances = model.forecast([X], options.steps)
    width = ndtri(0.5 + options.level / 2)
    columns = []
    for number, name in enumerate(names):
        mean, deviation = means[:, number], np.sqrt(covariances[:, number, number])
        columns.append((name, mean, True))
        columns.append((f"{name}_lower", mean - width * deviation, False))
        columns.append((f"{name}_upper", mean + width * deviation, False))
    return columns


def _of_hmm(model, X, names, options):
    """As :func:`_of_kalman`."""
    import numpy as np

    # The last smoothed state is the filtered one.
    state = model.predict_proba(X)[-1]
    states = []
    for _ in range(options.steps):
        state = state @ model.transmat_
        states.append(state)
    states = np.array(states)
    columns = [(f"p{n}", states[:, n], False) for n in range(states.shape[1])]
    tails = (1 - options.level) / 2, (1 + options.level) / 2
    if hasattr(model, "emissionprob_") and np.ndim(model.emissionprob_) == 2 and len(names) == 1:
        categories = states @ model.emissionprob_
        return columns + [(f"{names[0]}={n}", p, False) for n, p in enumerate(categories.T)]
    if hasattr(model, "lambdas_"):
        means, quantile = np.asarray(model.lambdas_), _poisson_quantile
        others = means
    elif hasattr(model, "means_") and np.ndim(model.means_) == 2:
        means, quantile = np.asarray(model.means_), _normal_quantile
        covariances = np.asarray(model.covars_)  # full, whatever the type
        others = np.sqrt(np.diagonal(covariances, axis1=1, axis2=2))
    else:
        raise Failure(
            f"the emissions of this {type(model).__name__} have no forecast; they are Gaussian, "
            "Poisson or categorical in models that have one."
        )
    for number, name in enumerate(names):
        mean, other = means[:, number], others[:, number]
        columns.append((name, states @ mean, True))
        for end, level in zip(("lower", "upper"), tails, strict=True):
            bounds = np.array([quantile(weights, mean, other, level) for weights in states])
            columns.append((f"{name}_{end}", bounds, False))
    return columns


def _normal_quantile(weights, means, deviations, level):
    """The value that a mixture of normal distributions is below with probability ``level``."""
    import numpy as np
    from scipy.optimize import brentq
    from scipy.special import ndtr, ndtri

    # It lies among the quantiles of the components.
    each = (means + deviations * ndtri(level))[weights > 0]
    if each.min() == each.max():
        return float(each[0])

    def excess(value):
        return float(weights @ ndtr((value - means) / deviations)) - level

    low, high = float(each.min()), float(each.max())
    if excess(low) >= 0 or excess(high) <= 0:  # by rounding
        return low if excess(low) >= 0 else high
    return float(brentq(excess, low, high, xtol=4 * np.finfo(float).eps * max(1.0, abs(high))))


def _poisson_quantile(weights, means, _, level):
    """The least count that a mixture of Poisson distributions is not above with ``level``."""
    import numpy as np
    from scipy.stats import poisson

    each = poisson.ppf(level, means)[weights > 0]
    counts = np.arange(each.min(), each.max() + 1)
    below = weights @ poisson.cdf(counts[None, :], means[:, None])
    # The largest count is enough, up to rounding.
    return float(counts[min(int(np.searchsorted(below, level)), len(counts) - 1)])
