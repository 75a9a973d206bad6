"""Records of where elements are other than 0, of which the number has to be read between the two, and of counts of elements."""
from __future__ import annotations

import numpy as np

from volta.ops.table import Derived, Flags, Labels, case, register


def _np_changes(x):
    return np.concatenate([np.ones(min(len(x), 1), bool), x[1:] != x[:-1]])


def _np_starts(x, block, changes, running):
    x = _np_changes(x) if changes else x
    counts = np.array([np.count_nonzero(x[i:i + block]) for i in range(0, len(x), block)])
    return np.concatenate([[0], np.cumsum(counts)]) if running else counts


def _np_places(x, starts, block, sizes, count, changes, running):
    return np.stack(np.nonzero((_np_changes(x) if changes else x).reshape(sizes)))[:, :count]


def _case(size, block, sizes, count, **how):
    how = {"changes": False, "running": True, **how}
    return case(Flags((size,)), Derived(lambda x: _np_starts(x, block, **how)), block=block, sizes=sizes, count=count, **how)


def _values_case(size, block, count, **how):
    return case((size,), Flags((size,)), Derived(lambda x, mask: _np_starts(mask, block, **how)), block=block, count=count, **how)


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
changes_op = register("changes", ("x",), family="places", kinds="fib", takes="fib", smooth=False, numpy=_np_changes,
                      cases=(case(Labels((9,), 3)), case(Flags((3001,))), case((1,)), case((0,))))
true_starts = register("true_starts", ("x",), family="places", kinds="fib", takes="fib", smooth=False, numpy=_np_starts,
                       cases=tuple(case(size, block=block, changes=changes, running=running) for size, block, changes, running in (
                           ((1,), 1024, False, True), ((3000,), 1024, False, True), (Flags((12001,)), 4096, False, True),
                           (Flags((12001,)), 1024, True, False), (Flags((3000,)), 4096, False, False), ((1,), 1024, True, True))))
true_places = register("true_places", ("x", "starts"), family="places", takes={"x": "fib", "starts": "int64"}, smooth=False,
                       numpy=_np_places,
                       cases=(_case(3000, 1024, (30, 100), 900), _case(12000, 4096, (12000,), 4000), _case(60, 4096, (3, 4, 5), 15),
                              _case(12000, 1024, (120, 100), 4000, running=False),
                              _case(3001, 1024, (3001,), 900, running=False, changes=True)))
true_values = register("true_values", ("x", "mask", "starts"), family="places", takes={"x": "fib", "mask": "fib", "starts": "int64"},
                       smooth=False, numpy=lambda x, mask, starts, block, count, changes, running:
                       x[np.flatnonzero(_np_changes(mask) if changes else mask)][:count],
                       cases=(_values_case(3000, 1024, 900, changes=False, running=False),
                              _values_case(12001, 4096, 4000, changes=True, running=False),
                              _values_case(5000, 1024, 2000, changes=False, running=True),
                              _values_case(60, 4096, 15, changes=False, running=False)))
