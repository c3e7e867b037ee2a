"""``fastem fit --online``: learn from rows as they come, and write the model every so often."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from .errors import INTERRUPTED, Failure, Usage, say
from .text import Unfinished, article, rows_of

__all__ = ["run"]

#: Rows wait for others for so long.
_PATIENCE = 1.0


class _Signals:
    """SIGINT and SIGTERM ask to stop; a second SIGINT interrupts."""

    def __init__(self):
        self.stopped = False
        self._before = {}

    def __enter__(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            self._before[number] = signal.signal(number, self._stop)
        return self

    def __exit__(self, *error):
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _stop(self, number, frame):
        if self.stopped and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.stopped = True


def run(options) -> int:
    """Run the command; returns the exit code."""
    if options.lengths is not None:
        raise Usage("--lengths is for whole files; with --online, --group cuts sequences.")
    for setting in ("iterations", "tolerance", "solver"):
        if getattr(options, setting) is not None:
            raise Usage(f"--{setting} is for whole files: with --online, rows are read once.")
    with _Signals() as signals:
        model = _first_model(options)

        from .data import check_cuts
        from .models import names_of, without_names

        check_cuts(options, model)
        known = names_of(model)
        without_names(model)
        learner = _Learner(model, options, known)
        try:
            for chunk in _chunks(options, model, known, signals):
                if chunk is None:
                    learner.checkpoint(due_only=True)
                    continue
                learner.learn(chunk)
        except BaseException:
            # What was learned before is not lost.
            learner.checkpoint()
            raise
        learner.checkpoint()
        return learner.end(signals.stopped)


def _first_model(options):
    from .settings import class_of, made, settings_of

    name = class_of(options)
    settings = settings_of(options, name)
    start = options.start
    if options.resume:
        if start is not None:
            raise Usage("--from and --resume cannot both be given.")
        start = options.out if options.out.exists() else None
    if start is None:
        return made(name, settings)

    import numpy as np

    import fastem

    from ..families import as_family
    from .models import kind_of

    with open(start, "rb"):
        model = fastem.load(start)
    found = type(model).__name__
    if kind_of(model) not in _KINDS[options.kind]:
        raise Usage(f"{start} holds {article(found)}, which is no {options.kind}.")
    if found != name:
        if options.family or options.emissions or options.bayesian or options.proportions:
            raise Usage(f"{start} holds {article(found)}, and the options ask for {article(name)}.")
        settings = settings_of(options, found)
    family = settings.pop("family", None)
    if family is not None:
        has = as_family(model.family).public_name()
        if as_family(family).public_name() != has:
            raise Usage(f"{start} has the family {has}, not {family}.")
    before = model.get_params(deep=False)
    for setting in ("n_components", "n_dim_state", "covariance_type"):
        if setting in settings and not np.array_equal(settings[setting], before[setting]):
            raise Usage(
                f"{start} has {setting}={before[setting]!r}, which cannot change to "
                f"{settings[setting]!r}."
            )
    model.set_params(**settings)
    model._validate_params()
    return model


_KINDS = {"gmm": ("mixture",), "hmm": ("hmm", "vhmm"), "kalman": ("kalman",),
          "dirichlet": ("dirichlet",)}  # fmt: skip


class _Learner:
    """Learns from chunks, and writes the model when it is time."""

    def __init__(self, model, options, known):
        self.model, self.names = model, known
        self._out, self._verbose = options.out, options.verbose
        self._seconds, self._rows = options.checkpoint_every
        self._n_rows = self._n_written = 0
        self._written = time.monotonic()

    def learn(self, chunk):
        self.model.partial_fit(chunk.X, **chunk.given())
        self.names = chunk.names or self.names
        self._n_rows += chunk.X.shape[0]
        self.checkpoint(due_only=True)

    def checkpoint(self, *, due_only=False):
        """Write the model, if there is something new."""
        new = self._n_rows - self._n_written
        if new == 0 or (due_only and not self._is_due(new)):
            return

        from .models import save, without_names

        save(self.model, self.names, self._out)
        without_names(self.model)
        self._n_written, self._written = self._n_rows, time.monotonic()
        if self._verbose:
            history = getattr(self.model, "history_", None)
            last = f", log-likelihood {history[-1][2]:.6g}" if history else ""
            say("fit", f"{self._n_rows} rows{last}; wrote {self._out}")

    def _is_due(self, new):
        if self._rows is not None:
            return new >= self._rows
        return time.monotonic() - self._written >= self._seconds

    def end(self, stopped) -> int:
        if self._n_rows == 0:
            if stopped:
                say("fit", "interrupted before the first rows; nothing was written")
                return INTERRUPTED
            raise Failure("there are no rows.")
        if not self.model.__sklearn_is_fitted__():
            kept = self.model._first_observations
            raise Failure(
                f"there is no model yet: {kept['n_needed'] - kept['n_rows']} more rows are needed. "
                f"Those so far are kept in {self._out}; go on from it with --resume."
            )
        name = type(self.model).__name__
        print(f"{name} of {self._n_rows} new rows; wrote {self._out}", file=sys.stderr)
        return 0


# Chunks -----------------------------------------------------------------------------------------


@dataclass
class _Rows:
    """Rows that have come and were not learned from yet."""

    columns: Any
    sequences: bool
    n_columns: int
    separator: str
    #: The number of the line that is read next.
    line: int
    #: Lines of a row that has not ended.
    begun: list[str] = field(default_factory=list)
    values: list[list[str]] = field(default_factory=list)
    #: The number of the first of them in the stream.
    first: int = 0
    #: How many of them belong to groups that have ended.
    n_whole: int = 0

    def take(self, n_rows, drop_missing):
        """A chunk of the first rows; None if none of them is complete."""
        import numpy as np

        from .data import Data, check_complete
        from .tables import title
        from .text import as_numbers

        rows, self.values = self.values[:n_rows], self.values[n_rows:]
        first, self.first = self.first, self.first + len(rows)
        self.n_whole = max(self.n_whole - len(rows), 0)

        def column(number, name):
            return as_numbers([row[number] for row in rows], name, first)

        names = self.columns.names
        X = np.column_stack([
            column(number, title(names, place)) for place, number in enumerate(self.columns.values)
        ])  # fmt: skip
        weight = self.columns.weight
        chunk = Data(X, names)
        if weight is not None:
            chunk.weights = column(weight, f"of weights, {weight},")
        labels = [row[self.columns.group] for row in rows] if self._has_groups else None
        if drop_missing:
            keep = ~np.isnan(X).any(axis=1)
            chunk.X = X[keep]
            chunk.weights = None if weight is None else chunk.weights[keep]
            labels = labels and [label for label, kept in zip(labels, keep, strict=True) if kept]
            if not keep.any():
                return None
        elif not self.sequences:
            check_complete(X, names, first)
        if self.sequences:
            self._cut(chunk, labels)
        return chunk

    def _cut(self, chunk, labels):
        import numpy as np

        from .data import weights_of_sequences

        n_rows = chunk.X.shape[0]
        ends = [n for n in range(1, n_rows) if labels and labels[n] != labels[n - 1]]
        chunk.lengths = np.diff([0, *ends, n_rows])
        if chunk.weights is not None:
            chunk.weights = weights_of_sequences(chunk.weights, chunk.lengths)

    @property
    def _has_groups(self):
        return self.columns.group is not None

    def read(self, lines):
        """More lines have come. Rows before a wrong one are kept, and those that are whole."""
        lines, self.begun = self.begun + lines, []
        try:
            for row in rows_of(lines, self.separator, self.n_columns, self.line):
                self._add(row)
        except Unfinished as error:
            self.line += error.n_lines
            self.begun = lines[error.n_lines :]
            raise
        self.line += len(lines)

    def _add(self, row):
        if self._has_groups:
            group = self.columns.group
            row[group] = row[group].strip()
            if not row[group]:
                from .data import no_group

                raise no_group(self.first + len(self.values))
            if self.values and row[group] != self.values[-1][group]:
                self.n_whole = len(self.values)
        self.values.append(row)

    def n_ready(self, chunk, *, idle=False):
        """How many rows can be learned from now."""
        if self.sequences and self._has_groups:
            return self.n_whole if idle or self.n_whole >= chunk else 0
        n_rows = len(self.values)
        if n_rows >= chunk:
            return chunk
        # Sequences that nothing else ends have as many rows as a chunk.
        return n_rows if idle and not self.sequences else 0


def _chunks(options, model, known, signals) -> Iterator[Any]:
    """Chunks of rows; None where there are none at the moment."""
    from .tables import format_of

    if format_of(options.data, options.format) not in ("csv", "tsv"):
        yield from _chunks_of_file(options, model, known, signals)
        return
    from .arrivals import lines

    rows, beginning, waiting, failure = None, [], time.monotonic(), None
    for arrived in lines(options.data, lambda: signals.stopped):
        if arrived is not None:
            failure = None
            try:
                if rows is None:
                    beginning += arrived
                    rows, arrived = _begun(options, model, known, beginning)
                if rows is not None:
                    rows.read(arrived)
            except Failure as error:
                failure = error
        idle = arrived is None and time.monotonic() - waiting >= _PATIENCE
        taken = False
        while rows is not None and (n_rows := rows.n_ready(options.chunk, idle=idle)):
            taken = True
            yield rows.take(n_rows, options.drop_missing)
        if failure is not None and not isinstance(failure, Unfinished):
            break
        if taken or not (rows and rows.values):
            waiting = time.monotonic()
        if arrived is None:
            yield None
    if rows is not None and rows.values:
        yield rows.take(len(rows.values), options.drop_missing)
    # A row that a signal has cut off is no error.
    if failure is not None and not (signals.stopped and isinstance(failure, Unfinished)):
        raise failure


def _begun(options, model, known, lines):
    """What the first line tells, and the lines after its header; None if all are empty."""
    from .data import Columns, check_columns
    from .tables import FirstLine, format_of, separator_for

    n_before = next((n for n, line in enumerate(lines) if line.strip()), None)
    if n_before is None:
        return None, []
    separator = separator_for(format_of(options.data, options.format), options)
    first = FirstLine.of(lines[n_before:], separator, options.header)
    columns = Columns.chosen(options, first.names, first.n_columns, known)
    check_columns(model, len(columns.values))
    if first.names is not None:
        n_before += first.n_lines
    rows = _Rows(columns, model._learns_sequences, first.n_columns, first.separator, n_before + 1)
    return rows, lines[n_before:]


def _chunks_of_file(options, model, known, signals):
    """Chunks of a file that is not text."""
    from . import data

    whole = data.read(options.data, options, model, known=known, drop_missing=options.drop_missing)
    if whole.lengths is None:
        for start in range(0, whole.X.shape[0], options.chunk):
            if signals.stopped:
                return
            part = slice(start, start + options.chunk)
            weights = None if whole.weights is None else whole.weights[part]
            yield data.Data(whole.X[part], whole.names, weights=weights)
        return
    for number, X in enumerate(whole.sequences()):
        if signals.stopped:
            return
        weights = None if whole.weights is None else whole.weights[[number]]
        lengths = whole.lengths[[number]]
        yield data.Data(X, whole.names, lengths=lengths, weights=weights)
