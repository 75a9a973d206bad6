# Products of bfloat16 by the instruction that multiplies pairs of them and adds in float32 (AVX512_BF16), on AMD's processors that have
# it: on Intel's it is half as fast as products of float32.
#
# Layout: any strides; out is row-major. A tile is 8 rows by 3 vectors of sums, over all of k, so that a sum has one order; it is rounded
#   once. Elements of k are taken in pairs, words of 32 bits: of a where they lie, if rows lie together in whole pairs, else from a copy,
#   and of b from panels of 3 vectors of columns, [pair][column], zeros beyond its last row and column.
# Numbers below the normal ones count as zero there. Threads: blocks of rows and of panels. Sizes: the caller's.

from cython.parallel cimport prange
from libc.stdint cimport uint16_t, uint32_t

from volta._kernels.core.base cimport Storage, host_storage
from volta._kernels.core.threads cimport threads_for
from volta._kernels.cpu.gemm cimport turn
from volta._kernels.cpu.gemm_plan cimport Products
from volta._kernels.cpu.product cimport up
from volta._kernels.cpu.tile cimport LANES32            # for what the C below takes of it

cdef extern from *:
    """
    #include <stdint.h>
    #if defined(__AVX512BW__) && defined(__AVX512VL__) && defined(__GNUC__) && (defined(__clang__) || __GNUC__ >= 11)
    #define VOLTA_BFLOAT __attribute__((target("avx512bf16")))
    typedef uint32_t volta_pair __attribute__((aligned(2), may_alias));
    static int volta_bfloat_here(void) { return __builtin_cpu_is("amd") && __builtin_cpu_supports("avx512bf16"); }
    /* out[ROWS][16 * N, `last` of the last vector] = a[ROWS][pairs] @ b[pairs][48] + bias, which may be NULL */
    #define VOLTA_BFLOAT_TILE(ROWS, N)                                                                                  \\
    VOLTA_BFLOAT static void volta_bfloat_##ROWS##_##N(Py_ssize_t pairs, const uint16_t* a, Py_ssize_t a_row, Py_ssize_t a_step, \\
                                                       const uint32_t* b, int last, const float* bias, uint16_t* out,   \\
                                                       Py_ssize_t out_row) {                                            \\
        __m512 sum[ROWS][N]; Py_ssize_t q; int i, j;                                                                    \\
        VOLTA_UNROLL for (i = 0; i < ROWS; i++) VOLTA_UNROLL for (j = 0; j < N; j++) sum[i][j] = _mm512_setzero_ps();   \\
        for (q = 0; q < pairs; q++, a += a_step, b += 48) {                                                             \\
            __m512i y[N];                                                                                               \\
            VOLTA_UNROLL for (j = 0; j < N; j++) y[j] = _mm512_loadu_si512(b + 16 * j);                                 \\
            VOLTA_UNROLL for (i = 0; i < ROWS; i++) {                                                                   \\
                const __m512i x = _mm512_set1_epi32((int)*(const volta_pair*)(a + i * a_row));                          \\
                VOLTA_UNROLL for (j = 0; j < N; j++) sum[i][j] = _mm512_dpbf16_ps(sum[i][j], (__m512bh)x, (__m512bh)y[j]); \\
            }                                                                                                           \\
        }                                                                                                               \\
        VOLTA_UNROLL for (j = 0; j < N; j++) {                                                                          \\
            const __mmask16 some = (__mmask16)((1u << (j < N - 1 ? 16 : last)) - 1);                                    \\
            const __m512 more = bias ? _mm512_maskz_loadu_ps(some, bias + 16 * j) : _mm512_setzero_ps();                \\
            VOLTA_UNROLL for (i = 0; i < ROWS; i++)                                                                     \\
                _mm256_mask_storeu_epi16(out + i * out_row + 16 * j, some,                                              \\
                                         (__m256i)_mm512_cvtneps_pbh(bias ? _mm512_add_ps(sum[i][j], more) : sum[i][j])); \\
        }                                                                                                               \\
    }
    #define VOLTA_BFLOAT_ROWS(ROWS) VOLTA_BFLOAT_TILE(ROWS, 1) VOLTA_BFLOAT_TILE(ROWS, 2) VOLTA_BFLOAT_TILE(ROWS, 3)
    VOLTA_BFLOAT_ROWS(8) VOLTA_BFLOAT_ROWS(4) VOLTA_BFLOAT_ROWS(1)
    /* The same of any rows and of 1 to 48 columns. IN: a_tile, from 8 rows of a to the next 8. */
    static void volta_bfloat_rows(Py_ssize_t rows, int columns, Py_ssize_t pairs, const uint16_t* a, Py_ssize_t a_tile, Py_ssize_t a_row,
                                  Py_ssize_t a_step, const uint32_t* b, const float* bias, uint16_t* out, Py_ssize_t out_row) {
        const int n = (columns + 15) / 16, last = columns - 16 * (n - 1);
        Py_ssize_t i = 0;
    #define VOLTA_BFLOAT_SOME(ROWS)                                                                                     \\
        for (; i + ROWS <= rows; i += ROWS)                                                                             \\
            (n == 1 ? volta_bfloat_##ROWS##_1 : n == 2 ? volta_bfloat_##ROWS##_2 : volta_bfloat_##ROWS##_3)(            \\
                pairs, a + i / 8 * a_tile + i % 8 * a_row, a_row, a_step, b, last, bias, out + i * out_row, out_row);
        VOLTA_BFLOAT_SOME(8) VOLTA_BFLOAT_SOME(4) VOLTA_BFLOAT_SOME(1)
    }
    /* Up to 16 pairs of x and y, which may be NULL for zeros; those beyond are zeros. */
    static inline __m512i volta_bfloat_pairs(Py_ssize_t count, const uint16_t* x, const uint16_t* y) {
        const __mmask16 some = (__mmask16)((1u << (count < 16 ? count : 16)) - 1);
        const __m512i low = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(some, x));
        const __m512i high = y ? _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(some, y)) : _mm512_setzero_si512();
        return _mm512_or_si512(low, _mm512_slli_epi32(high, 16));
    }
    /* One row of a panel, in whole vectors. */
    static void volta_bfloat_line(int columns, const uint16_t* x, const uint16_t* y, uint32_t* out) {
        int j;
        for (j = 0; j < columns; j += 16) _mm512_storeu_si512(out + j, volta_bfloat_pairs(columns - j, x + j, y ? y + j : y));
    }
    /* A pair of each of up to 16 rows that lie beside one another: of the first 8, and of the others `far` behind these. */
    static void volta_bfloat_turned(Py_ssize_t rows, const uint16_t* x, const uint16_t* y, uint32_t* out, Py_ssize_t far) {
        const __m512i pairs = volta_bfloat_pairs(rows, x, y);
        _mm256_storeu_si256((__m256i*)out, _mm512_castsi512_si256(pairs));
        _mm256_storeu_si256((__m256i*)(out + far), _mm512_extracti64x4_epi64(pairs, 1));
    }
    #else
    #define volta_bfloat_here() 0
    #define volta_bfloat_rows(rows, columns, pairs, a, a_tile, a_row, a_step, b, bias, out, out_row)
    #define volta_bfloat_line(columns, x, y, out)
    #define volta_bfloat_turned(rows, x, y, out, far)
    #endif
    """
    bint bfloat_here "volta_bfloat_here"() noexcept nogil
    void bfloat_rows "volta_bfloat_rows"(Py_ssize_t, int, Py_ssize_t, const uint16_t*, Py_ssize_t, Py_ssize_t, Py_ssize_t, const uint32_t*,
                                         const float*, uint16_t*, Py_ssize_t) noexcept nogil
    void bfloat_line "volta_bfloat_line"(int, const uint16_t*, const uint16_t*, uint32_t*) noexcept nogil
    void bfloat_turned "volta_bfloat_turned"(Py_ssize_t, const uint16_t*, const uint16_t*, uint32_t*, Py_ssize_t) noexcept nogil

cdef enum:
    PANEL = 48                  # columns of a panel,
    SHARE = 128                 # rows of a block, at least: those that share a panel, which each block copies
    ENOUGH = 8                  # rows and columns from which on a copy of b pays

# Blocks of products: each of rows x a run of panels; `own` words of space for each thread.
cdef struct Blocks:
    Py_ssize_t pairs, panels, vectors, row_blocks, panel_blocks, own
    int threads
    bint copied                 # whether a is


cdef inline bint bfloat_pays(const Products* p) noexcept nogil:
    return p.m >= ENOUGH and p.n >= ENOUGH and p.k >= ENOUGH and bfloat_here()


cdef inline void plan_blocks(Blocks* s, const Products* p) noexcept nogil:
    cdef Py_ssize_t need
    s.pairs, s.vectors = (p.k + 1) // 2, (p.n + 15) // 16
    s.panels, s.copied = (s.vectors + 2) // 3, p.a_column != 1 or p.k % 2 == 1
    s.threads = threads_for(p.count * p.m * p.n * p.k // 16)
    need = (2 * s.threads + p.count - 1) // p.count if s.threads > 1 else 1
    s.row_blocks = max(1, min(need, p.m // SHARE))
    s.panel_blocks = max(1, min(s.panels, (need + s.row_blocks - 1) // s.row_blocks))
    s.own = s.pairs * (PANEL + (up((p.m + s.row_blocks - 1) // s.row_blocks, 16) if s.copied else 0)) + 64


cdef inline void copy_tiles(Py_ssize_t rows, Py_ssize_t k, Py_ssize_t pairs, const uint16_t* x, Py_ssize_t row, Py_ssize_t column,
                            uint32_t* out) noexcept nogil:
    """out[tiles][pairs][8 rows], an even number of tiles, of which the last rows may be left."""
    cdef Py_ssize_t first, i, q
    cdef const uint16_t* at
    cdef uint32_t* to
    cdef uint32_t high
    for first in range(0, rows, 16):
        to = out + first * pairs
        if row == 1:
            for q in range(pairs):
                at = x + first + 2 * q * column
                bfloat_turned(rows - first, at, at + column if 2 * q + 1 < k else <const uint16_t*>NULL, to + 8 * q, 8 * pairs)
            continue
        for i in range(min(<Py_ssize_t>16, rows - first)):
            to = out + (first + i // 8 * 8) * pairs + i % 8
            at = x + (first + i) * row
            for q in range(pairs):
                high = at[(2 * q + 1) * column] if 2 * q + 1 < k else 0
                to[8 * q] = at[2 * q * column] | high << 16


cdef inline void copy_panel(const Products* p, Py_ssize_t pairs, int columns, const uint16_t* b, uint32_t* out) noexcept nogil:
    """out[pairs][PANEL] of some columns of b, zeros up to whole vectors."""
    cdef Py_ssize_t q, j, full = (columns + 15) // 16 * 16
    cdef uint32_t high
    if p.b_column == 1:
        for q in range(pairs):
            bfloat_line(columns, b + 2 * q * p.b_row, b + (2 * q + 1) * p.b_row if 2 * q + 1 < p.k else <const uint16_t*>NULL,
                        out + q * PANEL)
        return
    if p.b_row == 1 and p.k % 2 == 0 and p.b_column % 2 == 0:           # columns of pairs, which are moved as numbers of 32 bits are
        turn(columns, pairs, <const float*>b, p.b_column // 2, <float*>out, PANEL)
    else:
        for q in range(pairs):
            for j in range(columns):
                high = b[(2 * q + 1) * p.b_row + j * p.b_column] if 2 * q + 1 < p.k else 0
                out[q * PANEL + j] = b[2 * q * p.b_row + j * p.b_column] | high << 16
    for q in range(pairs if columns < full else 0):
        for j in range(columns, full):
            out[q * PANEL + j] = 0


cdef inline void bfloat_block(const Blocks* s, const Products* p, Py_ssize_t number, const uint16_t* a, const uint16_t* b,
                              const float* bias, uint16_t* out, uint32_t* space) noexcept nogil:
    """One block of one product, as they are counted."""
    cdef Py_ssize_t band = number % s.panel_blocks, part = number // s.panel_blocks % s.row_blocks
    cdef Py_ssize_t item = number // (s.panel_blocks * s.row_blocks), row = p.m * part // s.row_blocks, index = item
    cdef Py_ssize_t rows = p.m * (part + 1) // s.row_blocks - row, a_row = p.a_row, a_tile = 8 * p.a_row, a_step = 2, panel, first, last
    cdef int d
    for d in range(p.rank - 1, -1, -1):
        a += index % p.shape[d] * p.a_strides[d]
        b += index % p.shape[d] * p.b_strides[d]
        index //= p.shape[d]
    a += row * p.a_row
    out += (item * p.m + row) * p.n
    if s.copied:
        copy_tiles(rows, p.k, s.pairs, a, p.a_row, p.a_column, space + s.pairs * PANEL)
        a, a_tile, a_row, a_step = <const uint16_t*>(space + s.pairs * PANEL), 16 * s.pairs, 2, 16
    for panel in range(s.panels * band // s.panel_blocks, s.panels * (band + 1) // s.panel_blocks):
        first, last = 16 * (s.vectors * panel // s.panels), min(p.n, 16 * (s.vectors * (panel + 1) // s.panels))
        copy_panel(p, s.pairs, <int>(last - first), b + first * p.b_column, space)
        bfloat_rows(rows, <int>(last - first), s.pairs, a, a_tile, a_row, a_step, space, bias + first if bias != NULL else bias,
                    out + first, p.n)


cdef inline void multiply_bfloats(const Products* p, const uint16_t* a, const uint16_t* b, const float* bias, uint16_t* out):
    """All products. IN: those that `bfloat_pays` for; bias of n, or NULL."""
    cdef Blocks s
    cdef Py_ssize_t blocks, number
    cdef int t
    plan_blocks(&s, p)
    blocks = p.count * s.row_blocks * s.panel_blocks
    cdef Storage memory = host_storage(s.threads * s.own * sizeof(uint32_t))
    cdef uint32_t* space = <uint32_t*>memory.data
    with nogil:
        if s.threads == 1:
            for number in range(blocks):
                bfloat_block(&s, p, number, a, b, bias, out, space)
        else:
            for t in prange(s.threads, num_threads=s.threads, schedule="static"):
                bfloat_some(&s, p, blocks * t // s.threads, blocks * (t + 1) // s.threads, a, b, bias, out, space + t * s.own)


cdef inline void bfloat_some(const Blocks* s, const Products* p, Py_ssize_t first, Py_ssize_t last, const uint16_t* a, const uint16_t* b,
                             const float* bias, uint16_t* out, uint32_t* space) noexcept nogil:
    cdef Py_ssize_t number
    for number in range(first, last):
        bfloat_block(s, p, number, a, b, bias, out, space)
