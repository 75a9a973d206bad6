"""Types of the declarations of ops, as far as users meet them."""
from typing import Any

class Op:
    """A public operation."""
    @property
    def name(self) -> str: ...
    def __call__(self, *args: Any, **options: Any) -> Any: ...

class Composed(Op): ...

class Primitive(Op):
    """One operation: a kernel for each device and its derivative."""
    @property
    def inputs(self) -> tuple[str, ...]: ...

def __getattr__(name: str) -> Any: ...
