"""Hooks of modules: before and after forward, before and after backward. A mixin of `Module`."""
from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any

from volta._kernels import core
from volta.autograd import Function, is_grad_enabled
from volta.errors import ArgumentError, CallError
from volta.saved import RemovableHandle, hooked

_TABLES = ("_forward_hooks", "_forward_hooks_with_kwargs", "_forward_hooks_always_called", "_forward_pre_hooks",
           "_forward_pre_hooks_with_kwargs", "_backward_hooks", "_backward_pre_hooks", "_last_node_hooks")
_everywhere: dict[str, dict[object, Any]] = {}      # the hooks of all modules, by the name of a module's own table; only what is not empty


class _EverywhereHandle(RemovableHandle):
    """Removes a hook of all modules."""

    def remove(self) -> None:
        super().remove()
        for name in [name for name, table in _everywhere.items() if not table]:
            del _everywhere[name]


def _register(name: str, table: str, hook: Any, **marks: bool) -> RemovableHandle:
    if not callable(hook):
        raise CallError(f"{name}: a hook must be a function, got {hook!r}")
    return _enter(_EverywhereHandle, _everywhere.setdefault, table, hook, marks)


def _enter(kind, table_of, table, hook, marks):
    """Put a hook into its table, and into tables beside it how it is to be called; gives what takes it out of all of them."""
    hooks, beside = table_of(table, {}), [table_of(f"{table}_{mark}", {}) for mark, wanted in marks.items() if wanted]
    handle = kind(hooks, extra_dict=beside)
    hooks[handle.id] = hook
    for marked in beside:
        marked[handle.id] = True
    return handle


def register_module_forward_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call `hook(module, args)` before forward of every module, and before its own hooks; what it returns, if not None, replaces `args`."""
    return _register("register_module_forward_pre_hook", "_forward_pre_hooks", hook)


def register_module_forward_hook(hook: Callable[..., Any], *, with_kwargs: bool = False, always_call: bool = False) -> RemovableHandle:
    """Call `hook(module, args, output)` after forward of every module, and before its own hooks, as `Module.register_forward_hook`."""
    return _register("register_module_forward_hook", "_forward_hooks", hook, with_kwargs=with_kwargs, always_called=always_call)


def register_module_full_backward_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call `hook(module, grad_output)` before backward passes through any module, and before its own hooks."""
    return _register("register_module_full_backward_pre_hook", "_backward_pre_hooks", hook)


def register_module_full_backward_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call `hook(module, grad_input, grad_output)` when backward has passed through any module, and before its own hooks."""
    return _register("register_module_full_backward_hook", "_backward_hooks", hook)


_registrations: dict[str, dict[object, Any]] = {"parameter": {}, "buffer": {}, "module": {}}


def _register_registration(kind, hook):
    if not callable(hook):
        raise CallError(f"register_module_{kind}_registration_hook: a hook must be a function, got {hook!r}")
    return hooked(_registrations[kind], hook)


def register_module_parameter_registration_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call `hook(module, name, parameter)` before any module takes a parameter; what it returns, if not None, is taken instead."""
    return _register_registration("parameter", hook)


def register_module_buffer_registration_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call `hook(module, name, buffer)` before any module takes a buffer; what it returns, if not None, is taken instead."""
    return _register_registration("buffer", hook)


def register_module_module_registration_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call `hook(module, name, submodule)` before any module takes another; what it returns, if not None, is taken instead."""
    return _register_registration("module", hook)


def registered(kind: str, module: Any, name: str, value: Any) -> Any:
    """What a module takes under `name`, after the hooks of all modules, which a parameter that is None is not shown to, as in PyTorch."""
    if value is None and kind == "parameter":
        return None
    for hook in tuple(_registrations[kind].values()):
        found = hook(module, name, value)
        value = value if found is None else found
    return value


def _hooks(module: Any, table: str) -> dict[object, Any]:
    """Those of all modules, and then the module's own."""
    return {**_everywhere.get(table, {}), **getattr(module, table)}


class HookMethods:
    """Registration of hooks, and the call of a module, which runs them."""

    def _start_hooks(self) -> None:
        state = self.__dict__
        state["_hooked"] = False                # whether there ever was one: a call looks at this alone
        for table in _TABLES:
            state[table] = {}

    def _call(self, *args, **kwargs):
        if not (self._hooked or _everywhere):
            return self.forward(*args, **kwargs)
        call = _Call(args, kwargs)
        try:
            return self._call_with_hooks(call)
        except Exception:
            self._call_always(call)
            raise

    def _call_with_hooks(self, call):
        named = _hooks(self, "_forward_pre_hooks_with_kwargs")
        for key, hook in _hooks(self, "_forward_pre_hooks").items():
            changed = hook(self, call.args, call.kwargs) if key in named else hook(self, call.args)
            if changed is not None and key in named:
                if not isinstance(changed, tuple) or len(changed) != 2:
                    raise ArgumentError(f"{type(self).__name__}: a forward pre-hook must return None or a tuple of (new_args, new_kwargs), "
                                        f"got {changed}")
                call.args, call.kwargs = changed
            elif changed is not None:
                call.args = changed if isinstance(changed, tuple) else (changed,)
        backward = self._backward_hooks or self._backward_pre_hooks or {"_backward_hooks", "_backward_pre_hooks"} & _everywhere.keys()
        watched = _Backward(self) if is_grad_enabled() and backward else None
        if watched:
            call.args = watched.enter(call.args)
        call.result = self.forward(*call.args, **call.kwargs)
        named = _hooks(self, "_forward_hooks_with_kwargs")
        for key, hook in _hooks(self, "_forward_hooks").items():
            call.run(self, key, hook, named)
        if self._last_node_hooks:
            self._watch_last_node(call.result)
        return watched.leave(call.result) if watched else call.result

    def _call_always(self, call):
        """After an error: the hooks that are always called and were not; their own errors become warnings, as in PyTorch."""
        always, named = _hooks(self, "_forward_hooks_always_called"), _hooks(self, "_forward_hooks_with_kwargs")
        for key, hook in _hooks(self, "_forward_hooks").items():
            if key not in always or key in call.called:
                continue
            try:
                call.run(self, key, hook, named)
            except Exception as error:
                warnings.warn(f"{type(self).__name__}: a forward hook that is always called raised {error!r}, which is silenced beside the "
                              "error before it", stacklevel=4)

    def _watch_last_node(self, result):
        """Hooks of the older kind are hooks of the node that made the first tensor of the result."""
        while not isinstance(result, core.TensorBase):
            result = (next(v for v in result.values() if isinstance(v, core.TensorBase)) if isinstance(result, dict) else result[0])
        if result.grad_fn is not None:
            warnings.warn("register_backward_hook: its hooks see the last operation of a module alone, which is deprecated; write "
                          "register_full_backward_hook", FutureWarning, stacklevel=4)
            for hook in self._last_node_hooks.values():
                result.grad_fn.register_hook(functools.partial(hook, self))

    def _hook(self, name, hook, prepend=False, **marks):
        """Enter a hook in a table; gives its handle."""
        if not callable(hook):
            raise CallError(f"{type(self).__name__}: a hook must be a function, got {hook!r}")
        self.__dict__["_hooked"] = True
        handle = _enter(RemovableHandle, self.__dict__.setdefault, name, hook, marks)
        table = getattr(self, name)
        if prepend:
            first, *rest = reversed(table.items())
            table.clear()
            table.update([first, *reversed(rest)])
        return handle

    def register_forward_hook(self, hook: Callable[..., Any], *, prepend: bool = False, with_kwargs: bool = False,
                              always_call: bool = False) -> RemovableHandle:
        """Call `hook(module, args, output)` after forward, or `hook(module, args, kwargs, output)`; what it returns, if not None,
        replaces the output. With `prepend`, before the hooks that are there; with `always_call`, also where forward or a hook before it
        raised, with what output there was."""
        return self._hook("_forward_hooks", hook, prepend, with_kwargs=with_kwargs, always_called=always_call)

    def register_forward_pre_hook(self, hook: Callable[..., Any], *, prepend: bool = False, with_kwargs: bool = False) -> RemovableHandle:
        """Call `hook(module, args)` before forward, or `hook(module, args, kwargs)`; what it returns, if not None, replaces the
        arguments (with kwargs: a pair). With `prepend`, before the hooks that are there."""
        return self._hook("_forward_pre_hooks", hook, prepend, with_kwargs=with_kwargs)

    def register_full_backward_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Call `hook(module, grad_input, grad_output)`, tuples with None for what has no gradient, when backward has passed through the
        module; what it returns, if not None, replaces grad_input. Gradients of keyword arguments are not seen.

        Raises: ArgumentError beside a hook of `register_backward_hook`.
        """
        self._check_one_kind("register_full_backward_hook", self._last_node_hooks)
        return self._hook("_backward_hooks", hook, prepend)

    def register_backward_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Deprecated, with a FutureWarning when the module is called: as `register_full_backward_hook`, but `grad_input` and `grad_output`
        are those of the last operation in the module (of the first tensor that it gives), which is one node here where PyTorch may have
        several or sees its arguments in another order.

        Raises: ArgumentError beside a hook of `register_full_backward_hook`.
        """
        self._check_one_kind("register_backward_hook", self._backward_hooks)
        return self._hook("_last_node_hooks", hook)

    def _check_one_kind(self, name, others):
        if others:
            raise ArgumentError(f"{name}: {type(self).__name__} has backward hooks of the other kind, full or not; use one kind alone")

    def register_full_backward_pre_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Call `hook(module, grad_output)` before backward passes through the module; what it returns, if not None, replaces it."""
        return self._hook("_backward_pre_hooks", hook, prepend)


class _Call:
    """One call of a module that has hooks: its arguments and result, as hooks left them, and the hooks that were called."""

    def __init__(self, args, kwargs) -> None:
        self.args, self.kwargs, self.result, self.called = args, kwargs, None, set()

    def run(self, module, key, hook, named):
        self.called.add(key)
        changed = hook(module, self.args, self.kwargs, self.result) if key in named else hook(module, self.args, self.result)
        self.result = self.result if changed is None else changed


class _Backward:
    """One call of a module that has backward hooks. Identities on its inputs and outputs see the gradients pass."""

    def __init__(self, module) -> None:
        self.module, self.outputs, self.inputs, self.count = module, None, None, 0

    def enter(self, args):
        self.count = len(args)
        places = [i for i, a in enumerate(args) if isinstance(a, core.TensorBase)]
        if not any(args[i].requires_grad for i in places):
            return args
        self.inputs = _Places(places, len(args))
        seen = _Passed.apply(self.passed_inputs, True, *(args[i] for i in places))
        args = list(args)
        for i, t in zip(places, seen):
            args[i] = t
        return tuple(args)

    def leave(self, result):
        several = result if isinstance(result, (tuple, list)) else (result,)
        places = [i for i, r in enumerate(several) if isinstance(r, core.TensorBase)]
        if not any(several[i].requires_grad for i in places):
            return result
        self.results = _Places(places, len(several))
        seen = _Passed.apply(self.passed_outputs, False, *(several[i] for i in places))
        several = list(several)
        for i, t in zip(places, seen):
            several[i] = t
        if result is not several and isinstance(result, (tuple, list)):
            return type(result)(*several) if hasattr(result, "_fields") else type(result)(several)
        return several[0]

    def passed_outputs(self, grads):
        grads = self.results.among_all(grads)
        for hook in _hooks(self.module, "_backward_pre_hooks").values():
            grads = _replaced("register_full_backward_pre_hook", hook(self.module, grads), grads)
        self.outputs = grads
        if self.inputs is None:
            warnings.warn(f"{type(self.module).__name__}: no input wants a gradient, so its full backward hook runs when those of its "
                          "results are known", stacklevel=2)
            for hook in _hooks(self.module, "_backward_hooks").values():
                given = hook(self.module, (None,) * self.count, grads)
                if given is not None and not (isinstance(given, tuple) and all(g is None for g in given)):
                    raise ArgumentError("register_full_backward_hook: no input of the module wants a gradient, a hook gives None, "
                                        f"got {type(given).__name__}")
        return self.results.of(grads)

    def passed_inputs(self, grads):
        grads = self.inputs.among_all(grads)
        for hook in _hooks(self.module, "_backward_hooks").values():
            grads = _replaced("register_full_backward_hook", hook(self.module, grads, self.outputs), grads)
        return self.inputs.of(grads)


class _Places:
    """Where the tensors are among a module's arguments or results: hooks see None for what is no tensor."""

    def __init__(self, places, count) -> None:
        self.places, self.count = places, count

    def among_all(self, grads):
        found = dict(zip(self.places, grads))
        return tuple(found.get(i) for i in range(self.count))

    def of(self, grads):
        return tuple(grads[i] for i in self.places)


def _replaced(name, changed, grads):
    if changed is None:
        return grads
    changed = changed if isinstance(changed, tuple) else (changed,)
    if len(changed) != len(grads):
        raise ArgumentError(f"{name}: the hook gave {len(changed)} gradients where there are {len(grads)}")
    return changed


class _Passed(Function):
    """Its tensors, unchanged; their gradients pass through a function."""

    @staticmethod
    def forward(ctx, passed, zeros, *tensors):
        ctx.passed = passed
        ctx.set_materialize_grads(zeros)            # as in PyTorch, hooks see zeros for inputs without a gradient and None for outputs
        return tensors

    @staticmethod
    def backward(ctx, *grads):
        return None, None, *ctx.passed(grads)
