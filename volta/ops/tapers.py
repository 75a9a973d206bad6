"""Window functions of signal processing. Without its last element, which repeats the first, a symmetric window of one more is periodic."""
from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import TYPE_CHECKING

from volta.device import as_device
from volta.dtypes import float32, float64
from volta.ops.creation import floating_dtype, ones
from volta.ops.from_data import finish
from volta.ops.records.bessel import i0
from volta.ops.records.copy import cast
from volta.ops.records.create import arange_op
from volta.ops.records.math import cos, relu, sqrt
from volta.ops.table import composed, create
from volta.shapes import as_shape

if TYPE_CHECKING:
    from volta.tensor import Tensor
    from volta.types import DeviceLike, DTypeLike

_made = composed(method=False, untested="tests/test_tapers.py: no inputs to differentiate")


def _taper(op: str, formula: Callable, length: int, periodic: bool, dtype: DTypeLike, device: DeviceLike, requires_grad: bool) -> Tensor:
    """`formula` of the positions of the elements, of which the first is 0 and the last of a symmetric window 1."""
    kind, place, (count,) = floating_dtype(op, dtype), as_device(device), as_shape(operator.index(length))
    if count == 1:
        return ones(1, dtype=kind, device=place, requires_grad=requires_grad)
    exact = float64 if kind is float64 else float32
    x = create(arange_op, 0.0, 1 / max(count - (not periodic), 1), count, dtype=exact, device=place)
    return finish(cast(formula(x), kind), requires_grad)


def _wave(x, times=1):
    return cos(x * (2 * math.pi * times))


@_made
def bartlett_window(window_length: int, periodic: bool = True, *, dtype: DTypeLike = None, device: DeviceLike = None,
                    requires_grad: bool = False) -> Tensor:
    """1 - |2 x - 1| for x from 0 to 1: a triangle.

    >>> volta.bartlett_window(4).tolist()
    [0.0, 0.5, 1.0, 0.5]
    """
    return _taper("bartlett_window", lambda x: 1 - abs(2 * x - 1), window_length, periodic, dtype, device, requires_grad)


@_made
def blackman_window(window_length: int, periodic: bool = True, *, dtype: DTypeLike = None, device: DeviceLike = None,
                    requires_grad: bool = False) -> Tensor:
    """0.42 - 0.5 cos(2 pi x) + 0.08 cos(4 pi x) for x from 0 to 1.

    >>> volta.blackman_window(4)[1:]
    tensor([0.3400, 1.0000, 0.3400])
    """
    return _taper("blackman_window", lambda x: _wave(x) * -0.5 + _wave(x, 2) * 0.08 + 0.42, window_length, periodic, dtype, device,
                  requires_grad)


@_made
def hamming_window(window_length: int, periodic: bool = True, alpha: float = 0.54, beta: float = 0.46, *, dtype: DTypeLike = None,
                   device: DeviceLike = None, requires_grad: bool = False) -> Tensor:
    """alpha - beta cos(2 pi x) for x from 0 to 1.

    >>> volta.hamming_window(4)
    tensor([0.0800, 0.5400, 1.0000, 0.5400])
    """
    return _taper("hamming_window", lambda x: _wave(x) * -beta + alpha, window_length, periodic, dtype, device, requires_grad)


@_made
def hann_window(window_length: int, periodic: bool = True, *, dtype: DTypeLike = None, device: DeviceLike = None,
                requires_grad: bool = False) -> Tensor:
    """(1 - cos(2 pi x)) / 2 for x from 0 to 1.

    >>> volta.hann_window(4)
    tensor([0.0000, 0.5000, 1.0000, 0.5000])
    """
    return _taper("hann_window", lambda x: _wave(x) * -0.5 + 0.5, window_length, periodic, dtype, device, requires_grad)


@_made
def kaiser_window(window_length: int, periodic: bool = True, beta: float = 12.0, *, dtype: DTypeLike = None, device: DeviceLike = None,
                  requires_grad: bool = False) -> Tensor:
    """I0(beta sqrt(1 - (2 x - 1)**2)) / I0(beta) for x from 0 to 1.

    >>> volta.kaiser_window(4, beta=2.0)
    tensor([0.4387, 0.8348, 1.0000, 0.8348])
    """
    def formula(x):
        height = sqrt(relu(1 - (2 * x - 1) ** 2))
        return i0(height * beta) / i0(height[:1] * 0 + beta)
    return _taper("kaiser_window", formula, window_length, periodic, dtype, device, requires_grad)
