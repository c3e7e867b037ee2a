"""The algorithms, each written once, for any model.

A model is a value with four functions: ``expect`` S(V|Θ), ``own`` S(Θ), ``maximize`` M and
``log_joint`` Q. Everything below is made of these, and of the fact that statistics add and scale.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .learning_rate import rates, step_size
from .statistics import Statistics

__all__ = ["align", "average", "batch", "combine", "divergence", "online", "own_by_simulation",
           "step", "upper_bound"]  # fmt: skip


def batch(model, data):
    """One step of batch EM: ``M(S(V|Θ))``.

    Returns
    -------
    model
        The next model.
    """
    return model.maximize(model.expect(data).statistics)


def online(model, data, eta, memory: Statistics | None = None):
    """One step of online EM: ``M(ρ S(V|Θ) + (1 - ρ) s)`` with ``ρ = η / (1 + η)``.

    Parameters
    ----------
    model
        The present model Θ.
    data
        The new batch V.
    eta : float
        Learning rate, positive. Infinity is batch EM on the batch; near zero the model stays.
    memory : Statistics, optional
        The running statistics ``s`` of Cappé and Moulines. By default the memory is the model
        itself, ``s = S(Θ)``, as in the paper.

    Returns
    -------
    model, statistics
        The next model, and the statistics it maximises, which are the next memory.
    """
    return step(model, model.expect(data), eta, memory)


def step(model, expectation, eta, memory: Statistics | None = None):
    """The step of :func:`online`, for a batch whose expectation is known."""
    rho = step_size(rates(eta, 1, 1)[0])
    if memory is None:
        memory = model.own(expectation.horizon)
    new, inertia = expectation.statistics * rho, memory * (1.0 - rho)
    if hasattr(model, "revived"):
        # A component that comes back from hardly any weight brings a memory to begin with.
        inertia = model.revived(inertia, new, rho / expectation.weight, expectation.horizon)
    statistics = new + inertia
    return model.maximize(statistics), statistics


def combine(models: Sequence, weights=None, horizon=None):
    """The model of least total divergence to several: ``M(Σ α_m S(Θ_m))``."""
    weights = _combining_weights(models, weights)
    total = sum(model.own(horizon) * alpha for model, alpha in zip(models, weights, strict=True))
    return models[0].maximize(total)


def average(models: Sequence, weights=None):
    """Plain averaging of the parameters, which combining is compared with."""
    weights = _combining_weights(models, weights)
    parameters = [model.parameters for model in models]
    return models[0].with_parameters(
        {
            name: sum(alpha * p[name] for p, alpha in zip(parameters, weights, strict=True))
            for name in parameters[0]
        }
    )


def divergence(model, other, horizon=None) -> float:
    """``Δ(Θ, Θ̃) = Q(S(Θ), Θ) - Q(S(Θ), Θ̃)``: the relative entropy of the joint laws."""
    model.check_same_kind(other)
    statistics = model.own(horizon)
    return float(model.log_joint(statistics) - other.log_joint(statistics))


def upper_bound(model, other, data) -> float:
    """EM's bound at Θ on the mean negative log-likelihood of Θ̃.

    ``U_Θ(Θ̃|V) = NLL(Θ|V) + Q(S(V|Θ), Θ) - Q(S(V|Θ), Θ̃)``.
    """
    model.check_same_kind(other)
    expectation = model.expect(data)
    gap = model.log_joint(expectation.statistics) - other.log_joint(expectation.statistics)
    return float(gap - expectation.log_likelihood)


def own_by_simulation(model, n_samples: int, random_state=None, horizon=None) -> Statistics:
    """``S(Θ)`` from ``n_samples`` observations drawn from the model, for want of a closed form.

    By the tower rule the mean of ``S(v|Θ)`` over draws ``v`` from Θ is ``S(Θ)``; the error falls
    as one over the root of ``n_samples``.
    """
    rng = np.random.default_rng(random_state)
    return model.expect(model.draw(n_samples, rng, horizon)).statistics


def align(models: Sequence, weights=None, horizon=None, max_rounds: int = 20) -> list:
    """Bring models that were trained apart together, for least total divergence.

    What may be changed of a model without changing what it says of observations, the order of its
    components or the basis of its states, the model knows (``change_to``, ``changed``,
    ``undone``). Each is brought to a centre, then, until nothing changes, to their combination,
    which lowers the total divergence from the models to what they combine to. Of two first
    centres, the first model and the combination of all as they are, the one with the better end
    is taken: so the total is never more than without aligning components. The first model stays
    as it is.
    """
    weights = _combining_weights(models, weights)
    centres = (models[0], combine(models, weights, horizon))
    ends = [_settle(models, weights, centre, horizon, max_rounds) for centre in centres]
    return min(ends, key=lambda aligned: _total_divergence(aligned, weights, horizon))


def _settle(models, weights, centre, horizon, max_rounds):
    """Bring the models to ``centre``, and then to their combination until nothing changes."""
    changes = None
    for _ in range(max_rounds):
        new = [model.change_to(centre, horizon) for model in models]
        if changes is not None and all(map(np.allclose, changes, new)):
            break
        changes = new
        aligned = [model.changed(change) for model, change in zip(models, changes, strict=True)]
        centre = combine(aligned, weights, horizon)
    return [model.undone(changes[0]) for model in aligned]


def _total_divergence(models, weights, horizon):
    centre = combine(models, weights, horizon)
    return sum(
        alpha * divergence(model, centre, horizon)
        for model, alpha in zip(models, weights, strict=True)
    )


def _combining_weights(models, weights):
    if len(models) == 0:
        raise ValueError("There is nothing to combine: the list of models is empty.")
    for model in models[1:]:
        models[0].check_same_kind(model)
    if weights is None:
        return np.full(len(models), 1.0 / len(models))
    weights = np.asarray(weights, dtype=float)
    if weights.shape != (len(models),):
        raise ValueError(
            f"One weight is needed for each of the {len(models)} models; "
            f"got weights of shape {weights.shape}."
        )
    if not np.isfinite(weights).all() or (weights < 0).any() or weights.sum() <= 0:
        raise ValueError(f"Weights must be nonnegative and not all zero; got {weights.tolist()}.")
    return weights / weights.sum()
