"""What one step observes of the state, in the fewest coordinates, with any of them missing.

With ``R = L Lᵀ`` the observation ``L⁻¹(v - c)`` has unit noise. Reflections turn it so that its
first ``r = min(p, d)`` coordinates hold all that ``v`` says of the state, ``y = C̃ h + unit noise``,
and the others, the rest, are noise alone. So the filter works in ``r`` coordinates, however many
are observed. When R is singular there is no such turn, and ``y = v - c`` itself, with its own R.
"""

from ..options import apart, helper
from ..small_matrices import (
    SINGULAR,
    clear,
    factorize,
    half_log_determinant,
    invert_lower,
    solve,
    store_columns,
    triangularize,
)

#: The kinds of steps.
MISSING, COMPLETE, PARTIAL = 0, 1, 2


@helper
def find_seen(x, w, X, row):
    """List the coordinates of a row that are not NaN; returns how many. No row has them all."""
    apart()
    n = 0
    for j in range(w.p):
        if row < 0 or X[row + j] == X[row + j]:
            x[w.room.indices + n] = j
            n += 1
    return n


@helper
def reduce(x, w, X, row, out):
    """Reduce the step whose row begins at ``X[row]``, or a complete one if that is negative.

    ``y = G (v - c)``, by the columns of G; C̃ and R̃; the columns of the rest, and how many rows it
    has; how many values are seen; half of log det R. Returns False if R is not definite.
    """
    apart()
    d, p, r, rr, pp, room = w.d, w.p, w.r, w.rr, w.pp, w.room
    n = find_seen(x, w, X, row)
    clear(x, out.G, p * rr)
    clear(x, out.Ct, r * d)
    clear(x, out.Rt, r * r)
    clear(x, out.rest, p * pp)
    for i in range(r):
        x[out.Rt + i * r + i] = 1.0
    rows = 0
    half = 0.0
    if w.direct:
        for a in range(n):
            i = int(x[room.indices + a])
            x[out.G + i * rr + i] = 1.0
            for j in range(d):
                x[out.Ct + i * d + j] = x[room.C + i * d + j]
            for b in range(n):
                j = int(x[room.indices + b])
                x[out.Rt + i * r + j] = x[room.R + i * p + j]
    else:
        for a in range(n):
            i = int(x[room.indices + a])
            for b in range(n):
                x[room.inverse + a * n + b] = x[room.R + i * p + int(x[room.indices + b])]
        if factorize(x, room.inverse, n, 0.0, room.factor) < n:
            return False
        half = half_log_determinant(x, room.factor, n)
        invert_lower(x, room.factor, n, room.inverse)
        width = d + n
        for a in range(n):
            for j in range(d):
                s = 0.0
                for b in range(a + 1):
                    i = int(x[room.indices + b])
                    s += x[room.inverse + a * n + b] * x[room.C + i * d + j]
                x[room.turned + a * width + j] = s
            for b in range(n):
                x[room.turned + a * width + d + b] = x[room.inverse + a * n + b]
        if n > r:
            triangularize(x, room.turned, n, width, d)
            rows = n - r
        for a in range(n):
            if a < r:
                for j in range(d):
                    x[out.Ct + a * d + j] = x[room.turned + a * width + j]
            for b in range(n):
                j = int(x[room.indices + b])
                value = x[room.turned + a * width + d + b]
                if a < r:
                    x[out.G + j * rr + a] = value
                else:
                    x[out.rest + j * pp + a - r] = value
    store_columns(x, out.Ct, r, d, -1.0, rr, out.minus_C)
    x[out.rest_rows] = rows
    x[out.n_seen] = n
    x[out.half] = half
    return True


@helper
def fill(x, w, X, row):
    """How the missing coordinates of a row depend on the state and on those that are seen.

    ``v_m = c_m + D h + B (v_o - c_o) + noise of covariance Ω``. D, B (``room.fill``) and Ω have
    rows for the missing coordinates and are zero elsewhere.
    """
    apart()
    d, p, room = w.d, w.p, w.room
    n = find_seen(x, w, X, row)
    clear(x, room.D, p * d)
    clear(x, room.fill, p * p)
    clear(x, room.Omega, p * p)
    for a in range(n):
        i = int(x[room.indices + a])
        for b in range(n):
            x[room.inverse + a * n + b] = x[room.R + i * p + int(x[room.indices + b])]
        for m in range(p):
            x[room.solved + a * p + m] = x[room.R + i * p + m]
    factorize(x, room.inverse, n, SINGULAR, room.factor)
    solve(x, room.factor, n, p, room.solved)
    for m in range(p):
        if X[row + m] == X[row + m]:
            continue
        for j in range(d):
            s = x[room.C + m * d + j]
            for a in range(n):
                i = int(x[room.indices + a])
                s -= x[room.solved + a * p + m] * x[room.C + i * d + j]
            x[room.D + m * d + j] = s
        for a in range(n):
            x[room.fill + m * p + int(x[room.indices + a])] = x[room.solved + a * p + m]
        for k in range(p):
            if X[row + k] == X[row + k]:
                continue
            s = x[room.R + m * p + k]
            for a in range(n):
                i = int(x[room.indices + a])
                s -= x[room.solved + a * p + m] * x[room.R + i * p + k]
            x[room.Omega + m * p + k] = s
