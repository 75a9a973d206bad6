# Convolution with kernels of 3 x 3 and stride 1 by Winograd's F(2 x 2, 3 x 3): 16 products where there are 36, and sums.
#
# The places are tiles of 2 x 2 outputs, which see 4 x 4 inputs, two apart (Lavin and Gray 2015). For a panel of tiles,
#   V[16][c][3 vectors] are the transformed inputs, U[tiles of rows][16][c][TILE_ROWS] the transformed weights, and
#   M[16][rows][3 vectors] their products, from which the outputs are summed.
# The transforms are sums of four terms with weights 1 and 1/2: the error is that of a direct convolution within a factor of two. They
#   would spread what is not finite over a tile: where a result is not, the caller computes directly.
# Threads: over groups, chunks and blocks of rows, chosen by sizes only. Sizes: the front end.

from cython.parallel cimport prange, threadid
from libc.string cimport memset

from volta._kernels.core.base cimport Storage, host_storage
from volta._kernels.cpu.conv_plan cimport (
    TARGET, Axis, Chunk, Plan, band_size, ceil_div, chunk_at, items_of, load_band, make_tables, pixels_in, pixels_out, set_chunk,
    threads_of)
from volta._kernels.cpu.tile cimport TILE_ROWS, lanes, outer, real

cdef extern from *:
    """
    /* v[i * 4 + j][first n lanes] = (Bt d B)[i][j] of the 4 x 4 vectors of which b has rows `pitch` apart, odd columns `stretch` behind. */
    #define VOLTA_WINOGRAD(S, T)                                                                                    \\
    static void volta_winograd_in##S(Py_ssize_t n, const T* b, Py_ssize_t pitch, Py_ssize_t stretch, T* v, Py_ssize_t plane) { \\
        volta_v##S t[4][4], u[4];                                                                                   \\
        int i, j;                                                                                                   \\
        VOLTA_UNROLL for (j = 0; j < 4; j++) {                                                                      \\
            const T* column = b + (j & 1) * stretch + (j >> 1);                                                     \\
            VOLTA_UNROLL for (i = 0; i < 4; i++) u[i] = *(const volta_v##S*)(column + i * pitch);                   \\
            t[0][j] = u[0] - u[2];                                                                                  \\
            t[1][j] = u[1] + u[2];                                                                                  \\
            t[2][j] = u[2] - u[1];                                                                                  \\
            t[3][j] = u[1] - u[3];                                                                                  \\
        }                                                                                                           \\
        VOLTA_UNROLL for (i = 0; i < 4; i++) {                                                                      \\
            volta_some_lanes##S(n, t[i][0] - t[i][2], 0, 0, v + (i * 4) * plane);                                         \\
            volta_some_lanes##S(n, t[i][1] + t[i][2], 0, 0, v + (i * 4 + 1) * plane);                                     \\
            volta_some_lanes##S(n, t[i][2] - t[i][1], 0, 0, v + (i * 4 + 2) * plane);                                     \\
            volta_some_lanes##S(n, t[i][1] - t[i][3], 0, 0, v + (i * 4 + 3) * plane);                                     \\
        }                                                                                                           \\
    }
    VOLTA_WINOGRAD(32, float)
    VOLTA_WINOGRAD(64, double)

    /* n numbers of a and b in turn, with the bias, to y. */
    #if defined(__AVX512F__)
      static inline void volta_turns32(Py_ssize_t n, volta_v32 a, volta_v32 b, float bias, float* y) {
          const __m512i low = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
          const __m512i high = _mm512_add_epi32(low, _mm512_set1_epi32(8));
          volta_some_lanes32(n < 16 ? n : 16, (volta_v32)_mm512_permutex2var_ps((__m512)a, low, (__m512)b), bias, 0, y);
          if (n > 16) volta_some_lanes32(n - 16, (volta_v32)_mm512_permutex2var_ps((__m512)a, high, (__m512)b), bias, 0, y + 16);
      }
      static inline void volta_turns64(Py_ssize_t n, volta_v64 a, volta_v64 b, double bias, double* y) {
          const __m512i low = _mm512_setr_epi64(0, 8, 1, 9, 2, 10, 3, 11), high = _mm512_add_epi64(low, _mm512_set1_epi64(4));
          volta_some_lanes64(n < 8 ? n : 8, (volta_v64)_mm512_permutex2var_pd((__m512d)a, low, (__m512d)b), bias, 0, y);
          if (n > 8) volta_some_lanes64(n - 8, (volta_v64)_mm512_permutex2var_pd((__m512d)a, high, (__m512d)b), bias, 0, y + 8);
      }
    #else
      #define VOLTA_TURNS(S, T)                                                                                     \\
      static inline void volta_turns##S(Py_ssize_t n, volta_v##S a, volta_v##S b, T bias, T* y) {                   \\
          Py_ssize_t j;                                                                                             \\
          for (j = 0; 2 * j + 1 < n; j++) { y[2 * j] = ((T*)&a)[j] + bias; y[2 * j + 1] = ((T*)&b)[j] + bias; }     \\
          if (n & 1) y[n - 1] = ((T*)&a)[n / 2] + bias;                                                             \\
      }
      VOLTA_TURNS(32, float)
      VOLTA_TURNS(64, double)
    #endif
    /* Two rows of n outputs at y, `row` apart (0: the first alone), = At m A of the 4 x 4 vectors m[(i * 4 + j) * plane] of `tiles` tiles.
       Of those what is not finite becomes NaN in odd. */
    #define VOLTA_WINOGRAD_OUT(S, T)                                                                                \\
    static void volta_winograd_out##S(const T* m, Py_ssize_t plane, Py_ssize_t tiles, Py_ssize_t n, T bias, T* y,   \\
                                      Py_ssize_t row, T* odd) {                                                     \\
        volta_v##S t[2][4], u[4], none = (volta_v##S){0}, both;                                                     \\
        int i, j;                                                                                                   \\
        VOLTA_UNROLL for (j = 0; j < 4; j++) {                                                                      \\
            VOLTA_UNROLL for (i = 0; i < 4; i++) u[i] = *(const volta_v##S*)(m + (i * 4 + j) * plane);              \\
            t[0][j] = u[0] + u[1] + u[2];                                                                           \\
            t[1][j] = u[1] - u[2] - u[3];                                                                           \\
        }                                                                                                           \\
        VOLTA_UNROLL for (i = 0; i < 2; i++) {                                                                      \\
            const volta_v##S a = t[i][0] + t[i][1] + t[i][2], b = t[i][1] - t[i][2] - t[i][3];                      \\
            none += (a - a) + (b - b);                                                                              \\
            if (i == 0 || row > 0) volta_turns##S(n, a, b, bias, y + i * row);                                      \\
        }                                                                                                           \\
        both = *(volta_v##S*)odd + none;                                                                            \\
        volta_some_lanes##S(tiles, both, 0, 0, odd);                                                                      \\
    }
    VOLTA_WINOGRAD_OUT(32, float)
    VOLTA_WINOGRAD_OUT(64, double)
    """
    void winograd_in32 "volta_winograd_in32"(Py_ssize_t n, const float* b, Py_ssize_t pitch, Py_ssize_t stretch, float* v,
                                             Py_ssize_t plane) noexcept nogil
    void winograd_in64 "volta_winograd_in64"(Py_ssize_t n, const double* b, Py_ssize_t pitch, Py_ssize_t stretch, double* v,
                                             Py_ssize_t plane) noexcept nogil
    void winograd_out32 "volta_winograd_out32"(const float* m, Py_ssize_t plane, Py_ssize_t tiles, Py_ssize_t n, float bias, float* y,
                                               Py_ssize_t row, float* odd) noexcept nogil
    void winograd_out64 "volta_winograd_out64"(const double* m, Py_ssize_t plane, Py_ssize_t tiles, Py_ssize_t n, double bias, double* y,
                                               Py_ssize_t row, double* odd) noexcept nogil

cdef enum:
    POINTS = 16                 # products of a tile
    DEPTH = 128                 # terms of one sum
    LARGEST_ROWS = 8
    LARGEST_VECTOR = 16
    LEAST_CHANNELS = 32         # read and written: the transforms are a small part then,
    LEAST_LINE = 256            # and channels times tiles of a row: or vectors of tiles are too short
    LEAST_TILES = 192           # of all images, for which the weights are transformed
    BLOCK_ROWS = 64             # channels of a block, if parts are needed


cdef bint fits(Plan* p) noexcept nogil:
    """Whether the sizes are such that this way is faster."""
    cdef Py_ssize_t tiles = ceil_div(p.h.places, 2) * ceil_div(p.w.places, 2)
    return (p.d.full == p.d.source == p.d.kernel == 1 and p.d.padding == 0 and suits(&p.h) and suits(&p.w)
            and min(p.c, p.o) >= LEAST_CHANNELS
            and min(p.c, p.o) * ceil_div(p.w.places, 2) >= LEAST_LINE and p.n * tiles >= LEAST_TILES
            and 16 * tiles <= 5 * p.h.places * p.w.places)


cdef bint suits(Axis* a) noexcept nogil:
    return a.kernel == 3 and a.dilation == a.stride == a.step == a.skip == 1


cdef void transform_weight(Plan* p, Py_ssize_t item, const real* weight, real* out) noexcept nogil:
    """U of one tile of rows. OUT: its place in [groups][tiles][16][c][TILE_ROWS]."""
    cdef Py_ssize_t tiles = ceil_div(p.o, TILE_ROWS), group = item // tiles, row0 = item % tiles * TILE_ROWS, c, r, i, j
    cdef Py_ssize_t rows = min(TILE_ROWS, p.o - row0)
    cdef Py_ssize_t row_stride = 9 if p.transposed else 9 * p.c, channel_stride = 9 * p.o if p.transposed else 9
    cdef real[3][3][LARGEST_ROWS] g
    cdef real[4][3][LARGEST_ROWS] t
    cdef const real* w
    cdef real* u
    weight += group * p.o * p.c * 9 + row0 * row_stride
    memset(&g[0][0][0], 0, sizeof(g))
    for c in range(p.c):
        w = weight + c * channel_stride
        for i in range(3):
            for j in range(3):
                for r in range(rows):
                    g[i][j][r] = w[r * row_stride + (8 - i * 3 - j if p.transposed else i * 3 + j)]
        for j in range(3):
            for r in range(TILE_ROWS):
                t[0][j][r] = g[0][j][r]
                t[1][j][r] = (g[0][j][r] + g[2][j][r] + g[1][j][r]) * <real>0.5
                t[2][j][r] = (g[0][j][r] + g[2][j][r] - g[1][j][r]) * <real>0.5
                t[3][j][r] = g[2][j][r]
        for i in range(4):
            u = out + ((item * POINTS + i * 4) * p.c + c) * TILE_ROWS
            for r in range(TILE_ROWS):
                u[r] = t[i][0][r]
                u[p.c * TILE_ROWS + r] = (t[i][0][r] + t[i][2][r] + t[i][1][r]) * <real>0.5
                u[2 * p.c * TILE_ROWS + r] = (t[i][0][r] + t[i][2][r] - t[i][1][r]) * <real>0.5
                u[3 * p.c * TILE_ROWS + r] = t[i][2][r]


cdef void transform_input(Plan* p, Py_ssize_t first, Py_ssize_t end, Py_ssize_t columns, const real* band, real* v,
                          Py_ssize_t plane) noexcept nogil:
    """V of the vectors first .. end of a chunk, one panel. OUT: v[16 planes][c][3 vectors], of the tiles below `columns`."""
    cdef Py_ssize_t width = 3 * p.lanes, c, run
    for c in range(p.c):
        for run in range(p.first_run[first], p.first_run[end]):
            if p.run_columns[run] < columns:
                if real is float:
                    winograd_in32(p.run_lengths[run], band + c * p.h.band * p.pitch + p.run_places[run], p.pitch, p.stretch,
                                  v + c * width + p.run_columns[run] - first * p.lanes, plane)
                else:
                    winograd_in64(p.run_lengths[run], band + c * p.h.band * p.pitch + p.run_places[run], p.pitch, p.stretch,
                                  v + c * width + p.run_columns[run] - first * p.lanes, plane)


cdef bint sum_outputs(Plan* p, Chunk* chunk, Py_ssize_t first, Py_ssize_t end, Py_ssize_t row0, Py_ssize_t row1, const real* m,
                      Py_ssize_t plane, const real* bias, real* out) noexcept nogil:
    """The outputs of the tiles of these vectors: whether all are finite. IN: m[16 planes][rows][3 vectors]. OUT: out, the group's first
    channel of the chunk."""
    cdef real[LARGEST_VECTOR] odd
    cdef Py_ssize_t width = 3 * p.lanes, r, run, column, n, row, x, below, pixels = pixels_out(p)
    cdef bint finite = True
    cdef real b
    cdef real* to
    memset(&odd[0], 0, sizeof(odd))
    for run in range(p.first_run[first], p.first_run[end]):
        if p.run_columns[run] >= chunk.columns:
            break
        column = p.run_columns[run] - first * p.lanes
        x, row = 2 * p.pieces[run].x, 2 * (chunk.y + p.pieces[run].y)
        n = min(2 * p.run_lengths[run], p.w.full - x)
        below = p.w.full if row + 1 < p.h.full else 0
        for r in range(row0, row1):
            b = bias[r] if bias != NULL else 0
            to = out + (p.pieces[run].image * p.groups * p.o + r) * pixels + row * p.w.full + x
            if real is float:
                winograd_out32(m + (r - row0) * width + column, plane, p.run_lengths[run], n, b, to, below, &odd[0])
            else:
                winograd_out64(m + (r - row0) * width + column, plane, p.run_lengths[run], n, b, to, below, &odd[0])
    for n in range(p.lanes):
        finite = finite and odd[n] == 0
    return finite


cdef inline Py_ssize_t plane_of(Plan* p, Py_ssize_t rows) noexcept nogil:
    """Elements of one of 16 planes of rows of 3 vectors: one more, so that not all use the same sets of the cache."""
    return (3 * rows + 1) * p.lanes


cdef inline void product(Py_ssize_t depth, const real* a, const real* b, real* tile, int vectors) noexcept nogil:
    """The tile of a[depth][TILE_ROWS] x b[depth][3 vectors], in sums of up to DEPTH terms, which keeps the error small."""
    cdef real[LARGEST_ROWS * 3 * LARGEST_VECTOR] part
    cdef Py_ssize_t width = 3 * lanes(tile), step = ceil_div(depth, ceil_div(depth, DEPTH)), k, i
    outer(step, a, b, tile, vectors)
    k = step
    while k < depth:
        outer(min(step, depth - k), a + k * TILE_ROWS, b + k * width, &part[0], vectors)
        for i in range(TILE_ROWS * width):
            tile[i] += part[i]
        k += step


cdef bint winograd_part(Plan* p, Py_ssize_t block, Py_ssize_t item, const real* x, const real* u, const real* bias, real* out,
                        real* v, real* m, real* band) noexcept nogil:
    """One block of rows of one group for one chunk of tiles: whether all results are finite."""
    cdef Py_ssize_t group = item % p.groups, row0 = item // p.groups // p.chunks * block, row1 = min(row0 + block, p.o)
    cdef Py_ssize_t width = 3 * p.lanes, panels, panel, point, tile, tiles = ceil_div(p.o, TILE_ROWS), first, end = 0
    cdef Py_ssize_t v_plane = plane_of(p, p.c), m_plane = plane_of(p, block)
    cdef Chunk chunk = chunk_at(p, item // p.groups % p.chunks)
    cdef bint finite = True
    panels = ceil_div(chunk.vectors, 3)
    load_band(p, &chunk, x + group * p.c * pixels_in(p), x + p.n * p.groups * p.c * pixels_in(p), p.c, p.c, band)
    for panel in range(panels):
        first, end = end, chunk.vectors * (panel + 1) // panels
        transform_input(p, first, end, chunk.columns, <const real*>band, v, v_plane)
        for point in range(POINTS):
            for tile in range(row0 // TILE_ROWS, ceil_div(row1, TILE_ROWS)):
                product(p.c, u + ((group * tiles + tile) * POINTS + point) * p.c * TILE_ROWS, <const real*>v + point * v_plane,
                        m + point * m_plane + (tile * TILE_ROWS - row0) * width, <int>(end - first))
        finite = sum_outputs(p, &chunk, first, end, row0, row1, <const real*>m, m_plane,
                             bias + group * p.o if bias != NULL else <const real*>NULL,
                             out + (chunk.image * p.groups + group) * p.o * pixels_out(p)) and finite
    return finite


cdef bint convolve_by_winograd(Plan* whole, const real* x, const real* weight, const real* bias, real* out) except -1:
    """Whether `out` could be computed this way: not where the sizes do not suit, or where a result is not finite. Allocates."""
    if not fits(whole):
        return False
    cdef Plan q = whole[0]
    cdef Plan* p = &q
    cdef int threads = threads_of(p), bad = 0
    cdef Py_ssize_t tiles = ceil_div(p.o, TILE_ROWS), block, target, own, item, items, wanted = items_of(p), vs, ms
    p.lanes, p.direct, p.joined = lanes(out), False, False
    p.h.places, p.w.places = ceil_div(p.h.full, 2), ceil_div(p.w.full, 2)
    p.h.stride, p.w.stride, p.h.reach, p.w.reach = 2, 2, 4, 4
    block, target = tiles * TILE_ROWS, TARGET // 4
    set_chunk(p, target)
    while p.chunks * p.groups * ceil_div(p.o, block) < wanted and (target > 3 * p.lanes or block > BLOCK_ROWS):
        if target > 3 * p.lanes:
            target //= 2
            set_chunk(p, target)
        else:
            block = ceil_div(block // 2, TILE_ROWS) * TILE_ROWS
    cdef Storage tables = make_tables(p, p.c, p.c, 0, 0)
    vs, ms = POINTS * plane_of(p, p.c), POINTS * plane_of(p, block)
    own = ceil_div(vs + ms + band_size(p, p.c) + 2 * p.lanes, 16) * 16
    items = p.chunks * p.groups * ceil_div(p.o, block)
    cdef Storage scratch = host_storage((threads * own + p.groups * tiles * TILE_ROWS * p.c * POINTS) * sizeof(real))
    cdef real* buffers = <real*>scratch.data
    cdef real* u = buffers + threads * own
    with nogil:
        for item in prange(p.groups * tiles, num_threads=threads, schedule="static"):
            transform_weight(p, item, weight, u)
        for item in prange(items, num_threads=threads, schedule="dynamic"):
            bad += not winograd_part(p, block, item, x, <const real*>u, bias, out, buffers + threadid() * own,
                                     buffers + threadid() * own + vs, buffers + threadid() * own + vs + ms)
    return bad == 0
