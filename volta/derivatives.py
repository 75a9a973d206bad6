"""Derivatives of functions under the names of torch.autograd.functional, by those of volta.func."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

from volta import autograd
from volta import func as transforms
from volta._kernels import core
from volta.errors import ArgumentError, AssertedError, AutogradError, DTypeError, ShapeError

__all__ = ["hessian", "hvp", "jacobian", "jvp", "vhp", "vjp"]


def jacobian(func: Callable, inputs: Any, create_graph: bool = False, strict: bool = False, vectorize: bool = False,
             strategy: str = "reverse-mode") -> Any:
    """The derivatives of all outputs of `func` with regard to all of `inputs`, a tensor or a tuple: of shape outputs' + inputs', nested as
    these are. `vectorize` asks for speed alone; `strategy` may be "forward-mode".

    With `strict`, an output that does not depend on an input is an error, here and in the functions below.

    Raises: AutogradError by `strict`; ArgumentError for another strategy, and for strict=True by "forward-mode".
    """
    _check_strategy("jacobian", "strategy", strategy, strict, vectorize)
    if strict and strategy == "forward-mode":
        raise ArgumentError("jacobian: strict=True goes with strategy='reverse-mode' alone")
    func, (args, places) = _checked("jacobian", func), _arguments("jacobian", inputs, create_graph)
    if strict:
        _check_strict("jacobian", func, args, create_graph)
    return _graph((transforms.jacrev if strategy == "reverse-mode" else transforms.jacfwd)(func, places)(*args), create_graph)


def hessian(func: Callable, inputs: Any, create_graph: bool = False, strict: bool = False, vectorize: bool = False,
            outer_jacobian_strategy: str = "reverse-mode") -> Any:
    """The second derivatives of `func`, which gives one number, with regard to all pairs of `inputs`."""
    _check_strategy("hessian", "outer_jacobian_strategy", outer_jacobian_strategy, strict, vectorize)
    func, (args, places) = _checked("hessian", func), _arguments("hessian", inputs, create_graph)
    if strict:
        _check_strict("hessian", func, args, create_graph, second=True)
    outer = transforms.jacrev if outer_jacobian_strategy == "reverse-mode" else transforms.jacfwd
    return _graph(outer(transforms.jacrev(_number("hessian", func), places), places)(*args), create_graph)


def vjp(func: Callable, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False) -> tuple[Any, Any]:
    """(outputs of `func`, v times its Jacobian); `v` is nested as the outputs are, and may be left out for one number."""
    func, (args, _) = _checked("vjp", func), _arguments("vjp", inputs, create_graph)
    if strict:
        _check_strict("vjp", func, args, create_graph)
    outputs, pulled = transforms.vjp(func, *args)
    found = pulled(_vectors("vjp", "output", outputs if isinstance(outputs, tuple) else (outputs,), v))
    return _graph(outputs, create_graph), _graph(_like(inputs, found), create_graph)


def jvp(func: Callable, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False) -> tuple[Any, Any]:
    """(outputs of `func`, its Jacobian times v); `v` is nested as the inputs are, and may be left out for one number."""
    func, (args, _) = _checked("jvp", func), _arguments("jvp", inputs, create_graph)
    along = _vectors("jvp", "input", args, v)
    if strict:
        _check_strict("jvp", func, args, create_graph)
    outputs, found = transforms.jvp(func, args, along)
    return _graph(outputs, create_graph), _graph(found, create_graph)


def hvp(func: Callable, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False) -> tuple[Any, Any]:
    """(the output of `func`, one number, its Hessian times v); `v` is nested as the inputs are."""
    return _second("hvp", func, inputs, v, create_graph, strict)


def vhp(func: Callable, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False) -> tuple[Any, Any]:
    """(the output of `func`, one number, v times its Hessian), which is what `hvp` gives: the Hessian is symmetric."""
    return _second("vhp", func, inputs, v, create_graph, strict)


def _second(name, func, inputs, v, create_graph, strict):
    func, (args, places) = _checked(name, func), _arguments(name, inputs, create_graph)
    along = _vectors(name, "input", args, v)
    if strict:
        _check_strict(name, func, args, create_graph, second=True)
    gradient = transforms.grad_and_value(_number(name, func, whole=True), places, has_aux=True)
    (_, (_, output)), (found, _) = transforms.jvp(gradient, args, along)
    return _graph(output, create_graph), _graph(_like(inputs, found), create_graph)


def _check_strategy(name, argument, strategy, strict, vectorize):
    if strategy not in ("reverse-mode", "forward-mode"):
        raise AssertedError(f"{name}: {argument} must be 'reverse-mode' or 'forward-mode', got {strategy!r}")
    if strict and vectorize:
        raise ArgumentError(f"{name}: strict=True and vectorize=True do not go together, as in PyTorch; leave one out")


def _checked(name, func):
    """`func`, whose outputs are looked at: tensors alone have derivatives."""
    def checked(*args):
        outputs = func(*args)
        for out in outputs if isinstance(outputs, tuple) else (outputs,):
            _need_tensor(name, "outputs of the function", out)
        return outputs
    return checked


def _need_tensor(name, what, value):
    if not isinstance(value, core.TensorBase):
        raise DTypeError(f"{name}: {what} must be a tensor or a tuple of tensors, got {type(value).__name__}")


def _number(name, func, whole=False):
    """A function that gives one number, as a 0-d tensor; `whole` as (that, what func gave)."""
    def number(*args):
        out = func(*args)
        if not isinstance(out, core.TensorBase) or out._size != 1:
            raise ShapeError(f"{name}: the function must give one tensor with a single element, got "
                             f"{out.shape if isinstance(out, core.TensorBase) else type(out).__name__}")
        return (out.reshape(()), out) if whole else out.reshape(())
    return number


def _check_strict(name, func, args, create_graph, second=False):
    """Raise where a derivative is zero since an output, or a gradient that is differentiated again, does not depend on an input."""
    own = [x.view_as(x) if x.requires_grad else core.alias(x).requires_grad_() for x in args]
    with autograd.enable_grad():
        outputs = func(*own)
        for i, out in enumerate(outputs if isinstance(outputs, tuple) else (outputs,)):
            if not out.requires_grad:
                raise AutogradError(f"{name}: output {i} does not require grad; with strict=True outputs must be computed from the inputs "
                                    "by differentiable operations")
            first = autograd.grad(out, own, out.new_ones(out.shape), create_graph=True, allow_unused=True)
            for j, g in enumerate(first):
                if g is None:
                    raise AutogradError(f"{name}: output {i} is independent of input {j}, which strict=True refuses")
                if not g.requires_grad and (second or create_graph):
                    raise AutogradError(f"{name}: the Jacobian of the function for input {j} is independent of the input, which "
                                        f"strict=True refuses{'' if second else ' with create_graph=True'}")
            if name == "hessian":
                _check_second(name, own, first)


def _check_second(name, own, first):
    for j, g in enumerate(first):
        for k, again in enumerate(autograd.grad(g, own, g.new_ones(g.shape), retain_graph=True, allow_unused=True)):
            if again is None:
                raise AutogradError(f"{name}: the Jacobian of the function for input {j} is independent of input {k}, which strict=True "
                                    "refuses")


def _arguments(name, inputs, create_graph):
    """The inputs as a tuple, and their places: one where a tensor was given, so that results are nested alike. Without their graphs, which
    would be walked for nothing, where the results are to have none."""
    given = inputs if isinstance(inputs, tuple) else (inputs,)
    for x in given:
        _need_tensor(name, "inputs", x)
    if not create_graph:
        given = tuple(x.detach() for x in given)
    else:                                       # results have a graph, whether the inputs have one or not
        given = tuple(x if x.requires_grad or not x.dtype.is_floating_point else x.detach().requires_grad_() for x in given)
    return given, tuple(range(len(given))) if isinstance(inputs, tuple) else 0


def _vectors(name, what, like, v):
    """`v` as one tensor for each of `like`, the inputs or outputs; ones where that is a single number."""
    if v is None:
        if len(like) != 1 or like[0]._size != 1:
            raise ArgumentError(f"{name}: v may be left out only where the {what} is one tensor with a single element, got "
                                f"{[x.shape for x in like]}")
        return (core.alias(like[0]).new_ones(like[0].shape),)
    given = v if isinstance(v, tuple) else (v,)
    for vector in given:
        _need_tensor(name, "v", vector)
    if [x.shape for x in given] != [x.shape for x in like]:
        raise ShapeError(f"{name}: v must have the shapes of the {what}s, {[x.shape for x in like]}, got {[x.shape for x in given]}")
    return given


def _like(inputs, found):
    return found if isinstance(inputs, tuple) or not isinstance(found, tuple) else found[0]


def _graph(found, keep):
    """The result, without a graph where none is to be kept."""
    if isinstance(found, tuple):
        return tuple(_graph(entry, keep) for entry in found)
    return found if keep else found.detach()
