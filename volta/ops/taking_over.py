"""Objects that are no tensors and answer calls of ops themselves: stand-ins and sparse tensors by `__volta_function__`, those of programs
by PyTorch's `__torch_function__`."""
from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from volta._kernels.core import TensorBase
from volta._kernels.core.record import Composed, Op
from volta.ops import table


def _each(values: Iterable[Any]) -> Iterator[Any]:
    for x in values:
        yield x
        if type(x) in (list, tuple):
            yield from x


def takes_over(x: object) -> bool:
    """Whether PyTorch's functions leave calls with this object to it. Tensors, also of classes of a program's own, are computed with.
    PyTorch's own tensors would call the function again, without end."""
    kind = type(x)
    return not isinstance(x, (TensorBase, type)) and hasattr(kind, "__torch_function__") and not any(
        c.__module__ == "torch._C" for c in kind.__mro__)


def overriding(values: Iterable[Any]) -> list[Any]:
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
    raise TypeError(f"{function.__name__}: no implementation found on types that implement __torch_function__: "
                    f"{', '.join(kind.__qualname__ for kind in types)}")


def taken(op: Op, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """The result of a call that one of its arguments takes over, NotImplemented where none does. Raises: TypeError as `ask`."""
    values = list(_each((*args, *options.values())))
    for x in values if isinstance(op, Composed) else ():            # what makes dense operands of them calls records
        if hasattr(type(x), "__volta_function__"):
            return x.__volta_function__(op, args, options)
    found = overriding(values)
    return ask(table.FUNCTIONS.get(op.name, op), found, args, options) if found else NotImplemented
