"""A program as a user would write it, for tests/test_typing.py: checked by mypy and pyright, and run."""
from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

import volta
import volta.nn.functional as F
from volta import nn, optim
from volta.data import DataLoader, Dataset, TensorDataset

if TYPE_CHECKING:
    from typing import reveal_type


class Net(nn.Module):
    def __init__(self, hidden: int = 8) -> None:
        super().__init__()
        self.features = nn.Sequential(nn.Linear(4, hidden), nn.LayerNorm(hidden), nn.GELU(), nn.Dropout(0.1))
        self.head = nn.Linear(hidden, 3)
        self.scale = nn.Parameter(volta.ones(1))

    def forward(self, x: volta.Tensor) -> volta.Tensor:
        return self.head(self.features(x)) * self.scale


class Squares(Dataset[tuple[float, float]]):
    def __len__(self) -> int:
        return 10

    def __getitem__(self, index: int) -> tuple[float, float]:
        return float(index), float(index * index)


class Double(volta.autograd.Function):
    @staticmethod
    def forward(ctx: volta.autograd.FunctionCtx, x: volta.Tensor) -> volta.Tensor:
        ctx.save_for_backward(x)
        return x * 2

    @staticmethod
    def backward(ctx: volta.autograd.FunctionCtx, g: volta.Tensor) -> volta.Tensor:
        (x,) = ctx.saved_tensors
        return g * 2 if x.requires_grad or x.is_leaf else g


def accuracy(model: Net, x: volta.Tensor, y: volta.Tensor) -> float:
    model.eval()
    with volta.no_grad():
        right = model(x).argmax(1) == y
    return float(right.float().mean().item())


@volta.no_grad()
def clip(parameters: list[nn.Parameter], largest: float) -> None:
    for p in parameters:
        if p.grad is not None:
            p.grad.clamp_(-largest, largest)


def train(epochs: int = 2, device: str = "cpu") -> float:
    volta.manual_seed(0)
    data = np.random.default_rng(0).normal(size=(32, 4)).astype(np.float32)
    x, y = volta.tensor(data, device=device), volta.tensor((data[:, 0] > 0).astype(np.int64), device=device)
    model = Net().to(device)
    optimizer = optim.AdamW(model.parameters(), lr=1e-2, weight_decay=0.01)
    schedule = optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.5)
    loader = DataLoader(TensorDataset(x, y), batch_size=8, shuffle=True, seed=1)
    total = 0.0
    for epoch in range(epochs):
        model.train()
        for inputs, labels in loader:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(inputs), labels)
            loss.backward()
            clip(list(model.parameters()), 1.0)
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            total += float(loss.item())
        schedule.step()
        print(f"epoch {epoch}: loss {total:.3f}, accuracy {accuracy(model, x, y):.2f}")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.safetensors")
        volta.save(model.state_dict(), path)
        model.load_state_dict(volta.load(path))
    return total


def arithmetic(device: str = "cpu") -> volta.Tensor:
    x = volta.arange(6.0, device=device).reshape(2, 3)
    y = volta.rand(2, 3, device=device, generator=volta.Generator(3)) + 1
    z = (x + y) * 2 - x / y + 3 ** y - (x @ y.T).sum() // 2 + x % 2 + 1 / y - 2 * abs(-x)
    mask = (z > 0) & ~(z == 1) | (x <= y) ^ (x != 0)
    z = z.where(mask, 0)
    z += 1
    z -= y
    z *= 2
    z /= y
    z **= 2
    z %= 3
    z //= 2
    z[0, 1:] = x[1, None, ::2].squeeze(0)
    z[z < 0] = 0.5
    z[..., -1].fill_(1)
    rows = [row.sum().item() for row in z]
    values, indices = z.max(dim=1)
    first, second = volta.split(z, 1)
    volta.exp(z).add_(1, alpha=2).clamp_(max=3).mul_(first).zero_()
    z.sigmoid_().relu_()
    n, m = z.shape
    leaf = volta.zeros(n, m, requires_grad=True)
    handle = leaf.register_post_accumulate_grad_hook(lambda t: print(t.shape))
    volta.where(leaf > 0, leaf, leaf * 2).sum().backward()
    handle.remove()
    (g,) = volta.autograd.grad(Double.apply(leaf).sum(), leaf)
    out = volta.cat([values, indices.float(), g.flatten(), volta.stack([first, second]).reshape(-1)])
    return out.to(device, volta.float64) + len(rows) + z.size(0)


def batches(loader: DataLoader[list[volta.Tensor]]) -> list[int]:
    return [x.size(0) for x, _ in loader]


def types() -> None:
    """What a type checker must know about these: not Any."""
    x, model = volta.ones(2, 3), Net()
    if TYPE_CHECKING:
        reveal_type(volta.exp(x))
        reveal_type(volta.add(x, 1, alpha=2))
        reveal_type(volta.zeros(2, 3))
        reveal_type(volta.float32)
        reveal_type(volta.device("cpu"))
        reveal_type(x + 1)
        reveal_type(1 - x)
        reveal_type(x == 1)
        reveal_type(-x)
        reveal_type(abs(x))
        reveal_type(~x)
        reveal_type(2 ** x)
        reveal_type(x @ x)
        reveal_type(x[0, ..., None])
        reveal_type(x.exp())
        reveal_type(x.exp_())
        reveal_type(x.add_(1))
        reveal_type(x.sum(0))
        reveal_type(x.max())
        reveal_type(x.max(0).values)
        reveal_type(x.softmax(-1))
        reveal_type(x.item())
        reveal_type(x.shape)
        reveal_type(x.size())
        reveal_type(x.size(0))
        reveal_type(x.dtype)
        reveal_type(x.dtype.itemsize)
        reveal_type(x.device)
        reveal_type(x.device.type)
        reveal_type(x.storage)
        reveal_type(x.grad)
        reveal_type(x.grad_fn)
        reveal_type(x.is_gpu)
        reveal_type(x.T)
        reveal_type(x.type())
        reveal_type(x.type(volta.int64))
        reveal_type(x.split(1))
        reveal_type(x.to("gpu"))
        reveal_type(x.float())
        reveal_type(x.register_hook(lambda g: g * 2))
        reveal_type(list(x))
        reveal_type(volta.no_grad())
        reveal_type(volta.is_grad_enabled())
        reveal_type(volta.get_num_threads())
        reveal_type(volta.finfo(volta.float32).eps)
        reveal_type(volta.save)
        reveal_type(volta.Generator(1))
        reveal_type(volta.gpu.stats())
        reveal_type(model(x))
        reveal_type(model.head)
        reveal_type(model.head.weight)
        reveal_type(model.scale)
        reveal_type(model.features)
        reveal_type(model.features(x))
        reveal_type(nn.Linear(2, 3)(x))
        reveal_type(nn.CrossEntropyLoss()(x, x))
        reveal_type(list(model.parameters()))
        reveal_type(list(model.named_parameters()))
        reveal_type(model.train())
        reveal_type(model.to("cpu"))
        reveal_type(F.relu(x))
        reveal_type(F.cross_entropy(x, x))
        reveal_type(F.conv2d(x, x, padding=1))
        reveal_type(F.dropout(x, 0.5, training=True))
        reveal_type(model.features[0])
        reveal_type(model.features[1:])
        reveal_type(volta.result_type(x, 1))
        reveal_type(volta.einsum("ij,jk->ik", x, x))
        reveal_type(nn.utils.clip_grad_norm_(model.parameters(), 1.0))
        reveal_type(nn.init.normal_(x))
        reveal_type(volta.gpu.devices())
        reveal_type(optim.lr_scheduler.StepLR(optim.SGD([x]), 3).get_last_lr())
        reveal_type(optim.SGD(model.parameters(), lr=0.1))
        reveal_type(Double.apply(x))
        reveal_type(list(DataLoader(TensorDataset(x, x), batch_size=2, drop_last=True)))
        reveal_type(list(DataLoader((x, x), shuffle=True, seed=1)))
        reveal_type(list(DataLoader(x, device="cpu")))
        reveal_type(list(DataLoader(Squares(), collate_fn=len)))
        reveal_type(volta.autograd.grad(x, x))


if __name__ == "__main__":
    print(train(), arithmetic(), batches(DataLoader((volta.ones(3), volta.ones(3)), 2)), len(DataLoader(Squares(), 4)))
    types()
