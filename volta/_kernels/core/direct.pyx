# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
"""When composed functions may leave the graph out: short calls are made of little else than its steps. Knows no op."""
from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

from volta._kernels.core.base cimport (
    FLOAT32, FLOAT64, INT32, INT64, DType, Storage, TensorBase, address, contiguous_strides, dtype_of, empty_host, is_half, make_tensor,
    same_bytes)
from volta._kernels.core.call cimport call_kernel, watching
from volta._kernels.core.grad_mode cimport grad_mode
from volta._kernels.core.histories cimport wants
from volta._kernels.core.record cimport Primitive


cdef enum:
    FEW = 1024                  # elements along a dimension, or in all

ctypedef fused word:
    uint8_t
    uint16_t
    uint32_t
    uint64_t


def bare(TensorBase x not None, TensorBase y=None):
    """Whether a function of these may call kernels and make views by itself: they lie on the host, and nobody records or watches."""
    return bare_one(x) and (y is None or bare_one(y))


def unseen(TensorBase x not None, TensorBase y not None):
    """Whether a function of these may call kernels by itself if it hangs a node on what they give: the same, whoever records."""
    return unseen_one(x) and unseen_one(y)


def unwatched():
    """Whether nobody watches calls."""
    return not watching


def all_bare(tuple tensors not None):
    """The same of some."""
    for x in tensors:
        if not bare_one(<TensorBase?>x):
            return False
    return True


cdef bint meet(Storage a, Storage b):
    """Whether two storages on the host share memory, which may be borrowed twice."""
    return same_bytes(a, b) or a.data < b.data + b.nbytes and b.data < a.data + a.nbytes


def straight(Primitive op not None, TensorBase out not None, tuple inputs not None, tuple shape not None):
    """Let a kernel of the CPU that takes `out` write its result, of this shape, straight into it. Gives False, with nothing done, unless
    `out` has that shape, lies row-major, has the inputs' dtype, float32 or float64, and its own memory, and nobody records or watches."""
    cdef int code = out.dtype.code
    cdef TensorBase x
    if code != FLOAT32 and code != FLOAT64 or not out.contiguous or out.shape != shape or not bare_one(out):
        return False
    for x in inputs:
        if x.dtype is not out.dtype or not bare_one(x) or meet(x.storage, out.storage):
            return False
    call_kernel(op, out.storage.device, inputs, {"out": out}, None)
    out.storage.version += 1
    return True


def as_columns(tuple tensors not None):
    """Each with one dimension more, the last, of size 1."""
    cdef TensorBase x
    cdef list shown = []
    for x in tensors:
        shown.append(make_tensor(x.storage, x.shape + (1,), x._strides + (1,), x.offset, x.dtype))
    return tuple(shown)


def on_diagonal(TensorBase x not None, tuple shape not None, Py_ssize_t offset):
    """Zeros of shape (..., *shape) with the last dimension of x on the diagonal; None where that does not fit, a graph is wanted, or there
    are many."""
    cdef Py_ssize_t rank = len(x.shape), below = max(-offset, 0), right = max(offset, 0), rows, columns, n, i, b, width = x.dtype.itemsize
    cdef TensorBase out
    cdef char* to
    cdef const char* source
    if rank == 0 or x.size == 0 or not x.contiguous or max(shape) > FEW or not bare_one(x):
        return None
    n, (rows, columns) = x.shape[rank - 1], shape
    if n > FEW or below > FEW or right > FEW or n + below > rows or n + right > columns or x.size > FEW * FEW // (rows * columns):
        return None
    out = empty_host(x.shape[:rank - 1] + (rows, columns), x.dtype)
    source, to = address(x), address(out)
    memset(to, 0, out.size * width)
    for b in range(x.size // n):
        for i in range(n):
            memcpy(to + ((b * rows + below + i) * columns + right + i) * width, source + (b * n + i) * width, width)
    return out


cdef Py_ssize_t _counted(const word* x, Py_ssize_t n, word mask) noexcept nogil:
    cdef Py_ssize_t i, found = 0
    for i in range(n):
        found += (x[i] & mask) != 0
    return found


def few_counted(TensorBase x not None):
    """How many elements are not 0 (int64): of floats, whose bits but the sign are not all 0. None where x is not row-major, there are
    many, or a graph is wanted."""
    cdef TensorBase out
    cdef int width = x.dtype.itemsize, sign = x.dtype.is_floating_point
    cdef char* a
    cdef Py_ssize_t found
    if x.size > FEW or not x.contiguous or not bare_one(x):
        return None
    a = address(x)
    if width == 4:
        found = _counted[uint32_t](<const uint32_t*>a, x.size, <uint32_t>-1 >> sign)
    elif width == 8:
        found = _counted[uint64_t](<const uint64_t*>a, x.size, <uint64_t>-1 >> sign)
    elif width == 2:
        found = _counted[uint16_t](<const uint16_t*>a, x.size, <uint16_t>(0xFFFF >> sign))
    else:
        found = _counted[uint8_t](<const uint8_t*>a, x.size, 0xFF)
    out = empty_host((), dtype_of(INT64))
    (<int64_t*>address(out))[0] = found
    return out


def as_batch(TensorBase x not None):
    """A batch of nothing but x, and `only` what is in it, if that takes no copy and no graph; else None."""
    return make_tensor(x.storage, (1,) + x.shape, (x.size,) + x._strides, x.offset, x.dtype) if x.contiguous and bare_one(x) else None


def only(TensorBase x not None):
    return make_tensor(x.storage, x.shape[1:], x._strides[1:], x.offset, x.dtype) if bare_one(x) else None


def of_one_dtype(tuple tensors not None, bint halves, dict options=None):
    """Whether the first is a tensor of at least 32 bits, or with `halves` of 16 while nothing is recorded, all tensors have its dtype, and
    none is among the options."""
    cdef DType first = (<TensorBase>tensors[0]).dtype if len(tensors) and isinstance(tensors[0], TensorBase) else None
    cdef bint half = first is not None and is_half(first.code)
    if first is None or half and not halves:
        return False
    for x in tensors:
        if isinstance(x, TensorBase) and ((<TensorBase>x).dtype is not first or half and grad_mode() and wants(<TensorBase>x)):
            return False
    if options is not None:
        for x in options.values():
            if isinstance(x, TensorBase):
                return False
    return True


def diagonal_sum(Primitive op not None, TensorBase x not None, dict params):
    """The sum of a matrix' diagonal by `op`; None where that is no matrix of floats, or a graph is wanted."""
    cdef int code = x.dtype.code
    if len(x.shape) != 2 or code != FLOAT32 and code != FLOAT64 or not bare_one(x):
        return None
    cdef Py_ssize_t rows = x.shape[0], columns = x.shape[1]
    cdef tuple strides = (<Py_ssize_t>x._strides[0] + <Py_ssize_t>x._strides[1],)
    return call_kernel(op, x.storage.device, (make_tensor(x.storage, (min(rows, columns),), strides, x.offset, x.dtype),), params, None)


def steps(Primitive op not None, TensorBase x not None, Py_ssize_t d):
    """What each element along d and the one before it give by `op`; None where x is not row-major and of 32 or 64 bits, or a graph is
    wanted. IN: no empty dimension d."""
    cdef int code = x.dtype.code
    if code != FLOAT32 and code != FLOAT64 and code != INT64 and code != INT32 or not x.contiguous or not bare_one(x):
        return None
    cdef Py_ssize_t length = x.shape[d], stride = x._strides[d]
    cdef tuple shape = x.shape[:d] + (length - 1,) + x.shape[d + 1:]
    cdef TensorBase earlier = make_tensor(x.storage, shape, x._strides, x.offset, x.dtype)
    cdef TensorBase later = make_tensor(x.storage, shape, x._strides, x.offset + stride, x.dtype)
    return call_kernel(op, x.storage.device, (later, earlier), None, None)


def flat_product(Primitive op not None, TensorBase a not None, TensorBase b not None):
    """The product of a matrix and a vector, either first, or of contiguous matrices of a batch and the same vector or matrix, as one of two
    matrices by `op`; None where that is not so or a graph is wanted. IN: of one inner size."""
    cdef int code = a.dtype.code, left = <int>len(a.shape), right = <int>len(b.shape)
    cdef Py_ssize_t k, n
    cdef TensorBase out
    cdef bint taken = code == FLOAT32 or code == FLOAT64 or code == INT64 or code == INT32 or is_half(code)
    if a.dtype is not b.dtype or not taken or not bare_one(a) or not bare_one(b):
        return None
    if left == 1:
        if right != 2:
            return None
        a = make_tensor(a.storage, (1, a.shape[0]), (a.size, a._strides[0]), a.offset, a.dtype)
        out = call_kernel(op, a.storage.device, (a, b), None, None)
        return make_tensor(out.storage, b.shape[1:], (1,), 0, out.dtype)
    if right > 2 or left > 2 and not a.contiguous:
        return None
    cdef tuple shape = a.shape[:left - 1]
    n = 1
    if right == 1:
        b = make_tensor(b.storage, (b.shape[0], 1), (b._strides[0], 1), b.offset, b.dtype)
    else:
        n = b.shape[1]
        shape = shape + (n,)
    if left > 2:
        k = b.shape[0]
        a = make_tensor(a.storage, (a.size // k if k else 0, k), (k, 1), a.offset, a.dtype)
        if k == 0:
            return None
    out = call_kernel(op, a.storage.device, (a, b), None, None)
    if left == 2 and right == 2:
        return out
    return make_tensor(out.storage, shape, (1,) if len(shape) == 1 else contiguous_strides(shape), 0, out.dtype)
