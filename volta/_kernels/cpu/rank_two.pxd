# A matrix changed by two products of vectors, and multiplied by a third on the way: what reflections from both sides need, in one pass.
#
# Layout: rows in whole vectors. Threads: the caller's, over columns. Sizes: the caller's.
from volta._kernels.cpu.real cimport real
from volta._kernels.cpu.tile cimport LANES32

cdef extern from *:
    """
    /* Rows first .. m of a[m][..], `vectors` vectors of columns: a -= v left' + w right', and sum = next' a. */
    #define VOLTA_PAIR_STRIP(S, T, N) {                                                                                 \\
        volta_v##S sum[N], x[N], y[N], p, q, r; T* row = a + first * ld; Py_ssize_t i; int c;                            \\
        VOLTA_UNROLL for (c = 0; c < N; c++) {                                                                          \\
            sum[c] = (volta_v##S){0};                                                                                   \\
            x[c] = ((const volta_v##S*)right)[at + c];                                                                  \\
            y[c] = ((const volta_v##S*)left)[at + c];                                                                   \\
        }                                                                                                               \\
        for (i = first; i < m; i++, row += ld) {                                                                        \\
            p = VOLTA_SAME##S(-v[i]); q = VOLTA_SAME##S(-w[i]); r = VOLTA_SAME##S(next[i]);                             \\
            VOLTA_UNROLL for (c = 0; c < N; c++) {                                                                      \\
                volta_v##S z = VOLTA_MADD##S(q, x[c], VOLTA_MADD##S(p, y[c], ((volta_v##S*)row)[at + c]));              \\
                ((volta_v##S*)row)[at + c] = z;                                                                         \\
                sum[c] = VOLTA_MADD##S(r, z, sum[c]);                                                                   \\
            }                                                                                                           \\
        }                                                                                                               \\
        VOLTA_UNROLL for (c = 0; c < N; c++) ((volta_v##S*)out)[at + c] = sum[c];                                       \\
        at += N;                                                                                                        \\
    }
    #define VOLTA_PAIR(S, T)                                                                                            \\
    static void volta_pair##S(Py_ssize_t first, Py_ssize_t m, T* a, Py_ssize_t ld, Py_ssize_t from, Py_ssize_t to,       \\
                              const T* v, const T* w, const T* left, const T* right, const T* next, T* out) {           \\
        Py_ssize_t at = from / VOLTA_LANES##S, end = to / VOLTA_LANES##S;                                               \\
        while (end - at >= 4) VOLTA_PAIR_STRIP(S, T, 4)                                                                 \\
        if (end - at >= 2) VOLTA_PAIR_STRIP(S, T, 2)                                                                    \\
        while (at < end) VOLTA_PAIR_STRIP(S, T, 1)                                                                      \\
    }
    /* out[i] = row i of a times u, for rows first .. m. */
    #define VOLTA_DOTS(S, T)                                                                                            \\
    static void volta_dots##S(Py_ssize_t first, Py_ssize_t m, const T* a, Py_ssize_t ld, Py_ssize_t from, Py_ssize_t to, \\
                              const T* u, T* out) {                                                                     \\
        const Py_ssize_t begin = from / VOLTA_LANES##S, end = to / VOLTA_LANES##S;                                      \\
        Py_ssize_t i, j; int r;                                                                                         \\
        for (i = first; i + 4 <= m; i += 4) {                                                                           \\
            volta_v##S sum[4] = {{0}};                                                                                  \\
            for (j = begin; j < end; j++) {                                                                             \\
                const volta_v##S x = ((const volta_v##S*)u)[j];                                                         \\
                VOLTA_UNROLL for (r = 0; r < 4; r++) sum[r] = VOLTA_MADD##S(x, ((const volta_v##S*)(a + (i + r) * ld))[j], sum[r]); \\
            }                                                                                                           \\
            VOLTA_UNROLL for (r = 0; r < 4; r++) out[i + r] = volta_total##S(sum[r]);                                   \\
        }                                                                                                               \\
        for (; i < m; i++) {                                                                                            \\
            volta_v##S sum = {0};                                                                                       \\
            for (j = begin; j < end; j++) sum = VOLTA_MADD##S(((const volta_v##S*)u)[j], ((const volta_v##S*)(a + i * ld))[j], sum); \\
            out[i] = volta_total##S(sum);                                                                               \\
        }                                                                                                               \\
    }
    VOLTA_DOTS(32, float)
    VOLTA_DOTS(64, double)
    VOLTA_PAIR(32, float)
    VOLTA_PAIR(64, double)
    """
    void pair32 "volta_pair32"(Py_ssize_t, Py_ssize_t, float*, Py_ssize_t, Py_ssize_t, Py_ssize_t, const float*, const float*, const float*,
                               const float*, const float*, float*) noexcept nogil
    void pair64 "volta_pair64"(Py_ssize_t, Py_ssize_t, double*, Py_ssize_t, Py_ssize_t, Py_ssize_t, const double*, const double*,
                               const double*, const double*, const double*, double*) noexcept nogil
    void dots32 "volta_dots32"(Py_ssize_t, Py_ssize_t, const float*, Py_ssize_t, Py_ssize_t, Py_ssize_t, const float*,
                               float*) noexcept nogil
    void dots64 "volta_dots64"(Py_ssize_t, Py_ssize_t, const double*, Py_ssize_t, Py_ssize_t, Py_ssize_t, const double*,
                               double*) noexcept nogil


cdef inline void pair(Py_ssize_t first, Py_ssize_t m, real* a, Py_ssize_t ld, Py_ssize_t start, Py_ssize_t end, const real* v,
                      const real* w, const real* left, const real* right, const real* next, real* out) noexcept nogil:
    """Columns start .. end, in whole vectors, of rows first .. m: a -= v left' + w right', and out = next' a."""
    if real is float:
        pair32(first, m, a, ld, start, end, v, w, left, right, next, out)
    else:
        pair64(first, m, a, ld, start, end, v, w, left, right, next, out)


cdef inline void dots(Py_ssize_t first, Py_ssize_t m, const real* a, Py_ssize_t ld, Py_ssize_t start, Py_ssize_t end, const real* u,
                      real* out) noexcept nogil:
    """out[i] = the product of row i of a with u over columns start .. end, in whole vectors, for rows first .. m."""
    if real is float:
        dots32(first, m, a, ld, start, end, u, out)
    else:
        dots64(first, m, a, ld, start, end, u, out)
