"""Two kernels that call functions of one name, which do different things.

Run as a program with the names of kernels, it prints what each of them returns for one.
"""

import sys

from fastem.kernels.options import apart, helper, kernel


def times(factor):
    @helper
    def product(x):
        apart()
        return factor * x

    return product


twice, thrice = times(2.0), times(3.0)


@kernel
def double(x):
    return twice(x)


@kernel
def triple(x):
    return thrice(x)


if __name__ == "__main__":
    print(*(globals()[name](1.0) for name in sys.argv[1:]))
