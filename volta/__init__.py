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
from volta import autograd, errors, gpu, ops
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
from volta.ops.arrange import (
    broadcast_tensors,
    diag,
    diagonal,
    fliplr,
    flipud,
    hstack,
    meshgrid,
    movedim,
    ravel,
    repeat_interleave,
    roll,
    select,
    swapaxes,
    swapdims,
    tensor_split,
    tile,
    trace,
    unflatten,
    vstack,
)
from volta.ops.arrange import movedim as moveaxis
from volta.ops.checks import explain_all as _explain_all
from volta.ops.creation import (
    arange,
    as_tensor,
    dropout,
    empty,
    empty_like,
    eye,
    from_numpy,
    full,
    full_like,
    linspace,
    ones,
    ones_like,
    rand,
    rand_like,
    randint,
    randint_like,
    randn,
    randn_like,
    randperm,
    tensor,
    tril,
    triu,
    zeros,
    zeros_like,
)
from volta.ops.einsum import einsum, inner, tensordot
from volta.ops.indexing import gather, index_add, index_select, one_hot, scatter_add, take_along_dim
from volta.ops.linalg import addmm, baddbmm, bmm, dot, matmul, mm, mv, outer
from volta.ops.movement import (
    broadcast_to,
    cat,
    chunk,
    clone,
    flatten,
    flip,
    narrow,
    permute,
    reshape,
    shrink,
    split,
    squeeze,
    stack,
    stride_op,
    t,
    transpose,
    unbind,
    unsqueeze,
)
from volta.ops.movement import cat as concat
from volta.ops.movement import cat as concatenate
from volta.ops.padding import pad
from volta.ops.reduce import (
    all,
    amax,
    amin,
    any,
    argmax,
    argmin,
    count_nonzero,
    log_softmax,
    logsumexp,
    max,
    mean,
    min,
    norm,
    prod,
    softmax,
    std,
    std_mean,
    sum,
    var,
    var_mean,
)
from volta.ops.subscript import masked_fill, masked_select, nonzero
from volta.ops.table import FUNCTIONS as _FUNCTIONS
from volta.ops.table import PLACES as _PLACES
from volta.printing import set_printoptions
from volta.random import Generator, initial_seed, manual_seed

from volta import data, nn, optim  # isort: skip  (last: they use all of the above)
from volta.nn.functional.conv import conv2d, max_pool2d  # isort: skip
from volta.io import load, save  # isort: skip


def is_tensor(obj: object) -> "bool":
    """Whether `obj` is a Volta tensor."""
    return isinstance(obj, Tensor)


def is_floating_point(input: Tensor) -> "bool":
    """Whether the dtype of `input` is floating point."""
    return input.is_floating_point()


def numel(input: Tensor) -> "int":
    """Number of elements."""
    return input.numel()


_explain_all(globals())
globals().update({name: op for name, op in _FUNCTIONS.items() if _PLACES[name].function})

_MODULES = ("autograd", "data", "errors", "gpu", "nn", "ops", "optim", "random")
__all__ = sorted(name for name, value in globals().items()
                 if not name.startswith("_") and (name in _MODULES or not isinstance(value, type(errors)))) + ["__version__"]
