# Eigenvalues and vectors of a large symmetric tridiagonal matrix; see conquer.pyx.
from volta._kernels.cpu.real cimport real

cdef enum:
    LEAF = 32                   # rows up to which a matrix is not divided

cdef Py_ssize_t conquer_space(Py_ssize_t n) noexcept nogil
cdef bint conquer(bint shared, Py_ssize_t n, double* d, double* e, Py_ssize_t* order, real* z, real* other, Py_ssize_t ld,
                  double* room) noexcept nogil
