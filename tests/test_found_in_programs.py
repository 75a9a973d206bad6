"""What random programs and calls made from PyTorch's own declarations found, each with PyTorch's answer."""
import copy

import numpy as np
import pytest

import volta
import volta.nn.functional as F
from volta.errors import ArgumentError, AutogradError, DTypeError, RankError, RegistrationError, ShapeError


@pytest.mark.parametrize("name", ["sum", "prod", "cumsum", "cumprod", "nansum"])
def test_integers_have_no_gradients_to_be_added_up_in(device, name):
    x = volta.ones(2, 3, device=device, requires_grad=True)
    with pytest.raises(AutogradError, match=r"there are no gradients in volta\.int64; detach\(\) the tensor"):
        getattr(x, name)(0, dtype=volta.int64)
    with volta.no_grad():
        assert getattr(x, name)(0, dtype=volta.int64).dtype is volta.int64
    assert getattr(x, name)(0, dtype=volta.float16).requires_grad


def test_running_sums_of_one_or_no_bool_may_be_bool(device):
    assert volta.tensor(True, device=device).cumsum(0, dtype=volta.bool).item() is True
    assert volta.ones(2, 0, device=device).cumprod(0, dtype=volta.bool).dtype is volta.bool
    with pytest.raises(DTypeError, match="results of bool"):
        volta.ones(2, device=device).cumsum(0, dtype=volta.bool)


@pytest.mark.parametrize("change", [
    lambda x, at: x.scatter_(0, at, x), lambda x, at: x.scatter_add_(0, at, x), lambda x, at: x.scatter_reduce_(0, at, x, "sum"),
    lambda x, at: x.index_add_(0, at, x), lambda x, at: x.index_copy_(0, at, x), lambda x, at: x.put_(at, x),
    lambda x, at: x.index_put_((at,), x), lambda x, at: x.__setitem__(at, x), lambda x, at: volta.gather(x, 0, at, out=x),
    lambda x, at: volta.index_select(x, 0, at, out=x)])
def test_a_tensor_with_gaps_is_not_written_to_by_its_own_elements(change):
    x = volta.arange(6.0)[::2]
    with pytest.raises(ArgumentError, match="refer to a single memory location"):
        change(x, volta.tensor([2, 1, 0]))
    assert x.tolist() == [0.0, 2.0, 4.0]


def test_slices_to_copy_have_as_many_dimensions_whatever_their_dtype(device):
    x, at = volta.zeros(2, 3, device=device), volta.tensor([0], device=device)
    with pytest.raises(RankError, match=r"source \(3,\) must have as many dimensions as input \(2, 3\)"):
        x.index_copy_(0, at, volta.zeros(3, dtype=volta.int32, device=device))
    with pytest.raises(RankError, match="index must be a vector"):
        x.index_copy_(0, at.reshape(1, 1), volta.zeros(1, 3, dtype=volta.int32, device=device))


@pytest.mark.parametrize("pad", [(-4, 4), (-4, 5), (4, -4), (-2, 2, 0, 0)])
def test_padding_cuts_no_more_than_there_is(device, pad):
    with pytest.raises(ShapeError, match="cuts more than shape"):
        F.pad(volta.ones(1, 3 if len(pad) == 2 else 1, device=device), pad)
    assert F.pad(volta.ones(3, device=device), (-3, 4)).tolist() == [0.0] * 4


def test_true_as_a_subscript_is_a_new_dimension_and_false_names_nothing(device):
    x = volta.arange(3, device=device)
    x[False] = volta.ones(5, device=device)                     # not even a shape is looked at
    assert x.tolist() == [0, 1, 2]
    x[True] = volta.tensor([5.0, 6.5, 7.0], device=device)      # a copy, in which dtypes may differ
    assert x.tolist() == [5, 6, 7]
    for key in ((True,), (True, 0), (None, False)):             # beside others they are index tensors
        with pytest.raises(DTypeError, match="a value must have the dtype of the tensor"):
            x[key] = volta.tensor(1.0, device=device)


def test_arrays_without_dimensions_are_numbers_and_masks():
    x = volta.arange(3.0)
    assert x[np.array(1)]._base is x and x[np.array(1)].item() == 1.0
    assert x[np.array(True)].shape == (1, 3) and x[np.array(False)].shape == (0, 3)
    x[np.array(1)] = volta.tensor(7)                            # as at a number, of any dtype
    x[(np.array(False),)] = 9.0
    assert x.tolist() == [0.0, 7.0, 2.0]
    x[np.array(True)] = 1.0
    assert x.tolist() == [1.0] * 3


@pytest.mark.parametrize("changes", [("clamp_(-0.5, 1.5)", "add_(x)"), ("mul_(x)", "add_(x)"), ("sin_()", "mul_(x)"),
                                     ("pow_(2)", "add_(1)"), ("lerp_(x * 2, x)", "mul_(2)")])
def test_what_hooks_are_given_of_a_change_in_place_stays_as_it_was(device, changes):
    def changed(x):
        y = x.clone()
        for change in changes:
            eval("y." + change, {"x": x, "y": y})
        return y
    x = volta.tensor([1.0, 2.0, 3.0], device=device, requires_grad=True)
    expected = volta.autograd.grad(changed(x).sum(), x)[0]
    with volta.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t):
        y = changed(x)
    assert volta.equal(volta.autograd.grad(y.sum(), x)[0], expected)
    along = volta.ones(3, device=device)
    assert volta.allclose(volta.func.jvp(changed, (x.detach(),), (along,))[1], expected)
    assert volta.allclose(volta.func.linearize(changed, x.detach())[1](along), expected)


def test_parameters_of_containers_that_are_dicts_are_found_by_name():
    layers = volta.nn.ModuleDict({"x": volta.nn.BatchNorm1d(3)})
    assert layers.get_parameter("x.weight") is layers["x"].weight
    assert layers.get_buffer("x.running_mean") is layers["x"].running_mean
    with pytest.raises(AttributeError, match="nope"):
        volta.nn.ParameterDict({"a": volta.ones(1)}).get_parameter("nope")


@pytest.mark.parametrize("add", [
    lambda x, at, y: x.scatter_add(0, at, y), lambda x, at, y: x.scatter(0, at, y), lambda x, at, y: x.scatter_reduce(0, at, y, "prod"),
    lambda x, at, y: x.clone().scatter_add_(0, at, y), lambda x, at, y: x.clone().scatter_(0, at, y),
    lambda x, at, y: x.index_reduce(0, at[:, 0], y[:0], "prod")])
def test_a_source_of_which_nothing_is_taken_has_the_gradient_0(add, device):
    x, at = volta.tensor([[-0.0, volta.inf]], device=device), volta.zeros(0, 2, dtype=volta.int64, device=device)
    y = volta.tensor([[volta.nan, 1.0]], device=device, requires_grad=True)
    result = add(x, at, y)
    assert result.requires_grad and result.tolist() == [[0.0, volta.inf]] and result.signbit().tolist() == [[True, False]]
    result.sum().backward()
    assert y.grad.tolist() == [[0.0, 0.0]]


@pytest.mark.parametrize("read", [lambda x, at: x.gather(0, at), lambda x, at: x.take_along_dim(at, 0)])
def test_nothing_gathered_is_no_view(read, device):
    x = volta.ones(0, 2, device=device)
    assert read(x, volta.zeros(0, 2, dtype=volta.int64, device=device))._base is None


def test_a_full_backward_hook_hears_of_all_inputs_where_none_wants_a_gradient(device):
    class Scaled(volta.nn.Module):
        def __init__(self):
            super().__init__()
            self.factor = volta.nn.Parameter(volta.ones((), device=device))

        def forward(self, x, y):
            return (x + y) * self.factor
    layer, heard = Scaled(), []
    layer.register_full_backward_hook(lambda module, given, made: heard.append((given, len(made))))
    with pytest.warns(UserWarning, match="Scaled: no input wants a gradient"):
        layer(volta.ones(2, device=device), volta.ones(2, device=device)).sum().backward()
    assert heard == [((None, None), 1)]


def test_misused_options_of_optimizers_raise_what_pytorchs_do():
    weight = volta.nn.Parameter(volta.ones(2, 2))
    with pytest.raises(ValueError, match="ns_steps must be less than 100"):
        volta.optim.Muon([weight], ns_steps=100)
    with pytest.raises(TypeError, match="lr_lambda must be a function"):
        volta.optim.lr_scheduler.LambdaLR(volta.optim.SGD([weight]), 3)


@pytest.mark.parametrize("name", ["sum", "mean", "prod", "nansum"])
@pytest.mark.parametrize("dtype", [volta.float32, volta.float16, volta.int32, volta.bool], ids=str)
def test_a_number_is_summed_as_what_has_dimensions_is(name, dtype, device):
    if name == "mean" and not dtype.is_floating_point:
        return
    for value in (3.0, 0.0, -0.0):
        x = volta.tensor(value, dtype=dtype, device=device)
        one, many = getattr(x, name)(), getattr(x.reshape(1), name)(0)
        assert one.dtype is many.dtype and one.shape == () and one.item() == many.item()
        assert not dtype.is_floating_point or one.signbit().item() is many.signbit().item() is (name == "prod" and str(value) == "-0.0")
    if dtype is volta.float32:
        x = volta.tensor(3.0, device=device, requires_grad=True)
        result = getattr(x, name)()
        assert name == "nansum" or result.grad_fn.name() == f"{name.capitalize()}Backward0"
        assert volta.autograd.grad(result, x)[0].item() == 1.0


@pytest.mark.parametrize("call", [volta.sin, volta.add, volta.cat, volta.mm, volta.sum])
@pytest.mark.parametrize("kind", [tuple, list])
def test_outs_of_one_result_are_refused_before_anything_else_is_looked_at(call, kind, device):
    x = volta.ones(3, device=device, requires_grad=True)
    for outs in (kind([x]), kind([x, x])):
        args = ([x, x],) if call is volta.cat else (x, x) if call in (volta.add, volta.mm) else (x,)
        with pytest.raises(TypeError, match=f"out must be a tensor, got {len(outs)} in a {kind.__name__}"):
            call(*args, out=outs)


def test_factors_by_position_may_be_tensors_without_dimensions(device):
    x, half = volta.tensor([1.0, 2.0], device=device), volta.tensor(0.5, device=device)
    assert x.add(half, x).tolist() == [1.5, 3.0]
    assert x.clone().add_(half, x).tolist() == [1.5, 3.0] and volta.sub(x, half, x).tolist() == [0.5, 1.0]
    assert x.addcmul(half, x, x).tolist() == [1.5, 4.0] and volta.addcdiv(x, half, x, x).tolist() == [1.5, 2.5]
    with pytest.raises(TypeError, match="2 positional arguments but 3"):
        volta.add(x, volta.tensor(0.5, device=device, requires_grad=True), x)
    with pytest.raises(TypeError, match="2 positional arguments but 3"):
        volta.add(x, x, x)


def test_limits_of_pythons_numbers_are_those_of_64_bits():
    assert volta.finfo(float) == volta.finfo(volta.float64) and volta.iinfo(int) == volta.iinfo(volta.int64)
    with pytest.raises(DTypeError, match="needs a floating point dtype, got <class 'int'>"):
        volta.finfo(int)
    with pytest.raises(DTypeError, match="needs an integer dtype, got <class 'bool'>"):
        volta.iinfo(bool)


def test_a_sparse_tensor_may_be_a_buffer_that_is_not_saved(device):
    layer, mask = volta.nn.Linear(2, 2, device=device), volta.tensor([[True, False], [True, True]], device=device)
    layer.register_buffer("mask", mask.to_sparse(), persistent=False)
    layer.register_buffer("scale", volta.eye(2, device=device).to_sparse(), persistent=False)
    assert list(layer.state_dict()) == ["weight", "bias"] and [name for name, _ in layer.named_buffers()] == ["mask", "scale"]
    half = copy.deepcopy(layer).half()
    assert half.scale.dtype is volta.float16 and half.mask.dtype is volta.bool and volta.equal(half.mask.to_dense(), mask)
    assert layer.to("cpu").mask.to_dense().tolist() == mask.tolist() and layer.scale.device.type == "cpu"
    with pytest.raises(RegistrationError, match="got SparseTensor; a sparse one cannot be saved: persistent=False"):
        layer.register_buffer("kept", volta.eye(2).to_sparse())
