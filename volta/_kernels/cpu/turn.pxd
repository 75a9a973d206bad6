# Squares of 8 x 8 numbers, transposed in registers.
#
# Layout: rows of any stride. Threads: none. Sizes: the caller's.

cdef extern from *:
    """
    #if defined(__AVX512VL__)
      #include <immintrin.h>
    #endif
    /* out[i][j] = x[j][i] for 8 x 8 numbers; strides in elements. */
    #if defined(__GNUC__) && (__GNUC__ >= 12 || defined(__clang__)) && (defined(__AVX__) || defined(__aarch64__))
    typedef float volta_v8 __attribute__((vector_size(32), aligned(4), may_alias));
    static inline void volta_turn_rows(volta_v8* r) {
        volta_v8 s[8];
        int i;
        for (i = 0; i < 4; i++) {
            s[2 * i] = __builtin_shufflevector(r[2 * i], r[2 * i + 1], 0, 8, 1, 9, 4, 12, 5, 13);
            s[2 * i + 1] = __builtin_shufflevector(r[2 * i], r[2 * i + 1], 2, 10, 3, 11, 6, 14, 7, 15);
        }
        for (i = 0; i < 2; i++) {
            r[4 * i] = __builtin_shufflevector(s[4 * i], s[4 * i + 2], 0, 1, 8, 9, 4, 5, 12, 13);
            r[4 * i + 1] = __builtin_shufflevector(s[4 * i], s[4 * i + 2], 2, 3, 10, 11, 6, 7, 14, 15);
            r[4 * i + 2] = __builtin_shufflevector(s[4 * i + 1], s[4 * i + 3], 0, 1, 8, 9, 4, 5, 12, 13);
            r[4 * i + 3] = __builtin_shufflevector(s[4 * i + 1], s[4 * i + 3], 2, 3, 10, 11, 6, 7, 14, 15);
        }
        for (i = 0; i < 4; i++) {
            s[i] = __builtin_shufflevector(r[i], r[i + 4], 0, 1, 2, 3, 8, 9, 10, 11);
            s[i + 4] = __builtin_shufflevector(r[i], r[i + 4], 4, 5, 6, 7, 12, 13, 14, 15);
        }
        for (i = 0; i < 8; i++) r[i] = s[i];
    }
    static inline void volta_turn8(const float* x, Py_ssize_t ldx, float* out, Py_ssize_t ldo) {
        volta_v8 r[8];
        int i;
        for (i = 0; i < 8; i++) r[i] = *(const volta_v8*)(x + i * ldx);
        volta_turn_rows(r);
        for (i = 0; i < 8; i++) *(volta_v8*)(out + i * ldo) = r[i];
    }
    #else
    static inline void volta_turn8(const float* x, Py_ssize_t ldx, float* out, Py_ssize_t ldo) {
        int i, j;
        for (i = 0; i < 8; i++) for (j = 0; j < 8; j++) out[i * ldo + j] = x[j * ldx + i];
    }
    #endif
    #if defined(__GNUC__) && (__GNUC__ >= 12 || defined(__clang__)) && (defined(__AVX__) || defined(__aarch64__))
    typedef double volta_v4d __attribute__((vector_size(32), aligned(8), may_alias));
    static inline void volta_turn4_double(const double* x, Py_ssize_t ldx, double* out, Py_ssize_t ldo) {
        const volta_v4d a = *(const volta_v4d*)x, b = *(const volta_v4d*)(x + ldx);
        const volta_v4d c = *(const volta_v4d*)(x + 2 * ldx), d = *(const volta_v4d*)(x + 3 * ldx);
        const volta_v4d e = __builtin_shufflevector(a, b, 0, 4, 2, 6), f = __builtin_shufflevector(a, b, 1, 5, 3, 7);
        const volta_v4d g = __builtin_shufflevector(c, d, 0, 4, 2, 6), h = __builtin_shufflevector(c, d, 1, 5, 3, 7);
        *(volta_v4d*)out = __builtin_shufflevector(e, g, 0, 1, 4, 5);
        *(volta_v4d*)(out + ldo) = __builtin_shufflevector(f, h, 0, 1, 4, 5);
        *(volta_v4d*)(out + 2 * ldo) = __builtin_shufflevector(e, g, 2, 3, 6, 7);
        *(volta_v4d*)(out + 3 * ldo) = __builtin_shufflevector(f, h, 2, 3, 6, 7);
    }
    static inline void volta_turn8_double(const double* x, Py_ssize_t ldx, double* out, Py_ssize_t ldo) {
        volta_turn4_double(x, ldx, out, ldo);
        volta_turn4_double(x + 4 * ldx, ldx, out + 4, ldo);
        volta_turn4_double(x + 4, ldx, out + 4 * ldo, ldo);
        volta_turn4_double(x + 4 * ldx + 4, ldx, out + 4 * ldo + 4, ldo);
    }
    #else
    static inline void volta_turn4_double(const double* x, Py_ssize_t ldx, double* out, Py_ssize_t ldo) {
        int i, j;
        for (i = 0; i < 4; i++) for (j = 0; j < 4; j++) out[i * ldo + j] = x[j * ldx + i];
    }
    static inline void volta_turn8_double(const double* x, Py_ssize_t ldx, double* out, Py_ssize_t ldo) {
        int i, j;
        for (i = 0; i < 8; i++) for (j = 0; j < 8; j++) out[i * ldo + j] = x[j * ldx + i];
    }
    #endif
    /* out[j][i] = x[i][j] for up to 8 x 8. */
    #if defined(__AVX512VL__) && defined(__GNUC__) && (__GNUC__ >= 12 || defined(__clang__))
    static inline void volta_turn_few(Py_ssize_t rows, Py_ssize_t columns, const float* x, Py_ssize_t ldx, float* out, Py_ssize_t ldo) {
        const __mmask8 along = (__mmask8)((1u << columns) - 1), across = (__mmask8)((1u << rows) - 1);
        volta_v8 r[8];
        int i;
        for (i = 0; i < 8; i++) r[i] = i < rows ? (volta_v8)_mm256_maskz_loadu_ps(along, x + i * ldx) : (volta_v8){0};
        volta_turn_rows(r);
        for (i = 0; i < 8; i++) if (i < columns) _mm256_mask_storeu_ps(out + i * ldo, across, (__m256)r[i]);
    }
    #else
    static inline void volta_turn_few(Py_ssize_t rows, Py_ssize_t columns, const float* x, Py_ssize_t ldx, float* out, Py_ssize_t ldo) {
        Py_ssize_t i, j;
        for (i = 0; i < rows; i++) for (j = 0; j < columns; j++) out[j * ldo + i] = x[i * ldx + j];
    }
    #endif
    """
    void turn8 "volta_turn8"(const float* x, Py_ssize_t ldx, float* out, Py_ssize_t ldo) noexcept nogil
    void turn4_double "volta_turn4_double"(const double* x, Py_ssize_t ldx, double* out, Py_ssize_t ldo) noexcept nogil
    void turn8_double "volta_turn8_double"(const double* x, Py_ssize_t ldx, double* out, Py_ssize_t ldo) noexcept nogil
    void turn_few "volta_turn_few"(Py_ssize_t rows, Py_ssize_t columns, const float* x, Py_ssize_t ldx, float* out,
                                   Py_ssize_t ldo) noexcept nogil
