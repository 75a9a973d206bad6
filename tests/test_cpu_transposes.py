"""Copies that transpose, bit by bit, of elements of each size and around the tiles in which they are turned."""
import numpy as np
import pytest

import volta


@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.int32, np.int64])
@pytest.mark.parametrize("rows", [13, 16, 24, 31, 40, 70])
@pytest.mark.parametrize("columns", [13, 16, 24, 31, 40, 70])
def test_bits_of_transposed_copies(dtype, rows, columns, rng):
    """Also as floats: any bits, of which some are NaN."""
    x = rng.integers(0, 256, (3, rows, columns * np.dtype(dtype).itemsize), np.uint8).view(dtype)
    found = volta.tensor(x).transpose(1, 2).contiguous().numpy()
    assert found.flags.c_contiguous and np.array_equal(found, x.swapaxes(1, 2))
    floats = {4: np.float32, 8: np.float64}.get(x.itemsize)
    if floats is not None:
        found = volta.tensor(x.view(floats)).transpose(1, 2).contiguous().numpy()
        assert np.array_equal(found.view(dtype), x.swapaxes(1, 2))
