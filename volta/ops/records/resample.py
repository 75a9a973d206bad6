"""Records of resampling: planes [P, D, H, W] at another size, each dimension by itself, and its transpose, which is its derivative.

Along a dimension, output o lies at the source position p = scale * (o + 1/2) - 1/2, or scale * o with `align_corners`. "nearest" takes
the element at floor(scale * o), "nearest-exact" the one at floor(scale * (o + 1/2)), "linear" weighs the two around p, "cubic" the four
(Keys 1981, a = -3/4), "area" takes the mean of those that the output covers. Beyond the ends the outermost element is repeated. A
dimension that keeps its size with scale 1 is left as it is. "linear16" and "cubic16", for bytes, are as PyTorch's: the weights of each
element are rounded to 16 bits, times a power of two for the dimension; products with bytes are then exact. Bytes have no derivative.
"""
from __future__ import annotations

import numpy as np

from volta.dtypes import int32, uint8
from volta.ops.records.copy import cast
from volta.ops.records.index import index_add_op, index_select_op
from volta.ops.records.math import clamp_max, clamp_min, mul
from volta.ops.records.reduce import sum_op
from volta.ops.records.view import reshape_op
from volta.ops.table import Derived, Labels, case, register

MODES = ("nearest", "nearest-exact", "linear", "cubic", "area", "linear16", "cubic16")


def np_taps(mode, o, size, length, scale, align_corners):
    """(first source, weights) of output o."""
    if size == length and scale == 1:
        return o, [1]
    if mode == "area":
        first, stop = o * size // length, -(-(o + 1) * size // length)
        return first, [1 / (stop - first)] * (stop - first)
    if mode.startswith("nearest"):
        place = np.float32(o + 0.5 * (mode == "nearest-exact")) * np.float32(scale)
        return min(int(np.floor(place)), size - 1), [1]
    place = scale * o if align_corners else scale * (o + 0.5) - 0.5
    place = max(place, 0) if mode == "linear" else place
    first = int(np.floor(place))
    t = place - first
    if mode == "linear":
        return first, [1 - t, t]
    return first - 1, [-0.75 * t * (1 - t) ** 2, 1 + t * t * (1.25 * t - 2.25), 1 + (1 - t) ** 2 * (1.25 * (1 - t) - 2.25),
                       -0.75 * t * t * (1 - t)]


def bits_of(largest: float) -> int:
    """By which power of two weights are multiplied and rounded: the largest one has 15 bits then."""
    return next(bits for bits in range(22) if int(0.5 + largest * (2 << bits)) >= 1 << 15)


def _np_matrix(size, length, scale, mode, align_corners):
    out = np.zeros((length, size))
    for o in range(length):
        first, weights = np_taps(mode.removesuffix("16"), o, size, length, scale, align_corners)
        for k, w in enumerate(weights):
            out[o, min(max(first + k, 0), size - 1)] += w
    if mode.endswith("16"):
        unit = 1 << bits_of(out.max())
        out = np.trunc(out * unit + np.copysign(0.5, out)) / unit
    return out


def np_resample(x: np.ndarray, size: tuple, scales: tuple, mode: str, align_corners: bool, transposed: bool = False) -> np.ndarray:
    """The definition in NumPy, for the tests: a product with a matrix along each dimension."""
    for d, (length, scale) in enumerate(zip(size, scales), 1):
        n = x.shape[d]
        matrix = _np_matrix(length, n, scale, mode, align_corners).T if transposed else _np_matrix(n, length, scale, mode, align_corners)
        x = np.moveaxis(np.tensordot(matrix, x, (1, d)), 0, d)
    return x


def _options(mode, *scales, align_corners=False):
    return {"scales": scales, "mode": mode, "align_corners": align_corners}


resample_op = register(
    "resample", ("x",), family="resample", takes="f", numpy=np_resample,
    vjp=(lambda g, x_shape, scales, mode, align_corners: resample_grad(
            g, size=x_shape[1:], scales=scales, mode=mode, align_corners=align_corners),),
    cases=(case((2, 1, 4, 5), size=(1, 6, 3), **_options("nearest", 1.0, 4 / 6, 5 / 3)),
           case((2, 3, 4, 2), size=(2, 7, 2), **_options("nearest-exact", 1.5, 4 / 7, 1.0)),
           case((2, 2, 3, 4), size=(3, 5, 7), **_options("linear", 2 / 3, 3 / 5, 4 / 7)),
           case((5, 1, 16, 16), size=(1, 9, 23), **_options("linear", 1.0, 15 / 8, 15 / 22, align_corners=True)),
           case((1, 1, 4, 5), size=(1, 7, 3), **_options("cubic", 1.0, 4 / 7, 5 / 3)),
           case((2, 3, 5, 4), size=(2, 3, 6), **_options("area", 1.5, 5 / 3, 4 / 6))))
resample_grad = register(
    "resample_grad", ("g",), family="resample", takes="f",
    numpy=lambda g, **options: np_resample(g, **options, transposed=True),
    vjp=(lambda gg, g_shape, scales, mode, align_corners: resample_op(
            gg, size=g_shape[1:], scales=scales, mode=mode, align_corners=align_corners),),
    cases=(case((2, 1, 6, 3), size=(1, 4, 5), **_options("nearest", 1.0, 4 / 6, 5 / 3)),
           case((2, 2, 7, 2), size=(3, 4, 2), **_options("nearest-exact", 1.5, 4 / 7, 1.0)),
           case((2, 3, 5, 7), size=(2, 3, 4), **_options("linear", 2 / 3, 3 / 5, 4 / 7)),
           case((6, 1, 9, 23), size=(1, 16, 16), **_options("linear", 1.0, 15 / 8, 15 / 22, align_corners=True)),
           case((1, 1, 7, 3), size=(1, 4, 5), **_options("cubic", 1.0, 4 / 7, 5 / 3)),
           case((2, 2, 3, 6), size=(3, 5, 4), **_options("area", 1.5, 5 / 3, 4 / 6))))


def _np_windowed(x, places, weights, dim):
    weights = weights.reshape(weights.shape + (1,) * (x.ndim - 1 - dim))
    return (np.take(x, places, axis=dim) * weights).sum(dim).astype(x.dtype)


def _windowed(x, places, weights, dim):
    shape = (*x._shape[:dim], *places._shape, *x._shape[dim + 1:])
    picked = reshape_op(index_select_op(x, reshape_op(places, shape=(places._size,)), dim=dim), shape=shape)
    weights = reshape_op(weights, shape=places._shape + (1,) * (x.ndim - 1 - dim))
    return cast(sum_op(mul(picked, weights), dim=(dim,), keepdim=False), x.dtype)


def _np_windowed_grad(g, places, weights, size, dim):
    g = np.moveaxis(g, dim, -1)
    out = np.zeros((*g.shape[:-1], size), g.dtype)
    np.add.at(out, (..., places), g[..., None, :] * weights)
    return np.moveaxis(out, -1, dim)


def _windowed_grad(g, places, weights, size, dim):
    taps, length = places._shape
    weights = reshape_op(weights, shape=(taps, length) + (1,) * (g.ndim - 1 - dim))
    each = mul(reshape_op(g, shape=(*g._shape[:dim], 1, *g._shape[dim:])), weights)
    each = reshape_op(each, shape=(*g._shape[:dim], taps * length, *g._shape[dim + 1:]))
    return index_add_op(each, reshape_op(places, shape=(taps * length,)), dim=dim, size=size)


def _samples(*each):
    """(shape, size of the other side, dim, taps, windows): places as images have them, whose last is repeated, with weights."""
    for shape, n, dim, taps, length in each:
        places = Derived(lambda *_, n=n, taps=taps, length=length: np.minimum(
            np.arange(taps)[:, None] + np.arange(length) * n // length, np.minimum(np.arange(length) * n // length + taps - 1, n - 1)))
        weights = Derived(lambda *_, taps=taps, length=length: (np.arange(taps * length).reshape(taps, length) * 7 % 11 - 4.0) / 8)
        yield shape, places, weights, dim, n


windowed_op = register(                             # along dim, the sums of elements at places[:, j] times weights[:, j]
    "windowed", ("x", "places", "weights"), family="resample", takes={"x": "fi", "places": "int64", "weights": "=x"}, reference=_windowed,
    numpy=_np_windowed, kinds="f",
    vjp=(lambda g, places, weights, x_shape, dim: windowed_grad(g, places, weights, size=x_shape[dim], dim=dim), None, None),
    cases=tuple(case(shape, places, weights, dim=dim) for shape, places, weights, dim, _ in _samples(
        ((2, 5, 7), 7, 2, 3, 4), ((2, 5, 7), 5, 1, 2, 3), ((29, 2, 33), 33, 2, 4, 21), ((2, 4, 3), 4, 1, 3, 9), ((0, 5, 7), 7, 2, 2, 3))))
windowed_grad = register(           # its transpose; places[k, j] is min(places[0, j] + k, places[-1, j]), and both grow with j
    "windowed_grad", ("g", "places", "weights"), family="resample", takes={"g": "fi", "places": "int64", "weights": "=g"},
    reference=_windowed_grad, numpy=_np_windowed_grad, kinds="f",
    vjp=(lambda gg, places, weights, dim: windowed_op(gg, places, weights, dim=dim), None, None),
    cases=tuple(case(shape, places, weights, size=n, dim=dim) for shape, places, weights, dim, n in _samples(
        ((2, 5, 4), 7, 2, 3, 4), ((2, 3, 7), 5, 1, 2, 3), ((29, 2, 21), 33, 2, 4, 21), ((2, 9, 3), 4, 1, 3, 9), ((0, 5, 3), 7, 2, 2, 3))))


def _windowed_bytes(x, places, weights, dim, bits):
    total = windowed_op(cast(x, int32), places, weights, dim=dim) + (1 << bits >> 1) >> bits
    return cast(clamp_max(clamp_min(total, 0), 255), uint8)


def _bytes(shape, low, high, dtype):
    """A sample input of integers of another dtype than that under test."""
    return Derived(lambda *_: np.random.default_rng(len(shape)).integers(low, high, shape).astype(dtype))


windowed_bytes_op = register(                       # the same of bytes, by weights times 2**bits, rounded up from the half
    "windowed_bytes", ("x", "places", "weights"), family="resample", takes={"x": "uint8", "places": "int64", "weights": "int32"},
    reference=_windowed_bytes, kinds="f", smooth=False, numpy=lambda x, places, weights, dim, bits: np.clip(
        _np_windowed(x.astype(np.int64), places, weights, dim) + (1 << bits >> 1) >> bits, 0, 255).astype(np.uint8),
    cases=(case(_bytes((2, 5, 7), 0, 256, np.uint8), Labels((3, 4), 7), _bytes((3, 4), -20, 90, np.int32), dim=2, bits=7),
           case(_bytes((2, 5, 300), 0, 256, np.uint8), Labels((2, 3), 5), _bytes((2, 3), -20, 90, np.int32), dim=1, bits=7),
           case(_bytes((37, 1, 35), 0, 256, np.uint8), Labels((4, 21), 35), _bytes((4, 21), -9, 99, np.int32), dim=2, bits=8)))
