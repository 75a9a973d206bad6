"""volta.distributions at the edges of what they take, beside PyTorch's: found by calling all methods of both."""
import math

import numpy as np
import pytest

import volta
import volta.distributions as ours
from volta.errors import ArgumentError, ShapeError

torch = pytest.importorskip("torch", reason="compares with PyTorch")
theirs = torch.distributions


def same(found, expected, **tolerance):
    np.testing.assert_allclose(found.detach().cpu().numpy(), expected.detach().numpy(), **{"rtol": 2e-5, "atol": 1e-6, **tolerance})


@pytest.mark.parametrize("make", [
    lambda lib: lib.distributions.Chi2(lib.tensor([2.0, 3.0])), lambda lib: lib.distributions.OneHotCategorical(lib.ones(2, 4)),
    lambda lib: lib.distributions.OneHotCategoricalStraightThrough(logits=lib.ones(2, 4))])
def test_what_is_derived_from_parameters_expands_with_them(make):
    p, q = (make(lib).expand((3, 2)) for lib in (volta, torch))
    same(p.mean, q.mean)
    same(p.variance, q.variance)
    assert p.sample((5,)).shape == tuple(q.sample((5,)).shape)


@pytest.mark.parametrize("name", ["Beta", "ContinuousBernoulli", "Exponential", "Gamma", "Gumbel", "Laplace", "Normal", "Pareto"])
def test_a_lognormal_variable_is_no_normal_one(name):
    p = getattr(ours, name)(*[0.5] * (1 if name in ("ContinuousBernoulli", "Exponential") else 2))
    for pair in ((p, ours.LogNormal(0.0, 1.0)), (ours.LogNormal(0.0, 1.0), p)):
        with pytest.raises(NotImplementedError, match="LogNormal"):
            ours.kl_divergence(*pair)
    same(*(lib.distributions.kl_divergence(lib.distributions.LogNormal(0.0, 1.0), lib.distributions.LogNormal(1.0, 2.0))
           for lib in (volta, torch)))
    assert not isinstance(ours.LogNormal(0.0, 1.0), ours.Normal)


def test_choices_and_one_hot_choices_have_no_divergence():
    with pytest.raises(NotImplementedError, match="Categorical and OneHotCategorical"):
        ours.kl_divergence(ours.Categorical(volta.ones(3)), ours.OneHotCategorical(volta.ones(3)))


def test_divergences_of_certain_events():
    def divergence(lib):
        p, q = lib.tensor([0.0, 1.0, 0.5, 0.0, 1.0, 0.3]), lib.tensor([1.0, 0.0, 1.0, 0.0, 1.0, 0.6])
        return lib.distributions.kl_divergence(lib.distributions.Bernoulli(p), lib.distributions.Bernoulli(q))
    same(divergence(volta), divergence(torch))
    same(*(lib.distributions.kl_divergence(lib.distributions.HalfCauchy(lib.tensor(1.0)), lib.distributions.HalfCauchy(lib.tensor(3.0)))
           for lib in (volta, torch)))


@pytest.mark.parametrize("make", [
    lambda lib: lib.distributions.MultivariateNormal(lib.zeros(3), lib.eye(3)),
    lambda lib: lib.distributions.LowRankMultivariateNormal(lib.zeros(3), lib.ones(3, 2), lib.ones(3)),
    lambda lib: lib.distributions.Multinomial(1, lib.ones(3)), lambda lib: lib.distributions.Dirichlet(lib.ones(3))])
def test_an_event_has_all_its_elements(make):
    torch.distributions.Distribution.set_default_validate_args(True)        # PyTorch's compiler switches it off when it is first used
    with pytest.raises(ValueError):
        make(torch).log_prob(torch.ones(2, 1))
    with pytest.raises(ShapeError, match=r"value of shape \(2, 1\) does not fit"):
        make(volta).log_prob(volta.ones(2, 1))


@pytest.mark.parametrize("matrix", ["covariance_matrix", "precision_matrix", "scale_tril"])
@pytest.mark.parametrize("values", [[[-1.0, 0.0], [0.0, 1.0]], [[1.0, 2.0], [2.0, 1.0]], [[1.0, math.nan], [math.nan, 1.0]]])
def test_matrices_of_normal_vectors_are_checked(matrix, values):
    for lib in (torch, volta):
        with pytest.raises(ValueError, match=matrix):
            lib.distributions.MultivariateNormal(lib.zeros(2), **{matrix: lib.tensor(values)})


def test_success_must_be_possible():
    with pytest.raises(ArgumentError, match="Geometric: probs must be positive"):
        ours.Geometric(volta.tensor([0.5, 0.0]))
    assert ours.Geometric(0.0, validate_args=False).mean.item() == math.inf


@pytest.mark.parametrize("make, values", [
    (lambda lib: lib.distributions.InverseGamma(2.0, 1.0), (0.0, 1.0)), (lambda lib: lib.distributions.LogNormal(0.0, 1.0), (0.0, 1.0)),
    (lambda lib: lib.distributions.Weibull(1.0, 2.0), (0.0, 1.0)),
    (lambda lib: lib.distributions.ContinuousBernoulli(0.3, validate_args=False), (-1.0, 0.0, 0.5, 1.0, math.inf)),
    (lambda lib: lib.distributions.ContinuousBernoulli(0.5, validate_args=False), (-1.0, 0.0, 0.5, 1.0, math.inf))])
def test_probabilities_of_at_most_the_ends(make, values):
    same(make(volta).cdf(volta.tensor(values)), make(torch).cdf(torch.tensor(values)))


@pytest.mark.parametrize("value", [0.0, 0.5, 1.0])
def test_densities_at_the_ends_of_the_unit_interval(value, device):
    p = ours.RelaxedBernoulli(volta.tensor(0.7, device=device), volta.tensor(0.3, device=device))
    same(p.log_prob(volta.tensor(value, device=device)),
         theirs.RelaxedBernoulli(torch.tensor(0.7), torch.tensor(0.3)).log_prob(torch.tensor(value)), rtol=1e-4)


def test_modes_of_two_ends():
    same(*(lib.distributions.Beta(lib.tensor([0.5, 0.9, 2.0]), lib.tensor([0.9, 0.5, 3.0])).mode for lib in (volta, torch)))


def test_gradients_of_variances_that_are_infinite():
    def gradient(lib):
        df = lib.tensor([0.5, 1.5, 2.0, 3.0], requires_grad=True)
        lib.distributions.StudentT(df).variance.sum().backward()
        return df.grad
    same(gradient(volta), gradient(torch))


def test_values_of_gamma_variables_may_be_numbers():
    for name in ("Gamma", "Chi2"):
        arguments = (2.0,) if name == "Chi2" else (2.0, 3.0)
        same(getattr(ours, name)(*arguments).log_prob(0.5), getattr(theirs, name)(*arguments).log_prob(0.5))


def test_mixtures_are_expanded_with_their_components():
    for module in (ours, torch.distributions):
        tensor = volta.tensor if module is ours else torch.tensor
        mixture = module.MixtureSameFamily(module.Categorical(tensor([0.3, 0.7, 0.2])), module.Normal(tensor([0.0, 1.0, 2.0]), 1.0))
        large = mixture.expand((4, 2))
        assert tuple(large.batch_shape) == (4, 2) and tuple(large.sample((5,)).shape) == (5, 4, 2) and tuple(large.mean.shape) == (4, 2)
        assert large.log_prob(tensor(0.5)).flatten().tolist() == pytest.approx([mixture.log_prob(tensor(0.5)).item()] * 8)
        assert repr(mixture.support) == "MixtureSameFamilyConstraint(Real())"


def test_constraints_show_their_bounds_alone():
    constraints = ours.constraints
    real = constraints.real
    shown = [repr(c) for c in (constraints.multinomial(3), constraints.cat([real], 0, [2]), constraints.stack([real]),
                               constraints.interval(0.0, 2.0))]
    assert shown == ["Multinomial()", "Cat()", "Stack()", "Interval(lower_bound=0.0, upper_bound=2.0)"]
    with pytest.raises(ValueError, match="depends on others"):
        constraints.dependent.check(volta.ones(2))


@pytest.mark.parametrize("call", [lambda d, t: d.Dirichlet(t(1.0)), lambda d, t: d.TransformedDistribution(d.Normal(t(0.0), 1.0), 3),
                                  lambda d, t: d.MixtureSameFamily(d.Normal(0.0, 1.0), d.Normal(t([0.0, 1.0]), 1.0))])
def test_what_distributions_cannot_be_made_of_is_a_wrong_value(call):
    for module, tensor in ((ours, volta.tensor), (torch.distributions, torch.tensor)):
        with pytest.raises(ValueError):
            call(module, tensor)


@pytest.mark.parametrize("make", [lambda d, t: d.HalfNormal(t(1.0)), lambda d, t: d.ContinuousBernoulli(t(0.3)),
                                  lambda d, t: d.Wishart(t(3.0), t([[1.0, 0.0], [0.0, 2.0]])),
                                  lambda d, t: d.Independent(d.Normal(t([0.0, 1.0]), t([1.0, 2.0])), 1)])
def test_expand_fills_the_object_that_it_is_given(make):
    found = []
    for module, tensor in ((ours, volta.tensor), (torch.distributions, torch.tensor)):
        small = make(module, tensor)
        empty = object.__new__(type("Own", (type(small),), {}))
        large = small.expand((3,), _instance=empty)
        assert large is empty
        found.append([list(large.batch_shape), list(large.event_shape), large.mean.tolist(), large.variance.tolist(),
                      large.log_prob(small.mean).tolist(), list(large.sample((2,)).shape)])
    assert found[0][:2] + found[0][5:] == found[1][:2] + found[1][5:]
    for a, b in zip(found[0][2:5], found[1][2:5]):
        assert np.allclose(a, b, rtol=1e-5)


@pytest.mark.parametrize("make", [lambda d, t: d.Uniform(t(1.0), t(2.0)), lambda d, t: d.Wishart(t(3.0), t([[1.0, 0.0], [0.0, 2.0]]))])
def test_constraints_of_arguments_are_of_the_object(make):
    shown = [{k: repr(v).replace("'", "") for k, v in make(module, tensor).arg_constraints.items()}
             for module, tensor in ((ours, volta.tensor), (torch.distributions, torch.tensor))]
    assert shown[0] == shown[1]


def test_densities_where_a_power_is_zero(device):
    """0 to the power of 0 is 1, as in PyTorch."""
    ends, one = volta.tensor([0.0, 1.0], device=device), volta.tensor(1.0, device=device)
    assert ours.Beta(one, 2 * one).log_prob(ends).tolist() == pytest.approx([math.log(2), -math.inf])
    assert ours.Dirichlet(volta.ones(2, device=device)).log_prob(ends).item() == pytest.approx(0.0)


def test_constraints_of_matrices_that_are_not_square():
    for name in "square", "symmetric", "positive_definite", "positive_semidefinite":
        assert getattr(ours.constraints, name).check(volta.ones(2, 2, 1)).tolist() == [False, False]
    assert ours.constraints.square.check(volta.ones(2, 1, 1)).tolist() == [True, True]


@pytest.mark.parametrize("call", [
    lambda: ours.constraints.real_vector.check(volta.tensor(1.0)),
    lambda: ours.IndependentTransform(ours.ExpTransform(), 1)(volta.tensor(1.0)),
    lambda: ours.IndependentTransform(ours.ExpTransform(), 1).inv(volta.tensor(1.0)),
    lambda: ours.StackTransform([ours.ExpTransform(), ours.TanhTransform()])(volta.ones(3)),
    lambda: ours.constraints.stack([ours.constraints.real, ours.constraints.positive]).check(volta.ones(3)),
    lambda: ours.Multinomial(-1, volta.ones(2)),
    lambda: ours.Distribution.set_default_validate_args(None)])
def test_values_that_do_not_fit_are_refused(call):
    with pytest.raises(ValueError, match="needs|must"):
        call()


def test_geometric_of_certain_success():
    """That no trial failed is certain there, not 0 times infinity."""
    draws = volta.tensor([0.0, 1.0])
    assert ours.Geometric(volta.tensor(1.0)).log_prob(draws).tolist() == [0.0, -math.inf]
    some = volta.tensor([1.0, 0.5], requires_grad=True)
    ours.Geometric(some).log_prob(volta.tensor([0.0, 1.0])).sum().backward()
    assert some.grad.tolist() == [1.0, 0.0]


@pytest.mark.parametrize("name, what", [("HalfNormal", "mode"), ("Exponential", "mode"), ("HalfCauchy", "mode"), ("Cauchy", "mean"),
                                        ("Categorical", "mean"), ("Categorical", "variance"), ("Geometric", "mode")])
def test_constants_are_no_functions_of_parameters(name, what):
    """Nor NaN where a parameter is infinite."""
    found, expected = (getattr(getattr(lib.distributions, name)(*[lib.tensor([0.5, value], requires_grad=True)] * count), what)
                       for lib in (volta, torch) for count in (2 if name == "Cauchy" else 1,)
                       for value in (0.5 if name in ("Categorical", "Geometric") else math.inf,))
    same(found, expected)
    assert not found.requires_grad and not expected.requires_grad


def test_an_infinite_divergence_has_no_gradient():
    def divergence(lib):
        low = lib.tensor([-1.0, 0.5], requires_grad=True)
        found = lib.distributions.kl_divergence(lib.distributions.Uniform(low, 2.0), lib.distributions.Exponential(lib.tensor(3.0)))
        return found, *lib.autograd.grad(found.sum(), low)
    for found, expected in zip(divergence(volta), divergence(torch), strict=True):
        same(found, expected)
