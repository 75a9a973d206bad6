"""The op records and the functions over them. Importing this package fills the op table, `table.RECORDS` and `table.FUNCTIONS`."""
import numpy as _np

from volta._kernels.core import TensorBase as _TensorBase
from volta._kernels.core import call as _call
from volta._kernels.core import engine as _engine
from volta._kernels.core import graph as _graph
from volta._kernels.core import inplace as _inplace
from volta._kernels.core import record as _record
from volta.device import mixed_devices as _mixed_devices
from volta.errors import DTypeError as _DTypeError
from volta.ops import checks, creation, elementwise, indexing, linalg, movement, reduce, subscript, table, update
from volta.ops.records import conv, loss, norm

__all__ = ["conv", "creation", "elementwise", "table", "indexing", "linalg", "loss", "movement", "norm", "reduce", "subscript", "update"]


def _as_operand(op, value, inputs):
    """A tensor from an operand that is neither a tensor nor a plain Python number."""
    if isinstance(value, (_np.generic, _np.ndarray)) and value.ndim == 0:
        return value.item()
    if isinstance(value, (bool, int, float, list, tuple, _np.ndarray)):
        like = next((x for x in inputs or () if isinstance(x, _TensorBase)), None)
        return creation.tensor(value, device=None if like is None else like.device)
    raise _DTypeError(f"{op.name}: expected tensors or numbers, got {type(value).__name__}")


_record.configure(named=table.named, explain=checks.explain, in_float32=movement.widened)
_call.configure(cast=movement._cast)
_graph.configure(mixed_devices=_mixed_devices, as_operand=_as_operand)
_inplace.configure(cast=movement._cast, contiguous=movement.contiguous_, copy_into=movement._copy_into, mixed_devices=_mixed_devices,
                   as_operand=_as_operand, overwrite=subscript.Overwrite, replace=movement.replace)
_engine.configure(add=elementwise.add, sum_to=movement.sum_to, clone=movement.clone)
_graph.set_operators(elementwise.add, elementwise.sub, elementwise.mul, elementwise.div_)
