"""Where elements are other than 0: how many before each block, and their places in order."""
import numpy as np

from volta._kernels.cpu.decomposition import kernel


def _starts(x, block):
    return np.cumsum(np.concatenate([[0], np.add.reduceat(x != 0, np.arange(0, len(x), block), dtype=np.int64)]))


def _places(x, starts, block, sizes, count):
    return np.stack(np.unravel_index(np.flatnonzero(x)[:count], sizes))


KERNELS = {"true_starts": kernel(_starts), "true_places": kernel(_places)}
