# Register tiles of convolution: sums over taps, each of which is an offset into the input beside that of a vector of pixels.
#
# Like those of tile.pxd, which has to be cimported before. Threads: none. Sizes: the caller's, nothing is checked.

from volta._kernels.cpu.real cimport real
from volta._kernels.cpu.tile cimport LANES32          # for what the C below takes of it

cdef extern from *:
    """
    /* The first n lanes of x, with the bias or added, to y. Nothing is computed of the others, which may hold anything. */
    #if defined(__AVX512F__)
      static inline void volta_some_lanes32(Py_ssize_t n, volta_v32 x, float bias, int add, float* y) {
          const __mmask16 m = (__mmask16)((1u << n) - 1);
          _mm512_mask_storeu_ps(y, m, _mm512_maskz_add_ps(m, (__m512)x, add ? _mm512_maskz_loadu_ps(m, y) : _mm512_set1_ps(bias)));
      }
      static inline void volta_some_lanes64(Py_ssize_t n, volta_v64 x, double bias, int add, double* y) {
          const __mmask8 m = (__mmask8)((1u << n) - 1);
          _mm512_mask_storeu_pd(y, m, _mm512_maskz_add_pd(m, (__m512d)x, add ? _mm512_maskz_loadu_pd(m, y) : _mm512_set1_pd(bias)));
      }
    #else
      #define VOLTA_SOME_LANES_OF(S, T)                                                                                   \\
      static inline void volta_some_lanes##S(Py_ssize_t n, volta_v##S x, T bias, int add, T* y) {                         \\
          Py_ssize_t j;                                                                                             \\
          if (n == VOLTA_LANES##S) {                                                                                \\
              if (add) *(volta_v##S*)y += x;                                                                        \\
              else *(volta_v##S*)y = x + bias;                                                                      \\
          } else for (j = 0; j < n; j++) y[j] = ((const T*)&x)[j] + (add ? y[j] : bias);                            \\
      }
      VOLTA_SOME_LANES_OF(32, float)
      VOLTA_SOME_LANES_OF(64, double)
    #endif
    /* y[i * step] = x[i] + bias for i < n, or y[i * step] += x[i]. */
    #define VOLTA_STRIDED_PUT(S, T)                                                                                         \\
    static inline void volta_strided_put##S(Py_ssize_t n, const T* x, T bias, int add, T* y, Py_ssize_t step) {             \\
        Py_ssize_t i = 0;                                                                                           \\
        if (step != 1)                                                                                              \\
            for (; i < n; i++) y[i * step] = x[i] + (add ? y[i * step] : bias);                                     \\
        else                                                                                                        \\
            for (; i < n; i += VOLTA_LANES##S)                                                                      \\
                volta_some_lanes##S(n - i < VOLTA_LANES##S ? n - i : VOLTA_LANES##S, *(const volta_v##S*)(x + i), bias, add, y + i); \\
    }
    VOLTA_STRIDED_PUT(32, float)
    VOLTA_STRIDED_PUT(64, double)
    /* What a tile becomes: in `tile`, or where that is NULL the rows low .. high as lines of the output, y[i * plane + to[j]] for n[j]
       lanes, written with the bias or added. */
    #define VOLTA_OUT_OF(S, T)                                                                                      \\
    typedef struct {                                                                                                \\
        T *tile, *y;                                                                                                \\
        const T* bias;                                                                                              \\
        const Py_ssize_t *to, *n;                                                                                   \\
        Py_ssize_t plane;                                                                                           \\
        int add, low, high;                                                                                         \\
    } volta_out##S;
    VOLTA_OUT_OF(32, float)
    VOLTA_OUT_OF(64, double)
    /* sum[ROWS][N * LANES] = sum over p < k of a[at[p] + i * row] x the vectors b[taps[p] + places[j]]. */
    #define VOLTA_TAPS(NAME, T, V, LANES, ROWS, N, S)                                                               \\
    static void NAME(Py_ssize_t k, const T* a, Py_ssize_t row, const Py_ssize_t* at, const T* b,                    \\
                     const Py_ssize_t* taps, const Py_ssize_t* places, const volta_out##S* out) {                   \\
        V sum[ROWS][N];                                                                                             \\
        const T* line[N];                                                                                           \\
        Py_ssize_t p; int i, j;                                                                                     \\
        VOLTA_UNROLL for (j = 0; j < N; j++) line[j] = b + places[j];                                               \\
        VOLTA_UNROLL for (i = 0; i < ROWS; i++)                                                                     \\
            VOLTA_UNROLL for (j = 0; j < N; j++) sum[i][j] = (V){0};                                                \\
        VOLTA_FOUR_STEPS for (p = 0; p < k; p++) {                                                                  \\
            const T* x = a + at[p];                                                                                 \\
            const Py_ssize_t tap = taps[p];                                                                         \\
            V y[N];                                                                                                 \\
            VOLTA_UNROLL for (j = 0; j < N; j++) y[j] = *(const V*)(line[j] + tap);                                 \\
            VOLTA_UNROLL for (i = 0; i < ROWS; i++) {                                                               \\
                const V w = VOLTA_SAME##S(x[i * row]);                                                              \\
                VOLTA_UNROLL for (j = 0; j < N; j++)                                                                \\
                    if (ROWS > 1) { VOLTA_PLUS##S(sum[i][j], w, y[j]); }                                            \\
                    else sum[i][j] = VOLTA_MADD##S(w, y[j], sum[i][j]);                                             \\
            }                                                                                                       \\
        }                                                                                                           \\
        if (out->tile != NULL) {                                                                                    \\
            VOLTA_UNROLL for (i = 0; i < ROWS; i++)                                                                 \\
                VOLTA_UNROLL for (j = 0; j < N; j++) ((V*)(out->tile + i * N * LANES))[j] = sum[i][j];              \\
            return;                                                                                                 \\
        }                                                                                                           \\
        VOLTA_UNROLL for (i = 0; i < ROWS; i++)                                                                     \\
            if (i >= out->low && i < out->high) {                                                                   \\
                T* y = out->y + i * out->plane;                                                                     \\
                const T bias = out->bias != NULL ? out->bias[i] : 0;                                                \\
                VOLTA_UNROLL for (j = 0; j < N; j++) volta_some_lanes##S(out->n[j], sum[i][j], bias, out->add, y + out->to[j]); \\
            }                                                                                                       \\
    }
    #define VOLTA_TAPS_OF(S, T)                                                                                     \\
    VOLTA_TAPS(volta_taps##S##_1, T, volta_v##S, VOLTA_LANES##S, VOLTA_TILE_ROWS, 1, S)                             \\
    VOLTA_TAPS(volta_taps##S##_2, T, volta_v##S, VOLTA_LANES##S, VOLTA_TILE_ROWS, 2, S)                             \\
    VOLTA_TAPS(volta_taps##S##_3, T, volta_v##S, VOLTA_LANES##S, VOLTA_TILE_ROWS, 3, S)                             \\
    VOLTA_TAPS(volta_line##S##_1, T, volta_v##S, VOLTA_LANES##S, 1, 1, S)                                           \\
    VOLTA_TAPS(volta_line##S##_2, T, volta_v##S, VOLTA_LANES##S, 1, 2, S)                                           \\
    VOLTA_TAPS(volta_line##S##_4, T, volta_v##S, VOLTA_LANES##S, 1, 4, S)                                           \\
    VOLTA_TAPS(volta_line##S##_8, T, volta_v##S, VOLTA_LANES##S, 1, 8, S)                                           \\
    static void volta_taps##S(Py_ssize_t k, const T* a, Py_ssize_t row, const Py_ssize_t* at, const T* b,           \\
                              const Py_ssize_t* taps, const Py_ssize_t* places, int vectors, int rows, volta_out##S out) { \\
        (rows > 1 ? (vectors == 3 ? volta_taps##S##_3 : vectors == 2 ? volta_taps##S##_2 : volta_taps##S##_1)       \\
         : vectors == 8 ? volta_line##S##_8 : vectors == 4 ? volta_line##S##_4 : vectors == 2 ? volta_line##S##_2   \\
         : volta_line##S##_1)(k, a, row, at, b, taps, places, &out);                                                \\
    }
    VOLTA_TAPS_OF(32, float)
    VOLTA_TAPS_OF(64, double)

    /* out[i] = x[2 * i] */
    #define VOLTA_EVEN(NAME, T)                                                                                     \\
    static inline void NAME(T* __restrict out, const T* __restrict x, Py_ssize_t n) {                               \\
        Py_ssize_t i;                                                                                               \\
        for (i = 0; i < n; i++) out[i] = x[2 * i];                                                                  \\
    }
    VOLTA_EVEN(volta_even32, float)
    VOLTA_EVEN(volta_even64, double)
    /* out[j * row + i] = x[4 * i + j] for i < n and j < 4, which the compiler makes shuffles of */
    #define VOLTA_FOURTHS(NAME, T)                                                                                  \\
    static inline void NAME(T* __restrict out, Py_ssize_t row, const T* __restrict x, Py_ssize_t n) {               \\
        Py_ssize_t i;                                                                                               \\
        for (i = 0; i < n; i++) {                                                                                   \\
            out[i] = x[4 * i], out[row + i] = x[4 * i + 1];                                                         \\
            out[2 * row + i] = x[4 * i + 2], out[3 * row + i] = x[4 * i + 3];                                       \\
        }                                                                                                           \\
    }
    VOLTA_FOURTHS(volta_fourths32, float)
    VOLTA_FOURTHS(volta_fourths64, double)
    /* out[k * stride + columns[j]] = the vector b[taps[k] + places[j]] for k < count and j < n, in this order; without `whole`, of each
       vector lengths[j] lanes. */
    #define VOLTA_COLUMNS(NAME, S, T, V, N)                                                                         \\
    static void NAME(Py_ssize_t count, const Py_ssize_t* taps, int n, const Py_ssize_t* places, const Py_ssize_t* columns, \\
                     const Py_ssize_t* lengths, int whole, const T* b, T* out, Py_ssize_t stride) {                 \\
        const T* x[N];                                                                                              \\
        T* y[N];                                                                                                    \\
        Py_ssize_t some[N];                                                                                         \\
        int j;                                                                                                      \\
        VOLTA_UNROLL for (j = 0; j < N; j++) {                                                                      \\
            const int i = j < n ? j : n - 1;                                                                        \\
            x[j] = b + places[i], y[j] = out + columns[i], some[j] = lengths[i];                                    \\
        }                                                                                                           \\
        for (; count > 0; count--, taps++)                                                                          \\
            VOLTA_UNROLL for (j = 0; j < N; j++) {                                                                  \\
                if (whole) *(V*)y[j] = *(const V*)(x[j] + *taps);                                                   \\
                else volta_some_lanes##S(some[j], *(const V*)(x[j] + *taps), 0, 0, y[j]);                                 \\
                y[j] += stride;                                                                                     \\
            }                                                                                                       \\
    }
    #define VOLTA_COLUMNS_OF(S, T)                                                                                  \\
    VOLTA_COLUMNS(volta_columns##S##_1, S, T, volta_v##S, 1)                                                        \\
    VOLTA_COLUMNS(volta_columns##S##_2, S, T, volta_v##S, 2)                                                        \\
    VOLTA_COLUMNS(volta_columns##S##_3, S, T, volta_v##S, 3)                                                        \\
    VOLTA_COLUMNS(volta_columns##S##_4, S, T, volta_v##S, 4)                                                        \\
    static void volta_columns##S(Py_ssize_t count, const Py_ssize_t* taps, Py_ssize_t n, const Py_ssize_t* places,  \\
                                 const Py_ssize_t* columns, const Py_ssize_t* lengths, int whole, const T* b,       \\
                                 T* out, Py_ssize_t stride) {                                                       \\
        for (; n > 0; n -= 4, places += 4, columns += 4, lengths += 4)                                              \\
            (n > 3 ? volta_columns##S##_4 : n > 2 ? volta_columns##S##_3 : n > 1 ? volta_columns##S##_2 : volta_columns##S##_1) \\
                (count, taps, (int)n, places, columns, lengths, whole, b, out, stride);                             \\
    }
    VOLTA_COLUMNS_OF(32, float)
    VOLTA_COLUMNS_OF(64, double)

    """
    ctypedef struct Out32 "volta_out32":
        float* tile
        float* y
        const float* bias
        const Py_ssize_t* to
        const Py_ssize_t* n
        Py_ssize_t plane
        int add, low, high
    ctypedef struct Out64 "volta_out64":
        double* tile
        double* y
        const double* bias
        const Py_ssize_t* to
        const Py_ssize_t* n
        Py_ssize_t plane
        int add, low, high
    void taps32 "volta_taps32"(Py_ssize_t k, const float* a, Py_ssize_t row, const Py_ssize_t* at, const float* b, const Py_ssize_t* taps,
                               const Py_ssize_t* places, int vectors, int rows, Out32 out) noexcept nogil
    void taps64 "volta_taps64"(Py_ssize_t k, const double* a, Py_ssize_t row, const Py_ssize_t* at, const double* b, const Py_ssize_t* taps,
                               const Py_ssize_t* places, int vectors, int rows, Out64 out) noexcept nogil
    void columns32 "volta_columns32"(Py_ssize_t count, const Py_ssize_t* taps, Py_ssize_t n, const Py_ssize_t* places,
                                     const Py_ssize_t* columns, const Py_ssize_t* lengths, bint whole, const float* b, float* out,
                                     Py_ssize_t stride) noexcept nogil
    void columns64 "volta_columns64"(Py_ssize_t count, const Py_ssize_t* taps, Py_ssize_t n, const Py_ssize_t* places,
                                     const Py_ssize_t* columns, const Py_ssize_t* lengths, bint whole, const double* b, double* out,
                                     Py_ssize_t stride) noexcept nogil
    void even32 "volta_even32"(float* out, const float* x, Py_ssize_t n) noexcept nogil
    void even64 "volta_even64"(double* out, const double* x, Py_ssize_t n) noexcept nogil
    void fourths32 "volta_fourths32"(float* out, Py_ssize_t row, const float* x, Py_ssize_t n) noexcept nogil
    void fourths64 "volta_fourths64"(double* out, Py_ssize_t row, const double* x, Py_ssize_t n) noexcept nogil
    void put32 "volta_strided_put32"(Py_ssize_t n, const float* x, float bias, bint add, float* y, Py_ssize_t step) noexcept nogil
    void put64 "volta_strided_put64"(Py_ssize_t n, const double* x, double bias, bint add, double* y, Py_ssize_t step) noexcept nogil


cdef inline void tile_of_taps(int rows, Py_ssize_t k, const real* a, Py_ssize_t row, const Py_ssize_t* at, const real* b,
                              const Py_ssize_t* taps, const Py_ssize_t* places, int vectors, real* tile) noexcept nogil:
    """tile[rows][vectors * lanes] = sum over p < k of a[at[p] + i * row] x the vectors at b[taps[p] + places[j]].

    IN: rows is TILE_ROWS, with 1 to 3 vectors, or 1, with 1, 2, 4 or 8.
    """
    if real is float:
        taps32(k, a, row, at, b, taps, places, vectors, rows, Out32(tile, NULL, NULL, NULL, NULL, 0, 0, 0, 0))
    else:
        taps64(k, a, row, at, b, taps, places, vectors, rows, Out64(tile, NULL, NULL, NULL, NULL, 0, 0, 0, 0))


cdef inline void lines_of_taps(int rows, Py_ssize_t k, const real* a, Py_ssize_t row, const Py_ssize_t* at, const real* b,
                               const Py_ssize_t* taps, const Py_ssize_t* places, int vectors, real* y, Py_ssize_t plane,
                               const Py_ssize_t* to, const Py_ssize_t* n, const real* bias, bint add, int low, int high) noexcept nogil:
    """The rows low .. high of that tile into y[i * plane + to[j]], of each vector n[j] lanes: with bias[i] (NULL: none), or added."""
    if real is float:
        taps32(k, a, row, at, b, taps, places, vectors, rows, Out32(NULL, y, bias, to, n, plane, add, low, high))
    else:
        taps64(k, a, row, at, b, taps, places, vectors, rows, Out64(NULL, y, bias, to, n, plane, add, low, high))


cdef inline void put(Py_ssize_t n, const real* x, real bias, bint add, real* y, Py_ssize_t step) noexcept nogil:
    """y[i * step] = x[i] + bias for i < n; with `add`, y[i * step] += x[i]."""
    if real is float:
        put32(n, x, bias, add, y, step)
    else:
        put64(n, x, bias, add, y, step)


cdef inline void runs_of_taps(Py_ssize_t count, const Py_ssize_t* taps, Py_ssize_t n, const Py_ssize_t* places, const Py_ssize_t* columns,
                              const Py_ssize_t* lengths, bint whole, const real* b, real* out, Py_ssize_t stride) noexcept nogil:
    """out[k * stride + columns[j]] = lengths[j] numbers from b[taps[k] + places[j]] on, for k < count and j < n; where `whole`, a vector of
    them, each of which the next may overwrite."""
    if real is float:
        columns32(count, taps, n, places, columns, lengths, whole, b, out, stride)
    else:
        columns64(count, taps, n, places, columns, lengths, whole, b, out, stride)


cdef inline void copy_fourths(real* out, Py_ssize_t row, const real* x, Py_ssize_t n) noexcept nogil:
    """out[j * row + i] = x[4 * i + j] for i < n and j < 4."""
    if real is float:
        fourths32(out, row, x, n)
    else:
        fourths64(out, row, x, n)


cdef inline void copy_even(real* out, const real* x, Py_ssize_t n) noexcept nogil:
    """Every second element of x, n of them."""
    if real is float:
        even32(out, x, n)
    else:
        even64(out, x, n)
