"""Linear algebra under the names of torch.linalg: what the op table declares as "linalg.x"."""
from volta.errors import LinAlgError
from volta.ops.table import FUNCTIONS as _FUNCTIONS

globals().update({name.removeprefix("linalg."): op for name, op in _FUNCTIONS.items() if name.startswith("linalg.")})
__all__ = ["LinAlgError", *sorted(name.removeprefix("linalg.") for name in _FUNCTIONS if name.startswith("linalg."))]
