# Register tiles of matrix products, the innermost loops of convolution.
#
# A tile is TILE_ROWS x (3 vectors) accumulators, which fills the vector registers of the instruction set. C, since it
# needs vector types: GCC and Clang have them; elsewhere a "vector" is one number and the same code is correct but slow.
# Layout: panels are padded by the caller (see each function). Threads: none. Sizes: the caller's, nothing is checked.

cdef extern from *:
    """
    #include <string.h>
    #if defined(__AVX512F__)
      #define VOLTA_VECTOR_BYTES 64
    #elif defined(__AVX__)
      #define VOLTA_VECTOR_BYTES 32
    #else
      #define VOLTA_VECTOR_BYTES 16
    #endif
    #if defined(__AVX512F__) || defined(__aarch64__)      /* 32 vector registers; else 16 */
      #define VOLTA_TILE_ROWS 8
    #else
      #define VOLTA_TILE_ROWS 4
    #endif
    #if defined(__GNUC__) || defined(__clang__)
      typedef float volta_v32 __attribute__((vector_size(VOLTA_VECTOR_BYTES), aligned(4), may_alias));
      typedef double volta_v64 __attribute__((vector_size(VOLTA_VECTOR_BYTES), aligned(8), may_alias));
      #define VOLTA_LANES32 (VOLTA_VECTOR_BYTES / 4)
      #define VOLTA_LANES64 (VOLTA_VECTOR_BYTES / 8)
      #define VOLTA_PREFETCH(x) __builtin_prefetch(x)
      #if defined(__clang__)
        #define VOLTA_UNROLL _Pragma("unroll")
      #else
        #define VOLTA_UNROLL _Pragma("GCC unroll 8")
      #endif
      /* c + a * b in one rounding where the hardware can: the build forbids the compiler to fuse by itself. */
      #if defined(__AVX512F__)
        #include <immintrin.h>
        #define VOLTA_MADD32(a, b, c) ((volta_v32)_mm512_fmadd_ps((__m512)(a), (__m512)(b), (__m512)(c)))
        #define VOLTA_MADD64(a, b, c) ((volta_v64)_mm512_fmadd_pd((__m512d)(a), (__m512d)(b), (__m512d)(c)))
        #define VOLTA_SAME32(x) ((volta_v32)_mm512_set1_ps(x))
        #define VOLTA_SAME64(x) ((volta_v64)_mm512_set1_pd(x))
      #elif defined(__FMA__)
        #include <immintrin.h>
        #define VOLTA_MADD32(a, b, c) ((volta_v32)_mm256_fmadd_ps((__m256)(a), (__m256)(b), (__m256)(c)))
        #define VOLTA_MADD64(a, b, c) ((volta_v64)_mm256_fmadd_pd((__m256d)(a), (__m256d)(b), (__m256d)(c)))
        #define VOLTA_SAME32(x) ((volta_v32)_mm256_set1_ps(x))
        #define VOLTA_SAME64(x) ((volta_v64)_mm256_set1_pd(x))
      #elif defined(__aarch64__)
        #include <arm_neon.h>
        #define VOLTA_MADD32(a, b, c) \\
            ((volta_v32)vfmaq_f32((float32x4_t)(c), (float32x4_t)(a), (float32x4_t)(b)))
        #define VOLTA_MADD64(a, b, c) \\
            ((volta_v64)vfmaq_f64((float64x2_t)(c), (float64x2_t)(a), (float64x2_t)(b)))
        #define VOLTA_SAME32(x) ((volta_v32)vdupq_n_f32(x))
        #define VOLTA_SAME64(x) ((volta_v64)vdupq_n_f64(x))
      #endif
    #else
      typedef float volta_v32;
      typedef double volta_v64;
      #define VOLTA_LANES32 1
      #define VOLTA_LANES64 1
      #define VOLTA_UNROLL
      #define VOLTA_PREFETCH(x)
    #endif

    /* Load once into a register what is used several times: GCC would read memory each time. */
    #if defined(__GNUC__) && defined(__AVX512F__)
      #define VOLTA_KEEP(x) __asm__("" : "+v"(x))
    #elif defined(__GNUC__) && defined(__AVX__)
      #define VOLTA_KEEP(x) __asm__("" : "+x"(x))
    #else
      #define VOLTA_KEEP(x)
    #endif
    /* An address that is computed here, from the one before, rather than all of them early. */
    #if defined(__GNUC__)
      #define VOLTA_HIDE(x) __asm__("" : "+r"(x))
    #else
      #define VOLTA_HIDE(x)
    #endif
    #if !defined(VOLTA_MADD32)
      #define VOLTA_MADD32(a, b, c) ((c) + (a) * (b))
      #define VOLTA_MADD64(a, b, c) ((c) + (a) * (b))
      #define VOLTA_SAME32(x) ((x) - (volta_v32){0})
      #define VOLTA_SAME64(x) ((x) - (volta_v64){0})
    #endif

    /* The first n of a vector's numbers; the others are zeros, and their memory is not touched. */
    #define VOLTA_PARTS(T, V, S, LANES)                                                                             \\
    static inline V volta_part##S(const T* x, int n) {                                                              \\
        V y = (V){0};                                                                                               \\
        if (n == LANES) return *(const V*)x;                                                                        \\
        memcpy(&y, x, n * sizeof(T));                                                                               \\
        return y;                                                                                                   \\
    }                                                                                                               \\
    static inline void volta_put##S(T* out, V x, int n) {                                                           \\
        if (n == LANES) *(V*)out = x;                                                                               \\
        else memcpy(out, &x, n * sizeof(T));                                                                        \\
    }
    #if defined(__AVX512F__)
    #define VOLTA_MASKED 1                              /* in one instruction */
    static inline volta_v32 volta_part32(const float* x, int n) {
        if (__builtin_constant_p(n) && n == VOLTA_LANES32) return *(const volta_v32*)x;
        return (volta_v32)_mm512_maskz_loadu_ps((__mmask16)((1u << n) - 1), x);
    }
    static inline volta_v64 volta_part64(const double* x, int n) {
        if (__builtin_constant_p(n) && n == VOLTA_LANES64) return *(const volta_v64*)x;
        return (volta_v64)_mm512_maskz_loadu_pd((__mmask8)((1u << n) - 1), x);
    }
    static inline void volta_put32(float* out, volta_v32 x, int n) {
        if (__builtin_constant_p(n) && n == VOLTA_LANES32) *(volta_v32*)out = x;
        else _mm512_mask_storeu_ps(out, (__mmask16)((1u << n) - 1), (__m512)x);
    }
    static inline void volta_put64(double* out, volta_v64 x, int n) {
        if (__builtin_constant_p(n) && n == VOLTA_LANES64) *(volta_v64*)out = x;
        else _mm512_mask_storeu_pd(out, (__mmask8)((1u << n) - 1), (__m512d)x);
    }
    #else
    #define VOLTA_MASKED 0
    VOLTA_PARTS(float, volta_v32, 32, VOLTA_LANES32)
    VOLTA_PARTS(double, volta_v64, 64, VOLTA_LANES64)
    #endif

    /* The sum of a vector's numbers, by halves. */
    #define VOLTA_TOTAL_OF(S, T, LANES)                                                                             \\
    static inline T volta_total##S(volta_v##S x) {                                                                  \\
        T lane[LANES]; int h, p;                                                                                    \\
        memcpy(lane, &x, sizeof(x));                                                                                \\
        for (h = LANES / 2; h > 0; h /= 2) for (p = 0; p < h; p++) lane[p] += lane[p + h];                          \\
        return lane[0];                                                                                             \\
    }
    #if defined(__AVX512F__)
    static inline float volta_total32(volta_v32 x) { return _mm512_reduce_add_ps((__m512)x); }
    static inline double volta_total64(volta_v64 x) { return _mm512_reduce_add_pd((__m512d)x); }
    #else
    VOLTA_TOTAL_OF(32, float, VOLTA_LANES32)
    VOLTA_TOTAL_OF(64, double, VOLTA_LANES64)
    #endif

    /* Where GCC would waste registers or instructions: sum += x * y, not over x or y; and x = row i of a, whose eight places are one
       address and four distances. */
    #if defined(__GNUC__) && !defined(__clang__) && defined(__AVX512F__)
      #define VOLTA_INTO(OP, sum, x, y) __asm__(OP " %2, %1, %0" : "+v"(sum) : "v"(x), "v"(y))
      #define VOLTA_FAR(OP, x, times, i) __asm__(OP " (%1, %2, " #times "), %0" : "=v"(x) : "r"(a), "r"(far[i]), "m"(*(const char (*)[])a))
      #define VOLTA_ROW(OP, x, i, ROWS)                                                                             \\
        if (i == 0) __asm__(OP " %1, %0" : "=v"(x) : "m"(*a));                                                      \\
        else if (ROWS <= VOLTA_TILE_ROWS / 2 || i % 2) VOLTA_FAR(OP, x, 1, i);                                      \\
        else if (i == 2) VOLTA_FAR(OP, x, 2, 1);                                                                    \\
        else if (i == 4) VOLTA_FAR(OP, x, 4, 1);                                                                    \\
        else VOLTA_FAR(OP, x, 2, i / 2)
      #define VOLTA_INTO32(sum, x, y) VOLTA_INTO("vfmadd231ps", sum, x, y)
      #define VOLTA_INTO64(sum, x, y) VOLTA_INTO("vfmadd231pd", sum, x, y)
      #define VOLTA_ROW32(x, i, ROWS) VOLTA_ROW("vbroadcastss", x, i, ROWS)
      #define VOLTA_ROW64(x, i, ROWS) VOLTA_ROW("vbroadcastsd", x, i, ROWS)
    #else
      #define VOLTA_INTO32(sum, x, y) sum = VOLTA_MADD32(x, y, sum); VOLTA_KEEP(sum)
      #define VOLTA_INTO64(sum, x, y) sum = VOLTA_MADD64(x, y, sum); VOLTA_KEEP(sum)
      #define VOLTA_ROW32(x, i, ROWS) x = VOLTA_SAME32(*(const float*)((const char*)a + far[i])); VOLTA_KEEP(x)
      #define VOLTA_ROW64(x, i, ROWS) x = VOLTA_SAME64(*(const double*)((const char*)a + far[i])); VOLTA_KEEP(x)
    #endif

    /* out[rows][N * LANES], of whose last vector `last` numbers exist, = products of a and b over p < k, + out if `add`, + bias; `rows`
       are at most ROWS. Meanwhile, every `stretch` of k, three cache lines of what is read next are fetched, `next_step` apart.
       EDGE: the last vector is masked, and b is copied in whole vectors, unless `copy` is NULL. */
    #define VOLTA_EXISTS(ROWS, i) (ROWS > VOLTA_TILE_ROWS / 2 || i < rows)      /* of others all are used */
    #define VOLTA_STEP(T, V, LANES, ROWS, N, S, EDGE) {                                                             \\
        V y[N], x;                                                                                                  \\
        VOLTA_UNROLL for (j = 0; j < N; j++)                                                                        \\
            y[j] = EDGE && j == N - 1 ? volta_part##S(b + j * LANES, last) : ((const V*)b)[j];                      \\
        if (EDGE && copy) {                                                                                         \\
            VOLTA_UNROLL for (j = 0; j < N; j++) ((V*)copy)[j] = y[j];                                              \\
            copy += N * LANES;                                                                                      \\
        }                                                                                                           \\
        VOLTA_UNROLL for (i = 0; i < ROWS; i++) {                                                                   \\
            VOLTA_ROW##S(x, i, ROWS);                                                                               \\
            VOLTA_UNROLL for (j = 0; j < N; j++) { VOLTA_INTO##S(sum[i][j], x, y[j]); }                             \\
        }                                                                                                           \\
        a += a_step;                                                                                                \\
        b += b_step;                                                                                                \\
    }
    #define VOLTA_MULTIPLY(NAME, T, V, LANES, ROWS, N, S, EDGE)                                                     \\
    static void NAME(Py_ssize_t k, const T* a, Py_ssize_t a_row, Py_ssize_t a_step, int rows, const T* b, Py_ssize_t b_step, \\
                     const T* next, Py_ssize_t next_step, Py_ssize_t stretch, T* out, Py_ssize_t out_row, int last, const T* bias, \\
                     int add, T* copy) {                                                                                     \\
        V sum[ROWS][N];                                                                                             \\
        Py_ssize_t far[ROWS];                        /* of rows of a from the first, in bytes */                     \\
        T* line = out;                                                                                              \\
        Py_ssize_t p = 0, end; int i, j, u;                                                                         \\
        VOLTA_UNROLL for (i = 0; i < ROWS; i++) {                                                                   \\
            far[i] = i == 0 ? 0 : far[i - 1] + (VOLTA_EXISTS(ROWS, i) ? a_row * (Py_ssize_t)sizeof(T) : 0);         \\
            VOLTA_HIDE(far[i]);                                                                                     \\
            VOLTA_UNROLL for (j = 0; j < N; j++) sum[i][j] = (V){0};                                                \\
        }                                                                                                           \\
        for (; p < k; next += next_step) {                                                                          \\
            VOLTA_UNROLL for (j = 0; j < 3; j++) VOLTA_PREFETCH((const char*)next + 64 * j);                        \\
            end = k - p < stretch ? k : p + stretch;                                                                \\
            for (; p + 4 <= end; p += 4) VOLTA_UNROLL for (u = 0; u < 4; u++) VOLTA_STEP(T, V, LANES, ROWS, N, S, EDGE)  \\
            for (; p < end; p++) VOLTA_STEP(T, V, LANES, ROWS, N, S, EDGE)                                          \\
        }                                                                                                           \\
        if (add)                                                                                                    \\
            VOLTA_UNROLL for (i = 0; i < ROWS; i++)                                                                 \\
                if (VOLTA_EXISTS(ROWS, i)) {                                                                        \\
                    VOLTA_UNROLL for (j = 0; j < N; j++) sum[i][j] += volta_part##S(line + j * LANES, j == N - 1 ? last : LANES);\\
                    line += out_row;                                                                                \\
                    VOLTA_HIDE(line);                                                                               \\
                }                                                                                                   \\
        if (bias)                                                                                                   \\
            VOLTA_UNROLL for (j = 0; j < N; j++) {                                                                  \\
                V x = volta_part##S(bias + j * LANES, j == N - 1 ? last : LANES);                                   \\
                VOLTA_UNROLL for (i = 0; i < ROWS; i++) sum[i][j] += x;                                             \\
            }                                                                                                       \\
        VOLTA_UNROLL for (i = 0; i < ROWS; i++)                                                                     \\
            if (VOLTA_EXISTS(ROWS, i)) {                                                                            \\
                VOLTA_UNROLL for (j = 0; j < N; j++) volta_put##S(out + j * LANES, sum[i][j], j == N - 1 ? last : LANES);\\
                out += out_row;                                                                                     \\
                VOLTA_HIDE(out);                                                                                    \\
            }                                                                                                       \\
    }
    #define VOLTA_WIDTH(S, T, ROWS, N)                                                                              \\
    VOLTA_MULTIPLY(volta_multiply##S##_##ROWS##_##N, T, volta_v##S, VOLTA_LANES##S, ROWS, N, S, 0)                  \\
    VOLTA_MULTIPLY(volta_multiply##S##_##ROWS##_##N##_edge, T, volta_v##S, VOLTA_LANES##S, ROWS, N, S, VOLTA_MASKED)
    #define VOLTA_MULTIPLIES(S, T, ROWS) VOLTA_WIDTH(S, T, ROWS, 1) VOLTA_WIDTH(S, T, ROWS, 2) VOLTA_WIDTH(S, T, ROWS, 3)
    #define VOLTA_WIDTH_OF(S, ROWS, N) {volta_multiply##S##_##ROWS##_##N, volta_multiply##S##_##ROWS##_##N##_edge}
    #define VOLTA_HEIGHT(S, ROWS) {VOLTA_WIDTH_OF(S, ROWS, 1), VOLTA_WIDTH_OF(S, ROWS, 2), VOLTA_WIDTH_OF(S, ROWS, 3)}
    #if VOLTA_TILE_ROWS == 8
      #define VOLTA_HEIGHTS(S, T) VOLTA_MULTIPLIES(S, T, 4) VOLTA_MULTIPLIES(S, T, 5) VOLTA_MULTIPLIES(S, T, 6)     \\
                                  VOLTA_MULTIPLIES(S, T, 7) VOLTA_MULTIPLIES(S, T, 8)
      #define VOLTA_HEIGHTS_OF(S) VOLTA_HEIGHT(S, 4), VOLTA_HEIGHT(S, 5), VOLTA_HEIGHT(S, 6), VOLTA_HEIGHT(S, 7), VOLTA_HEIGHT(S, 8)
    #else
      #define VOLTA_HEIGHTS(S, T) VOLTA_MULTIPLIES(S, T, 2) VOLTA_MULTIPLIES(S, T, 3) VOLTA_MULTIPLIES(S, T, 4)
      #define VOLTA_HEIGHTS_OF(S) VOLTA_HEIGHT(S, 2), VOLTA_HEIGHT(S, 3), VOLTA_HEIGHT(S, 4)
    #endif
    /* By the least height that has `rows` rows, of those from half a tile on. */
    #define VOLTA_MULTIPLY_OF(S, T)                                                                                 \\
    VOLTA_HEIGHTS(S, T)                                                                                             \\
    static void volta_multiply##S(Py_ssize_t k, const T* a, Py_ssize_t a_row, Py_ssize_t a_step, int rows, const T* b, Py_ssize_t b_step, \\
                                  const T* next, Py_ssize_t next_step, Py_ssize_t stretch, T* out, Py_ssize_t out_row, int columns,   \\
                                  const T* bias, int add, T* copy, int whole) {                                     \\
        static void (*const of[][3][2])(Py_ssize_t, const T*, Py_ssize_t, Py_ssize_t, int, const T*, Py_ssize_t, const T*, Py_ssize_t,   \\
                                     Py_ssize_t, T*, Py_ssize_t, int, const T*, int, T*) = {VOLTA_HEIGHTS_OF(S)};       \\
        const int n = (columns + VOLTA_LANES##S - 1) / VOLTA_LANES##S, low = VOLTA_TILE_ROWS / 2;                   \\
        const int last = columns - (n - 1) * VOLTA_LANES##S;                                                        \\
        of[rows > low ? rows - low : 0][n - 1][last < VOLTA_LANES##S && !whole || copy](k, a, a_row, a_step, rows, b, b_step, next, next_step,  \\
                                                                              stretch, out, out_row, last, bias, add, copy);          \\
    }
    VOLTA_MULTIPLY_OF(32, float)
    VOLTA_MULTIPLY_OF(64, double)

    /* sums[ROWS][N * LANES] += sum over p < k of a[p][ROWS] x row at[p] of b[][N * LANES]. */
    #define VOLTA_OUTER_AT(NAME, T, V, LANES, N, S)                                                                 \\
    static void NAME(Py_ssize_t k, const T* a, const int* at, const T* b, T* sums) {                                \\
        V sum[VOLTA_TILE_ROWS][N];                                                                                  \\
        Py_ssize_t p; int i, j;                                                                                     \\
        VOLTA_UNROLL for (i = 0; i < VOLTA_TILE_ROWS; i++)                                                          \\
            VOLTA_UNROLL for (j = 0; j < N; j++) sum[i][j] = ((V*)sums)[i * N + j];                                 \\
        for (p = 0; p < k; p++, a += VOLTA_TILE_ROWS) {                                                             \\
            const V* row = (const V*)(b + (Py_ssize_t)at[p] * (N * LANES));                                         \\
            V y[N];                                                                                                 \\
            VOLTA_UNROLL for (j = 0; j < N; j++) y[j] = row[j];                                                     \\
            VOLTA_UNROLL for (i = 0; i < VOLTA_TILE_ROWS; i++) {                                                    \\
                const T x = a[i];                                                                                   \\
                VOLTA_UNROLL for (j = 0; j < N; j++) sum[i][j] = VOLTA_MADD##S(VOLTA_SAME##S(x), y[j], sum[i][j]);  \\
            }                                                                                                       \\
        }                                                                                                           \\
        VOLTA_UNROLL for (i = 0; i < VOLTA_TILE_ROWS; i++)                                                          \\
            VOLTA_UNROLL for (j = 0; j < N; j++) ((V*)sums)[i * N + j] = sum[i][j];                                 \\
    }
    #define VOLTA_OUTERS_AT(S, T)                                                                                   \\
    VOLTA_OUTER_AT(volta_outer_at##S##_1, T, volta_v##S, VOLTA_LANES##S, 1, S)                                      \\
    VOLTA_OUTER_AT(volta_outer_at##S##_2, T, volta_v##S, VOLTA_LANES##S, 2, S)                                      \\
    VOLTA_OUTER_AT(volta_outer_at##S##_3, T, volta_v##S, VOLTA_LANES##S, 3, S)                                      \\
    static void volta_outer_at##S(Py_ssize_t k, const T* a, const int* at, const T* b, T* sums, int vectors) {      \\
        (vectors == 3 ? volta_outer_at##S##_3 : vectors == 2 ? volta_outer_at##S##_2 : volta_outer_at##S##_1)(k, a, at, b, sums); \\
    }
    VOLTA_OUTERS_AT(32, float)
    VOLTA_OUTERS_AT(64, double)

    /* sums[ROWS][3][LANES] += elementwise products of ROWS rows of a and 3 rows of b; n is a multiple of LANES. */
    #define VOLTA_INNER(NAME, T, V, LANES, S)                                                                       \\
    static void NAME(Py_ssize_t n, const T* a, Py_ssize_t lda, const T* b, Py_ssize_t ldb, T* sums) {             \\
        V sum[VOLTA_TILE_ROWS][3];                                                                                  \\
        Py_ssize_t p; int i, j;                                                                                     \\
        VOLTA_UNROLL for (i = 0; i < VOLTA_TILE_ROWS; i++)                                                          \\
            VOLTA_UNROLL for (j = 0; j < 3; j++) sum[i][j] = ((V*)sums)[i * 3 + j];                                 \\
        for (p = 0; p < n; p += LANES) {                                                                            \\
            V y[3];                                                                                                 \\
            VOLTA_UNROLL for (j = 0; j < 3; j++) {                                                                  \\
                y[j] = *(const V*)(b + j * ldb + p);                                                                \\
                VOLTA_PREFETCH(b + (j + 3) * ldb + p);               /* the rows of the next tile */                \\
            }                                                                                                       \\
            VOLTA_UNROLL for (i = 0; i < VOLTA_TILE_ROWS; i++) {                                                    \\
                V x = *(const V*)(a + i * lda + p);                                                                 \\
                VOLTA_KEEP(x);                                                                                      \\
                VOLTA_UNROLL for (j = 0; j < 3; j++) sum[i][j] = VOLTA_MADD##S(x, y[j], sum[i][j]);                 \\
            }                                                                                                       \\
        }                                                                                                           \\
        VOLTA_UNROLL for (i = 0; i < VOLTA_TILE_ROWS; i++)                                                          \\
            VOLTA_UNROLL for (j = 0; j < 3; j++) ((V*)sums)[i * 3 + j] = sum[i][j];                                 \\
    }
    VOLTA_INNER(volta_inner32, float, volta_v32, VOLTA_LANES32, 32)
    VOLTA_INNER(volta_inner64, double, volta_v64, VOLTA_LANES64, 64)

    /* Adds the upper half of each of n vectors of 2 * WIDTH numbers to the lower one. */
    #define VOLTA_HALVES(T, WIDTH, from, to)                                                                        \\
        for (i = 0; i < VOLTA_TILE_ROWS * 3; i++)                                                                   \\
            VOLTA_UNROLL for (j = 0; j < WIDTH; j++) to[i * WIDTH + j] = from[i * 2 * WIDTH + j] + from[i * 2 * WIDTH + WIDTH + j];
    /* out[ROWS * 3] = the sum of each vector of sums[ROWS * 3][LANES]. */
    #define VOLTA_ADD_LANES(NAME, T, LANES)                                                                         \\
    static void NAME(const T* sums, T* out) {                                                                       \\
        T a[VOLTA_TILE_ROWS * 3 * LANES], b[VOLTA_TILE_ROWS * 3 * LANES];                                           \\
        int i, j;                                                                                                   \\
        memcpy(a, sums, sizeof(a));                                                                                 \\
        if (LANES == 16) { VOLTA_HALVES(T, 8, a, b) memcpy(a, b, sizeof(a) / 2); }                                  \\
        if (LANES >= 8) { VOLTA_HALVES(T, 4, a, b) memcpy(a, b, VOLTA_TILE_ROWS * 12 * sizeof(T)); }                \\
        if (LANES >= 4) { VOLTA_HALVES(T, 2, a, b) memcpy(a, b, VOLTA_TILE_ROWS * 6 * sizeof(T)); }                 \\
        if (LANES >= 2) VOLTA_HALVES(T, 1, a, b) else memcpy(b, a, sizeof(a));                                      \\
        memcpy(out, b, VOLTA_TILE_ROWS * 3 * sizeof(T));                                                            \\
    }
    VOLTA_ADD_LANES(volta_add_lanes32, float, VOLTA_LANES32)
    VOLTA_ADD_LANES(volta_add_lanes64, double, VOLTA_LANES64)

    /* out[full] = x[n], then zeros. */
    #define VOLTA_PADDED(S, T, LANES)                                                                               \\
    static inline void volta_padded##S(T* out, const T* x, Py_ssize_t n, Py_ssize_t full) {                           \\
        for (; full > 0; out += LANES, x += LANES, n -= LANES, full -= LANES)                                       \\
            volta_put##S(out, volta_part##S(x, n < 0 ? 0 : n < LANES ? (int)n : LANES), full < LANES ? (int)full : LANES);\\
    }
    VOLTA_PADDED(32, float, VOLTA_LANES32)
    VOLTA_PADDED(64, double, VOLTA_LANES64)

    /* Copies n elements in whole vectors: up to LANES - 1 elements beyond the end are read and written too. */
    #define VOLTA_RUN(NAME, T, V, LANES)                                                                            \\
    static inline void NAME(T* out, const T* x, Py_ssize_t n) {                                                   \\
        Py_ssize_t i = 0;                                                                                           \\
        do { *(V*)(out + i) = *(const V*)(x + i); i += LANES; } while (i < n);                                      \\
    }
    VOLTA_RUN(volta_run32, float, volta_v32, VOLTA_LANES32)
    VOLTA_RUN(volta_run64, double, volta_v64, VOLTA_LANES64)

    /* The same with zeros; n may be 0. */
    #define VOLTA_ZERO(NAME, T, V, LANES)                                                                           \\
    static inline void NAME(T* out, Py_ssize_t n) {                                                               \\
        Py_ssize_t i;                                                                                               \\
        for (i = 0; i < n; i += LANES) *(V*)(out + i) = (V){0};                                                     \\
    }
    VOLTA_ZERO(volta_zero32, float, volta_v32, VOLTA_LANES32)
    VOLTA_ZERO(volta_zero64, double, volta_v64, VOLTA_LANES64)
    """
    const int TILE_ROWS "VOLTA_TILE_ROWS"
    const int LANES32 "VOLTA_LANES32"
    const int LANES64 "VOLTA_LANES64"
    const bint MASKED "VOLTA_MASKED"                    # whether `multiply` reads no more of b than its columns
    void multiply32 "volta_multiply32"(Py_ssize_t k, const float* a, Py_ssize_t a_row, Py_ssize_t a_step, int rows, const float* b,
                                       Py_ssize_t b_step, const float* next, Py_ssize_t next_step, Py_ssize_t stretch, float* out,
                                       Py_ssize_t out_row, int columns, const float* bias, bint add, float* copy, bint whole) noexcept nogil
    void multiply64 "volta_multiply64"(Py_ssize_t k, const double* a, Py_ssize_t a_row, Py_ssize_t a_step, int rows, const double* b,
                                       Py_ssize_t b_step, const double* next, Py_ssize_t next_step, Py_ssize_t stretch, double* out,
                                       Py_ssize_t out_row, int columns, const double* bias, bint add, double* copy, bint whole) noexcept nogil
    void outer_at32 "volta_outer_at32"(Py_ssize_t k, const float* a, const int* at, const float* b, float* sums,
                                       int vectors) noexcept nogil
    void outer_at64 "volta_outer_at64"(Py_ssize_t k, const double* a, const int* at, const double* b, double* sums,
                                       int vectors) noexcept nogil
    void inner32 "volta_inner32"(Py_ssize_t n, const float* a, Py_ssize_t lda, const float* b, Py_ssize_t ldb,
                                 float* sums) noexcept nogil
    void inner64 "volta_inner64"(Py_ssize_t n, const double* a, Py_ssize_t lda, const double* b, Py_ssize_t ldb,
                                 double* sums) noexcept nogil
    void add_lanes32 "volta_add_lanes32"(const float* sums, float* out) noexcept nogil
    void add_lanes64 "volta_add_lanes64"(const double* sums, double* out) noexcept nogil
    void padded32 "volta_padded32"(float* out, const float* x, Py_ssize_t n, Py_ssize_t full) noexcept nogil
    void padded64 "volta_padded64"(double* out, const double* x, Py_ssize_t n, Py_ssize_t full) noexcept nogil
    void run32 "volta_run32"(float* out, const float* x, Py_ssize_t n) noexcept nogil
    void run64 "volta_run64"(double* out, const double* x, Py_ssize_t n) noexcept nogil
    void zero32 "volta_zero32"(float* out, Py_ssize_t n) noexcept nogil
    void zero64 "volta_zero64"(double* out, Py_ssize_t n) noexcept nogil

ctypedef fused real:
    float
    double


cdef inline int lanes(real* kind) noexcept nogil:
    """Elements of one vector. The argument only names the type."""
    if real is float:
        return LANES32
    else:
        return LANES64


cdef inline void multiply_ahead(Py_ssize_t k, const real* a, Py_ssize_t a_row, Py_ssize_t a_step, int rows, const real* b,
                                Py_ssize_t b_step, const real* next, Py_ssize_t next_step, Py_ssize_t stretch, real* out,
                                Py_ssize_t out_row, int columns, const real* bias, bint add, real* copy, bint whole) noexcept nogil:
    """`multiply`, during which the caches fetch what is read next: the beginning of a line every `stretch` of k, from `next` on
    `next_step` apart. Where MASKED, b is copied to `copy`, too, a row of whole vectors behind the other; NULL for not. IN: whole, that b
    has whole vectors anyway."""
    if real is float:
        multiply32(k, a, a_row, a_step, rows, b, b_step, next, next_step, stretch, out, out_row, columns, bias, add, copy, whole)
    else:
        multiply64(k, a, a_row, a_step, rows, b, b_step, next, next_step, stretch, out, out_row, columns, bias, add, copy, whole)


cdef inline void multiply(Py_ssize_t k, const real* a, Py_ssize_t a_row, Py_ssize_t a_step, int rows, const real* b, Py_ssize_t b_step,
                          real* out, Py_ssize_t out_row, int columns, const real* bias, bint add) noexcept nogil:
    """out[rows][columns] = a[rows][k] @ b[k][columns] + bias (NULL for none), + out if `add`; all where they lie. IN: at most TILE_ROWS
    rows and 3 vectors of columns, which have to be whole in b unless MASKED."""
    multiply_ahead(k, a, a_row, a_step, rows, b, b_step, b, 0, k, out, out_row, columns, bias, add, <real*>NULL, False)


cdef inline void outer_at(Py_ssize_t k, const real* a, const int* at, const real* b, real* sums, int vectors) noexcept nogil:
    """sums[TILE_ROWS][vectors * lanes] += products of a[k][TILE_ROWS] and the rows at[k] of b[][vectors * lanes]."""
    if real is float:
        outer_at32(k, a, at, b, sums, vectors)
    else:
        outer_at64(k, a, at, b, sums, vectors)


cdef inline void inner(Py_ssize_t n, const real* a, Py_ssize_t lda, const real* b, Py_ssize_t ldb,
                       real* sums) noexcept nogil:
    """sums[TILE_ROWS][3][lanes] += products of the rows of a and of 3 rows of b; IN: n a multiple of lanes."""
    if real is float:
        inner32(n, a, lda, b, ldb, sums)
    else:
        inner64(n, a, lda, b, ldb, sums)


cdef inline void add_lanes(const real* sums, real* out) noexcept nogil:
    """out[TILE_ROWS * 3] = the sums of the lanes of sums[TILE_ROWS][3][lanes]."""
    if real is float:
        add_lanes32(sums, out)
    else:
        add_lanes64(sums, out)


cdef inline void copy_line(real* out, const real* x, Py_ssize_t n, Py_ssize_t full) noexcept nogil:
    """out[:full] = x[:n], then zeros."""
    if real is float:
        padded32(out, x, n, full)
    else:
        padded64(out, x, n, full)


cdef inline void copy_run(real* out, const real* x, Py_ssize_t n) noexcept nogil:
    """out[:n] = x[:n] in whole vectors; both need a vector's room beyond the end."""
    if real is float:
        run32(out, x, n)
    else:
        run64(out, x, n)


cdef inline void zero_run(real* out, Py_ssize_t n) noexcept nogil:
    """out[:n] = 0 in whole vectors; needs a vector's room beyond the end."""
    if real is float:
        zero32(out, n)
    else:
        zero64(out, n)
