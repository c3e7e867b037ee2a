"""What a kernel adds up does not depend on where in memory its arrays lie."""

import itertools

import numpy as np
import pytest
from numba.core.caching import NullCache

from fastem.kernels import options
from fastem.kernels.dirichlet.newton import newton_step
from fastem.kernels.hmm.chain import make_chain
from fastem.kernels.hmm.forward import forward_alone
from fastem.kernels.hmm.priors import dirichlet_mode

#: Numbers between two arrays. LLVM takes arrays for near whose beginnings are less than 32 apart.
GAPS = (0, 1, 4, 8, 64)


def laid_out(arrays, gap):
    """Copies of arrays, one behind the other in memory with a gap between them."""
    room = np.empty(sum(array.size + gap for array in arrays))
    copies, at = [], 0
    for array in arrays:
        copies.append(room[at : at + array.size].reshape(array.shape))
        copies[-1][...] = array
        at += array.size + gap
    return copies


def forward(arrays):
    start, b, alpha, totals = arrays
    chain = make_chain(start, CHAIN, ())._replace(start=start)
    forward_alone(chain, len(start), b, 3, False, alpha, totals)
    return alpha[len(start) :], totals[1:]


def newton(arrays):
    return newton_step(arrays[0], arrays[1], 0.001, arrays[2]), arrays[2]


def mode(arrays):
    dirichlet_mode(*arrays, False)
    return (arrays[2],)


N = 12
CHAIN = np.random.default_rng(0).dirichlet(np.ones(N), N)
#: Each with the sizes of its arrays.
WORK = {
    "forward": (forward, [N, 3 * N, 4 * N, 4]),
    "newton": (newton, [N, N, N]),
    "mode": (mode, [N, N, N]),
}


@pytest.mark.parametrize("name", WORK)
@pytest.mark.parametrize("seed", range(5))
def test_sums_are_the_same_wherever_arrays_lie(name, seed):
    work, sizes = WORK[name]
    arrays = [np.random.default_rng([seed, i]).random(n) + 0.1 for i, n in enumerate(sizes)]
    results = set()
    for order in itertools.permutations(range(len(arrays))):
        for gap in GAPS:
            copies = laid_out([arrays[i] for i in order], gap)
            found = work([copies[order.index(i)] for i in range(len(arrays))])
            results.add(tuple(np.asarray(x).tobytes() for x in found))
    assert len(results) == 1


@pytest.mark.skipif(options.WHY_PLAIN is not None, reason="kernels are compiled by numba alone")
def test_the_watch_over_compiled_kernels_finds_a_sum_beside_a_store():
    @options.kernel
    def together(a, b):
        total = 0.0
        for i in range(len(a)):
            b[i] = 2.0 * a[i]
            total += b[i]
        return total

    @options.kernel
    def apart(a, b):
        for i in range(len(a)):
            b[i] = 2.0 * a[i]
        total = 0.0
        for i in range(len(a)):
            total += b[i]
        return total

    for kernel in (apart, together):
        kernel._cache = NullCache()  # what is on disk is not compiled
    assert apart(np.ones(9), np.empty(9)) == 18.0
    with pytest.raises(AssertionError, match="together a loop adds up and stores into an array"):
        together(np.ones(9), np.empty(9))
