"""Mixtures of exponential families as four functions."""

from __future__ import annotations

import numpy as np

from .. import algebra, checks
from ..components import Gains, WeightedComponents, pooled_choice
from ..data.rows import Table, admit, as_data, read_rows, readable
from ..exceptions import ImpossibleDataError, NotEnoughData
from ..families import Family
from ..families.base import copy_packed
from ..kernels.mixture import expectation as kernels
from ..kernels.mixture.iteration import iterate as iterate_kernel
from ..kernels.mixture.online import LEAST_SHARE
from ..kernels.mixture.online import online as online_kernel
from ..kernels.mixture.online_rows import online_rows
from ..learning_rate import LEAST_MEMORY
from ..model import Model
from ..notices import REVIVED, warn_of_dead
from ..parallel import add_into, chunks, in_order
from ..statistics import Expectation, Iterated, Learned, Statistics

__all__ = ["MixtureModel", "check_sizes"]


_NO_WEIGHTS = np.empty(0)
_NO_POSTERIORS = np.empty((0, 0))
# Rows of a type that kernels cannot read that are copied at a time.
_COPIED_ROWS = 65_536

#: The weight of a dead component after weights were made to sum to one, rounding included.
_LARGEST_DEAD = LEAST_SHARE * (1.0 + 1e-9)

_DEAD = (
    "{count} of {total} components have no points left (numbers {numbers}); they keep their "
    "parameters and a weight near zero."
)


#: A chunk has so many rows or more.
_LEAST_ROWS = 2048
#: In nanoseconds, as long as a chunk takes at least, of large data and of smaller ones.
_FIVE_MILLISECONDS, _HALF_MILLISECOND = 5e6, 5e5


class MixtureModel(WeightedComponents, Model):
    """A mixture: ``p(x) = Σ_k w_k p(x|θ_k)``. The hidden variable is the component.

    Parameters
    ----------
    family : Family
    weights : array of shape (K,)
    parameters : dict of arrays
        The family's parameters, components along the first axis.
    fixed : iterable of str
        Names of parameters that :meth:`maximize` leaves alone, ``"weights"`` among them.
    n_jobs : int, optional
        Threads; None: as many as there are cores, one inside a worker. No influence on the result.
    told_dead : set of int, optional
        The components whose death the user was told of. The models made of this one share it.
    """

    noun = "mixture"

    def __init__(
        self, family: Family, weights, parameters, *, fixed=(), n_jobs=None, told_dead=None
    ):  # fmt: skip
        family = family.beside_weights()
        weights = checks.numbers("weights", weights)
        packed = family.pack(parameters)
        check_sizes(weights)
        n_components, n_columns = family.size(packed)
        if weights.shape != (n_components,):
            raise ValueError(
                f"weights have the shape {weights.shape}, and the other parameters are those "
                f"of {n_components} components."
            )
        vars(self).update(
            family=family,
            weights=weights,
            packed=packed,
            n_columns=n_columns,
            fixed=frozenset(fixed),
            n_jobs=n_jobs,
            told_dead=set() if told_dead is None else told_dead,
        )

    # The four functions ---------------------------------------------------------------------

    def expect(self, data) -> Expectation:
        """``S(V|Θ)``: means over the rows of ``(γ_k, γ_k φ(x))``, and of the log-likelihood."""
        sums = None
        for table in self.tables(data):
            for part in self._parts(table):
                sums = part if sums is None else add_into(sums, part)
        (log_likelihood, total), mass, buffers = sums
        if not total > 0:
            raise ValueError("The sample weights sum to zero: there is nothing to learn from.")
        horizon = self.family.horizon(self.packed, total, buffers)
        blocks = self.family.collect(self.packed, mass, buffers)
        statistics = Statistics(mass=mass, **blocks) / total
        return Expectation(statistics, float(log_likelihood / total), float(total), horizon)

    def _parts(self, table):
        """The sums over a table in parts: those of its chunks, or of all of them together."""
        chunks = self.chunks(*table.X.shape)

        def of(chunk, packed):
            return self._expect_chunk(table, *chunk, packed)

        single = self._in_single(table.X)
        if single is not None:
            sums = None
            for part in in_order(lambda chunk: of(chunk, single), chunks, self.n_jobs):
                sums = part if sums is None else add_into(sums, part)
            if self._is_precise(sums):
                yield sums
                return
        yield from in_order(lambda chunk: of(chunk, self.packed), chunks, self.n_jobs)

    def _in_single(self, X):
        """The packed family for computing with these rows in float32, None if float64 is better.

        Few rows are worth neither other kernels nor less precision.
        """
        is_single = X.dtype == np.float32 and X.dtype.isnative
        if not is_single or self._is_small(*X.shape, _FIVE_MILLISECONDS / 2):
            return None
        return self.family.in_single(self.packed)

    def _is_precise(self, sums):
        """Whether sums that were computed in float32 will do."""
        (log_likelihood, total), mass, buffers = sums
        if not total > 0 or not np.isfinite(log_likelihood):
            return False
        mass = np.where(mass < LEAST_SHARE * mass.sum(), 0.0, mass)
        return self.family.sums_are_precise(self.packed, mass, buffers)

    def own_of(self, mass, horizon=None) -> Statistics:
        """``(s_k, s_k E[φ|k])`` for the masses ``s``; for the weights it is ``S(Θ)``."""
        return Statistics(mass=mass, **self.family.own(self.packed, mass, horizon))

    def maximize(self, statistics: Statistics) -> MixtureModel:
        """``M(S)``: ``w_k ∝ s₀``, ``θ_k = g⁻¹(s₁/s₀)``."""
        mass = self._mass(statistics)
        total = mass.sum()
        if not total > 0:
            raise ValueError("The statistics have no mass: there is nothing to learn from.")
        dead = mass < LEAST_SHARE * total
        warn_of_dead(dead, mass, LEAST_SHARE * total, self.told_dead, _DEAD)
        weights = self.weights
        if "weights" not in self.fixed:
            weights = np.maximum(mass / total, LEAST_SHARE)
            weights /= weights.sum()
        alive = np.where(dead, 0.0, mass)
        packed = self.family.maximize(statistics, alive, self.packed, self.fixed)
        return self._copied(weights=weights, packed=packed)

    def log_joint(self, statistics: Statistics) -> float:
        """``Q(S, Θ) = Σ_k s₀ log w_k + s₁·θ_k - s₀ G(θ_k)``, without the base measure."""
        mass = self._mass(statistics)
        choice = np.sum(mass[mass > 0] * self.log_weights[mass > 0])
        return float(choice + self.family.log_joint(statistics, mass, self.packed))

    def check_statistics(self, statistics: Statistics) -> None:
        """Raise ``ValueError`` unless these are finite statistics of such a model."""
        self._mass(statistics)
        self.family.check_blocks(statistics, self.packed)
        checks.finite_statistics(statistics)

    # The rest of the interface ------------------------------------------------------------------

    @property
    def parameters(self) -> dict[str, np.ndarray]:
        """All parameters by name."""
        return {"weights": self.weights, **self.family.unpack(self.packed)}

    def with_parameters(self, parameters) -> MixtureModel:
        """The same kind of model with other parameters."""
        parameters = dict(parameters)
        weights = parameters.pop("weights")
        return MixtureModel(self.family, weights, parameters, fixed=self.fixed, n_jobs=self.n_jobs)

    def with_weights(self, weights) -> MixtureModel:
        """The same components with other weights."""
        weights = checks.shaped("weights", checks.numbers("weights", weights), self.weights.shape)
        check_sizes(weights)
        return self._copied(weights=weights)

    def holding(self, fixed, told_dead) -> MixtureModel:
        """The same model with other parameters held fixed, and another memory of deaths."""
        return self._copied(fixed=frozenset(fixed), told_dead=told_dead)

    def _with_packed(self, packed):
        return self if packed is self.packed else self._copied(packed=packed)

    def check_same_kind(self, other) -> None:
        """Raise ``ValueError`` unless ``other`` is a mixture of the same kind and size."""
        self._check_class(other)
        same = type(self.family) is type(other.family)
        if not same or self.family.parameter_names != other.family.parameter_names:
            raise ValueError(f"Models of different kinds: {self.family} and {other.family}.")
        checks.same_shapes(self.parameters, other.parameters)

    def rules_out(self, statistics: Statistics) -> bool:
        """Whether the statistics contain an outcome of probability zero under this model."""
        mass = statistics["mass"]
        chosen = bool(((mass > 0) & (self.weights == 0.0)).any())
        return chosen or self.family.rules_out(statistics, mass, self.packed)

    def without_noise(self) -> MixtureModel:
        """The same model, whose ``expect`` adds no noise to the data."""
        return self._with_packed(self.family.without_noise(self.packed))

    # Alignment: see Components ------------------------------------------------------------------

    def matching_gains(self, other, horizon=None) -> Gains:
        """``w_h (log w̃_l + E_h[log p(x|l)])``."""
        relative = self.family.cross(self.packed, other.packed, horizon)
        w = self.weights[:, None]
        with np.errstate(invalid="ignore"):
            return Gains(np.where(w > 0, w * (other.log_weights + relative), 0.0))

    def component_divergences(self, other, horizon=None) -> np.ndarray:
        """What matching component h to h' of ``other`` adds to the divergence, for all pairs."""
        itself = np.diag(self.matching_gains(self, horizon).pairs)
        return itself[:, None] - self.matching_gains(other, horizon).pairs

    def log_linear(self, models, alphas, horizon=None) -> MixtureModel:
        """The model of least ``Σ α_m Δ(Θ̃, Θ_m)``: natural parameters are averaged."""
        packs = [model.packed for model in models]
        packed = self.family.log_linear(packs, alphas, horizon, self.fixed)
        costs = self.family.log_linear_costs(packed, packs, alphas, horizon)
        weights = self._log_linear_weights(models, alphas, costs)
        return self._copied(weights=weights, packed=packed, told_dead=set())

    def reordered(self, order) -> MixtureModel:
        """The same model with its components in another order."""
        parameters = self.family.reorder(self.family.unpack(self.packed), order)
        # Components have other numbers now.
        return self._copied(
            weights=self.weights[order], packed=self.family.pack(parameters), told_dead=set()
        )

    def arranged(self, other, horizon=None) -> MixtureModel:
        """The same model with what is inside its components in the order of ``other``'s."""
        return self._with_packed(self.family.arranged(self.packed, other.packed, horizon))

    def arranged_to_pool(self, first, alphas, horizon=None) -> MixtureModel:
        """The same, in the order in which components pool best with those of ``first``."""
        a, b = first.weights * alphas[0], self.weights * alphas[1]
        return self._with_packed(
            self.family.arranged_to_pool(first.packed, a, self.packed, b, horizon, first.fixed)
        )

    def pooling_gains(self, first, alphas, orders, horizon=None) -> np.ndarray | None:
        """``Q`` of the combination with ``first``, for orders of the components of this model."""
        a, b = first.weights * alphas[0], self.weights * alphas[1]
        components = self.family.pooled_orders(
            first.packed, a, self.packed, b, orders, horizon, first.fixed
        )
        if components is None:
            return None
        return components + pooled_choice(a + b[orders], first.weights, "weights" in first.fixed)

    def draw(self, n_samples, rng, horizon=None) -> np.ndarray:
        """Rows from the model."""
        p = self.weights / self.weights.sum()
        labels = rng.choice(len(p), size=n_samples, p=p)
        return self.family.draw(self.family.unpack(self.packed), labels, rng, horizon)

    # Passes over data ------------------------------------------------------------------------

    def tables(self, data):
        """The tables of one pass, whose rows kernels can take."""
        # The tables of estimators have been checked, once for all iterations.
        data_or_stream = as_data(data)
        looked_at = isinstance(data, Table) or getattr(data_or_stream, "check", None) is not None
        for table in data_or_stream.tables():
            yield admit(table, self.family, values=not looked_at)

    def read(self, X, sample_weight, start, stop):
        """Rows as a kernel reads them, their weights, base measure, and an array to keep alive."""
        part, log_base = self.family.prepare(X[start:stop])
        # Kernels trust the width they are told.
        if part.shape[1] != self.n_columns:
            raise ValueError(
                f"The data have {part.shape[1]} columns, and the model has {self.n_columns}."
            )
        rows, part = read_rows(part, 0, len(part))
        row_weights = _NO_WEIGHTS
        if sample_weight is not None:
            row_weights = np.ascontiguousarray(sample_weight[start:stop], dtype=float)
        return rows, row_weights, log_base, part

    @property
    def first_memory(self) -> float:
        n_parameters = self.family.n_parameters(self.family.unpack(self.packed))
        return max(LEAST_MEMORY, 10.0 * (n_parameters + len(self.weights)) / self.n_columns)

    def chunks(self, n_rows, n_columns):
        """How rows are cut for threads: a function of the sizes alone."""
        if n_rows < 2 * _LEAST_ROWS:
            return chunks(n_rows, _LEAST_ROWS)
        # Fewer rows than for several such chunks are shared out all the same, for threads to begin
        # together, as long as a chunk takes several times what it takes to start it.
        several = max(self._chunk_rows(n_columns, _HALF_MILLISECOND), n_rows // 4)
        return chunks(n_rows, least=min(self._chunk_rows(n_columns, _FIVE_MILLISECONDS), several))

    def _chunk_rows(self, n_columns, nanoseconds):
        """The rows of a chunk that takes so long."""
        # Starting a chunk takes a thread a tenth of a millisecond.
        n_parameters = self.family.n_parameters(self.family.unpack(self.packed))
        each = 6.0 * len(self.weights) + 0.2 * n_parameters
        return max(_LEAST_ROWS, 4 * n_columns, int(nanoseconds / each))

    def _is_small(self, n_rows, n_columns, nanoseconds=_FIVE_MILLISECONDS):
        """Whether rows are too few for two chunks that take so long, as those of large data do."""
        return len(chunks(n_rows, self._chunk_rows(n_columns, nanoseconds))) == 1

    def _expect_chunk(self, table, start, stop, packed, posteriors=None, *, before_steps=False):
        """Sums over a chunk: log-likelihood and weight, mass, and the family's."""
        weights = table.sample_weight
        rows, row_weights, log_base, part = self.read(table.X, weights, start, stop)
        mass, buffers = np.zeros(len(self.weights)), self.family.buffers(self.packed)
        log_likelihood = 0.0
        if posteriors is None:
            log_likelihood = kernels.expect(
                rows, 0, len(part), row_weights, self.log_weights, packed, mass, buffers
            )
        elif before_steps:
            iterate_kernel(
                rows, len(part), row_weights, posteriors, 0.0, (1.0, 0.0, 0.0), False,
                np.zeros(len(mass), dtype=bool), 0.0, self.weights, packed, mass, buffers,
                False, self.family.flags(self.fixed), np.empty(0),
            )  # fmt: skip
        else:
            kernels.expect_given(rows, len(part), row_weights, posteriors, packed, mass, buffers)
        if log_base is not None:
            log_likelihood += log_base.sum() if weights is None else log_base @ row_weights
        total = float(stop - start) if weights is None else row_weights.sum()
        return np.array([log_likelihood, total]), mass, buffers

    def infer(self, X, *, log_totals=False, posteriors=False, labels=False):
        """Per row of ``X``: log-likelihood, posterior over components, likeliest component."""
        X = admit(Table(np.asarray(X)), self.family).X
        n_rows, n_components = len(X), len(self.weights)
        out_totals = np.empty(n_rows if log_totals else 0)
        out_posteriors = np.empty((n_rows if posteriors else 0, n_components))
        out_labels = np.empty(n_rows if labels else 0, dtype=np.int64)
        log_weights = self.log_weights
        # A log-likelihood is a difference of larger numbers: it is always computed in float64.
        single = None if log_totals else self._in_single(X)

        def one(chunk):
            start, stop = chunk
            rows, _, log_base, part = self.read(X, None, start, stop)
            totals = out_totals[start:stop]
            out = (totals, out_posteriors[start:stop], out_labels[start:stop])
            done = False
            if single is not None:
                done = kernels.infer(rows, 0, len(part), log_weights, single, *out)
            if not done:
                kernels.infer(rows, 0, len(part), log_weights, self.packed, *out)
            if log_base is not None and log_totals:
                totals += log_base

        for _ in in_order(one, self.chunks(*X.shape), self.n_jobs):
            pass
        return out_totals, out_posteriors, out_labels

    def log_likelihoods(self, data) -> np.ndarray:
        """The log-likelihood of each row."""
        tables = self.tables(data)
        return np.concatenate([self.infer(table.X, log_totals=True)[0] for table in tables])

    def expect_given(self, data, responsibilities, *, before_steps=False) -> Statistics:
        """Mean statistics of rows whose responsibilities are given.

        ``responsibilities(start, stop)`` is called in order and returns (stop - start, K).
        ``before_steps`` says that :meth:`iterate` comes next, with the same rows.
        """
        before_steps = before_steps and self._steps_in_kernel(data)
        offset, sums = 0, None
        for table in self.tables(data):
            single = self._in_single(table.X)
            for start, stop in self.chunks(*table.X.shape):
                given = np.ascontiguousarray(
                    responsibilities(offset + start, offset + stop), dtype=float
                )
                checks.shaped("responsibilities", given, (stop - start, len(self.weights)))
                chunk, part = (table, start, stop), None
                if single is not None:
                    part = self._expect_chunk(*chunk, single, given)
                if part is None or not self._is_precise(part):
                    part = self._expect_chunk(*chunk, self.packed, given, before_steps=before_steps)
                sums = part if sums is None else add_into(sums, part)
            offset += len(table.X)
        _, mass, buffers = sums
        blocks = self.family.collect(self.packed, mass, buffers)
        return Statistics(mass=mass, **blocks) / mass.sum()

    def iterate(self, data, limit, prior=None) -> Iterated | None:
        """Steps of batch EM over rows of one chunk, in a kernel."""
        if prior is not None or not self._steps_in_kernel(data):
            return None
        table = admit(data, self.family)
        rows, row_weights, log_base, part = self.read(table.X, table.sample_weight, 0, len(table))
        is_weighted = table.sample_weight is not None
        total = float(row_weights.sum() if is_weighted else len(part))
        if not total > 0:
            return None
        constant = 0.0
        if log_base is not None:
            constant = float(log_base @ row_weights if is_weighted else log_base.sum())
        told_dead = np.zeros(len(self.weights), dtype=bool)
        told_dead[[k for k in self.told_dead if k < len(told_dead)]] = True
        limits = (total, float(limit.least_change(total, None)), float(limit.before))

        def taken(n_steps):
            packed, weights = copy_packed(self.packed), self.weights.copy()
            mass, buffers = np.zeros(len(weights)), self.family.buffers(packed)
            log_likelihoods = np.empty(n_steps)
            n_taken, failed = iterate_kernel(
                rows, len(part), row_weights, _NO_POSTERIORS, constant, limits, limit.both_ways,
                told_dead, REVIVED * LEAST_SHARE, weights, packed, mass, buffers,
                "weights" in self.fixed, self.family.flags(self.fixed), log_likelihoods,
            )  # fmt: skip
            if n_taken == 0:
                return None
            if failed:
                return taken(n_taken)
            horizon = self.family.horizon(packed, total, buffers)
            model = self._copied(weights=weights, packed=packed)
            return Iterated(model, log_likelihoods[:n_taken].tolist(), total, horizon)

        return taken(limit.n_steps)

    def _steps_in_kernel(self, data):
        """Whether :meth:`iterate` takes steps over these data."""
        if not isinstance(data, Table) or not self.family.steps_in_kernel(self.packed):
            return False
        # Rows of float32 that are not few are faster in float32, and by threads.
        return self._is_small(*data.X.shape) and self._in_single(data.X) is None

    def learn(self, table, rates, batch_size=None, memory=None) -> Learned:
        """Online steps over batches of rows in order; the loop is in a kernel if there are many."""
        total = self.weights.sum()
        if abs(total - 1) > 1e-6:
            # An initialization by single points may leave some of the mass out.
            model = self.with_weights(self.weights / total)
            return model.learn(table, rates, batch_size, memory)
        is_whole = batch_size is None
        if (is_whole and len(table) > 1) or not self.family.compiled:
            return super().learn(table, rates, batch_size, memory)
        table = admit(table, self.family)
        batch_size, rates = algebra.checked_steps(self, table, rates, batch_size, memory)
        # Rows that kernels cannot read in place are copied, so a bounded number at a time.
        steps = len(rates) if readable(table.X) else max(1, _COPIED_ROWS // batch_size)
        model, score = self, 0.0
        for first in range(0, len(rates), steps):
            part = table.part(first * batch_size, (first + steps) * batch_size)
            model, memory, gained = model._learn_in_kernel(
                part, rates[first : first + steps], batch_size, memory
            )
            score += gained
        if is_whole and not score > -np.inf:
            raise ImpossibleDataError(f"{self.impossible} (at online step 1)")
        weight = len(table) if table.sample_weight is None else table.sample_weight.sum()
        return Learned(model, memory, score / weight)

    def one_by_one(self):
        """This mixture, to be changed in place by one row after another."""
        from .one_by_one import MixtureOneByOne

        sums_to_one = abs(self.weights.sum() - 1) <= 1e-6
        if not (sums_to_one and self.family.packs_exactly(self.packed)):
            return None
        return MixtureOneByOne(self)

    def warn_of_dead(self, n_dead, weights) -> None:
        """Tell the user of components that died in online steps, after which weights sum to one."""
        if n_dead or (self.told_dead and "weights" not in self.fixed):
            dead = weights <= _LARGEST_DEAD
            warn_of_dead(dead, weights, LEAST_SHARE, self.told_dead, _DEAD)

    def _learn_in_kernel(self, table, rates, batch_size, memory):
        """The model, the memory, and the log-likelihood of all rows."""
        packed = copy_packed(self.packed)
        weights = self.weights.copy()
        rows, row_weights, log_base, part = self.read(table.X, table.sample_weight, 0, len(table))
        row_by_row = batch_size == 1 and self.family.row_by_row
        if row_by_row and memory is None and not self.fixed:
            total, failed, n_dead = online_rows(
                rows, len(part), rates, row_weights, weights, packed
            )
        else:
            if memory is None:
                mass, buffers = np.zeros(len(weights)), self.family.buffers(packed)
            else:
                mass = memory["mass"].copy()
                buffers = self.family.disperse(memory, packed)
            total, failed, n_dead = online_kernel(
                rows, len(part), batch_size, rates, row_weights, weights, packed, mass, buffers,
                memory is not None, "weights" in self.fixed, self.family.flags(self.fixed),
            )  # fmt: skip
            if memory is not None:
                memory = Statistics(mass=mass, **self.family.collect(packed, mass, buffers))
        if failed >= 0:
            raise NotEnoughData(f"{self.family.failure} (at online step {failed + 1})")
        self.warn_of_dead(n_dead, weights)
        if log_base is not None:
            total += log_base.sum() if table.sample_weight is None else log_base @ row_weights
        return self._copied(weights=weights, packed=packed), memory, total


def check_sizes(weights) -> None:
    """Raise ``ValueError`` for weights that are negative, infinite, or all zero."""
    # They need not sum to one: a start by a few points may leave some of the mass out.
    wrong = ~((weights >= 0) & (weights < np.inf))
    if wrong.any():
        k = int(np.argmax(wrong))
        raise ValueError(f"weights must be finite and not negative; weights[{k}] is {weights[k]}.")
    if not weights.any():
        raise ValueError("weights must not all be zero.")
