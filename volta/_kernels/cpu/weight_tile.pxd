# Register tiles of sums over pixels, the innermost loops of the gradient for a convolution's weight.
#
# Layout: whole vectors. Threads: none. Sizes: the caller's, nothing is checked.
from volta._kernels.cpu.real cimport real
from volta._kernels.cpu.tile cimport LANES32

cdef extern from *:
    """
    /* sums[ROWS][N * LANES] += sum over p < k of a[p][ROWS] x row at[p] of b[][N * LANES]. */
    #define VOLTA_OUTER_AT(NAME, T, V, LANES, N, S)                                                                 \\
    static void NAME(Py_ssize_t k, const T* a, const int* at, const T* b, T* sums) {                                \\
        V sum[VOLTA_TILE_ROWS][N];                                                                                  \\
        Py_ssize_t p; int i, j;                                                                                     \\
        VOLTA_UNROLL for (i = 0; i < VOLTA_TILE_ROWS; i++)                                                          \\
            VOLTA_UNROLL for (j = 0; j < N; j++) sum[i][j] = ((V*)sums)[i * N + j];                                 \\
        VOLTA_FOUR_STEPS for (p = 0; p < k; p++, a += VOLTA_TILE_ROWS) {                                            \\
            const V* row = (const V*)(b + (Py_ssize_t)at[p] * (N * LANES));                                         \\
            V y[N];                                                                                                 \\
            VOLTA_UNROLL for (j = 0; j < N; j++) y[j] = row[j];                                                     \\
            VOLTA_UNROLL for (i = 0; i < VOLTA_TILE_ROWS; i++) {                                                    \\
                const V x = VOLTA_SAME##S(a[i]);                                                                    \\
                VOLTA_UNROLL for (j = 0; j < N; j++) { VOLTA_PLUS##S(sum[i][j], x, y[j]); }                         \\
            }                                                                                                       \\
        }                                                                                                           \\
        VOLTA_UNROLL for (i = 0; i < VOLTA_TILE_ROWS; i++)                                                          \\
            VOLTA_UNROLL for (j = 0; j < N; j++) ((V*)sums)[i * N + j] = sum[i][j];                                 \\
    }
    #define VOLTA_OUTERS_AT(S, T)                                                                                   \\
    VOLTA_OUTER_AT(volta_outer_at##S##_1, T, volta_v##S, VOLTA_LANES##S, 1, S)                                      \\
    VOLTA_OUTER_AT(volta_outer_at##S##_2, T, volta_v##S, VOLTA_LANES##S, 2, S)                                      \\
    VOLTA_OUTER_AT(volta_outer_at##S##_3, T, volta_v##S, VOLTA_LANES##S, 3, S)                                      \\
    static void volta_outer_at##S(Py_ssize_t k, const T* a, const int* at, const T* b, T* sums, int vectors) {      \\
        (vectors == 3 ? volta_outer_at##S##_3 : vectors == 2 ? volta_outer_at##S##_2 : volta_outer_at##S##_1)(k, a, at, b, sums); \\
    }
    VOLTA_OUTERS_AT(32, float)
    VOLTA_OUTERS_AT(64, double)

    /* sums[ROWS][3][LANES] += elementwise products of ROWS rows of a and 3 rows of b; n is a multiple of LANES. */
    #define VOLTA_INNER(NAME, T, V, LANES, S)                                                                       \\
    static void NAME(Py_ssize_t n, const T* a, Py_ssize_t lda, const T* b, Py_ssize_t ldb, T* sums) {             \\
        V sum[VOLTA_TILE_ROWS][3];                                                                                  \\
        Py_ssize_t p; int i, j;                                                                                     \\
        VOLTA_UNROLL for (i = 0; i < VOLTA_TILE_ROWS; i++)                                                          \\
            VOLTA_UNROLL for (j = 0; j < 3; j++) sum[i][j] = ((V*)sums)[i * 3 + j];                                 \\
        for (p = 0; p < n; p += LANES) {                                                                            \\
            V y[3];                                                                                                 \\
            VOLTA_UNROLL for (j = 0; j < 3; j++) {                                                                  \\
                y[j] = *(const V*)(b + j * ldb + p);                                                                \\
                VOLTA_PREFETCH(b + (j + 3) * ldb + p);               /* the rows of the next tile */                \\
            }                                                                                                       \\
            VOLTA_UNROLL for (i = 0; i < VOLTA_TILE_ROWS; i++) {                                                    \\
                V x = *(const V*)(a + i * lda + p);                                                                 \\
                VOLTA_KEEP(x);                                                                                      \\
                VOLTA_UNROLL for (j = 0; j < 3; j++) sum[i][j] = VOLTA_MADD##S(x, y[j], sum[i][j]);                 \\
            }                                                                                                       \\
        }                                                                                                           \\
        VOLTA_UNROLL for (i = 0; i < VOLTA_TILE_ROWS; i++)                                                          \\
            VOLTA_UNROLL for (j = 0; j < 3; j++) ((V*)sums)[i * 3 + j] = sum[i][j];                                 \\
    }
    VOLTA_INNER(volta_inner32, float, volta_v32, VOLTA_LANES32, 32)
    VOLTA_INNER(volta_inner64, double, volta_v64, VOLTA_LANES64, 64)

    /* Adds the upper half of each of n vectors of 2 * WIDTH numbers to the lower one. */
    #define VOLTA_HALVES(T, WIDTH, from, to)                                                                        \\
        for (i = 0; i < VOLTA_TILE_ROWS * 3; i++)                                                                   \\
            VOLTA_UNROLL for (j = 0; j < WIDTH; j++) to[i * WIDTH + j] = from[i * 2 * WIDTH + j] + from[i * 2 * WIDTH + WIDTH + j];
    /* out[ROWS * 3] = the sum of each vector of sums[ROWS * 3][LANES]. */
    #define VOLTA_ADD_LANES(NAME, T, LANES)                                                                         \\
    static void NAME(const T* sums, T* out) {                                                                       \\
        T a[VOLTA_TILE_ROWS * 3 * LANES], b[VOLTA_TILE_ROWS * 3 * LANES];                                           \\
        int i, j;                                                                                                   \\
        memcpy(a, sums, sizeof(a));                                                                                 \\
        if (LANES == 16) { VOLTA_HALVES(T, 8, a, b) memcpy(a, b, sizeof(a) / 2); }                                  \\
        if (LANES >= 8) { VOLTA_HALVES(T, 4, a, b) memcpy(a, b, VOLTA_TILE_ROWS * 12 * sizeof(T)); }                \\
        if (LANES >= 4) { VOLTA_HALVES(T, 2, a, b) memcpy(a, b, VOLTA_TILE_ROWS * 6 * sizeof(T)); }                 \\
        if (LANES >= 2) VOLTA_HALVES(T, 1, a, b) else memcpy(b, a, sizeof(a));                                      \\
        memcpy(out, b, VOLTA_TILE_ROWS * 3 * sizeof(T));                                                            \\
    }
    VOLTA_ADD_LANES(volta_add_lanes32, float, VOLTA_LANES32)
    VOLTA_ADD_LANES(volta_add_lanes64, double, VOLTA_LANES64)
    """
    void outer_at32 "volta_outer_at32"(Py_ssize_t k, const float* a, const int* at, const float* b, float* sums,
                                       int vectors) noexcept nogil
    void outer_at64 "volta_outer_at64"(Py_ssize_t k, const double* a, const int* at, const double* b, double* sums,
                                       int vectors) noexcept nogil
    void inner32 "volta_inner32"(Py_ssize_t n, const float* a, Py_ssize_t lda, const float* b, Py_ssize_t ldb,
                                 float* sums) noexcept nogil
    void inner64 "volta_inner64"(Py_ssize_t n, const double* a, Py_ssize_t lda, const double* b, Py_ssize_t ldb,
                                 double* sums) noexcept nogil
    void add_lanes32 "volta_add_lanes32"(const float* sums, float* out) noexcept nogil
    void add_lanes64 "volta_add_lanes64"(const double* sums, double* out) noexcept nogil


cdef inline void outer_at(Py_ssize_t k, const real* a, const int* at, const real* b, real* sums, int vectors) noexcept nogil:
    """sums[TILE_ROWS][vectors * lanes] += products of a[k][TILE_ROWS] and the rows at[k] of b[][vectors * lanes]."""
    if real is float:
        outer_at32(k, a, at, b, sums, vectors)
    else:
        outer_at64(k, a, at, b, sums, vectors)


cdef inline void inner(Py_ssize_t n, const real* a, Py_ssize_t lda, const real* b, Py_ssize_t ldb,
                       real* sums) noexcept nogil:
    """sums[TILE_ROWS][3][lanes] += products of the rows of a and of 3 rows of b; IN: n a multiple of lanes."""
    if real is float:
        inner32(n, a, lda, b, ldb, sums)
    else:
        inner64(n, a, lda, b, ldb, sums)


cdef inline void add_lanes(const real* sums, real* out) noexcept nogil:
    """out[TILE_ROWS * 3] = the sums of the lanes of sums[TILE_ROWS][3][lanes]."""
    if real is float:
        add_lanes32(sums, out)
    else:
        add_lanes64(sums, out)
