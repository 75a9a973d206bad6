# Moments of columns, and sums of their gradients, over blocks of rows: of what lies with its channels together; see norm.pyx.
#
# Layout: rows `stride` elements apart, of at most COLUMNS columns at a time.
# Sums: in the element type over few rows, added in double; the variance is a second pass over (x - mean), while the block lies in a cache.
# Threads: none; blocks follow from the sizes. Sizes: the caller's.
from volta._kernels.cpu.real cimport real

cdef enum:
    COLUMNS = 768               # columns worked together,
    SHORT = 16                  # rows whose sums are kept in the element type,
    ROWS = 64                   # and of a block, at least
    BLOCKS = 32                 # at most


cdef inline Py_ssize_t blocks_of(Py_ssize_t n) noexcept nogil:
    """Blocks of about equally many rows."""
    return max(1, min(BLOCKS, n // ROWS))


cdef void block_moments(const real* x, const real* origin, Py_ssize_t n, Py_ssize_t stride, Py_ssize_t columns, double* mean,
                        double* away) noexcept nogil
cdef void block_sums(const real* g, const real* x, const real* mean, Py_ssize_t n, Py_ssize_t stride, Py_ssize_t columns, double* total,
                     double* product) noexcept nogil
