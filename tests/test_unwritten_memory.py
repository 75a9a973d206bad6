"""CPU kernels compute with no memory that nobody wrote: what follows the end of a row in a vector, of the rows in a tile, scratch.

Such numbers reach no result, so that nothing else here sees them. But where memory holds denormal numbers, as integers and addresses are,
Intel's processors take 10 to 40 times as long, for as long as a process lives. x86 keeps a flag of them; here all new memory is filled with
denormals, and the flag must stay clear. On ARM, which keeps none and where they cost little, these tests are skipped.
"""
import os
import subprocess
import sys

import numpy as np
import pytest

import volta
from volta import nn
from volta._kernels.core import memory, threads
from volta.nn import functional as F
from volta.selftest import cases as table

DENORMAL = 1                            # this integer's bits, as a float32; two of them, as a float64
pytestmark = pytest.mark.skipif(threads.met_denormals() is None, reason="this processor does not tell whether it met denormal numbers")


def meets_denormals(make) -> bool:
    """Whether a call computes with denormals while all memory that nobody has written holds them. IN: make(), which gives the call."""
    before = volta.get_num_threads()
    volta.set_num_threads(1)            # each thread has a flag of its own
    memory.fill_host_memory(DENORMAL)
    try:
        call = make()
        threads.met_denormals(DENORMAL)
        call()
        return threads.met_denormals()
    finally:
        memory.fill_host_memory(None)
        volta.set_num_threads(before)


def test_denormals_are_noticed():
    for made, noticed in ((volta.empty, True), (volta.ones, False)):
        assert meets_denormals(lambda made=made: made(7).sum) is noticed


# ---------------------------------------------------------------- the op table
def placed(value, layout):
    """The arrays among a sample's inputs as tensors of a layout; None: contiguous."""
    if isinstance(value, list):
        return [placed(v, layout) for v in value]
    if not isinstance(value, np.ndarray):
        return value
    return layout(value, "cpu") if layout and value.ndim else volta.tensor(value)


@pytest.mark.parametrize("op", table.records(creation=True, in_place=True), ids=lambda op: op.name)
def test_samples(op):
    for case in op.details.cases:
        for dtype in (volta.float32, volta.float64):
            arrays = table.sample(op, case, np.random.default_rng(1), dtype if "f" in op.details.kinds else table.kind_of(op))
            for layout in (None, *table.LAYOUTS.values()):
                def make(arrays=arrays, layout=layout, case=case, dtype=dtype):
                    tensors = placed(arrays, layout)
                    return lambda: table.run(op, tensors, case.params, "cpu", dtype)
                assert not meets_denormals(make), f"{op.name} of {dtype.name}, {case}"


# ---------------------------------------------------------------- sizes that fill no vectors
def convolution(rng):
    dim, taps, stride, dilation, groups, transposed = (int(rng.choice(some)) for some in (
        (1, 2, 2, 3), (1, 1, 3, 3, 5, 7), (1, 1, 2, 3), (1, 1, 2), (1, 1, 2, 0), (0, 0, 1)))
    taps, padding = min(taps, 3) if dim == 3 else taps, int(rng.integers(0, taps // 2 + 1)) if dim < 3 else 0
    reach, channels, outputs = dilation * (taps - 1) + 1, int(2 ** rng.uniform(0, 6.5)), int(2 ** rng.uniform(0, 6.5))
    groups, channels, outputs = (groups, channels, outputs) if groups else (channels, 1, 1)
    sizes = tuple(int(s) for s in rng.integers(reach, reach + (30 if dim < 3 else 8), dim))
    inner = (groups * channels, outputs) if transposed else (groups * outputs, channels)
    function = getattr(F, f"conv_transpose{dim}d" if transposed else f"conv{dim}d")
    return (lambda x, w: function(x, w, stride=stride, padding=padding, dilation=dilation, groups=groups),
            (int(rng.integers(1, 5)), groups * channels, *sizes), (*inner, *(taps,) * dim))


def products(rng):
    m, k, n, b = (int(s) for s in rng.integers(1, (90, 90, 90, 5)))
    k = int(rng.choice((k, k, 20 * k)))
    yield F.linear, (m, k), (n, k), (n,)
    yield volta.matmul, (b, m, k), (b, k, n)
    yield lambda x, y: x.mT @ y, (k, m), (k, n)
    yield lambda x, y: x.mT @ y.mT, (k, m), (n, k)
    yield lambda x, y: x[:, ::2] @ y.mT[::2], (m, 2 * k), (n, 2 * k)
    yield volta.matmul, (m, k), (k,)
    yield volta.matmul, (k,), (k, n)
    yield volta.outer, (m,), (n,)
    yield volta.cdist, (b, m, n), (b, 7, n)
    row = (b, int(rng.choice((m, 3 * m))), n)
    for causal in (False, True):
        yield (lambda q, k, v, c=causal: F.scaled_dot_product_attention(q, k, v, is_causal=c)), row, row, row


def lines(rng):
    shape = tuple(int(s) for s in rng.integers(1, (7, 50, 50)))
    for dim in (0, 1, 2):
        for function in (volta.sum, volta.var, volta.amax, volta.softmax, F.log_softmax, volta.logsumexp, volta.cumsum, volta.cumprod,
                         F.normalize):
            yield (lambda x, f=function, d=dim: f(x, dim=d)), shape
        yield (lambda x, d=dim: x.sort(d).values), shape
    for function in (volta.exp, volta.tanh, F.gelu, volta.erf, volta.lgamma, lambda x: x.mT.sin(), lambda x: x[:, ::2].sigmoid()):
        yield function, shape
    for function in (volta.mul, volta.div, volta.maximum, volta.atan2):
        yield function, shape, (shape[1], 1)
    yield lambda x, w, b: F.layer_norm(x, shape[2:], w, b), shape, shape[2:], shape[2:]
    yield lambda x, w: F.rms_norm(x, shape[2:], w), shape, shape[2:]
    yield lambda x: F.cross_entropy(x, volta.zeros(shape[1], dtype=volta.int64)), shape[1:]
    yield F.mse_loss, shape, shape


def planes(rng):
    n, c, h, w = (int(s) for s in rng.integers((1, 1, 5, 5), (5, 40, 20, 20)))
    window, stride = int(rng.integers(1, 5)), int(rng.integers(1, 4))
    for function in (F.max_pool2d, F.avg_pool2d):
        yield (lambda x, f=function: f(x, window, stride, window // 2)), (n, c, h, w)
    for mode in ("nearest", "bilinear", "bicubic"):
        yield (lambda x, m=mode: F.interpolate(x, (w, h + 3), mode=m)), (n, c, h, w)
    yield lambda x: F.adaptive_avg_pool2d(x, (3, 5)), (n, c, h, w)
    yield lambda x, grid: F.grid_sample(x, grid, align_corners=False), (n, c, h, w), (n, 7, 5, 2)
    yield lambda x, a, b: F.batch_norm(x, None, None, a, b, training=True), (n, c, h, w), (c,), (c,)
    yield lambda x, a, b: F.group_norm(x, 1, a, b), (n, c, h, w), (c,), (c,)
    yield lambda x: F.unfold(x, 3, padding=1), (n, c, h, w)
    for layer in (nn.LSTM, nn.GRU, nn.RNN):
        yield (lambda x, run=layer: run(c, w)(x)[0]), (h, n, c)


def forms(seed: int):
    """(function, shapes of its inputs)."""
    rng = np.random.default_rng(seed)
    yield lambda x, w: F.conv_transpose2d(x, w, stride=2, padding=1), (1, 30, 1, 28), (30, 1, 3, 3)     # one row: a phase without places
    yield lambda x, w: F.conv2d(x, w, padding=2), (2, 1, 9, 9), (3, 1, 5, 5)                            # taps that do not fill tiles of 3
    yield lambda x, w: F.conv2d(x, w, padding=3), (2, 18, 19, 17), (37, 18, 7, 7)                       # block by block of the kernel
    yield lambda x, w: F.conv2d(x, w, dilation=3), (2, 5, 22, 23), (30, 5, 7, 7)                        # few outputs of large windows
    yield volta.matmul, (5, 4), (4, 3)                                                                  # sums of few columns, interleaved
    for _ in range(30):
        yield convolution(rng)
    for family in (products, lines, planes):
        yield from family(rng)


def check_forms(seed: int) -> None:
    for i, (function, *shapes) in enumerate(forms(seed)):
        def make(function=function, shapes=shapes):
            leaves = [volta.tensor(np.random.default_rng(k).standard_normal(shape).astype(np.float32), requires_grad=True)
                      for k, shape in enumerate(shapes)]

            def call():
                result = function(*leaves)
                result.backward(volta.ones(result.shape))
            return call
        assert not meets_denormals(make), f"form {i} of seed {seed}: {shapes}"


@pytest.mark.parametrize("seed", range(8))
def test_odd_sizes(seed):
    check_forms(seed)


@pytest.mark.parametrize("variant", ["baseline", "avx2"])
def test_odd_sizes_of_other_instructions(variant):
    code = f"import sys; sys.path.insert(0, {os.path.dirname(__file__)!r})\nimport test_unwritten_memory as t\nt.check_forms(0)"
    run = subprocess.run([sys.executable, "-c", code], env=os.environ | {"VOLTA_CPU": variant}, capture_output=True, text=True)
    if "this CPU and build have" in run.stderr:
        pytest.skip(f"this machine or build has no {variant}")
    assert run.returncode == 0, run.stderr
