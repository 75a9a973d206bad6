# Products of blocks that lie in the nearest caches, taken as they lie: where copying them into panels would cost more than it gives.
#
# c[m][n] = a @ b, or += it, in register tiles (tile.pxd). Layout: rows of any stride; a is [m][k] (`rows`) or [k][m] (`columns`).
# Threads: none. Sizes: the caller's; n is a multiple of the vector, and a and c have room for m up to whole tiles of rows.

from volta._kernels.cpu.tile cimport TILE_ROWS, real

cdef extern from *:
    """
    #define VOLTA_BLOCK(NAME, T, V, LANES, N, S, ELEMENT)                                                           \\
    static void NAME(Py_ssize_t k, const T* a, Py_ssize_t lda, const T* b, Py_ssize_t ldb, T* c, Py_ssize_t ldc, int add) { \\
        V sum[VOLTA_TILE_ROWS][N];                                                                                  \\
        Py_ssize_t p; int i, j;                                                                                     \\
        if (add) {                                                                                                  \\
            VOLTA_UNROLL for (i = 0; i < VOLTA_TILE_ROWS; i++)                                                      \\
                VOLTA_UNROLL for (j = 0; j < N; j++) sum[i][j] = ((V*)(c + i * ldc))[j];                            \\
        } else {                                                                                                    \\
            VOLTA_UNROLL for (i = 0; i < VOLTA_TILE_ROWS; i++)                                                      \\
                VOLTA_UNROLL for (j = 0; j < N; j++) sum[i][j] = (V){0};                                            \\
        }                                                                                                           \\
        for (p = 0; p < k; p++, b += ldb) {                                                                         \\
            V y[N];                                                                                                 \\
            VOLTA_UNROLL for (j = 0; j < N; j++) y[j] = ((const V*)b)[j];                                           \\
            VOLTA_UNROLL for (i = 0; i < VOLTA_TILE_ROWS; i++) {                                                    \\
                const T x = ELEMENT;                                                                                \\
                VOLTA_UNROLL for (j = 0; j < N; j++) sum[i][j] = VOLTA_MADD##S(VOLTA_SAME##S(x), y[j], sum[i][j]);  \\
            }                                                                                                       \\
        }                                                                                                           \\
        VOLTA_UNROLL for (i = 0; i < VOLTA_TILE_ROWS; i++)                                                          \\
            VOLTA_UNROLL for (j = 0; j < N; j++) ((V*)(c + i * ldc))[j] = sum[i][j];                                \\
    }
    /* Columns in threes of vectors, shared out evenly, so that none is left with one where two and two do. */
    #define VOLTA_PRODUCT(NAME, T, V, LANES, S, ELEMENT, STEP)                                                      \\
    VOLTA_BLOCK(NAME##_1, T, V, LANES, 1, S, ELEMENT)                                                               \\
    VOLTA_BLOCK(NAME##_2, T, V, LANES, 2, S, ELEMENT)                                                               \\
    VOLTA_BLOCK(NAME##_3, T, V, LANES, 3, S, ELEMENT)                                                               \\
    static void NAME(Py_ssize_t m, Py_ssize_t n, Py_ssize_t k, const T* a, Py_ssize_t lda, const T* b, Py_ssize_t ldb, T* c, \\
                     Py_ssize_t ldc, int add) {                                                                     \\
        Py_ssize_t vectors = n / LANES, chunks = (vectors + 2) / 3, chunk, i;                                       \\
        for (chunk = 0; chunk < chunks; chunk++) {                                                                  \\
            Py_ssize_t first = vectors * chunk / chunks, count = vectors * (chunk + 1) / chunks - first, at = first * LANES; \\
            for (i = 0; i < m; i += VOLTA_TILE_ROWS)                                                                \\
                (count == 3 ? NAME##_3 : count == 2 ? NAME##_2 : NAME##_1)(k, a + i * (STEP), lda, b + at, ldb, c + i * ldc + at, \\
                                                                           ldc, add);                               \\
        }                                                                                                           \\
    }
    VOLTA_PRODUCT(volta_rows32, float, volta_v32, VOLTA_LANES32, 32, a[i * lda + p], lda)
    VOLTA_PRODUCT(volta_rows64, double, volta_v64, VOLTA_LANES64, 64, a[i * lda + p], lda)
    VOLTA_PRODUCT(volta_columns32, float, volta_v32, VOLTA_LANES32, 32, a[p * lda + i], 1)
    VOLTA_PRODUCT(volta_columns64, double, volta_v64, VOLTA_LANES64, 64, a[p * lda + i], 1)
    """
    void rows32 "volta_rows32"(Py_ssize_t m, Py_ssize_t n, Py_ssize_t k, const float* a, Py_ssize_t lda, const float* b, Py_ssize_t ldb,
                               float* c, Py_ssize_t ldc, int add) noexcept nogil
    void rows64 "volta_rows64"(Py_ssize_t m, Py_ssize_t n, Py_ssize_t k, const double* a, Py_ssize_t lda, const double* b,
                               Py_ssize_t ldb, double* c, Py_ssize_t ldc, int add) noexcept nogil
    void columns32 "volta_columns32"(Py_ssize_t m, Py_ssize_t n, Py_ssize_t k, const float* a, Py_ssize_t lda, const float* b,
                                     Py_ssize_t ldb, float* c, Py_ssize_t ldc, int add) noexcept nogil
    void columns64 "volta_columns64"(Py_ssize_t m, Py_ssize_t n, Py_ssize_t k, const double* a, Py_ssize_t lda, const double* b,
                                     Py_ssize_t ldb, double* c, Py_ssize_t ldc, int add) noexcept nogil


cdef inline Py_ssize_t up(Py_ssize_t n, Py_ssize_t step) noexcept nogil:
    """n, rounded up to whole steps."""
    return (n + step - 1) // step * step


cdef inline void rows(Py_ssize_t m, Py_ssize_t n, Py_ssize_t k, const real* a, Py_ssize_t lda, const real* b, Py_ssize_t ldb, real* c,
                      Py_ssize_t ldc, bint add) noexcept nogil:
    """c[m][n] = a[m][k] @ b[k][n], or += it."""
    if real is float:
        rows32(m, n, k, a, lda, b, ldb, c, ldc, add)
    else:
        rows64(m, n, k, a, lda, b, ldb, c, ldc, add)


cdef inline void columns(Py_ssize_t m, Py_ssize_t n, Py_ssize_t k, const real* a, Py_ssize_t lda, const real* b, Py_ssize_t ldb, real* c,
                         Py_ssize_t ldc, bint add) noexcept nogil:
    """c[m][n] = a[k][m] transposed @ b[k][n], or += it."""
    if real is float:
        columns32(m, n, k, a, lda, b, ldb, c, ldc, add)
    else:
        columns64(m, n, k, a, lda, b, ldb, c, ldc, add)
