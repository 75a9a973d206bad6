"""Choices among attention kernels, under the names of torch.nn.attention. There is one here: no choice changes a result."""
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from enum import Enum

__all__ = ["SDPBackend", "sdpa_kernel"]


class SDPBackend(Enum):
    """The kinds of attention kernels that PyTorch has."""
    ERROR, MATH, FLASH_ATTENTION, EFFICIENT_ATTENTION, CUDNN_ATTENTION, OVERRIDEABLE = range(-1, 5)


@contextmanager
def sdpa_kernel(backends: SDPBackend | Sequence[SDPBackend], set_priority: bool = False) -> Iterator[None]:
    """Allow these kinds inside the `with`."""
    yield
