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
from volta import autograd, data, errors, func, gpu, linalg, nn, ops, optim, random, utils
from volta._kernels.core.record import Primitive as _Primitive
from volta._kernels.core.threads import get_num_threads, set_num_threads
from volta.autograd import enable_grad, inference_mode, is_grad_enabled, no_grad, set_grad_enabled
from volta.device import device, set_mixed_device
from volta.dtypes import bool_ as bool
from volta.dtypes import (
    double,
    dtype,
    finfo,
    float16,
    float32,
    float64,
    get_default_dtype,
    half,
    iinfo,
    int32,
    int64,
    long,
    promote_types,
    result_type,
    set_default_dtype,
    uint8,
)
from volta.dtypes import float_ as float
from volta.dtypes import int_ as int
from volta.ops.table import FUNCTIONS as _FUNCTIONS
from volta.ops.table import PLACES as _PLACES
from volta.printing import set_printoptions
from volta.random import Generator, get_rng_state, initial_seed, manual_seed, seed, set_rng_state


def is_tensor(obj: object) -> "bool":
    """Whether `obj` is a Volta tensor."""
    return isinstance(obj, Tensor)


def is_floating_point(input: Tensor) -> "bool":
    """Whether the dtype of `input` is floating point."""
    return input.is_floating_point()


def is_signed(input: Tensor) -> "bool":
    """Whether the dtype of `input` has negative numbers."""
    return input.is_signed()


def is_nonzero(input: Tensor) -> "bool":
    """Whether the one element of `input` is not 0."""
    return input.is_nonzero()


def numel(input: Tensor) -> "int":
    """Number of elements."""
    return input.numel()


def __getattr__(name: str):
    """volta.io, volta.save and volta.load when they are first asked for: what they import takes a sixth of the time of `import volta`."""
    if name not in _FILES:
        raise AttributeError(f"module 'volta' has no attribute {name!r}")
    import volta.io
    globals().update(load=volta.io.load, save=volta.io.save)        # and the import has set `io`
    return globals()[name]


def __dir__():
    return sorted({*globals(), *_FILES})


globals().update({name: op for name, op in _FUNCTIONS.items() if _PLACES[name].function})        # the operations
globals().update({name + "_": getattr(Tensor, name + "_") for name, op in _FUNCTIONS.items()      # of one tensor, in place too
                  if isinstance(op, _Primitive) and len(op.names) == 1 and _PLACES[name].function and _PLACES[name].inplace})
_FILES = ("io", "load", "save")
_MODULES = (autograd, data, errors, func, gpu, linalg, nn, ops, optim, random, utils)
__all__ = sorted(name for name, value in globals().items()
                 if not name.startswith("_") and (value in _MODULES or not isinstance(value, type(ops)))) + ["__version__", "load", "save"]
