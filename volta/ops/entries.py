"""Elements and slices combined with those of a tensor where it lies, unrecorded: what functions in place of `scatter.py` come to, and what
those and others of its kind check."""
from __future__ import annotations

from typing import TYPE_CHECKING

from volta._kernels.core import TensorBase, inplace
from volta._kernels.core.call import run_kernel
from volta._kernels.core.direct import bare
from volta._kernels.core.entries import combined
from volta.device import mixed_devices
from volta.dtypes import as_integer, check_held, int64
from volta.errors import DTypeError, RankError, warn_once
from volta.ops.indexing import as_vector, check_integers, one_for_each, positions, takes_entries
from volta.ops.records.create import full_op
from volta.ops.records.index import index_put_op, scatter_add_into_op, scatter_reduce_into_op
from volta.shapes import as_dim

if TYPE_CHECKING:
    from volta.tensor import Tensor
    from volta.types import Number

BETA = "index_reduce: it is in beta in PyTorch, where its interface may change"


def alike(op: str, x: Tensor, index: Tensor, source: Tensor) -> tuple[Tensor, Tensor]:
    """Index and source on the device of x.

    Raises: DTypeError unless the source has the dtype of x.
    """
    if source.dtype is not x.dtype:
        raise DTypeError(f"{op}: the source is {source.dtype} and the input {x.dtype}; cast one of them")
    if source.device is not x.device or index.device is not x.device:
        _, index, source = mixed_devices(index_put_op, (x, index, source), None)
    return index, source


def as_held(x: Tensor, value: Number) -> Number:
    """A number as x can hold it."""
    if x.dtype.is_floating_point:
        if not -65504.0 <= value <= 65504.0:
            check_held(x.dtype.name, value, x.dtype)
        return value
    return bool(value) if x.dtype.code == 0 else as_integer(x.dtype.name, value, x.dtype)


def slices_of(op, d, input, index, source):
    """Index, a vector, and source, one slice of the input for each of its positions."""
    if index.ndim > 1:
        raise RankError(f"{op}: index must be a vector or one number, got shape {index.shape}")
    if op == "index_copy" and source.ndim != input.ndim and source.shape and input.shape:
        raise RankError(f"{op}: source {source.shape} must have as many dimensions as input {input.shape}")
    check_integers(op, index)
    index, source = alike(op, input, index, source)
    slices = input.shape[:d] + (index._size,) + input.shape[d + 1:] if input.shape else (index._size,)
    if (source.shape or (1,)) != slices or op == "index_reduce" and not input.shape and source.shape:
        raise RankError(f"{op}: source {source.shape} must be like input {input.shape} with one slice along dimension {d} for each of "
                         f"the positions {index.shape}")
    return as_vector(index), source


def _combined_in_place(op, input, d, index, source, reduce):
    """The input, whose elements are combined with those that the index sends to them, or for "last" overwritten; None on a GPU, which
    would copy all the same, where a graph is wanted, or the index does not name a place for each element."""
    if (found := combined(input, d, index, source, reduce, True, False)) is not None:
        return found
    if input.device.is_gpu or not takes_entries(input, index, source) or not one_for_each(input, d, index, source):
        return None
    inplace.check_elements(op, input)
    at = positions(op, index, input._shape[d], kernel_checks=True)
    if reduce == "sum":
        run_kernel(scatter_add_into_op, input.device, (input, source, at), {"dim": d})
    else:
        run_kernel(scatter_reduce_into_op, input.device, (input, source, at), {"dim": d, "reduce": reduce})
    return input


_REDUCTIONS = {None: "last", "add": "sum", "multiply": "prod"}


def scatter_in_place(input, dim, index, src=None, *, value=None, reduce=None):
    """See `Places.one`."""
    if src is None:
        src, value = value, None
    if value is None and not (reduce and isinstance(src, TensorBase)) and reduce in _REDUCTIONS and (
            found := combined(input, dim, index, src, _REDUCTIONS[reduce], True, False, True)) is not None:
        return found
    if value is not None or reduce is not None:
        return None
    if type(src) is int or type(src) is float and input.dtype.is_floating_point:
        if not isinstance(index, TensorBase) or not bare(input, index) or input.dtype.itemsize < 4:
            return None
        src = run_kernel(full_op, input.device, (index._shape, as_held(input, src)), {"dtype": input.dtype, "device": input.device})
    elif not isinstance(src, TensorBase):
        return None
    return _combined_in_place("scatter", input, as_dim("scatter", dim, input.ndim), index, src, "last")


def scatter_reduce_in_place(input, dim, index, src, reduce, *, include_self=True):
    """See `Places.one`."""
    if reduce == "mean":
        return combined(input, dim, index, src, reduce, True, False, False, not include_self)
    if not include_self or reduce not in ("sum", "prod", "amax", "amin") or not isinstance(index, TensorBase) or index.dtype is not int64:
        return None
    return _combined_in_place("scatter_reduce", input, as_dim("scatter_reduce", dim, input.ndim), index, src, reduce)


def index_reduce_in_place(input, dim, index, source, reduce, *, include_self=True):
    """See `Places.one`."""
    if reduce == "mean":
        warn_once(BETA)
        return combined(input, dim, index, source, reduce, True, True, False, not include_self)
    if input.device.is_gpu or not include_self or reduce not in ("prod", "amax", "amin") or input.dtype.code == 0 or not (
            isinstance(index, TensorBase) and isinstance(source, TensorBase) and index._size and takes_entries(input, index, source)):
        return None
    warn_once(BETA)
    if (found := combined(input, dim, index, source, reduce, True, True)) is not None:
        return found
    d = as_dim("index_reduce", dim, input.ndim)
    index, source = slices_of("index_reduce", d, input, index, source)
    inplace.check_elements("index_reduce", input)
    index = positions("index_reduce", index, input._shape[d])
    run_kernel(scatter_reduce_into_op, input.device, (input, source, index), {"dim": d, "reduce": reduce})
    return input


for _each in (scatter_in_place, scatter_reduce_in_place, index_reduce_in_place):
    _each.every = True
