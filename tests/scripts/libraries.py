"""What libraries on top of PyTorch call: trees of tensors, functions over lists, safetensors, flexible attention, lists as subscripts."""
import dataclasses
import os
import tempfile
from collections import OrderedDict

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.utils._pytree as pytree
from safetensors.torch import load_file, load_model, save_file, save_model
from torch.hub import HASH_REGEX, get_dir
from torch.jit.annotations import List
from torch.nn.attention.flex_attention import create_block_mask, flex_attention
from torch.utils._pytree import tree_flatten, tree_map, tree_unflatten

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
assert HASH_REGEX.search("resnet18-f37072fd.pth") and get_dir() and List[int] and not torch.compiler.is_exporting()

tree = {"a": [torch.ones(2), (torch.zeros(1), None)], "b": OrderedDict(c=3)}
leaves, spec = tree_flatten(tree)
assert len(leaves) == spec.num_leaves == 4 and spec == pytree.tree_structure(tree)
assert isinstance(tree_unflatten(leaves, spec)["b"], OrderedDict)
doubled = pytree.tree_map_only(torch.Tensor, lambda x: x * 2, tree)
assert doubled["a"][0].tolist() == [2, 2] and doubled["b"]["c"] == 3
assert tree_map(lambda x, y: x + y, [1, (2,)], [3, (4,)]) == [4, (6,)] and pytree.tree_any(lambda x: x is None, tree)

parameters = [torch.ones(2, device=device), torch.full((3,), 2.0, device=device)]
torch._foreach_mul_(parameters, 0.5)
torch._foreach_add_(parameters, [torch.ones_like(p) for p in parameters], alpha=2)
torch._foreach_lerp_(parameters, torch._foreach_neg(parameters), 0.5)
assert all((p == 0).all() for p in parameters) and len(torch._foreach_norm(parameters)) == 2
try:
    torch._foreach_add_(parameters, [1.0])
    raise AssertionError
except RuntimeError as error:
    assert "same number of" in str(error)


class Tied(nn.Module):
    """An embedding that is also the output, rows by pairs of indices, and lists of parameters that hold more than parameters."""

    def __init__(self):
        super().__init__()
        self.embed, self.head = nn.Embedding(6, 4), nn.Linear(4, 6, bias=False)
        self.head.weight = self.embed.weight
        self.scales = nn.ParameterList([torch.ones(4), nn.ParameterList([nn.Parameter(torch.ones(1))]), nn.Linear(1, 1)])
        self.stages = nn.ModuleList([nn.Identity(), None])

    def forward(self, words):
        return self.head(self.embed(words) * self.scales[0])


net = Tied().to(device)
assert len(net.scales) == 3 and "scales.1.0" in net.state_dict() and net.stages[1] is None
with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "model.safetensors")
    save_model(net, path, {"made": "here"})
    assert len(load_file(path)) == len(net.state_dict()) - 1
    other = Tied().to(device)
    assert load_model(other, path) == ([], []) and torch.equal(other.head.weight, net.embed.weight)
    save_file({"x": parameters[0]}, path)
    assert load_file(path, device=str(device))["x"].device.type == device.type

table, rows, columns = torch.arange(12.0, device=device).reshape(3, 4), torch.tensor([0, 2]), torch.tensor([1, 3])
assert table[[rows, columns]].tolist() == table[rows, columns].tolist() == [1, 11] and table[[0, 2]].shape == (2, 4)
assert f"{table.shape} {table.dtype}" == "torch.Size([3, 4]) torch.float32" and isinstance(table.shape, torch.Size)

query, key, value = torch.randn(3, 2, 4, 10, 8, device=device).unbind(0)
causal = create_block_mask(lambda b, h, q, kv: q >= kv, None, None, 10, 10, device=device)
found = flex_attention(query, key, value, score_mod=lambda score, b, h, q, kv: score + 0.1 * (h + 1) * (kv - q), block_mask=causal)
bias = 0.1 * torch.arange(1, 5, device=device).view(4, 1, 1) * (torch.arange(10, device=device) - torch.arange(10, device=device)[:, None])
bias = bias.masked_fill(torch.ones(10, 10, dtype=torch.bool, device=device).triu(1), float("-inf"))
with torch.backends.cuda.sdp_kernel(enable_flash=False):
    assert torch.allclose(found, F.scaled_dot_product_attention(query, key, value, attn_mask=bias), atol=1e-5)


@dataclasses.dataclass
class Point:
    x: object
    y: object


@dataclasses.dataclass(frozen=True)
class Constant:
    name: str


pytree.register_dataclass(Point)
pytree.register_constant(Constant)
assert tree_map(lambda x: x + 1, Point(1, 2)) == Point(2, 3) and tree_flatten(Constant("a"))[0] == []
assert tree_map(lambda x: x, [Constant("a")]) == [Constant("a")]


@torch.library.custom_op("mylib::scaled", mutates_args=())
def scaled(x: torch.Tensor, *, by: float) -> torch.Tensor:
    return torch.from_numpy(x.detach().numpy() * by)


def keep(ctx, inputs, keyword_only_inputs, output):
    ctx.by = keyword_only_inputs["by"]


scaled.register_autograd(lambda ctx, g: g * ctx.by, setup_context=keep)
scaled.register_vmap(lambda info, in_dims, x, by: (x * by, in_dims[0]))
x = torch.ones(2, 3, requires_grad=True)
scaled(x, by=3.0).sum().backward()
assert x.grad.tolist() == [[3.0] * 3] * 2 and str(scaled) == "<CustomOpDef(mylib::scaled)>"
assert torch.vmap(lambda row: scaled(row, by=2.0))(torch.ones(2, 3)).tolist() == [[2.0] * 3] * 2
print("done")
