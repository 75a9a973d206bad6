"""volta.distributions beside PyTorch's: densities, moments, divergences, draws, on each device."""
import math

import numpy as np
import pytest

import volta
import volta.distributions as ours
from volta.errors import ArgumentError, ShapeError

torch = pytest.importorskip("torch", reason="compares with PyTorch")
theirs = torch.distributions

LOW = object()                          # an array that is above the one before it
SHAPES = {"Normal": [(3,), (3,)], "LogNormal": [(3,), (3,)], "Laplace": [(3,), (3,)], "Cauchy": [(3,), (3,)], "Gumbel": [(3,), (2, 3)],
          "HalfNormal": [(3,)], "Exponential": [(3,)], "Uniform": [(3,), LOW], "Bernoulli": [(2, 3)], "Geometric": [(3,)],
          "Poisson": [(3,)], "Categorical": [(2, 4)], "OneHotCategorical": [(2, 4)]}
BY_LOGITS = ("Bernoulli", "Categorical", "OneHotCategorical", "Geometric")
DISCRETE = (*BY_LOGITS, "Poisson")
CASES = [(name, False) for name in SHAPES] + [(name, True) for name in BY_LOGITS]


def arguments(name):
    rng = np.random.default_rng(len(name))
    return [rng.uniform(0.2, 0.9, (3,) if s is LOW else s).astype(np.float32) + (1 if s is LOW else 0) for s in SHAPES[name]]


def made(name, arrays, logits, device):
    """The distribution here and there."""
    if logits:
        return getattr(ours, name)(logits=volta.tensor(arrays[0], device=device)), getattr(theirs, name)(logits=torch.tensor(arrays[0]))
    return getattr(ours, name)(*(volta.tensor(a, device=device) for a in arrays)), getattr(theirs, name)(*map(torch.tensor, arrays))


def close(found, expected, **tolerance):
    found = found.detach().cpu().numpy()
    assert found.shape == tuple(expected.shape)
    np.testing.assert_allclose(found, expected.detach().numpy(), **{"rtol": 2e-5, "atol": 2e-5, **tolerance})


@pytest.mark.parametrize("name, logits", CASES)
def test_densities_and_moments(name, logits, device):
    p, q = made(name, arguments(name), logits, device)
    assert p.batch_shape == tuple(q.batch_shape) and p.event_shape == tuple(q.event_shape) and p.has_rsample == q.has_rsample
    drawn = q.sample((5,))
    value = volta.tensor(drawn.numpy(), device=device)
    close(p.log_prob(value), q.log_prob(drawn))
    close(p.expand((5, *p.batch_shape)).log_prob(value), q.expand((5, *q.batch_shape)).log_prob(drawn))
    for fact in ("mean", "mode", "variance", "stddev", *(("probs", "logits") if name in BY_LOGITS else ())):
        close(getattr(p, fact), getattr(q, fact))
    if name != "Poisson":
        close(p.entropy(), q.entropy())
    if name not in DISCRETE:
        close(p.cdf(value), q.cdf(drawn))
        part = torch.full(q.batch_shape, 0.3)
        close(p.icdf(volta.tensor(part.numpy(), device=device)), q.icdf(part))


@pytest.mark.parametrize("name, logits", CASES)
def test_draws(name, logits, device):
    p, q = made(name, arguments(name), logits, device)
    volta.manual_seed(0)
    drawn = p.sample((20_000,))
    assert not drawn.requires_grad and str(drawn.dtype).endswith(str(q.sample().dtype)[6:]) and drawn.shape[1:] == p.sample().shape
    drawn = drawn.float().cpu().numpy()
    if name == "Categorical":
        np.testing.assert_allclose([(drawn == i).mean(0) for i in range(4)], q.probs.T.numpy(), atol=0.02)
    elif name != "Cauchy":
        np.testing.assert_allclose(drawn.mean(0), q.mean.numpy(), atol=0.06 * (1 + q.stddev.max()))
        np.testing.assert_allclose(drawn.var(0), q.variance.numpy(), atol=0.1 * (1 + q.variance.max()))
    if p.has_rsample:
        parameters = [volta.tensor(a, device=device, requires_grad=True) for a in arguments(name)]
        getattr(ours, name)(*parameters).rsample((4,)).sum().backward()
        assert all(a.grad is not None for a in parameters)


@pytest.mark.parametrize("name", [name for name in SHAPES if name != "Uniform"])
def test_divergences(name, device):
    first, second = arguments(name), [a * np.float32(0.7) for a in arguments(name)]
    (p, q), (r, s) = made(name, first, False, device), made(name, second, False, device)
    close(ours.kl_divergence(p, r), theirs.kl_divergence(q, s), rtol=1e-4)


def test_divergences_of_uniform_and_of_pairs_without_a_formula():
    wide, narrow = ours.Uniform(0.0, 2.0), ours.Uniform(0.5, 1.0)
    assert ours.kl_divergence(narrow, wide).item() == pytest.approx(np.log(4)) and ours.kl_divergence(wide, narrow).item() == np.inf
    with pytest.raises(NotImplementedError, match="Normal and Weibull"):
        ours.kl_divergence(ours.Normal(0.0, 1.0), ours.Weibull(1.0, 1.0))
    with pytest.raises(NotImplementedError, match="Normal and LogNormal"):
        ours.kl_divergence(ours.Normal(0.0, 1.0), ours.LogNormal(0.0, 1.0))


def test_vectors():
    rng = np.random.default_rng(0)
    factor = np.tril(rng.uniform(0.2, 0.9, (3, 3)) + np.eye(3)).astype(np.float32)
    loc = rng.standard_normal((2, 3)).astype(np.float32)
    p, q = (lib.distributions.MultivariateNormal(lib.tensor(loc), lib.tensor(factor @ factor.T)) for lib in (volta, torch))
    r, s = (lib.distributions.MultivariateNormal(lib.tensor(loc[0]), scale_tril=lib.tensor(factor) * 0.5) for lib in (volta, torch))
    drawn = q.sample((5,))
    close(p.log_prob(volta.tensor(drawn.numpy())), q.log_prob(drawn), atol=1e-4)
    close(p.entropy(), q.entropy())
    close(p.precision_matrix, q.precision_matrix, rtol=1e-3)
    close(ours.kl_divergence(p, r), theirs.kl_divergence(q, s), rtol=1e-3)
    assert p.rsample((6,)).shape == (6, 2, 3)
    volta.manual_seed(0)
    np.testing.assert_allclose(np.cov(r.sample((20_000,)).numpy().T), r.covariance_matrix.numpy(), atol=0.05)
    i, j = (lib.distributions.Independent(lib.distributions.Normal(lib.tensor(loc), 1.5), 1) for lib in (volta, torch))
    close(i.log_prob(volta.tensor(drawn.numpy())), j.log_prob(drawn))
    close(i.entropy(), j.entropy())
    assert i.batch_shape == (2,) and i.event_shape == (3,) and i.sample((4,)).shape == (4, 2, 3)


@pytest.mark.parametrize("call, error, text", [
    (lambda: ours.Normal(volta.zeros(2), -1.0), ArgumentError, "Normal: scale must be positive"),
    (lambda: ours.Categorical(volta.tensor([-1.0, 2.0])), ArgumentError, "Categorical: probs must not be negative"),
    (lambda: ours.Bernoulli(1.5), ArgumentError, r"Bernoulli: probs must be in \[0.0, 1.0\]"),
    (lambda: ours.Normal(volta.zeros(2), 1.0).log_prob(volta.tensor([np.nan, 0])), ArgumentError, "Normal: value must be numbers"),
    (lambda: ours.Normal(volta.zeros(3), 1.0).log_prob(volta.zeros(2)), ShapeError, r"value of shape \(2,\) does not fit"),
    (lambda: ours.Categorical(), ArgumentError, "give either probs or logits, not neither"),
    (lambda: ours.Uniform(1.0, 0.0), ArgumentError, "low must be less than"),
    (lambda: ours.MultivariateNormal(volta.zeros(2)), ArgumentError, "exactly one of"),
])
def test_bad_values_are_refused(call, error, text):
    with pytest.raises(error, match=text):
        call()


def test_the_check_can_be_left_out(device):
    assert ours.Normal(volta.zeros(2, device=device), -1.0, validate_args=False).scale.tolist() == [-1, -1]


@pytest.mark.gpu
def test_learning_by_draws_runs_without_transfers(gpu):
    logits = volta.zeros(8, 4, device=gpu, requires_grad=True)
    with volta.gpu.forbid_transfers():
        policy = ours.Categorical(logits=logits)
        (-policy.log_prob(policy.sample())).mean().backward()
        ours.Normal(logits, 1.0).rsample().sum().backward()
    assert logits.grad is not None


@pytest.mark.parametrize("name, shapes, values", [
    ("Gamma", 2, (0.1, 5)), ("Beta", 2, (0.05, 0.95)), ("StudentT", 3, (-3, 3)), ("Chi2", 1, (0.1, 5)), ("Dirichlet", 1, None)])
def test_gamma_and_its_kin(name, shapes, values, device):
    rng = np.random.default_rng(3)
    arrays = [rng.uniform(0.3, 4, 3).astype(np.float32) for _ in range(shapes)]
    x = (rng.uniform(*values, (5, 3)) if values else rng.dirichlet(np.ones(3), 5)).astype(np.float32)
    mine, other = made(name, arrays, False, device)
    close(mine.log_prob(volta.tensor(x, device=device)), other.log_prob(torch.tensor(x)), rtol=1e-4, atol=1e-4)
    for moment in ("mean", "variance", *(["entropy"] if name != "StudentT" else [])):
        found, expected = getattr(mine, moment), getattr(other, moment)
        close(found() if callable(found) else found, expected() if callable(expected) else expected, rtol=1e-4, atol=1e-4)
    volta.manual_seed(1)
    fit = made(name, [a + 4 for a in arrays], False, device)[0]
    draws = fit.sample((20000,)).cpu().numpy()
    np.testing.assert_allclose(draws.mean(0), fit.mean.cpu().numpy(), atol=0.03 * float(fit.stddev.max()))
    np.testing.assert_allclose(draws.var(0), fit.variance.cpu().numpy(), rtol=0.1)


def test_mixtures(device):
    rng = np.random.default_rng(4)
    shares, loc, scale, x = (rng.uniform(0.2, 2, shape).astype(np.float32) for shape in ((4, 3), (4, 3), (4, 3), (4,)))

    def mixture(lib, distributions, where):
        of = {"device": where} if where else {}
        return distributions.MixtureSameFamily(distributions.Categorical(lib.tensor(shares, **of)),
                                               distributions.Normal(lib.tensor(loc, **of), lib.tensor(scale, **of)))
    mine, other = mixture(volta, ours, device), mixture(torch, theirs, None)
    close(mine.log_prob(volta.tensor(x, device=device)), other.log_prob(torch.tensor(x)))
    close(mine.mean, other.mean)
    close(mine.variance, other.variance)
    np.testing.assert_allclose(mine.sample((20000,)).cpu().numpy().mean(0), mine.mean.cpu().numpy(), atol=0.05)


@pytest.mark.parametrize("name", ["Tanh", "Sigmoid", "Exp", "Softplus"])
def test_transforms(name, device):
    x, scale = np.random.default_rng(5).normal(size=(4, 3)).astype(np.float32) / 2, np.float32([0.5, 1.0, 2.0])

    def values(lib, distributions, **of):
        transforms, at, by = distributions.transforms, lib.tensor(x, **of), lib.tensor(scale, **of)
        t = getattr(transforms, f"{name}Transform")()
        y, both = t(at), transforms.ComposeTransform([transforms.AffineTransform(0.1, 2.0), t])
        one = distributions.TransformedDistribution(distributions.Normal(0 * by, by), [t])
        vector = distributions.TransformedDistribution(distributions.Independent(distributions.Normal(0 * by, by), 1),
                                                       [transforms.AffineTransform(0.1, by), t])
        return (y, t.inv(y), t.log_abs_det_jacobian(at, y), both.log_abs_det_jacobian(at, both(at)), one.log_prob(y), one.cdf(y),
                vector.log_prob(y))
    for found, expected in zip(values(volta, ours, device=device), values(torch, theirs)):
        close(found, expected, rtol=1e-4, atol=1e-4)
    volta.manual_seed(0)
    cached = ours.TransformedDistribution(ours.Normal(volta.zeros(3, device=device, requires_grad=True), 30.0), ours.TanhTransform(1))
    assert cached.has_rsample and cached.log_prob(cached.rsample()).isfinite().all()


@pytest.mark.parametrize("name", ["Categorical", "Bernoulli", "Poisson", "HalfNormal", "Exponential"])
def test_a_single_distribution_draws_single_numbers(name):
    single = getattr(ours, name)(volta.tensor([0.5, 0.5] if name == "Categorical" else 0.5))
    assert single.sample().shape == single.log_prob(single.sample()).shape == single.expand(()).sample().shape == ()


def test_gamma_numbers_may_be_0():
    zero = volta.tensor(0.0)
    found = [ours.Gamma(volta.tensor(c), volta.tensor(3.0)).log_prob(zero).item() for c in (2.0, 1.0)]
    assert found == [-math.inf, pytest.approx(math.log(3))]
    assert ours.Chi2(volta.tensor(2.0)).log_prob(zero).item() == pytest.approx(-math.log(2))
    with pytest.raises(ArgumentError, match="Gamma: value must not be negative"):
        ours.Gamma(volta.tensor(2.0), volta.tensor(3.0)).log_prob(-volta.ones(()))


def test_the_matrix_that_was_given_is_kept():
    given = volta.tensor([[2.0, 0.5], [0.5, 1.0]])
    normal = ours.MultivariateNormal(volta.zeros(3, 2), covariance_matrix=given)
    assert normal.covariance_matrix.tolist() == [given.tolist()] * 3 and normal._unbroadcasted_scale_tril.shape == (2, 2)
    wider = normal.expand((4, 3))
    assert wider.covariance_matrix.shape == wider.precision_matrix.shape == wider.scale_tril.shape == (4, 3, 2, 2)
    precise = ours.MultivariateNormal(volta.zeros(2), precision_matrix=given)
    assert precise.precision_matrix.tolist() == given.tolist() and precise.variance.shape == (2,)


def test_unchecked_values_may_be_numbers():
    assert ours.Normal(volta.zeros(2), 1.0, validate_args=False).log_prob(0.0).shape == (2,)
