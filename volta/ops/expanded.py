"""Changes in place of tensors whose places share elements, since they are expanded, where PyTorch makes them: an element gets what was
written last to one of its places. Asked where such a change has been refused; knows which functions, and no kernel.
"""
from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

from volta._kernels.core import TensorBase, graph, inplace, stands_in, view
from volta._kernels.core.grad_mode import call_under
from volta._kernels.core.inplace import repeated
from volta.dtypes import bool_
from volta.ops.copy import copy_into
from volta.ops.creation import arange, zeros
from volta.ops.records.index import gather_op
from volta.ops.records.math import where_op
from volta.ops.records.reduce import amax_op, sum_op
from volta.ops.records.view import clone_op, contiguous_op, expand_op, reshape_op, slice_op

if TYPE_CHECKING:
    from collections.abc import Callable

    from volta.tensor import Tensor

# Methods that PyTorch's kernels let write so, and whether it says that this is deprecated.
_TAKEN = {"masked_fill_": True, "index_fill_": True, "index_put_": True, "tril_": False, "triu_": False, "threshold_": False}


def changed(name: str, input: Tensor, change: Callable, others: tuple = (), mark: Callable | None = None) -> bool:
    """Make `change(a whole tensor)` to what `input` shows, if `name` is one of these functions; whether that was so. `mark` makes the
    change to truth values, where it can be one to what was there before."""
    if name == "nan_to_num_" and not input.dtype.is_floating_point:
        return True                             # nothing to change
    if name not in _TAKEN or not isinstance(input, TensorBase) or not repeated(input) or stands_in(input):
        return False
    recorded = _recorded(name, input, others)
    if _TAKEN[name]:
        warnings.warn(f"{name}: of expanded tensors it is deprecated; clone() them before (also for x[mask] = 1, x[indices] = values)",
                      stacklevel=4)
    call_under(recorded, _change, (input, change, mark, recorded), {})
    return True


def _recorded(name, input, others):
    """Whether a change by these is recorded, which of a leaf is refused."""
    recorded = graph.is_grad_enabled() and any(x.requires_grad for x in (input, *others) if isinstance(x, TensorBase))
    if recorded:
        inplace.check_inplace(name[:-1], elements(input))
    return recorded


def _change(input, change, mark, recorded):
    whole, before = contiguous_op(input), contiguous_op(input)
    change(whole)
    if mark is None:
        where = whole != before
    else:
        mark(where := zeros(*input.shape, dtype=bool_, device=input.device))
    for d in reversed(_shared(input)):
        n = input.shape[d]
        steps = reshape_op(arange(n, device=input.device), shape=(n,) + (1,) * (input.ndim - d - 1))
        last = amax_op(where_op(where, expand_op(steps, shape=where.shape), -1), dim=(d,), keepdim=True)
        whole, where = gather_op(whole, last.clamp(min=0), dim=d), last >= 0
    narrow = elements(input) if recorded else _narrow(input)
    (inplace.overwrite if recorded else copy_into)(narrow, where_op(where, whole, clone_op(narrow)))


def added(input: Tensor, others: tuple, add: Callable) -> bool:
    """The same of a change that adds: `add(zeros)` is added over all places of an element."""
    if not repeated(input) or stands_in(input) or input.dtype is bool_:
        return False
    recorded = _recorded("index_put_", input, others)
    warnings.warn("index_put_: of expanded tensors it is deprecated; clone() them before", stacklevel=4)
    call_under(recorded, _add, (input, add, recorded), {})
    return True


def _add(input, add, recorded):
    add(whole := zeros(*input.shape, dtype=input.dtype, device=input.device))
    (elements(input) if recorded else _narrow(input)).add_(sum_op(whole, dim=tuple(_shared(input)), keepdim=True))


def _shared(input):
    """The dimensions that repeat elements."""
    return [d for d, (n, step) in enumerate(zip(input.shape, input._strides)) if step == 0 and n > 1]


def _narrow(input):
    """The elements alone."""
    return view(input, _sizes(input), input._strides, input.offset)


def _sizes(input):
    return tuple(1 if step == 0 else n for n, step in zip(input.shape, input._strides))


def elements(input: Tensor) -> Tensor:
    """Each element once, as a view that is recorded."""
    return slice_op(input, starts=(0,) * input.ndim, sizes=_sizes(input), steps=(1,) * input.ndim)
