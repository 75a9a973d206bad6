"""Matrix products of GPU tensors: `matmul` and `linear`.

Knows tensors, strides and the runtime's launches; gpu_matmul knows which kernel a product gets. Everything that follows from
the operands' layouts is worked out once and kept; a product seen before costs a look-up, an allocation and the launches.
"""
from __future__ import annotations

from math import prod
from typing import NamedTuple

from volta._kernels import core
from volta._kernels.core import gpu_storage, tensor
from volta.devices.gpu import matmul as planner
from volta.devices.gpu.common import (
    BYTES,
    FLOAT16,
    FLOAT32,
    INT32,
    INT64,
    UINT8,
    broadcast_shape,
    broadcast_strides,
    check_dtype,
    collapse,
    context,
    pack,
    row_major,
)
from volta.devices.gpu.copy import contiguous
from volta.devices.gpu.matmul import Operand
from volta.errors import DTypeError

ELEMENTS = {FLOAT32: "f32", FLOAT16: "f16", INT32: "i32", INT64: "i32", UINT8: "u8"}
LARGE_GPU = 132             # multiprocessors that a discrete GPU is taken to have
SMALL_GPU = 16              # and any other adapter
CACHE_LIMIT = 4096
NO_OFFSETS = (0, 0, 0)

_matmuls: dict = {}
_linears: dict = {}


def matmul(a, b):
    """a[..., M, K] @ b[..., K, N]; leading dims broadcast."""
    key = a.shape, a._strides, b.shape, b._strides, a.offset & 3, b.offset & 3, a.dtype, a.storage.device
    product = _matmuls.get(key)
    if product is None:
        product = _remember(_matmuls, key, _matmul_product(a, b))
    return product(a, b, None)


def linear(x, weight, bias):
    """x[R, K] @ weight[N, K] transposed, + bias[N] where it is not None."""
    at = None if bias is None else (bias.offset & 3, bias._strides)
    key = x.shape, x._strides, weight.shape, weight._strides, x.offset & 3, weight.offset & 3, at, x.dtype, x.storage.device
    product = _linears.get(key)
    if product is None:
        product = _remember(_linears, key, _linear_product(x, weight, bias))
    return product(x, weight, bias)


def _remember(cache: dict, key, product: Product) -> Product:
    if len(cache) >= CACHE_LIMIT:
        cache.clear()
    cache[key] = product
    return product


class Product:
    """The launches of all products with the same layouts: call it with the operands."""

    __slots__ = ("ctx", "device", "dtype", "shape", "strides", "nbytes", "scratch", "steps", "fixes")

    def __init__(self, ctx, device, dtype, shape, plan, fixes):
        self.ctx, self.device, self.dtype, self.shape = ctx, device, dtype, shape
        self.strides = row_major(shape)
        self.nbytes = BYTES[dtype.code] * prod(shape)
        self.scratch = plan.scratch
        self.fixes = fixes if any(fixes) else None
        self.steps = [(ctx.pipeline(step.file, **step.overrides), step.buffers, step.params, step.groups, step.offsets,
                       step.params[4 * len(step.offsets):]) for step in plan.steps]

    def __call__(self, a, b, bias):
        if self.fixes is not None:
            a, b, bias = (t if fix is None else fix(t) for t, fix in zip((a, b, bias), self.fixes))
        ctx = self.ctx
        out = ctx.alloc(self.nbytes or 4)
        scratch = ctx.alloc(self.scratch) if self.scratch else None
        if bias is None:
            buffers = a.storage.buffer, b.storage.buffer, None, out, scratch
            offsets = a.offset, b.offset, 0
        else:
            buffers = a.storage.buffer, b.storage.buffer, bias.storage.buffer, out, scratch
            offsets = a.offset, b.offset, bias.offset
        for pipeline, bound, params, groups, order, tail in self.steps:
            if offsets != NO_OFFSETS:
                params = pack(*[offsets[i] for i in order]) + tail
            ctx.launch(pipeline, tuple([buffers[i] for i in bound]), params, groups)
        return tensor(gpu_storage(out, self.nbytes, self.device), self.shape, self.strides, 0, self.dtype)


# ---------------------------------------------------------------- layouts

class Layout(NamedTuple):
    """Shape and strides of an operand, and its offset modulo 4."""

    shape: tuple
    strides: tuple
    offset: int


def _matmul_product(a, b) -> Product:
    """Raises: DTypeError for a dtype without products."""
    lead = broadcast_shape((a.shape[:-2], b.shape[:-2]))
    (fix_a, x), (fix_b, y), operands = _fitting(a, b, lead)
    left, right, batch = operands
    m, k, n = a.shape[-2], a.shape[-1], b.shape[-1]
    shape = (*lead, m, n)
    rows = left.stride if left.along_k and m > 1 else left.batch if m == 1 else 1
    if batch > 1 and right.batch == 0 and left.batch == m * rows:
        m, batch = m * batch, 1             # one B for all: a longer A
        left = left._replace(stride=rows if left.along_k else left.stride, batch=0)
    return _product(a, shape, (m, n, k, batch, left, right), None, (fix_a, fix_b, None))


def _linear_product(x, weight, bias) -> Product:
    turned = Layout(weight.shape[::-1], weight._strides[::-1], weight.offset & 3)
    fixes, operands = [None, None, None], []
    for i, (t, layout, outer) in enumerate(((x, _layout(x), -2), (weight, turned, -1))):
        operand = _operand(layout, outer)
        if operand is None:
            fixes[i] = contiguous
            copied = Layout(t.shape, row_major(t.shape), 0)
            operand = _operand(copied if i == 0 else Layout(copied.shape[::-1], copied.strides[::-1], 0), outer)
        operands.append(operand)
    at = None
    if bias is not None:
        at = bias.offset & 3
        if bias.shape[0] > 1 and bias._strides[0] != 1:
            fixes[2], at = contiguous, 0
    m, k, n = *x.shape, weight.shape[0]
    return _product(x, (m, n), (m, n, k, 1, *operands), at, tuple(fixes))


def _product(like, shape, sizes, bias, fixes) -> Product:
    """IN: like, a tensor of the product's device and dtype; bias, its offset or None."""
    device, dtype = like.storage.device, like.dtype
    ctx = context(device)
    check_dtype(ctx, dtype)
    if dtype not in ELEMENTS:
        raise DTypeError(f"matmul: {dtype} has no products on the GPU; convert with .to(volta.float32)")
    units = LARGE_GPU if ctx.info.type == "DiscreteGPU" else SMALL_GPU
    *counts, left, right = sizes
    aligned = planner.align(*counts, left, right, units)
    fixes = [fix if old is new else _then_padded(fix) for fix, old, new in zip(fixes, (left, right), aligned)] + [fixes[2]]
    plan = planner.plan(*counts, *aligned, bias=bias, element=ELEMENTS[dtype], units=units)
    return Product(ctx, device, dtype, shape, plan, fixes)


def _then_padded(fix):
    """`fix`, and then a copy with padded rows."""
    return _padded if fix is None else lambda t: _padded(fix(t))


def _padded(t):
    """A copy whose lines, of the dim of unit stride, have room for a multiple of four elements."""
    if t.shape[-1] > 1 and t._strides[-1] != 1:
        return _turned(_padded(_turned(t)))
    *lead, rows, length = t.shape
    _, ((batch, *more),) = collapse(tuple(lead), (t._strides[:-2],))
    if more:
        return _padded(contiguous(t))
    shape = (*lead, rows, planner.ceil_div(length, 4) * 4)
    ctx, itemsize = context(t.storage.device), BYTES[t.dtype.code]
    nbytes = itemsize * prod(shape)
    out = ctx.alloc(nbytes)
    count = prod(shape) // 4
    ctx.launch(ctx.pipeline("matmul/pad", S="f16" if itemsize == 2 else "u32"), (t.storage.buffer, out), pack(
        t.offset, batch, t._strides[-2], rows, shape[-1] // 4, count, t.storage.nbytes // itemsize - 1), planner.ceil_div(count, 256))
    return tensor(gpu_storage(out, nbytes, t.storage.device), t.shape, row_major(shape), 0, t.dtype)


def _turned(t):
    *lead, rows, length = t.shape
    *outer, a, b = t._strides
    return core.view(t, (*lead, length, rows), (*outer, b, a), t.offset)


def _fitting(a, b, lead: tuple):
    """((fix, layout) of a, the same of b, their operands and batch): the cheapest copies that the kernels can take."""
    for x in _forms(a, lead):
        for y in _forms(b, lead):
            operands = _operands(x[1], y[1], lead)
            if operands is not None:
                return x, y, operands
    raise AssertionError("contiguous operands always fit")


def _forms(t, lead: tuple):
    """(fix, layout after it): the tensor as it is, a contiguous copy, a contiguous copy of all batches."""
    yield None, _layout(t)
    yield contiguous, Layout(t.shape, row_major(t.shape), 0)
    shape = (*lead, *t.shape[-2:])
    yield (lambda t: contiguous(core.view(t, shape, broadcast_strides(t, shape), t.offset))), Layout(shape, row_major(shape), 0)


def _layout(t) -> Layout:
    return Layout(t.shape, t._strides, t.offset & 3)


def _operands(x: Layout, y: Layout, lead: tuple):
    """(A, B, number of products), or None where the kernels cannot walk these layouts."""
    left, right = _operand(x, -2), _operand(y, -1)
    if left is None or right is None:
        return None
    sizes, strides = collapse(lead, tuple(_batch_strides(layout, lead) for layout in (x, y)))
    if len(sizes) > 1:
        return None
    if sizes[0] == 1:
        return left, right, 1
    return left._replace(batch=strides[0][0]), right._replace(batch=strides[1][0]), sizes[0]


def _batch_strides(x: Layout, lead: tuple) -> tuple:
    own = x.shape[:-2]
    return (0,) * (len(lead) - len(own)) + tuple(0 if n == 1 else s for n, s in zip(own, x.strides))


def _operand(x: Layout, outer: int) -> Operand | None:
    """The last two dims of a layout, of which `outer` is not summed over; None without a unit stride."""
    inner = -3 - outer
    length, k = x.shape[outer], x.shape[inner]
    stride, k_stride = x.strides[outer], x.strides[inner]
    if min(x.strides) < 0:
        return None
    if k > 1 and k_stride == 1 or k <= 1 and stride != 1:
        return Operand(True, stride if length > 1 else 0, 0, x.offset)
    if length <= 1 or stride == 1:
        return Operand(False, k_stride if k > 1 else 0, 0, x.offset)
    return None


KERNELS = {"matmul": matmul, "linear": linear}
