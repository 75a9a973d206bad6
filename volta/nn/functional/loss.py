"""Losses: cross entropy (fused), negative log likelihood, and the elementwise ones."""
from __future__ import annotations

import math
import warnings
from typing import TYPE_CHECKING

import numpy as np

from volta._kernels.core import graph, host_sees
from volta._kernels.core.direct import as_batch
from volta._kernels.core.indexing import all_within
from volta.dtypes import HALVES, bool_, float32, int8, int16, int32, int64, result_type, uint8
from volta.errors import ArgumentError, DTypeError, IndexRangeError, RankError, ShapeError
from volta.nn.functional.formulas import logistic
from volta.ops.copy import widened
from volta.ops.indexing import known_range
from volta.ops.records.chain import fused
from volta.ops.records.copy import cast
from volta.ops.records.index import gather_op
from volta.ops.records.loss import cross_entropy_op, label_weights, nll_op, sum_of_weights
from volta.ops.records.math import absolute_difference, logical_or, logistic_loss, squared_difference, where_op
from volta.ops.records.reduce import mean_op, sum_op
from volta.ops.records.view import contiguous_op, expand_op, lies_as, permute_op, reshape_op, tied
from volta.ops.reduce import log_softmax, mean, sum
from volta.ops.table import Labels, case, composed
from volta.shapes import as_dims, broadcast_shapes, broadcasts_to

if TYPE_CHECKING:
    from volta.tensor import Tensor

__all__ = ["binary_cross_entropy_with_logits", "cross_entropy", "l1_loss", "mse_loss", "nll_loss"]


def reduction_of(name: str, size_average: bool | None, reduce: bool | None, reduction: str, stacklevel: int = 3) -> str:
    """The reduction, which PyTorch's two old arguments override where they are given.

    Raises: ArgumentError for a string in their place: the reduction is given by name.
    """
    if size_average is None and reduce is None:
        return reduction
    for value in (size_average, reduce):
        if isinstance(value, str):
            raise ArgumentError(f"{name}: give the reduction by name, as in reduction={value!r}")
    reduction = "none" if reduce is not None and not reduce else "sum" if size_average is not None and not size_average else "mean"
    warnings.warn(f"{name}: size_average and reduce are deprecated; write reduction={reduction!r}", stacklevel=stacklevel)
    return reduction


def _check_reduction(name, reduction):
    if reduction not in ("mean", "sum", "none"):
        raise ArgumentError(f"{name}: reduction must be 'mean', 'sum' or 'none', got {reduction!r}")


def _reduce(name, values, reduction):
    _check_reduction(name, reduction)
    if reduction == "none":
        return values
    if not values._shape:
        return mean(values) if reduction == "mean" else sum(values)
    dims = (0,) if len(values._shape) == 1 else as_dims(name, None, len(values._shape))
    return graph.call(mean_op if reduction == "mean" else sum_op, (values,), {"dim": dims, "keepdim": False})


_FEW = 65536                # labels that one thread looks at sooner than kernels do
_ACROSS = 16                # places of a sample from which a CPU leaves its classes where they are


def _check_target(name, input, target, ignore_index):
    """Raise unless these are class indices that fit (N, C, ...): shape and, as far as the host knows, range. Gives whether some may be
    `ignore_index`."""
    shape = input._shape
    if target._shape != shape[:1] + shape[2:]:
        raise ShapeError(f"{name}: target must have shape {input.shape[:1] + input.shape[2:]} for input {input.shape}, got {target.shape}")
    if target.dtype is not int64 and target.dtype in (int8, int16, int32):
        raise DTypeError(f"{name}: target must be int64 or uint8, got {target.dtype.name}; convert it with .long()")
    if target.dtype is uint8 and len(shape) > 2:
        raise DTypeError(f"{name}: target must be int64 for an input (N, C, ...), got uint8; convert it with .long()")
    return check_labels(name, shape[1], target, ignore_index)


def check_labels(name, classes, target, ignore_index):
    """Raise unless these are classes, as far as the host knows. Gives whether some may be `ignore_index`."""
    if target.dtype is int64 and 0 < target._size <= _FEW and host_sees(target) and all_within(target, classes):
        return 0 <= ignore_index < classes
    known = known_range(target)
    if known is None:
        return True
    low, high = known
    if low < 0 or high >= classes:
        values = np.array(known) if target.device.is_gpu else np.asarray(target).reshape(-1)
        wrong = np.flatnonzero((values != ignore_index) & ((values < 0) | (values >= classes)))
        if wrong.size:
            place = "" if target.device.is_gpu else f" at position {wrong[0]}"
            raise IndexRangeError(f"{name}: label {values[wrong[0]]}{place} is outside the {classes} classes (0 to {classes - 1})")
    return low <= ignore_index <= high


def _batch(name, input, target):
    """(N, C, ...) and (N, ...), also of one sample, and the shape to give back."""
    rank = len(input._shape)
    if rank > 1:
        return input, target, target._shape
    if not rank:
        raise RankError(f"{name}: input needs a class dimension, got shape {input.shape}")
    x = as_batch(input)
    x = reshape_op(input, shape=(1,) + input._shape) if x is None else x
    return x, target if target._shape else reshape_op(target, shape=(1,)), ()


def _rows(name, input, target):
    """(N, C, d1, ...) and (N, d1, ...) as (rows, C) and (rows,), and the shape to give back."""
    if input.ndim <= 2:
        return _batch(name, input, target)
    if target.shape != input.shape[:1] + input.shape[2:]:
        raise ShapeError(f"{name}: target must have shape {input.shape[:1] + input.shape[2:]} for input {input.shape}, got {target.shape}")
    moved = permute_op(input, dims=(0, *range(2, input.ndim), 1))
    return moved.reshape(target._size, input.shape[1]), target.reshape(-1), target.shape


def _half_in_float32(function, input, *others):
    """A loss of several tensors; of float16 and bfloat16 it is computed in float32 and rounded once."""
    return widened(function, (input, *others), {}) if input.dtype in HALVES else function(input, *others)


def _np_nll_loss(logp, target, weight=None, ignore_index=-100, reduction="mean", label_smoothing=0.0):
    """The reference of losses of class indices or probabilities."""
    classes, soft = logp.shape[1], target.dtype.kind == "f"
    weight = np.ones(classes) if weight is None else weight
    hot = target if soft else np.moveaxis(np.eye(classes)[target], -1, 1)
    counts = np.ones(logp[:, 0].shape) if soft else weight[target] * (target != ignore_index)
    terms = -np.moveaxis(np.moveaxis(logp, 1, -1) * weight, -1, 1) * (hot * (1 - label_smoothing) + label_smoothing / classes)
    losses = terms.sum(axis=1) * (soft or target != ignore_index)
    return losses if reduction == "none" else losses.sum() / (counts.sum() if reduction == "mean" else 1)


def _np_cross_entropy(x, target, *args, **options):
    return _np_nll_loss(x - np.log(np.exp(x).sum(axis=1, keepdims=True)), target, *args, **options)


@composed(samples=(case((4, 5), Labels((4,), 5)), case((2, 3, 4), Labels((2, 4), 3), reduction="none"), case((3, 4), (3, 4)),
                   case((6, 4), Labels((6,), 4), ignore_index=2), case((4, 5), Labels((4,), 5), (5,), label_smoothing=0.2),
                   case((4, 5), Labels((4,), 5), label_smoothing=0.2),
                   case((3, 4), (3, 4), (4,), reduction="sum")), numpy=_np_cross_entropy, domain=(0.1, 1.0),
          takes={"input": "f", "target": "fi", "weight": "=input or wide?"}, function=False, method=False)
def cross_entropy(input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: bool | None = None,
                  ignore_index: int = -100, reduce: bool | None = None, reduction: str = "mean", label_smoothing: float = 0.0) -> Tensor:
    """Cross entropy of logits and class indices (or class probabilities, as a floating point target).

    Shape: input (N, C, ...), target (N, ...) or, for probabilities, that of input.
    Units: nats.
    Raises: IndexRangeError for a label outside the classes; ShapeError, DTypeError, ArgumentError.

    >>> volta.nn.functional.cross_entropy(volta.zeros(2, 4), volta.tensor([0, 3]))
    tensor(1.3863)
    """
    reduction = reduction_of("cross_entropy", size_average, reduce, reduction)
    if target.dtype.is_floating_point:
        if target.ndim and input.ndim > 1 and target.shape[0] != input.shape[0]:
            raise ShapeError(f"cross_entropy: input {input.shape} and target {target.shape} are batches of different sizes")
        if target.shape != input.shape:
            raise DTypeError(f"cross_entropy: target must hold class indices (int64), or probabilities of the input's shape {input.shape}, "
                             f"got {target.dtype} of shape {target.shape}; convert it with .long()")
        input = cast(input, result_type(input, target))
    given = input, target, weight, ignore_index, reduction, label_smoothing
    return _half_in_float32(_cross_entropy, *given) if input.dtype in HALVES else _cross_entropy(*given)


def _cross_entropy(input, target, weight, ignore_index, reduction, label_smoothing):
    if not 0.0 <= label_smoothing <= 1.0:
        raise ArgumentError(f"cross_entropy: label_smoothing must be in [0, 1], got {label_smoothing}")
    if target.dtype.is_floating_point:
        if ignore_index >= 0:
            raise ArgumentError(f"cross_entropy: ignore_index={ignore_index} is a label, but the target holds probabilities")
        return _soft_cross_entropy(input, target, weight, reduction, label_smoothing)
    if input.ndim > 2 and target.dtype is uint8:
        raise DTypeError("cross_entropy: target must be int64 for an input (N, C, ...), got uint8; convert it with .long()")
    across = input.ndim > 2 and target._size >= _ACROSS * input.shape[0] > 0 and not input.device.is_gpu
    x, labels, shape = (input, target, target.shape) if across else _rows("cross_entropy", input, target)
    ignoring = _check_target("cross_entropy", x, labels, ignore_index)
    labels = cast(labels, int64)
    _check_weight("cross_entropy", weight, x.shape[1])
    if not x.shape[1]:
        return _without_classes(x, labels, shape, weight, ignore_index, ignoring, reduction, label_smoothing)
    if label_smoothing and (weight is not None or across):
        losses = _smoothed(x, labels, weight, ignore_index, ignoring, reduction, label_smoothing)
        return reshape_op(losses, shape=shape) if reduction == "none" else losses
    if across:
        _check_reduction("cross_entropy", reduction)
        return _of_labels(log_softmax(x, 1), labels, weight, ignore_index, reduction, False)
    losses = cross_entropy_op(x, labels, ignore_index=int(ignore_index), smoothing=float(label_smoothing))
    _check_reduction("cross_entropy", reduction)
    if weight is not None or ignoring and reduction == "mean":
        losses = _of_labels(losses, labels, weight, ignore_index, reduction, True)
        return reshape_op(losses, shape=shape) if reduction == "none" else losses
    return _reduce("cross_entropy", losses if reduction != "none" else reshape_op(losses, shape=shape), reduction)


def _of_labels(x, labels, weight, ignore_index, reduction, picked):
    """`nll_op`: log-probabilities or, `picked`, losses of labels, weighted and reduced."""
    return nll_op(x, labels, None if weight is None else cast(weight, x.dtype), ignore_index=int(ignore_index), reduction=reduction,
                  picked=picked)[0]


def _check_weight(name, weight, classes):
    if weight is not None and weight._shape != (classes,):
        raise ShapeError(f"{name}: weight must have shape ({classes},), one number for each class, got {weight.shape}")


def _picked(logp, labels, weight, ignore_index, ignoring):
    """(minus the weighted log-probability of each label, which labels count, their weights), each (N, 1, ...), or None for all.
    `ignoring` says whether some labels may be `ignore_index`: their losses are 0, whatever the log-probabilities are."""
    unseen, classes = ignoring and known_range(labels) is None, logp.shape[1]
    labels = reshape_op(labels, shape=(*labels.shape[:1], 1, *labels.shape[1:]))
    kept = labels != ignore_index if ignoring else None
    safe = where_op(kept, labels, 0) if ignoring else labels
    logp = logp if classes else sum(logp, 1, True)                     # without classes every label is one to ignore
    losses = -gather_op(logp, safe, dim=1)
    if unseen:                                                         # as the kernels do with a label outside the classes
        losses = where_op(logical_or(labels < 0, labels >= classes), math.nan, losses)
    scale = cast(kept, logp.dtype) if ignoring else None
    if weight is not None:
        losses = losses * weight[safe]
        scale = scale * weight[safe] if ignoring else weight[safe]
    return where_op(kept, losses, 0.0) if ignoring else losses, kept, scale


def _finished(name, losses, weights, shape, reduction, weighted):
    """Losses of rows, reduced: to their mean, which is NaN where nothing counts, and then without a gradient. Of class weights that sum
    to 0 it would be NaN too; of labels that do not count it is 0 anyway."""
    if reduction != "mean" or weights is None:
        return _reduce(name, reshape_op(losses, shape=shape) if reduction == "none" else losses, reduction)
    count = sum(weights)
    if not weighted:
        return sum(losses) / count
    empty = count == 0
    return where_op(empty, math.nan, sum(losses) / where_op(empty, 1.0, count))


def _smoothed(x, labels, weight, ignore_index, ignoring, reduction, smoothing):
    """Losses of labels, weighted where there are weights, and those of all classes alike, each reduced."""
    _check_reduction("cross_entropy", reduction)
    logp, weight = log_softmax(x, 1), None if weight is None else cast(weight, x.dtype)
    losses, total = nll_op(logp, labels, weight, ignore_index=int(ignore_index), reduction=reduction, picked=False)
    if weight is None:
        even = mean(logp, 1)
    else:
        even = mean(logp * reshape_op(weight, shape=(weight._size,) + (1,) * (x.ndim - 2)), 1)
    among = "sum" if reduction == "mean" else reduction
    even = _of_labels(even, labels, None, ignore_index, among, True) if ignoring else _reduce("cross_entropy", even, among)
    if among != reduction:
        if weight is not None and graph.wants_derivative(weight):
            total = sum_of_weights(label_weights(labels, weight, ignore_index, logp), total)
        even = even / reshape_op(total, shape=())
    return losses * (1 - smoothing) - even * smoothing


def _without_classes(x, labels, shape, weight, ignore_index, ignoring, reduction, smoothing):
    losses, _, scale = _picked(log_softmax(x, 1), labels, weight, ignore_index, ignoring)
    if smoothing:                                       # by no classes
        losses = losses * math.nan
    return _finished("cross_entropy", losses, scale, shape, reduction, weight is not None)


def _soft_cross_entropy(input, target, weight, reduction, smoothing):
    classes = input.shape[1 if input.ndim > 1 else 0]
    _check_weight("cross_entropy", weight, classes)
    if smoothing:
        target = target * (1 - smoothing) + (smoothing / classes if classes else math.nan)
    dim = 1 if input.ndim > 1 else 0
    logp = log_softmax(input, dim)
    if weight is not None:
        logp = logp * weight.reshape(*([1] * dim), classes, *([1] * (input.ndim - dim - 1)))
    losses = -sum(logp * target, dim)
    return sum(losses) / float(losses._size if classes else 0) if reduction == "mean" else _reduce("cross_entropy", losses, reduction)


@composed(samples=(case((4, 5), Labels((4,), 5)), case((2, 3, 4), Labels((2, 4), 3), (3,)), case((4, 3), Labels((4,), 3), ignore_index=1,
                   reduction="none")), numpy=_np_nll_loss, domain=(0.1, 1.0), function=False, method=False,
          takes={"input": "f", "target": "i", "weight": "=input or wide?"})
def nll_loss(input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: bool | None = None, ignore_index: int = -100,
             reduce: bool | None = None, reduction: str = "mean") -> Tensor:
    """Negative log likelihood of log-probabilities. Shape: (N, C, ...) and (N, ...).

    >>> volta.nn.functional.nll_loss(volta.tensor([[-1.0, -2.0]]), volta.tensor([1]))
    tensor(2.)
    """
    reduction = reduction_of("nll_loss", size_average, reduce, reduction)
    if input.dtype in HALVES and (weight is not None or not host_sees(target)):
        return widened(_likelihood_loss, (input, target, weight, ignore_index, reduction), {})
    return _likelihood_loss(input, target, weight, ignore_index, reduction)


def _likelihood_loss(input, target, weight, ignore_index, reduction):
    """Of float16 and bfloat16 what the labels name alone is widened to float32, in which the losses are reduced."""
    x, labels, shape = _batch("nll_loss", input, target)
    ignoring = _check_target("nll_loss", x, labels, ignore_index)
    classes = x._shape[1]
    if weight is not None:
        _check_weight("nll_loss", weight, classes)
    if labels.dtype is not int64:
        labels = cast(labels, int64)
    _check_reduction("nll_loss", reduction)
    if classes:
        if x.dtype in HALVES:
            safe = where_op(labels != ignore_index, labels, 0) if ignoring else labels
            named = gather_op(tied(x), reshape_op(safe, shape=(*labels._shape[:1], 1, *labels._shape[1:])), dim=1)
            named = -reshape_op(cast(named, float32), shape=labels._shape)
            losses = cast(_of_labels(named, labels, None, ignore_index, reduction, True), x.dtype)
        else:
            losses = _of_labels(tied(x), labels, weight, ignore_index, reduction, False)
        return reshape_op(losses, shape=shape) if reduction == "none" else losses
    losses, _, scale = _picked(tied(x), labels, weight, ignore_index, ignoring)
    return _finished("nll_loss", losses, scale, shape, reduction, weight is not None)


def _pair(name, input, target):
    """The two in one dtype. Those of different shapes broadcast, with a warning: mostly it is a mistake."""
    if input.shape != target.shape:
        try:
            shape = broadcast_shapes(input.shape, target.shape)
        except ShapeError:
            raise ShapeError(f"{name}: input {input.shape} and target {target.shape} must have the same shape") from None
        warnings.warn(f"{name}: input {input._shape} and target {target._shape} are broadcast to one shape, so that elements are compared "
                      "which may not belong together; give them the same shape", stacklevel=5)
        input, target = expand_op(input, shape=shape), expand_op(target, shape=shape)
    dtype = result_type(input, target)
    return cast(input, dtype), cast(target, dtype)


def _pointwise(name, values, input, target, weight, *reduction):
    """`values` of the two in one dtype, reduced; weighted ones to the weighted mean."""
    reduction = reduction_of(name, *reduction, stacklevel=4)
    return _half_in_float32(_reduced, *_pair(name, input, target), weight, name, values, reduction)


def _reduced(input, target, weight, name, values, reduction):
    if weight is None:
        return _reduce(name, values(input, target), reduction)
    if weight.shape != input.shape:
        raise ShapeError(f"{name}: weight {weight.shape} and input {input.shape} must have the same shape")
    losses = values(input, target) * weight
    return sum(losses) / sum(weight) if reduction == "mean" else _reduce(name, losses, reduction)


def _np_pointwise(function):
    def loss(x, target, reduction="mean", weight=1.0):
        losses = function(x, target) * weight
        return losses if reduction == "none" else losses.sum() / (np.broadcast_to(weight, x.shape).sum() if reduction == "mean" else 1)
    return loss


_POINTWISE = (case((3, 4), (3, 4)), case((), (), reduction="none"), case((2, 3), (2, 3), reduction="sum"))


@composed(samples=_POINTWISE, numpy=_np_pointwise(lambda x, target: (x - target) ** 2), function=False, method=False)
def mse_loss(input: Tensor, target: Tensor, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean",
             weight: Tensor | None = None) -> Tensor:
    """Squared error, with `weight` for each element.

    Shapes that differ are broadcast, with a warning. Raises: DTypeError for integers alone.

    >>> volta.nn.functional.mse_loss(volta.tensor([1.0, 2.0]), volta.tensor([1.0, 4.0]))
    tensor(2.)
    """
    return _pointwise("mse_loss", _squares, input, target, weight, size_average, reduce, reduction)


def _squares(input, target):
    if not input.dtype.is_floating_point:
        raise DTypeError(f"mse_loss: one of the tensors must be floating point, got {input.dtype}; convert it with .float()")
    return squared_difference(input, target)


def _sizes(input, target):
    return absolute_difference(input, target) if input.dtype.is_floating_point and target.dtype.is_floating_point else abs(input - target)


@composed(samples=_POINTWISE, numpy=_np_pointwise(lambda x, target: np.abs(x - target)), function=False, method=False)
def l1_loss(input: Tensor, target: Tensor, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean",
            weight: Tensor | None = None) -> Tensor:
    """Absolute error, with `weight` for each element.

    Shapes that differ are broadcast, with a warning.

    Raises: DTypeError for bool.

    >>> volta.nn.functional.l1_loss(volta.tensor([1.0, 2.0]), volta.tensor([1.0, 4.0]))
    tensor(1.)
    """
    if bool_ in (input.dtype, target.dtype):
        raise DTypeError(f"l1_loss: does not take bool, got {input.dtype} and {target.dtype}; convert it with .float()")
    return _pointwise("l1_loss", _sizes, input, target, weight, size_average, reduce, reduction)


def _np_logistic(x, target, weight=1.0, reduction="mean", pos_weight=1.0):
    losses = weight * (pos_weight * target * np.log1p(np.exp(-x)) + (1 - target) * np.log1p(np.exp(x)))
    return losses if reduction == "none" else losses.sum() if reduction == "sum" else losses.mean()


@composed(name="functional.binary_cross_entropy_with_logits",
          samples=(case((3, 4), (3, 4)), case((3, 4), (3, 4), (3, 4), reduction="none")), numpy=_np_logistic, domain=(0.1, 1.0),
          takes={"input": "f", "target": "f"}, function=False, method=False)
def binary_cross_entropy_with_logits(input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: bool | None = None,
                                     reduce: bool | None = None, reduction: str = "mean", pos_weight: Tensor | None = None) -> Tensor:
    """Cross entropy of a sigmoid, from logits, without overflow, in the dtype of the target; `pos_weight` scales the positive target's
    term. Units: nats.

    Raises: ShapeError where input and target differ in shape, or the weights do not broadcast to it.

    >>> volta.nn.functional.binary_cross_entropy_with_logits(volta.zeros(2), volta.tensor([0.0, 1.0]))
    tensor(0.6931)
    """
    name = "binary_cross_entropy_with_logits"
    if input.shape != target.shape:
        raise ShapeError(f"{name}: input {input.shape} and target {target.shape} must have the same shape")
    for what, factors in (("weight", weight), ("pos_weight", pos_weight)):
        if factors is not None and not broadcasts_to(factors.shape, input.shape):
            raise ShapeError(f"{name}: {what} {factors.shape} does not broadcast to the input's shape {input.shape}")
    reduction = reduction_of(name, size_average, reduce, reduction)
    return cast(_half_in_float32(_logistic, *_pair(name, input, target), weight, pos_weight, name, reduction), target.dtype)


def _logistic(input, target, weight, pos_weight, name, reduction):
    if reduction == "none" and input._strides != target._strides:               # losses lie as the targets do, as in PyTorch
        input = lies_as(target, input if input._contiguous else contiguous_op(input))
    losses = logistic_loss(input, target) if pos_weight is None else fused(logistic, input, target, pos_weight)
    return _reduce(name, losses if weight is None else losses * weight, reduction)
