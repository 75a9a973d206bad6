# What other kernels use of index.pyx.
from libc.stdint cimport int64_t

from volta._kernels.core.base cimport TensorBase


cdef inline bint any_outside(const int64_t* index, Py_ssize_t n, int64_t length) noexcept nogil:
    """Whether an index is outside [0, length)."""
    cdef Py_ssize_t i
    cdef int64_t found = 0
    for i in range(n):
        found |= index[i] | (length - 1 - index[i])         # either is negative
    return found < 0


# Position of the first index outside [0, length), -1 where there is none.
cdef Py_ssize_t first_outside(const int64_t* index, Py_ssize_t n, int64_t length) noexcept nogil

# Contiguous indices, which are still to be checked. Raises: DTypeError unless int64.
cdef TensorBase as_index(str name, TensorBase index)

# Raises: IndexRangeError for the first index outside [0, length), if there is one.
cdef int refuse(str name, TensorBase index, Py_ssize_t length) except -1

# as_index, then refuse.
cdef TensorBase checked(str name, TensorBase index, Py_ssize_t dim, Py_ssize_t length)
