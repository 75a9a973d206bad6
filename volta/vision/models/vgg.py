"""VGG. Source: Simonyan and Zisserman, Very Deep Convolutional Networks for Large-Scale Image Recognition."""
from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from volta import nn
from volta.vision.models.weights import Weights, published

if TYPE_CHECKING:
    from volta.tensor import Tensor

__all__ = ["VGG", "vgg11", "vgg11_bn", "vgg13", "vgg13_bn", "vgg16", "vgg16_bn", "vgg19", "vgg19_bn"]

# Convolutions in each of the five stages, which a pooling ends.
_STAGES = {11: (1, 1, 2, 2, 2), 13: (2, 2, 2, 2, 2), 16: (2, 2, 3, 3, 3), 19: (2, 2, 4, 4, 4)}


class VGG(nn.Module):
    """Convolutions of 3 x 3, then three linear layers."""

    def __init__(self, features: nn.Module, num_classes: int = 1000, init_weights: bool = True, dropout: float = 0.5) -> None:
        super().__init__()
        self.features, self.avgpool = features, nn.AdaptiveAvgPool2d((7, 7))
        self.classifier = nn.Sequential(nn.Linear(512 * 7 * 7, 4096), nn.ReLU(True), nn.Dropout(dropout), nn.Linear(4096, 4096),
                                        nn.ReLU(True), nn.Dropout(dropout), nn.Linear(4096, num_classes))
        for module in self.modules() if init_weights else ():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
                nn.init.zeros_(module.bias)
            elif isinstance(module, nn.Linear):
                nn.init.normal_(module.weight, 0, 0.01)
                nn.init.zeros_(module.bias)

    def forward(self, x: Tensor) -> Tensor:
        return self.classifier(self.avgpool(self.features(x)).flatten(1))


def make_layers(stages: Sequence[int], batch_norm: bool = False) -> nn.Sequential:
    """The convolutions."""
    layers: list[nn.Module] = []
    channels = 3
    for count, width in zip(stages, (64, 128, 256, 512, 512)):
        for _ in range(count):
            layers += [nn.Conv2d(channels, width, 3, padding=1), *([nn.BatchNorm2d(width)] if batch_norm else []), nn.ReLU(inplace=True)]
            channels = width
        layers.append(nn.MaxPool2d(2, 2))
    return nn.Sequential(*layers)


@published("VGG11_Weights", "vgg11-8a719046.pth")
def vgg11(**options: Any) -> VGG:
    """VGG of 11 layers."""
    return VGG(make_layers(_STAGES[11]), **options)


@published("VGG11_BN_Weights", "vgg11_bn-6002323d.pth")
def vgg11_bn(**options: Any) -> VGG:
    """VGG of 11 layers with batch normalization."""
    return VGG(make_layers(_STAGES[11], True), **options)


@published("VGG13_Weights", "vgg13-19584684.pth")
def vgg13(**options: Any) -> VGG:
    """VGG of 13 layers."""
    return VGG(make_layers(_STAGES[13]), **options)


@published("VGG13_BN_Weights", "vgg13_bn-abd245e5.pth")
def vgg13_bn(**options: Any) -> VGG:
    """VGG of 13 layers with batch normalization."""
    return VGG(make_layers(_STAGES[13], True), **options)


@published("VGG16_Weights", "vgg16-397923af.pth", default=0, IMAGENET1K_FEATURES=Weights(
    "vgg16_features-amdegroot-88682ab5.pth", mean=(0.48235, 0.45882, 0.40784), std=(1 / 255, 1 / 255, 1 / 255)))
def vgg16(**options: Any) -> VGG:
    """VGG of 16 layers."""
    return VGG(make_layers(_STAGES[16]), **options)


@published("VGG16_BN_Weights", "vgg16_bn-6c64b313.pth")
def vgg16_bn(**options: Any) -> VGG:
    """VGG of 16 layers with batch normalization."""
    return VGG(make_layers(_STAGES[16], True), **options)


@published("VGG19_Weights", "vgg19-dcbb9e9d.pth")
def vgg19(**options: Any) -> VGG:
    """VGG of 19 layers."""
    return VGG(make_layers(_STAGES[19]), **options)


@published("VGG19_BN_Weights", "vgg19_bn-c79401a0.pth")
def vgg19_bn(**options: Any) -> VGG:
    """VGG of 19 layers with batch normalization."""
    return VGG(make_layers(_STAGES[19], True), **options)
