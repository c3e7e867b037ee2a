"""How sequences with missing values are put side by side: see ``kernels/kalman/gaps.py``."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..kernels.kalman.gaps import (
    DONE,
    FIRST,
    FIRST_CHECKED,
    LAST,
    NOT_FORGOTTEN,
    WIDTH,
    WITHIN,
    expect_gaps,
    infer_gaps,
    room_size,
    step_size,
)
from ..kernels.kalman.observation import COMPLETE
from ..kernels.kalman.system import Workspace
from ..kernels.rows import empty_on_a_line
from ..parallel import in_order
from ..statistics import Expectation
from .sums import moments_of_sums

__all__ = ["chosen", "expect", "infer"]

# The steps of a warm-up that are tried, and how many warm-ups long a chunk should be.
_WARM_UPS = (32, 64, 128, 256)
_WARM_UPS_IN_CHUNK = 6
# Longer sequences are cut into chunks if they forget soon enough.
_LONG = 192
# So few sequences of one length go side by side only if there are not many states: most lanes
# would compute for nothing.
_FEW, _FEW_STATES = 3, 8
# If no more than one step in so many misses something, the filter is steady most of the time, and
# its steps are cheaper one after another.
_SELDOM = 2048
# Times that one call of a kernel fills the lanes, at most, and calls that threads should have.
_MOST_ROUNDS, _CALLS = 16, 8
# The most numbers that the lanes may take.
_MOST_NUMBERS = 2**24


class Batch(NamedTuple):
    """What the lanes of one call of a kernel compute."""

    #: Of each lane: first row, where it begins and ends, and the steps that count.
    lanes: np.ndarray
    n_steps: int
    warm_up: int
    #: The predicted mean and covariance at which chunks begin.
    begin: np.ndarray


class Start(NamedTuple):
    """Where chunks begin: so many steps too early, and at which predicted mean and covariance."""

    warm_up: int
    state: np.ndarray


class Lanes:
    """Sequences with missing values, put side by side for a kernel.

    Parameters
    ----------
    model : KalmanModel
        Constant in time, with an R that can be factored.
    table : Observations
    call : callable
        Computes a :class:`Batch`: a function of a :class:`Workspace`, an array to work in, the
        batch and its sequences, that returns how it went, and what it found.
    """

    def __init__(self, model, table, call):
        self.model, self.table, self._call = model, table, call
        self.d = model.A.shape[-1]
        self._room = room_size(self.d, min(model.C.shape[-2:]))
        #: Arrays that were worked in, and can be again.
        self._spare = []

    def run(self, sequences):
        """Compute what the lanes are good for.

        Returns the sequences that are left to others, and what was found of each batch.
        """
        groups, left, start = [], [], None
        for group in self._groups(sequences):
            if self._is_long(group) and start is None:
                start = self._start(group[0])
            groups.append((group, start))
        found = []
        while groups:
            groups = self._attempt(groups, found, left)
        return np.array(sorted(left), dtype=np.int64), found

    def _attempt(self, groups, found, left):
        """One attempt at each group; returns those that need a longer warm-up."""
        planned = [self._batches(group, start) for group, start in groups]
        calls = [(i, batch) for i, batches in enumerate(planned) for batch in batches]

        def compute(call):
            i, batch = call
            return self._result(batch, groups[i][0])

        results = [[] for _ in groups]
        for (i, _), result in zip(calls, in_order(compute, calls, self.model.n_jobs), strict=True):
            results[i].append(result)
        again = []
        for (group, start), outcome in zip(groups, results, strict=True):
            went = {how for how, _ in outcome}
            if went == {DONE}:
                found += [value for _, value in outcome]
            elif went <= {DONE, NOT_FORGOTTEN} and went:
                again.append((group, start._replace(warm_up=2 * start.warm_up)))
            else:
                left += group
        return again

    def _batches(self, group, start):
        """The batches of sequences that go side by side, or of the chunks of one."""
        chunks = None
        if self._is_long(group) and start is not None:
            chunks = self._chunks(group[0], start)
        return chunks or self._whole(group, int(self.table.lengths[group[0]]))

    def _is_long(self, group):
        """Whether this is one sequence that should be cut into chunks."""
        return len(group) == 1 and self.table.lengths[group[0]] > _LONG

    def _result(self, batch, group=()):
        size = WIDTH * (self._room + batch.n_steps * step_size(self.d))
        try:
            space, y = self._spare.pop()
        except IndexError:
            space, y = None, np.empty(0)
        if space is None or space.longest < batch.n_steps:
            space = Workspace(self.model.packed, batch.n_steps)
        if len(y) < size:
            y = empty_on_a_line(size)
        result = self._call(space, y, batch, group)
        self._spare.append((space, y))
        return result

    def _groups(self, sequences):
        """Sequences of one length that go side by side, or a single one."""
        by_length = {}
        for s in sequences:
            by_length.setdefault(int(self.table.lengths[s]), []).append(int(s))
        for length, members in sorted(by_length.items()):
            # Long ones that do not fill the lanes are better cut.
            n_whole = len(members) // WIDTH * WIDTH if length > _LONG else len(members)
            size = _lanes_of_call(n_whole)
            for at in range(0, n_whole, size):
                yield members[at : min(at + size, n_whole)]
            for s in members[n_whole:]:
                yield [s]

    def _fits(self, n_steps):
        return WIDTH * (self._room + n_steps * step_size(self.d)) <= _MOST_NUMBERS

    def _whole(self, group, n_steps):
        """The batches of whole sequences; none if this is not worthwhile."""
        if not self._fits(n_steps) or (len(group) <= _FEW and self.d > _FEW_STATES):
            return []
        lanes = np.zeros((-(-len(group) // WIDTH) * WIDTH, 5), np.int64)
        rows = self.table.bounds[group]
        # Lanes that are left over repeat the first, and count nothing.
        lanes[:, 0] = rows[0]
        lanes[: len(group), 0] = rows
        lanes[:, 1], lanes[:, 2] = FIRST, LAST
        lanes[: len(group), 4] = n_steps
        return [Batch(lanes, n_steps, 0, self._no_state())]

    def _no_state(self):
        return np.zeros(self.d + self.d * self.d)

    def _start(self, s):
        """How chunks begin, from the first steps of a sequence; None if it does not forget."""
        first, n_steps = self.table.bounds[s], int(self.table.lengths[s])
        lanes = np.zeros((WIDTH, 5), np.int64)
        lanes[:, :3] = first, FIRST_CHECKED, WITHIN
        for warm_up in _WARM_UPS:
            if 4 * warm_up > n_steps or not self._fits(warm_up):
                return None
            state = self._no_state()
            result, _ = self._result(Batch(lanes, warm_up + 1, warm_up, state))
            if result == DONE:
                return Start(warm_up, state)
            if result != NOT_FORGOTTEN:
                return None
        return None

    def _chunks(self, s, start):
        """The batches of a long sequence that is cut into chunks; None if it is not worthwhile."""
        n_rows = int(self.table.lengths[s])
        if start is None or 4 * start.warm_up > n_rows:
            return None
        warm_up = start.warm_up
        count = WIDTH * max(1, n_rows // (WIDTH * _WARM_UPS_IN_CHUNK * warm_up))
        n_steps = 2 * warm_up - (2 * warm_up - n_rows) // count
        if not self._fits(n_steps):
            return None
        # Chunks overlap by two warm-ups or more, and cover the sequence exactly.
        begins = np.arange(count) * (n_rows - n_steps) // (count - 1)
        cuts = np.concatenate([[0], begins[1:] + warm_up, [n_rows]])
        lanes = np.zeros((count, 5), np.int64)
        lanes[:, 0] = self.table.bounds[s] + begins
        lanes[0, 1], lanes[-1, 2] = FIRST, LAST
        lanes[:, 3], lanes[:, 4] = cuts[:-1] - begins, cuts[1:] - begins
        size = _lanes_of_call(count)
        return [
            Batch(lanes[at : at + size], n_steps, warm_up, start.state.copy())
            for at in range(0, count, size)
        ]


def _lanes_of_call(count):
    """How many of so many lanes one call computes: there should be some calls, but not many."""
    return WIDTH * max(1, min(_MOST_ROUNDS, count // (_CALLS * WIDTH)))


def chosen(model, table) -> np.ndarray:
    """The sequences that the lanes are for: with gaps often enough that little is steady.

    If these are most of the data, the others join them: one kernel, to be compiled, serves all.
    """
    nobody = np.empty(0, np.int64)
    if not table.missing or model.varies or model.direct:
        return nobody
    if np.count_nonzero(table.kinds != COMPLETE) * _SELDOM < len(table.X):
        return nobody
    if 2 * table.lengths[table.complete].sum() < len(table.X):
        return np.arange(len(table))
    return np.flatnonzero(~table.complete)


def infer(model, table, sequences, smooth, means, covariances, lags, gains) -> np.ndarray:
    """As :meth:`KalmanModel.infer` for some sequences; returns those that are left to others."""
    values, kinds, _ = table.rows

    def call(space, y, batch, group):
        result = infer_gaps(
            space.x, space.places, values, kinds, batch.lanes, batch.n_steps, batch.warm_up,
            batch.begin, smooth, y, means, covariances, lags, gains,
        )  # fmt: skip
        return result, None

    return Lanes(model, table, call).run(sequences)[0]


def expect(model, table, sequences):
    """The expectation of some sequences, None if they weigh nothing, and those that are left."""
    values, kinds, _ = table.rows
    weights = table.sample_weight
    weights = np.ones(len(table)) if weights is None else weights

    def call(space, y, batch, group):
        each = np.zeros(len(batch.lanes))
        if batch.warm_up > 0 and group:
            # Chunks of one sequence have its weight.
            each[:] = weights[group[0]]
        else:
            each[: len(group)] = weights[list(group)]
        result = expect_gaps(
            space.x, space.places, values, kinds, batch.lanes, batch.n_steps, batch.warm_up,
            batch.begin, each, table.center, y,
        )  # fmt: skip
        if result != DONE:
            return result, None
        sums = space.sums
        statistics = moments_of_sums(sums, table.center)
        return result, (statistics, float(sums.log_likelihood), float(sums.weight))

    left, found = Lanes(model, table, call).run(sequences)
    weight = sum(part[2] for part in found)
    if not weight > 0:
        return None, left
    statistics = sum(part[0] for part in found)
    log_likelihood = sum(part[1] for part in found)
    return Expectation(statistics / weight, log_likelihood / weight, weight), left
