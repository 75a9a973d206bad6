"""What a module may hold under which name, how it is moved, and what its hooks see after an error, as in PyTorch."""
import pytest

import volta
from volta import nn
from volta.errors import StateDictError


def layer():
    m = nn.Linear(2, 3)
    m.register_buffer("held", volta.zeros(2))
    m.register_buffer("passing", volta.zeros(2), persistent=False)
    m.below = nn.ReLU()
    return m


@pytest.mark.parametrize("name, value, kind", [("weight", nn.ReLU(), "a Parameter"), ("weight", nn.Buffer(volta.ones(2)), "a Parameter"),
                                               ("below", nn.Buffer(volta.ones(2)), "a Module"), ("below", 3, "a Module"),
                                               ("held", 3, "a tensor")])
def test_a_registered_name_keeps_its_kind(name, value, kind):
    m = layer()
    before = getattr(m, name)
    with pytest.raises(TypeError, match=f"Linear: attribute '{name}' is registered and takes {kind} or None"):
        setattr(m, name, value)
    assert getattr(m, name) is before


def test_a_parameter_in_the_place_of_a_passing_buffer_is_saved():
    m = layer()
    m.passing = nn.Parameter(volta.ones(2))
    assert "passing" in m.state_dict()


def test_set_submodule_replaces_modules_alone():
    m = layer()
    m.note = 3
    for name in ("weight", "note"):
        with pytest.raises(AttributeError, match=f"set_submodule: Linear has no module '{name}'"):
            m.set_submodule(name, nn.Tanh())
    m.set_submodule("new", nn.Tanh())
    with pytest.raises(AttributeError):
        m.get_submodule(None)


def test_to_by_position():
    m = layer()
    assert m.to("cpu", volta.float64, True).weight.dtype == volta.float64
    assert m.to(volta.float32, False).weight.dtype == volta.float32
    assert m.to(None, volta.float64).weight.dtype == volta.float64
    assert m.to(tensor=volta.ones(1)).weight.dtype == volta.float32
    for args, keywords in [((volta.float64, "cpu", 1), {}), (("cpu",), {"device": "cpu"}), ((volta.ones(1), "cpu", 1), {})]:
        with pytest.raises(TypeError, match="Module.to: takes"):
            m.to(*args, **keywords)
    with pytest.raises(TypeError, match="Module.to: non_blocking must be True or False, got 'cpu'"):
        m.to(volta.float64, "cpu")
    assert m.weight.dtype == volta.float32


def test_parameters_with_gradients_stay_floating_point():
    m = layer()
    with pytest.raises(RuntimeError, match="a parameter that requires gradients needs a floating point dtype, got volta.int64"):
        m.type(volta.int64)
    assert m.weight.dtype == volta.float32
    assert m.requires_grad_(False).type(volta.int64).weight.dtype == volta.int64
    with pytest.raises(TypeError, match="Module.type: needs a dtype, got None"):
        m.type(None)
    with pytest.raises(ValueError, match="'x' is no element type"):
        m.type("x")


def test_one_number_of_older_files_is_a_number_and_several_are_not():
    m = nn.BatchNorm1d(2)
    m.load_state_dict({**m.state_dict(), "num_batches_tracked": volta.ones(1)})
    assert m.num_batches_tracked.item() == 1
    with pytest.raises(StateDictError, match="size mismatch for num_batches_tracked"):
        m.load_state_dict({**m.state_dict(), "num_batches_tracked": volta.ones(7)})


def test_names_of_no_parameter():
    with pytest.raises(AttributeError, match="weight_norm: Linear has no parameter 'nothing'"):
        nn.utils.weight_norm(nn.Linear(2, 2), "nothing")
    assert not nn.utils.parametrize.is_parametrized(None)


def test_hooks_that_are_always_called_see_what_there_is():
    seen = []
    m = nn.Identity()
    m.register_forward_pre_hook(lambda m, args: (args[0] * 2,))

    def fails(m, args, output):
        raise ValueError("no")

    def always(m, args, output):
        seen.append((args[0].item(), output if output is None else output.item()))
        return output + 1

    m.register_forward_hook(fails)
    for _ in range(2):
        m.register_forward_hook(always, always_call=True)
    with pytest.raises(ValueError, match="no"):
        m(volta.tensor(2.0))
    assert seen == [(4, 4), (4, 5)]
    m.forward = fails
    with pytest.warns(UserWarning, match="a forward hook that is always called raised"), pytest.raises(TypeError, match="missing"):
        m(volta.tensor(2.0))
    assert seen[2:] == [(4, None), (4, None)]


def test_batches_that_are_not_counted_are_missing_but_in_older_files():
    layer = volta.nn.BatchNorm1d(2)
    state = layer.state_dict()
    del state["num_batches_tracked"]
    assert layer.load_state_dict(state, strict=False).missing_keys == ["num_batches_tracked"]
    assert layer.load_state_dict(dict(state)).missing_keys == []            # which says no version
