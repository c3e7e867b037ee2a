"""Callbacks for ``callback=``: progress on the terminal, and early stopping."""

from __future__ import annotations

import math

from .monitoring import Report
from .progress import advance, figures, open_bar

__all__ = ["EarlyStopping", "ProgressBar"]


class ProgressBar:
    """Shows how far learning has come, by a bar of tqdm.

    The setting ``verbose=1`` shows a bar for each call on a terminal. This one goes on from call to
    call, is written to any file, and knows the total. It is closed by :meth:`close`, or at the end
    of a ``with`` block.

    Parameters
    ----------
    total : float, optional
        The observations that ``partial_fit`` is to learn from in all, or the iterations of ``fit``.
    file : optional
        Where it is written; standard error by default.

    Examples
    --------
    >>> from fastem import GaussianMixture
    >>> from fastem.callbacks import ProgressBar
    >>> model = GaussianMixture(3, callback=ProgressBar(total=100_000))
    """

    def __init__(self, total: float | None = None, file=None):
        self.total, self.file = total, file
        self._bar, self._last = None, math.nan

    def __call__(self, report: Report) -> None:
        if report.within:
            # The bar counts iterations.
            return
        if self._bar is None:
            unit = "iterations" if report.n_iter else "observations"
            name = type(report.source).__name__
            self._bar, self._last = open_bar(self.total, name, unit, self.file), math.nan
        if report.n_iter == 1:
            # Another fit, or another start of it.
            self._bar.reset()
            self._last = math.nan
        change, self._last = report.log_likelihood - self._last, report.log_likelihood
        text = figures(report.log_likelihood, change)
        advance(self._bar, report.n_iter or report.n_observations, text)

    def close(self) -> None:
        """Leave the bar as it is; the next report begins another."""
        bar, self._bar = self._bar, None
        if bar is not None:
            bar.close()

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.close()

    def __getstate__(self):
        # A bar belongs to a terminal.
        return {"total": self.total, "file": None, "_bar": None, "_last": math.nan}


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

    Examples
    --------
    >>> import numpy as np
    >>> import fastem
    >>> from fastem.callbacks import EarlyStopping
    >>> X = np.random.default_rng(0).normal(size=(500, 2))
    >>> stop = EarlyStopping(patience=2, min_delta=0.01)
    >>> model = fastem.GaussianMixture(5, tol=0.0, callback=stop, random_state=0).fit(X)
    >>> model.n_iter_ < 100
    True
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
        if math.isnan(report.log_likelihood) or report.within:
            # It is not known (see the estimator), or of other data than those that follow.
            return False
        if report.log_likelihood > self.best_ + self.min_delta:
            self.best_, self.n_waited_ = report.log_likelihood, 0
        else:
            self.n_waited_ += 1
        return self.n_waited_ >= self.patience
