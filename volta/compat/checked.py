"""torch._check and its kin: conditions that packages state, and the errors of those that do not hold."""
from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from volta._kernels import core
from volta.ops.from_data import tensor

Message = Callable[[], Any] | None


def _check_with(error_type: type[Exception], cond: bool, message: Message) -> None:
    """Raises: `error_type` with the message unless the condition, a bool, holds; TypeError for a tensor."""
    if not isinstance(cond, bool):
        raise TypeError(f"_check: cond must be a bool, got {type(cond).__name__}; write _check_tensor_all for tensors")
    if not cond:
        if message is not None and not callable(message):
            raise TypeError(f"_check: message must be a function that gives it, got {message!r}")
        raise error_type("Expected cond to be True, but got False" if message is None else str(message()))


def _of(error_type: type[Exception]) -> Callable[..., None]:
    def check(cond: bool, message: Message = None) -> None:
        _check_with(error_type, cond, message)
    check.__doc__ = f"Raises: {error_type.__name__} with the message unless the condition holds."
    return check


def _check_is_size(i: int, message: Message = None, *, max: int | None = None) -> None:
    """Raises: RuntimeError unless this may be the size of a dimension, of at most `max`."""
    _check_with(RuntimeError, i >= 0 and (max is None or i <= max), message)


def _check_tensor_all_with(error_type: type[Exception], cond: Any, message: Message = None) -> None:
    """Raises: `error_type` unless all elements of a tensor of bools hold, which are read."""
    _check_with(error_type, bool(cond.all()), message)


def _assert_async(input: Any, assert_msg: str | None = None) -> None:
    """Raises: RuntimeError unless the one element is not zero. On a GPU, whose values are not waited for, nothing is looked at."""
    if core.host_sees(input) and not bool(input):
        raise RuntimeError(assert_msg or "Expected Tensor with single nonzero value, but got zero")


def _shape_as_tensor(self: Any) -> Any:
    """The sizes as a tensor."""
    return tensor(list(self.shape))


NAMES = {"_check": _of(RuntimeError), "_check_index": _of(IndexError), "_check_value": _of(ValueError), "_check_type": _of(TypeError),
         "_check_not_implemented": _of(NotImplementedError), "_check_with": _check_with, "_check_is_size": _check_is_size,
         "_check_tensor_all": functools.partial(_check_tensor_all_with, RuntimeError), "_check_tensor_all_with": _check_tensor_all_with,
         "_assert_async": _assert_async, "_shape_as_tensor": _shape_as_tensor}
