"""Containers of modules and of parameters, where they do as PyTorch's in what is easily overlooked."""
from collections import OrderedDict

import pytest

import volta
from volta import nn


def test_a_slice_of_a_subclass_is_of_that_class():
    class Layers(nn.ModuleList):
        pass

    class Weights(nn.ParameterList):
        pass
    assert type(Layers([nn.ReLU(), nn.Tanh()])[1:]) is Layers
    assert type(Weights([volta.ones(1), volta.ones(2)])[:1]) is Weights


def test_sequential_is_repeated_in_place():
    model = nn.Sequential(nn.ReLU(), nn.Tanh())
    same = model
    same *= 3
    assert same is model and len(model) == 6 and model[4] is model[0]
    with pytest.raises(ValueError, match="Sequential: can be repeated a positive number of times, got 0"):
        model *= 0


def test_sequential_inserts_modules_alone():
    with pytest.raises(AssertionError, match="Sequential: needs modules, got NoneType"):
        nn.Sequential().insert(0, None)


def test_a_list_shows_places_whatever_names_stand_beside():
    layers = nn.ModuleList([nn.ReLU()])
    layers.extra = nn.ReLU()
    assert repr(layers) == "ModuleList(\n  (0-1): 2 x ReLU()\n)"


def test_a_plain_dict_of_parameters_is_sorted():
    values = {"b": volta.ones(1), "a": volta.ones(2)}
    assert list(nn.ParameterDict(values)) == ["a", "b"]
    for ordered in (OrderedDict(values), list(values.items()), nn.ParameterDict(list(values.items()))):
        assert list(nn.ParameterDict(ordered)) == ["b", "a"]
    assert list(nn.ParameterDict().fromkeys(["b", "a"])) == ["b", "a"]


def test_a_dict_beside_parameters():
    held = nn.ParameterDict({"b": 2})
    assert type({"a": 1} | held) is dict and {"a": 1} | held == {"a": 1, "b": 2}
    joined = held | [("c", 3)]
    assert type(joined) is nn.ParameterDict and list(joined) == ["b", "c"] and list(held) == ["b"]


def test_names_that_no_parameter_has():
    held = nn.ParameterDict({"a": 1})
    for error in (AttributeError, KeyError):
        with pytest.raises(error, match=r"ParameterDict: there is no 'b' among \['a'\]"):
            held["b"]
    with pytest.raises(TypeError, match="ParameterDict: names are strings, got 3"):
        held[3]
    with pytest.raises(TypeError, match="ParameterList: the index must be an integer or a slice, got 1.5"):
        nn.ParameterList([1, 2])[1.5]


@pytest.mark.parametrize("cls", [nn.ParameterDict, nn.ParameterList])
def test_containers_of_parameters_are_not_called(cls):
    with pytest.raises(RuntimeError, match=f"{cls.__name__}: should not be called"):
        cls()(1)


def test_pairs_that_are_none():
    for cls in (nn.ModuleDict, nn.ParameterDict):
        with pytest.raises(TypeError, match=f"{cls.__name__}: needs a dict"):
            cls([3])


def test_dir_names_what_can_be_written():
    names = dir(nn.Sequential(OrderedDict([("0", nn.ReLU()), ("act", nn.ReLU())])))
    assert "0" not in names and "act" in names
