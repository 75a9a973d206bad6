"""Elimination of matrices that are singular or not finite, step by step: LAPACK is asked first, and refuses these or differs between its
implementations. What is here gives zeros, infinities and NaN where PyTorch on the CPU does. Leading dimensions are batches.
"""
import numpy as np


def _largest(column):
    """The place of the largest size: of a NaN only where it comes first, as LAPACK compares."""
    sizes = np.abs(column)
    unknown = np.isnan(sizes)
    sizes[unknown] = -1
    sizes[unknown[:, 0], 0] = np.inf
    return np.argmax(sizes, -1)


def factors(a):
    """Of matrices (b, m, n): L and U in one array, the row that each was exchanged with, from 1, and the first pivot that is 0, from 1,
    or 0."""
    a, batch, count = a.copy(), np.arange(len(a)), min(a.shape[1:])
    pivots, info = np.zeros((len(a), count), np.int32), np.zeros(len(a), np.int32)
    for i in range(count):
        row = i + _largest(a[:, i:, i])
        pivots[:, i] = row + 1
        a[batch, row], a[:, i] = a[:, i].copy(), a[batch, row]
        pivot = a[:, i, i]
        info[(info == 0) & (pivot == 0)] = i + 1
        a[:, i + 1:, i] /= np.where(pivot == 0, 1, pivot)[:, None]
        a[:, i + 1:, i + 1:] -= a[:, i + 1:, i, None] * a[:, i, None, i + 1:]
    return a, pivots, info


def exchanged(x, pivots, back=False):
    """The rows of x in the order of the exchanges, or back in that before them."""
    x, batch = x.copy(), np.arange(len(x))
    for i in range(pivots.shape[1])[::-1 if back else 1]:
        row = pivots[:, i] - 1
        x[batch, row], x[:, i] = x[:, i].copy(), x[batch, row]
    return x


def _substituted(a, b, upper, unit):
    """X of a triangular system, a row after the other."""
    x, n = b.copy(), a.shape[-1]
    for i in range(n)[::-1 if upper else 1]:
        if not unit:
            x[:, i] /= a[:, i, i, None]
        rest = slice(0, i) if upper else slice(i + 1, n)
        x[:, rest] -= a[:, rest, i, None] * x[:, i, None]
    return x


def solution(found, b, turned):
    """X of A X = b by the factors of A, or of its transpose (`turned`)."""
    both, pivots, _ = found
    if not turned:
        return _substituted(both, _substituted(both, exchanged(b, pivots), False, True), True, False)
    both = np.swapaxes(both, 1, 2)
    return exchanged(_substituted(both, _substituted(both, b, False, False), True, True), pivots, back=True)


def signs(found):
    """Those of the exchanges, and the pivots."""
    both, pivots, _ = found
    odd = (pivots != np.arange(1, pivots.shape[1] + 1)).sum(-1) % 2
    return np.where(odd, -1, 1).astype(both.dtype), np.diagonal(both, axis1=1, axis2=2)


def inverted(a):
    """The inverses of lower triangular matrices, by columns, without the zeros above the diagonal."""
    out, n = np.zeros_like(a), a.shape[-1]
    for i in range(n)[::-1]:
        out[:, i, i] = 1 / a[:, i, i]
        for j in range(i + 1, n):
            out[:, j, i] = -(out[:, j, i + 1:j + 1] * a[:, i + 1:j + 1, i]).sum(-1) * out[:, i, i]
    return out
