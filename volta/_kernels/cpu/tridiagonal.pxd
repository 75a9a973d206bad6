# Eigenvalues and vectors of a symmetric tridiagonal matrix; see tridiagonal.pyx.
from volta._kernels.cpu.real cimport real

cdef bint values_of(Py_ssize_t n, double* d, double* e, double eps) noexcept nogil
cdef void rotation(double f, double g, double* c, double* s, double* r) noexcept nogil
cdef Py_ssize_t conquer_space(Py_ssize_t n) noexcept nogil
cdef bint conquer(bint shared, Py_ssize_t n, double* d, double* e, Py_ssize_t* order, real* z, real* other, Py_ssize_t ld,
                  double* room) noexcept nogil
