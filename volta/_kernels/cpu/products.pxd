# Products of floats, in double, and sums of integers, of contiguous memory and of columns.
#
# Their lanes are vectors, since compilers keep lanes in memory. The order of the elements depends on their number and the instruction set.
# Threads: none. Sizes: the caller's; n may be 0.
from libc.stdint cimport int32_t, int64_t

from volta._kernels.cpu cimport bits                            # for what the C below takes of them

cdef extern from *:
    """
    #if defined(__AVX2__) && defined(__GNUC__)
      #include <immintrin.h>
      #if defined(__AVX512VL__)
        #define VOLTA_WIDE_OF(name) _mm512_##name
        #define VOLTA_WIDE_AT_float(x) _mm512_cvtps_pd(_mm256_loadu_ps(x))
        #define VOLTA_SOME_AT_float(x, some) _mm512_cvtps_pd(_mm256_maskz_loadu_ps(some, x))
        #define VOLTA_SOME_AT_double(x, some) _mm512_maskz_loadu_pd(some, x)
        typedef __m512d volta_wide;
        /* What is left behind vectors. */
        #define VOLTA_PRODUCT_REST(T)                                                                               \\
            if (i < n) {                                                                                            \\
                const __mmask8 some = (__mmask8)((1u << (n - i)) - 1);                                              \\
                v[1] = _mm512_mask_mul_pd(v[1], some, v[1], VOLTA_SOME_AT_##T(x + i, some));                        \\
                i = n;                                                                                              \\
            }
        #define VOLTA_PRODUCT_LANES(v) _mm512_reduce_mul_pd(v)
      #else
        #define VOLTA_WIDE_OF(name) _mm256_##name
        #define VOLTA_WIDE_AT_float(x) _mm256_cvtps_pd(_mm_loadu_ps(x))
        typedef __m256d volta_wide;
        #define VOLTA_PRODUCT_REST(T)
        #define VOLTA_PRODUCT_LANES(v) ((v[0] * v[2]) * (v[1] * v[3]))
      #endif
      #define VOLTA_WIDE_AT_double(x) VOLTA_WIDE_OF(loadu_pd)(x)
      #define VOLTA_EIGHT _Pragma("GCC unroll 8") for (k = 0; k < 8; k++)
      #define VOLTA_FOUR _Pragma("GCC unroll 4") for (k = 0; k < 4; k++)
      enum { WIDE_LANES = sizeof(volta_wide) / sizeof(double), PRODUCT_LANES = 8 * WIDE_LANES };
      #define VOLTA_PRODUCT_VECTORS(T)                                                                              \\
        if (n > 4) {                                                                                                \\
            volta_wide v[8];                                                                                        \\
            int k;                                                                                                  \\
            VOLTA_EIGHT v[k] = VOLTA_WIDE_OF(set1_pd)(1);                                                           \\
            for (; i + PRODUCT_LANES <= n; i += PRODUCT_LANES)                                                      \\
                VOLTA_EIGHT v[k] = VOLTA_WIDE_OF(mul_pd)(v[k], VOLTA_WIDE_AT_##T(x + i + k * WIDE_LANES));          \\
            VOLTA_FOUR v[k] = VOLTA_WIDE_OF(mul_pd)(v[k], v[k + 4]);                                                \\
            for (; i + PRODUCT_LANES / 2 <= n; i += PRODUCT_LANES / 2)                                              \\
                VOLTA_FOUR v[k] = VOLTA_WIDE_OF(mul_pd)(v[k], VOLTA_WIDE_AT_##T(x + i + k * WIDE_LANES));           \\
            for (; i + WIDE_LANES <= n; i += WIDE_LANES) v[0] = VOLTA_WIDE_OF(mul_pd)(v[0], VOLTA_WIDE_AT_##T(x + i)); \\
            VOLTA_PRODUCT_REST(T)                                                                                   \\
            v[0] = VOLTA_WIDE_OF(mul_pd)(VOLTA_WIDE_OF(mul_pd)(v[0], v[2]), VOLTA_WIDE_OF(mul_pd)(v[1], v[3]));     \\
            total *= VOLTA_PRODUCT_LANES(v[0]);                                                                     \\
        }
    #else
      #define VOLTA_PRODUCT_VECTORS(T)                                                                              \\
        double a = 1, b = 1, c = 1, d = 1;                                                                          \\
        for (; i + 4 <= n; i += 4) { a *= x[i]; b *= x[i + 1]; c *= x[i + 2]; d *= x[i + 3]; }                      \\
        total *= (a * b) * (c * d);
    #endif
    #define VOLTA_PRODUCT(NAME, T)                                                                                  \\
    static double NAME(double total, const T *x, Py_ssize_t n) {                                                    \\
        Py_ssize_t i = 0;                                                                                           \\
        VOLTA_PRODUCT_VECTORS(T)                                                                                    \\
        for (; i < n; i++) total *= x[i];                                                                           \\
        return total;                                                                                               \\
    }
    VOLTA_PRODUCT(volta_product32, float)
    VOLTA_PRODUCT(volta_product64, double)
    static Py_ssize_t volta_column_products32(double* acc, const char* x, Py_ssize_t step, Py_ssize_t rows, Py_ssize_t n) {
        Py_ssize_t j = 0;
    #if defined(__AVX2__) && defined(__GNUC__)
        for (; rows > 0; rows -= 16, x += 16 * step)
            for (j = 0; j + PRODUCT_LANES <= n; j += PRODUCT_LANES) {
                const char *at = x + j * sizeof(float);
                Py_ssize_t left = rows < 16 ? rows : 16;            /* rows may lie over one another */
                volta_wide v[8];
                int k;
                VOLTA_EIGHT v[k] = VOLTA_WIDE_OF(loadu_pd)(acc + j + k * WIDE_LANES);
                for (; left; left--, at += step)
                    VOLTA_EIGHT v[k] = VOLTA_WIDE_OF(mul_pd)(v[k], VOLTA_WIDE_AT_float((const float *)at + k * WIDE_LANES));
                VOLTA_EIGHT VOLTA_WIDE_OF(storeu_pd)(acc + j + k * WIDE_LANES, v[k]);
            }
    #endif
        return j;
    }
    #if defined(__GNUC__) || defined(__clang__)
      #define VOLTA_TOTAL_TYPES(S, T)                                                                               \\
        typedef S V __attribute__((vector_size(VOLTA_WIDE), aligned(sizeof(T)), may_alias));                        \\
        typedef S Q __attribute__((vector_size(16), aligned(8), may_alias));                                        \\
        enum { WIDTH = VOLTA_WIDE / 8 };
      #define VOLTA_TOTAL_LANES(v)                                                                                  \\
        q = ((Q*)&v)[0];                                                                                            \\
        _Pragma("GCC unroll 4") for (k = 1; k < WIDTH / 2; k++) q += ((Q*)&v)[k];
      #define VOLTA_TOTAL_int64_t                                                                                   \\
        VOLTA_TOTAL_TYPES(int64_t, int64_t)                                                                         \\
        if (n >= WIDTH) {                                                                                           \\
            V v[4] = {{0}};                                                                                         \\
            Q q;                                                                                                    \\
            int k;                                                                                                  \\
            for (; i + 4 * WIDTH <= n; i += 4 * WIDTH)                                                              \\
                _Pragma("GCC unroll 4") for (k = 0; k < 4; k++) v[k] += *(const V*)(x + i + k * WIDTH);             \\
            v[0] += v[1];                                                                                           \\
            v[2] += v[3];                                                                                           \\
            for (; i + WIDTH <= n; i += WIDTH) v[0] += *(const V*)(x + i);                                          \\
            v[0] += v[2];                                                                                           \\
            VOLTA_TOTAL_LANES(v[0])                                                                                 \\
            total += q[0] + q[1];                                                                                   \\
        }
      /* Pairs of elements as numbers without signs, 2**31 above what they are: not all instruction sets widen those with signs. */
      #define VOLTA_TOTAL_int32_t                                                                                   \\
        VOLTA_TOTAL_TYPES(uint64_t, int32_t)                                                                        \\
        if (n >= 2 * WIDTH) {                                                                                       \\
            const V above = (V){0} + 0x8000000080000000u;                                                           \\
            V low = {0}, high = {0};                                                                                \\
            Q q;                                                                                                    \\
            int k;                                                                                                  \\
            for (; i + 2 * WIDTH <= n; i += 2 * WIDTH) {                                                            \\
                const V pair = *(const V*)(x + i) ^ above;                                                          \\
                low += pair & 0xffffffffu;                                                                          \\
                high += pair >> 32;                                                                                 \\
            }                                                                                                       \\
            low += high;                                                                                            \\
            VOLTA_TOTAL_LANES(low)                                                                                  \\
            total += (int64_t)(q[0] + q[1] - ((uint64_t)i << 31));                                                  \\
        }
    #else
      #define VOLTA_TOTAL_int32_t
      #define VOLTA_TOTAL_int64_t
    #endif
    #define VOLTA_TOTAL(NAME, T)                                                                                    \\
    static int64_t NAME(int64_t total, const T *x, Py_ssize_t n) {                                                  \\
        Py_ssize_t i = 0;                                                                                           \\
        VOLTA_TOTAL_##T                                                                                             \\
        for (; i < n; i++) total += x[i];                                                                           \\
        return total;                                                                                               \\
    }
    VOLTA_TOTAL(volta_total_i32, int32_t)
    VOLTA_TOTAL(volta_total_i64, int64_t)
    """
    # total times the product of x[:n]
    double product_f32 "volta_product32"(double total, const float* x, Py_ssize_t n) noexcept nogil
    double product_f64 "volta_product64"(double total, const double* x, Py_ssize_t n) noexcept nogil
    # acc[j] *= the product over `rows` rows, `step` bytes apart, of their elements j, for as many of the n columns as it takes, which it
    # gives
    Py_ssize_t column_products32 "volta_column_products32"(double* acc, const char* x, Py_ssize_t step, Py_ssize_t rows,
                                                           Py_ssize_t n) noexcept nogil
    # total and the sum of x[:n]
    int64_t total_i32 "volta_total_i32"(int64_t total, const int32_t* x, Py_ssize_t n) noexcept nogil
    int64_t total_i64 "volta_total_i64"(int64_t total, const int64_t* x, Py_ssize_t n) noexcept nogil
