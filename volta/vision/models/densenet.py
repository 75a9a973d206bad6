"""DenseNet. Source: Huang et al., Densely Connected Convolutional Networks."""
from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from volta import nn
from volta.nn import functional as F
from volta.ops.join import cat
from volta.utils.checkpoint import checkpoint
from volta.vision.models.weights import published

if TYPE_CHECKING:
    from volta.tensor import Tensor

__all__ = ["DenseNet", "densenet121", "densenet161", "densenet169", "densenet201"]

_RENAMED = {r"(denselayer\d+\.(?:norm|relu|conv))\.([12])\.": r"\1\2."}


class _DenseLayer(nn.Module):
    """New channels of all those before."""

    def __init__(self, num_input_features: int, growth_rate: int, bn_size: int, drop_rate: float, memory_efficient: bool = False) -> None:
        super().__init__()
        self.norm1, self.relu1 = nn.BatchNorm2d(num_input_features), nn.ReLU(inplace=True)
        self.conv1 = nn.Conv2d(num_input_features, bn_size * growth_rate, 1, bias=False)
        self.norm2, self.relu2 = nn.BatchNorm2d(bn_size * growth_rate), nn.ReLU(inplace=True)
        self.conv2 = nn.Conv2d(bn_size * growth_rate, growth_rate, 3, padding=1, bias=False)
        self.drop_rate, self.memory_efficient = float(drop_rate), memory_efficient

    def bn_function(self, *inputs: Tensor) -> Tensor:
        """The channels before, joined and made fewer."""
        return self.conv1(self.relu1(self.norm1(cat(inputs, 1))))

    def forward(self, input: Tensor | list[Tensor]) -> Tensor:
        inputs = input if isinstance(input, (list, tuple)) else [input]
        if self.memory_efficient and any(x.requires_grad for x in inputs):
            fewer = checkpoint(self.bn_function, *inputs, use_reentrant=False)
        else:
            fewer = self.bn_function(*inputs)
        return F.dropout(self.conv2(self.relu2(self.norm2(fewer))), self.drop_rate, self.training)


class _DenseBlock(nn.ModuleDict):
    """Layers of which each sees the channels of all before."""

    def __init__(self, num_layers: int, num_input_features: int, growth_rate: int, *rest: Any) -> None:
        super().__init__({f"denselayer{i + 1}": _DenseLayer(num_input_features + i * growth_rate, growth_rate, *rest)
                          for i in range(num_layers)})

    def forward(self, init_features: Tensor) -> Tensor:
        features = [init_features]
        for layer in self.values():
            features.append(layer(features))
        return cat(features, 1)


def _transition(channels: int) -> nn.Sequential:
    return nn.Sequential(OrderedDict(norm=nn.BatchNorm2d(channels), relu=nn.ReLU(inplace=True),
                                     conv=nn.Conv2d(channels, channels // 2, 1, bias=False), pool=nn.AvgPool2d(2, 2)))


class DenseNet(nn.Module):
    """Blocks of `block_config` layers that add `growth_rate` channels each, with half the channels and half the size between them."""

    def __init__(self, growth_rate: int = 32, block_config: Sequence[int] = (6, 12, 24, 16), num_init_features: int = 64,
                 bn_size: int = 4, drop_rate: float = 0, num_classes: int = 1000, memory_efficient: bool = False) -> None:
        super().__init__()
        self.features = nn.Sequential(OrderedDict(
            conv0=nn.Conv2d(3, num_init_features, 7, 2, 3, bias=False), norm0=nn.BatchNorm2d(num_init_features),
            relu0=nn.ReLU(inplace=True), pool0=nn.MaxPool2d(3, 2, 1)))
        channels = num_init_features
        for i, count in enumerate(block_config):
            if i:
                self.features.add_module(f"transition{i}", _transition(channels))
                channels //= 2
            self.features.add_module(f"denseblock{i + 1}",
                                     _DenseBlock(count, channels, growth_rate, bn_size, drop_rate, memory_efficient))
            channels += count * growth_rate
        self.features.add_module("norm5", nn.BatchNorm2d(channels))
        self.classifier = nn.Linear(channels, num_classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight)
        nn.init.zeros_(self.classifier.bias)

    def forward(self, x: Tensor) -> Tensor:
        return self.classifier(F.adaptive_avg_pool2d(F.relu(self.features(x), inplace=True), (1, 1)).flatten(1))


@published("DenseNet121_Weights", "densenet121-a639ec97.pth", renamed=_RENAMED)
def densenet121(**options: Any) -> DenseNet:
    """DenseNet-121."""
    return DenseNet(32, (6, 12, 24, 16), 64, **options)


@published("DenseNet161_Weights", "densenet161-8d451a50.pth", renamed=_RENAMED)
def densenet161(**options: Any) -> DenseNet:
    """DenseNet-161."""
    return DenseNet(48, (6, 12, 36, 24), 96, **options)


@published("DenseNet169_Weights", "densenet169-b2777c0a.pth", renamed=_RENAMED)
def densenet169(**options: Any) -> DenseNet:
    """DenseNet-169."""
    return DenseNet(32, (6, 12, 32, 32), 64, **options)


@published("DenseNet201_Weights", "densenet201-c1103571.pth", renamed=_RENAMED)
def densenet201(**options: Any) -> DenseNet:
    """DenseNet-201."""
    return DenseNet(32, (6, 12, 48, 32), 64, **options)
