# Eigenvalues and vectors of a symmetric tridiagonal matrix; see tridiagonal.pyx.
from volta._kernels.cpu.real cimport real

cdef bint values_of(Py_ssize_t n, double* d, double* e, double eps) noexcept nogil
cdef bint iterate(Py_ssize_t n, double* d, double* e, real* z, Py_ssize_t ld, Py_ssize_t width, real* cosines, real* sines) noexcept nogil
cdef void sort_rows(Py_ssize_t n, double* d, real* z, Py_ssize_t ld, Py_ssize_t width) noexcept nogil
cdef void rotation(double f, double g, double* c, double* s, double* r) noexcept nogil
