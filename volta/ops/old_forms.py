"""Orders of arguments of older programs, which PyTorch still takes beside today's: factors by position, before the tensors that they
multiply, and several dimensions without a tuple. Knows ops by their names alone."""
from __future__ import annotations

from volta._kernels.core import TensorBase
from volta.errors import warn_once

_FACTOR = {"add": ("alpha", 3), "sub": ("alpha", 3), "addcmul": ("value", 4), "addcdiv": ("value", 4)}     # and how many arguments
_KEY = "factors by position"           # one warning for all of these
_PRODUCTS = {"addmm", "addmv", "addr", "addbmm", "baddbmm"}
_DTYPES = {"norm": 4}                 # a last argument by position, `dtype`: after how many
_SEVERAL = {"squeeze", "count_nonzero", "broadcast_to", "hsplit", "vsplit", "dsplit"}


def reordered(name: str, args: tuple, options: dict) -> tuple[tuple, dict] | None:
    """The arguments in today's order; None where they are in no order of old.

    `add(x, alpha, y)`, `addcmul(x, value, y, z)`; `addmm(beta, x, alpha, a, b)` and, as the method, `x.addmm(beta, alpha, a, b)`, both also
    without alpha; `x.squeeze(0, 2)`; `x.norm(p, dim, keepdim, dtype)`, and with an `out` of None before it.
    """
    place = _DTYPES.get(name)
    if place and "dtype" not in options and (len(args) == place + 1 or len(args) == place + 2 and args[place] is None):
        return args[:place], {**options, "dtype": args[-1]}
    keyword, count = _FACTOR.get(name, ("", 0))
    if keyword and len(args) + ("other" in options) == count and keyword not in options and _is_factor(args[1]):
        if len(args) == 3 == count and not isinstance(args[2], TensorBase):         # two numbers: the second is the factor
            return args[:2], {**options, keyword: args[2]}
        warn_once(f"{name}: {keyword} by position is deprecated; write {keyword}=", _KEY, 4)
        factor = args[1].item() if isinstance(args[1], TensorBase) else args[1]
        return (args[0], *args[2:]), {**options, keyword: factor}
    tensors = tuple([x for x in args if isinstance(x, TensorBase)])
    factors = [x for x in args if isinstance(x, (int, float))]
    if name in _PRODUCTS and len(tensors) == 3 and 4 <= len(args) <= 5 and len(factors) == len(args) - 3:
        method = args[0] is tensors[0]
        if not (options.keys() & {"alpha", "beta"}) and (not method or args[1] is factors[0]) and args[-2] is tensors[1]:
            warn_once(f"{name}: beta and alpha by position are deprecated; write beta= and alpha=", _KEY, 4)
            return tensors, {**options, **dict(zip(("beta", "alpha"), factors))}
    if name in _SEVERAL and len(args) > 2 and all(hasattr(x, "__index__") for x in args[1:]):
        return (args[0], args[1:]), options
    return None


def _is_factor(x):
    """Whether x is a number, or a tensor that PyTorch takes for one."""
    return not isinstance(x, TensorBase) or not x._shape and not x.requires_grad
