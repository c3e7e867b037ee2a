"""Callbacks for ``callback=``: progress on the terminal, and early stopping."""

from __future__ import annotations

import math

from .monitoring import Report

__all__ = ["EarlyStopping", "ProgressBar"]


class ProgressBar:
    """Shows how far learning has come, by a bar of tqdm.

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
        self._bar = None

    def __call__(self, report: Report) -> None:
        if report.within:
            # The bar counts iterations.
            return
        if self._bar is None:
            # Imported here: those who show no bar need not wait for it.
            from tqdm import tqdm

            self._bar = tqdm(total=self.total, file=self.file)
        bar = self._bar
        bar.set_postfix_str(f"log-likelihood {report.log_likelihood:.6g}", refresh=False)
        bar.update((report.n_iter or report.n_observations) - bar.n)

    def __getstate__(self):
        # A bar belongs to a terminal.
        return {"total": self.total, "file": None, "_bar": None}


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
        if math.isnan(report.log_likelihood) or report.within:
            # It is not known (see the estimator), or of other data than those that follow.
            return False
        if report.log_likelihood > self.best_ + self.min_delta:
            self.best_, self.n_waited_ = report.log_likelihood, 0
        else:
            self.n_waited_ += 1
        return self.n_waited_ >= self.patience
