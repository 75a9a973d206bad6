"""How many dispatches formulas take on a GPU, forward and backward, and that their values and gradients are those of the CPU."""
from __future__ import annotations

import math
from functools import partial

import numpy as np
import pytest

import volta
import volta.distributions as D
import volta.nn.functional as F
from volta import nn

pytestmark = pytest.mark.usefixtures("gpu")
SHAPE = (4, 3)


def _given(device):
    rng = np.random.default_rng(0)
    first, second, x = [volta.tensor(rng.uniform(0.1, 0.9, SHAPE).astype(np.float32), device=device) for _ in range(3)]
    return first.requires_grad_(), second.requires_grad_(), x


def _of_two(name):
    return lambda a, b: getattr(D, name)(a, b, validate_args=False)


def _of_one(name):
    return lambda a, b: getattr(D, name)(a, validate_args=False)


LOG_PROBS = {name: (_of_two(name), 1, 2) for name in (
    "Normal", "LogNormal", "Laplace", "Cauchy", "Gumbel", "Gamma", "Beta", "Weibull", "Pareto", "Kumaraswamy", "FisherSnedecor")}
LOG_PROBS |= {name: (_of_one(name), 1, 1) for name in ("Exponential", "HalfCauchy", "Poisson")}
LOG_PROBS |= {"Uniform": (lambda a, b: D.Uniform(a - 1, b + 1, validate_args=False), 3, 3),
              "HalfNormal": (_of_one("HalfNormal"), 2, 1), "Chi2": (_of_one("Chi2"), 3, 2),
              "StudentT": (lambda a, b: D.StudentT(a, b, b + 1, validate_args=False), 2, 5),
              "Bernoulli": (_of_one("Bernoulli"), 3, 5), "Binomial": (lambda a, b: D.Binomial(1, a, validate_args=False), 3, 2),
              "NegativeBinomial": (lambda a, b: D.NegativeBinomial(1, a, validate_args=False), 3, 2)}
ENTROPIES = {"Gamma": (_of_two("Gamma"), 1, 2), "Beta": (_of_two("Beta"), 1, 2), "StudentT": (_of_one("StudentT"), 3, 1),
             "Categorical": (lambda a, b: D.Categorical(logits=a, validate_args=False), 6, 11)}
DIVERGENCES = {name: (_of_two(name), 1, 6) for name in ("Normal", "Laplace", "Cauchy", "Gumbel")}
DIVERGENCES |= {name: (_of_one(name), 1, 2) for name in ("Exponential", "Poisson")}
DIVERGENCES |= {"Bernoulli": (_of_one("Bernoulli"), 3, 8)}


# Each gives the function whose dispatches are counted: those that make a distribution are not.
CASES = {f"{name}.log_prob": (lambda a, b, x, make=make: partial(make(a, b).log_prob, x), *most)
         for name, (make, *most) in LOG_PROBS.items()}
CASES |= {f"{name}.entropy": (lambda a, b, x, make=make: make(a, b).entropy, *most) for name, (make, *most) in ENTROPIES.items()}
CASES |= {f"{name}.kl": (lambda a, b, x, make=make: partial(D.kl_divergence, make(a, b), make(b, a)), *most)
          for name, (make, *most) in DIVERGENCES.items()}
CASES |= {f"norm {p}": (lambda a, b, x, p=p: partial(a.norm, p, -1), *most)
          for p, most in {2: (1, 1), 3: (3, 2), 0.5: (3, 2), -1: (3, 2)}.items()}
CASES |= {f"pairwise {p}": (lambda a, b, x, p=p: partial(F.pairwise_distance, a, b, p), *most)
          for p, most in {2: (2, 2), 3: (4, 3)}.items()}
CASES |= {"triplet": (lambda a, b, x: partial(F.triplet_margin_loss, a, b, x), 6, 7),
          "triplet with swap": (lambda a, b, x: partial(F.triplet_margin_loss, a, b, x, swap=True), 8, 11)}


def _dispatches():
    return volta.gpu.stats().dispatches


@pytest.mark.parametrize("name", CASES)
def test_formulas_take_few_dispatches_and_give_what_the_cpu_gives(name):
    function, forward, backward = CASES[name]
    found = []
    for device in ("cpu", "gpu"):
        a, b, x = _given(device)
        call = function(a, b, x)
        start = _dispatches()
        out = call()
        seed, middle = volta.ones_like(out).detach(), _dispatches()
        grads = volta.autograd.grad(out, (a, b), seed, create_graph=True, allow_unused=True)
        end = _dispatches()
        grads = [g for g in grads if g is not None]
        again = volta.autograd.grad(sum((g * g.detach()).sum() for g in grads), (a, b), allow_unused=True)
        found.append([t.detach().cpu().numpy() for t in (out, *grads, *again) if t is not None])
    taken = middle - start - 1, end - middle                        # without the seed
    assert taken[0] <= forward and taken[1] <= backward, taken
    assert len(found[0]) == len(found[1])
    for expected, got in zip(*found):
        assert np.allclose(got, expected, 1e-3, 1e-4 * max(1.0, np.abs(expected).max())), name


def test_gamma_distributed_numbers_take_few_dispatches_and_have_the_gradients_of_the_cpu():
    found = []
    for device in ("cpu", "gpu"):
        volta.manual_seed(0)
        a = volta.tensor([0.1, 0.5, 1.0, 3.0, 7.0, 9.0, 100.0], device=device).requires_grad_()
        start = _dispatches()
        drawn = D.Gamma(a, 1.0, validate_args=False).rsample((50,))
        middle = _dispatches()
        D.Gamma(a, 1.0, validate_args=False).sample((50,))
        end = _dispatches()
        found.append([t.detach().cpu().numpy() for t in (drawn, volta.autograd.grad(drawn.sum(), a)[0])])
    assert middle - start <= 17 and end - middle <= 12
    for expected, got in zip(*found):
        assert np.allclose(got, expected, 1e-3, 1e-5)


def test_numbers_below_which_or_at_which_a_power_is_taken_keep_their_gradients():
    for p in (0.5, 1.5, 3, -1, math.inf):
        grads = []
        for device in ("cpu", "gpu"):
            x = volta.tensor([[0.0, 0.0], [0.0, 2.0], [-1.0, math.nan], [math.inf, 1.0]], device=device).requires_grad_()
            out = x.norm(p, -1)
            grads.append([t.detach().cpu().numpy() for t in (out, *volta.autograd.grad(out.sum(), x))])
        for expected, got in zip(*grads):
            assert np.allclose(got, expected, 1e-5, 1e-6, equal_nan=True), p


# Of networks: what is made of an input of shape (2, 4, 3), and how many dispatches that and all gradients take.
LAYERS = {"weight_norm": (lambda x: nn.utils.parametrizations.weight_norm(nn.Linear(3, 4)), 3, 10),
          "instance_norm": (lambda x: nn.InstanceNorm1d(4, affine=True, track_running_stats=True), 6, 3),
          "local_response_norm": (lambda x: nn.LocalResponseNorm(3, 0.5), 3, 6), "alpha_dropout": (lambda x: nn.AlphaDropout(), 4, 1),
          "gumbel_softmax": (lambda x: F.gumbel_softmax, 3, 2), "renorm": (lambda x: partial(volta.renorm, p=2, dim=0, maxnorm=0.5), 6, 8),
          "embedding": (lambda x: partial(nn.Embedding(3, 4, max_norm=1.0).to(x.device), volta.tensor([0, 2, 1], device=x.device)), 5, 1)}


@pytest.mark.parametrize("name", LAYERS)
def test_layers_take_few_dispatches_and_give_what_the_cpu_gives(name):
    make, forward, backward = LAYERS[name]
    found = []
    for device in ("cpu", "gpu"):
        volta.manual_seed(3)
        x = volta.tensor(np.random.default_rng(1).uniform(-1, 1, (2, 4, 3)).astype(np.float32), device=device).requires_grad_()
        layer = make(x)
        owner = getattr(layer, "func", layer)
        owner = owner.to(device) if isinstance(owner, nn.Module) else None
        call = layer if isinstance(layer, partial) and owner is not None else partial(layer, x)
        call()
        volta.manual_seed(4)
        start = _dispatches()
        out = call()
        middle, seed, given = _dispatches(), volta.ones_like(out).detach(), [x, *(() if owner is None else owner.parameters())]
        begun = _dispatches()
        grads = volta.autograd.grad(out, given, seed * 1, allow_unused=True)
        taken = middle - start, _dispatches() - begun - 1               # without the seed
        state = () if owner is None else owner.state_dict().values()
        found.append([t.detach().cpu().numpy() for t in (out, *grads, *state) if t is not None])
    assert taken[0] <= forward and taken[1] <= backward, taken
    for expected, got in zip(*found):
        assert np.allclose(got, expected, 1e-4, 1e-5), name


@pytest.mark.parametrize("name, most", [("Muon", 32), ("Adafactor", 12)])
def test_steps_of_whole_tensors_take_few_dispatches(name, most):
    found = []
    for device in ("cpu", "gpu"):
        p = _given(device)[0]
        p.grad = _given(device)[2]
        optimizer = getattr(volta.optim, name)([p])
        optimizer.step()
        start = _dispatches()
        optimizer.step()
        taken = _dispatches() - start
        found.append(p.detach().cpu().numpy())
    assert taken <= most
    assert np.allclose(*found, 1e-4, 1e-5)


def test_averages_of_a_model_take_a_dispatch_for_each_parameter():
    for chosen in ({}, {"multi_avg_fn": volta.optim.swa_utils.get_ema_multi_avg_fn(0.9)}):
        model = nn.Linear(3, 2).to("gpu")
        averaged = volta.optim.swa_utils.AveragedModel(model, **chosen)
        for _ in range(2):
            averaged.update_parameters(model)
        start = _dispatches()
        averaged.update_parameters(model)
        assert _dispatches() - start <= 4               # two, the number of models and whether that is 0


def test_weighted_sums_of_products_take_one_dispatch_more_than_products():
    x = _given("gpu")[0].detach()
    for call in (lambda: volta.addmm(x, x, x[:3], beta=0.5, alpha=2), lambda: volta.addmm(x[0], x, x[:3], beta=0.5),
                 lambda: volta.addmv(x[:, 0], x, x[0], alpha=2), lambda: volta.baddbmm(x, x[None], x[None, :3], beta=3, alpha=2)):
        start = _dispatches()
        call()
        assert _dispatches() - start == 2
