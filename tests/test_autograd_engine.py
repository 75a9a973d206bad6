"""The backward pass itself: records with several differentiable outputs, many inputs, the order of delivery, memory, threads, failures."""
import gc
import threading
import weakref

import numpy as np
import pytest

import volta
from volta._kernels import core
from volta._kernels.core.record import Primitive
from volta.errors import AutogradError
from volta.testing import assert_close, gradcheck, gradgradcheck


def leaf(*values, device="cpu", dtype=volta.float32):
    return volta.tensor(values, device=device, dtype=dtype, requires_grad=True)


def slots(*owners):
    """What the engine has left in nodes and leaves."""
    return [r for owner in owners for r in gc.get_referents(owner) if type(r).__name__ == "_Slot"]


def graph_objects():
    """How many nodes, tensors and storages there are."""
    return sum(type(o).__name__ in ("Node", "Tensor", "Storage") for o in gc.get_objects())


def test_slots_are_seen_while_a_walk_goes_on():
    x, w = leaf(2.0), leaf(3.0)
    y, found = x * 2.0, []
    y.register_hook(lambda g: found.extend(slots(x, w)))
    (y * w).backward()
    assert len(found) == 2


# ---------------------------------------------------------------- several differentiable outputs
def _vjp(saves):
    """Of p = a * b, s = a + b: from saved inputs, or with a = p / b from the saved output, which is part of the graph again."""
    if saves == "inputs":
        return (lambda g_p, g_s, b: _sum(None if g_p is None else g_p * b, g_s),
                lambda g_p, g_s, a: _sum(None if g_p is None else g_p * a, g_s))
    return (lambda g_p, g_s, p, a: _sum(None if g_p is None else g_p * (p / a), g_s),
            lambda g_p, g_s, p, b: _sum(None if g_p is None else g_p * (p / b), g_s))


def _sum(x, y):
    return y if x is None else x if y is None else x + y


def product_and_sum(saves="inputs", vjp=None):
    op = Primitive("product_and_sum", ("a", "b"), outputs=("p", "s", "sign"), differentiable=("p", "s"), takes="f",
                   vjp=vjp or _vjp(saves))
    op.cpu = op.gpu = lambda a, b: (a.detach() * b.detach(), a.detach() + b.detach(), a.detach() > b.detach())
    op.cpu_own = op.gpu_own = core.STORED
    return op


def joint():
    def vjp(g_p, g_s, a, b, needs):
        assert len(needs) == 2
        return _sum(None if g_p is None else g_p * b, g_s), _sum(None if g_p is None else g_p * a, g_s)
    return product_and_sum(vjp=vjp)


OPS = pytest.mark.parametrize("op", [product_and_sum("inputs"), product_and_sum("output"), joint()], ids=["inputs", "output", "joint"])


@OPS
def test_both_outputs(op, device):
    a, b = leaf(2.0, 3.0, device=device), leaf(5.0, 7.0, device=device)
    p, s, sign = op(a, b)
    assert p.requires_grad and s.requires_grad and not sign.requires_grad and sign.grad_fn is None
    assert p.grad_fn is s.grad_fn
    (p * 2 + s * 3).sum().backward()
    assert a.grad.tolist() == [13.0, 17.0] and b.grad.tolist() == [7.0, 9.0]


@OPS
@pytest.mark.parametrize("used", [0, 1])
def test_one_output_unused(op, used, device):
    a, b = leaf(2.0, 3.0, device=device), leaf(5.0, 7.0, device=device)
    op(a, b)[used].sum().backward()         # a GPU's division may be off in the last bit
    assert a.grad.tolist() == pytest.approx([5.0, 7.0] if used == 0 else [1.0, 1.0], rel=1e-6)
    assert b.grad.tolist() == pytest.approx([2.0, 3.0] if used == 0 else [1.0, 1.0], rel=1e-6)


@OPS
def test_one_input_alone(op):
    a, b = leaf(2.0), volta.tensor([5.0])
    p, s, _ = op(a, b)
    (p + s).backward()
    assert a.grad.tolist() == [6.0] and b.grad is None


@OPS
def test_higher_orders_of_several_outputs(op):
    inputs = [leaf(2.0, 3.0, dtype=volta.float64), leaf(5.0, 7.0, dtype=volta.float64)]
    for function in (lambda a, b: op(a, b)[:2], lambda a, b: op(a, b)[0] * op(a, b)[1], lambda a, b: op(*op(a, b)[:2])[0]):
        assert gradcheck(function, inputs) and gradgradcheck(function, inputs)


def test_hooks_and_retained_gradients_by_output(device):
    a, b = leaf(2.0, device=device), leaf(5.0, device=device)
    p, s, _ = product_and_sum()(a, b)
    seen = []
    s.retain_grad()
    s.register_hook(lambda g: seen.append(("s", g.item())))
    p.register_hook(lambda g: seen.append(("p", g.item())) or g * 10)
    (p * 2 + s * 3).backward()
    assert sorted(seen) == [("p", 2.0), ("s", 3.0)] and s.grad.item() == 3.0
    assert a.grad.item() == 103.0 and b.grad.item() == 43.0
    seen.clear()
    p, s, _ = product_and_sum()(a, b)
    p.register_hook(lambda g: seen.append("p"))
    s.backward()
    assert seen == [], "no gradient came to p"


def test_gradients_for_one_of_several_outputs():
    a, b = leaf(2.0), leaf(5.0)
    p, s, _ = product_and_sum()(a, b)
    root = p * s
    assert [g.item() for g in volta.autograd.grad(root, [s, p], retain_graph=True)] == [10.0, 7.0]
    assert [g.item() for g in volta.autograd.grad(root, [s, a])] == [10.0, 45.0]


def test_in_place_change_of_one_output(device):
    a, b = leaf(2.0, device=device), leaf(5.0, device=device)
    p, s, _ = product_and_sum()(a, b)
    s.mul_(3.0)
    (p + s).backward()
    assert a.grad.item() == 8.0 and b.grad.item() == 5.0
    p, s, _ = product_and_sum("output")(a, b)
    p.add_(1.0)
    with pytest.raises(AutogradError, match="product_and_sum.*changed in place"):
        (p + s).backward()
    p, s, _ = product_and_sum("output")(a, b)
    s.add_(1.0)
    (p + s).backward()


def test_a_saved_output_does_not_keep_the_graph():
    a = leaf(2.0)
    p, s, _ = product_and_sum("output")(a, leaf(5.0))
    node = p.grad_fn
    del p
    s.backward()
    assert node.saved_tensors is None and a.grad.item() == 1.0


# ---------------------------------------------------------------- many inputs
def test_a_hundred_leaves_of_one_op(device):
    leaves = [leaf(float(i), -float(i), device=device) for i in range(100)]
    weights = volta.arange(200.0, device=device)
    (volta.cat(leaves) * weights).sum().backward()
    assert [x.grad.tolist() for x in leaves] == [[2.0 * i, 2.0 * i + 1] for i in range(100)]
    for x in leaves:
        x.grad = None
    some = [x if i % 7 == 3 else x.detach() for i, x in enumerate(leaves)]
    (volta.cat(some) * weights).sum().backward()
    assert [i for i, x in enumerate(leaves) if x.grad is not None] == list(range(3, 100, 7))
    assert leaves[94].grad.tolist() == [188.0, 189.0]


def test_one_leaf_a_hundred_times(device):
    x = leaf(1.0, device=device)
    (volta.cat([x] * 100) * volta.arange(100.0, device=device)).sum().backward()
    assert x.grad.tolist() == [4950.0]


# ---------------------------------------------------------------- order of delivery
def test_a_leaf_gets_its_gradient_while_the_walk_goes_on(device):
    """As soon as its last consumer was taken: the leaves of the last layer before those of the first."""
    order = []
    layers = [leaf(1.0 + i, device=device) for i in range(5)]
    shared = leaf(0.5, device=device)
    x = volta.ones(1, device=device)
    for i, w in enumerate(layers):
        w.register_hook(lambda g, i=i: order.append(f"leaf {i}"))
        x = x * w
        if i in (1, 3):
            x = x * shared
        x.register_hook(lambda g, i=i: order.append(f"result {i}"))
    shared.register_hook(lambda g: order.append("shared"))
    x.backward()
    assert order == ["result 4", "leaf 4", "result 3", "leaf 3", "result 2", "leaf 2", "result 1", "shared", "leaf 1", "result 0", "leaf 0"]


def test_delivered_leaves_have_their_grad_within_a_later_hook():
    last, first = leaf(2.0), leaf(3.0)
    middle = first * 1.0
    found = []
    middle.register_hook(lambda g: found.append(last.grad.item()))
    (middle * last).backward()
    assert found == [3.0] and first.grad.item() == 2.0


def test_a_consumer_without_gradient_does_not_hold_a_leaf_back_for_ever():
    x = leaf(1.0, 2.0)
    p, s, _ = product_and_sum(vjp=(lambda g_p, g_s: g_s, lambda g_p, g_s: None))(x * 1.0, x)
    (p.sum() + s.sum() + x.sum()).backward()
    assert x.grad.tolist() == [2.0, 2.0]


# ---------------------------------------------------------------- memory
@pytest.mark.parametrize("again", [False, True], ids=["first", "again"])
def test_accumulation_holds_one_set_of_gradients(again):
    """Of 20 leaves of 1 MiB with one gradient each: at no time a second set."""
    size, count = 1 << 18, 20
    leaves = [volta.ones(size, requires_grad=True) for _ in range(count)]

    def loss():
        x = volta.ones(size)
        for w in leaves:
            x = x * w
        return x.sum()

    if again:
        loss().backward()
    root = loss()
    live = [core.host_memory_stats()["live"]]
    for w in leaves:
        w.register_hook(lambda g: live.append(core.host_memory_stats()["live"]))
    root.backward()
    grown = (max(live) - live[0]) / (4 * size)
    assert grown <= (4 if again else count + 4), f"{grown} gradients more than before backward"
    assert leaves[0].grad[0].item() == (2.0 if again else 1.0)


# ---------------------------------------------------------------- threads
def test_threads_walk_graphs_over_shared_leaves(device):
    """Each thread its own graph over the same leaves, many times at once: nothing is lost and nothing is counted twice."""
    leaves = [leaf(1.0, 2.0, device=device) for _ in range(5)]
    rounds, workers, failures = 15, 4, []
    start = threading.Barrier(workers)

    def work(k):
        try:
            start.wait()
            for _ in range(rounds):
                x = volta.ones(2, device=device) * float(k + 1)
                for w in leaves:
                    x = x + w * float(k + 1)
                x.sum().backward()
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(workers)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert failures == [] and [w.grad.tolist() for w in leaves] == [[rounds * 10.0] * 2] * 5


def test_threads_walk_one_graph():
    """grad() of one kept graph in several threads at once."""
    x = leaf(1.0, 2.0)
    y = x
    for _ in range(50):
        y = y * 1.01 + x * 0.0
    root = y.sum()
    (expected,) = volta.autograd.grad(root, x, retain_graph=True)
    results = []

    def work():
        results.extend(volta.autograd.grad(root, x, retain_graph=True)[0] for _ in range(10))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(results) == 40
    for r in results:
        assert_close(r, expected)


def test_backward_within_a_hook():
    """Another walk over the same leaves, while the first is under way."""
    x, w = leaf(2.0), leaf(3.0)
    inner = (x * w * w).sum()
    y = x * 5.0
    y.register_hook(lambda g: inner.backward(retain_graph=True))
    (y * w).backward()
    assert x.grad.item() == 9.0 + 15.0 and w.grad.item() == 12.0 + 10.0
    assert not slots(x, w, y.grad_fn)


# ---------------------------------------------------------------- again, and failures
def test_a_kept_graph_gives_the_same_twice(device):
    x = leaf(1.0, 2.0, device=device)
    loss = (x.exp() * x).sum()
    loss.backward(retain_graph=True)
    once = x.grad.tolist()
    loss.backward(retain_graph=True)
    loss.backward()
    assert x.grad.tolist() == pytest.approx([3 * v for v in once])
    with pytest.raises(AutogradError, match="already been freed"):
        loss.backward()


def test_a_failing_hook_leaves_undelivered_gradients_as_they_were(device):
    """What was delivered before stays; the graph can be walked again where it was kept."""
    first, last = leaf(2.0, device=device), leaf(3.0, device=device)
    first.grad = volta.full((1,), 7.0, device=device)
    middle = first * 4.0
    handle = middle.register_hook(_fail)
    root = middle * last
    for k in (1, 2):
        with pytest.raises(RuntimeError, match="planted"):
            root.backward(retain_graph=True)
        assert first.grad.item() == 7.0 and last.grad.item() == 8.0 * k
    assert not slots(first, last, root.grad_fn, middle.grad_fn)
    handle.remove()
    last.grad = None
    root.backward()
    assert first.grad.item() == 19.0 and last.grad.item() == 8.0
    assert volta.is_grad_enabled()


def _fail(g):
    raise RuntimeError("planted")


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
def test_a_failing_hook_of_a_leaf(error):
    a, b = leaf(2.0), leaf(3.0)

    def fail(g):
        raise error("planted")

    handle = a.register_hook(fail)
    with pytest.raises(error):
        (a * 2 + b).sum().backward()
    assert a.grad is None and volta.is_grad_enabled()
    handle.remove()
    (a * 2 + b).sum().backward()
    assert a.grad.item() == 2.0


def test_a_failing_derivative(device):
    op = product_and_sum(vjp=(lambda g_p, g_s: _fail(g_p), lambda g_p, g_s, a: g_p * a))
    a, b = leaf(2.0, device=device), leaf(3.0, device=device)
    with pytest.raises(RuntimeError, match="planted"):
        op(a, b)[0].backward()
    assert a.grad is None and b.grad is None
    (a * b).backward()
    assert a.grad.item() == 3.0 and not slots(a, b)


# ---------------------------------------------------------------- leaks
@pytest.mark.parametrize("fails", [False, True], ids=["ends", "fails"])
def test_nothing_keeps_nodes_alive(fails, device):
    """Slots are cleared and hold no cycle: with the collector off, everything dies with its last reference."""
    gc.collect()
    gc.disable()
    try:
        x = leaf(1.0, 2.0, device=device)
        before = graph_objects()
        for _ in range(20):
            p, s, _ = product_and_sum()(x, x.exp())
            y = volta.cat([p, s, x])
            if fails:
                p.register_hook(_fail)
            watch, failed = weakref.ref(y), False
            try:
                y.sum().backward()
            except RuntimeError:
                failed = True
            assert failed == fails and not slots(x)
            del y, p, s, _
            assert watch() is None
            x.grad = None
        assert graph_objects() == before
        assert gc.collect() == 0
    finally:
        gc.enable()


def test_a_walk_over_part_of_the_graph_clears_its_slots():
    x, w = leaf(2.0), leaf(3.0)
    y = x * w
    volta.autograd.grad(y * y, w, retain_graph=True)
    assert not slots(x, w, y.grad_fn)
    assert np.isclose(volta.autograd.grad(y, x)[0].item(), 3.0)


def test_a_derivative_adds_to_what_has_arrived_unless_someone_keeps_it(device):
    kept = []

    class Keep(volta.autograd.Function):
        @staticmethod
        def forward(ctx, w):
            return w * 1

        @staticmethod
        def backward(ctx, g):
            kept.append(g * 2)
            return kept[0] if keeps else kept.pop()

    for keeps in (False, True):             # noqa: B007 (Keep reads it)
        w, at = leaf([1.0, 2.0], [3.0, 4.0], [5.0, 6.0], device=device), volta.tensor([2, 0, 2], device=device)
        rows = volta.index_select(w, 0, at)
        rows = rows + volta.nn.functional.rms_norm(rows, (2,))
        (rows.sum() + Keep.apply(w).sum()).backward()
        again = volta.autograd.grad((volta.index_select(w, 0, at)).sum(), w)[0]
        norm = volta.autograd.grad(volta.nn.functional.rms_norm(volta.index_select(w, 0, at), (2,)).sum(), w)[0]
        assert_close(w.grad, again + norm + 2)
    assert_close(kept[0], np.full((3, 2), 2.0))


TIED = [
    (lambda x: volta.nn.functional.nll_loss(x, volta.tensor([0, 1], device=x.device)), (2, 3)),
    (lambda x: volta.nn.functional.adaptive_max_pool2d(x, 1), (1, 2, 3, 3)),
    (lambda x: volta.nn.functional.fractional_max_pool2d(x, 2, output_size=2), (1, 2, 4, 4)),
    (lambda x: volta.nn.functional.grid_sample(x, volta.zeros(1, 2, 2, 2, device=x.device), "nearest", align_corners=False), (1, 2, 3, 3))]


@pytest.mark.parametrize("function, shape", TIED)
def test_constant_derivatives_are_functions_of_the_input(function, shape, device):
    """Their second derivative is 0, not missing, as in PyTorch."""
    x = volta.rand(*shape, device=device, requires_grad=True)
    g, = volta.autograd.grad(function(x).sum(), x, create_graph=True)
    second, = volta.autograd.grad(g.sum(), x)
    assert (second == 0).all().item()


def test_slices_that_renorm_leaves_have_their_own_gradient(device):
    x = volta.tensor([[1.0, float("nan")], [3.0, 4.0], [0.1, 0.1]], device=device).requires_grad_()
    volta.renorm(x, 2, 0, 1.0).sum().backward()
    assert x.grad[0].tolist() == [1, 1] and x.grad[2].tolist() == [1, 1] and x.grad[1, 0].item() == pytest.approx(0.032, abs=1e-4)


@pytest.mark.parametrize("power, order", [(2, 3), (3, 4), (4, 5)])
def test_derivatives_of_powers_end_in_zeros(device, power, order):
    """As in PyTorch, where the derivative of a constant is 0 and no error: programs differentiate polynomials without counting."""
    x = volta.tensor([0.5, 1.5], device=device, requires_grad=True)
    for y in ((x ** power).sum(), *([x.square().sum()] if power == 2 else [])):
        for _ in range(order):
            (g,) = volta.autograd.grad(y, x, create_graph=True)
            y = g.sum()
        assert g.tolist() == [0, 0]
