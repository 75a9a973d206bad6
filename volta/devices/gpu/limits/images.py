"""Convolution and pooling of images too large for one binding: by images, groups, channels, and at last by bands of one image.

A band is a run of rows, or of columns, of the output with what it sees of the input; where it sees beyond the image, zeros are
put there, so that bands need no padding.
"""
from __future__ import annotations

from volta._kernels import core
from volta.devices.gpu.copy import contiguous, place
from volta.devices.gpu.limits.cut import bytes_of, call, flat, halves, join, limit_of, narrow, part, refuse


def _groups(run, inputs, dims, joined, params):
    """Half of the groups, then the others; group by group the lengths along dims are the same."""
    groups = params["groups"]

    def of(x, d, a, b):
        return None if x is None else part(x, d, x.shape[d] // groups * a, x.shape[d] // groups * b)

    return join(*[run(*[of(x, d, a, b) for x, d in zip(inputs, dims)], **{**params, "groups": b - a})
                  for a, b in ((0, groups // 2), (groups // 2, groups))], joined)


def _bands(x, shape, kernel, params):
    """(axis, [((first, stop) of the output, (first, stop) of the input)]) of two bands of an output of `shape`.

    Raises: BindingLimitError naming x, where there is nothing left to cut.
    """
    axis = 2 if shape[2] >= shape[3] else 3
    n, i = shape[axis], axis - 2
    if n < 2:
        refuse(x)
    stride, padding, reach = params["stride"][i], params["padding"][i], params["dilation"][i] * (kernel[i] - 1)
    return axis, [((a, b), (a * stride - padding, (b - 1) * stride - padding + reach + 1)) for a, b in ((0, n // 2), (n // 2, n))]


def _without_padding(params, axis):
    padding = params["padding"]
    return {**params, "padding": (0, padding[1]) if axis == 2 else (padding[0], 0)}


def _seen(x, axis, low, high):
    """x[low:high] along axis, zeros beyond its ends."""
    first, stop = min(max(low, 0), x.shape[axis]), max(min(high, x.shape[axis]), 0)
    band = narrow(x, axis, first, max(first, stop))
    shape = x.shape[:axis] + (high - low,) + x.shape[axis + 1:]
    starts = tuple(first - low if d == axis else 0 for d in range(4))
    return contiguous(band) if band.shape == shape else place(band, shape, starts, (1,) * 4, 0.0)


def _out_shape(x, kernel, params):
    """Of the output; a pooling may be given the `size` of its own, where that is rounded up."""
    return x.shape[:2] + tuple(params.get("size") or ((n + 2 * p - d * (k - 1) - 1) // s + 1 for n, k, s, p, d in
                               zip(x.shape[2:], kernel, params["stride"], params["padding"], params["dilation"])))


def conv2d(run, x, weight, bias, **params):
    """Halves of the input channels add up; those of the output channels and of bands lie side by side."""
    if x.shape[0] > 1:
        return halves(run, (x, weight, bias), params, (0, None, None), 0)
    if params["groups"] > 1:
        return _groups(run, (x, weight, bias), (1, 0, 0), 1, params)
    if bias is not None and x.shape[1] > 1:             # so that halves of the input can be added
        out = run(x, weight, None, **params)
        return call("add", out, core.reshaped(contiguous(bias), (1, bias.shape[0], 1, 1)))
    if bytes_of(x) > limit_of(x) and x.shape[1] > 1:
        return halves(run, (x, weight, None), params, (1, 1, None), None)
    if weight.shape[0] > 1:
        return halves(run, (x, weight, bias), params, (None, 0, 0), 1)
    axis, bands = _bands(x, _out_shape(x, weight.shape[2:], params), weight.shape[2:], params)
    plain = _without_padding(params, axis)
    return join(*[run(_seen(x, axis, *seen), weight, bias, **plain) for _, seen in bands], axis)


def conv2d_grad_input(run, g, weight, height, width, **params):
    """As `conv2d` with input and output exchanged; what two bands both reach adds up."""
    sizes = {"height": height, "width": width}
    if g.shape[0] > 1:
        return halves(run, (g, weight), {**sizes, **params}, (0, None), 0)
    if params["groups"] > 1:
        return _groups(run, (g, weight), (1, 0), 1, {**sizes, **params})
    if bytes_of(g) > limit_of(g) and g.shape[1] > 1:
        return halves(run, (g, weight), {**sizes, **params}, (1, 0), None)
    if weight.shape[1] > 1:
        return halves(run, (g, weight), {**sizes, **params}, (None, 1), 1)
    axis, bands = _bands(g, g.shape, weight.shape[2:], params)
    plain, length = _without_padding(params, axis), (height, width)[axis - 2]
    out = None
    for (a, b), (low, high) in bands:
        dx = run(part(g, axis, a, b), weight, **{**sizes, "height" if axis == 2 else "width": high - low}, **plain)
        dx = _seen(dx, axis, -low, length - low)
        out = dx if out is None else call("add", out, dx)
    return out


def conv2d_grad_weight(run, g, x, kernel, **params):
    """Images and bands add up; channels lie side by side."""
    if g.shape[0] > 1:
        return halves(run, (g, x), {"kernel": kernel, **params}, (0, 0), None)
    if params["groups"] > 1:
        return _groups(run, (g, x), (1, 1), 0, {"kernel": kernel, **params})
    if bytes_of(x) <= limit_of(x) and g.shape[1] > 1:
        return halves(run, (g, x), {"kernel": kernel, **params}, (1, None), 0)
    if x.shape[1] > 1:
        return halves(run, (g, x), {"kernel": kernel, **params}, (None, 1), 1)
    axis, bands = _bands(g, g.shape, kernel, params)
    plain = _without_padding(params, axis)
    return join(*[run(part(g, axis, *at), _seen(x, axis, *seen), kernel=kernel, **plain) for at, seen in bands], None)


def max_pool2d(run, x, **params):
    """Bands keep their padding, and drop the outputs that see it where the image goes on."""
    for d in (0, 1):
        if x.shape[d] > 1:
            return halves(run, (x,), params, (d,), (d, d))
    kernel = params["kernel"]
    shape = _out_shape(x, kernel, params)
    axis, bands = _bands(x, shape, kernel, params)
    stride, padding = params["stride"][axis - 2], params["padding"][axis - 2]
    results = []
    for (a, b), (_, high) in bands:
        dropped = min(a, -(-padding // stride))
        first = (a - dropped) * stride
        band = part(x, axis, first, min(high, x.shape[axis]))
        size = (dropped + b - a, shape[3]) if axis == 2 else (shape[2], dropped + b - a)
        out, index = run(band, **{**params, "size": size if params.get("size") else None})
        out, index = (contiguous(narrow(t, axis, dropped, dropped + b - a)) for t in (out, index))
        results.append((out, _moved(index, band.shape[3], x.shape[3], *((first, 0) if axis == 2 else (0, first)))))
    return join(*results, (axis, axis))


def _moved(index, width: int, whole: int, row: int, column: int):
    """Places in an image of `whole` columns, from places in its part of `width` columns at (row, column)."""
    if width != whole:
        index = call("add", index, call("mul", call("floor_divide", index, width), whole - width))
    return call("add", index, row * whole + column)



def max_pool2d_grad(run, g, index, height, width, **params):
    """By planes; one plane alone is an addition at its places."""
    for d in (0, 1):
        if g.shape[d] > 1:
            return halves(run, (g, index), {"height": height, "width": width, **params}, (d, d), d)
    return core.reshaped(call("scatter_add", flat(g), flat(index), dim=0, size=height * width), (1, 1, height, width))
