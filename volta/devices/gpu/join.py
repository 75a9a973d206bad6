"""Joining and extending on the GPU: one dispatch each, where what is joined lies in lines or is small; else a copy for each tensor.

Must not know derivatives.
"""
from __future__ import annotations

from functools import lru_cache, partial
from itertools import accumulate
from math import prod

from volta._kernels import core
from volta._kernels.gpu.launch import Pointwise
from volta.devices.gpu import copy
from volta.devices.gpu.common import BYTES, COMPUTED, INT64, STORED, THREADS, ceil_div, collapse, new, pack_number, row_major
from volta.devices.gpu.generate import Expression
from volta.devices.gpu.limits.cut import call, limit_of, narrow
from volta.devices.gpu.map import make_plan
from volta.devices.gpu.plans import At, Kernel, Plan, unsigned
from volta.devices.gpu.pool import shared_planes

TOGETHER = 4                # tensors that a dispatch joins
AT_ONCE = 1 << 18           # elements up to which these may lie in any way; of more, each tensor is copied by itself
MODES = ("constant", "reflect", "replicate", "circular")


# ---------------------------------------------------------------- joining

def _line(t, dim: int):
    """The distance of a tensor's lines, which are its elements from `dim` on; None where these do not lie in a row, at equal distances."""
    if t._contiguous:
        return prod(t.shape[dim:])
    _, (inner,) = collapse(t.shape[dim:], (t._strides[dim:],))
    _, (outer,) = collapse(t.shape[:dim], (t._strides[:dim],))
    return outer[0] if inner == (1,) and len(outer) == 1 else None


def _joined(out, a, b, c, d, *, dim, first):
    """In place: up to four tensors, one after another along dim from `first` on."""
    tensors = [t for t in (a, b, c, d) if t is not None]
    plan = Plan(out, a, b, c, d)
    return plan if _add_joined(plan, tensors, 1, 0, out.shape, dim, first) else _place_after


def _made(a, b, c, d, *, dim):
    """Up to four tensors, one after another along dim, as a new one."""
    tensors = [t for t in (a, b, c, d) if t is not None]
    plan, shape = Plan(a, b, c, d), _shape_of(tensors, dim)
    out = plan.output(shape, a.dtype)
    return plan if _add_joined(plan, tensors, 0, out, shape, dim, 0) or _add_strided(plan, tensors, out, shape, dim) else _into_new


def _add_joined(plan: Plan, tensors: list, operand: int, target: int, shape: tuple, dim: int, first: int) -> bool:
    """Whether the tensors, of which `operand` is the first, lie in lines that a step can join into `target`, of this shape."""
    strides = [_line(t, dim) for t in tensors]
    if None in strides:
        return False
    inner = prod(shape[dim + 1:])
    ends = [inner * n for n in accumulate(t.shape[dim] for t in tensors)]
    out_line, first, lines = shape[dim] * inner, first * inner, prod(shape[:dim])
    width = 1 if any(n % 4 for n in (*ends, out_line, first, *strides, *(t.offset for t in tensors))) else 4
    ends, count = [n // width for n in ends], lines * ends[-1] // width
    if count:
        missing, element = TOGETHER - len(tensors), "f16" if STORED[tensors[0].dtype.code] == "f16" else "u32"
        places = range(operand, operand + len(tensors))
        plan.step("join/cat", (*places, *[operand] * missing, target),
                  (*ends, *[ends[-1]] * missing, *[At(i, width) for i in places], *[0] * missing,
                   *unsigned([stride // width for stride in strides]), *[0] * missing, count, ends[-1], out_line // width, first // width),
                  ceil_div(count, THREADS * 4 // width), E=f"vec4<{element}>" if width == 4 else element, LINES=lines > 1, EACH=4 // width)
    return True


def _add_strided(plan: Plan, tensors: list, target: int, shape: tuple, dim: int) -> bool:
    """Whether the tensors, which do not all lie in lines, are so few elements that one step reads each of these by itself."""
    count, missing = prod(shape), TOGETHER - len(tensors)
    outer, of_outer = collapse(shape[:dim], tuple([t._strides[:dim] for t in tensors]))
    inner, of_inner = collapse(shape[dim + 1:], tuple([t._strides[dim + 1:] for t in tensors]))
    if not 0 < count <= AT_ONCE or len(outer) > 2 or len(inner) > 2:
        return False
    ends = list(accumulate(t.shape[dim] for t in tensors))
    strides = [[0, *s][-2:] for s in of_outer], [[t._strides[dim]] for t in tensors], [[0, *s][-2:] for s in of_inner]
    words = [word for of in strides for k in range(len(of[0])) for word in (*unsigned([s[k] for s in of]), *[0] * missing)]
    places = range(len(tensors))
    plan.step("join/strided", (*places, *[0] * missing, target),
              (*ends, *[ends[-1]] * missing, *[At(i) for i in places], *[0] * missing, *words, outer[-1], prod(inner), inner[-1], count),
              ceil_div(count, THREADS), E="f16" if STORED[tensors[0].dtype.code] == "f16" else "u32")
    return True


def _place_after(out, a, b, c, d, *, dim, first):
    for t in (a, b, c, d):
        if t is not None:
            copy.copy_into(core.view(out, t.shape, out._strides, out.offset + first * out._strides[dim]), t)
            first += t.shape[dim]


def _shape_of(tensors, dim: int) -> tuple:
    shape = tensors[0].shape
    return shape[:dim] + (sum([t.shape[dim] for t in tensors]),) + shape[dim + 1:]


def _into_new(*tensors, dim):
    """Any number of tensors, four at a time."""
    tensors, first = [t for t in tensors if t is not None], 0
    out = new(tensors[0].storage.device, _shape_of(tensors, dim), tensors[0].dtype)
    for i in range(0, len(tensors), TOGETHER):
        some = tensors[i:i + TOGETHER]
        _JOINED(out, *some, *[None] * (TOGETHER - len(some)), dim=dim, first=first)
        first += sum(t.shape[dim] for t in some)
    return out


_JOINED = Kernel("cat_into", _joined, strided=(1, 2, 3, 4), writes=(0,),
                 cut=lambda run, *operands, **params: _place_after(*operands, **params))
_MADE = Kernel("cat", _made, strided=(0, 1, 2, 3), cut=lambda run, *tensors, dim: _into_new(*tensors, dim=dim))


def cat(*tensors, dim):
    """The tensors one after another along `dim`."""
    missing = TOGETHER - len(tensors)
    return _into_new(*tensors, dim=dim) if missing < 0 else _MADE(*tensors, *(None,) * missing, dim=dim)


# ---------------------------------------------------------------- extending

def _geometry(size: tuple, outs: tuple, before: tuple, planes: int, back: bool = False):
    """(words, count, overrides) of a kernel that makes planes of `outs`, or with `back` those of `size`."""
    size, outs, before = ((missing,) * (3 - len(v)) + tuple(v) for v, missing in ((size, 1), (outs, 1), (before, 0)))
    if size[0] == outs[0] and before[0] == 0:           # each slice is a plane of its own
        planes, size, outs = planes * size[0], (1, *size[1:]), (1, *outs[1:])
    count, planes, together = shared_planes((planes,), prod(size if back else outs))
    words = (*size, prod(size), *outs, prod(outs), *before, 0, count, planes, At(0))
    return words, count, {"VOLUME": size[0] > 1 or outs[0] > 1, "PLANES": together}


def _extended(x, *, outs, before, mode, value=0):
    """x[planes, depth, height, width] with more before the first elements, and behind the last up to the size `outs`. IN: value, the bits
    of a number."""
    plan = Plan(x)
    out = plan.output((x.shape[0], *outs), x.dtype)
    if x.shape[0] * prod(outs):
        add_extended(plan, x, (0, out), x.shape, outs, before, mode, value)
    return plan


def add_extended(plan: Plan, x, bound: tuple, shape: tuple, outs: tuple, before: tuple, mode: str = "constant", value: int = 0) -> None:
    """A step from operand 0, the contiguous x as `shape`, to a buffer. IN: value, the bits of a number."""
    words, count, overrides = _geometry(shape[1:], outs, before, shape[0])
    if STORED[x.dtype.code] == "f16":
        overrides |= {"E": "f16", "value": "f16(bitcast<f32>(p.value))"}
    plan.step("join/extend", bound, (*words, value), ceil_div(count, THREADS), MODE=MODES.index(mode), **overrides)


def _extended_grad(g, *, size, before, mode):
    """The gradient of the x[planes, *size] that was extended."""
    plan = Plan(g)
    out = plan.output((g.shape[0], *size), g.dtype)
    if g.shape[0] * prod(size):
        words, count, overrides = _geometry(size, g.shape[1:], before, g.shape[0], True)
        plan.step("join/extend_grad", (0, out), words, ceil_div(count, THREADS), MODE=MODES.index(mode), E=STORED[g.dtype.code],
                  A=COMPUTED[g.dtype.code], **overrides)
    return plan


def _sources(n: int, outs: int, before: int, mode: str, device):
    """The element that each output takes along an axis."""
    places = copy.arange(-before, 1, outs, INT64, device)
    if mode == "reflect":
        away = call("abs", places)
        return call("minimum", away, call("sub", 2 * (n - 1), away))
    return call("remainder", places, n) if mode == "circular" else call("minimum", call("maximum", places, 0), n - 1)


def _cut_extended(run, x, *, outs, before, mode, value=0):
    """An axis after the other, by rows that are selected."""
    for d in (1, 2, 3):
        x = call("index_select", x, _sources(x.shape[d], outs[d - 1], before[d - 1], mode, x.storage.device), dim=d)
    return x


def _cut_extended_grad(run, g, *, size, before, mode):
    for d, n in enumerate(size, 1):
        g = call("index_add", g, _sources(n, g.shape[d], before[d - 1], mode, g.storage.device), dim=d, size=n)
    return g


_EXTENDED = Kernel("extend", _extended, cut=_cut_extended)


@lru_cache(maxsize=4096)
def _axes(shape: tuple, outs: tuple, starts: tuple):
    """(planes and up to three axes, their sizes then, what comes before): neighbours in one; None where there are more axes."""
    found = []
    for n, m, start in zip(shape[::-1], outs[::-1], starts[::-1]):
        if found and found[-1][0] == found[-1][1]:          # what lies inside stays whole
            k = found.pop()[0]
            found.append((n * k, m * k, start * k))
        else:
            found.append((n, m, start))
    planes = found.pop()[0] if len(found) > 1 and found[-1][0] == found[-1][1] else 1
    if len(found) > 3:
        return None
    sizes, outs, before = zip(*[(1, 1, 0)] * (3 - len(found)), *found[::-1])
    return (planes, *sizes), outs, before


def place(x, shape, starts, steps, value):
    """full(shape, value) with x written at starts + i * steps."""
    whole = x._size and x._contiguous and max(steps, default=1) == 1 and limit_of(x) >= BYTES[x.dtype.code] * prod(shape)
    axes = _axes(x.shape, shape, starts) if whole else None
    if axes is None:
        return copy.place(x, shape, starts, steps, value)
    bits = int.from_bytes(pack_number(value, x.dtype), "little")
    return core.reshaped(_EXTENDED(core.reshaped(x, axes[0]), outs=axes[1], before=axes[2], mode="constant", value=bits), shape)


# ---------------------------------------------------------------- triangles

def _triangle_plan(order: str, operands, out, own, large):
    """Plan of x with zeros where its columns, against rows and the number of a diagonal, are not in order."""
    x, kind = operands[0], COMPUTED[operands[0].dtype.code]
    expression = Expression((f"select({kind}(0), x0, i32(i % u32(s0)) - i32(i / u32(s0) % u32(s1)) {order} s2)",), numbers=(INT64,) * 3)
    return make_plan(x.storage.device, expression, x.shape, [(x._strides, x.offset, x.dtype)], [(row_major(x.shape), 0, x.dtype)], large)


_TRIANGLES = {upper: Pointwise("triangle", partial(_triangle_plan, order)) for upper, order in ((False, "<="), (True, ">="))}


def triangle(x, *, diagonal, upper):
    """x with zeros above a diagonal of the last two dimensions, with `upper` below it."""
    rows, columns = x.shape[-2:]
    return _TRIANGLES[upper](x, max(columns, 1), max(rows, 1), min(max(diagonal, -rows), columns))


def roll(x, *, shift, dim):
    """The elements `shift` further along dim, those that leave at the end first."""
    n = x.shape[dim]
    return cat(narrow(x, dim, n - shift, n), narrow(x, dim, 0, n - shift), dim=dim)


KERNELS = {"cat": cat, "roll": roll, "triangle": triangle, "place": place, "extend": _EXTENDED,
           "extend_grad": Kernel("extend_grad", _extended_grad, cut=_cut_extended_grad)}
