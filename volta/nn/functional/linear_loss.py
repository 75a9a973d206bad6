"""Cross entropy of the outputs of a linear layer (`linear_cross_entropy`), at once or in chunks of rows (`LinearCrossEntropyOptions`)."""
from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING

from volta.dtypes import HALVES, dtype, int64
from volta.errors import ArgumentError, ShapeError
from volta.nn.functional.loss import _np_cross_entropy as np_cross_entropy
from volta.nn.functional.loss import check_labels, cross_entropy
from volta.nn.functional.other import linear
from volta.ops.join import cat
from volta.ops.records.copy import cast
from volta.ops.records.math import where_op
from volta.ops.records.view import reshape_op
from volta.ops.reduce import mean, sum
from volta.ops.table import Labels, case, composed

if TYPE_CHECKING:
    from volta.tensor import Tensor

__all__ = ["linear_cross_entropy"]


@dataclass(frozen=True)
class LinearCrossEntropyOptions:
    """How `linear_cross_entropy` divides its rows, so that never all logits are there at once where no gradient is recorded: into chunks of
    `batch_chunk_size` rows, or as `chunking_method` says, "aspect_ratio:n" (chunks whose logits are as large as the input, divided by n)
    or "auto". What PyTorch chooses by the rest is so here: sums are float32's, and a graph can be kept.

    Raises: ArgumentError for a value outside these.
    """

    allow_retain_graph: bool = False
    batch_chunk_size: int | None = None
    chunking_method: str | None = "auto"
    acc_policy: str = "auto"
    acc_dtype: dtype | None = None

    def __post_init__(self) -> None:
        if self.acc_policy not in ("auto", "accurate", "balanced", "compact"):
            raise ArgumentError(f"LinearCrossEntropyOptions: invalid acc_policy: {self.acc_policy!r}; needs 'auto', 'accurate', 'balanced' "
                                "or 'compact'")
        name, colon, factor = (self.chunking_method or "auto").partition(":")
        if name not in ("auto", "aspect_ratio") or colon and (name == "auto" or not factor.isdigit() or int(factor) < 1):
            raise ArgumentError(f"LinearCrossEntropyOptions: invalid chunking_method: {self.chunking_method!r}; needs 'auto', "
                                "'aspect_ratio', 'aspect_ratio:n' or None")
        if self.batch_chunk_size is not None and not (isinstance(self.batch_chunk_size, int) and self.batch_chunk_size > 0):
            raise ArgumentError(f"LinearCrossEntropyOptions: batch_chunk_size must be an int > 0 or None, got {self.batch_chunk_size!r}")
        if self.acc_dtype is not None and not (isinstance(self.acc_dtype, dtype) and self.acc_dtype.is_floating_point):
            raise ArgumentError(f"LinearCrossEntropyOptions: acc_dtype must be a floating point dtype or None, got {self.acc_dtype!r}")

    def rows(self, batch: int, features: int, classes: int, halves: bool) -> int:
        """How many rows a chunk has."""
        method, rows = self.chunking_method, min(self.batch_chunk_size or batch, batch)
        if method == "auto":
            method = None if self.batch_chunk_size else "aspect_ratio" if halves else "aspect_ratio:2"
        if method is not None:
            target = -(-batch // max(-(-classes // max(features, 1)), 1))
            found = min((1 << max(target - 1, 0).bit_length()) // int(method.partition(":")[2] or 1), batch)
            if self.batch_chunk_size is not None and found != self.batch_chunk_size:
                raise ArgumentError(f"linear_cross_entropy: batch_chunk_size {self.batch_chunk_size} and chunking_method {method!r} give "
                                    f"different chunks, {self.batch_chunk_size} and {found} rows; give one")
            rows = found
        return max(rows, 1)


def _in_chunks(input, linear_weight, target, bias, weight, reduction, ignore_index, rows):
    """Losses of `rows` rows at a time, reduced at the end."""
    if target.device.is_gpu:                            # of whose parts the host knows nothing
        check_labels("linear_cross_entropy", linear_weight.shape[0], target, ignore_index)
    parts = [cross_entropy(linear(input[i:i + rows], linear_weight, bias), target[i:i + rows], weight, ignore_index=ignore_index,
                           reduction="none") for i in range(0, input.shape[0], rows)]
    losses = cat(parts)
    if reduction != "mean":
        return sum(losses) if reduction == "sum" else losses
    kept = target != ignore_index
    counts = cast(kept, losses.dtype) if weight is None else where_op(kept, weight[where_op(kept, target, 0)], 0.0)
    return mean(losses) / mean(counts)


def _np_linear_cross_entropy(x, linear_weight, target, **options):
    return np_cross_entropy((x @ linear_weight.reshape(-1, x.shape[1]).T).reshape(len(x), *linear_weight.shape[:-1]), target, **options)


@composed(samples=(case((4, 3), (5, 3), Labels((4,), 5)), case((2, 3), (4, 2, 3), Labels((2, 2), 4), reduction="none"),
                   case((4, 3), (5, 3), Labels((4,), 5), ignore_index=2, label_smoothing=0.2),
                   case((2, 3), (4, 3), (2, 4), reduction="sum")), numpy=_np_linear_cross_entropy, domain=(0.1, 1.0), rtol=2e-5,
          function=False, method=False, takes={"input": "f", "linear_weight": "=input", "target": "fi"})
def linear_cross_entropy(input: Tensor, linear_weight: Tensor, target: Tensor, *, linear_bias: Tensor | None = None,
                         weight: Tensor | None = None, reduction: str = "mean", ignore_index: int | None = None,
                         label_smoothing: float = 0.0, options: object = None) -> Tensor:
    """`cross_entropy` of the logits input @ linear_weight.T + linear_bias.

    Shape: (N, in) or (in,), linear_weight (C, ..., in), linear_bias (C, ...); target (N, ...) or, for probabilities, (N, C, ...).
    Raises: ShapeError where they do not fit; ArgumentError for an ignore_index beside probabilities.

    >>> volta.nn.functional.linear_cross_entropy(volta.ones(1, 2), volta.ones(4, 2), volta.tensor([0]))
    tensor(1.3863)
    """
    if input.ndim not in (1, 2) or linear_weight.ndim < 2 or input.shape[-1] != linear_weight.shape[-1] or (
            input.ndim == 1 and linear_weight.ndim > 2):
        raise ShapeError(f"linear_cross_entropy: input {input.shape} does not fit linear_weight {linear_weight.shape}: needed are (N, in) "
                         "and (C, ..., in), or (in,) and (C, in)")
    outputs = linear_weight.shape[:-1]
    if linear_bias is not None and linear_bias.shape != outputs:
        raise ShapeError(f"linear_cross_entropy: linear_bias must have shape {outputs}, got {linear_bias.shape}")
    shape = input.shape[:-1] + outputs
    if target.shape == shape and ignore_index is not None:
        raise ArgumentError(f"linear_cross_entropy: ignore_index={ignore_index} is a label, but the target holds probabilities")
    ignore_index = -100 if ignore_index is None else ignore_index
    if options is not None:
        if not isinstance(options, LinearCrossEntropyOptions):
            raise ArgumentError(f"linear_cross_entropy: options must be LinearCrossEntropyOptions, got {type(options).__name__}")
        if linear_weight.ndim == 2 and reduction in ("mean", "sum", "none") and not label_smoothing and target.dtype is int64:
            rows = options.rows(input.shape[0] if input.ndim == 2 else 1, *linear_weight.shape[::-1], input.dtype in HALVES)
            if input.ndim == 2 and rows < input.shape[0] and target.shape == input.shape[:1]:
                return _in_chunks(input, linear_weight, target, linear_bias, weight, reduction, ignore_index, rows)
        else:
            warnings.warn("linear_cross_entropy: options are not used: chunks need int64 labels, a linear_weight of two dimensions and no "
                          "label_smoothing", stacklevel=3)
    bias = None if linear_bias is None else reshape_op(linear_bias, shape=(linear_bias._size,))
    logits = linear(input, reshape_op(linear_weight, shape=(math.prod(outputs), input.shape[-1])), bias)
    return cross_entropy(reshape_op(logits, shape=shape), target, weight, ignore_index=ignore_index, reduction=reduction,
                         label_smoothing=label_smoothing)
