"""Derivatives carried along with values, after torch.autograd.forward_ad: `make_dual` gives a tensor a tangent, operations give their
results the tangents of these, `unpack_dual` shows them.

A tangent belongs to memory: `storage.tangent` has that of every element, so that views, what is saved for backward and changes in place
need no rules of their own. While a level is open, an observer of the kernels works out what each one does to tangents, from the derivative
that its record has for backward: that is linear in the gradient, and its own derivative for this is the forward one.
"""
from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from volta import autograd, custom
from volta._kernels import core
from volta._kernels.core import graph
from volta._kernels.core.call import Observer, run_kernel, set_adapting
from volta.batching_rules import levels_of, lifted, lowered
from volta.errors import ArgumentError, AutogradError, DTypeError, ShapeError
from volta.ops.arrange import as_strided
from volta.ops.copy import flip
from volta.ops.creation import zeros, zeros_like
from volta.ops.records.index import scale_gradient
from volta.ops.records.view import clone_op, contiguous_op, expand_op, reshape_op, uncounted_op

if TYPE_CHECKING:
    from volta.tensor import Tensor

__all__ = ["UnpackedDualTensor", "dual_level", "enter_dual_level", "exit_dual_level", "make_dual", "unpack_dual"]


class UnpackedDualTensor(NamedTuple):
    """A value and its tangent, None where it has none."""
    primal: Tensor
    tangent: Tensor | None


# ---------------------------------------------------------------- tangents of memory
class _Tangent:
    """The tangents of all elements of a storage, in the order in which they lie there; None once their level is closed."""

    def __init__(self, flat: Tensor) -> None:
        self.flat: Tensor | None = flat

    def of(self, x: Tensor) -> Tensor | None:
        """That of a tensor that shows the storage, as a view; None where it shows other types of numbers."""
        if self.flat is None or not x.dtype.is_floating_point or self.flat._size * x.dtype.itemsize != x.storage.nbytes:
            return None
        if _is_whole(x):
            return reshape_op(self.flat, shape=x._shape)
        return _shown(self.flat, x)


def _shown(flat, x):
    """The part of `flat` that `x` shows of its own memory."""
    back = [(n - 1) * s if s < 0 and n else 0 for n, s in zip(x._shape, x.stride())]
    found = as_strided(flat, x.shape, [abs(s) for s in x.stride()], x.storage_offset() + sum(back))
    return flip(found, [d for d, s in enumerate(x.stride()) if s < 0]) if any(back) else found


def _is_whole(x):
    return x._contiguous and x.storage_offset() == 0 and x._size * x.dtype.itemsize == x.storage.nbytes


def _tangent(x: Any) -> Tensor | None:
    """The tangent of a tensor, None without."""
    return None if not isinstance(x, core.TensorBase) or x.storage.tangent is None else x.storage.tangent.of(x)


class _Here(threading.local):
    busy = False                            # while tangents themselves are computed, which have none

    def __init__(self) -> None:
        self.pending: dict[int, Tensor | None] = {}     # by the id of the tensor that a kernel is about to write into


_here = _Here()


class _Level(Observer):
    """What is open between `enter_dual_level` and `exit_dual_level`."""

    def __init__(self) -> None:
        self.known: weakref.WeakSet[_Tangent] = weakref.WeakSet()

    def put(self, x: Tensor, tangent: Tensor, shared: tuple = ()) -> None:
        """Give `x` a tangent: into that of its memory, or as the first one of it, copied where it is one of `shared`."""
        if x.storage.tangent is not None and x.storage.tangent.flat is not None:
            x.storage.tangent.of(x).copy_(tangent)
            return
        if tangent._shape != x._shape:
            tangent = expand_op(tangent, shape=x._shape)
        if _is_whole(x):
            flat = tangent if tangent._contiguous else contiguous_op(tangent)
            flat = clone_op(flat) if any(core.same_memory(flat, other) for other in shared) else flat
            flat = reshape_op(flat, shape=(x._size,))
        else:
            flat = zeros(x.storage.nbytes // x.dtype.itemsize, dtype=tangent.dtype, device=x.device)
            _shown(flat, x).copy_(tangent)
        x.storage.tangent = _Tangent(flat)
        self.known.add(x.storage.tangent)

    def close(self) -> None:
        """No tensor has a tangent any more."""
        for tangent in list(self.known):
            tangent.flat = None

    def before(self, op, device, inputs, params, out):
        if out is None or _here.busy:
            return
        with _computing():
            if any(_tangent(x) is not None for x in (out, *inputs)) and out.dtype.is_floating_point:
                found = _derivatives(op, inputs, params)
                _here.pending[id(out)] = zeros_like(out) if found is None else found[0]

    def after(self, op, device, inputs, params, out, result):
        if _here.busy:
            return
        with _computing():
            if out is not None:
                found = _here.pending.pop(id(out), None)
                if found is not None:
                    self.put(out, found)
            elif op.writes:
                _WRITTEN.get(op.name, _refuse)(self, op, inputs, params)
            elif any(isinstance(x, core.TensorBase) and x.storage.tangent is not None for x in inputs):
                self._give(op, inputs, params, result)

    def _give(self, op, inputs, params, result):
        several = result if isinstance(result, tuple) else (result,)
        held = [x.storage for x in inputs if isinstance(x, core.TensorBase)]
        if op is scale_gradient or op is uncounted_op:          # of whose memory its own derivative is
            core.assign(result, core.apart(result, result.storage.version))
        elif any(isinstance(y, core.TensorBase) and y.storage is s for y in several for s in held):
            return                                              # a view
        if not any(isinstance(y, core.TensorBase) and y.dtype.is_floating_point for y in several):
            return
        found = _derivatives(op, inputs, params)
        if found is None:
            return
        shared = tuple(x.storage.tangent.flat for x in inputs if _tangent(x) is not None)
        for y, tangent in zip(several, found):
            if tangent is not None and isinstance(y, core.TensorBase) and y.dtype.is_floating_point:
                self.put(y, tangent, shared)


@contextmanager
def _computing() -> Iterator[None]:
    """Nothing inside is given tangents, nor converted."""
    outer, _here.busy, adapting = _here.busy, True, set_adapting(False)
    try:
        yield
    finally:
        _here.busy = outer
        set_adapting(adapting)


# ---------------------------------------------------------------- what a kernel does to tangents
# Records that are linear in each of these inputs alone: the tangent of that, put in its place.
_LINEAR = {"clone": (0,), "cast": (0,), "contiguous": (0,), "transfer": (0,), "neg": (0,), "sum": (0,), "mean": (0,),
           "mul": (0, 1), "matmul": (0, 1), "dot": (0, 1), "index_select": (0,), "gather": (0,), "triangle": (0,), "cumsum": (0,)}

_CONSTANT = frozenset({"frexp_exponent"})       # whole numbers, held in a floating point dtype


def _derivatives(op, inputs, params) -> list | None:
    """The tangents of what a record gives, from those of its inputs, None where it has no floating point input with one."""
    along = {i: _tangent(x) for i, x in enumerate(inputs)}
    along = {i: t for i, t in along.items() if t is not None}
    if not along:
        return None
    params = params or {}
    keep = graph.is_grad_enabled() and any(x.requires_grad for x in (*inputs, *along.values()) if isinstance(x, core.TensorBase))
    with autograd.set_grad_enabled(keep):
        if set(along) <= set(_LINEAR.get(op.name, ())):
            terms = [graph.call(op, (*inputs[:i], t, *inputs[i + 1:]), params) for i, t in along.items()]
            found = [_sum(terms)]
        elif op.name in _CONSTANT:
            return None
        elif op.vjp is None and op.reference is None:
            raise AutogradError(f"{op.name}: it has no derivative, and an input has a tangent; detach() the input where that is meant")
        elif op.promotion:
            found = [_elementwise(op, inputs, params, along, keep)]
        else:
            found = _by_backward(op, inputs, params, along, keep)
    return found if keep else [t if t is None else core.alias(t) for t in found]


def _sum(terms):
    total = terms[0]
    for term in terms[1:]:
        total = total + term
    return total


def _own(x, keep):
    """`x` as an input that derivatives can be taken for, and through it where that is wanted."""
    if keep and x.requires_grad:
        return x.view_as(x)
    own = core.alias(x)
    own._requires_grad = True
    return own


def _elementwise(op, inputs, params, along, keep):
    """The Jacobian for each operand is diagonal: backward along it is forward along it."""
    shape = _common_shape(inputs)
    with autograd.enable_grad():
        own = {i: expand_op(_own(inputs[i], keep), shape=shape) for i in along}
        out = graph.call(op, tuple([own.get(i, x) for i, x in enumerate(inputs)]), params)
    if not out.requires_grad:
        return zeros_like(out)
    terms = [autograd.grad(out, own[i], expand_op(t, shape=shape), retain_graph=True, create_graph=keep, materialize_grads=True)[0]
             for i, t in along.items()]
    return _sum(terms)


def _common_shape(inputs):
    """The shape that the tensors among `inputs` broadcast to."""
    shapes = [x._shape for x in inputs if isinstance(x, core.TensorBase)]
    rank = max(map(len, shapes))
    padded = [(1,) * (rank - len(shape)) + shape for shape in shapes]
    return tuple([next((n for n in sizes if n != 1), 1) for sizes in zip(*padded)])


def _by_backward(op, inputs, params, along, keep):
    """The gradient for the inputs is linear in that of the outputs; its derivative for that is the forward one."""
    own = {i: _own(inputs[i], keep) for i in along}
    with autograd.enable_grad():
        result = graph.call(op, tuple([own.get(i, x) for i, x in enumerate(inputs)]), params)
        several = result if isinstance(result, tuple) else (result,)
        places = [k for k, y in enumerate(several) if isinstance(y, core.TensorBase) and y.requires_grad]
        seeds = [zeros_like(several[k]).requires_grad_() for k in places]
        pulled = autograd.grad([several[k] for k in places], list(own.values()), seeds, create_graph=True,
                               materialize_grads=True) if places else ()
    pairs = [(p, t) for p, t in zip(pulled, along.values()) if p.requires_grad]
    found: list = [zeros_like(y) if isinstance(y, core.TensorBase) and y.dtype.is_floating_point else None for y in several]
    if pairs:
        forward = autograd.grad([p for p, _ in pairs], seeds, [t.to(p.dtype) for p, t in pairs], create_graph=keep, materialize_grads=True)
        for k, tangent in zip(places, forward):
            found[k] = tangent
    return found


# ---------------------------------------------------------------- kernels that write into an input
def _copied(level, op, inputs, params):
    target, source = inputs
    tangent = _tangent(source)
    if target.dtype.is_floating_point and (tangent is not None or _tangent(target) is not None):
        level.put(target, zeros_like(target) if tangent is None else tangent.to(target.dtype), (() if tangent is None else (tangent,)))


def _filled(level, op, inputs, params):
    if _tangent(inputs[0]) is not None:
        level.put(inputs[0], zeros_like(inputs[0]))


def _put_at(level, op, inputs, params):
    """Of kernels that are linear in what they write into and what they write: the same with tangents."""
    target = inputs[0]
    tangents = [_tangent(x) for x in inputs]
    if not target.dtype.is_floating_point or all(t is None for t in tangents):
        return
    if tangents[0] is None:
        level.put(target, zeros_like(target))
        tangents[0] = _tangent(target)
    run_kernel(op, target.device, tuple([t if t is not None else zeros_like(x) if x.dtype.is_floating_point else x
                                         for x, t in zip(inputs, tangents)]), params)


def _left(level, op, inputs, params):
    """Running statistics have no tangents, as in PyTorch."""


def _refuse(level, op, inputs, params):
    tensors = [t for x in inputs for t in (x if isinstance(x, (list, tuple)) else (x,))]
    if any(_tangent(t) is not None for t in tensors):
        raise AutogradError(f"{op.name}: it changes tensors in a way that tangents cannot follow; call it outside dual_level()")


_WRITTEN: dict[str, Callable] = {"copy_into": _copied, "fill_into": _filled, "draw_into": _filled, "index_add_into": _put_at,
                                 "scatter_add_into": _put_at,
                                 "index_put": _put_at, "batch_norm_update": _left}


# ---------------------------------------------------------------- custom functions
class _Functions:
    """What `Function.apply` asks while a level is open."""

    def __init__(self, level: _Level) -> None:
        self.level, self.computing = level, _computing

    def tangents(self, args: tuple) -> list | None:
        """Those of the arguments; None where none has one."""
        if _here.busy:
            return None
        with _computing():
            found = [_tangent(x) for x in args]
        return found if any(t is not None for t in found) else None

    def zeros(self, x: Tensor) -> Tensor:
        """The tangent of what has none."""
        with _computing():
            return zeros_like(x)

    def put(self, x: Tensor, tangent: Tensor) -> None:
        """Give `x` its tangent."""
        with _computing():
            self.level.put(x, tangent, (tangent,))


# ---------------------------------------------------------------- levels
_level: _Level | None = None


def __getattr__(name: str) -> int:
    if name == "_current_level":        # PyTorch's name for the number of the open level
        return -1 if _level is None else 0
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name)


def enter_dual_level() -> int:
    """Begin a level, in which tensors may have tangents; gives its number, 0. Prefer `dual_level`.

    Raises: AutogradError where one is open: they cannot be nested.
    """
    global _level
    if _level is not None:
        raise AutogradError("enter_dual_level: a level is open, and levels cannot be nested")
    _level = _Level()
    _level.__enter__()
    custom.set_forward(_Functions(_level))
    return 0


def exit_dual_level(*, level: int | None = None) -> None:
    """End the level: no tensor has a tangent any more. Raises: AutogradError where none, or another one, is open."""
    global _level
    if _level is None or level not in (None, 0):
        raise AutogradError(f"exit_dual_level: level {level} is not open" if _level is not None else "exit_dual_level: no level is open")
    custom.set_forward(None)
    _level.__exit__(None, None, None)
    _level.close()
    _level = None


class dual_level:
    """A level for a `with` block, or for each call of a function: inside, tensors may have tangents.

    >>> with volta.autograd.forward_ad.dual_level():
    ...     x = volta.autograd.forward_ad.make_dual(volta.tensor(3.0), volta.tensor(1.0))
    ...     volta.autograd.forward_ad.unpack_dual(x * x).tangent
    tensor(6.)
    """

    def __enter__(self) -> int:
        return enter_dual_level()

    def __exit__(self, *exc: object) -> None:
        exit_dual_level()

    def __call__(self, function: Callable) -> Callable:
        def wrapped(*args, **kwargs):
            with dual_level():
                return function(*args, **kwargs)
        return wrapped


def _open(name: str, level: int | None) -> _Level | None:
    if level not in (None, 0) or level == 0 and _level is None:
        raise AutogradError(f"{name}: level {level} is not open")
    return _level


def _without(x: Tensor) -> Tensor:
    """A view of `x` without a tangent, which knows the graph of `x`."""
    shown = core.apart(x, x.storage.version)
    if x.requires_grad:
        with _computing():
            link = x.view_as(x)
        shown._node, shown._index, shown._requires_grad = link._node, link._index, link._requires_grad
        shown._node_version = shown.storage.version
    return shown


def make_dual(tensor: Tensor, tangent: Tensor, *, level: int | None = None) -> Tensor:
    """A view of `tensor` that has this tangent until the level ends.

    Raises: AutogradError where no level is open or `tensor` has a tangent; DTypeError for what is no floating point tensor; ShapeError
    for a tangent of another shape.
    """
    opened = _open("make_dual", level)
    if opened is None:
        raise AutogradError("make_dual: no level is open; call it inside dual_level()")
    for what, x in (("tensor", tensor), ("tangent", tangent)):
        if not isinstance(x, core.TensorBase) or not x.dtype.is_floating_point:
            raise DTypeError(f"make_dual: {what} must be a floating point tensor, got "
                             f"{x.dtype if isinstance(x, core.TensorBase) else type(x).__name__}")
    if tensor.shape != tangent.shape:
        raise ShapeError(f"make_dual: the tangent has shape {tangent.shape}, the tensor {tensor.shape}")
    if tensor.device is not tangent.device:
        raise ArgumentError(f"make_dual: the tangent is on {tangent.device}, the tensor on {tensor.device}")
    levels = levels_of(tensor) + [one for one in levels_of(tangent) if one not in levels_of(tensor)]
    whole, along = lowered(tensor, levels), lowered(tangent, levels)
    if _tangent(whole) is not None:
        raise AutogradError("make_dual: the tensor has a tangent already; unpack_dual() gives its value alone")
    if any(s == 0 and n > 1 for n, s in zip(whole._shape, whole.stride())):       # an expanded tensor has fewer elements than tangents
        whole = contiguous_op(whole)
    dual = _without(whole)
    with _computing():
        opened.put(dual, along)
    return lifted(dual, levels)


def unpack_dual(tensor: Tensor, *, level: int | None = None) -> UnpackedDualTensor:
    """(A view of `tensor` without its tangent, the tangent), None where it has none. Raises: DTypeError for what is no tensor."""
    opened = _open("unpack_dual", level)
    if not isinstance(tensor, core.TensorBase):
        raise DTypeError(f"unpack_dual: needs a tensor, got {type(tensor).__name__}")
    if opened is None:
        return UnpackedDualTensor(tensor, None)
    levels = levels_of(tensor)
    whole = lowered(tensor, levels)
    with _computing():
        tangent = _tangent(whole)
    return UnpackedDualTensor(lifted(_without(whole), levels), tangent if tangent is None else lifted(tangent, levels))
