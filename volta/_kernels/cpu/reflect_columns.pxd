# Reflections of few columns, each of which lies together: what tall matrices are made of.
#
# Layout: column j of a matrix begins at c + j * far, with zeros behind its m numbers up to far. Below the diagonal lie v, whose
#   first number is 1 and stands nowhere. -T in rows of PANEL; see reflect_blocks.pyx. Threads: none. Sizes: the caller's.
from libc.string cimport memcpy, memset

from volta._kernels.cpu.gemm cimport turn
from volta._kernels.cpu.real cimport real
from volta._kernels.cpu.tile cimport LANES32

cdef extern from *:
    """
    #include <math.h>
    /* out[p] = the sums of v of column p and of x, both from number 16 on, p < count. */
    #define VOLTA_COLUMN_SUMS(S, T)                                                                                     \\
    static void volta_column_sums##S(Py_ssize_t m, int count, const T* c, Py_ssize_t far, const T* x, T* out) {         \\
        enum { L = VOLTA_LANES##S };                                                                                    \\
        volta_v##S sum[4], more[4], y, z; Py_ssize_t i; int p = 0, q;                                                   \\
        for (; p < count; p += 4) {                                                                                     \\
            const T* v[4];                                                                                              \\
            for (q = 0; q < 4; q++) {                                                                                   \\
                v[q] = c + (p + q < count ? p + q : count - 1) * far;                                                   \\
                sum[q] = more[q] = (volta_v##S){0};                                                                     \\
            }                                                                                                           \\
            for (i = 16; i + 2 * L <= m; i += 2 * L) {                                                                  \\
                y = *(const volta_v##S*)(x + i);                                                                        \\
                z = *(const volta_v##S*)(x + i + L);                                                                    \\
                VOLTA_UNROLL for (q = 0; q < 4; q++) sum[q] = VOLTA_MADD##S(*(const volta_v##S*)(v[q] + i), y, sum[q]); \\
                VOLTA_UNROLL for (q = 0; q < 4; q++) more[q] = VOLTA_MADD##S(*(const volta_v##S*)(v[q] + i + L), z, more[q]); \\
            }                                                                                                           \\
            for (; i < m; i += L) {                                                                                     \\
                y = *(const volta_v##S*)(x + i);                                                                        \\
                VOLTA_UNROLL for (q = 0; q < 4; q++) sum[q] = VOLTA_MADD##S(*(const volta_v##S*)(v[q] + i), y, sum[q]); \\
            }                                                                                                           \\
            for (q = 0; q < 4 && p + q < count; q++) out[p + q] = volta_total##S(sum[q] + more[q]);                     \\
        }                                                                                                               \\
    }
    /* out, if `add` + x, + the columns' v times w[p], from number 16 on. Gives the sum of squares. */
    #define VOLTA_COLUMN_PRODUCT(S, T)                                                                                  \\
    static T volta_column_product##S(Py_ssize_t m, int count, const T* c, Py_ssize_t far, const T* w, const T* x, T* out) { \\
        enum { L = VOLTA_LANES##S };                                                                                    \\
        volta_v##S y[4], sum[4]; Py_ssize_t i; int p, q; const T* v;                                                    \\
        for (q = 0; q < 4; q++) sum[q] = (volta_v##S){0};                                                               \\
        for (i = 16; i + 4 * L <= m; i += 4 * L) {                                                                      \\
            VOLTA_UNROLL for (q = 0; q < 4; q++) y[q] = x ? *(const volta_v##S*)(x + i + q * L) : (volta_v##S){0};      \\
            for (p = 0, v = c + i; p < count; p++, v += far) {                                                          \\
                const volta_v##S times = VOLTA_SAME##S(w[p]);                                                           \\
                VOLTA_UNROLL for (q = 0; q < 4; q++) y[q] = VOLTA_MADD##S(*(const volta_v##S*)(v + q * L), times, y[q]); \\
            }                                                                                                           \\
            VOLTA_UNROLL for (q = 0; q < 4; q++) {                                                                      \\
                *(volta_v##S*)(out + i + q * L) = y[q];                                                                 \\
                sum[q] = VOLTA_MADD##S(y[q], y[q], sum[q]);                                                             \\
            }                                                                                                           \\
        }                                                                                                               \\
        for (; i < m; i += L) {                                                                                         \\
            y[0] = x ? volta_part##S(x + i, m - i < L ? (int)(m - i) : L) : (volta_v##S){0};                            \\
            for (p = 0; p < count; p++) y[0] = VOLTA_MADD##S(*(const volta_v##S*)(c + p * far + i), VOLTA_SAME##S(w[p]), y[0]); \\
            volta_put##S(out + i, y[0], m - i < L ? (int)(m - i) : L);                                                  \\
            sum[0] = VOLTA_MADD##S(y[0], y[0], sum[0]);                                                                 \\
        }                                                                                                               \\
        return volta_total##S((sum[0] + sum[1]) + (sum[2] + sum[3]));                                                   \\
    }
    /* The same of the first 16 numbers. */
    #define VOLTA_COLUMN_FIRST(S, T)                                                                                    \\
    static void volta_column_first##S(int count, const T* top, const T* w, T* here) {                                   \\
        enum { L = VOLTA_LANES##S };                                                                                    \\
        int p, q;                                                                                                       \\
        for (q = 0; q < 16; q += L) {                                                                                   \\
            volta_v##S y = *(const volta_v##S*)(here + q);                                                              \\
            for (p = 0; p < count; p++) y = VOLTA_MADD##S(*(const volta_v##S*)(top + 16 * p + q), VOLTA_SAME##S(w[p]), y); \\
            *(volta_v##S*)(here + q) = y;                                                                               \\
        }                                                                                                               \\
    }
    /* v of column j in its first 16 numbers. */
    #define VOLTA_COLUMN_TOP(S, T)                                                                                      \\
    static void volta_column_top##S(Py_ssize_t m, int j, const T* x, T* top) {                                          \\
        int i;                                                                                                          \\
        for (i = 0; i < 16; i++) top[i] = i < j || i >= m ? 0 : i == j ? 1 : x[i];                                      \\
    }
    /* The columns, at most 16 and m, reflected one by one: R, v, tau, and -T. Gives 0 where squares would be too large or too small to be
       added, which means 0 up to `least`. */
    #define VOLTA_REFLECT_COLUMNS(S, T, ROOT, LOW, HIGH)                                                                \\
    static int volta_reflect_columns##S(Py_ssize_t m, int columns, T* c, Py_ssize_t far, T* tau, T* t, T least) {       \\
        T top[16][16], here[16], sum[16], w[16], beta, factor, scale, norm, rest; T* x; double exact[16];               \\
        Py_ssize_t i; int j, p, q;                                                                                      \\
        for (j = 0; j < columns; j++) {                                                                                 \\
            x = c + j * far;                                                                                            \\
            memset(here, 0, sizeof(here));                                                                              \\
            memcpy(here, x, (m < 16 ? m : 16) * sizeof(T));                                                             \\
            volta_column_sums##S(m, j, c, far, x, sum);                                                                 \\
            for (p = 0; p < j; p++) {                                                                                   \\
                exact[p] = sum[p];                                                                                      \\
                for (q = p; q < 16; q++) exact[p] += (double)top[p][q] * here[q];                                       \\
            }                                                                                                           \\
            for (p = 0; p < j; p++) {                                                                                   \\
                double total = 0;                                                                                       \\
                for (q = 0; q <= p; q++) total += t[q * 64 + p] * exact[q];                                             \\
                w[p] = (T)total;                                                                                        \\
            }                                                                                                           \\
            rest = volta_column_product##S(m, j, c, far, w, x, x);                                                      \\
            volta_column_first##S(j, &top[0][0], w, here);                                                              \\
            for (q = j + 1; q < 16; q++) rest += here[q] * here[q];                                                     \\
            for (p = 0; p <= j; p++) t[p * 64 + j] = 0;                                                                 \\
            tau[j] = factor = 0; scale = 0; beta = here[j];                                                             \\
            if (rest > least) {                                                                                         \\
                norm = here[j] * here[j] + rest;                                                                        \\
                if (!(norm > LOW && norm < HIGH)) return 0;                                                             \\
                beta = here[j] > 0 || (here[j] == 0 && !signbit(here[j])) ? -ROOT(norm) : ROOT(norm);                   \\
                tau[j] = factor = (T)(((double)beta - here[j]) / beta);                                                 \\
                scale = (T)(1 / ((double)here[j] - beta));                                                              \\
            } else if (!(least > 0)) {                  /* nothing to reflect, but what is too small to square */       \\
                for (q = j + 1; q < 16; q++) if (here[q] != 0) return 0;                                                \\
                for (i = 16; i < m; i++) if (x[i] != 0) return 0;                                                       \\
            }                                                                                                           \\
            for (i = 16; i < m; i += VOLTA_LANES##S) *(volta_v##S*)(x + i) *= VOLTA_SAME##S(scale);                     \\
            for (q = j + 1; q < 16; q++) here[q] *= scale;                                                              \\
            here[j] = beta;                                                                                             \\
            memcpy(x, here, (m < 16 ? m : 16) * sizeof(T));                                                             \\
            volta_column_top##S(m, j, x, top[j]);                                                                       \\
            if (factor != 0) {                                                                                          \\
                volta_column_sums##S(m, j, c, far, x, sum);                                                             \\
                for (p = 0; p < j; p++) for (q = j; q < 16; q++) sum[p] += top[p][q] * top[j][q];                       \\
                for (p = 0; p < j; p++) for (q = 0; q <= p; q++) t[q * 64 + j] -= factor * (t[q * 64 + p] * sum[p]);    \\
                t[j * 64 + j] = -factor;                                                                                \\
            }                                                                                                           \\
        }                                                                                                               \\
        return 1;                                                                                                       \\
    }
    /* The first k columns of the product of these reflections, one behind the other; k from `columns` on. */
    #define VOLTA_COLUMNS_OF_Q(S, T)                                                                                    \\
    static void volta_columns_of_q##S(Py_ssize_t m, int columns, const T* c, Py_ssize_t far, const T* t, int k, T* out) { \\
        T top[16][16], here[16], w[16]; int j, p, q;                                                                    \\
        for (p = 0; p < columns; p++) volta_column_top##S(m, p, c + p * far, top[p]);                                   \\
        for (j = 0; j < k; j++, out += m) {                                                                             \\
            for (p = 0; p < columns; p++)                                                                               \\
                for (w[p] = 0, q = p; q < columns; q++) w[p] += t[p * 64 + q] * top[q][j];                              \\
            volta_column_product##S(m, columns, c, far, w, (const T*)0, out);                                           \\
            for (q = 0; q < 16; q++) here[q] = q == j;                                                                  \\
            volta_column_first##S(columns, &top[0][0], w, here);                                                        \\
            memcpy(out, here, (m < 16 ? m : 16) * sizeof(T));                                                           \\
        }                                                                                                               \\
    }
    /* -T of known reflections. */
    #define VOLTA_COLUMNS_T(S, T)                                                                                       \\
    static void volta_columns_t##S(Py_ssize_t m, int columns, const T* c, Py_ssize_t far, const T* tau, T* t) {         \\
        T top[16][16], sum[16]; int j, p, q;                                                                            \\
        for (j = 0; j < columns; j++) {                                                                                 \\
            volta_column_top##S(m, j, c + j * far, top[j]);                                                             \\
            volta_column_sums##S(m, j, c, far, c + j * far, sum);                                                       \\
            for (p = 0; p <= j; p++) t[p * 64 + j] = 0;                                                                 \\
            for (p = 0; p < j; p++) for (q = j; q < 16; q++) sum[p] += top[p][q] * top[j][q];                           \\
            for (p = 0; p < j; p++) for (q = 0; q <= p; q++) t[q * 64 + j] -= tau[j] * (t[q * 64 + p] * sum[p]);        \\
            t[j * 64 + j] = -tau[j];                                                                                    \\
        }                                                                                                               \\
    }
    /* k columns x, as far apart, of the product of these reflections with them, or of its transpose. */
    #define VOLTA_COLUMNS_TIMES(S, T)                                                                                   \\
    static void volta_columns_times##S(Py_ssize_t m, int columns, const T* c, Py_ssize_t far, const T* t, int turned, int k, T* x) { \\
        T top[16][16], here[16], sum[16], w[16]; double exact[16]; int j, p, q;                                         \\
        for (p = 0; p < columns; p++) volta_column_top##S(m, p, c + p * far, top[p]);                                   \\
        for (j = 0; j < k; j++, x += far) {                                                                             \\
            memset(here, 0, sizeof(here));                                                                              \\
            memcpy(here, x, (m < 16 ? m : 16) * sizeof(T));                                                             \\
            volta_column_sums##S(m, columns, c, far, x, sum);                                                           \\
            for (p = 0; p < columns; p++)                                                                               \\
                for (exact[p] = sum[p], q = p; q < 16; q++) exact[p] += (double)top[p][q] * here[q];                    \\
            for (p = 0; p < columns; p++) {                                                                             \\
                double total = 0;                                                                                       \\
                for (q = turned ? 0 : p; q < (turned ? p + 1 : columns); q++)                                           \\
                    total += (turned ? t[q * 64 + p] : t[p * 64 + q]) * exact[q];                                       \\
                w[p] = (T)total;                                                                                        \\
            }                                                                                                           \\
            volta_column_product##S(m, columns, c, far, w, x, x);                                                       \\
            volta_column_first##S(columns, &top[0][0], w, here);                                                        \\
            memcpy(x, here, (m < 16 ? m : 16) * sizeof(T));                                                             \\
        }                                                                                                               \\
    }
    #define VOLTA_COLUMN_REFLECTIONS(S, T, ROOT, LOW, HIGH)                                                             \\
    VOLTA_COLUMN_SUMS(S, T) VOLTA_COLUMN_PRODUCT(S, T) VOLTA_COLUMN_FIRST(S, T) VOLTA_COLUMN_TOP(S, T)               \\
    VOLTA_REFLECT_COLUMNS(S, T, ROOT, LOW, HIGH)                                                                        \\
    VOLTA_COLUMNS_OF_Q(S, T) VOLTA_COLUMNS_T(S, T) VOLTA_COLUMNS_TIMES(S, T)
    VOLTA_COLUMN_REFLECTIONS(32, float, sqrtf, 1e-28f, 1e28f)
    VOLTA_COLUMN_REFLECTIONS(64, double, sqrt, 1e-280, 1e280)
    """
    bint reflect_columns32 "volta_reflect_columns32"(Py_ssize_t m, int columns, float* c, Py_ssize_t far, float* tau, float* t,
                                                     float least) noexcept nogil
    bint reflect_columns64 "volta_reflect_columns64"(Py_ssize_t m, int columns, double* c, Py_ssize_t far, double* tau, double* t,
                                                     double least) noexcept nogil
    void columns_of_q32 "volta_columns_of_q32"(Py_ssize_t m, int columns, const float* c, Py_ssize_t far, const float* t, int k,
                                               float* out) noexcept nogil
    void columns_of_q64 "volta_columns_of_q64"(Py_ssize_t m, int columns, const double* c, Py_ssize_t far, const double* t, int k,
                                               double* out) noexcept nogil
    void columns_t32 "volta_columns_t32"(Py_ssize_t m, int columns, const float* c, Py_ssize_t far, const float* tau,
                                         float* t) noexcept nogil
    void columns_t64 "volta_columns_t64"(Py_ssize_t m, int columns, const double* c, Py_ssize_t far, const double* tau,
                                         double* t) noexcept nogil
    void columns_times32 "volta_columns_times32"(Py_ssize_t m, int columns, const float* c, Py_ssize_t far, const float* t, bint turned,
                                                 int k, float* x) noexcept nogil
    void columns_times64 "volta_columns_times64"(Py_ssize_t m, int columns, const double* c, Py_ssize_t far, const double* t, bint turned,
                                                 int k, double* x) noexcept nogil

cdef enum:
    TALL = 64                   # rows from which on few columns are taken so


cdef inline bint reflect_columns(Py_ssize_t m, Py_ssize_t columns, real* c, Py_ssize_t far, real* tau, real* t,
                                 real least) noexcept nogil:
    if real is float:
        return reflect_columns32(m, <int>columns, c, far, tau, t, least)
    else:
        return reflect_columns64(m, <int>columns, c, far, tau, t, least)


cdef inline void columns_of_q(Py_ssize_t m, Py_ssize_t columns, const real* c, Py_ssize_t far, const real* t, Py_ssize_t k,
                              real* out) noexcept nogil:
    if real is float:
        columns_of_q32(m, <int>columns, c, far, t, <int>k, out)
    else:
        columns_of_q64(m, <int>columns, c, far, t, <int>k, out)


cdef inline void columns_t(Py_ssize_t m, Py_ssize_t columns, const real* c, Py_ssize_t far, const real* tau, real* t) noexcept nogil:
    if real is float:
        columns_t32(m, <int>columns, c, far, tau, t)
    else:
        columns_t64(m, <int>columns, c, far, tau, t)


cdef inline void columns_times(Py_ssize_t m, Py_ssize_t columns, const real* c, Py_ssize_t far, const real* t, bint turned, Py_ssize_t k,
                               real* x) noexcept nogil:
    if real is float:
        columns_times32(m, <int>columns, c, far, t, turned, <int>k, x)
    else:
        columns_times64(m, <int>columns, c, far, t, turned, <int>k, x)


cdef inline void take_columns(Py_ssize_t m, Py_ssize_t n, const real* a, Py_ssize_t row, Py_ssize_t column, real* out,
                              Py_ssize_t far) noexcept nogil:
    """Columns one behind the other, with zeros up to `far`."""
    cdef Py_ssize_t i, j
    if column == 1 and n > 1:
        turn(m, n, a, row, out, far)
    for j in range(n):
        if row == 1:
            memcpy(out + j * far, a + j * column, m * sizeof(real))
        elif column != 1 or n == 1:
            for i in range(m):
                out[j * far + i] = a[i * row + j * column]
        memset(out + j * far + m, 0, (far - m) * sizeof(real))
