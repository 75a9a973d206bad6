"""Gradients in unusual places: sparse ones of word vectors, of an energy for its input by way of `.data`, of each sample by itself."""
import torch
import torch.nn as nn
import torch.nn.functional as F
import torchvision
from torch.func import functional_call, grad, vmap

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")

# Word vectors, by negative sampling: words of one half of the vocabulary stand together.
vocabulary, vectors = 40, nn.Embedding(40, 8, sparse=True).to(device)
optimizer, losses = torch.optim.SparseAdam(vectors.parameters(), lr=0.05), []
for _ in range(60):
    half = torch.randint(2, (64, 1), device=device) * (vocabulary // 2)
    words = half + torch.randint(vocabulary // 2, (64, 2), device=device)
    others = torch.randint(vocabulary, (64, 4), device=device)
    own = vectors(words[:, 0])
    loss = -F.logsigmoid((own * vectors(words[:, 1])).sum(1)).mean() - F.logsigmoid(-torch.bmm(vectors(others), own[:, :, None])).mean()
    optimizer.zero_grad()
    loss.backward()
    assert vectors.weight.grad.is_sparse
    optimizer.step()
    losses.append(loss.item())
assert sum(losses[-5:]) < 0.8 * sum(losses[:5]), losses

# Langevin steps down an energy: what is written through .data is no change of the graph.
x = torch.full((16, 2), 3.0, device=device, requires_grad=True)
for _ in range(100):
    energy = (x ** 2).sum()
    x.data.add_(0.01 * torch.randn(16, 2, device=device))
    energy.backward()
    x.data.add_(x.grad.data, alpha=-0.05)
    x.grad.zero_()
assert x.abs().max().item() < 0.5 and x._version == 0

# Training with the gradients of single images, each clipped.
model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 36, 2)).to(device)
weights = {name: p.detach() for name, p in model.named_parameters()}


def loss_of(weights, image, label):
    return F.cross_entropy(functional_call(model, weights, (image.unsqueeze(0),)), label.unsqueeze(0))


labels = torch.arange(16, device=device) % 2
images = torch.randn(16, 1, 8, 8, device=device) * 0.3 + labels[:, None, None, None]
before = vmap(loss_of, (None, 0, 0))(weights, images, labels).mean().item()
for _ in range(10):
    gradients = vmap(grad(loss_of), in_dims=(None, 0, 0))(weights, images, labels)
    norms = torch.stack([g.flatten(1).norm(dim=1) for g in gradients.values()]).norm(dim=0)
    scale = (1.0 / norms).clamp(max=1.0)
    weights = {name: weights[name] - 0.5 * torch.einsum("n,n...->...", scale, g) / 16 for name, g in gradients.items()}
assert vmap(loss_of, (None, 0, 0))(weights, images, labels).mean().item() < 0.5 * before

# What a box shows of the images.
boxes = [torch.tensor([[0.0, 0.0, 8.0, 8.0]], device=device)] * 16
assert torchvision.ops.roi_align(images, boxes, 2, sampling_ratio=2).shape == (16, 1, 2, 2)
print("done")
