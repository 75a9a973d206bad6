"""ResNet, ResNeXt and wide ResNet. Sources: He et al., Deep Residual Learning; Xie et al., Aggregated Residual Transformations;
Zagoruyko and Komodakis, Wide Residual Networks."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from volta import nn
from volta.vision.models.weights import Weights, published

if TYPE_CHECKING:
    from volta.tensor import Tensor

__all__ = ["BasicBlock", "Bottleneck", "ResNet", "resnet18", "resnet34", "resnet50", "resnet101", "resnet152", "resnext50_32x4d",
           "resnext101_32x8d", "resnext101_64x4d", "wide_resnet50_2", "wide_resnet101_2"]


def conv3x3(in_planes: int, out_planes: int, stride: int = 1, groups: int = 1, dilation: int = 1) -> nn.Conv2d:
    """A convolution that keeps the size at stride 1."""
    return nn.Conv2d(in_planes, out_planes, 3, stride, dilation, dilation, groups, bias=False)


def conv1x1(in_planes: int, out_planes: int, stride: int = 1) -> nn.Conv2d:
    """A convolution of single pixels."""
    return nn.Conv2d(in_planes, out_planes, 1, stride, bias=False)


class BasicBlock(nn.Module):
    """Two convolutions and a shortcut."""
    expansion = 1

    def __init__(self, inplanes: int, planes: int, stride: int = 1, downsample: nn.Module | None = None, groups: int = 1,
                 base_width: int = 64, dilation: int = 1, norm_layer: Callable[..., nn.Module] | None = None) -> None:
        super().__init__()
        norm_layer = norm_layer or nn.BatchNorm2d
        if groups != 1 or base_width != 64:
            raise ValueError("BasicBlock only supports groups=1 and base_width=64")
        if dilation > 1:
            raise NotImplementedError("Dilation > 1 not supported in BasicBlock")
        self.conv1, self.bn1, self.relu = conv3x3(inplanes, planes, stride), norm_layer(planes), nn.ReLU(inplace=True)
        self.conv2, self.bn2, self.downsample, self.stride = conv3x3(planes, planes), norm_layer(planes), downsample, stride

    def forward(self, x: Tensor) -> Tensor:
        out = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
        out += x if self.downsample is None else self.downsample(x)
        return self.relu(out)


class Bottleneck(nn.Module):
    """A convolution between two of single pixels, and a shortcut. The stride is that of the one in the middle."""
    expansion = 4

    def __init__(self, inplanes: int, planes: int, stride: int = 1, downsample: nn.Module | None = None, groups: int = 1,
                 base_width: int = 64, dilation: int = 1, norm_layer: Callable[..., nn.Module] | None = None) -> None:
        super().__init__()
        norm_layer = norm_layer or nn.BatchNorm2d
        width = int(planes * (base_width / 64.0)) * groups
        self.conv1, self.bn1 = conv1x1(inplanes, width), norm_layer(width)
        self.conv2, self.bn2 = conv3x3(width, width, stride, groups, dilation), norm_layer(width)
        self.conv3, self.bn3 = conv1x1(width, planes * self.expansion), norm_layer(planes * self.expansion)
        self.relu, self.downsample, self.stride = nn.ReLU(inplace=True), downsample, stride

    def forward(self, x: Tensor) -> Tensor:
        out = self.relu(self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x))))))
        out = self.bn3(self.conv3(out))
        out += x if self.downsample is None else self.downsample(x)
        return self.relu(out)


class ResNet(nn.Module):
    """Four stages of `layers` blocks, each with half the size and twice the channels of the one before."""

    def __init__(self, block: type[BasicBlock | Bottleneck], layers: Sequence[int], num_classes: int = 1000,
                 zero_init_residual: bool = False, groups: int = 1, width_per_group: int = 64,
                 replace_stride_with_dilation: Sequence[bool] | None = None,
                 norm_layer: Callable[..., nn.Module] | None = None) -> None:
        super().__init__()
        self._norm_layer = norm_layer or nn.BatchNorm2d
        self.inplanes, self.dilation, self.groups, self.base_width = 64, 1, groups, width_per_group
        dilated = [False] * 3 if replace_stride_with_dilation is None else replace_stride_with_dilation
        if len(dilated) != 3:
            raise ValueError(f"replace_stride_with_dilation should be None or a 3-element tuple, got {dilated}")
        self.conv1, self.bn1 = nn.Conv2d(3, 64, 7, 2, 3, bias=False), self._norm_layer(64)
        self.relu, self.maxpool = nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)
        self.layer1 = self._make_layer(block, 64, layers[0])
        self.layer2 = self._make_layer(block, 128, layers[1], 2, dilated[0])
        self.layer3 = self._make_layer(block, 256, layers[2], 2, dilated[1])
        self.layer4 = self._make_layer(block, 512, layers[3], 2, dilated[2])
        self.avgpool, self.fc = nn.AdaptiveAvgPool2d((1, 1)), nn.Linear(512 * block.expansion, num_classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
            elif zero_init_residual and isinstance(module, (BasicBlock, Bottleneck)):
                nn.init.zeros_((module.bn3 if isinstance(module, Bottleneck) else module.bn2).weight)

    def _make_layer(self, block, planes, blocks, stride=1, dilate=False):
        """A stage."""
        before, width = self.dilation, planes * block.expansion
        if dilate:
            self.dilation, stride = self.dilation * stride, 1
        downsample = None
        if stride != 1 or self.inplanes != width:
            downsample = nn.Sequential(conv1x1(self.inplanes, width, stride), self._norm_layer(width))
        shared = (self.groups, self.base_width)
        stage = [block(self.inplanes, planes, stride, downsample, *shared, before, self._norm_layer)]
        self.inplanes = width
        stage += [block(width, planes, 1, None, *shared, self.dilation, self._norm_layer) for _ in range(1, blocks)]
        return nn.Sequential(*stage)

    def _forward_impl(self, x):
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(self.avgpool(x).flatten(1))

    def forward(self, x: Tensor) -> Tensor:
        return self._forward_impl(x)


@published("ResNet18_Weights", "resnet18-f37072fd.pth")
def resnet18(**options: Any) -> ResNet:
    """ResNet-18."""
    return ResNet(BasicBlock, (2, 2, 2, 2), **options)


@published("ResNet34_Weights", "resnet34-b627a593.pth")
def resnet34(**options: Any) -> ResNet:
    """ResNet-34."""
    return ResNet(BasicBlock, (3, 4, 6, 3), **options)


@published("ResNet50_Weights", "resnet50-0676ba61.pth", Weights("resnet50-11ad3fa6.pth", 224, 232))
def resnet50(**options: Any) -> ResNet:
    """ResNet-50."""
    return ResNet(Bottleneck, (3, 4, 6, 3), **options)


@published("ResNet101_Weights", "resnet101-63fe2227.pth", Weights("resnet101-cd907fc2.pth", 224, 232))
def resnet101(**options: Any) -> ResNet:
    """ResNet-101."""
    return ResNet(Bottleneck, (3, 4, 23, 3), **options)


@published("ResNet152_Weights", "resnet152-394f9c45.pth", Weights("resnet152-f82ba261.pth", 224, 232))
def resnet152(**options: Any) -> ResNet:
    """ResNet-152."""
    return ResNet(Bottleneck, (3, 8, 36, 3), **options)


@published("ResNeXt50_32X4D_Weights", "resnext50_32x4d-7cdf4587.pth", Weights("resnext50_32x4d-1a0047aa.pth", 224, 232))
def resnext50_32x4d(**options: Any) -> ResNet:
    """ResNeXt-50 of 32 groups, 4 wide."""
    return ResNet(Bottleneck, (3, 4, 6, 3), **{"groups": 32, "width_per_group": 4, **options})


@published("ResNeXt101_32X8D_Weights", "resnext101_32x8d-8ba56ff5.pth", Weights("resnext101_32x8d-110c445d.pth", 224, 232))
def resnext101_32x8d(**options: Any) -> ResNet:
    """ResNeXt-101 of 32 groups, 8 wide."""
    return ResNet(Bottleneck, (3, 4, 23, 3), **{"groups": 32, "width_per_group": 8, **options})


@published("ResNeXt101_64X4D_Weights", Weights("resnext101_64x4d-173b62eb.pth", 224, 232))
def resnext101_64x4d(**options: Any) -> ResNet:
    """ResNeXt-101 of 64 groups, 4 wide."""
    return ResNet(Bottleneck, (3, 4, 23, 3), **{"groups": 64, "width_per_group": 4, **options})


@published("Wide_ResNet50_2_Weights", "wide_resnet50_2-95faca4d.pth", Weights("wide_resnet50_2-9ba9bcbe.pth", 224, 232))
def wide_resnet50_2(**options: Any) -> ResNet:
    """ResNet-50 with twice the width inside its blocks."""
    return ResNet(Bottleneck, (3, 4, 6, 3), **{"width_per_group": 128, **options})


@published("Wide_ResNet101_2_Weights", "wide_resnet101_2-32ee1156.pth", Weights("wide_resnet101_2-d733dc28.pth", 224, 232))
def wide_resnet101_2(**options: Any) -> ResNet:
    """ResNet-101 with twice the width inside its blocks."""
    return ResNet(Bottleneck, (3, 4, 23, 3), **{"width_per_group": 128, **options})
