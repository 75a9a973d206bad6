"""What tests of GPU kernels share: the kernels by name, arrays on the GPU, comparisons.

Skips what imports it where there is no usable GPU; with VOLTA_REQUIRE_GPU=1 a missing one is a failure, never a skip.
"""
from __future__ import annotations

import os

import numpy as np
import pytest

from volta import gpu
from volta._kernels import core

if not gpu.is_available() and os.environ.get("VOLTA_REQUIRE_GPU") != "1":
    pytest.skip(f"no usable GPU: {gpu.unavailable_reason()}", allow_module_level=True)

from volta.devices.gpu.kernels import KERNELS as K

CTX, DEVICE = gpu.context(0), core.Device("gpu", 0)
BOOL, UINT8, INT32, INT64, FLOAT16, FLOAT32, FLOAT64 = (core.dtype_from_code(code) for code in range(7))
NUMPY = ("uint32", "uint32", "int32", "int32", "float16", "float32")        # what buffers hold, by DType.code
OF_NUMPY = {"float32": FLOAT32, "float16": FLOAT16, "int64": INT64, "int32": INT32, "uint8": UINT8, "bool": BOOL}
SHAPES = [(), (1,), (0,), (7,), (1023,), (4, 5), (3, 0, 2), (2, 3, 4, 5), (2, 1, 3, 1, 2, 2, 1, 3), (5, 1030)]


def send(array, lead: int = 0, order=None, tail: int = 8):
    """A GPU tensor of `array`: `lead` elements into its storage and `tail` before its end, in memory order `order` of the axes."""
    array = np.asarray(array)
    dtype = OF_NUMPY[array.dtype.name]
    order = tuple(order or range(array.ndim))
    moved = np.ascontiguousarray(array.transpose(order)).astype(NUMPY[dtype.code])
    flat = np.concatenate([np.full(lead, 77, moved.dtype), moved.ravel(), np.full(tail, 77, moved.dtype)])
    buffer = CTX.alloc(flat.nbytes + flat.nbytes % 4)
    CTX.upload(buffer, flat if flat.nbytes % 4 == 0 else np.append(flat, flat[:1]))
    strides = [0] * array.ndim
    step = 1
    for axis in reversed(order):
        strides[axis] = step
        step *= max(array.shape[axis], 1)
    return core.tensor(core.gpu_storage(buffer, flat.nbytes, DEVICE), array.shape, tuple(strides), lead, dtype)


def fetch(t):
    """The values of a GPU tensor with any strides."""
    kind = np.dtype(NUMPY[t.dtype.code])
    buffer = t.storage.buffer
    flat = np.empty(buffer.nbytes // kind.itemsize, kind)
    if flat.size:
        CTX.download(buffer, flat)
    view = np.lib.stride_tricks.as_strided(flat[t.offset:] if t._size else flat, t.shape, [s * kind.itemsize for s in t._strides])
    return view.astype({0: bool, 1: np.uint8, 3: np.int64}.get(t.dtype.code, kind))


def up(array, dtype=FLOAT32):
    """A GPU tensor of `array`, by the kernel."""
    return K["upload"](np.asarray(array, order="C"), dtype, DEVICE)


def down(t):
    return K["download"](t)


def view_of(t, array):
    """The tensor over `t`'s storage that `array`, a view of the uploaded array, is."""
    base = array
    while base.base is not None:
        base = base.base
    offset = (array.__array_interface__["data"][0] - base.__array_interface__["data"][0]) // array.itemsize
    return core.view(t, array.shape, tuple(s // array.itemsize for s in array.strides), offset)


def numbers(*shape, seed=0):
    return np.random.default_rng(seed + sum(shape)).standard_normal(shape).astype(np.float32)


def data(shape, seed=0, scale=3.0):
    return np.asarray(np.random.default_rng(seed).standard_normal(shape) * scale, np.float32)


def double(x):
    return x.astype(np.float64)


def close(got, want, rtol=1e-5, atol=1e-6):
    got = fetch(got) if isinstance(got, core.TensorBase) else got
    np.testing.assert_allclose(np.asarray(got, np.float64), np.asarray(want, np.float64), rtol=rtol, atol=atol)
