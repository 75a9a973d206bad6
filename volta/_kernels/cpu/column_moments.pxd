# Moments of columns, and sums of their gradients, over blocks of rows: for the norms of what lies with its channels together.
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


cdef inline double plain_mean(const real* x, Py_ssize_t n, Py_ssize_t stride, Py_ssize_t width) noexcept nogil:
    """The mean of n runs, without a start, from which some may be further than the element type holds."""
    cdef Py_ssize_t i, j
    cdef double total = 0
    for i in range(n):
        for j in range(width):
            total += x[i * stride + j]
    return total / <double>(n * width)


cdef inline void block_moments(const real* x, const real* origin, Py_ssize_t n, Py_ssize_t stride, Py_ssize_t columns,
                                 double* mean, double* away) noexcept nogil:
    """Means of some rows, and sums of squares beside them, of neighbouring channels. IN: origin, the first row of all: sums are of what is
    beyond it, so that means far from 0 cost no digits."""
    cdef real few[COLUMNS]
    cdef real start[COLUMNS]
    cdef Py_ssize_t i, j, k, stop = 0
    cdef double beyond = 0
    for j in range(columns):                    # the mean beside infinity is infinity, not NaN
        mean[j], away[j], start[j] = 0, 0, origin[j] if origin[j] - origin[j] == 0 else 0
    while stop < n:
        i, stop = stop, min(stop + <Py_ssize_t>SHORT, n)
        for j in range(columns):
            few[j] = 0
        for k in range(i, stop):
            for j in range(columns):
                few[j] += x[k * stride + j] - start[j]
        for j in range(columns):
            mean[j] += few[j]
    for j in range(columns):
        mean[j] = start[j] + mean[j] / <double>n
        beyond += mean[j] - mean[j]
    for j in range(columns if beyond != 0 else 0):
        if mean[j] - mean[j] != 0:
            mean[j] = plain_mean(x + j, n, stride, 1)
    for j in range(columns):
        start[j] = <real>mean[j]
    stop = 0
    while stop < n:
        i, stop = stop, min(stop + <Py_ssize_t>SHORT, n)
        for j in range(columns):
            few[j] = 0
        for k in range(i, stop):
            for j in range(columns):
                few[j] += (x[k * stride + j] - start[j]) * (x[k * stride + j] - start[j])
        for j in range(columns):
            away[j] += few[j]


cdef inline void block_sums(const real* g, const real* x, const real* mean, Py_ssize_t n, Py_ssize_t stride, Py_ssize_t columns,
                            double* total, double* product) noexcept nogil:
    """Sums of the gradients of some rows, and of their products with x - mean, of neighbouring channels."""
    cdef real b[COLUMNS]
    cdef real c[COLUMNS]
    cdef real m[COLUMNS]
    cdef Py_ssize_t i, j, k, stop = 0
    for j in range(columns):
        total[j], product[j], m[j] = 0, 0, mean[j]
    while stop < n:
        i, stop = stop, min(stop + <Py_ssize_t>SHORT, n)
        for j in range(columns):
            b[j] = c[j] = 0
        for k in range(i, stop):
            for j in range(columns):
                b[j] += g[k * stride + j]
                c[j] += g[k * stride + j] * (x[k * stride + j] - m[j])
        for j in range(columns):
            total[j] += b[j]
            product[j] += c[j]
