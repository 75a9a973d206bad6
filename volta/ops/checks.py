"""Types of arguments: the annotations of public functions as what C compares with before a call, and the error for what is wrong.
Knows no op.
"""
from __future__ import annotations

import functools
import inspect
import operator
import re
from collections.abc import Callable, Sequence

import numpy as np

from volta._kernels import core
from volta._kernels.core.record import (
    BOOLEAN,
    ELEMENT,
    GAPS,
    INTEGER,
    INTEGERS,
    LISTS,
    NONE,
    PLACE,
    REAL,
    REALS,
    STRING,
    TENSOR,
    TENSORS,
    UNKNOWN,
)
from volta.errors import ArgumentError, CallError, DTypeError, NumberError
from volta.ops import particular
from volta.ops.old_forms import reordered


def _is_integer(value):
    if isinstance(value, np.ndarray) or _is_tensor(value) and (value.shape or value.dtype.category != 1):
        return False
    return _is_index(value)


def _is_index(value):
    """What stands for an integer among several, as in PyTorch: tensors and arrays of one element, too."""
    if isinstance(value, (bool, np.bool_)):
        return False
    if _is_tensor(value):                   # a number that is not read here: on a GPU that would be a transfer
        return value._size == 1 and value.dtype.category == 1
    try:
        return -1 << 63 <= operator.index(value) < 1 << 63
    except TypeError:
        return False


def _is_one(value):
    return _is_tensor(value) and value._size == 1


def _is_number(value):
    return isinstance(value, (int, float, np.integer, np.floating, np.bool_)) or _is_tensor(value) and not value.shape


def _each(test):
    def tests(value):
        return isinstance(value, Sequence) and not isinstance(value, (str, bytes)) and all(map(test, value))
    return tests


def _is_size(value):
    return isinstance(value, bool) or _is_index(value)


_are_sizes = _each(_is_size)


def _integers(value):
    """Integers, of which as in PyTorch only the first may not be a bool."""
    return _are_sizes(value) and (not len(value) or _is_index(value[0]))


_are_gaps = _each(lambda value: value is None or _is_size(value))


def _gaps(value):
    """Integers, or None in their place; functions of Python's read them from tensors and arrays, too."""
    if _is_tensor(value) or isinstance(value, np.ndarray):
        return value.ndim == 1 and _are_gaps(value.tolist()) or _is_tensor(value) and _is_one(value) and not value.dtype.is_floating_point
    return _are_gaps(value) and (not len(value) or type(value[0]) is not bool)


def _is_tensor(value):
    return isinstance(value, core.TensorBase)


# By annotation: the bits of the common types, the test for others, and its name in a text. One that is not here allows everything.
KINDS = {
    "Tensor": (TENSOR, _is_tensor, "a tensor"),
    "Number": (INTEGER | REAL | BOOLEAN, _is_number, "a number"),
    "float": (INTEGER | REAL | BOOLEAN, _is_number, "a number"),
    "int": (INTEGER, _is_integer, "an integer"),
    "bool": (BOOLEAN, lambda value: isinstance(value, bool), "True or False"),
    "str": (STRING, lambda value: isinstance(value, str), "a string"),
    "None": (NONE, lambda value: value is None, "None"),
    "Sequence[int]": (INTEGERS, _integers, "a sequence of integers"),
    "tuple[int, ...]": (INTEGERS, _integers, "a sequence of integers"),
    "Sequence[float]": (REALS, _each(_is_number), "a sequence of numbers"),
    "Sequence[Tensor]": (TENSORS, _each(_is_tensor), "a sequence of tensors"),
    "Sequence[Sequence[int]]": (LISTS, _each(_each(_is_integer)), "sequences of integers"),
    "Sequence[tuple[int, int]]": (0, _each(_each(_is_integer)), "pairs of integers"),
    "DTypeLike": (ELEMENT | NONE | STRING, lambda value: value is None or isinstance(value, (core.DType, np.dtype, type, str)), "a dtype"),
    "DeviceLike": (PLACE | NONE | STRING, lambda value: value is None or isinstance(value, (core.Device, str)) or _is_integer(value),
                   "a name such as 'cpu' or 'gpu:1'"),
    "Callable": (0, callable, "a function"),
    "Sequence[Tensor | None]": (TENSORS, _each(lambda value: value is None or _is_tensor(value)), "a sequence of tensors and None"),
    "Sequence[int | None]": (GAPS, _gaps, "a sequence of integers and None"),
}


# Integers of functions that are more particular in PyTorch, or less, by what they are for there (`particular.KINDS`): a count or an index
# may be in a tensor of one element or an array of none, what chooses between overloads is in no vector, and some functions of Python's ask
# for an int.
_SYMBOL = (INTEGER, _is_index, "an integer")
_CHOICE = (INTEGER, lambda value: _is_integer(value), "an integer")
_NUMBER = (INTEGER, lambda value: not _is_tensor(value) and _is_integer(value), "an integer")
_PYTHONS = (INTEGER, lambda value: type(value) is int and _is_integer(value) or _is_one(value), "an integer of Python's")
_KINDS_OF_INTEGERS = {"symbol": _SYMBOL, "choice": _CHOICE, "number": _NUMBER, "pythons": _PYTHONS}


def _allowed(function, parameter):
    """The entries of `KINDS` that an annotation names; None where it allows everything."""
    if parameter.name in particular.OWN.get(function.__name__, ()):
        return None
    names = re.split(r" \| (?![^\[]*\])", str(parameter.annotation))
    if "bool" in names and parameter.name in particular.TRUTHS:
        return None
    if parameter.name in particular.GIVEN.get(function.__name__, ()):
        names.remove("None")
    special = next((_KINDS_OF_INTEGERS[kind] for kind, table in particular.KINDS.items()
                    if parameter.name in table.get(function.__name__, ())), None)
    kinds = [special if kind == "int" and special else KINDS.get(kind) for kind in (*names, "None")
             if kind != "None" or "None" in names or parameter.name == "requires_grad"]
    return None if None in kinds else kinds


def kinds(function: Callable) -> tuple[tuple[int, ...], int, dict[str, int], bool]:
    """Bits of the types that a function takes: at each position, at further ones, and by name; and whether it is `PAIRED`."""
    bits, positions, more = {}, [], 0
    for name, parameter in inspect.signature(function).parameters.items():
        allowed = _allowed(function, parameter)
        bits[name] = UNKNOWN if allowed is None else functools.reduce(operator.or_, [kind for kind, _, _ in allowed])
        place = bits[name]
        if name == "dim" and function.__name__ in particular.BY_PLACE:
            bits[name] &= ~BOOLEAN
        if parameter.kind is parameter.VAR_POSITIONAL:
            more = bits[name]
        elif parameter.kind is not parameter.KEYWORD_ONLY:
            positions.append(place)
    return tuple(positions), more, bits, function.__name__ in particular.PAIRED


# Annotations of which a 0-d tensor means its number: what adds to it must not change the caller's tensor.
_WHOLE = [*_KINDS_OF_INTEGERS.values(), *(KINDS[kind] for kind in (
    "int", "bool", "str", "None", "Sequence[int]", "tuple[int, ...]", "Sequence[Sequence[int]]", "Sequence[tuple[int, int]]",
    "Sequence[int | None]"))]

_SIZES = {"sizes", "size", "shape", "bounds", "counts", "order"}        # one may be an array without dimensions, no truth value
_ONE_OR_MORE = {KINDS["int"][2], KINDS["Sequence[int]"][2]}     # of these a tensor of one element is one, too


@functools.cache
def _rules(function):
    """Its signature, and of each argument that may not be everything: what is allowed, whether it stands for several, whether one number
    is a sequence, too, and whether only integers are."""
    signature, rules = inspect.signature(function), {}
    for name, parameter in signature.parameters.items():
        allowed = _allowed(function, parameter)
        if allowed is not None:
            rules[name] = (allowed, parameter.kind is parameter.VAR_POSITIONAL,
                           _ONE_OR_MORE <= {words for _, _, words in allowed} and not {_CHOICE, _NUMBER, _PYTHONS} & {*allowed},
                           all(kind in _WHOLE for kind in allowed))
    return signature, rules


def settled(function: Callable, args: tuple, options: dict) -> tuple[tuple, dict]:
    """The arguments, with numbers of NumPy's as Python's, and tensors, too, where only integers are taken.

    Raises: DTypeError for the first one that is not what its annotation says.
    """
    signature, rules = _rules(function)
    try:
        bound = signature.bind(*args, **options)
    except TypeError:                       # which the call says
        again = reordered(function.__name__, args, options)
        return settled(function, *again) if again else (args, options)
    if function.__name__ in particular.PAIRED and "keepdim" in options and len(args) < 2 and "dim" not in options:
        raise CallError(f"{function.__name__}: keepdim goes with a dimension; give dim, too")
    if function.__name__ in particular.BY_PLACE and type(options.get("dim")) is bool:
        raise DTypeError(f"{function.__name__}: dim must be an integer or a sequence of integers or None, got bool")
    for name, value in bound.arguments.items():
        if name not in rules:
            continue
        allowed, several, one_or_more, whole = rules[name]
        for i, v in enumerate(value if several else (value,)):
            one = one_or_more and (i > 0 and type(v) is bool or (_is_index(v) if name in _SIZES else
                                                                 _is_one(v) and not v.dtype.is_floating_point))
            if not one and not any(test(v) for _, test, _ in allowed):
                words = " or ".join(dict.fromkeys(words for _, _, words in allowed))
                beyond = _is_beyond(v) and ("integer" in words or "number" in words)
                error = ArgumentError if name == "reduction" else NumberError if beyond else DTypeError           # as in PyTorch
                raise error(f"{function.__name__}: {name} must be {words}, got {'one of more than 64 bits' if beyond else _described(v)}")
        bound.arguments[name] = tuple([_plain(v, whole) for v in value]) if several else _plain(value, whole)
    return bound.args, bound.kwargs


def _plain(value, whole):
    """A number of NumPy's, and with `whole` a tensor's or what has `__index__`, or those in a list or tuple, as Python's; of bools in
    these, integers."""
    if type(value) in (tuple, list):
        return type(value)([int(v) if whole and v is True or whole and v is False else _plain(v, whole) for v in value])
    if whole and _is_tensor(value):
        return int(value) if value._size == 1 else value.tolist()
    if isinstance(value, (np.generic, np.ndarray)):
        return value.tolist()
    return operator.index(value) if whole and type(value) is not bool and hasattr(type(value), "__index__") else value


def _is_beyond(value):
    return type(value) is int and not _is_integer(value)


def _described(value):
    if getattr(type(value), "no_tensors", False):               # a dtype of PyTorch's
        return f"{value!r}, of which there are no tensors"
    if isinstance(value, (list, tuple, str, float)):
        try:
            text = repr(value)
        except RecursionError:
            return f"a deeply nested {type(value).__name__}"
        return text if len(text) <= 60 else f"{text[:57]}..."
    return f"numpy.{type(value).__name__}" if isinstance(value, np.generic) else type(value).__name__
