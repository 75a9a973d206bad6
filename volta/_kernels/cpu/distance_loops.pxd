# Loops over the elements of two rows, or of short rows of a batch: their distance in a norm, and its derivative. For `distance`.
#
# Threads: none. Sizes: the caller's, nothing is checked.
from volta._kernels.cpu.doubles cimport pow_f64
from volta._kernels.cpu.scalar cimport pow_f32
from volta._kernels.cpu.tile cimport LANES32                # their declarations come with them

cdef extern from *:
    """
    #if defined(_MSC_VER)
      #define VOLTA_RESTRICT __restrict
    #else
      #define VOLTA_RESTRICT __restrict__
    #endif
    #define VOLTA_FABS32 fabsf
    #define VOLTA_FABS64 fabs
    #define VOLTA_CEIL32 ceilf
    #define VOLTA_CEIL64 ceil
    #define VOLTA_ADDED(a, t) ((a) + (t))
    #define VOLTA_LARGER(a, t) ((t) > (a) ? (t) : (a))                          /* no NaN of t */
    /* What the differences d of two rows come to: in 16 parts, which compilers make vectors of. */
    #define VOLTA_ROWS(NAME, S, T, JOIN, TERM)                                                                      \\
    static inline T volta_##NAME##_##S(const T* VOLTA_RESTRICT a, const T* VOLTA_RESTRICT b, Py_ssize_t n, T power) {     \\
        T part[16] = {0}, total = 0;                                                                                \\
        Py_ssize_t i = 0;                                                                                           \\
        int k;                                                                                                      \\
        if (n >= 16) {                                                                                              \\
            for (; i <= n - 16; i += 16)                                                                            \\
                for (k = 0; k < 16; k++) { const T d = a[i + k] - b[i + k], t = TERM; part[k] = JOIN(part[k], t); } \\
            for (k = 0; k < 8; k++) part[k] = JOIN(part[k], part[k + 8]);                                           \\
            for (k = 0; k < 4; k++) part[k] = JOIN(part[k], part[k + 4]);                                           \\
            part[0] = JOIN(part[0], part[2]);                                                                       \\
            part[1] = JOIN(part[1], part[3]);                                                                       \\
            total = JOIN(part[0], part[1]);                                                                         \\
        }                                                                                                           \\
        for (; i < n; i++) { const T d = a[i] - b[i], t = TERM; total = JOIN(total, t); }                           \\
        (void)power;                                                                                                \\
        return total;                                                                                               \\
    }
    /* Adds the slopes of a distance `size`, times `scale`, by the elements of a. */
    #define VOLTA_SLOPES_OF(NAME, S, T, TERM)                                                                       \\
    static inline void volta_##NAME##_##S(T* VOLTA_RESTRICT out, const T* VOLTA_RESTRICT a, const T* VOLTA_RESTRICT b, T scale, T size,  \\
                                          T power, Py_ssize_t n) {                                                  \\
        Py_ssize_t i;                                                                                               \\
        if (n == 3) for (i = 0; i < 3; i++) { const T d = a[i] - b[i]; out[i] += TERM; }                            \\
        else if (n == 4) for (i = 0; i < 4; i++) { const T d = a[i] - b[i]; out[i] += TERM; }                       \\
        else for (i = 0; i < n; i++) { const T d = a[i] - b[i]; out[i] += TERM; }                                   \\
        (void)power; (void)size;                                                                                    \\
    }
    /* The largest size, or NaN, whose bits are larger than those of other sizes. */
    #define VOLTA_LARGEST_OR_NAN(S, T, WHOLE, SIZE)                                                                 \
    static inline T volta_largest_or_nan_##S(const T* VOLTA_RESTRICT a, const T* VOLTA_RESTRICT b, Py_ssize_t n, T power) {     \
        WHOLE part[16] = {0}, total = 0;                                                                            \
        T found;                                                                                                    \
        Py_ssize_t i = 0;                                                                                           \
        int k;                                                                                                      \
        for (; i <= n - 16; i += 16)                                                                                \
            for (k = 0; k < 16; k++) {                                                                              \
                const T d = a[i + k] - b[i + k];                                                                    \
                WHOLE t;                                                                                            \
                memcpy(&t, &d, sizeof(T));                                                                          \
                t &= SIZE;                                                                                          \
                part[k] = t > part[k] ? t : part[k];                                                                \
            }                                                                                                       \
        for (k = 0; k < 16; k++) total = part[k] > total ? part[k] : total;                                         \
        for (; i < n; i++) {                                                                                        \
            const T d = a[i] - b[i];                                                                                \
            WHOLE t;                                                                                                \
            memcpy(&t, &d, sizeof(T));                                                                              \
            t &= SIZE;                                                                                              \
            total = t > total ? t : total;                                                                          \
        }                                                                                                           \
        memcpy(&found, &total, sizeof(T));                                                                          \
        (void)power;                                                                                                \
        return found;                                                                                               \
    }
    VOLTA_LARGEST_OR_NAN(32, float, int, 0x7fffffff)
    VOLTA_LARGEST_OR_NAN(64, double, long long, 0x7fffffffffffffffLL)
    /* All distances of n short rows from r others. */
    #define VOLTA_CELLS_OF(M, T, JOIN, TERM)                                                                        \\
        for (i = 0; i < n; i++)                                                                                     \\
            for (j = 0; j < r; j++) {                                                                               \\
                T total = 0;                                                                                        \\
                for (k = 0; k < M; k++) { const T d = a[i * M + k] - b[j * M + k], t = TERM; total = JOIN(total, t); }  \\
                out[i * r + j] = total;                                                                             \\
            }
    #define VOLTA_CELLS(NAME, S, T, JOIN, TERM)                                                                     \\
    static void volta_##NAME##_cells_##S(const T* VOLTA_RESTRICT a, const T* VOLTA_RESTRICT b, Py_ssize_t n, Py_ssize_t r,  \\
                                         Py_ssize_t m, T* VOLTA_RESTRICT out) {                                     \\
        Py_ssize_t i, j, k;                                                                                         \\
        if (m == 2) { VOLTA_CELLS_OF(2, T, JOIN, TERM) }                                                            \\
        else if (m == 3) { VOLTA_CELLS_OF(3, T, JOIN, TERM) }                                                       \\
        else if (m == 4) { VOLTA_CELLS_OF(4, T, JOIN, TERM) }                                                       \\
        else { VOLTA_CELLS_OF(m, T, JOIN, TERM) }                                                                   \\
    }
    #define VOLTA_ALL_CELLS(S, T)                                                                                   \
    VOLTA_CELLS(square, S, T, VOLTA_ADDED, d * d)                                                                   \
    VOLTA_CELLS(size, S, T, VOLTA_ADDED, VOLTA_FABS##S(d))                                                          \
    VOLTA_CELLS(largest, S, T, VOLTA_LARGER, VOLTA_FABS##S(d))
    VOLTA_ALL_CELLS(32, float)
    VOLTA_ALL_CELLS(64, double)
    #define VOLTA_UP_TO_1(t) ((t) > 1 ? 1 : (t))
    #define VOLTA_NORMS(S, T)                                                                                       \\
    VOLTA_ROWS(counted, S, T, VOLTA_ADDED, VOLTA_UP_TO_1(VOLTA_CEIL##S(VOLTA_FABS##S(d))))                          \\
    VOLTA_ROWS(sizes, S, T, VOLTA_ADDED, VOLTA_FABS##S(d))                                                          \\
    VOLTA_ROWS(squares, S, T, VOLTA_ADDED, d * d)                                                                   \\
    VOLTA_ROWS(powers, S, T, VOLTA_ADDED, pow_f##S(VOLTA_FABS##S(d), power))                                        \\
    VOLTA_ROWS(largest, S, T, VOLTA_LARGER, VOLTA_FABS##S(d))                                                       \\
    VOLTA_SLOPES_OF(signs, S, T, scale * (d != d ? d : (T)((d > 0) - (d < 0))))                                     \\
    VOLTA_SLOPES_OF(ways, S, T, scale * d)                                                                          \\
    VOLTA_SLOPES_OF(sign_powers, S, T, d == 0 && power < 1 ? 0                                                      \\
                    : scale * (T)((d > 0) - (d < 0)) * pow_f##S(VOLTA_FABS##S(d), power - 1))                       \\
    VOLTA_SLOPES_OF(way_powers, S, T, scale * d * pow_f##S(VOLTA_FABS##S(d), power - 2))                            \\
    VOLTA_SLOPES_OF(those_of_largest, S, T, scale * (d != d ? d : (T)((d > 0) - (d < 0)))                           \\
                    * (1 - VOLTA_UP_TO_1(VOLTA_CEIL##S(VOLTA_FABS##S(VOLTA_FABS##S(d) - size)))))
    VOLTA_NORMS(32, float)
    VOLTA_NORMS(64, double)
    /* Sizes of a vector's numbers, and the larger ones of two, or those that are NaN. */
    #if defined(__GNUC__) || defined(__clang__)
      typedef int volta_whole32 __attribute__((vector_size(VOLTA_VECTOR_BYTES)));
      typedef long long volta_whole64 __attribute__((vector_size(VOLTA_VECTOR_BYTES)));
      #define VOLTA_SIZES32(x) ((volta_v32)((volta_whole32)(x) & 0x7fffffff))
      #define VOLTA_SIZES64(x) ((volta_v64)((volta_whole64)(x) & 0x7fffffffffffffffLL))
      #define VOLTA_PICK(S, mask, t, x) ((volta_v##S)(((mask) & (volta_whole##S)(t)) | (~(mask) & (volta_whole##S)(x))))
      #define VOLTA_MORE_OR_NAN(S, t, x) ((volta_whole##S)(t) > (volta_whole##S)(x))   /* of bits, NaN's are the largest */
    #else
      typedef int volta_whole32;
      typedef int volta_whole64;
      #define VOLTA_SIZES32(x) fabsf(x)
      #define VOLTA_SIZES64(x) fabs(x)
      #define VOLTA_PICK(S, mask, t, x) ((mask) ? (t) : (x))
      #define VOLTA_MORE_OR_NAN(S, t, x) (((t) > (x)) | ((t) != (t)))
    #endif
    /* The distances of a row from `n` others, which lie as columns: `turned`[m][step], four vectors of them at a time, at last one. */
    enum { VOLTA_ACROSS = 64 };
    #define VOLTA_ACROSS_BLOCK(S, T, VECTORS, TERM, ROOT)                                                           \\
            volta_v##S part[VECTORS];                                                                               \\
            for (q = 0; q < VECTORS; q++) part[q] = (volta_v##S){0};                                                \\
            for (k = 0; k < m; k++) {                                                                               \\
                const volta_v##S x = VOLTA_SAME##S(a[k]);                                                           \\
                VOLTA_UNROLL for (q = 0; q < VECTORS; q++) {                                                        \\
                    const volta_v##S d = x - *(const volta_v##S*)(turned + k * step + j + q * VOLTA_LANES##S);      \\
                    TERM                                                                                            \\
                }                                                                                                   \\
            }                                                                                                       \\
            memcpy(line, part, sizeof(part));                                                                       \\
            for (q = 0; q < VECTORS * VOLTA_LANES##S; q++) line[q] = ROOT(line[q]);                                 \\
            if (j + VECTORS * VOLTA_LANES##S <= n) memcpy(out + j, line, sizeof(part));                             \\
            else for (q = 0; j + q < n; q++) out[j + q] = line[q];                                                  \\
            j += VECTORS * VOLTA_LANES##S;
    #define VOLTA_ACROSS_OF(NAME, S, T, TERM, ROOT)                                                                 \\
    static inline void volta_##NAME##_##S(const T* VOLTA_RESTRICT a, const T* VOLTA_RESTRICT turned, Py_ssize_t m, Py_ssize_t step,  \\
                                          Py_ssize_t n, T* VOLTA_RESTRICT out) {                                    \\
        T line[4 * VOLTA_LANES##S];                                                                                 \\
        Py_ssize_t j = 0, k;                                                                                        \\
        int q;                                                                                                      \\
        while (n - j > 2 * VOLTA_LANES##S) { VOLTA_ACROSS_BLOCK(S, T, 4, TERM, ROOT) }                              \\
        while (j < n) { VOLTA_ACROSS_BLOCK(S, T, 1, TERM, ROOT) }                                                   \\
    }
    #define VOLTA_ALL_ACROSS(S, T, ROOT)                                                                            \\
    VOLTA_ACROSS_OF(lengths, S, T, part[q] = VOLTA_MADD##S(d, d, part[q]);, ROOT)                                   \\
    VOLTA_ACROSS_OF(sums, S, T, part[q] += VOLTA_SIZES##S(d);, )                                                    \\
    VOLTA_ACROSS_OF(most, S, T, const volta_v##S t = VOLTA_SIZES##S(d);                                             \\
                    const volta_whole##S more = t > part[q]; part[q] = VOLTA_PICK(S, more, t, part[q]);, )          \\
    VOLTA_ACROSS_OF(most_or_nan, S, T, const volta_v##S t = VOLTA_SIZES##S(d);                                      \\
                    const volta_whole##S more = VOLTA_MORE_OR_NAN(S, t, part[q]); part[q] = VOLTA_PICK(S, more, t, part[q]);, )
    VOLTA_ALL_ACROSS(32, float, sqrtf)
    VOLTA_ALL_ACROSS(64, double, sqrt)
    """
    enum:
        ACROSS "VOLTA_ACROSS"
    void lengths_32 "volta_lengths_32"(const float*, const float*, Py_ssize_t, Py_ssize_t, Py_ssize_t, float*) noexcept nogil
    void lengths_64 "volta_lengths_64"(const double*, const double*, Py_ssize_t, Py_ssize_t, Py_ssize_t, double*) noexcept nogil
    void sums_32 "volta_sums_32"(const float*, const float*, Py_ssize_t, Py_ssize_t, Py_ssize_t, float*) noexcept nogil
    void sums_64 "volta_sums_64"(const double*, const double*, Py_ssize_t, Py_ssize_t, Py_ssize_t, double*) noexcept nogil
    void most_32 "volta_most_32"(const float*, const float*, Py_ssize_t, Py_ssize_t, Py_ssize_t, float*) noexcept nogil
    void most_64 "volta_most_64"(const double*, const double*, Py_ssize_t, Py_ssize_t, Py_ssize_t, double*) noexcept nogil
    void most_or_nan_32 "volta_most_or_nan_32"(const float*, const float*, Py_ssize_t, Py_ssize_t, Py_ssize_t, float*) noexcept nogil
    void most_or_nan_64 "volta_most_or_nan_64"(const double*, const double*, Py_ssize_t, Py_ssize_t, Py_ssize_t, double*) noexcept nogil
    void square_cells_32 "volta_square_cells_32"(const float*, const float*, Py_ssize_t, Py_ssize_t, Py_ssize_t, float*) noexcept nogil
    void square_cells_64 "volta_square_cells_64"(const double*, const double*, Py_ssize_t, Py_ssize_t, Py_ssize_t, double*) noexcept nogil
    void size_cells_32 "volta_size_cells_32"(const float*, const float*, Py_ssize_t, Py_ssize_t, Py_ssize_t, float*) noexcept nogil
    void size_cells_64 "volta_size_cells_64"(const double*, const double*, Py_ssize_t, Py_ssize_t, Py_ssize_t, double*) noexcept nogil
    void largest_cells_32 "volta_largest_cells_32"(const float*, const float*, Py_ssize_t, Py_ssize_t, Py_ssize_t, float*) noexcept nogil
    void largest_cells_64 "volta_largest_cells_64"(const double*, const double*, Py_ssize_t, Py_ssize_t, Py_ssize_t, double*) noexcept nogil
    float counted_32 "volta_counted_32"(const float*, const float*, Py_ssize_t, float) noexcept nogil
    float sizes_32 "volta_sizes_32"(const float*, const float*, Py_ssize_t, float) noexcept nogil
    float squares_32 "volta_squares_32"(const float*, const float*, Py_ssize_t, float) noexcept nogil
    float powers_32 "volta_powers_32"(const float*, const float*, Py_ssize_t, float) noexcept nogil
    float largest_32 "volta_largest_32"(const float*, const float*, Py_ssize_t, float) noexcept nogil
    float largest_or_nan_32 "volta_largest_or_nan_32"(const float*, const float*, Py_ssize_t, float) noexcept nogil
    double counted_64 "volta_counted_64"(const double*, const double*, Py_ssize_t, double) noexcept nogil
    double sizes_64 "volta_sizes_64"(const double*, const double*, Py_ssize_t, double) noexcept nogil
    double squares_64 "volta_squares_64"(const double*, const double*, Py_ssize_t, double) noexcept nogil
    double powers_64 "volta_powers_64"(const double*, const double*, Py_ssize_t, double) noexcept nogil
    double largest_64 "volta_largest_64"(const double*, const double*, Py_ssize_t, double) noexcept nogil
    double largest_or_nan_64 "volta_largest_or_nan_64"(const double*, const double*, Py_ssize_t, double) noexcept nogil
    void signs_32 "volta_signs_32"(float*, const float*, const float*, float, float, float, Py_ssize_t) noexcept nogil
    void ways_32 "volta_ways_32"(float*, const float*, const float*, float, float, float, Py_ssize_t) noexcept nogil
    void sign_powers_32 "volta_sign_powers_32"(float*, const float*, const float*, float, float, float, Py_ssize_t) noexcept nogil
    void way_powers_32 "volta_way_powers_32"(float*, const float*, const float*, float, float, float, Py_ssize_t) noexcept nogil
    void those_of_largest_32 "volta_those_of_largest_32"(float*, const float*, const float*, float, float, float, Py_ssize_t) noexcept nogil
    void signs_64 "volta_signs_64"(double*, const double*, const double*, double, double, double, Py_ssize_t) noexcept nogil
    void ways_64 "volta_ways_64"(double*, const double*, const double*, double, double, double, Py_ssize_t) noexcept nogil
    void sign_powers_64 "volta_sign_powers_64"(double*, const double*, const double*, double, double, double, Py_ssize_t) noexcept nogil
    void way_powers_64 "volta_way_powers_64"(double*, const double*, const double*, double, double, double, Py_ssize_t) noexcept nogil
    void those_of_largest_64 "volta_those_of_largest_64"(double*, const double*, const double*, double, double, double,
                                                         Py_ssize_t) noexcept nogil
