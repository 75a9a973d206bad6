"""Derivatives of functions under the names of torch.autograd.functional, by those of volta.func."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

from volta import func as transforms
from volta._kernels import core
from volta.errors import ArgumentError

__all__ = ["hessian", "hvp", "jacobian", "jvp", "vhp", "vjp"]


def jacobian(func: Callable, inputs: Any, create_graph: bool = False, strict: bool = False, vectorize: bool = False,
             strategy: str = "reverse-mode") -> Any:
    """The derivatives of all outputs of `func` with regard to all of `inputs`, a tensor or a tuple: of shape outputs' + inputs', nested as
    these are. `vectorize` asks for speed alone; `strategy` may be "forward-mode".

    Raises: ArgumentError for strict=True, as the functions below.
    """
    _check("jacobian", strict)
    if strategy not in ("reverse-mode", "forward-mode"):
        raise ArgumentError(f"jacobian: strategy must be 'reverse-mode' or 'forward-mode', got {strategy!r}")
    args, places = _arguments(inputs)
    return _graph((transforms.jacrev if strategy == "reverse-mode" else transforms.jacfwd)(func, places)(*args), create_graph)


def hessian(func: Callable, inputs: Any, create_graph: bool = False, strict: bool = False, vectorize: bool = False,
            outer_jacobian_strategy: str = "reverse-mode") -> Any:
    """The second derivatives of `func`, which gives one number, with regard to all pairs of `inputs`."""
    _check("hessian", strict)
    args, places = _arguments(inputs)
    return _graph(transforms.jacrev(transforms.jacrev(_number(func), places), places)(*args), create_graph)


def vjp(func: Callable, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False) -> tuple[Any, Any]:
    """(outputs of `func`, v times its Jacobian); `v` is nested as the outputs are, and may be left out for one number."""
    _check("vjp", strict)
    args, _ = _arguments(inputs)
    outputs, pulled = transforms.vjp(func, *args)
    found = pulled(core.alias(outputs).new_ones(outputs.shape) if v is None else v)
    return _graph(outputs, create_graph), _graph(_like(inputs, found), create_graph)


def jvp(func: Callable, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False) -> tuple[Any, Any]:
    """(outputs of `func`, its Jacobian times v); `v` is nested as the inputs are, and may be left out for one number."""
    _check("jvp", strict)
    args, _ = _arguments(inputs)
    outputs, found = transforms.jvp(func, args, _vectors(args, v))
    return _graph(outputs, create_graph), _graph(found, create_graph)


def hvp(func: Callable, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False) -> tuple[Any, Any]:
    """(the output of `func`, one number, its Hessian times v); `v` is nested as the inputs are."""
    _check("hvp", strict)
    args, places = _arguments(inputs)
    (_, found), output = transforms.jvp(transforms.grad(_number(func), places), args, _vectors(args, v)), func(*args)
    return _graph(output, create_graph), _graph(_like(inputs, found), create_graph)


vhp = hvp                           # the Hessian is symmetric


def _check(name, strict):
    if strict:
        raise ArgumentError(f"{name}: strict=True is not there; outputs that do not depend on an input have derivatives of zeros")


def _number(func):
    """A function that gives one number, as a 0-d tensor."""
    return lambda *args: func(*args).reshape(())


def _arguments(inputs):
    """The inputs as a tuple, and their places: one where a tensor was given, so that results are nested alike."""
    return (inputs, tuple(range(len(inputs)))) if isinstance(inputs, tuple) else ((inputs,), 0)


def _vectors(args, v):
    return tuple(x.new_ones(x.shape) for x in args) if v is None else v if isinstance(v, tuple) else (v,)


def _like(inputs, found):
    return found if isinstance(inputs, tuple) or not isinstance(found, tuple) else found[0]


def _graph(found, keep):
    """The result, without a graph where none is to be kept."""
    if isinstance(found, tuple):
        return tuple(_graph(entry, keep) for entry in found)
    return found if keep else found.detach()
