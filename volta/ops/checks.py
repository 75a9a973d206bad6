"""Errors for arguments of a wrong type. Public functions do not look at types on the way in: where a call ends in a bare error
from deeper down, `explain` compares the arguments with the annotations and says which one is wrong. Knows no op.
"""
from __future__ import annotations

import inspect
import operator
from collections.abc import Callable, Iterable

import numpy as np

from volta._kernels import core
from volta.errors import DTypeError


def _is_integer(value):
    try:
        operator.index(value)
    except TypeError:
        return False
    return True


def _each(test):
    return lambda value: isinstance(value, Iterable) and not isinstance(value, (str, bytes, core.TensorBase)) and all(map(test, value))


def _is_tensor(value):
    return isinstance(value, core.TensorBase)


# By annotation: the test and its name in a text. An annotation that is not here allows everything.
KINDS = {
    "Tensor": (_is_tensor, "a tensor"),
    "Number": (lambda value: isinstance(value, (int, float, np.number)), "a number"),
    "float": (lambda value: isinstance(value, (int, float, np.number)), "a number"),
    "int": (_is_integer, "an integer"),
    "bool": (lambda value: isinstance(value, (bool, int, np.bool_)), "True or False"),
    "str": (lambda value: isinstance(value, str), "a string"),
    "None": (lambda value: value is None, "None"),
    "Sequence[int]": (_each(_is_integer), "a sequence of integers"),
    "tuple[int, ...]": (_each(_is_integer), "a sequence of integers"),
    "Sequence[Tensor]": (_each(_is_tensor), "a sequence of tensors"),
}


def explain(function: Callable, args: tuple, options: dict) -> DTypeError | None:
    """The error for the first argument that is not what its annotation says; None where all are."""
    signature = inspect.signature(function)
    try:
        given = signature.bind(*args, **options).arguments
    except TypeError:
        return None
    for name, value in given.items():
        parameter = signature.parameters[name]
        kinds = [KINDS.get(kind) for kind in str(parameter.annotation).split(" | ")]
        if None in kinds:
            continue
        several = parameter.kind is parameter.VAR_POSITIONAL
        for v in value if several else (value,):
            if not any(test(v) for test, _ in kinds):
                words = " or ".join(dict.fromkeys(words for _, words in kinds))
                return DTypeError(f"{function.__name__}: {name} must be {words}, got {_described(v)}")
    return None


def _described(value):
    if isinstance(value, (list, tuple, str, float)):
        text = repr(value)
        return text if len(text) <= 60 else f"{text[:57]}..."
    return type(value).__name__
