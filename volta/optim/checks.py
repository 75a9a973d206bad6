"""Checks of what users give to optimizers and schedules: each returns the value in plain Python types, or raises ArgumentError
naming the class and the argument."""
from __future__ import annotations

import operator
from collections.abc import Iterable
from math import isfinite, isnan
from numbers import Real

from volta._kernels import core
from volta.errors import ArgumentError


def _real(value: object) -> float | None:
    """A number, or the element of a tensor that has one, as a float; None for anything else."""
    if type(value) is float:            # asking Real costs ten times as much
        return value
    if isinstance(value, Real):
        return float(value)
    if isinstance(value, core.TensorBase) and value._size == 1:
        return float(value)
    return None


def number(owner: str, name: str, value: object) -> float:
    """Any number but NaN."""
    found = _real(value)
    if found is None or isnan(found):
        raise ArgumentError(f"{owner}: {name} must be a number, got {value!r}")
    return value if type(value) is int else found


def at_least_zero(owner: str, name: str, value: object) -> float:
    """A finite number >= 0."""
    found = _real(value)
    if found is None or not 0.0 <= found < float("inf"):
        raise ArgumentError(f"{owner}: {name} must be a finite number >= 0, got {value!r}")
    return found


def below_one(owner: str, name: str, value: object) -> tuple[float, ...]:
    """A pair of numbers in [0, 1)."""
    pair = [_real(b) for b in value] if isinstance(value, (tuple, list)) else []
    if len(pair) != 2 or not all(b is not None and 0.0 <= b < 1.0 for b in pair):
        raise ArgumentError(f"{owner}: {name} must be two numbers in [0, 1), got {value!r}")
    return tuple(pair)


def at_least(owner: str, name: str, value: object, least: float) -> float:
    """A finite number that is no less than `least`."""
    found = _real(value)
    if found is None or not isfinite(found):
        raise ArgumentError(f"{owner}: {name} must be a finite number, got {value!r}")
    if found < least:
        raise ArgumentError(f"{owner}: {name} must be at least {least}, got {value}")
    return value if type(value) is int else found


def within(owner: str, name: str, value: object) -> float:
    """A number from 0 to 1."""
    found = _real(value)
    if found is None or not 0.0 <= found <= 1.0:
        raise ArgumentError(f"{owner}: {name} must be in [0, 1], got {value!r}")
    return found


def positive(owner: str, name: str, value: object) -> float:
    """A number above 0."""
    found = _real(value)
    if found is None or not found > 0.0:
        raise ArgumentError(f"{owner}: {name} must be a number above 0, got {value!r}")
    return found


def metric(owner: str, name: str, value: object) -> float:
    """A number, which may be NaN."""
    found = _real(value)
    if found is None:
        raise ArgumentError(f"{owner}: {name} must be a number, got {value!r}")
    return found


def function(owner: str, name: str, value: object):
    """What can be called."""
    if not callable(value):
        raise ArgumentError(f"{owner}: {name} must be a function, got {value!r}")
    return value


def integer(owner: str, name: str, value: object) -> int:
    """An integer; no bool."""
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise ArgumentError(f"{owner}: {name} must be an integer, got {value!r}")
    return operator.index(value)


def flag(owner: str, name: str, value: object) -> bool:
    """True or False."""
    if type(value) is bool:
        return value
    if not isinstance(value, Real):
        raise ArgumentError(f"{owner}: {name} must be True or False, got {value!r}")
    return bool(value)


def one_of(owner: str, name: str, value: object, choices: tuple[str, ...]) -> str:
    """One of some words."""
    if not isinstance(value, str) or value not in choices:
        raise ArgumentError(f"{owner}: {name} must be {' or '.join(map(repr, choices))}, got {value!r}")
    return value


def sequence(owner: str, name: str, value: object, of: str) -> list:
    """The elements of an iterable that is no text, as a list."""
    if not isinstance(value, Iterable) or isinstance(value, (str, bytes)):
        raise ArgumentError(f"{owner}: {name} must be a list of {of}, got {value!r}")
    return list(value)
