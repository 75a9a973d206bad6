"""Weight and spectral normalisation of PyTorch's first kind: a hook before forward computes the weight from other parameters."""
from __future__ import annotations

import warnings
from typing import TypeVar

from volta.autograd import no_grad
from volta.errors import ArgumentError, MissingNameError
from volta.nn.functional import normalize
from volta.nn.functional.formulas import scaled
from volta.nn.module import Module
from volta.nn.parameter import Parameter
from volta.ops.creation import empty
from volta.ops.linalg import dot, mv
from volta.ops.norms import norm_except_dim
from volta.ops.records.chain import fused
from volta.tensor import Tensor

M = TypeVar("M", bound=Module)


def as_matrix(weight: Tensor, dim: int) -> Tensor:
    """A weight with dimension `dim` as rows and all others as columns."""
    return weight.movedim(dim, 0).reshape(weight.shape[dim], -1)


class _Recomputed:
    """A hook before forward that puts the attribute `name` of a module in order. There is one per attribute."""

    def __init__(self, module: Module, name: str) -> None:
        self.name = name
        if not isinstance(module, Module):
            raise ArgumentError(f"{self.called}: module must be a Module, got {type(module).__name__}")
        found = module._parameters.get(name)
        if found is None:
            raise MissingNameError(f"{self.called}: {type(module).__name__} has no parameter {name!r}")
        if any(isinstance(hook, _Recomputed) and hook.name == name for hook in module._forward_pre_hooks.values()):
            raise ArgumentError(f"{self.called}: {name!r} is computed from other parameters already")
        del module._parameters[name]
        setattr(module, name, self.start(module, found))
        module.register_forward_pre_hook(self)

    def __call__(self, module, args):
        setattr(module, self.name, self.compute(module))

    @classmethod
    def remove(cls, module, name):
        """Make the computed weight a parameter again."""
        for key, hook in module._forward_pre_hooks.items():
            if type(hook) is cls and hook.name == name:
                with no_grad():
                    weight = hook.compute(module)
                hook.finish(module)
                delattr(module, name)
                module.register_parameter(name, Parameter(weight.detach()))
                del module._forward_pre_hooks[key]
                return module
        raise ArgumentError(f"remove_{cls.called}: {type(module).__name__} has no {cls.called} of {name!r}")


class _WeightNorm(_Recomputed):
    called = "weight_norm"

    def __init__(self, module, name, dim):
        self.dim = -1 if dim is None else dim
        super().__init__(module, name)

    def start(self, module, weight):
        module.register_parameter(self.name + "_g", Parameter(norm_except_dim(weight.detach(), 2, self.dim)))
        module.register_parameter(self.name + "_v", Parameter(weight.detach()))
        return self.compute(module)

    def compute(self, module):
        g, v = getattr(module, self.name + "_g"), getattr(module, self.name + "_v")
        return fused(scaled, v, g, norm_except_dim(v, 2, self.dim))

    def finish(self, module):
        delattr(module, self.name + "_g")
        delattr(module, self.name + "_v")


class _SpectralNorm(_Recomputed):
    called = "spectral_norm"

    def __init__(self, module, name, n_power_iterations, eps, dim):
        if n_power_iterations <= 0:
            raise ArgumentError(f"spectral_norm: n_power_iterations must be positive, got {n_power_iterations}")
        self.iterations, self.eps, self.dim = n_power_iterations, eps, dim
        super().__init__(module, name)

    def __call__(self, module, args):
        if module.training:
            weight, u, v = (getattr(module, self.name + ending) for ending in ("_orig", "_u", "_v"))
            power_iteration(as_matrix(weight, self.dim), u, v, self.iterations, self.eps)
        super().__call__(module, args)

    def start(self, module, weight):
        module.register_parameter(self.name + "_orig", Parameter(weight.detach()))
        with no_grad():
            rows, columns = as_matrix(weight, self.dim).shape
            for ending, n in (("_u", rows), ("_v", columns)):
                drawn = empty(n, dtype=weight.dtype, device=weight.device).normal_(0, 1)
                module.register_buffer(self.name + ending, normalize(drawn, dim=0, eps=self.eps))
        return weight.detach()                  # until the first pass, as in PyTorch

    def compute(self, module):
        weight, u, v = (getattr(module, self.name + ending) for ending in ("_orig", "_u", "_v"))
        return weight / dot(u.clone(), mv(as_matrix(weight, self.dim), v.clone()))      # the vectors may be changed before backward

    def finish(self, module):
        for ending in ("_orig", "_u", "_v"):
            delattr(module, self.name + ending)


@no_grad
def power_iteration(matrix: Tensor, u: Tensor, v: Tensor, times: int, eps: float) -> None:
    """Bring `u` and `v` nearer to the first left and right singular vectors, in place, `v` first."""
    for _ in range(times):
        v.copy_(normalize(mv(matrix.t(), u), dim=0, eps=eps))
        u.copy_(normalize(mv(matrix, v), dim=0, eps=eps))


def weight_norm(module: M, name: str = "weight", dim: int | None = 0) -> M:
    """Compute the parameter `name` as g * v / |v|, the norm over all dimensions but `dim` (None: over all); g and v, `name`_g and `name`_v,
    are the parameters instead. Source: Salimans and Kingma 2016.

    Raises: ArgumentError where there is no such parameter.
    """
    warnings.warn("weight_norm is deprecated; write nn.utils.parametrizations.weight_norm", FutureWarning, stacklevel=2)
    _WeightNorm(module, name, dim)
    return module


def remove_weight_norm(module: M, name: str = "weight") -> M:
    """Undo `weight_norm`: the weight that it gives now becomes a parameter."""
    return _WeightNorm.remove(module, name)


def spectral_norm(module: M, name: str = "weight", n_power_iterations: int = 1, eps: float = 1e-12, dim: int | None = None) -> M:
    """Divide the parameter `name` by its largest singular value, estimated by power iteration in each forward pass of training. `dim`
    counts outputs: 0, of transposed convolutions 1. Source: Miyato et al. 2018.

    Raises: ArgumentError where there is no such parameter.
    """
    _SpectralNorm(module, name, n_power_iterations, eps, outputs_of(module) if dim is None else dim)
    return module


def outputs_of(module: Module) -> int:
    """The dimension of a layer's weight that counts its outputs."""
    return 1 if type(module).__name__.startswith("ConvTranspose") else 0


def remove_spectral_norm(module: M, name: str = "weight") -> M:
    """Undo `spectral_norm`: the weight that it gives now becomes a parameter."""
    return _SpectralNorm.remove(module, name)
