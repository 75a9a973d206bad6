"""How tensors lie: where, whether like another, and tensors that get another size in place."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from volta._kernels import core
from volta._kernels.core import inplace
from volta._kernels.core.graph import is_grad_enabled
from volta.dtypes import float16
from volta.errors import ArgumentError, AutogradError, DeviceError, DTypeError
from volta.layout import channels_last, channels_last_3d, contiguous_format, preserve_format
from volta.ops.arrange import as_strided
from volta.ops.copy import copy_into, suggested
from volta.ops.records.create import empty_op
from volta.ops.table import case, composed, create
from volta.shapes import as_shape, listed
from volta.storage import UntypedStorage

if TYPE_CHECKING:
    from volta.layout import memory_format as Layout
    from volta.tensor import Tensor

_fact = composed(function=False, untested="tests/test_geometry_in_place.py: no values come of it")


# ---------------------------------------------------------------- facts
@composed(samples=(case((2, 3), (2, 3)), case((2, 3), (3, 2)), case((), (1,))), kinds="fib", smooth=False,
          numpy=lambda x, other: x.shape == other.shape)
def is_same_size(input: Tensor, other: Tensor) -> bool:
    """Whether two tensors have one shape.

    >>> volta.is_same_size(volta.ones(2), volta.ones(3))
    False
    """
    return input.shape == other.shape


@composed(untested="tests/test_geometry_in_place.py: it depends on the device")
def get_device(input: Tensor) -> int:
    """The number of the GPU that holds the tensor; -1 for the CPU.

    >>> volta.get_device(volta.ones(2))
    -1
    """
    return input.device.index if input.device.is_gpu else -1


@composed(untested="tests/test_geometry_in_place.py: no values come of it")
def is_inference(input: Tensor) -> bool:
    """Whether it was made under `inference_mode`, or shows what was.

    >>> volta.is_inference(volta.ones(2))
    False
    """
    return core.is_inferred(input)


@_fact
def is_set_to(input: Tensor, tensor: Tensor) -> bool:
    """Whether two tensors show the same memory in the same way.

    >>> x = volta.ones(2, 3)
    >>> x.is_set_to(x.view(2, 3)), x.is_set_to(x.view(3, 2))
    (True, False)
    """
    return core.same_memory(input, tensor) and (input.shape, input._strides, input.offset) == (tensor.shape, tensor._strides, tensor.offset)


@_fact
def is_pinned(input: Tensor, device: str | None = None) -> bool:
    """Whether the memory is page-locked: it never is, transfers take any.

    >>> volta.ones(2).is_pinned()
    False
    """
    return False


def _false(name: str, doc: str, function: bool = False) -> Callable:
    """Declare a fact that holds for no tensor here."""
    def fact(input: Tensor) -> bool:
        return False
    fact.__name__ = fact.__qualname__ = name
    fact.__doc__ = f"""{doc}

    >>> volta.ones(2).{name}()
    False
    """
    return composed(function=function, untested="tests/test_geometry_in_place.py: no values come of it")(fact)


is_conj = _false("is_conj", "False: there are no complex numbers that wait to be conjugated.", True)
is_neg = _false("is_neg", "False: no tensor waits to be negated.", True)
is_distributed = _false("is_distributed", "False: a tensor lies on one device.", True)


@_fact
def is_shared(input: Tensor) -> bool:
    """Whether other processes may see the memory: after `share_memory_()`.

    >>> volta.ones(2).is_shared()
    False
    """
    return not input.device.is_gpu and getattr((input.storage.root or input.storage).buffer, "is_shared", False)


@_fact
def dense_dim(input: Tensor) -> int:
    """Number of dimensions that are stored whole: all.

    >>> volta.ones(2, 3).dense_dim()
    2
    """
    return input.ndim


@_fact
def sparse_dim(input: Tensor) -> int:
    """Number of dimensions stored by coordinates: none.

    >>> volta.ones(2, 3).sparse_dim()
    0
    """
    return 0


def _is_outer(input, a, b):
    """1 where dimension `a` lies outside `b`, -1 inside, 0 where the strides do not say it."""
    step, other = input._strides[a], input._strides[b]
    if step == 0 or other == 0 or (step == other and input.shape[a] <= input.shape[b]):
        return 0
    return 1 if step >= other else -1


def _check_order(input, check):
    formats = check if isinstance(check, (list, tuple)) else []
    if not (isinstance(check, bool) or formats and all(each in (contiguous_format, channels_last, channels_last_3d) for each in formats)):
        raise DTypeError(f"dim_order: ambiguity_check must be a bool or a list of memory formats, got {check!r}")
    several = 1 in input.shape or any(a == b for a, b in pairwise(input._strides))
    if 0 in input._strides or several and sum(input.is_contiguous(memory_format=each) for each in formats) != 1:
        raise ArgumentError(
            f"dim_order: the dimensions of shape {input.shape} with strides {input._strides} have several orders"
            f"{', and not exactly one of the formats fits' if formats else ''}; leave ambiguity_check out to get one of them")


@_fact
def dim_order(input: Tensor, *, ambiguity_check: bool | Sequence[Layout] = False) -> tuple[int, ...]:
    """The dimensions from the outermost in memory to the innermost. With `ambiguity_check` there must be one such order only, or with a
    list of memory formats one that fits.

    Raises: ArgumentError where `ambiguity_check` finds several orders.

    >>> volta.ones(2, 3).t().dim_order()
    (1, 0)
    """
    if ambiguity_check is not False:
        _check_order(input, ambiguity_check)
    order = list(range(input.ndim))
    for each in (contiguous_format, channels_last, channels_last_3d):
        if input.is_contiguous(memory_format=each):
            return tuple(order) if each is contiguous_format else (0, *order[2:], 1)
    for i in range(1, input.ndim):
        place = i
        for j in range(i - 1, -1, -1):
            outer = _is_outer(input, order[place], order[j])
            if outer < 0:
                break
            if outer > 0:
                order[j], order[place] = order[place], order[j]
                place = j
    return tuple(order)


# ---------------------------------------------------------------- other sizes
def _strides(shape: tuple[int, ...], memory_format: Layout | None) -> tuple[int, ...]:
    if memory_format is None or memory_format is contiguous_format:
        return core.strides_of(shape)
    if memory_format not in (channels_last, channels_last_3d) or len(shape) != memory_format.value:
        raise ArgumentError(f"resize_: {memory_format!r} does not lay out the shape {shape}; channels_last needs 4 dimensions and "
                            "channels_last_3d 5")
    first, *inner, channel = core.strides_of((shape[0], *shape[2:], shape[1]))
    return (first, channel, *inner)


@composed(function=False)
def resize_(input: Tensor, *sizes: int | Sequence[int], size: Sequence[int] | None = None, memory_format: Layout | None = None) -> Tensor:
    """Give the tensor another size, laid out as `memory_format` says from its first element on, else row-major. Where the memory is too
    small it gets memory of its own, with all that was there; new elements are undefined, and other tensors keep the memory they shared.

    Raises: AutogradError for a tensor that requires grad.

    >>> volta.arange(5).resize_(2, 2).tolist()
    [[0, 1], [2, 3]]
    """
    shape = as_shape(*listed("resize_", sizes, size))
    if input.requires_grad:
        raise AutogradError(f"resize_: the tensor of shape {input.shape} requires grad, its size is part of its graph; resize its detach()")
    strides = _strides(shape, memory_format)
    if shape == input.shape and (memory_format is None or strides == input._strides):
        return input
    inplace.check_inferred(input)
    version, end = input.storage.version, input.offset + core.checked_size(shape)
    width = input.itemsize if not input.device.is_gpu or input.dtype is float16 else 4
    held, whole = input.storage.nbytes // width, input
    if 0 not in shape and end > held:
        whole = create(empty_op, (end,), dtype=input.dtype, device=input.device)
        copy_into(core.view(whole, (held,), (1,), 0), core.view(input, (held,), (1,), 0))
    core.assign(input, core.view(whole, shape, strides, input.offset))
    input.storage.version = version + 1
    return input


@composed()
def resize_as_(input: Tensor, the_template: Tensor, *, memory_format: Layout | None = None) -> Tensor:
    """`resize_` to the shape of another tensor, and with `preserve_format` to its layout.

    >>> volta.resize_as_(volta.arange(5), volta.ones(2, 2)).tolist()
    [[0, 1], [2, 3]]
    """
    return resize_(input, the_template.shape, memory_format=suggested(the_template) if memory_format is preserve_format else memory_format)


@composed(function=False)
def set_(input: Tensor, source: Tensor | object = None, storage_offset: int = 0, size: int | Sequence[int] | None = None,
         stride: Sequence[int] | None = None) -> Tensor:
    """Let the tensor show the memory of another one, or of a storage from `storage_offset` on; without a source nothing. Sizes and strides
    are by default those of the tensor, and all elements of the storage in a row.

    Raises: AutogradError for a tensor that requires grad; DTypeError and DeviceError for another dtype and device; ArgumentError for a
    `source` that is no memory, or an offset without a size.

    >>> x = volta.ones(3)
    >>> volta.zeros(2).set_(x).data_ptr() == x.data_ptr()
    True
    """
    if input.requires_grad and is_grad_enabled():
        raise AutogradError(f"set_: the tensor of shape {input.shape} requires grad, its memory is part of its graph; use its detach()")
    inplace.check_inferred(input)
    if source is None:
        source = create(empty_op, (0,), dtype=input.dtype, device=input.device)
    stored = isinstance(source, UntypedStorage)
    whole = source._whole if stored else source
    if not isinstance(whole, core.TensorBase):
        raise ArgumentError(f"set_: source must be a tensor or what untyped_storage() gives, got {type(source).__name__}")
    if whole.dtype is not input.dtype:
        raise DTypeError(f"set_: the tensor is {input.dtype}, the source {whole.dtype}; one memory holds elements of one dtype")
    if whole.device is not input.device:
        raise DeviceError(f"set_: the tensor is on {input.device}, the source on {whole.device}; move one of them with .to()")
    if stored and size is None:
        size = (max(source.nbytes() // whole.itemsize - storage_offset, 0),)
    if size is not None:
        shape = as_shape(size)
        whole = as_strided(core.alias(whole), shape, core.strides_of(shape) if stride is None else tuple(stride), storage_offset)
    elif storage_offset or stride is not None:
        raise ArgumentError("set_: storage_offset and stride need a size beside them")
    core.assign(input, core.apart(whole, input.storage.version + 1))
    return input
