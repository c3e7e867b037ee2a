"""The Kalman filter (linear dynamical system) as four functions."""

from __future__ import annotations

from functools import cached_property, reduce
from math import prod
from operator import add
from typing import Any

import numpy as np

from .. import algebra
from ..checks import same_shapes
from ..data.batches import check_total
from ..exceptions import NoDensityError
from ..kernels.kalman import entry
from ..kernels.kalman.filter import TO_SQUARE_ROOTS
from ..kernels.kalman.lanes import LEAST
from ..kernels.kalman.maximize import DIAGONAL, FIXED, FULL, SCALAR, maximum, regression_arena
from ..kernels.kalman.one_step import LEAST_PIVOT
from ..kernels.kalman.own import own as own_kernel
from ..kernels.kalman.statistics import infer as infer_kernel
from ..kernels.kalman.system import LANES, NEVER, ROOTS, Packed, Workspace, pack
from ..learning_rate import LEAST_MEMORY, step_size
from ..lengths import Lengths
from ..model import Model
from ..parallel import in_order
from ..statistics import Expectation, Learned, Statistics
from . import checks, gaps
from .alignment import nearest_basis
from .checks import AXES, NAMES
from .constrained import constrained_regression
from .data import Observations, as_observations, as_table
from .log_linear import log_linear_system
from .sums import moments_of_sums, sums_of_moments

__all__ = ["NAMES", "KalmanModel", "NoDensityError", "no_density"]

_LETTERS = frozenset(NAMES.values())
#: The kinds of the covariances Q and R.
SHAPES = {"full": FULL, "diag": DIAGONAL, "spherical": SCALAR}

# Each block of statistics has moments of (y, x) with ``y ~ N(W x + w, N)``. Of the first state,
# which depends on nothing, x is empty; for the others, these are the names of W, w and N.
_REGRESSIONS = {
    "initial": (None, "initial_state_mean", "initial_state_covariance"),
    "transition": ("transition_matrices", "transition_offsets", "transition_covariance"),
    "observation": ("observation_matrices", "observation_offsets", "observation_covariance"),
}

# Above this ratio of the variance of the data to that of the noise, what the noise leaves is summed
# row by row and not taken from products of the data, which cancel.
_LARGEST_RATIO = 1e4


class KalmanModel(Model):
    """``h₁ ~ N(m, V)``, ``h' = A h + b + N(0, Q)``, ``v = C h + c + N(0, R)``. The h are hidden.

    Parameters
    ----------
    parameters : dict of arrays
        Under the names of ``NAMES``; constant in time, except for inference.
    held : dict, optional
        For a name, which of its entries :meth:`maximize` leaves alone: True for all, or an array
        of booleans.
    transition_shape, observation_shape : {'full', 'diag', 'spherical'}
        The kind of Q and of R.
    horizon : Lengths or int, optional
        The lengths of sequences, unless :meth:`own` is told.
    n_jobs : int, optional
        Threads; None: as many as there are cores, one inside a worker. No influence on the result.
    trusted : bool
        Whether the covariances come from a maximum, and need no check that they are positive
        semidefinite. Shapes are always checked.

    Raises
    ------
    ValueError
        If the parameters are not one system: sizes that differ, NaN, or matrices in the place of
        covariances that are not symmetric or not positive semidefinite.
    """

    noun = "Kalman filter"

    def __init__(
        self, parameters, *, held=None, transition_shape="full", observation_shape="full",
        horizon=None, n_jobs=None, trusted=False,
    ):  # fmt: skip
        known = {}
        arrays = checks.check_system(parameters, trusted=trusted, known=known)
        shapes = {
            "transition_covariance": transition_shape,
            "observation_covariance": observation_shape,
        }
        for shape in shapes.values():
            if shape not in SHAPES:
                raise ValueError(f"A covariance is one of {tuple(SHAPES)}; got {shape!r}.")
        vars(self).update(
            _by_letter(arrays),
            held=checks.check_held(held or {}, arrays),
            shapes=shapes,
            horizon=horizon,
            n_jobs=n_jobs,
        )
        if known:
            # As they would be found to be.
            packed = Packed(known["values"], len(self.m), len(self.c), NEVER)
            vars(self).update(packed=packed, varies=False, direct=False)

    # The four functions ---------------------------------------------------------------------

    def expect(self, data) -> Expectation:
        """``S(V|Θ)``: mean moments of h₁, of (h', h) and of (v, h), and of the log-likelihood."""
        return sum(map(self._expect, self.tables(data)))

    def own(self, horizon=None) -> Statistics:
        """``S(Θ)`` for sequences of the lengths ``horizon``."""
        checks.check_constant(self.parameters)
        lengths = self._lengths(horizon)
        space = Workspace(self.packed, 1)
        center = self.c + self.C @ self.m
        if not own_kernel(space.x, space.places, lengths.lengths, lengths.shares, center):
            raise ValueError(_INFINITE)
        return moments_of_sums(space.sums, center)

    def maximize(self, statistics: Statistics) -> KalmanModel:
        """``M(S)``: a Gaussian and two regressions; what is held fixed stays."""
        checks.check_constant(self.parameters)
        self.check_statistics(statistics)
        new = {}
        for block, names in _REGRESSIONS.items():
            letters = map(NAMES.get, names)
            new.update(zip(letters, self._regress(block, statistics[block]), strict=True))
        return self._with(new)

    def log_joint(self, statistics: Statistics) -> float:
        """``Q(S, Θ)``: Gaussian log-densities of h₁, of h' given h, and of v given h."""
        checks.check_constant(self.parameters)
        self.check_statistics(statistics)
        return float(sum(self._log_density(block, statistics[block]) for block in _REGRESSIONS))

    def check_statistics(self, statistics: Statistics) -> None:
        """Raise ``ValueError`` unless these are finite statistics of such a model."""
        checks.check_statistics(statistics, self.A.shape[-1], self.C.shape[-2])

    # What the algorithms ask besides --------------------------------------------------------

    @property
    def parameters(self) -> dict[str, np.ndarray]:
        """All parameters by name."""
        return {name: getattr(self, letter) for name, letter in NAMES.items()}

    @property
    def system(self) -> dict[str, np.ndarray]:
        """All parameters by letter, as kernels are given them."""
        return {letter: getattr(self, letter) for letter in NAMES.values()}

    @cached_property
    def packed(self) -> Packed:
        """The same in one array."""
        return pack(self.system)

    def with_parameters(self, parameters, *, trusted=False) -> KalmanModel:
        """The same kind of model with other parameters."""
        arrays = checks.check_system(parameters, trusted=trusted)
        held = self.held if trusted else checks.check_held(self.held, arrays)
        return self._copied(held=held, **_by_letter(arrays))

    def with_horizon(self, horizon) -> KalmanModel:
        """The same model for sequences of other lengths."""
        return self._copied(horizon=horizon)

    def after_learning_from(self, table, n_before) -> KalmanModel:
        """The same model, which keeps the lengths of the sequences last learned from."""
        return self.with_horizon(table.horizon)

    @property
    def first_memory(self) -> float:
        # A sequence has ten steps or more, mostly.
        n_parameters = sum(array.size for array in self.system.values())
        return max(LEAST_MEMORY, n_parameters / len(self.c))

    def horizon_of(self, data) -> Lengths:
        """The lengths of the sequences."""
        return as_table(data).horizon

    @property
    def fixed(self) -> frozenset[str]:
        """The parameters of which all or some entries are held fixed."""
        return frozenset(name for name, entries in self.held.items() if np.any(entries))

    def with_held(self, held) -> KalmanModel:
        """The same model with other parameters or entries that :meth:`maximize` leaves alone."""
        return self._copied(held=checks.check_held(held, self.parameters))

    def _copied(self, **changes):
        other = super()._copied(**changes)
        # What was found of other parameters.
        if not changes.keys().isdisjoint(_LETTERS):
            for name in ("varies", "direct", "packed", "least_noise"):
                vars(other).pop(name, None)
        return other

    def _with(self, new):
        """The same model with parameters of the same shapes, by letter, whose values are sound."""
        letters = {letter: new[letter] for letter in NAMES.values()}
        if not checks.are_finite(letters.values()):
            for name, letter in NAMES.items():
                checks.check_finite(name, letters[letter], trusted=True)
        return self._copied(**letters)

    @cached_property
    def varies(self) -> bool:
        """Whether some parameter changes with time."""
        return any(getattr(self, NAMES[name]).ndim > len(axes) for name, axes in AXES.items())

    def check_same_kind(self, other) -> None:
        """Raise ``ValueError`` unless ``other`` is a Kalman filter of the same sizes."""
        self._check_class(other, KalmanModel)
        same_shapes(self.parameters, other.parameters)

    def transformed(self, T) -> KalmanModel:
        """The same model with its states in another basis, ``h ← T h``."""
        inverse = np.linalg.inv(T)
        new = {
            "m": T @ self.m,
            "V": _symmetric(T @ self.V @ T.T),
            "A": T @ self.A @ inverse,
            "b": T @ self.b,
            "Q": _symmetric(T @ self.Q @ T.T),
            "C": self.C @ inverse,
        }
        return self._with({**self.system, **new})

    def brought_to(self, other, horizon=None) -> KalmanModel:
        """This model in the basis of its states in which it is nearest to ``other``.

        The divergence to ``other`` never increases; if it does not decrease, the model itself is
        returned.
        """
        return nearest_basis(self, other, horizon)

    def log_linear(self, models, alphas, horizon=None) -> KalmanModel:
        """The model of least ``Σ α_m Δ(Θ̃, Θ_m)``, by iteration."""
        for model in models:
            checks.check_constant(model.parameters)
        shapes = {NAMES[name]: shape for name, shape in self.shapes.items()}
        return self._with(
            log_linear_system(
                [model.system for model in models], alphas, self._lengths(horizon).survival(),
                self.held, shapes,
            )
        )  # fmt: skip

    def draw(self, n_samples, rng, horizon=None) -> Observations:
        """Sequences from the model; ``horizon`` is their length, or :class:`~fastem.Lengths`."""
        checks.check_constant(self.parameters)
        lengths = self._lengths(horizon).draw(n_samples, rng)
        starts = np.concatenate([[0], np.cumsum(lengths)])
        d, p = len(self.m), len(self.c)
        states, h = np.empty((starts[-1], d)), np.empty((n_samples, d))
        roots = {letter: _root(getattr(self, letter)).T for letter in "VQR"}
        for t in range(int(lengths.max())):
            now = np.flatnonzero(lengths > t)
            noise = rng.standard_normal((len(now), d))
            if t == 0:
                h[now] = self.m + noise @ roots["V"]
            else:
                h[now] = h[now] @ self.A.T + self.b + noise @ roots["Q"]
            states[starts[now] + t] = h[now]
        noise = rng.standard_normal((len(states), p))
        return Observations(states @ self.C.T + self.c + noise @ roots["R"], lengths)

    # Passes over data ------------------------------------------------------------------------

    def tables(self, data):
        """The tables of one pass."""
        return as_observations(data).tables()

    def _room(self, sequences):
        """What a :class:`Workspace` for these sequences is made of."""
        # Kernels trust the width and the number of steps they are given.
        if sequences.X.shape[1] != self.c.shape[-1]:
            raise ValueError(
                f"The data have {sequences.X.shape[1]} columns, and the model observes "
                f"{self.c.shape[-1]}."
            )
        longest = int(sequences.lengths.max())
        if self.varies:
            checks.check_times(self.parameters, longest)
        return self.packed, longest, self.direct

    def _expect(self, sequences):
        check_total(sequences.sample_weight, sequences.observation_name)
        room = self._room(sequences)
        side_by_side, chosen = None, gaps.chosen(self, sequences)
        parts = [] if len(chosen) else sequences.parts
        if len(chosen):
            side_by_side, left = gaps.expect(self, sequences, chosen)
            parts = sequences.parts_without(chosen, left)
        with_rest = not room[-1] and self._noise_ratio(sequences, parts) > _LARGEST_RATIO

        def one(part):
            space = self._filtered(sequences, part, room, with_rest)
            sums, rest = space.sums, space.whole.rest.T
            total, log_likelihood = float(sums.weight), float(sums.log_likelihood)
            if not total > 0:
                return None
            rows = sequences.rows_of(part)
            if not with_rest:
                log_likelihood -= 0.5 * _rest_squares(rest, rows, sequences.center - self.c)
            return moments_of_sums(sums, sequences.center, rows), float(log_likelihood), total

        found = [sums for sums in in_order(one, parts, self.n_jobs) if sums is not None]
        expectation: Any = 0 if side_by_side is None else side_by_side
        if found:
            # Sums are added as they are, and scaled once.
            statistics, log_likelihood, total = (
                reduce(add, part) for part in zip(*found, strict=True)
            )
            mean = statistics if total == 1.0 else statistics / total
            expectation += Expectation(mean, log_likelihood / total, total)
        return expectation._replace(horizon=sequences.horizon)

    def _filtered(self, sequences, part, room, with_rest, each=None):
        """The workspace after a pass over a part; log-likelihoods are written to ``each``."""
        if part.is_long and not with_rest and not self.varies:
            space = Workspace(*room)
            failed = entry.expect_long(
                space.x, space.places, *sequences.rows, part.order, sequences.weights,
                sequences.center,
            )  # fmt: skip
        else:
            # Kernels for what few sequences need take seconds to compile.
            lanes = () if len(part.order) < LEAST else (LANES,)
            for abilities in ((ROOTS, *lanes),) if self.direct else (lanes, (ROOTS, *lanes)):
                space = Workspace(*room, abilities)
                failed = entry.expect(
                    space.x, space.places, *sequences.rows, part.order, part.shares,
                    sequences.weights, sequences.center, with_rest, False,
                    np.empty(0) if each is None else each,
                )  # fmt: skip
                if failed[1] != TO_SQUARE_ROOTS:
                    break
        _check_density(sequences, *failed)
        return space

    def _noise_ratio(self, sequences, parts):
        """The variance of the data divided by the least variance of the noise."""
        rows = [sequences.rows_of(part) for part in parts]
        count = sum(n for n, _, _ in rows)
        if count == 0:
            return 0.0
        variance = sum(np.trace(second) for _, _, second in rows) / count
        least = self.least_noise
        return variance / least if least > 0 else np.inf

    @cached_property
    def least_noise(self) -> float:
        """The least variance of the noise in any direction, at any time."""
        return float(np.linalg.eigvalsh(self.R).min())

    @cached_property
    def direct(self) -> bool:
        """Whether R has no safe factor, so that the filter works with the observations' own."""
        # No pivot is less than the least eigenvalue.
        largest = self.R.diagonal(axis1=-2, axis2=-1).max()
        return not self.least_noise > LEAST_PIVOT * largest and has_no_factor(self.R)

    def log_likelihoods(self, data) -> np.ndarray:
        """The log-likelihood of each sequence."""
        sequences = as_table(data)
        room, out = self._room(sequences), np.empty(len(sequences))
        chosen = gaps.chosen(self, sequences)
        parts = [] if len(chosen) else sequences.parts
        if len(chosen):
            none, gains = np.empty((0, 0, 0)), np.empty(len(sequences.X))
            left = gaps.infer(self, sequences, chosen, False, np.empty((0, 0)), none, none, gains)
            out[:] = np.add.reduceat(gains, sequences.starts)
            parts = sequences.parts_without(chosen, left)

        def one(part):
            self._filtered(sequences, part, room, True, out)

        list(in_order(one, parts, self.n_jobs))
        return out

    def infer(self, data, smooth, *, lags=False, scores=True):
        """Of each row: mean and covariance of its state, and, with ``scores``, its log-likelihood.

        The third are, with ``lags``, the covariances of the state of the next row of a sequence
        with that of each row; those of the last row are zero.
        """
        sequences = as_table(data)
        room = self._room(sequences)
        n_rows, d = len(sequences.X), self.A.shape[-1]
        means, covariances = np.empty((n_rows, d)), np.empty((n_rows, d, d))
        neighbors = np.zeros((n_rows if lags else 0, d, d))
        gains = np.empty(n_rows if scores else 0)
        results = means, covariances, neighbors, gains
        order, chosen = np.arange(len(sequences)), gaps.chosen(self, sequences)
        if len(chosen):
            left = gaps.infer(self, sequences, chosen, smooth, *results)
            others = [] if len(chosen) == len(order) else np.setdiff1d(order, chosen)
            order = np.union1d(others, left).astype(np.int64) if len(others) else left
        if len(order) == 0:
            return results
        if len(order) == len(sequences):
            _check_density(sequences, *self._infer(sequences, room, smooth, *results))
            return results
        rows = np.concatenate([np.arange(*sequences.bounds[[s, s + 1]]) for s in order])
        rest = Observations(sequences.X[rows], sequences.lengths[order])
        found = [np.zeros((len(rows) if len(all_rows) else 0, *all_rows.shape[1:]))
                 for all_rows in results]  # fmt: skip
        failed, step = self._infer(rest, room, smooth, *found)
        _check_density(sequences, order[failed] if failed >= 0 else -1, step)
        for all_rows, some in zip(results, found, strict=True):
            all_rows[rows[: len(some)]] = some
        return results

    def _infer(self, sequences, room, smooth, means, covariances, neighbors, gains):
        """The same one sequence after another, into arrays; returns where there is no density."""
        space = Workspace(*room)
        return infer_kernel(
            space.x, space.places, *sequences.rows, sequences.shares(np.arange(len(sequences))),
            smooth, means, covariances, neighbors, gains,
        )  # fmt: skip

    def learn(self, table, rates, batch_size=None, memory=None) -> Learned:
        """Online steps over batches of sequences in order.

        They are taken in a kernel, unless single entries of parameters are held fixed.
        """
        room = self._room(table)
        if self.varies:
            checks.check_constant(self.parameters)
        if not all(isinstance(held, bool) for held in self.held.values()):
            return super().learn(table, rates, batch_size, memory)
        size, rates = algebra.checked_steps(self, table, rates, batch_size, memory)
        rhos = [step_size(eta) for eta in rates[: -(-len(table) // size)]]
        remembered = None if memory is None else sums_of_moments(memory, table.center)
        shares = table.shares(np.arange(len(table)))
        shares[::size] = False
        space = Workspace(*room)
        sequence, step, done, log_likelihood = entry.online(
            space.x, space.places, *table.rows, shares, table.weights, table.center, size,
            np.array(rhos), self._modes(),
            np.empty(0) if remembered is None else remembered.x,
        )  # fmt: skip
        if step == -2:
            raise ValueError(f"{_INFINITE} (at online step {done + 1})")
        if sequence >= 0:
            where = f" at step {step} of sequence {sequence}"
            raise ValueError(f"{no_density(where)} (at online step {done + 1})")
        packed = self.packed._replace(values=space.x[: len(self.packed.values)].copy())
        if not np.isfinite(packed.values).all():
            raise ValueError(
                "The online steps diverged: some parameters are not finite. Try a smaller "
                "learning_rate or larger batches."
            )
        if remembered is not None:
            memory = moments_of_sums(remembered.sums, table.center)
        weight = table.total_weight
        mean = log_likelihood / weight if weight > 0 else float("nan")
        return Learned(self._unpacked(packed), memory, mean)

    def _unpacked(self, packed):
        """The same model with the parameters, which do not change with time, of a packed system."""
        letters, at = {}, 0
        for letter in NAMES.values():
            shape = getattr(self, letter).shape
            size = prod(shape)
            letters[letter] = packed.values[at : at + size].reshape(shape)
            at += size
        other = self._copied(**letters)
        # As they would be found to be.
        vars(other).update(packed=packed, varies=False)
        return other

    def _lengths(self, horizon):
        horizon = self.horizon if horizon is None else horizon
        if horizon is None:
            raise ValueError(
                "A Kalman filter's own statistics depend on the length of the sequences: give "
                "horizon, the number of steps."
            )
        return Lengths.of_sequences(horizon)

    # The maximum ------------------------------------------------------------------------------

    def one_by_one(self):
        """This filter, to be changed in place by one sequence after another."""
        from .one_by_one import KalmanOneByOne

        if not all(isinstance(held, bool) for held in self.held.values()):
            return None
        checks.check_constant(self.parameters)
        return KalmanOneByOne(self, self._modes())

    def _modes(self):
        return np.array([self._mode(name) for name in NAMES])

    def _mode(self, name):
        """What kernels do with a parameter of which no single entries are held."""
        return FIXED if self.held[name] else SHAPES[self.shapes.get(name, "full")]

    def _regression(self, block):
        """W, w and N of ``y ~ N(W x + w, N)``."""
        matrix, offset, covariance = (NAMES.get(name) for name in _REGRESSIONS[block])
        W = np.zeros((len(self.m), 0)) if matrix is None else getattr(self, matrix)
        return W, getattr(self, offset), getattr(self, covariance)

    def _regress(self, block, moments):
        """The best W, w and N for moments of (y, x), as far as they are free."""
        W, w, N = self._regression(block)
        n = float(moments.mass[0])
        if not n > 0:
            return W, w, N
        # The first state has no matrix to learn.
        held = [self.held.get(name, True) for name in _REGRESSIONS[block]]
        covariance = _REGRESSIONS[block][-1]
        if not all(isinstance(part, bool) for part in held):
            held = map(np.broadcast_to, held, (W.shape, w.shape, N.shape))
            shape = self.shapes.get(covariance, "full")
            return constrained_regression(moments, W, w, N, *held, shape)
        arena = regression_arena(*W.shape)
        best = arena.regression
        best.put(scatter=moments.scatter[0], mean=moments.mean[0], W=W, w=w, N=N)
        maximum(arena.x, *W.shape, n, not held[0], not held[1], self._mode(covariance))
        return best.W, best.w, best.N

    def _log_density(self, block, moments):
        """Expected ``Σ log N(y; W x + w, N)``."""
        W, w, N = self._regression(block)
        n, mean, scatter = float(moments.mass[0]), moments.mean[0], moments.scatter[0]
        if not n > 0:
            return 0.0
        k = len(w)
        T = np.hstack([np.eye(k), -W])
        left = T @ mean - w
        residual = T @ scatter @ T.T + n * np.outer(left, left)
        try:
            L = np.linalg.cholesky(N)
        except np.linalg.LinAlgError:
            raise algebra.NoDivergence(
                f"{_REGRESSIONS[block][-1]} is singular, so that the states and observations have "
                "no joint density, and a divergence does not exist."
            ) from None
        half = np.linalg.solve(L, np.linalg.solve(L, residual).T)
        return -0.5 * (n * (k * np.log(2 * np.pi) + 2 * np.log(np.diag(L)).sum()) + np.trace(half))


def has_no_factor(R) -> bool:
    """Whether R, or one of several, has no factor that can be relied on."""
    stack = R.reshape(-1, *R.shape[-2:])
    try:
        pivots = np.linalg.cholesky(stack).diagonal(axis1=1, axis2=2) ** 2
    except np.linalg.LinAlgError:
        return True
    return bool((pivots < LEAST_PIVOT * stack.diagonal(axis1=1, axis2=2)).any())


def _by_letter(arrays):
    return {letter: arrays[name] for name, letter in NAMES.items()}


def _symmetric(matrix):
    return 0.5 * (matrix + matrix.T)


def _root(covariance):
    """A square root of a covariance, which may be singular."""
    values, vectors = np.linalg.eigh(covariance)
    return vectors * np.sqrt(np.maximum(values, 0.0))


def _rest_squares(rest, rows, shift):
    """``Σ |rest (v - c)|²`` over complete rows, from their sums about the center."""
    n, first, second = rows
    along = rest @ shift
    return ((rest @ second) * rest).sum() + 2.0 * (rest @ first) @ along + n * along @ along


_INFINITE = (
    "The state grows without bound over the length of the sequences: the transition matrix has an "
    "eigenvalue above one, and the model's own statistics are infinite. Give shorter sequences "
    "(horizon), or use memory='statistics'."
)


def no_density(where="") -> str:
    """The message for an observation of singular covariance."""
    return (
        f"The observation{where} has no density: its covariance C P Cᵀ + R is not positive "
        "definite. Give the observations some noise (observation_covariance)."
    )


def _check_density(sequences, sequence, step):
    """Raise an error if a kernel stopped at this step of a sequence; -1 means that it did not."""
    if sequence >= 0:
        where = f" of sequence {sequence}" if len(sequences) > 1 else ""
        raise NoDensityError(no_density(f" at step {step}{where}"))
