"""Automatic differentiation: `backward`, `grad`, the grad modes, and custom functions.

The hot paths are `graph.pyx` (recording a call), `engine.pyx` (walking the graph) and `grad_mode.pyx` in `volta/_kernels/core`;
this file owns what users call. It knows no op and no device.
"""
from __future__ import annotations

import functools
import inspect
import warnings
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeVar, overload

from volta import saved as graph
from volta._kernels import core
from volta._kernels.core import engine, hooks
from volta._kernels.core.grad_mode import GradMode, call_under
from volta._kernels.core.graph import Node, is_grad_enabled
from volta._kernels.core.paths import paths
from volta._kernels.core.record import Primitive
from volta.custom import Function, FunctionCtx, as_gradient
from volta.errors import ArgumentError, AutogradError, CallError, ShapeError, warn_once
from volta.late import modules_of as _modules_of
from volta.saved import AccumulateGrad, GradientEdge, RemovableHandle

if TYPE_CHECKING:
    from volta.tensor import Tensor

__all__ = ["Node", "Primitive", "Function", "FunctionCtx", "GradientEdge", "RemovableHandle", "backward", "grad", "no_grad", "enable_grad",
           "set_grad_enabled", "inference_mode", "is_grad_enabled", "is_inference_mode_enabled", "Variable", "detect_anomaly",
           "set_detect_anomaly", "is_anomaly_enabled", "is_anomaly_check_nan_enabled", "once_differentiable", "set_anomaly_enabled",
           "graph", "variable"]

__path__: list[str] = []        # PyTorch's modules in it are found by name: volta.compat.deep

# What is loaded when it is first asked for: it stands on tensors and ops, which this module does not know.
_LATE = {**dict.fromkeys(("GradcheckError", "gradcheck", "gradgradcheck"), "volta.testing"), "functional": "volta.autograd.functional",
         "forward_ad": "volta.autograd.forward_ad", "function": "volta.autograd.function"}
_find_module = _modules_of(__name__)


def __getattr__(name: str) -> Any:
    if name not in _LATE:
        return _find_module(name)
    module = import_module(_LATE[name])
    return getattr(module, name) if name.endswith(("check", "Error")) else module


F = TypeVar("F", bound=Callable[..., Any])


class _GradMode(GradMode):
    """A context manager, which may be entered again and nested, and a decorator."""

    __slots__ = ()

    def __call__(self, function: F) -> F:
        self.withdraw()
        return _under(self.mode, function)


def _under(mode: bool, function: F) -> F:
    """`function` with recording on or off while it runs."""
    if not callable(function):
        raise ArgumentError(f"{'enable_grad' if mode else 'no_grad'}: function must be a function to decorate, got {function!r}")

    if inspect.isgeneratorfunction(function):
        return _generating(lambda: _GradMode(mode), function)

    @functools.wraps(function)
    def wrapped(*args, **kwargs):
        return call_under(mode, function, args, kwargs)
    return wrapped


def _generating(entered: Callable[[], Any], function: F) -> F:
    """A generator function whose own code runs inside what `entered` gives, and the code between its values outside."""
    @functools.wraps(function)
    def wrapped(*args, **kwargs):
        with entered():
            generator = function(*args, **kwargs)
        step, given = generator.send, (None,)
        while True:
            try:
                with entered():
                    value = step(*given)
            except StopIteration as end:
                return end.value
            try:
                step, given = generator.send, ((yield value),)
            except GeneratorExit:
                with entered():
                    generator.close()
                raise
            except BaseException as error:
                step, given = generator.throw, (error,)
    return wrapped


_make = GradMode.__new__


class no_grad(_GradMode):
    """Context manager and decorator: nothing inside is recorded."""

    __slots__ = ()

    @overload
    def __new__(cls, function: F) -> F: ...                     # type: ignore[misc]  (a function, decorated)
    @overload
    def __new__(cls, function: None = None) -> no_grad: ...
    def __new__(cls, function=None):
        return _make(cls, False) if function is None else _under(False, function)


class enable_grad(_GradMode):
    """Context manager and decorator: recording inside, also within `no_grad`."""

    __slots__ = ()

    @overload
    def __new__(cls, orig_func: F) -> F: ...                    # type: ignore[misc]  (a function, decorated)
    @overload
    def __new__(cls, orig_func: None = None) -> enable_grad: ...
    def __new__(cls, orig_func=None):
        return _make(cls, True) if orig_func is None else _under(True, orig_func)


class inference_mode(_GradMode):
    """`no_grad`, or with mode=False `enable_grad`, which `is_inference_mode_enabled` tells. Tensors made inside are for no derivative: what
    is recorded outside may not save them, and they may be changed in place inside alone."""

    __slots__ = ("_outer",)

    @overload
    def __new__(cls, mode: F) -> F: ...                         # type: ignore[misc]  (a function, decorated)
    @overload
    def __new__(cls, mode: bool = True) -> inference_mode: ...
    def __new__(cls, mode=True):
        return inference_mode()(mode) if callable(mode) else _make(cls, not mode)

    def __enter__(self) -> None:
        super().__enter__()
        self._outer = (core.set_inferring(not self.mode), getattr(self, "_outer", None))        # may be entered again inside

    def __exit__(self, *error: object) -> None:
        inferring, self._outer = self._outer
        core.set_inferring(inferring)
        super().__exit__(*error)

    def __call__(self, function: F) -> F:
        if inspect.isgeneratorfunction(function):
            return _generating(lambda: inference_mode(not self.mode), function)

        @functools.wraps(function)
        def wrapped(*args, **kwargs):
            with inference_mode(not self.mode):
                return function(*args, **kwargs)
        return wrapped


def is_inference_mode_enabled() -> bool:
    """Whether the call runs inside `inference_mode`."""
    return core.inferring()


class set_grad_enabled(_GradMode):
    """Switch recording on or off at once; as a context manager, until its end. Decorates, too."""

    __slots__ = ()

    def __new__(cls, mode: bool) -> set_grad_enabled:
        return _make(cls, mode, at_once=True)


class set_detect_anomaly:
    """Switch anomaly mode on or off at once; as a context manager, until its end. In this mode every recorded call keeps the lines that
    made it, and a backward pass that meets NaN raises an AutogradError that names the op and shows them, unless `check_nan` is False. It
    reads every gradient: slow, for finding errors only."""

    def __init__(self, mode: bool, check_nan: bool = True) -> None:
        self._before = hooks.set_anomaly_mode((2 if check_nan else 1) if mode else 0)

    def __enter__(self) -> None:
        pass

    def __exit__(self, *exc: object) -> None:
        hooks.set_anomaly_mode(self._before)


class detect_anomaly(set_detect_anomaly):
    """`set_detect_anomaly(True)` for a `with` block."""

    def __init__(self, check_nan: bool = True) -> None:
        warnings.warn("detect_anomaly: everything is checked and takes longer; use it for debugging alone", stacklevel=2)
        super().__init__(True, check_nan)


def once_differentiable(fn: F) -> F:
    """For the backward of a Function: it is computed without a graph, and going back through what it gave raises an AutogradError."""
    @functools.wraps(fn)
    def backward(ctx, *grads):
        with no_grad():
            found = fn(ctx, *grads)
        if not is_grad_enabled() or not any(isinstance(g, core.TensorBase) and g.requires_grad for g in grads):
            return found
        several = found if isinstance(found, tuple) else (found,)
        start = next(g for g in grads if isinstance(g, core.TensorBase) and g.requires_grad)
        given = _Once.apply(fn.__qualname__, start, *several)
        return given if isinstance(found, tuple) else given[0]
    return backward


class _Once(Function):
    """Gradients that have no gradient: `start` only hangs them in the graph."""

    @staticmethod
    def forward(ctx, name, start, *grads):
        ctx.name = name
        return tuple(g.detach() if isinstance(g, core.TensorBase) else g for g in grads)

    @staticmethod
    def backward(ctx, *grads):
        raise AutogradError(f"backward: {ctx.name} is marked once_differentiable, and what it gave is to be differentiated again")




class _Variables(type):
    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, core.TensorBase)


class Variable(metaclass=_Variables):
    """PyTorch's old wrapper of tensors. It gives the tensor without a graph; every tensor is an instance."""

    def __new__(cls, data: Tensor, requires_grad: bool = False, volatile: bool | None = None) -> Tensor:  # type: ignore[misc]  (not of its own class)
        if volatile is not None:
            warnings.warn("Variable: volatile has no effect; use `with volta.no_grad():`", stacklevel=2)
        return data.detach().requires_grad_(requires_grad)


def variable(*args: Any, **kwargs: Any) -> Tensor:
    """What made tensors before PyTorch 0.4. Raises: AutogradError, as it does there; write `volta.tensor`."""
    raise AutogradError("autograd.variable(...) is deprecated; write tensor(...) instead")


def is_anomaly_enabled() -> bool:
    """Whether anomaly mode is on."""
    return hooks.is_anomaly_mode() > 0


def is_anomaly_check_nan_enabled() -> bool:
    """Whether anomaly mode looks for NaN, or would where it is off."""
    return hooks.is_anomaly_mode() != 1


def set_anomaly_enabled(mode: bool, check_nan: bool = True) -> None:
    """Switch anomaly mode on or off: `set_detect_anomaly` as a function."""
    set_detect_anomaly(mode, check_nan)


def _seed(name: str, output, gradient):
    """(The output, the gradient that starts there): ones for a single element, else what the caller gave."""
    if isinstance(output, GradientEdge):
        return _at_edge(name, output, gradient)
    _need_tensor(name, output)
    if not output.requires_grad:
        raise AutogradError(f"{name}: the tensor of shape {output.shape} does not require grad and has no graph; set "
                            f"requires_grad=True on an input, or leave no_grad()")
    if gradient is None:
        if output._size != 1:
            raise AutogradError(f"{name}: the output has shape {output.shape}; a gradient can start by itself only at a single "
                                f"element, so reduce it (.sum(), .mean()) or pass gradient=")
        return output, output.new_ones(output.shape)
    if not isinstance(gradient, core.TensorBase):
        raise CallError(f"{name}: gradient must be a tensor, got {type(gradient).__name__}")
    if gradient.shape != output.shape:
        raise ShapeError(f"{name}: gradient has shape {gradient.shape}, the output has {output.shape}")
    return output, gradient.to(output.device, output.dtype)


def _at_edge(name, edge, gradient):
    """(What stands for the output of a node, the gradient that starts there)."""
    if not isinstance(gradient, core.TensorBase):
        raise AutogradError(f"{name}: at a GradientEdge the gradient must be given as a tensor, got {type(gradient).__name__}")
    if isinstance(edge.node, AccumulateGrad):
        return edge.node.variable, gradient
    output = core.alias(gradient)
    output._node, output._index, output._requires_grad = edge.node, edge.output_nr, True
    return output, gradient


class _Place:
    """What stands for an output of a node among the inputs that gradients are asked for."""
    requires_grad, shape = True, "that is given by a GradientEdge"

    def __init__(self, edge: GradientEdge) -> None:
        self._node, self._index = edge.node, edge.output_nr


def _as_target(name: str, t: Any) -> Any:
    """An input that a gradient is asked for: a tensor, or what stands for one."""
    if isinstance(t, GradientEdge):
        return t.node.variable if isinstance(t.node, AccumulateGrad) else _Place(t)
    _need_tensor(name, t)
    return t


def _need_tensor(name, t):
    if not isinstance(t, core.TensorBase):
        raise CallError(f"{name}: needs tensors, got {type(t).__name__}")


def _as_list(value) -> list:
    return [value] if isinstance(value, (core.TensorBase, GradientEdge)) or not hasattr(value, "__iter__") else list(value)


def _start(name: str, what: str, outputs, gradients) -> tuple[list, list]:
    """The outputs as a list, and the gradients that start at them."""
    roots = _as_list(outputs)
    given = [None] * len(roots) if gradients is None else _as_list(gradients)
    if len(given) != len(roots):
        raise ArgumentError(f"{name}: {len(roots)} {what} but {len(given)} gradients")
    pairs = [_seed(name, t, g) for t, g in zip(roots, given)]
    return [t for t, _ in pairs], [g for _, g in pairs]


def backward(tensors: Tensor | Sequence[Tensor], grad_tensors: Tensor | Sequence[Tensor | None] | None = None,
             retain_graph: bool | None = None, create_graph: bool = False,
             grad_variables: Tensor | Sequence[Tensor | None] | None = None, inputs: Tensor | Sequence[Tensor] | None = None) -> None:
    """Add the gradients of `tensors` to the `.grad` of the leaves (or of `inputs` alone), on the device of their data.

    Raises: AutogradError where a tensor has no graph, its graph was freed, or a saved value was changed in place.
    """
    if grad_variables is not None:
        warnings.warn("backward: grad_variables is the old name of grad_tensors", FutureWarning, stacklevel=2)
        if grad_tensors is not None:
            raise ArgumentError("backward: grad_tensors and grad_variables were both given; grad_variables is its old name, leave it out")
        grad_tensors = grad_variables
    if create_graph:                        # (4: for most, who calls `backward` of a tensor)
        warn_once("backward: with create_graph=True the gradients hold the graph that holds the parameters, so that the garbage collector "
                  "alone frees them; use autograd.grad, or set .grad to None afterwards", stacklevel=4)
    roots, seeds = _start("backward", "tensors", tensors, grad_tensors)
    retain = create_graph if retain_graph is None else retain_graph
    targets = [] if inputs is None else [_as_target("backward", t) for t in _as_list(inputs)]
    if inputs is not None and not targets:
        raise ArgumentError("backward: inputs is empty; leave it out to add to all leaves")
    if any(isinstance(t, _Place) for t in targets):
        raise ArgumentError("backward: only tensors have a .grad to add to, an input is a GradientEdge; use grad()")
    for t in targets:
        if not t.requires_grad:
            raise AutogradError(f"backward: an input of shape {t.shape} does not require grad; call requires_grad_() on it first")
        t.retain_grad()                     # from now on, as in PyTorch
    engine.run_backward(roots, seeds, retain, create_graph, None if inputs is None else _paths(roots, targets)[0])


def grad(outputs: Tensor | Sequence[Tensor], inputs: Tensor | Sequence[Tensor],
         grad_outputs: Tensor | Sequence[Tensor | None] | None = None, retain_graph: bool | None = None, create_graph: bool = False,
         only_inputs: bool = True, allow_unused: bool | None = None, is_grads_batched: bool = False,
         materialize_grads: bool = False) -> tuple[Tensor, ...]:
    """Gradients of the sum of `outputs` for each of `inputs`; no `.grad` changes. With is_grads_batched, `grad_outputs` have one more
    dimension, the first, and so have the gradients: those of one of its places after the other.

    Raises: AutogradError where an input is not part of the graph, unless `allow_unused`, which gives None for it, or
    `materialize_grads`, which gives zeros; ArgumentError for only_inputs=False, which PyTorch ended.
    """
    if not only_inputs:
        raise ArgumentError("grad: only_inputs must be True, since PyTorch ended the other way; use backward to add to all leaves")
    if is_grads_batched:
        return _grad_of_batch(outputs, inputs, grad_outputs, retain_graph, create_graph, allow_unused, materialize_grads)
    if materialize_grads and allow_unused is False:
        raise ArgumentError("grad: materialize_grads=True gives zeros for unused inputs, which allow_unused=False forbids")
    targets = [_as_target("grad", t) for t in _as_list(inputs)]
    if not targets:
        raise ArgumentError("grad: inputs is empty")
    for t in targets:
        if not t.requires_grad:
            raise AutogradError(f"grad: an input of shape {t.shape} does not require grad; call requires_grad_() on it first")
    roots, seeds = _start("grad", "outputs", outputs, grad_outputs)
    retain = create_graph if retain_graph is None else retain_graph
    wanted, captures = _paths(roots, targets)
    collected: dict = {}
    engine.run_backward(roots, seeds, retain, create_graph, wanted, captures, collected)
    found = tuple(collected.get(t) if t._node is None else captures[t._node, t._index] for t in targets)
    if materialize_grads:
        if any(g is None and isinstance(t, _Place) for t, g in zip(targets, found)):
            raise ArgumentError("grad: materialize_grads=True cannot give zeros for a GradientEdge, whose shape is not known")
        return tuple(t.new_zeros(t.shape) if g is None else g for t, g in zip(targets, found))
    if not allow_unused:
        for t, g in zip(targets, found):
            if g is None:
                raise AutogradError(f"grad: the input of shape {t.shape} was not used to compute the outputs; pass allow_unused=True "
                                    "to get None for it")
    return found


def _grad_of_batch(outputs, inputs, grad_outputs, retain_graph, create_graph, unused, zeros):
    """`grad` for each place of the first dimension of grad_outputs."""
    given = [] if grad_outputs is None else _as_list(grad_outputs)
    sizes = {g.shape[0] if g.ndim else None for g in given if g is not None}
    if len(sizes) != 1 or None in sizes:
        raise ArgumentError("grad: is_grads_batched needs grad_outputs whose first dimensions have one size, got "
                            f"{[None if g is None else g.shape for g in given]}")
    (count,), found = sizes, None
    for i in range(count):
        retain, seeds = create_graph or retain_graph or i < count - 1, [None if g is None else g[i] for g in given]
        parts = grad(outputs, inputs, seeds, retain, create_graph, allow_unused=unused, materialize_grads=zeros)
        found = found or [None if g is None else g.new_zeros((count, *g.shape)) for g in parts]
        for whole, part in zip(found, parts):
            if whole is not None:
                whole[i] = part
    return tuple(found or [t.new_zeros((0, *t.shape)) for t in _as_list(inputs)])


def _paths(roots: list, targets: list) -> tuple[set, dict]:
    """The nodes and leaves on a path from `roots` to `targets`, and an empty capture for each target that is no leaf."""
    wanted = {t if t._node is None else t._node for t in targets}
    paths(roots, wanted)
    return wanted, {(t._node, t._index): None for t in targets if t._node is not None}


def checked_hook(hook: Callable, shape: tuple) -> Callable:
    """A hook of the gradient of a tensor of this shape, whose result is checked to be like what it was given."""
    def checked(g):
        changed = hook(g)
        if changed is not None and (getattr(changed, "dtype", g.dtype), getattr(changed, "shape", g.shape)) != (g.dtype, g.shape):
            raise AutogradError(f"register_hook: a hook gave {changed.dtype} of shape {changed.shape} for a gradient that is {g.dtype} of "
                                f"shape {g.shape}")
        return changed if changed is None else as_gradient("register_hook: the gradient that a hook gives", changed, shape, g.dtype,
                                                           g.device)
    return checked


def check_hook(name: str, t: Tensor, hook: Any) -> None:
    """Raise where `hook` cannot be one of this tensor's gradient."""
    if not t.requires_grad:
        raise AutogradError(f"{name}: the tensor does not require grad")
    if not callable(hook):
        raise ArgumentError(f"{name}: needs a function of {'the gradient' if name == 'register_hook' else 'the tensor'}, got "
                            f"{type(hook).__name__}")
