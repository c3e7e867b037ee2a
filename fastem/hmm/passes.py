"""Passes of a hidden Markov model over sequences: how the work is cut, and which kernel does it.

A *piece* is a run of whole sequences whose rows are read, or converted, at a time. Within a piece
sequences of similar length are laid side by side (``kernels/hmm/layout.py``). A long sequence is a
piece of its own, in which threads share the work: forward and backward are independent.
"""

from __future__ import annotations

import math
from functools import lru_cache
from itertools import groupby
from typing import NamedTuple

import numpy as np

from ..data.rows import read_rows
from ..kernels.hmm import emissions, missing
from ..kernels.hmm.chain import Batch, padded_states
from ..kernels.hmm.forward_backward import (
    smooth_alone,
    smooth_lanes,
)
from ..kernels.hmm.layout import Layout, lay_out
from ..kernels.hmm.scoring import score_lanes
from ..kernels.hmm.viterbi import decode_lanes, viterbi_alone
from ..kernels.log_space import log_backward, log_forward
from ..kernels.rows import GROUP
from ..parallel import add_into, in_order
from .long_sequences import smooth_long
from .workspace import MOST_ENTRIES, workspace

__all__ = ["Pass", "pieces_of", "prepared"]

# States times steps of a piece: few enough for the cache, enough to outweigh the calls.
_PIECE_ENTRIES = 2**17
_MOST_ENTRIES = MOST_ENTRIES
# Threads share the work within a longer sequence.
_LONG_ENTRIES = 2**18

# The pieces of so many sequences are remembered by their lengths.
_MOST_REMEMBERED = 2**14
# From so many rows times states times columns, densities of float32 are computed in float32.
_SINGLE_ENTRIES = 2**20

_NO_WEIGHTS = np.empty(0)
_NO_FLAGS = np.empty(0, dtype=np.uint8)


class Piece(NamedTuple):
    """A run of sequences, ``first .. last - 1``, whose rows are ``begin .. end - 1``."""

    first: int
    last: int
    begin: int
    end: int
    starts: np.ndarray
    lengths: np.ndarray
    layout: Layout
    units: list

    @property
    def long(self) -> bool:
        """Whether threads share the work within this piece."""
        return not self.units


def pieces_of(table, n_states):
    """The pieces of a table, which depend on the lengths of its sequences alone."""
    size = int(padded_states.py_func(n_states))
    if size not in table.plans:
        lengths, limits = table.lengths, (_PIECE_ENTRIES, _MOST_ENTRIES, _LONG_ENTRIES)
        if len(lengths) <= _MOST_REMEMBERED:
            table.plans[size] = _cut_again(lengths.tobytes(), n_states, size, limits)
        else:
            table.plans[size] = _cut(lengths, n_states, size, limits)
    return table.plans[size]


@lru_cache(maxsize=8)
def _cut_again(lengths, n_states, size, limits):
    """The pieces of the same lengths as before need not be made again; nobody changes them."""
    # A copy, because kernels would be compiled once more for arrays that cannot be written to.
    return _cut(np.frombuffer(lengths, dtype=np.int64).copy(), n_states, size, limits)


def _cut(lengths, n_states, size, limits):
    piece_entries, most_entries, long_entries = limits
    ends = np.cumsum(lengths)
    # Enough sequences for lanes of similar length, however many states there are.
    rows = max(piece_entries // size, int(64 * lengths.mean()))
    rows = min(rows, max(most_entries // size, 1))
    pieces = []
    first = 0
    is_long = lengths * size > long_entries
    while first < len(lengths):
        begin = int(ends[first] - lengths[first])
        last = max(first + 1, int(np.searchsorted(ends, begin + rows, side="right")))
        if last < len(lengths) and last - first > 2 * GROUP:
            last -= (last - first) % GROUP  # no lanes without a sequence
        long_ones = np.flatnonzero(is_long[first:last])
        if len(long_ones):
            last = first + max(int(long_ones[0]), 1)
        end = int(ends[last - 1])
        part = np.ascontiguousarray(lengths[first:last], dtype=np.int64)
        layout = lay_out(part, n_states)
        units = [] if is_long[first] else _runs(layout)
        pieces.append(Piece(first, last, begin, end, np.cumsum(part) - part, part, layout, units))
        first = last
    return pieces


def _runs(layout):
    """Runs of units that a kernel takes at a time: side by side, or one sequence alone."""
    runs, unit = [], 0
    for side_by_side, units in groupby(layout.count > 0):
        n_units = len(list(units))
        step = n_units if side_by_side else 1
        runs += [(first, first + step) for first in range(unit, unit + n_units, step)]
        unit += n_units
    return runs


class Pass:
    """One pass of a model over the sequences of a table.

    Parameters
    ----------
    chain : Chain
    family : Family
    packed : named tuple
        The family's parameters, as kernels take them.
    table : Sequences
    n_jobs : int, optional
    """

    def __init__(self, chain, family, packed, table, n_jobs=None):
        self.chain, self.family, self.packed = chain, family, packed
        #: What densities and sums are computed with, in the type of its arrays; and whether that
        #: type was good enough.
        self.computed, self.precise = packed, True
        self.table, self.n_jobs = table, n_jobs
        self.n_states = chain.n_states
        self.size = int(padded_states.py_func(chain.n_states))
        self.n_columns = family.size(packed)[1]
        self.log_likelihoods = np.empty(len(table))

    # The results of a pass -------------------------------------------------------------------

    def statistics(self):
        """Sums of start, transitions, mass and the family's statistics, weighted."""
        single = self._in_single()
        if single is not None:
            self.computed = single
            sums = self._smooth(self.table.sample_weight, counting=True)
            *_, mass, buffers = sums
            if self.precise and self.family.sums_are_precise(self.packed, mass, buffers):
                return sums
            self.computed = self.packed
        return self._smooth(self.table.sample_weight, counting=True)

    def _in_single(self):
        """The packed family for emissions in float32, None if float64 is better."""
        if not self.table.is_single:
            return None
        few = len(self.table.X) * self.size * self.n_columns < _SINGLE_ENTRIES
        if few or self.n_columns < self.family.single_columns:
            return None
        return self.family.in_single(self.packed)

    def score(self):
        """The log-likelihood of each sequence, and no rows."""
        self._smooth()
        return self.log_likelihoods, np.empty((0, self.n_states))

    @property
    def _may_score(self):
        """Whether the forward recursion alone can be certain of log-likelihoods.

        It is not where it meets zeros: a zero that the model means looks like one that was lost to
        underflow.
        """
        n, chain = self.n_states, self.chain
        matrix = chain.forward.reshape(self.size, self.size)[:n, :n]
        possible = matrix.all() and chain.start[:n].all() and not len(chain.absorbing)
        return not self.smoothing and not self.table.missing and bool(possible)

    def posteriors(self):
        """The log-likelihood of each sequence, and the posterior of the state at each row."""
        out = np.zeros((len(self.table.X), self.n_states))
        self._smooth(out=out)
        return self.log_likelihoods, out

    def paths(self):
        """The likeliest path of each sequence: its log-probability, and the state at each row."""
        self.weights, self.states = None, np.zeros(len(self.table.X), dtype=np.int64)
        self.in_threads(self._decode_piece, pieces_of(self.table, self.n_states))
        return self.log_likelihoods, self.states

    def log_densities(self):
        """The log-density of each row in each state, (n_rows, K); the rows are one sequence."""
        batch, _rows, log_base = self.read_all()
        n_rows, size = len(self.table.X), self.size
        log_b = np.empty((n_rows + GROUP) * size)
        self.emit(batch, 0, 0, n_rows, True, log_b, np.empty(0))
        found = log_b[: n_rows * size].reshape(n_rows, size)[:, : self.n_states]
        found = np.where(found > emissions.LEAST, found, -np.inf)
        return found if log_base is None else found + log_base[:, None]

    # Cutting ---------------------------------------------------------------------------------

    def in_threads(self, function, items):
        for _ in in_order(function, items, self.n_jobs):
            pass

    def _smooth(self, weights=None, counting=False, out=None):
        """Forward and backward: sums over all pieces if ``counting``, posteriors into ``out``."""
        self.weights, self.counting, self.out = weights, counting, out
        self.smoothing = counting or out is not None
        self.scoring = self._may_score
        pieces = pieces_of(self.table, self.n_states)
        sums = self.sums()
        for part in in_order(self._smooth_piece, [p for p in pieces if not p.long], self.n_jobs):
            add_into(sums, part)
        for piece in pieces:
            if piece.long:
                add_into(sums, self._smooth_long(piece))
        return sums

    def sums(self):
        """Zeros: start, counts of transitions, transitions, mass, and the family's buffers."""
        n, size = self.n_states, self.size
        counts, xi = np.zeros(size * size), np.zeros(size * size)
        return np.zeros(n), counts, xi, np.zeros(n), self.family.buffers(self.packed)

    def read_all(self):
        """All rows of the table as a kernel's batch, an array to keep alive, the base measure."""
        table = self.table
        starts = np.ascontiguousarray(table.starts)
        piece = Piece(0, len(table), 0, len(table.X), starts, table.lengths, None, [])
        self.weights = table.sample_weight
        return self._read(piece)

    def _read(self, piece):
        """The rows of a piece as a kernel's batch, the array they are in, and the base measure.

        A batch knows where its rows are; the caller keeps the array alive.
        """
        X = self.table.X[piece.begin : piece.end]
        X, log_base = prepared(X, self.family, self.table.missing)
        # Kernels trust the width they are told.
        if X.shape[1] != self.n_columns:
            raise ValueError(
                f"The data have {X.shape[1]} columns, and the model has {self.n_columns}."
            )
        rows, kept = read_rows(X, 0, len(X))
        which = slice(piece.first, piece.last)
        weights, cut_off = self.weights, self.table.cut_off
        batch = Batch(
            rows,
            piece.starts,
            piece.lengths,
            _NO_WEIGHTS if weights is None else np.ascontiguousarray(weights[which]),
            _NO_FLAGS if cut_off is None else cut_off[which].astype(np.uint8),
            self.table.missing,
        )
        return batch, kept, log_base

    def _add_base(self, piece, log_base):
        """Add what the family leaves out of its log-density to the log-likelihoods."""
        if log_base is not None:
            total = np.add.reduceat(log_base, piece.starts)
            self.log_likelihoods[piece.first : piece.last] += total

    # Forward and backward --------------------------------------------------------------------

    def _smooth_piece(self, piece):
        batch, _rows, log_base = self._read(piece)
        sums = self.sums()
        units = self._score_units(batch, piece) if self.scoring else piece.units
        if units:
            self._smooth_units(batch, piece, units, sums)
        self._add_base(piece, log_base)
        return sums

    def _score_units(self, batch, piece):
        """Score what lies side by side; returns the runs of units that have to be smoothed."""
        layout, rest = piece.layout, []
        scores = self.log_likelihoods[piece.first : piece.last]
        for first, last in piece.units:
            if layout.count[first] == 0:
                rest.append((first, last))
                continue
            doubtful = np.zeros(last, dtype=np.uint8)
            score_lanes(self.chain, self.packed, batch, layout, first, last, scores, doubtful)
            rest += [(unit, unit + 1) for unit in np.flatnonzero(doubtful).tolist()]
        return rest

    def _smooth_units(self, batch, piece, units, sums):
        """Forward and backward over runs of units, whose sums are added to ``sums``."""
        chain, layout = self.chain, piece.layout
        start, counts, _, mass, buffers = sums
        lost = np.zeros(piece.last - piece.first, dtype=np.uint8)
        scores = self.log_likelihoods[piece.first : piece.last]
        for first, last in units:
            b, alpha, gamma, shifts, totals = workspace.take_units(layout, first, last)
            if layout.count[first] > 0:
                where = (batch, layout, first, last)
                self._emit_lanes(*where, False, b, shifts)
                smooth_lanes(
                    chain, *where, self.smoothing, b, shifts, alpha, gamma, totals, start, counts,
                    scores, lost,
                )  # fmt: skip
                if self.counting:
                    to = (*where, gamma, mass, buffers)
                    emissions.absorb_lanes(self.n_states, self.computed, *to)
                    if batch.missing:
                        missing.absorb_missing_lanes(self.n_states, self.packed, *to)
                if self.out is not None:
                    self._write_lanes(piece, first, last, gamma)
            else:
                s = int(layout.order[layout.first[first]])
                length = int(piece.lengths[s])
                self.emit(batch, s, 0, length, False, b, shifts)
                scores[s], lost[s] = smooth_alone(
                    chain, length, self.weight(batch, s), self.smoothing, b, shifts, alpha, gamma,
                    totals, counts,
                )  # fmt: skip
                if not lost[s]:
                    self.take(batch, piece, s, 0, length, gamma, sums)
        for s in np.flatnonzero(lost):
            scores[s] = self._in_logarithms(batch, piece, int(s), sums)

    def weight(self, batch, s):
        return 1.0 if self.weights is None else batch.weights[s]

    def _emit_lanes(self, batch, *where):
        if not emissions.emit_lanes(self.chain, self.computed, batch, *where):
            self.precise = False
        if batch.missing:
            missing.emit_missing_lanes(self.chain, self.packed, batch, *where)

    def emit(self, batch, *where):
        if not emissions.emit_alone(self.chain, self.computed, batch, *where):
            self.precise = False
        if batch.missing:
            missing.emit_missing_alone(self.chain, self.packed, batch, *where)

    def take(self, batch, piece, s, start, stop, gamma, sums):
        """Use the posteriors of steps ``start .. stop - 1`` of a sequence alone."""
        if self.out is not None:
            begin = piece.begin + int(piece.starts[s])
            steps = gamma[: (stop - start) * self.size].reshape(-1, self.size)
            self.out[begin + start : begin + stop] = steps[:, : self.n_states]
        if self.counting:
            first, _, _, mass, buffers = sums
            if start == 0:
                first += gamma[: self.n_states]
            to = (batch, s, start, stop, gamma, mass, buffers)
            emissions.absorb_alone(self.n_states, self.computed, *to)
            if batch.missing:
                missing.absorb_missing_alone(self.n_states, self.packed, *to)

    def _write_lanes(self, piece, first_unit, last_unit, gamma):
        layout = piece.layout
        for unit in range(first_unit, last_unit):
            at = int(layout.at[unit] - layout.at[first_unit])
            shape = (self.size, int(layout.steps[unit]) + 1, GROUP)
            lanes = gamma[at : at + math.prod(shape)].reshape(shape)
            for lane in range(int(layout.count[unit])):
                s = int(layout.order[layout.first[unit] + lane])
                begin = piece.begin + int(piece.starts[s])
                length = int(piece.lengths[s])
                self.out[begin : begin + length] = lanes[: self.n_states, :length, lane].T

    def _in_logarithms(self, batch, piece, s, sums):
        """Smooth a sequence in logarithms; returns its log-likelihood."""
        length, size = int(piece.lengths[s]), self.size
        log_b, gamma = np.empty((length + GROUP) * size), np.zeros((length + GROUP) * size)
        self.emit(batch, s, 0, length, True, log_b, np.empty(0))
        log_likelihood = log_forward(self.chain, size, log_b, length, gamma)
        weight = self.weight(batch, s)
        if log_likelihood > -np.inf and weight > 0:
            log_backward(self.chain, size, log_b, length, weight, gamma, log_likelihood, sums[2])
        else:
            gamma[:] = 0.0
        self.take(batch, piece, s, 0, length, gamma, sums)
        return log_likelihood

    def _smooth_long(self, piece):
        batch, _rows, log_base = self._read(piece)
        sums = self.sums()
        score = smooth_long(self, batch, piece, sums)
        if score is None:
            sums = self.sums()  # what was added so far is wrong too
            score = self._in_logarithms(batch, piece, 0, sums)
        self.log_likelihoods[piece.first] = score
        self._add_base(piece, log_base)
        return sums

    # Decoding --------------------------------------------------------------------------------

    def _decode_piece(self, piece):
        chain, layout = self.chain, piece.layout
        batch, _rows, log_base = self._read(piece)
        scores = self.log_likelihoods[piece.first : piece.last]
        states = self.states[piece.begin : piece.end]
        for first, last in piece.units or [(0, 1)]:
            n_units = last - first if batch.missing else 1
            log_b, before, _, shifts, _ = workspace.take_units(layout, first, first + n_units)
            if layout.count[first] > 0:
                where = (batch, layout, first, last)
                if batch.missing:
                    self._emit_lanes(*where, True, log_b, shifts)
                decode_lanes(
                    chain, self.packed, *where, batch.missing, log_b, before, scores, states
                )
            else:
                s = int(layout.order[layout.first[first]])
                begin, length = int(piece.starts[s]), int(piece.lengths[s])
                self.emit(batch, s, 0, length, True, log_b, shifts)
                scores[s] = viterbi_alone(chain, length, log_b, states[begin : begin + length])
        self._add_base(piece, log_base)


def prepared(X, family, missing):
    """As ``family.prepare(X)``; a row that has missing values has no base measure."""
    if not missing:
        return family.prepare(X)
    with np.errstate(all="ignore"):
        X, log_base = family.prepare(X)
    return X, None if log_base is None else np.where(np.isnan(log_base), 0.0, log_base)
