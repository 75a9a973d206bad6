"""Types of reading values."""
from typing import Any

from volta._kernels.core.base import TensorBase

def read_scalar(t: TensorBase) -> bool | int | float: ...
def to_list(t: TensorBase) -> Any: ...
