"""Where elements are other than 0: how many before each block, and their places in order."""
import numpy as np

from volta._kernels.cpu.decomposition import kernel


def _changes(x):
    out = np.ones(len(x), bool)
    np.not_equal(x[1:], x[:-1], out=out[1:])
    return out


def _starts(x, block, changes, running):
    found = _changes(x) if changes else x != 0
    counts = np.add.reduceat(found, np.arange(0, len(x), block), dtype=np.int64)
    return np.cumsum(np.concatenate([[0], counts])) if running else counts


def _places(x, starts, block, sizes, count, changes, running):
    return np.stack(np.unravel_index(np.flatnonzero(_changes(x) if changes else x)[:count], sizes))


def _values(x, mask, starts, block, count, changes, running):
    return x[np.flatnonzero(_changes(mask) if changes else mask)[:count]]


KERNELS = {"true_starts": kernel(_starts), "true_places": kernel(_places), "true_values": kernel(_values)}
