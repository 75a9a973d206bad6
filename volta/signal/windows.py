"""The functions of torch.signal.windows: M weights that fall off to both sides, for pieces of a signal. They are computed on the host in
double precision. With `sym` False a window is one period of a longer signal: the first M of M + 1 weights.

Raises: ArgumentError for a negative or non-integer M, a dtype that is not float32 or float64, and for parameters outside their range.
"""
from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from volta._kernels import core
from volta.dtypes import as_dtype, float32, float64, get_default_dtype
from volta.errors import ArgumentError, CallError, DTypeError, OutOfMemoryError
from volta.layout import layout as Layouts
from volta.layout import strided
from volta.ops.from_data import tensor

if TYPE_CHECKING:
    from volta.tensor import Tensor
    from volta.types import DeviceLike, DTypeLike

__all__ = ["bartlett", "blackman", "cosine", "exponential", "gaussian", "general_cosine", "general_hamming", "hamming", "hann", "kaiser",
           "nuttall"]


_FEW = 4096                 # weights of a window that are kept, as programs make the same one for each piece


def _values(formula: Callable[..., np.ndarray], M: int, last: int, numbers: tuple[Any, ...]) -> np.ndarray:
    return formula(np.arange(M, dtype=np.float64), last, *numbers)


_kept = functools.lru_cache(maxsize=64)(_values)


def _window(name: str, formula: Callable[..., np.ndarray], numbers: tuple[Any, ...], M: int, sym: bool, place: tuple[Any, ...],
            centered: bool = False) -> Tensor:
    """`formula` of the positions 0 to M - 1, of the last position of the whole window, and of `numbers`; a single weight is 1 unless
    `centered`."""
    dtype, layout, device, requires_grad = place
    dtype = get_default_dtype() if dtype is None else as_dtype(dtype)
    M = 0 if isinstance(M, float) and M == 0 else M
    if not hasattr(M, "__index__") or (M := M.__index__()) < 0:
        raise CallError(f"{name}: M must be a whole number >= 0, got {M!r}")
    if dtype not in (float32, float64):
        raise ArgumentError(f"{name}: dtype must be float32 or float64, got {dtype}")
    if layout is not strided:
        raise ArgumentError(f"{name}: tensors are strided, layout={layout} is not available; leave it out")
    last = M - 1 if sym else M
    core.checked_size((M,))
    try:
        keeps = M <= _FEW and all(x is None or type(x) in (int, float) for x in numbers)
        values = (_kept if keeps else _values)(formula, M, last, numbers) if M > 1 or centered else np.ones(M)
    except MemoryError as error:
        raise OutOfMemoryError(f"{name}: {error}") from None
    return tensor(values, dtype=dtype, device=device, requires_grad=requires_grad)


def _waves(name: str, M: int, weights: list[float], sym: bool, place: tuple[Any, ...]) -> Tensor:
    """The sum of cosines of 0, 1, 2... periods, with alternating signs."""
    return _window(name, _sum_of_waves, tuple(weights), M, sym, place)


def _sum_of_waves(x, last, *weights):
    values = np.full(len(x), weights[0])
    for i, a in enumerate(weights[1:], 1):
        values += (-1) ** i * a * np.cos(x * (2 * math.pi * i / last))
    return values


def exponential(M: int, *, center: float | None = None, tau: float = 1.0, sym: bool = True, dtype: DTypeLike = None,
                layout: Layouts = strided, device: DeviceLike = None, requires_grad: bool = False) -> Tensor:
    """exp(-|x - center| / tau); the center is by default that of the window, and may be given where `sym` is False.

    Raises: ArgumentError unless `tau` is positive, and for a center of a symmetric window.
    """
    if tau <= 0:
        raise ArgumentError(f"exponential: tau must be above 0, got {tau}")
    if sym and center is not None:
        raise ArgumentError("exponential: a symmetric window has its center in the middle; leave center out, or give sym=False")
    return _window("exponential", _exponential, (center, tau), M, sym, (dtype, layout, device, requires_grad), center is not None)


def _exponential(x, last, center, tau):
    return np.exp(-abs(x - (last / 2 if center is None else center)) / tau)


def cosine(M: int, *, sym: bool = True, dtype: DTypeLike = None, layout: Layouts = strided, device: DeviceLike = None,
           requires_grad: bool = False) -> Tensor:
    """sin(pi (x + 1/2) / M): half a wave."""
    return _window("cosine", _half_wave, (), M, sym, (dtype, layout, device, requires_grad))


def _half_wave(x, last):
    return np.sin(math.pi * (x + 0.5) / (last + 1))


def gaussian(M: int, *, std: float = 1.0, sym: bool = True, dtype: DTypeLike = None, layout: Layouts = strided, device: DeviceLike = None,
             requires_grad: bool = False) -> Tensor:
    """exp(-(x / std)^2 / 2), x from the middle. Units: elements. Raises: ArgumentError unless `std` is positive."""
    if std <= 0:
        raise ArgumentError(f"gaussian: std must be above 0, got {std}")
    return _window("gaussian", _gaussian, (std,), M, sym, (dtype, layout, device, requires_grad))


def _gaussian(x, last, std):
    return np.exp(-((x - last / 2) / std) ** 2 / 2)


def kaiser(M: int, *, beta: float = 12.0, sym: bool = True, dtype: DTypeLike = None, layout: Layouts = strided, device: DeviceLike = None,
           requires_grad: bool = False) -> Tensor:
    """I0(beta sqrt(1 - x^2)) / I0(beta), x from -1 to 1. Raises: ArgumentError for a negative `beta`."""
    if beta < 0:
        raise ArgumentError(f"kaiser: beta must be at least 0, got {beta}")
    return _window("kaiser", _kaiser, (beta,), M, sym, (dtype, layout, device, requires_grad))


def _kaiser(x, last, beta):
    return np.i0(beta * np.sqrt(np.maximum(1 - (2 * x / last - 1) ** 2, 0))) / np.i0(beta)


def bartlett(M: int, *, sym: bool = True, dtype: DTypeLike = None, layout: Layouts = strided, device: DeviceLike = None,
             requires_grad: bool = False) -> Tensor:
    """1 - |x|, x from -1 to 1."""
    return _window("bartlett", _bartlett, (), M, sym, (dtype, layout, device, requires_grad))


def _bartlett(x, last):
    return 1 - abs(2 * x / last - 1)


def general_cosine(M: int, *, a: Iterable[float], sym: bool = True, dtype: DTypeLike = None, layout: Layouts = strided,
                   device: DeviceLike = None, requires_grad: bool = False) -> Tensor:
    """a[0] - a[1] cos(2 pi x) + a[2] cos(4 pi x) - ..., x from 0 to 1.

    Raises: DTypeError unless `a` is a list; ArgumentError for an empty one.
    """
    if not isinstance(a, Iterable):
        raise DTypeError(f"general_cosine: a must be a list of numbers, got {type(a).__name__}")
    if not (weights := [float(x) for x in a]):
        raise ArgumentError("general_cosine: a must have at least one number")
    return _waves("general_cosine", M, weights, sym, (dtype, layout, device, requires_grad))


def general_hamming(M: int, *, alpha: float = 0.54, sym: bool = True, dtype: DTypeLike = None, layout: Layouts = strided,
                    device: DeviceLike = None, requires_grad: bool = False) -> Tensor:
    """alpha - (1 - alpha) cos(2 pi x), x from 0 to 1."""
    return _waves("general_hamming", M, [alpha, 1 - alpha], sym, (dtype, layout, device, requires_grad))


def hamming(M: int, *, sym: bool = True, dtype: DTypeLike = None, layout: Layouts = strided, device: DeviceLike = None,
            requires_grad: bool = False) -> Tensor:
    """0.54 - 0.46 cos(2 pi x), x from 0 to 1."""
    return _waves("hamming", M, [0.54, 0.46], sym, (dtype, layout, device, requires_grad))


def hann(M: int, *, sym: bool = True, dtype: DTypeLike = None, layout: Layouts = strided, device: DeviceLike = None,
         requires_grad: bool = False) -> Tensor:
    """1/2 - cos(2 pi x) / 2, x from 0 to 1."""
    return _waves("hann", M, [0.5, 0.5], sym, (dtype, layout, device, requires_grad))


def blackman(M: int, *, sym: bool = True, dtype: DTypeLike = None, layout: Layouts = strided, device: DeviceLike = None,
             requires_grad: bool = False) -> Tensor:
    """0.42 - cos(2 pi x) / 2 + 0.08 cos(4 pi x), x from 0 to 1."""
    return _waves("blackman", M, [0.42, 0.5, 0.08], sym, (dtype, layout, device, requires_grad))


def nuttall(M: int, *, sym: bool = True, dtype: DTypeLike = None, layout: Layouts = strided, device: DeviceLike = None,
            requires_grad: bool = False) -> Tensor:
    """Four terms of `general_cosine` whose spectrum falls off far. Source: Nuttall 1981, minimum four-term window."""
    return _waves("nuttall", M, [0.3635819, 0.4891775, 0.1365995, 0.0106411], sym, (dtype, layout, device, requires_grad))
