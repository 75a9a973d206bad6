"""Types of the streams of random numbers."""
from typing import Any

from volta.tensor import Tensor

class Stream:
    """A seed and the position in its stream of random numbers."""
    seed: int
    offset: int

class Source:
    """A stream that all threads share, or beside it one for each that has its own."""
    shared: Stream
    threads: Any
    @property
    def _stream(self) -> Stream: ...
    def advance(self, count: int) -> tuple[int, int]: ...

def configure(default: Source, mapped: Any, as_device: Any) -> None: ...
def source(op: str, generator: Any) -> Source: ...
def draw(op: str, primitive: Any, sizes: Any, a: Any, b: Any, dtype: Any, device: Any, generator: Any) -> Tensor: ...
def draw_into(primitive: Any, t: Tensor, kind: str, a: float, b: float, generator: Any) -> Tensor | None: ...
