# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
"""The kernels of views, and what the commonest functions of views come to, in C since many calls are little else. Knows geometry only."""
from cpython.tuple cimport PyTuple_GET_SIZE, PyTuple_New

from volta._kernels.core.base cimport TensorBase, contiguous_strides, make_tensor
from volta._kernels.core.call cimport as_view
from volta._kernels.core.graph cimport apply
from volta._kernels.core.indexing import unsqueezed
from volta._kernels.core.record cimport Primitive
from volta._kernels.core.shapes cimport as_dim, exchanged, expand_strides, expanded, infer, listed_sizes, put, view_strides
from volta._kernels.core.size cimport plain
from volta.errors import IndexRangeError, ShapeError

# ---------------------------------------------------------------- kernels

cdef object _copied = None                  # tensor -> a row-major copy, set by the record of views


def configure(copied):
    """Give this module what it calls where no view shows the elements."""
    global _copied
    _copied = copied


cdef TensorBase _reshaped(TensorBase x, dict params):
    """The elements in their order under another shape, copied where no strides show them so."""
    cdef tuple new = plain(params["shape"]), strides
    if not x.usual and (x.size or not x.contiguous):
        strides = view_strides(x.shape, x._strides, new)
        if strides is not None:
            return make_tensor(x.storage, new, strides, x.offset, x.dtype)
        x = _copied(x)
    return make_tensor(x.storage, new, contiguous_strides(new), x.offset, x.dtype)


cdef TensorBase _expanded(TensorBase x, dict params):
    """The elements repeated along enlarged dimensions, which all show the same memory."""
    cdef tuple new = plain(params["shape"])
    return make_tensor(x.storage, new, expand_strides(x.shape, x._strides, new), x.offset, x.dtype)


cdef inline Py_ssize_t _within(TensorBase x, Py_ssize_t d) except -1:
    """A dimension that x has, which the functions of views have made sure of."""
    if d < 0 or d >= PyTuple_GET_SIZE(x.shape):
        raise IndexRangeError(f"view: there is no dimension {d} in shape {x.shape}")
    return d


cdef TensorBase _permuted(TensorBase x, dict params):
    """Dimensions in another order."""
    cdef tuple dims = params["dims"]
    cdef Py_ssize_t i, d, n = PyTuple_GET_SIZE(dims)
    cdef tuple shape = PyTuple_New(n), strides = PyTuple_New(n)
    for i in range(n):
        d = _within(x, dims[i])
        put(shape, i, x.shape[d])
        put(strides, i, x._strides[d])
    return make_tensor(x.storage, shape, strides, x.offset, x.dtype)


cdef TensorBase _sliced(TensorBase x, dict params):
    """Every steps[i]-th of sizes[i] elements of dimension i from starts[i] on. `axes` names the dimensions that stay, in order, with
    -1 - i for a new one of size 1 before dimension i, around which it lies, as in PyTorch; dimensions that go have size 1."""
    cdef tuple shape = plain(params["sizes"]), strides = x._strides
    cdef tuple starts = params["starts"], steps = params["steps"], axes = params.get("axes")
    cdef Py_ssize_t i, k, n = len(x.shape), offset = x.offset
    cdef bint stepped = False, empty = False
    cdef tuple kept, kept_strides
    for i in range(n):
        offset += <Py_ssize_t>starts[i] * <Py_ssize_t>strides[i]
        stepped = stepped or <Py_ssize_t>steps[i] != 1
        empty = empty or <Py_ssize_t>shape[i] == 0
    if empty:                                           # of nothing, the start may lie outside the storage
        offset = x.offset
    if stepped:
        strides = tuple([<Py_ssize_t>steps[i] * <Py_ssize_t>x._strides[i] for i in range(n)])
    if axes is None:
        return make_tensor(x.storage, shape, strides, offset, x.dtype)
    kept, kept_strides = PyTuple_New(PyTuple_GET_SIZE(axes)), PyTuple_New(PyTuple_GET_SIZE(axes))
    for k in range(PyTuple_GET_SIZE(axes)):
        i = axes[k]
        put(kept, k, 1 if i < 0 else shape[i])
        put(kept_strides, k, strides[i] if i >= 0 else _around(x, -1 - i))
    return make_tensor(x.storage, kept, kept_strides, offset, x.dtype)


cdef object _around(TensorBase x, Py_ssize_t d):
    """The stride of a new dimension before dimension d."""
    return 1 if d >= len(x.shape) else <Py_ssize_t>x.shape[d] * <Py_ssize_t>x._strides[d]


cdef TensorBase _diagonal(TensorBase x, dict params):
    """The diagonal of the last two dimensions as the last one."""
    cdef Py_ssize_t offset = params["offset"]
    cdef Py_ssize_t n = len(x.shape), rows = x.shape[n - 2], columns = x.shape[n - 1]
    cdef Py_ssize_t row = x._strides[n - 2], column = x._strides[n - 1], length, start = x.offset
    length = max(min(rows, columns - offset) if offset >= 0 else min(rows + offset, columns), 0)
    if length:                          # a start beyond the last row or column may lie outside the storage
        start += offset * column if offset > 0 else -offset * row
    return make_tensor(x.storage, x.shape[:n - 2] + (length,), x._strides[:n - 2] + (row + column,), start, x.dtype)


cdef TensorBase _unfolded(TensorBase x, dict params):
    """Windows along a dimension, whose elements lie along a new last dimension."""
    cdef Py_ssize_t d = _within(x, params["dim"]), size = params["size"], step = params["step"]
    cdef Py_ssize_t count = (<Py_ssize_t>x.shape[d] - size) // step + 1, stride = x._strides[d]
    return make_tensor(x.storage, x.shape[:d] + (count,) + x.shape[d + 1:] + (size,),
                       x._strides[:d] + (stride * step,) + x._strides[d + 1:] + (stride,), x.offset, x.dtype)


reshape_kernel, expand_kernel, permute_view = as_view(_reshaped), as_view(_expanded), as_view(_permuted)
slice_view, diagonal_view, unfold_view = as_view(_sliced), as_view(_diagonal), as_view(_unfolded)


# ---------------------------------------------------------------- functions, given the record of their view

def reshape(Primitive op not None, TensorBase x not None, sizes, named=None):
    """The elements under the shape that is given in the forms of `listed`."""
    return apply(op, (x,), {"shape": infer("reshape", x.size, listed_sizes("reshape", sizes, named))})


def view(Primitive op not None, TensorBase x not None, sizes, named=None):
    """The same, which never copies."""
    cdef tuple new = infer("view", x.size, listed_sizes("view", sizes, named))
    if not x.contiguous and view_strides(x.shape, x._strides, new) is None:
        raise ShapeError(f"view: shape {x.shape} with strides {x._strides} cannot be seen as {new} without a copy; use reshape")
    return apply(op, (x,), {"shape": new})


def expand(Primitive op not None, TensorBase x not None, sizes, named=None):
    """Dimensions of size 1 repeated to the shape that is given so."""
    return apply(op, (x,), {"shape": expanded(x.shape, listed_sizes("expand", sizes, named))})


def transpose(Primitive op not None, TensorBase x not None, dim0, dim1):
    """Two dimensions exchanged."""
    return apply(op, (x,), {"dims": exchanged("transpose", len(x.shape), dim0, dim1)})


def unsqueeze(Primitive reshape_op not None, Primitive slice_op not None, TensorBase x not None, dim):
    """A new dimension of size 1 at `dim`."""
    cdef Py_ssize_t rank = len(x.shape), d = as_dim("unsqueeze", dim, rank + 1)
    if x.size > 1 and (d < rank or x.contiguous) and (x.usual or 1 not in x.shape):
        return apply(reshape_op, (x,), {"shape": x.shape[:d] + (1,) + x.shape[d:]})
    return apply(slice_op, (x,), unsqueezed(x, d))                  # strides that reshape would not keep
