"""Types of the calls of ops, as far as users meet them."""
from typing import Any

from volta._kernels.core.base import DType
from volta.tensor import Tensor
from volta.types import Number

def result_type(*tensors: Tensor | Number, **named: Tensor | Number) -> DType: ...
def __getattr__(name: str) -> Any: ...
