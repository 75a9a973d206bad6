"""2-d convolution on the GPU: windows as columns, one matrix product, and back; gradients likewise.

A position counts (image, oy, ox). Columns are a matrix [C * kh * kw, positions], so that the groups of channels are a batch of
products over rows that lie one after the other. Where the columns of all positions would take more than `column_bytes`, the
positions are done in pieces: whole images where one fits, else parts of an image.

With one group and large images, each image has its own matrix of columns instead, and the product's batch is the images: then
it writes and reads images as they lie, and nothing has to be permuted. Forward, the product finds the windows in the padded images itself,
those of volumes too; a 1 x 1 kernel needs no columns either. Lines, images of one row, go without columns where they are many (lines.py).

Knows tensors, the runtime's context and the matrix product's steps. Must not know derivatives.
"""
from __future__ import annotations

from math import prod

from volta.devices import volume
from volta.devices.gpu import depthwise, lines
from volta.devices.gpu.common import FLOAT32, THREADS, ceil_div
from volta.devices.gpu.copy import contiguous, full
from volta.devices.gpu.join import add_extended
from volta.devices.gpu.limits import images as cuts
from volta.devices.gpu.limits.cut import KERNELS as TABLE
from volta.devices.gpu.linalg import Source, add_product, units_of
from volta.devices.gpu.map import add_elementwise
from volta.devices.gpu.matmul import Operand, Windows
from volta.devices.gpu.plans import At, Kernel, Plan, need_float32, unsigned, vector_type, vectors
from volta.errors import OutOfMemoryError

column_bytes = 256 << 20    # of one piece's columns, at most; also at most what the adapter binds at once
FEW_OUTPUTS = 64            # channels up to which columns cost more than that the product finds the windows itself
FULL_GPU = 1 << 17          # threads that keep a large GPU busy
TILE = 64                   # outputs of an image that a tile of the product covers


def _row(count: int) -> int:
    """Columns of `count` positions, whole words of four."""
    return (count + 3) // 4 * 4


class Geometry:
    """Sizes and pieces of one convolution, and the steps that its three kernels are made of. Buffers are those of `plan`."""

    def __init__(self, plan: Plan, shape, out_channels, kernel, stride, padding, dilation, groups) -> None:
        self.plan = plan
        limits = plan.ctx.limits
        self.images, self.channels, self.height, self.width = shape
        self.out_channels, self.groups = out_channels, groups
        self.kernel, self.stride, self.padding, self.dilation = kernel, stride, padding, dilation
        self.out_height, self.out_width = ((n + 2 * p - d * (k - 1) - 1) // s + 1 for n, k, s, p, d in
                                           zip(shape[2:], kernel, stride, padding, dilation))
        self.length = self.out_height * self.out_width
        self.positions = self.images * self.length
        self.out_shape = (self.images, out_channels, self.out_height, self.out_width)
        if 4 * self.positions * out_channels > limits["max-buffer-size"]:      # before work is planned for it
            raise OutOfMemoryError(f"conv2d: an output of shape {self.out_shape} is larger than this device's largest buffer, "
                                   f"{limits['max-buffer-size']} bytes")
        self.rows = self.channels * kernel[0] * kernel[1]       # of columns
        self.group_rows = self.rows // groups
        self.group_outputs = out_channels // groups
        self.pieces = self._pieces(min(column_bytes, limits["max-storage-buffer-binding-size"]))
        # Images as the product's batch: only whole ones, and where tiles do not hang over an image's end by much.
        whole = all(count % self.length == 0 for _, count in self.pieces)
        self.by_image = groups == 1 and whole and (
            self.length % TILE == 0 or self.length % 4 == 0 and self.length >= 16 * TILE and len(self.pieces) == 1)
        self.pointwise = self.by_image and kernel == (1, 1) == stride and padding == (0, 0)

    def _pieces(self, bound: int) -> list:
        """[(first position, count)]; firsts are multiples of 4 where it matters for vec4, i.e. where length is one."""
        if not self.positions:
            return []
        fit = bound // (4 * max(self.rows, self.out_channels))
        if fit >= self.positions:
            return [(0, self.positions)]
        count = fit // self.length * self.length or max(fit // 4 * 4, 4)
        pieces = []
        # A piece never ends in the next image, unless it holds whole ones.
        ends = self.positions if count >= self.length else self.length
        for start in range(0, self.positions, ends):
            pieces += [(first, min(count, start + ends - first)) for first in range(start, start + ends, count)]
        return pieces

    # ------------------------------------------------------------ buffers

    def columns(self, rows: int, name: str = "columns"):
        """Scratch memory for `rows` rows of the largest piece."""
        return self.plan.scratch(4 * rows * max(_row(count) for _, count in self.pieces), name)

    def weight(self, operand: int, weight) -> Source:
        """weight[O, C / groups * kh * kw], unit stride along the columns' rows."""
        inner = self.group_rows
        return Source(operand, Operand(True, inner, 0 if self.groups == 1 else self.group_outputs * inner, weight.offset & 3), operand)

    def matrix(self, buffer, rows: int, row: int, along_k: bool = False) -> Source:
        """Scratch memory of a matrix [groups * rows, row]."""
        return Source(buffer, Operand(along_k, row, rows * row, 0))

    def part(self, buffer, first: int, count: int, channels: int):
        """Binding of the whole images [first, first + count) of a contiguous buffer; 256-byte aligned, since length % 64 == 0."""
        return buffer if count == self.positions else (buffer, 4 * first * channels, 4 * count * channels)

    # ------------------------------------------------------------ steps

    def im2col(self, operand: int, x, first: int, count: int, columns, by_image: bool) -> None:
        """columns[rows, row(count)] of `count` positions of the tensor x, or columns[images, rows, length]."""
        words = _row(count) // 4
        blocks = ceil_div(words, THREADS)
        # One thread does all taps of a channel, unless that leaves the GPU idle.
        taps = self.kernel[0] if self.channels * words >= FULL_GPU else 1
        self.plan.step("conv/im2col", (operand, columns), (
            At(operand), *unsigned(x._strides), self.height, self.width, self.out_height, self.out_width, *self.kernel, *self.stride,
            *self.padding, *self.dilation, first, count, self.length // 4 if by_image else words, taps, blocks, self.channels, words),
            self.channels * (self.kernel[0] // taps) * blocks, BY_IMAGE=by_image)

    def col2im(self, columns, first: int, count: int, x) -> None:
        """Add the columns of `count` positions into the buffer x, from zero where an image begins."""
        image = first // self.length
        images = (first + count - 1) // self.length + 1 - image
        pixels = images * self.channels * self.height * self.width
        row = self.length if self.by_image else _row(count)
        self.plan.step("conv/col2im", (columns, x), (
            pixels, image, self.channels, self.height, self.width, self.out_height, self.out_width, *self.kernel, *self.stride,
            *self.padding, *self.dilation, first, count, row, 0), ceil_div(pixels, THREADS),
            STRIDED=self.stride != (1, 1), BY_IMAGE=self.by_image)

    def to_matrix(self, operand: int, g, first: int, count: int, matrix) -> None:
        """matrix[O, row(count)] of the contiguous images g[N, O, oh, ow]."""
        self._permute((operand, None, matrix), vectors(self.length, g.offset, first, count), first, count, operand, None)

    def to_images(self, matrix, first: int, count: int, bias: int | None, out) -> None:
        """The buffer out[N, O, oh, ow] from matrix[O, row(count)], plus bias[O]."""
        self._permute((matrix, bias, out), vectors(self.length, first, count), first, count, None, bias)

    def _permute(self, bound: tuple, width: int, first: int, count: int, images: int | None, bias: int | None) -> None:
        row = _row(count) // width
        self.plan.step("conv/permute", bound, (
            self.out_channels, self.length // width, row, first // width, count // width, 0 if images is None else At(images, width),
            0 if bias is None else At(bias)), ceil_div(self.out_channels * row, THREADS),
            V=vector_type(width), TO_MATRIX=images is not None, HAS_BIAS=bias is not None)


def _conv2d(x, weight, bias, *, stride, padding, dilation, groups):
    """out[N, O, oh, ow] of x[N, C, H, W] and weight[O, C / groups, kh, kw]."""
    need_float32("conv2d", x, weight, bias)
    plan = Plan(x, weight, bias)
    kernel = weight.shape[2:]
    c = Geometry(plan, x.shape, weight.shape[0], kernel, stride, padding, dilation, groups)
    out = plan.output(c.out_shape, FLOAT32)
    if not c.positions or not c.out_channels:
        return plan
    geometry = kernel, stride, dilation, padding[0], groups
    if c.out_channels > FEW_OUTPUTS and lines.takes(c.out_channels, c.channels, x.shape, c.out_width, geometry, units_of(plan.ctx)):
        return lines.add(plan, x, weight, bias, out, c.out_shape, padding[1]) if x._strides[3] == 1 else _dense_first
    w = c.weight(1, weight)
    apart = depthwise.takes(c.channels, weight.shape, groups, stride, dilation)
    if (c.pointwise or apart) and not x._contiguous:
        return _dense_first
    if apart:
        return depthwise.add_forward(plan, x, weight, bias, out, c.out_shape, stride, padding, dilation)
    if c.by_image:
        layout = Operand(False, c.length, c.rows * c.length, x.offset & 3 if c.pointwise else 0)
        if c.pointwise:
            add_product(plan, c.out_channels, c.length, c.rows, c.images, w, Source(0, layout, 0), out)
        elif 1 < c.out_channels <= FEW_OUTPUTS:
            if not x._contiguous:
                return _dense_first
            _add_windows(plan, x, w, out, c.out_channels, (1, *kernel), (1, *stride), (0, *padding), (1, *dilation),
                         (1, c.out_height, c.out_width))
        else:
            columns = c.columns(c.rows)
            for first, count in c.pieces:
                c.im2col(0, x, first, count, columns, True)
                add_product(plan, c.out_channels, c.length, c.rows, count // c.length, w, Source(columns, layout),
                            c.part(out, first, count, c.out_channels))
        if bias is not None:
            _add_bias(plan, out, c.images, c.out_channels, c.length)
        return plan
    columns, matrix = c.columns(c.rows), c.columns(c.out_channels, "matrix")
    for first, count in c.pieces:
        row = _row(count)
        c.im2col(0, x, first, count, columns, False)
        add_product(plan, c.group_outputs, row, c.group_rows, groups, w, c.matrix(columns, c.group_rows, row), matrix)
        c.to_images(matrix, first, count, None if bias is None else 2, out)
    return plan


def _dense_first(x, weight, bias, **params):
    return KERNELS["conv2d"](contiguous(x), weight, bias, **params)


def _add_windows(plan: Plan, x, w: Source, out, out_channels: int, kernel: tuple, stride: tuple, padding: tuple, dilation: tuple,
                 outs: tuple) -> None:
    """The product of the weight and the windows of the contiguous x[N, C, ...], whose last dimensions are up to three."""
    images, channels = x.shape[:2]
    sizes = (1,) * (3 - len(x.shape[2:])) + x.shape[2:]
    source, offset = 0, x.offset & 3
    if any(padding):
        padded = tuple(n + 2 * p for n, p in zip(sizes, padding))
        source, offset = plan.scratch(4 * images * channels * prod(padded)), 0
        add_extended(plan, x, (0, source), (images * channels, *sizes), padded, padding)
        sizes = padded
    strides = (sizes[1] * sizes[2], sizes[2], 1)
    windows = Windows(kernel, tuple(d * s for d, s in zip(dilation, strides)), tuple(n * s for n, s in zip(stride, strides)), outs)
    plane = prod(sizes)
    columns = Source(source, Operand(False, plane, channels * plane, offset), None if any(padding) else 0)
    add_product(plan, out_channels, prod(outs), channels * prod(kernel), images, w, columns, out, windows=windows)


def _conv3d(x, weight, bias, *, stride, padding, dilation, groups):
    """out[N, O, D', H', W'] of x[N, C, D, H, W] and weight[O, C / groups, kd, kh, kw]."""
    need_float32("conv3d", x, weight, bias)
    kernel, out_channels = weight.shape[2:], weight.shape[0]
    outs = tuple((n + 2 * p - d * (k - 1) - 1) // s + 1 for n, k, s, p, d in zip(x.shape[2:], kernel, stride, padding, dilation))
    length, rows = prod(outs), prod(weight.shape[1:])
    if groups > 1 or out_channels < 2 or length < TILE or not x._size or not rows:
        return _by_slices
    plan = Plan(x, weight, bias)
    out = plan.output((x.shape[0], out_channels, *outs), FLOAT32)
    _add_windows(plan, x, Source(1, Operand(True, rows, 0, weight.offset & 3), 1), out, out_channels, kernel, stride, padding, dilation,
                 outs)
    if bias is not None:
        _add_bias(plan, out, x.shape[0], out_channels, length)
    return plan


def _by_slices(x, weight, bias, **params):
    return volume.conv3d(TABLE, x, weight, bias, **params)


def _add_bias(plan: Plan, out, images: int, channels: int, length: int) -> None:
    """out[N, O, length] += bias[O], in place, the bias being operand 2."""
    add_elementwise(plan, "x0 + o0", (2, out), (images, channels, length), ((0, 1, 0), (channels * length, length, 1)), FLOAT32,
                    ((0, At(2)),))


def _conv2d_grad_input(g, weight, *, height, width, stride, padding, dilation, groups):
    """The gradient of conv2d's x[N, C, height, width]."""
    need_float32("conv2d_grad_input", g, weight)
    plan = Plan(g, weight)
    x_shape = (g.shape[0], weight.shape[1] * groups, height, width)
    c = Geometry(plan, x_shape, weight.shape[0], weight.shape[2:], stride, padding, dilation, groups)
    if not c.positions or not c.out_channels:
        return lambda g, weight, **params: full(x_shape, 0.0, FLOAT32, g.storage.device)
    out, w = plan.output(x_shape, FLOAT32), c.weight(1, weight)
    geometry = weight.shape[2:], stride, dilation, padding[0], groups
    if padding[1] < weight.shape[3] and lines.takes(c.channels, c.out_channels, g.shape, width, geometry, units_of(plan.ctx)):
        return lines.add(plan, g, weight, None, out, x_shape, weight.shape[3] - 1 - padding[1], turned=True)
    if depthwise.takes(c.channels, weight.shape, groups, stride, dilation):
        return depthwise.add_grad_input(plan, g, weight, x_shape, out, stride, padding, dilation)
    columns = out if c.pointwise else c.columns(c.rows)
    if c.by_image:
        for first, count in [(0, c.positions)] if c.pointwise else c.pieces:
            base = first * c.out_channels
            layout = Operand(False, c.length, c.out_channels * c.length, (g.offset & 3) + base)
            add_product(plan, c.rows, c.length, c.out_channels, count // c.length, _turned(w), Source(0, layout, 0, base), columns)
            if not c.pointwise:
                c.col2im(columns, first, count, out)
        return plan
    matrix = c.columns(c.out_channels, "matrix")
    for first, count in c.pieces:
        row = _row(count)
        c.to_matrix(0, g, first, count, matrix)
        add_product(plan, c.group_rows, row, c.group_outputs, groups, _turned(w), c.matrix(matrix, c.group_outputs, row), columns)
        c.col2im(columns, first, count, out)
    return plan


def _turned(w: Source) -> Source:
    """The weight as [C / groups * kh * kw, O]: its unit stride is then along the rows of the result."""
    return w._replace(layout=w.layout._replace(along_k=False))


def _conv2d_grad_weight(g, x, *, kernel, stride, padding, dilation, groups):
    """The gradient of conv2d's weight."""
    need_float32("conv2d_grad_weight", g, x)
    plan = Plan(g, x)
    channels, shape = g.shape[1], (g.shape[1], x.shape[1] // groups, *kernel)
    c = Geometry(plan, x.shape, channels, kernel, stride, padding, dilation, groups)
    if not c.positions:
        return lambda g, x, **params: full(shape, 0.0, FLOAT32, x.storage.device)
    if depthwise.takes(c.channels, shape, groups, stride, dilation):
        if not x._contiguous:
            return lambda g, x, **params: KERNELS["conv2d_grad_weight"](g, contiguous(x), **params)
        return depthwise.add_grad_weight(plan, g, x, kernel, stride, padding, dilation)
    out = plan.output(shape, FLOAT32)
    size = channels * c.group_rows
    if not size:
        return plan
    columns, matrix = c.columns(c.rows), c.columns(channels, "matrix")
    for i, (first, count) in enumerate(c.pieces):
        row = _row(count)
        c.im2col(1, x, first, count, columns, False)
        c.to_matrix(0, g, first, count, matrix)
        # The places that fill up a row are 0 in both matrices.
        total = plan.scratch(4 * size, "part") if i else out
        add_product(plan, c.group_outputs, c.group_rows, row, groups, c.matrix(matrix, c.group_outputs, row, True),
                    c.matrix(columns, c.group_rows, row, True), total)
        if i:
            add_elementwise(plan, "x0 + o0", (total, out), (size,), ((1,), (1,)), FLOAT32)
    return plan


def _conv3d_grad_input(g, weight, size, stride, padding, dilation, groups):
    need_float32("conv3d_grad_input", g, weight)
    spread = volume.spread_slices(TABLE, g, weight, size, stride, padding, dilation, groups)
    return _OVERLAP(spread, n=g.shape[0], kernel=weight.shape[2], size=size, stride=stride, padding=padding, dilation=dilation)


def _overlap(spread, *, n, kernel, size, stride, padding, dilation):
    """x[N, C, *size] of which slices overlap."""
    plan, shape = Plan(spread), (n, spread.shape[1] // kernel, *size)
    out, width = plan.output(shape, FLOAT32), vectors(prod(size[1:]), spread.offset)
    if prod(shape):
        plan.step("conv/overlap", (0, out), (prod(shape) // width, shape[1], size[0], prod(size[1:]) // width, spread.shape[0] // n,
                                             stride[0], padding[0], dilation[0], At(0, width)), ceil_div(prod(shape) // width, THREADS),
                  V=vector_type(width), KERNEL=kernel)
    return plan


def _conv3d_grad_weight(g, x, kernel, stride, padding, dilation, groups):
    need_float32("conv3d_grad_weight", g, x)
    return volume.conv3d_grad_weight(TABLE, g, x, kernel, stride, padding, dilation, groups)


_OVERLAP = Kernel("conv3d_overlap", _overlap, cut=lambda run, spread, **params: volume.overlapped(TABLE, spread, **params))
KERNELS = {
    "conv2d": Kernel("conv2d", _conv2d, strided=(0,), cut=cuts.conv2d),
    "conv3d": Kernel("conv3d", _conv3d, cut=lambda run, *operands, **params: _by_slices(*operands, **params)),
    "conv2d_grad_input": Kernel("conv2d_grad_input", _conv2d_grad_input, cut=cuts.conv2d_grad_input),
    "conv2d_grad_weight": Kernel("conv2d_grad_weight", _conv2d_grad_weight, strided=(1,), cut=cuts.conv2d_grad_weight),
    "conv3d_grad_input": _conv3d_grad_input,
    "conv3d_grad_weight": _conv3d_grad_weight,
}
