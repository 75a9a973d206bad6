"""In-place changes of recorded tensors: what is differentiated, what is refused."""
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


def test_in_place_on_shared_data_is_refused():
    x = leaf(1.0, 2.0)
    y = x * 2.0
    view = y[:1]
    with pytest.raises(AutogradError, match=r"add_: the tensor of shape \(2,\) shares its data with another one"):
        y.add_(1.0)
    assert y.tolist() == [2.0, 4.0] and view.tolist() == [2.0]


def test_view_that_went_stale_is_noticed():
    """A view's history is no longer true once its base was changed through another tensor."""
    x = leaf(1.0, 2.0)
    y = x * 2.0
    view = y[:1]
    with volta.no_grad():
        y.add_(1.0)
    with pytest.raises(AutogradError, match="was changed in place through another tensor that shares"):
        (view * 3.0).sum().backward()
    with pytest.raises(AutogradError, match="was changed in place through another tensor that shares"):
        view.sum().backward()


def test_expanded_tensor_cannot_be_written():
    x = leaf(1.0)
    wide = (x * 2.0).expand(3)
    with pytest.raises(AutogradError, match="add_: "):
        wide.add_(1.0)
