"""Python functions over the elements of tensors on the CPU (`apply_`, `map_`, `map2_`), and where elements lie (`data_ptr`)."""
from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from volta._kernels.core import CPU
from volta.errors import AutogradError, DeviceError, DTypeError
from volta.ops.from_data import tensor
from volta.ops.table import composed
from volta.ops.view import expand

if TYPE_CHECKING:
    from volta.tensor import Tensor


@composed(untested="tests/test_elements.py: it is the computer's choice", function=False)
def data_ptr(input: Tensor) -> int:
    """The address of the first element on the CPU, 0 of no elements; of a GPU's memory, which has no addresses for programs, a number
    that tells tensors apart that do not begin at one element. Programs may compare it, and read there what the tensor holds as long as
    it lives.

    >>> x = volta.ones(3)
    >>> x[1:].data_ptr() - x.data_ptr()
    4
    """
    if not input._size:
        return 0
    if input.device is CPU:
        return input._address
    return (id(input.storage.root or input.storage) << 32) + input.offset * input.dtype.itemsize


def _filled(name, input, others, function):
    """The tensor with function(its element, those of the others) for each element."""
    if input.device is not CPU:
        raise DeviceError(f"{name}: calls Python for each element, on the CPU alone; the tensor is on {input.device}: move it with .cpu()")
    if input.requires_grad or any(other.requires_grad for other in others):
        raise AutogradError(f"{name}: cannot be recorded; give tensors that do not require grad, as by detach()")
    for other in others:
        if other.dtype is not input.dtype or other.device is not input.device:
            raise DTypeError(f"{name}: the tensors must be of one dtype on the CPU, got {input.dtype} and {other.dtype} on {other.device}")
    lists = [x.reshape(-1).tolist() for x in (input, *(expand(other, input.shape) for other in others))]
    kind = bool if input.dtype.name == "bool" else float if input.dtype.is_floating_point else int
    values = [kind(_number(name, function(*elements))) for elements in zip(*lists)]
    input.copy_(tensor(values, dtype=input.dtype).reshape(input.shape))
    return input


def _number(name, value):
    if not isinstance(value, (int, float, np.number, np.bool_)):
        raise TypeError(f"{name}: the function must give numbers, got {type(value).__name__}")
    return value


@composed(untested="tests/test_elements.py: it calls Python for each element", function=False)
def apply_(input: Tensor, callable: Callable) -> Tensor:
    """Each element replaced by what a Python function makes of it; slow, and on the CPU alone.

    >>> volta.tensor([1.0, 2.0]).apply_(lambda v: v * v)
    tensor([1., 4.])
    """
    return _filled("apply_", input, (), callable)


@composed(untested="tests/test_elements.py: it calls Python for each element", function=False)
def map_(input: Tensor, tensor: Tensor, callable: Callable) -> Tensor:
    """Each element replaced by what a Python function makes of it and that of `tensor`, which broadcasts; slow, and on the CPU alone.

    >>> volta.tensor([1.0, 2.0]).map_(volta.tensor([3.0, 4.0]), lambda a, b: a * b)
    tensor([3., 8.])
    """
    return _filled("map_", input, (tensor,), callable)


@composed(untested="tests/test_elements.py: it calls Python for each element", function=False)
def map2_(input: Tensor, x: Tensor, y: Tensor, callable: Callable) -> Tensor:
    """`map_` with two more tensors.

    >>> volta.tensor([1.0]).map2_(volta.tensor([3.0]), volta.tensor([4.0]), lambda a, b, c: a * b + c)
    tensor([7.])
    """
    return _filled("map2_", input, (x, y), callable)
