"""Losses composed of elementwise ops: robust errors, divergences, likelihoods, margins, embeddings."""
from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from volta._kernels import core
from volta._kernels.core import TensorBase
from volta.autograd import no_grad
from volta.dtypes import HALVES, as_integer, float32, get_default_dtype, int64, result_type
from volta.errors import ArgumentError, DTypeError, RankError, ShapeError
from volta.nn.functional.formulas import both_sides, divergence, gap, gaussian, hinge, nearer, nearer_of, poisson, ranked, soft_margin
from volta.nn.functional.loss import _check_reduction, _pair, _pointwise, _reduce, reduction_of
from volta.ops.copy import as_wide
from volta.ops.distance import pairwise_distance
from volta.ops.indexing import check_index
from volta.ops.records.activation import cosine_loss, huber
from volta.ops.records.chain import fused
from volta.ops.records.copy import cast
from volta.ops.records.index import gather_op, scatter_add_op
from volta.ops.records.loss import multi_margin_op
from volta.ops.records.math import (
    abs,
    bce_op,
    clamp_max,
    clamp_op,
    where_op,
)
from volta.ops.records.scan import cumsum_op
from volta.ops.records.unit import cosine_op
from volta.ops.records.view import reshape_op
from volta.ops.reduce import sum
from volta.ops.table import Derived, Labels, case, composed
from volta.ops.view import broadcast_tensors, unsqueeze
from volta.shapes import broadcasts_to

if TYPE_CHECKING:
    from volta.tensor import Tensor

__all__ = ["binary_cross_entropy", "cosine_embedding_loss", "gaussian_nll_loss", "hinge_embedding_loss", "huber_loss", "kl_div",
           "margin_ranking_loss", "multi_margin_loss", "multilabel_margin_loss", "multilabel_soft_margin_loss", "poisson_nll_loss",
           "smooth_l1_loss", "soft_margin_loss", "triplet_margin_loss", "triplet_margin_with_distance_loss"]

_PAIRS = (case((3, 4), (3, 4)), case((), (), reduction="none"), case((2, 3), (2, 3), reduction="sum"))
_SIGNS = Derived(lambda x, *_: np.where(np.arange(x.size).reshape(x.shape) % 2, 1.0, -1.0).astype(x.dtype))
_ROW_SIGNS = Derived(lambda x, *_: np.where(np.arange(len(x)) % 2, 1.0, -1.0).astype(x.dtype))
_loss = {"function": False, "method": False, "in_float32": True}


_loss_as_input = {"function": False, "method": False}


def _reduced_as(name, losses, input, reduction):
    """The losses, reduced, in the dtype of the input, as PyTorch has some."""
    if not input.dtype.is_floating_point:
        raise DTypeError(f"{name}: input must be floating point, got {input.dtype}; convert it with .float()")
    return cast(_reduce(name, losses, reduction), input.dtype)


def _np_reduced(function):
    """A reference with the reduction after it."""
    def loss(*args, reduction="mean", **options):
        values = function(*args, **options)
        return values if reduction == "none" else values.sum() if reduction == "sum" else values.mean()
    return loss


# ---------------------------------------------------------------- robust errors
def _np_smooth(x, target, limit, scale):
    d = np.abs(x - target)
    return np.where(d < limit, 0.5 * d * d / (limit or 1) * scale, (d - 0.5 * limit) * scale)


@composed(samples=(*_PAIRS, case((4,), (4,), beta=0.5), case((4,), (4,), beta=0.0)), **_loss_as_input,
          numpy=_np_reduced(lambda x, target, beta=1.0: _np_smooth(x, target, beta, 1.0)))
def smooth_l1_loss(input: Tensor, target: Tensor, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean",
                   beta: float = 1.0) -> Tensor:
    """Squared error below `beta`, absolute error above it, joined smoothly. Source: Girshick 2015, eq. 3.

    Raises: ArgumentError for a negative `beta`.

    >>> volta.nn.functional.smooth_l1_loss(volta.tensor([0.0, 0.0]), volta.tensor([0.5, 3.0]), reduction="none")
    tensor([0.1250, 2.5000])
    """
    if not beta >= 0:
        raise ArgumentError(f"smooth_l1_loss: beta must be >= 0, got {beta}")
    _check_floating("smooth_l1_loss", input, target)

    def losses(input, target):
        values = huber(input, target, float(beta)) if beta else abs(input - target)
        return values if beta in (0, 1) else values * (1.0 / beta)
    return _pointwise("smooth_l1_loss", losses, input, target, None, size_average, reduce, reduction)


def _check_floating(name, input, target):
    if not (input.dtype.is_floating_point or target.dtype.is_floating_point):
        raise DTypeError(f"{name}: needs a floating point tensor, got {input.dtype} and {target.dtype}; convert one with .float()")


@composed(samples=(*_PAIRS, case((4,), (4,), delta=0.5)), **_loss_as_input,
          numpy=_np_reduced(lambda x, target, delta=1.0: _np_smooth(x, target, delta, delta)))
def huber_loss(input: Tensor, target: Tensor, reduction: str = "mean", delta: float = 1.0, weight: Tensor | None = None) -> Tensor:
    """`delta` times the smooth error with that limit, with `weight` for each element. Source: Huber 1964.

    Raises: ArgumentError unless `delta` is positive.

    >>> volta.nn.functional.huber_loss(volta.tensor([0.0, 0.0]), volta.tensor([0.5, 3.0]), reduction="none")
    tensor([0.1250, 2.5000])
    """
    if not delta > 0:
        raise ArgumentError(f"huber_loss: delta must be positive, got {delta}")
    _check_floating("huber_loss", input, target)
    x, y = _pair("huber_loss", as_wide(input), as_wide(target))
    losses = huber(x, y, float(delta))
    return _reduced_as("huber_loss", losses if weight is None else losses * weight, input, reduction)


# ---------------------------------------------------------------- divergences and likelihoods
_FEW = 65536                            # elements that are compared with themselves, limited


def _np_bce(x, target, weight=1.0):
    return -(target * np.log(x) + (1 - target) * np.log1p(-x)) * weight


@composed(samples=(case((3, 4), (3, 4)), case((3, 4), (3, 4), (4,), reduction="none"), case((2,), (2,), reduction="sum")),
          domain=(0.1, 0.9), numpy=_np_reduced(_np_bce), takes={"input": "f", "target": "=input"}, **_loss)
def binary_cross_entropy(input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: bool | None = None,
                         reduce: bool | None = None, reduction: str = "mean") -> Tensor:
    """Cross entropy of probabilities; logarithms are limited to -100. Units: nats.

    Raises: ShapeError, DTypeError where shapes or dtypes differ; ArgumentError for an input or target outside [0, 1] on the CPU (on a GPU
    such an input gives NaN, since looking at it would be a transfer).

    >>> volta.nn.functional.binary_cross_entropy(volta.tensor([0.5, 0.5]), volta.tensor([0.0, 1.0]))
    tensor(0.6931)
    """
    reduction = reduction_of("binary_cross_entropy", size_average, reduce, reduction)
    if input.shape != target.shape:
        raise ShapeError(f"binary_cross_entropy: input {input.shape} and target {target.shape} must have the same shape")
    for what, x in ("input must lie in [0, 1], as after a sigmoid", input), ("target must lie in [0, 1]", target):
        if x._size and core.host_sees(x):
            bare = x.detach()
            if x._size <= _FEW and core.same_values(bare, clamp_op(bare, 0, 1)):        # sooner than two extremes are found
                continue
            values = as_wide(bare).numpy()
            least, most = values.min(), values.max()
            if not (least >= 0 and most <= 1):
                raise ArgumentError(f"binary_cross_entropy: the {what}; got {least} to {most}")
    losses = bce_op(input, target)
    return _reduce("binary_cross_entropy", losses if weight is None else losses * weight, reduction)


def _np_kl(x, target, reduction="mean", log_target=False):
    values = np.exp(target) * (target - x) if log_target else target * (np.log(target) - x)
    return values.sum() / len(x) if reduction == "batchmean" else _np_reduced(lambda: values)(reduction=reduction)


@composed(name="functional.kl_div",
          samples=(*_PAIRS, case((3, 4), (3, 4), reduction="batchmean"), case((3, 4), (3, 4), log_target=True)), domain=(0.1, 1.0),
          numpy=_np_kl, takes={"input": "f", "target": "f"}, **_loss)
def kl_div(input: Tensor, target: Tensor, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean",
           log_target: bool = False) -> Tensor:
    """Kullback-Leibler divergence of log-probabilities `input` from probabilities `target` (or their logarithms), by elements;
    reduction="batchmean" sums and divides by the batch, which is the divergence itself. Units: nats.

    >>> volta.nn.functional.kl_div(volta.tensor([[0.5, 0.5]]).log(), volta.tensor([[1.0, 0.0]]), reduction="batchmean")
    tensor(0.6931)
    """
    if reduction == "mean" and size_average is None and reduce is None:
        warnings.warn("kl_div: reduction='mean' divides by the number of elements; the divergence itself is reduction='batchmean', which "
                      "divides by that of the batch alone and which PyTorch will mean by 'mean', too", stacklevel=2)
    return _divergence(input, target, reduction_of("kl_div", size_average, reduce, reduction), log_target)


def _divergence(input, target, reduction, log_target):
    values = fused(divergence, input, target, flags={"log_target": bool(log_target)})
    if reduction == "batchmean":
        return sum(values) / float(input.shape[0] if input.ndim else 1)
    return _reduce("kl_div", values, reduction)


def _np_poisson(x, target, log_input=True, full=False, eps=1e-8):
    values = np.exp(x) - target * x if log_input else x - target * np.log(x + eps)
    return values + np.where(target > 1, target * np.log(target) - target + 0.5 * np.log(2 * np.pi * target), 0) * full


@composed(name="functional.poisson_nll_loss",
          samples=(*_PAIRS, case((3, 4), (3, 4), log_input=False), case((3, 4), (3, 4), full=True)), domain=(0.2, 3.0),
          numpy=_np_reduced(_np_poisson), **_loss)
def poisson_nll_loss(input: Tensor, target: Tensor, log_input: bool = True, full: bool = False, size_average: bool | None = None,
                     eps: float = 1e-08, reduce: bool | None = None, reduction: str = "mean") -> Tensor:
    """Negative log likelihood of Poisson counts `target` of which `input` is the mean, or its logarithm; `full` adds Stirling's term for
    counts above 1. Units: nats.

    >>> volta.nn.functional.poisson_nll_loss(volta.tensor([0.0]), volta.tensor([2.0]))
    tensor(1.)
    """
    reduction = reduction_of("poisson_nll_loss", size_average, reduce, reduction)
    values = fused(poisson, input, target, eps, flags={"log_input": bool(log_input), "full": bool(full)})
    return _reduce("poisson_nll_loss", values, reduction)


def _np_gaussian(x, target, var, full=False, eps=1e-6):
    var = np.maximum(var if not isinstance(var, np.ndarray) or var.ndim in (0, x.ndim) else var[..., None], eps)
    return 0.5 * (np.log(var) + (x - target) ** 2 / var + full * np.log(2 * np.pi)) + 0 * x


@composed(samples=(case((3, 4), (3, 4), (3, 4)), case((3, 4), (3, 4), (3,), full=True), case((3, 4), (3, 4), 0.5, reduction="none")),
          domain=(0.2, 3.0), numpy=_np_reduced(_np_gaussian), **_loss)
def gaussian_nll_loss(input: Tensor, target: Tensor | float, var: Tensor | float, full: bool = False, eps: float = 1e-06,
                      reduction: str = "mean") -> Tensor:
    """Negative log likelihood of normal numbers `target` of mean `input` and variance `var`, at least `eps` (its gradient passes there
    as well); `full` adds the constant. Units: nats.

    Raises: ShapeError for a var of another shape; ArgumentError for a negative one on the CPU.

    >>> volta.nn.functional.gaussian_nll_loss(volta.zeros(2), volta.ones(2), volta.ones(2))
    tensor(0.5000)
    """
    if not isinstance(var, TensorBase):
        var = input.new_full(input.shape, float(var))
    if var._size and core.host_sees(var) and (as_wide(var.detach()).numpy() < 0).any():
        raise ArgumentError("gaussian_nll_loss: var must not be negative")
    if var.shape != input.shape:
        if var.shape == input.shape[:-1]:
            var = unsqueeze(var, -1)
        elif var.ndim != input.ndim or [n for m, n in zip(input.shape, var.shape) if m != n] != [1]:
            raise ShapeError(f"gaussian_nll_loss: var {var.shape} must have the shape of input {input.shape}, with 1 in place of one size, "
                             "or without the last")
    var = var.clone()                                                       # the gradient of what is cut passes, too
    with no_grad():
        var.clamp_(min=+eps)                                                # True is 1
    values = fused(gaussian, input, _as_tensor(target, input), var, flags={"full": bool(full)})
    return _reduce("gaussian_nll_loss", values, reduction)


def _as_tensor(target, input):
    """A number that stands for all targets, as a tensor."""
    return target if isinstance(target, TensorBase) else input.new_full((), float(target))


# ---------------------------------------------------------------- margins
@composed(name="functional.hinge_embedding_loss",
          samples=(case((3, 4), _SIGNS), case((5,), _SIGNS, margin=0.5, reduction="none")), **_loss_as_input, numpy=_np_reduced(
    lambda x, target, margin=1.0: np.where(target == 1, x, 0) + np.where(target == -1, np.maximum(0, margin - x), 0)))
def hinge_embedding_loss(input: Tensor, target: Tensor, margin: float = 1.0, size_average: bool | None = None, reduce: bool | None = None,
                         reduction: str = "mean") -> Tensor:
    """A distance where target is 1, what it lacks of `margin` where that is -1.

    >>> volta.nn.functional.hinge_embedding_loss(volta.tensor([0.5, 0.25]), volta.tensor([1, -1]), reduction="none")
    tensor([0.5000, 0.7500])
    """
    reduction = reduction_of("hinge_embedding_loss", size_average, reduce, reduction)
    x, floating = as_wide(input), input.dtype.is_floating_point
    margin = float(margin) if floating else as_integer("hinge_embedding_loss", margin)
    losses = _reduce("hinge_embedding_loss", fused(hinge, x, target, margin), reduction)
    return cast(losses, input.dtype) if floating else losses


@composed(name="functional.margin_ranking_loss",
          samples=(case((5,), (5,), _SIGNS), case((3, 2), (3, 2), Derived(lambda a, b: np.sign(a)), margin=0.5, reduction="sum")), **_loss,
          numpy=_np_reduced(lambda a, b, target, margin=0.0: np.maximum(0, -target * (a - b) + margin)))
def margin_ranking_loss(input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0, size_average: bool | None = None,
                        reduce: bool | None = None, reduction: str = "mean") -> Tensor:
    """max(0, margin - target * (input1 - input2)): the first is to rank higher where target is 1, lower where it is -1.

    Raises: ShapeError for tensors of different ranks.

    >>> volta.nn.functional.margin_ranking_loss(volta.tensor([1.0]), volta.tensor([3.0]), volta.tensor([1.0]))
    tensor(2.)
    """
    reduction = reduction_of("margin_ranking_loss", size_average, reduce, reduction)
    if not input1.ndim == input2.ndim == target.ndim:
        raise ShapeError(f"margin_ranking_loss: the tensors must have as many dimensions, got shapes {input1.shape}, {input2.shape} and "
                         f"{target.shape}")
    return _ranked(input1, input2, target, margin, reduction)


def _ranked(input1, input2, target, margin, reduction):
    return _reduce("margin_ranking_loss", fused(ranked, input1, input2, target, margin), reduction)


def _np_multi_margin(x, target, p=1, margin=1.0, weight=None):
    rows = np.arange(len(x))
    terms = np.maximum(0, margin - x[rows, target][:, None] + x) ** p * (1 if weight is None else weight[target][:, None])
    terms[rows, target] = 0
    return terms.sum(1) / x.shape[1]


@composed(samples=(case((3, 4), Labels((3,), 4)), case((3, 4), Labels((3,), 4), p=2, margin=0.5, reduction="none")), **_loss,
          numpy=_np_reduced(_np_multi_margin))
def multi_margin_loss(input: Tensor, target: Tensor, p: int = 1, margin: float = 1.0, weight: Tensor | None = None,
                      size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean") -> Tensor:
    """By how much other classes come within `margin` of the target's score, to the power p (1 or 2), summed over them and divided by the
    number of classes. Shape: (N, C) and (N,).

    Raises: ShapeError for other shapes, also of `weight` (C,); ArgumentError for another `p`.

    >>> volta.nn.functional.multi_margin_loss(volta.tensor([[0.0, 0.5]]), volta.tensor([1]))
    tensor(0.2500)
    """
    reduction = reduction_of("multi_margin_loss", size_average, reduce, reduction)
    _check_reduction("multi_margin_loss", reduction)
    if p not in (1, 2):
        raise ArgumentError(f"multi_margin_loss: p must be 1 or 2, got {p}")
    if weight is not None and weight.shape != (input.shape[-1:] or (1,)):
        raise ShapeError(f"multi_margin_loss: weight must have shape {input.shape[-1:] or (1,)}, got {weight.shape}")
    if input.ndim > 2 or target.ndim > 1 or target._size != (input.shape[0] if input.ndim == 2 else 1):
        raise ShapeError(f"multi_margin_loss: needs (N, C) and (N,), or (C,) and (), got shapes {input.shape} and {target.shape}")
    classes = input.shape[-1] if input.ndim else 1
    check_index("multi_margin_loss", target, classes)
    losses = multi_margin_op(reshape_op(input, shape=(target._size, classes)), reshape_op(cast(target, int64), shape=(target._size,)),
                             None if weight is None else cast(weight, input.dtype), p=int(p), margin=float(margin))
    return _reduce("multi_margin_loss", reshape_op(losses, shape=target.shape) if reduction == "none" else losses, reduction)


@composed(samples=(case((3, 4), _SIGNS), case((5,), _SIGNS, reduction="none")), **_loss_as_input,
          numpy=_np_reduced(lambda x, target: np.log1p(np.exp(-target * x))))
def soft_margin_loss(input: Tensor, target: Tensor, size_average: bool | None = None, reduce: bool | None = None,
                     reduction: str = "mean") -> Tensor:
    """log(1 + exp(-target * input)) of targets 1 and -1.

    Raises: ShapeError where the targets are more than the inputs.

    >>> volta.nn.functional.soft_margin_loss(volta.zeros(2), volta.tensor([1.0, -1.0]))
    tensor(0.6931)
    """
    reduction = reduction_of("soft_margin_loss", size_average, reduce, reduction)
    if not broadcasts_to(target.shape, input.shape):
        raise ShapeError(f"soft_margin_loss: target {target.shape} does not broadcast to the shape of input {input.shape}")
    return _reduced_as("soft_margin_loss", fused(soft_margin, as_wide(input), as_wide(target)), input, reduction)


def _np_multilabel_margin(x, target):
    out = np.zeros(len(x))
    for n, (row, labels) in enumerate(zip(x, target)):
        labels = labels[:np.argmax(labels < 0)] if (labels < 0).any() else labels
        others = [i for i in range(len(row)) if i not in labels]
        out[n] = np.maximum(0, 1 - row[labels][:, None] + row[others]).sum() / len(row)
    return out


@composed(samples=(case((3, 4), Derived(lambda x: np.array([[3, 0, -1, 1], [1, 2, -1, 2], [-1, 0, 0, 0]]))),), **_loss,
          numpy=_np_reduced(_np_multilabel_margin))
def multilabel_margin_loss(input: Tensor, target: Tensor, size_average: bool | None = None, reduce: bool | None = None,
                           reduction: str = "mean") -> Tensor:
    """By how much the scores of other classes come within 1 of those of the target classes, divided by the number of classes. Shape: (N, C)
    and (N, C): class numbers up to the first -1.

    Raises: ShapeError for other shapes, or without classes; DTypeError for an input that is not floating point.

    >>> volta.nn.functional.multilabel_margin_loss(volta.tensor([[0.0, 0.5]]), volta.tensor([[1, -1]]))
    tensor(0.2500)
    """
    name = "multilabel_margin_loss"
    reduction = reduction_of(name, size_average, reduce, reduction)
    _check_reduction(name, reduction)
    if input.ndim > 2 or target.shape != input.shape:
        raise ShapeError(f"{name}: needs two tensors of shape (N, C) or (C,), got shapes {input.shape} and {target.shape}")
    if 0 in input.shape[-1:]:
        raise ShapeError(f"{name}: only the batch may have a size of 0, got an input {input.shape}")
    if not input.dtype.is_floating_point:
        raise DTypeError(f"{name}: input must be floating point, got {input.dtype}; convert it with .float()")
    classes, shape = input.shape[-1] if input.ndim else 1, input.shape[:-1]
    check_index(name, target, classes, -1)
    x, labels = (reshape_op(v, shape=(v._size // max(classes, 1), classes)) for v in (input, cast(target, int64)))
    if core.host_sees(labels):                                           # as many as a row has of them
        most = np.logical_and.accumulate(labels.numpy() >= 0, 1).sum(1).max(initial=0)
        labels = labels[:, :int(most)]
    ended = cast(labels < 0, x.dtype)
    before = cumsum_op(ended, dim=1) == 0                                # the first -1
    safe, counts = where_op(before, clamp_max(labels, classes - 1), 0), cast(before, x.dtype)
    wanted = scatter_add_op(counts, safe, dim=1, size=classes)
    gaps = fused(gap, unsqueeze(gather_op(x, safe, dim=1), 2), unsqueeze(x, 1), unsqueeze(counts, 2), unsqueeze(wanted, 1))
    return _reduce(name, reshape_op(sum(gaps, (1, 2)) / float(max(classes, 1)), shape=shape), reduction)


def _np_multilabel_soft(x, target, weight=1.0):
    return (weight * (target * np.log1p(np.exp(-x)) + (1 - target) * np.log1p(np.exp(x)))).mean(-1)


@composed(samples=(case((3, 4), (3, 4)), case((3, 4), (3, 4), (4,), reduction="none")), domain=(0.1, 1.0),
          numpy=_np_reduced(_np_multilabel_soft), **_loss)
def multilabel_soft_margin_loss(input: Tensor, target: Tensor | float, weight: Tensor | None = None, size_average: bool | None = None,
                                reduce: bool | None = None, reduction: str = "mean") -> Tensor:
    """Cross entropy of each class's sigmoid, from logits, averaged over the classes (the last dimension of `input`). Units: nats.

    Raises: RankError for a 0-d input.

    >>> volta.nn.functional.multilabel_soft_margin_loss(volta.zeros(1, 2), volta.tensor([[1.0, 0.0]]))
    tensor(0.6931)
    """
    reduction = reduction_of("multilabel_soft_margin_loss", size_average, reduce, reduction)
    if not input.ndim:
        raise RankError("multilabel_soft_margin_loss: needs a dimension of classes, got a 0-d tensor")
    values = fused(both_sides, input, _as_tensor(target, input))
    losses = sum(values if weight is None else values * weight, input.ndim - 1) / float(input.shape[-1])
    return _reduce("multilabel_soft_margin_loss", losses, reduction)


# ---------------------------------------------------------------- embeddings
def _np_distance(a, b, p=2.0, eps=1e-6):
    return np.linalg.norm(a - b + eps, p, -1)


def _np_triplet(a, b, c, margin=1.0, p=2.0, swap=False):
    far = _np_distance(a, c, p)
    return np.maximum(0, margin + _np_distance(a, b, p) - (np.minimum(far, _np_distance(b, c, p)) if swap else far))


@composed(name="functional.triplet_margin_loss",
          samples=(case((3, 4), (3, 4), (3, 4)), case((3, 4), (3, 4), (3, 4), swap=True, p=1.0, reduction="none")),
          numpy=_np_reduced(_np_triplet), **_loss)
def triplet_margin_loss(anchor: Tensor, positive: Tensor, negative: Tensor, margin: float = 1.0, p: float = 2, eps: float = 1e-06,
                        swap: bool = False, size_average: bool | None = None, reduce: bool | None = None,
                        reduction: str = "mean") -> Tensor:
    """max(0, margin + |anchor - positive| - |anchor - negative|) in the p-norm; with `swap` the negative's distance is the smaller of those
    to anchor and positive. Source: Balntas et al. 2016.

    >>> F = volta.nn.functional
    >>> F.triplet_margin_loss(volta.zeros(1, 1), volta.tensor([[2.0]]), volta.tensor([[1.0]]))
    tensor(2.)
    """
    reduction = reduction_of("triplet_margin_loss", size_average, reduce, reduction)
    return _triplet(anchor, positive, negative, lambda a, b: pairwise_distance(a, b, p, eps), margin, swap, reduction)


@composed(samples=(case((3, 4), (3, 4), (3, 4)), case((3, 4), (3, 4), (3, 4), swap=True, margin=0.5)),
          numpy=_np_reduced(_np_triplet), **_loss)
def triplet_margin_with_distance_loss(anchor: Tensor, positive: Tensor, negative: Tensor, *,
                                      distance_function: Callable | None = None, margin: float = 1.0, swap: bool = False,
                                      reduction: str = "mean") -> Tensor:
    """As `triplet_margin_loss`, with any distance (`pairwise_distance` unless given).

    >>> F = volta.nn.functional
    >>> F.triplet_margin_with_distance_loss(volta.zeros(1, 1), volta.tensor([[2.0]]), volta.tensor([[1.0]]))
    tensor(2.)
    """
    return _triplet(anchor, positive, negative, distance_function or pairwise_distance, margin, swap, reduction)


def _triplet(anchor, positive, negative, distance, margin, swap, reduction):
    if margin <= 0:
        raise ArgumentError(f"triplet_margin_loss: margin must be positive, got {margin}")
    if not anchor.ndim == positive.ndim == negative.ndim:
        raise ShapeError(f"triplet_margin_loss: the tensors must have as many dimensions, got shapes {anchor.shape}, {positive.shape} and "
                         f"{negative.shape}")
    near, far = distance(anchor, positive), distance(anchor, negative)
    losses = fused(nearer_of, near, far, distance(positive, negative), margin) if swap else fused(nearer, near, far, margin)
    return _reduce("triplet_margin_loss", losses, reduction)



def _np_cosine_embedding(a, b, target, margin=0.0):
    cosine = (a * b).sum(-1) / np.sqrt(((a * a).sum(-1) + 1e-12) * ((b * b).sum(-1) + 1e-12))
    return np.where(target == 1, 1 - cosine, 0) + np.where(target == -1, np.maximum(0, cosine - margin), 0)


@composed(name="functional.cosine_embedding_loss",
          samples=(case((3, 4), (3, 4), _ROW_SIGNS), case((3, 4), (3, 4), _ROW_SIGNS, margin=0.3, reduction="none")),
          numpy=_np_reduced(_np_cosine_embedding), **_loss_as_input)
def cosine_embedding_loss(input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0, size_average: bool | None = None,
                          reduce: bool | None = None, reduction: str = "mean") -> Tensor:
    """1 - cosine where target is 1, max(0, cosine - margin) where it is -1. Shape: (N, D) twice and (N,), or (D,) twice and ().

    Raises: ShapeError for other ranks.

    >>> volta.nn.functional.cosine_embedding_loss(volta.ones(1, 2), volta.ones(1, 2), volta.tensor([-1]))
    tensor(1.)
    """
    reduction = reduction_of("cosine_embedding_loss", size_average, reduce, reduction)
    if input1.ndim not in (1, 2) or input1.ndim != input2.ndim or target.ndim != input1.ndim - 1:
        raise ShapeError(f"cosine_embedding_loss: needs (N, D) twice and (N,), or (D,) twice and (), got shapes {input1.shape}, "
                         f"{input2.shape} and {target.shape}")
    dtype = result_type(input1, input2)                     # in which the target has no part
    wide = float32 if dtype in HALVES else dtype if dtype.is_floating_point else get_default_dtype()
    input1, input2 = (cast(x, wide) for x in (input1, input2))
    if input1.shape != input2.shape:
        input1, input2 = broadcast_tensors(input1, input2)
    losses = cosine_loss(cosine_op(input1, input2, eps=1e-12)[0], cast(target, wide), float(margin))
    out = _reduce("cosine_embedding_loss", losses, reduction)
    return cast(out, dtype) if dtype in HALVES else out
