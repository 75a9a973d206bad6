"""What the declarations of the op table make of the class Tensor: methods, in-place forms, operators."""
from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from volta import dtypes
from volta._kernels.core.inplace import InPlace
from volta._kernels.core.operators import Operator
from volta._kernels.core.record import Op
from volta.ops.copy import cast_as
from volta.ops.table import FUNCTIONS, PLACES, RECORDS, Places

if TYPE_CHECKING:
    from volta.layout import memory_format as Layout
    from volta.tensor import Tensor

UNARY = ("abs", "invert", "neg", "pos")
COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")
CASTS = {"half": "float16", "float": "float32", "double": "float64", "byte": "uint8", "char": "int8", "short": "int16", "int": "int32",
         "long": "int64", "bool": "bool_", "bfloat16": "bfloat16"}          # method -> dtype
IN_C = {"add": "add", "sub": "sub", "mul": "mul", "truediv": "div"}         # operator -> record: they and their reflections are in C


def install(cls: type) -> None:
    """Give the class of tensors what the op table declares; what the class has by itself stays."""
    own = set(vars(cls))
    for name, op in FUNCTIONS.items():
        places = PLACES[name]
        if places.method and name not in own:
            setattr(cls, name, op)
        if places.inplace or places.geometry:
            setattr(cls, name + "_", InPlace(name + "_", op, places.record, geometry=places.geometry, grows=places.grows, one=places.one))
        if places.operator is not None and name == op.name and places.operator not in IN_C:
            _operators(cls, op, places)
    for name, dtype in CASTS.items():
        setattr(cls, name, _cast(name, getattr(dtypes, dtype)))
    for operator, name in IN_C.items():
        setattr(cls, f"__i{operator}__", Operator(InPlace(f"__i{operator}__", RECORDS[name])))


def _cast(name: str, dtype: dtypes.dtype) -> Callable:
    def method(self, *, memory_format: Layout | None = None) -> Tensor:
        return cast_as(self, dtype, memory_format)

    method.__name__, method.__qualname__, method.__doc__ = name, f"Tensor.{name}", f"As {dtype.name}."
    return method


def _operators(cls: type, op: Op, places: Places) -> None:
    name = places.operator
    setattr(cls, f"__{name}__", op if name in UNARY else Operator(op))
    if places.reflected:
        setattr(cls, f"__r{name}__", Operator(op, name not in ("and", "or", "xor")))      # those give the same, laid out as the tensor
    if places.inplace and name not in UNARY + COMPARISONS:
        setattr(cls, f"__i{name}__", Operator(InPlace(f"__i{name}__", op, places.record)))
