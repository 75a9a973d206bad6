"""Comparison of tensors, numbers, and sequences and mappings of them, with a report of what differs."""
from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from numbers import Number
from typing import Any

import numpy as np

import volta
from volta.errors import ArgumentError, DTypeError
from volta.ops.sparse import SparseTensor

_TOLERANCES = {"float64": (1e-7, 1e-7), "float32": (1.3e-6, 1e-5), "float16": (1e-3, 1e-5), "bfloat16": (1.6e-2, 1e-5)}


def array(value: object) -> np.ndarray:
    """The values of a tensor, an array or numbers; of bfloat16 as float32."""
    if isinstance(value, SparseTensor):
        value = value.to_dense()
    if not isinstance(value, volta.Tensor):
        return np.asarray(value)
    value = value.detach()
    return (value.float() if value.dtype is volta.bfloat16 else value).numpy()


def assert_close(actual: object, expected: object, rtol: float | None = None, atol: float | None = None, *, allow_subclasses: bool = True,
                 equal_nan: bool = False, check_device: bool = True, check_dtype: bool = True, check_layout: bool = True,
                 check_stride: bool = False, msg: str | Callable[[str], str] | None = None) -> None:
    """Raise AssertionError unless |actual - expected| <= atol + rtol * |expected| at every element.

    Both are tensors, arrays or numbers of one shape, or sequences or mappings of them of one kind. Two tensors must share their device,
    dtype and layout, and with `check_stride` their strides, two numbers their type; without `allow_subclasses` two tensors their class.
    Without tolerances those of torch.testing.assert_close hold for the dtype, the larger ones of two; integers and bools must be equal.
    `msg` stands for the report, or makes a text of it. With `equal_nan`, NaN agrees with NaN.

    Raises: DTypeError for anything else, and where a tensor stands beside a sequence of tensors.

    >>> assert_close([volta.tensor([1.0, 2.0]) * 2], [volta.tensor([2.0, 4.0])])
    """
    if (rtol is None) != (atol is None):
        raise ArgumentError(f"assert_close: give both rtol and atol or neither, got rtol={rtol}, atol={atol}")
    comparison = _Comparison(rtol, atol, allow_subclasses, equal_nan, check_device, check_dtype, check_layout, check_stride)
    text = comparison.compare(actual, expected, "")
    if text:
        raise AssertionError(msg(text) if callable(msg) else text if msg is None else msg)


def assert_allclose(actual: Any, expected: Any, rtol: float | None = None, atol: float | None = None, equal_nan: bool = True,
                    msg: str = "") -> None:
    """PyTorch's older comparison: what is not a tensor becomes one of the other's dtype, devices and dtypes may differ."""
    warnings.warn("assert_allclose is deprecated; write assert_close", FutureWarning, stacklevel=2)
    like = next((x for x in (actual, expected) if isinstance(x, volta.Tensor)), None)
    kind = {} if like is None else {"dtype": like.dtype, "device": like.device}
    actual, expected = (x if isinstance(x, volta.Tensor) else volta.tensor(x, **kind) for x in (actual, expected))
    assert_close(actual, expected, rtol, atol, equal_nan=equal_nan, check_device=False, check_dtype=False, msg=msg or None)


class _Comparison:
    """What counts as close, and the comparison of one value with another: "" or what differs."""

    def __init__(self, rtol, atol, allow_subclasses, equal_nan, check_device, check_dtype, check_layout, check_stride) -> None:
        self.rtol, self.atol, self.equal_nan, self.allow_subclasses = rtol, atol, equal_nan, allow_subclasses
        self.check_device, self.check_dtype, self.check_layout, self.check_stride = check_device, check_dtype, check_layout, check_stride

    def compare(self, actual, expected, place) -> str:
        """The first difference; `place` is where the values are, as "[0]['a']"."""
        if actual is None or expected is None:
            return "" if actual is expected else f"{_head(place)}{_shown(actual)}, expected {_shown(expected)}"
        if isinstance(actual, Mapping) and isinstance(expected, Mapping):
            if set(actual) != set(expected):
                missing, more = ([k for k in a if k not in b] for a, b in ((expected, actual), (actual, expected)))
                return f"{_head(place)}keys differ: missing {missing}, unexpected {more}"
            return next((t for k in actual if (t := self.compare(actual[k], expected[k], f"{place}[{k!r}]"))), "")
        if _is_sequence(actual) and _is_sequence(expected):
            if len(actual) != len(expected):
                return f"{_head(place)}lengths differ: {len(actual)}, expected {len(expected)}"
            return next((t for i, (a, e) in enumerate(zip(actual, expected)) if (t := self.compare(a, e, f"{place}[{i}]"))), "")
        text = self._facts(actual, expected, place)
        return text or self._values(actual, expected, place)

    def _facts(self, actual, expected, place) -> str:
        kinds = type(actual), type(expected)
        numbers = isinstance(actual, Number), isinstance(expected, Number)
        if all(numbers):
            return f"{_head(place)}types differ: {kinds[0].__name__}, expected {kinds[1].__name__}" * (self.check_dtype and
                                                                                                       kinds[0] is not kinds[1])
        tensors = [x for x in (actual, expected) if isinstance(x, (volta.Tensor, SparseTensor))]
        known = [isinstance(x, (np.ndarray, np.generic, Number, volta.Tensor, SparseTensor)) or _is_sequence(x) for x in (actual, expected)]
        if not all(known) or len(tensors) == 2 and not self.allow_subclasses and kinds[0] is not kinds[1]:
            raise _incomparable(place, actual, expected)
        if len(tensors) < 2:
            return ""
        layouts = [isinstance(x, SparseTensor) for x in tensors]
        checks = (("layouts", self.check_layout, lambda x: x.layout), ("devices", self.check_device, lambda x: x.device),
                  ("dtypes", self.check_dtype, lambda x: x.dtype),
                  ("strides", self.check_stride and not any(layouts), lambda x: x.stride() if hasattr(x, "stride") else ()))
        for what, checked, of in checks if actual.shape == expected.shape else ():
            if checked and of(actual) != of(expected):
                return f"{_head(place)}{what} differ: {of(actual)}, expected {of(expected)}"
        return ""

    def _values(self, actual, expected, place) -> str:
        a, b = array(actual), array(expected)
        if a.shape != b.shape:
            return f"{_head(place)}shapes differ: {a.shape}, expected {b.shape}"
        if "O" in (a.dtype.kind, b.dtype.kind) or a.dtype.kind in "US" or b.dtype.kind in "US":
            raise _incomparable(place, actual, expected)
        rtol, atol = self.rtol, self.atol
        if rtol is None:
            both = [_TOLERANCES.get(_dtype(x), (0.0, 0.0)) for x in (actual, expected) if isinstance(x, volta.Tensor) or x is actual]
            rtol, atol = (max(pair) for pair in zip(*both))
        exact = a.dtype.kind not in "fc" and b.dtype.kind not in "fc" and not rtol and not atol
        a, b = (v.astype(np.float64) if v.dtype.kind in "f" or not exact and v.dtype.kind != "c" else v for v in (a, b))
        with np.errstate(all="ignore"):
            bad = a != b if exact else ~np.isclose(a, b, rtol=rtol, atol=atol, equal_nan=self.equal_nan)
        return _head(place) + report(a, b, bad, rtol, atol) if bad.any() else ""


def _dtype(value: object) -> str:
    return value.dtype.name if isinstance(value, volta.Tensor) else array(value).dtype.name


def _is_sequence(value: object) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, (str, bytes))


def _incomparable(place: str, actual: object, expected: object) -> DTypeError:
    return DTypeError(f"assert_close: {_head(place)}cannot compare {type(actual).__name__} with {type(expected).__name__}; give tensors, "
                      "numbers, or sequences or mappings of them on both sides")


def _head(place: str) -> str:
    return f"item {place}: " if place else ""


def _shown(value: object) -> str:
    return "None" if value is None else type(value).__name__


def report(a: np.ndarray, b: np.ndarray, bad: np.ndarray, rtol: float, atol: float) -> str:
    """How many elements differ, and the worst of them."""
    with np.errstate(all="ignore"):
        x, y = (v if v.dtype.kind == "c" else v.astype(np.float64) for v in (a, b))
        gap = np.where(bad, np.nan_to_num(np.abs(x - y), nan=np.inf, posinf=np.inf), -1.0)
    at = tuple(int(i) for i in np.unravel_index(np.argmax(gap), gap.shape))
    return (f"{int(bad.sum())} of {bad.size} elements differ (shape {a.shape}, rtol {rtol:g}, atol {atol:g}); the worst at "
            f"{at}: {a[at]!r}, expected {b[at]!r}")
