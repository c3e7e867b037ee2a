"""The Kalman filter (linear dynamical system) as four functions."""

from __future__ import annotations

from copy import copy

import numpy as np

from .. import algebra, checks
from ..kernels.kalman import entry
from ..kernels.kalman.layout import Arena
from ..kernels.kalman.maximize import DIAGONAL, FIXED, FULL, SCALAR, maximum, regression_arena
from ..kernels.kalman.own import own as own_kernel
from ..kernels.kalman.statistics import infer as infer_kernel
from ..kernels.kalman.system import Workspace, sums_arena
from ..learning_rate import step_size
from ..lengths import Lengths
from ..model import Model
from ..parallel import in_order
from ..statistics import Expectation, Learned, Moments, Statistics
from .alignment import nearest_basis
from .checks import AXES, check_constant, check_entries, check_statistics, check_system, check_times
from .constrained import constrained_regression
from .data import Observations, as_observations, as_table

__all__ = ["NAMES", "KalmanModel", "NoDensityError"]

#: The parameters by name, and the letters that the formulas use.
NAMES = {
    "initial_state_mean": "m",
    "initial_state_covariance": "V",
    "transition_matrices": "A",
    "transition_offsets": "b",
    "transition_covariance": "Q",
    "observation_matrices": "C",
    "observation_offsets": "c",
    "observation_covariance": "R",
}

_LETTERS = {letter: name for name, letter in NAMES.items()}

#: What may be asked of the covariances Q and R.
SHAPES = {"full": FULL, "diag": DIAGONAL, "spherical": SCALAR}

# R is factored if no pivot is smaller beside its diagonal entry; else the observations' own
# covariance is, which includes the state's.
_LEAST_PIVOT = 1e-8
# Above this ratio of the variance of the data to that of the noise, what the noise leaves is summed
# row by row and not taken from products of the data, which cancel.
_LARGEST_RATIO = 1e4


class NoDensityError(ValueError):
    """An observation has a singular covariance."""


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
        Whether the covariances come from a maximum, so that they are not decomposed to see that
        they are such. Shapes are compared always.

    Raises
    ------
    ValueError
        If the parameters are not one system: sizes that differ, NaN, covariances that are none.
    """

    def __init__(
        self,
        parameters,
        *,
        held=None,
        transition_shape="full",
        observation_shape="full",
        horizon=None,
        n_jobs=None,
        trusted=False,
    ):
        arrays = check_system(parameters, trusted=trusted)
        held = _checked_held(held or {}, arrays)
        for shape in (transition_shape, observation_shape):
            if shape not in SHAPES:
                raise ValueError(f"A covariance is one of {tuple(SHAPES)}; got {shape!r}.")
        vars(self).update(
            {letter: arrays[name] for name, letter in NAMES.items()},
            held=held,
            transition_shape=transition_shape,
            observation_shape=observation_shape,
            horizon=horizon,
            n_jobs=n_jobs,
        )

    # The four functions ---------------------------------------------------------------------

    def expect(self, data) -> Expectation:
        """``S(V|Θ)``: mean moments of h₁, of (h', h) and of (v, h), and of the log-likelihood."""
        total = None
        for sequences in self.tables(data):
            part = self._expect(sequences)
            total = part if total is None else total + part
        return total

    def own(self, horizon=None) -> Statistics:
        """``S(Θ)`` for sequences of the lengths ``horizon``."""
        self._check_constant()
        lengths = self._lengths(horizon)
        space = Workspace(self.system, 1)
        center = self.c + self.C @ self.m
        if not own_kernel(space.x, space.places, lengths.lengths, lengths.shares, center):
            raise ValueError(_INFINITE)
        return _statistics(space.sums, center)

    def maximize(self, statistics: Statistics) -> KalmanModel:
        """``M(S)``: a Gaussian and two regressions; what is held fixed stays."""
        self._check_constant()
        self.check_statistics(statistics)
        new = {"A": self.A, "C": self.C}
        no_matrix = np.zeros((len(self.m), 0))
        _, new["m"], new["V"] = self._regress(
            statistics["initial"], no_matrix, "m", "V", "full", no_matrix
        )
        new["A"], new["b"], new["Q"] = self._regress(
            statistics["transition"], self.A, "b", "Q", self.transition_shape, "A"
        )
        new["C"], new["c"], new["R"] = self._regress(
            statistics["observation"], self.C, "c", "R", self.observation_shape, "C"
        )
        return self._with(new)

    def log_joint(self, statistics: Statistics) -> float:
        """``Q(S, Θ)``: Gaussian log-densities of h₁, of h' given h, and of v given h."""
        self._check_constant()
        self.check_statistics(statistics)
        no_matrix = np.zeros((len(self.m), 0))
        return float(
            _log_density(statistics["initial"], no_matrix, self.m, self.V, "initial_state")
            + _log_density(statistics["transition"], self.A, self.b, self.Q, "transition")
            + _log_density(statistics["observation"], self.C, self.c, self.R, "observation")
        )

    def check_statistics(self, statistics: Statistics) -> None:
        """Raise ``ValueError`` unless these are finite statistics of such a model."""
        check_statistics(statistics, self.A.shape[-1], self.C.shape[-2])

    # What the algorithms ask besides --------------------------------------------------------

    @property
    def parameters(self) -> dict[str, np.ndarray]:
        """All parameters by name."""
        return {name: getattr(self, letter) for name, letter in NAMES.items()}

    @property
    def system(self) -> dict[str, np.ndarray]:
        """All parameters by letter, as kernels are given them."""
        return {letter: getattr(self, letter) for letter in NAMES.values()}

    def with_parameters(self, parameters, *, trusted=False) -> KalmanModel:
        """The same kind of model with other parameters."""
        return KalmanModel(
            parameters,
            held=self.held,
            transition_shape=self.transition_shape,
            observation_shape=self.observation_shape,
            horizon=self.horizon,
            n_jobs=self.n_jobs,
            trusted=trusted,
        )

    def with_horizon(self, horizon) -> KalmanModel:
        """The same model for sequences of other lengths."""
        return self._replaced(horizon=horizon)

    def after_learning_from(self, table, n_before) -> KalmanModel:
        """The same model, which keeps the lengths of the sequences last learned from."""
        return self.with_horizon(table.horizon)

    def horizon_of(self, data) -> Lengths:
        """The lengths of the sequences."""
        return as_table(data).horizon

    def with_held(self, held) -> KalmanModel:
        """The same model, of which :meth:`maximize` leaves other parameters or entries alone."""
        return self._replaced(held=_checked_held(held, self.parameters))

    def _replaced(self, **attributes):
        new = copy(self)
        vars(new).update(attributes)
        return new

    def _with(self, letters):
        return self.with_parameters(
            {name: letters[letter] for name, letter in NAMES.items()}, trusted=True
        )

    @property
    def varies(self) -> bool:
        """Whether some parameter changes with time."""
        return any(getattr(self, NAMES[name]).ndim > len(axes) for name, axes in AXES.items())

    def _check_constant(self):
        if self.varies:
            check_constant(self.parameters)

    def check_same_kind(self, other) -> None:
        """Raise ``ValueError`` unless ``other`` is a Kalman filter of the same sizes."""
        if not isinstance(other, KalmanModel):
            raise ValueError(
                f"Models of different kinds: a Kalman filter and a {type(other).__name__}."
            )
        mine, theirs = self.parameters, other.parameters
        for name in mine:
            if mine[name].shape != theirs[name].shape:
                raise ValueError(
                    f"Models of different sizes: {name} has shape {mine[name].shape} in one and "
                    f"{theirs[name].shape} in another."
                )

    def transformed(self, T) -> KalmanModel:
        """The same model with its states in another basis, ``h ← T h``."""
        inverse = np.linalg.inv(T)
        return self._with(
            {
                "m": T @ self.m,
                "V": _symmetric(T @ self.V @ T.T),
                "A": T @ self.A @ inverse,
                "b": T @ self.b,
                "Q": _symmetric(T @ self.Q @ T.T),
                "C": self.C @ inverse,
                "c": self.c,
                "R": self.R,
            }
        )

    def brought_to(self, other, horizon=None) -> KalmanModel:
        """This model in the basis of its states in which it is nearest to ``other``.

        The divergence to ``other`` is never more than as the model is; if it is no less, the model
        itself is returned.
        """
        return nearest_basis(self, other, horizon)

    def draw(self, n_samples, rng, horizon=None) -> Observations:
        """Sequences from the model; ``horizon`` is their length, or :class:`~fastem.Lengths`."""
        lengths = self._lengths(horizon).draw(n_samples, rng)
        return Observations(self.draw_with_states(lengths, rng)[1], lengths)

    def draw_with_states(self, lengths, rng):
        """States and observations of sequences of the given lengths, one after another."""
        self._check_constant()
        d, p = len(self.m), len(self.c)
        starts = np.concatenate([[0], np.cumsum(lengths)])
        states = np.empty((starts[-1], d))
        roots = {letter: _root(getattr(self, letter)) for letter in "VQR"}
        h = np.empty((len(lengths), d))
        for t in range(int(np.max(lengths))):
            now = np.flatnonzero(np.asarray(lengths) > t)
            noise = rng.standard_normal((len(now), d))
            if t == 0:
                h[now] = self.m + noise @ roots["V"].T
            else:
                h[now] = h[now] @ self.A.T + self.b + noise @ roots["Q"].T
            states[starts[now] + t] = h[now]
        noise = rng.standard_normal((len(states), p))
        return states, states @ self.C.T + self.c + noise @ roots["R"].T

    # Passes over data ------------------------------------------------------------------------

    def tables(self, data):
        """The tables of one pass."""
        return as_observations(data).tables()

    def _expect(self, sequences):
        self._check_width(sequences)
        system, direct, longest = self.system, self.direct, int(sequences.lengths.max())
        rows = [part.rows for part in sequences.parts]
        count = sum(n for n, _, _ in rows)
        with_rest = not direct and self._noise_ratio(rows, count) > _LARGEST_RATIO
        kinds, starts, weights = sequences.kinds, sequences.bounds, sequences.weights
        X = sequences.X.reshape(-1)

        def one(part):
            space = Workspace(system, longest, direct)
            if part.is_long and not with_rest and not self.varies:
                sequence, step = entry.expect_long(
                    space.x, space.places, X, kinds, starts, part.order, weights, sequences.center
                )
            else:
                sequence, step = entry.expect(
                    space.x, space.places, X, kinds, starts, part.order, part.shares, weights,
                    sequences.center, with_rest, False, np.empty(0),
                )  # fmt: skip
            if sequence >= 0:
                raise NoDensityError(_no_density(step, sequence if len(sequences) > 1 else None))
            sums, rest = space.sums, space.whole.rest.T
            total, log_likelihood = float(sums.weight), float(sums.log_likelihood)
            if not total > 0:
                return None
            if not with_rest:
                log_likelihood -= 0.5 * _rest_squares(rest, part.rows, sequences.center - self.c)
            statistics = _statistics(sums, sequences.center, part.rows)
            return Expectation(statistics / total, float(log_likelihood / total), total)

        parts = in_order(one, sequences.parts, self.n_jobs)
        expectation = sum(part for part in parts if part is not None)
        return expectation._replace(horizon=sequences.horizon)

    def _noise_ratio(self, rows, count):
        """The variance of the data beside that of the noise where that is least."""
        if count == 0:
            return 0.0
        variance = sum(np.trace(second) for _, _, second in rows) / count
        least = np.linalg.eigvalsh(self.R).min()
        return variance / least if least > 0 else np.inf

    @property
    def direct(self) -> bool:
        """Whether R has no safe factor, so that the filter works with the observations' own."""
        for R in self.R.reshape(-1, *self.R.shape[-2:]):
            try:
                pivots = np.linalg.cholesky(R).diagonal() ** 2
            except np.linalg.LinAlgError:
                return True
            if (pivots < _LEAST_PIVOT * R.diagonal()).any():
                return True
        return False

    def _check_width(self, sequences):
        # Kernels trust the width and the number of steps they are told.
        if sequences.X.shape[1] != self.c.shape[-1]:
            raise ValueError(
                f"The data have {sequences.X.shape[1]} columns, and the model observes "
                f"{self.c.shape[-1]}."
            )
        if self.varies:
            check_times(self.parameters, int(sequences.lengths.max()))

    def log_likelihoods(self, data) -> np.ndarray:
        """The log-likelihood of each sequence."""
        sequences = as_table(data)
        self._check_width(sequences)
        system, direct, longest = self.system, self.direct, int(sequences.lengths.max())
        out = np.empty(len(sequences))

        def one(part):
            space = Workspace(system, longest, direct)
            sequence, step = entry.expect(
                space.x, space.places, sequences.X.reshape(-1), sequences.kinds, sequences.bounds,
                part.order, part.shares, sequences.weights, sequences.center, True, False, out,
            )  # fmt: skip
            if sequence >= 0:
                raise ValueError(_no_density(step, sequence if len(sequences) > 1 else None))

        for _ in in_order(one, sequences.parts, self.n_jobs):
            pass
        return out

    def infer(self, data, smooth, *, lags=False):
        """Of each row: mean and covariance of its state, and its log-likelihood.

        The third are, with ``lags``, the covariances of the state of the next row of a sequence
        with that of each; of its last row there is none, and there they are zero.
        """
        sequences = as_table(data)
        self._check_width(sequences)
        n_rows, d = len(sequences.X), self.A.shape[-1]
        space = Workspace(self.system, int(sequences.lengths.max()), self.direct)
        means, covariances = np.empty((n_rows, d)), np.empty((n_rows, d, d))
        neighbors = np.zeros((n_rows if lags else 0, d, d))
        gains = np.empty(n_rows)
        shares = sequences.shares(np.arange(len(sequences)))
        sequence, step = infer_kernel(
            space.x, space.places, sequences.X.reshape(-1), sequences.kinds, sequences.bounds,
            shares, smooth, means, covariances, neighbors, gains,
        )  # fmt: skip
        if sequence >= 0:
            raise ValueError(_no_density(step, sequence if len(sequences) > 1 else None))
        return means, covariances, neighbors, gains

    def learn(self, table, rates, batch_size=None, memory=None) -> Learned:
        """Online steps over batches of sequences in order.

        They are taken in a kernel, unless single entries of parameters are held fixed.
        """
        self._check_width(table)
        modes = self.modes()
        if modes is None:
            return super().learn(table, rates, batch_size, memory)
        size = len(table) if batch_size is None else batch_size
        checks.check_batch_size(size)
        n_steps = -(-len(table) // size)
        rhos = [step_size(eta) for eta in checks.check_rates(rates, n_steps)[:n_steps]]
        remembered = None
        if memory is not None:
            self.check_statistics(memory)
            remembered = _sums(memory, table.center)
        shares = table.shares(np.arange(len(table)))
        shares[::size] = False
        space = Workspace(self.system, int(table.lengths.max()), self.direct)
        sequence, step, done, log_likelihood = entry.online(
            space.x, space.places, table.X.reshape(-1), table.kinds, table.bounds, shares,
            table.weights, table.center, size, np.array(rhos), modes,
            np.empty(0) if remembered is None else remembered.x,
        )  # fmt: skip
        if step == -2:
            raise ValueError(f"{_INFINITE} (at online step {done + 1})")
        if sequence >= 0:
            raise ValueError(f"{_no_density(step, sequence)} (at online step {done + 1})")
        letters = {letter: getattr(space.system, letter).copy() for letter in NAMES.values()}
        if not all(np.isfinite(value).all() for value in letters.values()):
            raise ValueError(
                "The online steps diverged: some parameters are not finite. Try a smaller "
                "learning_rate or larger batches."
            )
        if remembered is not None:
            memory = _statistics(remembered.sums, table.center)
        weight = table.total_weight
        mean = log_likelihood / weight if weight > 0 else float("nan")
        return Learned(self._with(letters), memory, mean)

    def _lengths(self, horizon):
        horizon = self.horizon if horizon is None else horizon
        if horizon is None:
            raise ValueError(
                "A Kalman filter's own statistics depend on the length of the sequences: give "
                "horizon, the number of steps."
            )
        lengths = Lengths.of_sequences(horizon)
        # Those of a file or a message were not made by counting.
        n, shares = lengths.lengths, lengths.shares
        whole = n.dtype.kind in "iu" and n.ndim == 1 and n.shape == shares.shape
        if not whole or (np.diff(n) <= 0).any() or not ((shares >= 0) & (shares <= 1)).all():
            raise ValueError(
                f"The lengths of the sequences must ascend, each with its share; got {lengths}."
            )
        return lengths

    # The maximum ------------------------------------------------------------------------------

    def modes(self) -> np.ndarray | None:
        """What the kernels do with each parameter; None if single entries are held."""
        self._check_constant()
        shapes = {"Q": self.transition_shape, "R": self.observation_shape}
        modes = []
        for letter in NAMES.values():
            held = self._held(letter)
            if not isinstance(held, bool):
                return None
            modes.append(FIXED if held else SHAPES[shapes.get(letter, "full")])
        return np.array(modes)

    def _held(self, letter) -> bool | np.ndarray:
        """Which entries of a parameter are held: all, none, or an array of booleans."""
        held = self.held.get(_LETTERS[letter], False)
        if isinstance(held, bool):
            return held
        held = np.broadcast_to(np.asarray(held, dtype=bool), getattr(self, letter).shape)
        return bool(held.all()) if held.all() or not held.any() else held

    def _regress(self, moments, W, offset, covariance, shape, matrix):
        """The best W, w and N for moments of (y, x), as far as they are free."""
        w, N = getattr(self, offset), getattr(self, covariance)
        n = float(moments.mass[0])
        if not n > 0:
            return W, w, N
        k, l = W.shape
        held_w, held_N = self._held(offset), self._held(covariance)
        held_W = self._held(matrix) if isinstance(matrix, str) else True
        if not all(isinstance(held, bool) for held in (held_W, held_w, held_N)):
            held = (
                np.broadcast_to(h, part.shape)
                for h, part in ((held_W, W), (held_w, w), (held_N, N))
            )
            return constrained_regression(moments, W, w, N, *held, shape)
        arena = regression_arena(k, l)
        best = arena.regression
        best.put(scatter=moments.scatter[0], mean=moments.mean[0], W=W, w=w, N=N)
        mode = FIXED if held_N else SHAPES[shape]
        maximum(arena.x, k, l, n, bool(l) and not held_W, not held_w, mode)
        return best.W, best.w, best.N


def _checked_held(held, arrays):
    """For each name, True or False for all of its entries, or an array of booleans."""
    for name in held:
        if name not in NAMES:
            raise ValueError(f"fixed: {name!r} is not one of the parameters {tuple(NAMES)}.")
    return {
        name: entries
        if isinstance(entries, bool)
        else check_entries(name, entries, arrays[name].shape)
        for name, entries in held.items()
    }


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
    return (
        np.einsum("ij,jk,ik->", rest, second, rest)
        + 2.0 * (rest @ first) @ along
        + n * along @ along
    )


def _statistics(sums, center, rows=None):
    """Moments about the means, from a kernel's sums about its reference and the center."""
    reference, first, last, seen = sums.reference, sums.first, sums.last, sums.seen
    states, states2 = seen + sums.unseen, sums.seen2 + sums.unseen2
    v, vv = sums.v, sums.vv
    if rows is not None:
        v, vv = v + rows[1], vv + rows[2]
    return Statistics(
        initial=_moments(sums.weight, first, sums.first2, reference),
        transition=_moments(
            sums.transitions,
            np.concatenate([states - first, states - last]),
            _joined(states2 - sums.first2, sums.lag, states2 - sums.last2),
            np.concatenate([reference, reference]),
        ),
        observation=_moments(
            sums.observed,
            np.concatenate([v, seen]),
            _joined(vv, sums.vh, sums.seen2),
            np.concatenate([center, reference]),
        ),
    )


def _joined(a, b, c):
    """``[[a, b], [bᵀ, c]]``; np.block takes its time."""
    n = len(a)
    out = np.empty((n + len(c), n + len(c)))
    out[:n, :n], out[:n, n:], out[n:, :n], out[n:, n:] = a, b, b.T, c
    return out


def _moments(mass, first, second, reference):
    share = 1.0 / mass if mass > 0 else 0.0
    mean = first * share
    scatter = _symmetric(second) - mass * np.outer(mean, mean)
    return Moments(np.array([mass]), (reference + mean)[None], scatter[None])


def _log_density(moments, W, w, N, name):
    """Expected ``Σ log N(y; W x + w, N)``."""
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
            f"{name}_covariance is singular, so that the states and observations have no joint "
            "density, and a divergence does not exist."
        ) from None
    half = np.linalg.solve(L, np.linalg.solve(L, residual).T)
    return -0.5 * (n * (k * np.log(2 * np.pi) + 2 * np.log(np.diag(L)).sum()) + np.trace(half))


def _sums(statistics, center) -> Arena:
    """A kernel's sums with these moments: the inverse of :func:`_statistics`."""
    p = len(center)

    def raw(name, about):
        moments = statistics[name]
        n, mean = moments.mass[0], moments.mean[0] - about
        return n, n * mean, moments.scatter[0] + n * np.outer(mean, mean)

    reference = statistics["observation"].mean[0][p:]
    d = len(reference)
    n, first, first2 = raw("initial", reference)
    transitions, pair, pair2 = raw("transition", np.concatenate([reference, reference]))
    observed, row, row2 = raw("observation", np.concatenate([center, reference]))
    states, states2 = pair[:d] + first, pair2[:d, :d] + first2
    arena = sums_arena(d, p)
    arena.sums.put(
        weight=n, transitions=transitions, observed=observed, rows=observed, reference=reference,
        first=first, first2=first2, last=states - pair[d:], last2=states2 - pair2[d:, d:],
        seen=row[p:], seen2=row2[p:, p:], unseen=states - row[p:], unseen2=states2 - row2[p:, p:],
        lag=pair2[:d, d:], vh=row2[:p, p:], v=row[:p], vv=row2[:p, :p],
    )  # fmt: skip
    return arena


_INFINITE = (
    "The state grows without bound over the length of the sequences: the transition matrix has an "
    "eigenvalue above one, and the model's own statistics are infinite. Give shorter sequences "
    "(horizon), or use memory='statistics'."
)


def _no_density(step, sequence=None):
    where = f"step {step}" if sequence is None else f"step {step} of sequence {sequence}"
    return (
        f"The observation at {where} has no density: its covariance C P Cᵀ + R is not positive "
        "definite. Give the observations some noise (observation_covariance)."
    )
