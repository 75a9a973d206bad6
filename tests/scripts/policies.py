"""Distributions, transforms and old-style code of reinforcement learning: a squashed policy, a mixture, Beta draws, a covariance."""
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import distributions as pyd
from torch.distributions.transforms import TanhTransform, Transform
from torch.nn.modules.utils import _pair

torch.manual_seed(1)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
assert _pair(3) == (3, 3) and isinstance(nn.BatchNorm1d(2), torch.nn.modules.batchnorm._BatchNorm)


class Doubled(Transform):
    domain = pyd.constraints.real
    codomain = pyd.constraints.real
    bijective = True
    sign = +1

    def _call(self, x):
        return 2 * x

    def _inverse(self, y):
        return y / 2

    def log_abs_det_jacobian(self, x, y):
        return torch.full_like(x, 2.0).log()


class Squashed(pyd.transformed_distribution.TransformedDistribution):
    def __init__(self, loc, scale):
        self.loc, self.scale = loc, scale
        super().__init__(pyd.Normal(loc, scale), [Doubled(), TanhTransform(cache_size=1)])

    @property
    def mean(self):
        return torch.tanh(2 * self.loc)


class Actor(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(3, 32), nn.ReLU(), nn.Linear(32, 4))

    def forward(self, state):
        loc, log_std = self.net(state).chunk(2, dim=-1)
        return Squashed(loc, torch.clamp(log_std, -4, 1).exp())


actor = Actor().to(device)
optimizer = torch.optim.Adam(actor.parameters(), lr=1e-2)
states = torch.randn(64, 3).to(device)
wanted = torch.tanh(states[:, :2])
losses = []
for _ in range(60):
    policy = actor(states)
    action = policy.rsample()
    log_prob = policy.log_prob(action).sum(-1)
    loss = (0.001 * log_prob + F.mse_loss(action, wanted, reduction="none").sum(-1)).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
assert losses[-1] < 0.4 * losses[0], losses

mixture = pyd.MixtureSameFamily(pyd.Categorical(torch.ones(3, device=device)), pyd.Normal(torch.arange(3.0, device=device), 0.1))
values = mixture.sample((500,)).round().long()
assert torch.bincount(values.clamp(0, 2), minlength=3).min() > 100
beta = pyd.Beta(torch.tensor([2.0], device=device), torch.tensor([3.0], device=device))
assert abs(beta.sample((2000,)).mean().item() - 0.4) < 0.03 and beta.entropy().item() < 0

cov = torch.diag(torch.full((2,), 0.36)).unsqueeze(0).to(device)
normal = pyd.MultivariateNormal(torch.zeros(5, 2, device=device), cov)
assert normal.log_prob(normal.sample()).shape == (5,)

correct = wanted.gt(0).eq(actor(states).mean.gt(0)).double()            # float64, which few GPUs have
print(f"loss {loss.item():.4f}, right {correct.sum() / correct.numel():.2f}")
with torch.random.fork_rng():
    torch.rand(3)
jacobian = torch.autograd.functional.jacobian(lambda x: x ** 2, torch.tensor([1.0, 2.0], device=device))
assert jacobian.diag().tolist() == [2.0, 4.0]
print("done")
