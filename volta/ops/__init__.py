"""The op records and the functions over them. Importing this package fills the table `table.PRIMITIVES`."""
from volta._kernels.core import engine as _engine
from volta._kernels.core import graph as _graph
from volta.device import mixed_devices as _mixed_devices
from volta.ops import creation, elementwise, index, linalg, movement, reduce, subscript, table, update
from volta.ops.records import conv, loss, norm

__all__ = ["conv", "creation", "elementwise", "table", "index", "linalg", "loss", "movement", "norm", "reduce", "subscript", "update"]


def _as_operand(op, value, inputs):
    """A tensor from an operand that is neither a tensor nor a plain Python number."""
    import numpy as np

    from volta._kernels.core import TensorBase
    from volta.errors import DTypeError
    if isinstance(value, (np.generic, np.ndarray)) and value.ndim == 0:
        return value.item()
    if isinstance(value, (bool, int, float, list, tuple, np.ndarray)):
        like = next((x for x in inputs or () if isinstance(x, TensorBase)), None)
        return creation.tensor(value, device=None if like is None else like.device)
    raise DTypeError(f"{op.name}: expected tensors or numbers, got {type(value).__name__}")


_graph.configure(cast=movement._cast, contiguous=movement.contiguous_, mixed_devices=_mixed_devices, as_operand=_as_operand,
                 copy_into=movement.copy_into, overwrite=subscript.Overwrite)
_engine.configure(add=elementwise.add, sum_to=movement.sum_to, clone=movement.clone)
_graph.set_operators(elementwise.add, elementwise.sub, elementwise.mul, elementwise.div_)
