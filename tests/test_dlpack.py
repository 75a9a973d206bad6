"""Memory shared with other libraries by DLPack: NumPy stands for them."""
import gc

import numpy as np
import pytest

import volta
from volta.errors import ArgumentError, DTypeError

DTYPES = ("bool", "uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64")


@pytest.mark.parametrize("dtype", DTYPES)
def test_memory_is_shared_both_ways(dtype):
    for shape in ((), (3,), (2, 3), (0, 3)):
        x = volta.ones(shape, dtype=getattr(volta, dtype))
        array = np.from_dlpack(x)
        assert array.dtype == dtype and array.shape == shape and (not x.numel() or array.ctypes.data == x._address)
        array = np.ones(shape, dtype)
        y = volta.from_dlpack(array)
        assert y.dtype is x.dtype and y.shape == shape
        y.zero_()
        assert not array.any()


def test_views_and_lifetime():
    x = volta.arange(6.0).reshape(2, 3)
    array = np.from_dlpack(x.t())
    assert array.strides == (4, 12) and array.tolist() == x.t().tolist()
    del x
    gc.collect()
    others = [volta.zeros(6) for _ in range(20)]
    assert array.sum() == 15 and len(others) == 20
    assert volta.from_dlpack(volta.ones(2)).tolist() == [1.0, 1.0] and type(volta.to_dlpack(volta.ones(2))).__name__ == "PyCapsule"


def test_what_is_copied():
    read_only = np.arange(3)
    read_only.flags.writeable = False
    for array in (read_only, np.arange(3)[::-1]):
        assert volta.from_dlpack(array).tolist() == array.tolist()
        with pytest.raises(ArgumentError, match="copy=False, but this memory cannot be shared"):
            volta.from_dlpack(array, copy=False)
    array = np.arange(3)
    volta.from_dlpack(array, copy=True).zero_()
    assert array.tolist() == [0, 1, 2] and volta.from_dlpack(array, copy=False).tolist() == [0, 1, 2]


def test_what_is_refused(device):
    x = volta.ones(2, device=device)
    for tensor, text in ((volta.ones(2, requires_grad=True), "requires grad; detach"),
                         (volta.stride_op(volta.ones(2), (-1,)), "negative strides"),
                         *([(x, r"on a GPU, .*\.cpu\(\)")] if device != "cpu" else [])):
        with pytest.raises(BufferError, match=text):
            tensor.__dlpack__()
    with pytest.raises(ArgumentError, match="needs an array with __dlpack__"):
        volta.from_dlpack([1])
    with pytest.raises(DTypeError, match="uint16 cannot be shared"):
        volta.from_dlpack(np.ones(2, np.uint16))
    assert volta.from_dlpack(np.ones(2, np.float32), device=device).device == volta.device(device)
