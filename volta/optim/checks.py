"""Checks of what users give to optimizers and schedules: each returns the value in plain Python types, or raises ArgumentError
naming the class and the argument."""
from __future__ import annotations

import operator
import sys
from collections.abc import Callable, Iterable
from math import inf, isfinite, ulp
from numbers import Real

from volta._kernels import core
from volta.errors import ArgumentError, CallError


def _real(value: object) -> float | None:
    """A number, or the element of a tensor that has one, as a float; None for anything else."""
    if type(value) is float:            # asking Real costs ten times as much
        return value
    if isinstance(value, Real):
        return float(value)
    if isinstance(value, core.TensorBase) and value._size == 1:
        return float(value)
    return None


def _between(words: str, low: float, high: float, doc: str) -> Callable[[str, str, object], float]:
    """A check for a number of [low, high]; NaN is in none. An int stays one where any number will do."""
    def check(owner: str, name: str, value: object) -> float:
        found = _real(value)
        if found is None or not low <= found <= high:
            error = ArgumentError if found is not None or isinstance(value, core.TensorBase) else CallError      # which is a TypeError
            raise error(f"{owner}: {name} must be {words}, got {value!r}")
        return value if low == -inf and type(value) is int else found
    check.__doc__ = doc
    return check


number = _between("a number", -inf, inf, "Any number but NaN.")
at_least_zero = _between("a finite number >= 0", 0.0, sys.float_info.max, "A finite number >= 0.")
within = _between("in [0, 1]", 0.0, 1.0, "A number from 0 to 1.")
positive = _between("a number above 0", ulp(0.0), inf, "A number above 0.")


def below_one(owner: str, name: str, value: object) -> tuple[float, ...]:
    """A pair of numbers in [0, 1)."""
    pair = [_real(b) for b in value] if isinstance(value, (tuple, list)) else []
    if len(pair) != 2 or not all(b is not None and 0.0 <= b < 1.0 for b in pair):
        error = ArgumentError if pair and None not in pair else CallError
        raise error(f"{owner}: {name} must be two numbers in [0, 1), got {value!r}")
    return tuple(pair)


def several(owner: str, name: str, value: object, count: int, check: Callable) -> list:
    """A tuple or list of `count` values, each of which passes a check."""
    if not isinstance(value, (tuple, list)) or len(value) != count:
        error = ArgumentError if isinstance(value, (tuple, list)) else CallError
        raise error(f"{owner}: {name} must be {count} numbers, got {value!r}")
    return [check(owner, name, v) for v in value]


def at_least(owner: str, name: str, value: object, least: float) -> float:
    """A finite number that is no less than `least`."""
    found = _real(value)
    if found is None or not isfinite(found):
        raise (ArgumentError if found is not None else CallError)(f"{owner}: {name} must be a finite number, got {value!r}")
    if found < least:
        raise ArgumentError(f"{owner}: {name} must be at least {least}, got {value}")
    return value if type(value) is int else found


def metric(owner: str, name: str, value: object) -> float:
    """A number, which may be NaN."""
    found = _real(value)
    if found is None:
        raise CallError(f"{owner}: {name} must be a number, got {value!r}")
    return found


def function(owner: str, name: str, value: object):
    """What can be called."""
    if not callable(value):
        raise CallError(f"{owner}: {name} must be a function, got {value!r}")
    return value


def integer(owner: str, name: str, value: object) -> int:
    """An integer; no bool."""
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise CallError(f"{owner}: {name} must be an integer, got {value!r}")
    return operator.index(value)


def flag(owner: str, name: str, value: object) -> bool:
    """True or False."""
    if type(value) is bool:
        return value
    if not isinstance(value, Real):
        raise CallError(f"{owner}: {name} must be True or False, got {value!r}")
    return bool(value)


def one_of(owner: str, name: str, value: object, choices: tuple[str, ...]) -> str:
    """One of some words."""
    if not isinstance(value, str) or value not in choices:
        error = ArgumentError if isinstance(value, str) else CallError
        raise error(f"{owner}: {name} must be {' or '.join(map(repr, choices))}, got {value!r}")
    return value


def sequence(owner: str, name: str, value: object, of: str) -> list:
    """The elements of an iterable that is no text, as a list."""
    if not isinstance(value, Iterable) or isinstance(value, (str, bytes)):
        raise CallError(f"{owner}: {name} must be a list of {of}, got {value!r}")
    return list(value)


def implementation(owner: str, **options: object) -> None:
    """Check PyTorch's choices among its implementations of a step, which have no meaning here: a step is one launch, or one threaded pass.

    Raises: CallError for what is no bool, 0 or 1, ArgumentError for differentiable=True, since steps are not recorded.
    """
    for name, value in options.items():
        if not (isinstance(value, bool) or value is None and name in ("foreach", "fused") or type(value) is int and value in (0, 1)):
            raise CallError(f"{owner}: {name} must be True or False, got {value!r}")
    if options.get("foreach") and options.get("fused"):
        raise ArgumentError(f"{owner}: foreach and fused cannot both be True")
    if options.get("differentiable"):
        raise ArgumentError(f"{owner}: differentiable=True is not supported: steps are not recorded for gradients")
