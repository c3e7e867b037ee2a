"""dynamax: hidden Markov models and linear dynamical systems, on JAX in double precision.

Its ``fit_em`` compiles in every call. Here its own E-step and M-step are compiled once, before the
clock starts, and every result is waited for.
"""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from dynamax.hidden_markov_model import DiagonalGaussianHMM, GaussianHMM
from dynamax.linear_gaussian_ssm import LinearGaussianSSM

from ..hidden_markov import path_log_probability
from ..side import Problem, Side

jax.config.update("jax_enable_x64", True)


def _hmm(problem: Problem):
    """The model with priors as weak as can be, its parameters, and the sequences."""
    shape, start = problem.shape, problem.start
    K, D = shape.n_states, shape.n_features
    # At one, a count that underflows to zero would make the mode NaN.
    one = 1.0 + 1e-10
    even = {"initial_probs_concentration": one, "transition_matrix_concentration": one}
    if shape.covariance_type == "diag":
        # So that the mode of the posterior is the likeliest: nothing is added to either sum.
        model = DiagonalGaussianHMM(
            K, D, **even, emission_prior_mean_concentration=0.0,
            emission_prior_concentration=-1.5, emission_prior_scale=0.0,
        )  # fmt: skip
        emissions = {"emission_scale_diags": jnp.sqrt(jnp.asarray(start["covars"]))}
    else:
        model = GaussianHMM(
            K, D, **even, emission_prior_concentration=0.0, emission_prior_scale=0.0,
            emission_prior_extra_df=0.0,
        )  # fmt: skip
        emissions = {"emission_covariances": jnp.asarray(start["covars"])}
    parameters, properties = model.initialize(
        initial_probs=jnp.asarray(start["startprob"]),
        transition_matrix=jnp.asarray(start["transmat"]),
        emission_means=jnp.asarray(start["means"]),
        **emissions,
    )
    rows = jnp.asarray(problem.X.reshape(shape.n_sequences, shape.n_steps, D))
    return model, parameters, properties, rows


def _compiled_em(model, properties):
    """A function of the number of iterations, the parameters and the sequences."""

    def run(n_iter, parameters, rows):
        def iterate(_, parameters):
            statistics, _ = jax.vmap(partial(model.e_step, parameters))(rows)
            state = model.initialize_m_step_state(parameters, properties)
            return model.m_step(parameters, properties, statistics, state)[0]

        return jax.lax.fori_loop(0, n_iter, iterate, parameters)

    return jax.jit(run)


def _total(model):
    """The log-likelihood of all sequences, compiled."""
    return jax.jit(
        lambda parameters, rows: jax.vmap(partial(model.marginal_log_prob, parameters))(rows).sum()
    )


def hmm_em(problem: Problem) -> Side:
    model, parameters, properties, rows = _hmm(problem)
    compiled, total = _compiled_em(model, properties), _total(model)
    return Side(
        lambda n_iter: jax.block_until_ready(compiled(n_iter, parameters, rows)),
        lambda learned: float(total(learned, rows)) / len(problem.X), compiles=True,
    )  # fmt: skip


def hmm_score(problem: Problem) -> Side:
    model, parameters, _, rows = _hmm(problem)
    total = _total(model)
    return Side(
        lambda _: jax.block_until_ready(total(parameters, rows)),
        lambda found: float(found) / len(problem.X), iterates=False, compiles=True,
    )  # fmt: skip


def hmm_decode(problem: Problem) -> Side:
    model, parameters, _, rows = _hmm(problem)
    paths = jax.jit(jax.vmap(partial(model.most_likely_states, parameters)))
    return Side(
        lambda _: jax.block_until_ready(paths(rows)),
        lambda states: path_log_probability(problem, np.asarray(states).ravel()),
        iterates=False, compiles=True,
    )  # fmt: skip


def _system(problem: Problem):
    """The model without offsets, its parameters, and the sequences."""
    shape, start = problem.shape, problem.start
    model = LinearGaussianSSM(
        shape.n_states, shape.n_features, has_dynamics_bias=False, has_emissions_bias=False
    )
    parameters, properties = model.initialize(
        initial_mean=jnp.asarray(start["initial_state_mean"]),
        initial_covariance=jnp.asarray(start["initial_state_covariance"]),
        dynamics_weights=jnp.asarray(start["transition_matrices"]),
        dynamics_covariance=jnp.asarray(start["transition_covariance"]),
        emission_weights=jnp.asarray(start["observation_matrices"]),
        emission_covariance=jnp.asarray(start["observation_covariance"]),
    )
    return model, parameters, properties, jnp.asarray(problem.X)


def kalman_em(problem: Problem) -> Side:
    model, parameters, properties, rows = _system(problem)
    n_rows, total = problem.shape.n_observations, _total(model)

    def answer(learned):
        return float(total(learned, rows)) / n_rows

    if problem.shape.n_sequences == 1:
        compiled = _compiled_em(model, properties)
        return Side(
            lambda n_iter: jax.block_until_ready(compiled(n_iter, parameters, rows)), answer,
            compiles=True,
        )  # fmt: skip
    expect = jax.jit(lambda parameters, rows: jax.vmap(partial(model.e_step, parameters))(rows))

    def run(n_iter):
        for _ in range(n_iter):
            jax.block_until_ready(expect(parameters, rows))
        return parameters

    return Side(
        run, answer, agrees_after=0, compiles=True,
        note="E-step alone: the M-step of several sequences gives an initial covariance that is "
        "not positive definite",
    )  # fmt: skip
