"""Attention whose scores a function changes, and whose places a function allows, after torch.nn.attention.flex_attention.

The functions see tensors of all indices at once, where PyTorch calls them for each place: they must be made of operations that
broadcast, as those that PyTorch can compile are.
"""
from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from volta.errors import ArgumentError, ShapeError
from volta.ops.creation import arange, zeros
from volta.ops.linalg import matmul
from volta.ops.records.math import where_op
from volta.ops.reduce import amax, logsumexp, softmax

if TYPE_CHECKING:
    from volta.tensor import Tensor
    from volta.types import DeviceLike

__all__ = ["AuxOutput", "AuxRequest", "BlockMask", "and_masks", "create_block_mask", "create_mask", "flex_attention", "noop_mask",
           "or_masks"]

MaskMod = Callable[..., Any]
_DEFAULT_SPARSE_BLOCK_SIZE = 128


class AuxRequest(NamedTuple):
    """What `flex_attention` is to give beside its output."""
    lse: bool = False
    max_scores: bool = False


class AuxOutput(NamedTuple):
    """What `flex_attention` gives beside its output: of the scores of each query, the logsumexp and the largest."""
    lse: Tensor | None = None
    max_scores: Tensor | None = None


def _places(sizes, device):
    """A tensor of indices for each dimension, which broadcast."""
    return [arange(n, device=device).reshape(*(-1 if i == d else 1 for i in range(len(sizes)))) for d, n in enumerate(sizes)]


def noop_mask(batch: Tensor, head: Tensor, token_q: Tensor, token_kv: Tensor) -> Tensor:
    """Allows every place."""
    return (batch + head + token_q + token_kv) >= 0


def and_masks(*mask_mods: MaskMod) -> MaskMod:
    """Allows what all of these allow."""
    def allowed(b, h, q, kv):
        result = noop_mask(b, h, q, kv)
        for mask in mask_mods:
            result = result & mask(b, h, q, kv)
        return result
    return allowed


def or_masks(*mask_mods: MaskMod) -> MaskMod:
    """Allows what one of these allows."""
    def allowed(b, h, q, kv):
        result = ~noop_mask(b, h, q, kv)
        for mask in mask_mods:
            result = result | mask(b, h, q, kv)
        return result
    return allowed


class BlockMask:
    """Which places attention looks at. PyTorch keeps blocks of it; here it is a mask of all places."""

    def __init__(self, mask: Tensor, mask_mod: MaskMod, block_size: Any) -> None:
        self.mask, self.mask_mod, self.shape = mask, mask_mod, mask.shape
        self.BLOCK_SIZE = (block_size, block_size) if isinstance(block_size, int) else tuple(block_size)

    def to(self, device: DeviceLike) -> BlockMask:
        """On another device."""
        return BlockMask(self.mask.to(device), self.mask_mod, self.BLOCK_SIZE)

    def to_dense(self) -> Tensor:
        """1 for each block of which a place is allowed, else 0."""
        (rows, columns), (*lead, n, m) = self.BLOCK_SIZE, self.shape
        down, across = -(-n // rows), -(-m // columns)
        padded = zeros(*lead, down * rows, across * columns, dtype=self.mask.dtype, device=self.mask.device)
        padded[..., :n, :m] = self.mask
        return padded.reshape(*lead, down, rows, across, columns).any(-1).any(-2).int()

    def sparsity(self) -> float:
        """Percent of places that are in no block with an allowed place."""
        return 100 * (1 - self.to_dense().sum().item() * math.prod(self.BLOCK_SIZE) / math.prod(self.shape))

    def __repr__(self) -> str:
        return f"BlockMask(shape={tuple(self.shape)}, sparsity={self.sparsity():.2f}%)"


def create_mask(mod_fn: MaskMod, B: int | None, H: int | None, Q_LEN: int, KV_LEN: int, device: DeviceLike = None) -> Tensor:
    """A mask (B, H, Q_LEN, KV_LEN) of what `mod_fn(b, h, q_index, kv_index)` allows; None counts as 1."""
    sizes = (B or 1, H or 1, Q_LEN, KV_LEN)
    return mod_fn(*_places(sizes, device)).expand(*sizes)


def create_block_mask(mask_mod: MaskMod, B: int | None, H: int | None, Q_LEN: int, KV_LEN: int, device: DeviceLike = None,
                      BLOCK_SIZE: int | tuple[int, int] = 128, _compile: bool = False) -> BlockMask:
    """What `flex_attention` takes: `create_mask` with its size of blocks."""
    return BlockMask(create_mask(mask_mod, B, H, Q_LEN, KV_LEN, device), mask_mod, BLOCK_SIZE)


def flex_attention(query: Tensor, key: Tensor, value: Tensor, score_mod: Callable[..., Tensor] | None = None,
                   block_mask: BlockMask | None = None, scale: float | None = None, enable_gqa: bool = False, return_lse: bool = False,
                   kernel_options: dict[str, Any] | None = None, *, return_aux: AuxRequest | None = None) -> Any:
    """softmax(score_mod(query key^T scale)) value over (batch, heads, length, width), where `block_mask` allows; a query that may look at
    nothing gets 0. `score_mod(score, batch, head, q_index, kv_index)` gives scores. With `return_lse` also the logsumexp of the scores,
    with `return_aux` an AuxOutput of what is asked for. `kernel_options` choose among kernels of PyTorch.

    Raises: ShapeError; ArgumentError where heads differ without `enable_gqa`.

    >>> x = volta.ones(1, 1, 2, 4)
    >>> causal = volta.nn.flex_attention.create_block_mask(lambda b, h, q, kv: q >= kv, None, None, 2, 2)
    >>> volta.nn.flex_attention.flex_attention(x, x, x.cumsum(2), block_mask=causal)[0, 0, :, 0]
    tensor([1.0000, 1.5000])
    """
    if not query.ndim == key.ndim == value.ndim == 4 or key.shape[:3] != value.shape[:3] or query.shape[3] != key.shape[3]:
        raise ShapeError(f"flex_attention: needs tensors (batch, heads, length, width), got {tuple(query.shape)}, {tuple(key.shape)} and "
                         f"{tuple(value.shape)}")
    if query.shape[1] != key.shape[1]:
        if not enable_gqa or query.shape[1] % key.shape[1]:
            raise ArgumentError(f"flex_attention: {query.shape[1]} heads of queries and {key.shape[1]} of keys need enable_gqa=True, and "
                                "the first a multiple of the second")
        key, value = (x.repeat_interleave(query.shape[1] // key.shape[1], 1) for x in (key, value))
    scores = matmul(query, key.transpose(-2, -1)) * (1 / math.sqrt(query.shape[-1]) if scale is None else scale)
    if score_mod is not None:
        scores = score_mod(scores, *_places(scores.shape, scores.device))
    if block_mask is not None:
        if block_mask.shape[-2:] != scores.shape[-2:]:
            raise ShapeError(f"flex_attention: the mask is for lengths {block_mask.shape[-2:]}, got {tuple(scores.shape[-2:])}")
        scores = where_op(block_mask.mask, scores, -math.inf)
    nowhere = (scores.detach() == -math.inf).all(-1, keepdim=True)
    scores = where_op(nowhere, 0.0, scores)
    out = matmul(where_op(nowhere, 0.0, softmax(scores, -1)), value)
    if not return_lse and return_aux is None:
        return out
    wanted = return_aux or AuxRequest(lse=True)
    found = (reduce(scores, -1, keepdim=True) if want else None for reduce, want in ((logsumexp, wanted.lse), (amax, wanted.max_scores)))
    aux = AuxOutput(*(x if x is None else where_op(nowhere, -math.inf, x).squeeze(-1) for x in found))
    return out, aux.lse if return_aux is None else aux
