"""Elementwise kernels on the GPU: the operations of `shaders/elementwise/functions.wgsl` by name, in place or not.

Knows operations by the text of their line; the geometry is map's, the shader generate's. Must not know the graph.
"""
from __future__ import annotations

import re
from functools import cache, partial
from typing import NamedTuple

from volta._kernels.gpu.launch import Pointwise
from volta.devices.gpu.common import (
    BOOL,
    COMPUTED,
    FLOAT16,
    FLOAT32,
    INT32,
    INT64,
    UINT8,
    broadcast_shape,
    broadcast_strides,
    row_major,
)
from volta.devices.gpu.generate import Expression
from volta.devices.gpu.map import make_plan
from volta.errors import ArgumentError, DTypeError
from volta.gpu.shaders import read as shader_text
from volta.ops.table import RECORDS

NUMBERS = frozenset((float, int, bool))
_ENDINGS = ("bn", "uwmn", "iwmn", "iwmn", "fmn", "fmn", "fmn")      # by DType.code: which lines serve, the first found
DTYPES = (BOOL, UINT8, INT32, INT64, FLOAT16, FLOAT32)
DIVISIONS = ("remainder", "floor_divide", "fmod", "div_trunc")
_LINE = re.compile(r"^fn (\w+)_([fiubwmn])\((.*?)\) -> (\w+) \{.*\}$", re.M)
FUNCTIONS = {(m[1], m[2]): m for m in _LINE.finditer(shader_text("elementwise/functions"))}
ARITY = {name: m[3].count(":") for (name, _), m in FUNCTIONS.items()}


class Function(NamedTuple):
    """An operation for operands of one dtype."""

    name: str           # in WGSL
    line: str           # that defines it
    result: str         # its WGSL type; `bool` makes a bool tensor


def dtypes(name: str) -> list:
    """The operand dtypes that an operation takes."""
    return [d for d in DTYPES if any((name, ending) in FUNCTIONS for ending in _ENDINGS[d.code])]


@cache
def function(name: str, dtype) -> Function:
    """An operation for operands of `dtype`.

    Raises: DTypeError where it has none.
    """
    found = next((FUNCTIONS[name, ending] for ending in _ENDINGS[dtype.code] if (name, ending) in FUNCTIONS), None)
    if found is None:
        raise DTypeError(f"{name}: does not take {dtype}; it takes {', '.join(map(repr, dtypes(name)))}")
    own, kind = f"{name}_{found[2]}", COMPUTED[dtype.code]
    if found[2] in "wmn":
        own += f"_{kind}"           # a text may need it for several types
    return Function(own, re.sub(r"\bT\b", kind, found[0].replace(f"{name}_{found[2]}(", f"{own}(", 1)), found[4])


def compose(calls, numbers: tuple = (), results: tuple = (), fits: tuple = ()) -> Expression:
    """The expression of operations one after another; without `results` it gives the last one's.

    IN: calls as (operation, dtype of its operands, operands); operands and results by generate.Expression's names, such as
    "x0", "s1" and, for what an earlier call gave, "t0".
    """
    steps, lines = [], {}
    for name, dtype, operands in calls:
        found = function(name, dtype)
        lines[found.name] = found.line
        call = f"{found.name}({', '.join(operands)})"
        steps.append(f"u32({call})" if found.result == "bool" else f"{call} & 255u" if dtype is UINT8 else call)
    return Expression(results or (f"t{len(steps) - 1}",), tuple(steps), tuple(lines.values()), numbers, fits=fits)


class Elementwise(Pointwise):
    """Kernel of one elementwise operation: `kernel(*operands)`, `kernel.into(out, *operands)`."""

    def __init__(self, name: str):
        super().__init__(name, partial(_plan, name))

    def dtypes(self):
        """The operand dtypes that it takes."""
        return dtypes(self.name)


class Division(Elementwise):
    """The same for a division, which refuses zeros among integer divisors as far as the host knows them."""

    def __call__(self, a, b):
        _check_divisor(self.name, a, b)
        return Pointwise.__call__(self, a, b)

    def into(self, out, a, b):
        """Write the result into `out`, which may have any strides and be one of the operands."""
        _check_divisor(self.name, a, b)
        Pointwise.into(self, out, a, b)


def _plan(name: str, operands, out, own, large):
    """Plan for these operands, None where `out` has another dtype than the result."""
    dtype = _operand_dtype(name, operands)
    result = BOOL if function(name, dtype).result == "bool" else dtype
    if out is not None and out.dtype is not result:
        return None
    tensors = [t for i, t in enumerate(operands) if type(t) not in NUMBERS and i not in own]
    shape = broadcast_shape([t.shape for t in tensors]) if out is None else out.shape
    target = (row_major(shape), 0, result) if out is None else (out._strides, out.offset, result)
    device = tensors[0].storage.device if out is None else out.storage.device
    inputs = [(broadcast_strides(t, shape), t.offset, t.dtype) for t in tensors]
    return make_plan(device, _call(name, dtype, operands, own), shape, inputs, [target], large, new=out is None)


class Power(Elementwise):
    """The same for powers: that of 2 is a product, those of 0.5 and -0.5 are roots, and integers have none to a negative number."""

    def __call__(self, a, b):
        quick = _quick_power(a, b)
        return Pointwise.__call__(self, a, b) if quick is None else KERNELS[quick[0]](*quick[1:])

    def into(self, out, a, b):
        """Write the result into `out`, which may have any strides and be one of the operands."""
        quick = _quick_power(a, b)
        if quick is None:
            Pointwise.into(self, out, a, b)
        else:
            KERNELS[quick[0]].into(out, *quick[1:])


def _quick_power(a, b) -> tuple | None:
    """(name, operands) of the kernel that does it, or None. Raises: DTypeError for integers to a negative number."""
    if type(b) not in NUMBERS:
        return None
    if b < 0 and not a.dtype.is_floating_point:
        raise DTypeError(f"pow: integers ({a.dtype}) to the negative power {b} are no integers; convert to float first")
    if b == 2:
        return "mul", a, a
    return ("sqrt" if b > 0 else "rsqrt", a) if b in (0.5, -0.5) and a.dtype.is_floating_point else None


def _check_divisor(name: str, a, b) -> None:
    """Raises: ArgumentError where an integer divisor is the number 0, or a whole int32 or int64 tensor as it came from the host
    whose least or largest element is 0, and something is divided. What a GPU computed is not looked at: the quotient by 0 is 0 there."""
    if type(a) not in NUMBERS and not a._size:
        zero = False
    elif type(b) in NUMBERS:
        zero = b == 0 and not a.dtype.is_floating_point
    else:
        known = b.storage.bounds
        zero = known is not None and 0 in known and not b.storage.version and b._contiguous and 4 * b._size == b.storage.nbytes
    if zero:
        raise ArgumentError(f"{name}: integer division by zero; the divisor has an element that is 0")


def _operand_dtype(name: str, operands):
    """The one dtype of the tensor operands; `where`'s condition does not count."""
    values = operands[1:] if name == "where" else operands
    for value in values:
        if type(value) not in NUMBERS:
            return value.dtype
    if any(type(v) is float for v in values):
        return FLOAT32
    return BOOL if all(type(v) is bool for v in values) else INT64


def _call(name: str, dtype, operands, own) -> Expression:
    """The operation on bound tensors, numbers and the old value of the output."""
    words, tensors, numbers = [], 0, 0
    for i, operand in enumerate(operands):
        if type(operand) in NUMBERS:
            words.append(f"s{numbers}")
            numbers += 1
        elif i in own:
            words.append("o0")
        else:
            words.append(f"x{tensors}")
            tensors += 1
    kind = "h" if dtype is FLOAT16 else "f" if dtype.is_floating_point else "i"
    return compose([(name, dtype, words)], (dtype,) * numbers, fits=(name, False) if kind in RECORDS[name].details.fits else ())


CHECKED = {**dict.fromkeys(DIVISIONS, Division), "pow": Power}
KERNELS = {name: CHECKED.get(name, Elementwise)(name) for name in ARITY}
