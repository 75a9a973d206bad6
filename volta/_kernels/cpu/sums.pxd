# Sums and maxima over contiguous memory, and exp and log by element type.
#
# float32 sums run in vector lanes over blocks of 512 elements, whose results are added in double: the error does not
# grow with the length, and the order depends on the length only. Threads: none. Sizes: the caller's; n may be 0.

from volta._kernels.cpu.scalar cimport exp_f32, exp_f64, log_f32, log_f64
from volta._kernels.cpu.tile cimport real
from volta._kernels.cpu.vectors cimport exp_away_line, exp_each_line

cdef extern from *:
    """
    #if defined(_OPENMP) && !defined(_MSC_VER)
      #define VOLTA_SUM_LANES(s) _Pragma(s)
    #else
      #define VOLTA_SUM_LANES(s)
    #endif
    /* A whole block in four lines side by side: one would wait for each addition. */
    #define VOLTA_BLOCK_SUM(NAME, T, ARGUMENTS, TERM)                                                               \\
    static double NAME(ARGUMENTS, Py_ssize_t n) {                                                                   \\
        double total = 0;                                                                                           \\
        Py_ssize_t i, j, start = 0;                                                                                 \\
        for (; start + 512 <= n; start += 512) {                                                                    \\
            T s = 0, t = 0, u = 0, v = 0;                                                                           \\
            VOLTA_SUM_LANES("omp simd reduction(+:s,t,u,v) private(i)")                                             \\
            for (j = start; j < start + 128; j++) {                                                                 \\
                i = j, s += TERM, i = j + 128, t += TERM, i = j + 256, u += TERM, i = j + 384, v += TERM;           \\
            }                                                                                                       \\
            total += (s + t) + (u + v);                                                                             \\
        }                                                                                                           \\
        if (start < n) {                                                                                            \\
            T s = 0;                                                                                                \\
            VOLTA_SUM_LANES("omp simd reduction(+:s)")                                                              \\
            for (i = start; i < n; i++) s += TERM;                                                                  \\
            total += s;                                                                                             \\
        }                                                                                                           \\
        return total;                                                                                               \\
    }
    #define VOLTA_TWO(a, b) a, b
    #define VOLTA_THREE(a, b, c) a, b, c
    #define VOLTA_SUMS(T, s)                                                                                        \\
    VOLTA_BLOCK_SUM(volta_sum##s, T, const T* x, x[i])                                                              \\
    VOLTA_BLOCK_SUM(volta_away##s, T, VOLTA_TWO(const T* x, T pivot), x[i] - pivot)                                 \\
    VOLTA_BLOCK_SUM(volta_squares##s, T, VOLTA_TWO(const T* x, T mean), (x[i] - mean) * (x[i] - mean))              \\
    VOLTA_BLOCK_SUM(volta_dot##s, T, VOLTA_THREE(const T* x, const T* y, T mean), x[i] * (y[i] - mean))             \\
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
        VOLTA_SUM_LANES("omp simd reduction(max:most)")                                                             \\
        for (j = i; j < n; j++) most = x[j] > most ? x[j] : most;                                                   \\
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
