"""Attributes that users give tensors, where tensors lie, and what moves them by position."""
import copy
import gc
import pickle
import weakref

import pytest

import volta
from volta.errors import AutogradError, DTypeError


def test_attributes(device):
    x = volta.ones(2, device=device, requires_grad=True)
    x.tag = ["a"]
    assert x.tag == ["a"] and vars(x) == {"tag": ["a"]} and not hasattr(x + 1, "tag") and not hasattr(x.detach(), "tag")
    assert copy.copy(x).tag is x.tag and copy.deepcopy(x).tag == ["a"] and copy.deepcopy(x).tag is not x.tag
    assert pickle.loads(pickle.dumps(x)).tag == ["a"] and pickle.loads(pickle.dumps(x)).requires_grad
    assert copy.copy(x).data_ptr() == x.data_ptr() != copy.deepcopy(x).data_ptr()
    del x.tag
    with pytest.raises(AttributeError, match="'Tensor' object has no attribute 'tag'"):
        print(x.tag)
    for name in ("shape", "dtype", "device", "grad_fn", "T"):
        with pytest.raises(AttributeError):
            setattr(x, name, 1)


def test_attributes_of_parameters(device):
    p = volta.nn.Parameter(volta.ones(2, device=device))
    p.tag, p.grad = 1, volta.ones(2, device=device)
    assert copy.copy(p).tag == pickle.loads(pickle.dumps(p)).tag == 1 and isinstance(copy.copy(p), volta.nn.Parameter)
    again = copy.deepcopy(p)                                # as in PyTorch: its data alone
    assert again.grad is None and not hasattr(again, "tag")
    layer = volta.nn.Linear(2, 2)
    layer.weight.no_weight_decay = True
    assert layer.to(device).double().weight.no_weight_decay if device == "cpu" else layer.to(device).weight.no_weight_decay
    assert not hasattr(layer.state_dict()["weight"], "no_weight_decay")


def test_gradients_of_another_dtype(device):
    seen, other = [], volta.float16 if device == "gpu" else volta.float64
    x = volta.ones(2, device=device, requires_grad=True)
    assert x.grad_dtype is volta.float32 and x.grad_dtype is x.detach().grad_dtype
    handle = x.register_hook(lambda g: seen.append(g.dtype))
    x.grad_dtype = other
    for _ in range(2):                                      # the second is added
        (x * 3).sum().backward()
    assert x.grad.dtype is x.grad_dtype is other and x.grad.tolist() == [6, 6] and seen == [other, other]
    assert volta.autograd.grad((x * 3).sum(), x)[0].dtype is other
    handle.remove()
    (x * 3).sum().backward()
    assert len(seen) == 3 and x.grad.tolist() == [9, 9]
    with pytest.raises(AutogradError, match="there is a gradient of"):
        x.grad_dtype = volta.float32
    with pytest.raises(AutogradError, match=f"must be like the tensor, {other}".replace(".", "[.]")):
        x.grad = volta.ones(2, device=device)
    x.grad_dtype = None                                     # any
    x.grad = volta.ones(2, device=device)
    assert x.grad_dtype is None and x.grad.dtype is volta.float32 and copy.deepcopy(x).grad_dtype is volta.float32
    with pytest.raises(TypeError, match="must be a dtype or None"):
        x.grad_dtype = "float32"
    with pytest.raises(AutogradError, match="only leaves"):
        print((x * 2).grad_dtype)


def test_a_copy_of_what_was_computed_is_a_leaf():
    x = volta.ones(2, requires_grad=True) * 2
    y = copy.copy(x)
    assert y.is_leaf and y.requires_grad and y.tolist() == [2, 2] and not x.is_leaf


def test_attributes_die_with_their_tensor():
    class Thing:
        pass

    x, thing = volta.ones(1), Thing()
    x.thing, x.itself, thing.x = thing, x, x
    alive = weakref.ref(thing)
    del x, thing
    gc.collect()
    assert alive() is None


def test_data_ptr(device):
    x = volta.ones(3, 4, device=device)
    assert x.data_ptr() == x.detach().data_ptr() == x.data.data_ptr() == x.view(12).data_ptr() == x.untyped_storage().data_ptr()
    assert x[1:].data_ptr() == x.data_ptr() + 16 and x.clone().data_ptr() != x.data_ptr() and volta.ones(0, device=device).data_ptr() == 0
    if device == "cpu":
        assert x.data_ptr() == x.numpy().ctypes.data


def test_to_with_flags_by_position():
    x = volta.ones(2, 3)
    assert x.to("cpu", volta.float32, True, True) is not x and x.to(volta.float32, False, False) is x
    assert x.t().to(volta.float64, False, True).dtype is volta.float64
    assert x.t().double(memory_format=volta.contiguous_format).is_contiguous()
    t = x.t()
    assert t.float(memory_format=volta.contiguous_format) is t, "a tensor of this dtype is returned as it is, as in PyTorch"
    assert x.long(memory_format=volta.preserve_format).dtype is volta.int64
    with pytest.raises(TypeError, match="non_blocking and copy in this order"):
        x.to("cpu", True, volta.float32)


def test_what_is_set_as_a_gradient_is_like_the_tensor():
    x = volta.ones(2, requires_grad=True)
    for wrong in (volta.ones(3), volta.ones(2, 1), volta.ones(2, dtype=volta.float64), 1.0, x):
        with pytest.raises((AutogradError, DTypeError), match="grad: "):
            x.grad = wrong
    x.grad = volta.ones(2)
    x.grad = None
