"""Types that annotations use."""
from __future__ import annotations

from typing import TypeAlias

import numpy as np

from volta._kernels.core import Device, DType

Number: TypeAlias = bool | int | float
DTypeLike: TypeAlias = DType | np.dtype | type | str | None
DeviceLike: TypeAlias = Device | str | int | None
