"""Records of the scans along one dimension."""
from __future__ import annotations

import numpy as np

from volta.ops.records.view import slice_op
from volta.ops.table import case, register


def _reversed(x, dim):
    """The elements along `dim` in reverse order, as a view."""
    return slice_op(x, starts=tuple([n - 1 if d == dim and n else 0 for d, n in enumerate(x.shape)]), sizes=x.shape,
                    steps=tuple([-1 if d == dim else 1 for d in range(len(x.shape))]))


def _sums_to_the_end(g, dim):
    """What follows each element, and itself, added: the derivative of running sums."""
    return _reversed(cumsum_op(_reversed(g, dim), dim=dim), dim)


cumsum_op = register(
    "cumsum", ("x",), names=("input",), family="scan", takes="f", vjp=(_sums_to_the_end,),
    numpy=lambda x, dim: np.cumsum(x, dim) if x.ndim else x, rtol=2e-5,
    cases=(case((3, 4), dim=1), case((3, 4), dim=0), case((2, 3, 5), dim=1), case((700,), dim=0), case((3000,), dim=0),
           case((40, 60), dim=0), case((0, 3), dim=1), case((), dim=0)))
