"""Sparse matrices and arrays by coordinates: what graph networks multiply by. Each is made of two tensors, positions and values, and
computed with by ops on these, so gradients and devices are theirs. It is no Tensor, and knows of itself which ops take it.
"""
from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from volta._kernels.core import Device, DType, TensorBase, strides_of
from volta.device import as_device
from volta.dtypes import as_dtype, float32, float64, int64, promote_types
from volta.errors import ArgumentError, DTypeError, ShapeError
from volta.layout import sparse_coo
from volta.ops.creation import arange, zeros
from volta.ops.from_data import tensor
from volta.ops.indexing import index_add, index_select
from volta.ops.join import cat, stack
from volta.ops.records.create import full_op
from volta.ops.records.index import index_add_op, index_select_op, scatter_reduce_op
from volta.ops.records.math import mul
from volta.ops.reduce import sum as sum_op
from volta.ops.table import create
from volta.ops.unique import unique
from volta.ops.view import reshape
from volta.printing import sparse_repr
from volta.shapes import Size, as_dim

if TYPE_CHECKING:
    from volta.tensor import Tensor
    from volta.types import DeviceLike, DTypeLike

__all__: list[str] = []


class SparseTensor:
    """An array that is zero but at `indices` (sparse dimensions, entries), where it is `values` (entries, dense dimensions...).
    Entries at one place add up. Made by `sparse_coo_tensor` and `Tensor.to_sparse`."""

    is_sparse = True
    layout = sparse_coo

    def __init__(self, indices: Tensor, values: Tensor, shape: Sequence[int], coalesced: bool = False) -> None:
        self._at, self._of, self.shape, self._coalesced = indices, values, Size(shape), coalesced

    # ------------------------------------------------------------ facts
    dtype = property(lambda self: self._of.dtype)
    device = property(lambda self: self._of.device)
    is_cuda = property(lambda self: self._of.is_cuda)
    requires_grad = property(lambda self: self._of.requires_grad)
    ndim = property(lambda self: len(self.shape))
    storage = property(lambda self: self._of.storage)           # of the values: `save_for_backward` looks at its version
    T = property(lambda self: self.t())
    data = property(lambda self: self.detach())

    def size(self, dim: int | None = None) -> Any:
        """The shape, or one size of it."""
        return self.shape if dim is None else self.shape[as_dim("size", dim, self.ndim)]

    def dim(self) -> int:
        """Number of dimensions."""
        return self.ndim

    ndimension = dim

    def numel(self) -> int:
        """Number of elements, with the zeros."""
        return math.prod(self.shape)

    def sparse_dim(self) -> int:
        """Number of dimensions that positions have."""
        return self._at.shape[0]

    def dense_dim(self) -> int:
        """Number of dimensions that values have."""
        return self.ndim - self._at.shape[0]

    def is_coalesced(self) -> bool:
        """Whether there is at most one entry at any place, and they are in order."""
        return self._coalesced

    def _nnz(self) -> int:
        return self._of.shape[0]

    def _indices(self) -> Tensor:
        return self._at

    def _values(self) -> Tensor:
        return self._of

    def indices(self) -> Tensor:
        """The positions. Raises: ArgumentError before `coalesce`, as `values`."""
        return self._once("indices")._at

    def values(self) -> Tensor:
        """The values."""
        return self._once("values")._of

    def __len__(self) -> int:
        return self.shape[0]

    def __repr__(self) -> str:
        return sparse_repr(self._at, self._of, tuple(self.shape))

    # ------------------------------------------------------------ other forms
    def coalesce(self) -> SparseTensor:
        """The same with one entry at a place, in the order of places. Reads the positions on a GPU, as `unique`."""
        if self._coalesced:
            return self
        places, entry = unique(self._places(), return_inverse=True)
        values = index_add(zeros((places.shape[0], *self._of.shape[1:]), dtype=self.dtype, device=self.device), 0, entry, self._of)
        sizes = self.shape[:self.sparse_dim()]
        at = [(places // stride) % n for stride, n in zip(strides_of(tuple(sizes)), sizes)]
        return SparseTensor(stack(at) if at else self._at[:, :places.shape[0]], values, self.shape, True)

    def to_dense(self) -> Tensor:
        """The tensor with its zeros."""
        sizes, rest = self.shape[:self.sparse_dim()], self.shape[self.sparse_dim():]
        empty = zeros((math.prod(sizes), *rest), dtype=self.dtype, device=self.device)
        return reshape(index_add(empty, 0, self._places(), self._of), tuple(self.shape))

    def summed(self) -> tuple[Tensor, Tensor]:
        """(where the entries are, counted through the sparse dimensions; for each the sum of all entries at its place). As `coalesce`, but
        nothing is read on a GPU."""
        places, n = self._places(), self._nnz()
        if self._coalesced or not n:
            return places, self._of
        rows = create(full_op, (math.prod(self.shape[:self.sparse_dim()]),), n, dtype=int64, device=self.device)
        first = index_select_op(scatter_reduce_op(rows, arange(n, device=self.device), places, dim=0, reduce="amin"), places, dim=0)
        return places, index_select_op(index_add_op(self._of, first, dim=0, size=n), first, dim=0)

    def to_sparse(self, sparse_dim: int | None = None, *, layout: Any = None) -> SparseTensor:
        """Itself."""
        _check_coordinates(layout)
        return self

    def to_sparse_coo(self) -> SparseTensor:
        """Itself."""
        return self

    def to(self, *args: Any, **options: Any) -> SparseTensor:
        """On another device or with values of another dtype, as `Tensor.to`."""
        values = self._of.to(*args, **options)
        return self if values is self._of else self._with(values, self._at.to(values.device))

    def type(self, dtype: DTypeLike) -> SparseTensor:
        """With values of another dtype."""
        return self._with(self._of.type(dtype))

    def cuda(self, device: DeviceLike = None) -> SparseTensor:
        """On a GPU."""
        return self.to("cuda" if device is None else as_device(device))

    def cpu(self) -> SparseTensor:
        """On the CPU."""
        return self.to("cpu")

    def float(self) -> SparseTensor:
        """With values of float32."""
        return self.to(float32)

    def double(self) -> SparseTensor:
        """With values of float64."""
        return self.to(float64)

    def long(self) -> SparseTensor:
        """With values of int64."""
        return self.to(int64)

    def detach(self) -> SparseTensor:
        """Without a graph."""
        return self._with(self._of.detach())

    def clone(self) -> SparseTensor:
        """A copy."""
        return self._with(self._of.clone(), self._at.clone())

    def requires_grad_(self, requires_grad: bool = True) -> SparseTensor:
        """Ask for the gradient of the values."""
        self._of.requires_grad_(requires_grad)
        return self

    def transpose(self, dim0: int, dim1: int) -> SparseTensor:
        """Two of the sparse dimensions exchanged."""
        order = list(range(self.ndim))
        a, b = as_dim("transpose", dim0, self.ndim), as_dim("transpose", dim1, self.ndim)
        order[a], order[b] = b, a
        if max(a, b) >= self.sparse_dim():
            raise ShapeError(f"transpose: dimensions {dim0} and {dim1} must be sparse, of which there are {self.sparse_dim()}")
        at = index_select(self._at, 0, tensor(order[:self.sparse_dim()], device=self.device))
        return SparseTensor(at, self._of, [self.shape[i] for i in order])

    def t(self) -> SparseTensor:
        """The transposed matrix."""
        if self.ndim != 2:
            raise ShapeError(f"t: needs a matrix, got shape {tuple(self.shape)}")
        return self.transpose(0, 1)

    # ------------------------------------------------------------ in place
    def add_to(self, dense: Tensor) -> None:
        """dense += self."""
        dense.add_(self.to_dense())

    def zero_(self) -> SparseTensor:
        """Without entries."""
        self._at, self._of, self._coalesced = self._at[:, :0], self._of[:0], True
        return self

    def mul_(self, other: Any) -> SparseTensor:
        """By a number, or a 0-d tensor."""
        self._of.mul_(other)
        return self

    def div_(self, other: Any) -> SparseTensor:
        """By a number, or a 0-d tensor."""
        self._of.div_(other)
        return self

    # ------------------------------------------------------------ arithmetic
    def __matmul__(self, other: Any) -> Any:
        return _product(self, other)

    mm = matmul = __matmul__

    def __rmatmul__(self, other: Tensor) -> Tensor:
        return _product(other, self)

    def __add__(self, other: Any) -> Any:
        if not isinstance(other, SparseTensor):
            return self.to_dense() + other
        if other.shape != self.shape or other.sparse_dim() != self.sparse_dim():
            raise ShapeError(f"add: sparse tensors of shapes {tuple(self.shape)} and {tuple(other.shape)} differ")
        dtype = promote_types(self.dtype, other.dtype)
        return SparseTensor(cat([self._at, other._at], 1), cat([self._of.to(dtype), other._of.to(dtype)]), self.shape)

    __radd__ = __add__

    def __neg__(self) -> SparseTensor:
        return self._with(-self._of)

    def __sub__(self, other: Any) -> Any:
        return self + -other

    def __mul__(self, other: Any) -> SparseTensor:
        """By a number, or entry by entry with a tensor of the same shape."""
        if isinstance(other, SparseTensor):
            raise DTypeError("mul: of two sparse tensors one must be dense; write to_dense()")
        if isinstance(other, TensorBase) and other.ndim:
            if tuple(other.shape) != tuple(self.shape):
                raise ShapeError(f"mul: shapes differ, got {tuple(self.shape)} and {tuple(other.shape)}")
            other = index_select(reshape(other, (-1, *self.shape[self.sparse_dim():])), 0, self._places())
        return self._with(mul(self._of, other))

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> SparseTensor:
        return self._with(self._of / other)

    def sum(self, dim: int | Sequence[int] | None = None) -> Any:
        """The sum of all, a tensor; over some of the sparse dimensions, a sparse tensor of those that stay."""
        if dim is None:
            return sum_op(self._of)
        gone = {as_dim("sum", d, self.ndim) for d in ([dim] if isinstance(dim, int) else dim)}
        kept = [d for d in range(self.sparse_dim()) if d not in gone]
        if max(gone) >= self.sparse_dim():
            raise ShapeError(f"sum: dimensions {sorted(gone)} must be sparse, of which there are {self.sparse_dim()}")
        if not kept:
            return sum_op(self._of, 0)
        at = index_select(self._at, 0, tensor(kept, device=self.device))
        return SparseTensor(at, self._of, [n for d, n in enumerate(self.shape) if d not in gone]).coalesce()

    def __volta_function__(self, op: Any, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """The result of an op that was called with a sparse tensor. Raises: DTypeError for most."""
        function = _TAKEN.get(op.__name__)
        if function is None:
            raise DTypeError(f"{op.__name__}: takes no sparse tensor; write to_dense()")
        return function(*args, **options)

    def _once(self, name):
        if not self._coalesced:
            raise ArgumentError(f"{name}: places may have several entries; call coalesce() first")
        return self

    def _with(self, values, indices=None):
        return SparseTensor(self._at if indices is None else indices, values, self.shape, self._coalesced)

    def _places(self):
        """The places of the entries, counted through the sparse dimensions."""
        steps = strides_of(tuple(self.shape[:self.sparse_dim()]))
        found = [self._at[d] * step for d, step in enumerate(steps)]
        if not found:                                       # no dimensions: one place
            return zeros((self._at.shape[1],), dtype=int64, device=self._at.device)
        return found[0] if len(found) == 1 else sum(found[1:], found[0])


def _product(a, b):
    """a @ b of two dimensions, where one is sparse: of each entry, its value times a row of the other."""
    if isinstance(a, SparseTensor) and isinstance(b, SparseTensor):
        raise DTypeError("matmul: of two sparse matrices one must be dense; write to_dense()")
    if a.ndim != 2 or b.ndim not in (1, 2) or a.shape[1] != b.shape[0]:
        raise ShapeError(f"matmul: with a sparse matrix, needs two matrices whose inner sizes agree, got {tuple(a.shape)} @ "
                         f"{tuple(b.shape)}")
    if isinstance(b, SparseTensor):
        return _product(b.t(), a.T).T
    if b.ndim == 1:
        return reshape(_product(a, reshape(b, (-1, 1))), (-1,))
    if a.dtype is not b.dtype:
        raise DTypeError(f"matmul: both matrices must have one dtype, got {a.dtype} and {b.dtype}; convert with .to(dtype)")
    rows = mul(index_select(b, 0, a._at[1]), reshape(a._of, (-1, 1)))
    return index_add(zeros((a.shape[0], b.shape[1]), dtype=b.dtype, device=b.device), 0, a._at[0], rows)


_TAKEN: dict[str, Callable[..., Any]] = {
    "matmul": _product, "mm": _product, "mv": _product, "sum": lambda input, dim=None: input.sum(dim),
    "transpose": lambda input, dim0, dim1: input.transpose(dim0, dim1), "t": lambda input: input.t(), "clone": lambda input: input.clone(),
    "add": lambda input, other: input + other, "sub": lambda input, other: input - other, "mul": lambda input, other: other * input,
}


def _check_coordinates(layout):
    if layout not in (None, sparse_coo):
        raise ArgumentError(f"to_sparse: sparse tensors are by coordinates alone, layout={sparse_coo}, got {layout}")


def to_sparse(x: Tensor, sparse_dim: int | None = None, layout: Any = None) -> SparseTensor:
    """The elements that are not zero, by their places, or what has one, by its place in the first `sparse_dim` dimensions. Reads on a GPU
    where they are.

    Raises: ArgumentError for a sparse_dim that is no number of dimensions of x, and for another layout.
    """
    _check_coordinates(layout)
    rank = x.ndim if sparse_dim is None else sparse_dim
    if not hasattr(rank, "__index__") or not min(x.ndim, 1) <= rank <= x.ndim:
        raise ArgumentError(f"to_sparse: sparse_dim must be 1 to {x.ndim}, the dimensions of the tensor, got {sparse_dim!r}")
    at = (x if rank == x.ndim else (x != 0).flatten(rank).any(-1)).nonzero().t()
    if not rank:                                        # one entry, or none
        return SparseTensor(at, x.expand(at.shape[1]), x.shape, True)
    return SparseTensor(at, x[tuple(at[d] for d in range(rank))], x.shape, True)


def sparse_coo_tensor(indices: object, values: object = None, size: Sequence[int] | None = None, *, dtype: DTypeLike = None,
                      device: DeviceLike = None, requires_grad: bool = False, check_invariants: bool | None = None,
                      is_coalesced: bool | None = None) -> SparseTensor:
    """A sparse tensor of `values` (entries, dense dimensions...) at `indices` (sparse dimensions, entries), of the smallest size that
    has room where none is given. Reads the largest positions on a GPU that the host does not know.

    Raises: ShapeError, or ArgumentError for a position outside `size`.
    """
    if values is None:                              # sparse_coo_tensor(size): nothing but zeros
        indices, values, size = zeros((len(indices), 0), dtype=int64), [], indices
    values = _tensor_of(values, dtype and as_dtype(dtype), device)
    at = _tensor_of(indices, int64, values.device)
    if at.ndim != 2 or values.ndim < 1 or values.shape[0] != at.shape[1]:
        raise ShapeError(f"sparse_coo_tensor: indices must have shape (dimensions, entries), got {tuple(at.shape)} for values of shape "
                         f"{tuple(values.shape)}")
    largest = [int(n) for n in at.amax(1).tolist()] if at.shape[1] else [-1] * at.shape[0]
    shape = tuple(size) if size is not None else (*(n + 1 for n in largest), *values.shape[1:])
    if len(shape) != at.shape[0] + values.ndim - 1 or shape[at.shape[0]:] != tuple(values.shape[1:]):
        raise ShapeError(f"sparse_coo_tensor: size {shape} does not fit indices {tuple(at.shape)} and values {tuple(values.shape)}")
    if at._size and (int(at.min().item()) < 0 or any(n >= room for n, room in zip(largest, shape))):
        raise ArgumentError(f"sparse_coo_tensor: positions up to {largest} and from {at.amin(1).tolist()} lie outside size {shape}")
    if requires_grad:
        values = values.detach().requires_grad_()
    return SparseTensor(at, values, shape, bool(is_coalesced))


def _tensor_of(data: Any, dtype: DType | None, device: DeviceLike | Device) -> Tensor:
    if not isinstance(data, TensorBase):
        return tensor(data, dtype=dtype, device=device)
    return data.to(device=device if device is not None else data.device, dtype=dtype or data.dtype)
