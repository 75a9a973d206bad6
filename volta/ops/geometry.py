"""How tensors lie: where, whether like another, and tensors that get another size in place."""
from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from volta._kernels import core
from volta.dtypes import float16
from volta.errors import ArgumentError, AutogradError
from volta.layout import channels_last, channels_last_3d, contiguous_format, preserve_format
from volta.ops.copy import copy_into
from volta.ops.records.create import empty_op
from volta.ops.table import case, composed, create
from volta.ops.view import listed
from volta.shapes import as_shape

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
    """False: what is made under `inference_mode` are ordinary tensors.

    >>> volta.is_inference(volta.ones(2))
    False
    """
    return False


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
    version, end = input._version, input.offset + core.checked_size(shape)
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
    if memory_format is preserve_format:
        formats = (contiguous_format, channels_last, channels_last_3d)
        memory_format = next((each for each in formats if the_template.is_contiguous(memory_format=each)), contiguous_format)
    return resize_(input, the_template.shape, memory_format=memory_format)
