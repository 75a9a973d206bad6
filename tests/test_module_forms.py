"""Forms of modules, losses, optimizers and grad modes that PyTorch users write: hooks, list arithmetic, old loss arguments, names."""
import copy
import functools
import pickle
import subprocess
import sys
from collections import OrderedDict

import numpy as np
import pytest
from arrays import host

import volta
from volta import nn, optim
from volta.errors import ArgumentError, IndexRangeError, ShapeError
from volta.nn import functional as F
from volta.testing import assert_close


# ---------------------------------------------------------------- modules
class Scale(nn.Module):
    def forward(self, x, by=1):
        return x * by


def test_hooks_with_kwargs_and_their_order():
    layer, x, seen = Scale(), volta.ones(2), []
    layer.register_forward_pre_hook(lambda m, args, kwargs: (args, {"by": kwargs["by"] + 1}), with_kwargs=True)
    layer.register_forward_hook(lambda m, args, kwargs, out: seen.append(kwargs["by"]), with_kwargs=True)
    layer.register_forward_hook(lambda m, args, out: out + 1)
    first = layer.register_forward_hook(lambda m, args, out: out * 10, prepend=True)
    assert layer(x, by=2).tolist() == [31, 31] and seen == [3]
    first.remove()
    assert layer(x, by=2).tolist() == [4, 4]


def test_getting_by_name():
    net = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))
    assert net.get_parameter("0.weight") is net[0].weight and net.get_buffer("1.running_mean") is net[1].running_mean
    with pytest.raises(AttributeError, match="get_parameter: Sequential has no parameter '0.scale'"):
        net.get_parameter("0.scale")
    shared = nn.ReLU()
    assert len(list(nn.Sequential(shared, shared).modules())) == 2
    assert len(list(nn.Sequential(shared, shared).modules(remove_duplicate=False))) == 3
    assert net.type(volta.float64)[0].weight.dtype is volta.float64


def test_lists_of_modules():
    net = nn.Sequential(nn.ReLU(), nn.Tanh())
    net += nn.Sequential(nn.GELU())
    assert [type(m).__name__ for m in net + nn.Sequential(nn.SiLU())] == ["ReLU", "Tanh", "GELU", "SiLU"]
    assert len(net * 2) == len(2 * net) == 6 and isinstance(net.pop(1), nn.Tanh)
    assert [name for name, _ in net.named_children()] == ["0", "1"]
    assert len(nn.ModuleList([nn.ReLU()]) + [nn.Tanh()]) == 2
    with pytest.raises(ArgumentError, match="Sequential: can be repeated a positive number of times, got 0"):
        net * 0


def test_repr_of_a_module_list_counts_equal_neighbours():
    modules = nn.ModuleList([nn.ReLU(), nn.ReLU(), nn.Sequential(nn.Tanh()), nn.ReLU()])
    assert repr(modules) == "ModuleList(\n  (0-1): 2 x ReLU()\n  (2): Sequential(\n    (0): Tanh()\n  )\n  (3): ReLU()\n)"
    assert repr(nn.ModuleList()) == "ModuleList()"


def test_parameter_list():
    held = nn.ParameterList(values=[volta.ones(2)])
    held += [nn.Parameter(volta.zeros(3))]
    held.extend([volta.ones(1)])
    held[1] = nn.Parameter(volta.ones(4))
    assert [p.shape for p in held] == [(2,), (4,), (1,)] and len(held[1:]) == 2 and list(held.state_dict()) == ["0", "1", "2"]
    assert "(0): Parameter containing: [volta.float32 of size 2]" in repr(held)
    with pytest.raises(IndexRangeError, match="ParameterList: index 3 is out of range for 3 parameters"):
        held[3]


def test_load_state_dict_by_assignment(device):
    layer, dtype = nn.Linear(2, 2), volta.float64 if device == "cpu" else volta.float32
    weight, given = layer.weight, {"weight": volta.ones(2, 2, dtype=dtype, device=device), "bias": volta.zeros(2, device=device)}
    assert repr(layer.load_state_dict(given, assign=True)) == "<All keys matched successfully>"
    assert layer.weight is weight and weight.dtype is dtype and weight.device is given["weight"].device and weight.requires_grad
    given["bias"].fill_(3)
    assert layer.bias.tolist() == [3, 3]
    assert "unexpected_keys=['x']" in repr(layer.load_state_dict({**given, "x": volta.ones(1)}, strict=False))


# ---------------------------------------------------------------- losses
@pytest.mark.parametrize("old, reduction", [((None, None), "mean"), ((False, None), "sum"), ((True, None), "mean"), ((None, False), "none"),
                                            ((False, True), "sum")])
def test_the_old_arguments_of_losses(device, old, reduction):
    x, y, labels = volta.randn(4, 3, device=device), volta.rand(4, 3, device=device), volta.tensor([0, 2, 1, 1], device=device)
    for function, layer, target in ((F.mse_loss, nn.MSELoss, y), (F.l1_loss, nn.L1Loss, y)):
        np.testing.assert_array_equal(host(function(x, target, *old)), host(function(x, target, reduction=reduction)))
        assert layer(*old).reduction == reduction
    for function, layer, target in ((F.cross_entropy, nn.CrossEntropyLoss, labels), (F.nll_loss, nn.NLLLoss, labels)):
        np.testing.assert_array_equal(host(function(x, target, None, old[0], 1, old[1])),
                                      host(function(x, target, ignore_index=1, reduction=reduction)))
        assert layer(None, old[0], 1, old[1]).reduction == reduction
    np.testing.assert_array_equal(host(F.binary_cross_entropy_with_logits(x, y, None, *old)),
                                  host(nn.BCEWithLogitsLoss(reduction=reduction)(x, y)))


def test_weights_of_losses(device):
    a, b, w = (np.random.default_rng(k).random((3, 4), np.float32) for k in range(3))
    x, y, weight = (volta.tensor(t, device=device) for t in (a, b, w))
    assert_close(host(F.mse_loss(x, y, weight=weight)), ((a - b) ** 2 * w).sum() / w.sum(), 1e-5, 1e-6)
    assert_close(host(F.l1_loss(x, y, reduction="sum", weight=weight)), (abs(a - b) * w).sum(), 1e-5, 1e-6)
    assert_close(host(F.mse_loss(x, y, reduction="none", weight=weight)), (a - b) ** 2 * w, 1e-5, 1e-6)
    labels = volta.tensor([0, 1, 3], device=device)
    for call, text in ((lambda: F.mse_loss(x, y, weight=weight[0]), r"mse_loss: weight \(4,\) and input \(3, 4\) must have the same shape"),
                       (lambda: F.cross_entropy(x, labels, weight[0, :3]), r"cross_entropy: weight must have shape \(4,\), .* got \(3,\)"),
                       (lambda: F.cross_entropy(x, y, weight[0, :3]), r"cross_entropy: weight must have shape \(4,\), .* got \(3,\)"),
                       (lambda: F.nll_loss(x, labels, weight), r"nll_loss: weight must have shape \(4,\), .* got \(3, 4\)")):
        with pytest.raises(ShapeError, match=text):
            call()
    with pytest.raises(ArgumentError, match="MSELoss: give the reduction by name, as in reduction='sum'"):
        nn.MSELoss("sum")


# ---------------------------------------------------------------- optimizers, gradients
def test_named_parameters():
    net = nn.Linear(2, 1)
    optimizer = optim.SGD(net.named_parameters(), lr=0.1)
    assert optimizer.param_groups[0]["param_names"] == ["weight", "bias"] and optimizer.param_groups[0]["params"] == list(net.parameters())
    assert optim.Adam([{"params": net.named_parameters(), "lr": 1.0}]).state_dict()["param_groups"][0]["params"] == [0, 1]
    with pytest.raises(ArgumentError, match=r"SGD: a group must hold parameters, or \(name, parameter\) pairs only"):
        optim.SGD([("weight", net.weight), net.bias])


def test_norms_of_gradients_that_are_not_finite(device):
    p = nn.Parameter(volta.ones(2, device=device))
    p.grad = volta.tensor([1.0, float("nan")], device=device)
    with pytest.raises(ArgumentError, match="clip_grad_norm_: The total norm of order 2.0 for gradients from `parameters` is non-finite"):
        nn.utils.clip_grad_norm_(p, 1.0, error_if_nonfinite=True)
    p.grad = volta.tensor([3.0, 4.0], device=device)
    assert nn.utils.clip_grad_norm_([p], 1.0, 3.0).item() == pytest.approx((27 + 64) ** (1 / 3), rel=1e-5)


def test_grad_modes_as_decorators():
    @volta.set_grad_enabled(False)
    def off():
        return volta.is_grad_enabled()
    assert volta.is_grad_enabled() and not off() and volta.is_grad_enabled()
    assert volta.inference_mode(False)(volta.is_grad_enabled)() and not volta.inference_mode()(volta.is_grad_enabled)()
    assert not volta.inference_mode(volta.is_grad_enabled)() and not volta.no_grad(volta.is_grad_enabled)()
    with volta.no_grad(), volta.inference_mode(mode=False):
        assert volta.is_grad_enabled()
    with pytest.raises(ZeroDivisionError):
        volta.no_grad(lambda: 1 / 0)()
    assert volta.is_grad_enabled()


def test_materialized_gradients(device):
    x, y = (volta.ones(2, device=device, requires_grad=True) for _ in range(2))
    g, h = volta.autograd.grad((x * 2).sum(), (x, y), materialize_grads=True)
    assert g.tolist() == [2, 2] and h.tolist() == [0, 0]
    with pytest.raises(ArgumentError, match="grad: materialize_grads=True gives zeros"):
        volta.autograd.grad(x.sum(), (x, y), allow_unused=False, materialize_grads=True)


class _Frozen(volta.nn.Linear):
    """Stays in evaluation and in float64 whatever is around it, as parts of published models do."""

    def train(self, mode=True):
        return super().train(False)

    def _apply(self, convert, recurse=True):
        self.seen = True
        return super()._apply(convert, recurse)

    def to(self, *args, **kwargs):
        return self.cpu()

    def cpu(self):
        return super().cpu()


def test_modules_below_train_and_move_in_their_own_way():
    model = volta.nn.Sequential(volta.nn.Sequential(_Frozen(1, 1)), volta.nn.Linear(1, 1))
    assert model.train() is model and model.training and model[1].training and model[0].training and not model[0][0].training
    model.double()
    assert model[0][0].seen and model[0][0].weight.dtype is model[1].weight.dtype is volta.float64
    assert model[0][0].to("cpu").weight.dtype is volta.float64
    shared = volta.nn.Linear(1, 1)
    model[1].weight = model[0][0].weight = shared.weight
    model.float()
    assert model[1].weight is model[0][0].weight is shared.weight and shared.weight.dtype is volta.float32


def _renamed(state_dict, prefix, *_):
    state_dict[prefix + "bias"] = state_dict.pop(prefix + "old")


def test_modules_with_hooks_can_be_pickled():
    layer = volta.nn.Linear(1, 1)
    layer._register_load_state_dict_pre_hook(_renamed)
    again = pickle.loads(pickle.dumps(layer))
    again.load_state_dict({"weight": volta.ones(1, 1), "old": volta.ones(1)})
    assert again.bias.item() == 1


class _WithState(volta.nn.Linear):
    def __setstate__(self, state):
        super().__setstate__(state)
        self.restored = True


def test_setstate_of_subclasses_has_one_to_call():
    assert copy.deepcopy(_WithState(1, 1)).restored and copy.deepcopy(_WithState(1, 1)).weight.shape == (1, 1)


def test_a_parameter_dict_holds_other_values():
    layer = nn.Linear(1, 1)
    held = nn.ParameterDict({"a": 3, "b": volta.ones(2), "c": layer})
    assert held["a"] == held.a == held.get("a") == 3 and held.get("q") is None and isinstance(held["b"], nn.Parameter)
    assert list(held) == ["a", "b", "c"] and set(held.state_dict()) == {"b", "c.weight", "c.bias"}
    assert "(a): Object of type: int" in repr(held) and held.setdefault("d", None) is None and len(held) == 4
    assert copy.deepcopy(held)["a"] == pickle.loads(pickle.dumps(held))["a"] == held.copy()["a"] == 3
    assert held.pop("a") == 3 and held.popitem() == ("d", None) and list(held) == ["b", "c"] and list(reversed(held)) == ["c", "b"]
    held.update(parameters={"e": "x"})
    assert (held | {"f": 1})["f"] == 1 and held.fromkeys(["x", "y"], 1)["y"] == 1
    held.clear()
    assert not len(held) and not held.state_dict() and not hasattr(held, "b")
    with pytest.raises(TypeError, match="names are strings"):
        held[1] = 2
    with pytest.raises(KeyError):
        held.popitem()


def test_what_sequential_takes():
    assert isinstance(nn.Sequential(None, nn.ReLU())[1], nn.ReLU)
    assert list(dict(nn.Sequential(OrderedDict(a=nn.ReLU())).named_children())) == ["a"]
    for wrong in {"a": nn.ReLU()}, [nn.ReLU()], 3:
        with pytest.raises(TypeError, match="needs modules, got"):
            nn.Sequential(wrong)
    modules = nn.ModuleDict()
    modules.update(modules={"a": nn.ReLU()})
    assert len(nn.Sequential().extend(sequential=[modules["a"]])) == 1


def test_what_forward_pre_hooks_give_and_parameter_lists_take():
    layer = nn.Linear(2, 2)
    layer.register_forward_pre_hook(lambda module, args, kwargs: 3, with_kwargs=True)
    with pytest.raises(RuntimeError, match="a forward pre-hook must return None or a tuple of .new_args, new_kwargs., got 3"):
        layer(volta.ones(1, 2))
    with pytest.raises(TypeError, match="called with an iterable of parameters, got one tensor"):
        nn.ParameterList().extend(volta.ones(2))


def test_numbers_of_older_files_have_a_dimension():
    norm = nn.BatchNorm1d(2)
    norm.load_state_dict({**norm.state_dict(), "num_batches_tracked": volta.tensor([7])})
    assert norm.num_batches_tracked.shape == () and int(norm.num_batches_tracked) == 7


def test_what_layers_do_not_show():
    assert repr(nn.Hardswish(inplace=True)) == "Hardswish()" and repr(nn.Hardsigmoid(inplace=True)) == "Hardsigmoid()"


def test_functions_are_pickled_and_copied_as_themselves():
    """By their names, also for a process that has not imported their module."""
    names = "Tensor.exp_ Tensor.relu_ Tensor.squeeze_ exp_ exp nn.functional.relu_ nn.functional.elu_ nn.functional.dropout".split()
    functions = [functools.reduce(getattr, name.split("."), volta) for name in names]
    for function in functions:
        assert pickle.loads(pickle.dumps(function)) is copy.copy(function) is copy.deepcopy(function) is function
    listed = ", ".join(f"volta.{name}" for name in names[::-1])
    program = f"import pickle; found = pickle.loads({pickle.dumps(functions[::-1])!r}); import volta, volta.nn; assert found == [{listed}]"
    subprocess.run([sys.executable, "-c", program], check=True)
