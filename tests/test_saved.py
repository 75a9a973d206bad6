"""Saved-tensor hooks, checkpoints and anomaly mode."""
import sys
import warnings

import pytest

import volta
import volta.nn.functional as F
from volta import nn
from volta.autograd import graph
from volta.errors import ArgumentError, AutogradError
from volta.utils.checkpoint import checkpoint, checkpoint_sequential


def _model(device):
    volta.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 8), nn.GELU(), nn.Dropout(0.4), nn.Linear(8, 3), nn.Sigmoid()).to(device)


def _gradients(model, x, run):
    for p in (x, *model.parameters()):
        p.grad = None
    volta.manual_seed(5)
    out = run(x)
    (out * out).sum().backward()
    return [out.detach(), *(p.grad for p in (x, *model.parameters()))]


def _input(device):
    volta.manual_seed(1)
    return volta.randn(4, 6, device=device, requires_grad=True)


def test_a_checkpoint_changes_nothing(device):
    model, x = _model(device), _input(device)
    plain = _gradients(model, x, model)
    for run in (lambda v: checkpoint(model, v), lambda v: checkpoint(model, v, use_reentrant=False, early_stop=False),
                lambda v: checkpoint_sequential(model, 2, v), lambda v: checkpoint(lambda u: checkpoint(model, u), v)):
        for a, b in zip(plain, _gradients(model, x, run)):
            assert a.tolist() == b.tolist()


def test_a_checkpoint_keeps_no_values(device):
    kept = []
    x = volta.ones(100, device=device, requires_grad=True)

    def function(v):
        out = v
        for _ in range(5):
            out = out.sin()
            kept.append(out.storage)
        return out

    plain = function(x)
    held = [sys.getrefcount(s) for s in kept[:4]]
    kept.clear()
    out = checkpoint(function, x)
    assert [sys.getrefcount(s) for s in kept[:4]] == [n - 1 for n in held]          # the node that would keep it is missing
    assert plain.requires_grad
    out.sum().backward()
    assert len(kept) == 9                                                           # the fifth sine's result is not needed


def test_second_order_through_a_checkpoint(device):
    x = _input(device)

    def second(run):
        g, = volta.autograd.grad(run(x).sum(), x, create_graph=True)
        return volta.autograd.grad((g * g).sum(), x)[0].tolist()

    def function(v):
        return v.tanh() * v.exp() / (v * v + 1)
    assert second(function) == second(lambda v: checkpoint(function, v))


def test_the_older_checkpoint_gives_gradients_where_an_argument_wants_them(device):
    x, layer = _input(device), nn.Linear(6, 4).to(device)
    given = [volta.autograd.grad(run(x).sum(), (x, layer.weight)) for run in (
        layer, lambda v: checkpoint(layer, v, use_reentrant=True))]
    assert all(volta.equal(a, b) for a, b in zip(*given))
    with pytest.warns(UserWarning, match="nothing gets a gradient where no argument requires one"):
        assert not checkpoint(layer, x.detach(), use_reentrant=True).requires_grad


def test_a_checkpoint_refuses(device):
    x, calls = _input(device), []

    def other(v):
        calls.append(1)
        return (v.sin() if len(calls) == 1 else v[:1].sin()).cos().sum()

    with pytest.raises(AutogradError, match="checkpoint: the function kept a tensor of shape .* and when called again"):
        checkpoint(other, x).backward()
    with pytest.raises(ArgumentError, match="checkpoint: use_reentrant=True passes no options on, got out"):
        checkpoint(volta.sin, x, use_reentrant=True, out=None)
    with pytest.raises(ArgumentError, match="checkpoint_sequential: segments must be 1 to 5"):
        checkpoint_sequential(_model(device), 9, x)


def test_hooks_see_what_is_saved(device):
    x, packed, unpacked = _input(device), [], []
    y = x * 2
    with graph.saved_tensors_hooks(lambda t: packed.append(t) or (len(packed) - 1), lambda i: unpacked.append(i) or packed[i]):
        z = y.exp() * y
    z.sum().backward()
    assert {t.shape for t in packed} == {(4, 6)} and sorted(unpacked) == list(range(len(packed)))
    y = x.detach() * 2
    assert volta.allclose(x.grad, 2 * (y.exp() * y + y.exp()))
    with graph.saved_tensors_hooks(lambda t: None, lambda p: p):
        z = (x * 2).exp()
    with pytest.raises(AutogradError, match="exp: unpack_hook must give a tensor, got NoneType"):
        z.sum().backward()


@pytest.mark.parametrize("other", [lambda t: t[:1].clone(), lambda t: t.half(), lambda t: t.t()])
def test_hooks_must_give_back_what_was_saved(other, device):
    """Kernels of gradients rely on its shape and dtype."""
    x = _input(device)
    for function in (volta.tanh, lambda x: volta.nn.functional.softmax(x, 1), lambda x: volta.nn.functional.layer_norm(x, (6,))):
        with graph.saved_tensors_hooks(lambda t: t, other):
            z = function(x)
        with pytest.raises(AutogradError, match="unpack_hook must give what was saved, volta.float32 of shape"):
            z.sum().backward()


def test_hooks_that_give_other_exchanges_of_rows(rng):
    a, b = (volta.tensor(rng.standard_normal(s), requires_grad=True) for s in ((6, 6), (6, 2)))
    for function in (lambda: volta.linalg.solve(a, b).sum(), lambda: volta.linalg.det(a)):
        wanted = volta.autograd.grad(function(), a)[0]
        for value in (10 ** 6, -5, 0):
            with graph.saved_tensors_hooks(lambda t: t, lambda t, v=value: t.clone().fill_(v) if t.dtype is volta.int32 else t):
                out = function()
            assert volta.allclose(volta.autograd.grad(out, a)[0], wanted)


def test_hooks_of_custom_functions(device):
    class Cube(volta.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x * x

        @staticmethod
        def backward(ctx, g):
            x, = ctx.saved_tensors
            return g * x * x * 3

    x = _input(device)
    assert Cube.apply(x).grad_fn.name() == "CubeBackward"
    with graph.save_on_cpu():
        y = Cube.apply(x)
    y.sum().backward()
    assert volta.allclose(x.grad, x.detach() ** 2 * 3)


def test_save_on_cpu(device):
    x = _input(device)
    with graph.save_on_cpu():
        y = ((x * 2).exp() * F.softmax(x * 2, 1)).sum()
    g, = volta.autograd.grad(y, x)
    expected, = volta.autograd.grad(((x * 2).exp() * F.softmax(x * 2, 1)).sum(), x)
    assert g.tolist() == expected.tolist() and g.device == x.device


def test_a_hooked_tensor_changed_in_place_raises():
    x = volta.ones(3, requires_grad=True)
    with graph.save_on_cpu():
        y = x * 2
        z = y.sin()
    y.add_(1)                               # what was saved is this very memory
    with pytest.raises(AutogradError, match="sin: a tensor .* was changed in place"):
        z.sum().backward()


def test_anomaly_mode_names_op_and_line(device):
    x = volta.tensor([0.0, -1.0], device=device, requires_grad=True)
    with volta.autograd.detect_anomaly():
        y = x.sqrt()                        # the line
        assert volta.autograd.is_anomaly_enabled()
        with pytest.raises(AutogradError, match=r"(?s)sqrt: its derivative gave NaN for input 0.*y = x.sqrt\(\)  +# the line"):
            y.sum().backward()
    assert not volta.autograd.is_anomaly_enabled()
    x.sqrt().sum().backward()
    with volta.autograd.set_detect_anomaly(True):
        pass
    assert not volta.autograd.is_anomaly_enabled()
    with volta.autograd.detect_anomaly(check_nan=False):
        assert volta.autograd.is_anomaly_enabled() and not volta.is_anomaly_check_nan_enabled()
        y = x.sqrt()
        y.sum().backward()                  # NaN is passed on
        assert x.grad.isnan().tolist() == [False, True]
    assert volta.is_anomaly_check_nan_enabled()


def test_hooks_that_change_nothing_are_called_all_the_same(device):
    x, seen = _input(device), []

    def pack(t):
        seen.append(("pack", t is x, volta.is_grad_enabled()))
        return t

    def unpack(t):
        seen.append(("unpack", t is x))
        return t

    with graph.saved_tensors_hooks(pack, unpack):
        y = (x.exp() * x).sum()
    assert seen == [("pack", False, False), ("pack", False, False), ("pack", True, False)]
    first, = volta.autograd.grad(y, x, create_graph=True)
    assert len(seen) == 6 and ("unpack", True) in seen
    second, = volta.autograd.grad(first.sum(), x)
    v = x.detach()
    assert volta.allclose(first, v.exp() * (v + 1)) and volta.allclose(second, v.exp() * (v + 2))


def test_hooks_may_read_as_numpy():
    x = _input("cpu")
    with graph.saved_tensors_hooks(lambda t: t.numpy().copy(), volta.from_numpy):
        y = (x.exp() * x).sum()
    y.backward()
    assert volta.allclose(x.grad, x.detach().exp() * (x.detach() + 1))


@pytest.mark.parametrize("change, copies", [("add_(x)", 0), ("mul_(2)", 0), ("mul_(x)", 1), ("sin_()", 1), ("exp_()", 0), ("sub_(y)", 0)])
def test_a_change_in_place_copies_what_it_changes_only_where_that_is_kept(change, copies, device):
    """With hooks and without; `exp` keeps its result."""
    copied = []

    class Counting(volta._kernels.core.call.Observer):
        def after(self, op, device, inputs, params, out, result):
            copied.extend([op.name] if op.name == "contiguous" else [])

    x = volta.tensor([1.0, 2.0, 3.0], device=device, requires_grad=True)
    for around in (graph.saved_tensors_hooks(lambda t: t, lambda t: t), volta.enable_grad()):
        y = x * 2
        copied.clear()
        with around, Counting():
            eval("y." + change, {"x": x, "y": y})
        assert len(copied) == copies
        y.sum().backward()


def test_an_identical_hook_keeps_the_check_of_versions():
    class Square(volta.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, g):
            return 2 * g * ctx.saved_tensors[0]

    for function, text in ((volta.sin, "sin: a tensor .* was changed in place"), (Square.apply, "a saved tensor .* was changed in place")):
        x = volta.ones(3, requires_grad=True)
        with graph.saved_tensors_hooks(lambda t: t, lambda t: t):
            y = x * 2
            z = function(y)
        y.add_(1)
        with pytest.raises(AutogradError, match=text):
            z.sum().backward()


def test_inputs_of_checkpoints_by_themselves():
    checkpoints = volta.utils.checkpoint
    x = volta.ones(2, requires_grad=True)
    y, number = checkpoints.detach_variable((x * 2, 3))
    assert y.is_leaf and y.requires_grad and y.tolist() == [2, 2] and number == 3
    assert not checkpoints.detach_variable((x.detach(),))[0].requires_grad
    with pytest.raises(volta.errors.ArgumentError, match="detach_variable: takes a tuple, got list"):
        checkpoints.detach_variable([x])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        checkpoints.check_backward_validity([x, 3])
        with pytest.raises(UserWarning, match="none of the inputs requires a gradient"):
            checkpoints.check_backward_validity([x.detach(), 3])


@pytest.mark.parametrize("change", [lambda a, b: (a.exp_(), b.exp_()), lambda a, b: (a.mul_(a), b.sin_()),
                                    lambda a, b: (a.sigmoid_(), b.neg_())])
@pytest.mark.parametrize("places", [(0, 1), (0, (slice(None), 1))])
def test_a_checkpoint_of_views_that_are_changed_in_place(change, places, device):
    """What a later change would overwrite is copied before."""
    def function(v):
        y = v * 2
        change(*[y[place] for place in places])
        return (y * y).sum()

    x = volta.tensor([[0.1, 0.2, 0.3], [0.4, 0.5, 0.6]], device=device, requires_grad=True)
    checkpoint(function, x, use_reentrant=False).backward()
    with graph.allow_mutation_on_saved_tensors():
        assert x.grad.tolist() == volta.autograd.grad(function(x), x)[0].tolist()
