# Products of lines by lines, whose elements are neighbours: sums along vectors, each of which is added up at the end.
#
# Layout: lines of any distance. Threads: none. Sizes: the caller's. The order of a sum depends on its length, and on how many lines there
# are.

from volta._kernels.cpu.real cimport real
from volta._kernels.cpu.tile cimport LANES32          # for what the C below takes of it

cdef extern from *:
    """
    #if defined(__GNUC__) && !defined(__clang__)
      #define VOLTA_UNROLL_16 _Pragma("GCC unroll 16")
      #define VOLTA_UNROLL_24 _Pragma("GCC unroll 24")
    #else
      #define VOLTA_UNROLL_16 VOLTA_UNROLL
      #define VOLTA_UNROLL_24 VOLTA_UNROLL
    #endif
    #if defined(__GNUC__)
      #define VOLTA_LINES_INLINE inline __attribute__((always_inline))
    #else
      #define VOLTA_LINES_INLINE inline
    #endif
    /* out[i] = the sum of the numbers of vector i of `count`; out has room for a multiple of 16. */
    #define VOLTA_TOTALS(S, T)                                                                                                         \\
    static inline void volta_totals##S(int count, const volta_v##S* x, T* out) {                                                       \\
        int i;                                                                                                                         \\
        VOLTA_UNROLL_24 for (i = 0; i < count; i++) out[i] = volta_total##S(x[i]);                                                     \\
    }
    #if defined(__AVX512F__)
    /* Sixteen at once: halves of the vectors change places before each addition. */
    static inline void volta_sixteen_totals(int count, const volta_v32* x, float* out) {
        __m512 s[16], low, high;
        int i;
        VOLTA_UNROLL_16 for (i = 0; i < 16; i++) s[i] = i < count ? (__m512)x[i] : _mm512_setzero_ps();
        VOLTA_UNROLL_16 for (i = 0; i < 8; i++)
            s[i] = _mm512_add_ps(_mm512_unpacklo_ps(s[2 * i], s[2 * i + 1]), _mm512_unpackhi_ps(s[2 * i], s[2 * i + 1]));
        VOLTA_UNROLL_16 for (i = 0; i < 4; i++) {
            low = (__m512)_mm512_unpacklo_pd((__m512d)s[2 * i], (__m512d)s[2 * i + 1]);
            high = (__m512)_mm512_unpackhi_pd((__m512d)s[2 * i], (__m512d)s[2 * i + 1]);
            s[i] = _mm512_add_ps(low, high);
        }
        VOLTA_UNROLL_16 for (i = 0; i < 2; i++)
            s[i] = _mm512_add_ps(_mm512_shuffle_f32x4(s[2 * i], s[2 * i + 1], 0x44), _mm512_shuffle_f32x4(s[2 * i], s[2 * i + 1], 0xee));
        s[0] = _mm512_add_ps(_mm512_shuffle_f32x4(s[0], s[1], 0x88), _mm512_shuffle_f32x4(s[0], s[1], 0xdd));
        _mm512_storeu_ps(out, s[0]);
    }
    static inline void volta_totals32(int count, const volta_v32* x, float* out) {
        volta_sixteen_totals(count < 16 ? count : 16, x, out);
        if (count > 16) volta_sixteen_totals(count - 16, x + 16, out + 16);
    }
    /* And eight. */
    static inline void volta_eight_totals(int count, const volta_v64* x, double* out) {
        __m512d s[8];
        int i;
        VOLTA_UNROLL for (i = 0; i < 8; i++) s[i] = i < count ? (__m512d)x[i] : _mm512_setzero_pd();
        VOLTA_UNROLL for (i = 0; i < 4; i++)
            s[i] = _mm512_add_pd(_mm512_unpacklo_pd(s[2 * i], s[2 * i + 1]), _mm512_unpackhi_pd(s[2 * i], s[2 * i + 1]));
        VOLTA_UNROLL for (i = 0; i < 2; i++)
            s[i] = _mm512_add_pd(_mm512_shuffle_f64x2(s[2 * i], s[2 * i + 1], 0x88), _mm512_shuffle_f64x2(s[2 * i], s[2 * i + 1], 0xdd));
        s[0] = _mm512_add_pd(_mm512_shuffle_f64x2(s[0], s[1], 0x88), _mm512_shuffle_f64x2(s[0], s[1], 0xdd));
        _mm512_storeu_pd(out, s[0]);
    }
    static inline void volta_totals64(int count, const volta_v64* x, double* out) {
        volta_eight_totals(count < 8 ? count : 8, x, out);
        if (count > 8) volta_eight_totals(count < 16 ? count - 8 : 8, x + 8, out + 8);
        if (count > 16) volta_eight_totals(count - 16, x + 16, out + 16);
    }
    #elif defined(__FMA__)
    /* Eight at once, in the same way, and one by one of those of 4. */
    static inline void volta_totals32(int count, const volta_v32* x, float* out) {
        __m256 s[8], low, high;
        int i, j;
        VOLTA_UNROLL for (i = 0; i < count; i += 8) {
            VOLTA_UNROLL for (j = 0; j < 8; j++) s[j] = i + j < count ? (__m256)x[i + j] : _mm256_setzero_ps();
            VOLTA_UNROLL for (j = 0; j < 4; j++)
                s[j] = _mm256_add_ps(_mm256_unpacklo_ps(s[2 * j], s[2 * j + 1]), _mm256_unpackhi_ps(s[2 * j], s[2 * j + 1]));
            VOLTA_UNROLL for (j = 0; j < 2; j++) {
                low = (__m256)_mm256_unpacklo_pd((__m256d)s[2 * j], (__m256d)s[2 * j + 1]);
                high = (__m256)_mm256_unpackhi_pd((__m256d)s[2 * j], (__m256d)s[2 * j + 1]);
                s[j] = _mm256_add_ps(low, high);
            }
            _mm256_storeu_ps(out + i, _mm256_add_ps(_mm256_permute2f128_ps(s[0], s[1], 0x20), _mm256_permute2f128_ps(s[0], s[1], 0x31)));
        }
    }
    VOLTA_TOTALS(64, double)
    #else
    VOLTA_TOTALS(32, float)
    VOLTA_TOTALS(64, double)
    #endif

    /* The sum of x[p] * y[p], in four vectors of sums. */
    #define VOLTA_DOT(S, T, LANES)                                                                                                     \\
    static T volta_dot##S(Py_ssize_t n, const T* x, const T* y) {                                                                      \\
        volta_v##S sum[4] = {{0}, {0}, {0}, {0}};                                                                                      \\
        Py_ssize_t p = 0; int h;                                                                                                       \\
        for (; p + 4 * LANES <= n; p += 4 * LANES)                                                                                     \\
            VOLTA_UNROLL for (h = 0; h < 4; h++)                                                                                       \\
                sum[h] = VOLTA_MADD##S(((const volta_v##S*)(x + p))[h], ((const volta_v##S*)(y + p))[h], sum[h]);                      \\
        for (; p < n; p += LANES) {                                                                                                    \\
            const int count = n - p < LANES ? (int)(n - p) : LANES;                                                                    \\
            sum[0] = VOLTA_MADD##S(volta_part##S(x + p, count), volta_part##S(y + p, count), sum[0]);                                  \\
        }                                                                                                                              \\
        return volta_total##S((sum[0] + sum[1]) + (sum[2] + sum[3]));                                                                  \\
    }
    VOLTA_DOT(32, float, VOLTA_LANES32)
    VOLTA_DOT(64, double, VOLTA_LANES64)

    /* out[i][j] = sum over p < n of x[i][p] * y[j][p], for `rows` of at most ROWS lines of x and `count` of at most COUNT of y, with H
       vectors of sums for each. Lines that do not exist are the first one's again. What lies `ahead` is fetched, unless 0. */
    #define VOLTA_LINES(NAME, ROWS, COUNT, H, T, V, LANES, S)                                                                          \\
    static VOLTA_LINES_INLINE void NAME##_any(int rows, int count, Py_ssize_t n, const T* x, Py_ssize_t x_row, const T* y,             \\
                                        Py_ssize_t y_row, Py_ssize_t ahead, T* out, Py_ssize_t out_row) {                              \\
        const T *a[ROWS], *b[COUNT];                                                                                                   \\
        V sum[ROWS * COUNT][H], one[ROWS], other;                                                                                      \\
        T total[ROWS * COUNT > 16 ? 32 : 16];                                                                                          \\
        Py_ssize_t p = 0; int i, j, h;                                                                                                 \\
        VOLTA_UNROLL_16 for (i = 0; i < ROWS; i++) a[i] = x + (i < rows ? i * x_row : 0);                                              \\
        VOLTA_UNROLL_16 for (j = 0; j < COUNT; j++) b[j] = y + (j < count ? j * y_row : 0);                                            \\
        VOLTA_UNROLL_24 for (i = 0; i < ROWS * COUNT; i++) VOLTA_UNROLL for (h = 0; h < H; h++) sum[i][h] = (V){0};                    \\
        for (; p + H * LANES <= n; p += H * LANES)                                                                                     \\
            VOLTA_UNROLL for (h = 0; h < H; h++) {                                                                                     \\
                VOLTA_UNROLL_16 for (i = 0; i < ROWS; i++) { one[i] = *(const V*)(a[i] + p + h * LANES); VOLTA_KEEP(one[i]); }         \\
                VOLTA_UNROLL_16 for (j = 0; j < COUNT; j++) {                                                                          \\
                    other = *(const V*)(b[j] + p + h * LANES);                                                                         \\
                    if (ROWS > 2) VOLTA_PREFETCH(b[j] + ahead + p + h * LANES);                                                        \\
                    VOLTA_UNROLL for (i = 0; i < ROWS; i++)                                                                            \\
                        sum[i * COUNT + j][h] = VOLTA_MADD##S(one[i], other, sum[i * COUNT + j][h]);                                   \\
                }                                                                                                                      \\
            }                                                                                                                          \\
        for (; p < n; p += LANES) {                                                                                                    \\
            const int part = n - p < LANES ? (int)(n - p) : LANES;                                                                     \\
            VOLTA_UNROLL for (i = 0; i < ROWS; i++) one[i] = volta_part##S(a[i] + p, part);                                            \\
            VOLTA_UNROLL_16 for (j = 0; j < COUNT; j++) {                                                                              \\
                other = volta_part##S(b[j] + p, part);                                                                                 \\
                VOLTA_UNROLL for (i = 0; i < ROWS; i++)                                                                                \\
                    sum[i * COUNT + j][0] = VOLTA_MADD##S(one[i], other, sum[i * COUNT + j][0]);                                       \\
            }                                                                                                                          \\
        }                                                                                                                              \\
        VOLTA_UNROLL_24 for (i = 0; i < ROWS * COUNT; i++) VOLTA_UNROLL for (h = 1; h < H; h++) sum[i][0] += sum[i][h];                \\
        {                                                                                                                              \\
            V last[ROWS * COUNT];                                                                                                      \\
            VOLTA_UNROLL_24 for (i = 0; i < ROWS * COUNT; i++) last[i] = sum[i][0];                                                    \\
            volta_totals##S(ROWS * COUNT, last, total);                                                                                \\
        }                                                                                                                              \\
        if (count == COUNT)                                                                                                            \\
            for (i = 0; i < rows; i++) memcpy(out + i * out_row, total + i * COUNT, COUNT * sizeof(T));                                \\
        else                                                                                                                           \\
            for (i = 0; i < rows; i++) for (j = 0; j < count; j++) out[i * out_row + j] = total[i * COUNT + j];                        \\
    }                                                                                                                                  \\
    static void NAME(int rows, int count, Py_ssize_t n, const T* x, Py_ssize_t x_row, const T* y, Py_ssize_t y_row,                    \\
                     Py_ssize_t ahead, T* out, Py_ssize_t out_row) {                                                                   \\
        if (rows == ROWS && count == COUNT) NAME##_any(ROWS, COUNT, n, x, x_row, y, y_row, ahead, out, out_row);                       \\
        else NAME##_any(rows, count, n, x, x_row, y, y_row, ahead, out, out_row);                                                      \\
    }

    /* As many sums at once as the registers hold; few where lines are long, since each is a stream of its own. */
    #if VOLTA_TILE_ROWS == 8
      #define VOLTA_LINE_ROWS 6
      #define VOLTA_LINES_OF(S, T)                                                                                                     \\
      VOLTA_LINES(volta_lines##S##_long, 1, 4, 2, T, volta_v##S, VOLTA_LANES##S, S)                                                    \\
      VOLTA_LINES(volta_lines##S##_1, 1, 16, 1, T, volta_v##S, VOLTA_LANES##S, S)                                                      \\
      VOLTA_LINES(volta_lines##S##_2, 2, 8, 1, T, volta_v##S, VOLTA_LANES##S, S)                                                       \\
      VOLTA_LINES(volta_lines##S##_3, 3, 8, 1, T, volta_v##S, VOLTA_LANES##S, S)                                                       \\
      VOLTA_LINES(volta_lines##S##_4, 4, 4, 1, T, volta_v##S, VOLTA_LANES##S, S)                                                       \\
      VOLTA_LINES(volta_lines##S##_5, 5, 4, 1, T, volta_v##S, VOLTA_LANES##S, S)                                                       \\
      VOLTA_LINES(volta_lines##S##_6, 6, 4, 1, T, volta_v##S, VOLTA_LANES##S, S)                                                       \\
      VOLTA_LINES(volta_lines##S##_few, 1, 4, 1, T, volta_v##S, VOLTA_LANES##S, S)                                                     \\
      static void (*const volta_lines##S[])(int, int, Py_ssize_t, const T*, Py_ssize_t, const T*, Py_ssize_t, Py_ssize_t, T*,          \\
                                            Py_ssize_t) =                                                                              \\
          {volta_lines##S##_long, volta_lines##S##_1, volta_lines##S##_2, volta_lines##S##_3, volta_lines##S##_4,                      \\
           volta_lines##S##_5, volta_lines##S##_6, volta_lines##S##_few};
      static const int volta_lines_count[] = {4, 16, 8, 8, 4, 4, 4, 4};
    #else
      #define VOLTA_LINE_ROWS 2
      #define VOLTA_LINES_OF(S, T)                                                                                                     \\
      VOLTA_LINES(volta_lines##S##_long, 1, 4, 2, T, volta_v##S, VOLTA_LANES##S, S)                                                    \\
      VOLTA_LINES(volta_lines##S##_1, 1, 8, 1, T, volta_v##S, VOLTA_LANES##S, S)                                                       \\
      VOLTA_LINES(volta_lines##S##_2, 2, 4, 1, T, volta_v##S, VOLTA_LANES##S, S)                                                       \\
      VOLTA_LINES(volta_lines##S##_few, 1, 4, 1, T, volta_v##S, VOLTA_LANES##S, S)                                                     \\
      static void (*const volta_lines##S[])(int, int, Py_ssize_t, const T*, Py_ssize_t, const T*, Py_ssize_t, Py_ssize_t, T*,          \\
                                            Py_ssize_t) =                                                                              \\
          {volta_lines##S##_long, volta_lines##S##_1, volta_lines##S##_2, volta_lines##S##_few};
      static const int volta_lines_count[] = {4, 8, 4, 4};
    #endif
    VOLTA_LINES_OF(32, float)
    VOLTA_LINES_OF(64, double)
    #define VOLTA_LONG_LINE 256
    #define VOLTA_AHEAD 16384       /* bytes of lines that are fetched ahead: few rows take fewer long lines at a time, to have them so */
    /* Eight lines of y for all of x, then the next, or where x has more of them, all of y for each block of x. What the first cache can
       hold is fetched ahead. */
    #define VOLTA_BY_LINES(S, T)                                                                                                       \\
    static void volta_by_lines##S(Py_ssize_t m, Py_ssize_t n, Py_ssize_t k, const T* x, Py_ssize_t x_row, const T* y,                  \\
                                  Py_ssize_t y_row, T* out, Py_ssize_t out_row, int alone) {                                           \\
        const Py_ssize_t blocks = (m + VOLTA_LINE_ROWS - 1) / VOLTA_LINE_ROWS, wide = blocks == 1 || m >= n ? n : 8;                   \\
        Py_ssize_t first, end, block, i, j;                                                                                            \\
        for (first = 0; first < n; first = end) {                                                                                      \\
            end = n - first < wide ? n : first + wide;                                                                                 \\
            for (block = 0; block < blocks; block++) {                                                                                 \\
                const int rows = (int)(m * (block + 1) / blocks - (i = m * block / blocks));                                           \\
                const int fewer = VOLTA_LINE_ROWS > 4 && 8 * sizeof(T) * k > VOLTA_AHEAD &&                                            \\
                                  (rows == 3 || (rows == 2 && 4 * sizeof(T) * k <= VOLTA_AHEAD));                                      \\
                const int which = fewer ? 4 : rows > 1 ? rows : alone && k > VOLTA_LONG_LINE ? 0 : n <= 4 ? VOLTA_LINE_ROWS + 1 : 1;   \\
                const int count = volta_lines_count[which];                                                                            \\
                const Py_ssize_t step = wide == n ? count : wide;                                                                      \\
                const Py_ssize_t near = block == 0 && count * sizeof(T) * k <= VOLTA_AHEAD ? step * y_row : 0;                         \\
                for (j = first; j < end; j += count)                                                                                   \\
                    volta_lines##S[which](rows, (int)(end - j < count ? end - j : count), k, x + i * x_row, x_row,                     \\
                                          y + j * y_row, y_row, j + step < n ? near : 0, out + i * out_row + j, out_row);              \\
            }                                                                                                                          \\
        }                                                                                                                              \\
    }
    VOLTA_BY_LINES(32, float)
    VOLTA_BY_LINES(64, double)
    """
    const int LINE_ROWS "VOLTA_LINE_ROWS"
    float dot32 "volta_dot32"(Py_ssize_t, const float*, const float*) noexcept nogil
    double dot64 "volta_dot64"(Py_ssize_t, const double*, const double*) noexcept nogil
    void by_lines32 "volta_by_lines32"(Py_ssize_t, Py_ssize_t, Py_ssize_t, const float*, Py_ssize_t, const float*, Py_ssize_t, float*,
                                       Py_ssize_t, bint) noexcept nogil
    void by_lines64 "volta_by_lines64"(Py_ssize_t, Py_ssize_t, Py_ssize_t, const double*, Py_ssize_t, const double*, Py_ssize_t, double*,
                                       Py_ssize_t, bint) noexcept nogil


cdef inline real inner_product(Py_ssize_t n, const real* x, const real* y) noexcept nogil:
    """The sum of x[i] * y[i]."""
    if real is float:
        return dot32(n, x, y)
    else:
        return dot64(n, x, y)


cdef inline void by_lines(Py_ssize_t m, Py_ssize_t n, Py_ssize_t k, const real* x, Py_ssize_t x_row, const real* y, Py_ssize_t y_row,
                          real* out, Py_ssize_t out_row, bint alone) noexcept nogil:
    """out[m][n]: the products of lines x[m][k] and y[n][k]. IN: alone, that m is 1 whatever the threads: the sum of a long line has another
    order then."""
    if real is float:
        by_lines32(m, n, k, x, x_row, y, y_row, out, out_row, alone)
    else:
        by_lines64(m, n, k, x, x_row, y, y_row, out, out_row, alone)
