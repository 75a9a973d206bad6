"""Views as copies, under PyTorch's names: `permute_copy` is `permute` whose result has memory of its own."""
from __future__ import annotations

from typing import TYPE_CHECKING

from volta._kernels.core import DType
from volta.errors import ArgumentError
from volta.ops import arrange, parts, view
from volta.ops.records.view import contiguous_op
from volta.ops.table import case, composed
from volta.shapes import as_dim

if TYPE_CHECKING:
    from collections.abc import Sequence

    from volta.tensor import Tensor


def _copies(op):
    """Decorator: a function of what the view `op` gives has its samples and reference."""
    return composed(samples=op.details.cases, numpy=op.details.numpy, kinds=op.details.kinds, method=False)


def _each(views):
    return tuple([contiguous_op(each) for each in views])


@composed(samples=(case((3, 4)), case(()), case((0, 2))), kinds="fib", numpy=lambda x: x, method=False)
def alias_copy(input: Tensor) -> Tensor:
    """A copy.

    >>> volta.alias_copy(volta.ones(2))
    tensor([1., 1.])
    """
    return contiguous_op(input)


@composed(samples=(case((3, 4)), case(())), kinds="ib", numpy=lambda x: x, method=False)
def detach_copy(input: Tensor) -> Tensor:
    """A copy outside the graph.

    >>> volta.detach_copy(volta.ones(2, requires_grad=True)).requires_grad
    False
    """
    return contiguous_op(input.detach())


@composed(samples=(case((3, 4), size=(4, 3)), case((2, 3), size=(-1,))), kinds="fib", numpy=lambda x, size: x.reshape(size), method=False)
def view_copy(input: Tensor, size: Sequence[int] | DType | None = None, *, dtype: DType | None = None) -> Tensor:
    """`view` to a size or an element type, as a copy.

    Raises: TypeError unless there is one of them.

    >>> volta.view_copy(volta.ones(4), (2, 2)).shape
    volta.Size([2, 2])
    """
    if (size is None) == (dtype is None):
        raise TypeError(f"view_copy: needs a size or a dtype, got size={size} and dtype={dtype}")
    size = dtype if size is None else size
    return contiguous_op(view.view(input, size) if isinstance(size, DType) else view.reshape(input, size))


@composed(untested="tests/test_arrange.py: of a storage, not of elements", method=False)
def as_strided_copy(input: Tensor, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None) -> Tensor:
    """`as_strided`, as a copy.

    >>> volta.as_strided_copy(volta.arange(4), (2,), (2,)).tolist()
    [0, 2]
    """
    return contiguous_op(arrange.as_strided(input, size, stride, storage_offset))


@_copies(parts.diagonal)
def diagonal_copy(input: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    """`diagonal`, as a copy.

    >>> volta.diagonal_copy(volta.eye(2))
    tensor([1., 1.])
    """
    return contiguous_op(parts.diagonal(input, offset, dim1, dim2))


@_copies(view.expand)
def expand_copy(input: Tensor, size: Sequence[int], *, implicit: bool = False) -> Tensor:
    """`expand` (`implicit` changes nothing), as a copy.

    >>> volta.expand_copy(volta.ones(1), (2,))
    tensor([1., 1.])
    """
    return contiguous_op(view.expand(input, size))


@_copies(view.permute)
def permute_copy(input: Tensor, dims: Sequence[int]) -> Tensor:
    """`permute`, as a copy.

    >>> volta.permute_copy(volta.ones(2, 3), (1, 0)).shape
    volta.Size([3, 2])
    """
    return contiguous_op(view.permute(input, dims))


@_copies(parts.select)
def select_copy(input: Tensor, dim: int, index: int) -> Tensor:
    """`select`, as a copy.

    >>> volta.select_copy(volta.eye(2), 0, 1)
    tensor([0., 1.])
    """
    return contiguous_op(parts.select(input, dim, index))


@composed(samples=(case((4, 3), 0, 1, 3), case((2, 5), dim=1, step=2), case((3,), 0, -2, 9)), kinds="fib", method=False,
          numpy=lambda x, dim=0, start=None, end=None, step=1: x[(slice(None),) * dim + (slice(start, end, step),)])
def slice_copy(input: Tensor, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1) -> Tensor:
    """The elements of `start:end:step` along a dimension, as a copy.

    Raises: ArgumentError unless the step is positive.

    >>> volta.slice_copy(volta.arange(4), 0, 1).tolist()
    [1, 2, 3]
    """
    if step < 1:
        raise ArgumentError(f"slice_copy: step must be positive, got {step}")
    return contiguous_op(parts.slice_view(input, (slice(None),) * as_dim("slice_copy", dim, input.ndim) + (slice(start, end, step),)))


@_copies(parts.split)
def split_copy(input: Tensor, split_size: int | Sequence[int], dim: int = 0) -> tuple[Tensor, ...]:
    """`split`, as a copy.

    >>> [part.tolist() for part in volta.split_copy(volta.arange(3), 2)]
    [[0, 1], [2]]
    """
    return _each(parts.split(input, split_size, dim))


@_copies(arrange.split_with_sizes)
def split_with_sizes_copy(input: Tensor, split_sizes: Sequence[int], dim: int = 0) -> tuple[Tensor, ...]:
    """`split_with_sizes`, as a copy.

    >>> [part.tolist() for part in volta.split_with_sizes_copy(volta.arange(3), (1, 2))]
    [[0], [1, 2]]
    """
    return _each(arrange.split_with_sizes(input, split_sizes, dim))


@_copies(view.squeeze)
def squeeze_copy(input: Tensor, dim: int | Sequence[int] | None = None) -> Tensor:
    """`squeeze`, as a copy.

    >>> volta.squeeze_copy(volta.ones(1, 2))
    tensor([1., 1.])
    """
    return contiguous_op(view.squeeze(input) if dim is None else view.squeeze(input, dim))


@_copies(view.t)
def t_copy(input: Tensor) -> Tensor:
    """`t`, as a copy.

    >>> volta.t_copy(volta.ones(2, 3)).shape
    volta.Size([3, 2])
    """
    return contiguous_op(view.t(input))


@_copies(view.transpose)
def transpose_copy(input: Tensor, dim0: int, dim1: int) -> Tensor:
    """`transpose`, as a copy.

    >>> volta.transpose_copy(volta.ones(2, 3), 0, 1).shape
    volta.Size([3, 2])
    """
    return contiguous_op(view.transpose(input, dim0, dim1))


@_copies(parts.unbind)
def unbind_copy(input: Tensor, dim: int = 0) -> tuple[Tensor, ...]:
    """`unbind`, as a copy.

    >>> [part.tolist() for part in volta.unbind_copy(volta.arange(2))]
    [0, 1]
    """
    return _each(parts.unbind(input, dim))


@_copies(parts.unfold)
def unfold_copy(input: Tensor, dimension: int, size: int, step: int) -> Tensor:
    """`unfold`, as a copy.

    >>> volta.unfold_copy(volta.arange(3), 0, 2, 1).tolist()
    [[0, 1], [1, 2]]
    """
    return contiguous_op(parts.unfold(input, dimension, size, step))


@_copies(view.unsqueeze)
def unsqueeze_copy(input: Tensor, dim: int) -> Tensor:
    """`unsqueeze`, as a copy.

    >>> volta.unsqueeze_copy(volta.ones(2), 0).shape
    volta.Size([1, 2])
    """
    return contiguous_op(view.unsqueeze(input, dim))
