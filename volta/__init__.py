"""Volta: a PyTorch-shaped deep-learning framework for any CPU and, through wgpu, any GPU."""
__version__ = "0.1.0"

try:
    import volta.devices.cpu
except ImportError as error:
    if not (error.name or "").startswith("volta._kernels"):
        raise
    raise ImportError(f"volta: the kernels in {__path__[0]}/_kernels are not built ({error}); run: pip install -e . "
                      "(or start Python outside the checkout to use the installed package)") from None

from volta.tensor import Tensor  # isort: skip  (first: the function `tensor` below takes the submodule's name)
from importlib import import_module as _import_module
from operator import index as _index
from sys import meta_path as _meta_path

from volta import autograd, errors, gpu, linalg, ops, random, special
from volta._kernels.core.threads import get_num_threads, set_num_threads
from volta.autograd import (
    enable_grad,
    inference_mode,
    is_anomaly_check_nan_enabled,
    is_anomaly_enabled,
    is_grad_enabled,
    is_inference_mode_enabled,
    no_grad,
    set_anomaly_enabled,
    set_grad_enabled,
)
from volta.device import device, get_default_device, set_default_device, set_gpu_gaps, set_mixed_device
from volta.dtypes import (
    bfloat16,
    can_cast,
    double,
    dtype,
    finfo,
    float16,
    float32,
    float64,
    get_default_dtype,
    half,
    iinfo,
    int8,
    int16,
    int32,
    int64,
    long,
    promote_types,
    result_type,
    set_default_dtype,
    short,
    uint8,
)
from volta.dtypes import bool_ as bool
from volta.dtypes import float_ as float
from volta.dtypes import int_ as int
from volta.errors import DTypeError as _DTypeError
from volta.errors import OutOfMemoryError
from volta.late import modules_of as _modules_of
from volta.layout import channels_last, channels_last_3d, contiguous_format, layout, memory_format, preserve_format, strided
from volta.ops.table import FUNCTIONS as _FUNCTIONS
from volta.ops.table import PLACES as _PLACES
from volta.printing import set_printoptions
from volta.random import Generator, default_generator, get_rng_state, initial_seed, manual_seed, seed, set_rng_state
from volta.shapes import Size
from volta.shapes import broadcast_shapes as _broadcast_shapes


def is_tensor(obj: object) -> "bool":
    """Whether `obj` is a Volta tensor."""
    return isinstance(obj, Tensor)


def _tensor(name: str, input: object) -> Tensor:
    if not callable(getattr(input, name, None)):            # a tensor, or what stands for one
        raise _DTypeError(f"{name}: input must be a tensor, got {type(input).__name__}")
    return input


def is_floating_point(input: Tensor) -> "bool":
    """Whether the dtype of `input` is floating point."""
    return _tensor("is_floating_point", input).is_floating_point()


def is_complex(input: Tensor) -> "bool":
    """False: there is no complex dtype."""
    return _tensor("is_complex", input).is_complex()


def is_signed(input: Tensor) -> "bool":
    """Whether the dtype of `input` has negative numbers."""
    return _tensor("is_signed", input).is_signed()


def is_nonzero(input: Tensor) -> "bool":
    """Whether the one element of `input` is not 0."""
    return _tensor("is_nonzero", input).is_nonzero()


def broadcast_shapes(*shapes: "int | tuple[int, ...]") -> Size:
    """The shape that all of `shapes` broadcast to; a number is a shape of one dimension.

    Raises: ShapeError where sizes differ and neither is 1.

    >>> tuple(volta.broadcast_shapes((2, 1), 3))
    (2, 3)
    """
    try:
        shapes = [tuple(map(_index, (s,) if hasattr(s, "__index__") else s)) for s in shapes]
    except TypeError:
        raise _DTypeError(f"broadcast_shapes: needs ints and tuples of ints, got {', '.join(map(str, shapes))}") from None
    if [n for s in shapes for n in s if n < 0]:
        raise errors.ShapeError(f"broadcast_shapes: sizes must be at least 0, got {', '.join(map(str, shapes))}")
    return Size(_broadcast_shapes(*shapes))


def numel(input: Tensor) -> "int":
    """Number of elements."""
    return _tensor("numel", input).numel()


# Packages and names that are loaded when they are first asked for: they would take a third of the time of `import volta`.
_LATE_PACKAGES = ("accelerator", "amp", "backends", "compat", "compiler", "cuda", "data", "distributed", "distributions", "func", "fx",
                  "hub", "io", "jit", "library", "multiprocessing", "nn", "onnx", "optim", "overrides", "profiler", "quasirandom",
                  "serialization", "signal", "sparse", "testing", "utils", "vision")
_LATE_NAMES = {
    "kernel": "volta.own_kernel",
    **dict.fromkeys(("GradScaler", "autocast", "autocast_decrement_nesting", "autocast_increment_nesting", "clear_autocast_cache",
                     "get_autocast_cpu_dtype", "get_autocast_dtype", "get_autocast_gpu_dtype", "is_autocast_cache_enabled",
                     "is_autocast_cpu_enabled", "is_autocast_enabled", "set_autocast_cache_enabled", "set_autocast_cpu_dtype",
                     "set_autocast_cpu_enabled", "set_autocast_dtype", "set_autocast_enabled", "set_autocast_gpu_dtype"), "volta.amp"),
    "_assert": "volta.fx.node",
    **dict.fromkeys(("load", "save"), "volta.io"),
    "sparse_coo_tensor": "volta.sparse",
    **dict.fromkeys(("cond", "sym_float", "sym_int", "sym_ite", "sym_max", "sym_min", "sym_not", "sym_sqrt", "sym_sum", "while_loop"),
                    "volta.compat.control"),
    "vmap": "volta.batching",
    **dict.fromkeys(("BFloat16Tensor", "BoolTensor", "ByteTensor", "CharTensor", "DoubleTensor", "FloatTensor", "HalfTensor",
                     "IntTensor", "LongTensor", "ShortTensor", "set_default_tensor_type"), "volta.typed"),
    **dict.fromkeys(("are_deterministic_algorithms_enabled", "compile", "e", "get_deterministic_debug_mode", "get_device_module",
                     "get_float32_matmul_precision", "get_num_interop_threads", "inf", "is_deterministic_algorithms_warn_only_enabled",
                     "is_storage", "is_warn_always_enabled", "nan", "newaxis", "pi", "set_deterministic_debug_mode",
                     "set_float32_matmul_precision", "set_flush_denormal", "set_num_interop_threads", "set_warn_always",
                     "typename", "use_deterministic_algorithms", "version"), "volta.compat.names")}


_published = 0


def _publish() -> None:
    """Make the operations of the table names of this package, where there are new ones."""
    global _published
    if _published == len(_FUNCTIONS):
        return
    _published = len(_FUNCTIONS)
    for name, op in _FUNCTIONS.items():
        if _PLACES[name].function:
            globals()[name] = op
            if _PLACES[name].inplace or _PLACES[name].geometry:
                globals()[name + "_"] = getattr(Tensor, name + "_")
    globals().update({name: getattr(Tensor, name) for name in ("detach", "detach_", "index_put_")})


_find_module = _modules_of(__name__)


def __getattr__(name: str):
    """What is loaded late. A name that nobody knows may be one of the operations that volta.nn.functional declares."""
    if name in _LATE_PACKAGES:
        return _import_module(f"volta.{name}")
    if name in _LATE_NAMES:
        globals()[name] = getattr(_import_module(_LATE_NAMES[name]), name)
    elif name == "__all__":
        globals()[name] = _all_names()
    elif not name.startswith("__"):
        _import_module("volta.nn")
        _publish()
    return globals()[name] if name in globals() else _find_module(name)


def _all_names() -> list[str]:
    _import_module("volta.nn")
    _publish()
    modules = (autograd, errors, gpu, linalg, ops, random, special)
    names = (name for name, value in [*globals().items()] if value in modules or not isinstance(value, type(ops)))
    return sorted({*(name for name in names if not name.startswith("_")), *_LATE_PACKAGES, *_LATE_NAMES, "__version__"} - {"io"})


def __dir__() -> list[str]:
    return sorted({*globals(), *__getattr__("__all__")})


class _DeepNames:
    """Finds PyTorch's module names where Volta has fewer modules: `volta.distributions.normal`."""

    @staticmethod
    def find_spec(name: "str", path: object = None, target: object = None) -> object:
        """The module that serves `name`; None where there is none."""
        asked = name.startswith("volta.") and "._" not in name.replace("._utils", "")
        return _import_module("volta.compat.deep").find(name) if asked else None


_meta_path.append(_DeepNames)
_publish()
