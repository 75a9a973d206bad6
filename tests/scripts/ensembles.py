"""What packages take from functorch, from `vmap` inside, and from other inner modules that they import."""
import torch
import torch.distributed.rpc
from functorch import combine_state_for_ensemble, grad, make_functional, make_functional_with_buffers, vmap
from torch import nn
from torch._C._functorch import _add_batch_dim, _remove_batch_dim, get_unwrapped, is_batchedtensor, maybe_get_level
from torch._functorch.vmap import _broadcast_to_and_flatten, _get_name, _maybe_remove_batch_dim
from torch.distributions.transforms import _clipped_sigmoid
from torch.jit import _get_trace_graph
from torch.nn.modules import *  # noqa: F403  (what a star gives is tested)
from torch.nn.modules.loss import *  # noqa: F403  (as above)
from torch.nn.modules.transformer import _get_activation_fn
from torch.nn.parameter import UninitializedTensorMixin
from torch.utils._contextlib import _DecoratorContextManager, _NoParamDecoratorContextManager, context_decorator
from torch.utils._pytree import SequenceKey, _list_flatten, _list_flatten_with_keys, _list_unflatten, tree_is_leaf, tree_structure
from torch.utils.data._utils.pin_memory import pin_memory
from torch.utils.data.sampler import _T_co

assert Linear is nn.Linear and _T_co  # noqa: F405  (it came by the star)
assert not isinstance(3, (torch.DeviceObjType, torch._C.Graph, UninitializedTensorMixin))
assert not torch.distributed.rpc.is_available() and not torch.distributed.autograd.is_available() and _get_trace_graph
assert _get_activation_fn("gelu") is nn.functional.gelu
for asked, kind, text in ((lambda: _get_activation_fn("tanh"), RuntimeError, "activation should be relu/gelu, not tanh"),
                          (lambda: make_functional(nn.BatchNorm1d(1)), RuntimeError, "make_functional_with_buffers")):
    try:
        asked()
    except kind as error:
        assert text in str(error), error
    else:
        raise AssertionError(text)
assert _clipped_sigmoid(torch.tensor([-500.0, 500.0])).tolist() == [torch.finfo(torch.float32).tiny, 1 - torch.finfo(torch.float32).eps]
batch = pin_memory({"x": torch.ones(1), "names": ["a", (torch.ones(1), 3)]})
assert isinstance(batch["x"], torch.Tensor) and batch["names"][0] == "a" and batch["names"][1][1] == 3

# modules as functions of their state
layer = nn.Linear(2, 1)
call, params = make_functional(layer)
x = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
assert torch.equal(call(params, x), layer(x)) and params[0].requires_grad and params[0] is not layer.weight
gradients = grad(lambda params, x: call(params, x).sum())(params, x)
assert gradients[0].tolist() == [[4.0, 6.0]] and gradients[1].tolist() == [2.0]
assert not make_functional(layer, disable_autograd_tracking=True)[1][0].requires_grad
norm = nn.BatchNorm1d(2).eval()
call, params, buffers = make_functional_with_buffers(norm)
assert torch.equal(call(params, buffers, x), norm(x)) and len(buffers) == 3
layers = [nn.Linear(2, 1), nn.Linear(2, 1)]
call, params, buffers = combine_state_for_ensemble(layers)
found = vmap(call, (0, 0, None))(params, buffers, x)
assert torch.allclose(found, torch.stack([each(x) for each in layers])) and params[0].shape == (2, 1, 2) and params[0].requires_grad

# vmap from inside
seen = []


def look(row):
    inner = _add_batch_dim(torch.arange(4.0).reshape(2, 2), 1, 1)
    seen.extend([is_batchedtensor(row), maybe_get_level(row), get_unwrapped(row).shape, inner.shape])
    return row + inner, torch.ones(())


assert vmap(look)(x)[0].tolist() == [[1.0, 4.0], [4.0, 7.0]] and seen == [True, 1, (2, 2), (2,)]
vmap(lambda row: seen.append((_remove_batch_dim(row * 2, 1, 2, 1).tolist(), _maybe_remove_batch_dim("f", 3, 1, 2, None))) or row)(x)
assert seen[4] == ([[2.0, 6.0], [4.0, 8.0]], 3) and not is_batchedtensor(x) and get_unwrapped(x) is x and maybe_get_level(x) == -1
form = tree_structure((1, [2, 3], {"a": 4}))
assert _broadcast_to_and_flatten((0, 1, None), form) == [0, 1, 1, None] and _broadcast_to_and_flatten((0, 1), form) is None
assert _broadcast_to_and_flatten((0, [1, (2,)], None), form) is None and _get_name(look) == "look"
assert _list_flatten([1, 2])[0] == _list_unflatten((1, 2), None) == [1, 2]
assert _list_flatten_with_keys([5])[0] == [(SequenceKey(0), 5)] and SequenceKey(3).idx == 3
assert tree_is_leaf(x) and not tree_is_leaf([x]) and tree_is_leaf([x], is_leaf=lambda tree: isinstance(tree, list))

# context managers that decorate
inside = []


class Within(_NoParamDecoratorContextManager):
    def __enter__(self):
        inside.append(1)

    def __exit__(self, *error):
        inside.pop()


@Within
def count(n):
    return n + len(inside)


@Within()
def counts():
    given = yield len(inside)
    yield given + len(inside)


steps = counts()
assert count(2) == 3 and next(steps) == 1 and not inside and steps.send(5) == 6 and not inside
assert issubclass(Within, _DecoratorContextManager)
with Within():
    assert count(2) == 4
assert context_decorator(lambda: Within(), lambda: len(inside))() == 1 and Within().clone() is not None
try:
    context_decorator(lambda: Within(), nn.Linear)
except RuntimeError:
    print("done")
