"""Networks that name the class of each pixel: FCN, DeepLabV3, LR-ASPP.

Sources: Long et al., Fully Convolutional Networks for Semantic Segmentation; Chen et al., Rethinking Atrous Convolution; Howard et al.,
Searching for MobileNetV3.
"""
from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from volta import nn
from volta.nn import functional as F
from volta.ops.join import cat
from volta.vision.models.intermediate import IntermediateLayerGetter, stages
from volta.vision.models.mobilenetv3 import mobilenet_v3_large
from volta.vision.models.resnet import resnet50, resnet101
from volta.vision.models.weights import _BUILDERS, _WEIGHTS, PixelWeights, WeightsEnum

if TYPE_CHECKING:
    from volta.tensor import Tensor

__all__ = ["FCN", "DeepLabV3", "LRASPP", "deeplabv3_mobilenet_v3_large", "deeplabv3_resnet50", "deeplabv3_resnet101", "fcn_resnet50",
           "fcn_resnet101", "lraspp_mobilenet_v3_large"]

CATEGORIES = ("__background__ aeroplane bicycle bird boat bottle bus car cat chair cow diningtable dog horse motorbike person "
              "pottedplant sheep sofa train tvmonitor").split()


def _resized(x, like):
    return F.interpolate(x, size=like.shape[-2:], mode="bilinear", align_corners=False)


def _conv(inputs, outputs, size=1, dilation=1):
    return (nn.Conv2d(inputs, outputs, size, padding=dilation * (size // 2), dilation=dilation, bias=False), nn.BatchNorm2d(outputs),
            nn.ReLU())


class _Segmentation(nn.Module):
    """A backbone that gives a dict with "out" and, for the loss of training, "aux"; a head for each."""

    def __init__(self, backbone: nn.Module, classifier: nn.Module, aux_classifier: nn.Module | None = None) -> None:
        super().__init__()
        self.backbone, self.classifier, self.aux_classifier = backbone, classifier, aux_classifier

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        features = self.backbone(x)
        result = {"out": _resized(self.classifier(features["out"]), x)}
        if self.aux_classifier is not None:
            result["aux"] = _resized(self.aux_classifier(features["aux"]), x)
        return result


class FCN(_Segmentation):
    """A classifier of small regions, enlarged to the size of the image."""


class DeepLabV3(_Segmentation):
    """As FCN, with convolutions that look at several distances."""


class FCNHead(nn.Sequential):
    """A convolution, and one of single pixels."""

    def __init__(self, in_channels: int, channels: int) -> None:
        super().__init__(*_conv(in_channels, in_channels // 4, 3), nn.Dropout(0.1), nn.Conv2d(in_channels // 4, channels, 1))


class ASPPPooling(nn.Sequential):
    """What the whole image is on average, at each pixel."""

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__(nn.AdaptiveAvgPool2d(1), *_conv(in_channels, out_channels))

    def forward(self, x: Tensor) -> Tensor:
        return _resized(super().forward(x), x)


class ASPP(nn.Module):
    """Convolutions of several dilations side by side, and the image's mean."""

    def __init__(self, in_channels: int, atrous_rates: Sequence[int], out_channels: int = 256) -> None:
        super().__init__()
        self.convs = nn.ModuleList([nn.Sequential(*_conv(in_channels, out_channels)),
                                    *(nn.Sequential(*_conv(in_channels, out_channels, 3, rate)) for rate in atrous_rates),
                                    ASPPPooling(in_channels, out_channels)])
        self.project = nn.Sequential(*_conv(len(self.convs) * out_channels, out_channels), nn.Dropout(0.5))

    def forward(self, x: Tensor) -> Tensor:
        return self.project(cat([conv(x) for conv in self.convs], 1))


class DeepLabHead(nn.Sequential):
    """ASPP, a convolution, and one of single pixels."""

    def __init__(self, in_channels: int, num_classes: int, atrous_rates: Sequence[int] = (12, 24, 36)) -> None:
        super().__init__(ASPP(in_channels, atrous_rates), *_conv(256, 256, 3), nn.Conv2d(256, num_classes, 1))


class LRASPPHead(nn.Module):
    """Few channels of the small map, weighed by their mean, beside the classes of a larger map."""

    def __init__(self, low_channels: int, high_channels: int, num_classes: int, inter_channels: int) -> None:
        super().__init__()
        self.cbr = nn.Sequential(*_conv(high_channels, inter_channels))
        self.scale = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(high_channels, inter_channels, 1, bias=False), nn.Sigmoid())
        self.low_classifier, self.high_classifier = nn.Conv2d(low_channels, num_classes, 1), nn.Conv2d(inter_channels, num_classes, 1)

    def forward(self, input: dict[str, Tensor]) -> Tensor:
        low, high = input["low"], input["high"]
        return self.low_classifier(low) + self.high_classifier(_resized(self.cbr(high) * self.scale(high), low))


class LRASPP(nn.Module):
    """A backbone that gives "low" and "high", a large map and a small one, and a light head."""

    def __init__(self, backbone: nn.Module, low_channels: int, high_channels: int, num_classes: int, inter_channels: int = 128) -> None:
        super().__init__()
        self.backbone, self.classifier = backbone, LRASPPHead(low_channels, high_channels, num_classes, inter_channels)

    def forward(self, input: Tensor) -> dict[str, Tensor]:
        return {"out": _resized(self.classifier(self.backbone(input)), input)}


def _with_resnet(model, head, backbone, num_classes, aux):
    layers = IntermediateLayerGetter(backbone, {"layer4": "out", **({"layer3": "aux"} if aux else {})})
    return model(layers, head(2048, num_classes), FCNHead(1024, num_classes) if aux else None)


def _published(name: str, file: str, backbone: Callable[..., nn.Module], **made: Any) -> Callable[..., Any]:
    """Gives a function of a backbone, a number of classes and whether there is an auxiliary head torchvision's arguments. The backbone is
    `made` with its own published weights, unless the whole network's are asked for, or `weights_backbone` is None."""
    entry = PixelWeights(file)
    members: Any = WeightsEnum(name, {"COCO_WITH_VOC_LABELS_V1": entry, "DEFAULT": entry})
    _WEIGHTS[name] = globals()[name] = members
    __all__.append(name)

    def decorate(build):
        @functools.wraps(build)
        def make(pretrained: Any = None, *, weights: Any = None, progress: bool = True, num_classes: int | None = None,
                 aux_loss: bool | None = None, weights_backbone: Any = "IMAGENET1K_V1",
                 pretrained_backbone: bool = True) -> nn.Module:
            if isinstance(pretrained, bool):
                pretrained = members.DEFAULT if pretrained else None
            chosen = members.verify(pretrained if weights is None else weights)
            if chosen is None:
                start = weights_backbone if pretrained_backbone else None
                return build(backbone(weights=start, progress=progress, **made), 21 if num_classes is None else num_classes, aux_loss)
            for given, value, fits in (("num_classes", num_classes, len(CATEGORIES)), ("aux_loss", aux_loss, make.has_auxiliary)):
                if value not in (None, fits):
                    raise ValueError(f"The parameter '{given}' expected value {fits} but got {value} instead.")
            model = build(backbone(weights=None, **made), len(CATEGORIES), make.has_auxiliary)
            model.load_state_dict(chosen.get_state_dict(progress=progress, check_hash=True))
            return model
        make.weights, make.has_auxiliary = members, not name.startswith("LRASPP")
        _BUILDERS[build.__name__] = make
        return make
    return decorate


_DILATED = {"replace_stride_with_dilation": (False, True, True)}


@_published("FCN_ResNet50_Weights", "fcn_resnet50_coco-1167a1af.pth", resnet50, **_DILATED)
def fcn_resnet50(backbone: nn.Module, num_classes: int, aux: bool | None) -> FCN:
    """FCN over ResNet-50."""
    return _with_resnet(FCN, FCNHead, backbone, num_classes, aux)


@_published("FCN_ResNet101_Weights", "fcn_resnet101_coco-7ecb50ca.pth", resnet101, **_DILATED)
def fcn_resnet101(backbone: nn.Module, num_classes: int, aux: bool | None) -> FCN:
    """FCN over ResNet-101."""
    return _with_resnet(FCN, FCNHead, backbone, num_classes, aux)


@_published("DeepLabV3_ResNet50_Weights", "deeplabv3_resnet50_coco-cd0a2569.pth", resnet50, **_DILATED)
def deeplabv3_resnet50(backbone: nn.Module, num_classes: int, aux: bool | None) -> DeepLabV3:
    """DeepLabV3 over ResNet-50."""
    return _with_resnet(DeepLabV3, DeepLabHead, backbone, num_classes, aux)


@_published("DeepLabV3_ResNet101_Weights", "deeplabv3_resnet101_coco-586e9e4e.pth", resnet101, **_DILATED)
def deeplabv3_resnet101(backbone: nn.Module, num_classes: int, aux: bool | None) -> DeepLabV3:
    """DeepLabV3 over ResNet-101."""
    return _with_resnet(DeepLabV3, DeepLabHead, backbone, num_classes, aux)


@_published("DeepLabV3_MobileNet_V3_Large_Weights", "deeplabv3_mobilenet_v3_large-fc3c493d.pth", mobilenet_v3_large, dilated=True)
def deeplabv3_mobilenet_v3_large(backbone: nn.Module, num_classes: int, aux: bool | None) -> DeepLabV3:
    """DeepLabV3 over MobileNetV3, large."""
    features: Any = backbone.features
    *_, before, _, _, last = stages(features)
    layers = IntermediateLayerGetter(features, {str(last): "out", **({str(before): "aux"} if aux else {})})
    return DeepLabV3(layers, DeepLabHead(features[last].out_channels, num_classes),
                     FCNHead(features[before].out_channels, num_classes) if aux else None)


@_published("LRASPP_MobileNet_V3_Large_Weights", "lraspp_mobilenet_v3_large-d234d4ea.pth", mobilenet_v3_large, dilated=True)
def lraspp_mobilenet_v3_large(backbone: nn.Module, num_classes: int, aux: bool | None) -> LRASPP:
    """LR-ASPP over MobileNetV3, large. Raises: NotImplementedError for `aux_loss`."""
    if aux:
        raise NotImplementedError("This model does not use auxiliary loss")
    features: Any = backbone.features
    *_, low, _, _, high = stages(features)
    return LRASPP(IntermediateLayerGetter(features, {str(low): "low", str(high): "high"}), features[low].out_channels,
                  features[high].out_channels, num_classes)
