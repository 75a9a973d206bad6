# Innermost loops of products of a vector and a matrix, which read the matrix once, in the direction in which it lies, and of those whose
# second matrix fits into registers.
#
# Threads: none. Sizes: the caller's. The order of a sum depends on its length alone.

from volta._kernels.cpu.real cimport real
from volta._kernels.cpu.tile cimport LANES32          # for what the C below takes of it

cdef extern from *:
    """
    /* out[n] += x[0] * b[0][n] + ... + x[ROWS - 1] * b[ROWS - 1][n], in this order; `fresh`: = instead. */
    #define VOLTA_ADD_VECTOR(V, ROWS, S, COUNT) {                                                                   \\
        V sum = fresh ? (V){0} : volta_part##S(out + j, COUNT);                                                     \\
        VOLTA_UNROLL for (i = 0; i < ROWS; i++) sum = VOLTA_MADD##S(y[i], volta_part##S(b + i * b_row + j, COUNT), sum); \\
        volta_put##S(out + j, sum, COUNT);                                                                          \\
    }
    #define VOLTA_ADD_ROWS(NAME, ROWS, T, V, LANES, S)                                                              \\
    static void NAME(Py_ssize_t n, const T* x, const T* b, Py_ssize_t b_row, T* out, int fresh) {                   \\
        V y[ROWS]; Py_ssize_t j; int i;                                                                             \\
        VOLTA_UNROLL for (i = 0; i < ROWS; i++) y[i] = VOLTA_SAME##S(x[i]);                                         \\
        for (j = 0; j + LANES <= n; j += LANES) VOLTA_ADD_VECTOR(V, ROWS, S, LANES)                                 \\
        if (j < n) VOLTA_ADD_VECTOR(V, ROWS, S, (int)(n - j))                                                       \\
    }
    /* The same of any number of rows. */
    #define VOLTA_ADD_ROWS_OF(S, T)                                                                                 \\
    VOLTA_ADD_ROWS(volta_add_rows##S##_1, 1, T, volta_v##S, VOLTA_LANES##S, S)                                      \\
    VOLTA_ADD_ROWS(volta_add_rows##S##_2, 2, T, volta_v##S, VOLTA_LANES##S, S)                                      \\
    VOLTA_ADD_ROWS(volta_add_rows##S##_4, 4, T, volta_v##S, VOLTA_LANES##S, S)                                      \\
    VOLTA_ADD_ROWS(volta_add_rows##S##_8, 8, T, volta_v##S, VOLTA_LANES##S, S)                                      \\
    static void volta_add_rows##S(Py_ssize_t rows, Py_ssize_t n, const T* x, const T* b, Py_ssize_t b_row, T* out, int fresh) { \\
        while (rows > 0) {                                                                                          \\
            const int count = rows >= 8 ? 8 : rows >= 4 ? 4 : rows >= 2 ? 2 : 1;                                    \\
            (count == 8 ? volta_add_rows##S##_8 : count == 4 ? volta_add_rows##S##_4 :                              \\
             count == 2 ? volta_add_rows##S##_2 : volta_add_rows##S##_1)(n, x, b, b_row, out, fresh);               \\
            rows -= count, x += count, b += count * b_row, fresh = 0;                                               \\
        }                                                                                                           \\
    }
    VOLTA_ADD_ROWS_OF(32, float)
    VOLTA_ADD_ROWS_OF(64, double)

    #if defined(__GNUC__) && !defined(__clang__)
      #define VOLTA_UNROLL_ALL _Pragma("GCC unroll 16")
    #else
      #define VOLTA_UNROLL_ALL VOLTA_UNROLL
    #endif
    /* out[rows][n] = x[rows][K] @ b[K][n] + bias, with all of b in registers: N vectors of columns, the last of `last` numbers. */
    #define VOLTA_SHORT(NAME, K, N, T, V, LANES, S)                                                                 \\
    static void NAME(Py_ssize_t rows, int last, const T* x, Py_ssize_t x_row, Py_ssize_t x_step, const T* b, Py_ssize_t b_row, \\
                     const T* bias, T* out, Py_ssize_t out_row, Py_ssize_t ahead) {                                 \\
        V y[K][N], start[N];                                                                                        \\
        int j, q;                                                                                                   \\
        VOLTA_UNROLL_ALL for (j = 0; j < N; j++) {                                                                  \\
            const int count = j == N - 1 ? last : LANES;                                                            \\
            VOLTA_UNROLL_ALL for (q = 0; q < K; q++) y[q][j] = volta_part##S(b + q * b_row + j * LANES, count);     \\
            start[j] = bias ? volta_part##S(bias + j * LANES, count) : (V){0};                                      \\
        }                                                                                                           \\
        for (; rows > 0; rows--, x += x_row, out += out_row) {                                                      \\
            V sum[N];                                                                                               \\
            VOLTA_UNROLL_ALL for (j = 0; j < N; j++) VOLTA_PREFETCH(out + ahead + j * LANES);                       \\
            VOLTA_UNROLL_ALL for (j = 0; j < N; j++) sum[j] = (V){0};                                               \\
            VOLTA_UNROLL_ALL for (q = 0; q < K; q++) {                                                              \\
                const V one = VOLTA_SAME##S(x[q * x_step]);                                                         \\
                VOLTA_UNROLL_ALL for (j = 0; j < N; j++) sum[j] = VOLTA_MADD##S(one, y[q][j], sum[j]);              \\
            }                                                                                                       \\
            VOLTA_UNROLL_ALL for (j = 0; j < N - 1; j++) volta_put##S(out + j * LANES, sum[j] + start[j], LANES);   \\
            volta_put##S(out + (N - 1) * LANES, sum[N - 1] + start[N - 1], last);                                   \\
        }                                                                                                           \\
    }
    #define VOLTA_SHORT_1(S, T, K) VOLTA_SHORT(volta_short##S##_##K##_1, K, 1, T, volta_v##S, VOLTA_LANES##S, S)
    #define VOLTA_SHORT_2(S, T, K) VOLTA_SHORT_1(S, T, K) VOLTA_SHORT(volta_short##S##_##K##_2, K, 2, T, volta_v##S, VOLTA_LANES##S, S)
    #define VOLTA_SHORT_3(S, T, K) VOLTA_SHORT_2(S, T, K) VOLTA_SHORT(volta_short##S##_##K##_3, K, 3, T, volta_v##S, VOLTA_LANES##S, S)
    #define VOLTA_AT_1(S, K) {volta_short##S##_##K##_1},
    #define VOLTA_AT_2(S, K) {volta_short##S##_##K##_1, volta_short##S##_##K##_2},
    #define VOLTA_AT_3(S, K) {volta_short##S##_##K##_1, volta_short##S##_##K##_2, volta_short##S##_##K##_3},
    #define VOLTA_SHORT_OF(S, T)                                                                                    \\
    VOLTA_SHORT_3(S, T, 1) VOLTA_SHORT_3(S, T, 2) VOLTA_SHORT_3(S, T, 3) VOLTA_SHORT_3(S, T, 4) VOLTA_SHORT_3(S, T, 5) \\
    VOLTA_SHORT_3(S, T, 6) VOLTA_SHORT_3(S, T, 7) VOLTA_SHORT_3(S, T, 8) VOLTA_SHORT_2(S, T, 9) VOLTA_SHORT_2(S, T, 10) \\
    VOLTA_SHORT_2(S, T, 11) VOLTA_SHORT_2(S, T, 12) VOLTA_SHORT_1(S, T, 13) VOLTA_SHORT_1(S, T, 14) VOLTA_SHORT_1(S, T, 15) \\
    VOLTA_SHORT_1(S, T, 16)                                                                                         \\
    static void (*const volta_short##S[16][3])(Py_ssize_t, int, const T*, Py_ssize_t, Py_ssize_t, const T*, Py_ssize_t, const T*, T*, \\
                                               Py_ssize_t, Py_ssize_t) = {                                          \\
        VOLTA_AT_3(S, 1) VOLTA_AT_3(S, 2) VOLTA_AT_3(S, 3) VOLTA_AT_3(S, 4) VOLTA_AT_3(S, 5) VOLTA_AT_3(S, 6)       \\
        VOLTA_AT_3(S, 7) VOLTA_AT_3(S, 8) VOLTA_AT_2(S, 9) VOLTA_AT_2(S, 10) VOLTA_AT_2(S, 11) VOLTA_AT_2(S, 12)    \\
        VOLTA_AT_1(S, 13) VOLTA_AT_1(S, 14) VOLTA_AT_1(S, 15) VOLTA_AT_1(S, 16)};                                   \\
    static void volta_short##S##_rows(Py_ssize_t k, Py_ssize_t rows, Py_ssize_t n, const T* x, Py_ssize_t x_row, Py_ssize_t x_step, \\
                                      const T* b, Py_ssize_t b_row, const T* bias, T* out, Py_ssize_t out_row, Py_ssize_t ahead) { \\
        const Py_ssize_t whole = (n - 1) / VOLTA_LANES##S;                                                          \\
        volta_short##S[k - 1][whole](rows, (int)(n - whole * VOLTA_LANES##S), x, x_row, x_step, b, b_row, bias, out, out_row, ahead); \\
    }
    VOLTA_SHORT_OF(32, float)
    VOLTA_SHORT_OF(64, double)

    /* out[j][ROWS] = x[ROWS][j] + bias[ROWS], and back without bias: loops that the compiler makes shuffles of. */
    #if defined(_MSC_VER)
      #define VOLTA_RESTRICT __restrict
    #else
      #define VOLTA_RESTRICT __restrict__
    #endif
    #define VOLTA_INTERLEAVE(S, T)                                                                                      \\
    static void volta_interleave##S(Py_ssize_t rows, Py_ssize_t n, const T* VOLTA_RESTRICT x, Py_ssize_t x_row, const T* bias, \\
                                    T* VOLTA_RESTRICT out) {                                                        \\
        const T *y, *z;                                                                                             \\
        VOLTA_HIDE(x_row);          /* of a distance that it knows, GCC also takes what lies behind a line's last element */ \\
        y = x + x_row, z = y + x_row;                                                                               \\
        const T a = bias ? bias[0] : 0, b = bias ? bias[1] : 0, c = bias && rows > 2 ? bias[2] : 0;                 \\
        Py_ssize_t j;                                                                                               \\
        if (rows == 2) for (j = 0; j < n; j++) { out[2 * j] = x[j] + a; out[2 * j + 1] = y[j] + b; }                \\
        else for (j = 0; j < n; j++) { out[3 * j] = x[j] + a; out[3 * j + 1] = y[j] + b; out[3 * j + 2] = z[j] + c; } \\
    }                                                                                                               \\
    static void volta_deinterleave##S(Py_ssize_t rows, Py_ssize_t n, const T* VOLTA_RESTRICT x, T* VOLTA_RESTRICT out) { \\
        T* VOLTA_RESTRICT y = out + n; T* VOLTA_RESTRICT z = y + n;                                                 \\
        Py_ssize_t j;                                                                                               \\
        if (rows == 2) for (j = 0; j < n; j++) { out[j] = x[2 * j]; y[j] = x[2 * j + 1]; }                          \\
        else for (j = 0; j < n; j++) { out[j] = x[3 * j]; y[j] = x[3 * j + 1]; z[j] = x[3 * j + 2]; }               \\
    }
    VOLTA_INTERLEAVE(32, float)
    VOLTA_INTERLEAVE(64, double)
    """
    void interleave32 "volta_interleave32"(Py_ssize_t, Py_ssize_t, const float*, Py_ssize_t, const float*, float*) noexcept nogil
    void interleave64 "volta_interleave64"(Py_ssize_t, Py_ssize_t, const double*, Py_ssize_t, const double*, double*) noexcept nogil
    void deinterleave32 "volta_deinterleave32"(Py_ssize_t, Py_ssize_t, const float*, float*) noexcept nogil
    void deinterleave64 "volta_deinterleave64"(Py_ssize_t, Py_ssize_t, const double*, double*) noexcept nogil
    void add_rows32 "volta_add_rows32"(Py_ssize_t, Py_ssize_t, const float*, const float*, Py_ssize_t, float*, bint) noexcept nogil
    void add_rows64 "volta_add_rows64"(Py_ssize_t, Py_ssize_t, const double*, const double*, Py_ssize_t, double*, bint) noexcept nogil
    void short32 "volta_short32_rows"(Py_ssize_t, Py_ssize_t, Py_ssize_t, const float*, Py_ssize_t, Py_ssize_t, const float*, Py_ssize_t,
                                      const float*, float*, Py_ssize_t, Py_ssize_t) noexcept nogil
    void short64 "volta_short64_rows"(Py_ssize_t, Py_ssize_t, Py_ssize_t, const double*, Py_ssize_t, Py_ssize_t, const double*, Py_ssize_t,
                                      const double*, double*, Py_ssize_t, Py_ssize_t) noexcept nogil


cdef inline void add_rows(Py_ssize_t rows, Py_ssize_t n, const real* x, const real* b, Py_ssize_t b_row, real* out,
                          bint fresh) noexcept nogil:
    """out[n] += the sum of x[i] times row i of b, in this order; = if `fresh`."""
    if real is float:
        add_rows32(rows, n, x, b, b_row, out, fresh)
    else:
        add_rows64(rows, n, x, b, b_row, out, fresh)


cdef inline void short_rows(Py_ssize_t k, Py_ssize_t rows, Py_ssize_t n, const real* x, Py_ssize_t x_row, Py_ssize_t x_step, const real* b,
                            Py_ssize_t b_row, const real* bias, real* out, Py_ssize_t out_row, Py_ssize_t ahead) noexcept nogil:
    """out[rows][n] = x[rows][k] @ b[k][n] + bias (NULL for none); n is at most 3 vectors, k at most 16, 12 and 8 for 1, 2 and 3."""
    if real is float:
        short32(k, rows, n, x, x_row, x_step, b, b_row, bias, out, out_row, ahead)
    else:
        short64(k, rows, n, x, x_row, x_step, b, b_row, bias, out, out_row, ahead)


cdef inline void interleave(Py_ssize_t rows, Py_ssize_t n, const real* x, Py_ssize_t x_row, const real* bias, real* out) noexcept nogil:
    """out[n][rows] = x[rows][n] turned, + bias (NULL for none). IN: 2 or 3 rows."""
    if real is float:
        interleave32(rows, n, x, x_row, bias, out)
    else:
        interleave64(rows, n, x, x_row, bias, out)


cdef inline void deinterleave(Py_ssize_t rows, Py_ssize_t n, const real* x, real* out) noexcept nogil:
    """out[rows][n] = x[n][rows] turned. IN: 2 or 3 rows."""
    if real is float:
        deinterleave32(rows, n, x, out)
    else:
        deinterleave64(rows, n, x, out)
