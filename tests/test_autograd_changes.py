"""In-place changes of recorded tensors: what is differentiated, what is refused."""
import warnings

import numpy as np
import pytest

import volta
import volta.testing
from volta.errors import AutogradError


def leaf(*values, device="cpu", dtype=volta.float32):
    return volta.tensor(list(values), dtype=dtype, device=device, requires_grad=True)


def test_change_of_a_saved_value_is_noticed(device):
    x = leaf(1.0, 2.0, device=device)
    w = volta.tensor([3.0, 4.0], device=device)
    y = (x * w).sum()
    w.add_(1.0)
    with pytest.raises(AutogradError, match=r"mul: a tensor of shape \(2,\) that is needed for its gradient was changed in place "
                                            r"\(version 1, saved at version 0\); use an out-of-place op, or clone\(\)"):
        y.backward()
    assert x.grad is None


def test_change_of_a_saved_output_is_noticed():
    x = leaf(1.0)
    y = x.exp()
    z = y.sum()
    with volta.no_grad():
        y.mul_(2.0)
    with pytest.raises(AutogradError, match="exp: a tensor"):
        z.backward()


def test_change_of_an_unsaved_value_is_fine():
    x = leaf(1.0, 2.0)
    w = volta.tensor([3.0, 4.0])
    y = (x + w).sum()
    w.add_(1.0)
    y.backward()
    assert x.grad.tolist() == [1.0, 1.0]


@pytest.mark.parametrize("dtype", [volta.float16, volta.float32])
def test_change_of_logits_after_cross_entropy_is_fine(device, dtype):
    """Its derivatives, of the second order too, are those of the logits as they were."""
    def slopes(change):
        x = leaf([0.5, -1.0, 2.0], [30.0, -30.0, 0.0], [1.0, 2.0, 3.0], device=device, dtype=dtype)
        logits = x * 2.0
        loss = volta.nn.functional.cross_entropy(logits, volta.tensor([2, 1, -100], device=device), reduction="sum")
        if change:
            logits.add_(1.0).mul_(volta.tensor([1.0, 2.0, 3.0], dtype=dtype, device=device))
        first, = volta.autograd.grad(loss, x, create_graph=True)
        second, = volta.autograd.grad((first * x.detach()).sum(), x)
        return x.detach().float().cpu().numpy(), first, second

    x, first, second = slopes(True)
    softmax = np.exp(2 * x) / np.exp(2 * x).sum(1, keepdims=True)
    expected = 2 * (softmax - np.eye(3)[[2, 1, 0]]) * [[1], [1], [0]]
    np.testing.assert_allclose(first.detach().float().cpu().numpy(), expected, rtol=2e-3 if dtype is volta.float16 else 1e-5, atol=1e-6)
    for changed, plain in zip((first, second), slopes(False)[1:]):
        np.testing.assert_array_equal(changed.detach().cpu().numpy(), plain.detach().cpu().numpy())


def test_leaf_cannot_be_changed_in_place(device):
    x = leaf(1.0, 2.0, device=device)
    with pytest.raises(AutogradError, match=r"add_: a leaf tensor that requires grad \(shape \(2,\)\) cannot be changed in place; "
                                            r"do it under no_grad\(\)"):
        x.add_(1.0)
    with pytest.raises(AutogradError, match="setitem_?: a leaf tensor"):
        x[0] = 5.0
    assert x.tolist() == [1.0, 2.0]
    with volta.no_grad():
        x.add_(1.0)
    assert x.tolist() == [2.0, 3.0]


@pytest.mark.parametrize("change, scale", [
    (lambda y: y.add_(5.0), 6.0), (lambda y: y.mul_(3.0), 18.0), (lambda y: y.sub_(y.detach().clone()), 6.0),
    (lambda y: y.neg_(), -6.0),
    (lambda y: y.div_(2.0), 3.0)])
def test_gradient_of_an_in_place_op(change, scale, device):
    """d/dx of change(3x) * 2."""
    x = leaf(1.0, 2.0, device=device)
    y = x * 3.0
    assert change(y) is y
    (y * 2.0).sum().backward()
    assert x.grad.tolist() == [scale, scale]


@pytest.mark.parametrize("change", [lambda y, w: y.mul_(w), lambda y, w: y.div_(w), lambda y, w: y.pow_(w), lambda y, w: y[1:].mul_(w[1:]),
                                    lambda y, w: y.mul_(y)])
def test_in_place_op_that_needs_the_old_value(change):
    """What the op saved of the tensor is kept as it was."""
    def f(x, w):
        y = x * 2.0
        change(y, w)
        return y * y

    x, w = (volta.tensor(v, dtype=volta.float64, requires_grad=True) for v in ([0.7, 1.2, 0.4], [1.5, 0.6, 2.0]))
    volta.testing.gradcheck(f, (x, w))
    volta.testing.gradgradcheck(f, (x, w))


def test_gradient_of_setitem(device):
    x, v = leaf(1.0, 2.0, 3.0, device=device), leaf(10.0, device=device)
    y = x * 2.0
    y[1] = v[0] * 5.0
    y[2:] = 7.0
    assert y.tolist() == [2.0, 50.0, 7.0]
    (y * volta.tensor([1.0, 10.0, 100.0], device=device)).sum().backward()
    assert x.grad.tolist() == [2.0, 0.0, 0.0] and v.grad.tolist() == [50.0]


def test_gradient_of_setitem_by_index_and_mask(device):
    x, v = volta.ones(3, 4, device=device, requires_grad=True), volta.full((2, 4), 5.0, device=device, requires_grad=True)
    y = x * 1.0
    y[volta.tensor([2, 0], device=device)] = v
    y.sum().backward()
    assert x.grad.tolist() == [[0.0] * 4, [1.0] * 4, [0.0] * 4] and v.grad.tolist() == [[1.0] * 4] * 2
    z = x * 2.0
    z[volta.tensor([True, False, True], device=device)] = 0.0
    x.grad = None
    z.sum().backward()
    assert x.grad.tolist() == [[0.0] * 4, [2.0] * 4, [0.0] * 4]


def test_gradient_of_a_broadcast_setitem():
    x, v = volta.ones(3, 4, requires_grad=True), leaf(2.0)
    y = x * 1.0
    y[:2] = v
    y.sum().backward()
    assert v.grad.tolist() == [8.0] and x.grad.tolist() == [[0.0] * 4] * 2 + [[1.0] * 4]


def test_gradient_of_copy(device):
    x, v = leaf(1.0, 2.0, device=device), leaf(5.0, device=device)
    y = x * 2.0
    y.copy_(v * 3.0)
    y.sum().backward()
    assert v.grad.tolist() == [6.0] and (x.grad is None or x.grad.tolist() == [0.0, 0.0])


# ---------------------------------------------------------------- views
def _base_after_view(y):
    y[1:].mul_(3.0)
    return y


def _view_after_base(y):
    view = y[1:]
    y.mul_(3.0)
    return view


def _view_after_view(y):
    first, second = y[1:], y[::2]
    first.mul_(3.0)
    return second


def _nested(y):
    grid = y.view(2, 2)
    grid.t()[0].add_(grid[1])
    return grid.reshape(4)


def _iadd(y):
    y[0] += y[1]
    y[2:] -= y[:2]
    return y


def _whole_row(y):
    out = volta.zeros(3, 4, dtype=y.dtype, device=y.device)
    row = out[1]
    out[0] = y
    row.copy_(y * 2.0)
    out[2].fill_(7.0)
    return out


def _activation(y):
    y.view(2, 2)[:, 1].relu_()
    return y


def _of_a_view_only(y):
    view = y[1:3]
    view.exp_()
    return view * view


def _filled(y):
    y.view(2, 2)[0].zero_()
    y[3:].fill_(5.0)
    return y * y


def _transposed_base(y):
    base = volta.ones(2, 2, dtype=y.dtype, device=y.device).t().detach()
    base[1:] = y[:2]
    base.t()[0].add_(y[3])
    return base


def _by_index(y):
    y[1:][volta.tensor([0, 2], device=y.device)] = y[:2] * 2.0
    y.view(2, 2)[1].masked_fill_(volta.tensor([True, False], device=y.device), 4.0)
    return y


PROGRAMS = [_base_after_view, _view_after_base, _view_after_view, _nested, _iadd, _whole_row, _activation, _of_a_view_only, _filled,
            _transposed_base, _by_index]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__.strip("_"))
def test_gradients_through_changed_views(program):
    """First and second order against finite differences."""
    x = volta.tensor([0.7, -1.2, 0.4, 1.1], dtype=volta.float64, requires_grad=True)
    volta.testing.gradcheck(lambda x: program(x * 1.5), (x,))
    volta.testing.gradgradcheck(lambda x: program(x * x), (x,))


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__.strip("_"))
def test_changed_views_on_the_gpu(program, gpu):
    grads = []
    for device in ("cpu", gpu):
        x = leaf(0.7, -1.2, 0.4, 1.1, device=device)
        out = program(x * 1.5)
        (out * out).sum().backward()
        grads.append((out.detach().cpu().numpy(), x.grad.cpu().numpy()))
    np.testing.assert_allclose(grads[1][0], grads[0][0], rtol=1e-6)
    np.testing.assert_allclose(grads[1][1], grads[0][1], rtol=1e-5)


def test_views_learn_of_a_change():
    """A view of a tensor without history has one as soon as its base has."""
    out, w = volta.zeros(4), leaf(3.0)
    view, other = out[:2], out[2:]
    view[0] = w[0]
    assert out.requires_grad and view.requires_grad and other.requires_grad
    assert out.grad_fn is not None and view.grad_fn is not None and not other.is_leaf
    (view * 5.0).sum().backward()
    assert w.grad.tolist() == [5.0]


def test_unrecorded_change_keeps_the_history():
    x = leaf(1.0, 2.0)
    y = x * 2.0
    view = y[:1]
    with volta.no_grad():
        y.add_(1.0)
    assert view.tolist() == [3.0]
    ((view * 3.0).sum() + y.sum()).backward()
    assert x.grad.tolist() == [8.0, 2.0]


def test_saved_value_changed_through_a_view_is_noticed(device):
    x = leaf(1.0, 2.0, device=device)
    y = x * 2.0
    z = y.exp() * y
    y[:1].mul_(2.0)
    with pytest.raises(AutogradError, match=r"mul: a tensor of shape \(2,\) that is needed for its gradient was changed in place"):
        z.sum().backward()


def test_view_of_a_leaf_cannot_be_changed_in_place(device):
    x = leaf(1.0, 2.0, device=device)
    with pytest.raises(AutogradError, match=r"mul_: a view of a leaf tensor that requires grad \(shape \(2,\)\) cannot be changed in "
                                            r"place; do it under no_grad\(\)"):
        x[1:].mul_(2.0)
    assert x.tolist() == [1.0, 2.0]
    with volta.no_grad():
        x[1:].mul_(2.0)
    assert x.tolist() == [1.0, 4.0]


def test_view_made_without_recording_cannot_be_changed_with_it():
    x = leaf(1.0, 2.0)
    y = x * 2.0
    with volta.no_grad():
        view = y[:1]
    with pytest.raises(AutogradError, match=r"mul_: the tensor of shape \(1,\) is a view made under no_grad\(\)"):
        view[:].mul_(x[:1])
    assert y.tolist() == [2.0, 4.0]


def test_overwritten_infinity_does_not_reach_the_gradient():
    x = leaf(0.0, 1.0)
    y = 1.0 / x
    y[0] = 0.0
    y.sum().backward()
    assert x.grad[1].item() == -1.0 and not volta.isinf(x.grad[1]).item()


def test_expanded_tensor_cannot_be_written():
    x = leaf(1.0)
    wide = (x * 2.0).expand(3)
    with pytest.raises(AutogradError, match="add_: "):
        wide.add_(1.0)


REPEATED = {
    "one": lambda x: x.__setitem__(slice(None), x[1, 2]), "all": lambda x: x.__setitem__(..., x[1, 2]),
    "row": lambda x: x.__setitem__(slice(None), x[1]), "rows": lambda x: x.__setitem__(slice(0, 2), x[1:2]),
    "within a row": lambda x: x[1].__setitem__(slice(None), x[1, 2]), "column": lambda x: x.__setitem__(slice(None), x[:, 1:2].clone()),
    "index_fill_": lambda x: x.index_fill_(0, x.new_tensor([1, 2]).long(), x[1, 2])}


@pytest.mark.parametrize("name", REPEATED)
def test_part_of_a_tensor_repeated_into_it(name, device):
    torch = pytest.importorskip("torch", reason="compares with PyTorch")
    values = np.arange(300, dtype=np.float32).reshape(3, 100)
    theirs, ours = torch.tensor(values), volta.tensor(values, device=device)
    REPEATED[name](theirs), REPEATED[name](ours)
    assert ours.tolist() == theirs.tolist()
    leaf = volta.tensor(values, device=device, requires_grad=True)
    x = leaf * 1
    REPEATED[name](x)
    (x * x).sum().backward()
    wanted = torch.tensor(values, requires_grad=True)
    y = wanted * 1
    REPEATED[name](y)
    (y * y).sum().backward()
    np.testing.assert_allclose(leaf.grad.cpu().numpy(), wanted.grad.numpy())


@pytest.mark.parametrize("write", [lambda x: x.__setitem__(slice(None), x[0]), lambda x: x.__setitem__(..., x.view(4)),
                                   lambda x: x.__setitem__((slice(None), 0), x[0, 0]), lambda x: x.__setitem__(0, x)])
def test_the_whole_of_a_batch_of_one_into_itself(write, device):
    x = volta.arange(4.0, device=device).view(1, 4)
    write(x)
    assert x.tolist() == [[0, 1, 2, 3]]


def test_a_part_of_the_same_size_is_refused(device):
    x = volta.arange(6.0, device=device)
    with pytest.raises(volta.errors.ArgumentError, match="single memory location"):
        x[1:] = x[:-1]
    with pytest.raises(volta.errors.ArgumentError, match="single memory location"):
        x.view(1, 6)[:, 1:] = x[:-1]
    assert x.tolist() == [0, 1, 2, 3, 4, 5]


def test_recorded_writes_to_expanded_tensors(device):
    """Where PyTorch takes them: one number for all elements, and a part that repeats none."""
    x = volta.tensor([1.0, 2.0, 3.0], device=device, requires_grad=True)
    for write in (lambda y: y.zero_(), lambda y: y.fill_(0)):
        base = x * 2
        write(y := base.expand(2, 3))
        assert y.tolist() == [[0.0] * 3] * 2 and base.tolist() == [0.0] * 3 and y.requires_grad
        assert volta.autograd.grad((base + y).sum(), x)[0].tolist() == [0.0] * 3
    for value, slope in ((7.0, 0.0), (x, 2.0)):
        base = x * 3
        y = base.expand(2, 3)
        y[0] = value
        assert y.tolist() == [base.tolist()] * 2
        assert volta.autograd.grad(y.sum(), x)[0].tolist() == [slope] * 3
    with pytest.raises(AutogradError, match="single memory location, since it is expanded"):
        (x * 1).expand(2, 3).fill_(x[0])
    for value in (x * 2, 0.0):
        with pytest.raises(AutogradError, match="single memory location, since it is expanded"):
            (x * 1).expand(2, 3)[:] = value


def test_recorded_masks_and_indices_of_expanded_tensors(device):
    """PyTorch takes them, though not back."""
    x = volta.tensor([1.0, 2.0, 3.0], device=device, requires_grad=True)
    mask, index = volta.tensor([[True, False, False], [False, True, False]], device=device), volta.tensor([1], device=device)
    for write, values, slopes in (
            (lambda y: y.masked_fill_(mask, 7.0), [7, 7, 6], [0, 0, 4]), (lambda y: y.masked_fill_(mask, x[2]), [3, 3, 6], [0, 0, 8]),
            (lambda y: y.__setitem__(mask, 7.0), [7, 7, 6], [0, 0, 4]), (lambda y: y.__setitem__(index, x), [1, 2, 3], [2, 2, 2]),
            (lambda y: y.index_fill_(1, index, 7.0), [2, 7, 6], [4, 0, 4]), (lambda y: y.tril_(), [2, 0, 0], [4, 0, 0]),
            (lambda y: y.index_put_((index,), x), [1, 2, 3], [2, 2, 2]), (lambda y: y.fill_diagonal_(7.0), [7, 7, 6], [0, 0, 4]),
            (lambda y: y.index_put_((volta.cat((index, index)),), x, accumulate=True), [4, 8, 12], [8, 8, 8])):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            write(y := (x * 2).expand(2, 3))
        assert y.tolist() == [values] * 2
        assert volta.autograd.grad(y.sum(), x)[0].tolist() == slopes
    with pytest.raises(AutogradError, match="masked_fill_: a view of a leaf tensor that requires grad"):
        x.expand(2, 3).masked_fill_(mask, 7.0)


def test_hooks_on_a_view_hear_nothing_of_what_follows_a_change(device):
    """As in PyTorch: the history of the view is another one then, while that of the base goes on."""
    for changed in range(3):
        x, heard = leaf(1.0, 1.0, 1.0, device=device), []
        base = x * 2
        view = base[:2]
        part = view[:1]
        for name, each in (("part", part), ("view", view), ("base", base)):
            each.register_hook(lambda g, name=name, heard=heard: heard.append(name) or g * 2)
        (base, view, part)[changed].mul_(3)
        (part.sum() * 5 + view.sum() * 2 + base.sum()).backward()
        assert heard == ["base"] and x.grad.tolist() == ([96, 36, 12], [96, 36, 4], [96, 12, 4])[changed]
