"""hmmlearn: hidden Markov models with Gaussian emissions, by its faster recursions."""

from functools import partial

from hmmlearn.hmm import GaussianHMM

from .. import hidden_markov

# Its interface is fastem's.
hmm_em = partial(hidden_markov.em, kind=GaussianHMM)
hmm_score = partial(hidden_markov.score, kind=GaussianHMM)
hmm_decode = partial(hidden_markov.decode, kind=GaussianHMM)
