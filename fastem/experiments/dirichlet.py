"""A compound Dirichlet distribution learned online, as in the paper's Figure 1c.

2,000 documents over 10 words, in mini-batches of 100; the inertia from 2,000 pseudo-documents, as
the paper has it, and beside it the exact one.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..dirichlet import CompoundDirichlet
from ..learning_rate import Decay
from .claims import OURS, above, overtakes, stable
from .learning import batch_levels, batch_losses, online_losses
from .result import Claim, Curve, Figure, Level, Result, Size

__all__ = ["PRINTED", "READINGS", "last_losses", "names", "run"]

N_WORDS, LENGTH, BATCH, BETA = 10, 10, 100, 0.9
RATES = (0.5, 1.0, 2.0)
N_BATCH_STEPS = 10
#: What the paper prints: the last losses, by η₀.
PRINTED = {0.5: 10.09, 2.0: 10.08}


def some_alpha(rng):
    """The law of the truth."""
    return rng.uniform(0.2, 3.0, N_WORDS)


class Reading(NamedTuple):
    """Where learning starts, and how often the documents are read."""

    name: str
    title: str
    from_moments: bool
    n_passes: int
    start: str

    def data(self, n_documents: int, seed: int = 0):
        """Documents of ten words, and the α they are drawn from."""
        rng = np.random.default_rng(seed)
        alpha = some_alpha(rng)
        return rng.multinomial(LENGTH, rng.dirichlet(alpha, n_documents)), alpha

    def first_model(self, X, seed: int) -> CompoundDirichlet:
        """A start that depends on the seed."""
        rng = np.random.default_rng(1000 + seed)
        if self.from_moments:
            some = X[rng.choice(len(X), 100, replace=False)]
            alpha = CompoundDirichlet(max_iter=0).fit(some).alpha_
        else:
            alpha = some_alpha(rng)
        model = CompoundDirichlet(alpha_init=alpha, max_iter=0, batch_size=BATCH, random_state=seed)
        return model.fit(X)


#: The main one first; docs/reproduction.md has the rule that chose it.
READINGS = (
    Reading(
        "moments", "moments of 100 documents", True, 1, "from the moments of 100 random documents"
    ),
    Reading("drawn", "drawn anew", False, 10, "another such α"),
)  # fmt: skip


def last_losses(reading: Reading, seed_of_truth: int, n_starts: int) -> dict[float, float]:
    """The last losses of the learning rates for which the paper prints them."""
    X, _ = reading.data(2000, seed_of_truth)
    passes = np.tile(X, (reading.n_passes, 1))
    found = {eta: [] for eta in PRINTED}
    for seed in range(n_starts):
        start = reading.first_model(X, seed)
        for eta, losses in found.items():
            settings = {"learning_rate": Decay(eta, BETA), "inertia": "sampled", "n_pseudo": 2000}
            losses.append(online_losses(start, passes, X, [0, len(passes)], **settings)[-1])
    return {eta: float(np.mean(losses)) for eta, losses in found.items()}


def names(size: Size) -> list[str]:
    """The names of the results, the main reading's first."""
    return [f"dirichlet-{reading.name}" for reading in READINGS]


def run(size: Size, data_folder, bars, done=()):
    """All starts; yields a result for each reading."""
    for reading, name in zip(READINGS, names(size), strict=True):
        if name not in done:
            yield run_reading(size, bars, reading, name)


def run_reading(size: Size, bars, reading: Reading, name: str) -> Result:
    """Both kinds of inertia, and batch EM, from all starts."""
    n_documents = 400 if size.quick else 2000
    n_pseudo = 200 if size.quick else 2000
    X, alpha = reading.data(n_documents)
    passes = np.tile(X, (reading.n_passes, 1))
    at = list(range(0, len(passes) + 1, BATCH))
    kinds = {
        "exact inertia": {"inertia": "exact"},
        "sampled inertia": {"inertia": "sampled", "n_pseudo": n_pseudo},
    }
    losses = {(kind, eta): [] for kind in kinds for eta in RATES}
    batch, best = [], []
    with bars(size.n_starts * (len(losses) + 1), f"dirichlet, {reading.title}") as bar:
        for seed in range(size.n_starts):
            start = reading.first_model(X, seed)
            batch.append(batch_losses(start, X, N_BATCH_STEPS))
            best.append(-CompoundDirichlet().fit(X).lower_bound_)
            bar.update()
            for (kind, eta), found in losses.items():
                found.append(
                    online_losses(
                        start, passes, X, at, learning_rate=Decay(eta, BETA), **kinds[kind]
                    )
                )
                bar.update()
    return report(size, reading, name, at, losses, batch, best, X, alpha, n_pseudo)


def report(size, reading, name, at, losses, batch, best, X, alpha, n_pseudo) -> Result:
    """Figures and claims."""
    steps = [n / len(X) for n in at]
    curves = {
        key: Curve(f"online, {key[0]}, η₀ = {key[1]:g}", steps, found, shown=key[1] == 1.0)
        for key, found in losses.items()
    }
    one, ten = batch_levels(batch, 1, N_BATCH_STEPS)
    optimum = Level("the maximum of the likelihood", best)
    exact, sampled = (curves[kind, 1.0] for kind in ("exact inertia", "sampled inertia"))
    gap = 100 * (sampled.final - exact.final) / abs(exact.final)
    noise = np.abs(np.subtract(sampled.losses, exact.losses)).max()
    claims = [
        Claim(
            "online EM effectively learns the parameters",
            f"{sampled.mean[0]:.3f} at the start, {sampled.final:.3f} at the end, "
            f"{optimum.mean:.3f} at the optimum",
            bool(sampled.final <= optimum.mean + 0.01 * abs(optimum.mean)
                 and sampled.final < sampled.mean[0]),
            "the online EM algorithm effectively learns the model parameters",
            "ends lower than it started, and at most 1 % above the maximum of the likelihood",
        ),
        overtakes(sampled, one, 1, "passes", OURS),
        above(sampled, ten, 1.0, OURS),
        stable(
            [curves["sampled inertia", eta] for eta in RATES], 1.0,
            "10.09 and 10.08 for η₀ = 0.5 and 2: 0.1 % apart",
        ),
        Claim(
            "sampling approximates the inertia",
            f"{abs(gap):.2g} % {'above' if gap > 0 else 'below'}; the largest difference on the "
            f"way is {noise:.2g}",
            bool(abs(gap) <= 1.0),
            OURS,
            "last losses within 1 % of those with the exact inertia",
        ),
    ]  # fmt: skip
    times = f"{reading.n_passes} passes" if reading.n_passes > 1 else "one pass"
    figure = Figure(
        name,
        f"Compound Dirichlet, 10 words: {reading.title}",
        f"passes over the documents, in mini-batches of {BATCH}",
        [sampled, exact, *[c for c in curves.values() if not c.shown]],
        [one, ten, optimum],
        y_label="negative log-likelihood of a document",
        caption=f"Online EM in {times} with the inertia sampled as in the paper and in closed "
        "form, and batch EM from the same starts, each step of which is a pass too.",
    )
    return Result(
        name, "dirichlet", "Compound Dirichlet distribution", size.name, size.n_starts,
        {
            "data": f"{len(X):,} documents of {LENGTH} words each, drawn from the model",
            "truth": "α uniform between 0.2 and 3: " + ", ".join(f"{a:.2f}" for a in alpha),
            "start": reading.start,
            "online": f"{times} in batches of {BATCH}, η = η₀/t^{BETA}, η₀ = 1 (also 0.5 and 2)",
            "inertia": f"{n_pseudo:,} pseudo-documents at each step; and exact",
        },
        [figure],
        claims,
        [
            "The paper calls the inertia intractable. It is not: the words of a document, given "
            "its topic, do not depend on α, so that the sum over documents collapses and "
            "S(α) = ψ(α) - ψ(α₀). The sampled form is kept to compare.",
            "The paper does not say how long its documents are; with ten words the loss is about "
            "what it reports.",
        ],
        reading=reading.title,
        main=reading is READINGS[0],
    )  # fmt: skip
