"""Elimination with row exchanges, for all matrices of a batch at once: by halves of the columns, so that products of blocks do the work."""
import numpy as np

from volta._kernels.cpu import ldl as symmetric
from volta._kernels.cpu import lu as fast
from volta._kernels.cpu import qr as reflected
from volta._kernels.cpu.decomposition import eased, kernel, triangular
from volta._kernels.cpu.elimination import exchanged, factors
from volta.errors import ArgumentError


def _eliminate(a, pivots, first, last):
    """Columns `first` to `last`, those before them being done. Exchanges move whole rows."""
    if last - first > 1:
        middle = (first + last) // 2
        _eliminate(a, pivots, first, middle)
        block = triangular(a[:, first:middle, first:middle], a[:, first:middle, middle:last], False, True)
        a[:, first:middle, middle:last] = block
        a[:, middle:, middle:last] -= a[:, middle:, first:middle] @ block
        _eliminate(a, pivots, middle, last)
        return
    batch = np.arange(len(a))
    row = first + np.argmax(np.abs(a[:, first:, first]), -1)
    pivots[:, first] = row + 1
    a[batch, row], a[:, first] = a[:, first].copy(), a[batch, row]
    pivot = a[:, first, first]
    a[:, first + 1:, first] /= np.where(pivot == 0, 1, pivot)[:, None]


def _lu(a):
    """The packed factors, the row that each was exchanged with, from 1, and the first pivot that is 0, from 1, or 0."""
    *lead, m, n = a.shape
    k = min(m, n)
    out, pivots = np.array(a).reshape(-1, m, n) if a.size else np.zeros((int(np.prod(lead)), m, n), a.dtype), None
    pivots = np.zeros((len(out), k), np.int32)
    if k and len(out):
        _eliminate(out, pivots, 0, k)
        if n > k:
            out[:, :, k:] = triangular(out[:, :, :k], out[:, :, k:], False, True)
    if not np.isfinite(out).all():
        wrong = ~np.isfinite(out).all((1, 2))
        out[wrong], pivots[wrong], _ = factors(np.reshape(a, out.shape)[wrong])
    zero = np.diagonal(out, axis1=-2, axis2=-1) == 0
    info = np.where(zero.any(-1), zero.argmax(-1) + 1, 0) if k else np.zeros(len(out))
    return out.reshape(a.shape), pivots.reshape(*lead, k), info.astype(np.int32).reshape(lead)


def _geqrf(a):
    packed, tau = np.linalg.qr(a, "raw")
    return np.swapaxes(packed, -1, -2), tau


def _known_swaps(name, lu, pivots):
    """Raise ArgumentError for exchanges with rows that are not there."""
    if pivots.size and (pivots.min() < 1 or pivots.max() > lu.shape[-2]):
        raise ArgumentError(f"{name}: pivots must be between 1 and the {lu.shape[-2]} rows, as lu_factor gives them")


def _rows_exchanged(x, pivots, back=False):
    if not x.size:
        return x
    return exchanged(np.reshape(x, (-1, *x.shape[-2:])), np.reshape(pivots, (-1, pivots.shape[-1])), back).reshape(x.shape)


def _lu_solve(lu, pivots, b, turn):
    """By substitution twice, of what quick kernels give back, or whose batches differ."""
    _known_swaps("linalg.lu_solve", lu, pivots)
    lead = np.broadcast_shapes(lu.shape[:-2], b.shape[:-2])
    b, pivots = np.broadcast_to(b, lead + b.shape[-2:]), np.broadcast_to(pivots, lead + pivots.shape[-1:])
    if not b.size:
        return b
    if not turn:
        return triangular(lu, triangular(lu, _rows_exchanged(b, pivots), False, True), True, False)
    lu = np.swapaxes(lu, -1, -2)
    return _rows_exchanged(triangular(lu, triangular(lu, b, False, False), True, True), pivots, back=True)


def _unpack(lu, pivots):
    """Only for exchanges that are none: raises."""
    _known_swaps("lu_unpack", lu, pivots)


def _no_least(a, b, rtol):
    """What kernels give back: nothing, and no bound."""
    return np.zeros(b.shape, a.dtype), np.full(a.shape[:-2], np.inf, a.dtype)


def _collected(a, tau):
    """V and T of the product of reflections 1 - V T V'."""
    k = tau.shape[-1]
    v = np.tril(a[..., :k], -1) + np.eye(a.shape[-2], k, dtype=a.dtype)
    inner = tau[..., None] * np.triu(np.swapaxes(v, -1, -2) @ v, 1)
    return v, triangular(inner, tau[..., None] * np.eye(k, dtype=a.dtype), True, True)


def _reflections(a, tau):
    v, t = _collected(a, tau)
    n = a.shape[-1]
    return np.eye(a.shape[-2], n, dtype=a.dtype) - v @ (t @ np.swapaxes(v[..., :n, :], -1, -2))


def _reflected(a, tau, c, left, transpose):
    v, t = _collected(a, tau)
    t = np.swapaxes(t, -1, -2) if transpose else t
    return c - v @ (t @ (np.swapaxes(v, -1, -2) @ c)) if left else c - ((c @ v) @ t) @ np.swapaxes(v, -1, -2)


# ---------------------------------------------------------------- symmetric matrices
# A = P1 L1 P2 L2 ... D ... L2' P2' L1' P1', D of blocks of 1 or 2, of which only the lower triangle is read. Of a block at column k, pivots
# hold the row exchanged with its last one, from 1, negative of a block of 2. Source: Bunch and Kaufman, Some Stable Methods for Calculating
# Inertia and Solving Symmetric Linear Systems, 1977, as LAPACK's sytf2.

_BOUND = (1 + 17 ** 0.5) / 8            # on the growth of elements


def _pivot(a, k):
    """(the row to exchange, the width of the block) for column k; the width 0 where nothing is left to divide by."""
    here, column = abs(a[k, k]), np.abs(a[k + 1:, k])
    if np.fmax(here, column.max(initial=0)) == 0:
        return k, 0
    if not column.size or here >= _BOUND * column.max():
        return k, 1
    row = k + 1 + int(column.argmax())
    most = np.abs(a[row, k:row]).max()
    if row + 1 < len(a):
        below = np.abs(a[row + 1:, row]).max()
        most = most if most > below else below          # in this order, for NaN
    if here >= _BOUND * column.max() * (column.max() / most):
        return k, 1
    return row, 1 if abs(a[row, row]) >= _BOUND * most else 2


def _exchange(a, i, j, k):
    """Rows and columns i < j of what is left from column k on, in the lower triangle."""
    a[j + 1:, i], a[j + 1:, j] = a[j + 1:, j].copy(), a[j + 1:, i].copy()
    a[i + 1:j, i], a[j, i + 1:j] = a[j, i + 1:j].copy(), a[i + 1:j, i].copy()
    a[i, i], a[j, j] = a[j, j], a[i, i]
    a[i, k:i], a[j, k:i] = a[j, k:i].copy(), a[i, k:i].copy()


def _block(a, k, width):
    """The inverse of a block of D."""
    if width == 1:
        return 1 / a[k:k + 1, k:k + 1]
    p, q, r = a[k, k], a[k + 1, k], a[k + 1, k + 1]
    return np.array([[r, -q], [-q, p]], a.dtype) / (p * r - q * q)


def _ldl_of_one(a, pivots):
    k, info = 0, 0
    while k < len(a):
        row, width = _pivot(a, k)
        if not width:
            pivots[k], info, k = k + 1, info or k + 1, k + 1
            continue
        last = k + width - 1
        if row != last:
            _exchange(a, last, row, k)
        pivots[k:last + 1] = row + 1 if width == 1 else -row - 1
        _eliminate_block(a, k, last + 1)
        k = last + 1
    return info


def _eliminate_block(a, k, end):
    """What follows the block of columns k to `end`, without it; in LAPACK's terms, which decide what is left of infinities."""
    below = a[end:, k:end].copy()
    if end - k == 1:
        scale = 1 / a[k, k]
        factor = below[:, 0] * scale
        if scale:                                       # of an infinite pivot nothing is taken away
            a[end:, end:] -= np.tril(below * factor)
        a[end:, k] = factor
        return
    between = a[k + 1, k]
    first, second = a[k + 1, k + 1] / between, a[k, k] / between
    scale = 1 / (first * second - 1) / between
    a[end:, k], a[end:, k + 1] = scale * (first * below[:, 0] - below[:, 1]), scale * (second * below[:, 1] - below[:, 0])
    a[end:, end:] -= np.tril(below[:, :1] * a[end:, k] + below[:, 1:] * a[end:, k + 1])


def _ldl(a):
    """The packed factors, the exchanges, and the first block that is 0, from 1, or 0."""
    out, pivots, info = np.tril(a), np.zeros(a.shape[:-1], np.int32), np.zeros(a.shape[:-2], np.int32)
    for i in np.ndindex(info.shape):
        info[i] = _ldl_of_one(out[i], pivots[i])
    return out, pivots, info


def _ldl_solve(a, pivots, b):
    """X of A X = B: B is divided by the factors, one after the other, from both sides of D."""
    lead = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    a, pivots = np.broadcast_to(a, lead + a.shape[-2:]), np.broadcast_to(pivots, lead + pivots.shape[-1:])
    out = np.broadcast_to(b, lead + b.shape[-2:]).copy()
    for i in np.ndindex(lead):
        x, blocks, k = out[i], [], 0
        while k < len(x):
            last, row = min(k + (pivots[i][k] < 0), len(x) - 1), abs(int(pivots[i][k])) - 1
            blocks.append((k, last, row))
            x[[last, row]] = x[[row, last]]
            x[last + 1:] -= a[i][last + 1:, k:last + 1] @ x[k:last + 1]
            x[k:last + 1] = _block(a[i], k, last + 1 - k) @ x[k:last + 1]
            k = last + 1
        for k, last, row in reversed(blocks):
            x[k:last + 1] -= a[i][last + 1:, k:last + 1].T @ x[last + 1:]
            x[[last, row]] = x[[row, last]]
    return out


KERNELS = {function.__name__.removeprefix("_"): kernel(function, (0,)) for function in (
    _lu, _geqrf, _ldl, _ldl_solve, _lu_solve, _reflections, _reflected)}
KERNELS["lu"] = eased(fast.lu, KERNELS["lu"])
KERNELS["geqrf"] = eased(reflected.geqrf, KERNELS["geqrf"])
KERNELS["ldl"] = eased(symmetric.ldl, KERNELS["ldl"])
KERNELS["ldl_solve"] = eased(symmetric.ldl_solve, KERNELS["ldl_solve"])
KERNELS["lu_solve"] = eased(lambda lu, pivots, b, turn: fast.solve_again(lu, pivots, b, turn), KERNELS["lu_solve"])
KERNELS["lu_unpack"] = eased(fast.unpack, kernel(_unpack))
KERNELS["least"] = eased(reflected.least, kernel(_no_least, (0,)))
KERNELS["reflections"] = eased(reflected.reflections, KERNELS["reflections"])
KERNELS["reflected"] = eased(reflected.reflected, KERNELS["reflected"])
