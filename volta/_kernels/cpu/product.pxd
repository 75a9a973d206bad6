# Products of blocks that lie in the nearest caches, taken as they lie: where copying them into panels would cost more than it gives.
#
# Layout: rows of any stride, but those of b and c in whole vectors. Threads: none. Sizes: the caller's.

from volta._kernels.cpu.multiply cimport multiply
from volta._kernels.cpu.real cimport real
from volta._kernels.cpu.tile cimport TILE_ROWS, lanes


cdef inline Py_ssize_t up(Py_ssize_t n, Py_ssize_t step) noexcept nogil:
    """n, rounded up to whole steps."""
    return (n + step - 1) // step * step


cdef inline void product(Py_ssize_t m, Py_ssize_t n, Py_ssize_t k, const real* a, Py_ssize_t a_row, Py_ssize_t a_column, const real* b,
                         Py_ssize_t b_row, real* c, Py_ssize_t c_row, bint add) noexcept nogil:
    """c[m][n] = a[m][k] @ b[k][n], or += it. Columns in threes of vectors, shared out evenly, so that none is left with one where two and
    two do; rows in even tiles."""
    cdef Py_ssize_t width = lanes(c), vectors = n // width, chunks = (vectors + 2) // 3, tiles = (m + TILE_ROWS - 1) // TILE_ROWS
    cdef Py_ssize_t chunk, tile, first, last, i, end
    for chunk in range(chunks):
        first, last = vectors * chunk // chunks * width, vectors * (chunk + 1) // chunks * width
        for tile in range(tiles):
            i, end = m * tile // tiles, m * (tile + 1) // tiles
            multiply(k, a + i * a_row, a_row, a_column, <int>(end - i), b + first, b_row, c + i * c_row + first, c_row,
                     <int>(last - first), <const real*>NULL, add)
