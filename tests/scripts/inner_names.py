"""Inner names of PyTorch that packages of containers, of reinforcement learning and of meta-learning use."""
import torch
from torch import nn
from torch._ops import HigherOrderOperator
from torch._utils import _element_size, _get_available_device_type, _get_device_module, _take_tensors
from torch._vmap_internals import _vmap
from torch.amp.grad_scaler import OptState
from torch.autograd import forward_ad
from torch.distributed.elastic.multiprocessing.errors import record
from torch.distributions.constraints import _IndependentConstraint
from torch.distributions.kl import _KL_REGISTRY
from torch.nn import _reduction as _Reduction
from torch.nn.common_types import _size_2_t
from torch.nn.modules.conv import _ConvTransposeMixin
from torch.nn.modules.module import _global_parameter_registration_hooks, register_module_parameter_registration_hook
from torch.nn.modules.pooling import _AdaptiveAvgPoolNd
from torch.nn.modules.utils import _reverse_repeat_tuple
from torch.nn.parameter import _ParameterMeta
from torch.nn.utils._named_member_accessor import swap_tensor
from torch.optim.lbfgs import _cubic_interpolate, _strong_wolfe
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import is_traceable_wrapper_subclass
from torch.utils._pytree import is_structseq_instance
from torch.utils.tensorboard.writer import SummaryWriter
from torchvision.datasets.folder import default_loader

x = torch.tensor([[3.0, 1.0], [2.0, 5.0]])

# the classes of what functions give, by their names
kinds = torch.return_types
for found, kind, other in ((x.max(0), kinds.max, kinds.min), (torch.topk(x, 1), kinds.topk, kinds.sort),
                           (torch.linalg.svd(x), kinds.linalg_svd, kinds.linalg_qr), (torch.aminmax(x), kinds.aminmax, kinds.max),
                           (x.median(0), kinds.median, kinds.mode), (torch.linalg.slogdet(x), kinds.linalg_slogdet, kinds.linalg_eigh)):
    assert type(found) is kind and not isinstance(found, other) and is_structseq_instance(found), kind
    assert kind(tuple(found))[1] is found[1] and type(kind(list(found))) is kind
assert kinds.max((x, 3)).values is x and not hasattr(kinds, "exp") and not hasattr(kinds, "bogus") and not is_structseq_instance((1, 2))

# tensors of modules exchanged, whatever they are there
layer = nn.BatchNorm1d(2)
layer.other = x
new = torch.zeros(2)
for name, before in (("weight", layer.weight), ("running_mean", layer.running_mean), ("other", x)):
    assert swap_tensor(layer, name, new) is before and getattr(layer, name) is new
assert "weight" in layer._parameters and "running_mean" in layer._buffers
for asked, kind, text in ((lambda: swap_tensor(3, "a", x), TypeError, "3 is not an instance of torch.nn.Module"),
                          (lambda: swap_tensor(layer, "weight", 3), TypeError, "3 is not an instance of torch.Tensor"),
                          (lambda: swap_tensor(layer, "a.b", x), KeyError, "tensor name can"),
                          (lambda: swap_tensor(layer, "", x), KeyError, "empty string"),
                          (lambda: swap_tensor(layer, "none", x), AttributeError, "BatchNorm1d has no attribute `none`"),
                          (lambda: swap_tensor(layer, "eps", x), TypeError, "attribute `eps`: 1e-05 is not an instance of torch.Tensor"),
                          (torch.distributed.get_rank, ValueError, "init_process_group"),
                          (lambda: _get_device_module("abacus"), RuntimeError, "Device 'abacus' does not have a corresponding module")):
    try:
        asked()
    except kind as error:
        assert text in str(error), error
    else:
        raise AssertionError(text)
swap_tensor(layer, "none", x, allow_missing=True)
assert layer.none is x

# what is in force
seen = []
handle = register_module_parameter_registration_hook(lambda module, name, value: seen.append(name))
assert len(_global_parameter_registration_hooks) == 1
nn.Linear(1, 1, bias=False)
handle.remove()
assert seen == ["weight"] and not _global_parameter_registration_hooks
assert forward_ad._current_level == -1
with forward_ad.dual_level():
    assert forward_ad._current_level == 0
assert not torch._C._is_torch_function_mode_enabled()
with TorchFunctionMode():
    assert torch._C._is_torch_function_mode_enabled()
assert torch._C._is_alias_of(x, x[1]) and torch._C._is_alias_of(x, x.data) and not torch._C._is_alias_of(x, x.clone())
assert torch._guards.active_fake_mode() is None and not is_traceable_wrapper_subclass(x) and not isinstance(torch.exp, HigherOrderOperator)
assert (torch.distributions.Normal, torch.distributions.Normal) in _KL_REGISTRY and type(nn.Parameter) is _ParameterMeta
assert isinstance(torch.distributions.constraints.real, torch.distributions.constraints._Real)
assert _element_size(torch.float16) == 2 and _get_available_device_type() == ("cuda" if torch.cuda.is_available() else None)
assert _get_device_module("cuda").is_available() == torch.cuda.is_available() and _get_device_module("cpu").is_available()

# steps of searches, reductions, groups of tensors, annotations
for size, expected in ((1.0, 1.0), (0.1, 0.5)):
    step = _strong_wolfe(lambda x, t, d: (float(((x + t * d) ** 2).sum()), 2 * (x + t * d)), torch.ones(2), size, torch.full((2,), -2.0),
                         2.0, torch.full((2,), 2.0), -8.0)
    assert abs(step[2] - expected) < 0.51 and step[0] < 2 and step[3] >= 1, step
assert _cubic_interpolate(0.0, 1.0, -2.0, 2.0, 1.0, 2.0) == 1.0
assert [_Reduction.get_enum(name) for name in ("none", "mean", "sum")] == [0, 1, 2]
assert [_Reduction.legacy_get_string(*two, emit_warning=False) for two in ((None, None), (False, None), (True, False))] == [
    "mean", "sum", "none"] and _Reduction.legacy_get_enum(False, True, False) == 2
groups = list(_take_tensors([torch.ones(2), torch.ones(2).int(), torch.ones(3), torch.ones(1)], 16))
assert [[x.numel() for x in group] for group in groups] == [[2], [2], [3, 1]]
assert torch.equal(_vmap(lambda a: a.sum())(x), x.sum(1)) and _reverse_repeat_tuple((1, 2), 2) == (2, 2, 1, 1)
assert isinstance(nn.ConvTranspose2d(1, 1, 1), _ConvTransposeMixin) and isinstance(nn.AdaptiveAvgPool2d(1), _AdaptiveAvgPoolNd)
assert _size_2_t and OptState.STEPPED.value == 2 and SummaryWriter and default_loader
assert isinstance(torch.distributions.constraints.independent(torch.distributions.constraints.real, 1), _IndependentConstraint)


@record
def main():
    print("done")


main()
