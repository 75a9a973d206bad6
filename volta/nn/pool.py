"""The layers of pooling: each class is made of a base for one, two and three dimensions."""
from __future__ import annotations

from volta.errors import ArgumentError
from volta.nn import functional
from volta.nn.functional.pool import LETTERS
from volta.nn.module import Module
from volta.shapes import per_dim
from volta.tensor import Tensor

__all__ = [f"{name}{rank}d" for name in ("MaxPool", "AvgPool", "AdaptiveMaxPool", "AdaptiveAvgPool", "LPPool", "MaxUnpool")
           for rank in (1, 2, 3)] + ["FractionalMaxPool2d", "FractionalMaxPool3d"]


class _Pool(Module):
    """A pooling over as many dimensions as the name of the class says, by the function of nn.functional of that name."""

    rank = 0
    shown: tuple[str, ...] = ()         # the attributes in extra_repr

    def _function(self, name: str):
        return getattr(functional, f"{name}{self.rank}d")

    def extra_repr(self) -> str:
        return ", ".join(f"{name}={getattr(self, name)}" for name in self.shown)


class _MaxPool(_Pool):
    """Largest value of each window; the stride is the window where not given. See `functional.max_pool{rank}d`."""

    shown = ("kernel_size", "stride", "padding", "dilation", "ceil_mode")

    def __init__(self, kernel_size, stride=None, padding=0, dilation=1, return_indices: bool = False, ceil_mode: bool = False) -> None:
        super().__init__()
        self.kernel_size, self.stride = kernel_size, kernel_size if stride is None else stride
        self.padding, self.dilation, self.return_indices, self.ceil_mode = padding, dilation, return_indices, ceil_mode

    def forward(self, input: Tensor):
        return self._function("max_pool")(input, self.kernel_size, self.stride, self.padding, self.dilation, self.ceil_mode,
                                          self.return_indices)


class _AvgPool(_Pool):
    """Mean of each window; the stride is the window where not given. See `functional.avg_pool{rank}d`."""

    shown = ("kernel_size", "stride", "padding")

    def __init__(self, kernel_size, stride=None, padding=0, ceil_mode: bool = False, count_include_pad: bool = True,
                 divisor_override: int | None = None) -> None:
        super().__init__()
        self.kernel_size, self.stride, self.padding = kernel_size, kernel_size if stride is None else stride, padding
        self.ceil_mode, self.count_include_pad, self.divisor_override = ceil_mode, count_include_pad, divisor_override

    def forward(self, input: Tensor) -> Tensor:
        return self._function("avg_pool")(input, self.kernel_size, self.stride, self.padding, self.ceil_mode, self.count_include_pad,
                                          self.divisor_override)


class _LPPool(_Pool):
    """The `norm_type`-norm of each window. See `functional.lp_pool{rank}d`."""

    shown = ("norm_type", "kernel_size", "stride", "ceil_mode")

    def __init__(self, norm_type: float, kernel_size, stride=None, ceil_mode: bool = False) -> None:
        super().__init__()
        self.norm_type, self.kernel_size, self.stride, self.ceil_mode = norm_type, kernel_size, stride, ceil_mode

    def forward(self, input: Tensor) -> Tensor:
        return self._function("lp_pool")(input, float(self.norm_type), self.kernel_size, self.stride, self.ceil_mode)


class _AdaptiveMaxPool(_Pool):
    """Largest values of windows that cover the input, to `output_size`. See `functional.adaptive_max_pool{rank}d`."""

    shown = ("output_size",)

    def __init__(self, output_size, return_indices: bool = False) -> None:
        super().__init__()
        self.output_size, self.return_indices = output_size, return_indices

    def forward(self, input: Tensor):
        return self._function("adaptive_max_pool")(input, self.output_size, self.return_indices)


class _AdaptiveAvgPool(_Pool):
    """Means of windows that cover the input, to `output_size`. See `functional.adaptive_avg_pool{rank}d`."""

    shown = ("output_size",)

    def __init__(self, output_size) -> None:
        super().__init__()
        self.output_size = output_size

    def forward(self, input: Tensor) -> Tensor:
        return self._function("adaptive_avg_pool")(input, self.output_size)


class _MaxUnpool(_Pool):
    """The partial inverse of MaxPool{rank}d, by its indices. See `functional.max_unpool{rank}d`."""

    shown = ("kernel_size", "stride", "padding")

    def __init__(self, kernel_size, stride=None, padding=0) -> None:
        super().__init__()
        name = type(self).__name__
        self.kernel_size = per_dim(name, "kernel_size", kernel_size, self.rank)
        self.stride = self.kernel_size if stride is None else per_dim(name, "stride", stride, self.rank)
        self.padding = per_dim(name, "padding", padding, self.rank, 0)

    def forward(self, input: Tensor, indices: Tensor, output_size=None) -> Tensor:
        return self._function("max_unpool")(input, indices, self.kernel_size, self.stride, self.padding, output_size)


class _FractionalMaxPool(_Pool):
    """Largest values of windows at random steps, to `output_size` or to `output_ratio` of the input. See
    `functional.fractional_max_pool{rank}d`."""

    def __init__(self, kernel_size, output_size=None, output_ratio=None, return_indices: bool = False,
                 _random_samples: Tensor | None = None) -> None:
        super().__init__()
        name = type(self).__name__
        if (output_size is None) == (output_ratio is None):
            raise ArgumentError(f"{name}: needs either output_size or output_ratio, got {output_size} and {output_ratio}")
        ratios = output_ratio if isinstance(output_ratio, (tuple, list)) else (output_ratio,)
        if output_ratio is not None and not all(0 < r < 1 for r in ratios):
            raise ArgumentError(f"{name}: output_ratio must lie between 0 and 1, got {output_ratio}")
        self.kernel_size, self.return_indices = per_dim(name, "kernel_size", kernel_size, self.rank), return_indices
        self.output_size = None if output_size is None else per_dim(name, "output_size", output_size, self.rank)
        self.output_ratio = None if output_ratio is None else tuple(ratios) * (self.rank // len(ratios))
        self.register_buffer("_random_samples", _random_samples)

    def forward(self, input: Tensor):
        return self._function("fractional_max_pool")(input, self.kernel_size, self.output_size, self.output_ratio, self.return_indices,
                                                     self._random_samples)


def _layer(base: type, rank: int) -> type:
    """The class of a base for `rank` dimensions."""
    name = f"{base.__name__[1:]}{rank}d"
    doc = f"{base.__doc__.format(rank=rank)}\n\nShape: (N, C, {LETTERS[rank]}) or (C, {LETTERS[rank]}) -> the same with other sizes."
    return type(name, (base,), {"rank": rank, "__doc__": doc, "__module__": __name__, "__qualname__": name})


MaxPool1d, MaxPool2d, MaxPool3d = (_layer(_MaxPool, rank) for rank in (1, 2, 3))
AvgPool2d, AvgPool3d = (_layer(_AvgPool, rank) for rank in (2, 3))
LPPool1d, LPPool2d, LPPool3d = (_layer(_LPPool, rank) for rank in (1, 2, 3))
AdaptiveMaxPool1d, AdaptiveMaxPool2d, AdaptiveMaxPool3d = (_layer(_AdaptiveMaxPool, rank) for rank in (1, 2, 3))
AdaptiveAvgPool1d, AdaptiveAvgPool2d, AdaptiveAvgPool3d = (_layer(_AdaptiveAvgPool, rank) for rank in (1, 2, 3))
MaxUnpool1d, MaxUnpool2d, MaxUnpool3d = (_layer(_MaxUnpool, rank) for rank in (1, 2, 3))

FractionalMaxPool2d, FractionalMaxPool3d = (_layer(_FractionalMaxPool, rank) for rank in (2, 3))


class AvgPool1d(_AvgPool):
    """Mean of each window; the stride is the window where not given. See `functional.avg_pool1d`.

    Shape: (N, C, L) or (C, L) -> the same with another length.
    """

    rank = 1

    def __init__(self, kernel_size, stride=None, padding=0, ceil_mode: bool = False, count_include_pad: bool = True) -> None:
        super().__init__(*(v if v is None else per_dim("AvgPool1d", name, v, 1, least) for name, v, least in (
            ("kernel_size", kernel_size, 1), ("stride", stride, 1), ("padding", padding, 0))), ceil_mode, count_include_pad)

    def forward(self, input: Tensor) -> Tensor:
        return functional.avg_pool1d(input, self.kernel_size, self.stride, self.padding, self.ceil_mode, self.count_include_pad)
