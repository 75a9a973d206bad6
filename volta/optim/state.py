"""What an optimizer of this package holds of a parameter: tensors, and numbers that users see as the tensors that PyTorch has there.

A number becomes a tensor when it is asked for, and stays one from then on, which steps write in place: what asked sees later steps, and
a step takes what was written. Until then no step makes or reads a tensor.
"""
from __future__ import annotations

import copy
from typing import Any

import numpy as np

from volta._kernels import core
from volta.dtypes import float32, float64, get_default_dtype
from volta.ops.creation import full


class Count(int):
    """How many steps a parameter has had."""

    __slots__ = ()


class Kept(float):
    """Another number that goes on from step to step."""

    __slots__ = ()


_NUMBERS = (Count, Kept)
_MISSING = object()


class State(dict):
    """A parameter's state. What the methods of dict itself give is what is held; these give tensors."""

    __slots__ = ()
    held = dict.get                         # a value as it is held

    def _seen(self, name, value):
        if type(value) in _NUMBERS:
            value = as_tensor(value)
            dict.__setitem__(self, name, value)
        return value

    def _all_seen(self):
        for name, value in [*dict.items(self)]:
            self._seen(name, value)
        return self

    def __getitem__(self, name: Any) -> Any:
        return self._seen(name, dict.__getitem__(self, name))

    def get(self, name: Any, default: Any = None) -> Any:
        value = dict.get(self, name, _MISSING)
        return default if value is _MISSING else self._seen(name, value)

    def setdefault(self, name: Any, default: Any = None) -> Any:
        return self._seen(name, dict.setdefault(self, name, default))

    def pop(self, name: Any, *default: Any) -> Any:
        return dict.pop(self._all_seen(), name, *default)

    def popitem(self) -> tuple[Any, Any]:
        return dict.popitem(self._all_seen())

    def values(self):
        return dict.values(self._all_seen())

    def items(self):
        return dict.items(self._all_seen())

    def __iter__(self):                     # by which dict(state) and {**state} know that they have to ask
        return dict.__iter__(self)

    def __eq__(self, other: object) -> bool:
        return dict.__eq__(self._all_seen(), other)

    def __or__(self, other):
        return dict(self) | other

    def __ror__(self, other):
        return other | dict(self)

    def copy(self) -> dict[Any, Any]:
        return dict(self)

    def __repr__(self) -> str:
        return repr(dict(self))

    def __reduce__(self):
        return State, (dict(self),)

    def __copy__(self) -> State:
        return State(self.items())

    def __deepcopy__(self, memo: dict) -> State:
        return State((name, copy.deepcopy(value, memo)) for name, value in dict.items(self))


def as_tensor(value: float) -> core.TensorBase:
    """A number as PyTorch's states have it."""
    return full((), float(value), dtype=number_dtype(), device="cpu")


def number_dtype():
    """The dtype of the numbers of a state in its tensors."""
    return float64 if get_default_dtype() is float64 else float32


def as_stored(value: float) -> float:
    """A number of a state as it comes back from a state dict."""
    return float(value) if number_dtype() is float64 else float(np.float32(value))


def put(state: dict[str, Any], name: str, value: float) -> None:
    """Hold a number, in the tensor that was shown for it where there is one."""
    held = dict.get(state, name)
    if isinstance(held, core.TensorBase):
        held.fill_(float(value))
    else:
        dict.__setitem__(state, name, value)


def count(state: dict[str, Any]) -> int:
    """How many steps a parameter has had."""
    return int(dict.get(state, "step", 0))
