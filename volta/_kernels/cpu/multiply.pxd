# Products of register tiles; see multiply.pyx.
from volta._kernels.cpu.real cimport real

cdef void multiply_ahead(Py_ssize_t k, const real* a, Py_ssize_t a_row, Py_ssize_t a_step, int rows, const real* b,
                         Py_ssize_t b_step, const real* next, Py_ssize_t next_step, Py_ssize_t stretch, real* out,
                         Py_ssize_t out_row, int columns, const real* bias, bint add, real* copy, bint whole) noexcept nogil


cdef inline void multiply(Py_ssize_t k, const real* a, Py_ssize_t a_row, Py_ssize_t a_step, int rows, const real* b, Py_ssize_t b_step,
                          real* out, Py_ssize_t out_row, int columns, const real* bias, bint add) noexcept nogil:
    """out[rows][columns] = a[rows][k] @ b[k][columns] + bias (NULL for none), + out if `add`; all where they lie. IN: at most TILE_ROWS
    rows and 3 vectors of columns, which have to be whole in b unless MASKED."""
    multiply_ahead(k, a, a_row, a_step, rows, b, b_step, b, 0, k, out, out_row, columns, bias, add, <real*>NULL, False)
