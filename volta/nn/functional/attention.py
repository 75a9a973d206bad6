"""Attention: `scaled_dot_product_attention` and `multi_head_attention_forward`."""
from __future__ import annotations

import math
import warnings
from typing import TYPE_CHECKING

import numpy as np

from volta.dtypes import HALVES, bool_, float32
from volta.errors import ArgumentError, AssertedShapeError, DTypeError, ShapeError
from volta.nn.functional.dropouts import dropout
from volta.nn.functional.other import linear
from volta.ops.join import cat, pad
from volta.ops.linalg import matmul
from volta.ops.parts import chunk, unbind
from volta.ops.records.attention import attention_op, np_attention, probabilities, weighted
from volta.ops.records.copy import cast
from volta.ops.records.math import where_op
from volta.ops.records.view import expand_op, permute_op, reshape_op, row_major
from volta.ops.reduce import mean, softmax
from volta.ops.repeats import repeat_interleave
from volta.ops.table import Flags, case, composed
from volta.ops.view import expand, flatten, reshape, squeeze, transpose, unflatten, unsqueeze
from volta.shapes import broadcast_shapes, broadcasts_to

if TYPE_CHECKING:
    from volta.tensor import Tensor

__all__ = ["multi_head_attention_forward", "scaled_dot_product_attention"]

WIDEST = 256                # heads beyond are composed of products and softmax


def _np_sdpa(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, *, scale=None, enable_gqa=False):
    least = 3 if enable_gqa else 2
    lead = np.broadcast_shapes(*[x.shape[:-least] for x in (query, key, value)]) + query.shape[-3:-2] * enable_gqa
    shape, batch = (*lead, query.shape[-2], key.shape[-2]), math.prod(lead[:-1])

    def batched(x):
        x = np.broadcast_to(x, lead[:len(lead) + 2 - least] + x.shape[-least:])
        return x.reshape(batch, x.shape[-3] if x.ndim > 2 else 1, *x.shape[-2:])

    if attn_mask is not None:
        attn_mask = np.where(attn_mask, 0.0, -np.inf) if attn_mask.dtype == bool else attn_mask
        attn_mask = np.broadcast_to(attn_mask, shape).reshape(batch, -1, *shape[-2:])
    out = np_attention(batched(query), batched(key), batched(value), attn_mask, is_causal,
                       1 / math.sqrt(query.shape[-1]) if scale is None else scale)[0]
    return out.reshape(*shape[:-1], value.shape[-1])


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
    groups = key.shape[-3] if enable_gqa else heads
    apart = len(lead) == 1 and not enable_gqa           # then the result is row-major where heads are batches
    q, k, v = _batched(query, lead, heads, apart), _batched(key, lead, groups, apart), _batched(value, lead, groups, apart)
    mask = None if attn_mask is None else _as_added(attn_mask, query.dtype, lead, apart)
    width, values = query.shape[-1], value.shape[-1]
    scale = 1.0 / math.sqrt(width or 1) if scale is None else float(scale)
    if dropout_p > 0.0 or max(width, values) > WIDEST or 0 in q.shape or 0 in v.shape:
        out = _composed(q, k, v, mask, float(dropout_p), bool(is_causal), scale)
    else:
        out = attention_op(q, k, v, mask, causal=bool(is_causal), scale=scale)[0]
    return out if len(lead) == 2 else reshape_op(row_major(out), shape=(*lead, query.shape[-2], values))


def _check(query, key, value, mask, dropout_p, enable_gqa):
    """The dimensions of the result but the last two. Raises: what scaled_dot_product_attention says."""
    op, least = "scaled_dot_product_attention", 3 if enable_gqa else 2
    shapes = q, k, v = query.shape, key.shape, value.shape
    if len(q) < least or len(k) < least or len(v) < least:
        raise ShapeError(f"{op}: query, key and value need at least {least} dimensions, got {', '.join(map(str, shapes))}")
    if q[-1] != k[-1] or k[-2] != v[-2]:
        raise ShapeError(f"{op}: query (..., L, E), key (..., S, E) and value (..., S, Ev) must agree in E and S, got "
                         f"{', '.join(map(str, shapes))}")
    lead = q[:-least]
    if k[:-least] != lead or v[:-least] != lead:
        lead = broadcast_shapes(*[s[:-least] for s in shapes])
    if enable_gqa:
        heads = q[-3]
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
        target = (*lead, q[-2], k[-2])
        if not broadcasts_to(mask.shape, target):
            raise ShapeError(f"{op}: attn_mask {mask.shape} does not broadcast to the scores' shape {target}")
    return lead


def _batched(x, lead, heads, apart):
    """(..., heads, length, width) as (batch, heads, length, width), or with each head as a batch."""
    shape = x.shape
    if len(shape) == 4 and len(lead) == 2 and shape[0] == lead[0] and shape[1] == heads:
        return x
    shape = (*lead[:-1], heads, *shape[-2:]) if lead else shape
    x = x if x.shape == shape else expand_op(x, shape=shape)
    return x if len(shape) == 4 else reshape_op(x, shape=(*((heads, 1) if apart else (math.prod(lead[:-1]), heads)), *shape[-2:]))


def _as_added(mask, dtype, lead, apart):
    """A mask to be added to the scores, with four dimensions, of size 1 where it repeats."""
    mask = _added(mask, dtype) if mask.dtype is bool_ or dtype not in HALVES else mask
    shape = (1,) * (len(lead) + 2 - mask.ndim) + mask.shape if len(lead) + 2 > mask.ndim else mask.shape
    if any(n > 1 for n in shape[:-3]) and shape[:-3] != lead[:-1]:
        shape = (*lead[:-1], *shape[-3:])
        mask = expand_op(mask, shape=shape)
    if apart:
        return reshape_op(mask, shape=(shape[0], 1, *shape[1:]))
    return reshape_op(mask, shape=(math.prod(shape[:-3]), *((1,) + shape)[-3:]))


def _added(mask, dtype, seen=True):
    """A mask of numbers: of a bool one 0 where it is `seen`, else -inf."""
    if mask.dtype is not bool_:
        return cast(mask, dtype)
    return cast(where_op(mask, 0.0, -math.inf) if seen else where_op(mask, -math.inf, 0.0), dtype)


def _composed(q, k, v, mask, dropout_p, causal, scale):
    """Of products and softmax, in float32 for float16 and bfloat16."""
    wide = float32 if q.dtype in HALVES else q.dtype
    p = probabilities(cast(q, wide), cast(k, wide), mask, causal, scale)
    return cast(weighted(dropout(p, dropout_p), cast(v, wide)), q.dtype)


# ---------------------------------------------------------------- with projections
def _np_mha(query, key, value, embed_dim_to_check, num_heads, in_proj_weight, in_proj_bias, bias_k, bias_v, add_zero_attn, dropout_p,
            out_proj_weight, out_proj_bias, need_weights=True, attn_mask=None, key_padding_mask=None, average_attn_weights=True, **options):
    weights = [options[f"{n}_proj_weight"] for n in "qkv"] if in_proj_weight is None else np.split(in_proj_weight, 3)
    biases = [0.0] * 3 if in_proj_bias is None else np.split(in_proj_bias, 3)
    single = query.ndim == 2
    q, k, v = ((x[:, None] if single else x) @ w.T + b for x, w, b in zip((query, key, value), weights, biases))
    if bias_k is not None:
        k, v = (np.concatenate([x, np.repeat(b, x.shape[1], axis=1)]) for x, b in ((k, bias_k), (v, bias_v)))
    extra = (bias_k is not None) + add_zero_attn
    k, v = (np.pad(x, ((0, int(add_zero_attn)), (0, 0), (0, 0))) for x in (k, v))
    q, k, v = (x.reshape(*x.shape[:2], num_heads, -1).transpose(1, 2, 0, 3) for x in (q, k, v))
    scores = q @ k.swapaxes(2, 3) / math.sqrt(q.shape[3])
    for mask, shape in ((attn_mask, (-1, num_heads) if np.ndim(attn_mask) == 3 else (1, 1)), (key_padding_mask, (-1, 1, 1))):
        if mask is not None:
            mask = (np.where(mask, -np.inf, 0.0) if mask.dtype == bool else mask).reshape(*shape, *mask.shape[mask.ndim - 4 + len(shape):])
            scores = scores + np.pad(mask, ((0, 0),) * 3 + ((0, extra),))
    e = np.exp(scores - scores.max(axis=3, keepdims=True))
    p = e / e.sum(axis=3, keepdims=True)
    out = (p @ v).transpose(2, 0, 1, 3).reshape(query.shape[0], -1, embed_dim_to_check) @ out_proj_weight.T
    out = out + (0.0 if out_proj_bias is None else out_proj_bias)
    p = p.mean(axis=1) if average_attn_weights else p
    found = (out[:, 0], p[0]) if single else (out, p)
    return found if need_weights else found[:1] + (None,)


@composed(samples=(case((3, 2, 4), (5, 2, 4), (5, 2, 4), 4, 2, (12, 4), (12,), None, None, False, 0.0, (4, 4), (4,)),
                   case((3, 4), (3, 4), (3, 4), 4, 1, (12, 4), None, (1, 1, 4), (1, 1, 4), True, 0.0, (4, 4), None)),
          numpy=_np_mha, domain=(-0.5, 0.5), rtol=1e-4, function=False, method=False,
          takes={"query": "f", "key": "=query", "value": "=query"})
def multi_head_attention_forward(
        query: Tensor, key: Tensor, value: Tensor, embed_dim_to_check: int, num_heads: int, in_proj_weight: Tensor | None,
        in_proj_bias: Tensor | None, bias_k: Tensor | None, bias_v: Tensor | None, add_zero_attn: bool, dropout_p: float,
        out_proj_weight: Tensor, out_proj_bias: Tensor | None, training: bool = True, key_padding_mask: Tensor | None = None,
        need_weights: bool = True, attn_mask: Tensor | None = None, use_separate_proj_weight: bool = False,
        q_proj_weight: Tensor | None = None, k_proj_weight: Tensor | None = None, v_proj_weight: Tensor | None = None,
        static_k: Tensor | None = None, static_v: Tensor | None = None, average_attn_weights: bool = True,
        is_causal: bool = False) -> tuple[Tensor, Tensor | None]:
    """(output, weights or None): query, key and value projected into heads, scaled dot-product attention, and the heads projected back.

    Bool masks are True where a key is left out, others are added. `need_weights` takes memory for the scores. `is_causal` says that
    `attn_mask` is causal, which then is not read where nothing else needs it.

    Shape: query (L, N, E), key (S, N, K), value (S, N, V), key_padding_mask (N, S), attn_mask (L, S) or (N * heads, L, S) ->
    (L, N, E), weights (N, L, S) or by head (N, heads, L, S); all without N where query has two dimensions.
    Raises: ShapeError, DTypeError, ArgumentError where the arguments do not fit.
    Source: Vaswani et al. 2017, section 3.2.

    >>> x, w = volta.ones(3, 1, 2), volta.ones(6, 2)
    >>> volta.nn.functional.multi_head_attention_forward(x, x, x, 2, 1, w, None, None, None, False, 0.0, w[:2], None)[1]
    tensor([[[0.3333, 0.3333, 0.3333],
             [0.3333, 0.3333, 0.3333],
             [0.3333, 0.3333, 0.3333]]])
    """
    if is_causal and attn_mask is None:
        raise ArgumentError("multi_head_attention_forward: is_causal is a hint about attn_mask; give that too")
    single = query.ndim == 2
    if single:
        query, key, value = each_once(lambda x: unsqueeze(x, 1), query, key, value)
        key_padding_mask = None if key_padding_mask is None else unsqueeze(key_padding_mask, 0)
    weights = (q_proj_weight, k_proj_weight, v_proj_weight) if use_separate_proj_weight else (in_proj_weight,) * 3
    _check_mha(query, key, value, embed_dim_to_check, num_heads, weights, bias_k, bias_v, static_k, static_v)
    q, k, v = _projections((query, key, value), weights if use_separate_proj_weight else in_proj_weight, in_proj_bias, num_heads)
    if bias_k is not None:
        k, v = (cat([x, expand(reshape(b, (1, 1, num_heads, -1)), (len(x), 1, -1, -1))], 1) for x, b in ((k, bias_k), (v, bias_v)))
    q, k, v = (transpose(x, 1, 2) for x in (q, k, v))
    k, v = (x if s is None else reshape_op(s, shape=(*x.shape[:2], *s.shape[1:])) for x, s in ((k, static_k), (v, static_v)))
    if add_zero_attn:
        k, v = (pad(x, (0, 0, 0, 1)) for x in (k, v))
    is_causal = is_causal and key_padding_mask is None and not need_weights
    extra = (bias_k is not None) + bool(add_zero_attn)
    if attn_mask is not None and key_padding_mask is not None and attn_mask.dtype is not key_padding_mask.dtype:
        warnings.warn(f"multi_head_attention_forward: masks of different types, {attn_mask.dtype} and {key_padding_mask.dtype}, are "
                      "deprecated; give both of one", stacklevel=2)
    mask = _merged(None if is_causal else attn_mask, key_padding_mask, q, key.shape[0] if static_k is None else static_k.shape[1], extra)
    dropout_p = dropout_p if training else 0.0
    if need_weights:
        wide = float32 if q.dtype in HALVES else q.dtype
        scores = matmul(cast(q, wide) * (1.0 / math.sqrt(q.shape[3])), transpose(cast(k, wide), 2, 3))
        p = dropout(cast(softmax(scores if mask is None else scores + mask, -1), q.dtype), dropout_p)
        out = matmul(p, v)
        p = mean(p, 1) if average_attn_weights else p
    else:
        out, p = scaled_dot_product_attention(q, k, v, mask, dropout_p, is_causal), None
    first = transpose(query, 0, 1).is_contiguous()      # the batch, in memory
    out = linear(flatten(permute_op(out, dims=(0, 2, 1, 3) if first else (2, 0, 1, 3)), 2), out_proj_weight, out_proj_bias)
    out = transpose(out, 0, 1) if first else out
    return (squeeze(out, 1), None if p is None else squeeze(p, 0)) if single else (out, p)


def _check_mha(query, key, value, width, heads, weights, bias_k, bias_v, static_k, static_v):
    op = "multi_head_attention_forward"
    if query.ndim != 3 or key.ndim != 3 or value.ndim != 3 or key.shape[:2] != value.shape[:2] or key.shape[1] != query.shape[1]:
        raise AssertedShapeError(f"{op}: needs query (L, N, E), key (S, N, K) and value (S, N, V), or all without N, got {query.shape}, "
                         f"{key.shape} and {value.shape}")
    if query.shape[2] != width or heads < 1 or width % heads:
        raise AssertedShapeError(f"{op}: query must have width {width}, a multiple of {heads} heads, got {query.shape}")
    if any(w is None for w in weights):
        raise ArgumentError(f"{op}: give in_proj_weight, or with use_separate_proj_weight q_proj_weight, k_proj_weight and v_proj_weight")
    if (bias_k is None) != (bias_v is None) or bias_k is not None and (static_k is not None or static_v is not None):
        raise ArgumentError(f"{op}: give both bias_k and bias_v or neither, and none with static_k or static_v")
    for name, s in (("static_k", static_k), ("static_v", static_v)):
        if s is not None and (s.ndim != 3 or s.shape[0] != query.shape[1] * heads or s.shape[2] != width // heads):
            raise ShapeError(f"{op}: {name} must have shape ({query.shape[1] * heads}, S, {width // heads}), got {s.shape}")


def each_once(function, *given):
    """`function` of each, of one that stands in several places once."""
    made = {key: function(x) for key, x in {id(x): x for x in given}.items()}
    return [made[id(x)] for x in given]


def _projections(given, weights, bias, heads):
    """Of query, key and value, as (N, L, heads, E / heads): of those that are one tensor by one product, where the weights are one."""
    query, key, value = given
    if isinstance(weights, (tuple, list)):
        biases = (None,) * 3 if bias is None else chunk(bias, 3)
        return [_projected(x, w, b, 1, heads)[0] for x, w, b in zip(given, weights, biases)]
    if query is key is value:
        return _projected(query, weights, bias, 3, heads)
    first, biases = weights.shape[0] // 3, (None,) * 3 if bias is None else chunk(bias, 3)
    if key is value:
        q, = _projected(query, weights[:first], biases[0], 1, heads)
        return q, *_projected(key, weights[first:], None if bias is None else bias[first:], 2, heads)
    return [_projected(x, w, b, 1, heads)[0] for x, w, b in zip(given, chunk(weights, 3), biases)]


def _projected(x, weight, bias, parts, heads):
    """The projections of x (L, N, E) by so many weights, as (N, L, heads, E / heads), made in the order in which x lies in memory."""
    turned = transpose(x, 0, 1)
    made = linear(turned, weight, bias) if turned.is_contiguous() else transpose(linear(x, weight, bias), 0, 1)
    if parts == 1:
        return (unflatten(made, 2, (heads, -1)),)
    return unbind(unflatten(made, 2, (parts, heads, -1)), 2)    # heads before parts: gradients are joined without a copy of each


def _merged(attn_mask, padding_mask, q, keys, extra):
    """Both masks as one to be added to the scores (N, heads, L, S), None for none; `extra` keys at the end are always seen."""
    n, heads, length, _ = q.shape
    allowed = (("attn_mask", attn_mask, {(length, keys): (1, 1, length, keys), (n * heads, length, keys): (n, heads, length, keys)}),
               ("key_padding_mask", padding_mask, {(n, keys): (n, 1, 1, keys)}))
    masks = [_by_score(name, mask, shapes, extra) for name, mask, shapes in allowed if mask is not None]
    if len(masks) == 2 and masks[0].dtype is masks[1].dtype is bool_:
        return cast(where_op(masks[0], -math.inf, where_op(masks[1], -math.inf, 0.0)), q.dtype)
    masks = [_added(mask, q.dtype, False) for mask in masks]
    return masks[0] + masks[1] if len(masks) == 2 else masks[0] if masks else None


def _by_score(name, mask, shapes, extra):
    if mask.dtype is not bool_ and not mask.dtype.is_floating_point:
        raise DTypeError(f"multi_head_attention_forward: {name} must be bool or floating point, got {mask.dtype.name}")
    if mask.shape not in shapes:
        raise ShapeError(f"multi_head_attention_forward: {name} must have shape {' or '.join(map(str, shapes))}, got {mask.shape}")
    mask = reshape_op(mask, shape=shapes[mask.shape])
    return pad(mask, (0, extra)) if extra else mask
