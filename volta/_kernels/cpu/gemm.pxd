# Matrix products on raw addresses; see gemm.pyx.
from volta._kernels.core.base cimport MAX_RANK
from volta._kernels.cpu.tile cimport real

# A batch of products out = a @ b + bias. Strides in elements; those of the matrices' dimensions stand apart from those of the batch's.
cdef struct Products:
    Py_ssize_t m, n, k, count
    Py_ssize_t a_row, a_column, b_row, b_column
    int rank
    Py_ssize_t shape[MAX_RANK]
    Py_ssize_t a_strides[MAX_RANK]
    Py_ssize_t b_strides[MAX_RANK]

# How they are computed.
cdef struct Plan:
    int threads
    bint thin                               # few rows, or few columns: without tiles
    bint outer                              # few k: row by row
    bint inner                              # rows of a times columns of b, as they lie
    bint few                                # few rows, b as it lies
    bint dealt                              # threads take blocks as they come
    Py_ssize_t cuts, length                 # parts of k that are summed apart, and their length
    Py_ssize_t depth, wide                  # at most: of blocks of these; columns at a time
    Py_ssize_t row_blocks, column_blocks    # of each product
    Py_ssize_t partial, own                 # elements of work space: sums of all parts, and of each thread

cdef void plan_products(Plan* plan, const Products* p, real* kind) noexcept nogil
cdef void gemm(const Plan* plan, const Products* p, const real* a, const real* b, const real* bias, real* out, real* space) noexcept nogil
cdef int gemm_threads(Py_ssize_t m, Py_ssize_t n, Py_ssize_t k) noexcept nogil

cdef void turn(Py_ssize_t rows, Py_ssize_t columns, const real* x, Py_ssize_t from_row, real* out, Py_ssize_t to_row) noexcept nogil

cdef void pack(Py_ssize_t width, Py_ssize_t full, Py_ssize_t depth, const real* x, Py_ssize_t across, Py_ssize_t along,
               real* out) noexcept nogil
