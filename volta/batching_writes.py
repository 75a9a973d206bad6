"""What a mapped function may change: samples, in place; and what composed functions need for it.

A change of a sample is one of the batch that it refers to: what shows another part of that batch changes with it, and the graph is that of
the batch. A tensor that is the same for all samples cannot hold what differs from sample to sample, as in PyTorch; what is made like a
sample, or as a copy into which one is written, therefore is a sample.
"""
from __future__ import annotations

from typing import TYPE_CHECKING

from volta._kernels import core
from volta._kernels.core import inplace
from volta.batching_rules import Call, Sample, levels_of, lifted, lowered, running, sample
from volta.errors import ArgumentError
from volta.layout import contiguous_format
from volta.ops.creation import arange
from volta.ops.indexing import coordinates
from volta.ops.join import stack
from volta.ops.records.view import contiguous_op, part, reshape_op
from volta.shapes import as_shape, listed
from volta.trees import flatten

if TYPE_CHECKING:
    from volta.tensor import Tensor
    from volta.types import Number

# Composed ops that make a tensor like their first argument.
_LIKE = frozenset([*(f"{made}_like" for made in ("zeros", "ones", "empty", "full", "rand", "randn", "randint")),
                   *(f"new_{made}" for made in ("zeros", "ones", "empty", "full"))])
# Those that copy their first argument and write into the copy.
_COPYING = frozenset({"fill", "put", "index_put", "index_copy", "index_fill", "scatter", "scatter_reduce", "select_scatter",
                      "slice_scatter", "diagonal_scatter", "as_strided_scatter"})


# Those that read values, of one sample at a time then.
_READING = frozenset({"lu_unpack", "linalg.lu", "linalg.lu_solve", "linalg.lstsq", "linspace", "logspace", "bincount", "histc", "histogram",
                      "histogramdd"})


def _held(target, *values):
    """Raise where `target` cannot hold what these say for each sample."""
    if not isinstance(target, Sample) or any(not set(levels_of(v)) <= set(levels_of(target)) for v in values):
        raise ArgumentError("vmap: the tensor changed in place has fewer samples than what is written into it; make it like a sample, by "
                            "zeros_like(), new_zeros() or clone(), or use the out-of-place operation")


def written(target: Tensor, value: Tensor | Number) -> Tensor:
    """`target`, a sample, after it became `value`, a number or as large as it is."""
    _held(target, value)
    if isinstance(value, core.TensorBase):
        target.physical.copy_(Call(target.level).of(value))
    else:
        target.physical.fill_(value)
    return target


def put(target: Tensor, rows: Tensor, rank: int, value: Tensor | Number) -> None:
    """target[rows] = value in place, where `rows` are positions in its first `rank` dimensions joined."""
    _held(target, rows, value)
    call = Call(target.level)
    image = reshape_op(arange(call.size, device=target.device), shape=(call.size, 1))
    target.physical[(image, *coordinates(call.of(rows), target.shape[:rank]))] = call.aligned(value, target.ndim - rank + 1)


def shown(target: Tensor, result: Tensor) -> Tensor:
    """`target`, a sample, after it came to show its elements as `result`, a view of it, does."""
    core.assign(target, result)
    target.physical = result.physical
    return target


def _resized(target, *sizes, size=None, memory_format=None):
    """`target`, a sample, of another shape and row-major. Raises: ArgumentError where it would get elements that it does not have."""
    shape = as_shape(*listed("resize_", sizes, size))
    count = core.checked_size(shape)
    if count > target._size or memory_format not in (None, contiguous_format):
        raise ArgumentError(f"vmap: resize_ takes the first elements of a sample, row-major, and {target.shape} has not those of {shape}; "
                            "write what is made so into new_zeros()")
    return shown(target, reshape_op(part(reshape_op(target, shape=(target._size,)), 0, 0, count), shape=shape))


def composed(op, args, options):
    """The result of a composed op that makes a tensor to be written into, reads values, or resizes a sample; NotImplemented for others."""
    if op.name == "resize_" and isinstance(args[0], Sample):
        return _resized(*args, **options)
    if op.name not in _READING and (not args or op.name not in _LIKE and op.name not in _COPYING):
        return NotImplemented
    tensors = [x for x in flatten((args, options))[0] if isinstance(x, core.TensorBase)]
    of = {level for x in (tensors[:1] if op.name in _LIKE else tensors) for level in levels_of(x)}
    levels = [level for level in running() if level in of]
    if op.name in _READING:
        return _one_by_one(op, args, options, levels[-1]) if levels else NotImplemented
    if op.name in _LIKE:
        return _for_each_sample(op.function(*args, **options), levels)
    if len(levels_of(args[0])) == len(levels):
        return NotImplemented
    return op.function(_for_each_sample(args[0], levels), *args[1:], **options)


def _for_each_sample(x, levels):
    """A copy of `x` for each sample of these levels."""
    return lifted(contiguous_op(lowered(x, levels)), levels)


def _one_by_one(op, args, options, level):
    """The results of all samples, stacked."""
    leaves, build = flatten((args, options))
    found = []
    for i in range(level.size):
        args, options = build([x.physical[i] if isinstance(x, Sample) and x.level is level else x for x in leaves])
        results, rebuild = flatten(op(*args, **options))
        found.append(results)
    return rebuild([sample(stack(each), level) for each in zip(*found)])


inplace.configure_batches(written, put, shown)
