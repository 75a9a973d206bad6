"""Custom functions: what a program differentiates by a rule of its own. Public as `volta.autograd.Function`."""
from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ParamSpec, Protocol, TypeVar

from volta._kernels import core
from volta._kernels.core import graph, hooks, inplace
from volta._kernels.core.grad_mode import GradMode
from volta.errors import AutogradError, GradientTypeError
from volta.shapes import broadcasts_to

if TYPE_CHECKING:
    from volta.tensor import Tensor

__all__ = ["Function", "FunctionCtx"]

P = ParamSpec("P")
R = TypeVar("R", covariant=True)


def as_gradient(name: str, g, shape: tuple, dtype, device):
    """What a user's backward or hook gave, as the gradient of a tensor of this shape, dtype and device.

    Raises: AutogradError for anything but a tensor of that device, and of that shape or one that sums down to it.
    """
    if getattr(g, "is_sparse", False) and (tuple(g.shape), g.dtype, g.device) == (shape, dtype, device):
        return g
    if not isinstance(g, core.TensorBase):
        raise GradientTypeError(f"{name} must be a tensor or None, got {type(g).__name__}")
    if g.device is not device:
        raise AutogradError(f"{name} is on {g.device}, the tensor that it belongs to on {device}; make it there")
    if not broadcasts_to(shape, g.shape):
        raise AutogradError(f"{name} has shape {g.shape}, the tensor that it belongs to {shape}")
    if g.shape != shape:
        lead = g.ndim - len(shape)
        wide = (i for i, n in enumerate(g.shape) if i < lead or shape[i - lead] != n)
        g = g.sum(tuple(wide), keepdim=True).reshape(shape)
    return g if g.dtype is dtype else g.to(dtype)


def _likes(values):
    """Shape, dtype and device of the tensors among some values."""
    return tuple([(v.shape, v.dtype, v.device) if isinstance(v, core.TensorBase) else None for v in values])


class FunctionCtx:
    """What a custom Function's forward leaves for its backward."""

    def __init__(self, cls: type, inputs: tuple) -> None:
        self.cls = cls
        self.n_inputs = len(inputs)
        self.needs_input_grad = tuple([isinstance(a, core.TensorBase) and a.requires_grad for a in inputs])
        needed = any(self.needs_input_grad)
        self._likes = tuple([(a.shape, a.dtype, a.device) if n else None if isinstance(a, core.TensorBase) else False    # False: no tensor
                             for a, n in zip(inputs, self.needs_input_grad)]) if needed else (None,) * len(inputs)
        self._saved: tuple | None = ()
        self._fixed: set[int] = set()
        self._dirty: set[int] = set()
        self._materialize = True
        self._for_forward: tuple = ()
        self._pushing = False
        self._unpack = None

    def save_for_forward(self, *tensors: Tensor | None) -> None:
        """Keep tensors for `jvp`, where `saved_tensors` gives them."""
        self._for_forward = tensors

    def save_for_backward(self, *tensors: Tensor | None) -> None:
        """Keep tensors for backward; an in-place change of one before it raises there."""
        kept, found = tensors, hooks.saved_hooks()
        for i, t in enumerate(tensors):
            if t is not None and not hasattr(t, "storage"):         # which sparse ones have, too
                raise GradientTypeError(f"save_for_backward: needs tensors, got {type(t).__name__} at {i}; others are attributes of ctx")
        if found is not None:
            pack, self._unpack = found
            with GradMode(False):
                kept = tuple(t if t is None else pack(t) for t in tensors)
        self._saved = tuple([(value, t.storage.version if value is t and t is not None else None) for value, t in zip(kept, tensors)])

    @property
    def saved_tensors(self) -> tuple[Tensor, ...]:
        """What `save_for_backward` kept; inside `jvp`, what `save_for_forward` did."""
        if self._pushing:
            return self._for_forward
        if self._saved is None:
            raise AutogradError(f"backward: the graph of {self.cls.__name__} has already been freed by an earlier backward; pass "
                                f"retain_graph=True to the first one")
        for t, version in self._saved:
            if version is not None and t.storage.version != version:
                raise AutogradError(f"{self.cls.__name__}: a saved tensor of shape {t.shape} was changed in place before backward")
        return tuple([t if t is None or self._unpack is None else self._unpack(t) for t, _ in self._saved])

    def mark_non_differentiable(self, *tensors: Tensor) -> None:
        """Outputs that get no gradient. backward is still given one for each, of zeros."""
        for t in tensors:
            if not isinstance(t, core.TensorBase):
                raise GradientTypeError(f"mark_non_differentiable: needs tensors, got {type(t).__name__}")
        self._fixed = {id(t) for t in tensors}

    def mark_dirty(self, *tensors: Tensor) -> None:
        """Inputs that forward has changed in place, and gives back."""
        self._dirty = {id(t) for t in tensors}

    def set_materialize_grads(self, value: bool) -> None:
        """Whether backward is given zeros for outputs that got no gradient (as it is unless this is False), or None."""
        self._materialize = bool(value)

    def gradients(self, grads):
        """Called by the engine: one gradient per input."""
        grads = grads if isinstance(grads, tuple) else (grads,)
        if self._materialize and any(g is None for g in grads):
            some = next(g for g in grads if g is not None)
            grads = tuple(some.new_zeros(like[0], dtype=like[1], device=like[2]) if g is None and like else g
                          for g, like in zip(grads, self._outputs))
        result = (self.cls.backward if self.cls.vjp is Function.vjp else self.cls.vjp)(self, *grads)
        result = result if isinstance(result, tuple) else (result,)
        if len(result) > self.n_inputs and all(g is None for g in result[self.n_inputs:]):
            result = result[:self.n_inputs]         # None for optional arguments that forward was not given
        if len(result) != self.n_inputs:
            raise AutogradError(f"{self.cls.__name__}: backward gave {len(result)} gradients for {self.n_inputs} inputs of forward; "
                                f"return None for those without one")
        for i, (g, like) in enumerate(zip(result, self._likes)):
            if g is not None and like is False:
                raise AutogradError(f"{self.cls.__name__}: backward gave a gradient at {i}, where forward was given no tensor; return None "
                                    f"there")
        return tuple([g if g is None or like is None or isinstance(g, core.TensorBase) and (g.shape, g.dtype, g.device) == like
                      else as_gradient(f"{self.cls.__name__}: gradient {i} of backward", g, *like)
                      for i, (g, like) in enumerate(zip(result, self._likes))])

    def release(self) -> bool:
        """Drop what was saved. False: backward may be called again, as long as it does not ask for that."""
        self._saved = None
        return False

    def pushed(self, along: list, args: tuple, outputs: Any, duals: Any) -> None:
        """Called where an argument has a tangent: give those of the outputs, by `jvp`."""
        if self.cls.jvp is Function.jvp:
            raise AutogradError(f"{self.cls.__name__}: an input has a tangent; define a static jvp(ctx, *tangents)")
        if self._materialize:
            along = [duals.zeros(x) if t is None and isinstance(x, core.TensorBase) and x.dtype.is_floating_point else t
                     for t, x in zip(along, args)]
        self._pushing = True
        try:
            with duals.computing():
                found = self.cls.jvp(self, *along)
        finally:
            self._pushing = False
        several = outputs if isinstance(outputs, tuple) else (outputs,)
        found = found if isinstance(found, tuple) else (found,)
        if len(found) != len(several):
            raise AutogradError(f"{self.cls.__name__}: jvp gave {len(found)} tangents for {len(several)} outputs of forward")
        for out, tangent in zip(several, found):
            if tangent is None or not isinstance(out, core.TensorBase) or id(out) in self._fixed:
                continue
            if tangent.shape != out.shape:
                raise AutogradError(f"{self.cls.__name__}: jvp gave a tangent of shape {tangent.shape} for an output of shape {out.shape}")
            duals.put(out, tangent)


_forward: Any = None                        # set by volta.forward_ad while tensors may have tangents


def set_forward(duals: Any) -> None:
    """Give this module what knows tangents, or None."""
    global _forward
    _forward = duals


_batches: Callable | None = None            # set by volta.batching while a vmap runs: what calls functions with samples


def set_batches(apply: Callable | None) -> None:
    """Give this module what calls functions with samples, or None."""
    global _batches
    _batches = apply


def _bound(cls: type, args: tuple, kwargs: dict) -> tuple[tuple, dict]:
    """The arguments of forward in their order, as far as they can be given so, and the others by name. For setup_context with defaults."""
    code, leading = getattr(cls.forward, "__code__", None), () if cls.setup_context else (None,)
    if not kwargs and (leading or code is not None and code.co_argcount == len(args) and not code.co_kwonlyargcount):
        return args, kwargs
    try:
        bound = inspect.signature(cls.forward).bind(*leading, *args, **kwargs)
    except TypeError as error:
        raise TypeError(f"{cls.__name__}.apply: {error}") from None
    if not leading:
        bound.apply_defaults()
    return bound.args[len(leading):], bound.kwargs


class _Forward(Protocol[P, R]):
    """For type checkers: `apply` takes what `forward` takes after its context, and gives what that gives."""

    @staticmethod
    def forward(ctx: Any, *args: P.args, **kwargs: P.kwargs) -> R: ...


class Function:
    """A custom operation: subclass it with static `forward(ctx, *args)` and `backward(ctx, *grads)`, call `apply`. Or with static
    `forward(*args)` and `setup_context(ctx, inputs, output)`, which keeps what backward needs."""

    setup_context: Any = None
    generate_vmap_rule = False              # True says what holds without it, too: where there is no static vmap, the methods take samples

    @staticmethod
    def forward(ctx: Any, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError("Function: define a static forward(ctx, *args)")

    @staticmethod
    def backward(ctx: Any, *grads: Any, **kwargs: Any) -> Any:
        raise NotImplementedError("Function: define a static backward(ctx, *grads)")

    vjp = backward                          # its other name

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> Any:
        raise NotImplementedError("Function: define a static jvp(ctx, *tangents)")

    @staticmethod
    def vmap(info: Any, in_dims: tuple, *args: Any) -> tuple:
        """Called by `volta.vmap` in place of the other methods, with whole batches whose samples lie along `in_dims` (None: the same for
        all); gives (output, out_dims). `info` has batch_size and randomness."""
        raise NotImplementedError("Function: define a static vmap(info, in_dims, *args)")

    @classmethod
    def apply(cls: type[_Forward[P, R]], *args: P.args, **kwargs: P.kwargs) -> R:
        """Run forward unrecorded and attach backward to its outputs."""
        args, kwargs = _bound(cls, args, kwargs)
        if _batches is not None and not kwargs and (found := _batches(cls, args)) is not NotImplemented:
            return found
        ctx = FunctionCtx(cls, args)
        along = None if _forward is None else _forward.tangents(args)
        if along is None:
            outputs = _unrecorded(cls, ctx, args, kwargs)
        else:
            with _forward.computing():
                outputs = _unrecorded(cls, ctx, args, kwargs)
            outputs = _apart(outputs, args, ctx._dirty)
            ctx.pushed(along, args, outputs, _forward)
        if not (graph.is_grad_enabled() and any(ctx.needs_input_grad)):
            return outputs
        for _, version in ctx._saved or ():
            if version is not None and version >= core.INFERRED:
                hooks.refuse_inferred()
        several = outputs if isinstance(outputs, tuple) else (outputs,)
        given = {id(a) for a in args}
        if several[0] is outputs and id(outputs) not in given and not ctx._dirty and not ctx._fixed:
            graph.custom_node(ctx, args, several)
            return outputs
        dirty = [isinstance(o, core.TensorBase) and id(o) in ctx._dirty and id(o) in given for o in several]
        if not ctx._dirty <= {id(o) for o in several}:
            raise AutogradError(f"{cls.__name__}: forward must give back everything that it marks dirty")
        for o, changed in zip(several, dirty):
            if changed:
                inplace.check_inplace(cls.__name__, o)
        results = [core.alias(o) if id(o) in given and isinstance(o, core.TensorBase) else o for o in several]
        ctx._outputs = _likes(several)
        graph.custom_node(ctx, args, tuple(None if id(o) in ctx._fixed else r for o, r in zip(several, results)))
        results = [inplace.take_history(o, r) if changed else r for o, r, changed in zip(several, results, dirty)]
        return tuple(results) if isinstance(outputs, tuple) else results[0]


def _unrecorded(cls, ctx, args, kwargs):
    """What forward gives."""
    with GradMode(False):
        if not cls.setup_context:
            return cls.forward(ctx, *args, **kwargs)
        outputs = cls.forward(*args, **kwargs)
        cls.setup_context(ctx, args, outputs)
        return outputs


def _apart(outputs, args, dirty):
    """The outputs, with memory of their own to have tangents where one is an input that was not changed."""
    given = [a.storage for a in args if isinstance(a, core.TensorBase) and id(a) not in dirty]
    found = tuple([core.apart(o, o.storage.version) if isinstance(o, core.TensorBase) and any(o.storage is s for s in given) else o
                   for o in (outputs if isinstance(outputs, tuple) else (outputs,))])
    return found if isinstance(outputs, tuple) else found[0]
