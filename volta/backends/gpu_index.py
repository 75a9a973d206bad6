"""Gather, scatter_add, index_select and index_add on the GPU, for every element type.

index_add has two forms: with few entries each output looks at all of them; with many, a first dispatch chains the entries of
each row and a second adds along the chains. Both add in the order of the entries.
"""
from __future__ import annotations

from volta._kernels import core
from volta.backends.gpu_common import COMPUTED, STORED, UINT8, context, new
from volta.backends.gpu_copy import fill_into
from volta.backends.gpu_plans import THREADS, Plans, ceil_div, dense, packer

FEW_ENTRIES = 64            # up to which an index_add is one dispatch
FEW_READS = 1 << 22         # index reads up to which it is, too

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


def index_select(x, index, dim):
    """Slices of x along dim."""
    x, index = dense(x), dense(index)
    shape, dtype, device = x.shape, x.dtype, x.storage.device
    entries = index._size
    inner = _product(shape[dim + 1:])
    out = new(device, shape[:dim] + (entries,) + shape[dim + 1:], dtype)
    if out._size:
        lanes = _lanes(dtype, inner, x.offset)
        plan = _plans.get(("select", device, dtype, lanes))
        ctx, pipeline, pack = plan or _launch("index_select", ("select", device, dtype, lanes), {"V": _bits(dtype, lanes)}, device)
        count = out._size // lanes
        ctx.launch(pipeline, (x.storage.buffer, index.storage.buffer, out.storage.buffer),
                   pack(count, inner // lanes, entries, shape[dim], x.offset // lanes, index.offset), ceil_div(count, THREADS))
    return out


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
        ctx, pipeline, pack = _plans.get(("gather", device, dtype)) or _launch(
            "index_gather", ("gather", device, dtype), {"T": _bits(dtype)}, device)
        ctx.launch(pipeline, (x.storage.buffer, index.storage.buffer, out.storage.buffer),
                   pack(out._size, _product(shape[dim + 1:]), shape[dim], size, x.offset, index.offset),
                   ceil_div(out._size, THREADS))
    return out


def scatter_add(g, index, dim, size):
    """Zeros with `size` along dim, g added at index."""
    g, index = dense(g), dense(index)
    shape, dtype, device = g.shape, g.dtype, g.storage.device
    out = new(device, shape[:dim] + (size,) + shape[dim + 1:], dtype)
    if out._size:
        _add(g, index, out, True, _product(shape[dim + 1:]), shape[dim], size)
    return out


def index_add(g, index, dim, size):
    """Zeros with `size` along dim, slices of g added at index."""
    g, index = dense(g), dense(index)
    shape, dtype, device = g.shape, g.dtype, g.storage.device
    out = new(device, shape[:dim] + (size,) + shape[dim + 1:], dtype)
    if out._size:
        inner, entries = _product(shape[dim + 1:]), shape[dim]
        if entries <= FEW_ENTRIES or out._size * entries <= FEW_READS:
            _add(g, index, out, False, inner, entries, size)
        else:
            _chain(g, index, out, inner, entries, size)
    return out


def index_last(index, size):
    """[size]: 1 + the position of the last entry that names the row, 0 where none does."""
    index = dense(index)
    device = index.storage.device
    out = new(device, (size,), index.dtype)
    if size:
        fill_into(out, 0)
    if size and index._size:
        ctx, pipeline, pack = _plans.get(("last", device)) or _launch("index_last", ("last", device), {}, device)
        ctx.launch(pipeline, (index.storage.buffer, out.storage.buffer), pack(index._size, size, index.offset),
                   ceil_div(index._size, THREADS))
    return out


def _add(g, index, out, full: bool, inner: int, entries: int, size: int) -> None:
    dtype, device = g.dtype, g.storage.device
    lanes = 1 if full else _lanes(dtype, inner, g.offset)
    key = ("add", device, dtype, full, lanes)
    ctx, pipeline, pack = _plans.get(key) or _launch("index_add", key, {"FULL": full, **_sums(dtype, lanes)}, device)
    count = out._size // lanes
    ctx.launch(pipeline, (g.storage.buffer, index.storage.buffer, out.storage.buffer),
               pack(count, inner // lanes, entries, size, g.offset // lanes, index.offset), ceil_div(count, THREADS))


def _chain(g, index, out, inner: int, entries: int, size: int) -> None:
    dtype, device = g.dtype, g.storage.device
    lanes = _lanes(dtype, inner, g.offset)
    ctx, pipeline, pack = _plans.get(("link", device)) or _launch("index_link", ("link", device), {}, device)
    links, heads = ctx.alloc(4 * entries), ctx.alloc(4 * size)
    ctx.launch(pipeline, (index.storage.buffer, links, heads), pack(entries, size, index.offset), ceil_div(entries, THREADS))
    key = ("chain", device, dtype, lanes)
    ctx, pipeline, pack = _plans.get(key) or _launch("index_chain", key, _sums(dtype, lanes), device)
    count = out._size // lanes
    ctx.launch(pipeline, (g.storage.buffer, index.storage.buffer, links, heads, out.storage.buffer),
               pack(count, inner // lanes, entries, size, g.offset // lanes, index.offset), ceil_div(count, THREADS))


KERNELS = {"gather": gather, "scatter_add": scatter_add, "index_select": index_select, "index_add": index_add,
           "index_last": index_last}
