"""What one step observes of the state, in the fewest coordinates, with any of them missing.

With ``R = L Lᵀ`` the observation ``L⁻¹(v - c)`` has unit noise. Reflections turn it so that its
first ``r = min(p, d)`` coordinates hold all that ``v`` says of the state, ``y = C̃ h + unit noise``,
and the others, the rest, are noise alone. So the filter works in ``r`` coordinates, however many
are observed. When R is singular there is no such turn, and ``y = v - c`` itself, with its own R.
"""

from collections import namedtuple

import numpy as np

from .options import kernel
from .small_matrices import (
    SINGULAR,
    factorize,
    invert_lower,
    padded,
    solve,
    store_columns,
    triangularize,
)

#: A linear dynamical system. Each has time as its first axis, of length one if it is constant.
#: A (·, d, d), b (·, d), Q (·, d, d), C (·, p, d), c (·, p), R (·, p, p); and of the first state
#: m (d), V (d, d). ``direct`` says that R is singular at some step.
System = namedtuple("System", "m V A b Q C c R direct")

#: ``y = G (v - c)``: the columns of G and of minus C̃, padded to ``rr``; C̃ (r, d) and R̃ (r, r) as
#: matrices; the columns of the rest (p × pp); ``numbers`` are the rows of the rest, the values
#: seen, and half the logarithm of the determinant of R.
Reduced = namedtuple("Reduced", "G minus_C C R rest numbers turned factor inverse seen")

#: The kinds of steps.
MISSING, COMPLETE, PARTIAL = 0, 1, 2


def reduced_size(d, p, direct):
    return p if direct else min(d, p)


_padded = kernel(padded)
_reduced_size = kernel(reduced_size)


@kernel
def empty_reduced(d, p, direct):
    """Room for what :func:`reduce` writes."""
    r = _reduced_size(d, p, direct)
    rr = _padded(r)
    return Reduced(
        np.zeros(p * rr),
        np.zeros(d * rr),
        np.zeros((r, d)),
        np.zeros((r, r)),
        np.zeros(p * _padded(p)),
        np.zeros(3),
        np.zeros((p, d + p)),
        np.zeros((p, p)),
        np.zeros((p, p)),
        np.zeros(p, np.int64),
    )


@kernel
def reduce(C, R, direct, X, start, out):
    """Reduce the step whose row begins at ``X[start]``; NaN is missing. False if R is singular."""
    p, d = C.shape
    r = out.C.shape[0]
    seen, turned = out.seen, out.turned
    q = 0
    for j in range(p):
        if X[start + j] == X[start + j]:
            seen[q] = j
            q += 1
    for i in range(r):
        for j in range(d):
            out.C[i, j] = 0.0
        for j in range(r):
            out.R[i, j] = 1.0 if i == j else 0.0
    rr = _padded(r)
    for i in range(p * rr):
        out.G[i] = 0.0
    out.numbers[0] = 0.0
    out.numbers[1] = q
    out.numbers[2] = 0.0
    if direct:
        for a in range(q):
            i = seen[a]
            out.G[i * rr + i] = 1.0
            for j in range(d):
                out.C[i, j] = C[i, j]
            for b in range(q):
                out.R[i, seen[b]] = R[i, seen[b]]
    else:
        for a in range(q):
            for b in range(a + 1):
                out.inverse[a, b] = R[seen[a], seen[b]]
        if factorize(out.inverse, q, 0.0, out.factor) < q:
            return False
        half = 0.0
        for a in range(q):
            half += np.log(out.factor[a, a])
        out.numbers[2] = half
        invert_lower(out.factor, q, out.inverse)
        for a in range(q):
            for j in range(d):
                turned[a, j] = 0.0
            for b in range(a + 1):
                x = out.inverse[a, b]
                for j in range(d):
                    turned[a, j] += x * C[seen[b], j]
            for b in range(p):
                turned[a, d + b] = out.inverse[a, b] if b <= a else 0.0
        if q > r:
            triangularize(turned, q, d)
        for a in range(min(q, r)):
            for j in range(d):
                out.C[a, j] = turned[a, j]
            for b in range(q):
                out.G[seen[b] * rr + a] = turned[a, d + b]
        rows = max(0, q - r)
        pp = _padded(p)
        out.numbers[0] = rows
        for i in range(p * pp):
            out.rest[i] = 0.0
        for a in range(rows):
            for b in range(q):
                out.rest[seen[b] * pp + a] = turned[r + a, d + b]
    store_columns(out.C, out.minus_C, 0, rr)
    for i in range(d * rr):
        out.minus_C[i] = -out.minus_C[i]
    return True


#: What is missing, given the state and what is seen: ``v_m = c_m + D h + B (v_o - c_o) + noise Ω``.
#: D (p, d) and B (p, p) have rows for the missing coordinates, zero elsewhere, Ω (p, p) alike.
Filled = namedtuple("Filled", "D B Omega factor solved")


@kernel
def empty_filled(d, p):
    return Filled(
        np.zeros((p, d)), np.zeros((p, p)), np.zeros((p, p)), np.zeros((p, p)), np.zeros((p, p))
    )


@kernel
def fill(C, R, X, start, out):
    """How the missing coordinates of a row depend on the state and on those that are seen."""
    p, d = C.shape
    seen = np.empty(p, np.int64)
    q = 0
    for j in range(p):
        if X[start + j] == X[start + j]:
            seen[q] = j
            q += 1
    for i in range(p):
        for j in range(d):
            out.D[i, j] = 0.0
        for j in range(p):
            out.B[i, j] = 0.0
            out.Omega[i, j] = 0.0
    for a in range(q):
        for b in range(q):
            out.Omega[a, b] = R[seen[a], seen[b]]
        for m in range(p):
            out.solved[a, m] = R[seen[a], m]
    factorize(out.Omega, q, SINGULAR, out.factor)
    solve(out.factor, q, out.solved[:q])
    for i in range(p):
        for j in range(p):
            out.Omega[i, j] = 0.0
    for m in range(p):
        if X[start + m] == X[start + m]:
            continue
        for j in range(d):
            out.D[m, j] = C[m, j]
        for a in range(q):
            x = out.solved[a, m]
            out.B[m, seen[a]] = x
            for j in range(d):
                out.D[m, j] -= x * C[seen[a], j]
        for n in range(m + 1):
            if X[start + n] == X[start + n]:
                continue
            s = R[m, n]
            for a in range(q):
                s -= out.solved[a, m] * R[seen[a], n]
            out.Omega[m, n] = s
            out.Omega[n, m] = s
