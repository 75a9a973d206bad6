"""The package functorch, which PyTorch still carries: functions of volta.func under its name, and modules as functions of their state."""
from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from volta.func import (
    functional_call,
    functionalize,
    grad,
    grad_and_value,
    hessian,
    jacfwd,
    jacrev,
    jvp,
    stack_module_state,
    vjp,
    vmap,
)
from volta.nn.module import Module
from volta.tensor import Tensor

__all__ = ["FunctionalModule", "FunctionalModuleWithBuffers", "combine_state_for_ensemble", "functionalize", "grad", "grad_and_value",
           "hessian", "jacfwd", "jacrev", "jvp", "make_functional", "make_functional_with_buffers", "vjp", "vmap"]


class FunctionalModuleWithBuffers(Module):
    """A module that is called with its parameters and buffers, in the order of their names, before its arguments."""

    def __init__(self, model: Module) -> None:
        super().__init__()
        self.stateless_model = model
        self.param_names = tuple(name for name, _ in model.named_parameters())
        self.buffer_names = tuple(name for name, _ in model.named_buffers())

    def forward(self, params: Iterable[Tensor], buffers: Iterable[Tensor], *args: Any, **kwargs: Any) -> Any:
        state = dict(zip((*self.param_names, *self.buffer_names), (*params, *buffers), strict=True))
        return functional_call(self.stateless_model, state, args, kwargs)


class FunctionalModule(FunctionalModuleWithBuffers):
    """A module without buffers that is called with its parameters before its arguments."""

    def forward(self, params: Iterable[Tensor], *args: Any, **kwargs: Any) -> Any:
        return super().forward(params, (), *args, **kwargs)


def make_functional_with_buffers(model: Module, disable_autograd_tracking: bool = False
                                 ) -> tuple[Callable[..., Any], tuple[Tensor, ...], tuple[Tensor, ...]]:
    """(a copy of the module as a function of its state, its parameters, its buffers)."""
    function = FunctionalModuleWithBuffers(copy.deepcopy(model))
    return function, _parameters(function, disable_autograd_tracking), tuple(function.stateless_model.buffers())


def make_functional(model: Module, disable_autograd_tracking: bool = False) -> tuple[Callable[..., Any], tuple[Tensor, ...]]:
    """(a copy of the module as a function of its parameters, these). Raises: RuntimeError for a module that has buffers."""
    if any(True for _ in model.buffers()):
        raise RuntimeError("make_functional: the module has buffers; use make_functional_with_buffers")
    function = FunctionalModule(copy.deepcopy(model))
    return function, _parameters(function, disable_autograd_tracking)


def _parameters(function: FunctionalModuleWithBuffers, frozen: bool) -> tuple[Tensor, ...]:
    found = tuple(function.stateless_model.parameters())
    if frozen:
        for each in found:
            each.requires_grad_(False)
    return found


def combine_state_for_ensemble(models: Sequence[Module]) -> tuple[Callable[..., Any], tuple[Tensor, ...], tuple[Tensor, ...]]:
    """(a function of the state of one of the modules, their parameters stacked, their buffers stacked), for `vmap`."""
    params, buffers = stack_module_state(list(models))
    return FunctionalModuleWithBuffers(copy.deepcopy(models[0])), tuple(params.values()), tuple(buffers.values())
