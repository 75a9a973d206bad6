"""Elementwise kernels on the GPU: the operations of `shaders/elementwise/functions.wgsl` by name, in place or not.

Knows operations by the text of their line; the geometry is map's, the shader generate's. Must not know the graph.
"""
from __future__ import annotations

import re
from functools import cache
from typing import NamedTuple

from volta._kernels import core
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
    context,
    large_operands,
    shader_text,
)
from volta.devices.gpu.copy import contiguous, copy_into
from volta.devices.gpu.generate import Expression
from volta.devices.gpu.map import make_plan
from volta.errors import ArgumentError, DeviceError, DTypeError

CACHE_LIMIT = 4096          # plans of one kernel; beyond, it starts anew
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


def compose(calls, numbers: tuple = (), results: tuple = ()) -> Expression:
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
    return Expression(results or (f"t{len(steps) - 1}",), tuple(steps), tuple(lines.values()), numbers)


class Kernel:
    """Kernel of one elementwise operation: `kernel(*operands)`, `kernel.into(out, *operands)`."""

    def __init__(self, name: str):
        self.name = name
        self.plans: dict = {}

    def __repr__(self):
        return f"<GPU kernel {self.name}>"

    def dtypes(self):
        """The operand dtypes that it takes."""
        return dtypes(self.name)

    def __call__(self, *operands):
        key, tensors, numbers = [], [], []
        for operand in operands:
            if type(operand) in NUMBERS:
                numbers.append(operand)
                key.append(type(operand))
            else:
                tensors.append(operand)
                key += operand.shape, operand._strides, operand.offset, operand.dtype
        device = tensors[0].storage.device
        key.append(device)
        large = large_operands(context(device), tensors)
        if large:
            key.append(large)
        key = tuple(key)
        plan = self.plans.get(key)
        if plan is None:
            plan = self._plan(key, device, operands, None, (), tensors, large)
        return plan.run([t.storage.buffer for t in tensors], numbers, device)

    def _again(self, operands):
        """After a refused launch: once more where an operand is a view of a buffer too large to bind whole."""
        tensors = [o for o in operands if type(o) not in NUMBERS]
        if not large_operands(context(tensors[0].storage.device), tensors):
            raise
        return Kernel.__call__(self, *operands)

    def into(self, out, *operands):
        """Write the result into `out`, which may have any strides and be one of the operands."""
        key, tensors, numbers, own = [out.shape, out._strides, out.offset, out.dtype], [], [], []
        for i, operand in enumerate(operands):
            if type(operand) in NUMBERS:
                numbers.append(operand)
                key.append(type(operand))
                continue
            if operand.storage is out.storage:
                if _same_view(operand, out):
                    own.append(i)
                    key.append(None)
                    continue
                operand = contiguous(operand)
            tensors.append(operand)
            key += operand.shape, operand._strides, operand.offset, operand.dtype
        device = out.storage.device
        large = large_operands(context(device), (*tensors, out))
        key += device, large
        key = tuple(key)
        plan = self.plans.get(key)
        if plan is None:
            plan = self._plan(key, device, operands, out, own, tensors, large)
            if plan is None:
                copy_into(out, self(*operands))
                return
        if plan.pipeline is not None:
            plan.launch((*[t.storage.buffer for t in tensors], out.storage.buffer), plan.words(numbers))

    def _plan(self, key, device, operands, out, own, tensors, large):
        """Plan for these operands, None where `out` has another dtype than the result. IN: out None for a new tensor; own: the operands
        that are read through `out`."""
        dtype = _operand_dtype(self.name, operands)
        result = BOOL if function(self.name, dtype).result == "bool" else dtype
        if out is not None and out.dtype is not result:
            return None
        shape = broadcast_shape([t.shape for t in tensors]) if out is None else out.shape
        target = (core.strides_of(shape), 0, result) if out is None else (out._strides, out.offset, result)
        inputs = [(broadcast_strides(t, shape), t.offset, t.dtype) for t in tensors]
        plan = make_plan(device, _call(self.name, dtype, operands, own), shape, inputs, [target], large)
        if len(self.plans) >= CACHE_LIMIT:
            self.plans.clear()
        self.plans[key] = plan
        return plan


class UnaryKernel(Kernel):
    """The same with a quick way for one tensor."""

    def __call__(self, x):
        storage = x.storage
        device = storage.device
        plan = self.plans.get((x.shape, x._strides, x.offset, x.dtype, device))
        if plan is None or plan.steps is not None:
            return Kernel.__call__(self, x)
        nbytes = plan.nbytes
        buffer = plan.alloc(nbytes)
        try:
            plan.submit(plan.pipeline, (storage.buffer, buffer), plan.head, plan.groups)
        except DeviceError:
            return self._again((x,))
        return core.tensor(core.gpu_storage(buffer, nbytes, device), plan.shape, plan.strides, 0, plan.dtype)


class BinaryKernel(Kernel):
    """The same with a quick way for two tensors, or a tensor and a number."""

    def __call__(self, a, b):
        if type(b) in NUMBERS:
            storage = a.storage
            device = storage.device
            plan = self.plans.get((a.shape, a._strides, a.offset, a.dtype, type(b), device))
            if plan is None or plan.steps is not None:
                return Kernel.__call__(self, a, b)
            nbytes = plan.nbytes
            buffer = plan.alloc(nbytes)
            try:
                plan.submit(plan.pipeline, (storage.buffer, buffer), plan.head + plan.words((b,)), plan.groups)
            except DeviceError:
                return self._again((a, b))
        elif type(a) in NUMBERS:
            return Kernel.__call__(self, a, b)
        else:
            storage = a.storage
            device = storage.device
            plan = self.plans.get((a.shape, a._strides, a.offset, a.dtype, b.shape, b._strides, b.offset, b.dtype, device))
            if plan is None or plan.steps is not None:
                return Kernel.__call__(self, a, b)
            nbytes = plan.nbytes
            buffer = plan.alloc(nbytes)
            try:
                plan.submit(plan.pipeline, (storage.buffer, b.storage.buffer, buffer), plan.head, plan.groups)
            except DeviceError:
                return self._again((a, b))
        return core.tensor(core.gpu_storage(buffer, nbytes, device), plan.shape, plan.strides, 0, plan.dtype)


class DivisionKernel(BinaryKernel):
    """The same for a division, which refuses zeros among integer divisors as far as the host knows them."""

    def __call__(self, a, b):
        _check_divisor(self.name, a, b)
        return BinaryKernel.__call__(self, a, b)

    def into(self, out, a, b):
        """Write the result into `out`, which may have any strides and be one of the operands."""
        _check_divisor(self.name, a, b)
        BinaryKernel.into(self, out, a, b)


class PowerKernel(BinaryKernel):
    """The same for powers: that of 2 is a product, and integers have none to a negative number."""

    def __call__(self, a, b):
        return KERNELS["mul"](a, a) if _is_two(a, b) else BinaryKernel.__call__(self, a, b)

    def into(self, out, a, b):
        """Write the result into `out`, which may have any strides and be one of the operands."""
        if _is_two(a, b):
            KERNELS["mul"].into(out, a, a)
        else:
            BinaryKernel.into(self, out, a, b)


def _is_two(a, b) -> bool:
    """Raises: DTypeError for integers to a negative number."""
    if type(b) in NUMBERS and b < 0 and a.dtype.code < 4:
        raise DTypeError(f"pow: integers ({a.dtype}) to the negative power {b} are no integers; convert to float first")
    return type(b) in NUMBERS and b == 2


def _check_divisor(name: str, a, b) -> None:
    """Raises: ArgumentError where an integer divisor is the number 0, or a whole int32 or int64 tensor as it came from the host
    whose least or largest element is 0. What a GPU computed is not looked at: the quotient by 0 is 0 there."""
    if type(b) in NUMBERS:
        zero = b == 0 and a.dtype.code < 4
    else:
        known = b.storage.bounds
        zero = known is not None and 0 in known and not b.storage.version and b._contiguous and 4 * b._size == b.storage.nbytes
    if zero:
        raise ArgumentError(f"{name}: integer division by zero; the divisor has an element that is 0")


def _same_view(a, b) -> bool:
    return (a.offset == b.offset and a.shape == b.shape and a.dtype is b.dtype
            and all(n == 1 or s == t for n, s, t in zip(a.shape, a._strides, b._strides)))


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
    return compose([(name, dtype, words)], (dtype,) * numbers)


CHECKED = {**dict.fromkeys(DIVISIONS, DivisionKernel), "pow": PowerKernel}
KERNELS = {name: CHECKED.get(name, (Kernel, UnaryKernel, BinaryKernel, Kernel)[arity])(name) for name, arity in ARITY.items()}
