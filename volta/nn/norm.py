"""BatchNorm1d, BatchNorm2d and LayerNorm."""
from __future__ import annotations

from volta.dtypes import int64
from volta.errors import ShapeError
from volta.nn import functional, init
from volta.nn.linear import sizes
from volta.nn.module import Module
from volta.nn.parameter import Parameter
from volta.ops.creation import empty, ones, zeros
from volta.shapes import as_shape
from volta.tensor import Tensor

__all__ = ["BatchNorm1d", "BatchNorm2d", "LayerNorm"]


class _BatchNorm(Module):
    """Normalises each channel by the batch in training, by running statistics in evaluation; then scales and shifts.

    `momentum=None` makes the running statistics the plain mean over all batches; without `track_running_stats` the batch is used in
    evaluation too.
    """

    ranks: tuple[int, ...] = ()

    def __init__(self, num_features: int, eps: float = 1e-5, momentum: float | None = 0.1, affine: bool = True,
                 track_running_stats: bool = True, device=None, dtype=None, *, bias: bool = True) -> None:
        super().__init__()
        (self.num_features,) = sizes(type(self).__name__, num_features=num_features)
        self.eps, self.momentum, self.affine, self.track_running_stats = eps, momentum, affine, track_running_stats
        place = {"device": device, "dtype": dtype}
        self.register_parameter("weight", Parameter(ones(num_features, **place)) if affine else None)
        self.register_parameter("bias", Parameter(zeros(num_features, **place)) if affine and bias else None)
        self.register_buffer("running_mean", zeros(num_features, **place) if track_running_stats else None)
        self.register_buffer("running_var", ones(num_features, **place) if track_running_stats else None)
        self.register_buffer("num_batches_tracked", zeros((), dtype=int64, device=device) if track_running_stats else None)

    def reset_running_stats(self) -> None:
        """Forget the running statistics."""
        if self.track_running_stats:
            self.running_mean.zero_()
            self.running_var.fill_(1)
            self.num_batches_tracked.zero_()

    def reset_parameters(self) -> None:
        """Scale 1, shift 0, statistics forgotten."""
        self.reset_running_stats()
        if self.affine:
            init.ones_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)

    def forward(self, input: Tensor) -> Tensor:
        if input.ndim not in self.ranks:
            shapes = " or ".join({2: "(N, C)", 3: "(N, C, L)", 4: "(N, C, H, W)"}[r] for r in self.ranks)
            raise ShapeError(f"{type(self).__name__}: needs an input {shapes}, got {input.shape}")
        if self.training and self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(1)
        momentum = self.momentum
        if momentum is None:            # the mean over all batches; the count stays on its device
            momentum = 1.0 / self.num_batches_tracked if self.training and self.running_mean is not None else 0.0
        return functional.batch_norm(input, self.running_mean, self.running_var, self.weight, self.bias,
                                     self.training or self.running_mean is None, momentum, self.eps)

    def extra_repr(self) -> str:
        return (f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, affine={self.affine}, bias={self.bias is not None}, "
                f"track_running_stats={self.track_running_stats}")


class BatchNorm1d(_BatchNorm):
    """Batch normalisation. Shape: (N, C) or (N, C, L) -> the same. Source: Ioffe and Szegedy 2015."""
    ranks = (2, 3)


class BatchNorm2d(_BatchNorm):
    """Batch normalisation. Shape: (N, C, H, W) -> the same. Source: Ioffe and Szegedy 2015."""
    ranks = (4,)


class LayerNorm(Module):
    """Normalises over the trailing dimensions, then scales and shifts. Source: Ba et al. 2016."""

    def __init__(self, normalized_shape, eps: float = 1e-5, elementwise_affine: bool = True, bias: bool = True, device=None,
                 dtype=None) -> None:
        super().__init__()
        self.normalized_shape = as_shape(normalized_shape)
        self.eps, self.elementwise_affine = eps, elementwise_affine
        place = {"device": device, "dtype": dtype}
        self.register_parameter("weight", Parameter(empty(self.normalized_shape, **place)) if elementwise_affine else None)
        self.register_parameter("bias", Parameter(empty(self.normalized_shape, **place)) if elementwise_affine and bias else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Scale 1, shift 0."""
        if self.weight is not None:
            init.ones_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)

    def forward(self, input: Tensor) -> Tensor:
        return functional.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}, bias={self.bias is not None}"
