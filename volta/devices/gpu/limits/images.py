"""Convolution and pooling of images too large for one binding: by images, groups, channels, and at last by bands of one image.

A band is a run of rows, or of columns, of the output with what it sees of the input; where it sees beyond the image, zeros are
put there, so that bands need no padding.
"""
from __future__ import annotations

import math

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
    starts = tuple(first - low if d == axis else 0 for d in range(len(shape)))
    return contiguous(band) if band.shape == shape else place(band, shape, starts, (1,) * len(shape), 0.0)


def _out_shape(x, kernel, params):
    """Of the output."""
    return x.shape[:2] + tuple((n + 2 * p - d * (k - 1) - 1) // s + 1 for n, k, s, p, d in
                               zip(x.shape[2:], kernel, params["stride"], params["padding"], params["dilation"]))


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


def _seeing(x, out, kernel, params):
    """(axis, [((first, stop) of the output, outputs before them that are to be dropped, (first, stop) of the input)]) of two bands of a
    pooling. They keep the padding, and drop the outputs that see it where the image goes on.

    Raises: BindingLimitError naming x, where there is nothing left to cut, or windows are adaptive.
    """
    axis = max(range(2, len(out)), key=lambda d: out[d])
    n, i, bands = out[axis], axis - 2, []
    if n < 2 or kernel is None:
        refuse(x)
    stride, padding, reach = params["stride"][i], params["padding"][i], (params.get("dilation") or (1,) * 3)[i] * (kernel[i] - 1)
    for a, b in ((0, n // 2), (n // 2, n)):
        dropped = min(a, -(-padding // stride))
        bands.append(((a, b), dropped, ((a - dropped) * stride, (b - 1) * stride - padding + reach + 1)))
    return axis, bands


def _resized(sizes: tuple, axis: int, n: int) -> tuple:
    return sizes[:axis] + (n,) + sizes[axis + 1:]


def pool(run, x, size, kernel=None, outputs=1, **params):
    """Maxima or averages: by planes; one plane alone by bands. With 2 outputs the second are places."""
    def along(axis):
        return axis if outputs == 1 else (axis, axis)
    for d in (0, 1):
        if x.shape[d] > 1:
            return halves(run, (x,), {"size": size, "kernel": kernel, **params}, (d,), along(d))
    axis, bands = _seeing(x, x.shape[:2] + size, kernel, params)
    results = []
    for (a, b), dropped, (low, high) in bands:
        band = part(x, axis, low, min(high, x.shape[axis]))
        found = run(band, size=_resized(size, axis - 2, dropped + b - a), kernel=kernel, **params)
        kept = [contiguous(narrow(t, axis, dropped, dropped + b - a)) for t in (found if isinstance(found, tuple) else (found,))]
        results.append((kept[0], _moved(kept[1], band.shape, x.shape, axis, low)) if len(kept) > 1 else kept[0])
    return join(*results, along(axis))


def placed_pool(run, x, size, **params):
    """Maxima and their places."""
    return pool(run, x, size, outputs=2, **params)


def _moved(index, band: tuple, whole: tuple, axis: int, first: int):
    """Places in a plane, from places in its part that begins with `first` along an axis."""
    inner = math.prod(whole[axis + 1:])
    if math.prod(whole[2:axis]) > 1:
        before = call("floor_divide", index, band[axis] * inner)
        index = call("add", index, call("mul", before, (whole[axis] - band[axis]) * inner))
    return call("add", index, first * inner)


def fractional_pool(run, x, samples, **params):
    """By planes.

    Raises: BindingLimitError for one that is too large.
    """
    return halves(run, (x, samples), params, (0, 0), (0, 0))


def max_pool_grad(run, g, index, size, **params):
    """By planes; one plane alone is an addition at its places."""
    for d in (0, 1):
        if g.shape[d] > 1:
            return halves(run, (g, index), {"size": size, **params}, (d, d), d)
    return core.reshaped(call("scatter_add", flat(g), flat(index), dim=0, size=math.prod(size)), (1, 1, *size))


def avg_pool_grad(run, g, size, kernel=None, **params):
    """By planes; of one plane alone by bands, which add up where both reach."""
    for d in (0, 1):
        if g.shape[d] > 1:
            return halves(run, (g,), {"size": size, "kernel": kernel, **params}, (d,), d)
    axis, bands = _seeing(g, g.shape, kernel, params)
    n, out = size[axis - 2], None
    for (a, b), dropped, (low, high) in bands:
        slopes = _seen(part(g, axis, a, b), axis, -dropped, b - a)
        dx = run(slopes, size=_resized(size, axis - 2, min(high, n) - low), kernel=kernel, **params)
        dx = _seen(dx, axis, -low, n - low)
        out = dx if out is None else call("add", out, dx)
    return out
