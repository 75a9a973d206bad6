"""Recurrences on the GPU: one dispatch for each step, forward and backward, which multiplies the state and computes the gates; all of a
sequence in one plan.

Must not know the graph.
"""
from __future__ import annotations

from itertools import accumulate

from volta._kernels import core
from volta.devices.gpu.common import FLOAT32, ceil_div
from volta.devices.gpu.copy import contiguous
from volta.devices.gpu.limits import recurrent as cuts
from volta.devices.gpu.map import add_elementwise
from volta.devices.gpu.plans import At, Kernel, Plan, need_float32, vector_type, vectors

MODES = {"lstm": (4, 7), "gru": (3, 5), "tanh": (1, 2), "relu": (1, 2)}        # gates, and what is saved, in columns of the state
# Four numbers of a line of `weight` that is no multiple of four long.
_SINGLY = ("let n = {}; return vec4<f32>(" + ", ".join(f"select(0.0, weight[p.weight_offset + at + min(k + {i}u, n - 1u)], k + {i}u < n)"
                                                       for i in range(4)) + ");")


def _described(mode, batch_sizes, reverse, weight, length, lines):
    """Overrides of a shader whose weights lie in lines of `length`; steps as (first row, rows), in their order."""
    gates, saved = MODES[mode]
    width = vectors(length, weight.offset)
    overrides = {"MODE": list(MODES).index(mode), "GATES": gates, "SAVED": saved, "W": vector_type(width)}
    if width == 1:
        overrides["four"] = _SINGLY.format(lines)
    found = [(end - rows, rows) for end, rows in zip(accumulate(batch_sizes), batch_sizes) if rows]
    return overrides, width, found[::-1] if reverse else found


def _groups(rows, size):
    return ceil_div(rows, 8) * ceil_div(size, 8)


def _copied(plan, t, operand, target):
    """A step that copies operand number `operand`, t, which the others then need not bind beside `target`."""
    add_elementwise(plan, "x0", (operand, target), (t._size, 1), ((1, 0), (1, 1)), FLOAT32, ((0, At(operand)),))


def _recurrent(x, weight, bias, h0, c0, *, mode, batch_sizes, reverse):
    """(out, hidden, cell, saved)"""
    need_float32("recurrent", x, weight, bias, h0, c0)
    batch, size, rows = batch_sizes[0], weight.shape[1], x.shape[0]
    overrides, width, steps = _described(mode, batch_sizes, reverse, weight, size, "p.size")
    plan = Plan(x, weight, bias, h0, c0)
    outputs = (plan.output((rows, size), FLOAT32), plan.output((batch, size), FLOAT32),
               plan.output((batch if mode == "lstm" else 0, size), FLOAT32), plan.output((rows, MODES[mode][1] * size), FLOAT32))
    given = [t is not None for t in (bias, h0, c0)]
    bound = (0, 1, *[i if there else 0 for i, there in zip((2, 3), given)], *outputs)
    places = At(0), At(1, width), *[At(i) if there else 0 for i, there in zip((2, 3), given)]
    if given[2]:
        _copied(plan, c0, 4, outputs[2])
    before = (0, 0)
    for step in steps:
        plan.step("recurrent/forward", bound, (*step, *before, size, *places), _groups(step[1], size),
                  HAS_BIAS=given[0], HAS_H0=given[1], HAS_C0=given[2], **overrides)
        before = step
    return plan


def _recurrent_grad(x, weight, saved, g_out, g_hidden, g_cell, *, mode, batch_sizes, reverse):
    """(dx, dgates, dh0, dc0) IN: weight, transposed."""
    need_float32("recurrent_grad", x, weight, saved, g_out, g_hidden, g_cell)
    batch, size, rows = batch_sizes[0], weight.shape[0], x.shape[0]
    overrides, width, steps = _described(mode, batch_sizes, reverse, weight, weight.shape[1], "GATES * p.size")
    plan = Plan(x, weight, saved, g_out, g_hidden, g_cell)
    dx, dgates = plan.output(x.shape, FLOAT32), plan.output((rows if mode == "gru" else 0, x.shape[1]), FLOAT32)
    dh0, carried = plan.output((batch, size), FLOAT32), plan.output((batch if mode == "lstm" else 0, size), FLOAT32)
    if mode == "gru":
        carried = plan.scratch(4 * batch * size or 4)
    given = [t is not None for t in (g_out, g_hidden, g_cell)]
    bound = (1, 2, *[i if there else 1 for i, there in zip((3, 4), given)], dx, dgates, dh0, carried)
    places = At(1, width), At(2), *[At(i) if there else 0 for i, there in zip((3, 4), given)]
    if given[2]:
        _copied(plan, g_cell, 5, carried)
    overrides |= {"HAS_OUT": given[0], "HAS_HIDDEN": given[1], "HAS_CELL": given[2]}
    later = (0, 0)
    for step in steps[::-1]:
        plan.step("recurrent/grad", bound, (*step, *later, size, 0, *places), _groups(step[1], size), **overrides)
        later = step
    begin = 0
    for first, count in steps:
        if count > begin:
            plan.step("recurrent/grad", bound, (first, count, first, count, size, begin, *places), _groups(count, size), LAST=True,
                      **overrides)
            begin = count
    return plan


_grad = Kernel("recurrent_grad", _recurrent_grad, cut=cuts.recurrent_grad)


def recurrent_grad(x, weight, saved, g_out, g_hidden, g_cell, mode, batch_sizes, reverse):
    """Of the weight transposed, so that its columns lie in lines."""
    columns = contiguous(core.view(weight, weight.shape[::-1], weight._strides[::-1], weight.offset))
    return _grad(x, columns, saved, g_out, g_hidden, g_cell, mode=mode, batch_sizes=batch_sizes, reverse=reverse)


KERNELS = {"recurrent": Kernel("recurrent", _recurrent, cut=cuts.recurrent), "recurrent_grad": recurrent_grad}
