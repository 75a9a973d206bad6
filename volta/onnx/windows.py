"""Translations of convolution, pooling, resampling and normalisation."""
from __future__ import annotations

import math

import numpy as np

from volta.dtypes import int64, to_numpy
from volta.onnx.graph import Call, Graph, translates
from volta.onnx.sizes import Size
from volta.ops.records.resample import np_taps
from volta.shapes import per_dim


# ---------------------------------------------------------------- convolution
def _conv_node(g, c, bias, stride, padding, dilation):
    return g.node("Conv", c[0], c[1], bias, strides=list(stride), pads=[*padding, *padding], dilations=list(dilation), group=c.groups)


@translates("conv2d", "conv3d")
def _conv(g: Graph, c: Call):
    return _conv_node(g, c, c[2], c.stride, c.padding, c.dilation)


@translates("conv1d")
def _conv1d(g: Graph, c: Call):
    bias = c[2] if "bias" in c.given else ""
    return _conv_node(g, c, bias, *[per_dim(c.op, name, getattr(c, name), 1, 0) for name in ("stride", "padding", "dilation")])


def _is_plain_conv(input, weight, padding, **options) -> bool:
    """Whether such a convolution is one node: of a batch of floats, and with padding in numbers."""
    return _is_batch(input, weight) and not isinstance(padding, str)


@translates("conv2d_grad_input")
def _conv_transpose2d(g: Graph, c: Call):
    return _transposed(g, c, c[0], c[1], "", c.shape()[2:], (c.height, c.width), c.stride, c.padding, c.dilation, c.groups)


@translates("conv3d_grad_input")
def _conv_transpose3d(g: Graph, c: Call):
    return _transposed(g, c, c[0], c[1], "", c.shape()[2:], c.size, c.stride, c.padding, c.dilation, c.groups)


def _transposed(g, c, x, w, bias, size, wanted, stride, padding, dilation, groups):
    kernel = c.shape(1)[2:]
    more = [n - ((m - 1) * s - 2 * p + d * (k - 1) + 1) for n, m, s, p, d, k in zip(wanted, size, stride, padding, dilation, kernel)]
    c.fixed(more, "an output_padding")
    # a negative one, of what was padded with rows of zeros, and one as large as the stride are padding behind
    behind = [p - m if m < 0 or m >= max(s, d) else p for p, m, s, d in zip(padding, more, stride, dilation)]
    more = [0 if m < 0 or m >= max(s, d) else m for m, s, d in zip(more, stride, dilation)]
    return g.node("ConvTranspose", x, w, bias, strides=list(stride), pads=[*padding, *behind], dilations=list(dilation), group=groups,
                  output_padding=more)


@translates("conv_transpose1d", "conv_transpose3d")
def _conv_transpose(g: Graph, c: Call):
    rank = len(c.shape(1)) - 2
    stride, padding, dilation = (per_dim(c.op, name, getattr(c, name), rank, 0) for name in ("stride", "padding", "dilation"))
    return _transposed(g, c, c[0], c[1], c[2] if "bias" in c.given else "", c.shape()[2:], c.out.shape[2:], stride, padding, dilation,
                       c.groups)


def _is_batch(input, weight, **options) -> bool:
    """Whether a transposed convolution is one node: of a batch of floats."""
    return input.ndim == weight.ndim and input.dtype.is_floating_point


# ---------------------------------------------------------------- pooling
def _window(c, dilation):
    """Attributes of a pool, and whether its windows reach behind the padding (ceil_mode)."""
    needed = [(m - 1) * s + d * (k - 1) + 1 - n - p for m, s, d, k, n, p in
              zip(c.out.shape[2:], c.stride, dilation, c.kernel, c.shape()[2:], c.padding)]
    longer = any(isinstance(n, int) and n > p for n, p in zip(needed, c.padding))
    behind = [max(n, p) for n, p in zip(c.fixed(needed, "images of a size, with ceil_mode"), c.padding)] if longer else c.padding
    return dict(kernel_shape=list(c.kernel), strides=list(c.stride), pads=[*c.padding, *behind]), longer


def _adaptive(n, m):
    """First element and the one behind the last of each of m windows of n elements."""
    return [(o * n // m, -(-(o + 1) * n // m)) for o in range(m)]


@translates("max_pool")
def _max_pool(g: Graph, c: Call):
    sizes, outs = c.shape()[2:], c.out.shape[2:]
    if c.kernel is None and all(m == 1 for m in outs) and not c.used[1]:
        return g.node("GlobalMaxPool", c[0]), ""
    if c.kernel is None:
        if c.used[1]:
            raise c.refuse("adaptive maxima with their indices are not exported")
        return _adaptive_max(g, c, c.fixed(sizes, "images of a size"), outs), ""
    attributes, _ = _window(c, c.dilation)
    attributes["dilations"] = list(c.dilation)
    if not c.used[1]:
        return g.node("MaxPool", c[0], **attributes), ""
    out, index = g.node("MaxPool", c[0], outputs=2, **attributes)
    plane = 1
    for n in sizes:
        plane = n * plane
    return out, g.node("Mod", index, g.scalar(plane, int64))           # ONNX counts through all planes


@translates("max_pool_values")
def _max_pool_values(g: Graph, c: Call):
    if c.kernel is None:
        return _adaptive_max(g, c, c.fixed(c.shape()[2:], "images of a size"), c.out.shape[2:])
    return g.node("MaxPool", c[0], **_window(c, c.dilation)[0], dilations=list(c.dilation))


def _adaptive_max(g, c, sizes, outs):
    x = c[0]
    for d, (n, m) in enumerate(zip(sizes, outs), 2):
        windows = _adaptive(n, m)
        most = max(stop - start for start, stop in windows)
        places = np.array([[min(start + i, stop - 1) for i in range(most)] for start, stop in windows], np.int64)
        x = g.node("ReduceMax", g.node("Gather", x, g.constant(places), axis=d), g.ints([d + 1]), keepdims=0)
    return x


@translates("avg_pool")
def _avg_pool(g: Graph, c: Call):
    sizes, outs = c.shape()[2:], c.out.shape[2:]
    if c.kernel is None and all(m == 1 for m in outs):
        return g.node("GlobalAveragePool", c[0])
    if c.kernel is None:
        taps = [[(start, [1 / (stop - start)] * (stop - start)) for start, stop in _adaptive(n, m)]
                for n, m in zip(c.fixed(sizes, "images of a size"), outs)]
        return _by_matrices(g, c, c[0], 2, sizes, taps)
    attributes, longer = _window(c, (1,) * len(outs))
    if c.divisor is None and not (longer and c.count_padding):
        return g.node("AveragePool", c[0], count_include_pad=int(c.count_padding), **attributes)
    # sums by another divisor: what is behind the padding does not count
    x, whole = g.node("AveragePool", c[0], count_include_pad=1, **attributes), math.prod(c.kernel)
    divisors = np.full((1,) * len(outs), c.divisor or 1)
    if c.divisor is None:
        counted = [[min(o * s - p + k, n + p) - (o * s - p) for o in range(m)] for n, m, s, p, k in
                   zip(c.fixed(sizes, "images of a size"), outs, c.stride, c.padding, c.kernel)]
        divisors = np.prod(np.meshgrid(*counted, indexing="ij"), axis=0)
    return g.node("Mul", x, g.constant((whole / divisors).astype(to_numpy(c.dtype))))


# ---------------------------------------------------------------- resampling
def _by_matrices(g, c, x, first, sizes, taps):
    """A product with a constant matrix along each dimension from `first` on. `taps`: per output its first source and weights."""
    rank = len(c.shape())
    for d, (n, lines) in enumerate(zip(sizes, taps), first):
        matrix = np.zeros((n, len(lines)))
        for o, (start, weights) in enumerate(lines):
            for k, w in enumerate(weights):
                matrix[min(max(start + k, 0), n - 1), o] += w
        if len(lines) == n and np.array_equal(matrix, np.eye(n)):
            continue
        order = [i for i in range(rank) if i != d] + [d]
        back = [order.index(i) for i in range(rank)]
        x = g.node("MatMul", x if d == rank - 1 else g.node("Transpose", x, perm=order), g.constant(matrix.astype(to_numpy(c.dtype))))
        x = x if d == rank - 1 else g.node("Transpose", x, perm=back)
    return x


@translates("resample")
def _resample(g: Graph, c: Call):
    """Planes (P, D, H, W). Where the scale is that of the sizes the operator Resize; elsewhere a product with a matrix."""
    sizes, outs, kind = c.shape()[1:], c.out.shape[1:], c.mode.removesuffix("16")
    changed = [d for d, (n, m) in enumerate(zip(sizes, outs)) if n != m]
    static = not any(isinstance(n, Size) for n in (*sizes, *outs))
    ends = (lambda n, m: (n - 1) / (m - 1) if m > 1 else 0.0) if c.align_corners else (lambda n, m: n / m)
    usual = static and all(math.isclose(s, ends(n, m), rel_tol=1e-6) or n == m for n, m, s in zip(sizes, outs, c.scales))
    if not static or usual and (kind != "area" and not (kind == "cubic" and 0 in changed)):
        mode = {"nearest": "nearest", "nearest-exact": "nearest", "linear": "linear", "cubic": "cubic"}.get(kind)
        if mode is None or not static and c.align_corners is False and c.mode == "area":
            raise c.refuse("mode 'area' needs images of a size")
        place = "align_corners" if c.align_corners else "asymmetric" if c.mode == "nearest" else "half_pixel"
        rounding = {"nearest": "floor", "nearest-exact": "round_prefer_ceil"}.get(c.mode)
        deep = 0 in changed                                 # five dimensions are an image of depth
        x = g.node("Unsqueeze", c[0], g.ints([1])) if deep else c[0]
        lead = (c.shape()[0], 1) if deep else (c.shape()[0],)
        x = g.node("Resize", x, "", "", g.ints((*lead, *outs)), mode=mode, coordinate_transformation_mode=place, nearest_mode=rounding,
                   cubic_coeff_a=-0.75 if mode == "cubic" else None)
        return g.node("Squeeze", x, g.ints([1])) if deep else x
    taps = [[np_taps(kind, o, n, m, s, c.align_corners) for o in range(m)] for n, m, s in zip(sizes, outs, c.scales)]
    return _by_matrices(g, c, c[0], 1, sizes, taps)


@translates("fold")
def _fold(g: Graph, c: Call):
    return g.node("Col2Im", c[0], g.ints(c.size), g.ints(c.kernel), strides=list(c.stride), pads=[*c.padding, *c.padding],
                  dilations=list(c.dilation))


@translates("grid_sample")
def _grid_sample(g: Graph, c: Call):
    if len(c.shape()) == 5 and g.opset < 20:
        raise c.refuse("volumes need opset_version=20 or newer")
    mode = c.mode if g.opset < 20 else {"bilinear": "linear", "bicubic": "cubic"}.get(c.mode, c.mode)
    return g.node("GridSample", c[0], c[1], mode=mode, padding_mode=c.padding_mode, align_corners=int(c.align_corners))


# ---------------------------------------------------------------- normalisation
@translates("functional.batch_norm")
def _batch_norm_eval(g: Graph, c: Call):
    """With running statistics; `given` names the tensors there are."""
    at = {name: c[i] for i, name in enumerate(c.given)}
    channels, dtype = c.shape()[1], to_numpy(c.dtype)
    weight, bias = (at.get(name) or g.constant(np.full(channels, v, dtype)) for name, v in (("weight", 1), ("bias", 0)))
    return g.node("BatchNormalization", at["input"], weight, bias, at["running_mean"], at["running_var"], epsilon=float(c.eps))


def _is_evaluated(input, running_mean, training, **options) -> bool:
    """Whether a batch normalisation is one node: by running statistics."""
    return not training and running_mean is not None and input.ndim > 1


@translates("batch_norm")
def _batch_norm(g: Graph, c: Call):
    """By the statistics of the batch."""
    axes, rank = g.ints([d for d in range(len(c.shape())) if d != 1]), len(c.shape())
    mean = g.node("ReduceMean", c[0], axes, keepdims=1)
    away = g.node("Sub", c[0], mean)
    rstd = _inverse_root(g, c, g.node("ReduceMean", g.node("Mul", away, away), axes, keepdims=1))
    out = _affine(g, c, g.node("Mul", away, rstd), (1, c.shape()[1]) + (1,) * (rank - 2))
    return out, g.node("Squeeze", mean, axes), g.node("Squeeze", rstd, axes)


def _inverse_root(g, c, variance):
    return g.chain(g.node("Add", variance, g.scalar(c.eps, c.dtype)), "Sqrt", "Reciprocal")


def _affine(g, c, x, shape):
    """x times the weight and plus the bias, where there are any, under this shape."""
    for i, op in ((1, "Mul"), (2, "Add")):
        x = x if c.inputs[i] is None else g.node(op, x, g.reshape(c[i], shape))
    return x


@translates("batch_norm_given")
def _batch_norm_given(g: Graph, c: Call):
    weight, bias = (g.constant(np.full(c.shape()[1], v, to_numpy(c.dtype))) if c.inputs[i] is None else c[i] for i, v in ((3, 1), (4, 0)))
    return g.node("BatchNormalization", c[0], weight, bias, c[1], c[2], epsilon=c.eps)


@translates("row_norm")
def _row_norm(g: Graph, c: Call):
    if c.used[1] or c.used[2]:
        raise c.refuse("the statistics of each row are not exported")
    shape, dtype = c.shape(), to_numpy(c.dtype)
    if c.groups > 1 or c.inner != 1:
        rows = g.reshape(c[0], (shape[0], c.groups, c.length), shape)
        ones, zeros = (g.constant(np.full(c.groups, v, dtype)) for v in (1, 0))
        x = g.reshape(g.node("InstanceNormalization", rows, ones, zeros, epsilon=c.eps), shape, shape)
        return _affine(g, c, x, (shape[1],) + (1,) * (len(shape) - 2)), "", ""
    axis, count = len(shape), 1
    while count < c.length:
        axis -= 1
        count *= shape[axis]
    trailing = shape[axis:]
    if c.centred:
        scale = g.constant(np.ones(trailing, dtype)) if c.inputs[1] is None else g.reshape(c[1], trailing) if len(trailing) > 1 else c[1]
        bias = c[2] if c.inputs[2] is None or len(trailing) == 1 else g.reshape(c[2], trailing)
        return g.node("LayerNormalization", c[0], scale, bias, axis=axis, epsilon=c.eps), "", ""
    squares = g.node("ReduceMean", g.node("Mul", c[0], c[0]), g.ints(range(axis, len(shape))), keepdims=1)
    return _affine(g, c, g.node("Mul", c[0], _inverse_root(g, c, squares)), trailing), "", ""


# composed ops that are one node, and when
WHOLE = {"conv1d": _is_plain_conv, "conv_transpose1d": _is_batch, "conv_transpose3d": _is_batch,
         "functional.batch_norm": _is_evaluated}
