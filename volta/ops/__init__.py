"""The op records and the functions over them. Importing this package fills the op table: `table.RECORDS` and `table.FUNCTIONS`."""
import sys as _sys

import numpy as _np

from volta import random as _random
from volta._kernels.core import TensorBase as _TensorBase
from volta._kernels.core import call as _call
from volta._kernels.core import engine as _engine
from volta._kernels.core import graph as _graph
from volta._kernels.core import halves as _halves
from volta._kernels.core import inplace as _inplace
from volta._kernels.core import operators as _operators
from volta._kernels.core import overriding as _overriding
from volta._kernels.core import record as _record
from volta.device import as_device as _device
from volta.device import mixed_devices as _mixed_devices
from volta.dtypes import as_dtype as _as_dtype
from volta.errors import DTypeError as _DTypeError
from volta.ops import checks, copy, expanded, from_data, outputs, subscript, table, taking_over
from volta.ops import records as _records
from volta.ops.records import activation as _activations
from volta.ops.records import copy as _copies
from volta.ops.records import math as _math
from volta.ops.records import reduce as _reductions
from volta.ops.records import view as _views

table.import_all(_records)          # every module there, and here, declares ops
__all__ = [_module.__name__.rpartition(".")[2] for _module in table.import_all(_sys.modules[__name__])]


def _as_operand(op, value, inputs):
    """A tensor from an operand that is neither a tensor nor a plain Python number."""
    if isinstance(value, (_np.generic, _np.ndarray)) and value.ndim == 0 and not (op.family == "bitwise" and isinstance(value, _np.bool_)):
        return int(value) if op.name == "sub" and value.dtype == bool else value.item()             # as in PyTorch
    if isinstance(value, (bool, int, float)):
        like = next((x for x in inputs or () if isinstance(x, _TensorBase)), None)
        return from_data.tensor(value, device=None if like is None else like.device)
    if op.name in ("add", "sub") and hasattr(value, "to_dense"):
        return value.to_dense()
    place = next((i for i, x in enumerate(inputs or ()) if x is value), 0)
    raise _DTypeError(f"{op.name}: {op.names[place]} must be a tensor or a number, got {type(value).__name__}")


def _operand_of(other, x):
    """What stands beside the tensor `x` in an operator and is neither a tensor nor a plain Python number, as an op takes it, or
    NotImplemented."""
    if isinstance(other, _np.ndarray):
        return from_data.tensor(other, device=x.device)
    if type(other) is complex:
        raise _DTypeError(f"operators: {other} is complex, and there are no complex tensors; keep real and imaginary parts in tensors of "
                          "their own")
    return other if isinstance(other, _np.generic) or hasattr(type(other), "__volta_function__") or taking_over.takes_over(
        other) else NotImplemented


_random.configure(tensor=from_data.tensor, device=_device)
_record.configure(named=table.named, kinds=checks.kinds, settled=checks.settled, in_float32=copy.widened, fill=outputs.fill)
_overriding.configure(taken=taking_over.taken, overridden=taking_over.overridden)
_call.configure(cast=_copies.cast_op, contiguous=_views.contiguous_op)
_halves.configure(cast=_copies.cast_op)
_graph.configure(mixed_devices=_mixed_devices, as_operand=_as_operand)
_inplace.configure(cast=_copies.cast_op, contiguous=_views.contiguous_op, copy_into=_copies.copy_into_op, mixed_devices=_mixed_devices,
                   as_operand=_as_operand, overwrite=subscript.Overwrite, expanded=expanded.changed, clone=copy.clone, as_dtype=_as_dtype)
_engine.configure(add=_math.add_op, slice=_views.slice_op, joined=_copies.side_by_side, sum_to=_reductions.sum_to,
                  contiguous=_views.contiguous_op, in_order=_views.in_order, tie=_activations.tie, laid=copy.laid)
_operators.configure(_math.add_op, _math.sub_op, _math.mul, _math.div_op, _views.slice_op, _copies.copy_into_op,
                     as_operand=_operand_of, subscript=subscript.getitem)
