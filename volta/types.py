"""Types that annotations use."""
from __future__ import annotations

import os
from typing import IO, Any, TypeAlias

import numpy as np

from volta._kernels.core import Device, DType

Number: TypeAlias = bool | int | float
DTypeLike: TypeAlias = DType | np.dtype[Any] | type[Any] | str | None
DeviceLike: TypeAlias = Device | str | int | None
FileLike: TypeAlias = str | os.PathLike[str] | IO[bytes]
