"""What packages on top of PyTorch ask of it: its version, names for tables and annotations, registries, operations of their own."""
import importlib.metadata
import os
import tempfile
from collections import OrderedDict, deque, namedtuple

import torch
import torch.nn as nn
import torch.utils._pytree as pytree
from torch._C import _TensorMeta
from torch._dynamo._trace_wrapped_higher_order_op import TransformGetItemToIndex
from torch._subclasses.fake_tensor import FakeTensor, is_fake
from torch._utils import _flatten_dense_tensors, _unflatten_dense_tensors
from torch.autograd.graph import save_on_cpu
from torch.autograd.profiler import record_function
from torch.distributed._tensor import DTensor
from torch.fx.experimental.proxy_tensor import get_proxy_mode
from torch.nn.attention.flex_attention import AuxRequest, flex_attention
from torch.nn.modules.module import _IncompatibleKeys
from torch.nn.parallel.distributed import DistributedDataParallel
from torch.nn.parameter import is_lazy
from torch.overrides import TorchFunctionMode, is_tensor_like
from torch.profiler import ProfilerActivity, profile
from torch.utils._foreach_utils import _group_tensors_by_device_and_dtype
from torch.utils.checkpoint import get_device_states, set_device_states
from torch.utils.data._utils.collate import np_str_obj_array_pattern
from torch.utils.data.dataloader import _BaseDataLoaderIter, _collate_fn_t, _MultiProcessingDataLoaderIter
from torch.utils.dlpack import from_dlpack, to_dlpack
from torch.utils.flop_counter import FlopCounterMode
from torch.utils.hooks import RemovableHandle
from torchvision.io import ImageReadMode, decode_image, encode_png, read_image, write_png

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
assert importlib.metadata.version("torch") == torch.__version__ and importlib.metadata.version("torchvision")
assert "torch" in importlib.metadata.packages_distributions() and torch.__config__.show()
assert not torch.distributed.is_available() and not torch.profiler.kineto_available()
assert isinstance(torch.ones(1), torch.Tensor) and isinstance(torch.Tensor, _TensorMeta) and is_tensor_like(torch.ones(1))

# names that are asked about; using one raises
assert FlopCounterMode(display=False).get_total_flops() == 0
for x in (3, torch.ones(1)):
    assert not isinstance(x, (torch.SymInt, TorchFunctionMode, torch.jit.ScriptModule, torch.TypedStorage, DistributedDataParallel))
try:
    torch.ones(1, dtype=torch.float8_e4m3fn)
except Exception as error:
    assert "got torch.float8_e4m3fn, of which there are no tensors" in str(error), error
else:
    raise AssertionError("float8")
assert torch.device("meta") != device and isinstance(torch.device("meta"), torch.device) and torch.device("meta").type == "meta"
with torch.device("meta"):
    assert torch.ones(1).is_meta
with profile(activities=[ProfilerActivity.CPU]) as measured:
    torch.ones(1).exp()
assert "exp" in measured.key_averages().table(sort_by="cpu_time_total")
assert torch.float8_e4m3fn.itemsize == 1 and torch.finfo(torch.float8_e4m3fn).max == 448 and not torch.uint16.is_floating_point
for name in ("bogus", "npu"):
    assert not hasattr(torch, name) and not hasattr(torch, name)
with record_function("step"), TransformGetItemToIndex(), torch.backends.cudnn.flags(enabled=False):
    assert not torch.backends.cudnn.enabled
assert torch.backends.cudnn.enabled

assert torch.torch.ones is torch.ones and torch.serialization.DEFAULT_PROTOCOL == 2 and not is_fake(torch.ones(1))
assert get_proxy_mode() is None and issubclass(torch.distributions.transforms._InverseTransform, torch.distributions.Transform)
assert np_str_obj_array_pattern.search("U") and not isinstance(torch.ones(1), (FakeTensor, DTensor)) and list[_collate_fn_t]
layer = nn.Linear(1, 1, bias=False)
with torch.nn.utils.stateless._reparametrize_module(layer, {"weight": torch.ones(1, 1)}):
    assert layer(torch.ones(1)).item() == 1

torch._check(True), torch._check_is_size(2), torch._assert_async(torch.ones(1))
for broken, kind in ((lambda: torch._check(False, lambda: "why"), RuntimeError), (lambda: torch._check_value(False), ValueError),
                     (lambda: torch._check(torch.tensor(True)), TypeError), (lambda: torch._check_is_size(-1), RuntimeError),
                     (lambda: torch._check_tensor_all(torch.tensor([True, False])), RuntimeError)):
    try:
        broken()
    except kind as error:
        assert kind is not RuntimeError or error.args
    else:
        raise AssertionError(kind)
assert torch._shape_as_tensor(torch.ones(2, 3)).tolist() == [2, 3] and torch.dsmm(torch.eye(2), torch.ones(2, 1)).shape == (2, 1)
assert torch.jit.isinstance({"a": torch.ones(1)}, dict[str, torch.Tensor]) and not torch.jit.isinstance([1.0], list[int])
assert torch.jit.isinstance((1, "a"), tuple[int, str]) and torch.jit.isinstance(None, int | None)
torch._dynamo.mark_static_address(torch.ones(1))
with torch._dynamo.utils.disable_cache_limit() as nothing:
    assert nothing is None
assert "indexing" in torch.meshgrid.__kwdefaults__
assert not isinstance(layer, torch._dynamo.eval_frame.OptimizedModule) and not isinstance(layer, torch.distributed.fsdp.FSDPModule)
for kind in ("mps", "xpu", "cpu"):
    with torch.autocast(kind, enabled=False):
        assert torch.mm(torch.ones(1, 1), torch.ones(1, 1)).dtype is torch.float32
kept = [torch.ones(2)]
torch._foreach_maximum_(kept, 2.0)
torch._foreach_minimum_(kept, [torch.tensor([1.0, 3.0])])
assert kept[0].tolist() == [1, 2]


class Holder:                               # functions that are attributes of classes are no methods
    act, convolve = torch.relu, nn.functional.conv1d


assert Holder().act(torch.tensor([-1.0, 2.0])).tolist() == [0, 2] and Holder().convolve(torch.ones(1, 1, 3), torch.ones(1, 1, 2)).sum() == 4


class Wrapped(torch.optim.Optimizer):       # as packages wrap optimizers: without the base's __init__
    def __init__(self, optimizer):
        self.optimizer, self.param_groups = optimizer, optimizer.param_groups

    def step(self, closure=None):
        return self.optimizer.step(closure)


layer.weight.grad = torch.ones(1, 1)
before = layer.weight.item()
Wrapped(torch.optim.SGD(layer.parameters(), lr=0.5)).step()
assert layer.weight.item() == before - 0.5

# files as safetensors opens them
with tempfile.TemporaryDirectory() as folder:
    with open(os.path.join(folder, "bytes"), "wb") as file:
        file.write(bytes(range(12)))
    opened = torch.UntypedStorage.from_file(file.name, False, 12)
    assert len(opened) == 12 and opened[3] == 3 and opened.untyped() is opened
    assert torch.asarray(opened[4:12], dtype=torch.uint8).view(torch.int32).tolist() == [117835012, 185207048]
    opened = None
assert layer._non_persistent_buffers_set == set()

# results that are awaited
future = torch.futures.Future()
following = future.then(lambda done: done.value() + 1)
together = torch.futures.collect_all([future, following])
assert not together.done()
future.set_result(torch.ones(2))
assert together.done() and following.wait().tolist() == [2, 2] and len(torch.futures.wait_all([future, following])) == 2
broken = future.then(lambda done: 1 / 0)
try:
    broken.wait()
except ZeroDivisionError:
    pass
else:
    raise AssertionError(broken)

# trees with classes of one's own
Pair = namedtuple("Pair", "a b")


class Box:
    def __init__(self, content):
        self.content = content


pytree.register_pytree_node(Box, lambda box: ([box.content], None), lambda content, _: Box(*content))
tree = {"a": Pair(1, [2, deque([3])]), "b": Box((4, OrderedDict(c=5)))}
leaves, spec = pytree.tree_flatten(tree)
assert leaves == [1, 2, 3, 4, 5] and spec.num_leaves == 5 and spec == pytree.tree_structure(tree) and not spec.is_leaf()
again = pytree.tree_unflatten([x * 2 for x in leaves], spec)
assert again["a"] == Pair(2, [4, deque([6])]) and again["b"].content == (8, OrderedDict(c=10))
assert pytree.tree_flatten(7)[1] == pytree.LeafSpec()
assert pytree.SUPPORTED_NODES[pytree._get_node_type(Pair(1, 2))].flatten_fn(Pair(1, 2))[0] == [1, 2]


# an operation of one's own
@torch.library.custom_op("tests::scaled", mutates_args=())
def scaled(x: torch.Tensor, factor: float = 2.0) -> torch.Tensor:
    return x * factor


@scaled.register_fake
def _(x, factor=2.0):
    return torch.empty_like(x)


x = torch.ones(3, device=device, requires_grad=True)
try:
    scaled(x).sum().backward()
    raise AssertionError
except RuntimeError as error:
    assert "no autograd formula" in str(error)
torch.library.register_autograd("tests::scaled", lambda ctx, g: (g * ctx.factor, None),
                                setup_context=lambda ctx, inputs, output: setattr(ctx, "factor", inputs[1]))
torch.ops.tests.scaled(x, factor=3.0).sum().backward()
assert x.grad.tolist() == [3, 3, 3] and not hasattr(torch.ops, "bogus")

assert torch.ops.aten.mm.default(torch.ones(2, 2), torch.ones(2, 2)).sum() == 8 and torch.ops.aten.mm.default is torch.ops.aten.mm.default
assert torch._foreach_norm([torch.tensor([3.0, -4.0])], ord=float("inf"))[0] == 4
groups = _group_tensors_by_device_and_dtype([[torch.ones(1), torch.ones(1).double()], [1, 2]], with_indices=True)
assert [found[0][1:] + [found[1]] for found in groups.values()] == [[[1], [0]], [[2], [1]]]

# memory
x = torch.ones(3, 4, device=device)
assert x[1:].untyped_storage().nbytes() == 48 and x.untyped_storage().data_ptr() == x[1].untyped_storage().data_ptr()
assert isinstance(x.untyped_storage(), torch.UntypedStorage) and x.layout is torch.strided and isinstance(torch.sparse_coo, torch.layout)
assert torch.equal(from_dlpack(to_dlpack(x.cpu())), x.cpu())
devices, states = get_device_states(x)
drawn = torch.rand(3, device=device)
set_device_states(devices, states)
assert len(devices) == (device.type == "cuda") and (not devices or torch.equal(drawn, torch.rand(3, device=device)))


# many tensors as one vector; libraries choose by the package of a tensor's class
vector = _flatten_dense_tensors([torch.ones(2, 3), torch.zeros(()), torch.full((4,), 2.0)])
parts = _unflatten_dense_tensors(vector, [torch.empty(2, 3), torch.empty(()), torch.empty(4)])
assert vector.shape == (11,) and [part.shape for part in parts] == [(2, 3), (), (4,)] and parts[2].tolist() == [2.0] * 4
parts[0].zero_()
assert vector[:7].sum() == 0 and _flatten_dense_tensors([vector]).data_ptr() == vector.data_ptr()
assert {kind.__module__.partition(".")[0] for kind in (torch.Tensor, nn.Parameter, nn.Buffer)} == {"torch"}

assert torch.eye(2, layout=torch.strided).shape == (2, 2) == torch.zeros(2, 2, layout=vector.layout, device="cpu").shape

# modules
class Collection(nn.ModuleDict):
    def update(self, modules):
        raise AssertionError("a container without contents is not updated")


Collection()
net = nn.Linear(3, 2).to(device)
assert [name for name, _ in nn.Sequential(net)._named_members(lambda module: module._parameters.items(), prefix="net")] == [
    "net.0.weight", "net.0.bias"]
calls = []
net._register_load_state_dict_pre_hook(lambda state, prefix, *_: calls.append(prefix))
assert isinstance(net.load_state_dict(net.state_dict()), _IncompatibleKeys) and calls == [""]
assert is_lazy(nn.LazyLinear(2).weight) and not is_lazy(net.weight)
assert isinstance(net.register_forward_hook(lambda *_: None), RemovableHandle)
batches = iter(torch.utils.data.DataLoader([1, 2]))
assert not isinstance(batches, _MultiProcessingDataLoaderIter) and issubclass(_BaseDataLoaderIter, object)
with save_on_cpu(pin_memory=True, device_type=device.type):
    (net(torch.ones(1, 3, device=device)) ** 2).sum().backward()
query = torch.randn(1, 2, 4, 8, device=device)
out, aux = flex_attention(query, query, query, return_aux=AuxRequest(lse=True, max_scores=True))
scores = query @ query.transpose(-2, -1) / 8 ** 0.5
assert torch.allclose(aux.max_scores, scores.amax(-1), atol=1e-5) and torch.allclose(aux.lse, scores.logsumexp(-1), atol=1e-5)

# images in files
image = torch.arange(2 * 3 * 4, dtype=torch.uint8).reshape(1, 4, 6).expand(3, 4, 6).contiguous()
with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "image.png")
    write_png(image, path)
    assert torch.equal(read_image(path), image) and read_image(path, ImageReadMode.GRAY).shape == (1, 4, 6)
    assert torch.equal(decode_image(encode_png(image)), image)
print("done")
