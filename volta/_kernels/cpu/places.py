"""Where elements are other than 0: how many before each block, and their places in order; and counts of elements."""
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


def _counts(x, low, high, bins, between):
    if between is not None:
        low, high = np.array(between, x.dtype).reshape(2, 1)
    if low is not None and high is not None:
        x = x[(x >= low) & (x <= high)]
        x = np.minimum(((x - low) * x.dtype.type(bins) / (high - low)).astype(np.int64), bins - 1)
    return np.bincount(x[(x >= 0) & (x < bins)].astype(np.int64), minlength=bins)


KERNELS = {"changes": kernel(_changes), "counts": kernel(_counts), "true_starts": kernel(_starts),
           "true_places": kernel(_places), "true_values": kernel(_values)}
