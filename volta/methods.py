"""What the declarations of the op table make of the class Tensor: methods, in-place forms, operators."""
from __future__ import annotations

from collections.abc import Callable

from volta._kernels.core.inplace import InPlace
from volta._kernels.core.record import Op
from volta.ops.table import FUNCTIONS, PLACES, RECORDS, Places

COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")


def install(cls: type) -> None:
    """Give the class of tensors what the op table declares."""
    for name, op in FUNCTIONS.items():
        places = PLACES[name]
        if places.method:
            setattr(cls, name, op)
        if places.inplace or places.geometry:
            setattr(cls, name + "_", InPlace(name + "_", op, places.record, geometry=places.geometry))
        if places.operator is not None and name not in places.aliases:
            _operators(cls, op, places)
    for name, operator in (("add", "add"), ("sub", "sub"), ("mul", "mul"), ("div", "truediv")):      # the rest of these is in C
        setattr(cls, f"__i{operator}__", InPlace(f"__i{operator}__", RECORDS[name]))


def _operators(cls: type, op: Op, places: Places) -> None:
    name = places.operator
    setattr(cls, f"__{name}__", _comparison(op) if name in COMPARISONS else op)
    if places.reflected:
        setattr(cls, f"__r{name}__", _reflected(op))
    if places.inplace and name not in COMPARISONS:
        setattr(cls, f"__i{name}__", InPlace(f"__i{name}__", op, places.record))


def _reflected(op: Op) -> Callable:
    def method(self, other):
        return op(other, self)
    return method


def _comparison(op: Op) -> Callable:
    def method(self, other):
        return NotImplemented if other is None or isinstance(other, str) else op(self, other)
    return method
