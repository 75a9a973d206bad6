# Products of reflections 1 - tau v v' of one matrix; see reflect_blocks.pyx.
from volta._kernels.cpu.real cimport real

cdef enum:
    PANEL = 64                  # columns whose reflections are applied together, as 1 - V T V'

# The reflections of a panel: v of unit lower columns, and -T, of which no more than the upper triangle is not 0.
cdef bint reflect_panel(bint shared, Py_ssize_t m, Py_ssize_t count, real* a, Py_ssize_t ld, real* tau, real* v, Py_ssize_t vd, real* t,
                        Py_ssize_t first, Py_ssize_t last, real least, real* room) noexcept nogil
cdef void collect(Py_ssize_t m, Py_ssize_t k, const real* a, Py_ssize_t row, Py_ssize_t column, const real* tau, real* v, Py_ssize_t vd,
                  real* t) noexcept nogil
cdef void apply_left(bint shared, bint turned, Py_ssize_t m, Py_ssize_t k, const real* v, Py_ssize_t vd, const real* t, real* c,
                     Py_ssize_t ld, Py_ssize_t n) noexcept nogil
cdef void apply_right(bint shared, Py_ssize_t rows, Py_ssize_t m, Py_ssize_t k, const real* a, Py_ssize_t row, Py_ssize_t column,
                      const real* tau, real* c, Py_ssize_t c_row, real* space) noexcept nogil
