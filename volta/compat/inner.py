"""What scripts take from inside PyTorch: its modules within modules, and names that begin with an underscore."""
from __future__ import annotations

import copy
import enum
import re
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from volta.data.loader import _DatasetKind
from volta.data.position import Batches
from volta.nn import functional
from volta.nn.container import ModuleList
from volta.nn.conv import _Convolution, _ConvTranspose
from volta.nn.dropouts import _Dropout
from volta.nn.hooks import (
    _registrations,
    register_module_buffer_registration_hook,
    register_module_forward_hook,
    register_module_forward_pre_hook,
    register_module_full_backward_hook,
    register_module_full_backward_pre_hook,
    register_module_module_registration_hook,
    register_module_parameter_registration_hook,
)
from volta.nn.init import fans, trunc_normal_
from volta.nn.loss import _Loss
from volta.nn.module import Module
from volta.nn.norm import _BatchNorm, _InstanceNorm
from volta.nn.parameter import Parameter, Uninitialized
from volta.nn.pool import _AdaptiveAvgPool, _AdaptiveMaxPool, _AvgPool, _MaxPool
from volta.nn.state import LoadResult, consume_prefix_in_state_dict_if_present
from volta.optim.lr_scheduler import LRScheduler
from volta.tensor import Tensor

# The names of modules whose contents are here names of the module above: "torch.nn.modules.conv".
MODULES = frozenset(
    "activation adaptive batchnorm channelshuffle container conv distance dropout flatten fold instancenorm lazy linear loss module "
    "normalization padding pixelshuffle pooling rnn sparse transformer upsampling utils modules "                       # torch.nn
    "optimizer adadelta adagrad adam adamw adamax asgd lbfgs nadam radam rmsprop rprop sgd sparse_adam "                # torch.optim
    "dataloader dataset sampler distributed collate worker pin_memory _utils "                                          # torch.utils.data
    "function variable grad_mode anomaly_mode graph gradcheck "                                                         # torch.autograd
    "bernoulli beta binomial categorical cauchy chi2 constraint_registry constraints continuous_bernoulli dirichlet distribution "
    "exp_family exponential fishersnedecor gamma generalized_pareto geometric gumbel half_cauchy half_normal independent inverse_gamma kl "
    "kumaraswamy laplace lkj_cholesky log_normal logistic_normal lowrank_multivariate_normal mixture_same_family multinomial "
    "multivariate_normal negative_binomial normal one_hot_categorical pareto poisson relaxed_bernoulli relaxed_categorical studentT "
    "transformed_distribution transforms uniform von_mises weibull wishart "                               # torch.distributions
    "autocast_mode grad_scaler clip_grad weight_norm spectral_norm convert_parameters init memory_format "
    "transforms functional autoaugment augmentation mnist cifar fakedata folder stl10 svhn vision "                     # torchvision
    "_utils boxes deform_conv drop_block feature_pyramid_network focal_loss giou_loss diou_loss ciou_loss misc poolers ps_roi_align "
    "ps_roi_pool roi_align roi_pool stochastic_depth deeplabv3 fcn lraspp".split())


def _ntuple(n: int, name: str = "parse") -> Callable[[Any], tuple[Any, ...]]:
    """The function that gives `n` numbers from one, or from a sequence of them."""
    def parse(x: Any) -> tuple[Any, ...]:
        return tuple(x) if isinstance(x, Iterable) else (x,) * n
    parse.__name__ = name
    return parse


class _RequiredParameter:
    def __repr__(self) -> str:
        return "<required parameter>"


class OptState(enum.Enum):
    """How far a GradScaler is with an optimizer."""
    READY, UNSCALED, STEPPED = range(3)


def _get_clones(module: Module, N: int) -> ModuleList:
    return ModuleList([copy.deepcopy(module) for _ in range(N)])


def _calculate_fan_in_and_fan_out(tensor: Any) -> tuple[int, int]:
    return fans("_calculate_fan_in_and_fan_out", tensor)


def _calculate_correct_fan(tensor: Any, mode: str) -> int:
    return fans("_calculate_correct_fan", tensor)[("fan_in", "fan_out").index(mode.lower())]


def _get_activation_fn(activation: str) -> Callable[[Tensor], Tensor]:
    """The function that a transformer's layer knows by this name. Raises: RuntimeError for another name."""
    if activation not in ("relu", "gelu"):
        raise RuntimeError(f"activation should be relu/gelu, not {activation}")
    return getattr(functional, activation)


def is_lazy(param: Any) -> bool:
    """Whether a parameter waits for its shape."""
    return isinstance(param, Uninitialized)


NAMES = {
    "_T_co": TypeVar("_T_co", covariant=True),
    "UninitializedTensorMixin": Uninitialized, "_ParameterMeta": type(Parameter),
    "ParamsT": Iterable[Tensor] | Iterable[dict[str, Any]] | Iterable[tuple[str, Tensor]],
    "_AdaptiveAvgPoolNd": _AdaptiveAvgPool, "_AdaptiveMaxPoolNd": _AdaptiveMaxPool, "_AvgPoolNd": _AvgPool,
    "_BaseDataLoaderIter": Batches, "_DatasetKind": _DatasetKind, "_IncompatibleKeys": LoadResult, "is_lazy": is_lazy,
    "_BatchNorm": _BatchNorm, "_ConvNd": _Convolution, "_ConvTransposeMixin": _ConvTranspose,
    "_ConvTransposeNd": _ConvTranspose, "_DropoutNd": _Dropout, "_InstanceNorm": _InstanceNorm,
    "_LRScheduler": LRScheduler, "_Loss": _Loss, "_MaxPoolNd": _MaxPool, "_NormBase": _BatchNorm, "_WeightedLoss": _Loss,
    "_calculate_correct_fan": _calculate_correct_fan, "_calculate_fan_in_and_fan_out": _calculate_fan_in_and_fan_out,
    "OptState": OptState, "_EXTRA_STATE_KEY_SUFFIX": "_extra_state",
    "_collate_fn_t": Callable[[list[Any]], Any], "_worker_init_fn_t": Callable[[int], None],
    "np_str_obj_array_pattern": re.compile(r"[SaUO]"),
    "_reverse_repeat_tuple": lambda t, n: tuple(x for x in reversed(t) for _ in range(n)),
    "_get_activation_fn": _get_activation_fn, "_get_clones": _get_clones,
    "_no_grad_trunc_normal_": trunc_normal_, "_ntuple": _ntuple, "required": _RequiredParameter(),
    **{hook.__name__: hook for hook in (
        register_module_buffer_registration_hook, register_module_forward_hook, register_module_forward_pre_hook,
        register_module_full_backward_hook, register_module_full_backward_pre_hook, register_module_module_registration_hook,
        register_module_parameter_registration_hook)},
    **{f"_global_{kind}_registration_hooks": hooks for kind, hooks in _registrations.items()},
    "consume_prefix_in_state_dict_if_present": consume_prefix_in_state_dict_if_present,
    **{name: _ntuple(n, name) for n, name in enumerate(("_single", "_pair", "_triple", "_quadruple"), 1)}}
# Names of one module, one of which is also that of a module in it, and where they are.
OWN = {"torch._subclasses.fake_tensor": {"is_fake": "volta.compat.internal"},
       "torch.optim.lbfgs": dict.fromkeys(("_cubic_interpolate", "_strong_wolfe"), "volta.compat.steps"),
       "torch._guards": {"active_fake_mode": "volta.compat.internal"},
       "torch.utils._python_dispatch": {"is_traceable_wrapper_subclass": "volta.compat.internal"},
       "torch.fx.experimental.proxy_tensor": {"get_proxy_mode": "volta.compat.internal"},
       "torch": dict.fromkeys(("_sample_dirichlet", "_standard_gamma"), "volta.distributions.gamma"),
       "torch.distributions.multivariate_normal": dict.fromkeys(
           ("_batch_mahalanobis", "_batch_mv", "_precision_to_scale_tril"), "volta.distributions.joint"),
       "torch.distributed.rpc": {"is_available": "volta.distributed"},
       "torch.distributed.autograd": {"is_available": "volta.distributed"},
       "torch.utils.data.dataloader": dict.fromkeys(
           ("_MultiProcessingDataLoaderIter", "_SingleProcessDataLoaderIter"), "volta.compat.iterators"),
       "torch.distributions.kl": {"_KL_REGISTRY": "volta.distributions.kl"},
       "torch.distributions.transforms": {"_clipped_sigmoid": "volta.distributions.elementwise_transforms"},
       "torch.autograd": dict.fromkeys(("gradcheck", "gradgradcheck"), "volta.testing"),
       **{f"torch.optim.{name}": {name: "volta.compat.steps"}
          for name in "adadelta adagrad adam adamax adamw radam rmsprop sgd".split()}}
