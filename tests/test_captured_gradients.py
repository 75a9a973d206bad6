"""Which gradients are captured, kept and added up where, beside hooks and graphs of gradients, as in PyTorch 2.13."""
import pytest

import volta
from volta.errors import AutogradError


def start():
    x = volta.tensor([1.0, 2.0], requires_grad=True)
    return x, x * 3


def test_a_gradient_that_is_asked_for_is_what_arrived_where_its_node_runs():
    """Alone it is what its hooks made of it."""
    for more, captured in (((), [20.0, 20.0]), ((0,), [2.0, 2.0])):
        x, y = start()
        y.register_hook(lambda g: g * 10)
        found = volta.autograd.grad((y * 2).sum(), (y, *(x for _ in more)))
        assert found[0].tolist() == captured and [g.tolist() for g in found[1:]] == [[60.0, 60.0]] * len(more)
    x, y = start()
    out = y.sum()
    out.register_hook(lambda g: g * 2)
    assert [g.tolist() for g in volta.autograd.grad(out, (out, x))] == [1.0, [6.0, 6.0]]


def test_inputs_of_backward_keep_their_gradient_once():
    x, y = start()
    y.register_hook(lambda g: g * 7)
    y.retain_grad()
    y.retain_grad()
    (y * 2).sum().backward(inputs=[x, y])
    assert x.grad.tolist() == [42.0, 42.0] and y.grad.tolist() == [14.0, 14.0]
    x, y = start()
    (y * 2).sum().backward(inputs=[y], retain_graph=True)
    assert y.retains_grad and x.grad is None and y.grad.tolist() == [2.0, 2.0]


def test_a_gradient_with_a_graph_is_added_to_where_it_lies():
    x, _ = start()
    (x ** 3).sum().backward(create_graph=True)
    first = x.grad
    (x ** 3).sum().backward()
    assert x.grad is first and first.grad_fn is not None and first.tolist() == [6.0, 24.0]
    (x ** 3).sum().backward(create_graph=True)
    assert x.grad is not first and volta.autograd.grad(x.grad.sum(), x)[0].tolist() == [12.0, 24.0]


def test_a_gradient_is_no_alias_of_what_the_caller_gave():
    x, given = volta.ones(2, requires_grad=True), volta.ones(2)
    x.add(0).backward(given, create_graph=True)
    x.sum().backward()
    assert x.grad.tolist() == [2.0, 2.0] and given.tolist() == [1.0, 1.0]


def test_gradients_of_gradients_do_not_see_what_is_added_later():
    """The first gradient is saved by `exp`'s derivative, and is not what is changed."""
    x = volta.zeros(2, requires_grad=True)
    x.exp().sum().backward(create_graph=True)
    second = x.grad.sum()
    (x * 5).sum().backward()
    assert x.grad.tolist() == [6.0, 6.0] and volta.autograd.grad(second, x)[0].tolist() == [1.0, 1.0]


def test_a_view_made_before_its_base_became_a_leaf():
    for change in (lambda v: v.add_(1), lambda v: v.copy_(volta.ones(2)), lambda v: v.__setitem__(0, 3.0), lambda v: v[:1].zero_()):
        x = volta.zeros(3)
        v = x[:2]
        x.requires_grad_()
        with pytest.raises(AutogradError, match="a view of a leaf tensor that requires grad .* cannot be changed in place"):
            change(v)
        with volta.no_grad():
            change(v)
    x = volta.zeros(3)
    v = x[:2]
    x.requires_grad_()
    assert v.requires_grad and v.is_leaf
    (v * 2).sum().backward()
    assert v.grad.tolist() == [2.0, 2.0] and x.grad is None             # a leaf of its own
    with pytest.raises(AutogradError, match="add: .*out"):
        volta.add(volta.ones(2), 1, out=v)


def test_vjp_is_another_name_of_backward():
    class Double(volta.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def vjp(ctx, g):
            return g * 2

    x, _ = start()
    Double.apply(x).sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]


def test_a_gradient_where_forward_was_given_no_tensor():
    class Times(volta.autograd.Function):
        @staticmethod
        def forward(ctx, x, n, mask):
            return x * n

        @staticmethod
        def backward(ctx, g):
            return g * 2, *rest

    x, mask = volta.ones(2, requires_grad=True), volta.ones(2)
    rest = (None, volta.ones(2))                # of a tensor that wants none it is dropped
    Times.apply(x, 2, mask).sum().backward()
    assert x.grad.tolist() == [2.0, 2.0] and mask.grad is None
    rest = (volta.ones(2), None)
    with pytest.raises(AutogradError, match="Times: backward gave a gradient at 1, where forward was given no tensor; return None there"):
        Times.apply(x, 2, mask).sum().backward()


@pytest.mark.parametrize("change", [lambda y: y.mul_(3), lambda y: y.fill_(1.0), lambda y: y[:1].mul_(3), lambda y: y.zero_().add_(1)])
def test_changes_in_place_of_what_keeps_its_gradient(change):
    _, y = start()
    y.retain_grad()
    change(y)
    (y * 2).sum().backward()
    assert y.retains_grad and y.grad.tolist() == [2.0, 2.0]


def test_what_changes_in_place_keeps_the_gradient_of_what_it_is_then():
    x, y = start()
    y.retain_grad()
    y.mul_(3)
    assert y.retains_grad
    (y * 2).sum().backward()
    assert y.grad.tolist() == [2.0, 2.0] and x.grad.tolist() == [18.0, 18.0]
    a, b = volta.ones(4, requires_grad=True).mul(1).split(2)[0] * 1, volta.ones(2, requires_grad=True) * 1
    a.retain_grad()
    b.retain_grad()
    a.mul_(b)                                   # the other one's stays where it is
    a.sum().backward()
    assert a.grad.tolist() == b.grad.tolist() == [1.0, 1.0]


@pytest.mark.parametrize("change", ["t_", "squeeze_", "unsqueeze_"])
def test_what_shows_its_data_in_another_way_keeps_the_gradient_of_that(change):
    x = volta.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    y = x * 2
    y.retain_grad()
    getattr(y, change)(*(0,) * (change == "unsqueeze_"))
    weights = volta.arange(4.0).reshape(y.shape)
    (y * weights).sum().backward()
    assert y.retains_grad and y.grad.tolist() == weights.tolist()


@pytest.mark.parametrize("given", [3, False, volta.ones(2), "a"])
def test_hooks_after_a_gradient_give_none(given):
    x, y = start()
    x.register_post_accumulate_grad_hook(lambda leaf: given)
    with pytest.raises((TypeError, RuntimeError), match="post_accumulate_grad_hook: a hook gave something, where it is to give None"):
        y.sum().backward()


def test_hooks_after_a_gradient_may_give_the_leaf():
    x, y = start()
    x.register_post_accumulate_grad_hook(lambda leaf: leaf.add_(leaf.grad, alpha=-2))
    before = x.detach().clone()
    y.sum().backward()
    assert volta.equal(x.detach(), before - 2 * x.grad)


def test_hooks_of_what_adds_to_a_leaf():
    """What they give does not matter, and `grad`, which adds nothing, leaves nothing of its gradients behind."""
    x, y = start()
    seen = []
    adding = y.grad_fn.next_functions[0][0]
    adding.register_hook(lambda nothing, gradients: seen.append(gradients[0].tolist()) or 0)
    volta.autograd.grad(y.sum(), x, retain_graph=True)
    (y * 2).sum().backward()
    assert seen == [[6.0, 6.0]]


def test_what_comes_before_adding_to_a_leaf():
    """It is a part of adding: after the hooks of the leaf, and not where a gradient is only asked for."""
    x, y = start()
    seen = []
    y.grad_fn.next_functions[0][0].register_prehook(lambda gradients: seen.append("before") or (gradients[0] * 2,))
    x.register_hook(lambda g: seen.append(g.tolist()))
    assert volta.autograd.grad(y.sum(), x, retain_graph=True)[0].tolist() == [3.0, 3.0] and seen == [[3.0, 3.0]]
    y.sum().backward()
    assert x.grad.tolist() == [6.0, 6.0] and seen == [[3.0, 3.0], [3.0, 3.0], "before"]


def test_a_view_that_changes_keeps_the_gradient_of_what_it_shows_then():
    for change in (lambda base, view: view.mul_(3), lambda base, view: base.mul_(3), lambda base, view: view[0].mul_(3)):
        x = volta.tensor([1.0, 2.0, 3.0], requires_grad=True)
        base = x * 2
        view = base[:2]
        view.retain_grad()
        change(base, view)
        (view * 5).sum().backward()
        assert view.retains_grad and view.grad.tolist() == [5.0, 5.0] and x.grad[0].item() == 30


def test_whether_a_result_wants_a_gradient_is_not_set():
    x, y = start()
    with pytest.raises(RuntimeError, match="requires_grad: it can be set on leaves alone"):
        y.requires_grad = True
    assert y.requires_grad_() is y
