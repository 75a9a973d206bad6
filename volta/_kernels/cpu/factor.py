"""Elimination with row exchanges, for all matrices of a batch at once: by halves of the columns, so that products of blocks do the work."""
import numpy as np

from volta._kernels.cpu.decomposition import kernel, triangular


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
    zero = np.diagonal(out, axis1=-2, axis2=-1) == 0
    info = np.where(zero.any(-1), zero.argmax(-1) + 1, 0) if k else np.zeros(len(out))
    return out.reshape(a.shape), pivots.reshape(*lead, k), info.astype(np.int32).reshape(lead)


def _geqrf(a):
    packed, tau = np.linalg.qr(a, "raw")
    return np.swapaxes(packed, -1, -2), tau


KERNELS = {"lu": kernel(_lu), "geqrf": kernel(_geqrf)}
