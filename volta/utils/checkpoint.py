"""Checkpoints: parts of a model whose intermediate values are computed again in backward, instead of being kept."""
from __future__ import annotations

import warnings
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

from volta._kernels.core import TensorBase
from volta.amp.mode import resumed
from volta.autograd import enable_grad, graph, is_grad_enabled, no_grad
from volta.errors import ArgumentError, AutogradError
from volta.random import default_generator, get_rng_state, set_rng_state
from volta.saved import Keeping

if TYPE_CHECKING:
    from volta.tensor import Tensor

__all__ = ["CheckpointError", "check_backward_validity", "checkpoint", "checkpoint_sequential", "detach_variable", "get_device_states",
           "noop_context_fn",
           "set_checkpoint_debug_enabled", "set_checkpoint_early_stop", "set_device_states"]

_early_stop: bool | None = None             # for all checkpoints, by `set_checkpoint_early_stop`


class CheckpointError(AutogradError):
    """A function that does not do the same when it is called again."""


def detach_variable(inputs: tuple) -> tuple:
    """The tensors among `inputs` without their history, as leaves that want a gradient where they do.

    Raises: ArgumentError for what is no tuple.
    """
    if not isinstance(inputs, tuple):
        raise ArgumentError(f"detach_variable: takes a tuple, got {type(inputs).__name__}")
    return tuple([x.detach().requires_grad_(x.requires_grad) if isinstance(x, TensorBase) else x for x in inputs])


def check_backward_validity(inputs: Iterable[Any]) -> None:
    """Warn where no tensor among `inputs` wants a gradient."""
    if not any(x.requires_grad for x in inputs if isinstance(x, TensorBase)):
        warnings.warn("checkpoint: none of the inputs requires a gradient, so there will be none", stacklevel=2)


class _Enough(Exception):
    """All that backward needs has been computed again."""


class _Run:
    """One checkpointed call, and what it saved: numbers in the order of saving, values only when backward asks for them."""

    def __init__(self, function: Callable, args: tuple, kwargs: dict, preserve_rng_state: bool, early_stop: bool,
                 again: AbstractContextManager[Any], checked: bool) -> None:
        self.again, self.checked = again, checked           # the context of the second call, and whether it must save alike
        self.call = (function, args, kwargs)
        self.random = default_generator.get_state() if preserve_rng_state else None
        self.early_stop, self.autocast = early_stop, resumed()
        self.holders: list[weakref.ref] = []
        self.values: dict[int, tuple[TensorBase, int]] = {}

    def pack(self, x: TensorBase) -> _Holder:
        holder = _Holder(self, len(self.holders), x.shape, x.dtype)
        self.holders.append(weakref.ref(holder))
        return holder

    def unpack(self, holder: _Holder) -> TensorBase:
        if holder.place not in self.values:
            self._again()
        value, version = self.values.pop(holder.place, (None, 0))
        if value is not None and value.storage.version != version:
            raise CheckpointError(f"checkpoint: a tensor of shape {value.shape} that a derivative needs was changed in place during "
                                  "backward; use an out-of-place op")
        if value is None or self.checked and (value.shape != holder.shape or value.dtype is not holder.dtype):
            given = "nothing" if value is None else f"shape {value.shape}, {value.dtype}"
            raise CheckpointError(f"checkpoint: the function kept a tensor of shape {holder.shape}, {holder.dtype}, and when called again "
                                f"{given}; it must do the same each time")
        return value

    def _again(self, keeping: Keeping | None = None) -> None:
        """Call the function once more, with the random numbers of the first time, and keep what is still wanted. Where that is changed in
        place later, call it again, `keeping` copies."""
        wanted = [i for i, holder in enumerate(self.holders) if holder() is not None]
        count, found = 0, {}

        def keep(x):
            nonlocal count
            if count <= wanted[-1] and self.holders[count]() is not None:
                found[count] = (x, x.storage.version) if keeping is None else keeping.pack(x)
            count += 1
            if self.early_stop and count > wanted[-1]:
                raise _Enough
            return x

        function, args, kwargs = self.call
        now = default_generator.get_state()
        if self.random is not None:
            default_generator.set_state(self.random)
        try:
            with enable_grad(), self.autocast, self.again, graph.saved_tensors_hooks(keep, lambda x: x):
                function(*args, **kwargs)
        except _Enough:
            pass
        finally:
            if self.random is not None:
                default_generator.set_state(now)
        if keeping is not None:
            found = {i: (kept.value, kept.value.storage.version) for i, kept in found.items()}
        elif any(x.storage.version != version for x, version in found.values()):
            with Keeping() as keeping:
                return self._again(keeping)
        self.values.update(found)


class _Holder:
    """Stands for one saved tensor of a run."""

    __slots__ = ("run", "place", "shape", "dtype", "__weakref__")

    def __init__(self, run: _Run, place: int, shape: tuple, dtype: Any) -> None:
        self.run, self.place, self.shape, self.dtype = run, place, shape, dtype


def get_device_states(*args: Any) -> tuple[list[int], list[Tensor]]:
    """The GPUs of these tensors, and the states of their random generators."""
    found = [x.device.index for x in args if isinstance(x, TensorBase) and x.device.is_gpu]
    return found, [get_rng_state() for _ in found]


def set_device_states(devices: list[int], states: list[Tensor], *, device_type: str | None = None) -> None:
    """Go on drawing from these states."""
    for state in states:
        set_rng_state(state)


def noop_context_fn() -> tuple[AbstractContextManager[None], AbstractContextManager[None]]:
    """Contexts of the first and of the second call of a checkpoint that do nothing."""
    return nullcontext(), nullcontext()


@contextmanager
def set_checkpoint_early_stop(enable: bool) -> Iterator[None]:
    """Whether checkpoints made inside the block end their second call as soon as backward has what it needs, whatever they ask for."""
    global _early_stop
    before, _early_stop = _early_stop, enable
    try:
        yield
    finally:
        _early_stop = before


def set_checkpoint_debug_enabled(enabled: bool | None) -> None:
    """Refuses True: there are no traces of the two calls to compare; the error of a checkpoint says which tensor differs.

    Raises: ArgumentError.
    """
    if enabled:
        raise ArgumentError("set_checkpoint_debug_enabled: checkpoints keep no traces; the error in backward says which tensor differs")


def checkpoint(function: Callable, *args: Any, use_reentrant: bool | None = None,
               context_fn: Callable[[], tuple[AbstractContextManager[Any], AbstractContextManager[Any]]] = noop_context_fn,
               determinism_check: str = "default", debug: bool = False, early_stop: bool = True, preserve_rng_state: bool = True,
               **kwargs: Any) -> Any:
    """`function(*args, **kwargs)`, whose intermediate values are not kept for backward but computed again there, with the same random
    numbers unless `preserve_rng_state` is False. Gradients of any order, for arguments and for parameters that the function uses.

    `context_fn` gives the contexts of the first and of the second call. With use_reentrant=True, PyTorch's older way, nothing gets
    gradients where no argument wants them, and kwargs and `context_fn` are refused.

    Raises: CheckpointError in backward where the second call keeps other shapes or dtypes than the first, unless `determinism_check` is
    "none"; ArgumentError for debug=True.
    """
    if use_reentrant is None:
        warnings.warn("checkpoint: give use_reentrant; False is recommended and meant here, in PyTorch True", stacklevel=2)
    if debug:
        set_checkpoint_debug_enabled(True)
    if determinism_check not in ("default", "none"):
        raise ArgumentError(f"checkpoint: determinism_check must be 'default' or 'none', got {determinism_check!r}")
    if use_reentrant:
        if context_fn is not noop_context_fn:
            raise ArgumentError("checkpoint: use_reentrant=True takes no context_fn; pass use_reentrant=False")
        if kwargs:
            raise ArgumentError(f"checkpoint: use_reentrant=True passes no options on, got {', '.join(kwargs)}; pass use_reentrant=False")
        if not any(isinstance(x, TensorBase) and x.requires_grad for x in args):
            if is_grad_enabled():
                warnings.warn("checkpoint: with use_reentrant=True nothing gets a gradient where no argument requires one; pass "
                              "use_reentrant=False", stacklevel=2)
            with no_grad():
                return function(*args)
    first, again = context_fn()
    early_stop = early_stop if _early_stop is None else _early_stop
    run = _Run(function, args, kwargs, preserve_rng_state, early_stop, again, determinism_check == "default")
    with first, graph.saved_tensors_hooks(run.pack, lambda holder: holder.run.unpack(holder)):
        return function(*args, **kwargs)


def checkpoint_sequential(functions: Sequence[Callable], segments: int, input: Any, use_reentrant: bool | None = None,
                          **options: Any) -> Any:
    """The functions (or layers of a Sequential) one after the other, in `segments` checkpoints; the last one is kept as usual.

    Raises: ArgumentError unless `segments` is from 1 to the number of functions.
    """
    functions = list(functions)
    if not 1 <= segments <= len(functions):
        raise ArgumentError(f"checkpoint_sequential: segments must be 1 to {len(functions)}, the number of functions, got {segments}")

    def part(start, stop):
        def run(x):
            for function in functions[start:stop]:
                x = function(x)
            return x
        return run

    size = len(functions) // segments
    for start in range(0, size * (segments - 1), size):
        input = checkpoint(part(start, start + size), input, use_reentrant=use_reentrant, **options)
    return part(size * (segments - 1), len(functions))(input)
