"""torch.cond, torch.while_loop and torch.sym_*: a program's own decisions, which Python makes where nothing is traced."""
from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from volta._kernels.core import TensorBase
from volta.errors import ArgumentError

__all__ = ["cond", "sym_float", "sym_int", "sym_ite", "sym_max", "sym_min", "sym_not", "sym_sqrt", "sym_sum", "while_loop"]


def cond(pred: bool | TensorBase, true_fn: Callable[..., Any], false_fn: Callable[..., Any], operands: Sequence[Any] = ()) -> Any:
    """`true_fn(*operands)` where `pred` holds, else `false_fn(*operands)`; a tensor is read."""
    _functions("cond", true_fn, false_fn)
    if not isinstance(operands, (list, tuple)):
        raise ArgumentError(f"cond: operands must be a tuple of the functions' arguments, got {type(operands).__name__}")
    return (true_fn if pred else false_fn)(*operands)


def while_loop(cond_fn: Callable[..., Any], body_fn: Callable[..., Any], carried_inputs: Sequence[Any]) -> tuple[Any, ...]:
    """The inputs, replaced by `body_fn` of them as long as `cond_fn` of them holds."""
    _functions("while_loop", cond_fn, body_fn)
    carried = tuple(carried_inputs)
    while cond_fn(*carried):
        found = body_fn(*carried)
        found = tuple(found) if isinstance(found, (list, tuple)) else (found,)
        if len(found) != len(carried):
            raise ArgumentError(f"while_loop: body_fn gave {len(found)} values for {len(carried)} inputs; it must give one for each")
        carried = found
    return carried


def _functions(name, *functions):
    for function in functions:
        if not callable(function):
            raise ArgumentError(f"{name}: needs functions, got {type(function).__name__}")


def sym_int(a: Any) -> int:
    """The number without its fraction."""
    return math.floor(a) if a >= 0 else math.ceil(a)


def sym_float(a: Any) -> float:
    """The number as a float."""
    return float(a)


def sym_not(a: Any) -> bool:
    """Whether it is false."""
    return not a


def sym_max(a: Any, b: Any) -> Any:
    """The larger number, a float where one of them is."""
    return (float if isinstance(a, float) or isinstance(b, float) else int)(max(a, b))


def sym_min(a: Any, b: Any) -> Any:
    """The smaller number, a float where one of them is."""
    return (float if isinstance(a, float) or isinstance(b, float) else int)(min(a, b))


def sym_ite(b: bool, t: Any, f: Any) -> Any:
    """`t` where `b` holds, else `f`."""
    return t if b else f


def sym_sqrt(a: float) -> float:
    """The square root."""
    return math.sqrt(a)


def sym_sum(*args: Any) -> Any:
    """The sum of numbers, given as such or as one sequence."""
    return sum(args[0] if len(args) == 1 else args)
