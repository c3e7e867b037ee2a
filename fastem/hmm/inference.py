"""Inference with a fitted hidden Markov estimator: scores, states, draws."""

from __future__ import annotations

import numpy as np
from sklearn.utils import check_random_state

from ..waiting import check_is_fitted
from .stream import StateFilter

__all__ = ["HMMInference"]


class HMMInference:
    """The part of an estimator that uses its model and does not change it."""

    def _as_read(self, X, lengths):
        """Data as hmmlearn's methods read them."""
        return X, lengths

    def _tables(self, model, X, lengths, cut_off):
        """The tables of data that are checked for a model."""
        self._set_width(model)
        X, lengths = self._as_read(X, lengths)
        data = self._check_data(X, lengths, None, cut_off, reset=False, once=True)
        return data.tables()

    def _found(self, what, X, lengths, cut_off):
        """Pairs of log-probabilities, one for each sequence, and of rows, for each table.

        ``what`` is the name of a method of :class:`~fastem.hmm.few.Few`.
        """
        model = self._used_model()
        few = getattr(model, "few", None) if cut_off is None else None
        if few is not None and self._are_plain_rows(X):
            batch = few.batch(X, lengths)
            found = None if batch is None else getattr(few, what)(batch)
            if found is not None:
                return [found]
        tables = self._tables(model, X, lengths, cut_off)
        if what == "paths":
            return map(model.decode, tables)
        if what == "states":
            return map(model.decode_rows, tables)
        return (model.infer(table, posteriors=what == "posteriors") for table in tables)

    def score(self, X, lengths=None, *, cut_off=None) -> float:
        """The log-likelihood of all sequences together.

        Parameters
        ----------
        X, lengths, cut_off
            As for :meth:`fit`.
        """
        return float(sum(scores.sum() for scores, _ in self._found("scores", X, lengths, cut_off)))

    def score_sequences(self, X, lengths=None, *, cut_off=None) -> np.ndarray:
        """The log-likelihood of each sequence.

        Parameters
        ----------
        X, lengths, cut_off
            As for :meth:`fit`.
        """
        return np.concatenate([s for s, _ in self._found("scores", X, lengths, cut_off)])

    def score_samples(self, X, lengths=None, *, cut_off=None) -> tuple[float, np.ndarray]:
        """The log-likelihood of all sequences together, and the state probabilities of each row.

        Returns
        -------
        log_prob : float
        posteriors : ndarray of shape (n_rows, n_components)
        """
        return _added_up(self._found("posteriors", X, lengths, cut_off))

    def decode(self, X, lengths=None, algorithm=None, *, cut_off=None) -> tuple[float, np.ndarray]:
        """The likeliest states.

        Parameters
        ----------
        X, lengths, cut_off
            As for :meth:`fit`.
        algorithm : {'viterbi', 'map'}, optional
            The likeliest path of all states, or the likeliest state of each row by itself; by
            default what the estimator was made with.

        Returns
        -------
        log_prob : float
            The log-probability of the paths with the data; for ``'map'`` the sum over the rows of
            the probability of their states, as hmmlearn has it.
        state_sequence : ndarray of shape (n_rows,)
        """
        algorithm = algorithm or self.algorithm
        if algorithm not in ("viterbi", "map"):
            raise ValueError(f"Unknown decoder {algorithm!r}: it is 'viterbi' or 'map'.")
        if algorithm == "viterbi":
            return _added_up(self._found("paths", X, lengths, cut_off))
        if self._decodes_each_row_itself():
            log_prob, states = _added_up(self._found("states", X, lengths, cut_off))
            return np.float64(log_prob), states
        found = self._found("posteriors", X, lengths, cut_off)
        log_prob, states = _added_up((rows.max(axis=1), rows.argmax(axis=1)) for _, rows in found)
        # A NumPy number, as hmmlearn has it: programs call its methods.
        return np.float64(log_prob), states

    def _decodes_each_row_itself(self):
        """Whether a subclass says which state of each row is the likeliest."""
        return False

    def predict(self, X, lengths=None, *, cut_off=None) -> np.ndarray:
        """The likeliest state of each row, by the estimator's ``algorithm``."""
        return self.decode(X, lengths, **_if_given(cut_off))[1]

    def predict_proba(self, X, lengths=None, *, cut_off=None) -> np.ndarray:
        """The probability of each state at each row, (n_rows, n_components)."""
        return self.score_samples(X, lengths, **_if_given(cut_off))[1]

    def filter(self) -> StateFilter:
        """A filter that takes one observation after another.

        Returns
        -------
        StateFilter
            Its ``update(x)`` returns the state probabilities, the log-density of ``x`` given what
            came before, and the log-likelihood of all so far.
        """
        model = self._used_model()
        if not hasattr(model, "kernel_chain"):
            raise TypeError(
                f"{type(self).__name__} has hooks of its own, which a filter does not call. Use "
                "score_samples for all observations so far."
            )
        return StateFilter(model)

    def sample(
        self, n_samples=1, random_state=None, currstate=None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Draw a sequence from the model, the same that hmmlearn draws from a random state.

        Parameters
        ----------
        n_samples : int, default=1
            How many steps; a sequence that is absorbed ends there.
        random_state : int or RandomState, optional
            By default that of the estimator.
        currstate : int, optional
            The state of the first step; by default drawn from ``startprob_``.

        Returns
        -------
        X : ndarray of shape (n_samples, n_features)
        state_sequence : ndarray of shape (n_samples,)
        """
        model = self._used_model()
        if n_samples < 1:
            raise ValueError(f"n_samples must be 1 or more; got {n_samples}.")
        n_states = self.n_components
        if currstate is not None and not 0 <= currstate < n_states:
            raise ValueError(f"currstate must be a state, 0 .. {n_states - 1}; got {currstate}.")
        random_state = check_random_state(
            self.random_state if random_state is None else random_state
        )
        states = []

        def recorded(path):
            for state in path:
                states.append(state)
                yield state

        path = self._chain().path(model, n_samples, random_state, currstate)
        X = self._draw(model, recorded(path), random_state)
        return X, np.array(states)

    def get_stationary_distribution(self) -> np.ndarray:
        """The distribution over states that a step leaves as it is."""
        if not hasattr(self, "transmat_"):
            check_is_fitted(self)
        chain = self._chain()
        if chain.absorbing:
            raise ValueError("A chain that is absorbed has no stationary distribution.")
        transmat = chain.checked_transitions(self.transmat_)
        n_states = len(transmat)
        # π(A - I) = 0 and Σπ = 1, of which one equation is redundant.
        equations = np.vstack([transmat.T - np.eye(n_states), np.ones(n_states)])
        solution = np.linalg.lstsq(equations, np.eye(n_states + 1)[-1], rcond=None)[0]
        solution = np.maximum(solution, 0.0)
        return solution / solution.sum()

    def aic(self, X, lengths=None, *, cut_off=None) -> float:
        """Akaike information criterion; the lower the better."""
        log_likelihood, n_free, _ = self._criterion_parts(X, lengths, cut_off)
        return -2 * log_likelihood + 2 * n_free

    def bic(self, X, lengths=None, *, cut_off=None) -> float:
        """Bayesian information criterion; the lower the better."""
        log_likelihood, n_free, n_rows = self._criterion_parts(X, lengths, cut_off)
        return -2 * log_likelihood + n_free * np.log(n_rows)

    def _criterion_parts(self, X, lengths, cut_off):
        """The log-likelihood, the number of free parameters, and that of rows."""
        model = self._used_model()
        is_own = type(self).score is not HMMInference.score
        log_likelihood = self.score(X, lengths, **_if_given(cut_off)) if is_own else 0.0
        n_rows = 0
        for table in self._tables(model, X, lengths, cut_off):
            if not is_own:
                log_likelihood += model.log_likelihoods(table).sum()
            n_rows += len(table.X)
        return float(log_likelihood), sum(self._n_free(model).values()), n_rows


def _if_given(cut_off):
    """An argument for a method that a subclass may have overridden with hmmlearn's arguments."""
    return {} if cut_off is None else {"cut_off": cut_off}


def _added_up(results):
    """The sum of log-probabilities, and all rows, of what a model says of each table."""
    log_prob, rows = 0.0, []
    for log_probs, found in results:
        log_prob += log_probs.sum()
        rows.append(found)
    return float(log_prob), rows[0] if len(rows) == 1 else np.concatenate(rows)
