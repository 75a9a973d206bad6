"""Attention: `scaled_dot_product_attention`."""
from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from volta.dtypes import bool_, float16, float32
from volta.errors import ArgumentError, DTypeError, ShapeError
from volta.ops import creation
from volta.ops.records.attention import attention_op, np_attention, probabilities, weighted
from volta.ops.records.copy import cast
from volta.ops.records.math import log
from volta.ops.records.view import expand_op, permute_op, reshape_op
from volta.ops.repeats import repeat_interleave
from volta.ops.table import Flags, case, composed
from volta.shapes import broadcast_shapes, broadcasts_to

if TYPE_CHECKING:
    from volta.tensor import Tensor

__all__ = ["scaled_dot_product_attention"]

WIDEST = 256                # heads beyond are composed of products and softmax


def _np_sdpa(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, *, scale=None, enable_gqa=False):
    least = 3 if enable_gqa else 2
    lead = np.broadcast_shapes(*[x.shape[:-least] for x in (query, key, value)]) + query.shape[-3:-2] * enable_gqa
    shape, batch = (*lead, query.shape[-2], key.shape[-2]), math.prod(lead[:-1])

    def heads_last(x):
        x = np.broadcast_to(x, lead[:len(lead) + 2 - least] + x.shape[-least:])
        return x.reshape(batch, x.shape[-3] if x.ndim > 2 else 1, *x.shape[-2:]).swapaxes(1, 2)

    if attn_mask is not None:
        attn_mask = np.where(attn_mask, 0.0, -np.inf) if attn_mask.dtype == bool else attn_mask
        attn_mask = np.broadcast_to(attn_mask, shape).reshape(batch, -1, *shape[-2:])
    out = np_attention(heads_last(query), heads_last(key), heads_last(value), attn_mask, is_causal,
                       1 / math.sqrt(query.shape[-1]) if scale is None else scale)[0]
    return out.swapaxes(1, 2).reshape(*shape[:-1], value.shape[-1])


@composed(samples=(case((2, 3, 5, 4), (2, 3, 7, 4), (2, 3, 7, 6)), case((3, 5, 4), (5, 4), (3, 5, 4), is_causal=True),
                   case((5, 4), (6, 4), (6, 2), Flags((5, 6)), scale=0.7), case((2, 1, 4, 5, 4), (3, 1, 6, 4), (6, 3), (3, 1, 1, 6)),
                   case((2, 6, 5, 4), (2, 2, 7, 4), (2, 3, 7, 6), enable_gqa=True), case((2, 4, 3, 4), (4, 0, 4), (4, 0, 3)),
                   case((2, 1, 260), (1, 2, 260), (1, 2, 4), enable_gqa=True)),
          numpy=_np_sdpa, rtol=1e-4, function=False, method=False, takes={"query": "f", "key": "=query", "value": "=query"})
def scaled_dot_product_attention(query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = None, dropout_p: float = 0.0,
                                 is_causal: bool = False, *, scale: float | None = None, enable_gqa: bool = False) -> Tensor:
    """softmax(scale * query @ key.T + attn_mask) @ value, without a matrix of scores in memory; scale None is 1 / sqrt(E).

    A bool mask is True where a key takes part, any other is added; is_causal lets query i see keys 0 .. i. A query that may see no key
    gives zeros. With enable_gqa, the heads of key and value divide those of query. dropout_p > 0, and widths above 256, take memory
    for the scores.

    Shape: (..., heads, L, E), (..., heads, S, E), (..., heads, S, Ev), mask broadcast to (..., heads, L, S) -> (..., heads, L, Ev).
    Raises: ShapeError, DTypeError, ArgumentError where the arguments do not fit.
    Source: Dao 2023, "FlashAttention-2".

    >>> q = k = volta.tensor([[1.0, 0.0], [0.0, 1.0]])
    >>> volta.nn.functional.scaled_dot_product_attention(q, k, volta.tensor([[1.0], [3.0]]), is_causal=True)
    tensor([[1.0000],
            [2.3395]])
    """
    lead = _check(query, key, value, attn_mask, dropout_p, enable_gqa)
    heads = lead[-1] if lead else 1
    if enable_gqa and key.shape[-3] != value.shape[-3]:
        key, value = (repeat_interleave(x, heads // x.shape[-3], -3) for x in (key, value))
    q = _heads_last(query, lead, heads)
    k, v = (_heads_last(x, lead, x.shape[-3] if enable_gqa else heads) for x in (key, value))
    mask = None if attn_mask is None else _as_added(attn_mask, query.dtype, lead)
    width, values = query.shape[-1], value.shape[-1]
    scale = 1.0 / math.sqrt(width or 1) if scale is None else float(scale)
    if dropout_p > 0.0 or max(width, values) > WIDEST or 0 in q.shape or 0 in v.shape:
        out = _composed(q, k, v, mask, float(dropout_p), bool(is_causal), scale)
    else:
        out = attention_op(q, k, v, mask, causal=bool(is_causal), scale=scale)[0]
    out = permute_op(out, dims=(0, 2, 1, 3))
    return out if len(lead) == 2 else reshape_op(out, shape=(*lead, query.shape[-2], values))


def _check(query, key, value, mask, dropout_p, enable_gqa):
    """The dimensions of the result but the last two. Raises: what scaled_dot_product_attention says."""
    op, shapes = "scaled_dot_product_attention", [x.shape for x in (query, key, value)]
    least = 3 if enable_gqa else 2
    if min(map(len, shapes)) < least:
        raise ShapeError(f"{op}: query, key and value need at least {least} dimensions, got {', '.join(map(str, shapes))}")
    if shapes[0][-1] != shapes[1][-1] or shapes[1][-2] != shapes[2][-2]:
        raise ShapeError(f"{op}: query (..., L, E), key (..., S, E) and value (..., S, Ev) must agree in E and S, got "
                         f"{', '.join(map(str, shapes))}")
    lead = broadcast_shapes(*[s[:-least] for s in shapes])
    if enable_gqa:
        heads = shapes[0][-3]
        if any(not s[-3] or heads % s[-3] for s in shapes[1:]):
            raise ShapeError(f"{op}: with enable_gqa the heads of key and value must divide those of query, got "
                             f"{', '.join(map(str, shapes))}")
        lead = (*lead, heads)
    if not 0.0 <= dropout_p <= 1.0:
        raise ArgumentError(f"{op}: dropout_p must be a probability in [0, 1], got {dropout_p}")
    if mask is not None:
        if mask.dtype not in (bool_, float32, query.dtype):
            raise DTypeError(f"{op}: attn_mask must be bool, float32 or {query.dtype.name} as query is, got {mask.dtype.name}; "
                             f"convert it with .to({query.dtype})")
        target = (*lead, shapes[0][-2], shapes[1][-2])
        if not broadcasts_to(mask.shape, target):
            raise ShapeError(f"{op}: attn_mask {mask.shape} does not broadcast to the scores' shape {target}")
    return lead


def _heads_last(x, lead, heads):
    """(..., heads, length, width) as (batch, length, heads, width)."""
    shape = (*lead[:-1], heads, *x.shape[-2:]) if lead else x.shape
    x = x if x.shape == shape else expand_op(x, shape=shape)
    if len(shape) != 4:
        x = reshape_op(x, shape=(math.prod(lead[:-1]), heads, *shape[-2:]))
    return permute_op(x, dims=(0, 2, 1, 3))


def _as_added(mask, dtype, lead):
    """A mask to be added to the scores, with four dimensions, of size 1 where it repeats."""
    if mask.dtype is bool_:
        mask = log(cast(mask, dtype))           # 0 and -inf
    elif dtype is not float16:
        mask = cast(mask, dtype)
    shape = (1,) * (len(lead) + 2 - mask.ndim) + mask.shape if len(lead) + 2 > mask.ndim else mask.shape
    if any(n > 1 for n in shape[:-3]) and shape[:-3] != lead[:-1]:
        shape = (*lead[:-1], *shape[-3:])
        mask = expand_op(mask, shape=shape)
    return reshape_op(mask, shape=(math.prod(shape[:-3]), *((1,) + shape)[-3:]))


def _composed(q, k, v, mask, dropout_p, causal, scale):
    """Of products and softmax, in float32 for float16."""
    wide = float32 if q.dtype is float16 else q.dtype
    p = probabilities(cast(q, wide), cast(k, wide), mask, causal, scale)
    return cast(weighted(creation.dropout(p, dropout_p), cast(v, wide)), q.dtype)
