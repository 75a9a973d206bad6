"""Graphs of modules as scripts use torch.fx: fusing convolutions with their norms, timing steps, replacing functions; features of a
backbone, and a head for segmentation that is trained on them."""
import copy
import operator
import time

import torch
import torch.fx as fx
import torch.nn as nn
import torch.nn.functional as F
from torch.fx.node import Node
from torch.nn.utils.fusion import fuse_conv_bn_eval
from torchvision import models
from torchvision.models._utils import IntermediateLayerGetter
from torchvision.models.feature_extraction import create_feature_extractor
from torchvision.models.segmentation.fcn import FCNHead

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


def fused(model):
    """The model with each pair of convolution and norm as one layer."""
    model = copy.deepcopy(model)
    traced: fx.GraphModule = fx.symbolic_trace(model)
    modules = dict(traced.named_modules())
    for node in traced.graph.nodes:
        first = node.args[0] if node.args else None
        if node.op == "call_module" and type(modules[node.target]) is nn.BatchNorm2d and isinstance(first, Node) and (
                type(modules.get(first.target)) is nn.Conv2d and len(first.users) == 1):
            parent, _, name = first.target.rpartition(".")
            setattr(modules[parent], name, fuse_conv_bn_eval(modules[first.target], modules[node.target]))
            node.replace_all_uses_with(first)
            traced.graph.erase_node(node)
    traced.recompile()
    traced.delete_all_unused_submodules()
    return traced


class Timer(fx.Interpreter):
    """Seconds of each node."""

    def __init__(self, module):
        super().__init__(module)
        self.seconds = {}

    def run_node(self, n):
        start = time.time()
        result = super().run_node(n)
        self.seconds[n.name] = time.time() - start
        return result


net, x = models.resnet18(num_classes=4).to(device).eval(), torch.randn(2, 3, 32, 32, device=device)
for module in net.modules():
    if isinstance(module, nn.BatchNorm2d):
        module.running_mean.uniform_(-0.5, 0.5), module.running_var.uniform_(0.5, 2.0)
quick = fused(net)
assert not any(isinstance(module, nn.BatchNorm2d) for module in quick.modules())
assert torch.allclose(quick(x), net(x), rtol=1e-3, atol=1e-4)
timer = Timer(quick)
timer.run(x)
assert "layer1_0_conv1" in timer.seconds and len(timer.seconds) == len(quick.graph.nodes)

smooth = fx.symbolic_trace(lambda v: F.relu(v) + torch.mul(v, 2))
assert len(fx.replace_pattern(smooth, lambda v: F.relu(v), lambda v: F.gelu(v))) == 1
for node in smooth.graph.nodes:
    if node.op == "call_function" and node.target == torch.mul:
        node.target = operator.add
smooth.graph.lint()
smooth.recompile()
assert torch.allclose(smooth(x), F.gelu(x) + (x + 2))

maps = create_feature_extractor(net, {"layer2": "middle", "layer4.1.relu_1": "deep"})(x)
assert maps["middle"].shape == (2, 128, 4, 4) and maps["deep"].shape == (2, 512, 1, 1)
backbone, head = IntermediateLayerGetter(net, {"layer1": "out"}), FCNHead(64, 2).to(device)
masks, optimizer, losses = (x[:, 0] > 0).long(), torch.optim.Adam(head.parameters(), lr=0.01), []
for _ in range(8):
    predicted = F.interpolate(head(backbone(x)["out"].detach()), size=32, mode="bilinear", align_corners=False)
    loss = F.cross_entropy(predicted, masks)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
assert losses[-1] < losses[0]
print("done")
