"""Graph networks on sparse adjacency matrices, whole models in files, a writer of curves, a group of one process."""
import argparse
import os
import tempfile

import numpy as np
import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.modules.module import Module
from torch.nn.parallel import DistributedDataParallel
from torch.nn.parameter import Parameter
from torch.utils.tensorboard import SummaryWriter

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=60)
args = parser.parse_args()
torch.manual_seed(2)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
rng = np.random.default_rng(0)


class GraphConvolution(Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.weight = Parameter(torch.FloatTensor(inputs, outputs))
        self.weight.data.uniform_(-1 / outputs ** 0.5, 1 / outputs ** 0.5)

    def forward(self, x, adj):
        return torch.spmm(adj, torch.mm(x, self.weight))


class GCN(nn.Module):
    def __init__(self, features, classes):
        super().__init__()
        self.gc1, self.gc2, self.activation = GraphConvolution(features, 16), GraphConvolution(16, classes), F.relu
        self.args = args

    def forward(self, x, adj):
        x = F.dropout(self.activation(self.gc1(x, adj)), 0.2, training=self.training)
        return F.log_softmax(self.gc2(x, adj), dim=1)


class EdgeSum(torch.autograd.Function):
    @staticmethod
    def forward(ctx, at, values, shape, b):
        a = torch.sparse_coo_tensor(at, values, shape)
        ctx.save_for_backward(a, b)
        ctx.n = shape[0]
        return torch.matmul(a, b)

    @staticmethod
    def backward(ctx, g):
        a, b = ctx.saved_tensors
        edge = a._indices()[0, :] * ctx.n + a._indices()[1, :]
        return None, g.matmul(b.t()).view(-1)[edge], None, a.t().matmul(g)


n, classes = 60, 3
labels = torch.LongTensor(rng.integers(0, classes, n))
pairs = np.array([(i, j) for i in range(n) for j in range(n) if i == j or rng.random() < (0.2 if labels[i] == labels[j] else 0.01)])
features = torch.FloatTensor(np.eye(classes)[labels.numpy()] + rng.normal(size=(n, classes)))
scale = 1 / torch.bincount(torch.from_numpy(pairs[:, 0]), minlength=n).float()
adj = torch.sparse.FloatTensor(torch.from_numpy(pairs.T), torch.ones(len(pairs)), torch.Size([n, n]))
adj = (torch.diag(scale).to_sparse() @ adj.to_dense()).to_sparse().to(device)
features, labels = features.to(device), labels.to(device)

dist.init_process_group("gloo", rank=0, world_size=1)
model = DistributedDataParallel(GCN(classes, classes).to(device))
optimizer = torch.optim.Adam(model.parameters(), lr=0.02, weight_decay=5e-4)
with tempfile.TemporaryDirectory() as folder:
    writer = SummaryWriter(folder)
    for epoch in range(args.epochs):
        model.train()
        optimizer.zero_grad()
        loss = F.nll_loss(model(features, adj)[:40], labels[:40])
        loss.backward()
        optimizer.step()
        writer.add_scalar("loss", loss, epoch)
    writer.close()
    assert os.path.getsize(os.path.join(folder, os.listdir(folder)[0])) > 40 * args.epochs
    model.eval()
    torch.save(model.module, os.path.join(folder, "model.pt"))
    again = torch.load(os.path.join(folder, "model.pt"), weights_only=False)
    assert again.args == args and torch.equal(again(features, adj), model(features, adj))
dist.destroy_process_group()
right = again(features, adj)[40:].max(1)[1].type_as(labels).eq(labels[40:]).double()
print(f"loss {loss.item():.3f}, right {right.sum() / len(right):.2f}")
assert right.sum() / len(right) > 0.7

edges = adj.to_dense().nonzero().t()
weights = torch.rand(edges.shape[1], device=device, requires_grad=True)
rows = torch.randn(n, 2, device=device, requires_grad=True)
EdgeSum.apply(edges, weights, torch.Size([n, n]), rows).pow(2).sum().backward()
theirs = weights.grad.clone(), rows.grad.clone()
weights.grad = rows.grad = None
torch.sparse.mm(torch.sparse_coo_tensor(edges, weights, (n, n)), rows).pow(2).sum().backward()
assert torch.allclose(theirs[0], weights.grad, rtol=1e-4) and torch.allclose(theirs[1], rows.grad, rtol=1e-4)
print("done")
