"""Records of where elements are other than 0, of which the number has to be read between the two, and of counts of elements."""
from __future__ import annotations

import numpy as np

from volta.ops.table import Derived, Flags, Labels, case, register


def _np_starts(x, block):
    return np.concatenate([[0], np.cumsum([np.count_nonzero(x[i:i + block]) for i in range(0, len(x), block)])])


def _case(size, block, sizes, count):
    return case(Flags((size,)), Derived(lambda x: _np_starts(x, block)), block=block, sizes=sizes, count=count)


def _np_counts(x, low, high, bins, between):
    if low is None and between is None:
        return np.bincount(x.astype(np.int64), minlength=bins)
    return np.histogram(x, bins, between or (low[0], high[0]))[0]


_RANGE = [Derived(lambda *_, v=v: np.full(1, v)) for v in (-1.25, 1.75)]
counts_op = register("counts", ("x", "low", "high"), family="places", takes={"x": "fi", "low": "=x?", "high": "=x?"}, smooth=False,
                     numpy=_np_counts,
                     cases=(case((5000,), *_RANGE, bins=7, between=None), case((0,), *_RANGE, bins=3, between=None),
                            case((5000,), None, None, bins=7, between=(-1.25, 1.75)),
                            case(Labels((5000,), 900), None, None, bins=900, between=None)))
changes_op = register("changes", ("x",), family="places", kinds="fib", takes="fib", smooth=False,
                      numpy=lambda x: np.concatenate([np.ones(min(len(x), 1), bool), x[1:] != x[:-1]]),
                      cases=(case(Labels((9,), 3)), case(Flags((3001,))), case((1,)), case((0,))))
true_starts = register("true_starts", ("x",), family="places", kinds="fib", takes="fib", smooth=False, numpy=_np_starts,
                       cases=(case((1,), block=1024), case((3000,), block=1024), case(Flags((12001,)), block=4096)))
true_places = register("true_places", ("x", "starts"), family="places", takes={"x": "fib", "starts": "int64"}, smooth=False,
                       numpy=lambda x, starts, block, sizes, count: np.stack(np.nonzero(x.reshape(sizes)))[:, :count],
                       cases=(_case(3000, 1024, (30, 100), 900), _case(12000, 4096, (12000,), 4000), _case(60, 4096, (3, 4, 5), 15)))
