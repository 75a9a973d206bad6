"""Gather, scatter_add, index_select, index_add and index_put on the GPU, for every element type.

Additions have two forms: with few entries each output looks at all of them; with many, the entries are sorted by the row that
they are added to, and each output adds those of its row. Both add in the order of the entries; of very many entries a row adds
up sums of 256.

What one binding cannot hold is seen through windows: of the source and of the output where elements are copied or written, of the
output where they are added. Sources of additions are cut by limits/rows.
"""
from __future__ import annotations

from math import gcd

from volta._kernels import core
from volta.devices.gpu.common import (
    BYTES,
    COMPUTED,
    INT32,
    MAX_RANK,
    STORED,
    UINT8,
    WINDOW_ALIGNMENT,
    collapse,
    context,
    extent,
    max_binding,
    new,
)
from volta.devices.gpu.copy import cat, contiguous, copy_into, fill_into
from volta.devices.gpu.plans import THREADS, Plans, ceil_div, dense, packer, spare, unsigned
from volta.devices.gpu.sort import sorted_places
from volta.errors import BindingLimitError

FEW_ENTRIES = 64            # up to which an addition is one dispatch
FEW_READS = 1 << 22         # index reads up to which it is, too, below MANY_ENTRIES
MANY_ENTRIES = 4096         # from which rows may be so long that their parts are summed first
CHUNK = 256                 # entries of a part
FEW_WINNERS = 1024          # entries up to which those of one place are found by comparing all

_plans = Plans()

def _product(lengths) -> int:
    result = 1
    for n in lengths:
        result *= n
    return result


def _bits(dtype, lanes: int = 1) -> str:
    """Type that copies an element's bits: u32 for all of 32 bits."""
    element = "f16" if STORED[dtype.code] == "f16" else "u32"
    return element if lanes == 1 else f"vec4<{element}>"


def _sums(dtype, lanes: int) -> dict:
    """Overrides of the adding kernels."""
    stored, computed = STORED[dtype.code], COMPUTED[dtype.code]
    if lanes == 4:
        stored, computed = f"vec4<{stored}>", f"vec4<{computed}>"
    overrides = {"V": stored, "A": computed}
    if dtype.code == 0:
        overrides["finish"] = "fn finish(v: A) -> V { return min(v, 1u); }"
    elif dtype is UINT8:
        overrides["finish"] = "fn finish(v: A) -> V { return v & 255u; }"
    return overrides


def _lanes(dtype, inner: int, offset: int) -> int:
    """4 where elements can be handled as vec4."""
    return 4 if dtype.code > 1 and not inner % 4 and not offset % 4 else 1


def _launch(file: str, key: tuple, overrides: dict, device):
    """(ctx, pipeline, packer) from the cache."""
    plan = _plans.get(key)
    if plan is None:
        ctx = context(device)
        pipeline = ctx.pipeline(file, **overrides)
        plan = _plans[key] = (ctx, pipeline, packer(pipeline))
    return plan


# ---------------------------------------------------------------- windows

def _step(ctx) -> int:
    """Elements that fit a window; windows that follow each other at this distance start where bindings may."""
    return (max_binding(ctx) - 2 * WINDOW_ALIGNMENT) // (2 * WINDOW_ALIGNMENT) * (WINDOW_ALIGNMENT // 2)


def _pieces(first: int, stop: int, step: int):
    """(start, length) of the pieces of [first, stop)."""
    return [(start, min(step, stop - start)) for start in range(first, stop, step)]


def _window(t, first: int, count: int):
    """(binding, offset in it) of `count` elements of a dense tensor."""
    itemsize = BYTES[t.dtype.code]
    begin = (t.offset + first) * itemsize
    start = begin // WINDOW_ALIGNMENT * WINDOW_ALIGNMENT
    return (t.storage.buffer, start, -(-(begin + count * itemsize - start) // 16) * 16), (begin - start) // itemsize


def _copy_windows(file: str, overrides: dict, lanes: int, x, index, out, sizes: tuple, whole_index: bool) -> None:
    """index_select or gather in pieces of the output by pieces of what they read."""
    inner, entries, size = sizes
    device = x.storage.device
    ctx, pipeline, pack = _launch(file, (file, device, x.dtype, lanes, "windows"), {**overrides, "WINDOWED": True}, device)
    step = _step(ctx)
    for first, count in _pieces(0, out._size, step):
        target, _ = _window(out, first, count)
        places, index_offset = (index.storage.buffer, index.offset) if whole_index else _window(index, first, count)
        lines = inner * entries
        begin, end = first // lines * size * inner, -(-(first + count) // lines) * size * inner
        for x_first, x_count in _pieces(begin, end, step):
            source, x_offset = _window(x, x_first, x_count)
            ctx.launch(pipeline, (source, places, target),
                       pack(count // lanes, inner // lanes, entries, size, x_offset // lanes, index_offset, first // lanes,
                            x_first // lanes, x_count // lanes), ceil_div(count // lanes, THREADS))


# ---------------------------------------------------------------- copies

def index_select(x, index, dim):
    """Slices of x along dim."""
    x, index = dense(x), dense(index)
    shape, dtype, device = x.shape, x.dtype, x.storage.device
    entries = index._size
    inner = _product(shape[dim + 1:])
    out = new(device, shape[:dim] + (entries,) + shape[dim + 1:], dtype)
    if out._size:
        lanes = _lanes(dtype, inner, x.offset)
        overrides = {"V": _bits(dtype, lanes)}
        key = ("select", device, dtype, lanes)
        ctx, pipeline, pack = _plans.get(key) or _launch("index/select", key, overrides, device)
        count = out._size // lanes
        try:
            ctx.launch(pipeline, (x.storage.buffer, index.storage.buffer, out.storage.buffer),
                       pack(count, inner // lanes, entries, shape[dim], x.offset // lanes, index.offset, 0, 0, 0),
                       ceil_div(count, THREADS))
        except BindingLimitError:
            if index.storage.nbytes > max_binding(ctx):
                return _select_parts(x, index, dim)
            _copy_windows("index/select", overrides, lanes, x, index, out, (inner, entries, shape[dim]), True)
    return out


def _select_parts(x, index, dim):
    """index_select by parts of an index that is larger than one binding."""
    parts = []
    for first, count in _pieces(0, index._size, _step(context(x.storage.device))):
        part = new(index.storage.device, (count,), index.dtype)
        copy_into(part, core.view(index, (count,), (1,), index.offset + first))
        parts.append(index_select(x, part, dim))
    return parts[0] if len(parts) == 1 else cat(*parts, dim=dim)


def gather(x, index, dim):
    """As torch.gather."""
    dtype, device = x.dtype, x.storage.device
    shape, size = index.shape, x.shape[dim]
    narrowed = shape[:dim] + (size,) + shape[dim + 1:]
    if narrowed != x.shape:
        # Other dims of the index may be shorter than those of x.
        x = core.view(x, narrowed, x._strides, x.offset)
    x, index = dense(x), dense(index)
    out = new(device, shape, dtype)
    if out._size:
        inner, overrides = _product(shape[dim + 1:]), {"T": _bits(dtype)}
        key = ("gather", device, dtype)
        ctx, pipeline, pack = _plans.get(key) or _launch("index/gather", key, overrides, device)
        try:
            ctx.launch(pipeline, (x.storage.buffer, index.storage.buffer, out.storage.buffer),
                       pack(out._size, inner, shape[dim], size, x.offset, index.offset, 0, 0, 0), ceil_div(out._size, THREADS))
        except BindingLimitError:
            _copy_windows("index/gather", overrides, 1, x, index, out, (inner, shape[dim], size), False)
    return out


# ---------------------------------------------------------------- additions

def scatter_add(g, index, dim, size):
    """Zeros with `size` along dim, g added at index."""
    return _added(g, index, dim, size, True)


def index_add(g, index, dim, size):
    """Zeros with `size` along dim, slices of g added at index."""
    return _added(g, index, dim, size, False)


def _added(g, index, dim, size, full: bool):
    g, index = dense(g), dense(index)
    shape, dtype, device = g.shape, g.dtype, g.storage.device
    out = new(device, shape[:dim] + (size,) + shape[dim + 1:], dtype)
    if out._size:
        inner, entries = _product(shape[dim + 1:]), shape[dim]
        few = entries <= FEW_ENTRIES or entries < MANY_ENTRIES and out._size * entries <= FEW_READS
        add = _add if few else _add_sorted
        add(g, index, out, full, inner, entries, size)
    return out


def _add(g, index, out, full: bool, inner: int, entries: int, size: int) -> None:
    """Each output looks at all entries of its line."""
    dtype, device = g.dtype, g.storage.device
    lanes = 1 if full else _lanes(dtype, inner, g.offset)
    key = ("add", device, dtype, full, lanes)
    ctx, pipeline, pack = _plans.get(key) or _launch("index/add", key, {"FULL": full, **_sums(dtype, lanes)}, device)
    whole = out.storage.nbytes <= max_binding(ctx)
    for first, count in [(0, out._size)] if whole else _pieces(0, out._size, _step(ctx)):
        target = out.storage.buffer if whole else _window(out, first, count)[0]
        ctx.launch(pipeline, (g.storage.buffer, index.storage.buffer, target),
                   pack(count // lanes, inner // lanes, entries, size, g.offset // lanes, index.offset, first // lanes),
                   ceil_div(count // lanes, THREADS))


def _add_sorted(g, index, out, full: bool, inner: int, entries: int, size: int) -> None:
    """The entries are sorted by row; each output adds those of its row."""
    dtype, device, count = g.dtype, g.storage.device, index._size
    outer = 1 if full else g._size // (entries * inner)
    rows = out._size if full else size
    ctx = context(device)
    keys = _keys(device, index.storage.buffer, index.offset, (inner, entries, size), count, full)
    keys, places = sorted_places(ctx, keys, count, rows)
    if full:
        inner, entries = 1, count
    lanes = _lanes(dtype, inner, g.offset)
    chunks = count // CHUNK if count >= MANY_ENTRIES else 0
    sums = _partial_sums(g, keys, places, lanes, outer, entries, inner, chunks) if chunks else spare(ctx)
    _, pipeline_begin, pack_begin = _plans.get(("starts", device)) or _launch("index/starts", ("starts", device), {}, device)
    key = ("sum", device, dtype, lanes, chunks > 0)
    ctx, pipeline, pack = _plans.get(key) or _launch("index/sum", key, {"PARTS": chunks > 0, **_sums(dtype, lanes)}, device)
    for first, some, target in _row_windows(ctx, out, outer, rows, inner):
        starts = ctx.alloc(4 * some + 4)
        ctx.launch(pipeline_begin, (keys, starts), pack_begin(some + 1, first, count), ceil_div(some + 1, THREADS))
        vectors = outer * some * inner // lanes
        ctx.launch(pipeline, (g.storage.buffer, places, starts, sums, target),
                   pack(vectors, inner // lanes, entries, some, g.offset // lanes, chunks), ceil_div(vectors, THREADS))


def _keys(device, places, offset: int, sizes: tuple, count: int, full: bool):
    """Buffer of the rows that the entries name, for sorting. IN: sizes, the (inner, entries, size) of the shader."""
    ctx, pipeline, pack = _plans.get(("keys", device, full)) or _launch("index/keys", ("keys", device, full), {"FULL": full}, device)
    keys = ctx.alloc(4 * count)
    ctx.launch(pipeline, (places, keys), pack(count, *sizes, offset), ceil_div(count, THREADS))
    return keys


def _partial_sums(g, keys, places, lanes: int, outer: int, entries: int, inner: int, chunks: int):
    """Buffer of the sums of sorted entries, CHUNK at a time."""
    dtype, device = g.dtype, g.storage.device
    key = ("partial", device, dtype, lanes)
    overrides = {name: text for name, text in _sums(dtype, lanes).items() if name != "finish"}
    ctx, pipeline, pack = _plans.get(key) or _launch("index/partial", key, overrides, device)
    vectors = outer * chunks * inner // lanes
    sums = ctx.alloc(4 * outer * chunks * inner)
    ctx.launch(pipeline, (g.storage.buffer, keys, places, sums), pack(vectors, inner // lanes, entries, chunks, g.offset // lanes),
               ceil_div(vectors, THREADS))
    return sums


def _row_windows(ctx, out, outer: int, rows: int, inner: int) -> list:
    """[(first row, how many, binding of the output)]: one, unless the output or the rows' starts are larger than one binding.

    Raises: BindingLimitError where a window would not be a run of rows, or a row does not fit.
    """
    limit = max_binding(ctx)
    if max(out.storage.nbytes, 4 * rows + 4) <= limit:
        return [(0, rows, out.storage.buffer)]
    unit = 128 // gcd(inner, 128)                   # rows after which a binding may start
    step = _step(ctx) // inner // unit * unit
    if outer > 1 or not step:
        raise BindingLimitError(f"index_add: rows of {inner} elements are no windows of at most {limit} bytes")
    return [(first, count, _window(out, first * inner, count * inner)[0]) for first, count in _pieces(0, rows, step)]


# ---------------------------------------------------------------- writing

def index_put(out, index, values, rank, unique=False):
    """In place: out[i] = values[k] where i = index[k] counts the places of the first `rank` dimensions of out; the last k for an i wins.
    values has the shape (n, *out.shape[rank:]), or one element for all. `unique`: no place is named twice."""
    sizes, (strides,) = collapse(out.shape, (out._strides,))
    if len(sizes) > MAX_RANK:
        packed = contiguous(out)
        index_put(packed, index, values, rank, unique)
        return copy_into(out, packed)
    inner, fill = _product(out.shape[rank:]), values._size == 1
    if not index._size or not inner:
        return None
    index, values = dense(index), dense(values)
    step, size = _step(context(out.storage.device)), _product(out.shape[:rank])
    for first, entries in _pieces(0, index._size, max(step if fill else step // inner, 1)):
        places, offset = _window(index, first, entries)
        raw = unique or entries == 1
        keys = places if raw else _winners(out.storage.device, places, offset, entries, size)
        for start, count in _pieces(0, entries * inner, entries * inner if fill else step):
            source, values_offset = _window(values, 0, 1) if fill else _window(values, first * inner + start, count)
            _put(out, sizes, strides, (source, values_offset, keys, offset if raw else 0), (inner, size, start, count), raw, fill)
    return None


def _put(out, sizes: tuple, strides: tuple, operands: tuple, extents: tuple, raw: bool, fill: bool) -> None:
    """The launches for one piece of the values, one for each window of out."""
    source, values_offset, keys, index_offset = operands
    inner, size, first, count = extents
    dtype, device, rank = out.dtype, out.storage.device, len(sizes)
    whole = (inner, sizes[-1], out.offset, 0 if fill else values_offset, count, *strides[:-1])
    aligned = strides[-1] == 1 and not any(n % 4 for n in whole)
    lanes = 4 if aligned else 1
    ctx = context(device)
    windowed = out.storage.nbytes > max_binding(ctx)
    key = ("put", device, dtype, lanes, rank, raw, fill, windowed)
    overrides = {"V": _bits(dtype, lanes), "S": _bits(dtype, 1 if fill else lanes), "RANK": rank, "RAW": raw, "FILL": fill,
                 "WINDOWED": windowed}
    ctx, pipeline, pack = _plans.get(key) or _launch("index/put", key, overrides, device)
    pad = [0] * (MAX_RANK - rank)
    geometry = (*(sizes[-1] // lanes, *sizes[-2::-1]), *pad, *unsigned([strides[-1], *(s // lanes for s in strides[-2::-1])]), *pad)
    windows = [(0, 0, out.storage.buffer)]
    if windowed:
        low, high = (out.offset + n for n in extent(sizes, strides))
        flat, step = core.view(out, (high + 1,), (1,), 0), _step(ctx)
        windows = [(start, n, _window(flat, start, n)[0]) for start, n in _pieces(low // step * step, high + 1, step)]
    for window, some, target in windows:
        ctx.launch(pipeline, (source, keys, target),
                   pack(*geometry, count // lanes, inner // lanes, size, first // lanes, values_offset if fill else values_offset // lanes,
                        index_offset, out.offset // lanes, window // lanes, -(-some // lanes)), ceil_div(count // lanes, THREADS))


def _winners(device, places, offset: int, entries: int, size: int):
    """Buffer of the keys that index_put takes. What this costs depends on the entries, never on how many places there are."""
    ctx = context(device)
    method, helper = 0, spare(ctx)
    if entries > FEW_WINNERS and size <= 8 * entries and 4 * size <= max_binding(ctx):
        method, helper = 1, _last(device, places, offset, entries, size)
    elif entries > FEW_WINNERS:
        method, offset, keys = 2, 0, _keys(device, places, offset, (1, entries, size), entries, False)
        places, helper = sorted_places(ctx, keys, entries, size)
    ctx, pipeline, pack = _plans.get(("winners", device, method)) or _launch(
        "index/winners", ("winners", device, method), {"METHOD": method}, device)
    keys = ctx.alloc(4 * entries)
    ctx.launch(pipeline, (places, helper, keys), pack(entries, size, offset), ceil_div(entries, THREADS))
    return keys


def _last(device, places, offset: int, entries: int, size: int):
    """Buffer of 1 + the last entry for each place, 0 where there is none."""
    out = new(device, (size,), INT32)
    fill_into(out, 0)
    ctx, pipeline, pack = _plans.get(("last", device)) or _launch("index/last", ("last", device), {}, device)
    ctx.launch(pipeline, (places, out.storage.buffer), pack(entries, size, offset), ceil_div(entries, THREADS))
    return out.storage.buffer


KERNELS = {"gather": gather, "scatter_add": scatter_add, "index_select": index_select, "index_add": index_add, "index_put": index_put}
