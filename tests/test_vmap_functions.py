"""`vmap` of `autograd.Function`s: by their own static vmap with whole batches, else by their methods with samples."""
import pytest

import volta
from volta.autograd import Function
from volta.errors import ArgumentError, AutogradError
from volta.func import grad, jacrev, vmap
from volta.testing import assert_close


class Product(Function):
    """Its methods take samples. The second output has no gradient."""
    generate_vmap_rule = True

    @staticmethod
    def forward(a, b):
        return a * b, a > 0

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)
        ctx.mark_non_differentiable(output[1])

    @staticmethod
    def backward(ctx, g, _):
        a, b = ctx.saved_tensors
        return g * b, g * a


class Scaled(Function):
    """With a static vmap, which notes what it was given."""
    given: list = []

    @staticmethod
    def forward(x, factor, w):
        return x * factor * w

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, ctx.factor, w = inputs
        ctx.save_for_backward(x, w)

    @staticmethod
    def backward(ctx, g):
        x, w = ctx.saved_tensors
        return g * ctx.factor * w, None, g * ctx.factor * x

    @staticmethod
    def vmap(info, in_dims, x, factor, w):
        Scaled.given.append((info.batch_size, info.randomness, in_dims, tuple(x.shape), tuple(w.shape)))
        x, w = [a if dim == 0 else a.expand(info.batch_size, *a.shape) for a, dim in ((x, in_dims[0]), (w, in_dims[2]))]
        return (x * factor * w).movedim(0, -1), -1


@pytest.fixture
def data(device):
    x = volta.tensor([[1.0, -2.0, 3.0], [4.0, 5.0, -6.0]], device=device, requires_grad=True)
    return x, volta.tensor([0.5, 2.0, 3.0], device=device, requires_grad=True)


def test_methods_with_samples(data):
    x, w = data
    found, positive = vmap(Product.apply, (0, None))(x, w)
    assert_close(found, x * w)
    assert positive.tolist() == (x > 0).tolist() and not positive.requires_grad
    got = volta.autograd.grad((found ** 2).sum(), (x, w), create_graph=True)
    want = volta.autograd.grad(((x * w) ** 2).sum(), (x, w), create_graph=True)
    assert_close(got, want)
    got, want = (volta.autograd.grad(sum((g ** 2).sum() for g in found), (x, w)) for found in (got, want))
    assert_close(got, want)


def test_methods_with_a_context(data):
    class Twice(Function):
        @staticmethod
        def forward(ctx, x):
            return 2 * x

        @staticmethod
        def backward(ctx, g):
            return 2 * g

    found = vmap(Twice.apply)(data[0])
    found.sum().backward()
    assert_close(found, 2 * data[0])
    assert data[0].grad.tolist() == [[2.0] * 3] * 2


def test_methods_in_levels_and_under_derivatives(data):
    x, w = data
    first = lambda a, b: Product.apply(a, b)[0]                         # noqa: E731 (a name for what is mapped)
    found = vmap(vmap(first), (0, None))(x, w)
    found.sum().backward()
    assert_close(x.grad, w.detach().expand(2, 3))
    assert_close(w.grad, x.detach().sum(0))
    assert_close(vmap(grad(lambda a: first(a, w.detach()).sum()))(x.detach()), w.detach().expand(2, 3))
    assert_close(jacrev(lambda a: first(a, w.detach()))(x.detach()[0]), w.detach().diag())
    assert_close(vmap(grad(lambda a: first(a, a)))(w.detach()), 2 * w.detach())


def test_static_vmap(data):
    x, w = data
    Scaled.given.clear()
    found = vmap(lambda a: Scaled.apply(a, 2.0, w))(x)
    assert_close(found, 2 * x * w)
    assert_close(vmap(lambda a: Scaled.apply(w, 3.0, a), 1)(x.t()), 3 * x * w)
    assert Scaled.given == [(2, "error", (0, None, None), (2, 3), (3,)), (2, "error", (None, None, 0), (3,), (2, 3))]
    found.sum().backward()
    assert_close(x.grad, (2 * w).detach().expand(2, 3))
    assert_close(w.grad, 2 * x.detach().sum(0))
    assert_close(vmap(vmap(lambda a: Scaled.apply(a, 2.0, a)))(x), 2 * x * x)


def test_what_does_not_fit_is_refused(data):
    x, w = data

    def function(rule=False, given=None):
        return type("Own", (Product,), {"generate_vmap_rule": rule, "vmap": staticmethod(lambda info, in_dims, a, b: given)})

    for own, error, text in ((function(True), AutogradError, "generate_vmap_rule=True and a static vmap"),
                             (function(given=x), ArgumentError, r"must give \(output, out_dims\)"),
                             (function(given=(x, 1)), ArgumentError, "out_dims 1 for 2 samples"),
                             (function(given=((x, x), (0,))), ArgumentError, "2 outputs and 1 out_dims")):
        with pytest.raises(error, match=text):
            vmap(lambda a, own=own: own.apply(a, w))(x)
    assert vmap(lambda a: Product.apply(a, w)[0])(x).shape == (2, 3)                # nothing is left behind


def test_dirty_inputs_are_refused(data):
    class Doubled(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.mark_dirty(x)
            return x.mul_(2)

    with pytest.raises(AutogradError, match="mark_dirty"):
        vmap(lambda a: Doubled.apply(a * 1))(data[0])


@pytest.mark.parametrize("function", [
    lambda x: (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum(),
    lambda x: (x * x * x).sum() + (x.sin() * x.exp()).sum() + x.prod(),
    lambda x: (x[0] * x[1] ** 2 * x[2]).sum() + (x[1:] ** 3).sum() + x[::2].prod(),
    lambda x: sum((part ** 2).prod() for part in x.split(2)) + x.cumsum(0).pow(2).sum()])
@pytest.mark.parametrize("create_graph", [False, True])
def test_gradients_that_differ_from_sample_to_sample_are_added_up(function, create_graph, device):
    x = volta.tensor([1.0, 0.5, 2.0, 1.5], device=device, requires_grad=True)
    g, = volta.autograd.grad(function(x), x, create_graph=True)
    found = volta.func.vmap(lambda v: volta.autograd.grad(g, x, v, retain_graph=True, create_graph=create_graph)[0])(
        volta.eye(4, device=device))
    rows = [volta.autograd.grad(part, x, retain_graph=True)[0] for part in g]
    assert volta.allclose(found, volta.stack(rows), atol=1e-3)
