"""The autograd engine: accumulation, graphs that are freed or kept, modes, hooks, higher orders, in-place changes, threads."""
import threading
import warnings

import numpy as np
import pytest

import volta
import volta.testing
from volta.autograd import grad
from volta.errors import ArgumentError, AutogradError, DTypeError, ShapeError
from volta.testing import gradcheck, gradgradcheck


def leaf(*values, device="cpu", dtype=volta.float32):
    return volta.tensor(list(values), dtype=dtype, device=device, requires_grad=True)


# ---------------------------------------------------------------- accumulation
def test_gradients_add_up(device):
    x = leaf(1.0, 2.0, device=device)
    for _ in range(3):
        (x * 3.0).sum().backward()
    assert x.grad.tolist() == [9.0, 9.0]
    x.grad = None
    (x * x).sum().backward()
    assert x.grad.tolist() == [2.0, 4.0]


def test_shared_subexpressions(device):
    """Every path counts: y = x * x used four times, x once more."""
    x = leaf(3.0, device=device)
    y = x * x
    z = y * y + y + y + x
    z.sum().backward()
    assert x.grad.tolist() == [4 * 27.0 + 2 * 6.0 + 1.0]


def test_same_tensor_on_both_sides(device):
    x = leaf(2.0, 3.0, device=device)
    (x - x).sum().backward()
    assert x.grad.tolist() == [0.0, 0.0]
    x.grad = None
    (x / x + x ** x).sum().backward()
    expected = [4 * (np.log(2) + 1), 27 * (np.log(3) + 1)]
    volta.testing.assert_close(x.grad.numpy(), np.array(expected, np.float32), 1e-5, 1e-5)


def test_order_follows_recording_not_depth():
    """A short and a long path meet: the node below must wait for both."""
    x = leaf(1.5)
    y = x * 2.0
    long = y
    for _ in range(50):
        long = long + 1.0
    (long * y).sum().backward()
    assert x.grad.tolist() == [2 * 2 * 3.0 + 50 * 2]


def test_gradient_is_not_shared_with_the_caller(device):
    """Two leaves that receive one gradient own separate buffers; so does the caller's gradient."""
    a, b = leaf(1.0, 2.0, device=device), leaf(3.0, 4.0, device=device)
    seed = volta.tensor([1.0, 1.0], device=device)
    (a + b).backward(seed)
    with volta.no_grad():
        a.grad.mul_(10.0)
    assert b.grad.tolist() == [1.0, 1.0] and seed.tolist() == [1.0, 1.0] and a.grad.tolist() == [10.0, 10.0]
    c = leaf(1.0, device=device)
    c.backward(seed[:1])
    with volta.no_grad():
        c.grad.zero_()
    assert seed.tolist() == [1.0, 1.0]


def test_broadcast_inputs_get_summed_gradients(device):
    a, b = volta.ones(3, 1, device=device, requires_grad=True), volta.ones(4, device=device, requires_grad=True)
    (a * b * 2.0).sum().backward()
    assert a.grad.tolist() == [[8.0]] * 3 and b.grad.tolist() == [6.0] * 4


def test_dtype_and_device_of_gradients(device):
    x = volta.ones(3, device=device, requires_grad=True)
    (x * volta.tensor(2, device=device)).sum().backward()
    assert x.grad.dtype is volta.float32 and x.grad.device == x.device
    d = volta.ones(2, dtype=volta.float64, requires_grad=True)
    (d.float() * 2).sum().backward()
    assert d.grad.dtype is volta.float64 and d.grad.tolist() == [2.0, 2.0]
    f, g = volta.ones(2, requires_grad=True), volta.ones(2, dtype=volta.float64, requires_grad=True)
    (f * g).sum().backward()
    assert f.grad.dtype is volta.float32 and g.grad.dtype is volta.float64


def test_gradient_crosses_devices(gpu):
    """Through .to(): each leaf's gradient lies where its data lies."""
    x, w = volta.ones(3, requires_grad=True), volta.full((3,), 2.0, device=gpu, requires_grad=True)
    (x.to(gpu) * w).sum().cpu().backward()
    assert str(x.grad.device) == "cpu" and w.grad.device.is_gpu
    assert x.grad.tolist() == [2.0] * 3 and w.grad.tolist() == [1.0] * 3


# ---------------------------------------------------------------- life of a graph
def test_backward_twice_needs_retain_graph(device):
    x = leaf(2.0, device=device)
    y = (x * x).sum()
    y.backward(retain_graph=True)
    y.backward()
    assert x.grad.tolist() == [8.0]
    with pytest.raises(AutogradError, match=r"backward: the graph of (sum|mul) has already been freed by an earlier backward; "
                                            r"pass retain_graph=True"):
        y.backward()
    assert x.grad.tolist() == [8.0]


def test_freed_branch_is_noticed():
    x = leaf(2.0)
    y = x.exp()
    (y * 1.0).sum().backward()
    with pytest.raises(AutogradError, match="exp has already been freed"):
        (y * 2.0).sum().backward()


def test_deep_chain():
    """100,000 nodes: neither backward nor freeing the graph recurses."""
    x = leaf(1.0)
    y = x
    for _ in range(100_000):
        y = y + 1.0
    y.sum().backward()
    assert x.grad.tolist() == [1.0]
    y = x
    for _ in range(100_000):
        y = y * 1.0
    node = y.grad_fn
    del y
    del node


def test_deep_chain_of_custom_functions_is_freed():
    class Same(volta.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * 1.0

        @staticmethod
        def backward(ctx, g):
            return g

    x = leaf(1.0)
    y = x
    for _ in range(20_000):
        y = Same.apply(y)
    y.sum().backward()
    assert x.grad.tolist() == [1.0]
    y = x
    for _ in range(20_000):
        y = Same.apply(y)
    del y


def test_deep_chain_freed_in_a_thread():
    """Threads have small stacks."""
    x = leaf(1.0)
    failures = []

    def work():
        try:
            y = x
            for _ in range(100_000):
                y = y * 2.0
            del y
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert failures == []


# ---------------------------------------------------------------- modes
def test_modes_nest():
    x = leaf(1.0)
    with volta.no_grad():
        assert not (x * 2).requires_grad
        with volta.enable_grad():
            assert (x * 2).requires_grad
            with volta.no_grad():
                assert not volta.is_grad_enabled()
            assert volta.is_grad_enabled()
        assert not volta.is_grad_enabled()
    assert volta.is_grad_enabled() and (x * 2).requires_grad
    with volta.set_grad_enabled(False):
        assert not volta.is_grad_enabled()
    assert volta.is_grad_enabled()
    volta.set_grad_enabled(False)
    assert not volta.is_grad_enabled()
    volta.set_grad_enabled(True)


def test_modes_end_with_an_exception():
    with pytest.raises(ZeroDivisionError), volta.no_grad():
        raise ZeroDivisionError
    assert volta.is_grad_enabled()


def test_modes_decorate():
    @volta.no_grad()
    def quiet(x):
        return x * 2

    @volta.no_grad
    def bare(x):
        """Documented."""
        return x * 2

    @volta.enable_grad()
    def loud(x):
        return x * 2

    x = leaf(1.0)
    assert not quiet(x).requires_grad and not bare(x).requires_grad and bare.__doc__ == "Documented."
    with volta.no_grad():
        assert loud(x).requires_grad
    assert volta.is_grad_enabled()


def test_one_mode_object_may_be_entered_twice():
    mode = volta.no_grad()
    with mode:
        with mode:
            pass
        assert not volta.is_grad_enabled()
    assert volta.is_grad_enabled()


def test_mode_belongs_to_the_thread():
    seen = []
    with volta.no_grad():
        thread = threading.Thread(target=lambda: seen.append(volta.is_grad_enabled()))
        thread.start()
        thread.join()
    assert seen == [True]


def test_backward_in_several_threads():
    """Independent graphs over one leaf each, at the same time."""
    results = {}

    def work(i):
        x = leaf(float(i))
        for _ in range(200):
            x.grad = None
            (x * x * x).sum().backward()
        results[i] = x.grad.tolist()

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert results == {i: [3.0 * i * i] for i in range(4)}


# ---------------------------------------------------------------- hooks
def test_hook_on_a_leaf(device):
    x, seen = leaf(1.0, 2.0, device=device), []
    handle = x.register_hook(lambda g: seen.append(g.tolist()))
    double = x.register_hook(lambda g: g * 2)
    (x * 3).sum().backward()
    assert seen == [[3.0, 3.0]] and x.grad.tolist() == [6.0, 6.0]
    handle.remove()
    double.remove()
    double.remove()
    (x * 3).sum().backward()
    assert len(seen) == 1 and x.grad.tolist() == [9.0, 9.0]


def test_hook_on_a_result(device):
    """It sees the whole gradient, once, and what it returns flows on."""
    x, seen = leaf(2.0, device=device), []
    y = x * x
    y.register_hook(lambda g: seen.append(g.tolist()))
    handle = y.register_hook(lambda g: g * 10)
    (y + y * 2).sum().backward(retain_graph=True)
    assert seen == [[3.0]] and x.grad.tolist() == [120.0]
    handle.remove()
    x.grad = None
    (y * 1).sum().backward()
    assert x.grad.tolist() == [4.0]


def test_hook_needs_a_gradient():
    with pytest.raises(AutogradError, match="register_hook: the tensor does not require grad"):
        volta.ones(2).register_hook(print)


def test_retain_grad(device):
    x = leaf(2.0, device=device)
    y = x * 3
    y.retain_grad()
    z = y * y
    z.sum().backward()
    assert y.grad.tolist() == [12.0] and x.grad.tolist() == [36.0]
    with pytest.warns(UserWarning, match="The .grad attribute of a Tensor that is not a leaf Tensor is being accessed"):
        assert z.grad is None
    x.retain_grad()
    assert x.grad.tolist() == [36.0]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert leaf(1.0).grad is None and (leaf(1.0) * 1).detach().grad is None
        del x.grad
        assert x.grad is None
        z, y = (x * 3).sum(), x * 2
        volta.autograd.backward(z + y.sum(), inputs=[y, z])
        assert y.grad.tolist() == [1.0] and z.grad.item() == 1.0


# ---------------------------------------------------------------- grad and inputs=
def test_grad_leaves_grad_alone(device):
    x, y = leaf(2.0, device=device), leaf(5.0, device=device)
    z = x * y + x
    gx, gy = grad(z.sum(), [x, y])
    assert (gx.tolist(), gy.tolist()) == ([6.0], [2.0]) and x.grad is None and y.grad is None


def test_grad_of_an_inner_tensor():
    x = leaf(2.0)
    y = x * x
    (g,) = grad((y * y).sum(), y)
    assert g.tolist() == [8.0]


def test_grad_of_unused_inputs():
    x, unused = leaf(2.0), leaf(1.0, 2.0)
    with pytest.raises(AutogradError,
                       match=r"grad: the input of shape \(2,\) was not used to compute the outputs; pass allow_unused=True"):
        grad((x * x).sum(), [x, unused])
    assert grad((x * x).sum(), [x, unused], allow_unused=True)[1] is None
    with pytest.raises(AutogradError, match=r"grad: an input of shape \(2,\) does not require grad"):
        grad((x * x).sum(), [volta.ones(2)])


def test_grad_of_several_outputs():
    x = leaf(2.0, 3.0)
    (g,) = grad([x * x, x * 4.0], x, [volta.tensor([1.0, 2.0]), volta.tensor([10.0, 0.0])])
    assert g.tolist() == [4.0 + 40.0, 12.0]


def test_backward_into_chosen_inputs():
    x, y = leaf(2.0), leaf(3.0)
    inner = x * y
    (inner * inner).sum().backward(inputs=[x, inner])
    assert x.grad.tolist() == [2 * 6 * 3.0] and y.grad is None and inner.grad.tolist() == [12.0]


def test_a_gradient_is_needed_for_more_than_one_element():
    x = leaf(1.0, 2.0)
    with pytest.raises(AutogradError, match=r"backward: the output has shape \(2,\); .*reduce it .* or pass gradient="):
        (x * 2).backward()
    with pytest.raises(ShapeError, match=r"backward: gradient has shape \(3,\), the output has \(2,\)"):
        (x * 2).backward(volta.ones(3))
    with pytest.raises(ArgumentError, match="backward: gradient must be a tensor, got float"):
        (x * 2).sum().backward(1.0)
    with pytest.raises(AutogradError, match=r"backward: the tensor of shape \(\) does not require grad and has no graph"):
        volta.ones(2).sum().backward()
    assert x.grad is None


# ---------------------------------------------------------------- higher orders
def test_third_derivative(device):
    x = leaf(3.0, device=device)
    g = (x ** 4).sum()
    for expected in (4 * 27.0, 12 * 9.0, 24 * 3.0, 24.0):
        (g,) = grad(g.sum(), x, create_graph=True)
        assert g.tolist() == pytest.approx([expected], rel=1e-5)


def test_create_graph_through_backward(device):
    """A gradient penalty: the gradient itself is part of the loss."""
    x = leaf(2.0, device=device)
    (x ** 3).sum().backward(create_graph=True)
    penalty = (x.grad ** 2).sum()
    x.grad = None
    penalty.backward()
    assert x.grad.tolist() == pytest.approx([2 * 12.0 * 12.0])


def test_second_derivative_of_outputs_that_are_saved():
    """exp, tanh, sigmoid save their output; its own dependence on x must not be lost."""
    for name in ("exp", "tanh", "sigmoid", "sqrt", "reciprocal", "rsqrt"):
        x = volta.tensor([0.7, 1.3], dtype=volta.float64, requires_grad=True)
        assert gradgradcheck(getattr(volta, name), [x]), name


def test_composed_functions():
    x = volta.tensor(np.random.uniform(0.5, 1.5, (3, 4)), requires_grad=True)
    w = volta.tensor(np.random.uniform(-1, 1, (4, 3)), requires_grad=True)
    for function in (lambda a: volta.var(a, 1), lambda a: volta.std(a), lambda a: volta.logsumexp(a, 0),
                     lambda a: volta.norm(a, 2, 1),
                     lambda a: a[1:, ::2] * a[:2, 1::2], lambda a: volta.cat([a, a * 2], 1).t(), lambda a: a.clamp(0.6, 1.2),
                     lambda a: volta.stack([a, a * a]), lambda a: a.flip(1), lambda a: a[[0, 2, 0]],
                     lambda a: a.max(1).values, lambda a: a.repeat(2, 1), lambda a: volta.pad(a, (1, -1, 0, 2))):
        assert gradcheck(function, [x])
        assert gradgradcheck(function, [x])
    assert gradgradcheck(lambda a, b: volta.tanh(a @ b).sum(0), [x, w])


# ---------------------------------------------------------------- detach, leaves, dtypes
def test_detach(device):
    x = leaf(2.0, device=device)
    y = x * 3.0
    d = y.detach()
    assert d.storage is y.storage and not d.requires_grad and d.is_leaf and not y.is_leaf
    (y * d).sum().backward()
    assert x.grad.tolist() == [18.0]
    assert (x * 2.0).detach_().grad_fn is None


def test_only_floats_have_gradients():
    for dtype in (volta.int64, volta.bool):
        with pytest.raises(DTypeError, match=f"requires_grad_: only floating point tensors have gradients, this one is {dtype}"):
            volta.ones(2, dtype=dtype).requires_grad_()
    with pytest.raises(AutogradError, match=r"requires_grad_: only leaves can be switched off; use detach\(\)"):
        (leaf(1.0) * 2).requires_grad_(False)
    assert not (leaf(1.0) > 0).requires_grad and not leaf(1.0).argmax().requires_grad and not leaf(1.0).long().requires_grad


@pytest.mark.parametrize("given, text", [
    (lambda g: 1.0, "the gradient that a hook gives must be a tensor or None, got float"),
    (lambda g: (1, 2), "the gradient that a hook gives must be a tensor or None, got tuple"),
    (lambda g: volta.ones(5), r"a hook gave volta.float32 of shape \(5,\)"),
    (lambda g: g.double(), "a hook gave volta.float64")])
def test_hooks_that_give_no_fitting_gradient(given, text):
    x = leaf(1.0, 2.0, 3.0)
    for t in (x, x * 2):
        handle = t.register_hook(given)
        with pytest.raises(AutogradError, match=f"register_hook: {text}"):
            (t * 2).sum().backward()
        handle.remove()
    with pytest.raises(ArgumentError, match="register_hook: needs a function of the gradient, got int"):
        x.register_hook(5)


def test_a_grad_that_is_no_tensor():
    x = leaf(1.0)
    with pytest.raises(TypeError, match=r"grad: must be a tensor or None, got str"):
        x.grad = "foo"
    (x * 2).sum().backward()


def test_threads_add_to_one_leaf(device):
    x = volta.ones(70_000, device=device, requires_grad=True)

    def work():
        for _ in range(20):
            (x * 2).sum().backward()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert x.grad.min().item() == x.grad.max().item() == 160.0


def test_gradients_of_in_place_ops_have_the_dtype_of_their_operand():
    for change in (lambda x, y: x.add_(y), lambda x, y: x.copy_(y), lambda x, y: x.__setitem__(0, y[0])):
        x, y = volta.ones(2), leaf(1.0, 2.0, dtype=volta.float64)
        x = x * 1
        change(x, y)
        x.sum().backward()
        assert y.grad.dtype is volta.float64 and x.dtype is volta.float32


@pytest.mark.parametrize("create", [False, True])
def test_a_batch_of_incoming_gradients(device, create):
    torch = pytest.importorskip("torch", reason="compares with PyTorch")
    found = []
    for lib, place in ((torch, "cpu"), (volta, device)):
        x = lib.arange(1.0, 5.0, device=place).requires_grad_()
        w = lib.ones(3, 4, device=place).requires_grad_()
        spare = lib.ones(2, device=place).requires_grad_()
        y = (w @ (x * x)).exp() * 1e-9
        z = x.sum() * x
        seeds = lib.arange(6.0, device=place).reshape(2, 3), lib.arange(8.0, device=place).reshape(2, 4) - 3
        g = lib.autograd.grad((y, z), (x, w, spare), seeds, create_graph=create, allow_unused=True, is_grads_batched=True)
        assert g[2] is None and g[0].requires_grad is create
        h = lib.autograd.grad((g[0] ** 2).sum() + g[1].sum(), x)[0] if create else g[1]
        found.append([t.detach().cpu().numpy() for t in (g[0], g[1], h)])
    for ours, theirs in zip(*found[::-1]):
        np.testing.assert_allclose(ours, theirs, rtol=2e-5)


def test_a_batch_of_incoming_gradients_of_no_size():
    x = volta.ones(2, requires_grad=True)
    for seeds in (None, volta.tensor(1.0), (volta.ones(2, 2), volta.ones(3, 2))):
        outputs = (x * 2, x * 3) if isinstance(seeds, tuple) else (x * 2,)
        with pytest.raises(volta.errors.ArgumentError, match="first dimensions have one size"):
            volta.autograd.grad(outputs, x, seeds, is_grads_batched=True)
