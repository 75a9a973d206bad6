# How matrix products are computed; see gemm_plan.pyx.
from volta._kernels.core.base cimport MAX_RANK
from volta._kernels.cpu.real cimport real
from volta._kernels.cpu.tile cimport MASKED

cdef enum:
    PAD = 64
    THIN = 3                    # rows or columns up to which reading the other operand is all that counts
    FETCHED = 2359296           # bytes from which on b is fetched ahead there, and all rows of a elsewhere,
    TURNED = 16                 # rows of a that are turned at a time, whole tiles: a cache line of each column, if these are contiguous
    FORESEEN = 32               # vectors between columns of a up to which the processor sees the next ones coming

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
    bint turned                             # the transpose, b.T @ a.T: rows are those of b.T, columns those of a.T
    bint few                                # few rows, b as it lies
    bint far                                # which comes from memory
    bint dealt                              # threads take blocks as they come
    Py_ssize_t cuts, length                 # parts of k that are summed apart, and their length
    Py_ssize_t depth, wide                  # at most: of blocks of these; columns at a time
    Py_ssize_t tall                         # rows at a time of a transpose
    Py_ssize_t row_blocks, column_blocks    # of each product
    Py_ssize_t partial, own                 # elements of work space: sums of all parts, and of each thread


cdef inline bint turns_a(const Products* p, Py_ssize_t width) noexcept nogil:
    """Whether what tiles read of a is turned before: columns that are near one another are read where they lie."""
    return p.a_column != 1 and not (MASKED and p.a_row == 1 and p.a_column <= FORESEEN * width)


cdef inline void transpose(const Products* p, Products* q) noexcept nogil:
    """OUT: q, one product of p transposed."""
    q.m, q.n, q.k, q.count, q.rank = p.n, p.m, p.k, p.count, 0
    q.a_row, q.a_column, q.b_row, q.b_column = p.b_column, p.b_row, p.a_column, p.a_row


cdef void plan_products(Plan* plan, const Products* p, real* kind) noexcept nogil
