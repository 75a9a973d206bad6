# Reflections of few columns, each of which lies together; see reflect_columns.pyx.
from volta._kernels.cpu.real cimport real

cdef enum:
    TALL = 64                   # rows from which on few columns are taken so

cdef bint reflect_columns(Py_ssize_t m, Py_ssize_t columns, real* c, Py_ssize_t far, real* tau, real* t,
                          real least) noexcept nogil
cdef void columns_of_q(Py_ssize_t m, Py_ssize_t columns, const real* c, Py_ssize_t far, const real* t, Py_ssize_t k,
                       real* out) noexcept nogil
cdef void columns_t(Py_ssize_t m, Py_ssize_t columns, const real* c, Py_ssize_t far, const real* tau, real* t) noexcept nogil
cdef void columns_times(Py_ssize_t m, Py_ssize_t columns, const real* c, Py_ssize_t far, const real* t, bint turned, Py_ssize_t k,
                        real* x) noexcept nogil
cdef void take_columns(Py_ssize_t m, Py_ssize_t n, const real* a, Py_ssize_t row, Py_ssize_t column, real* out,
                       Py_ssize_t far) noexcept nogil
