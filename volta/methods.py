"""What the declarations of the op table make of the class Tensor: methods, in-place forms, operators."""
from __future__ import annotations

from collections.abc import Callable

from volta._kernels.core import TensorBase
from volta._kernels.core.inplace import InPlace
from volta._kernels.core.record import Op
from volta.ops.from_data import tensor
from volta.ops.table import FUNCTIONS, PLACES, RECORDS, Places

UNARY = ("abs", "invert", "neg")
COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")
IN_C = {"add": "add", "sub": "sub", "mul": "mul", "truediv": "div"}         # operator -> record: they and their reflections are in C


def install(cls: type) -> None:
    """Give the class of tensors what the op table declares; what the class has by itself stays."""
    own = set(vars(cls))
    for name, op in FUNCTIONS.items():
        places = PLACES[name]
        if places.method and name not in own:
            setattr(cls, name, op)
        if places.inplace or places.geometry:
            setattr(cls, name + "_", InPlace(name + "_", op, places.record, geometry=places.geometry))
        if places.operator is not None and name == op.name and places.operator not in IN_C:
            _operators(cls, op, places)
    for operator, name in IN_C.items():
        setattr(cls, f"__i{operator}__", InPlace(f"__i{operator}__", RECORDS[name]))


def _operators(cls: type, op: Op, places: Places) -> None:
    name = places.operator
    setattr(cls, f"__{name}__", _comparison(op) if name in COMPARISONS else op)
    if places.reflected:
        setattr(cls, f"__r{name}__", _reflected(op))
    if places.inplace and name not in UNARY + COMPARISONS:
        setattr(cls, f"__i{name}__", InPlace(f"__i{name}__", op, places.record))


def _reflected(op: Op) -> Callable:
    def method(self, other):
        return op(other if isinstance(other, (TensorBase, int, float)) else tensor(other, device=self.device), self)
    return method


def _comparison(op: Op) -> Callable:
    def method(self, other):
        return NotImplemented if other is None or isinstance(other, str) else op(self, other)
    return method
