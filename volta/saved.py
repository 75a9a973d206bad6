"""The graph as programs see and steer it: nodes, edges, hooks on several gradients, other ways to keep what derivatives need.

Public as `volta.autograd.graph`. Knows no op.
"""
from __future__ import annotations

import itertools
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from volta._kernels import core
from volta._kernels.core import TensorBase, engine, hooks
from volta._kernels.core.call import Observer
from volta._kernels.core.graph import Node
from volta._kernels.core.leaves import Prehook
from volta.errors import ArgumentError, AutogradError
from volta.node_names import STEPS, written

if TYPE_CHECKING:
    from volta.tensor import Tensor

__all__ = ["GradientEdge", "Node", "allow_mutation_on_saved_tensors", "disable_saved_tensors_hooks", "get_gradient_edge",
           "increment_version", "register_multi_grad_hook", "save_on_cpu", "saved_tensors_hooks"]


# ---------------------------------------------------------------- nodes and edges
_numbers = itertools.count()


class RemovableHandle:
    """Takes what stands under its `id` out of a dict of hooks, and out of `extra_dict`, a dict or a list of them."""

    def __init__(self, hooks_dict: dict, *, extra_dict: Any = None) -> None:
        self.id = next(_numbers)
        self._tables = (hooks_dict, *([] if extra_dict is None else [extra_dict] if isinstance(extra_dict, dict) else extra_dict))

    def remove(self) -> None:
        """Take the hook away."""
        for table in self._tables:
            table.pop(self.id, None)

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(self, *exc: object) -> None:
        self.remove()


def hooked(table: dict, hook: object) -> RemovableHandle:
    """Put a hook into a dict; gives what takes it out."""
    handle = RemovableHandle(table)
    table[handle.id] = hook
    return handle


class AccumulateGrad(Node):
    """What stands in the graph for adding to the `.grad` of a leaf. There is one for each leaf."""

    def __init__(self, variable: Tensor) -> None:
        self.variable = variable

    next_functions = ()
    saved_tensors = ()

    def name(self) -> str:
        """As PyTorch calls it."""
        return "torch::autograd::AccumulateGrad"

    def register_prehook(self, fn: Callable[[tuple], Any]) -> RemovableHandle:
        """Call `fn((gradient,))` before the gradient is added, after the hooks of the leaf; what it gives, if not None, replaces that."""
        def hook(g):
            changed = fn((g,))
            return changed[0] if isinstance(changed, tuple) else changed
        handle, functions = self.variable.register_hook(hook), self.variable._hooks
        functions[next(reversed(functions))] = Prehook(next(reversed(functions.values())))
        return handle

    def register_hook(self, fn: Callable[[tuple, tuple], Any]) -> RemovableHandle:
        """Call `fn((), (gradient,))` after the gradient was added."""
        seen: list = [None]                     # the last one, which `grad` asks for without adding it
        before = self.variable.register_hook(lambda g: seen.__setitem__(0, g))
        after = self.variable.register_post_accumulate_grad_hook(lambda leaf: (fn((), (seen.pop(),)), seen.append(None))[1])
        return _Handles([before, after])


_accumulations: weakref.WeakValueDictionary[int, AccumulateGrad] = weakref.WeakValueDictionary()       # by the leaf's identity


def _accumulation(leaf):
    """What stands for adding to the `.grad` of a leaf: the same object while anybody has it."""
    found = _accumulations.get(id(leaf))
    if found is None:
        found = _accumulations.setdefault(id(leaf), AccumulateGrad(leaf))
    return found


hooks.configure_users(_accumulation, hooked, STEPS, written)


class GradientEdge(NamedTuple):
    """A place in the graph: an output of a node. `grad` and `backward` take one in place of a tensor."""
    node: Node
    output_nr: int
    ownership_token: Node | None = None


def get_gradient_edge(tensor: Tensor) -> GradientEdge:
    """Where the gradient of `tensor` arrives; of a leaf, what adds to its `.grad`.

    Raises: AutogradError for a tensor that does not require grad.
    """
    if not tensor.requires_grad:
        raise AutogradError("get_gradient_edge: the tensor does not require grad, so it has no place in a graph")
    return GradientEdge(_accumulation(tensor), 0) if tensor.grad_fn is None else GradientEdge(tensor.grad_fn, tensor._index)


# ---------------------------------------------------------------- hooks on several gradients
class _Handles(RemovableHandle):
    """Removes several hooks."""

    def __init__(self, handles: Sequence[RemovableHandle]) -> None:
        super().__init__({})
        self.handles = tuple(handles)

    def remove(self) -> None:
        for handle in self.handles:
            handle.remove()


class _Gathering:
    """The gradients of several tensors in one backward pass."""

    def __init__(self, walk: int, reached: list[bool]) -> None:
        self.walk, self.left, self.found = walk, sum(reached), [None] * len(reached)


def register_multi_grad_hook(tensors: Sequence[Tensor], fn: Callable[[Any], None], *, mode: str = "all") -> RemovableHandle:
    """Call `fn` in each backward pass that comes to one of `tensors`: with mode "all" once all gradients that it computes are known, with
    the list of them (None for a tensor that it does not come to); with "any" at the first one, with that. The handle removes the hook.

    Raises: ArgumentError for another mode; AutogradError for a tensor that does not require grad.
    """
    if mode not in ("all", "any"):
        raise ArgumentError(f"register_multi_grad_hook: mode must be 'all' or 'any', got {mode!r}")
    owners = [edge.node.variable if isinstance(edge.node, AccumulateGrad) else edge.node for edge in map(get_gradient_edge, tensors)]
    lock, running = threading.Lock(), threading.local()

    def arrived(i, gradient):
        walk = engine.current()
        with lock:
            now = getattr(running, "now", None)
            fresh = now is None or now.walk != walk
            if fresh:
                now = running.now = _Gathering(walk, [engine.reaches(owner) for owner in owners])
            now.found[i] = gradient
            now.left -= 1
            last = now.left == 0
            if last and mode == "all":
                running.now = None
        if mode == "any" and fresh:
            fn(gradient)
        elif mode == "all" and last:
            fn(now.found)
        if mode == "any":
            now.found[i] = None                     # nobody asks for it again

    def hook_of(i):
        return lambda gradient: arrived(i, gradient)
    return _Handles([t.register_hook(hook_of(i)) for i, t in enumerate(tensors)])


# ---------------------------------------------------------------- what is kept for derivatives
_disabled = threading.local()


class saved_tensors_hooks:
    """Inside a `with` block, calls keep `pack_hook(tensor)`, called without gradients, in place of each tensor that their derivatives need;
    `unpack_hook` makes it a tensor of the same values again when backward needs it. Of this thread only."""

    def __init__(self, pack_hook: Callable[[Tensor], Any], unpack_hook: Callable[[Any], Tensor]) -> None:
        self.pack_hook, self.unpack_hook = pack_hook, unpack_hook

    def __enter__(self) -> None:
        if getattr(_disabled, "message", None) is not None:
            raise AutogradError(_disabled.message)
        hooks.push_saved_hooks(self.pack_hook, self.unpack_hook)

    def __exit__(self, *exc: object) -> None:
        hooks.pop_saved_hooks()


def _downloaded(x):
    """A leaf stays: it lives on anyway."""
    return (x.device, x.detach().cpu()) if x.device.is_gpu and not (x.is_leaf and x.requires_grad) else x


class save_on_cpu(saved_tensors_hooks):
    """Inside a `with` block, what is kept for backward lies in host memory: downloaded when recorded, uploaded when needed."""

    def __init__(self, pin_memory: bool = False, device_type: str = "cuda") -> None:
        super().__init__(_downloaded, lambda packed: packed if isinstance(packed, TensorBase) else packed[1].to(packed[0]))


@contextmanager
def disable_saved_tensors_hooks(error_message: str) -> Iterator[None]:
    """Inside a `with` block, or a function decorated, `saved_tensors_hooks` raise an AutogradError of this text in this thread."""
    before, _disabled.message = getattr(_disabled, "message", None), error_message
    try:
        yield
    finally:
        _disabled.message = before


class _Kept:
    """A saved tensor, copied before its memory changes."""

    def __init__(self, value: Tensor) -> None:
        self.value: Tensor | None = value


class Keeping(Observer):
    """Copies what is saved before a kernel writes over it."""

    def __init__(self) -> None:
        self.kept: dict[int, weakref.WeakSet[_Kept]] = {}       # by the memory's identity: what lies in it
        self.all: weakref.WeakSet[_Kept] = weakref.WeakSet()

    def pack(self, x: Tensor) -> _Kept:
        """Keep a tensor."""
        kept = _Kept(core.alias(x))
        self.kept.setdefault(_memory(x), weakref.WeakSet()).add(kept)
        self.all.add(kept)
        return kept

    @staticmethod
    def unpack(kept: _Kept) -> Tensor:
        """What was kept, as it was then."""
        if kept.value is None:
            raise AutogradError("backward: the graph was recorded inside allow_mutation_on_saved_tensors, whose block has ended; call "
                                "backward inside it")
        return kept.value

    def before(self, op, device, inputs, params, out):
        written = [] if out is None else [out]
        for i in op.writes:
            written.extend([inputs[i]] if isinstance(inputs[i], TensorBase) else inputs[i] or ())
        for kept in [k for t in written for k in self.kept.pop(_memory(t), ())]:
            kept.value = kept.value.clone()

    def forget(self) -> None:
        """Nothing is kept any more."""
        for kept in list(self.all):
            kept.value = None
        self.kept.clear()


def _memory(t):
    return id(t.storage if t.storage.root is None else t.storage.root)


_keeping = threading.local()


@contextmanager
def allow_mutation_on_saved_tensors() -> Iterator[None]:
    """Inside a `with` block, tensors that derivatives need may be changed in place: they are copied before that, and only then. Backward
    has to be called inside the block as well.

    Raises: AutogradError for such a block inside another one.
    """
    if getattr(_keeping, "inside", False):
        raise AutogradError("allow_mutation_on_saved_tensors: one such block cannot be inside another one")
    _keeping.inside = True
    try:
        with Keeping() as keeping, saved_tensors_hooks(keeping.pack, keeping.unpack):
            try:
                yield
            finally:
                keeping.forget()
    finally:
        _keeping.inside = False


def increment_version(tensor: Tensor | Iterable[Tensor]) -> None:
    """Count a change that was made past Volta, as through `numpy()`: backward then refuses saved values from before it."""
    for t in [tensor] if isinstance(tensor, TensorBase) else tensor:
        t.storage.version += 1
