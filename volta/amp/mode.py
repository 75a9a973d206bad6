"""Autocast: which ops compute in half precision, which in float32, and the context in which they do. As in PyTorch, CPUs and GPUs have
lists of their own.

It watches calls (`core.call.Observer`): a composed op that is listed below is given converted tensors, and what it calls is left alone;
records called by other functions are converted as they come. Backward has the dtypes of forward.
"""
from __future__ import annotations

import functools
import threading
import warnings
from collections.abc import Callable
from typing import Any

from volta import gpu
from volta._kernels.core import TensorBase
from volta._kernels.core.call import Observer, set_adapting
from volta.autograd import is_grad_enabled
from volta.dtypes import bfloat16, float16, float32
from volta.dtypes import dtype as DType
from volta.errors import ArgumentError, DTypeError
from volta.ops.records.copy import cast

__all__ = ["autocast", "autocast_decrement_nesting", "autocast_increment_nesting", "clear_autocast_cache", "get_autocast_dtype",
           "is_autocast_available", "is_autocast_cache_enabled", "is_autocast_enabled", "set_autocast_cache_enabled",
           "set_autocast_dtype", "set_autocast_enabled"]

_HALF = """addbmm addmm addmv addr attention baddbmm bmm chain_matmul conv1d conv2d conv3d conv_transpose1d conv_transpose2d
    conv_transpose3d einsum gru gru_cell linear lstm lstm_cell matmul mm multi_dot mv prelu recurrent rnn_relu rnn_relu_cell rnn_tanh
    rnn_tanh_cell scaled_dot_product_attention vecdot"""
_WIDE = """acos asin bce binary_cross_entropy binary_cross_entropy_with_logits cdist cosh cosine_embedding_loss cosine_similarity
    cross_entropy ctc_loss cumprod cumsum dist erfinv exp expm1 float_power gaussian_nll_loss group_norm gumbel_softmax
    hinge_embedding_loss kl_div l1_loss layer_norm linear_cross_entropy log log10 log1p log2 log_softmax logsumexp
    margin_ranking_loss matrix_norm mse_loss multi_margin_loss multilabel_margin_loss multilabel_soft_margin_loss nll_loss norm
    normalize pairwise_distance pdist poisson_nll_loss pow prod reciprocal renorm rms_norm row_norm rsqrt sinh smooth_l1_loss
    soft_margin_loss softmax softmin softplus sum tan triplet_margin_loss triplet_margin_with_distance_loss vector_norm"""
_WIDEST = "addcdiv addcmul atan2 bilinear cross dot grid_sample index_put scatter_add tensordot vdot"
_INSIDE = "batch_norm instance_norm"                    # float32 within, since it has statistics to keep; the result as the input
_ALIKE = "multi_head_attention_forward"                 # the products in it are converted, so that its inputs may differ
# What is computed here by functions that are listed, in PyTorch by one that is not.
_AS_GIVEN = "celu huber_loss logit mean nanmean nansum selu square std std_mean trace var var_mean"
# On CPUs fewer functions are kept from half precision: those that need its range, and those that have no kernels there in PyTorch.
_WIDE_ON_CPUS = """adaptive_avg_pool3d adaptive_max_pool3d avg_pool3d bce binary_cross_entropy binary_cross_entropy_with_logits cdist
    cholesky cholesky_ex cholesky_inverse cholesky_solve cond cosine_embedding_loss cross_entropy ctc_loss eigh eigvalsh
    fractional_max_pool2d fractional_max_pool3d geqrf grid_sample hinge_embedding_loss huber_loss inv inv_ex inverse
    kl_div l1_loss linear_cross_entropy lstsq lu_factor lu_factor_ex lu_solve margin_ranking_loss matrix_rank max_pool3d max_unpool2d
    max_unpool3d mse_loss multi_margin_loss multilabel_margin_loss nanquantile nll_loss orgqr ormqr pinverse poisson_nll_loss prod qr
    quantile smooth_l1_loss soft_margin_loss solve svd svdvals tensorinv tensorsolve trace triangular_solve triplet_margin_loss"""
_HALF_ON_CPUS = """addbmm addmm attention baddbmm bmm chain_matmul conv1d conv2d conv3d conv_tbc conv_transpose1d conv_transpose2d
    conv_transpose3d einsum linear lstm matmul mm multi_dot prelu rnn_relu rnn_relu_cell rnn_tanh rnn_tanh_cell
    scaled_dot_product_attention vecdot"""                      # what comes of the products in recurrences: functional/recurrent.py


def _policies(**lists):
    return {name: policy for policy, names in lists.items() for name in names.split()}


POLICIES = {"gpu": _policies(half=_HALF, wide=_WIDE, widest=_WIDEST, inside=_INSIDE, given=_AS_GIVEN, alike=_ALIKE),
            "cpu": _policies(half=_HALF_ON_CPUS, wide=_WIDE_ON_CPUS, widest="index_copy", inside=_INSIDE,
                            given="bilinear mv tensordot", alike=_ALIKE)}
_KINDS = (float16, bfloat16, float32)


_warned: set[str] = set()


def _warn_once(text):
    if text not in _warned:
        _warned.add(text)
        warnings.warn(text, stacklevel=4)


class _State(threading.local):
    def __init__(self) -> None:
        self.enabled = {"cpu": False, "gpu": False, "other": False}
        self.dtype = {"cpu": bfloat16, "gpu": float16, "other": float16}
        self.cached, self.cache = True, {}
        self.depth, self.regions = 0, 0     # how deeply programs say that regions nest, and how deeply those of `autocast` do
        self.holds = False                  # whether autocast was switched on outside all of these


_state = _State()


class _Watcher(Observer):
    """What converts, while there is any autocast in any thread."""

    def compose(self, op, args, options):
        """A listed op on converted tensors."""
        first = next(_tensors((*args, *options.values())), None) if op.__name__ in _LISTED else None
        if first is None or not _state.enabled[_kind(first)]:
            return NotImplemented
        policy = POLICIES[_kind(first)].get(op.__name__)
        if policy is None:
            return NotImplemented
        if policy == "alike":
            if len({t.dtype for t in _tensors(args[:3])}) < 2:
                return NotImplemented
            return op(*_converted("half", args[:3], _state.dtype[_kind(first)]), *args[3:], **options)
        if policy != "given" and options.get("dtype") is None and options.get("out") is None:
            args, options = _converted(policy, (args, options), _state.dtype[_kind(first)])
        previous = set_adapting(False)
        try:
            result = op(*args, **options)
        finally:
            set_adapting(previous)
        return cast(result, first.dtype) if policy == "inside" and first.dtype is not float32 else result

    def adapt(self, op, inputs):
        """Inputs of a listed record."""
        first = next(_tensors(inputs), None) if op.name in _LISTED else None
        policy = None if first is None or not _state.enabled[_kind(first)] else POLICIES[_kind(first)].get(op.name)
        return inputs if policy is None else _converted(policy, inputs, _state.dtype[_kind(first)])


_LISTED = frozenset().union(*POLICIES.values())
_watcher = _Watcher()


def _kind(tensor):
    return "gpu" if tensor.device.is_gpu else "cpu"


def _tensors(values):
    """The tensors in half precision and in float32, also those in lists."""
    for value in values:
        if isinstance(value, TensorBase):
            if value.dtype in _KINDS:
                yield value
        elif isinstance(value, (list, tuple)):
            yield from _tensors(value)


def _flat(values):
    return (*values[0], *values[1].values()) if len(values) == 2 and isinstance(values[1], dict) else values


def _converted(policy, values, half):
    """Nested values with the tensors in half precision and in float32 in the policy's dtype."""
    target = half if policy == "half" else float32
    if policy == "widest" and all(t.dtype is half for t in _tensors(_flat(values))):
        return values

    def convert(value):
        if isinstance(value, TensorBase):
            return _cast(value, target) if value.dtype in _KINDS and value.dtype is not target else value
        if isinstance(value, dict):
            return {name: convert(v) for name, v in value.items()}
        return type(value)(map(convert, value)) if type(value) in (list, tuple) else value

    return convert(values)


def _cast(tensor, dtype):
    """`tensor` as `dtype`; of a parameter once, until it is changed or autocast ends."""
    if dtype is float32 or not _state.cached or not (tensor.is_leaf and tensor.requires_grad):
        return cast(tensor, dtype)
    key = id(tensor), tensor._version, is_grad_enabled(), dtype
    if key not in _state.cache:
        _state.cache[key] = tensor, cast(tensor, dtype)             # the tensor too, so that its id stays its own
    return _state.cache[key][1]


_OTHERS = frozenset("hpu ipu maia mps mtia xla xpu".split())          # devices that programs name in turn, and no tensor is on


def _device_type(name):
    if not isinstance(name, str):
        raise ArgumentError(f"autocast: device_type must be a string such as 'cuda', got {name!r}")
    if name in _OTHERS:
        return "other"
    if name.partition(":")[0] not in ("cpu", "cuda", "gpu"):
        raise ArgumentError(f"autocast: device_type must be 'cpu', 'cuda' or 'gpu', got {name!r}")
    return "cpu" if name == "cpu" else "gpu"


def _usable(device, dtype):
    """The dtype that products have under autocast to this one on this kind of device, None for none; warns where it is not what was asked
    for."""
    name = getattr(dtype, "name", dtype)
    if name not in ("bfloat16", "float16"):
        warnings.warn(f"autocast: dtype must be float16 or bfloat16, got {dtype}; autocast is off", stacklevel=4)
        return None
    if device != "gpu":
        return bfloat16 if name == "bfloat16" else float16
    if name == "bfloat16":
        _warn_once("autocast: bfloat16 is computed as float16 on a GPU; small gradients need a GradScaler")
    if not (gpu.is_available() and "shader-f16" in gpu.devices()[0].features):
        _warn_once("autocast: there is no GPU that has shader-f16; autocast is off there")
        return None
    return float16


class resumed:
    """Context manager for what runs again in backward: autocast as it was in this thread when this was made."""

    def __init__(self) -> None:
        self._enabled, self._dtype = dict(_state.enabled), dict(_state.dtype)

    def __enter__(self) -> None:
        pairs = [(name, on) for name, on in self._enabled.items() if name != "other"] if any(self._enabled.values()) else []
        self._regions = [autocast(name, self._dtype[name], enabled) for name, enabled in pairs]
        for region in self._regions:
            region.__enter__()

    def __exit__(self, *exc: object) -> None:
        for region in reversed(self._regions):
            region.__exit__()


class autocast:
    """Context manager and decorator: inside, on devices of `device_type`, matrix products, convolutions and attention compute in half
    precision, functions that would overflow in float32, and the results have these dtypes. float64 stays. Half precision is bfloat16 on a
    CPU, unless `dtype` is float16, and float16 on a GPU, where bfloat16 means that too, with a warning; without a GPU that has float16, and
    for other dtypes, nothing changes, with a warning.

    Example:
        >>> layer = volta.nn.Linear(2, 2)
        >>> with volta.autocast("cpu"):
        ...     y = layer(volta.ones(1, 2))
        ...     print(y.dtype, volta.nn.functional.mse_loss(y, y).dtype)
        volta.bfloat16 volta.float32
    """

    def __init__(self, device_type: str, dtype: DType | None = None, enabled: bool = True,
                 cache_enabled: bool | None = None) -> None:
        self.device = device_type
        self._kind = _device_type(device_type)
        self._dtype = _usable(self._kind, _state.dtype[self._kind] if dtype is None else dtype) if enabled else None
        self._cached = cache_enabled
        self._previous: list[tuple[bool, DType, bool, bool]] = []

    def __enter__(self) -> autocast:
        self._previous.append((_state.enabled[self._kind], _state.dtype[self._kind], _state.cached, set_adapting(True)))
        _state.enabled[self._kind] = self._dtype is not None
        _state.dtype[self._kind] = self._dtype or _state.dtype[self._kind]
        _state.cached = _state.cached if self._cached is None else self._cached
        _state.regions += 1
        autocast_increment_nesting()
        _watcher.__enter__()
        return self

    def __exit__(self, *exc: object) -> None:
        _state.enabled[self._kind], _state.dtype[self._kind], _state.cached, adapting = self._previous.pop()
        set_adapting(adapting)
        _state.regions -= 1
        _watcher.__exit__()
        if not autocast_decrement_nesting():
            clear_autocast_cache()

    def __call__(self, func: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(func)
        def inside(*args, **kwargs):
            with self:
                return func(*args, **kwargs)
        return inside


def is_autocast_available(device_type: str) -> bool:
    """Whether there is autocast for this kind of device."""
    return _device_type(device_type) in _state.enabled


def is_autocast_enabled(device_type: str = "cuda") -> bool:
    """Whether autocast is on in this thread for this kind of device."""
    return _state.enabled[_device_type(device_type)]


def set_autocast_enabled(device_type: str | bool, enabled: bool | None = None) -> None:
    """Switch autocast in this thread: inside of a `with autocast(...)` until it ends, elsewhere until it is switched off again. A bool
    alone is for GPUs, as in PyTorch."""
    if enabled is None:
        device_type, enabled = "cuda", device_type
    if not isinstance(enabled, bool):
        raise DTypeError(f"set_autocast_enabled: enabled must be True or False, got {enabled!r}")
    kind = _device_type(device_type)
    _state.enabled[kind] = enabled and _usable(kind, _state.dtype[kind]) is not None
    if not _state.regions and _state.holds != any(_state.enabled.values()):
        _state.holds = not _state.holds
        _watcher.__enter__() if _state.holds else _watcher.__exit__()


def get_autocast_dtype(device_type: str) -> DType:
    """The dtype of products under autocast."""
    return _state.dtype[_device_type(device_type)]


def set_autocast_dtype(device_type: str, dtype: DType) -> None:
    """Set the dtype of products under autocast in this thread. Raises: ArgumentError for one that they cannot have."""
    found = _usable(_device_type(device_type), dtype)
    if found is None:
        raise ArgumentError(f"set_autocast_dtype: needs float16 or bfloat16, got {dtype}")
    _state.dtype[_device_type(device_type)] = found


def is_autocast_cache_enabled() -> bool:
    """Whether parameters are converted once."""
    return _state.cached


def set_autocast_cache_enabled(enabled: bool) -> None:
    """Whether parameters are converted once."""
    _state.cached = bool(enabled)


def autocast_increment_nesting() -> int:
    """Enter a region whose end may clear the cache; how many there are now in this thread."""
    _state.depth += 1
    return _state.depth


def autocast_decrement_nesting() -> int:
    """Leave a region; how many there are now: at 0, programs clear the cache."""
    _state.depth -= 1
    return _state.depth


def clear_autocast_cache() -> None:
    """Forget converted parameters."""
    _state.cache.clear()
