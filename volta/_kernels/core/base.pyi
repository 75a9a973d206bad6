"""Types of the structs behind every tensor, as far as users meet them."""
from typing import Any, final

@final
class DType:
    """An element type, such as `volta.float32`."""
    @property
    def name(self) -> str: ...
    @property
    def itemsize(self) -> int: ...
    @property
    def is_floating_point(self) -> bool: ...

@final
class Device:
    """Where a tensor lives."""
    @property
    def type(self) -> str: ...
    @property
    def index(self) -> int: ...
    @property
    def is_gpu(self) -> bool: ...

@final
class Storage:
    """The bytes under one or more tensors."""
    version: int
    @property
    def device(self) -> Device: ...
    @property
    def nbytes(self) -> int: ...

class TensorBase: ...

CPU: Device

def __getattr__(name: str) -> Any: ...
