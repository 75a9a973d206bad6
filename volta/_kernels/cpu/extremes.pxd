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
    #define VOLTA_BETTER(acc, b, OP) { m = (M)(acc OP (b)) | (M)(acc != acc); acc = (V)((m & (M)acc) | (~m & (M)(b))); }
    #if defined(__GNUC__) || defined(__clang__)
      #define VOLTA_EXTREME_VECTORS(T, I, OP, FOLDS)                                                                \\
        typedef T V __attribute__((vector_size(VOLTA_LINE_BYTES), aligned(sizeof(T)), may_alias));                  \\
        typedef I M __attribute__((vector_size(VOLTA_LINE_BYTES), aligned(sizeof(T)), may_alias));                  \\
        for (; j + (Py_ssize_t)(sizeof(V) / sizeof(T)) <= n; j += sizeof(V) / sizeof(T)) {                          \\
            V best = *(V*)(acc + j);                                                                                \\
            M m;                                                                                                    \\
            FOLDS                                                                                                   \\
            *(V*)(acc + j) = best;                                                                                  \\
        }
    #else
      #define VOLTA_EXTREME_VECTORS(T, I, OP, FOLDS)
    #endif
    #if defined(__GNUC__) && !defined(__clang__)        /* it warns of a rest that no vector leaves */
      #pragma GCC diagnostic ignored "-Waggressive-loop-optimizations"
    #endif
    #define VOLTA_EXTREME(NAME, T, I, OP)                                                                           \\
    static inline void NAME(T* acc, const T* x, Py_ssize_t n) {                                                     \\
        Py_ssize_t j = 0;                                                                                           \\
        VOLTA_EXTREME_VECTORS(T, I, OP, VOLTA_BETTER(best, *(const V*)(x + j), OP))                                 \\
        for (; j < n; j++) acc[j] = acc[j] OP x[j] || acc[j] != acc[j] ? acc[j] : x[j];                             \\
    }                                                                                                               \\
    static inline void NAME##_4(T* acc, const T* x0, const T* x1, const T* x2, const T* x3, Py_ssize_t n) {         \\
        Py_ssize_t j = 0;                                                                                           \\
        VOLTA_EXTREME_VECTORS(T, I, OP, VOLTA_BETTER(best, *(const V*)(x0 + j), OP) VOLTA_BETTER(best, *(const V*)(x1 + j), OP) \\
                              VOLTA_BETTER(best, *(const V*)(x2 + j), OP) VOLTA_BETTER(best, *(const V*)(x3 + j), OP))          \\
        NAME(acc + j, x0 + j, n - j), NAME(acc + j, x1 + j, n - j), NAME(acc + j, x2 + j, n - j), NAME(acc + j, x3 + j, n - j); \\
    }
    VOLTA_EXTREME(volta_amax_f32, float, int, >)
    VOLTA_EXTREME(volta_amin_f32, float, int, <)
    VOLTA_EXTREME(volta_amax_f64, double, long long, >)
    VOLTA_EXTREME(volta_amin_f64, double, long long, <)
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
