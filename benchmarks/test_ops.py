"""Single ops at sizes that matter: `pytest benchmarks --benchmark-group-by=func,param:case` compares the backends in one table."""
from __future__ import annotations

import numpy as np
import pytest

ELEMENTWISE = {
    "add": lambda lib, a, b: a + b,
    "row_broadcast": lambda lib, a, b: a + b[0],
    "exp": lambda lib, a, b: lib.exp(a),
    "relu": lambda lib, a, b: np.maximum(a, 0) if lib is np else lib.relu(a),
    "sigmoid": lambda lib, a, b: 1 / (1 + np.exp(-a)) if lib is np else lib.sigmoid(a),
}


def np_softmax(a):
    e = np.exp(a - a.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


ROWS = {
    "sum_all": lambda lib, a: a.sum(),
    "sum_rows": lambda lib, a: a.sum(1),
    "sum_columns": lambda lib, a: a.sum(0),
    "max_rows": lambda lib, a: a.max(1) if lib is np else lib.amax(a, 1),
    "softmax": lambda lib, a: np_softmax(a) if lib is np else lib.softmax(a, 1),
    "transposed_copy": lambda lib, a: np.ascontiguousarray(a.T) if lib is np else a.T.contiguous(),
}


@pytest.mark.parametrize("case", ELEMENTWISE)
def test_elementwise(case, backend, run):
    a, b = backend.array((2048, 1024)), backend.array((2048, 1024), 1)
    run(lambda: ELEMENTWISE[case](backend.lib, a, b))


@pytest.mark.parametrize("case", ROWS)
def test_reduction(case, backend, run):
    a = backend.array((2048, 1024))
    run(lambda: ROWS[case](backend.lib, a))


@pytest.mark.parametrize("case", [(512, 512, 512), (256, 784, 512), (64, 3136, 10)], ids=str)
def test_matmul(case, backend, run):
    m, k, n = case
    a, b = backend.array((m, k)), backend.array((k, n), 1)
    run(lambda: a @ b)


CONVOLUTIONS = {        # input, weight, options
    "conv1d": ((16, 64, 1024), (128, 64, 3), {"padding": 1}),
    "conv3d": ((4, 16, 16, 32, 32), (32, 16, 3, 3, 3), {"padding": 1}),
    "conv_transpose2d": ((16, 64, 16, 16), (64, 32, 4, 4), {"stride": 2, "padding": 1}),
}


@pytest.mark.parametrize("case", CONVOLUTIONS)
def test_convolution(case, backend, run):
    if backend.lib is np:
        pytest.skip("NumPy has no convolution of images")
    shape, weight, options = CONVOLUTIONS[case]
    x, w = backend.array(shape), backend.array(weight, 1)
    convolve = getattr(backend.lib.nn.functional, case)
    run(lambda: convolve(x, w, **options))


@pytest.mark.parametrize("case", ["nearest", "bilinear", "bicubic", "area"])
def test_interpolate(case, backend, run):
    if backend.lib is np:
        pytest.skip("NumPy has no resampling of images")
    x = backend.array((16, 16, 64, 64))
    run(lambda: backend.lib.nn.functional.interpolate(x, scale_factor=0.5 if case == "area" else 2, mode=case))


@pytest.mark.parametrize("case", [(16, 32, 28, 64)], ids=["16x32x28x28-64"])
def test_conv2d(case, backend, run):
    if backend.lib is np:
        pytest.skip("NumPy has no convolution of images")
    n, c, s, o = case
    x, w = backend.array((n, c, s, s)), backend.array((o, c, 3, 3), 1)
    conv2d = backend.lib.nn.functional.conv2d
    run(lambda: conv2d(x, w, padding=1))
