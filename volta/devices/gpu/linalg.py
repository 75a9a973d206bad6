"""Matrix products on the GPU: `matmul`, `linear`, and `add_product` for kernels that use a product inside.

Knows tensors and their layouts; matmul.py knows which kernel a product gets.
"""
from __future__ import annotations

import math
from typing import NamedTuple

from volta._kernels import core
from volta.devices.gpu import matmul as planner
from volta.devices.gpu.common import (
    BYTES,
    COMPUTED,
    FLOAT16,
    FLOAT32,
    INT32,
    INT64,
    STORED,
    THREADS,
    UINT8,
    broadcast_shape,
    broadcast_strides,
    ceil_div,
    collapse,
)
from volta.devices.gpu.copy import contiguous
from volta.devices.gpu.limits import rows as cuts
from volta.devices.gpu.limits.cut import call
from volta.devices.gpu.matmul import Operand
from volta.devices.gpu.plans import At, Kernel, Plan
from volta.errors import DTypeError

ELEMENTS = {FLOAT32: "f32", FLOAT16: "f16", INT32: "i32", INT64: "i32", UINT8: "u8"}
LARGE_GPU = 132             # multiprocessors that a discrete GPU is taken to have
SMALL_GPU = 16              # and any other adapter


class Source(NamedTuple):
    """Where a product finds an operand: a buffer of the plan, and how the matrices lie in it. Where the buffer is that of a kernel's
    operand, they begin `base` elements after it does; the layout's offset then counts only modulo 4."""

    buffer: object
    layout: Operand
    operand: int | None = None
    base: int = 0


def units_of(ctx) -> int:
    return LARGE_GPU if ctx.info.type == "DiscreteGPU" else SMALL_GPU


def add_product(plan: Plan, m: int, n: int, k: int, batch: int, a: Source, b: Source, out, bias: Source | None = None,
                element: str = "f32", windows: planner.Windows | None = None, inner: int = 1) -> None:
    """Steps for out[batch, m, n] = a[batch, m, k] @ b[batch, k, n] + bias[n]; the buffer `out` is contiguous. IN: inner, the last
    dimension of a batch that has two."""
    made = planner.plan(m, n, k, batch, a.layout, b.layout, None if bias is None else bias.layout.offset, element, units=units_of(plan.ctx),
                        windows=windows, inner=inner)
    sources = (a, b, bias)
    buffers = (a.buffer, b.buffer, None if bias is None else bias.buffer, out,
               plan.scratch(made.scratch, "partial sums") if made.scratch else None)
    for step in made.steps:
        offsets = tuple([(word, At(sources[i].operand, 1, sources[i].base)) for word, i in enumerate(step.offsets)
                         if sources[i] is not None and sources[i].operand is not None])
        bound = [None if i is None else buffers[i] for i in step.buffers]
        plan.add(*plan.compiled(step.file, bound, step.overrides), step.params, step.groups, offsets)


def _add_padded(plan: Plan, dtype, rows: int, extent: int, batch: int, x: Source, layout: Operand, inner: int) -> Source:
    """A copy of an operand whose lines, of the dim of unit stride, have room for a multiple of four elements."""
    old, itemsize = x.layout, BYTES[dtype.code]
    count = layout.stride // 4 * rows * (batch if layout.batch else 1)
    out = plan.scratch(4 * count * itemsize)
    last = (batch // inner - 1) * old.batch + (inner - 1) * old.inner + (rows - 1) * old.stride + extent - 1
    values = At(x.operand), old.batch, old.inner, inner, old.stride, rows, layout.stride // 4, count, At(x.operand, 1, last)
    plan.step("matmul/pad", (x.buffer, out), values, ceil_div(count, 256), S="f16" if itemsize == 2 else "u32")
    return Source(out, layout)


def _check_dtypes(op: str, *tensors) -> None:
    """Raises: DTypeError unless all (None is none) have one dtype, of which there are products."""
    found = {t.dtype for t in tensors if t is not None}
    if len(found) > 1 or not found <= set(ELEMENTS):
        raise DTypeError(f"{op}: needs tensors of one dtype with products on the GPU, got {', '.join(sorted(d.name for d in found))}; "
                         "convert with .to(volta.float32)")


def _product(plan: Plan, dtype, sizes: tuple, bias: Source | None) -> Plan:
    """`plan` with the steps of the product of its first two operands into its output."""
    m, n, k, batch, inner, *layouts = sizes
    sources = [Source(i, layout, i) for i, layout in enumerate(layouts)]
    aligned = planner.align(m, n, k, batch, *layouts, units_of(plan.ctx), inner)
    for i, extent in ((0, m), (1, n)):
        if aligned[i] is not layouts[i]:
            sources[i] = _add_padded(plan, dtype, k, extent, batch, sources[i], aligned[i], inner)
    add_product(plan, m, n, k, batch, *sources, plan.last, bias, ELEMENTS[dtype], inner=inner)
    return plan


def _matmul(a, b):
    """a[..., M, K] @ b[..., K, N]; leading dims broadcast."""
    _check_dtypes("matmul", a, b)
    lead = broadcast_shape((a.shape[:-2], b.shape[:-2]))
    copies, (left, right, batch, inner) = _fitting(a, b, lead)
    if any(copies):
        return lambda a, b: KERNELS["matmul"](*[t if copy is None else copy(t) for t, copy in zip((a, b), copies)])
    m, k, n = a.shape[-2], a.shape[-1], b.shape[-1]
    plan = Plan(a, b)
    plan.output((*lead, m, n), a.dtype)
    m, batch, inner, left, right = _lengthened(m, batch, inner, left, right)
    if inner > 1 and right.batch == right.inner == 0 and planner.is_copied(m, n, k, batch, inner, left, right, units_of(plan.ctx)):
        return lambda a, b: KERNELS["matmul"](contiguous(a), b)
    return _product(plan, a.dtype, (m, n, k, batch, inner, left, right), None)


def _lengthened(m: int, batch: int, inner: int, left: Operand, right: Operand) -> tuple:
    """The same product by a longer A, of the rows of a dimension of the batch that has one B."""
    count, step, other = (inner, left.inner, right.inner) if inner > 1 else (batch, left.batch, right.batch)
    rows = 1 if not left.along_k else left.stride if m > 1 else step
    if count <= 1 or other or step != m * rows:
        return m, batch, inner, left, right
    left = left._replace(stride=rows if left.along_k else left.stride, batch=left.batch if inner > 1 else 0, inner=0)
    return m * count, batch // count, 1, left, right


def _linear(x, weight, bias):
    """x[R, K] @ weight[N, K] transposed, + bias[N] where it is not None."""
    _check_dtypes("linear", x, weight, bias)
    left = _operand(_layout(x), -2)
    right = _operand(Layout(weight.shape[::-1], weight._strides[::-1], weight.offset & 3), -1)
    if left is None or right is None:
        return lambda x, weight, bias: KERNELS["linear"](contiguous(x) if left is None else x,
                                                         contiguous(weight) if right is None else weight, bias)
    plan = Plan(x, weight, bias)
    plan.output((x.shape[0], weight.shape[0]), x.dtype)
    vector = None if bias is None else Source(2, Operand(True, 1, 0, bias.offset & 3), 2)
    return _product(plan, x.dtype, (x.shape[0], weight.shape[0], x.shape[1], 1, 1, left, right), vector)


# ---------------------------------------------------------------- layouts

class Layout(NamedTuple):
    """Shape and strides of an operand, and its offset modulo 4."""

    shape: tuple
    strides: tuple
    offset: int


def _fitting(a, b, lead: tuple):
    """((copy of a, copy of b), what `_operands` says then): the cheapest copies, None for none, that the kernels can take."""
    for copy_a, x in _forms(a, lead):
        for copy_b, y in _forms(b, lead):
            operands = _operands(x, y, lead)
            if operands is not None:
                return (copy_a, copy_b), operands
    raise AssertionError("contiguous operands always fit")


def _forms(t, lead: tuple):
    """(fix, layout after it): the tensor as it is, a contiguous copy, a contiguous copy of all batches."""
    yield None, _layout(t)
    yield contiguous, Layout(t.shape, core.strides_of(t.shape), 0)
    shape = (*lead, *t.shape[-2:])
    yield (lambda t: contiguous(core.view(t, shape, broadcast_strides(t, shape), t.offset))), Layout(shape, core.strides_of(shape), 0)


def _layout(t) -> Layout:
    return Layout(t.shape, t._strides, t.offset & 3)


def _operands(x: Layout, y: Layout, lead: tuple):
    """(A, B, number of products, the last dimension of these where there are two), or None where the kernels cannot walk these layouts."""
    left, right = _operand(x, -2), _operand(y, -1)
    if left is None or right is None:
        return None
    if 0 in lead:
        return left, right, 0, 1
    sizes, strides = collapse(lead, tuple(_batch_strides(layout, lead) for layout in (x, y)))
    if len(sizes) > 2:
        return None
    if sizes[0] == 1:
        return left, right, 1, 1
    if len(sizes) == 1:
        return left._replace(batch=strides[0][0]), right._replace(batch=strides[1][0]), sizes[0], 1
    left, right = (x._replace(batch=outer, inner=inner) for x, (outer, inner) in zip((left, right), strides))
    return left, right, sizes[0] * sizes[1], sizes[1]


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
        return Operand(True, stride if length > 1 else 0, 0, x.offset, stride > k)
    if length <= 1 or stride == 1:
        return Operand(False, k_stride if k > 1 else 0, 0, x.offset, k_stride > length)
    return None


def _dot(a, b):
    """a[K] @ b[K]: a row by a column."""
    _check_dtypes("dot", a, b)
    row, column = (core.view(x, shape, (x._strides[0],) * 2, x.offset) for x, shape in ((a, (1, *a.shape)), (b, (*b.shape, 1))))
    return core.reshaped(KERNELS["matmul"](row, column), ())


def _cross(a, b, *, dim):
    """a x b of the vectors of 3 elements along dim."""
    plan = Plan(a, b)
    out = plan.output(a.shape, a.dtype)
    if not a._size:
        return plan
    inner, types = math.prod(a.shape[dim + 1:]), {"E": STORED[a.dtype.code], "C": COMPUTED[a.dtype.code]}
    whole = not (a._size | a.offset | b.offset | (0 if inner == 1 else inner)) & 3
    if a.dtype is UINT8:
        types["finish"] = "v & vec4<E>(255u)" if whole else "E(v & 255u)"
    if whole:
        count = a._size // 12
        plan.step("products/cross_vectors", (0, 1, out), (count, inner // 4, At(0, 4), At(1, 4)), ceil_div(count, THREADS),
                  entry="packed" if inner == 1 else "apart", **types)
    else:
        plan.step("products/cross", (0, 1, out), (a._size, inner, At(0), At(1)), ceil_div(a._size, THREADS), **types)
    return plan


def _cut_cross(run, a, b, *, dim):
    """Part by part of the result, of parts of the operands."""
    def part(x, k):
        k %= 3
        return core.view(x, x.shape[:dim] + (1,) + x.shape[dim + 1:], x._strides, x.offset + k * x._strides[dim])
    parts = [call("sub", call("mul", part(a, k + 1), part(b, k + 2)), call("mul", part(a, k + 2), part(b, k + 1))) for k in range(3)]
    return call("cat", *parts, dim=dim)


KERNELS = {
    "cross": Kernel("cross", _cross, cut=_cut_cross),
    "matmul": Kernel("matmul", _matmul, strided=(0, 1), cut=cuts.matmul),
    "dot": _dot,
    "linear": Kernel("linear", _linear, strided=(0, 1), cut=cuts.linear),
}
