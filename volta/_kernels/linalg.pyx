# Matrix products through NumPy's BLAS, on arrays laid over the tensors' memory: transposed operands are not copied.
#
# Layout: any strides. BLAS takes a matrix of which one stride is 1 and the other at least the length of a line; any
#   other is copied first, since NumPy would fall back on a plain loop.
# Threads: BLAS's own; the bias is added over rows. Sizes: the front end.

import numpy

from cython.parallel cimport prange
from libc.string cimport memset

from volta._kernels.core cimport FLOAT16, FLOAT32, FLOAT64, DType, TensorBase, address, empty_host, make_tensor
from volta._kernels.cpu cimport threads_for
from volta._kernels.tile cimport real
from volta._kernels.views cimport packed

cdef object new_array = numpy.ndarray
cdef object product = numpy.matmul
cdef list element_types = [numpy.dtype(name) for name in
                           ("bool", "uint8", "int32", "int64", "float16", "float32", "float64")]


cdef object as_array(TensorBase t, tuple shape, tuple strides):
    """NumPy array over a tensor's memory. IN: strides in elements."""
    cdef Py_ssize_t itemsize = t.dtype.itemsize
    cdef tuple steps
    if t.size == 0:                         # its strides and offset may lead outside the storage
        return new_array(shape, element_types[t.dtype.code])
    if len(strides) == 2:
        steps = (<Py_ssize_t>strides[0] * itemsize, <Py_ssize_t>strides[1] * itemsize)
    else:
        steps = tuple([<Py_ssize_t>step * itemsize for step in strides])
    return new_array(shape, element_types[t.dtype.code], t.storage, t.offset * itemsize, steps)


cdef bint fits_blas(TensorBase t):
    cdef Py_ssize_t n = len(t.shape)
    cdef Py_ssize_t rows = t.shape[n - 2], columns = t.shape[n - 1]
    cdef Py_ssize_t down = t._strides[n - 2], across = t._strides[n - 1]
    return (across == 1 and down >= columns) or (down == 1 and across >= rows)


cdef TensorBase operand(str name, TensorBase t):
    """A tensor that BLAS can take. Raises: DTypeError for float16."""
    if t.dtype.code == FLOAT16:
        from volta.errors import DTypeError
        raise DTypeError(f"{name}: the CPU does not compute in float16; cast it with .float()")
    return t if t.contiguous or fits_blas(t) else packed(t)


cdef bint is_trivial(TensorBase out, TensorBase a, TensorBase b):
    """Whether there is nothing to multiply; then `out` is zeros. (NumPy refuses some strides of empty arrays.)"""
    if out.size and a.size and b.size:
        return False
    memset(address(out), 0, out.size * out.dtype.itemsize)
    return True


cdef tuple joint_batch(tuple a, tuple b):
    """Broadcast batch dimensions of two shapes."""
    cdef Py_ssize_t i, j, n = max(len(a), len(b)) - 2
    cdef list batch = []
    for i in range(n):
        j = <Py_ssize_t>a[i - n + len(a) - 2] if i - n + <Py_ssize_t>len(a) - 2 >= 0 else 1
        batch.append(b[i - n + len(b) - 2] if j == 1 and i - n + <Py_ssize_t>len(b) - 2 >= 0 else j)
    return tuple(batch)


def matmul(TensorBase a not None, TensorBase b not None):
    """a[..., M, K] @ b[..., K, N]; batch dimensions broadcast."""
    cdef tuple left = a.shape, right = b.shape, shape, steps
    cdef Py_ssize_t rows
    cdef TensorBase out
    a, b = operand("matmul", a), operand("matmul", b)
    if len(left) == 2 and len(right) == 2:
        out = empty_host((left[0], right[1]), a.dtype)
        if is_trivial(out, a, b):
            return out
        product(as_array(a, left, a._strides), as_array(b, right, b._strides), as_array(out, out.shape, out._strides))
        return out
    shape = joint_batch(left, right) + (left[len(left) - 2], right[len(right) - 1])
    out = empty_host(shape, a.dtype)
    if is_trivial(out, a, b):
        return out
    if len(right) == 2 and a.contiguous:       # one product for the whole batch
        rows = out.size // <Py_ssize_t>shape[len(shape) - 1]
        left, shape = (rows, right[0]), (rows, right[1])
        product(as_array(a, left, (right[0], 1)), as_array(b, right, b._strides), as_array(out, shape, (right[1], 1)))
        return out
    product(as_array(a, left, a._strides), as_array(b, right, b._strides), as_array(out, shape, out._strides))
    return out


cdef void add_rows(real* out, const real* bias, Py_ssize_t first, Py_ssize_t last, Py_ssize_t columns) noexcept nogil:
    cdef Py_ssize_t i, j
    for i in range(first, last):
        for j in range(columns):
            out[i * columns + j] += bias[j]


cdef void add_bias(real* out, const real* bias, Py_ssize_t rows, Py_ssize_t columns) noexcept nogil:
    cdef int threads = threads_for(rows * columns), t
    for t in prange(threads, num_threads=threads, schedule="static"):
        add_rows(out, bias, rows * t // threads, rows * (t + 1) // threads, columns)


def linear(TensorBase x not None, TensorBase weight not None, TensorBase bias):
    """x[R, K] @ weight[N, K].T + bias[N]."""
    cdef tuple shape = weight.shape
    cdef TensorBase out = empty_host((x.shape[0], shape[0]), x.dtype)
    x, weight = operand("linear", x), operand("linear", weight)
    if not is_trivial(out, x, weight):
        product(as_array(x, x.shape, x._strides),
                as_array(weight, (shape[1], shape[0]), (weight._strides[1], weight._strides[0])),
                as_array(out, out.shape, out._strides))
    if bias is None:
        return out
    bias = packed(bias)
    if x.dtype.code == FLOAT32:
        add_bias[float](<float*>address(out), <const float*>address(bias), out.shape[0], out.shape[1])
    elif x.dtype.code == FLOAT64:
        add_bias[double](<double*>address(out), <const double*>address(bias), out.shape[0], out.shape[1])
    else:
        from volta.errors import DTypeError
        raise DTypeError(f"linear: needs float32 or float64, got {x.dtype.name}; cast it with .float()")
    return out


KERNELS = {"matmul": matmul, "linear": linear}
