"""Modules: registration, moving, state dicts, containers, initialisation, utilities."""
import copy
import math
import pickle
from collections import OrderedDict

import numpy as np
import pytest
from arrays import host

import volta
from volta import nn
from volta.errors import ArgumentError, DTypeError, ShapeError, StateDictError
from volta.nn import functional as F
from volta.testing import assert_close


class Net(nn.Module):
    def __init__(self, device=None):
        super().__init__()
        self.conv = nn.Conv2d(1, 4, 3, padding=1, device=device)
        self.norm = nn.BatchNorm2d(4, device=device)
        self.head = nn.Sequential(nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(16, 3, device=device))
        self.register_buffer("scale", volta.ones(1, device=device))
        self.register_buffer("scratch", volta.zeros(1, device=device), persistent=False)

    def forward(self, x):
        return self.head(self.norm(self.conv(x))) * self.scale


# ---------------------------------------------------------------- registration
def test_parameter_is_a_tensor_that_wants_gradients(device):
    data = volta.ones(2, 3, device=device)
    p = nn.Parameter(data)
    assert isinstance(p, volta.Tensor) and p.requires_grad and p.is_leaf and p.shape == (2, 3)
    assert p.storage is data.storage
    assert repr(p).startswith("Parameter containing:\ntensor(")
    assert type(p + 1) is volta.Tensor
    assert not nn.Parameter(data, requires_grad=False).requires_grad
    with pytest.raises(ArgumentError, match="Parameter: needs a tensor, got list"):
        nn.Parameter([1.0])
    with pytest.raises(DTypeError):
        nn.Parameter(volta.tensor([1], device=device))


def test_names_and_traversal():
    net = Net()
    assert [n for n, _ in net.named_parameters()] == ["conv.weight", "conv.bias", "norm.weight", "norm.bias", "head.3.weight",
                                                     "head.3.bias"]
    assert [n for n, _ in net.named_buffers()] == ["scale", "scratch", "norm.running_mean", "norm.running_var",
                                                   "norm.num_batches_tracked"]
    assert list(net.state_dict()) == ["scale", "conv.weight", "conv.bias", "norm.weight", "norm.bias", "norm.running_mean",
                                      "norm.running_var", "norm.num_batches_tracked", "head.3.weight", "head.3.bias"]
    assert [n for n, _ in net.named_children()] == ["conv", "norm", "head"]
    assert [n for n, _ in net.named_modules()] == ["", "conv", "norm", "head", "head.0", "head.1", "head.2", "head.3"]
    assert list(net.parameters(recurse=False)) == []
    assert net.get_submodule("head.3") is net.head[3]
    seen = []
    assert net.apply(lambda m: seen.append(type(m).__name__)) is net
    assert seen[-1] == "Net" and len(seen) == 8


def test_shared_parameters_come_once_but_keep_their_keys():
    a, b = nn.Linear(3, 3), nn.Linear(3, 3)
    b.weight = a.weight
    model = nn.Sequential(a, b)
    assert [n for n, _ in model.named_parameters()] == ["0.weight", "0.bias", "1.bias"]
    assert list(model.state_dict()) == ["0.weight", "0.bias", "1.weight", "1.bias"]
    twice = nn.Sequential(a, a)
    assert len(list(twice.modules())) == 2 and len(list(twice.parameters())) == 2
    copied = copy.deepcopy(model)
    assert copied[0].weight is copied[1].weight and copied[0].weight is not a.weight
    assert isinstance(copied[0].weight, nn.Parameter)


def test_setattr_rules():
    m = nn.Module()
    m.w = nn.Parameter(volta.zeros(2))
    m.w = None
    assert m.w is None and "w" not in dict(m.named_parameters())
    with pytest.raises(TypeError, match="attribute 'w' is registered and takes a Parameter or None, got Tensor"):
        m.w = volta.zeros(2)
    m.child = nn.ReLU()
    with pytest.raises(TypeError, match="takes a Module or None, got int"):
        m.child = 3
    m.child = nn.Parameter(volta.zeros(1))                  # another kind of registered thing takes the name over
    assert "child" not in m._modules and "child" in m._parameters
    del m.child
    with pytest.raises(AttributeError, match="'Module' object has no attribute 'child'"):
        _ = m.child
    m.register_buffer("b", None)
    m.b = volta.ones(1)
    assert [n for n, _ in m.named_buffers()] == ["b"]

    class Forgot(nn.Module):
        def __init__(self):
            self.fc = nn.Linear(1, 1)
    with pytest.raises(AttributeError, match=r"Forgot: modules cannot be assigned before super\(\).__init__\(\) was called"):
        Forgot()


@pytest.mark.parametrize("call, text", [
    (lambda m: m.register_parameter("a.b", None),
     "register_parameter: the name must be a non-empty string without a dot, got 'a.b'"),
    (lambda m: m.register_parameter("forward", None), "register_parameter: Module already has an attribute 'forward'"),
    (lambda m: m.register_parameter("p", volta.zeros(1)),
     "register_parameter: 'p' must be a Parameter that no op made, got Tensor"),
    (lambda m: m.register_buffer("b", 1), "register_buffer: 'b' must be a tensor or None, got int"),
    (lambda m: m.add_module("c", 1), "register_module: 'c' must be a Module or None, got int"),
    (lambda m: m.train(1), "train: mode must be True or False, got 1"),
])
def test_registration_errors(call, text):
    with pytest.raises(ArgumentError) as error:
        call(nn.Module())
    assert text in str(error.value)


def test_a_property_may_give_what_is_registered_under_its_name():
    class Optimum(nn.Module):
        place = property(lambda self: super().place, doc="raises AttributeError until there is a buffer")
        fixed = property(lambda self: 1)

    m = Optimum()
    m.register_buffer("place", volta.ones(1))
    assert m.place is m._buffers["place"]
    with pytest.raises(KeyError, match="register_buffer: Optimum already has an attribute 'fixed'"):
        m.register_buffer("fixed", volta.ones(1))


def test_forward_must_be_defined():
    with pytest.raises(NotImplementedError, match="Module: define forward"):
        nn.Module()(1)


def test_hooks():
    m, calls = nn.Identity(), []
    before = m.register_forward_pre_hook(lambda module, args: (args[0] + 1,))
    after = m.register_forward_hook(lambda module, args, out: calls.append(args[0]) or out * 10)
    assert m(2) == 30 and calls == [3]
    before.remove()
    after.remove()
    assert m(2) == 2


def test_repr():
    assert repr(nn.Sequential(nn.Linear(2, 3), OuterNet())) == (
        "Sequential(\n  (0): Linear(in_features=2, out_features=3, bias=True)\n  (1): OuterNet(\n    (act): ReLU()\n  )\n)")
    assert repr(nn.Conv2d(1, 2, 3, padding="same", bias=False)) == (
        "Conv2d(1, 2, kernel_size=(3, 3), stride=(1, 1), padding=same, bias=False)")
    assert repr(nn.BatchNorm2d(4)) == "BatchNorm2d(4, eps=1e-05, momentum=0.1, affine=True, bias=True, track_running_stats=True)"
    assert repr(nn.MaxPool2d(2)) == "MaxPool2d(kernel_size=2, stride=2, padding=0, dilation=1, ceil_mode=False)"


class OuterNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.act = nn.ReLU()


def test_train_eval_zero_grad_requires_grad():
    net = Net()
    assert net.eval() is net and not net.head[0].training
    assert net.train().norm.training
    net.requires_grad_(False)
    assert not any(p.requires_grad for p in net.parameters())
    net.requires_grad_()
    net(volta.randn(2, 1, 4, 4)).sum().backward()
    kept = net.conv.weight.grad
    net.zero_grad(set_to_none=False)
    assert net.conv.weight.grad.storage is kept.storage and not net.conv.weight.grad.any()
    net.zero_grad()
    assert all(p.grad is None for p in net.parameters())


# ---------------------------------------------------------------- moving
def test_to_keeps_the_parameter_objects(device):
    net = Net()
    net(volta.randn(2, 1, 4, 4)).sum().backward()
    before, values = list(net.parameters()), [host(p) for p in net.parameters()]
    assert net.to(device) is net
    for p, old, value in zip(net.parameters(), before, values):
        assert p is old and p.device.type == device and p.grad.device is p.device and p.requires_grad and p.is_leaf
        np.testing.assert_array_equal(host(p), value)
    assert all(b.device.type == device for b in net.buffers())
    assert net(volta.randn(2, 1, 4, 4, device=device)).device.type == device


def test_to_dtype():
    net = Net().double()
    assert net.conv.weight.dtype is volta.float64 and net.norm.num_batches_tracked.dtype is volta.int64
    assert net(volta.randn(2, 1, 4, 4, dtype=volta.float64)).dtype is volta.float64
    assert net.to("cpu", volta.float32).conv.bias.dtype is volta.float32
    with pytest.raises(DTypeError, match="Module.to: needs a floating point dtype, got volta.int64"):
        net.to(volta.int64)


def test_pickle_and_deepcopy(device):
    net = Net(device).eval()
    x = volta.randn(2, 1, 4, 4, device=device)
    for other in (copy.deepcopy(net), pickle.loads(pickle.dumps(net))):
        np.testing.assert_array_equal(host(other(x)), host(net(x)))
        assert all(isinstance(p, nn.Parameter) and p.requires_grad for p in other.parameters())
        other.conv.weight.detach().zero_()
        assert net.conv.weight.detach().any()


# ---------------------------------------------------------------- state dicts
def test_state_dict_round_trip(device):
    net, other = Net(device), Net(device)
    net(volta.randn(4, 1, 4, 4, device=device))
    assert other.load_state_dict(net.state_dict()) == ([], [])
    for (key, a), b in zip(net.state_dict().items(), other.state_dict().values()):
        np.testing.assert_array_equal(host(a), host(b), err_msg=key)
    assert int(other.norm.num_batches_tracked) == 1


def test_state_dict_shares_data_and_loads_arrays_and_dtypes():
    net = nn.Linear(2, 2)
    state = net.state_dict()
    assert state["weight"].storage is net.weight.storage and not state["weight"].requires_grad
    storage = net.weight.storage
    net.load_state_dict({"weight": np.eye(2), "bias": volta.tensor([1, 2])})
    assert net.weight.storage is storage and net.weight.dtype is volta.float32
    np.testing.assert_array_equal(host(net(volta.ones(1, 2))), [[2, 3]])


def test_load_state_dict_names_every_problem_and_changes_nothing(device):
    net = nn.Sequential(nn.Linear(2, 3, device=device), nn.Linear(3, 1, device=device))
    before = [host(p) for p in net.parameters()]
    bad = {"0.weight": volta.ones(3, 2), "0.bias": volta.ones(4), "1.weight": "text", "extra": volta.ones(1)}
    with pytest.raises(StateDictError) as error:
        net.load_state_dict(bad)
    assert str(error.value) == (
        'Error(s) in loading state_dict for Sequential:\n\tMissing key(s) in state_dict: "1.bias". \n\t'
        'Unexpected key(s) in state_dict: "extra". \n\tsize mismatch for 0.bias: copying a param with shape (4,) from '
        "checkpoint, the shape in current model is (3,).\n\t"
        'While copying the parameter named "1.weight", expected torch.Tensor or Tensor-like object from checkpoint but received '
        "<class 'str'>")
    for p, value in zip(net.parameters(), before):
        np.testing.assert_array_equal(host(p), value)
    result = net.load_state_dict({"0.bias": volta.ones(3), "extra": volta.ones(1)}, strict=False)
    assert result.missing_keys == ["0.weight", "1.weight", "1.bias"] and result.unexpected_keys == ["extra"]
    assert host(net[0].bias).tolist() == [1, 1, 1]
    with pytest.raises(StateDictError, match="size mismatch for 0.bias: copying"):
        net.load_state_dict({"0.bias": volta.ones(2)}, strict=False)


# ---------------------------------------------------------------- containers
def test_sequential():
    a, b, c = nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 2)
    model = nn.Sequential(a, b)
    assert model.append(c) is model and len(model) == 3 and model[-1] is c and list(model) == [a, b, c]
    assert list(model[1:]) == [b, c] and isinstance(model[:2], nn.Sequential)
    assert [n for n, _ in model[1:].named_parameters()] == ["2.weight", "2.bias"]
    model[1] = d = nn.Tanh()
    assert model[1] is d
    model.insert(0, b)
    del model[1]
    assert list(model) == [b, d, c] and list(model._modules) == ["0", "1", "2"]
    named = nn.Sequential(OrderedDict(first=a, act=b))
    assert list(named.state_dict()) == ["first.weight", "first.bias"] and named.first is a
    with pytest.raises(IndexError, match="Sequential: index 5 is out of range for 3 modules"):
        model[5]
    with pytest.raises(ArgumentError, match="Sequential: needs modules, got Composed"):
        nn.Sequential(F.gelu)


def test_lists_and_dicts():
    layers = nn.ModuleList([nn.Linear(1, 1)])
    layers += [nn.ReLU()]
    layers.extend([nn.Tanh()])
    assert len(layers) == 3 and isinstance(layers[1:], nn.ModuleList) and len(list(layers.parameters())) == 2
    table = nn.ModuleDict({"a": nn.Linear(1, 1)})
    table["b"] = nn.ReLU()
    assert list(table) == ["a", "b"] and "b" in table and list(table.state_dict()) == ["a.weight", "a.bias"]
    assert isinstance(table.pop("b"), nn.ReLU) and len(table) == 1
    assert len(nn.ParameterList([volta.zeros(2), volta.zeros(3)])) == 2


# ---------------------------------------------------------------- init and utils
def test_init_statistics(device):
    w = volta.empty(300, 200, device=device)
    for call, std in [(lambda: nn.init.normal_(w, 1.0, 2.0), 2.0),
                      (lambda: nn.init.xavier_uniform_(w, 2.0), 2 * math.sqrt(2 / 500)),
                      (lambda: nn.init.xavier_normal_(w), math.sqrt(2 / 500)),
                      (lambda: nn.init.kaiming_normal_(w), math.sqrt(2 / 200)),
                      (lambda: nn.init.kaiming_uniform_(w, mode="fan_out", nonlinearity="relu"), math.sqrt(2 / 300)),
                      (lambda: nn.init.trunc_normal_(w, std=0.5, a=-5, b=5), 0.5)]:
        assert call() is w
        assert abs(host(w).std() / std - 1) < 0.02
    nn.init.trunc_normal_(w, a=-1, b=0.5)
    assert host(w).min() >= -1 and host(w).max() <= 0.5
    nn.init.constant_(w, 3)
    assert (host(w) == 3).all()
    p = nn.Parameter(w)
    assert nn.init.zeros_(p) is p and p.requires_grad and p.is_leaf


def test_default_init_bounds_and_same_on_every_device(device):
    volta.manual_seed(7)
    layer = nn.Linear(25, 1000, device=device)
    assert 0.199 < abs(host(layer.weight)).max() <= 0.2 and 0.19 < abs(host(layer.bias)).max() <= 0.2
    volta.manual_seed(7)
    np.testing.assert_array_equal(host(nn.Linear(25, 1000).weight), host(layer.weight))


@pytest.mark.parametrize("call, text", [
    (lambda: nn.init.calculate_gain("swish"), "calculate_gain: unknown nonlinearity 'swish'"),
    (lambda: nn.init.kaiming_normal_(volta.zeros(2, 2), mode="fan"), "mode must be 'fan_in' or 'fan_out', got 'fan'"),
    (lambda: nn.init.xavier_uniform_(volta.zeros(2)), r"xavier_uniform_: needs a tensor of 2 dimensions or more, got (2,)"),
    (lambda: nn.utils.clip_grad_norm_([], -1.0), "clip_grad_norm_: max_norm must be >= 0, got -1.0"),
])
def test_init_and_utils_errors(call, text):
    with pytest.raises((ArgumentError, ShapeError)) as error:
        call()
    assert text in str(error.value)


def test_clip_grad_norm(device):
    p, q, unused = (nn.Parameter(volta.zeros(n, device=device)) for n in (2, 3, 1))
    p.grad, q.grad = volta.tensor([3.0, 0.0], device=device), volta.tensor([0.0, 4.0, 0.0], device=device)
    if device == "gpu":
        with volta.gpu.forbid_transfers():
            total = nn.utils.clip_grad_norm_([p, q, unused], 1.0)
    else:
        total = nn.utils.clip_grad_norm_([p, q, unused], 1.0)
    assert float(total) == pytest.approx(5)
    assert_close(host(p.grad), np.array([0.6, 0]), 1e-5, 1e-6)
    nn.utils.clip_grad_norm_([p, q], 10.0)
    assert_close(host(q.grad), np.array([0, 0.8, 0]), 1e-5, 1e-6)
    assert float(nn.utils.clip_grad_norm_([p, q], 10.0, float("inf"))) == pytest.approx(0.8, rel=1e-5)
    nn.utils.clip_grad_value_([p, q], 0.1)
    assert host(q.grad).max() == pytest.approx(0.1)


def test_vectors(device):
    net = nn.Linear(3, 2, device=device)
    vector = nn.utils.parameters_to_vector(net.parameters())
    assert vector.shape == (8,)
    nn.utils.vector_to_parameters(vector.detach() * 2, net.parameters())
    assert_close(host(nn.utils.parameters_to_vector(net.parameters())), host(vector) * 2, 1e-6, 0)
    with pytest.raises(ShapeError, match="needs a vector of 8 elements"):
        nn.utils.vector_to_parameters(volta.zeros(3, device=device), net.parameters())


def test_gradients_of_a_model_agree_across_devices(gpu):
    volta.manual_seed(1)
    net, x = Net(), volta.randn(4, 1, 4, 4)
    other = copy.deepcopy(net).to(gpu)
    labels = volta.tensor([0, 1, 2, 0])
    F.cross_entropy(net(x), labels).backward()
    F.cross_entropy(other(x.to(gpu)), labels.to(gpu)).backward()
    for (name, p), q in zip(net.named_parameters(), other.parameters()):
        np.testing.assert_allclose(host(q.grad), host(p.grad), rtol=1e-3, atol=1e-5, err_msg=name)


def test_state_dicts_that_do_not_count_batches(device):
    net = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3)).to(device)
    net(volta.ones(4, 2, device=device))
    old = {key: value + 1 for key, value in net.state_dict().items() if not key.endswith("num_batches_tracked")}
    for assign in (False, True):
        assert net.load_state_dict(old, assign=assign).missing_keys == []
        assert int(net[1].num_batches_tracked) == 1 and volta.equal(net[1].running_var, old["1.running_var"])
    assert len(old) == 6
    with pytest.raises(StateDictError, match='Missing key.s. in state_dict: "1.running_mean"'):
        net.load_state_dict({key: value for key, value in old.items() if not key.endswith("running_mean")})


def test_modules_that_read_and_write_state_dicts_themselves(device):
    class Renamed(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = nn.Parameter(volta.zeros(2))

        def _save_to_state_dict(self, destination, prefix, keep_vars):
            super()._save_to_state_dict(destination, prefix, keep_vars)
            destination[prefix + "made"] = volta.ones(1)

        def _load_from_state_dict(self, state_dict, prefix, *others):
            state_dict.pop(prefix + "made", None)
            if prefix + "gamma" in state_dict:
                state_dict[prefix + "scale"] = state_dict.pop(prefix + "gamma")
            super()._load_from_state_dict(state_dict, prefix, *others)

    net = nn.Sequential(Renamed(), nn.Linear(1, 1)).to(device)
    state = net.state_dict()
    assert list(state) == ["0.scale", "0.made", "1.weight", "1.bias"]
    net.load_state_dict(state)
    given = {**state, "0.gamma": volta.ones(2)}
    del given["0.scale"]
    net.load_state_dict(given)
    assert net[0].scale.tolist() == [1, 1] and "0.gamma" in given
