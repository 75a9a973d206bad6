# Elimination and substitution of one matrix; see lu_blocks.pyx.
from libc.stdint cimport int32_t

from volta._kernels.cpu.real cimport real

cdef enum:
    BLOCK = 16                  # columns that are eliminated one by one: whole vectors of each instruction set

cdef void substitute(bint shared, Py_ssize_t n, Py_ssize_t k, const real* a, Py_ssize_t row, Py_ssize_t column, bint unit, real* x,
                     Py_ssize_t xd, real* spare) noexcept nogil
cdef void add_product(bint shared, Py_ssize_t m, Py_ssize_t n, Py_ssize_t k, const real* a, Py_ssize_t a_row, Py_ssize_t a_column,
                      const real* b, real* c, Py_ssize_t ld) noexcept nogil
cdef Py_ssize_t eliminate(int team, Py_ssize_t m, Py_ssize_t count, real* a, Py_ssize_t ld, Py_ssize_t first, Py_ssize_t last,
                          int32_t* pivots, real* room) noexcept nogil
cdef Py_ssize_t eliminate_columns(Py_ssize_t m, Py_ssize_t count, real* c, Py_ssize_t far, int32_t* pivots) noexcept nogil
cdef bint factor_symmetric(bint shared, Py_ssize_t n, real* a, real* spare, Py_ssize_t ld, Py_ssize_t first, Py_ssize_t last) noexcept nogil


cdef inline void swap_rows(real* a, real* b, Py_ssize_t n) noexcept nogil:
    cdef Py_ssize_t i
    cdef real v
    for i in range(n):
        v = a[i]
        a[i], b[i] = b[i], v


cdef inline Py_ssize_t panel_room(Py_ssize_t m) noexcept nogil:
    """Elements in which `eliminate` turns a block of columns."""
    return BLOCK * ((m + BLOCK - 1) // BLOCK * BLOCK + BLOCK)
