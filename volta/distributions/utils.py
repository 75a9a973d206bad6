"""What distributions are written with, under the names of torch.distributions.utils."""
from __future__ import annotations

import functools
from collections.abc import Callable
from numbers import Number
from typing import TYPE_CHECKING, Any

from volta._kernels import core
from volta.dtypes import get_default_dtype
from volta.errors import CallError, ShapeError
from volta.ops.creation import empty, full
from volta.ops.ranges import tril_indices
from volta.ops.records.chain import fused
from volta.ops.reduce import logsumexp
from volta.ops.view import broadcast_tensors
from volta.tensor import Tensor

if TYPE_CHECKING:
    from volta.types import DeviceLike, DTypeLike

__all__ = ["broadcast_all", "clamp_probs", "lazy_property", "logits_to_probs", "probs_to_logits", "tril_matrix_to_vec",
           "vec_to_tril_matrix"]

euler_constant = 0.57721566490153286


def broadcast_all(*values: Any) -> tuple[Tensor, ...]:
    """Parameters as tensors of one shape; numbers take the dtype and device of the tensors. Raises: CallError for anything else."""
    if not all(isinstance(v, (core.TensorBase, Number)) for v in values):
        raise CallError(f"broadcast_all: needs tensors and numbers, got {', '.join(type(v).__name__ for v in values)}")
    like = next((v for v in values if isinstance(v, core.TensorBase)), None)
    dtype, device = (get_default_dtype(), None) if like is None else (like.dtype, like.device)
    if not dtype.is_floating_point:
        dtype = get_default_dtype()
    made = (v if isinstance(v, core.TensorBase) else full((), float(v), dtype=dtype, device=device) for v in values)
    return tuple(broadcast_tensors(*made))


class lazy_property:
    """A property that is computed once."""

    def __init__(self, wrapped: Callable) -> None:
        self.wrapped = wrapped
        functools.update_wrapper(self, wrapped)          # type: ignore[arg-type]  # copies names and text alone

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        if instance is None:
            return self
        value = instance.__dict__[self.wrapped.__name__] = self.wrapped(instance)
        return value


def _sum_rightmost(value: Tensor, dim: int) -> Tensor:
    """The sum over the last `dim` dimensions."""
    return value.sum(tuple(range(-dim, 0))) if dim > 0 and value.ndim else value


def _standard_normal(shape: tuple[int, ...], dtype: DTypeLike, device: DeviceLike) -> Tensor:
    """Normal noise."""
    return empty(shape, dtype=dtype, device=device).normal_()


def epsilon(x: Tensor) -> float:
    """The distance from 1 to the next number of this dtype."""
    return 2.0 ** -52 if x.dtype.itemsize == 8 else 2.0 ** -23


def clamp_probs(probs: Tensor) -> Tensor:
    """Probabilities that are neither 0 nor 1."""
    return probs.clamp(epsilon(probs), 1 - epsilon(probs))


def _binary_logits(probs):
    p = clamp_probs(probs)
    return p.log() - (-p).log1p()


def probs_to_logits(probs: Tensor, is_binary: bool = False) -> Tensor:
    """The logits of probabilities: of each (`is_binary`), or of the choices of the last dimension."""
    return fused(_binary_logits, probs) if is_binary else clamp_probs(probs).log()


def logits_to_probs(logits: Tensor, is_binary: bool = False) -> Tensor:
    """The probabilities of logits: of each (`is_binary`), or of the choices of the last dimension."""
    return logits.sigmoid() if is_binary else (logits - logsumexp(logits, -1, keepdim=True)).exp()


def _places(n, diag, device):
    row, column = tril_indices(n, n, diag, device=device)
    return row * n + column


def tril_matrix_to_vec(mat: Tensor, diag: int = 0) -> Tensor:
    """The elements on and below diagonal `diag` of square matrices, row by row."""
    return mat.flatten(-2).index_select(-1, _places(mat.shape[-1], diag, mat.device))


def vec_to_tril_matrix(vec: Tensor, diag: int = 0) -> Tensor:
    """Square matrices whose elements on and below diagonal `diag` are given row by row.

    Raises: ShapeError where no matrix has as many.
    """
    slope, count = 1 + 2 * diag, vec.shape[-1]
    n = round((-slope + (slope ** 2 + 8 * count + 4 * abs(diag) * (diag + 1)) ** 0.5) / 2)
    places = _places(n, diag, vec.device)
    if places.shape[0] != count:
        raise ShapeError(f"vec_to_tril_matrix: no square matrix has {count} elements on and below diagonal {diag}")
    flat = vec.new_zeros((*vec.shape[:-1], n * n))
    return flat.index_copy(-1, places, vec).reshape((*vec.shape[:-1], n, n))
