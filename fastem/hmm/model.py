"""Hidden Markov models as four functions."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from .. import checks
from ..components import Components, Gains, pooled_choice
from ..data.sequences import Sequences, as_sequences
from ..exceptions import ImpossibleDataError
from ..families import Family
from ..families.base import copy_packed
from ..kernels.hmm.chain import make_chain
from ..kernels.hmm.emissions import LEAST
from ..kernels.hmm.iteration import iterate as iterate_kernel
from ..kernels.hmm.online import IMPOSSIBLE, NEVER_ABSORBED, NO_MAXIMUM
from ..kernels.hmm.online import online as online_kernel
from ..kernels.hmm.priors import NoPrior
from ..kernels.hmm.sampling import draw_path, sample_until_absorbed
from ..kernels.hmm.usages import absorbing_usages, fixed_length_usages
from ..kernels.mixture.online import LEAST_SHARE
from ..learning_rate import LEAST_MEMORY
from ..lengths import LONGEST_TABLE, Lengths
from ..model import Model
from ..notices import REVIVED, warn_of_dead
from ..revival import revival
from ..statistics import Expectation, Iterated, Learned, Statistics
from .checks import admit_sequences, check_possible, check_values
from .few import Few, are_few
from .log_linear import absorbing_chain, chain_of_lengths
from .passes import Pass

__all__ = ["HMMModel"]

_CHAIN = ("start", "transitions", "mass")


class HMMModel(Components, Model):
    """A hidden Markov model: a chain of states, each of which emits a row.

    The observation is a whole sequence, the hidden variable its path of states.

    Parameters
    ----------
    family : Family
        Of the emissions.
    startprob : array of shape (K,)
    transmat : array of shape (K, K)
        Row i holds the probabilities of the states that follow state i.
    parameters : dict of arrays
        The family's parameters, states along the first axis.
    absorbing : iterable of int
        States that end a sequence.
    fixed : iterable of str
        Names of parameters that :meth:`maximize` leaves alone, ``"startprob"`` and ``"transmat"``
        among them.
    horizon : int, Lengths, or pair of one and the family's horizon, optional
        How long sequences are when :meth:`own` is not told.
    n_jobs : int, optional
        Threads; None: as many as there are cores, one inside a worker. No influence on the result.
    told_dead : set of int, optional
        The states whose death the user was told of. The models made of this one share it.
    """

    noun = "hidden Markov model"

    def __init__(
        self, family: Family, startprob, transmat, parameters, *, absorbing=(), fixed=(),
        horizon=None, n_jobs=None, told_dead=None, packed=None,
    ):  # fmt: skip
        # In a chain a probability of zero means that something is impossible.
        family = family.with_zeros()
        startprob = np.array(checks.numbers("startprob", startprob))
        transmat = np.array(checks.numbers("transmat", transmat), order="C")
        is_checked = packed is not None  # by the estimator
        packed = packed if is_checked else family.pack(parameters)
        n_states = family.size(packed)[0]
        for name, array, shape in (
            ("startprob", startprob, (n_states,)),
            ("transmat", transmat, (n_states, n_states)),
        ):
            if array.shape != shape:
                raise ValueError(
                    f"{name} has the shape {array.shape}, and the emissions are those of "
                    f"{n_states} states: it should be {shape}."
                )
            if not is_checked:
                checks.check_probabilities(name, array)
        is_absorbing = np.zeros(n_states, dtype=bool)
        for state in absorbing:
            if not (isinstance(state, (int, np.integer)) and 0 <= state < n_states):
                raise ValueError(
                    f"absorbing: {state!r} is not one of the states 0 .. {n_states - 1}."
                )
            is_absorbing[state] = True
        if _lengths_in(horizon) is not None:
            Lengths.of_sequences(_lengths_in(horizon))
        vars(self).update(
            family=family,
            startprob=startprob,
            transmat=transmat,
            packed=packed,
            absorbing=is_absorbing,
            fixed=frozenset(fixed),
            horizon=horizon,
            n_jobs=n_jobs,
            told_dead=set() if told_dead is None else told_dead,
        )

    impossible = (
        "A sequence has probability zero under the model: no path of states allows it. Look for "
        "zeros in startprob_, transmat_ or the emissions."
    )

    # The four functions ---------------------------------------------------------------------

    def expect(self, data) -> Expectation:
        """``S(V|Θ)``: means over the sequences, and the mean log-likelihood."""
        tables = self.tables(data)
        parts = [part for part in map(self._expect_table, tables) if part is not None]
        if not parts:
            raise ValueError("The sample weights sum to zero: there is nothing to learn from.")
        return sum(parts)

    def own(self, horizon=None) -> Statistics:
        """``S(Θ)``: usages of the states, with the chain's and the family's own expectations."""
        emissions, transitions = self.usages(horizon)
        blocks = self.family.own(self.packed, emissions, self._family_horizon(horizon))
        steps = transitions[:, None] * self.transmat
        return Statistics(start=self.startprob, transitions=steps, mass=emissions, **blocks)

    def maximize(self, statistics: Statistics) -> HMMModel:
        """``M(S)``: ``π ∝ s_π``, rows of ``A`` ∝ counts of transitions, ``θ_k = g⁻¹(s₁/s₀)``."""
        startprob, transmat = self.startprob, self.transmat
        start, transitions, mass, blocks = self._parts(statistics)
        if "startprob" not in self.fixed and start.sum() > 0:
            startprob = normalized(start)
        if "transmat" not in self.fixed:
            totals = transitions.sum(axis=1)
            # A state that is never left keeps its row, as does one that ends the sequence.
            left = (totals > LEAST_SHARE * totals.sum()) & ~self.absorbing
            transmat = np.ascontiguousarray(np.where(left[:, None], transitions, transmat))
            transmat[left] = normalized(transmat[left])
        least = LEAST_SHARE * mass.sum()
        dead = mass < least
        warn_of_dead(dead, mass, least, self.told_dead, _DEAD)
        alive = np.where(dead, 0.0, mass)
        packed = self.family.maximize(blocks, alive, self.packed, self.fixed)
        return self._copied(startprob=startprob, transmat=transmat, packed=packed)

    def log_joint(self, statistics: Statistics) -> float:
        """``Q(S, Θ)``: start, transitions and emissions, without the base measure."""
        start, transitions, mass, blocks = self._parts(statistics)
        chain = _dot_log(start, self.startprob) + _dot_log(transitions, self.transmat)
        total = float(chain + self.family.log_joint(blocks, mass, self.packed))
        # In a chain what has probability zero is impossible, however little of it there is.
        return total if total > LEAST and not self.rules_out(statistics) else -np.inf

    def _parts(self, statistics):
        """Start, transitions and mass, of the right shapes, and the family's blocks."""
        blocks = dict(checks.statistics_of(statistics).items())
        shapes = (self.startprob.shape, self.transmat.shape, self.startprob.shape)
        for name, shape in zip(_CHAIN, shapes, strict=True):
            checks.block(blocks, name, shape)
        return *(blocks.pop(name) for name in _CHAIN), blocks

    def check_statistics(self, statistics: Statistics) -> None:
        """Raise ``ValueError`` unless these are finite statistics of such a model."""
        self._parts(statistics)
        self.family.check_blocks(statistics, self.packed)
        checks.finite_statistics(statistics)

    # The rest of the interface ----------------------------------------------------------------

    def revived(self, inertia: Statistics, gained: Statistics, observation, horizon=None):
        """``inertia``, increased for states that return from almost no visits."""
        more = revival(inertia["mass"], gained["mass"], observation)
        rows = (statistics["transitions"].sum(axis=1) for statistics in (inertia, gained))
        followed = revival(*rows, observation)
        if not (more.any() or followed.any()):
            return inertia
        blocks = self.family.own(self.packed, more, self._family_horizon(horizon))
        start, steps = np.zeros_like(self.startprob), followed[:, None] * self.transmat
        return inertia + Statistics(start=start, transitions=steps, mass=more, **blocks)

    @property
    def parameters(self) -> dict[str, np.ndarray]:
        """All parameters by name."""
        chain = {"startprob": self.startprob, "transmat": self.transmat}
        return {**chain, **self.family.unpack(self.packed)}

    def with_parameters(self, parameters) -> HMMModel:
        """The same kind of model with other parameters."""
        return HMMModel(
            self.family, parameters["startprob"], parameters["transmat"], parameters,
            absorbing=np.flatnonzero(self.absorbing), fixed=self.fixed, horizon=self.horizon,
            n_jobs=self.n_jobs, told_dead=self.told_dead,
        )  # fmt: skip

    def _with_packed(self, packed):
        return self if packed is self.packed else self._copied(packed=packed)

    def with_horizon(self, horizon) -> HMMModel:
        """The same model, for sequences of these lengths (or a pair, of which they are the first).

        Lengths mean nothing to a chain that ends by absorption.
        """
        return self._copied(horizon=None if self.absorbing.any() else _lengths_in(horizon))

    def after_learning_from(self, table, n_before) -> HMMModel:
        """The same model; the lengths of new sequences are added to those seen before."""
        before, lengths = _lengths_in(self.horizon), table.horizon
        if before is not None and not self.absorbing.any():
            share = table.total_weight / (n_before + table.total_weight)
            lengths = (1.0 - share) * Lengths.of_sequences(before) + share * lengths
        return self.with_horizon(lengths)

    def horizon_of(self, data):
        """The lengths of the sequences and the family's horizon."""
        expectation = self.expect(data)
        check_possible(self, data, expectation.log_likelihood)
        return expectation.horizon

    def check_same_kind(self, other) -> None:
        """Raise ``ValueError`` unless ``other`` is a hidden Markov model of the same kind."""
        self._check_class(other, HMMModel)
        mine, theirs = self.parameters, other.parameters
        if type(self.family) is not type(other.family) or mine.keys() != theirs.keys():
            raise ValueError(f"Models of different kinds: {self.family} and {other.family}.")
        checks.same_shapes(mine, theirs)
        if self.absorbing.sum() != other.absorbing.sum():
            raise ValueError(
                "Models of different kinds: "
                f"{self.absorbing.sum()} states are absorbing in one and "
                f"{other.absorbing.sum()} in another."
            )

    def check_same_order(self, other) -> None:
        """Raise ``ValueError`` if states of the two cannot correspond in the given order."""
        if not np.array_equal(self.absorbing, other.absorbing):
            raise ValueError(
                f"States {np.flatnonzero(self.absorbing).tolist()} are absorbing in one model and "
                f"{np.flatnonzero(other.absorbing).tolist()} in another. Leave align=True to match "
                "their states first."
            )

    def rules_out(self, statistics: Statistics) -> bool:
        """Whether the statistics contain an outcome of probability zero under this model."""
        start, transitions, mass, blocks = self._parts(statistics)
        return bool(
            ((start > 0) & (self.startprob == 0.0)).any()
            or ((transitions > 0) & (self.transmat == 0.0)).any()
            or self.family.rules_out(blocks, mass, self.packed)
        )

    def without_noise(self) -> HMMModel:
        """The same model, whose ``expect`` adds no noise to the data."""
        return self._with_packed(self.family.without_noise(self.packed))

    # Aligning: see Components -----------------------------------------------------------------

    @property
    def n_components(self) -> int:
        """The number of states."""
        return len(self.startprob)

    def may_order(self, first, orders):
        """Which orders of this model's states have the same states absorbing as ``first``."""
        return (self.absorbing[orders] == first.absorbing).all(axis=1)

    def matching_gains(self, other, horizon=None) -> Gains:
        """``π_h log π̃_l + u_h E_h[log p(x|l)]``, and the transitions."""
        emissions, leaving = self.usages(horizon)
        emissions, start = emissions[:, None], self.startprob[:, None]
        relative = self.family.cross(self.packed, other.packed, self._family_horizon(horizon))
        with np.errstate(divide="ignore", invalid="ignore"):
            logs = np.log(other.transmat)
            pairs = np.where(start > 0, start * np.log(other.startprob), 0.0)
            pairs = pairs + np.where(emissions > 0, emissions * relative, 0.0)
        # A state that ends sequences is matched to one that does.
        allowed = self.absorbing[:, None] == other.absorbing[None, :]
        return Gains(pairs, leaving[:, None] * self.transmat, logs, allowed)

    def log_linear(self, models, alphas, horizon=None) -> HMMModel:
        """The model of least ``Σ α_m Δ(Θ̃, Θ_m)``."""
        for model in models:
            self.check_same_order(model)
        size, packs = self._family_horizon(horizon), [model.packed for model in models]
        packed = self.family.log_linear(packs, alphas, size, self.fixed)
        costs = self.family.log_linear_costs(packed, packs, alphas, size)
        chains = [model.startprob for model in models], [model.transmat for model in models]
        lengths = self._lengths(horizon)
        if lengths is None:
            chain = absorbing_chain(*chains, alphas, costs, self.absorbing, self.fixed)
        else:
            chain = chain_of_lengths(*chains, alphas, costs, lengths.survival(), self.fixed)
        startprob, transmat = map(np.ascontiguousarray, map(normalized, chain))
        return self._copied(startprob=startprob, transmat=transmat, packed=packed, told_dead=set())

    def reordered(self, order) -> HMMModel:
        """The same model with its states in another order."""
        order = np.asarray(order)
        parameters = self.family.reorder(self.family.unpack(self.packed), order)
        return self._copied(
            startprob=self.startprob[order],
            transmat=self.transmat[np.ix_(order, order)],
            packed=self.family.pack(parameters),
            absorbing=self.absorbing[order],
            told_dead=set(),  # states have other numbers now
        )

    def arranged(self, other, horizon=None) -> HMMModel:
        """The same model with what is inside its states in the order of ``other``'s."""
        packed = self.family.arranged(self.packed, other.packed, self._family_horizon(horizon))
        return self._with_packed(packed)

    def arranged_to_pool(self, first, alphas, horizon=None) -> HMMModel:
        """The same, in the order in which states pool best with those of ``first``."""
        packed = self.family.arranged_to_pool(
            first.packed, first.usages(horizon)[0] * alphas[0], self.packed,
            self.usages(horizon)[0] * alphas[1], self._family_horizon(horizon), first.fixed,
        )  # fmt: skip
        return self._with_packed(packed)

    def pooling_gains(self, first, alphas, orders, horizon=None) -> np.ndarray | None:
        """``Q`` of the combination with ``first``, for orders of the states of this model."""
        (first_mass, first_leaving), (mass, leaving) = first.usages(horizon), self.usages(horizon)
        emissions = self.family.pooled_orders(
            first.packed, first_mass * alphas[0], self.packed, mass * alphas[1], orders,
            self._family_horizon(horizon), first.fixed,
        )  # fmt: skip
        if emissions is None:
            return None
        start = alphas[0] * first.startprob + alphas[1] * self.startprob[orders]
        start = pooled_choice(start, first.startprob, "startprob" in first.fixed)
        steps = leaving[:, None] * self.transmat
        steps = alphas[1] * steps[orders[:, :, None], orders[:, None, :]]
        steps = steps + alphas[0] * first_leaving[:, None] * first.transmat
        steps = pooled_choice(steps, first.transmat, "transmat" in first.fixed)
        return emissions + (start + steps.sum(axis=1))

    def draw(self, n_samples, rng, horizon=None) -> Sequences:
        """Sequences from the model: of lengths from the horizon, or until absorption."""
        return self.draw_with_states(n_samples, rng, horizon)[0]

    def draw_with_states(self, n_samples, rng, horizon=None):
        """Sequences from the model, and the states of their rows."""
        lengths = self._lengths(horizon)
        if lengths is None:
            paths = [self._absorbed_path(rng) for _ in range(n_samples)]
        else:
            paths = [self.sample_path(n, rng) for n in lengths.draw(n_samples, rng)]
        states = np.concatenate(paths)
        parameters = self.family.unpack(self.packed)
        X = self.family.draw(parameters, states, rng, self._family_horizon(horizon))
        return Sequences(np.asarray(X), [len(path) for path in paths], missing=False), states

    def sample_path(self, n_steps, rng, first=None) -> np.ndarray:
        """``n_steps`` states in a row; from state ``first`` if it is given."""
        return draw_path(self.startprob, self.transmat, n_steps, rng, first)

    def _absorbed_path(self, rng):
        n_steps = 64
        # A path that is not absorbed in time is drawn again, longer, from the same numbers.
        uniforms = np.empty(0)
        while True:
            uniforms = np.concatenate([uniforms, rng.random(n_steps)])
            states = np.empty(len(uniforms), dtype=np.int64)
            length = sample_until_absorbed(
                self.startprob, self.transmat, self.absorbing, uniforms, states
            )
            if length > 0:
                return states[:length]
            n_steps *= 2
            if n_steps > 2**26:
                raise ValueError(_NEVER_ABSORBED)

    # The horizon -----------------------------------------------------------------------------

    def _lengths(self, horizon):
        """The lengths of sequences; None if they end by absorption."""
        if self.absorbing.any():
            return None
        lengths = _lengths_in(self.horizon if horizon is None else horizon)
        if lengths is None:
            raise ValueError(
                "How long are the sequences? A hidden Markov model's own statistics depend on it: "
                "pass horizon=T, the number of steps, or a fastem.Lengths."
            )
        return Lengths.of_sequences(lengths)

    def _family_horizon(self, horizon):
        horizon = self.horizon if horizon is None else horizon
        return horizon[1] if isinstance(horizon, tuple) else None

    def usages(self, horizon=None) -> tuple[np.ndarray, np.ndarray]:
        """Expected visits of each state in a sequence: those that emit, those that are left."""
        lengths = self._lengths(horizon)
        chain = self.startprob, self.transmat
        if lengths is not None and lengths.lengths[-1] > LONGEST_TABLE:
            return long_usages(*chain, lengths)
        emissions, transitions = np.zeros((2, len(self.startprob)))
        if lengths is not None:
            fixed_length_usages(*chain, lengths.survival(), emissions, transitions)
        elif not absorbing_usages(*chain, self.absorbing, emissions, transitions):
            raise ValueError(_NEVER_ABSORBED)
        return emissions, transitions

    # Passes over data ------------------------------------------------------------------------

    def tables(self, data):
        """The tables of one pass; values that have not been checked before are checked."""
        is_checked = isinstance(data, Sequences) or getattr(data, "check", None) is not None
        for table in as_sequences(data).tables():
            if not is_checked:
                checks.check_table(table.X)
                table.missing = check_values(table, self.family)
            yield table

    def _pass(self, table):
        admit_sequences(table, self.family)
        return Pass(self.kernel_chain, self.family, self.packed, table, self.n_jobs)

    @property
    def first_memory(self) -> float:
        # A sequence has ten steps or more, mostly.
        n_parameters = sum(array.size for array in self.parameters.values())
        return max(LEAST_MEMORY, n_parameters / self.family.size(self.packed)[1])

    @cached_property
    def few(self) -> Few:
        """This model, ready for a few short sequences."""
        return Few(self)

    def __getstate__(self):
        # Copies, and files, make it themselves when they need it: other parameters may follow.
        return {name: value for name, value in vars(self).items() if name != "few"}

    @property
    def kernel_chain(self):
        """The chain as kernels take it, in arrays of its own."""
        flags = self.absorbing if self.absorbing.any() else ()
        return make_chain(self.startprob, self.transmat, flags)

    def _expect_table(self, table):
        """The expectation over one table; None if nothing in it counts."""
        weights = table.sample_weight
        if weights is not None and not weights.any():
            return None
        sweep = self._pass(table)
        start, counts, xi, mass, buffers = sweep.statistics()
        n, size = sweep.n_states, sweep.size
        transitions = (counts * sweep.chain.forward + xi).reshape(size, size)[:n, :n]
        scores, weight = sweep.log_likelihoods, table.total_weight
        # A sequence of no weight is left out, whatever it contains.
        score = scores.sum() if weights is None else scores[weights > 0] @ weights[weights > 0]
        horizon = (
            None if self.absorbing.any() else table.horizon,
            self.family.horizon(self.packed, mass.sum(), buffers),
        )
        blocks = self.family.collect(self.packed, mass, buffers)
        statistics = Statistics(start=start, transitions=transitions, mass=mass, **blocks)
        return Expectation(statistics / weight, float(score / weight), weight, horizon)

    def log_likelihoods(self, data) -> np.ndarray:
        """The log-likelihood of each sequence."""
        return self.infer(data)[0]

    def infer(self, data, *, posteriors=False):
        """Log-likelihood of each sequence, and the posterior of the state at each row."""
        return self._results(data, Pass.posteriors if posteriors else Pass.score)

    def decode(self, data):
        """The likeliest path of each sequence: log-probabilities, and the state at each row."""
        return self._results(data, Pass.paths)

    def _results(self, data, result):
        """What passes over all tables give, for each sequence and for each row."""
        results = [result(self._pass(table)) for table in self.tables(data)]
        scores, rows = zip(*results, strict=True)
        return np.concatenate(scores), np.concatenate(rows)

    def iterate(self, data, limit, prior=None) -> Iterated | None:
        """Steps of batch EM over a few short sequences, in a kernel.

        ``prior`` is one of ``kernels/hmm/priors.py``; ``emissions`` are None if they have none.
        """
        if not isinstance(data, Sequences) or data.missing:
            return None
        few = are_few(len(data.X), len(data), len(self.startprob))
        weight = data.total_weight
        if not (few and weight > 0 and self.family.steps_in_kernel(self.packed)):
            return None
        sweep = self._pass(data)
        batch, _rows, log_base = sweep.read_all()
        constant = 0.0
        if log_base is not None:
            base, weights = np.add.reduceat(log_base, data.starts), data.sample_weight
            constant = float(base.sum() if weights is None else base @ weights)
        told_dead = np.zeros(len(self.startprob), dtype=bool)
        told_dead[list(self.told_dead)] = True
        plain = NoPrior(told_dead, REVIVED * LEAST_SHARE)
        if prior is None:
            prior = plain
        elif prior.emissions is None:
            prior = prior._replace(emissions=plain)
        lengths = None if self.absorbing.any() else data.horizon
        limits = (weight, float(limit.least_change(weight, (lengths, None))), float(limit.before))

        def taken(n_steps):
            packed, mass = copy_packed(self.packed), np.zeros(len(self.startprob))
            startprob, transmat = self.startprob.copy(), self.transmat.copy()
            buffers, log_likelihoods = self.family.buffers(packed), np.empty(n_steps)
            n_taken, failed = iterate_kernel(
                self.kernel_chain, batch, constant, limits, limit.both_ways, startprob, transmat,
                packed, prior, mass, buffers, "startprob" in self.fixed, "transmat" in self.fixed,
                self.family.flags(self.fixed), log_likelihoods,
            )  # fmt: skip
            if n_taken == 0:
                return None
            if failed:
                return taken(n_taken)
            horizon = lengths, self.family.horizon(packed, mass.sum(), buffers)
            model = self._copied(startprob=startprob, transmat=transmat, packed=packed)
            return Iterated(model, log_likelihoods[:n_taken].tolist(), weight, horizon)

        return taken(limit.n_steps)

    def learn(self, table, rates, batch_size=None, memory=None) -> Learned:
        """Online steps over batches of sequences in order; small batches run in a kernel."""
        size = len(table) if batch_size is None else batch_size
        checks.check_batch_size(size)
        if not self._in_kernel(table, size):
            return super().learn(table, rates, batch_size, memory)
        rates = checks.check_rates(rates, -(-len(table) // size))
        if memory is not None:
            self.check_statistics(memory)
        return self._learn_in_kernel(table, rates, size, memory)

    def _in_kernel(self, table, batch_size):
        """Whether the loop over batches runs in a kernel: it takes sequences one by one."""
        size = -(-len(self.startprob) // 4) * 4
        mean, longest = table.lengths.mean(), table.lengths.max()
        small = batch_size < 8 or batch_size * mean * size < 2**12
        is_short = longest < self.most_steps_in_kernel
        return self.family.compiled and not table.missing and small and is_short

    @property
    def most_steps_in_kernel(self) -> float:
        """Sequences that are learned from in a kernel have fewer steps."""
        return 2**20 / (-(-len(self.startprob) // 4) * 4)

    def one_by_one(self):
        """This model, to be changed in place by one sequence after another."""
        from .one_by_one import HMMOneByOne

        if not self.family.packs_exactly(self.packed):
            return None
        return HMMOneByOne(self)

    @property
    def lengths(self) -> Lengths:
        """The lengths of the sequences learned from."""
        return Lengths.of_sequences(_lengths_in(self.horizon))

    def _learn_in_kernel(self, table, rates, batch_size, memory):
        packed = copy_packed(self.packed)
        startprob, transmat = self.startprob.copy(), self.transmat.copy()
        keep = memory is not None
        if keep:
            start, transitions, mass = (memory[name].copy() for name in _CHAIN)
            buffers = self.family.disperse(memory, packed)
        else:
            start, transitions, mass = map(np.zeros_like, (startprob, transmat, startprob))
            buffers = self.family.buffers(packed)
        sweep = self._pass(table)
        batch, _rows, log_base = sweep.read_all()
        total, failed, reason = online_kernel(
            sweep.chain, batch, batch_size, np.asarray(rates, dtype=float), startprob, transmat,
            packed, start, transitions, mass, buffers, keep, "startprob" in self.fixed,
            "transmat" in self.fixed, self.family.flags(self.fixed),
        )  # fmt: skip
        if failed >= 0:
            reasons = {
                NO_MAXIMUM: f"{self.family.failure} (at online step {failed + 1})",
                IMPOSSIBLE: f"{self.impossible} (at online step {failed + 1})",
                NEVER_ABSORBED: _NEVER_ABSORBED,
            }
            kind = ImpossibleDataError if reason == IMPOSSIBLE else ValueError
            raise kind(reasons[reason])
        if keep:
            blocks = self.family.collect(packed, mass, buffers)
            memory = Statistics(start=start, transitions=transitions, mass=mass, **blocks)
        weights = table.sample_weight
        if log_base is not None:
            base = np.add.reduceat(log_base, table.starts)
            total += base.sum() if weights is None else base @ weights
        weight = table.total_weight
        model = self._copied(startprob=startprob, transmat=transmat, packed=packed)
        return Learned(model, memory, total / weight)


def _lengths_in(horizon):
    """The lengths of sequences in a horizon, which may be a pair of them and the family's."""
    return horizon[0] if isinstance(horizon, tuple) else horizon


def long_usages(startprob, transmat, lengths):
    """Usages for lengths of any size: sums of powers of ``A`` by doubling, not step by step.

    With ``G(m) = I + A + … + A^(m-1)``, ``G(2m) = G(m) + G(m) A^m``.
    """
    n_states = len(startprob)
    delta, total, done = startprob, np.zeros(n_states), 0  # δ^(done + 1), and the sum before it
    emissions, transitions = np.zeros(n_states), np.zeros(n_states)
    for length, share in zip(lengths.lengths.tolist(), lengths.shares, strict=True):
        power, powers = transmat, np.eye(n_states)  # A^m and G(m), m = 1
        steps, done = length - 1 - done, length - 1
        while steps:
            if steps & 1:
                total = total + delta @ powers
                delta = normalized(delta @ power)
            powers = powers + powers @ power
            # Rows of a power of A sum to one but for rounding, which doubling would double.
            power = normalized(power @ power)
            steps >>= 1
        transitions += share * total
        emissions += share * (total + delta)
    return emissions, transitions


def normalized(rows):
    """Rows divided by their sums, twice: the second time takes off what rounding left."""
    rows = rows / rows.sum(axis=-1, keepdims=True)
    return rows / rows.sum(axis=-1, keepdims=True)


def _dot_log(counts, probabilities):
    """``Σ counts log probabilities``, with ``0 log 0 = 0``."""
    counted = counts > 0
    with np.errstate(divide="ignore"):
        return np.sum(counts[counted] * np.log(probabilities[counted]))


_DEAD = (
    "{count} of {total} states are never visited (numbers {numbers}); they keep their parameters."
)

_NEVER_ABSORBED = (
    "This chain need not ever be absorbed: from some state that it can reach, no absorbing state "
    "can be reached. Give every transient state a way to an absorbing one."
)
