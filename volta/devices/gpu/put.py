"""Writing at the positions that an index names, on the GPU, in place; of several entries for one place the last one counts.

Of few entries, the workgroups that write them see by themselves which have a later one for their place; of many, tables or sorting say it.
What one binding cannot hold is seen through windows: of the index and the values, and of what is written to.
"""
from __future__ import annotations

from functools import partial
from math import prod

from volta._kernels.core.order import outermost_first
from volta.devices.gpu.common import INT32, MAX_RANK, THREADS, ceil_div, collapse, extent, row_major
from volta.devices.gpu.copy import contiguous, copy_into
from volta.devices.gpu.gather import bits_of
from volta.devices.gpu.index import add_keys
from volta.devices.gpu.map import add_elementwise
from volta.devices.gpu.plans import At, Kernel, Plan, unsigned
from volta.devices.gpu.sort import add_sort
from volta.devices.gpu.windows import Place, pieces, step_of, window

FEW_WINNERS = 4096          # entries of which workgroups that write them each look at all
TABLE = 4096                # places along a dimension of which each workgroup finds the last entries by itself
CHUNK = 4096                # V's that it then writes


def _index_put(out, index, values, *, rank, unique=False, windows=False):
    """In place: out[i] = values[k] where i = index[k] counts the places of the first `rank` dimensions of out; the last k for an i wins.
    values has the shape (n, *out.shape[rank:]), or one element for all. `unique`: no place is named twice."""
    sizes, (strides,) = collapse(out.shape, (out._strides,))
    if len(sizes) > MAX_RANK:
        return _put_packed
    plan, inner, fill = Plan(out, index, values), prod(out.shape[rank:]), values._size == 1
    if not index._size or not inner:
        return plan
    along = _dim_in_memory(out) if rank == 1 and not windows else 0
    if along and (fill or along == _dim_in_memory(values) and max(out.shape[0], index._size) <= TABLE):
        return _put_along(plan, out, values, along, index._size, unique or fill, fill)
    if not values._contiguous:
        return _put_dense
    geometry = sizes, strides, inner, prod(out.shape[:rank])
    if not windows:
        return _put(plan, out, geometry, index._size, Place(1, At(1)), values, unique, fill, False)
    step = step_of(plan.limit)
    for first, entries in pieces(0, index._size, max(step if fill else step // inner, 1)):
        places = window(1, index.dtype, index.offset + first, entries)
        _put(plan, out, geometry, entries, places, values, unique, fill, True, first)
    return plan


def _dim_in_memory(x) -> int:
    """The dimension whose place in memory the first one has, of a tensor that is else row-major and dense; 0 where there is no other."""
    order = outermost_first(x._strides)
    if order and [d for d in order if d] == list(range(1, len(order))):
        strides = row_major(tuple([x.shape[d] for d in order]))
        if all(x._strides[d] == s for d, s in zip(order, strides)):
            return order.index(0)
    return 0


def _put_along(plan: Plan, out, values, dim: int, entries: int, raw: bool, fill: bool) -> Plan:
    """One step that writes slices along another dimension than the first in memory, in the order in which they lie."""
    inner, size = prod(out.shape[dim + 1:]), out.shape[0]
    width = 1 if inner % 4 or out.offset % 4 or values.offset % 4 and not fill else 4
    count = out._size // size * entries // width
    plan.step("index/copy", (2, 1, 0), (count, inner // width, entries, size, CHUNK, At(2, 1 if fill else width), At(1), At(0, width)),
              ceil_div(count, CHUNK), V=bits_of(out.dtype, width), S=bits_of(out.dtype, 1 if fill else width), RAW=raw, FILL=fill,
              PLACES=1 << max(size - 1, 1).bit_length())
    return plan


def _put_dense(out, index, values, **params):
    KERNELS["index_put"](out, index, contiguous(values), **params)


def _put_packed(out, index, values, **params):
    packed = contiguous(out)
    KERNELS["index_put"](packed, index, values, **params)
    copy_into(out, packed)


def _put(plan: Plan, out, geometry: tuple, entries: int, places: Place, values, unique: bool, fill: bool, windows: bool, first: int = 0):
    """Steps for a run of entries. IN: geometry, (sizes and strides of out, elements of an entry, number of places); first entry."""
    sizes, strides, inner, size = geometry
    raw = unique or fill or entries == 1                    # of one value it is all the same which entry is last
    found = raw or entries <= FEW_WINNERS
    keys = places if found else Place(_add_winners(plan, places, entries, size), 0)
    for start, count in pieces(0, entries * inner, step_of(plan.limit) if windows and not fill else entries * inner):
        source, offset = Place(2, At(2)), values.offset & 3
        if windows:
            source = window(2, values.dtype, values.offset + (0 if fill else first * inner + start), 1 if fill else count)
            offset = source.offset
        _add_put(plan, out, sizes, strides, source, offset, keys, (inner, size, start, count), (raw, entries * found), fill, windows)
    return plan


def _add_put(plan: Plan, out, sizes: tuple, strides: tuple, source: Place, values_offset: int, keys: Place, extents: tuple,
             indexed: tuple, fill: bool, windows: bool) -> None:
    """Steps for one piece of the values, one for each window of out. IN: indexed, whether any entry may be written, and how many entries
    the keys are the index of, 0 where they are those of `index_keys`."""
    inner, size, first, count = extents
    dtype, rank = out.dtype, len(sizes)
    offset = 0 if fill else values_offset
    aligned = strides[-1] == 1 and not any(n % 4 for n in (inner, sizes[-1], out.offset, offset, count, *strides[:-1]))
    width = 4 if aligned else 1
    pad = [0] * (MAX_RANK - rank)
    shape = (*(sizes[-1] // width, *sizes[-2::-1]), *pad, *unsigned([strides[-1], *(s // width for s in strides[-2::-1])]), *pad)
    large = windows and out.storage.nbytes > plan.limit
    targets = [(0, 0, 0)]
    if large:
        low, high = (out.offset + n for n in extent(sizes, strides))
        step = step_of(plan.limit)
        targets = [(start, n, window(0, dtype, start, n).binding) for start, n in pieces(low // step * step, high + 1, step)]
    raw, entries = indexed
    for seen, some, target in targets:
        plan.step("index/put", (source.binding, keys.binding, target),
                  (*shape, count // width, inner // width, size, first // width, source.words(1 if fill else width), keys.words(),
                   At(0, width), seen // width, -(-some // width), entries), ceil_div(count // width, THREADS),
                  V=bits_of(dtype, width), S=bits_of(dtype, 1 if fill else width), RANK=rank, RAW=raw,
                  FIND=entries > 0 and not raw, FILL=fill, WINDOWED=large)


def _add_winners(plan: Plan, places: Place, entries: int, size: int) -> int:
    """Buffer of the keys that index_put takes. What this costs depends on the entries, never on how many places there are."""
    sizes = 1, entries, size
    if size <= 8 * entries and 4 * size <= plan.limit:
        method, helper = "TABLE", plan.scratch(4 * size)        # 1 + the last entry for each place, 0 where there is none
        add_elementwise(plan, "0", (helper,), (size,), ((1,),), INT32)
        plan.step("index/last", (places.binding, helper), (entries, *sizes, places.words()), ceil_div(entries, THREADS))
    else:
        keys, helper = add_sort(plan, add_keys(plan, places, sizes, entries), entries, size)
        method, places = "SORTED", Place(keys, 0)
    return add_keys(plan, places, sizes, entries, False, method, helper)


KERNELS = {"index_put": Kernel("index_put", _index_put, strided=(0, 2), writes=(0,), windows=partial(_index_put, windows=True))}
