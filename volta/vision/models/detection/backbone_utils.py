"""Backbones whose feature maps of several sizes are merged to a pyramid. Source: Lin et al., Feature Pyramid Networks."""
from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from volta import nn
from volta.vision.models.intermediate import IntermediateLayerGetter, stages
from volta.vision.models.weights import get_model
from volta.vision.ops.layers import FrozenBatchNorm2d
from volta.vision.ops.pyramid import ExtraFPNBlock, FeaturePyramidNetwork, LastLevelMaxPool

if TYPE_CHECKING:
    from volta.tensor import Tensor

__all__ = ["BackboneWithFPN", "mobilenet_backbone", "resnet_fpn_backbone"]


class BackboneWithFPN(nn.Module):
    """A pyramid over the layers of `backbone` that `return_layers` names, whose channels are `in_channels_list`."""

    def __init__(self, backbone: nn.Module, return_layers: Mapping[str, str], in_channels_list: Sequence[int], out_channels: int,
                 extra_blocks: ExtraFPNBlock | None = None, norm_layer: Callable[..., nn.Module] | None = None) -> None:
        super().__init__()
        self.body = IntermediateLayerGetter(backbone, return_layers)
        self.fpn = FeaturePyramidNetwork(in_channels_list, out_channels, extra_blocks or LastLevelMaxPool(), norm_layer)
        self.out_channels = out_channels

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        return self.fpn(self.body(x))


def _need(what, numbers, low, high):
    if any(not low <= n <= high for n in numbers):
        raise ValueError(f"{what} should be in the range [{low},{high}], got {numbers}")


def resnet_fpn_backbone(*, backbone_name: str, weights: Any, norm_layer: Callable[..., nn.Module] = FrozenBatchNorm2d,
                        trainable_layers: int = 3, returned_layers: Sequence[int] | None = None,
                        extra_blocks: ExtraFPNBlock | None = None) -> BackboneWithFPN:
    """A ResNet under a pyramid over its stages `returned_layers` (1 to 4), of which all but the last `trainable_layers` are frozen."""
    backbone: Any = get_model(backbone_name, weights=weights, norm_layer=norm_layer)
    _need("Trainable layers", [trainable_layers], 0, 5)
    trained = (*("layer4", "layer3", "layer2", "layer1", "conv1")[:trainable_layers], *(["bn1"] if trainable_layers == 5 else []))
    for name, parameter in backbone.named_parameters():
        if not name.startswith(trained):
            parameter.requires_grad_(False)
    returned = [1, 2, 3, 4] if returned_layers is None else list(returned_layers)
    _need("Each returned layer", returned, 1, 4)
    return BackboneWithFPN(backbone, {f"layer{k}": str(v) for v, k in enumerate(returned)},
                           [backbone.inplanes // 8 * 2 ** (k - 1) for k in returned], 256, extra_blocks)


def mobilenet_backbone(*, backbone_name: str, weights: Any, fpn: bool, norm_layer: Callable[..., nn.Module] = FrozenBatchNorm2d,
                       trainable_layers: int = 2, returned_layers: Sequence[int] | None = None,
                       extra_blocks: ExtraFPNBlock | None = None) -> nn.Module:
    """A mobile network's layers, of which all but the last `trainable_layers` stages are frozen, under a pyramid or a convolution."""
    model: Any = get_model(backbone_name, weights=weights, norm_layer=norm_layer)
    features, places = model.features, stages(model.features)
    _need("Trainable layers", [trainable_layers], 0, len(places))
    for layer in features[:places[-trainable_layers] if trainable_layers else len(features)]:
        layer.requires_grad_(False)
    if not fpn:
        merged = nn.Sequential(features, nn.Conv2d(features[-1].out_channels, 256, 1))
        merged.out_channels = 256
        return merged
    returned = [len(places) - 2, len(places) - 1] if returned_layers is None else list(returned_layers)
    _need("Each returned layer", returned, 0, len(places) - 1)
    return BackboneWithFPN(features, {str(places[k]): str(v) for v, k in enumerate(returned)},
                           [features[places[k]].out_channels for k in returned], 256, extra_blocks)
