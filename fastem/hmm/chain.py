"""The hidden chain of an estimator: its initialization, priors, checks and draws."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from .. import checks
from ..kernels.hmm.priors import AllPriors, ChainPrior
from .priors import dirichlet_mode, finite_priors, shaped_prior

__all__ = ["Chain", "Shown", "absorbing_states", "index_draws"]


class Shown(NamedTuple):
    """A parameter of the model, and the attribute in which an estimator shows it."""

    #: The name that users know, in ``fixed`` and in messages.
    name: str
    #: The letter that stands for it in ``params`` and ``init_params``.
    letter: str
    #: The model's name for it.
    parameter: str
    attribute: str


@dataclass(frozen=True)
class Chain:
    """A start and transitions between ``n_states`` states, with Dirichlet priors of both."""

    n_states: int
    absorbing: tuple[int, ...] = ()
    startprob_prior: object = 1.0
    transmat_prior: object = 1.0

    shown: ClassVar = (
        Shown("startprob", "s", "startprob", "startprob_"),
        Shown("transmat", "t", "transmat", "transmat_"),
    )

    def initialize(self, wanted, random_state, *, drawn: bool) -> dict[str, np.ndarray]:
        """First values of the ``wanted`` parameters.

        Drawn at random, as in hmmlearn, or even. Chains with absorbing states are even.
        """
        n_states = self.n_states
        even = np.full(n_states, 1.0 / n_states)
        drawn = drawn and not self.absorbing
        values = {}
        if "startprob" in wanted:
            values["startprob"] = _finite(random_state.dirichlet(even)) if drawn else even
        if "transmat" in wanted:
            transmat = np.repeat(even[None], n_states, axis=0)
            if drawn:
                transmat = _finite(random_state.dirichlet(even, size=n_states))
            for state in self.absorbing:
                transmat[state] = np.eye(n_states)[state]
            values["transmat"] = transmat
        return values

    def checked(self, startprob, transmat) -> tuple[np.ndarray, np.ndarray]:
        """The probabilities as arrays; ``ValueError`` if they are not those of such a chain."""
        return self.checked_start(startprob), self.checked_transitions(transmat)

    def checked_start(self, startprob) -> np.ndarray:
        """The start as an array, checked."""
        return _probabilities("startprob_", startprob, (self.n_states,))

    def checked_transitions(self, transmat) -> np.ndarray:
        """The transitions as an array, checked."""
        n_states = self.n_states
        transmat = np.array(checks.numbers("transmat_", transmat))
        if transmat.shape == (n_states, n_states):
            for state in self.absorbing:
                # A chain never leaves an absorbing state; its row may be left out.
                if not transmat[state].any():
                    transmat[state, state] = 1.0
        transmat = _probabilities("transmat_", transmat, (n_states, n_states))
        for state in self.absorbing:
            if transmat[state, state] != 1.0:
                raise ValueError(
                    f"State {state} is absorbing, but transmat_[{state}] leads elsewhere: it must "
                    "be all zeros but for a one on the diagonal."
                )
        return transmat

    def maximize(self, model, statistics, n_sequences) -> dict[str, np.ndarray]:
        """The probabilities after a step of batch EM, priors included."""
        old, new = model.parameters, {}
        for name, block in (("startprob", "start"), ("transmat", "transitions")):
            prior = shaped_prior(self, f"{name}_prior", old[name].shape)
            new[name] = dirichlet_mode(statistics[block] * n_sequences, prior, old[name])
        return new

    def kernel_prior(self, emissions) -> ChainPrior | AllPriors:
        """The priors as kernels take them, with that of the emissions if they have one."""
        n_states = self.n_states
        start = shaped_prior(self, "startprob_prior", (n_states,))
        transitions = shaped_prior(self, "transmat_prior", (n_states, n_states))
        kind = ChainPrior if emissions is None else AllPriors
        return kind(*finite_priors(start - 1.0, transitions - 1.0), emissions)

    def n_free(self) -> dict[str, int]:
        """The number of free parameters, by their letters."""
        n_states = self.n_states
        return {"s": n_states - 1, "t": (n_states - len(self.absorbing)) * (n_states - 1)}

    def path(self, model, n_steps, random_state, first=None) -> Iterator[int]:
        """States of one sequence, of ``n_steps`` or until absorption, each drawn when asked for.

        Emissions that are drawn in between, from the same random state, are those of hmmlearn.
        """
        draw = index_draws(np.vstack([model.transmat, model.startprob]), random_state)
        state = draw(-1) if first is None else int(first)
        yield state
        for _ in range(n_steps - 1):
            if state in self.absorbing:
                return
            state = draw(state)
            yield state


def index_draws(rows, random_state):
    """A function that draws an index by the probabilities of a row, as hmmlearn does."""
    # Lists, because NumPy takes ten times as long to find one number among a few.
    sums = np.cumsum(rows, axis=1).tolist()
    last = [int(np.flatnonzero(row)[-1]) for row in rows]

    def draw(row):
        # Rounding may leave the sum of a row below the number that is drawn.
        return min(bisect_right(sums[row], random_state.rand()), last[row])

    return draw


def absorbing_states(absorbing, n_states) -> tuple[int, ...]:
    """The setting ``absorbing`` as states in order, checked."""
    if absorbing is None:
        return ()
    states = np.atleast_1d(np.asarray(absorbing))
    whole = states.ndim == 1 and (states.dtype.kind in "iu" or states.size == 0)
    if not whole or len(set(states.tolist())) < len(states):
        raise ValueError(f"absorbing must be a list of states, each once; got {absorbing!r}.")
    for state in states:
        if not 0 <= state < n_states:
            raise ValueError(f"absorbing: {state} is not one of the states 0 .. {n_states - 1}.")
    if len(states) == n_states:
        raise ValueError("absorbing: at least one state must not be absorbing.")
    return tuple(sorted(int(state) for state in states))


def _finite(rows):
    """Rows of probabilities as they were drawn, or even where all that was drawn is zero."""
    return np.where(np.isfinite(rows), rows, 1.0 / rows.shape[-1])


def _probabilities(name, array, shape):
    """An array whose last axis holds probabilities, checked."""
    array = checks.numbers(name, array)
    checks.shaped(name, array, shape, f" for {shape[0]} states")
    checks.check_probabilities(name, array)
    return array
