"""Helpers over the parameters of a model: gradient clipping, and parameters as one vector."""
from __future__ import annotations

import inspect
import math
import warnings
from collections.abc import Generator, Iterable
from typing import TYPE_CHECKING, Any, TypeVar

from volta._kernels import core
from volta._kernels.core.inplace import check_elements
from volta.autograd import no_grad
from volta.errors import ArgumentError, DTypeError, ShapeError
from volta.layout import memory_format as MemoryFormat
from volta.nn.conv import Conv2d, Conv3d, ConvTranspose2d, ConvTranspose3d
from volta.nn.init import number
from volta.nn.module import Module
from volta.ops import update
from volta.ops.creation import zeros
from volta.ops.join import cat, stack
from volta.ops.norms import norm
from volta.ops.parts import narrow
from volta.ops.records.update import CLIP_NORM, CLIP_VALUE, Update
from volta.ops.view import reshape
from volta.tensor import Tensor

if TYPE_CHECKING:
    from volta.layout import memory_format as Layout

__all__ = ["clip_grad_norm", "clip_grad_norm_", "clip_grad_value_", "clip_grads_with_norm_", "convert_conv2d_weight_memory_format",
           "convert_conv3d_weight_memory_format", "get_total_norm", "parameters_to_vector", "skip_init", "vector_to_parameters"]

M = TypeVar("M", bound=Module)


def _tensors(name, parameters, argument="parameters"):
    """The parameters as a list. Raises DTypeError unless they are tensors."""
    if isinstance(parameters, core.TensorBase):
        return [parameters]
    found = list(parameters) if isinstance(parameters, Iterable) else [parameters]
    for p in found:
        if not isinstance(p, core.TensorBase):
            raise DTypeError(f"{name}: {argument} must be tensors, got {type(p).__name__}")
    return found


@no_grad
def get_total_norm(tensors: Tensor | Iterable[Tensor], norm_type: float = 2.0, error_if_nonfinite: bool = False,
                   foreach: bool | None = None) -> Tensor:
    """The norm of all tensors together, on the device of the first. `foreach` chooses how PyTorch computes it, and has no meaning here.

    Raises: ArgumentError with `error_if_nonfinite` for a norm that is NaN or infinite.
    """
    return _total_norm("get_total_norm", _tensors("get_total_norm", tensors, "tensors"), norm_type, error_if_nonfinite)


def _total_norm(name, tensors, norm_type, error_if_nonfinite):
    order = number(name, "norm_type", math.inf if norm_type == "inf" else norm_type)
    if not tensors:
        return zeros(())
    home, alike = tensors[0].device, {}
    for t in tensors:
        if not t.dtype.is_floating_point:
            raise DTypeError(f"{name}: needs floating point tensors, got {t.dtype}; convert them with .float()")
        if not t.numel() and (order < 0 or order == math.inf):
            norm(t, order)              # which has none, and says so
        alike.setdefault((t.device, t.dtype), []).append(t)
    if order == 0 or len(tensors) == 1 and tensors[0].numel() == 1:
        norms = [norm(t, order) for t in tensors]
    else:
        norms = [update.total_norm(each, order) for each in alike.values()]
    total = norms[0] if len(norms) == 1 and order else norm(stack([n.to(home) for n in norms]), order)
    if error_if_nonfinite and not total.isfinite().item():
        raise ArgumentError(f"{name}: The total norm of order {order} for gradients from `parameters` is non-finite, so it cannot be "
                            "clipped. To disable this error and scale the gradients by the non-finite norm anyway, set "
                            "`error_if_nonfinite=False`")
    return total


def _gradients(name, parameters):
    found = [p.grad for p in _tensors(name, parameters) if p.grad is not None]
    if any(g.is_sparse for g in found):
        raise DTypeError(f"{name}: takes no sparse gradients; leave their parameters out, or make their layers with sparse=False")
    return found


@no_grad
def clip_grads_with_norm_(parameters: Tensor | Iterable[Tensor], max_norm: float, total_norm: Tensor, foreach: bool | None = None) -> None:
    """Scale all gradients by max_norm / total_norm where that is below 1; total_norm has no dimensions.

    Raises: DTypeError, ShapeError for another total_norm; ArgumentError for a negative max_norm.
    """
    if not isinstance(total_norm, core.TensorBase):
        raise DTypeError(f"clip_grads_with_norm_: total_norm must be a tensor, got {type(total_norm).__name__}")
    if total_norm.shape:                # its one element is read, whatever the shape
        raise ShapeError(f"clip_grads_with_norm_: total_norm must be a tensor without dimensions, got shape {total_norm.shape}")
    if not total_norm.dtype.is_floating_point:
        total_norm = total_norm.float()
    max_norm = number("clip_grads_with_norm_", "max_norm", max_norm, 0)
    change_gradients(CLIP_NORM, _gradients("clip_grads_with_norm_", parameters), {"max_norm": max_norm}, total_norm)


def change_gradients(rule: Update, gradients, settings, total=None):
    """Change gradients in place, those of one device and dtype together; what is listed twice is changed twice."""
    alike: dict = {}
    for g in gradients:
        check_elements(rule.name, g)
        key = g.device, g.dtype
        while (id(g.storage), g.offset) in alike.setdefault(key, {}):
            key = (*key, None)
        alike[key][id(g.storage), g.offset] = g
    for (device, *_), found in alike.items():
        update.run(rule, [list(found.values())], dict(settings), () if total is None else (total.to(device),))


@no_grad
def clip_grad_norm_(parameters: Tensor | Iterable[Tensor], max_norm: float, norm_type: float = 2.0,
                    error_if_nonfinite: bool = False, foreach: bool | None = None) -> Tensor:
    """Scale all gradients together so that their norm is at most `max_norm`; gives the norm that they had, as a tensor on their
    device: nothing is read back, unless `error_if_nonfinite` asks for it. `foreach` has no meaning here.

    Raises: ArgumentError for a negative max_norm; with `error_if_nonfinite`, for a norm that is NaN or infinite.
    """
    max_norm, named = number("clip_grad_norm_", "max_norm", max_norm, 0), parameters
    parameters = _tensors("clip_grad_norm_", parameters)
    if not parameters and isinstance(named, Generator):
        warnings.warn("`parameters` is an empty generator, no gradient clipping will occur.", stacklevel=2)
    gradients = _gradients("clip_grad_norm_", parameters)
    total = _total_norm("clip_grad_norm_", gradients, norm_type, error_if_nonfinite)
    change_gradients(CLIP_NORM, gradients, {"max_norm": max_norm}, total)
    return total


def clip_grad_norm(parameters: Tensor | Iterable[Tensor], max_norm: float, norm_type: float = 2.0, error_if_nonfinite: bool = False,
                   foreach: bool | None = None) -> Tensor:
    """`clip_grad_norm_`, by its name before PyTorch 0.4."""
    warnings.warn("clip_grad_norm is deprecated; write clip_grad_norm_", FutureWarning, stacklevel=2)
    return clip_grad_norm_(parameters, max_norm, norm_type, error_if_nonfinite, foreach)


@no_grad
def clip_grad_value_(parameters: Tensor | Iterable[Tensor], clip_value: float, foreach: bool | None = None) -> None:
    """Limit every gradient to [-clip_value, clip_value]. `foreach` has no meaning here."""
    limit = number("clip_grad_value_", "clip_value", clip_value, 0)
    change_gradients(CLIP_VALUE, _gradients("clip_grad_value_", parameters), {"limit": limit})


def parameters_to_vector(parameters: Iterable[Tensor]) -> Tensor:
    """All parameters as one vector."""
    return cat([reshape(p, -1) for p in _tensors("parameters_to_vector", parameters)])


@no_grad
def vector_to_parameters(vec: Tensor, parameters: Iterable[Tensor]) -> None:
    """Overwrite the parameters with pieces of a vector; what is left of it is not used.

    Raises: ShapeError for fewer elements than the parameters have; nothing is written then.
    """
    (vec,), targets = _tensors("vector_to_parameters", vec, "vec"), _tensors("vector_to_parameters", parameters)
    needed = sum(p.numel() for p in targets)
    if vec.ndim != 1 or vec.numel() < needed:
        raise ShapeError(f"vector_to_parameters: needs a vector of {needed} elements at least, got {vec.shape}")
    start = 0
    for p in targets:
        p.copy_(reshape(narrow(vec, 0, start, p.numel()), p.shape))
        start += p.numel()


def skip_init(module_cls: type[M], *args: Any, **kwargs: Any) -> M:
    """A module whose values may be anything: here they are drawn as always, which takes little.

    Raises: ArgumentError for what is no class of modules.
    """
    if not (isinstance(module_cls, type) and issubclass(module_cls, Module)):
        raise ArgumentError(f"skip_init: needs a class of modules, got {module_cls!r}")
    if "device" not in inspect.signature(module_cls).parameters:
        raise ArgumentError(f"skip_init: {module_cls.__name__} takes no device, so it has no values to leave out")
    return module_cls(*args, **kwargs)


def _laid_out(name: str, module: M, memory_format: Layout, layers: tuple[type[Module], ...]) -> M:
    if not isinstance(module, Module):
        raise DTypeError(f"{name}: module must be a module, got {type(module).__name__}")
    if not isinstance(memory_format, MemoryFormat):
        raise DTypeError(f"{name}: memory_format must be one such as volta.channels_last, got {memory_format!r}")
    for layer in module.modules():
        if isinstance(layer, layers):
            layer.weight.data = layer.weight.detach().clone(memory_format=memory_format)
    return module


def convert_conv2d_weight_memory_format(module: M, memory_format: Layout) -> M:
    """Lay the weights of the two-dimensional convolutions of a module out in this format."""
    return _laid_out("convert_conv2d_weight_memory_format", module, memory_format, (Conv2d, ConvTranspose2d))


def convert_conv3d_weight_memory_format(module: M, memory_format: Layout) -> M:
    """Lay the weights of the three-dimensional convolutions of a module out in this format."""
    return _laid_out("convert_conv3d_weight_memory_format", module, memory_format, (Conv3d, ConvTranspose3d))
