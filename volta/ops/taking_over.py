"""What answers calls of ops itself: stand-ins and sparse tensors by `__volta_function__`; by PyTorch's `__torch_function__` modes, tensors
of a program's own classes, and objects that are no tensors."""
from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from volta._kernels.core import TensorBase, overriding
from volta._kernels.core.record import Composed, Op, Primitive
from volta.ops import table


def _each(values: Iterable[Any]) -> Iterator[Any]:
    for x in values:
        yield x
        if type(x) in (list, tuple):
            yield from x


def takes_over(x: object) -> bool:
    """Whether PyTorch's functions leave calls with this object to it. PyTorch's own tensors would call the function again, without end."""
    kind = type(x)
    if isinstance(x, TensorBase):
        return overriding.taking_over(x)
    return not isinstance(x, type) and hasattr(kind, "__torch_function__") and not any(c.__module__ == "torch._C" for c in kind.__mro__)


def takers(values: Iterable[Any]) -> list[Any]:
    """One object of each class that takes over, in PyTorch's order: as they come, but those of subclasses before those of their bases."""
    found: list[Any] = []
    for x in values:
        if takes_over(x) and all(type(x) is not type(y) for y in found):
            place = next((i for i, y in enumerate(found) if issubclass(type(x), type(y))), len(found))
            found.insert(place, x)
    return found


def ask(function: Any, found: list[Any], args: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """What the first of these objects gives that does not say NotImplemented. Raises: TypeError where all do."""
    types = tuple(map(type, found))
    for x in found:
        result = x.__torch_function__(function, types, args, options)
        if result is not NotImplemented:
            return result
    raise TypeError(f"no implementation found for '{function.__name__}' on types that implement __torch_function__: "
                    f"{list(types)}")


def taken(op: Op, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """The result of a call that one of its arguments takes over, NotImplemented where none does. Raises: TypeError as `ask`."""
    values = list(_each((*args, *options.values())))
    for x in values if isinstance(op, Composed) else ():            # what makes dense operands of them calls records
        if hasattr(type(x), "__volta_function__"):
            return x.__volta_function__(op, args, options)
    found = takers(values)
    return ask(table.FUNCTIONS.get(op.name, op), found, args, options) if found else NotImplemented


class _Modes(threading.local):
    """The modes that a thread is in, the inmost last."""

    def __init__(self) -> None:
        self.entered: list[Any] = []


_modes = _Modes()
at_first_mode: list[Callable[[], None]] = []           # what lets modes see methods that are no ops, which asks in every call


def set_modes(entered: list[Any]) -> None:
    """Let these be the modes of this thread."""
    while at_first_mode:
        at_first_mode.pop()()
    _modes.entered = entered
    overriding.start()
    overriding.set_modes(len(entered))


def entered_modes() -> list[Any]:
    """The modes of this thread."""
    return _modes.entered


def asked(function: Any, args: tuple[Any, ...], options: dict[str, Any], relevant: Iterable[Any] | None = None) -> Any:
    """The result of a call that this thread's inmost mode takes over, or else an argument, one of the `relevant` where these are given;
    NotImplemented where none does. A mode answers with those around it in force. Raises: TypeError as `ask`."""
    found, entered = takers(_each((*args, *options.values())) if relevant is None else relevant), _modes.entered
    if entered:
        set_modes(entered[:-1])
        try:
            result = entered[-1].__torch_function__(function, tuple(map(type, found)), args, options)
        finally:
            set_modes(entered)
        if result is not NotImplemented:
            return result
    return ask(function, found, args, options) if found else NotImplemented


def overridden(op: Op, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """The same of a call of an op. One of a record that no program sees is none of a program's, but where it serves a function alone."""
    function = table.FUNCTIONS.get(op.name, op)
    if isinstance(op, Primitive) and function is not op and (options or getattr(function, "record", None) is not op):
        return NotImplemented
    return asked(function, args, options, () if op.name == "tensor" else None)     # of which only modes are asked, as in PyTorch
