# Lines of floats folded by maximum and minimum, where a NaN wins. In vector types, since whether a compiler makes vectors of such a
# loop hangs on its version: without them it takes up to fifty times as long.
# Threads: none. Sizes: the caller's.

from volta._kernels.cpu cimport bits, vector_lanes              # for what the C below takes of them

cdef extern from *:
    """
    /* acc = acc where it is better than b or NaN, else b. */
    #if defined(__AVX512F__) && defined(__GNUC__)
      #include <immintrin.h>
      /* Only the latter waits for acc. */
      #define VOLTA_BETTER(acc, b, T, NAME) acc = (V)VOLTA_BETTER_##T(acc, b, NAME);
      #define VOLTA_BETTER_float(acc, b, NAME) \\
        _mm512_mask_##NAME##_ps((__m512)(b), _mm512_cmp_ps_mask((__m512)(b), (__m512)(b), _CMP_ORD_Q), (__m512)(b), (__m512)acc)
      #define VOLTA_BETTER_double(acc, b, NAME) \\
        _mm512_mask_##NAME##_pd((__m512d)(b), _mm512_cmp_pd_mask((__m512d)(b), (__m512d)(b), _CMP_ORD_Q), (__m512d)(b), (__m512d)acc)
      #define VOLTA_REST(a, T, NAME) VOLTA_REST_##T(a, NAME)
      #define VOLTA_REST_float(a, NAME) \\
        if (i < n) VOLTA_BETTER(a, _mm512_mask_loadu_ps((__m512)a, (__mmask16)((1u << (n - i)) - 1), x + i), float, NAME)
      #define VOLTA_REST_double(a, NAME) \\
        if (i < n) VOLTA_BETTER(a, _mm512_mask_loadu_pd((__m512d)a, (__mmask8)((1u << (n - i)) - 1), x + i), double, NAME)
      #define VOLTA_BEST_LANE(a, T, NAME) VOLTA_BEST_LANE_##T(a, NAME)
      #define VOLTA_BEST_LANE_float(a, NAME) \\
        return _mm512_cmp_ps_mask((__m512)a, (__m512)a, _CMP_UNORD_Q) ? NAN : _mm512_reduce_##NAME##_ps((__m512)a);
      #define VOLTA_BEST_LANE_double(a, NAME) \\
        return _mm512_cmp_pd_mask((__m512d)a, (__m512d)a, _CMP_UNORD_Q) ? NAN : _mm512_reduce_##NAME##_pd((__m512d)a);
    #elif defined(__AVX2__) && defined(__GNUC__)
      /* The instruction gives acc where either is NaN, so that only a NaN of b has to be put in. */
      #define VOLTA_BETTER(acc, b, T, NAME) { const V beside = (V)(b); acc = (V)VOLTA_BETTER_##T(acc, beside, NAME); }
      #define VOLTA_BETTER_float(acc, b, NAME) \\
        _mm256_blendv_ps(_mm256_##NAME##_ps((__m256)b, (__m256)acc), (__m256)b, _mm256_cmp_ps((__m256)b, (__m256)b, _CMP_UNORD_Q))
      #define VOLTA_BETTER_double(acc, b, NAME) \\
        _mm256_blendv_pd(_mm256_##NAME##_pd((__m256d)b, (__m256d)acc), (__m256d)b, _mm256_cmp_pd((__m256d)b, (__m256d)b, _CMP_UNORD_Q))
      #define VOLTA_REST(a, T, NAME) VOLTA_REST_##T(a, NAME)
      #define VOLTA_REST_float(a, NAME) \\
        if (i < n) VOLTA_BETTER(a, _mm256_blendv_ps((__m256)a, _mm256_maskload_ps(x + i, VOLTA_FIRST(n - i, float)), \\
                                                    _mm256_castsi256_ps(VOLTA_FIRST(n - i, float))), float, NAME)
      #define VOLTA_REST_double(a, NAME) \\
        if (i < n) VOLTA_BETTER(a, _mm256_blendv_pd((__m256d)a, _mm256_maskload_pd(x + i, VOLTA_FIRST(n - i, double)), \\
                                                    _mm256_castsi256_pd(VOLTA_FIRST(n - i, double))), double, NAME)
      #define VOLTA_BEST_LANE(a, T, NAME) VOLTA_BEST_LANE_##T(a, NAME)
      #define VOLTA_BEST_LANE_float(a, NAME) { \\
        __m128 q = _mm_##NAME##_ps(_mm256_castps256_ps128((__m256)a), _mm256_extractf128_ps((__m256)a, 1)); \\
        q = _mm_##NAME##_ps(q, _mm_movehl_ps(q, q)); \\
        q = _mm_##NAME##_ss(q, _mm_movehdup_ps(q)); \\
        return _mm256_movemask_ps(_mm256_cmp_ps((__m256)a, (__m256)a, _CMP_UNORD_Q)) ? NAN : _mm_cvtss_f32(q); }
      #define VOLTA_BEST_LANE_double(a, NAME) { \\
        __m128d q = _mm_##NAME##_pd(_mm256_castpd256_pd128((__m256d)a), _mm256_extractf128_pd((__m256d)a, 1)); \\
        q = _mm_##NAME##_sd(q, _mm_unpackhi_pd(q, q)); \\
        return _mm256_movemask_pd(_mm256_cmp_pd((__m256d)a, (__m256d)a, _CMP_UNORD_Q)) ? NAN : _mm_cvtsd_f64(q); }
    #else
      #define VOLTA_BETTER(acc, b, T, NAME) { M m = (M)(acc VOLTA_##NAME (b)) | (M)(acc != acc); acc = (V)((m & (M)acc) | (~m & (M)(b))); }
      #define VOLTA_REST(a, T, NAME) if (n >= WIDTH) { VOLTA_BETTER(a, *(const V*)(x + n - WIDTH), T, NAME) i = n; }
      #define VOLTA_BEST_LANE(a, T, NAME) \\
        for (j = 0; j < WIDTH; j++) total = total VOLTA_##NAME ((const T*)&a)[j] || total != total ? total : ((const T*)&a)[j];
    #endif
    #define VOLTA_max >
    #define VOLTA_min <
    #if defined(__GNUC__) || defined(__clang__)
      #define VOLTA_EXTREME_TYPES(T, I)                                                                             \\
        typedef T V __attribute__((vector_size(VOLTA_WIDE), aligned(sizeof(T)), may_alias));                        \\
        typedef I M __attribute__((vector_size(VOLTA_WIDE), aligned(sizeof(T)), may_alias));                        \\
        enum { WIDTH = sizeof(V) / sizeof(T) };
      #define VOLTA_EXTREME_VECTORS(T, I, FOLDS)                                                                    \\
        VOLTA_EXTREME_TYPES(T, I)                                                                                   \\
        for (; j + WIDTH <= n; j += WIDTH) {                                                                        \\
            V best = *(V*)(acc + j);                                                                                \\
            FOLDS                                                                                                   \\
            *(V*)(acc + j) = best;                                                                                  \\
        }
      /* All columns, where there is a vector of them: eight vectors at a time; the last one may reach back over others. */
      #define VOLTA_EXTREME_COLUMNS(T, I, NAME)                                                                     \\
        VOLTA_EXTREME_TYPES(T, I)                                                                                   \\
        if (n >= WIDTH) {                                                                                           \\
            Py_ssize_t j = 0;                                                                                       \\
            int k;                                                                                                  \\
            for (; j + 8 * WIDTH <= n; j += 8 * WIDTH) {                                                            \\
                V a[8];                                                                                             \\
                for (k = 0; k < 8; k++) a[k] = *(const V*)(acc + j + k * WIDTH);                                    \\
                for (r = 0; r < rows; r++)                                                                          \\
                    _Pragma("GCC unroll 8") for (k = 0; k < 8; k++)                                                 \\
                        VOLTA_BETTER(a[k], *(const V*)((const T*)(x + r * step) + j + k * WIDTH), T, NAME)          \\
                for (k = 0; k < 8; k++) *(V*)(acc + j + k * WIDTH) = a[k];                                          \\
            }                                                                                                       \\
            for (; j < n; j += WIDTH) {                                                                             \\
                Py_ssize_t first = j + WIDTH <= n ? j : n - WIDTH;                                                  \\
                V a = *(const V*)(acc + first);                                                                     \\
                for (r = 0; r < rows; r++) VOLTA_BETTER(a, *(const V*)((const T*)(x + r * step) + first), T, NAME)  \\
                *(V*)(acc + first) = a;                                                                             \\
            }                                                                                                       \\
            return;                                                                                                 \\
        }
      #define VOLTA_EXTREME_ROW(T, I, NAME)                                                                         \\
        VOLTA_EXTREME_TYPES(T, I)                                                                                   \\
        V a = (V){0} + total, b = a, c = a, d = a;                                                                  \\
        for (; i + 4 * WIDTH <= n; i += 4 * WIDTH) {                                                                \\
            VOLTA_BETTER(a, *(const V*)(x + i), T, NAME)                                                            \\
            VOLTA_BETTER(b, *(const V*)(x + i + WIDTH), T, NAME)                                                    \\
            VOLTA_BETTER(c, *(const V*)(x + i + 2 * WIDTH), T, NAME)                                                \\
            VOLTA_BETTER(d, *(const V*)(x + i + 3 * WIDTH), T, NAME)                                                \\
        }                                                                                                           \\
        VOLTA_BETTER(c, d, T, NAME)                                                                                 \\
        for (; i + WIDTH <= n; i += WIDTH) VOLTA_BETTER(a, *(const V*)(x + i), T, NAME)                             \\
        VOLTA_REST(a, T, NAME)                                                                                      \\
        VOLTA_BETTER(b, c, T, NAME)                                                                                 \\
        VOLTA_BETTER(a, b, T, NAME)                                                                                 \\
        VOLTA_BEST_LANE(a, T, NAME)
    #else
      #define VOLTA_EXTREME_VECTORS(T, I, FOLDS)
      #define VOLTA_EXTREME_COLUMNS(T, I, NAME)
      #define VOLTA_EXTREME_ROW(T, I, NAME)                                                                         \\
        T lanes[16];                                                                                                \\
        for (j = 0; j < 16; j++) lanes[j] = total;                                                                  \\
        for (; i + 16 <= n; i += 16)                                                                                \\
            for (j = 0; j < 16; j++) lanes[j] = lanes[j] VOLTA_##NAME x[i + j] || lanes[j] != lanes[j] ? lanes[j] : x[i + j]; \\
        for (j = 0; j < 16; j++) total = total VOLTA_##NAME lanes[j] || total != total ? total : lanes[j];
    #endif
    #if defined(__GNUC__) && !defined(__clang__)        /* it warns of a rest that no vector leaves */
      #pragma GCC diagnostic ignored "-Waggressive-loop-optimizations"
    #endif
    #define VOLTA_EXTREME(FOLD, T, I, NAME)                                                                         \\
    static inline void FOLD(T* acc, const T* x, Py_ssize_t n) {                                                     \\
        Py_ssize_t j = 0;                                                                                           \\
        VOLTA_EXTREME_VECTORS(T, I, VOLTA_BETTER(best, *(const V*)(x + j), T, NAME))                                \\
        for (; j < n; j++) acc[j] = acc[j] VOLTA_##NAME x[j] || acc[j] != acc[j] ? acc[j] : x[j];                   \\
    }                                                                                                               \\
    static inline void FOLD##_lines(T* acc, const char* x, Py_ssize_t step, Py_ssize_t rows, Py_ssize_t n) {        \\
        Py_ssize_t r;                                                                                               \\
        VOLTA_EXTREME_COLUMNS(T, I, NAME)                                                                           \\
        for (r = 0; r < rows; r++) FOLD(acc, (const T*)(x + r * step), n);                                          \\
    }                                                                                                               \\
    static inline T FOLD##_row(T total, const T* x, Py_ssize_t n) {                                                 \\
        Py_ssize_t i = 0, j;                                                                                         \\
        VOLTA_EXTREME_ROW(T, I, NAME)                                                                               \\
        for (j = i; j < n; j++) total = total VOLTA_##NAME x[j] || total != total ? total : x[j];                   \\
        return total;                                                                                               \\
    }
    VOLTA_EXTREME(volta_amax_f32, float, int, max)
    VOLTA_EXTREME(volta_amin_f32, float, int, min)
    VOLTA_EXTREME(volta_amax_f64, double, long long, max)
    VOLTA_EXTREME(volta_amin_f64, double, long long, min)
    """
    # acc[j] = the better of acc[j] and x[j], for j < n; the same with `rows` lines, whose starts are `step` bytes apart
    void fold_amax_f32 "volta_amax_f32"(float* acc, const float* x, Py_ssize_t n) noexcept nogil
    void columns_amax_f32 "volta_amax_f32_lines"(float* acc, const char* x, Py_ssize_t step, Py_ssize_t rows,
                                              Py_ssize_t n) noexcept nogil
    void fold_amin_f32 "volta_amin_f32"(float* acc, const float* x, Py_ssize_t n) noexcept nogil
    void columns_amin_f32 "volta_amin_f32_lines"(float* acc, const char* x, Py_ssize_t step, Py_ssize_t rows,
                                              Py_ssize_t n) noexcept nogil
    void fold_amax_f64 "volta_amax_f64"(double* acc, const double* x, Py_ssize_t n) noexcept nogil
    void columns_amax_f64 "volta_amax_f64_lines"(double* acc, const char* x, Py_ssize_t step, Py_ssize_t rows,
                                              Py_ssize_t n) noexcept nogil
    void fold_amin_f64 "volta_amin_f64"(double* acc, const double* x, Py_ssize_t n) noexcept nogil
    void columns_amin_f64 "volta_amin_f64_lines"(double* acc, const char* x, Py_ssize_t step, Py_ssize_t rows,
                                              Py_ssize_t n) noexcept nogil
    # The best of `total` and x[:n]
    float best_amax_f32 "volta_amax_f32_row"(float total, const float* x, Py_ssize_t n) noexcept nogil
    float best_amin_f32 "volta_amin_f32_row"(float total, const float* x, Py_ssize_t n) noexcept nogil
    double best_amax_f64 "volta_amax_f64_row"(double total, const double* x, Py_ssize_t n) noexcept nogil
    double best_amin_f64 "volta_amin_f64_row"(double total, const double* x, Py_ssize_t n) noexcept nogil
