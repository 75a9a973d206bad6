"""softmax and log_softmax on the GPU, with their derivatives, over any dim.

Rows up to 8,192 elements stay in registers; longer ones are read twice. Few very long rows are composed of reductions and
elementwise kernels, which split them. Must not know the graph.
"""
from __future__ import annotations

import math

from volta._kernels import core
from volta.devices.gpu.common import BYTES, STORED, THREADS, context, max_binding, new, pack
from volta.devices.gpu.copy import cat, contiguous
from volta.devices.gpu.elementwise import KERNELS as ELEMENTWISE
from volta.devices.gpu.reduce import KERNELS as REDUCE
from volta.devices.gpu.reduce import column_lanes, narrow, row_lanes

CACHE_LIMIT = 4096
REGISTERS = 32              # float32 values of one buffer that a thread keeps
LONG, FEW = 1 << 16, 64     # rows this long, when there are fewer workgroups than this, are split


class Softmax:
    """Kernel of softmax or log_softmax, or of a derivative (inputs g and out)."""

    def __init__(self, name: str):
        self.name = name
        self.log = name.startswith("log_")
        self.gradient = name.endswith("_grad")
        self.plans: dict = {}

    def __repr__(self):
        return f"<GPU kernel {self.name}>"

    def __call__(self, *inputs, dim=None):
        if dim is None:
            *inputs, dim = inputs
        first = inputs[0]
        device = first.storage.device
        if first._size == 0 or not first.shape:
            return self._trivial(inputs, device)
        ctx = context(device)
        limit = max_binding(ctx)
        if first._size * BYTES[first.dtype.code] > limit:
            return self._large(inputs, dim)
        inputs = [x if x._contiguous and x.storage.nbytes <= limit else contiguous(x) for x in inputs]
        offsets = tuple(x.offset for x in inputs)
        key = (first.shape, first.dtype, dim, offsets, device)
        plan = self.plans.get(key)
        if plan is None:
            if len(self.plans) >= CACHE_LIMIT:
                self.plans.clear()
            plan = self.plans[key] = self._plan(ctx, first, dim, offsets)
        if plan == "composed":
            return self._composed(inputs, dim)
        pipeline, params, groups = plan
        out = new(device, first.shape, first.dtype)
        ctx.launch(pipeline, (*[x.storage.buffer for x in inputs], out.storage.buffer), params, groups)
        return out

    def _plan(self, ctx, x, dim, offsets):
        """(pipeline, parameters, grid), or "composed"."""
        shape = x.shape
        count, inner, kept = shape[dim], math.prod(shape[dim + 1:]), x._size // shape[dim]
        rows = inner == 1
        aligned = not any(offset % 4 for offset in offsets)
        width = 4 if aligned and (count if rows else inner) % 4 == 0 else 1
        units, kept, inner = (count // width, kept, 1) if rows else (count, kept // width, inner // width)
        lanes = row_lanes(units) if rows else min(column_lanes(kept), 1 << max(units - 1, 0).bit_length(), THREADS)
        blocks = -(-kept // (THREADS // lanes))
        if count > LONG and blocks < FEW:
            return "composed"
        items = -(-units // lanes)
        keep = items * width <= REGISTERS
        stored = STORED[x.dtype.code]
        vector = f"vec4<{stored}>" if width == 4 else stored
        overrides = {"E": vector, "V": "vec4<f32>" if width == 4 else "f32", "LANES": lanes, "ADJACENT": rows,
                     "ITEMS": items if keep else 1, "KEEP": keep, "LOG": self.log}
        if width == 1 or not rows:
            overrides["fold_sum"] = "fn fold_sum(v: V) -> V { return v; }"
            if not self.gradient:
                overrides["fold_max"] = "fn fold_max(v: V) -> V { return v; }"
        if width == 1 and not self.gradient:
            overrides["log_each"] = "fn log_each(v: V) -> V { return log_accurate(v); }"
        pipeline = ctx.pipeline("softmax/grad" if self.gradient else "softmax/softmax", **overrides)
        outer_stride = units if rows else units * inner
        params = pack(kept, inner, outer_stride, 1 if rows else inner, units, *[o // width for o in offsets])
        return pipeline, params, blocks

    def _trivial(self, inputs, device):
        first = inputs[0]
        if first._size == 0:
            return new(device, first.shape, first.dtype)
        shape = first.shape
        return core.reshaped(self(*[core.reshaped(contiguous(x), (1,)) for x in inputs], dim=0), shape)

    def _composed(self, inputs, dim):
        e, r = ELEMENTWISE, REDUCE
        if self.gradient:
            g, y = inputs
            if self.log:
                return e["sub"](g, e["mul"](e["exp"](y), r["sum"](g, (dim,), True)))
            return e["mul"](y, e["sub"](g, r["sum"](e["mul"](g, y), (dim,), True)))
        below = e["sub"](inputs[0], r["amax"](inputs[0], (dim,), True))
        powers = e["exp"](below)
        total = r["sum"](powers, (dim,), True)
        return e["sub"](below, e["log"](total)) if self.log else e["div"](powers, total)

    def _large(self, inputs, dim):
        """Of data too large for one binding: by halves along the longest other dim."""
        shape = inputs[0].shape
        split = max(range(len(shape)), key=lambda d: (d != dim and shape[d] > 1, shape[d]))
        if split == dim:
            return self._composed(inputs, dim)
        half = shape[split] // 2
        return cat(tuple(self(*[narrow(x, split, start, length) for x in inputs], dim=dim)
                         for start, length in ((0, half), (half, shape[split] - half))), split)


KERNELS = {name: Softmax(name) for name in ("softmax", "log_softmax", "softmax_grad", "log_softmax_grad")}
