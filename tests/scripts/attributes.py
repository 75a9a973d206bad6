"""Parameters that carry attributes, older checkpoints, tensors by the type of others, and LAPACK on a GPU, in PyTorch's idiom. It ends by
printing "done"."""
import copy
import io
import warnings

import torch
import torch.nn as nn
from torch.utils.checkpoint import checkpoint

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(4, 8), nn.Linear(8, 2)
        self.scale = nn.Parameter(torch.ones(2))
        self.scale._no_weight_decay = True
        self.scale.optim = {"lr": 0.5}
        self.second.bias._no_reinit = True

    def forward(self, x):
        x = checkpoint(lambda v: torch.tanh(self.first(v)), x, use_reentrant=True)
        return self.second(x) * self.scale


def groups(model):
    plain = [p for p in model.parameters() if not getattr(p, "_no_weight_decay", False)]
    special = [p for p in model.parameters() if hasattr(p, "_no_weight_decay")]
    return [{"params": plain}, {"params": special, "weight_decay": 0.0, **special[0].optim}]


torch.manual_seed(0)
net = Net().to(device)
assert net.scale._no_weight_decay and net.second.bias._no_reinit and not hasattr(net.first.bias, "_no_reinit")
optimizer = torch.optim.AdamW(groups(net), lr=0.05)
assert [(group["lr"], group["weight_decay"], len(group["params"])) for group in optimizer.param_groups] == [(0.05, 0.01, 4), (0.5, 0.0, 1)]
for parameter in net.parameters():
    parameter.register_post_accumulate_grad_hook(lambda p: setattr(p, "last_norm", p.grad.norm().item()))
x, losses = torch.randn(16, 4, device=device, requires_grad=True), []
for _ in range(30):
    loss = (net(x) - x[:, :2].detach()).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
assert losses[-1] < 0.5 * losses[0] and net.scale.last_norm == net.scale.grad.norm().item()

best = copy.deepcopy(net)
assert all(p.grad is None and torch.equal(p, q) for p, q in zip(best.parameters(), net.parameters()))
file = io.BytesIO()
torch.save({"scale": net.scale, "plain": net.state_dict()}, file)
file.seek(0)
found = torch.load(file, map_location=device, weights_only=True)
assert found["scale"].optim == {"lr": 0.5} and isinstance(found["scale"], nn.Parameter) and found["scale"].device.type == device.type
assert not hasattr(found["plain"]["scale"], "optim")
assert len({p.data_ptr() for p in net.parameters()}) == 5 and net.first.weight[1:].data_ptr() == net.first.weight.data_ptr() + 16

tokens = torch.ones(1, 1, dtype=torch.long, device=device)
tokens = torch.cat([tokens, torch.full((1, 1), 3.0).type_as(tokens)], 1)
assert tokens.tolist() == [[1, 3]] and tokens.device.type == device.type

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    a = torch.tensor([[4.0, 1.0], [1.0, 3.0]], device=device)
    assert abs(torch.linalg.matrix_norm(a, 2).item() - torch.linalg.eigvalsh(a).max().item()) < 1e-5
    assert torch.linalg.cond(a).device.type == device.type
print("done")
