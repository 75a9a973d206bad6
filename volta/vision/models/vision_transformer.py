"""Vision transformers. Source: Dosovitskiy et al., An Image is Worth 16x16 Words."""
from __future__ import annotations

import functools
import math
from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from volta import nn
from volta.errors import ArgumentError, ShapeError
from volta.fx.tracer import wrap
from volta.ops.creation import empty, zeros
from volta.ops.join import cat
from volta.vision.models.weights import Weights, published
from volta.vision.ops.layers import MLP
from volta.vision.transforms.functional import InterpolationMode

if TYPE_CHECKING:
    from volta.tensor import Tensor

__all__ = ["VisionTransformer", "vit_b_16", "vit_b_32", "vit_h_14", "vit_l_16", "vit_l_32"]

_NORM = functools.partial(nn.LayerNorm, eps=1e-6)
_RENAMED = {r"\.mlp\.linear_1\.": ".mlp.0.", r"\.mlp\.linear_2\.": ".mlp.3."}
_BICUBIC = InterpolationMode.BICUBIC


class MLPBlock(MLP):
    """The network of each place."""

    def __init__(self, in_dim: int, mlp_dim: int, dropout: float) -> None:
        super().__init__(in_dim, [mlp_dim, in_dim], activation_layer=nn.GELU, dropout=dropout)
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.xavier_uniform_(module.weight)
                nn.init.normal_(module.bias, std=1e-6)


class EncoderBlock(nn.Module):
    """Attention, then a network of each place, both of what is normalized and with a shortcut."""

    def __init__(self, num_heads: int, hidden_dim: int, mlp_dim: int, dropout: float, attention_dropout: float,
                 norm_layer: Callable[..., nn.Module] = _NORM) -> None:
        super().__init__()
        self.num_heads, self.ln_1, self.dropout = num_heads, norm_layer(hidden_dim), nn.Dropout(dropout)
        self.self_attention = nn.MultiheadAttention(hidden_dim, num_heads, dropout=attention_dropout, batch_first=True)
        self.ln_2, self.mlp = norm_layer(hidden_dim), MLPBlock(hidden_dim, mlp_dim, dropout)

    def forward(self, input: Tensor) -> Tensor:
        x = self.ln_1(input)
        x = self.dropout(self.self_attention(x, x, x, need_weights=False)[0]) + input
        return x + self.mlp(self.ln_2(x))


class Encoder(nn.Module):
    """Blocks, with what tells one place from another added first."""

    def __init__(self, seq_length: int, num_layers: int, num_heads: int, hidden_dim: int, mlp_dim: int, dropout: float,
                 attention_dropout: float, norm_layer: Callable[..., nn.Module] = _NORM) -> None:
        super().__init__()
        self.pos_embedding, self.dropout = nn.Parameter(empty(1, seq_length, hidden_dim).normal_(std=0.02)), nn.Dropout(dropout)
        self.layers = nn.Sequential(OrderedDict(
            (f"encoder_layer_{i}", EncoderBlock(num_heads, hidden_dim, mlp_dim, dropout, attention_dropout, norm_layer))
            for i in range(num_layers)))
        self.ln = norm_layer(hidden_dim)

    def forward(self, input: Tensor) -> Tensor:
        return self.ln(self.layers(self.dropout(input + self.pos_embedding)))


@wrap
def _sized(x: Tensor, size: int) -> Tensor:
    """The images; in graphs a step of its own, since it looks at their shape."""
    if tuple(x.shape[2:]) != (size, size):
        raise ShapeError(f"VisionTransformer: needs images of {size} x {size}, got {tuple(x.shape)}")
    return x


class VisionTransformer(nn.Module):
    """A transformer of patches and of one place more, whose result says the class."""

    def __init__(self, image_size: int, patch_size: int, num_layers: int, num_heads: int, hidden_dim: int, mlp_dim: int,
                 dropout: float = 0.0, attention_dropout: float = 0.0, num_classes: int = 1000, representation_size: int | None = None,
                 norm_layer: Callable[..., nn.Module] = _NORM) -> None:
        super().__init__()
        if image_size % patch_size:
            raise ArgumentError(f"VisionTransformer: image_size {image_size} must be a multiple of patch_size {patch_size}")
        self.image_size, self.patch_size, self.hidden_dim, self.mlp_dim = image_size, patch_size, hidden_dim, mlp_dim
        self.attention_dropout, self.dropout, self.num_classes = attention_dropout, dropout, num_classes
        self.representation_size, self.norm_layer = representation_size, norm_layer
        self.conv_proj = nn.Conv2d(3, hidden_dim, patch_size, patch_size)
        self.class_token = nn.Parameter(zeros(1, 1, hidden_dim))
        self.seq_length = (image_size // patch_size) ** 2 + 1
        self.encoder = Encoder(self.seq_length, num_layers, num_heads, hidden_dim, mlp_dim, dropout, attention_dropout, norm_layer)
        hidden = {} if representation_size is None else {"pre_logits": nn.Linear(hidden_dim, representation_size), "act": nn.Tanh()}
        self.heads = nn.Sequential(OrderedDict(**hidden, head=nn.Linear(representation_size or hidden_dim, num_classes)))
        nn.init.trunc_normal_(self.conv_proj.weight, std=math.sqrt(1 / (3 * patch_size ** 2)))
        if hidden:
            nn.init.trunc_normal_(self.heads.pre_logits.weight, std=math.sqrt(1 / hidden_dim))
            nn.init.zeros_(self.heads.pre_logits.bias)
        for values in (self.conv_proj.bias, self.heads.head.weight, self.heads.head.bias):
            nn.init.zeros_(values)

    def forward(self, x: Tensor) -> Tensor:
        patches = self.conv_proj(_sized(x, self.image_size)).flatten(2).permute(0, 2, 1)
        return self.heads(self.encoder(cat([self.class_token.expand(x.shape[0], -1, -1), patches], 1))[:, 0])


def _vit(patch_size, num_layers, num_heads, hidden_dim, mlp_dim, **options):
    """A transformer of images of 224 x 224, unless the options say otherwise."""
    return VisionTransformer(options.pop("image_size", 224), patch_size, num_layers, num_heads, hidden_dim, mlp_dim, **options)


@published("ViT_B_16_Weights", "vit_b_16-c867db91.pth", default=0, renamed=_RENAMED, sized=True,
           IMAGENET1K_SWAG_E2E_V1=Weights("vit_b_16_swag-9ac1b537.pth", 384, 384, _BICUBIC),
           IMAGENET1K_SWAG_LINEAR_V1=Weights("vit_b_16_lc_swag-4e70ced5.pth", 224, 224, _BICUBIC))
def vit_b_16(**options: Any) -> VisionTransformer:
    """The base transformer of patches of 16 x 16."""
    return _vit(16, 12, 12, 768, 3072, **options)


@published("ViT_B_32_Weights", "vit_b_32-d86f8d99.pth", renamed=_RENAMED, sized=True)
def vit_b_32(**options: Any) -> VisionTransformer:
    """The base transformer of patches of 32 x 32."""
    return _vit(32, 12, 12, 768, 3072, **options)


@published("ViT_L_16_Weights", Weights("vit_l_16-852ce7e3.pth", 224, 242), default=0, renamed=_RENAMED, sized=True,
           IMAGENET1K_SWAG_E2E_V1=Weights("vit_l_16_swag-4f3808c9.pth", 512, 512, _BICUBIC),
           IMAGENET1K_SWAG_LINEAR_V1=Weights("vit_l_16_lc_swag-4d563306.pth", 224, 224, _BICUBIC))
def vit_l_16(**options: Any) -> VisionTransformer:
    """The large transformer of patches of 16 x 16."""
    return _vit(16, 24, 16, 1024, 4096, **options)


@published("ViT_L_32_Weights", "vit_l_32-c7638314.pth", renamed=_RENAMED, sized=True)
def vit_l_32(**options: Any) -> VisionTransformer:
    """The large transformer of patches of 32 x 32."""
    return _vit(32, 24, 16, 1024, 4096, **options)


@published("ViT_H_14_Weights", default=0, renamed=_RENAMED, sized=True,
           IMAGENET1K_SWAG_E2E_V1=Weights("vit_h_14_swag-80465313.pth", 518, 518, _BICUBIC),
           IMAGENET1K_SWAG_LINEAR_V1=Weights("vit_h_14_lc_swag-c1eb923e.pth", 224, 224, _BICUBIC))
def vit_h_14(**options: Any) -> VisionTransformer:
    """The huge transformer of patches of 14 x 14."""
    return _vit(14, 32, 16, 1280, 5120, **options)
