"""SqueezeNet. Source: Iandola et al., SqueezeNet: AlexNet-level accuracy with 50x fewer parameters."""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from volta import nn
from volta.ops.join import cat
from volta.vision.models.weights import published

if TYPE_CHECKING:
    from volta.tensor import Tensor

__all__ = ["SqueezeNet", "squeezenet1_0", "squeezenet1_1"]


class Fire(nn.Module):
    """Few channels, then many: by single pixels and by 3 x 3."""

    def __init__(self, inplanes: int, squeeze_planes: int, expand1x1_planes: int, expand3x3_planes: int) -> None:
        super().__init__()
        self.inplanes = inplanes
        self.squeeze, self.squeeze_activation = nn.Conv2d(inplanes, squeeze_planes, 1), nn.ReLU(inplace=True)
        self.expand1x1, self.expand1x1_activation = nn.Conv2d(squeeze_planes, expand1x1_planes, 1), nn.ReLU(inplace=True)
        self.expand3x3 = nn.Conv2d(squeeze_planes, expand3x3_planes, 3, padding=1)
        self.expand3x3_activation = nn.ReLU(inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        x = self.squeeze_activation(self.squeeze(x))
        return cat([self.expand1x1_activation(self.expand1x1(x)), self.expand3x3_activation(self.expand3x3(x))], 1)


class SqueezeNet(nn.Module):
    """Eight `Fire` modules, with a pooling before three of them: places that the version chooses."""

    def __init__(self, version: str = "1_0", num_classes: int = 1000, dropout: float = 0.5) -> None:
        super().__init__()
        if version not in ("1_0", "1_1"):
            raise ValueError(f"Unsupported SqueezeNet version {version}: 1_0 or 1_1 expected")
        self.num_classes = num_classes
        channels, kernel, pooled = (96, 7, (0, 3, 7)) if version == "1_0" else (64, 3, (0, 2, 4))
        layers: list[nn.Module] = [nn.Conv2d(3, channels, kernel, 2), nn.ReLU(inplace=True)]
        for i, width in enumerate((16, 16, 32, 32, 48, 48, 64, 64)):
            if i in pooled:
                layers.append(nn.MaxPool2d(3, 2, ceil_mode=True))
            layers.append(Fire(channels, width, 4 * width, 4 * width))
            channels = 8 * width
        self.features = nn.Sequential(*layers)
        last = nn.Conv2d(512, num_classes, 1)
        self.classifier = nn.Sequential(nn.Dropout(dropout), last, nn.ReLU(inplace=True), nn.AdaptiveAvgPool2d((1, 1)))
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                if module is last:
                    nn.init.normal_(module.weight, std=0.01)
                else:
                    nn.init.kaiming_uniform_(module.weight)
                nn.init.zeros_(module.bias)

    def forward(self, x: Tensor) -> Tensor:
        return self.classifier(self.features(x)).flatten(1)


@published("SqueezeNet1_0_Weights", "squeezenet1_0-b66bff10.pth")
def squeezenet1_0(**options: Any) -> SqueezeNet:
    """SqueezeNet 1.0."""
    return SqueezeNet("1_0", **options)


@published("SqueezeNet1_1_Weights", "squeezenet1_1-b8a52dc0.pth")
def squeezenet1_1(**options: Any) -> SqueezeNet:
    """SqueezeNet 1.1, of less work."""
    return SqueezeNet("1_1", **options)
