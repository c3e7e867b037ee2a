"""The algorithms as functions of arrays, for other libraries to build on.

Arrays go in and named tuples of arrays come out; nothing is learned or kept. Every array is checked
once: its values, and its sizes with those of the others.
"""

from .dirichlet.functions import compound_dirichlet_mle, dirichlet_mle
from .hmm.functions import (
    ExpectedTransitions,
    Forward,
    ForwardBackward,
    Occupancies,
    Viterbi,
    expected_transitions,
    forward,
    forward_backward,
    occupancies,
    sample_states,
    viterbi,
)
from .kalman.functions import KalmanStates, kalman_filter, rts_smoother
from .mixture.functions import (
    ExpectedComponents,
    WeightedMoments,
    gaussian_log_densities,
    gmm_e_step,
    weighted_moments,
)

__all__ = ["ExpectedComponents", "ExpectedTransitions", "Forward", "ForwardBackward",
           "KalmanStates", "Occupancies", "Viterbi", "WeightedMoments", "compound_dirichlet_mle",
           "dirichlet_mle", "expected_transitions", "forward", "forward_backward",
           "gaussian_log_densities", "gmm_e_step", "kalman_filter", "occupancies", "rts_smoother",
           "sample_states", "viterbi", "weighted_moments"]  # fmt: skip
