# Rows of zeros with a 1 at the place that a label names.
#
# Layout: labels of any shape, made contiguous. Threads: over rows. A label is looked at before its place is written.

from cython.parallel cimport prange
from libc.stdint cimport int64_t
from libc.string cimport memset

from volta._kernels.core.base cimport INT64, TensorBase, address, dtype_of, empty_host
from volta._kernels.core.threads cimport threads_for
from volta._kernels.cpu.copy cimport packed
from volta._kernels.cpu.index cimport first_outside

from volta.errors import DTypeError, IndexRangeError


cdef void some_rows(const int64_t* labels, Py_ssize_t first, Py_ssize_t last, Py_ssize_t classes, int64_t* out) noexcept nogil:
    cdef Py_ssize_t row
    memset(out + first * classes, 0, (last - first) * classes * sizeof(int64_t))
    for row in range(first, last):
        out[row * classes + labels[row]] = 1


cdef void all_rows(const int64_t* labels, Py_ssize_t n, Py_ssize_t classes, int64_t* out) noexcept nogil:
    cdef int threads = threads_for(n * classes), t
    if threads == 1:
        some_rows(labels, 0, n, classes, out)
        return
    for t in prange(threads, num_threads=threads, schedule="static"):
        some_rows(labels, n * t // threads, n * (t + 1) // threads, classes, out)


def one_hot(TensorBase index not None, Py_ssize_t classes):
    """[*shape, classes], int64."""
    if index.dtype.code != INT64:
        raise DTypeError(f"one_hot: labels must be int64, got {index.dtype.name}; cast them with .long()")
    index = packed(index)
    cdef const int64_t* labels = <const int64_t*>address(index)
    cdef Py_ssize_t n = index.size, at = first_outside(labels, n, classes)
    if at >= 0:
        raise IndexRangeError(f"one_hot: index {labels[at]} is out of range for a dimension of size {classes}")
    cdef TensorBase out = empty_host(index.shape + (classes,), dtype_of(INT64))
    cdef int64_t* target = <int64_t*>address(out)
    with nogil:
        all_rows(labels, n, classes, target)
    return out


KERNELS = {"one_hot": one_hot}
