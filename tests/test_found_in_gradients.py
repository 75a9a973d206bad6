"""What comparing gradients with PyTorch's at random and at special inputs has found, and random programs of views and in-place changes."""
from __future__ import annotations

import math

import pytest

import volta
from volta import nn
from volta.errors import AutogradError


def test_several_views_of_one_call_are_changed_one_by_one_under_no_grad(device):
    """Weights that are filled part by part; the views say what they show, and that they have no history any more where that is asked."""
    weight = nn.Parameter(volta.zeros(6, 2, device=device))
    for whole in (weight, weight * 1):
        parts = whole.chunk(3)
        with volta.no_grad():
            for i, part in enumerate(parts):
                part.copy_(volta.full((2, 2), float(i), device=device))
                part[0] = 5.0
                part.mul_(2)
            assert (parts[1] + parts[2]).tolist() == [[20.0, 20.0], [6.0, 6.0]]
        assert whole.detach().sum().item() == 72 and parts[1].detach().tolist() == [[10.0, 10.0], [2.0, 2.0]] and parts[0].requires_grad
        assert parts[1].requires_grad_() is parts[1]
        for use in (lambda part: part + 1, lambda part: part.add_(1), lambda part: part.is_leaf, lambda part: part.register_hook(print)):
            with pytest.raises(AutogradError, match="output 1 of chunk.*it, or another view of its base, was changed in place"):
                use(parts[1])


@pytest.mark.parametrize("change", ["t_", "squeeze_", "unsqueeze_", "transpose_"])
def test_one_of_several_views_keeps_its_geometry(change):
    options = {"unsqueeze_": (0,), "transpose_": (0, 1)}.get(change, ())
    for views in ((volta.ones(2, 2, requires_grad=True) * 2).split(1), (volta.ones(2, 2, requires_grad=True) * 2)[None].unbind()):
        with pytest.raises(AutogradError, match="output 0 of .* is one of several views that one call gave; it is changed in place"):
            getattr(views[0], change)(*options)
    getattr(volta.ones(2, 2).split(1)[0], change)(*options)             # without a history it may be


def test_what_is_expanded_is_written_by_itself_alone(device):
    x = volta.tensor([1.0, 2.0], device=device).reshape(2, 1).expand(2, 3)
    for same in (x, x.view_as(x), x.detach()):
        assert x.copy_(same) is x and x.tolist() == [[1.0] * 3, [2.0] * 3]
    for other in (x * 1, x.int(), volta.ones((), device=device)):
        with pytest.raises(AutogradError, match="copy_: unsupported operation: more than one element of the written-to tensor"):
            x.copy_(other)
    leaf = volta.ones(1, device=device, requires_grad=True)
    with pytest.raises(AutogradError, match="a leaf tensor that requires grad"):
        leaf.expand(3).copy_(leaf.expand(3))


NOT_OF_THE_INPUT = {
    "clamp": lambda x: x.clamp(-1, 1), "clamp_min": lambda x: x.clamp_min(0), "clamp_max": lambda x: x.clip(max=0.5),
    "clamp_": lambda x: (x + 0).clamp_(0, 1),
    "circular": lambda x: nn.functional.pad(x, (1, 1), mode="circular"), "average": lambda x: nn.functional.adaptive_avg_pool1d(x, 1),
    "number": lambda x: x.sum().prod()}
OF_THE_INPUT = {
    "relu": lambda x: x.relu(), "abs": lambda x: x.abs(), "hardtanh": lambda x: nn.functional.hardtanh(x),
    "reflect": lambda x: nn.functional.pad(x, (1, 1), mode="reflect"),
    "replicate": lambda x: nn.functional.pad(x, (1, 1), mode="replicate"),
    "averages": lambda x: nn.functional.adaptive_avg_pool1d(x, 2)}


@pytest.mark.parametrize("name", [*NOT_OF_THE_INPUT, *OF_THE_INPUT])
def test_which_constant_gradients_are_functions_of_the_input(name, device):
    """As in PyTorch: where they are, second gradients are zeros, elsewhere there are none."""
    x = volta.tensor([[0.25, -2.0, 3.0, 0.5]], device=device, requires_grad=True)
    out = {**NOT_OF_THE_INPUT, **OF_THE_INPUT}[name](x).sum()
    gradient, = volta.autograd.grad(out, x, create_graph=True)
    assert gradient.requires_grad == (name in OF_THE_INPUT)
    if gradient.requires_grad:
        assert not volta.autograd.grad(gradient.sum(), x)[0].any()


@pytest.mark.parametrize("loss", [lambda x: nn.functional.margin_ranking_loss(x, -x, volta.ones_like(x), 0.1),
                                  lambda x: nn.functional.hinge_embedding_loss(x, -volta.ones_like(x))])
def test_losses_of_margins_have_no_second_gradients(loss):
    """On a GPU, where each is one record, they are zeros."""
    x = volta.tensor([0.25, -2.0], requires_grad=True)
    assert not volta.autograd.grad(loss(x), x, create_graph=True)[0].requires_grad


def test_derivatives_of_sinc_near_zero(device):
    """sin(pi x) / (pi x) = 1 - (pi x)**2 / 6 + (pi x)**4 / 120 - ...; where PyTorch's second gradients are NaN, and noise beside that."""
    dtype = volta.float64 if device == "cpu" else volta.float32
    for start in (0.0, 1e-9, 1e-3, 0.1, 0.318, 0.319, 0.5):
        x = volta.tensor(start, dtype=dtype, device=device, requires_grad=True)
        y, a = volta.sinc(x), start * math.pi
        for n in range(1, 5):
            y, = volta.autograd.grad(y, x, create_graph=True)
            exact = sum((-1) ** k * math.perm(2 * k, n) * a ** (2 * k - n) / math.factorial(2 * k + 1) for k in range((n + 1) // 2, 16))
            close = {"rel": 1e-9, "abs": 1e-11} if dtype is volta.float64 else {"rel": 1e-4, "abs": 1e-4}
            assert y.item() == pytest.approx(exact * math.pi**n, **close), (start, n)


def test_products_beside_two_zeros_and_an_infinity():
    """The first gradient is 0, as in PyTorch; one that is to be differentiated is what the other elements' products are."""
    x = volta.tensor([0.0, 0.0, volta.inf], requires_grad=True)
    assert volta.autograd.grad(x.prod(), x)[0].tolist() == [0, 0, 0]
    found = volta.autograd.grad(x.prod(), x, create_graph=True)[0].tolist()
    assert found[0] != found[0] and found[1] != found[1] and found[2] == 0
