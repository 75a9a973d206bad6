"""MultiheadAttention, and the layers and stacks of the Transformer."""
from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Any

from volta.errors import ArgumentError, AssertedError, ShapeError
from volta.nn import functional, init
from volta.nn.container import ModuleList
from volta.nn.dropouts import Dropout
from volta.nn.functional.attention import each_once
from volta.nn.linear import Linear, NonDynamicallyQuantizableLinear, sizes
from volta.nn.module import Module
from volta.nn.norm import LayerNorm
from volta.nn.parameter import Parameter
from volta.ops.creation import empty, full
from volta.ops.join import triu
from volta.ops.view import transpose
from volta.tensor import Tensor
from volta.types import DeviceLike, DTypeLike

__all__ = ["MultiheadAttention", "Transformer", "TransformerDecoder", "TransformerDecoderLayer", "TransformerEncoder",
           "TransformerEncoderLayer"]

Activation = str | Callable[[Tensor], Tensor]


class MultiheadAttention(Module):
    """Attention of several heads between a query and keys with values, with projections in and out; gives (output, weights or None).

    Shape: query (L, N, embed_dim), key (S, N, kdim), value (S, N, vdim), batches first with `batch_first`, or without N -> as query.
    Raises: ArgumentError, ShapeError for sizes that do not fit. Source: Vaswani et al. 2017.
    """

    def __init__(self, embed_dim: int, num_heads: int, dropout: float = 0.0, bias: bool = True, add_bias_kv: bool = False,
                 add_zero_attn: bool = False, kdim: int | None = None, vdim: int | None = None, batch_first: bool = False,
                 device: DeviceLike = None, dtype: DTypeLike = None) -> None:
        super().__init__()
        sizes("MultiheadAttention", embed_dim=embed_dim, num_heads=num_heads)
        if num_heads < 1 or embed_dim < 1 or embed_dim % num_heads:
            raise AssertedError(f"MultiheadAttention: embed_dim must be a multiple of num_heads, got {embed_dim} and {num_heads}")
        self.embed_dim, self.num_heads, self.head_dim = embed_dim, num_heads, embed_dim // num_heads
        self.kdim, self.vdim = embed_dim if kdim is None else kdim, embed_dim if vdim is None else vdim
        self.dropout, self.batch_first, self.add_zero_attn = dropout, batch_first, add_zero_attn
        self._qkv_same_embed_dim = same = self.kdim == self.vdim == embed_dim

        def parameter(wanted, *shape):
            return Parameter(empty(*shape, device=device, dtype=dtype)) if wanted else None

        self.register_parameter("q_proj_weight", parameter(not same, embed_dim, embed_dim))
        self.register_parameter("k_proj_weight", parameter(not same, embed_dim, self.kdim))
        self.register_parameter("v_proj_weight", parameter(not same, embed_dim, self.vdim))
        self.register_parameter("in_proj_weight", parameter(same, 3 * embed_dim, embed_dim))
        self.register_parameter("in_proj_bias", parameter(bias, 3 * embed_dim))
        self.out_proj = NonDynamicallyQuantizableLinear(embed_dim, embed_dim, bias=bias, device=device, dtype=dtype)
        self.register_parameter("bias_k", parameter(add_bias_kv, 1, 1, embed_dim))
        self.register_parameter("bias_v", parameter(add_bias_kv, 1, 1, embed_dim))
        self._reset_parameters()

    def _reset_parameters(self):
        for weight in (self.in_proj_weight, self.q_proj_weight, self.k_proj_weight, self.v_proj_weight):
            if weight is not None:
                init.xavier_uniform_(weight)
        if self.in_proj_bias is not None:
            init.zeros_(self.in_proj_bias)
            init.zeros_(self.out_proj.bias)
        for bias in (self.bias_k, self.bias_v):
            if bias is not None:
                init.xavier_normal_(bias)

    def forward(self, query: Tensor, key: Tensor, value: Tensor, key_padding_mask: Tensor | None = None, need_weights: bool = True,
                attn_mask: Tensor | None = None, average_attn_weights: bool = True,
                is_causal: bool = False) -> tuple[Tensor, Tensor | None]:
        """Masks and options as of `functional.multi_head_attention_forward`."""
        turned = self.batch_first and query.ndim == 3
        if turned:
            query, key, value = each_once(lambda x: transpose(x, 0, 1), query, key, value)
        out, weights = functional.multi_head_attention_forward(
            query, key, value, self.embed_dim, self.num_heads, self.in_proj_weight, self.in_proj_bias, self.bias_k, self.bias_v,
            self.add_zero_attn, self.dropout, self.out_proj.weight, self.out_proj.bias, training=self.training,
            key_padding_mask=key_padding_mask, need_weights=need_weights, attn_mask=attn_mask,
            use_separate_proj_weight=self.in_proj_weight is None, q_proj_weight=self.q_proj_weight, k_proj_weight=self.k_proj_weight,
            v_proj_weight=self.v_proj_weight, average_attn_weights=average_attn_weights, is_causal=is_causal)
        return transpose(out, 0, 1) if turned else out, weights


class _Layer(Module):
    """What encoder and decoder layers share: sublayers of attention and a feed-forward one, each added to its input and normalised,
    after it or, with `norm_first`, before."""

    attentions: tuple[str, ...] = ()

    def __init__(self, d_model: int, nhead: int, dim_feedforward: int = 2048, dropout: float = 0.1,
                 activation: Activation = functional.relu, layer_norm_eps: float = 1e-5, batch_first: bool = False,
                 norm_first: bool = False, bias: bool = True, device: DeviceLike = None, dtype: DTypeLike = None) -> None:
        super().__init__()
        place: dict[str, Any] = {"device": device, "dtype": dtype}
        for name in self.attentions:
            self.add_module(name, MultiheadAttention(d_model, nhead, dropout=dropout, bias=bias, batch_first=batch_first, **place))
        self.linear1 = Linear(d_model, dim_feedforward, bias=bias, **place)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, bias=bias, **place)
        self.norm_first, self.activation = norm_first, _activation(type(self).__name__, activation)
        for i in range(1, len(self.attentions) + 2):
            self.add_module(f"norm{i}", LayerNorm(d_model, eps=layer_norm_eps, bias=bias, **place))
        for i in range(1, len(self.attentions) + 2):
            self.add_module(f"dropout{i}", Dropout(dropout))

    def _through(self, x, i, sublayer):
        """x with what sublayer number i makes of it."""
        norm, dropout = getattr(self, f"norm{i}"), getattr(self, f"dropout{i}")
        return x + dropout(sublayer(norm(x))) if self.norm_first else norm(x + dropout(sublayer(x)))

    def _feed_forward(self, x):
        return self.linear2(self.dropout(self.activation(self.linear1(x))))


class TransformerEncoderLayer(_Layer):
    """Self-attention and a feed-forward network. Shape: (S, N, d_model), batches first with `batch_first`, or without N -> the same.
    Source: Vaswani et al. 2017; `norm_first`: Xiong et al. 2020."""

    attentions = ("self_attn",)

    def forward(self, src: Tensor, src_mask: Tensor | None = None, src_key_padding_mask: Tensor | None = None,
                is_causal: bool = False) -> Tensor:
        """Masks as of MultiheadAttention."""
        x = self._through(src, 1, lambda x: self.self_attn(x, x, x, src_key_padding_mask, False, src_mask, is_causal=is_causal)[0])
        return self._through(x, 2, self._feed_forward)


class TransformerDecoderLayer(_Layer):
    """Self-attention, attention to an encoder's output and a feed-forward network. Shape: tgt (T, N, d_model), memory (S, N,
    d_model), batches first with `batch_first`, or without N -> as tgt. Source: as the encoder layer."""

    attentions = ("self_attn", "multihead_attn")

    def forward(self, tgt: Tensor, memory: Tensor, tgt_mask: Tensor | None = None, memory_mask: Tensor | None = None,
                tgt_key_padding_mask: Tensor | None = None, memory_key_padding_mask: Tensor | None = None, tgt_is_causal: bool = False,
                memory_is_causal: bool = False) -> Tensor:
        """Masks as of MultiheadAttention."""
        x = self._through(tgt, 1, lambda x: self.self_attn(x, x, x, tgt_key_padding_mask, False, tgt_mask, is_causal=tgt_is_causal)[0])
        x = self._through(x, 2, lambda x: self.multihead_attn(x, memory, memory, memory_key_padding_mask, False, memory_mask,
                                                              is_causal=memory_is_causal)[0])
        return self._through(x, 3, self._feed_forward)


class TransformerEncoder(Module):
    """`num_layers` copies of an encoder layer, one after another, and a last normalisation where `norm` is given.

    `enable_nested_tensor` and `mask_check` say when PyTorch may skip padded places in evaluation; none are skipped here, ever.
    """

    def __init__(self, encoder_layer: Module, num_layers: int, norm: Module | None = None, enable_nested_tensor: bool = True,
                 mask_check: bool = True) -> None:
        super().__init__()
        self.layers = ModuleList(copy.deepcopy(encoder_layer) for _ in range(num_layers))
        self.num_layers, self.norm = num_layers, norm
        self.enable_nested_tensor, self.use_nested_tensor, self.mask_check = enable_nested_tensor, False, mask_check

    def forward(self, src: Tensor, mask: Tensor | None = None, src_key_padding_mask: Tensor | None = None,
                is_causal: bool | None = None) -> Tensor:
        """Masks as of MultiheadAttention; is_causal is its hint. None is False: the mask is not read to find out."""
        for layer in self.layers:
            src = layer(src, src_mask=mask, src_key_padding_mask=src_key_padding_mask, is_causal=bool(is_causal))
        return src if self.norm is None else self.norm(src)


class TransformerDecoder(Module):
    """`num_layers` copies of a decoder layer, one after another, and a last normalisation where `norm` is given."""

    def __init__(self, decoder_layer: Module, num_layers: int, norm: Module | None = None) -> None:
        super().__init__()
        self.layers = ModuleList(copy.deepcopy(decoder_layer) for _ in range(num_layers))
        self.num_layers, self.norm = num_layers, norm

    def forward(self, tgt: Tensor, memory: Tensor, tgt_mask: Tensor | None = None, memory_mask: Tensor | None = None,
                tgt_key_padding_mask: Tensor | None = None, memory_key_padding_mask: Tensor | None = None,
                tgt_is_causal: bool | None = None, memory_is_causal: bool = False) -> Tensor:
        """Masks as of MultiheadAttention; tgt_is_causal None is False."""
        for layer in self.layers:
            tgt = layer(tgt, memory, tgt_mask=tgt_mask, memory_mask=memory_mask, tgt_key_padding_mask=tgt_key_padding_mask,
                        memory_key_padding_mask=memory_key_padding_mask, tgt_is_causal=bool(tgt_is_causal),
                        memory_is_causal=memory_is_causal)
        return tgt if self.norm is None else self.norm(tgt)


class Transformer(Module):
    """An encoder and a decoder. Source: Vaswani et al. 2017.

    Shape: src (S, N, d_model), tgt (T, N, d_model), batches first with `batch_first`, or without N -> as tgt.
    """

    def __init__(self, d_model: int = 512, nhead: int = 8, num_encoder_layers: int = 6, num_decoder_layers: int = 6,
                 dim_feedforward: int = 2048, dropout: float = 0.1, activation: Activation = functional.relu,
                 custom_encoder: Module | None = None, custom_decoder: Module | None = None, layer_norm_eps: float = 1e-5,
                 batch_first: bool = False, norm_first: bool = False, bias: bool = True, device: DeviceLike = None,
                 dtype: DTypeLike = None) -> None:
        super().__init__()
        place: dict[str, Any] = {"device": device, "dtype": dtype}
        options = (d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first, norm_first, bias)

        def norm():
            return LayerNorm(d_model, eps=layer_norm_eps, bias=bias, **place)

        self.encoder = custom_encoder if custom_encoder is not None else TransformerEncoder(
            TransformerEncoderLayer(*options, **place), num_encoder_layers, norm())
        self.decoder = custom_decoder if custom_decoder is not None else TransformerDecoder(
            TransformerDecoderLayer(*options, **place), num_decoder_layers, norm())
        self._reset_parameters()
        self.d_model, self.nhead, self.batch_first = d_model, nhead, batch_first

    def _reset_parameters(self):
        for p in self.parameters():
            if p.ndim > 1:
                init.xavier_uniform_(p)

    def forward(self, src: Tensor, tgt: Tensor, src_mask: Tensor | None = None, tgt_mask: Tensor | None = None,
                memory_mask: Tensor | None = None, src_key_padding_mask: Tensor | None = None,
                tgt_key_padding_mask: Tensor | None = None, memory_key_padding_mask: Tensor | None = None,
                src_is_causal: bool | None = None, tgt_is_causal: bool | None = None, memory_is_causal: bool = False) -> Tensor:
        """Masks as of MultiheadAttention.

        Raises: ShapeError where batches or widths of src and tgt differ.
        """
        batch = 0 if self.batch_first else 1
        widths = {src.shape[-1], tgt.shape[-1]}
        if src.ndim != tgt.ndim or src.ndim == 3 and src.shape[batch] != tgt.shape[batch] or widths != {self.d_model}:
            raise ShapeError(f"Transformer: src and tgt must agree in the batch and have width {self.d_model}, got {src.shape} and "
                             f"{tgt.shape}")
        memory = self.encoder(src, mask=src_mask, src_key_padding_mask=src_key_padding_mask, is_causal=src_is_causal)
        return self.decoder(tgt, memory, tgt_mask=tgt_mask, memory_mask=memory_mask, tgt_key_padding_mask=tgt_key_padding_mask,
                            memory_key_padding_mask=memory_key_padding_mask, tgt_is_causal=tgt_is_causal,
                            memory_is_causal=memory_is_causal)

    @staticmethod
    def generate_square_subsequent_mask(sz: int, device: DeviceLike = None, dtype: DTypeLike = None) -> Tensor:
        """The causal mask that is added to scores: -inf above the diagonal, else 0.

        >>> volta.nn.Transformer.generate_square_subsequent_mask(2)
        tensor([[0., -inf],
                [0., 0.]])
        """
        return triu(full((sz, sz), -math.inf, device=device, dtype=dtype), diagonal=1)


def _activation(layer, activation):
    if callable(activation):
        return activation
    if activation not in ("relu", "gelu"):
        raise ArgumentError(f"{layer}: activation must be 'relu', 'gelu' or a function, got {activation!r}")
    return getattr(functional, activation)
