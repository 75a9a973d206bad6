# Sums and maxima over contiguous memory, and exp and log by element type.
#
# float32 sums run in 64 lanes over at most 1,024 elements, whose results are added in double: the error does not grow with the length, and
# the order depends on the length only. In vector types, since compilers keep one sum at a time, and wait for each addition.
# Threads: none. Sizes: the caller's; n may be 0.

from volta._kernels.cpu.scalar cimport exp_f32, exp_f64, log_f32, log_f64
from volta._kernels.cpu.tile cimport real
from volta._kernels.cpu.vectors cimport exp_away_line, exp_each_line

cdef extern from *:
    """
    #if defined(__GNUC__) || defined(__clang__)
      #define VOLTA_LANES_AT(k, p) (*(const V*)(p + i + k * W))
      #define VOLTA_LANES_AT0(p) VOLTA_LANES_AT(0, p)
      #define VOLTA_LANES_AT1(p) VOLTA_LANES_AT(1, p)
      #define VOLTA_LANES_AT2(p) VOLTA_LANES_AT(2, p)
      #define VOLTA_LANES_AT3(p) VOLTA_LANES_AT(3, p)
      #define VOLTA_SUM_LANES(T, TERM)                                                                              \\
        typedef T V __attribute__((vector_size(64), aligned(sizeof(T)), may_alias));                                \\
        typedef T H __attribute__((vector_size(32), aligned(sizeof(T)), may_alias));                                \\
        typedef T Q __attribute__((vector_size(16), aligned(sizeof(T)), may_alias));                                \\
        enum { W = sizeof(V) / sizeof(T), PAIRS = sizeof(Q) / sizeof(T) / 2 };                                      \\
        while (i + W <= n) {                                                                                        \\
            V a = {0}, b = a, c = a, d = a;                                                                         \\
            H h;                                                                                                    \\
            Q q;                                                                                                    \\
            Py_ssize_t stop = n - i < 1024 ? n : i + 1024;                                                          \\
            for (; i + 4 * W <= stop; i += 4 * W) {                                                                 \\
                a += TERM(VOLTA_LANES_AT0);                                                                         \\
                b += TERM(VOLTA_LANES_AT1);                                                                         \\
                c += TERM(VOLTA_LANES_AT2);                                                                         \\
                d += TERM(VOLTA_LANES_AT3);                                                                         \\
            }                                                                                                       \\
            for (; i + W <= stop; i += W) a += TERM(VOLTA_LANES_AT0);                                               \\
            a = (a + b) + (c + d);                                                                                  \\
            h = *(H*)&a + ((H*)&a)[1];                                                                              \\
            q = *(Q*)&h + ((Q*)&h)[1];                                                                              \\
            total += (double)(q[0] + q[PAIRS]) + (PAIRS > 1 ? (double)(q[1] + q[2 * PAIRS - 1]) : 0);               \\
        }
    #else
      #define VOLTA_SUM_LANES(T, TERM)
    #endif
    #define VOLTA_ONE_AT(p) p[i]
    /* TERM: what is summed, of a macro that gives the elements at a pointer. */
    #define VOLTA_BLOCK_SUM(NAME, T, ARGUMENTS, TERM)                                                               \\
    static double NAME(ARGUMENTS, Py_ssize_t n) {                                                                   \\
        double total = 0;                                                                                           \\
        Py_ssize_t i = 0;                                                                                           \\
        VOLTA_SUM_LANES(T, TERM)                                                                                    \\
        for (; i < n; i++) total += TERM(VOLTA_ONE_AT);                                                             \\
        return total;                                                                                               \\
    }
    #define VOLTA_PLAIN(AT) AT(x)
    #define VOLTA_AWAY(AT) (AT(x) - pivot)
    #define VOLTA_SQUARE(AT) (AT(x) - mean) * (AT(x) - mean)
    #define VOLTA_DOT(AT) AT(x) * (AT(y) - mean)
    #define VOLTA_TWO(a, b) a, b
    #define VOLTA_THREE(a, b, c) a, b, c
    #define VOLTA_SUMS(T, s)                                                                                        \\
    VOLTA_BLOCK_SUM(volta_sum##s, T, const T* x, VOLTA_PLAIN)                                                       \\
    VOLTA_BLOCK_SUM(volta_away##s, T, VOLTA_TWO(const T* x, T pivot), VOLTA_AWAY)                                   \\
    VOLTA_BLOCK_SUM(volta_squares##s, T, VOLTA_TWO(const T* x, T mean), VOLTA_SQUARE)                               \\
    VOLTA_BLOCK_SUM(volta_dot##s, T, VOLTA_THREE(const T* x, const T* y, T mean), VOLTA_DOT)                        \\
    static T volta_max##s(const T* x, Py_ssize_t n) {                                                               \\
        T m[64], most = -INFINITY;                                                                                  \\
        Py_ssize_t i = 0, j;                                                                                        \\
        if (n >= 64) {                                                                                              \\
            for (j = 0; j < 64; j++) m[j] = x[j];                                                                   \\
            for (i = 64; i + 64 <= n; i += 64) for (j = 0; j < 64; j++) m[j] = x[i + j] > m[j] ? x[i + j] : m[j];   \\
            for (j = 0; j < 32; j++) m[j] = m[j + 32] > m[j] ? m[j + 32] : m[j];                                    \\
            for (j = 0; j < 16; j++) m[j] = m[j + 16] > m[j] ? m[j + 16] : m[j];                                    \\
            for (j = 0; j < 16; j++) most = m[j] > most ? m[j] : most;                                              \\
        }                                                                                                           \\
        for (; i < n; i++) most = x[i] > most ? x[i] : most;                                                        \\
        return most;                                                                                                \\
    }
    VOLTA_SUMS(float, 32)
    VOLTA_SUMS(double, 64)
    """
    double sum32 "volta_sum32"(const float* x, Py_ssize_t n) noexcept nogil
    double sum64 "volta_sum64"(const double* x, Py_ssize_t n) noexcept nogil
    double away32 "volta_away32"(const float* x, float pivot, Py_ssize_t n) noexcept nogil
    double away64 "volta_away64"(const double* x, double pivot, Py_ssize_t n) noexcept nogil
    double squares32 "volta_squares32"(const float* x, float mean, Py_ssize_t n) noexcept nogil
    double squares64 "volta_squares64"(const double* x, double mean, Py_ssize_t n) noexcept nogil
    double dot32 "volta_dot32"(const float* x, const float* y, float mean, Py_ssize_t n) noexcept nogil
    double dot64 "volta_dot64"(const double* x, const double* y, double mean, Py_ssize_t n) noexcept nogil
    float max32 "volta_max32"(const float* x, Py_ssize_t n) noexcept nogil
    double max64 "volta_max64"(const double* x, Py_ssize_t n) noexcept nogil


cdef inline double line_sum(const real* x, Py_ssize_t n) noexcept nogil:
    """Sum of x."""
    if real is float:
        return sum32(x, n)
    else:
        return sum64(x, n)


cdef inline double line_away(const real* x, real pivot, Py_ssize_t n) noexcept nogil:
    """Sum of x - pivot. About one of them, the mean of equal elements is exact, and a mean far from 0 costs no digits."""
    if real is float:
        return away32(x, pivot, n)
    else:
        return away64(x, pivot, n)


cdef inline double line_squares(const real* x, real mean, Py_ssize_t n) noexcept nogil:
    """Sum of (x - mean)**2."""
    if real is float:
        return squares32(x, mean, n)
    else:
        return squares64(x, mean, n)


cdef inline double line_dot(const real* x, const real* y, real mean, Py_ssize_t n) noexcept nogil:
    """Sum of x * (y - mean)."""
    if real is float:
        return dot32(x, y, mean, n)
    else:
        return dot64(x, y, mean, n)


cdef inline real line_max(const real* x, Py_ssize_t n) noexcept nogil:
    """Largest of x, where a NaN may be passed over; -inf of none."""
    if real is float:
        return max32(x, n)
    else:
        return max64(x, n)


cdef inline void line_exp(real* out, const real* x, real shift, Py_ssize_t n) noexcept nogil:
    """out = exp(x - shift)"""
    cdef Py_ssize_t i = 0
    if real is float:
        i = exp_away_line(out, x, shift, n)
    for i in range(i, n):
        out[i] = exp_of[real](x[i] - shift)


cdef inline void line_exp_each(real* out, const real* x, const real* shift, Py_ssize_t n) noexcept nogil:
    """out = exp(x - shift), where shift is a line in memory for a multiple of 16."""
    cdef Py_ssize_t i = 0
    if real is float:
        i = exp_each_line(out, x, shift, n)
    for i in range(i, n):
        out[i] = exp_of[real](x[i] - shift[i])


cdef inline real exp_of(real x) noexcept nogil:
    if real is float:
        return exp_f32(x)
    else:
        return exp_f64(x)


cdef inline real log_of(real x) noexcept nogil:
    if real is float:
        return log_f32(x)
    else:
        return log_f64(x)
