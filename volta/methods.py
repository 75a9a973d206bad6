"""What the declarations of the op table make of the class Tensor: methods, in-place forms, operators."""
from __future__ import annotations

from volta._kernels.core.inplace import InPlace
from volta._kernels.core.operators import Operator
from volta._kernels.core.record import Op
from volta.ops.table import FUNCTIONS, PLACES, RECORDS, Places

UNARY = ("abs", "invert", "neg", "pos")
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
        setattr(cls, f"__i{operator}__", Operator(InPlace(f"__i{operator}__", RECORDS[name])))


def _operators(cls: type, op: Op, places: Places) -> None:
    name = places.operator
    setattr(cls, f"__{name}__", op if name in UNARY else Operator(op))
    if places.reflected:
        setattr(cls, f"__r{name}__", Operator(op, True))
    if places.inplace and name not in UNARY + COMPARISONS:
        setattr(cls, f"__i{name}__", Operator(InPlace(f"__i{name}__", op, places.record)))
