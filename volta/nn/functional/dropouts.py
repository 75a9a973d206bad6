"""Dropout of elements and of whole channels, and the forms that keep the statistics of SELU networks. A tensor in evaluation passes."""
from __future__ import annotations

import warnings
from functools import partial
from typing import TYPE_CHECKING, Any

from volta._kernels.core import TensorBase
from volta._kernels.core.graph import is_grad_enabled
from volta._kernels.core.inplace import InPlace, check_inplace
from volta._kernels.core.streams import draw, source
from volta.dtypes import HALVES, float32
from volta.errors import ArgumentError, ShapeError
from volta.nn.functional.formulas import dropped
from volta.ops.creation import floating_dtype, ones
from volta.ops.records.chain import fused
from volta.ops.records.copy import cast
from volta.ops.records.create import dropout_op, uniform_op
from volta.ops.records.view import as_it_lies
from volta.ops.table import Places, case, composed, publish
from volta.ops.view import unsqueeze

if TYPE_CHECKING:
    from volta.random import Generator
    from volta.tensor import Tensor

__all__ = ["alpha_dropout", "dropout", "dropout1d", "dropout2d", "dropout3d", "feature_alpha_dropout"]

LIMIT = 1.7580993408473766              # SELU at -infinity, negated

_IDLE = (case((2, 3, 4), p=0.5, train=False), case((2, 3), p=1.0, train=True), case((2, 0), p=0.5, train=True))
_drops = {"samples": _IDLE, "numpy": lambda x, p, train: x * 0 if train else x, "method": False}


def _form(*shape):
    """How a function of nn.functional is declared: what it draws is tested in tests/test_dropouts.py."""
    return {"samples": (case(shape, training=False), case(shape, p=0.0, training=True)), "numpy": lambda x, **options: x,
            "function": False, "method": False}


def _passes(op, input, p, train):
    """Whether a dropout leaves the tensor as it is. Raises: ArgumentError unless 0 <= p <= 1."""
    if not 0.0 <= p <= 1.0:
        raise ArgumentError(f"{op}: p must be a probability in [0, 1], got {p}")
    return not train or p == 0.0 or not input._size


def _none(input):
    """What is left of it with p = 1, in its dtype: zeros, but of infinity and NaN, as in PyTorch."""
    return input * (0.0 if input.dtype.is_floating_point else False)


def _channels(op, input):
    """The shape of a mask for whole channels."""
    if input.ndim < 2:
        raise ShapeError(f"{op}: needs at least 2 dimensions, (N, C, ...), got shape {input.shape}")
    return input.shape[:2] + (1,) * (input.ndim - 2)


def _shifted(op, input, p, shape):
    """Elements set to SELU's limit by a mask of this shape, and all scaled and shifted back to mean 0 and variance 1."""
    if p == 1.0:
        return _none(input)
    floating_dtype(op, input.dtype)
    scale = ((LIMIT * LIMIT * p + 1) * (1 - p)) ** -0.5
    x = cast(input, float32) if input.dtype in HALVES else input
    keep = cast(draw(op, uniform_op, shape, 0.0, 1.0, float32, input.device, None) >= p, x.dtype)
    return cast(fused(dropped, x, keep, scale, LIMIT * scale, LIMIT * scale * p), input.dtype)


# ---------------------------------------------------------------- volta.x
@composed(name="dropout", **_drops)
def _dropout(input: Tensor, p: float = 0.5, train: bool = True, generator: Generator | None = None) -> Tensor:
    """Zero each element with probability p and scale the others by 1 / (1 - p), in training.

    Raises: ArgumentError unless 0 <= p <= 1. Source: Srivastava et al. 2014, in the inverted form.

    >>> volta.dropout(volta.ones(2), 1.0).tolist()
    [0.0, 0.0]
    """
    if _passes("dropout", input, p, train):
        return input
    if p == 1.0:
        return _none(input)
    seed, offset = source("dropout", generator).advance(0 if input.device.is_meta else input._size)
    return as_it_lies(partial(dropout_op, p=float(p), seed=seed, offset=offset), input)


@composed(name="feature_dropout", **_drops)
def _feature_dropout(input: Tensor, p: float, train: bool) -> Tensor:
    """`dropout` of whole channels of (N, C, ...).

    Raises: ArgumentError unless 0 <= p <= 1; ShapeError below 2 dimensions. Source: Tompson et al. 2015.

    >>> volta.feature_dropout(volta.ones(1, 2), 1.0, True).tolist()
    [[0.0, 0.0]]
    """
    if _passes("feature_dropout", input, p, train):
        return input
    if p == 1.0:
        return _none(input)
    return input * _dropout(ones(_channels("feature_dropout", input), dtype=input.dtype, device=input.device), p)


@composed(name="alpha_dropout", **_drops)
def _alpha_dropout(input: Tensor, p: float, train: bool) -> Tensor:
    """Set each element to the limit of SELU with probability p, and scale and shift all back to mean 0 and variance 1.

    Raises: ArgumentError unless 0 <= p <= 1. Source: Klambauer et al. 2017.

    >>> volta.alpha_dropout(volta.ones(2), 0.5, False).tolist()
    [1.0, 1.0]
    """
    return input if _passes("alpha_dropout", input, p, train) else _shifted("alpha_dropout", input, p, input.shape)


@composed(name="feature_alpha_dropout", **_drops)
def _feature_alpha_dropout(input: Tensor, p: float, train: bool) -> Tensor:
    """`alpha_dropout` of whole channels of (N, C, ...).

    Raises: ArgumentError unless 0 <= p <= 1; ShapeError below 2 dimensions.

    >>> volta.feature_alpha_dropout(volta.ones(1, 2), 0.5, False).tolist()
    [[1.0, 1.0]]
    """
    name = "feature_alpha_dropout"
    if _passes(name, input, p, train):
        return input
    return _none(input) if p == 1.0 else _shifted(name, input, p, _channels(name, input))


class _InPlace(InPlace):
    """Gives back what stays as it is, a leaf that requires grad, too."""

    __doc__ = vars(InPlace)["__doc__"]          # its own for each op

    def __call__(self, *args: Any, **options: Any) -> Any:
        p, train = (options.get(name, args[i] if len(args) > i else None) for i, name in ((1, "p"), (2, "train")))
        if type(p) in (float, int) and type(train) is bool and args and isinstance(args[0], TensorBase) and (
                _passes(self.name, args[0], p, train)):
            return args[0]
        return super().__call__(*args, **options)


_IN_PLACE = {op: _InPlace(op.name + "_", op) for op in (_dropout, _feature_dropout, _alpha_dropout, _feature_alpha_dropout)}
for _each in _IN_PLACE.values():
    publish(_each.name, _each, Places(method=False))


# ---------------------------------------------------------------- nn.functional.x
def _apply(op, input, p, training, inplace):
    return (_IN_PLACE[op] if inplace and not _passes(op.name, input, p, training) else op)(input, p, training)


def _batched(input, p, training, inplace):
    """`feature_dropout` of a tensor without the dimension of the batch."""
    if inplace and is_grad_enabled() and input.requires_grad:
        check_inplace("unsqueeze", input)
    out = _apply(_feature_dropout, unsqueeze(input, 0), p, training, inplace)
    return input if inplace else out[0]


@composed(name="functional.dropout", **_form(2, 3))
def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Zero each element with probability p and scale the others by 1 / (1 - p), in training.

    >>> volta.nn.functional.dropout(volta.ones(2), training=False)
    tensor([1., 1.])
    """
    return _apply(_dropout, input, p, training, inplace)


@composed(name="functional.alpha_dropout", **_form(2, 3))
def alpha_dropout(input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False) -> Tensor:
    """Set each element to the limit of SELU with probability p, in training, and scale and shift all back to mean 0 and variance 1.

    >>> volta.nn.functional.alpha_dropout(volta.ones(2))
    tensor([1., 1.])
    """
    return _apply(_alpha_dropout, input, p, training, inplace)


@composed(name="functional.feature_alpha_dropout", **_form(2, 3))
def feature_alpha_dropout(input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False) -> Tensor:
    """`alpha_dropout` of whole channels of (N, C, ...).

    >>> volta.nn.functional.feature_alpha_dropout(volta.ones(1, 2))
    tensor([[1., 1.]])
    """
    return _apply(_feature_alpha_dropout, input, p, training, inplace)


@composed(**_form(2, 3, 4))
def dropout1d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """`dropout` of whole channels.

    Shape: (N, C, L) or (C, L).
    Raises: ShapeError for another rank.

    >>> volta.nn.functional.dropout1d(volta.ones(1, 2), training=False)
    tensor([[1., 1.]])
    """
    if input.ndim not in (2, 3):
        raise ShapeError(f"dropout1d: needs an input (N, C, L) or (C, L), got shape {input.shape}")
    return (_apply(_feature_dropout, input, p, training, inplace) if input.ndim == 3 else _batched(input, p, training, inplace))


@composed(**_form(2, 3, 4, 2))
def dropout2d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """`dropout` of whole channels of (N, C, H, W). As in PyTorch, a tensor of 3 dimensions is taken as (N, C, L), and it or one of another
    rank gives a warning.

    >>> volta.nn.functional.dropout2d(volta.ones(1, 2, 1, 1), training=False).shape
    volta.Size([1, 2, 1, 1])
    """
    if input.ndim == 3:
        warnings.warn(f"dropout2d: the input {input._shape} is taken as (N, C, L), not as (C, H, W) without a batch; use dropout1d",
                      UserWarning, stacklevel=2)
    elif input.ndim != 4:
        warnings.warn(f"dropout2d: is for an input (N, C, H, W), got {input._shape}; use dropout", UserWarning, stacklevel=2)
    return _apply(_feature_dropout, input, p, training, inplace)


@composed(**_form(3, 4, 2, 2))
def dropout3d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """`dropout` of whole channels of (N, C, D, H, W) or (C, D, H, W); a tensor of another rank gives a warning, and is taken as without
    a batch.

    >>> volta.nn.functional.dropout3d(volta.ones(2, 1, 1, 1), training=False).shape
    volta.Size([2, 1, 1, 1])
    """
    if input.ndim not in (4, 5):
        warnings.warn(f"dropout3d: is for an input (N, C, D, H, W) or (C, D, H, W), got {input._shape}; use dropout", UserWarning,
                      stacklevel=2)
    return (_apply(_feature_dropout, input, p, training, inplace) if input.ndim == 5 else _batched(input, p, training, inplace))
