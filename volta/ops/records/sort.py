"""Records of sorting, of what undoes it, and of searching in what is sorted."""
from __future__ import annotations

import numpy as np

from volta.ops.records.copy import cast
from volta.ops.records.index import gather_op
from volta.ops.records.math import isnan
from volta.ops.records.reduce import sum_op
from volta.ops.table import Derived, case, register

_CASES = (case((3, 5), dim=1), case((5, 3), dim=0, descending=True), case((2, 40, 3), dim=1, count=4), case((7,), dim=0, count=5),
          case((700,), dim=0), case((400, 3), dim=0), case((3, 2500), dim=1), case((2500, 2), dim=0, descending=True),
          case((5000,), dim=0, count=30), case((4, 50), dim=1, count=3), case((2050, 2), dim=0, count=3, descending=True),
          case((0, 3), dim=1), case((3, 0), dim=1))


def order(x: np.ndarray, dim: int, descending: bool = False) -> np.ndarray:
    """The places of the elements along dim in a stable order, for references. NaN is beyond all numbers."""
    if not descending:
        return np.argsort(x, dim, kind="stable")
    return x.shape[dim] - 1 - np.flip(np.argsort(np.flip(x, dim), dim, kind="stable"), dim)


def _np_sort(x, dim, descending=False, count=None):
    indices = np.take(order(x, dim, descending), np.arange(x.shape[dim] if count is None else count), dim)
    return np.take_along_axis(x, indices, dim), indices


def _np_middle(x, dim, skip=False, place=None):
    values, indices = _np_sort(x, dim)
    if place is not None:
        return np.take(values, [place], dim), np.take(indices, [place], dim)
    numbers, n = (~np.isnan(values)).sum(dim, keepdims=True), x.shape[dim]
    place = np.maximum(numbers - 1, 0) // 2 if skip else np.where(numbers == n, (n - 1) // 2, np.minimum(numbers, n - 1))
    return np.take_along_axis(values, place, dim), np.take_along_axis(indices, place, dim)


def _np_scatter(g, index, dim, size):
    out = np.zeros(g.shape[:dim] + (size,) + g.shape[dim + 1:], g.dtype)
    np.put_along_axis(out, index, g, dim)
    return out


def _np_search(sorted, values, right=False):
    side = "right" if right else "left"
    if sorted.ndim == 1:
        return np.asarray(np.searchsorted(sorted, values, side))
    lines = [np.searchsorted(a, v, side) for a, v in zip(sorted.reshape(-1, sorted.shape[-1]), values.reshape(-1, values.shape[-1]))]
    return np.array(lines, np.int64).reshape(values.shape)


def _places(count, size):
    """Different places for the entries of each line along dimension 1."""
    return Derived(lambda g: np.argsort(np.random.default_rng(0).random((len(g), size)), 1)[:, :count])


sort_op = register(
    "sort", ("x",), names=("input",), outputs=("values", "indices"), family="sort", takes="fib", kinds="fib", numpy=_np_sort,
    cases=_CASES, domain=(-900.0, 900.0),        # far apart, for finite differences
    vjp=(lambda g, indices, x_shape, dim: scatter_unique(g, indices, dim=dim, size=x_shape[dim]),))
middle_op = register(
    "middle", ("x",), names=("input",), outputs=("values", "indices"), family="sort", takes="fi", kinds="fi", numpy=_np_middle,
    domain=(-900.0, 900.0), cases=tuple(case(s, dim=d, skip=skip) for s, d in (
        ((3, 5), 1), ((4, 3), 0), ((2, 40, 3), 1), ((19, 6), 1), ((700,), 0)) for skip in (False, True)) + (
            case((3, 300), dim=1, place=200), case((70, 3), dim=0, place=0)),
    vjp=(lambda g, indices, x_shape, dim: scatter_unique(g, indices, dim=dim, size=x_shape[dim]),))


def _np_median(x, skip=False):
    return _np_middle(x.reshape(-1), 0, skip)[0].reshape(())


def _shared(g, x, out):
    """The gradient, in equal parts for the elements that are the median; all NaN are, where it is."""
    hit = cast((x == out) | isnan(x) & isnan(out), g.dtype)
    return hit * (g / sum_op(hit, dim=tuple(range(x.ndim)), keepdim=False))


median_all_op = register(
    "median_all", ("x",), names=("input",), family="sort", takes="fi", kinds="fi", numpy=_np_median, domain=(-900.0, 900.0), vjp=(_shared,),
    cases=tuple(case(shape, skip=skip) for shape in ((), (1,), (7,), (3, 4), (2, 40, 3)) for skip in (False, True)))


def _np_longest_run(x, dim):
    def end(line):
        starts = np.flatnonzero(np.r_[True, ~(line[1:] == line[:-1])])
        sizes = np.diff(np.r_[starts, len(line)])
        return starts[sizes.argmax()] + sizes.max() - 1
    return np.expand_dims(np.apply_along_axis(end, dim, x), dim)


_RUNS = Derived(lambda: np.sort(np.arange(63.0).reshape(3, 21) % 7, 1))
longest_run = register(
    "longest_run", ("x",), family="sort", takes="fib", kinds="fi", numpy=_np_longest_run, smooth=False,
    cases=(case(_RUNS, dim=1), case(Derived(lambda: np.arange(5.0)), dim=0),
           case(Derived(lambda: np.sort(np.arange(900.0) % 11)[:, None] + np.zeros(2)), dim=0)))
scatter_unique = register(
    "scatter_unique", ("g", "index"), family="sort", takes={"g": "fib", "index": "int64"}, numpy=_np_scatter,
    vjp=(lambda gg, index, dim: gather_op(gg, index, dim=dim), None),
    cases=(case((3, 4), _places(4, 4), dim=1, size=4), case((3, 4), _places(4, 9), dim=1, size=9),
           case((2, 1500), _places(1500, 2000), dim=1, size=2000)))
_LINE, _LINES = Derived(lambda: np.arange(12.0)), Derived(lambda: np.sort(np.arange(36.0).reshape(3, 12) % 7, 1))
searchsorted_op = register(
    "searchsorted", ("sorted", "values"), family="sort", takes={"sorted": "fi", "values": "=sorted"}, kinds="fi", numpy=_np_search,
    domain=(-2.0, 9.0), cases=(case(_LINE, (4, 5)), case(_LINE, (4, 5), right=True), case(_LINE, ()), case(_LINES, (3, 700)),
                               case(_LINES, (3, 4), right=True), case(Derived(lambda: np.zeros(0)), (3,))))
