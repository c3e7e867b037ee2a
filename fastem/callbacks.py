"""Callbacks for ``callback=``: progress on the terminal, and early stopping."""

from __future__ import annotations

import math
import sys

from .monitoring import Report

__all__ = ["EarlyStopping", "ProgressBar"]


class ProgressBar:
    """Shows how far learning has come: with tqdm if it is installed, as plain text otherwise.

    Parameters
    ----------
    total : float, optional
        The observations that ``partial_fit`` is to learn from in all, or the iterations of ``fit``.
    file : optional
        Where text is written; standard error by default.

    Examples
    --------
    >>> from fastem import GaussianMixture
    >>> from fastem.callbacks import ProgressBar
    >>> model = GaussianMixture(3, callback=ProgressBar(total=100_000))
    """

    def __init__(self, total: float | None = None, file=None):
        self.total, self.file = total, file
        self._bar = None

    def __call__(self, report: Report) -> None:
        done = report.n_iter or report.n_observations
        shown = f"log-likelihood {report.log_likelihood:.6g}"
        if self._bar is None:
            self._bar = _bar(self.total, self.file)
        self._bar(done, shown)

    def __getstate__(self):
        # A bar belongs to a terminal.
        return {"total": self.total, "file": None, "_bar": None}


def _bar(total, file):
    """A function that shows a count and a text."""
    try:
        from tqdm import tqdm
    except ImportError:
        return _Text(total, file)
    bar = tqdm(total=total, file=file)

    def show(done, text):
        bar.set_postfix_str(text, refresh=False)
        bar.update(done - bar.n)

    return show


class _Text:
    """One line that is written over and over."""

    def __init__(self, total, file):
        self.total, self.file = total, file

    def __call__(self, done, text):
        share = "" if not self.total else f" of {self.total:g}"
        print(f"\r{done:g}{share}, {text}", end="", file=self.file or sys.stderr, flush=True)


class EarlyStopping:
    """Ends learning when the log-likelihood has not risen for a while.

    That is the progressive log-likelihood of new data in ``partial_fit``, and that of the data in
    ``fit``. Use one for each estimator: it remembers the best so far.

    Parameters
    ----------
    patience : int, default=5
        Reports in a row without a rise after which learning ends.
    min_delta : float, default=0.0
        A rise has to be larger than this.

    Attributes
    ----------
    best_ : float
        The largest log-likelihood so far.
    n_waited_ : int
        Reports since then.
    """

    def __init__(self, patience: int = 5, min_delta: float = 0.0):
        if patience < 1 or not min_delta >= 0:
            raise ValueError(
                "patience must be 1 or more, and min_delta not negative; got "
                f"{patience!r} and {min_delta!r}."
            )
        self.patience, self.min_delta = patience, min_delta
        self.best_, self.n_waited_ = -math.inf, 0

    def __call__(self, report: Report) -> bool:
        if report.n_iter == 1:
            # Another fit, or another start of it.
            self.best_, self.n_waited_ = -math.inf, 0
        if math.isnan(report.log_likelihood):
            # It is not known: see the estimator.
            return False
        if report.log_likelihood > self.best_ + self.min_delta:
            self.best_, self.n_waited_ = report.log_likelihood, 0
        else:
            self.n_waited_ += 1
        return self.n_waited_ >= self.patience
