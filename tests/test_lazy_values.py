"""Parameters and buffers without a shape yet: what PyTorch refuses of them, and what goes on without values."""
import copy
import io

import pytest

import volta
from volta import nn


@pytest.mark.parametrize("call", [
    lambda p: p + 1, lambda p: 1 - p, lambda p: -p, lambda p: p == p, lambda p: p[0], lambda p: volta.ones(2) @ p,
    lambda p: volta.mul(p, 2),
    lambda p: abs(p), lambda p: p ** 2, lambda p: volta.zeros_like(p), lambda p: nn.functional.relu(p), lambda p: volta.cat([p, p]),
    lambda p: 1 in p, lambda p: p.requires_grad_(False), lambda p: p.detach(), lambda p: p.sum(), lambda p: p.__setitem__(0, 1)])
@pytest.mark.parametrize("kind", [nn.UninitializedParameter, nn.UninitializedBuffer])
def test_operators_refuse_them(call, kind):
    with pytest.raises(ValueError, match="before it has a shape; call the module with an input first, or load its state dict"):
        call(kind())


def test_what_needs_no_values():
    p = nn.UninitializedParameter()
    assert p.cls_to_become is nn.Parameter and p.ndim == 1 and p.requires_grad and repr(p) == "<UninitializedParameter>"
    model = nn.Sequential(nn.LazyLinear(3), nn.LazyBatchNorm1d()).double()
    state = model.state_dict()
    assert state["0.weight"] is model[0].weight and state["1.running_mean"] is model[1].running_mean
    volta.save(state, io.BytesIO())
    second = copy.deepcopy(model)
    assert second(volta.ones(2, 4, dtype=volta.float64)).shape == (2, 3)
    model.load_state_dict(second.state_dict())
    assert model[0].weight.shape == (3, 4) and (model[0].weight + 1).dtype is volta.float64
