"""Distances of rows on the GPU: two kernels for every norm, with the text of each; no memory but that of the results."""
from __future__ import annotations

import math

from volta._kernels import core
from volta.devices.gpu.common import FLOAT32, THREADS, ceil_div
from volta.devices.gpu.copy import full
from volta.devices.gpu.limits import distances as cuts
from volta.devices.gpu.limits.cut import call
from volta.devices.gpu.plans import At, Kernel, Plan, need_float32
from volta.errors import ShapeError

SIDE = 16                   # threads along each side of a workgroup's pairs
LARGE = 1 << 19             # pairs from which a thread has 4 by 4 of them
GROUPS = 528                # workgroups that keep a large GPU busy
SHORTEST = 64               # rows of a part that is added up by itself


def _forward(p: float, keep: bool) -> dict:
    """What the differences of two rows are made of: text of `join`, `enter` and `leave`. IN: keep, that NaN stays in a maximum."""
    if p == math.inf:
        return {"enter": "abs(d)", "join": "max_nan(a, b)" if keep else "select(select(a, b, b > a), a, is_nan(b))", "leave": "v"}
    if p in (0, 1):
        return {"enter": "abs(d)" if p else "one_if_any(d)", "leave": "v"}
    return {} if p == 2 else {"enter": "pow_torch(abs(d), p.power)", "leave": "pow_torch(v, p.root)"}


def _backward(p: float) -> dict:
    """The derivative by an element: text of `scale_of` and `slope`."""
    if p in (1, math.inf):
        return {"scale_of": "g", "slope": "scale * sign_or_nan(d)" + ("" if p == 1 else " * is_largest(d, size)")}
    if p == 2:
        return {}
    scale = "select(g / pow_torch(size, p.power - 1.0), 0.0, size == 0.0)"
    if p < 2:
        slope = "scale * sign_or_nan(d) * pow_torch(abs(d), p.power - 1.0)"
        return {"scale_of": scale, "slope": slope if p > 1 else f"select({slope}, 0.0, d == 0.0)"}
    return {"scale_of": scale, "slope": "scale * d * pow_torch(abs(d), p.power - 2.0)"}


def _sizes(x1, x2):
    """(batch, n, r, m) and whether it is the pairs of rows of x1."""
    b, n, m = x1.shape
    return (b, n, n if x2 is None else x2.shape[1], m), x2 is None


def _distances(x1, x2, *, p, keep):
    need_float32("distances", x1, x2)
    (b, n, r, m), pairs = _sizes(x1, x2)
    shape = (b, n * (n - 1) // 2) if pairs else (b, n, r)
    if not math.prod(shape) or not m:
        return lambda x1, x2, p, keep: full(shape, 0.0, FLOAT32, x1.storage.device)
    plan = Plan(x1, x2)
    out, each = plan.output(shape, FLOAT32), 4 if b * n * r >= LARGE else 1
    rows = SIDE * each
    plan.step("distance/distances", (0, 0 if pairs else 1, out), (b, n, r, m, At(0), At(0) if pairs else At(1), *_powers(p)),
              b * ceil_div(n, rows) * ceil_div(r, rows), EACH=each, PAIRS=pairs, **_forward(p, keep))
    return plan


def distances(x1, x2, *, p):
    """The distances; of p = inf pairs alone keep NaN."""
    return _FORWARD(x1, x2, p=p, keep=x2 is None)


def _powers(p):
    return (p, 1 / p) if 0 < p < math.inf else (0.0, 0.0)


def _distances_grad(g, x1, x2, size, *, p):
    need_float32("distances_grad", g, x1, x2, size)
    (b, n, r, m), pairs = _sizes(x1, x2)
    if g._size != b * (n * (n - 1) // 2 if pairs else n * r) or size._size != g._size:
        raise ShapeError(f"distances_grad: rows {x1.shape} and {None if pairs else x2.shape} do not have the distances {size.shape} with "
                         f"gradients {g.shape}")
    if not x1._size or not r or p == 0:
        return lambda g, x1, x2, size, p: full(x1.shape, 0.0, FLOAT32, x1.storage.device)
    plan, columns = Plan(g, x1, x2, size), 4
    while columns < 64 and columns < m:
        columns *= 2
    groups = b * ceil_div(n, THREADS // columns) * ceil_div(m, columns)
    parts = max(min(ceil_div(GROUPS, groups), r // SHORTEST), 1)
    part = ceil_div(ceil_div(r, parts), SIDE) * SIDE
    parts = ceil_div(r, part)
    out = plan.output((b, n, m) if parts == 1 else (parts, b * n * m), FLOAT32)
    plan.step("distance/grad", (0, 1, 1 if pairs else 2, 3, out),
              (b, n, r, m, At(0), At(1), At(1) if pairs else At(2), At(3), part, parts, _powers(p)[0]), parts * groups,
              COLUMNS=columns, PAIRS=pairs, **_backward(p))
    return plan


def distances_grad(g, x1, x2, size, *, p):
    """The gradient of x1, whose parts are added up in their order."""
    out = _BACKWARD(g, x1, x2, size, p=p)
    return out if out.shape == x1.shape else core.reshaped(call("sum", out, (0,), False), x1.shape)


_FORWARD = Kernel("distances", _distances, cut=cuts.forward)
_BACKWARD = Kernel("distances_grad", _distances_grad, cut=lambda run, *operands, p: cuts.backward(distances_grad, *operands, p=p))
KERNELS = {"distances": distances, "distances_grad": distances_grad}
