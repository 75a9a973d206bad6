"""Python functions over elements, and addresses."""
import ctypes

import pytest

import volta
from volta.errors import AutogradError, DeviceError, DTypeError


def test_functions_over_elements():
    x = volta.tensor([[1, 2], [3, 4]])
    assert x.t().apply_(lambda v: v * 1.7).tolist() == [[1, 5], [3, 6]] and x.tolist() == [[1, 3], [5, 6]]
    assert volta.ones(2, 2).map_(volta.tensor([3.0, 4.0]), lambda a, b: a - b).tolist() == [[-2, -3], [-2, -3]]
    assert volta.ones(2).map2_(volta.tensor([3.0, 4.0]), volta.tensor(2.0), lambda a, b, c: a + b * c).tolist() == [7, 9]
    assert volta.tensor([True, False]).apply_(lambda v: not v).tolist() == [False, True]


def test_functions_over_elements_that_are_refused():
    x = volta.ones(2)
    with pytest.raises(TypeError, match="must give numbers, got str"):
        x.apply_(str)
    with pytest.raises(AutogradError, match="cannot be recorded"):
        volta.ones(2, requires_grad=True).apply_(abs)
    with pytest.raises(DTypeError, match="of one dtype"):
        x.map_(volta.ones(2, dtype=volta.int64), max)
    assert x.tolist() == [1, 1]


def test_functions_over_elements_on_a_gpu(gpu):
    with pytest.raises(DeviceError, match="on the CPU alone"):
        volta.ones(2, device=gpu).apply_(abs)


def test_addresses(device):
    x = volta.arange(6.0, device=device).reshape(2, 3)
    assert x[1].data_ptr() == x.data_ptr() + 12 and x.t().data_ptr() == x.data_ptr() and volta.empty(0, device=device).data_ptr() == 0
    assert x.clone().data_ptr() != x.data_ptr() == x.untyped_storage().data_ptr() == x[1].untyped_storage().data_ptr()
    if device == "cpu":
        assert ctypes.c_float.from_address(x[1].data_ptr()).value == 3.0
