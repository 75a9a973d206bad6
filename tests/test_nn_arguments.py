"""Wrong calls of volta.nn's functions and containers: the error is Volta's own, opens with the function and names the argument."""
import inspect
import math

import numpy as np
import pytest

import volta
from volta import nn
from volta.errors import ArgumentError, DTypeError, ShapeError, VoltaError

WRONG = {
    "Tensor": (None, 3, 2.5, "x", [1.0], np.ones(2), object()),
    "float": ("x", "1", None, [1.0], object(), {}, volta.zeros(2), math.nan),
    "float | None": ("x", [1.0], object(), volta.zeros(2)),
    "str": (None, 3, "x", [1], object(), volta.zeros(2)),
    "Generator | None": (3, "x", object(), volta.zeros(2)),
    "Tensor | Iterable[Tensor]": (None, 3, "x", ["x"], [1.0], object()),
    "Iterable[Tensor]": (None, 3, "x", ["x"], [1.0], object()),
    "int": ("x", None, 0.5, [1], object(), volta.zeros(2)),
    "bool": (),
    "bool | None": (),
}
LAYERS = {"skip_init", "convert_conv2d_weight_memory_format", "convert_conv3d_weight_memory_format"}    # take modules: other tests
ALLOWED = {("constant_", "val", math.nan)}
SHAPES = {"dirac_": (3, 4, 3), "clip_grads_with_norm_": ()}
FIRST = {"calculate_gain": "relu", "parameters_to_vector": [volta.zeros(2)]}


@pytest.mark.parametrize("function", [getattr(module, name) for module in (nn.init, nn.utils.parameters)
                                      for name in sorted(set(module.__all__) - LAYERS)])
def test_a_wrong_argument_is_named(function, each):
    own_name, parameters = function.__name__, inspect.signature(function).parameters
    arguments = {name: 0.5 for name, p in parameters.items() if p.default is p.empty}
    for name, p in parameters.items():
        if "Tensor" in p.annotation:
            arguments[name] = volta.zeros(SHAPES.get(own_name, (3, 4))) if p.annotation == "Tensor" else [volta.zeros(2)]
    if "nonlinearity" in parameters:
        arguments["nonlinearity"] = "leaky_relu"

    def check(call):
        wrong, value = call
        with pytest.raises((DTypeError, ArgumentError)) as error:
            function(**{**arguments, wrong: value})
        text = str(error.value)
        names = f"{own_name}: ", f"{own_name}_: "       # an older name is answered by the one that it stands for
        assert text.startswith(names) and wrong in text, text
        assert volta.is_grad_enabled()
    each(check, [(wrong, value) for wrong, p in parameters.items() for value in WRONG[p.annotation]
                 if not any((own_name, wrong) == entry[:2] and value is entry[2] for entry in ALLOWED)])


@pytest.mark.parametrize("call, text", [
    (lambda w: nn.init.xavier_uniform_(w, -1.0), "xavier_uniform_: gain must be >= 0, got -1.0"),
    (lambda w: nn.init.normal_(w, std=-1), "normal_: std must be >= 0, got -1"),
    (lambda w: nn.init.uniform_(w, 2, 1), "uniform_: needs low <= high, got 2.0 and 1.0"),
    (lambda w: nn.init.trunc_normal_(w, std=0), "trunc_normal_: needs std > 0 and a <= b, got std=0.0, a=-2.0, b=2.0"),
    (lambda w: nn.init.trunc_normal_(w, a=2, b=1), "trunc_normal_: needs std > 0 and a <= b"),
    (lambda w: nn.init.kaiming_normal_(w.long()), "kaiming_normal_: tensor must be of a floating point dtype, got volta.int64"),
    (lambda w: nn.init.kaiming_normal_(w[0]), "kaiming_normal_: needs a tensor of 2 dimensions or more, got (4,)"),
    (lambda w: nn.init.kaiming_normal_(w, nonlinearity="swish"), "kaiming_normal_: unknown nonlinearity 'swish'"),
    (lambda w: nn.ModuleList(5), "ModuleList: needs modules, got int"),
    (lambda w: nn.ModuleList([5]), "ModuleList: needs modules, got int"),
    (lambda w: nn.Sequential(5), "Sequential: needs modules, got int"),
    (lambda w: nn.ModuleDict(5), "ModuleDict: needs a dict of modules, got int"),
    (lambda w: nn.ModuleDict(0), "ModuleDict: needs a dict of modules, got int"),
    (lambda w: nn.ModuleDict([1]), "ModuleDict: needs a dict of modules or (name, module) pairs, got 1"),
    (lambda w: nn.ModuleDict({"a": 5}), "ModuleDict: needs modules, got int"),
    (lambda w: nn.ModuleDict({3: nn.ReLU()}), "register_module: the name must be a non-empty string without a dot, got 3"),
    (lambda w: nn.ParameterList(5), "ParameterList: needs parameters, got int"),
    (lambda w: nn.Parameter(5), "Parameter: needs a tensor, got int"),
])
def test_values_that_make_no_sense(call, text):
    with pytest.raises(VoltaError) as error:
        call(volta.zeros(3, 4))
    assert isinstance(error.value, (ArgumentError, DTypeError, ShapeError)) and str(error.value).startswith(text), error.value


def test_what_stays_allowed():
    w = volta.zeros(2, 2)
    assert math.isnan(nn.init.constant_(w, math.nan)[0, 0].item())
    assert nn.init.constant_(w.long(), 2 ** 62)[0, 0].item() == 2 ** 62 and nn.init.constant_(w, True).tolist() == [[1, 1], [1, 1]]
    assert nn.init.normal_(w, np.float32(3), volta.tensor(0.0)).tolist() == [[3, 3], [3, 3]]
    assert nn.init.zeros_(volta.ones(2, dtype=volta.bool)).tolist() == [False, False]
    assert nn.init.kaiming_uniform_(volta.zeros(0, 3)).shape == (0, 3)


def test_limits_that_are_nan_give_nan(device):
    x = volta.tensor([-2.0, 0.5, 2.0], device=device)
    for limits in ((math.nan, 1.0), (-1.0, math.nan)):
        assert all(map(math.isnan, nn.functional.hardtanh(x, *limits).tolist()))
        assert all(map(math.isnan, nn.functional.hardtanh_(x.clone(), *limits).tolist()))


def test_arguments_that_pytorch_does_not_look_at():
    x = volta.tensor([[0.0, 1.0], [2.0, 3.0]])
    for function in (nn.functional.softmax, nn.functional.log_softmax, nn.functional.softmin):
        assert volta.equal(function(x, 1, volta.float64), function(x, 1))
    assert volta.equal(volta.rsub(x, 1, 2), 1 - 2 * x)


def test_modes_of_kaiming_in_capitals():
    assert volta.nn.init.kaiming_normal_(volta.empty(2, 3), mode="FAN_OUT").shape == (2, 3)
    with pytest.raises(ArgumentError, match="mode must be 'fan_in' or 'fan_out', got 'FAN'"):
        volta.nn.init.kaiming_normal_(volta.empty(2, 3), mode="FAN")
