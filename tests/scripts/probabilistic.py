"""Probabilistic models: a differential equation by its adjoint, a count model, a mixture, relaxed choices, a distribution of one's own."""
import math

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import distributions as dist
from torch.distributions import constraints, transform_to
from torch.distributions.utils import broadcast_all, lazy_property

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


class Adjoint(torch.autograd.Function):
    """Euler's steps; backward solves for the gradients back in time."""

    @staticmethod
    def forward(ctx, z, times, flat, field):
        with torch.no_grad():
            path = [z]
            for a, b in zip(times[:-1], times[1:]):
                path.append(path[-1] + (b - a) * field(path[-1]))
        ctx.field = field
        ctx.save_for_backward(times, torch.stack(path), flat)
        return path[-1].clone()

    @staticmethod
    def backward(ctx, grad):
        times, path, flat = ctx.saved_tensors
        total, of_times = torch.zeros_like(flat), torch.zeros(len(times), *grad.shape[:1], 1).to(grad)
        for i in range(len(times) - 2, -1, -1):
            with torch.enable_grad():
                z = path[i].detach().requires_grad_()
                step = times[i + 1] - times[i]
                made = z + step * ctx.field(z)
                first, *rest = torch.autograd.grad(made, [z, *ctx.field.parameters()], grad)
            total += torch.cat([g.flatten() for g in rest])
            grad = first
        return grad, of_times, total, None


class Gompertz(dist.Distribution):
    arg_constraints = {"rate": constraints.positive, "shape": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True

    def __init__(self, rate, shape, validate_args=None):
        self.rate, self.shape = broadcast_all(rate, shape)
        super().__init__(self.rate.size(), validate_args=validate_args)

    def expand(self, batch_shape, _instance=None):
        new = self._get_checked_instance(Gompertz, _instance)
        new.rate, new.shape = self.rate.expand(batch_shape), self.shape.expand(batch_shape)
        super(Gompertz, new).__init__(torch.Size(batch_shape), validate_args=False)
        return new

    @lazy_property
    def log_rate(self):
        return self.rate.log()

    def rsample(self, sample_shape=()):
        u = torch.rand(self._extended_shape(sample_shape), device=self.rate.device)
        return torch.log1p(-torch.log1p(-u) / self.shape) / self.rate

    def log_prob(self, value):
        if self._validate_args:
            self._validate_sample(value)
        return self.log_rate + self.shape.log() + self.rate * value + self.shape - self.shape * torch.exp(self.rate * value)


@dist.register_kl(Gompertz, dist.Exponential)
def kl_gompertz_exponential(p, q):
    x = p.rsample((2000,))
    return (p.log_prob(x) - q.log_prob(x)).mean(0)


def fit(parameters, loss_of, steps, lr):
    optimizer, losses = torch.optim.Adam(parameters, lr=lr), []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = loss_of()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0] and not math.isnan(losses[-1]), losses
    return losses


rng = np.random.RandomState(0)
field = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 2)).to(device)
start = torch.from_numpy(rng.randn(32, 2)).float().to(device)
goal = start @ torch.tensor([[0.0, 1.0], [-1.0, 0.0]], device=device)
times = torch.linspace(0, 1, 6, device=device)
flat = nn.utils.parameters_to_vector(field.parameters())


def solved():
    return Adjoint.apply(start, times, nn.utils.parameters_to_vector(field.parameters()), field)


direct = start
for a, b in zip(times[:-1], times[1:]):
    direct = direct + (b - a) * field(direct)
wanted = torch.autograd.grad(F.mse_loss(direct, goal), list(field.parameters()))
found = torch.autograd.grad(F.mse_loss(solved(), goal), list(field.parameters()))
assert all(torch.allclose(a, b, rtol=1e-3, atol=1e-5) for a, b in zip(found, wanted))
fit(field.parameters(), lambda: F.mse_loss(solved(), goal), 20, 1e-2)

counts = torch.from_numpy(rng.poisson(4.0, (64, 3)).astype(np.float32)).to(device)
logits, theta = torch.zeros(3, device=device, requires_grad=True), torch.zeros(3, device=device, requires_grad=True)
fit([logits, theta], lambda: -dist.NegativeBinomial(theta.exp(), logits=logits).log_prob(counts).sum(-1).mean(), 30, 0.1)
assert (dist.NegativeBinomial(theta.exp(), logits=logits).mean - counts.mean(0)).abs().max().item() < 2

mix, loc = torch.zeros(2, device=device, requires_grad=True), torch.tensor([-1.0, 1.0], device=device, requires_grad=True)
data = torch.from_numpy(np.where(rng.rand(200) < 0.3, -2, 3) + 0.3 * rng.randn(200)).float().to(device)
fit([mix, loc], lambda: -dist.MixtureSameFamily(dist.Categorical(logits=mix), dist.Normal(loc, 1.0)).log_prob(data).mean(), 60, 0.1)
assert abs(mix.softmax(0)[0].item() - 0.3) < 0.1 and abs(loc[1].item() - 3) < 0.4

scores = torch.zeros(4, device=device, requires_grad=True)
value = torch.tensor([0.0, 1.0, 2.0, 5.0], device=device)
warm = torch.tensor(0.5, device=device)
fit([scores], lambda: -(dist.RelaxedOneHotCategorical(warm, logits=scores).rsample((64,)) @ value).mean(), 30, 0.1)
assert scores.argmax().item() == 3
shape = torch.tensor([0.5], device=device, requires_grad=True)
fit([shape], lambda: (dist.Gamma(shape.exp(), 1.0).rsample((400,)).mean() - 4) ** 2, 60, 0.05)
assert abs(shape.exp().item() - 4) < 0.8

prior = Gompertz(torch.tensor(1.0, device=device), torch.tensor([0.5, 1.0], device=device))
assert prior.expand((3, 2)).rsample((5,)).shape == (5, 3, 2) and prior.log_prob(prior.sample()).shape == (2,)
assert (dist.kl_divergence(prior, dist.Exponential(torch.ones(2, device=device))) > 0).all()
free = torch.tensor([[0.3, -0.2, 1.0]], device=device)
for constraint in (constraints.simplex, constraints.positive, constraints.interval(-1.0, 2.0), constraints.corr_cholesky):
    assert constraint.check(transform_to(constraint)(free)).all(), constraint
print("done")
