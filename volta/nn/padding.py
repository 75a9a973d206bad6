"""Layers that extend their input along its last one to three dimensions."""
from __future__ import annotations

from volta._kernels.core import TensorBase
from volta.errors import UnsupportedShapeError
from volta.nn import functional
from volta.nn.module import Module
from volta.shapes import per_dim
from volta.tensor import Tensor

__all__ = ["CircularPad1d", "CircularPad2d", "CircularPad3d", "ConstantPad1d", "ConstantPad2d", "ConstantPad3d", "ReflectionPad1d",
           "ReflectionPad2d", "ReflectionPad3d", "ReplicationPad1d", "ReplicationPad2d", "ReplicationPad3d", "ZeroPad1d", "ZeroPad2d",
           "ZeroPad3d"]


class _Pad(Module):
    """`padding` is one size for all sides, or (before, after) of the last dimension, then of the one before it, and so on; negative
    sizes cut."""

    rank: int
    mode = "constant"
    value: float | None = None

    def __init__(self, padding) -> None:
        super().__init__()
        self.padding = per_dim(type(self).__name__, "padding", padding, 2 * self.rank, -(1 << 31))

    def forward(self, input: Tensor) -> Tensor:
        if self.mode != "constant" and isinstance(input, TensorBase) and input.ndim not in (self.rank + 1, self.rank + 2):
            raise UnsupportedShapeError(f"{type(self).__name__}: needs an input of {self.rank + 1} or {self.rank + 2} dimensions, got "
                                        f"{input.shape}")
        return functional.pad(input, self.padding, self.mode, self.value)

    def extra_repr(self) -> str:
        return str(self.padding)


class _ConstantPad(_Pad):
    def __init__(self, padding, value: float) -> None:
        super().__init__(padding)
        self.value = value

    def extra_repr(self) -> str:
        return f"padding={self.padding}, value={self.value}"


class _ZeroPad(_Pad):
    value = 0.0


class _ReflectionPad(_Pad):
    mode = "reflect"


class _ReplicationPad(_Pad):
    mode = "replicate"


class _CircularPad(_Pad):
    mode = "circular"


class ConstantPad1d(_ConstantPad):
    """The last dimension extended by a constant value; `padding` is one size or 2.

    Shape: (..., L) -> the same with larger sizes.
    """

    rank = 1


class ConstantPad2d(_ConstantPad):
    """The last two dimensions extended by a constant value; `padding` is one size or 4.

    Shape: (..., H, W) -> the same with larger sizes.
    """

    rank = 2


class ConstantPad3d(_ConstantPad):
    """The last three dimensions extended by a constant value; `padding` is one size or 6.

    Shape: (..., D, H, W) -> the same with larger sizes.
    """

    rank = 3


class ZeroPad1d(_ZeroPad):
    """The last dimension extended by zeros; `padding` is one size or 2.

    Shape: (..., L) -> the same with larger sizes.
    """

    rank = 1


class ZeroPad2d(_ZeroPad):
    """The last two dimensions extended by zeros; `padding` is one size or 4.

    Shape: (..., H, W) -> the same with larger sizes.
    """

    rank = 2


class ZeroPad3d(_ZeroPad):
    """The last three dimensions extended by zeros; `padding` is one size or 6.

    Shape: (..., D, H, W) -> the same with larger sizes.
    """

    rank = 3


class ReflectionPad1d(_ReflectionPad):
    """The last dimension extended by its own elements, mirrored at the edges; `padding` is one size or 2.

    Shape: (..., L) -> the same with larger sizes.
    """

    rank = 1


class ReflectionPad2d(_ReflectionPad):
    """The last two dimensions extended by its own elements, mirrored at the edges; `padding` is one size or 4.

    Shape: (..., H, W) -> the same with larger sizes.
    """

    rank = 2


class ReflectionPad3d(_ReflectionPad):
    """The last three dimensions extended by its own elements, mirrored at the edges; `padding` is one size or 6.

    Shape: (..., D, H, W) -> the same with larger sizes.
    """

    rank = 3


class ReplicationPad1d(_ReplicationPad):
    """The last dimension extended by its outermost elements, repeated; `padding` is one size or 2.

    Shape: (..., L) -> the same with larger sizes.
    """

    rank = 1


class ReplicationPad2d(_ReplicationPad):
    """The last two dimensions extended by its outermost elements, repeated; `padding` is one size or 4.

    Shape: (..., H, W) -> the same with larger sizes.
    """

    rank = 2


class ReplicationPad3d(_ReplicationPad):
    """The last three dimensions extended by its outermost elements, repeated; `padding` is one size or 6.

    Shape: (..., D, H, W) -> the same with larger sizes.
    """

    rank = 3


class CircularPad1d(_CircularPad):
    """The last dimension extended by the elements from the other end; `padding` is one size or 2.

    Shape: (..., L) -> the same with larger sizes.
    """

    rank = 1


class CircularPad2d(_CircularPad):
    """The last two dimensions extended by the elements from the other end; `padding` is one size or 4.

    Shape: (..., H, W) -> the same with larger sizes.
    """

    rank = 2


class CircularPad3d(_CircularPad):
    """The last three dimensions extended by the elements from the other end; `padding` is one size or 6.

    Shape: (..., D, H, W) -> the same with larger sizes.
    """

    rank = 3
