# General matrix product on raw addresses; see gemm.pyx.
from volta._kernels.cpu.tile cimport real

cdef void gemm(Py_ssize_t m, Py_ssize_t n, Py_ssize_t k, const real* a, Py_ssize_t a_row, Py_ssize_t a_column,
               const real* b, Py_ssize_t b_row, Py_ssize_t b_column, const real* bias, real* out, real* space,
               int threads) noexcept nogil
cdef Py_ssize_t gemm_space(real* kind, int threads) noexcept nogil
cdef int gemm_threads(Py_ssize_t m, Py_ssize_t n, Py_ssize_t k) noexcept nogil

cdef void pack(Py_ssize_t width, Py_ssize_t full, Py_ssize_t depth, const real* x, Py_ssize_t across, Py_ssize_t along,
               real* out) noexcept nogil

cdef void store(const real* tile, Py_ssize_t width, Py_ssize_t rows, Py_ssize_t columns, const real* bias, bint first, real* out,
                Py_ssize_t n) noexcept nogil
