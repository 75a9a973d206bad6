"""Parameters computed from others by modules: `register_parametrization(layer, "weight", Symmetric())`.

The layer's attribute becomes a property, computed when it is read; what it is computed from is a parameter of
`layer.parametrizations.weight`: "original", or "original0", "original1" where the first parametrization's `right_inverse` gives several.
"""
from __future__ import annotations

import contextlib
import copy
from collections.abc import Iterator
from typing import Any

from volta.autograd import no_grad
from volta.errors import ArgumentError, ShapeError, UnwritableError
from volta.nn.container import ModuleDict, ModuleList
from volta.nn.module import Module
from volta.nn.parameter import Parameter
from volta.tensor import Tensor

__all__ = ["ParametrizationList", "cached", "is_parametrized", "register_parametrization", "remove_parametrizations",
           "transfer_parametrizations_and_params", "type_before_parametrizations"]

_cache: dict[tuple[int, str], Any] | None = None


@contextlib.contextmanager
def cached() -> Iterator[None]:
    """Context manager: inside, a computed parameter is computed once and kept."""
    global _cache
    previous, _cache = _cache, {} if _cache is None else _cache
    try:
        yield
    finally:
        _cache = previous


class ParametrizationList(ModuleList):
    """The parametrizations of one tensor, in the order in which they are applied, and what it is computed from."""

    def __init__(self, modules: list[Module], original: Tensor, unsafe: bool = False) -> None:
        super().__init__(modules)
        value, wants = original, original.requires_grad
        with no_grad(), contextlib.suppress(NotImplementedError):             # without an inverse, what is trained begins as the tensor
            for module in reversed(modules):
                if hasattr(module, "right_inverse"):
                    value = module.right_inverse(value)
        self.is_tensor = isinstance(value, Tensor)
        self.ntensors = 1 if self.is_tensor else len(value)
        for name, t in zip(self.names(), [value] if self.is_tensor else value):
            if not isinstance(t, Tensor):
                raise ArgumentError(f"register_parametrization: right_inverse must give tensors, got {type(t).__name__}")
            if isinstance(original, Parameter):
                self.register_parameter(name, Parameter(t.detach(), wants and t.dtype.is_floating_point))
            else:
                self.register_buffer(name, t)
        now = original if unsafe else self.forward()
        if not isinstance(now, Tensor):
            raise ArgumentError(f"register_parametrization: a parametrization must return a tensor, got {type(now).__name__}")
        if now.shape != original.shape or now.dtype is not original.dtype:
            raise ShapeError(f"register_parametrization: gives {now.dtype} {now.shape} where the tensor was {original.dtype} "
                             f"{original.shape}")
        if self.is_tensor and value.dtype is original.dtype:            # the same object: an optimizer may have it already
            original.data = value.detach()
            (self._parameters if isinstance(original, Parameter) else self._buffers)["original"] = original

    def names(self) -> list[str]:
        """Names of what the tensor is computed from."""
        return ["original"] if self.is_tensor else [f"original{i}" for i in range(self.ntensors)]

    def forward(self) -> Tensor:
        value = self[0](*(getattr(self, name) for name in self.names()))
        for module in list(self)[1:]:
            value = module(value)
        return value

    def right_inverse(self, value: Tensor) -> None:
        """Set what the tensor is computed from, so that it becomes `value`, by each parametrization's `right_inverse`.

        Raises: ArgumentError where one has none.
        """
        with no_grad():
            for module in reversed(list(self)):
                if not hasattr(module, "right_inverse"):
                    raise ArgumentError(f"parametrize: {type(module).__name__} has no right_inverse, so its result cannot be assigned")
                value = module.right_inverse(value)
            for name, t in zip(self.names(), [value] if self.is_tensor else value):
                original = getattr(self, name)
                if t.shape == original.shape:
                    original.copy_(t)
                else:                               # as in PyTorch, where a parametrization takes tensors of any shape
                    original.data = t.detach().to(original.dtype)


def _refuse_pickling(self):
    """`__getstate__` of modules with parametrizations, whose class no other process knows."""
    raise UnwritableError(f"{type(self).__name__}: a parametrized module has no pickle; save its state_dict()")


def _copied(self, memo):
    """Their `__deepcopy__`, which goes by `__getstate__` otherwise."""
    found = memo[id(self)] = self.__new__(type(self))
    found.__dict__.update(copy.deepcopy(self.__dict__, memo))
    return found


def _property(name):
    def read(self):
        key = id(self), name
        if _cache is None:
            return self.parametrizations[name]()
        if key not in _cache:
            _cache[key] = self.parametrizations[name]()
        return _cache[key]

    def write(self, value):
        self.parametrizations[name].right_inverse(value)
    return property(read, write)


def register_parametrization(module: Module, tensor_name: str, parametrization: Module, *, unsafe: bool = False) -> Module:
    """Compute the parameter or buffer `tensor_name` of `module` by `parametrization`, from itself or from what `right_inverse` makes of it;
    on what earlier parametrizations give, where there are any. `unsafe` allows another shape or dtype.

    Raises: ArgumentError where there is no such tensor; ShapeError for another shape.
    """
    if not isinstance(module, Module) or not isinstance(parametrization, Module):
        raise ArgumentError("register_parametrization: needs two Modules, the one that holds the tensor and the one that computes it, got "
                            f"{type(module).__name__} and {type(parametrization).__name__}")
    parametrization.train(module.training)
    if is_parametrized(module, tensor_name):
        registered = module.parametrizations[tensor_name]
        if not unsafe:
            _check_further(parametrization, registered())
        registered.append(parametrization)              # its right_inverse serves assignments alone, as in PyTorch
        return module
    held = next((table for table in (module._parameters, module._buffers) if table.get(tensor_name) is not None), None)
    if held is None:
        raise ArgumentError(f"register_parametrization: {type(module).__name__} has no parameter or buffer {tensor_name!r}")
    made = ParametrizationList([parametrization], held[tensor_name], unsafe)
    if not is_parametrized(module):
        cls = type(module)
        module.__class__ = type(f"Parametrized{cls.__name__}", (cls,), {"__module__": cls.__module__, "__getstate__": _refuse_pickling,
                                                                        "__deepcopy__": _copied})
        module.parametrizations = ModuleDict()
    del held[tensor_name]
    module.parametrizations[tensor_name] = made
    setattr(type(module), tensor_name, _property(tensor_name))
    return module


def _check_further(parametrization, now):
    """Raise where a parametrization, or its inverse, does not give what it is given: a tensor of this shape and dtype."""
    found = [("a parametrization", parametrization(now))]
    if hasattr(parametrization, "right_inverse"):
        with contextlib.suppress(NotImplementedError):
            found.append(("right_inverse", parametrization.right_inverse(found[0][1])))
    for what, value in found:
        if not isinstance(value, Tensor):
            raise ArgumentError(f"register_parametrization: {what} must return a tensor, got {type(value).__name__}")
        if value.shape != now.shape or value.dtype is not now.dtype:
            raise ShapeError(f"register_parametrization: {what} gives {value.dtype} {value.shape} of a tensor of {now.dtype} {now.shape}")


def is_parametrized(module: Module, tensor_name: str | None = None) -> bool:
    """Whether a tensor of the module, or any, is computed by parametrizations."""
    registered = getattr(module, "parametrizations", None)
    return isinstance(registered, ModuleDict) and (len(registered) > 0 if tensor_name is None else tensor_name in registered)


def remove_parametrizations(module: Module, tensor_name: str, leave_parametrized: bool = True) -> Module:
    """Undo `register_parametrization`: the tensor as it is computed now becomes a parameter, or with leave_parametrized=False what it was
    computed from. Where it was computed from one tensor, that is the object that stays.

    Raises: ArgumentError for a tensor that is not computed, or that cannot be left as it was.
    """
    if not is_parametrized(module, tensor_name):
        raise ArgumentError(f"remove_parametrizations: {tensor_name!r} of {type(module).__name__} has no parametrization")
    registered = module.parametrizations[tensor_name]
    if not leave_parametrized and not registered.is_tensor:
        raise ArgumentError("remove_parametrizations: leave_parametrized=False needs a parametrization of one tensor")
    original = getattr(registered, registered.names()[0])
    if leave_parametrized:
        with no_grad():
            value = registered().detach().clone()
        if registered.is_tensor:
            original.data = value               # the same object: an optimizer goes on changing it
        else:
            original = Parameter(value, original.requires_grad) if isinstance(original, Parameter) else value
    del module.parametrizations[tensor_name]
    delattr(type(module), tensor_name)
    if isinstance(original, Parameter):
        module.register_parameter(tensor_name, original)
    else:
        module.register_buffer(tensor_name, original)
    if not is_parametrized(module):
        del module._modules["parametrizations"]
        module.__class__ = type(module).__bases__[0]
    return module


def type_before_parametrizations(module: Module) -> type[Module]:
    """The class that a module had before it was parametrized."""
    return type(module).__bases__[0] if is_parametrized(module) else type(module)


def transfer_parametrizations_and_params(from_module: Module, to_module: Module, tensor_name: str | None = None) -> Module:
    """Give one module the parametrizations of another, or those of one tensor, and share with it what these compute from."""
    for name in list(from_module.parametrizations) if tensor_name is None and is_parametrized(from_module) else [tensor_name]:
        if name is None or not is_parametrized(from_module, name):
            continue
        if not hasattr(to_module, name):
            setattr(to_module, name, Parameter(getattr(from_module, name)))
        source = from_module.parametrizations[name]
        for module in source:
            register_parametrization(to_module, name, module)
        for original in source.names():
            setattr(to_module.parametrizations[name], original, getattr(source, original))
    return to_module
