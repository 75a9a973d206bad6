# Matrix products on raw addresses; see gemm.pyx.
from volta._kernels.cpu.gemm_plan cimport Plan, Products
from volta._kernels.cpu.real cimport real

cdef void gemm(const Plan* plan, const Products* p, const real* a, const real* b, const real* bias, real* out, real* space) noexcept nogil
cdef int gemm_threads(Py_ssize_t m, Py_ssize_t n, Py_ssize_t k) noexcept nogil

cdef void turn(Py_ssize_t rows, Py_ssize_t columns, const real* x, Py_ssize_t from_row, real* out, Py_ssize_t to_row) noexcept nogil

cdef void pack(Py_ssize_t width, Py_ssize_t full, Py_ssize_t depth, const real* x, Py_ssize_t across, Py_ssize_t along,
               real* out) noexcept nogil

cdef void few_rows(Py_ssize_t rows, Py_ssize_t columns, Py_ssize_t k, const real* x, Py_ssize_t x_row, const real* y, Py_ssize_t step,
                   Py_ssize_t across, real* out, Py_ssize_t out_row) noexcept nogil
