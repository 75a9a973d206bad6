"""2-d convolution on the GPU: windows as columns, one matrix product, and back; gradients likewise.

A position counts (image, oy, ox). Columns are a matrix [C * kh * kw, positions], so that the groups of channels are a batch of
products over rows that lie one after the other. Where the columns of all positions would take more than `column_bytes`, the
positions are done in pieces: whole images where one fits, else parts of an image.

With one group and large images, each image has its own matrix of columns instead, and the product's batch is the images: then
it writes and reads images as they lie, and nothing has to be permuted. A 1 x 1 kernel needs no columns then.

Knows tensors, the runtime's context and the matrix product on buffers. Must not know derivatives.
"""
from __future__ import annotations

from volta.devices.gpu.common import FLOAT32, context
from volta.devices.gpu.plans import (
    THREADS,
    Plans,
    ceil_div,
    dense,
    floats,
    need_float32,
    packer,
    spare,
    vector_type,
    vectors,
    zeros,
)
from volta.devices.gpu.product import Operand, multiply
from volta.errors import OutOfMemoryError

column_bytes = 256 << 20    # of one piece's columns, at most; also at most what the adapter binds at once
FULL_GPU = 1 << 17          # threads that keep a large GPU busy
TILE = 64                   # outputs of an image that a tile of the product covers

_plans = Plans()


class Plan:
    """Sizes, pieces, pipelines and parameters of one convolution's geometry; used by all three kernels."""

    def __init__(self, device, shape, out_channels, kernel, stride, padding, dilation, groups, bound) -> None:
        self.ctx = ctx = context(device)
        self.images, self.channels, self.height, self.width = shape
        self.out_channels, self.groups = out_channels, groups
        self.kernel, self.stride, self.padding, self.dilation = kernel, stride, padding, dilation
        self.out_height, self.out_width = ((n + 2 * p - d * (k - 1) - 1) // s + 1 for n, k, s, p, d in
                                           zip(shape[2:], kernel, stride, padding, dilation))
        self.length = self.out_height * self.out_width
        self.positions = self.images * self.length
        if 4 * self.positions * out_channels > ctx.limits["max-buffer-size"]:      # before work is planned for it
            raise OutOfMemoryError(f"conv2d: an output of shape {(self.images, out_channels, self.out_height, self.out_width)} is larger "
                                   f"than this device's largest buffer, {ctx.limits['max-buffer-size']} bytes")
        self.taps = kernel[0] * kernel[1]
        self.rows = self.channels * self.taps                   # of columns
        self.group_rows = self.rows // groups
        self.group_outputs = out_channels // groups
        self.pieces = self._pieces(min(bound, ctx.limits["max-storage-buffer-binding-size"]))
        self.row = max((self._row(count) for _, count in self.pieces), default=0)
        # Images as the product's batch: only whole ones, and where tiles do not hang over an image's end by much.
        whole = all(count % self.length == 0 for _, count in self.pieces)
        self.by_image = groups == 1 and whole and (
            self.length % TILE == 0 or self.length % 4 == 0 and self.length >= 16 * TILE and len(self.pieces) == 1)
        self.pointwise = self.by_image and kernel == (1, 1) == stride and padding == (0, 0)
        self.out_shape = (self.images, out_channels, self.out_height, self.out_width)
        self.out_bytes = 4 * self.positions * out_channels
        self.column_bytes = 4 * self.rows * self.row
        self.matrix_bytes = 4 * out_channels * self.row
        self.launches = Plans()

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

    @staticmethod
    def _row(count: int) -> int:
        return (count + 3) // 4 * 4

    def _launch(self, buffers: tuple, make, *args) -> None:
        """Launch what `make(*args)` gives, (pipeline, parameters, workgroups), which is made once."""
        key = make, args
        found = self.launches.get(key)
        if found is None:
            found = self.launches[key] = make(self, *args)
        self.ctx.launch(found[0], buffers, found[1], found[2])

    def im2col(self, x, first: int, count: int, columns, by_image: bool) -> None:
        """columns[rows, row(count)] of `count` positions of the tensor x, or columns[images, rows, length]."""
        self._launch((x.storage.buffer, columns), Plan._im2col, x.offset, x._strides, first, count, by_image)

    def _im2col(self, offset: int, strides: tuple, first: int, count: int, by_image: bool) -> tuple:
        pipeline = self.ctx.pipeline("conv/im2col", BY_IMAGE=by_image)
        words = self._row(count) // 4
        row = self.length // 4 if by_image else words
        blocks = ceil_div(words, THREADS)
        # One thread does all taps of a channel, unless that leaves the GPU idle.
        taps = self.kernel[0] if self.channels * words >= FULL_GPU else 1
        params = packer(pipeline)(offset, *[s & 0xFFFFFFFF for s in strides], self.height, self.width, self.out_height, self.out_width,
                                  *self.kernel, *self.stride, *self.padding, *self.dilation, first, count, row, taps, blocks,
                                  self.channels, words)
        return pipeline, params, self.channels * (self.kernel[0] // taps) * blocks

    def col2im(self, columns, first: int, count: int, x) -> None:
        """Add the columns of `count` positions into the buffer x, from zero where an image begins."""
        self._launch((columns, x), Plan._col2im, first, count)

    def _col2im(self, first: int, count: int) -> tuple:
        pipeline = self.ctx.pipeline("conv/col2im", STRIDED=self.stride != (1, 1), BY_IMAGE=self.by_image)
        image = first // self.length
        images = (first + count - 1) // self.length + 1 - image
        pixels = images * self.channels * self.height * self.width
        row = self.length if self.by_image else self._row(count)
        params = packer(pipeline)(pixels, image, self.channels, self.height, self.width, self.out_height, self.out_width,
                                  *self.kernel, *self.stride, *self.padding, *self.dilation, first, count, row)
        return pipeline, params, ceil_div(pixels, THREADS)

    def to_matrix(self, g, first: int, count: int, matrix) -> None:
        """matrix[O, row(count)] of the contiguous images g[N, O, oh, ow]."""
        self._launch((g.storage.buffer, spare(self.ctx), matrix), Plan._permute, g.offset, first, count, None, True)

    def to_images(self, matrix, first: int, count: int, bias, out) -> None:
        """The buffer out[N, O, oh, ow] from matrix[O, row(count)], plus bias[O]."""
        other, offset = (spare(self.ctx), None) if bias is None else (bias.storage.buffer, bias.offset)
        self._launch((matrix, other, out), Plan._permute, 0, first, count, offset, False)

    def _permute(self, offset: int, first: int, count: int, bias: int | None, to_matrix: bool) -> tuple:
        lanes = vectors(self.length, offset, first, count)
        pipeline = self.ctx.pipeline("conv/permute", V=vector_type(lanes), TO_MATRIX=to_matrix, HAS_BIAS=bias is not None)
        row = self._row(count) // lanes
        params = packer(pipeline)(self.out_channels, self.length // lanes, row, first // lanes, count // lanes, offset // lanes,
                                  bias or 0)
        return pipeline, params, ceil_div(self.out_channels * row, THREADS)

    def add_bias(self, bias, out) -> None:
        """out[N, O, oh, ow] += bias[O], in place; length is a multiple of 4."""
        self._launch((bias.storage.buffer, out), Plan._add_bias, bias.offset)

    def _add_bias(self, offset: int) -> tuple:
        pipeline = self.ctx.pipeline("conv/bias")
        count = self.positions * self.out_channels // 4
        return pipeline, packer(pipeline)(count, self.length // 4, self.out_channels, offset), ceil_div(count, THREADS)

    def accumulate(self, part, total, count: int) -> None:
        """The buffer total += part."""
        self._launch((part, total), Plan._accumulate, count)

    def _accumulate(self, count: int) -> tuple:
        pipeline = self.ctx.pipeline("conv/accumulate")
        return pipeline, packer(pipeline)(count), ceil_div(count, THREADS)

    def part(self, buffer, first: int, count: int, channels: int):
        """Binding of the whole images [first, first + count) of a contiguous buffer; 256-byte aligned, since length % 64 == 0."""
        if count == self.positions:
            return buffer
        return buffer, 4 * first * channels, 4 * count * channels


def _plan(x_shape, device, out_channels, kernel, stride, padding, dilation, groups) -> Plan:
    key = (device, x_shape, out_channels, kernel, stride, padding, dilation, groups, column_bytes)
    plan = _plans.get(key)
    if plan is None:
        plan = _plans[key] = Plan(device, x_shape, out_channels, kernel, stride, padding, dilation, groups, column_bytes)
    return plan


def conv2d(x, weight, bias, stride, padding, dilation, groups):
    """out[N, O, oh, ow] of x[N, C, H, W] and weight[O, C / groups, kh, kw]."""
    if x.dtype is not FLOAT32:
        need_float32("conv2d", x)
    device, shape = x.storage.device, weight.shape
    plan = _plan(x.shape, device, shape[0], shape[2:], stride, padding, dilation, groups)
    ctx = plan.ctx
    out = floats(device, plan.out_shape, plan.out_bytes)
    if not out._size:
        return out
    weight = dense(weight)
    bias = None if bias is None else dense(bias)
    inner = plan.group_rows
    w = Operand(True, inner, 0 if groups == 1 else plan.group_outputs * inner, weight.offset)
    if plan.by_image:
        _conv_by_image(plan, x, weight.storage.buffer, w, out.storage.buffer)
        if bias is not None:
            plan.add_bias(bias, out.storage.buffer)
        return out
    columns, matrix = ctx.alloc(plan.column_bytes), ctx.alloc(plan.matrix_bytes)
    for first, count in plan.pieces:
        row = plan._row(count)
        plan.im2col(x, first, count, columns, False)
        multiply(ctx, plan.group_outputs, row, inner, groups, weight.storage.buffer, w,
                 columns, Operand(False, row, inner * row, 0), matrix)
        plan.to_images(matrix, first, count, bias, out.storage.buffer)
    return out


def _conv_by_image(plan: Plan, x, weight, w, out) -> None:
    ctx, length, rows, outputs = plan.ctx, plan.length, plan.rows, plan.out_channels
    if plan.pointwise:
        x = dense(x)
        multiply(ctx, outputs, length, rows, plan.images, weight, w,
                 x.storage.buffer, Operand(False, length, rows * length, x.offset), out)
        return
    columns = ctx.alloc(plan.column_bytes)
    for first, count in plan.pieces:
        plan.im2col(x, first, count, columns, True)
        multiply(ctx, outputs, length, rows, count // length, weight, w,
                 columns, Operand(False, length, rows * length, 0), plan.part(out, first, count, outputs))


def conv2d_grad_input(g, weight, height, width, stride, padding, dilation, groups):
    """The gradient of conv2d's x[N, C, height, width]."""
    if g.dtype is not FLOAT32:
        need_float32("conv2d_grad_input", g)
    device, shape = g.storage.device, weight.shape
    x_shape = (g.shape[0], shape[1] * groups, height, width)
    plan = _plan(x_shape, device, shape[0], shape[2:], stride, padding, dilation, groups)
    if not plan.positions or not shape[0]:
        return zeros(device, x_shape)
    ctx = plan.ctx
    g, weight = dense(g), dense(weight)
    out = floats(device, x_shape, 4 * x_shape[0] * x_shape[1] * height * width)
    inner, outputs = plan.group_rows, plan.group_outputs
    w = Operand(False, inner, 0 if groups == 1 else outputs * inner, weight.offset)
    if plan.by_image:
        _grad_input_by_image(plan, g, weight.storage.buffer, w, out.storage.buffer)
        return out
    columns, matrix = ctx.alloc(plan.column_bytes), ctx.alloc(plan.matrix_bytes)
    for first, count in plan.pieces:
        row = plan._row(count)
        plan.to_matrix(g, first, count, matrix)
        multiply(ctx, inner, row, outputs, groups, weight.storage.buffer, w,
                 matrix, Operand(False, row, outputs * row, 0), columns)
        plan.col2im(columns, first, count, out.storage.buffer)
    return out


def _grad_input_by_image(plan: Plan, g, weight, w, out) -> None:
    ctx, length, rows, outputs = plan.ctx, plan.length, plan.rows, plan.out_channels
    columns = out if plan.pointwise else ctx.alloc(plan.column_bytes)
    for first, count in [(0, plan.positions)] if plan.pointwise else plan.pieces:
        multiply(ctx, rows, length, outputs, count // length, weight, w,
                 g.storage.buffer, Operand(False, length, outputs * length, g.offset + first * outputs), columns)
        if not plan.pointwise:
            plan.col2im(columns, first, count, out)


def conv2d_grad_weight(g, x, kernel, stride, padding, dilation, groups):
    """The gradient of conv2d's weight."""
    if x.dtype is not FLOAT32:
        need_float32("conv2d_grad_weight", x)
    device, channels = x.storage.device, g.shape[1]
    plan = _plan(x.shape, device, channels, kernel, stride, padding, dilation, groups)
    inner, outputs = plan.group_rows, plan.group_outputs
    shape = (channels, x.shape[1] // groups, *kernel)
    if not plan.positions:
        return zeros(device, shape)
    ctx = plan.ctx
    g = dense(g)
    out = floats(device, shape, 4 * channels * inner)
    columns, matrix = ctx.alloc(plan.column_bytes), ctx.alloc(plan.matrix_bytes)
    part = None
    for first, count in plan.pieces:
        row = plan._row(count)
        plan.im2col(x, first, count, columns, False)
        plan.to_matrix(g, first, count, matrix)
        # The places that fill up a row are 0 in both matrices.
        multiply(ctx, outputs, inner, row, groups, matrix, Operand(True, row, outputs * row, 0),
                 columns, Operand(True, row, inner * row, 0), part or out.storage.buffer)
        if part is not None:
            plan.accumulate(part, out.storage.buffer, out._size)
        elif len(plan.pieces) > 1:
            part = ctx.alloc(4 * out._size)
    return out


KERNELS = {"conv2d": conv2d, "conv2d_grad_input": conv2d_grad_input, "conv2d_grad_weight": conv2d_grad_weight}
