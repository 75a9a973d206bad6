# General matrix product: out[m, n] = a[m, k] @ b[k, n] + bias[n].
#
# Layout: operands with any strides; out is row-major. Blocks of a (MC x KC) and panels of b (KC x 3 vectors) are packed into
#   the order in which the register tile of tile.pxd reads them; packing is also where transposed operands are turned.
# Threads: over panels of columns, or over blocks of rows where there are few columns. A sum's order is that of k in blocks of
#   KC whatever the threads.
# Sizes: the caller's. Why not NumPy's BLAS: its threads and OpenMP's fight for the processors (a training step took 10 to 100
#   times as long where both were busy), and this tile is faster than the BLAS of many NumPy builds.

from cython.parallel cimport prange

from volta._kernels.core.threads cimport threads_for
from volta._kernels.cpu.tile cimport TILE_ROWS, lanes, outer, real

cdef extern from *:
    """
    /* out[i][j] = x[j][i] for 8 x 8 numbers; strides in elements. */
    #if defined(__GNUC__) && (__GNUC__ >= 12 || defined(__clang__)) && (defined(__AVX__) || defined(__aarch64__))
    typedef float volta_v8 __attribute__((vector_size(32), aligned(4), may_alias));
    static inline void volta_turn8(const float* x, Py_ssize_t ldx, float* out, Py_ssize_t ldo) {
        volta_v8 r[8], s[8];
        int i;
        for (i = 0; i < 8; i++) r[i] = *(const volta_v8*)(x + i * ldx);
        for (i = 0; i < 4; i++) {
            s[2 * i] = __builtin_shufflevector(r[2 * i], r[2 * i + 1], 0, 8, 1, 9, 4, 12, 5, 13);
            s[2 * i + 1] = __builtin_shufflevector(r[2 * i], r[2 * i + 1], 2, 10, 3, 11, 6, 14, 7, 15);
        }
        for (i = 0; i < 2; i++) {
            r[4 * i] = __builtin_shufflevector(s[4 * i], s[4 * i + 2], 0, 1, 8, 9, 4, 5, 12, 13);
            r[4 * i + 1] = __builtin_shufflevector(s[4 * i], s[4 * i + 2], 2, 3, 10, 11, 6, 7, 14, 15);
            r[4 * i + 2] = __builtin_shufflevector(s[4 * i + 1], s[4 * i + 3], 0, 1, 8, 9, 4, 5, 12, 13);
            r[4 * i + 3] = __builtin_shufflevector(s[4 * i + 1], s[4 * i + 3], 2, 3, 10, 11, 6, 7, 14, 15);
        }
        for (i = 0; i < 4; i++) {
            *(volta_v8*)(out + i * ldo) = __builtin_shufflevector(r[i], r[i + 4], 0, 1, 2, 3, 8, 9, 10, 11);
            *(volta_v8*)(out + (i + 4) * ldo) = __builtin_shufflevector(r[i], r[i + 4], 4, 5, 6, 7, 12, 13, 14, 15);
        }
    }
    #else
    static inline void volta_turn8(const float* x, Py_ssize_t ldx, float* out, Py_ssize_t ldo) {
        int i, j;
        for (i = 0; i < 8; i++) for (j = 0; j < 8; j++) out[i * ldo + j] = x[j * ldx + i];
    }
    #endif
    """
    void turn8 "volta_turn8"(const float* x, Py_ssize_t ldx, float* out, Py_ssize_t ldo) noexcept nogil

cdef enum:
    MC = 256                    # rows of a packed block of a: with KC, a quarter of a megabyte
    KC = 256
    PAD = 64
    THIN = 3                    # up to so many rows, packing b costs more than reading it again for each


cdef Py_ssize_t gemm_space(real* kind, int threads) noexcept nogil:
    """Elements of work space for `threads` threads. The argument only names the type."""
    return threads * (MC * KC + KC * 3 * lanes(kind) + TILE_ROWS * 3 * lanes(kind) + 3 * PAD)


cdef int gemm_threads(Py_ssize_t m, Py_ssize_t n, Py_ssize_t k) noexcept nogil:
    """Threads that a product of this size is worth."""
    return threads_for(m * n * k // 16)


cdef void pack(Py_ssize_t width, Py_ssize_t full, Py_ssize_t depth, const real* x, Py_ssize_t across, Py_ssize_t along,
               real* out) noexcept nogil:
    """out[p][j] = x[j * across + p * along] for p < depth, j < width; zeros for width <= j < full."""
    cdef Py_ssize_t p, j, p8 = 0, j8 = 0
    cdef const real* row
    if across == 1:
        for p in range(depth):
            row = x + p * along
            for j in range(width):
                out[p * full + j] = row[j]
    else:
        if real is float:
            if along == 1:
                j8, p8 = width & ~<Py_ssize_t>7, depth & ~<Py_ssize_t>7
                for j in range(0, j8, 8):
                    for p in range(0, p8, 8):
                        turn8(x + j * across + p, across, out + p * full + j, full)
        for j in range(j8):
            for p in range(p8, depth):
                out[p * full + j] = x[j * across + p * along]
        for j in range(j8, width):
            for p in range(depth):
                out[p * full + j] = x[j * across + p * along]
    if width < full:
        for p in range(depth):
            for j in range(width, full):
                out[p * full + j] = 0


cdef void store(const real* tile, Py_ssize_t width, Py_ssize_t rows, Py_ssize_t columns, const real* bias, bint first,
                real* out, Py_ssize_t n) noexcept nogil:
    """Write a tile's part of out, or add it to what earlier blocks of k have left there."""
    cdef Py_ssize_t i, j
    for i in range(rows):
        if not first:
            for j in range(columns):
                out[i * n + j] += tile[i * width + j]
        elif bias != NULL:
            for j in range(columns):
                out[i * n + j] = tile[i * width + j] + bias[j]
        else:
            for j in range(columns):
                out[i * n + j] = tile[i * width + j]


cdef void block(Py_ssize_t first_row, Py_ssize_t rows, Py_ssize_t first_panel, Py_ssize_t last_panel, Py_ssize_t n, Py_ssize_t k,
                const real* a, Py_ssize_t a_row, Py_ssize_t a_column, const real* b, Py_ssize_t b_row, Py_ssize_t b_column,
                const real* bias, real* out, real* space) noexcept nogil:
    """The rows first_row .. + rows of out, in the columns of these panels."""
    cdef Py_ssize_t width = 3 * lanes(out), k0, depth, i0, i, count, panel, column, columns
    cdef real* packed_a = space
    cdef real* packed_b = packed_a + MC * KC + PAD
    cdef real* tile = packed_b + KC * width + PAD
    k0 = 0
    while k0 < k:
        depth = min(KC, k - k0)
        i0 = first_row
        while i0 < first_row + rows:
            count = min(MC, first_row + rows - i0)
            i = 0
            while i < count:
                pack(min(TILE_ROWS, count - i), TILE_ROWS, depth, a + (i0 + i) * a_row + k0 * a_column, a_row, a_column,
                     packed_a + i * depth)
                i += TILE_ROWS
            for panel in range(first_panel, last_panel):
                column = panel * width
                columns = min(width, n - column)
                pack(columns, width, depth, b + k0 * b_row + column * b_column, b_column, b_row, packed_b)
                i = 0
                while i < count:
                    outer(depth, <const real*>packed_a + i * depth, <const real*>packed_b, tile,
                          <int>((columns + width // 3 - 1) // (width // 3)))
                    store(<const real*>tile, width, min(TILE_ROWS, count - i), columns,
                          bias + column if bias != NULL else <const real*>NULL, k0 == 0, out + (i0 + i) * n + column, n)
                    i += TILE_ROWS
            i0 += MC
        k0 += KC


cdef real dot(const real* x, Py_ssize_t step, const real* y, Py_ssize_t n) noexcept nogil:
    """Sum of x[p * step] * y[p], in 16 interleaved sums."""
    cdef real[16] sums
    cdef Py_ssize_t p = 0, j
    for j in range(16):
        sums[j] = 0
    if step == 1:
        while p + 16 <= n:
            for j in range(16):
                sums[j] += x[p + j] * y[p + j]
            p += 16
    while p < n:
        sums[p & 15] += x[p * step] * y[p]
        p += 1
    for j in range(8):
        sums[j] += sums[j + 8]
    for j in range(4):
        sums[j] += sums[j + 4]
    return (sums[0] + sums[2]) + (sums[1] + sums[3])


cdef void thin(Py_ssize_t row, Py_ssize_t first, Py_ssize_t last, Py_ssize_t n, Py_ssize_t k, const real* a, Py_ssize_t a_row,
               Py_ssize_t a_column, const real* b, Py_ssize_t b_row, Py_ssize_t b_column, const real* bias,
               real* out) noexcept nogil:
    """Columns first .. last of one row of out, without packing: b is read once, in the direction in which it lies."""
    cdef Py_ssize_t j, p
    cdef real x
    cdef real* y = out + row * n
    for j in range(first, last):
        y[j] = bias[j] if bias != NULL else 0
    if b_row == 1:
        for j in range(first, last):
            y[j] += dot(a + row * a_row, a_column, b + j * b_column, k)
        return
    for p in range(k):
        x = a[row * a_row + p * a_column]
        if b_column == 1:
            for j in range(first, last):
                y[j] += x * b[p * b_row + j]
        else:
            for j in range(first, last):
                y[j] += x * b[p * b_row + j * b_column]


cdef void gemm(Py_ssize_t m, Py_ssize_t n, Py_ssize_t k, const real* a, Py_ssize_t a_row, Py_ssize_t a_column,
               const real* b, Py_ssize_t b_row, Py_ssize_t b_column, const real* bias, real* out, real* space,
               int threads) noexcept nogil:
    """out = a @ b + bias (NULL for none). IN: strides in elements; k > 0; OUT: out[m][n]; space of gemm_space elements."""
    cdef Py_ssize_t width = 3 * lanes(out), panels = (n + width - 1) // width, own = gemm_space(out, 1)
    cdef Py_ssize_t tiles = (m + TILE_ROWS - 1) // TILE_ROWS, r0, r1
    cdef int t
    if m <= THIN:
        for r0 in range(m):
            for t in prange(threads, num_threads=threads, schedule="static"):
                thin(r0, n * t // threads, n * (t + 1) // threads, n, k, a, a_row, a_column, b, b_row, b_column, bias, out)
    elif threads == 1:
        block(0, m, 0, panels, n, k, a, a_row, a_column, b, b_row, b_column, bias, out, space)
    elif panels >= 4 * threads or panels >= tiles:
        for t in prange(threads, num_threads=threads, schedule="static"):
            block(0, m, panels * t // threads, panels * (t + 1) // threads, n, k, a, a_row, a_column, b, b_row, b_column, bias, out,
                  space + t * own)
    else:
        for t in prange(threads, num_threads=threads, schedule="static"):
            r0 = tiles * t // threads * TILE_ROWS
            r1 = min(m, tiles * (t + 1) // threads * TILE_ROWS)
            block(r0, r1 - r0, 0, panels, n, k, a, a_row, a_column, b, b_row, b_column, bias, out, space + t * own)
