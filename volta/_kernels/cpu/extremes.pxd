# Lines of floats folded by maximum and minimum, where a NaN wins. In vector types, since whether a compiler makes vectors of such a
# loop hangs on its version: without them it takes up to fifty times as long.
# Threads: none. Sizes: the caller's.

cdef extern from *:
    """
    #if defined(__AVX512F__)
      #define VOLTA_LINE_BYTES 64
    #elif defined(__AVX__)
      #define VOLTA_LINE_BYTES 32
    #else
      #define VOLTA_LINE_BYTES 16
    #endif
    /* acc = acc where it is better than b or NaN, else b. */
    #if defined(__AVX512F__) && defined(__GNUC__)
      #include <immintrin.h>
      #define VOLTA_BETTER(acc, b, T, NAME) acc = (V)VOLTA_BETTER_##T(acc, b, NAME);
      #define VOLTA_BETTER_float(acc, b, NAME) \\
        _mm512_mask_##NAME##_ps((__m512)acc, _mm512_cmp_ps_mask((__m512)acc, (__m512)acc, _CMP_ORD_Q), (__m512)acc, (__m512)(b))
      #define VOLTA_BETTER_double(acc, b, NAME) \\
        _mm512_mask_##NAME##_pd((__m512d)acc, _mm512_cmp_pd_mask((__m512d)acc, (__m512d)acc, _CMP_ORD_Q), (__m512d)acc, (__m512d)(b))
    #else
      #define VOLTA_BETTER(acc, b, T, NAME) { M m = (M)(acc VOLTA_##NAME (b)) | (M)(acc != acc); acc = (V)((m & (M)acc) | (~m & (M)(b))); }
    #endif
    #define VOLTA_max >
    #define VOLTA_min <
    #if defined(__GNUC__) || defined(__clang__)
      #define VOLTA_EXTREME_TYPES(T, I)                                                                             \\
        typedef T V __attribute__((vector_size(VOLTA_LINE_BYTES), aligned(sizeof(T)), may_alias));                  \\
        typedef I M __attribute__((vector_size(VOLTA_LINE_BYTES), aligned(sizeof(T)), may_alias));                  \\
        enum { WIDTH = sizeof(V) / sizeof(T) };
      #define VOLTA_EXTREME_VECTORS(T, I, FOLDS)                                                                    \\
        VOLTA_EXTREME_TYPES(T, I)                                                                                   \\
        for (; j + WIDTH <= n; j += WIDTH) {                                                                        \\
            V best = *(V*)(acc + j);                                                                                \\
            FOLDS                                                                                                   \\
            *(V*)(acc + j) = best;                                                                                  \\
        }
      #define VOLTA_EXTREME_LANES(T, I, NAME)                                                                       \\
        VOLTA_EXTREME_TYPES(T, I)                                                                                   \\
        V best[64 / WIDTH];                                                                                         \\
        int k;                                                                                                      \\
        for (k = 0; k < 64 / WIDTH; k++) best[k] = ((V*)lanes)[k];                                                  \\
        for (; i + 64 <= n; i += 64)                                                                                \\
            for (k = 0; k < 64 / WIDTH; k++) { VOLTA_BETTER(best[k], ((const V*)(x + i))[k], T, NAME) }             \\
        for (k = 0; k < 64 / WIDTH; k++) ((V*)lanes)[k] = best[k];
    #else
      #define VOLTA_EXTREME_VECTORS(T, I, FOLDS)
      #define VOLTA_EXTREME_LANES(T, I, NAME)                                                                       \\
        int k;                                                                                                      \\
        for (; i + 64 <= n; i += 64)                                                                                \\
            for (k = 0; k < 64; k++) lanes[k] = lanes[k] VOLTA_##NAME x[i + k] || lanes[k] != lanes[k] ? lanes[k] : x[i + k];
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
    static inline void FOLD##_4(T* acc, const T* x0, const T* x1, const T* x2, const T* x3, Py_ssize_t n) {         \\
        Py_ssize_t j = 0;                                                                                           \\
        VOLTA_EXTREME_VECTORS(T, I, VOLTA_BETTER(best, *(const V*)(x0 + j), T, NAME)                                \\
                              VOLTA_BETTER(best, *(const V*)(x1 + j), T, NAME)                                      \\
                              VOLTA_BETTER(best, *(const V*)(x2 + j), T, NAME)                                      \\
                              VOLTA_BETTER(best, *(const V*)(x3 + j), T, NAME))                                     \\
        FOLD(acc + j, x0 + j, n - j), FOLD(acc + j, x1 + j, n - j), FOLD(acc + j, x2 + j, n - j), FOLD(acc + j, x3 + j, n - j); \\
    }                                                                                                               \\
    static inline Py_ssize_t FOLD##_lanes(T* lanes, const T* x, Py_ssize_t n) {                                     \\
        Py_ssize_t i = 0;                                                                                           \\
        VOLTA_EXTREME_LANES(T, I, NAME)                                                                             \\
        return i;                                                                                                   \\
    }
    VOLTA_EXTREME(volta_amax_f32, float, int, max)
    VOLTA_EXTREME(volta_amin_f32, float, int, min)
    VOLTA_EXTREME(volta_amax_f64, double, long long, max)
    VOLTA_EXTREME(volta_amin_f64, double, long long, min)
    """
    # acc[j] = the better of acc[j] and x[j], for j < n; the same with four lines
    void fold_amax_f32 "volta_amax_f32"(float* acc, const float* x, Py_ssize_t n) noexcept nogil
    void fold4_amax_f32 "volta_amax_f32_4"(float* acc, const float* x0, const float* x1, const float* x2, const float* x3,
                                    Py_ssize_t n) noexcept nogil
    void fold_amin_f32 "volta_amin_f32"(float* acc, const float* x, Py_ssize_t n) noexcept nogil
    void fold4_amin_f32 "volta_amin_f32_4"(float* acc, const float* x0, const float* x1, const float* x2, const float* x3,
                                    Py_ssize_t n) noexcept nogil
    void fold_amax_f64 "volta_amax_f64"(double* acc, const double* x, Py_ssize_t n) noexcept nogil
    void fold4_amax_f64 "volta_amax_f64_4"(double* acc, const double* x0, const double* x1, const double* x2, const double* x3,
                                    Py_ssize_t n) noexcept nogil
    void fold_amin_f64 "volta_amin_f64"(double* acc, const double* x, Py_ssize_t n) noexcept nogil
    void fold4_amin_f64 "volta_amin_f64_4"(double* acc, const double* x0, const double* x1, const double* x2, const double* x3,
                                    Py_ssize_t n) noexcept nogil
    # Fold the first n // 64 * 64 of x into 64 lanes; returns how many these are.
    Py_ssize_t lanes_amax_f32 "volta_amax_f32_lanes"(float* lanes, const float* x, Py_ssize_t n) noexcept nogil
    Py_ssize_t lanes_amin_f32 "volta_amin_f32_lanes"(float* lanes, const float* x, Py_ssize_t n) noexcept nogil
    Py_ssize_t lanes_amax_f64 "volta_amax_f64_lanes"(double* lanes, const double* x, Py_ssize_t n) noexcept nogil
    Py_ssize_t lanes_amin_f64 "volta_amin_f64_lanes"(double* lanes, const double* x, Py_ssize_t n) noexcept nogil
