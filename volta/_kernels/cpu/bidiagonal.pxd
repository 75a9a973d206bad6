# Singular values and vectors of an upper bidiagonal matrix; see bidiagonal.pyx.
from volta._kernels.cpu.real cimport real

cdef bint diagonalise(bint shared, Py_ssize_t n, double* d, double* e, real* u, Py_ssize_t u_row, Py_ssize_t u_width, real* v,
                      Py_ssize_t v_row, Py_ssize_t v_width, real* angles) noexcept nogil
cdef void make_upper(Py_ssize_t n, double* d, double* e, real* u, Py_ssize_t u_row, Py_ssize_t u_width, real* angles) noexcept nogil
cdef bint values_alone(Py_ssize_t n, double* d, double* e, double limit) noexcept nogil
