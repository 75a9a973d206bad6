"""NumPy's numbers beside tensors count as Python's, on either side of an operator; its arrays keep their memory where PyTorch's do."""
import operator

import numpy as np
import pytest

import volta


@pytest.mark.parametrize("op", [operator.sub, operator.truediv, operator.floordiv, operator.mod, operator.pow])
def test_on_the_left(op):
    for shape in ((), (2,)):
        integers, halves = volta.ones(shape, dtype=volta.int8), volta.ones(shape, dtype=volta.float16)
        assert op(np.int64(2), integers).dtype == op(2, integers).dtype
        assert op(np.float32(2), halves).dtype == volta.float16
        assert op(np.float16(2), integers).dtype == volta.float32
        assert op(np.int64(6), integers + 1).tolist() == op(6, integers + 1).tolist()


def test_the_legacy_constructors_share_memory():
    array = np.zeros((2, 3), np.float32)
    made = [volta.Tensor(array), volta.FloatTensor(array.T), volta.ones(3).new(array)]
    array[:] = 1
    assert all(t.sum() == 6 for t in made) and made[1].stride() == (1, 3) and volta.DoubleTensor(array).dtype is volta.float64
