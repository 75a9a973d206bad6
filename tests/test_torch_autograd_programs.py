"""Programs of autograd and functional transforms that once gave something else than PyTorch. Skips where it is not installed."""
import numpy as np
import pytest

import volta

torch = pytest.importorskip("torch", reason="PyTorch is not installed; these comparisons are an extra")


def leaf(lib, n=3, requires_grad=True):
    return lib.tensor([0.5 * i + 0.5 for i in range(n)], requires_grad=requires_grad)


def tripled(lib, saving=False):
    """A Function that triples its input in place, or, `saving` it, out of place."""
    class Tripled(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            if saving:
                ctx.save_for_backward(x)
                return x * 3
            ctx.mark_dirty(x)
            return x.mul_(3)

        @staticmethod
        def backward(ctx, g):
            return g * 3 + sum(ctx.saved_tensors) * 0 if saving == "used" else g * 3
    return Tripled.apply




def without_recording(run):
    def program(lib):
        with lib.no_grad():
            return run(lib, leaf(lib))
    return program


def constant_inside(lib):
    def f(x):
        with lib.no_grad():
            g = lib.func.grad(lambda y: (y ** 3).sum())(x)
        return (g * x).sum()
    return lib.func.grad(f)(leaf(lib, requires_grad=False))


def changed_view(use):
    def program(lib):
        x = leaf(lib, 4)
        base = x * 1
        view, other = base[1:3], base[2:]
        tripled(lib)(view)
        (use(base, view, other) ** 2).sum().backward()
        return x.grad
    return program


def twice(function):
    def program(lib):
        x = leaf(lib, 4)
        y = function(lib, x).sum()
        y.backward()
        y.backward()
        return x.grad
    return program


def second_over_written(lib, x):
    y = x + 1
    y[1:] = leaf(lib)
    return y


def backward_to(*names):
    def program(lib):
        x = leaf(lib)
        y = x * 2
        y.exp().sum().backward(inputs=[{"x": x, "y": y}[name] for name in names])
        return tuple(t.grad for t in (x, y) if t.grad is not None)
    return program


def dirty_and_dropped(lib):
    class Dropped(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.mark_dirty(x)
            return x.mul_(2) * 3

        @staticmethod
        def backward(ctx, g):
            return g * 6
    return Dropped.apply(leaf(lib) * 1)


PROGRAMS = {
    "grad under no_grad": without_recording(lambda lib, x: lib.func.grad(lambda y: (y * y * x).sum())(x)),
    "grad_and_value under no_grad": without_recording(lambda lib, x: lib.func.grad_and_value(lambda y: (y * y).sum())(x)),
    "grad of grad under no_grad": without_recording(
        lambda lib, x: lib.func.grad(lambda y: lib.func.grad(lambda z: (z ** 3).sum())(y).sum())(x)),
    "jvp under no_grad": without_recording(lambda lib, x: lib.func.jvp(lambda y: y * y, (x,), (x,))),
    "vjp under no_grad": without_recording(lambda lib, x: lib.func.vjp(lambda y: y * y, x)[1](x)),
    "Jacobians under no_grad": without_recording(lambda lib, x: (
        lib.func.jacrev(lambda y: y * y)(x), lib.func.jacfwd(lambda y: y * y)(x), lib.func.hessian(lambda y: (y ** 3).sum())(x))),
    "hvp under no_grad": without_recording(lambda lib, x: lib.autograd.functional.hvp(lambda y: (y ** 3).sum(), x, lib.ones(3))),
    "a gradient that is constant outside": constant_inside,
    "view marked dirty, its base": changed_view(lambda base, view, other: base),
    "view marked dirty, itself": changed_view(lambda base, view, other: view),
    "view marked dirty, another view": changed_view(lambda base, view, other: other),
    "sum twice": twice(lambda lib, x: x + 1),
    "views twice": twice(lambda lib, x: x.view(2, 2).t().reshape(-1)[1:]),
    "cat and mean twice": twice(lambda lib, x: lib.cat([x, -x]).mean()),
    "cast twice": twice(lambda lib, x: x.double()),
    "product twice": twice(lambda lib, x: x * x),
    "product by a number twice": twice(lambda lib, x: x * 2),
    "exp twice": twice(lambda lib, x: x.exp()),
    "write twice": twice(second_over_written),
    "backward to nothing": backward_to(),
    "backward to an intermediate": backward_to("y"),
    "backward to an intermediate, named twice": backward_to("y", "y"),
    "backward to both": backward_to("x", "y"),
    "dirty, not given back": dirty_and_dropped,
    "Function twice": twice(lambda lib, x: tripled(lib, "unused")(x)),
    "Function that reads what it saved twice": twice(lambda lib, x: tripled(lib, "used")(x)),
}


def seen(lib, name):
    """Values of the tensors that a program gives, and whether they want gradients; or that it raises RuntimeError."""
    try:
        found = PROGRAMS[name](lib)
    except RuntimeError:
        return RuntimeError
    flat = [found]
    while any(isinstance(x, tuple) for x in flat):
        flat = [y for x in flat for y in (x if isinstance(x, tuple) else (x,))]
    return [(x.requires_grad, x.detach().numpy()) for x in flat]


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name):
    found, expected = seen(volta, name), seen(torch, name)
    if expected is RuntimeError or found is RuntimeError:
        assert found is expected
        return
    assert [x for x, _ in found] == [x for x, _ in expected]
    for (_, a), (_, b) in zip(found, expected):
        assert a.dtype == b.dtype and a.shape == b.shape
        np.testing.assert_allclose(a, b, rtol=1e-6)
