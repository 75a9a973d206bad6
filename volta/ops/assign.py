"""Tensors overwritten from outside: with another tensor, with a number, with random numbers. The in-place forms of ops are not here:
`volta/methods.py` makes them from the op table.
"""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from volta._kernels.core import TensorBase, graph, inplace, same_memory
from volta._kernels.core.call import run_kernel
from volta._kernels.core.direct import bare
from volta.dtypes import check_held, finfo
from volta.errors import ArgumentError, ShapeError
from volta.ops.copy import clone, copy_into, fill_into, to
from volta.ops.creation import fill_random_, full_like
from volta.ops.expanded import elements
from volta.ops.from_data import tensor
from volta.ops.records.copy import cast, fill_into_op
from volta.ops.records.create import normal_op, uniform_op
from volta.ops.records.view import expand_op
from volta.ops.table import case, composed
from volta.shapes import broadcasts_to

if TYPE_CHECKING:
    from collections.abc import Callable

    from volta.random import Generator
    from volta.tensor import Tensor
    from volta.types import Number


@composed(function=False)
def copy_(input: Tensor, src: Tensor | Number, non_blocking: bool = False) -> Tensor:
    """Overwrite with `src` (broadcast, cast, moved); its gradient flows on.

    Raises: ShapeError where `src` cannot be repeated to the shape of the tensor.

        >>> volta.zeros(3).copy_(volta.tensor([1, 2, 3]))
        tensor([1., 2., 3.])
    """
    source = src if isinstance(src, TensorBase) else tensor(src)
    inplace.check_apart("copy_", input, source)
    if inplace.repeated(input) and same_memory(input, source) and input.dtype is source.dtype and (
            input._shape, input._strides, input.offset) == (source._shape, source._strides, source.offset) and not (
            graph.is_grad_enabled() and input.requires_grad):
        return input                                                    # what is expanded by itself, as in PyTorch
    if source._shape != input._shape and not broadcasts_to(source._shape, input._shape):
        raise ShapeError(f"copy_: shape {source.shape} cannot be repeated to the {input.shape} of the tensor written to")
    plain = bare(input, source)
    if source.device is not input.device or source.dtype is not input.dtype and not (plain and source._shape == input._shape):
        source = to(source, input.device, input.dtype)                  # else on the way into the tensor
    if not plain:
        if graph.is_grad_enabled() and (source.requires_grad or input.requires_grad):
            inplace.check_inplace("copy", input)
            if source._shape != input._shape:
                source = expand_op(source, shape=input._shape)
            return inplace.overwrite(input, clone(source) if source.requires_grad else source)
        inplace.check_elements("copy", input)
    copy_into(input, source)
    return input


@composed()
def fill_(input: Tensor, value: Tensor | Number) -> Tensor:
    """Every element `value`. Raises: ShapeError for a value of any dimensions.

        >>> volta.zeros(2).fill_(0.5)
        tensor([0.5000, 0.5000])
    """
    if isinstance(value, TensorBase):
        if value.ndim:
            raise ShapeError(f"fill_: takes a number or a tensor of no dimensions, got one of shape {value.shape}")
        return copy_(input, clone(value))
    if not -65504.0 <= value <= 65504.0:
        check_held("fill_", value, input.dtype)
    if graph.is_grad_enabled() and input.requires_grad:
        if inplace.repeated(input):             # the places of an element all see it
            fill_(elements(input), value)
            return input
        return copy_(input, full_like(input, value))
    inplace.check_inferred(input)
    fill_into(input, value)
    return input


@composed(samples=(case((3, 4), 2), case((2,), 1.5), case((), 0)), kinds="fib", numpy=np.full_like, method=False)
def fill(input: Tensor, value: Tensor | Number) -> Tensor:
    """A tensor like `input` with every element `value`.

    >>> volta.fill(volta.zeros(2), 0.5)
    tensor([0.5000, 0.5000])
    """
    return fill_(clone(input), value)


@composed()
def zero_(input: Tensor) -> Tensor:
    """Every element 0.

        >>> volta.ones(2).zero_()
        tensor([0., 0.])
    """
    if bare(input):
        inplace.check_inferred(input)
        run_kernel(fill_into_op, input.device, (input, 0))
        return input
    if graph.is_grad_enabled() and input.requires_grad:
        return fill_(input, 0)
    inplace.check_inferred(input)
    fill_into(input, 0)
    return input


@composed(function=False)
def uniform_(input: Tensor, low: float = 0.0, high: float = 1.0, *, generator: Generator | None = None) -> Tensor:
    """Overwrite with uniform random numbers on [low, high).

    Raises: ArgumentError for low > high or a range beyond the dtype; AutogradError for a leaf that requires grad, outside no_grad().

        >>> bool((volta.empty(9).uniform_(-1, 1) < 1).all())
        True
    """
    if graph.wants_grad(input) and (drawn := redrawn("uniform_", uniform_, input, low, high, generator=generator)) is not None:
        return drawn
    if not low <= high:
        raise ArgumentError(f"uniform_: needs low <= high, got {low} and {high}")
    if not high - low <= 65504.0 and input.dtype.is_floating_point and not high - low <= finfo(input.dtype).max:
        raise ArgumentError(f"uniform_: high - low must be a number of {input.dtype}, got {low} to {high}")
    return fill_random_(input, uniform_op, low, high, generator)


@composed(function=False)
def normal_(input: Tensor, mean: float = 0.0, std: float = 1.0, *, generator: Generator | None = None) -> Tensor:
    """Overwrite with normal random numbers.

    Raises: ArgumentError for a negative std; AutogradError for a leaf that requires grad, outside no_grad().

        >>> volta.empty(3).normal_(5, 0)
        tensor([5., 5., 5.])
    """
    if graph.wants_grad(input) and (drawn := redrawn("normal_", normal_, input, mean, std, generator=generator)) is not None:
        return drawn
    if not std >= 0:
        raise ArgumentError(f"normal_: std must be >= 0, got {std}")
    return fill_random_(input, normal_op, mean, std, generator)


def redrawn(name: str, function: Callable[..., Tensor], input: Tensor, *args: Any, **options: Any) -> Tensor | None:
    """A tensor that is part of a graph, overwritten with what `function` draws into another one; None for others, which it may change."""
    if not (graph.wants_grad(input) and graph.is_grad_enabled()):
        return None
    inplace.check_inplace(name[:-1], input)
    return copy_(input, function(full_like(input.detach(), 0), *args, **options))


def constant_of(drawn: Tensor, *given: Tensor | Number) -> Tensor:
    """`drawn`; where one of what it was drawn by is recorded, as a function of it whose gradient is 0."""
    if graph.is_grad_enabled() and any(isinstance(x, TensorBase) and x.requires_grad for x in given):
        return copy_(cast(sum(given), drawn.dtype), drawn)
    return drawn
