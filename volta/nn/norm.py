"""The layers of normalisation: by batch, layer, groups of channels, instance, root mean square and neighbouring channels."""
from __future__ import annotations

import warnings

from volta.dtypes import int64
from volta.errors import ArgumentError, ShapeError
from volta.nn import functional, init
from volta.nn.linear import sizes
from volta.nn.module import Module
from volta.nn.parameter import Parameter
from volta.ops.creation import empty, ones, zeros
from volta.ops.view import squeeze, unsqueeze
from volta.shapes import as_shape
from volta.tensor import Tensor

__all__ = ["BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "GroupNorm", "InstanceNorm1d", "InstanceNorm2d", "InstanceNorm3d",
           "LayerNorm", "LocalResponseNorm", "RMSNorm", "SyncBatchNorm"]


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

    _version = 2

    def reset_running_stats(self) -> None:
        """Forget the running statistics."""
        if self.track_running_stats:
            self.running_mean.zero_()
            self.running_var.fill_(1)
            self.num_batches_tracked.zero_()

    def _load_from_state_dict(self, state_dict, prefix, local_metadata, *others):
        """As in PyTorch, older state dicts do not count batches."""
        if self.track_running_stats and (local_metadata.get("version") or 0) < 2:
            state_dict.setdefault(prefix + "num_batches_tracked", self.num_batches_tracked)
        super()._load_from_state_dict(state_dict, prefix, local_metadata, *others)

    def reset_parameters(self) -> None:
        """Scale 1, shift 0, statistics forgotten."""
        self.reset_running_stats()
        if self.affine:
            init.ones_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)

    def forward(self, input: Tensor) -> Tensor:
        if input.ndim not in self.ranks:
            shapes = " or ".join({2: "(N, C)", 3: "(N, C, L)", 4: "(N, C, H, W)", 5: "(N, C, D, H, W)"}[r] for r in self.ranks)
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


class _InstanceNorm(_BatchNorm):
    """Normalises each channel of each sample; with `track_running_stats`, in evaluation by the running statistics. Then scales and shifts,
    where `affine`. Source: Ulyanov et al. 2016.
    """

    letters = ""

    def __init__(self, num_features: int, eps: float = 1e-5, momentum: float | None = 0.1, affine: bool = False,
                 track_running_stats: bool = False, device=None, dtype=None, *, bias: bool = True) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias)

    def forward(self, input: Tensor) -> Tensor:
        name, rank = type(self).__name__, self.letters.count(",") + 2
        if input.ndim not in (rank, rank + 1):
            raise ShapeError(f"{name}: needs an input (N, C, {self.letters}) or (C, {self.letters}), got {input.shape}")
        channels = input.shape[input.ndim - rank]
        if channels != self.num_features:
            text = f"{name}: the input {input.shape} has {channels} channels, num_features is {self.num_features}"
            if self.affine or self.track_running_stats:
                raise ShapeError(text)
            warnings.warn(f"{text}, which is not used without affine", stacklevel=2)
        out = functional.instance_norm(input if input.ndim > rank else unsqueeze(input, 0), self.running_mean, self.running_var,
                                       self.weight, self.bias, self.training or not self.track_running_stats,
                                       0.0 if self.momentum is None else self.momentum, self.eps)
        return out if input.ndim > rank else squeeze(out, 0)


class InstanceNorm1d(_InstanceNorm):
    """Instance normalisation. Shape: (N, C, L) or (C, L) -> the same. Source: Ulyanov et al. 2016."""
    letters = "L"


class InstanceNorm2d(_InstanceNorm):
    """Instance normalisation. Shape: (N, C, H, W) or (C, H, W) -> the same. Source: Ulyanov et al. 2016."""
    letters = "H, W"


class InstanceNorm3d(_InstanceNorm):
    """Instance normalisation. Shape: (N, C, D, H, W) or (C, D, H, W) -> the same. Source: Ulyanov et al. 2016."""
    letters = "D, H, W"


class BatchNorm1d(_BatchNorm):
    """Batch normalisation. Shape: (N, C) or (N, C, L) -> the same. Source: Ioffe and Szegedy 2015."""
    ranks = (2, 3)


class BatchNorm2d(_BatchNorm):
    """Batch normalisation. Shape: (N, C, H, W) -> the same. Source: Ioffe and Szegedy 2015."""
    ranks = (4,)


class BatchNorm3d(_BatchNorm):
    """Batch normalisation. Shape: (N, C, D, H, W) -> the same. Source: Ioffe and Szegedy 2015."""
    ranks = (5,)


class SyncBatchNorm(_BatchNorm):
    """Batch normalisation over the batches of all processes; there is one process here. Shape: (N, C, ...) -> the same."""

    ranks = (2, 3, 4, 5)

    def __init__(self, num_features: int, eps: float = 1e-5, momentum: float | None = 0.1, affine: bool = True,
                 track_running_stats: bool = True, process_group: None = None, device=None, dtype=None, *, bias: bool = True) -> None:
        _one_process(process_group)
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias)
        self.process_group = process_group

    @classmethod
    def convert_sync_batchnorm(cls, module: Module, process_group: None = None) -> Module:
        """`module` with a SyncBatchNorm, which holds the same tensors, in place of every layer of batch normalisation."""
        _one_process(process_group)
        out = module
        if isinstance(module, _BatchNorm) and not isinstance(module, (_InstanceNorm, cls)):
            out = cls(module.num_features, module.eps, module.momentum, module.affine, module.track_running_stats)
            out.train(module.training)
            for table in ("_parameters", "_buffers"):
                out.__dict__[table].update(module.__dict__[table])
        for name, child in module.named_children():
            out.add_module(name, cls.convert_sync_batchnorm(child))
        return out


def _one_process(process_group):
    if process_group is not None:
        raise ArgumentError("SyncBatchNorm: process_group must be None, there is one process")


class _Affine(Module):
    """A layer with a weight of ones and a bias of zeros, either of which may be None."""

    def _register(self, shape: tuple[int, ...], weight: bool, bias: bool, device, dtype) -> None:
        for name, wanted in (("weight", weight), ("bias", bias)):
            self.register_parameter(name, Parameter(empty(shape, device=device, dtype=dtype)) if wanted else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Scale 1, shift 0."""
        if self.weight is not None:
            init.ones_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)


class LayerNorm(_Affine):
    """Normalises over the trailing dimensions, then scales and shifts. Shape: (..., *normalized_shape) -> the same. Source: Ba et al.
    2016."""

    def __init__(self, normalized_shape, eps: float = 1e-5, elementwise_affine: bool = True, bias: bool = True, device=None,
                 dtype=None) -> None:
        super().__init__()
        self.normalized_shape = as_shape(normalized_shape)
        self.eps, self.elementwise_affine = eps, elementwise_affine
        self._register(self.normalized_shape, elementwise_affine, elementwise_affine and bias, device, dtype)

    def forward(self, input: Tensor) -> Tensor:
        return functional.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}, bias={self.bias is not None}"


class GroupNorm(_Affine):
    """Normalises groups of channels, then scales and shifts each channel. Shape: (N, C, ...) -> the same. Source: Wu and He 2018.

    Raises: ArgumentError where num_channels is no multiple of num_groups.
    """

    def __init__(self, num_groups: int, num_channels: int, eps: float = 1e-5, affine: bool = True, device=None, dtype=None, *,
                 bias: bool = True) -> None:
        super().__init__()
        self.num_groups, self.num_channels = sizes("GroupNorm", num_groups=num_groups, num_channels=num_channels)
        if num_groups < 1 or num_channels % num_groups:
            raise ArgumentError(f"GroupNorm: num_channels {num_channels} must be a multiple of num_groups {num_groups}")
        self.eps, self.affine = eps, affine
        self._register((self.num_channels,), affine, affine and bias, device, dtype)

    def forward(self, input: Tensor) -> Tensor:
        return functional.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return f"{self.num_groups}, {self.num_channels}, eps={self.eps}, affine={self.affine}, bias={self.bias is not None}"


class RMSNorm(_Affine):
    """Divides by the root of the mean square over the trailing dimensions, then scales. Shape: (..., *normalized_shape) -> the same.
    Source: Zhang and Sennrich 2019."""

    def __init__(self, normalized_shape, eps: float | None = None, elementwise_affine: bool = True, device=None, dtype=None) -> None:
        super().__init__()
        self.normalized_shape = as_shape(normalized_shape)
        self.eps, self.elementwise_affine = eps, elementwise_affine
        self._register(self.normalized_shape, elementwise_affine, False, device, dtype)

    def forward(self, x: Tensor) -> Tensor:
        return functional.rms_norm(x, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self) -> str:
        return f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"


class LocalResponseNorm(Module):
    """Divides by a power of the mean square of neighbouring channels, as `functional.local_response_norm` does. Shape: (N, C, ...) -> the
    same."""

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> None:
        super().__init__()
        self.size, self.alpha, self.beta, self.k = size, alpha, beta, k

    def forward(self, input: Tensor) -> Tensor:
        return functional.local_response_norm(input, self.size, self.alpha, self.beta, self.k)

    def extra_repr(self) -> str:
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"
