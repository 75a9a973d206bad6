"""volta.func against formulas and, where it is installed, torch.func."""
import numpy as np
import pytest

import volta
from volta import func
from volta.errors import ArgumentError, AutogradError, CallError, DTypeError, ShapeError


def _x(device, *shape):
    rng = np.random.default_rng(3)
    return volta.tensor(rng.uniform(0.2, 1.5, shape).astype(np.float32), device=device)


def _f(x, y):
    return (x.sin() * y).sum() + (x * x * y).sum() * 0.5


def _vector(x):
    return {"a": x * x.sum(), "b": (x.exp()[:2],)}


def _close(a, b):
    np.testing.assert_allclose(np.asarray(a.numpy()), np.asarray(b), rtol=2e-5, atol=2e-5)


def test_grad_and_value(device):
    x, y = _x(device, 3), _x(device, 3)
    g, value = func.grad_and_value(_f)(x, y)
    _close(g, x.cos() * y + x * y if device == "cpu" else (x.cos() * y + x * y).cpu())
    assert not g.requires_grad and not value.requires_grad and g.device == x.device
    both = func.grad(_f, argnums=(0, 1))(x, y)
    assert isinstance(both, tuple) and len(both) == 2
    nested = func.grad(lambda v: _f(v["x"], v["y"][0]))({"x": x, "y": [y]})
    _close(nested["x"], g.cpu().numpy())
    _close(nested["y"][0], both[1].cpu().numpy())
    g2, aux = func.grad(lambda v: (v.sum() ** 2, "kept"), has_aux=True)(x)
    assert aux == "kept"
    assert func.grad(lambda v: volta.ones((), device=device))(x).tolist() == [0.0, 0.0, 0.0]


def test_grad_nests_and_keeps_outer_graphs(device):
    x = volta.tensor(0.7, device=device)
    third = func.grad(func.grad(func.grad(lambda v: v ** 4)))(x)
    assert abs(third.item() - 24 * 0.7) < 1e-3 and not third.requires_grad
    w = volta.tensor(2.0, device=device, requires_grad=True)
    g = func.grad(lambda v: (w * v) ** 2)(x)
    assert g.requires_grad
    g.backward()
    assert abs(w.grad.item() - 4 * 2.0 * 0.7) < 1e-4
    leaf = x.detach().requires_grad_()
    func.grad(lambda v: v ** 3)(leaf).backward()
    assert abs(leaf.grad.item() - 6 * 0.7) < 1e-4


def test_products(device):
    x, t = _x(device, 4), _x(device, 4)
    value, pull = func.vjp(lambda v: (v * v, v.sum()), x)
    found, = pull((t, volta.tensor(2.0, device=device)))
    _close(found, (2 * x * t + 2).cpu().numpy())
    again, = pull((t, volta.tensor(2.0, device=device)))
    assert again.tolist() == found.tolist()
    value, along = func.jvp(lambda v: v.sin() * v, (x,), (t,))
    _close(along, ((x.cos() * x + x.sin()) * t).cpu().numpy())
    assert not value.requires_grad and not along.requires_grad
    value, along, aux = func.jvp(lambda v: (v * 2, 5), (x,), (t,), has_aux=True)
    assert aux == 5


def test_jacobians(device):
    x = _x(device, 3)
    back, forward = func.jacrev(_vector)(x), func.jacfwd(_vector)(x)
    for found in (back, forward):
        assert found["a"].shape == (3, 3) and found["b"][0].shape == (2, 3)
    _close(back["a"], forward["a"].cpu().numpy())
    host = x.cpu().numpy()
    _close(back["a"], np.diag(np.full(3, host.sum())) + host[:, None])
    h = func.hessian(lambda v: (v ** 3).sum() + v[0] * v[1])(x)
    expected = np.diag(6 * host)
    expected[0, 1] = expected[1, 0] = 1
    _close(h, expected)
    two = func.jacrev(lambda a, b: a[:, None] * b, argnums=(0, 1))(x, _x(device, 2))
    assert two[0].shape == (3, 2, 3) and two[1].shape == (3, 2, 2)


def test_jacobians_by_chunks_and_of_custom_functions(device):
    x = _x(device, 4, 3)

    def f(v):
        return (v.sin() @ v.T).softmax(1), v[0, :0]
    wanted = func.jacrev(f)(x)
    assert wanted[0].shape == (4, 4, 4, 3) and wanted[1].shape == (0, 4, 3)
    for found in (func.jacrev(f, chunk_size=3)(x), func.jacfwd(f)(x)):
        for each, other in zip(found, wanted):
            assert each.shape == other.shape
            _close(each, other.cpu().numpy())

    class Cube(volta.autograd.Function):            # which no batch can be sent through
        @staticmethod
        def forward(ctx, v):
            ctx.save_for_backward(v)
            return v ** 3

        @staticmethod
        def backward(ctx, g):
            v, = ctx.saved_tensors
            return 3 * v * v * g
    _close(func.jacrev(Cube.apply)(x[0]), np.diag(3 * x[0].cpu().numpy() ** 2))
    with pytest.raises(ArgumentError, match="chunk_size must be None or above 0, got 0"):
        func.jacrev(f, chunk_size=0)


def test_linearize(device):
    x, t = _x(device, 3), _x(device, 3)
    calls = []

    def f(a, b):
        calls.append(1)
        return {"a": a.sin() * b["b"], "b": b["b"].sum()}
    value, push = func.linearize(f, x, {"b": t})
    for along in ((t, {"b": x}), (x, {"b": t * 0})):
        _, wanted = func.jvp(f, (x, {"b": t}), along)
        found = push(*along)
        for name in ("a", "b"):
            _close(found[name], wanted[name].cpu().numpy())
            assert not found[name].requires_grad and not value[name].requires_grad
    assert len(calls) == 3
    with pytest.raises(ShapeError, match="linearize: tangents must have the shapes"):
        push(x[:2], {"b": t})


def test_batch_norm_without_statistics(device):
    model = func.replace_all_batch_norm_modules_(volta.nn.Sequential(volta.nn.Linear(3, 4), volta.nn.BatchNorm1d(4)).to(device)).eval()
    params = {name: p.detach() for name, p in model.named_parameters()}
    x = _x(device, 5, 6, 3)
    found = func.vmap(lambda v: func.functional_call(model, params, v))(x)
    _close(found, np.stack([model(v).detach().cpu().numpy() for v in x]))


def test_functional_call(device):
    model = volta.nn.Sequential(volta.nn.Linear(3, 4), volta.nn.BatchNorm1d(4), volta.nn.Linear(4, 1)).to(device)
    x = _x(device, 5, 3)
    before = {name: p.clone() for name, p in model.state_dict().items()}
    params = {name: p.detach() * 2 for name, p in model.named_parameters()}
    model.eval()
    doubled = func.functional_call(model, params, (x,))
    for name, value in model.state_dict().items():
        assert value.tolist() == before[name].tolist()
    g = func.grad(lambda p: func.functional_call(model, p, x).sum())(params)
    assert set(g) == set(params) and all(not each.requires_grad for each in g.values())
    with volta.no_grad():
        for name, p in model.named_parameters():
            p.copy_(params[name])
    _close(doubled, model(x).detach().cpu().numpy())
    with pytest.raises(ArgumentError, match="functional_call: the module has no parameter or buffer nothing"):
        func.functional_call(model, {"nothing": x}, x, strict=True)
    with pytest.raises(ArgumentError, match="functional_call: strict=True, and .* is not given"):
        func.functional_call(model, {"0.weight": params["0.weight"]}, x, strict=True)


def test_refusals(device):
    x = _x(device, 3)
    with pytest.raises(ShapeError, match="grad: the function must give one number"):
        func.grad(lambda v: v * 2)(x)
    with pytest.raises(CallError, match="grad: arguments to differentiate for must be tensors"):
        func.grad(lambda v: v)(3.0)
    with pytest.raises(ArgumentError, match="grad: argnums=2 with 1 positional arguments"):
        func.grad(lambda v: v.sum(), 2)(x)
    with pytest.raises(ShapeError, match="jvp: tangents must have the shapes of the primals"):
        func.jvp(volta.sin, (x,), (x[:2],))
    with pytest.raises(ShapeError, match="vjp: cotangents must have the shapes of the result"):
        func.vjp(volta.sin, x)[1](x[:2])
    with pytest.raises(AutogradError, match="jvp: a result does not depend on the primals, which strict=True refuses"):
        func.jvp(lambda v: (v, volta.ones(2)), (x,), (x,), strict=True)
    assert func.jvp(volta.sin, (x,), (x,), strict=True)[1].tolist() == func.jvp(volta.sin, (x,), (x,))[1].tolist()


def test_as_torch_func():
    torch = pytest.importorskip("torch", reason="compares with PyTorch")
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(3, 4)), rng.normal(size=(4,))
    ours = [volta.tensor(v, dtype=volta.float64) for v in (a, b)]
    theirs = [torch.tensor(v) for v in (a, b)]

    def f(x, y):
        return ((x * y).tanh().sum(1), (x * x).sum())

    def number(x, y):
        return f(x, y)[1] * f(x, y)[0].sum()

    for make in (lambda m: m.jacrev(f, argnums=(0, 1)), lambda m: m.jacfwd(f, argnums=(0, 1)), lambda m: m.jacrev(f),
                 lambda m: m.hessian(number, argnums=(0, 1)), lambda m: lambda *v: m.jvp(f, v, (v[0] * 2, v[1])),
                 lambda m: lambda *v: m.vjp(f, *v)[1]((v[1][:3], v[1][0])), lambda m: m.grad(number, argnums=(1,))):
        mine, other = func.flatten(make(func)(*ours))[0], func.flatten(make(torch.func)(*theirs))[0]
        assert len(mine) == len(other)
        for x, y in zip(mine, other):
            assert x.shape == tuple(y.shape)
            np.testing.assert_allclose(x.numpy(), y.numpy(), rtol=1e-10, atol=1e-12)


def test_integers_have_no_derivative():
    for transform in (lambda f, x: volta.func.jacrev(f)(x), volta.func.vjp):
        with pytest.raises(DTypeError, match="what the function gives must be floating point tensors, got volta.int64; convert it"):
            transform(lambda x: x.long(), volta.ones(2))


def test_functionalize_gives_the_function_itself():
    """PyTorch's gives the same results, and changes what the function changes."""
    def change(x):
        x[:1].add_(1)
        return x * 2

    x = volta.zeros(2)
    assert func.functionalize(change)(x).tolist() == [2.0, 0.0] and x.tolist() == [1.0, 0.0]
    assert func.functionalize(change, remove="mutations_and_views")(x).tolist() == [4.0, 0.0]
    assert func.grad(func.functionalize(lambda x: (x * 1).mul_(x).sum()))(volta.ones(3)).tolist() == [2.0, 2.0, 2.0]
    with pytest.raises(ArgumentError, match="functionalize: remove must be 'mutations' or 'mutations_and_views', got 'views'"):
        func.functionalize(change, remove="views")
