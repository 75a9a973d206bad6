"""Distributions of counts, tails, matrices and relaxed choices, transforms and all divergences beside PyTorch's, in float64."""
import itertools

import numpy as np
import pytest

import volta
import volta.distributions as ours
from volta.compat import inner
from volta.distributions import gamma, joint

torch = pytest.importorskip("torch", reason="compares with PyTorch")
theirs = torch.distributions


def between(low, high, *shape):
    return np.random.default_rng(len(shape) + int(10 * high)).uniform(low, high, shape)


def shares(*shape):
    raw = np.exp(between(-1, 1, *shape))
    return raw / raw.sum(-1, keepdims=True)


COVARIANCE = np.array([[2.0, 0.3, 0.1], [0.3, 1.5, -0.2], [0.1, -0.2, 1.0]])
MADE = {
    "Binomial": (np.array(5.0), between(0.1, 0.9, 3)), "NegativeBinomial": (between(1, 5, 3), between(0.1, 0.8, 3)),
    "Multinomial": (4, shares(2, 3)), "Pareto": (between(0.5, 2, 3), between(2.5, 5, 3)), "Weibull": (between(0.5, 2, 3), between(1, 3, 3)),
    "Kumaraswamy": (between(1.1, 3, 3), between(1.1, 2, 3)), "HalfCauchy": (between(0.5, 2, 3),),
    "FisherSnedecor": (between(3, 8, 3), between(5, 9, 3)), "InverseGamma": (between(2.5, 4, 3), between(0.5, 2, 3)),
    "LogisticNormal": (between(-1, 1, 2, 3), between(0.5, 1, 2, 3)), "RelaxedBernoulli": (np.array(0.7), between(0.1, 0.9, 3)),
    "RelaxedOneHotCategorical": (np.array(0.6), shares(2, 4)), "ContinuousBernoulli": (np.array([0.1, 0.4, 0.5004, 0.9]),),
    "VonMises": (between(-2, 2, 3), between(0.5, 9, 3)), "LKJCholesky": (3, between(0.5, 3, 2)),
    "LowRankMultivariateNormal": (between(-1, 1, 2, 4), between(-1, 1, 4, 2), between(0.2, 1, 4)), "Wishart": (np.array(5.0), COVARIANCE),
    "MultivariateNormal": (between(-1, 1, 2, 4), COVARIANCE[0, 0] * np.eye(4)), "Gamma": (between(0.3, 12, 3), between(0.5, 2, 3)),
    "Beta": (between(0.3, 4, 3), between(0.3, 3, 3)), "Dirichlet": (between(0.3, 4, 2, 3),), "Exponential": (between(0.5, 2, 3),),
    "StudentT": (between(3, 9, 3), between(-1, 1, 3), between(0.5, 2, 3)), "Uniform": (between(0.1, 0.4, 3), between(0.5, 0.9, 3)),
    "Normal": (between(-1, 1, 3), between(0.5, 2, 3)), "Gumbel": (between(-1, 1, 3), between(0.5, 2, 3)),
    "Laplace": (between(-1, 1, 3), between(0.5, 2, 3)), "Poisson": (between(0.5, 4, 3),), "Bernoulli": (between(0.1, 0.9, 3),)}
# Where PyTorch 2.13 is wrong: its mode takes the logarithm of 1 - concentration0, its divergences of Wishart sum over the batch.
WRONG_THERE = {("Kumaraswamy", "mode")}


def both(name):
    return tuple(getattr(lib.distributions, name)(*(lib.tensor(a) if isinstance(a, np.ndarray) else a for a in MADE[name]))
                 for lib in (volta, torch))


def same(found, expected, text):
    """What PyTorch gives, where it gives something: the same values and shape."""
    results = []
    for call in (expected, found):
        try:
            results.append(call())
        except Exception as error:              # PyTorch's are of several kinds
            results.append(error)
    there, here = results
    if isinstance(there, Exception):
        return
    assert not isinstance(here, Exception), f"{text}: only PyTorch has it, {here}"
    there, here = (x.detach().numpy() if hasattr(x, "detach") else np.asarray(x) for x in (there, here))
    assert here.shape == there.shape, f"{text}: {here.shape}, in PyTorch {there.shape}"
    np.testing.assert_allclose(here, there, rtol=1e-6, atol=1e-6, err_msg=text)


@pytest.mark.filterwarnings("ignore:Singular sample")
@pytest.mark.parametrize("name", MADE)
def test_values(name):
    p, q = both(name)
    torch.manual_seed(0)
    there = q.sample((5,))
    here = volta.tensor(there.numpy())
    assert p.batch_shape == tuple(q.batch_shape) and p.event_shape == tuple(q.event_shape)
    assert (p.has_rsample, p.has_enumerate_support) == (q.has_rsample, q.has_enumerate_support)
    part = between(0.05, 0.95, *q.batch_shape)
    for method in ("log_prob", "cdf"):
        same(lambda m=method: getattr(p, m)(here), lambda m=method: getattr(q, m)(there), f"{name}.{method}")
    same(lambda: p.icdf(volta.tensor(part)), lambda: q.icdf(torch.tensor(part)), f"{name}.icdf")
    same(lambda: p.support.check(here), lambda: q.support.check(there), f"{name}.support")
    same(lambda: p.expand((5, *p.batch_shape)).log_prob(here), lambda: q.expand((5, *q.batch_shape)).log_prob(there), f"{name}.expand")
    for fact in ("mean", "mode", "variance", "stddev"):
        if (name, fact) not in WRONG_THERE:
            same(lambda f=fact: getattr(p, f), lambda f=fact: getattr(q, f), f"{name}.{fact}")
    for method in ("entropy", "enumerate_support"):
        same(lambda m=method: getattr(p, m)(), lambda m=method: getattr(q, m)(), f"{name}.{method}")


@pytest.mark.parametrize("name", [n for n in MADE if n not in ("HalfCauchy", "VonMises", "InverseGamma", "FisherSnedecor", "LKJCholesky")])
def test_moments_of_draws(name):
    volta.manual_seed(0)
    p = both(name)[0]
    drawn = p.sample((20_000,)).numpy()
    try:
        mean, spread = p.mean.numpy(), p.stddev.numpy()
    except NotImplementedError:
        mean = both(name)[1].sample((20_000,)).mean(0).numpy()
        spread = drawn.std(0)
    np.testing.assert_allclose(drawn.mean(0), mean, atol=0.05 * (1 + spread.max()))


def test_gradients_of_gamma_draws():
    from volta.distributions.gamma import _slope
    rng = np.random.default_rng(0)
    alpha = np.exp(rng.uniform(-3, 7, 2000))
    x = np.maximum(rng.gamma(alpha), 1e-30)
    expected = torch._standard_gamma_grad(torch.tensor(alpha), torch.tensor(x)).numpy()
    np.testing.assert_allclose(_slope(volta.tensor(x), volta.tensor(alpha)).numpy(), expected, rtol=1e-9)


def test_divergences():
    pairs = [(both(a), both(b)) for a, b in itertools.product(MADE, MADE) if "Wishart" not in (a, b)]
    # PyTorch gives infinity for these two where the bounds touch, and no formula for transforms but the very same.
    skipped = {("ContinuousBernoulli", "Uniform"), ("Uniform", "ContinuousBernoulli")}
    for (p, q), (r, s) in pairs:
        names = type(p).__name__, type(r).__name__
        if names not in skipped and not (names[0] == names[1] and isinstance(q, theirs.TransformedDistribution)):
            same(lambda p=p, r=r: ours.kl_divergence(p, r), lambda q=q, s=s: theirs.kl_divergence(q, s), f"{names[0]} from {names[1]}")


def test_divergence_of_wishart():
    volta.manual_seed(0)
    p, q = (ours.Wishart(volta.tensor(np.array([df, df + 1])), volta.tensor(COVARIANCE) * k) for df, k in ((5.0, 1.0), (4.0, 1.2)))
    x = p.sample((20_000,))
    np.testing.assert_allclose(ours.kl_divergence(p, q).detach().numpy(), (p.log_prob(x) - q.log_prob(x)).mean(0).numpy(), rtol=0.05)


VECTORS, SQUARES = between(-1, 1, 2, 3), between(-1, 1, 2, 3, 3)
TRANSFORMS = {
    "exp": lambda d: d.ExpTransform(), "affine": lambda d: d.AffineTransform(1.0, -2.0, event_dim=1),
    "sigmoid": lambda d: d.SigmoidTransform(), "stick": lambda d: d.StickBreakingTransform(),
    "softmax": lambda d: d.SoftmaxTransform(), "corr": lambda d: d.CorrCholeskyTransform(),
    "independent": lambda d: d.IndependentTransform(d.TanhTransform(), 1), "reshape": lambda d: d.ReshapeTransform((3,), (3, 1)),
    "cat": lambda d: d.CatTransform([d.ExpTransform(), d.TanhTransform()], dim=-1, lengths=[1, 2]),
    "stack": lambda d: d.StackTransform([d.ExpTransform(), d.TanhTransform(), d.identity_transform], dim=-1),
    "compose": lambda d: d.ComposeTransform([d.AffineTransform(1.0, 2.0), d.StickBreakingTransform()]),
    "cdf": lambda d: d.CumulativeDistributionTransform(d.Normal(0.0, 1.0)), "cholesky": lambda d: d.LowerCholeskyTransform(),
    "definite": lambda d: d.PositiveDefiniteTransform()}


@pytest.mark.parametrize("name", TRANSFORMS)
def test_transforms(name):
    (f, x), (g, y) = ((TRANSFORMS[name](lib.distributions), lib.tensor(SQUARES if name in ("cholesky", "definite") else VECTORS))
                      for lib in (volta, torch))
    same(lambda: f(x), lambda: g(y), name)
    same(lambda: f.inv(f(x)), lambda: g.inv(g(y)), f"{name}.inv")
    same(lambda: f.log_abs_det_jacobian(x, f(x)), lambda: g.log_abs_det_jacobian(y, g(y)), f"{name}.log_abs_det_jacobian")
    assert tuple(f.forward_shape(x.shape)) == tuple(g.forward_shape(y.shape)) and f.bijective == g.bijective
    assert f.domain.event_dim == g.domain.event_dim and f.codomain.event_dim == g.codomain.event_dim
    if g.bijective:
        p, q = (d.TransformedDistribution(d.Normal(z * 0, 1.0), [h]) for d, h, z in ((ours, f, x), (theirs, g, y)))
        assert p.batch_shape == tuple(q.batch_shape) and p.event_shape == tuple(q.event_shape)
        same(lambda: p.log_prob(f(x)), lambda: q.log_prob(g(y)), f"{name} of a normal distribution")


@pytest.mark.parametrize("make", [
    lambda c: c.real, lambda c: c.positive, lambda c: c.nonnegative, lambda c: c.unit_interval, lambda c: c.simplex,
    lambda c: c.corr_cholesky, lambda c: c.greater_than(2.0), lambda c: c.less_than(2.0), lambda c: c.interval(-1.0, 3.0),
    lambda c: c.independent(c.positive, 1),
    lambda c: c.cat([c.positive, c.real], 1, [1, 2]), lambda c: c.stack([c.positive, c.real, c.real], 1), lambda c: c.lower_cholesky,
    lambda c: c.positive_definite])
def test_registry(make):
    mine, other = make(ours.constraints), make(theirs.constraints)
    numbers = SQUARES if mine in (ours.constraints.lower_cholesky, ours.constraints.positive_definite) else VECTORS
    for table in ("biject_to", "transform_to"):
        same(lambda t=table: getattr(ours, t)(mine)(volta.tensor(numbers)),
             lambda t=table: getattr(theirs, t)(other)(torch.tensor(numbers)), table)
    same(lambda: mine.check(volta.tensor(numbers)), lambda: other.check(torch.tensor(numbers)), "check")


class Scaled(ours.transforms.Transform, volta.nn.Module):
    """A transform that is a module, as packages write them."""
    domain = codomain = ours.constraints.real
    bijective = True
    __hash__ = volta.nn.Module.__hash__

    def __init__(self):
        super().__init__(cache_size=1)
        self.factor = volta.nn.Parameter(volta.tensor(2.0))

    def _call(self, x):
        return x * self.factor


def test_a_transform_may_be_a_module():
    transform, x = Scaled(), volta.ones(2)
    assert list(transform.state_dict()) == ["factor"] and transform(x).tolist() == [2.0, 2.0] and transform.inv(transform(x)) is x


@pytest.mark.parametrize("name, values", [("LogNormal", (0.5, 3.0)), ("HalfNormal", (3.0,)), ("HalfCauchy", (3.0,))])
def test_what_is_made_of_another_distribution_names_it(name, values):
    for shape in ((), (4, 2)):
        mine, other = (getattr(m, name)(*values).expand(shape).base_dist for m in (ours, theirs))
        assert type(mine).__name__ == type(other).__name__ and mine.batch_shape == other.batch_shape
        assert mine.loc.tolist() == other.loc.tolist() and mine.scale.tolist() == other.scale.tolist()


@pytest.mark.parametrize("name", ["Gumbel", "HalfCauchy", "HalfNormal", "InverseGamma", "Kumaraswamy", "LogNormal", "LogisticNormal",
                                  "Pareto", "RelaxedBernoulli", "RelaxedOneHotCategorical", "Weibull"])
def test_what_transforms_make_shows_its_base_and_transforms(name):
    values = MADE.get(name) or (between(0.5, 2, 3),) * (2 if name == "LogNormal" else 1)
    p, q = (getattr(lib.distributions, name)(*map(lib.tensor, values)) for lib in (volta, torch))
    assert isinstance(p, ours.TransformedDistribution) and type(p.base_dist).__name__ == type(q.base_dist).__name__
    assert [type(t).__name__ for t in p.transforms] == [type(t).__name__ for t in q.transforms]
    assert repr(p) == repr(q).replace("torch.", "volta.")
    assert p.base_dist.batch_shape == q.base_dist.batch_shape and p.expand((2, *p.batch_shape)).sample((4,)).shape == (
        4, 2, *p.batch_shape, *p.event_shape)
    torch.manual_seed(0)
    drawn = q.sample((5,))
    here = volta.tensor(drawn.numpy())
    base = p.base_dist.log_prob(p.transforms[0].inv(here)) if len(p.transforms) == 1 else None
    assert base is None or base.shape == tuple(q.base_dist.log_prob(q.transforms[0].inv(drawn)).shape)
    if all(t.bijective for t in p.transforms):
        np.testing.assert_allclose(ours.TransformedDistribution.log_prob(p, here).numpy(), q.log_prob(drawn).numpy(), rtol=1e-6, atol=1e-6)


class Shifted(ours.LogNormal):
    """A subclass that calls the class above its own, as pyro's do."""

    def __init__(self, loc, scale, validate_args=None):
        super(ours.LogNormal, self).__init__(ours.Normal(loc, scale), ours.ExpTransform(), validate_args)


def test_subclasses_may_name_base_and_transforms_themselves():
    p, q = Shifted(volta.zeros(3), 2.0), theirs.LogNormal(torch.zeros(3), 2.0)
    assert p.scale.tolist() == [2.0] * 3 and p.expand((2, 3)).batch_shape == (2, 3)
    np.testing.assert_allclose(p.log_prob(volta.tensor(0.5)).numpy(), q.log_prob(torch.tensor(0.5)).numpy(), rtol=1e-6)
    with pytest.raises(NotImplementedError, match="LogNormal and HalfNormal differ in their transforms, and there is a formula"):
        ours.kl_divergence(ours.LogNormal(0.0, 1.0), ours.HalfNormal(1.0))


def test_factors_of_precisions_under_the_names_of_inner_pytorch():
    inside, there = inner.OWN["torch.distributions.multivariate_normal"], theirs.multivariate_normal
    precision, x = between(-0.2, 0.2, 2, 4, 4) + 2 * np.eye(4), between(-1, 1, 5, 2, 4)
    precision = precision @ precision.swapaxes(-1, -2)
    here, other = (m._precision_to_scale_tril(lib.tensor(precision)) for lib, m in ((volta, joint), (torch, there)))
    np.testing.assert_allclose(here.numpy(), other.numpy(), rtol=1e-10, atol=1e-12)
    for name, values in (("_batch_mahalanobis", (other.numpy(), x)), ("_batch_mv", (precision, x))):
        found, expected = (getattr(m, name)(*map(lib.tensor, values)).numpy() for lib, m in ((volta, joint), (torch, there)))
        np.testing.assert_allclose(found, expected, rtol=1e-9)
        assert inside[name] == joint.__name__


def test_gamma_draws_under_the_names_of_inner_pytorch():
    alpha = volta.tensor([0.3, 1.0, 4.0, 30.0]).repeat(500, 1).requires_grad_()
    drawn = gamma._standard_gamma(alpha, generator=volta.Generator().manual_seed(1))
    assert drawn.equal(gamma._standard_gamma(alpha, generator=volta.Generator().manual_seed(1)))
    np.testing.assert_allclose(drawn.mean(0).tolist(), [0.3, 1.0, 4.0, 30.0], rtol=0.15)
    drawn.sum().backward()
    expected = torch._standard_gamma_grad(torch.from_numpy(alpha.detach().numpy()), torch.from_numpy(drawn.detach().numpy()))
    np.testing.assert_allclose(alpha.grad.numpy(), expected.numpy(), rtol=2e-3, atol=1e-4)
    parts = gamma._sample_dirichlet(volta.ones(100, 3))
    np.testing.assert_allclose(parts.sum(1).tolist(), 1, rtol=1e-5)
    assert inner.OWN["torch"] == dict.fromkeys(("_sample_dirichlet", "_standard_gamma"), gamma.__name__)
