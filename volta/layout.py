"""How and in which order the elements of a tensor lie in memory, under PyTorch's names."""
from __future__ import annotations

import enum

from volta._kernels.core.size import package_name


class memory_format(enum.Enum):
    """Row-major, as it is, or pixel by pixel: the channels of images (4 dimensions) or volumes (5) together."""
    contiguous_format = 1
    preserve_format = 2
    channels_last = 4
    channels_last_3d = 5

    def __repr__(self) -> str:
        return f"{package_name()}.{self.name}"

    __str__ = __repr__


class layout(enum.Enum):
    """How elements are stored: all of them at equal steps, or by coordinates those that are not 0. Tensors of the others do not exist."""
    strided, sparse_coo, sparse_csr, sparse_csc, sparse_bsr, sparse_bsc, jagged = range(7)

    def __repr__(self) -> str:
        return f"{package_name()}.{self.name}"

    __str__ = __repr__


strided, sparse_coo, sparse_csr, sparse_csc, sparse_bsr, sparse_bsc, jagged = layout
contiguous_format, preserve_format, channels_last, channels_last_3d = memory_format
