# Sums and maxima over contiguous memory, and exp and log by element type.
#
# float32 sums run in 64 lanes over at most 1,024 elements, whose results are added in double: the error does not grow with the length, and
# the order depends on the length only. In vector types, since compilers keep one sum at a time, and wait for each addition.
# Threads: none. Sizes: the caller's; n may be 0.

from libc.math cimport INFINITY

from volta._kernels.cpu cimport bits, vector_lanes              # for what the C below takes of them
from volta._kernels.cpu.extremes cimport best_amax_f32, best_amax_f64
from volta._kernels.cpu.doubles cimport exp_f64, log_f64
from volta._kernels.cpu.real cimport real
from volta._kernels.cpu.scalar cimport exp_f32, log_f32
from volta._kernels.cpu.exp_lines cimport exp_away_line, exp_each_line, exp_sum_line
from volta._kernels.cpu.vectors cimport away_twice_line, times_line

cdef extern from *:
    """
    #if defined(__GNUC__) || defined(__clang__)
      /* A vector N is as wide as the registers: GCC makes halves, and detours through memory, of what is wider. 64 bytes of lanes are PARTS
         of them, and get the same elements on all instruction sets, which so give one result. */
      #if defined(__AVX512F__)
        #include <immintrin.h>
        #define VOLTA_MASK ((1u << (n - i)) - 1)
        #define VOLTA_LEFT_float(p) (N)_mm512_maskz_loadu_ps((__mmask16)VOLTA_MASK, (const float*)(p) + i)
        #define VOLTA_LEFT_double(p) (N)_mm512_maskz_loadu_pd((__mmask8)VOLTA_MASK, (const double*)(p) + i)
        #define VOLTA_KEEP_float(v) (N)_mm512_maskz_mov_ps((__mmask16)VOLTA_MASK, (__m512)(v))
        #define VOLTA_KEEP_double(v) (N)_mm512_maskz_mov_pd((__mmask8)VOLTA_MASK, (__m512d)(v))
      #elif defined(__AVX2__)
        #define VOLTA_LEFT_float(p) (N)_mm256_maskload_ps((const float*)(p) + i, VOLTA_FIRST(n - i, float))
        #define VOLTA_LEFT_double(p) (N)_mm256_maskload_pd((const double*)(p) + i, VOLTA_FIRST(n - i, double))
        #define VOLTA_KEEP_float(v) (N)_mm256_and_ps((__m256)(v), _mm256_castsi256_ps(VOLTA_FIRST(n - i, float)))
        #define VOLTA_KEEP_double(v) (N)_mm256_and_pd((__m256d)(v), _mm256_castsi256_pd(VOLTA_FIRST(n - i, double)))
      #else
        #include <string.h>
        #define VOLTA_LEFT(p) ({ N left = {0}; memcpy(&left, p + i, (n - i) * sizeof(*(p))); left; })
        #define VOLTA_LEFT_float(p) VOLTA_LEFT(p)
        #define VOLTA_LEFT_double(p) VOLTA_LEFT(p)
        #define VOLTA_KEEP_float(v) ({ N kept = v; int lane = (int)(n - i); for (; lane < (int)LANES; lane++) kept[lane] = 0; kept; })
        #define VOLTA_KEEP_double(v) VOLTA_KEEP_float(v)
      #endif
      #if VOLTA_WIDE == 64
        #define VOLTA_SUM_FOLD { H h = *(H*)a + ((H*)a)[1]; q = *(Q*)&h + ((Q*)&h)[1]; }
      #elif VOLTA_WIDE == 32
        #define VOLTA_SUM_FOLD { H h = a[0] + a[1]; q = *(Q*)&h + ((Q*)&h)[1]; }
      #else
        #define VOLTA_SUM_FOLD q = (a[0] + a[2]) + (a[1] + a[3]);
      #endif
      #define VOLTA_LANES_AT(p) (*(const N*)(p + i + k * LANES))
      #define VOLTA_NEXT_AT(p) (*(const N*)(p + i))
      #define VOLTA_SUM_TYPES(T)                                                                                    \\
        typedef T N __attribute__((vector_size(VOLTA_WIDE), aligned(sizeof(T)), may_alias));                        \\
        typedef T H __attribute__((vector_size(32), aligned(sizeof(T)), may_alias));                                \\
        typedef T Q __attribute__((vector_size(16), aligned(sizeof(T)), may_alias));                                \\
        enum { LANES = sizeof(N) / sizeof(T), PARTS = 64 / VOLTA_WIDE, W = PARTS * LANES, PAIRS = sizeof(Q) / sizeof(T) / 2 };
      #define VOLTA_SUM_LANES(T, TERM)                                                                              \\
        VOLTA_SUM_TYPES(T)                                                                                          \\
        while (i < n) {                                                                                             \\
            N a[PARTS] = {{0}};                                                                                     \\
            Q q;                                                                                                    \\
            int k;                                                                                                  \\
            Py_ssize_t stop = n - i < 1024 ? n : i + 1024;                                                          \\
            if (stop - i >= 4 * W) {                                                                                \\
                N v[4 * PARTS] = {{0}};                                                                             \\
                for (; i + 4 * W <= stop; i += 4 * W)                                                               \\
                    _Pragma("GCC unroll 16") for (k = 0; k < 4 * PARTS; k++) v[k] += TERM(VOLTA_LANES_AT);          \\
                _Pragma("GCC unroll 4") for (k = 0; k < PARTS; k++)                                                 \\
                    a[k] = (v[k] + v[PARTS + k]) + (v[2 * PARTS + k] + v[3 * PARTS + k]);                           \\
            }                                                                                                       \\
            for (; i + W <= stop; i += W) _Pragma("GCC unroll 4") for (k = 0; k < PARTS; k++) a[k] += TERM(VOLTA_LANES_AT); \\
            if (i < n && stop == n) {                                                                               \\
                _Pragma("GCC unroll 4") for (k = 0; k < PARTS; k++) {           /* as long as there is one whole, or a part */ \\
                    if (i + LANES <= n) { a[k] += TERM(VOLTA_NEXT_AT); i += LANES; }                                \\
                    else if (i < n) { a[k] += VOLTA_KEEP_##T(TERM(VOLTA_LEFT_##T)); i = n; }                        \\
                }                                                                                                   \\
            }                                                                                                       \\
            VOLTA_SUM_FOLD                                                                                          \\
            total += (double)(q[0] + q[PAIRS]) + (PAIRS > 1 ? (double)(q[1] + q[2 * PAIRS - 1]) : 0);               \\
        }
      /* Columns j on, as long as there are so many vectors: 16 rows at a time in the element type. */
      #define VOLTA_SUM_STRIP(T, S, COUNT)                                                                          \\
        for (; j + COUNT * (Py_ssize_t)(sizeof(S) / sizeof(T)) <= n; j += COUNT * sizeof(S) / sizeof(T)) {          \\
            const char *at = x + j * sizeof(T);                                                                     \\
            S v[COUNT];                                                                                             \\
            int k;                                                                                                  \\
            for (k = 0; k < COUNT; k++) v[k] = ((const S*)at)[k];                                                   \\
            _Pragma("GCC unroll 1")             /* whose loads the processor fetches ahead, which it does not for 128 of them */ \\
            for (r = 1; r < some; r++) {                                                                            \\
                at += step;                                                                                         \\
                _Pragma("GCC unroll 8") for (k = 0; k < COUNT; k++) v[k] += ((const S*)at)[k];                      \\
            }                                                                                                       \\
            for (k = 0; k < COUNT * (int)(sizeof(S) / sizeof(T)); k++) acc[j + k] += ((const T*)v)[k];              \\
        }
      /* The columns that are left, by a vector that reaches back over others, to which it adds nothing. */
      #define VOLTA_SUM_LAST(T, S)                                                                                  \\
        if (j < n && n - j <= (Py_ssize_t)(sizeof(S) / sizeof(T)) && n >= (Py_ssize_t)(sizeof(S) / sizeof(T))) {    \\
            Py_ssize_t first = n - sizeof(S) / sizeof(T);                                                           \\
            const char *at = x + first * sizeof(T);                                                                 \\
            S v = *(const S*)at;                                                                                    \\
            int k;                                                                                                  \\
            for (r = 1; r < some; r++) v += *(const S*)(at += step);                                                \\
            for (k = 0; k < (int)(sizeof(S) / sizeof(T)); k++) acc[first + k] += first + k < j ? (T)0 : ((const T*)&v)[k]; \\
            j = n;                                                                                                  \\
        }
      /* All of them by so many vectors side by side, the last of which reaches back. */
      #define VOLTA_SUM_ENDS(T, COUNT)                                                                              \\
        if (j < n && n - j <= COUNT * (Py_ssize_t)LANES && n >= (Py_ssize_t)LANES) {                                \\
            const Py_ssize_t last = n - LANES;                                                                      \\
            const char *at = x + j * sizeof(T), *end = x + last * sizeof(T);                                        \\
            N v[COUNT];                                                                                             \\
            int k;                                                                                                  \\
            for (k = 0; k < COUNT - 1; k++) v[k] = ((const N*)at)[k];                                               \\
            v[COUNT - 1] = *(const N*)end;                                                                          \\
            for (r = 1; r < some; r++) {                                                                            \\
                at += step, end += step;                                                                            \\
                _Pragma("GCC unroll 4") for (k = 0; k < COUNT - 1; k++) v[k] += ((const N*)at)[k];                  \\
                v[COUNT - 1] += *(const N*)end;                                                                     \\
            }                                                                                                       \\
            for (k = 0; k < (COUNT - 1) * (int)LANES; k++) acc[j + k] += ((const T*)v)[k];                          \\
            j += (COUNT - 1) * LANES;                                                                               \\
            if (j == last) for (k = 0; k < (int)LANES; k++) acc[last + k] += ((const T*)&v[COUNT - 1])[k];          \\
            else for (; j < n; j++) acc[j] += ((const T*)&v[COUNT - 1])[j - last];                                  \\
            j = n;                                                                                                  \\
        }
      #define VOLTA_SUM_COLUMNS(T)                                                                                  \\
        VOLTA_SUM_TYPES(T)                                                                                          \\
        VOLTA_SUM_STRIP(T, N, 8)                                                                                    \\
        VOLTA_SUM_STRIP(T, N, 4)                                                                                    \\
        if ((n - j - 1) % LANES < sizeof(Q) / sizeof(T)) VOLTA_SUM_STRIP(T, N, 1)       /* with few behind */       \\
        VOLTA_SUM_LAST(T, Q)                                                                                        \\
        if (VOLTA_WIDE > 16) VOLTA_SUM_LAST(T, H)                                                                   \\
        VOLTA_SUM_ENDS(T, 1)                                                                                        \\
        VOLTA_SUM_ENDS(T, 2)                                                                                        \\
        VOLTA_SUM_ENDS(T, 3)                                                                                        \\
        VOLTA_SUM_ENDS(T, 4)                                                                                        \\
        if (VOLTA_WIDE > 32) VOLTA_SUM_STRIP(T, H, 1)                                                               \\
        if (VOLTA_WIDE > 16) VOLTA_SUM_STRIP(T, Q, 1)                                                               \\
        VOLTA_SUM_LAST(T, Q)
    #else
      #define VOLTA_SUM_LANES(T, TERM)
      #define VOLTA_SUM_COLUMNS(T)
    #endif
    #define VOLTA_ONE_AT(p) p[i]
    /* TERM: what is summed, of a macro that gives the elements at a pointer. */
    #define VOLTA_BLOCK_SUM(NAME, T, ARGUMENTS, TERM)                                                               \\
    static inline double NAME(ARGUMENTS, Py_ssize_t n) {                                                              \\
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
    /* acc[r] += the sum of the n elements from x on, for rows that are `step` bytes apart. */                      \\
    static void volta_row_sums##s(double* acc, const char* x, Py_ssize_t step, Py_ssize_t rows, Py_ssize_t n) {     \\
        Py_ssize_t r;                                                                                               \\
        for (r = 0; r < rows; r++) acc[r] += volta_sum##s((const T*)(x + r * step), n);                             \\
    }                                                                                                               \\
    /* acc[j] += the sum of `rows` elements from x[j] on, `step` bytes apart: 16 rows at a time in the element type. */ \\
    static void volta_column_sums##s(double* acc, const char* x, Py_ssize_t step, Py_ssize_t rows, Py_ssize_t n) {      \\
        for (; rows > 0; rows -= 16, x += 16 * step) {                                                            \\
            Py_ssize_t some = rows < 16 ? rows : 16, j = 0, r;                                                      \\
            VOLTA_SUM_COLUMNS(T)                                                                                    \\
            for (; j < n; j++) {                                                                                    \\
                T one = 0;                                                                                          \\
                for (r = 0; r < some; r++) one += ((const T*)(x + r * step))[j];                                    \\
                acc[j] += one;                                                                                      \\
            }                                                                                                       \\
        }                                                                                                           \\
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
    # acc[r] += the sum of x[:n] in row r, whose start is r * step bytes from x
    void row_sums32 "volta_row_sums32"(double* acc, const char* x, Py_ssize_t step, Py_ssize_t rows, Py_ssize_t n) noexcept nogil
    void row_sums64 "volta_row_sums64"(double* acc, const char* x, Py_ssize_t step, Py_ssize_t rows, Py_ssize_t n) noexcept nogil
    # acc[j] += the sum over `rows` rows, `step` bytes apart, of their elements j < n
    void column_sums32 "volta_column_sums32"(double* acc, const char* x, Py_ssize_t step, Py_ssize_t rows, Py_ssize_t n) noexcept nogil
    void column_sums64 "volta_column_sums64"(double* acc, const char* x, Py_ssize_t step, Py_ssize_t rows, Py_ssize_t n) noexcept nogil


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
    """Largest of x, or NaN; -inf of none."""
    if real is float:
        return best_amax_f32(-INFINITY, x, n)
    else:
        return best_amax_f64(-INFINITY, x, n)


cdef inline void line_exp(real* out, const real* x, real shift, Py_ssize_t n) noexcept nogil:
    """out = exp(x - shift)"""
    cdef Py_ssize_t i = 0
    if real is float:
        i = exp_away_line(out, x, shift, n)
    for i in range(i, n):
        out[i] = exp_of[real](x[i] - shift)


cdef inline double line_exp_sum(real* out, const real* x, real shift, Py_ssize_t n) noexcept nogil:
    """out = exp(x - shift), unless out is NULL, and their sum. IN: shift, at most 43 below the largest of x, or infinite."""
    cdef real piece[1024]
    cdef real* to = &piece[0]
    cdef double total = 0
    cdef Py_ssize_t i = 0, some
    if real is float:
        i = exp_sum_line(out, x, shift, &total, n)
    while i < n:
        some = min(<Py_ssize_t>1024, n - i)
        if out != NULL:
            to = out + i
        line_exp(to, x + i, shift, some)
        total += line_sum(<const real*>to, some)
        i += some
    return total


cdef inline void line_exp_each(real* out, const real* x, const real* shift, Py_ssize_t n) noexcept nogil:
    """out = exp(x - shift), where shift is a line in memory for a multiple of 16."""
    cdef Py_ssize_t i = 0
    if real is float:
        i = exp_each_line(out, x, shift, n)
    for i in range(i, n):
        out[i] = exp_of[real](x[i] - shift[i])


cdef inline void line_away_twice(real* out, const real* x, real shift, real second, Py_ssize_t n) noexcept nogil:
    """out = x - shift - second"""
    cdef Py_ssize_t i = 0
    if real is float:
        i = away_twice_line(out, x, shift, second, n)
    for i in range(i, n):
        out[i] = x[i] - shift - second


cdef inline void line_times(real* x, real factor, Py_ssize_t n) noexcept nogil:
    """x *= factor"""
    cdef Py_ssize_t i = 0
    if real is float:
        i = times_line(x, x, factor, n)
    for i in range(i, n):
        x[i] *= factor


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
