"""squeeze_, t_ and their kind against PyTorch: shape, strides, values, gradients, and views made before and after."""
import itertools

import numpy as np
import pytest

import volta
from volta.errors import ArgumentError, AutogradError

FORMS = {"t_": ((2, 3), ()), "transpose_": ((2, 3), (0, 1)), "swapaxes_": ((2, 3), (0, 1)), "swapdims_": ((2, 3), (0, -1)),
         "squeeze_": ((1, 3), ()), "unsqueeze_": ((2, 3), (1,))}
each_form = pytest.mark.parametrize("name", FORMS)


def leaf(library, name, device=None):
    shape, arguments = FORMS[name]
    values = np.arange(1.0, 1 + np.prod(shape), dtype=np.float32).reshape(shape)
    return library.tensor(values, requires_grad=True, **({"device": device} if device else {})), arguments


def program(library, name, of_a_view, before, after, device=None):
    """What is seen of a tensor, its base, a view made before, and the leaf's gradient."""
    a, arguments = leaf(library, name, device)
    base = a * 2
    x = base[:, 1:] if of_a_view else base
    old = x[0]
    if before:
        old.mul_(3.0)
    assert getattr(x, name)(*arguments) is x
    seen = [tuple(x.shape), x.stride(), x.tolist()]
    if after:
        x[0].mul_(7.0)
        old.mul_(2.0)
        x.mul_(5.0)
    ((x * x).sum() + (old * old * old).sum() + x[-1].sum() + (base * base * base).sum()).backward()
    return [*seen, tuple(old.shape), old.tolist(), base.tolist(), a.grad.tolist()]


@each_form
def test_as_in_pytorch(name, device):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed; these comparisons are an extra")
    for choices in itertools.product((False, True), repeat=3):
        assert program(volta, name, *choices, device) == program(torch, name, *choices), choices


@each_form
def test_a_leaf_that_requires_grad(name, device):
    a, arguments = leaf(volta, name, device)
    old = a[0]
    with pytest.raises(AutogradError, match=f"{name}: a leaf tensor that requires grad .* cannot change its shape in place"):
        getattr(a, name)(*arguments)
    with volta.no_grad():
        getattr(a, name)(*arguments)
    assert a.is_leaf and a.requires_grad
    (a * a).sum().backward()
    assert a.grad.shape == a.shape and a.grad.tolist() == (a * 2).tolist()
    with pytest.raises(AutogradError, match="view: the tensor that a view was made of has got another shape"):
        old * 2


@each_form
def test_under_no_grad(name, device):
    a, arguments = leaf(volta, name, device)
    x = a * 2
    with volta.no_grad(), pytest.raises(AutogradError, match=f"{name}: the tensor of shape .* has a history"):
        getattr(x, name)(*arguments)
    x = x.detach()
    with volta.no_grad():
        getattr(x, name)(*arguments)
    assert not x.requires_grad and x._size == a._size


@each_form
def test_what_an_op_saved_is_seen_to_have_changed(name, device):
    a, arguments = leaf(volta, name, device)
    x = a * 2
    y = x * x
    getattr(x, name)(*arguments)
    with pytest.raises(AutogradError, match="changed in place"):
        y.sum().backward()


@pytest.mark.parametrize("dtype", [volta.int64, volta.bool])
def test_other_dtypes(dtype, device):
    x = volta.ones(1, 3, dtype=dtype, device=device)
    assert x.squeeze_() is x and x.shape == (3,) and x.unsqueeze_(-1).shape == (3, 1) and x.t_().shape == (1, 3)


# ---------------------------------------------------------------- other sizes
def test_resize_within_the_memory(device):
    x = volta.arange(6.0, device=device)
    part = x[2:4]
    assert part.resize_(2, 2) is part and part.is_set_to(x[2:].view(2, 2)) and x._version == 1
    assert part.resize_(3).tolist() == [2.0, 3.0, 4.0] and part.resize_(0).shape == (0,)
    turned = volta.ones(3, 2, device=device).t()
    assert turned.resize_(2, 3).stride() == (1, 2) and turned._version == 0            # the size that it has


def test_resize_beyond_the_memory(device):
    x = volta.arange(6, device=device)
    part = x[2:4]
    part.resize_((3, 3))
    assert part.shape == (3, 3) and part.flatten()[:4].tolist() == [2, 3, 4, 5] and part.storage_offset() == 2
    part.zero_()
    assert x.tolist() == [0, 1, 2, 3, 4, 5]                 # which kept the memory that they shared
    assert volta.resize_as_(x, volta.ones(1, 2, device=device)).tolist() == [[0, 1]]
    half = volta.ones(3, dtype=volta.float16, device=device).resize_(5)
    assert half.shape == (5,) and half[:3].tolist() == [1.0, 1.0, 1.0]


def test_resize_of_what_a_graph_needs(device):
    leaf = volta.ones(2, device=device, requires_grad=True)
    for x in (leaf, leaf * 2, leaf[:1]):
        with pytest.raises(AutogradError, match="resize_: .* requires grad"):
            x.resize_(3)
    for size in (1, 3):
        factor = volta.ones(2, device=device)
        y = leaf * factor
        factor.resize_(size)
        with pytest.raises(AutogradError, match="changed"):
            y.sum().backward()


def test_facts(device):
    x = volta.arange(6.0, device=device)
    assert x.get_device() == volta.get_device(x) == (-1 if device == "cpu" else 0) and not x.is_pinned()
    assert x.is_same_size(volta.ones(6)) and not volta.is_same_size(x, x[1:])
    assert x.is_set_to(x.view(6)) and not any(x.is_set_to(y) for y in (x[1:], x.view(2, 3), x.clone()))


def test_new_is_of_the_same_kind(device):
    x = volta.ones(2, 3, dtype=volta.int32, device=device)
    for made, shape in ((x.new(), (0,)), (x.new(4, 5), (4, 5)), (x.new(x.shape), (2, 3)), (x.new([7, 8]), (2,))):
        assert made.dtype is volta.int32 and made.device is x.device and made.shape == shape
    with pytest.raises(ArgumentError, match=r"new: \(2, 3\) may be sizes or data"):
        x.new((2, 3))
    assert x.new([7, 8]).tolist() == [7, 8] and x.new(1, device="cpu").device is volta.device("cpu")


@each_form
def test_to_programs_it_is_no_view(name, device):
    a, arguments = leaf(volta, name, device)
    for x in (a.detach().clone(), a * 2):
        getattr(x, name)(*arguments).unsqueeze_(0)
        assert not x._is_view() and x[0]._is_view()
        assert not x.detach_().requires_grad and x.is_leaf
    view = (a * 2)[:]
    getattr(view, name)(*arguments)
    assert view._is_view()
    with pytest.raises(AutogradError, match="detach_: a view has the graph of its base"):
        view.detach_()


@each_form
def test_a_shape_changed_under_no_grad_is_followed_by_recorded_changes(name, device):
    a, arguments = leaf(volta, name, device)
    x, w = a.detach().clone(), volta.tensor(3.0, device=device, requires_grad=True)
    old = x[0]
    with volta.no_grad():
        getattr(x, name)(*arguments)
    x.mul_(w)
    x.sum().backward()
    assert x.shape == getattr(a.detach().clone(), name)(*arguments).shape and w.grad.item() == a.sum().item()
    with pytest.raises(AutogradError, match="view: the tensor that a view was made of has got another shape"):
        old * 2


@pytest.mark.parametrize("first", [lambda x: x.flip(0).sum(), lambda x: x[1:].sum(), lambda x: (x * 2).sum()])
@pytest.mark.parametrize("later", [lambda x: (x * x).sum(), lambda x: x[:, :1].sum(), lambda x: x.flip(0).sum()])
def test_gradients_of_slices_of_a_leaf_as_it_was(first, later, device):
    """They are not added into memory of another shape, wherever they come in the order of the graph."""
    for order in (1, -1):
        x = volta.ones(40, device=device, requires_grad=True)
        before = first(x)
        with volta.no_grad():
            x.unsqueeze_(0)
        with pytest.raises(AutogradError, match=r"backward: .grad of a leaf has shape \(1, 40\), its gradient \(40,\)"):
            volta.stack([before, later(x)][::order]).sum().backward()
