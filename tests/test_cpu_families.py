"""The CPU kernels of convolution, pooling, norm, softmax, loss and index, against NumPy in float64.

These call kernels directly (no autograd); the op table's tests cover the same kernels through the public functions.
"""
from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from volta._kernels import core, cpu
from volta._kernels.core import threads
from volta._kernels.cpu import (
    conv,
    conv_weight,
    copy,
    index,
    linalg,
    loss,
    moments,
    norm,
    pool,
    random,
    resample,
    row_norm,
    sample,
    scatter,
    softmax,
    sort,
    update,
)
from volta.errors import IndexRangeError
from volta.ops.table import import_all

CODES = {"bool": 0, "uint8": 1, "int32": 2, "int64": 3, "float16": 4, "float32": 5, "float64": 6}
FLOATS = ["float32", "float64"]
KERNELS: dict = {}
for module in (conv, conv_weight, copy, index, linalg, loss, moments, norm, pool, random, resample, row_norm, sample, scatter, softmax,
               sort, update):
    KERNELS.update(module.KERNELS)


def test_kernels_are_of_the_chosen_instruction_set():
    """But for modules that gain nothing by AVX-512, which are compiled for AVX2 alone."""
    folders = [Path(folder).name for folder in cpu.__path__]
    others = ["avx2"] if cpu.variant == "avx512" and Path(cpu.__path__[0], "avx2").is_dir() else []         # built or not
    assert folders == ["cpu", cpu.variant, *others]
    assert {Path(module.__file__).parent.name for module in import_all(cpu)} <= set(folders)


@pytest.fixture
def rng():
    return np.random.default_rng(7)


def dtype(name):
    return core.dtype_from_code(CODES[name])


def tensor(array):
    """Contiguous tensor with a copy of the array's data."""
    t = core.empty(tuple(array.shape), dtype(str(array.dtype)))
    if array.size:
        np.ndarray(array.shape, array.dtype, buffer=t.storage)[...] = array
    return t


def strided(array):
    """The same data as a view with gaps, an offset and reversed order of dimensions in memory."""
    wide = np.zeros([2 * n + 1 for n in array.shape[::-1]], array.dtype)
    t = tensor(wide)
    steps = tuple(2 * s for s in t._strides[::-1])
    offset = sum(t._strides)
    view = core.view(t, tuple(array.shape), steps, offset)
    values(view)[...] = array
    return view


def values(t):
    """NumPy array over a tensor's memory."""
    kind = np.dtype(t.dtype.name)
    if t._size == 0:
        return np.empty(t.shape, kind)
    return np.ndarray(t.shape, kind, buffer=t.storage, offset=t.offset * kind.itemsize,
                      strides=[s * kind.itemsize for s in t._strides])


def close(t, expected, float32=2e-5, float64=1e-11):
    """The larger of relative and absolute error is below a tolerance of the dtype."""
    assert t.shape == np.shape(expected)
    tolerance = float32 if t.dtype.name == "float32" else float64
    np.testing.assert_allclose(values(t), expected, rtol=tolerance, atol=tolerance)


# ---------------------------------------------------------------- convolution

CONVOLUTIONS = [  # n, c, h, w, o, kernel, stride, padding, dilation, groups
    (2, 3, 8, 8, 4, (3, 3), (1, 1), (1, 1), (1, 1), 1),
    (1, 4, 9, 7, 6, (3, 2), (2, 1), (1, 0), (1, 2), 2),
    (5, 6, 5, 5, 9, (1, 1), (1, 1), (0, 0), (1, 1), 3),
    (3, 2, 11, 13, 5, (5, 3), (2, 3), (2, 1), (2, 1), 1),
    (0, 2, 5, 5, 3, (3, 3), (1, 1), (0, 0), (1, 1), 1),
    (19, 1, 28, 28, 8, (3, 3), (1, 1), (1, 1), (1, 1), 1),
    (2, 40, 7, 7, 17, (7, 7), (1, 1), (0, 0), (1, 1), 1),      # more taps than one pass takes; one output pixel
    (3, 5, 6, 6, 4, (1, 1), (1, 1), (2, 2), (1, 1), 1),        # more padding than the kernel reaches
    (3, 5, 6, 6, 4, (1, 1), (2, 2), (0, 0), (1, 1), 1),
    (2, 8, 40, 100, 8, (3, 3), (1, 1), (1, 1), (1, 1), 8),     # depthwise; an image of several chunks
    (1, 3, 70, 61, 5, (7, 7), (2, 2), (3, 3), (1, 1), 1),
    (50, 3, 3, 3, 4, (3, 3), (1, 1), (0, 0), (1, 1), 1),       # a panel over many images
    (1, 1, 1, 1, 1, (1, 1), (1, 1), (0, 0), (1, 1), 1),
    (4, 33, 16, 15, 40, (3, 3), (1, 1), (1, 1), (1, 1), 1),    # by Winograd's way
    (16, 24, 4, 4, 130, (3, 3), (1, 1), (1, 1), (1, 1), 1),    # few pixels, many channels: im2col for all blocks at once
    (2, 6, 17, 20, 12, (5, 5), (2, 1), (2, 2), (1, 1), 6),     # depthwise, two outputs for each input
    (3, 20, 9, 5, 24, (1, 1), (2, 1), (0, 0), (1, 1), 2),
    (2, 3, 33, 30, 9, (9, 7), (7, 4), (0, 3), (1, 1), 1),      # more phases than taps along an axis
    (3, 20, 18, 22, 40, (7, 7), (1, 1), (3, 3), (1, 1), 1),    # block by block of the kernel; more outputs than a block of rows has
    (2, 110, 19, 17, 36, (6, 8), (1, 1), (4, 2), (1, 1), 2),
    (1, 4, 25, 25, 3, (13, 13), (1, 1), (0, 0), (2, 2), 1),    # more taps than one sum has, of a place that a tile repeats
    (2, 6, 30, 22, 40, (9, 7), (2, 1), (1, 0), (3, 3), 2),     # few outputs of large windows: their gradient is scattered
    (2, 4, 9, 50, 4, (3, 3), (1, 1), (1, 1), (1, 1), 4),       # channels by themselves, too few for lanes
    (9, 12, 6, 7, 20, (2, 1), (3, 3), (0, 0), (1, 1), 1),      # phases without a tap
    (9, 3, 8, 8, 7, (5, 5), (2, 2), (2, 2), (1, 1), 1),        # few outputs of few channels
    (3, 3, 9, 30, 18, (5, 5), (1, 1), (4, 4), (2, 2), 1),      # few channels, taps some steps apart, long rows
    (2, 24, 14, 15, 40, (3, 3), (1, 1), (0, 0), (1, 1), 2),    # its gradient is Winograd's, not scattered
]


def columns(x, kernel, stride, padding, dilation):
    """im2col: [n, c, kh, kw, oh, ow]."""
    x = np.pad(x, [(0, 0), (0, 0), (padding[0],) * 2, (padding[1],) * 2])
    size = [(x.shape[2 + i] - dilation[i] * (kernel[i] - 1) - 1) // stride[i] + 1 for i in (0, 1)]
    taps = [[x[:, :, ky * dilation[0]:ky * dilation[0] + (size[0] - 1) * stride[0] + 1:stride[0],
               kx * dilation[1]:kx * dilation[1] + (size[1] - 1) * stride[1] + 1:stride[1]]
             for kx in range(kernel[1])] for ky in range(kernel[0])]
    return np.array(taps).transpose(2, 3, 0, 1, 4, 5)


def convolution(x, weight, stride, padding, dilation, groups):
    c, o = x.shape[1] // groups, weight.shape[0] // groups
    col = columns(x, weight.shape[2:], stride, padding, dilation)
    return np.concatenate([np.einsum("nckhyx,ockh->noyx", col[:, i * c:(i + 1) * c], weight[i * o:(i + 1) * o])
                           for i in range(groups)], axis=1)


@pytest.mark.parametrize("make", [tensor, strided])
@pytest.mark.parametrize("name", FLOATS)
@pytest.mark.parametrize("case", CONVOLUTIONS)
def test_convolution(case, name, make, rng):
    n, c, h, w, o, kernel, stride, padding, dilation, groups = case
    x = rng.standard_normal((n, c, h, w)).astype(name)
    weight = rng.standard_normal((o, c // groups, *kernel)).astype(name)
    bias = rng.standard_normal(o).astype(name)
    geometry = (stride, padding, dilation, groups)
    expected = convolution(x.astype("f8"), weight.astype("f8"), *geometry)
    scale = 1 / np.sqrt(weight[0].size)                 # sums of this many products of order one
    out = KERNELS["conv2d"](make(x), make(weight), make(bias), *geometry)
    close(out, expected + bias[:, None, None], 2e-5 / scale, 1e-12 / scale)
    close(KERNELS["conv2d"](make(x), make(weight), None, *geometry), expected, 2e-5 / scale, 1e-12 / scale)

    g = rng.standard_normal(expected.shape).astype(name)
    dx = values(KERNELS["conv2d_grad_input"](make(g), make(weight), h, w, *geometry))
    dw = values(KERNELS["conv2d_grad_weight"](make(g), make(x), kernel, *geometry))
    # The three are one trilinear form: <g, conv(y, weight)> = <dx, y> and <g, conv(x, v)> = <dw, v> for every y and v.
    total = 4e-6 if name == "float32" else 1e-13
    for _ in range(4):
        y, v = rng.standard_normal(x.shape), rng.standard_normal(weight.shape)
        terms = g * convolution(y, weight.astype("f8"), *geometry)
        assert abs(terms.sum() - (dx * y).sum()) <= total * (np.abs(terms).sum() + np.abs(dx * y).sum())
        terms = g * convolution(x.astype("f8"), v, *geometry)
        assert abs(terms.sum() - (dw * v).sum()) <= total * (np.abs(terms).sum() + np.abs(dw * v).sum())
    assert dx.shape == x.shape and dw.shape == weight.shape


def test_convolution_ignores_what_lies_beside_its_input(rng):
    """Reads run past rows in whole vectors: NaN beside the data must not get in."""
    wide = np.full((4, 3, 9, 9), np.nan, "f4")
    wide[1:3] = rng.standard_normal((2, 3, 9, 9))
    t = tensor(wide)
    x = core.view(t, (2, 3, 9, 9), t._strides, t._strides[0])
    weight = tensor(np.ones((2, 3, 3, 3), "f4"))
    geometry = ((1, 1), (1, 1), (1, 1), 1)
    assert np.isfinite(values(KERNELS["conv2d"](x, weight, None, *geometry))).all()
    assert np.isfinite(values(KERNELS["conv2d_grad_weight"](core.view(t, (2, 2, 9, 9), (243, 81, 9, 1), 243), x, (3, 3),
                                                            *geometry))).all()


@pytest.mark.parametrize("reach", [1, 3])
def test_convolution_keeps_what_is_not_finite_where_it_is_seen(reach, rng):
    """Winograd's transforms would spread it over a tile."""
    size = 2 * reach + 1
    x, weight = rng.standard_normal((4, 33, 16, 16)).astype("f4"), rng.standard_normal((40, 33, size, size)).astype("f4")
    x[1, 2, 3, 4], x[2, 3, 7, 8] = np.nan, np.inf
    out = values(KERNELS["conv2d"](tensor(x), tensor(weight), None, (1, 1), (reach, reach), (1, 1), 1))
    seen = np.zeros(out.shape, bool)
    seen[1, :, max(0, 3 - reach):4 + reach, 4 - reach:5 + reach] = seen[2, :, 7 - reach:8 + reach, 8 - reach:9 + reach] = True
    np.testing.assert_array_equal(~np.isfinite(out), seen)


def _same_of_all_threads(results):
    before = threads.get_num_threads()
    try:
        found = []
        for count in (1, 2, 3, 7):
            threads.set_num_threads(count)
            found.append(results())
    finally:
        threads.set_num_threads(before)
    for other in found[1:]:
        assert all(a.tobytes() == b.tobytes() for a, b in zip(found[0], other, strict=True))


def test_moves_and_losses_do_not_depend_on_threads(rng):
    """Nor do the shares of threads for which there is nothing left: there are fewer planes and lines than threads."""
    images, places, rows, few = (tensor(rng.standard_normal(shape).astype("f4")) for shape in (
        (2, 3, 80, 90), (2, 120, 90, 2), (9000, 40), (3, 40000)))
    entries, labels = tensor(rng.integers(0, 700, 9000)), tensor(rng.integers(0, 40, 9000))
    volume, scales = tensor(rng.standard_normal((6, 1, 80, 90)).astype("f4")), (1.0, 0.5, 0.5)

    def results():
        found = [KERNELS["norm2"](rows, (0, 1), False), KERNELS["norm2"](rows, (1,), True), *KERNELS["sort"](few, 1),
                 *KERNELS["sort"](few, 0), KERNELS["index_add"](rows, entries, 0, 700),
                 KERNELS["arange"](0.5, 0.1, 200_001, dtype("float32"))]
        for mode in ("nearest", "bilinear", "bicubic"):
            out = KERNELS["grid_sample"](images, places, None, mode, "zeros", False)
            found += [out, KERNELS["grid_sample_input"](out, places, None, (80, 90), mode, "zeros", False),
                      KERNELS["grid_sample_grid"](out, images, places, None, mode, "zeros", False)]
        for reduction in ("none", "mean", "sum"):
            loss, total = KERNELS["nll"](rows, labels, None, 3, reduction, False)
            found += [loss, KERNELS["nll_grad"](loss, labels, None, total, (9000, 40), 3, reduction, False)]
        for weight, p in ((None, 1), (few[0, :40], 2)):
            loss = KERNELS["multi_margin"](rows, labels, weight, p, 0.5)
            found += [loss, KERNELS["multi_margin_grad"](loss, rows, labels, weight, p, 0.5)]
        large = KERNELS["resample"](volume, (1, 160, 180), scales, "nearest", False)
        return [values(t).copy() for t in (*found, large, KERNELS["resample_grad"](large, (1, 80, 90), scales, "nearest", False))]

    _same_of_all_threads(results)


@pytest.mark.parametrize("mode", ["nearest", "bilinear", "bicubic"])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("size", [(1, 2), (3, 3), (2, 4), (5, 9)])
def test_places_read_together_are_those_read_alone(mode, padding, size, rng):
    """float32 reads the elements of several places at once, float64 each by itself; of what is not a place's, NaN has no part in it."""
    for count, spread in ((7, 1.5), (300, 0.6), (301, 5.0)):
        x, grid = rng.standard_normal((1, 3, *size)), rng.uniform(-spread, spread, (1, 1, count, 2)).astype("f4").astype("f8")
        x[0, 2, 0, 1] = float("nan")
        g = rng.standard_normal((1, 3, 1, count))
        narrow, wide = ([tensor(a.astype(kind)) for a in (x, grid, g)] for kind in ("f4", "f8"))
        for kernel, at in (("grid_sample", (0, 1)), ("grid_sample_grid", (2, 0, 1))):
            found, wanted = (values(KERNELS[kernel](*(t[i] for i in at), None, mode, padding, False)) for t in (narrow, wide))
            np.testing.assert_allclose(found, wanted, rtol=2e-4, atol=2e-4)


@pytest.mark.parametrize("name", FLOATS)
@pytest.mark.parametrize("shape", [(2, 1), (63, 5), (128, 769), (1000, 70), (2300, 3)])
@pytest.mark.parametrize("far", [0, 1000])
def test_batch_norm_of_columns(rng, name, shape, far):
    """In blocks of rows and strips of columns; means far from 0 cost the variance no more digits than the elements have."""
    x, g = (rng.standard_normal(shape) + far * i for i in (1, 0))
    weight, bias = rng.standard_normal((2, shape[1]))
    x, g, weight, bias = (v.astype(name) for v in (x, g, weight, bias))
    out, mean, rstd = (values(t) for t in KERNELS["batch_norm"](*map(tensor, (x, weight, bias)), 1e-3))
    wide = x.astype("f8") - far                      # exactly; sums of what is far from 0 would be no better than the kernel's
    true = 1 / np.sqrt(wide.var(0) + 1e-3)
    eps = np.finfo(name).eps
    np.testing.assert_allclose(mean, wide.mean(0) + far, rtol=4 * eps, atol=8 * eps)
    np.testing.assert_allclose(rstd, true, rtol=(32 + 4 * far) * eps)
    np.testing.assert_allclose(out, (wide - wide.mean(0)) * true * weight + bias, atol=(100 + 60 * far) * eps)
    found = [values(t) for t in KERNELS["batch_norm_grad"](*map(tensor, (g, x, weight, mean, rstd)))]
    normal, n = (x.astype("f8") - mean) * rstd, len(x)
    sums = (g * normal).sum(0), g.astype("f8").sum(0)
    np.testing.assert_allclose(found[1], sums[0], atol=64 * eps * n)
    np.testing.assert_allclose(found[2], sums[1], atol=8 * eps * n)
    np.testing.assert_allclose(found[0], weight * rstd * (g - sums[1] / n - normal * sums[0] / n), atol=2000 * eps)


def test_results_do_not_depend_on_threads(rng):
    shapes = ((16, 8, 20, 20), (8, 8, 3, 3), (300, 700), (8, 64, 16, 16), (64, 64, 3, 3), (16, 128, 4, 4), (160, 128, 3, 3),
              (4, 64, 16, 16), (64, 64, 7, 7))
    x, weight, rows, *more = (tensor(rng.standard_normal(shape).astype("f4")) for shape in shapes)
    geometry = ((1, 1), (1, 1), (1, 1), 1)

    def results():
        out, mean, rstd = KERNELS["batch_norm"](x, None, None, 1e-5)
        layer, group = (700, 1, 1, True), (800, 4, 400, True)
        of_rows, of_groups = KERNELS["row_norm"](rows, None, None, *layer, 1e-5), KERNELS["row_norm"](x, None, None, *group, 1e-5)
        of_columns = KERNELS["batch_norm"](rows, None, None, 1e-5)
        tensors = [out, mean, rstd, *KERNELS["batch_norm_grad"](out, x, None, mean, rstd), *of_rows, *of_groups,
                   *of_columns, *KERNELS["batch_norm_grad"](of_columns[0], rows, None, *of_columns[1:]),
                   *KERNELS["row_norm_grad"](rows, rows, None, *of_rows[1:], rows, *layer, True),
                   *KERNELS["row_norm_grad"](x, x, None, *of_groups[1:], None, *group, True),
                   KERNELS["conv2d"](x, weight, None, *geometry),
                   KERNELS["conv2d_grad_input"](x, weight, 20, 20, *geometry),
                   KERNELS["conv2d_grad_weight"](x, x, (3, 3), *geometry), KERNELS["softmax"](rows, 1),
                   KERNELS["logsumexp"](rows, 1), KERNELS["logsumexp"](rows, 0),
                   *(KERNELS["conv2d"](more[i], more[i + 1], None, *geometry) for i in (0, 2, 4)),
                   KERNELS["conv2d_grad_input"](more[0], more[1], 16, 16, *geometry),
                   KERNELS["conv2d_grad_weight"](more[0], more[0], (3, 3), *geometry),
                   KERNELS["conv2d_grad_weight"](more[4], more[4], (7, 7), (1, 1), (3, 3), (1, 1), 1),
                   KERNELS["softmax"](rows, 0), KERNELS["normal"]((300_001,), 0.0, 1.0, 3, 5, dtype("float32"), None)]
        return [values(t).copy() for t in tensors]

    _same_of_all_threads(results)


# ---------------------------------------------------------------- pooling

@pytest.mark.parametrize("name", FLOATS)
@pytest.mark.parametrize("shape, kernel, stride, padding, dilation", [
    ((2, 3, 8, 8), (2, 2), (2, 2), (0, 0), (1, 1)),
    ((2, 3, 9, 7), (2, 2), (2, 2), (0, 0), (1, 1)),
    ((1, 2, 9, 11), (3, 2), (2, 1), (1, 1), (1, 2)),
    ((0, 2, 4, 4), (2, 2), (2, 2), (0, 0), (1, 1)),
    ((2, 1, 5, 600), (2, 2), (2, 2), (0, 0), (1, 1)),
    ((3, 4, 20, 20), (3, 3), (2, 2), (1, 1), (1, 1)),
    ((1, 1, 1, 1), (1, 1), (1, 1), (0, 0), (1, 1)),
])
def test_max_pool(shape, kernel, stride, padding, dilation, name, rng):
    x = rng.integers(-4, 4, shape).astype(name)             # many ties
    x[rng.random(shape) < 0.02] = np.nan
    places = np.arange(shape[2] * shape[3]).reshape(1, 1, *shape[2:]) + 1       # 0 marks padding
    place = columns(places, kernel, stride, padding, dilation)
    col = columns(x.astype("f8"), kernel, stride, padding, dilation)
    col = np.where(place == 0, -np.inf, col)
    n, c, kh, kw, oh, ow = col.shape
    flat = col.reshape(n, c, kh * kw, oh, ow)
    last = kh * kw - 1 - np.argmax(np.isnan(flat[:, :, ::-1]), axis=2)
    best = np.where(np.isnan(flat).any(axis=2), last, np.argmax(flat, axis=2))              # NaN wins, the last
    place = np.broadcast_to(place, col.shape).reshape(n, c, kh * kw, oh, ow)
    where = np.take_along_axis(place, best[:, :, None], 2)[:, :, 0] - 1
    for make in (tensor, strided):
        out, index = KERNELS["max_pool"](make(x), (oh, ow), kernel, stride, padding, dilation)
        np.testing.assert_array_equal(values(index), where)
        np.testing.assert_array_equal(values(out), np.max(col, axis=(2, 3), initial=-np.inf).reshape(n, c, oh, ow))
    g = rng.standard_normal((n, c, oh, ow)).astype(name)
    expected = np.zeros((n * c, shape[2] * shape[3]))
    for plane in range(n * c):
        np.add.at(expected[plane], where.reshape(n * c, -1)[plane], g.reshape(n * c, -1)[plane])
    close(KERNELS["max_pool_grad"](strided(g), strided(where), shape[2:]), expected.reshape(shape), 1e-6)


# ---------------------------------------------------------------- norm

@pytest.mark.parametrize("name", FLOATS)
@pytest.mark.parametrize("affine", [True, False])
@pytest.mark.parametrize(
    "shape", [(6, 5), (7, 300), (4, 3, 9), (2, 3, 4, 5), (3, 4, 33, 21), (2, 3, 2, 3, 4), (1, 3, 1, 2)])
def test_batch_norm(shape, affine, name, rng):
    c, axes = shape[1], (0, *range(2, len(shape)))
    cast = [1, c] + [1] * (len(shape) - 2)
    x = (rng.standard_normal(shape) * 2 + 10).astype(name)
    g = rng.standard_normal(shape).astype(name)
    weight, bias = (rng.standard_normal(c).astype(name) for _ in range(2))
    wide = x.astype("f8")
    mean, variance, count = wide.mean(axes), wide.var(axes), x.size // c
    rstd = 1 / np.sqrt(variance + 1e-5)
    normal = (wide - mean.reshape(cast)) * rstd.reshape(cast)
    scale = weight.reshape(cast) if affine else 1
    given = (tensor(weight), strided(bias)) if affine else (None, None)
    for make in (tensor, strided):
        out, m, r = KERNELS["batch_norm"](make(x), *given, 1e-5)
        close(out, normal * scale + (bias.reshape(cast) if affine else 0))
        close(m, mean)
        close(r, rstd)
    dx, dweight, dbias = KERNELS["batch_norm_grad"](strided(g), tensor(x), given[0], m, r)
    sums = [(g * t).sum(axes, dtype="f8") for t in (normal, 1)]
    close(dweight, sums[0], 1e-4)
    close(dbias, sums[1], 1e-4)
    inner = g - sums[1].reshape(cast) / count - normal * sums[0].reshape(cast) / count
    close(dx, inner * scale * rstd.reshape(cast), 1e-4)
    running = [rng.random(c).astype(name) for _ in range(2)]
    kept = tensor(running[0]), strided(running[1])
    KERNELS["batch_norm_update"](*kept, m, r, 0.3, 1e-5, count)
    close(kept[0], 0.7 * running[0] + 0.3 * mean, 1e-5, 1e-10)
    close(kept[1], 0.7 * running[1] + 0.3 * variance * count / max(count - 1, 1), 1e-5, 1e-8)


# ---------------------------------------------------------------- softmax and loss

@pytest.mark.parametrize("name", FLOATS)
@pytest.mark.parametrize("shape, dim", [((5, 7), 1), ((5, 7), 0), ((3, 4, 5), 1), ((2, 150, 200), 1), ((), 0),
                                        ((1,), 0), ((0, 3), 1), ((33, 1000), 1), ((4, 1, 3), 1)])
def test_softmax(shape, dim, name, rng):
    x, g = ((rng.standard_normal(shape) * 5).astype(name) for _ in range(2))
    x, g = x.reshape(shape), g.reshape(shape)
    axis = dim if shape else None
    e = np.exp(x.astype("f8") - x.max(axis, keepdims=True)) if x.size else x.astype("f8")
    y = e / e.sum(axis, keepdims=True)
    log = np.log(y)
    for make in (tensor, strided):
        close(KERNELS["softmax"](make(x), dim), y, 2e-6)
        close(KERNELS["log_softmax"](make(x), dim), log, 4e-6)
    y, log = y.astype(name), log.astype(name)
    close(KERNELS["softmax_grad"](strided(g), tensor(y), dim), y * (g - (g * y).sum(axis, keepdims=True)))
    expected = g - np.exp(log) * g.sum(axis, keepdims=True)
    close(KERNELS["log_softmax_grad"](tensor(g), strided(log), dim), expected, 1e-4)


@pytest.mark.parametrize("shape, dim", [((3, 50000), 1), ((50000, 3), 0), ((40, 7), 0), ((200, 9), 1)])
def test_logsumexp(shape, dim, rng):
    """Of lines that are cut into parts, too; a line with an infinity has that or, of -inf alone, -inf."""
    x = (rng.standard_normal(shape) * 5).astype("f4")
    lines = np.moveaxis(x, dim, -1)
    lines[0, 1], lines[1] = np.inf, -np.inf
    wide = lines[2:].astype("f8")
    found = values(KERNELS["logsumexp"](strided(x), dim))
    np.testing.assert_allclose(found[2:], np.log(np.exp(wide).sum(-1)), rtol=2e-6)
    assert found[0] == np.inf and found[1] == -np.inf


@pytest.mark.parametrize("dim", [0, 1])
def test_softmax_special_values(dim):
    inf, nan = np.inf, np.nan
    x = np.array([[-inf, -inf], [1, nan], [inf, 1], [-inf, 2]], "f4")
    x = x if dim == 1 else np.ascontiguousarray(x.T)
    expected = np.array([[nan, nan], [nan, nan], [nan, nan], [0, 1]])
    np.testing.assert_array_equal(values(KERNELS["softmax"](tensor(x), dim)), expected if dim == 1 else expected.T)


@pytest.mark.parametrize("name", FLOATS)
@pytest.mark.parametrize("n, classes", [(5, 10), (64, 10), (3, 1), (0, 4), (200, 1500)])
def test_cross_entropy(n, classes, name, rng):
    x, g = (rng.standard_normal((n, classes)) * 4).astype(name), rng.standard_normal(n).astype(name)
    target = rng.integers(0, classes, n)
    target[1:2] = -100
    wide = x.astype("f8")
    softmax = np.exp(wide) / np.exp(wide).sum(1, keepdims=True)
    kept = target != -100
    picked = np.where(kept, target, 0)
    out, found = KERNELS["cross_entropy_softmax"](strided(x), strided(target), -100)
    close(found, softmax, 2e-6)
    close(out, np.where(kept, -np.log(softmax[np.arange(n), picked]), 0), 4e-6)
    np.testing.assert_array_equal(values(KERNELS["cross_entropy"](strided(x), strided(target), -100)), values(out))
    expected = (softmax - np.eye(classes)[picked]) * (g * kept)[:, None]
    close(KERNELS["cross_entropy_grad"](strided(g), strided(values(found)), tensor(target), -100), expected, 1e-5)


@pytest.mark.parametrize("label", [4, -1, 1 << 40, -(1 << 62)])
def test_cross_entropy_refuses_wrong_labels(label):
    x, target = tensor(np.zeros((3, 4), "f4")), tensor(np.array([0, label, 2]))
    text = rf"cross_entropy: label {label} at position 1 is outside \[0, 4\) for 4 classes"
    with pytest.raises(IndexRangeError, match=text):
        KERNELS["cross_entropy"](x, target, -100)
    KERNELS["cross_entropy"](x, target, label)
