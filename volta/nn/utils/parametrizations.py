"""Weight and spectral normalisation as parametrizations, beside orthogonal matrices."""
from __future__ import annotations

from typing import TypeVar

from volta.errors import ArgumentError
from volta.nn.functional import normalize
from volta.nn.functional.formulas import scaled
from volta.nn.module import Module
from volta.nn.utils.orthogonal import orthogonal
from volta.nn.utils.parametrize import register_parametrization
from volta.nn.utils.recomputed import as_matrix, outputs_of, power_iteration
from volta.ops.creation import empty
from volta.ops.linalg import dot, mv
from volta.ops.norms import norm_except_dim
from volta.ops.records.chain import fused
from volta.tensor import Tensor

__all__ = ["orthogonal", "spectral_norm", "weight_norm"]

M = TypeVar("M", bound=Module)


class _WeightNorm(Module):
    def __init__(self, dim: int) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, g: Tensor, v: Tensor) -> Tensor:
        return fused(scaled, v, g, norm_except_dim(v, 2, self.dim))

    def right_inverse(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        """The norms and the weight itself."""
        return norm_except_dim(weight, 2, self.dim), weight


class _SpectralNorm(Module):
    def __init__(self, weight: Tensor, n_power_iterations: int, dim: int, eps: float) -> None:
        super().__init__()
        self.n_power_iterations, self.dim, self.eps = n_power_iterations, dim, eps
        if weight.ndim > 1:
            matrix = as_matrix(weight.detach(), dim)
            for name, n in zip(("_u", "_v"), matrix.shape):
                drawn = empty(n, dtype=weight.dtype, device=weight.device).normal_(0, 1)
                self.register_buffer(name, normalize(drawn, dim=0, eps=eps))
            power_iteration(matrix.t(), self._v, self._u, 15, eps)           # here PyTorch begins with u

    def forward(self, weight: Tensor) -> Tensor:
        if weight.ndim == 1:
            return normalize(weight, dim=0, eps=self.eps)
        matrix = as_matrix(weight, self.dim)
        if self.training:
            power_iteration(matrix.t(), self._v, self._u, self.n_power_iterations, self.eps)
        return weight / dot(self._u.clone(), mv(matrix, self._v.clone()))

    def right_inverse(self, value: Tensor) -> Tensor:
        """The weight itself."""
        return value


def weight_norm(module: M, name: str = "weight", dim: int | None = 0) -> M:
    """Compute the parameter `name` as g * v / |v|, the norm over all dimensions but `dim` (None: over all).
    Source: Salimans and Kingma 2016.

    Raises: ArgumentError where there is no such parameter.
    """
    return register_parametrization(module, name, _WeightNorm(-1 if dim is None else dim), unsafe=True)


def spectral_norm(module: M, name: str = "weight", n_power_iterations: int = 1, eps: float = 1e-12, dim: int | None = None) -> M:
    """Divide the parameter `name` by its largest singular value, estimated by power iteration each time that it is read in training.
    Source: Miyato et al. 2018.

    Raises: ArgumentError where there is no such parameter.
    """
    weight = getattr(module, name, None)
    if not isinstance(weight, Tensor):
        raise ArgumentError(f"spectral_norm: {type(module).__name__} has no parameter or buffer {name!r}")
    if n_power_iterations <= 0:
        raise ArgumentError(f"spectral_norm: n_power_iterations must be positive, got {n_power_iterations}")
    dim = outputs_of(module) if dim is None else dim
    return register_parametrization(module, name, _SpectralNorm(weight, n_power_iterations, dim, eps))
