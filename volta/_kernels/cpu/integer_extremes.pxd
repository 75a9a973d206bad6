# Lines of integers folded by maximum and minimum, as extremes.pxd has them of floats. What is left behind whole vectors is in the last one,
# which may reach back over others.
# Threads: none. Sizes: the caller's.
from libc.stdint cimport int32_t, int64_t, uint8_t

from volta._kernels.cpu cimport bits                            # for what the C below takes of them

cdef extern from *:
    """
    #define VOLTA_OVER_max(a, b) ((a) > (b))
    #define VOLTA_OVER_min(a, b) ((a) < (b))
    #if defined(__GNUC__) || defined(__clang__)
      #define VOLTA_PICKED(S, a, b, NAME) ({ const S x_ = (a), y_ = (b), m_ = (S)VOLTA_OVER_##NAME(x_, y_); (m_ & x_) | (~m_ & y_); })
      #if defined(__AVX512BW__) && defined(__GNUC__)
        #include <immintrin.h>
        #define VOLTA_BEST(a, b, s, NAME) (V)_mm512_##NAME##_ep##s((__m512i)(a), (__m512i)(b))
      #elif defined(__AVX2__) && defined(__GNUC__)
        #include <immintrin.h>
        #define VOLTA_BEST(a, b, s, NAME) VOLTA_BEST_##s(a, b, NAME)
        #define VOLTA_BEST_i32(a, b, NAME) (V)_mm256_##NAME##_epi32((__m256i)(a), (__m256i)(b))
        #define VOLTA_BEST_i64(a, b, NAME) VOLTA_PICKED(V, a, b, NAME)
        #define VOLTA_BEST_u8(a, b, NAME) (V)_mm256_##NAME##_epu8((__m256i)(a), (__m256i)(b))
      #elif defined(__SSE2__) && defined(__GNUC__)                             /* which does not compare 64 bits */
        #include <emmintrin.h>
        #define VOLTA_BEST(a, b, s, NAME) VOLTA_BEST_##s(a, b, NAME)
        #define VOLTA_BEST_i32(a, b, NAME) VOLTA_PICKED(V, a, b, NAME)
        #define VOLTA_BEST_i64(a, b, NAME) ({                                                                       \\
            const V x_ = (a), y_ = (b);                                                                             \\
            (V){VOLTA_OVER_##NAME(x_[0], y_[0]) ? x_[0] : y_[0], VOLTA_OVER_##NAME(x_[1], y_[1]) ? x_[1] : y_[1]}; })
        #define VOLTA_BEST_u8(a, b, NAME) (V)_mm_##NAME##_epu8((__m128i)(a), (__m128i)(b))
      #else
        #define VOLTA_BEST(a, b, s, NAME) VOLTA_PICKED(V, a, b, NAME)
      #endif
      #if VOLTA_WIDE == 64
        #define VOLTA_BEST_QUARTER(v, NAME) {                                                                       \\
            const H h = VOLTA_PICKED(H, ((H*)&v)[0], ((H*)&v)[1], NAME);                                            \\
            q = VOLTA_PICKED(Q, ((Q*)&h)[0], ((Q*)&h)[1], NAME); }
      #elif VOLTA_WIDE == 32
        #define VOLTA_BEST_QUARTER(v, NAME) q = VOLTA_PICKED(Q, ((Q*)&v)[0], ((Q*)&v)[1], NAME);
      #else
        #define VOLTA_BEST_QUARTER(v, NAME) q = *(Q*)&v;
      #endif
      #define VOLTA_BEST_TYPES(T)                                                                                   \\
        typedef T V __attribute__((vector_size(VOLTA_WIDE), aligned(sizeof(T)), may_alias));                        \\
        typedef T H __attribute__((vector_size(32), aligned(sizeof(T)), may_alias));                                \\
        typedef T Q __attribute__((vector_size(16), aligned(sizeof(T)), may_alias));                                \\
        enum { WIDTH = sizeof(V) / sizeof(T), STRIP = VOLTA_WIDE / 4 };         /* the latter as there are registers */
      /* As many vectors at a time. */
      #define VOLTA_BEST_STRIP(T, s, NAME, COUNT)                                \\
        for (; j + COUNT * WIDTH <= n; j += COUNT * WIDTH) {                                                        \\
            V a[COUNT];                                                                                             \\
            _Pragma("GCC unroll 16") for (k = 0; k < COUNT; k++) a[k] = *(const V*)(acc + j + k * WIDTH);           \\
            for (r = 0; r < rows; r++)                                                                              \\
                _Pragma("GCC unroll 16") for (k = 0; k < COUNT; k++)                                                \\
                    a[k] = VOLTA_BEST(a[k], *(const V*)((const T*)(x + r * step) + j + k * WIDTH), s, NAME);        \\
            _Pragma("GCC unroll 16") for (k = 0; k < COUNT; k++) *(V*)(acc + j + k * WIDTH) = a[k];                 \\
        }
      /* acc[j] = the best of it and of n elements from x + j on, `step` bytes apart. */
      #define VOLTA_BEST_COLUMNS(T, s, NAME)                                                                        \\
        Py_ssize_t j = 0, r;                                                                                        \\
        int k;                                                                                                      \\
        VOLTA_BEST_STRIP(T, s, NAME, STRIP)                                                                         \\
        VOLTA_BEST_STRIP(T, s, NAME, 4)                                                                             \\
        for (; n >= WIDTH && j < n; j += WIDTH) {                                                                   \\
            const Py_ssize_t first = j + WIDTH <= n ? j : n - WIDTH;                                                \\
            V a = *(const V*)(acc + first);                                                                         \\
            for (r = 0; r < rows; r++) a = VOLTA_BEST(a, *(const V*)((const T*)(x + r * step) + first), s, NAME);   \\
            *(V*)(acc + first) = a;                                                                                 \\
        }
      #define VOLTA_BEST_ROW(T, s, NAME)                                                                            \\
        if (n >= WIDTH) {                                                                                           \\
            V v[4];                                                                                                 \\
            Q q;                                                                                                    \\
            int k;                                                                                                  \\
            _Pragma("GCC unroll 4") for (k = 0; k < 4; k++) v[k] = *(const V*)x;                                    \\
            for (; i + 4 * WIDTH <= n; i += 4 * WIDTH)                                                              \\
                _Pragma("GCC unroll 4") for (k = 0; k < 4; k++) v[k] = VOLTA_BEST(v[k], *(const V*)(x + i + k * WIDTH), s, NAME); \\
            v[0] = VOLTA_BEST(VOLTA_BEST(v[0], v[1], s, NAME), VOLTA_BEST(v[2], v[3], s, NAME), s, NAME);           \\
            for (; i + WIDTH <= n; i += WIDTH) v[0] = VOLTA_BEST(v[0], *(const V*)(x + i), s, NAME);                \\
            v[0] = VOLTA_BEST(v[0], *(const V*)(x + n - WIDTH), s, NAME);                                           \\
            VOLTA_BEST_QUARTER(v[0], NAME)                                                                          \\
            for (k = 0; k < (int)(16 / sizeof(T)); k++) total = VOLTA_OVER_##NAME(total, q[k]) ? total : q[k];      \\
            i = n;                                                                                                  \\
        }
    #else
      #define VOLTA_BEST_TYPES(T)
      #define VOLTA_BEST_COLUMNS(T, s, NAME) Py_ssize_t j = 0, r;
      #define VOLTA_BEST_ROW(T, s, NAME)
    #endif
    #define VOLTA_BEST_OF(FUNCTION, T, s, NAME)                                                                     \\
    static void FUNCTION##_lines(T* acc, const char* x, Py_ssize_t step, Py_ssize_t rows, Py_ssize_t n) {           \\
        VOLTA_BEST_TYPES(T)                                                                                         \\
        VOLTA_BEST_COLUMNS(T, s, NAME)                                                                              \\
        for (; j < n; j++)                                                                                          \\
            for (r = 0; r < rows; r++) {                                                                            \\
                const T v = ((const T*)(x + r * step))[j];                                                          \\
                acc[j] = VOLTA_OVER_##NAME(acc[j], v) ? acc[j] : v;                                                 \\
            }                                                                                                       \\
    }                                                                                                               \\
    static T FUNCTION##_row(T total, const T* x, Py_ssize_t n) {                                                    \\
        VOLTA_BEST_TYPES(T)                                                                                         \\
        Py_ssize_t i = 0;                                                                                           \\
        VOLTA_BEST_ROW(T, s, NAME)                                                                                  \\
        for (; i < n; i++) total = VOLTA_OVER_##NAME(total, x[i]) ? total : x[i];                                   \\
        return total;                                                                                               \\
    }
    VOLTA_BEST_OF(volta_amax_i32, int32_t, i32, max)
    VOLTA_BEST_OF(volta_amin_i32, int32_t, i32, min)
    VOLTA_BEST_OF(volta_amax_i64, int64_t, i64, max)
    VOLTA_BEST_OF(volta_amin_i64, int64_t, i64, min)
    VOLTA_BEST_OF(volta_amax_u8, uint8_t, u8, max)
    VOLTA_BEST_OF(volta_amin_u8, uint8_t, u8, min)
    """
    # acc[j] = the better of acc[j] and of `rows` elements x[j], `step` bytes apart, for j < n
    void columns_amax_i32 "volta_amax_i32_lines"(int32_t* acc, const char* x, Py_ssize_t step, Py_ssize_t rows, Py_ssize_t n) noexcept nogil
    void columns_amin_i32 "volta_amin_i32_lines"(int32_t* acc, const char* x, Py_ssize_t step, Py_ssize_t rows, Py_ssize_t n) noexcept nogil
    void columns_amax_i64 "volta_amax_i64_lines"(int64_t* acc, const char* x, Py_ssize_t step, Py_ssize_t rows, Py_ssize_t n) noexcept nogil
    void columns_amin_i64 "volta_amin_i64_lines"(int64_t* acc, const char* x, Py_ssize_t step, Py_ssize_t rows, Py_ssize_t n) noexcept nogil
    void columns_amax_u8 "volta_amax_u8_lines"(uint8_t* acc, const char* x, Py_ssize_t step, Py_ssize_t rows, Py_ssize_t n) noexcept nogil
    void columns_amin_u8 "volta_amin_u8_lines"(uint8_t* acc, const char* x, Py_ssize_t step, Py_ssize_t rows, Py_ssize_t n) noexcept nogil
    # The best of `total` and x[:n]
    int32_t best_amax_i32 "volta_amax_i32_row"(int32_t total, const int32_t* x, Py_ssize_t n) noexcept nogil
    int32_t best_amin_i32 "volta_amin_i32_row"(int32_t total, const int32_t* x, Py_ssize_t n) noexcept nogil
    int64_t best_amax_i64 "volta_amax_i64_row"(int64_t total, const int64_t* x, Py_ssize_t n) noexcept nogil
    int64_t best_amin_i64 "volta_amin_i64_row"(int64_t total, const int64_t* x, Py_ssize_t n) noexcept nogil
    uint8_t best_amax_u8 "volta_amax_u8_row"(uint8_t total, const uint8_t* x, Py_ssize_t n) noexcept nogil
    uint8_t best_amin_u8 "volta_amin_u8_row"(uint8_t total, const uint8_t* x, Py_ssize_t n) noexcept nogil
