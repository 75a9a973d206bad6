# What other kernels use of index.pyx.
from libc.stdint cimport int64_t

# Position of the first index outside [0, length), -1 where there is none.
cdef Py_ssize_t first_outside(const int64_t* index, Py_ssize_t n, int64_t length) noexcept nogil
