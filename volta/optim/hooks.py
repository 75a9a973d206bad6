"""Hooks of optimizers: around steps, of one or of all, and around state dicts."""
from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from volta.errors import ArgumentError
from volta.saved import RemovableHandle, hooked

__all__ = ["Hooks", "register_optimizer_step_post_hook", "register_optimizer_step_pre_hook"]

_before: dict[object, Callable] = {}            # of every optimizer
_after: dict[object, Callable] = {}


def register_optimizer_step_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call `hook(optimizer, args, kwargs)` before each step of any optimizer."""
    return hooked(_before, hook)


def register_optimizer_step_post_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call `hook(optimizer, args, kwargs)` after each step of any optimizer."""
    return hooked(_after, hook)


class Hooks:
    """What an optimizer has of them. They belong to this object: copies and pickles of it have none, and neither has one that does not
    call `__init__`, as the wrappers of packages do not."""

    _pre_hooks: dict[object, Callable] = {}
    _post_hooks: dict[object, Callable] = {}
    _state_hooks: dict[str, dict[object, Callable]] = {}
    _stepping = False                           # inside a step whose hooks have been called
    _opt_called: bool | None = None             # whether a step has been made; None before there is a schedule, which asks

    def __init__(self) -> None:
        self._pre_hooks, self._post_hooks = {}, {}
        self._state_hooks = {}                  # by when they are called; made when one is registered

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "step" in vars(cls):
            cls.step = _hooked(cls.step)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_pre_hooks": {}, "_post_hooks": {}, "_state_hooks": {}}

    def register_step_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call `hook(optimizer, args, kwargs)` before each step; `args` begins with the optimizer. It may return other arguments as
        (args, kwargs)."""
        return hooked(self._pre_hooks, hook)

    def register_step_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call `hook(optimizer, args, kwargs)` after each step."""
        return hooked(self._post_hooks, hook)

    def _before_step(self, args: tuple, kwargs: dict) -> tuple[tuple, dict]:
        """Call the hooks of a step; gives its arguments, which they may replace."""
        for hook in (*_before.values(), *self._pre_hooks.values()):
            found = hook(self, args, kwargs)
            if found is not None:
                if not (isinstance(found, tuple) and len(found) == 2):
                    raise ArgumentError(f"{type(self).__name__}: a hook before steps must give None or (args, kwargs), got {found!r}")
                args, kwargs = found
        return args, kwargs

    def _after_step(self, args: tuple, kwargs: dict) -> None:
        for hook in (*self._post_hooks.values(), *_after.values()):
            hook(self, args, kwargs)

    def _registered(self, when: str, hook: Callable, prepend: bool) -> RemovableHandle:
        table = self._state_hooks.setdefault(when, {})
        others = dict(table) if prepend else {}
        if prepend:
            table.clear()
        handle = hooked(table, hook)
        table.update(others)
        return handle

    def register_state_dict_pre_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Call `hook(optimizer)` before `state_dict`, and before the other hooks if `prepend`."""
        return self._registered("before state_dict", hook, prepend)

    def register_state_dict_post_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Call `hook(optimizer, state_dict)` after `state_dict`; what it returns, if not None, takes its place."""
        return self._registered("after state_dict", hook, prepend)

    def register_load_state_dict_pre_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Call `hook(optimizer, state_dict)` before `load_state_dict`; what it returns, if not None, is loaded instead."""
        return self._registered("before load_state_dict", hook, prepend)

    def register_load_state_dict_post_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Call `hook(optimizer)` after `load_state_dict`."""
        return self._registered("after load_state_dict", hook, prepend)

    def _call_state_hooks(self, when: str, *given: Any) -> Any:
        """Call these hooks with the optimizer and, where given, a state dict, which each may replace."""
        for hook in tuple(self._state_hooks.get(when, {}).values()):
            found = hook(self, *given)
            if given and found is not None:
                given = (found,)
        return given[0] if given else None


def _hooked(step: Callable) -> Callable:
    """A class's `step`, which calls the hooks; those of a class below it are the ones called."""
    @functools.wraps(step)
    def wrapped(self, *args, **kwargs):
        if self._opt_called is False:
            self._opt_called = True
        if self._stepping or not (self._pre_hooks or self._post_hooks or _before or _after):
            return step(self, *args, **kwargs)
        self._stepping = True
        try:
            args, kwargs = self._before_step((self, *args), kwargs)
            found = step(*args, **kwargs)
            self._after_step(args, kwargs)
        finally:
            self._stepping = False
        return found
    return wrapped
