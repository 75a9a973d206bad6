"""Connectionist temporal classification: the likelihood of a sequence under all its alignments to a longer one."""
from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from volta._kernels.core import TensorBase
from volta.dtypes import bool_, int64
from volta.errors import ArgumentError, RankError, ShapeError
from volta.nn.functional.loss import _reduce
from volta.ops.copy import to
from volta.ops.creation import arange, zeros
from volta.ops.from_data import tensor
from volta.ops.indexing import check_index, known_range
from volta.ops.join import cat, stack
from volta.ops.parts import narrow
from volta.ops.records.copy import cast
from volta.ops.records.ctc import ctc_op
from volta.ops.records.math import clamp_min, where_op
from volta.ops.records.view import reshape_op
from volta.ops.reduce import mean
from volta.ops.table import Derived, case, composed
from volta.ops.view import unsqueeze

if TYPE_CHECKING:
    from collections.abc import Sequence

    from volta.tensor import Tensor

__all__ = ["ctc_loss"]


def _np_ctc(log_probs, targets, input_lengths, target_lengths, blank=0, reduction="mean", zero_infinity=False):
    losses = []
    for n in range(len(targets)):
        labels = [blank]
        for label in targets[n, :target_lengths[n]]:
            labels += [label, blank]
        alpha = np.zeros(len(labels))
        alpha[0] = 1
        for t in range(input_lengths[n]):
            moved = alpha.copy() if t else alpha * 0
            moved[0] = alpha[0]
            moved[1:] += alpha[:-1] if t else alpha[:-1] * (np.arange(1, len(labels)) == 1)
            for s in range(2, len(labels)) if t else ():
                moved[s] += alpha[s - 2] * (labels[s] != labels[s - 2])
            alpha = moved * np.exp(log_probs[t, n, labels])
        losses.append(-np.log(alpha[-1] + (alpha[-2] if len(alpha) > 1 else 0)))
    losses = np.array(losses)
    return losses if reduction == "none" else losses.sum() if reduction == "sum" else (losses / np.maximum(target_lengths, 1)).mean()


_LABELS, _INPUTS, _TARGETS = (Derived(lambda *_, v=v: np.array(v)) for v in ([[1, 2, 2], [3, 1, 0]], [7, 6], [3, 2]))


@composed(samples=(case((7, 2, 4), _LABELS, _INPUTS, _TARGETS), case((7, 2, 4), _LABELS, _INPUTS, _TARGETS, reduction="none")),
          numpy=_np_ctc, domain=(-2.0, -0.5), name="functional.ctc_loss", function=False, method=False, in_float32=True,
          smooth=False)
def ctc_loss(log_probs: Tensor, targets: Tensor, input_lengths: Tensor | Sequence[int], target_lengths: Tensor | Sequence[int],
             blank: int = 0, reduction: str = "mean", zero_infinity: bool = False) -> Tensor:
    """Negative log likelihood of label sequences, summed over their alignments with blanks and repeats. The mean divides each loss by its
    target's length first. The gradient is PyTorch's: that of log_softmax's input, in terms of its output.

    Shape: log_probs (T, N, C) or (T, C), targets (N, S) or all joined (sum of lengths,), lengths (N,) or ().
    Raises: ShapeError, ArgumentError, IndexRangeError for a label outside the classes. Source: Graves et al. 2006, eq. 6 to 8.

    >>> F, log_probs = volta.nn.functional, volta.full((2, 1, 2), 0.5).log()
    >>> F.ctc_loss(log_probs, volta.tensor([[1]]), volta.tensor([2]), volta.tensor([1]))
    tensor(0.2877)
    """
    batched = log_probs.ndim == 3
    if log_probs.ndim not in (2, 3):
        raise RankError(f"ctc_loss: log_probs must be (T, N, C) or (T, C), got shape {log_probs.shape}")
    lp = log_probs if batched else unsqueeze(log_probs, 1)
    steps, batch, classes = lp.shape
    if not 0 <= blank < classes:
        raise ArgumentError(f"ctc_loss: blank must be a class, 0 to {classes - 1}, got {blank}")
    inputs = _lengths("input_lengths", input_lengths, batch, lp, steps)
    lengths = _lengths("target_lengths", target_lengths, batch, lp, targets.shape[-1] if targets.ndim else 0)
    labels = _padded(targets, lengths, batch, lp)
    known = known_range(labels)
    if known and not 0 <= known[0] <= known[1] < classes:                       # beyond its length a target may hold anything
        beyond = unsqueeze(arange(labels.shape[1], device=lp.device), 0) >= unsqueeze(lengths, 1)
        labels = where_op(beyond, blank, labels)
    check_index("ctc_loss", labels, classes)
    if not labels.shape[1]:
        labels = zeros(batch, 1, dtype=int64, device=lp.device)
    losses = (ctc_op if lp._size else ctc_op.reference)(lp, labels, inputs, lengths, blank=blank)[0]
    if zero_infinity:
        losses = where_op(losses == math.inf, 0.0, losses)
    if reduction == "mean":
        return mean(losses / cast(clamp_min(lengths, 1), losses.dtype))
    return _reduce("ctc_loss", losses if batched or reduction != "none" else reshape_op(losses, shape=()), reduction)


def _lengths(name, given, batch, like, most):
    """(N,) int64 on the device of the probabilities, of 0 to `most` as far as the host knows."""
    found = given if isinstance(given, TensorBase) else tensor(np.asarray(given, np.int64), device=like.device)
    if found._size != batch or found.dtype.is_floating_point or found.dtype is bool_:
        raise ShapeError(f"ctc_loss: {name} must hold {batch} integers, one for each sequence, got {found.dtype} of shape {found.shape}")
    known = known_range(found)
    if known and not 0 <= known[0] <= known[1] <= most:
        raise ArgumentError(f"ctc_loss: {name} must be from 0 to {most}, got {known[0]} to {known[1]}")
    return reshape_op(cast(to(found, like.device), int64), shape=(batch,))


def _padded(targets, lengths, batch, like):
    """Targets as (N, S); those that are joined end to end are taken apart, for which their lengths are read."""
    targets = cast(to(targets, like.device), int64)
    if targets.ndim == 2 and targets.shape[0] == batch:
        return targets
    if targets.ndim != 1:
        raise ShapeError(f"ctc_loss: targets must be (N, S), or one vector of all, got shape {targets.shape} for {batch} sequences")
    counts = lengths.tolist()
    if np.sum(counts) != targets._size:
        raise ShapeError(f"ctc_loss: target_lengths add up to {np.sum(counts)}, targets hold {targets._size} labels")
    most, rows, start = max(counts, default=0), [], 0
    for n in counts:
        rows.append(cat([narrow(targets, 0, start, n), zeros(most - n, dtype=int64, device=like.device)]))
        start += n
    return stack(rows)
