"""Tangents of every op beside what two passes of backward give, and torch.autograd.forward_ad beside PyTorch's."""
import numpy as np
import pytest

import volta
from volta import nn
from volta.autograd import forward_ad as fw
from volta.errors import AutogradError, DTypeError, ShapeError
from volta.selftest import cases as table
from volta.selftest import checks

OPS = [op for op in table.records() if op.details.differentiable and (op.vjp is not None or op.reference is not None)] + [
    op for op in table.composed() if "f" in op.details.kinds]


def _by_backward(roots, leaves, along):
    """The derivatives of `roots` along tangents: the gradient is linear in its seeds."""
    seeds = [volta.zeros_like(r).requires_grad_() for r in roots]
    pulled = volta.autograd.grad(roots, leaves, seeds, create_graph=True, materialize_grads=True)
    pairs = [(p, t) for p, t in zip(pulled, along) if p.requires_grad]
    if not pairs:
        return [volta.zeros_like(r) for r in roots]
    return volta.autograd.grad([p for p, _ in pairs], seeds, [t for _, t in pairs], materialize_grads=True)


@pytest.mark.parametrize("op", OPS, ids=lambda op: op.name)
def test_every_op_carries_tangents(op, rng):
    for case in op.details.cases[:3]:
        arrays = table.as_precision(table.sample(op, case, rng, volta.float64), volta.float64)
        function, leaves = checks.as_function(op, case, arrays, "cpu")
        if not leaves:
            continue
        along = [volta.tensor(rng.uniform(-1, 1, x.shape)) for x in leaves]
        volta.manual_seed(1)
        roots = checks.floats_of(function(*leaves))
        wanted = [volta.zeros_like(r) for r in roots]
        places = [k for k, r in enumerate(roots) if r.requires_grad]
        if places:
            for k, t in zip(places, _by_backward([roots[k] for k in places], leaves, along)):
                wanted[k] = t
        volta.manual_seed(1)
        with fw.dual_level():
            found = [fw.unpack_dual(y) for y in checks.floats_of(function(*[fw.make_dual(x.detach(), t) for x, t in zip(leaves, along)]))]
        assert len(found) == len(wanted)
        for (primal, tangent), root, want in zip(found, roots, wanted):
            assert not primal.requires_grad and (tangent is None or not tangent.requires_grad)
            np.testing.assert_allclose(primal.numpy(), root.detach().numpy(), rtol=1e-10, atol=1e-12)
            np.testing.assert_allclose(np.zeros(want.shape) if tangent is None else tangent.numpy(), want.detach().numpy(), rtol=1e-7,
                                       atol=1e-9, err_msg=f"{op.name} {case.params}")


def _both(run):
    """A function of the package and its forward_ad, for Volta and for PyTorch: equal lists of tensors."""
    torch = pytest.importorskip("torch", reason="compares with PyTorch")

    def noted(lib, forward_ad):
        seen: list = []
        run(lib, forward_ad, seen.append)
        return [x.tolist() if hasattr(x, "tolist") else x for x in seen]
    ours, theirs = noted(volta, fw), noted(torch, torch.autograd.forward_ad)
    assert len(ours) == len(theirs)
    for a, b in zip(ours, theirs):
        assert (a is None) == (b is None)
        if a is not None:
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


def _dual(lib, forward_ad, *values):
    return forward_ad.make_dual(lib.tensor(values), lib.arange(1.0, len(values) + 1))


def test_changes_in_place_and_views():
    def run(lib, fwd, note):
        with fwd.dual_level():
            x = _dual(lib, fwd, 1.0, 2.0, 3.0, 4.0)
            rows = x.reshape(2, 2)
            rows[0].mul_(5)                                     # through a view, of x as well
            note(fwd.unpack_dual(x).tangent)
            x[::2] += 1
            note(fwd.unpack_dual(rows.t()).tangent)
            z = lib.zeros(3, 2)
            z[1:] = rows                                        # what had no tangent gets one
            note(fwd.unpack_dual(z).tangent)
            note(fwd.unpack_dual(z[2]).tangent)
            z.index_add_(0, lib.tensor([0, 0]), rows)
            note(fwd.unpack_dual(z).tangent)
            z[lib.tensor([1, 2]), lib.tensor([0, 1])] = rows[1] * 2
            note(fwd.unpack_dual(z).tangent)
            z[z > 8] = 0.0
            note(fwd.unpack_dual(z).tangent)
            z.fill_(1.0)
            note(fwd.unpack_dual(z).tangent)
            note(fwd.unpack_dual(x.detach()).tangent)
            note(fwd.unpack_dual(x.data).tangent)
            x.zero_()
            note(fwd.unpack_dual(rows).tangent)
            note(fwd.unpack_dual(lib.relu_(_dual(lib, fwd, -1.0, 2.0))).tangent)
            out = lib.zeros(2)
            out.copy_(_dual(lib, fwd, -1.0, 2.0))
            note(fwd.unpack_dual(out.add_(1)).tangent)
    _both(run)


def test_what_a_module_gives_along_its_parameters():
    def run(lib, fwd, note):
        model = (nn if lib is volta else lib.nn).Sequential(*[(nn if lib is volta else lib.nn).Linear(3, 3) for _ in range(2)])
        with lib.no_grad():
            for k, p in enumerate(model.parameters()):
                p.copy_((lib.arange(0.0, p.numel()) * 0.1 - k).reshape(p.shape))
        x = lib.tensor([[0.5, -1.0, 2.0]])
        with fwd.dual_level():
            for layer in model:
                for name in ("weight", "bias"):
                    p = getattr(layer, name)
                    delattr(layer, name)
                    setattr(layer, name, fwd.make_dual(p, lib.ones(p.shape)))
            value, tangent = fwd.unpack_dual(model(x).tanh())
            note(value.detach())
            note(tangent.detach())
    _both(run)


def test_backward_of_tangents_and_tangents_of_backward():
    def run(lib, fwd, note):
        w = lib.tensor([1.0, 2.0, 3.0], requires_grad=True)
        with fwd.dual_level():
            x = _dual(lib, fwd, 0.5, 1.5, 2.5)
            tangent = fwd.unpack_dual((x * w).exp().sum()).tangent
            note(lib.autograd.grad(tangent, w)[0])
        with fwd.dual_level():                                  # the Hessian times a vector, with and without a graph
            for graph in (False, True):
                x = fwd.make_dual(w, lib.tensor([1.0, 0.5, 2.0]))
                found, = lib.autograd.grad(x.pow(3).sum() * x.prod(), x, create_graph=graph)
                note(fwd.unpack_dual(found).primal.detach())
                note(fwd.unpack_dual(found).tangent.detach())
                assert fwd.unpack_dual(found).tangent.requires_grad is graph
            x = fwd.make_dual(w, lib.ones(3))
            (x * x * 3 + x).sum().backward()
            note(w.grad)
    _both(run)


def test_custom_functions_carry_tangents_by_jvp():
    def run(lib, fwd, note):
        class Product(lib.autograd.Function):
            @staticmethod
            def forward(ctx, x, y, k):
                ctx.save_for_forward(x, y)
                ctx.k = k
                return x * y * k, x.clone()

            @staticmethod
            def jvp(ctx, x_along, y_along, k_along):
                assert k_along is None
                x, y = ctx.saved_tensors
                return (x * y_along + x_along * y) * ctx.k * 10, x_along        # ten times the truth shows that it was called

        class Loose(lib.autograd.Function):
            @staticmethod
            def forward(ctx, x, y):
                ctx.set_materialize_grads(False)
                return x * y

            @staticmethod
            def jvp(ctx, x_along, y_along):
                assert y_along is None
                return x_along
        with fwd.dual_level():
            x, y = _dual(lib, fwd, 1.0, 2.0), lib.tensor([3.0, 4.0])
            for out in Product.apply(x, y, 2):
                note(fwd.unpack_dual(out).primal)
                note(fwd.unpack_dual(out).tangent)
            note(fwd.unpack_dual(Product.apply(x, x, 2)[0]).tangent)
            note(fwd.unpack_dual(Product.apply(y, y, 2)[0]).tangent)
            note(fwd.unpack_dual(Loose.apply(x, y)).tangent)
    _both(run)


def test_custom_functions_without_jvp_are_refused():
    class Twice(volta.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 2

    class Odd(Twice):
        @staticmethod
        def jvp(ctx, along):
            return along[:1]

    class Many(Twice):
        @staticmethod
        def jvp(ctx, along):
            return along, along
    with fw.dual_level():
        x = fw.make_dual(volta.ones(2), volta.ones(2))
        with pytest.raises(AutogradError, match=r"Twice: an input has a tangent; define a static jvp\(ctx, \*tangents\)"):
            Twice.apply(x)
        with pytest.raises(AutogradError, match=r"Odd: jvp gave a tangent of shape \(1,\) for an output of shape \(2,\)"):
            Odd.apply(x)
        with pytest.raises(AutogradError, match="Many: jvp gave 2 tangents for 1 outputs of forward"):
            Many.apply(x)


def test_inside_and_outside_vmap():
    def run(lib, fwd, note):
        rows, along = lib.arange(6.0).reshape(3, 2), lib.ones(3, 2)
        with fwd.dual_level():
            note(fwd.unpack_dual(lib.func.vmap(lambda x: (x * x).sum())(fwd.make_dual(rows, along))).tangent)
            note(fwd.unpack_dual(lib.func.grad(lambda x: (x ** 3).sum())(fwd.make_dual(rows, along))).tangent)
    _both(run)

    def pushed(x, t):
        with fw.dual_level():
            return fw.unpack_dual((fw.make_dual(x, t) ** 2).sum()).tangent
    rows = volta.arange(6.0).reshape(3, 2)
    assert volta.func.vmap(pushed)(rows, volta.ones(3, 2)).tolist() == (2 * rows).sum(1).tolist()
    assert volta.func.vmap(pushed, (None, 0))(rows[1], volta.eye(2)).tolist() == (2 * rows[1]).tolist()


def test_levels_and_what_they_refuse():
    x, t = volta.arange(3.0), volta.ones(3)
    assert fw.unpack_dual(x) == (x, None)
    for call, text in ((lambda: fw.make_dual(x, t), "make_dual: no level is open"),
                       (fw.exit_dual_level, "exit_dual_level: no level is open")):
        with pytest.raises(AutogradError, match=text):
            call()
    with fw.dual_level() as level:
        assert level == 0
        dual = fw.make_dual(x, t)
        assert repr(dual) == "tensor([0., 1., 2.], tangent=tensor([1., 1., 1.]))"
        value, tangent = fw.unpack_dual(dual)
        assert tangent.data_ptr() == t.data_ptr() and value.data_ptr() == x.data_ptr() and fw.unpack_dual(value).tangent is None
        for call, text in ((lambda: fw.make_dual(dual, t), "make_dual: the tensor has a tangent already"),
                           (fw.enter_dual_level, "enter_dual_level: a level is open, and levels cannot be nested"),
                           (lambda: fw.make_dual(x, t, level=2), "make_dual: level 2 is not open"),
                           (lambda: fw.exit_dual_level(level=1), "exit_dual_level: level 1 is not open"),
                           (lambda: volta.special.airy_ai(dual), "airy_ai: it has no derivative, and an input has a tangent")):
            with pytest.raises(AutogradError, match=text):
                call()
        with pytest.raises(ShapeError, match=r"make_dual: the tangent has shape \(2,\), the tensor \(3,\)"):
            fw.make_dual(x, t[:2])
        for pair in ((x.long(), t), (x, t.long()), (x, 1.0), (1.0, t)):
            with pytest.raises(DTypeError, match="make_dual: (tensor|tangent) must be a floating point tensor"):
                fw.make_dual(*pair)
    assert fw.unpack_dual(dual).tangent is None and dual.storage.tangent.flat is None
    with fw.dual_level():
        assert fw.unpack_dual(dual).tangent is None and fw.unpack_dual(dual * 2).tangent is None

    @fw.dual_level()
    def squared(v):
        return fw.unpack_dual(fw.make_dual(v, t) ** 2).tangent
    assert squared(x).tolist() == squared(x).tolist() == [0.0, 2.0, 4.0]


def test_tangents_on_each_device(device):
    x = volta.tensor([[0.5, 1.5], [2.0, 0.25]], device=device)
    with fw.dual_level():
        y = fw.make_dual(x.clone(), volta.ones_like(x))
        y[0] *= 2
        found = fw.unpack_dual((y @ y).softmax(1)).tangent
        there = fw.unpack_dual(y.cpu() * 3).tangent
    assert found.device is x.device and there.tolist() == [[6.0, 6.0], [3.0, 3.0]]
    wanted = volta.func.jvp(lambda v: (lambda w: (w @ w).softmax(1))(volta.cat((v[:1] * 2, v[1:]))), (x,), (volta.ones_like(x),))[1]
    np.testing.assert_allclose(found.cpu().numpy(), wanted.cpu().numpy(), rtol=1e-5, atol=1e-6)


def test_converted_under_autocast(device):
    x = volta.ones(2, 2, device=device)
    kind = "cpu" if device == "cpu" else "gpu"
    with fw.dual_level(), volta.autocast(kind, dtype=volta.bfloat16 if device == "cpu" else volta.float16):
        value, tangent = fw.unpack_dual(fw.make_dual(x, x) @ x)
    assert value.dtype is tangent.dtype and tangent.tolist() == [[2.0, 2.0], [2.0, 2.0]]
