"""Special functions under the names of torch.special: what the op table declares as "special.x"."""
from volta.ops.table import FUNCTIONS as _FUNCTIONS

globals().update({name.removeprefix("special."): op for name, op in _FUNCTIONS.items() if name.startswith("special.")})
__all__ = sorted(name.removeprefix("special.") for name in _FUNCTIONS if name.startswith("special."))
