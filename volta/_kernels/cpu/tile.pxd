# Vectors of the instruction set, of which the tiles of products in multiply.pyx and weight_tile.pxd are made, and lines copied in them.
#
# A tile is TILE_ROWS x (3 vectors) accumulators, which fills the vector registers of the instruction set. C, since it
# needs vector types: GCC and Clang have them; elsewhere a "vector" is one number and the same code is correct but slow.
# Layout: panels are padded by the caller (see each function). Threads: none. Sizes: the caller's, nothing is checked.

from volta._kernels.cpu cimport vector_lanes                    # for what the C below takes of it
from volta._kernels.cpu.real cimport real

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
    #if defined(__AVX512F__)
      #define VOLTA_BROAD 6                               /* vectors of a tile of half the rows */
    #else
      #define VOLTA_BROAD 3
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
    /* sum += x * y. Of 16 registers, all of which a tile takes, GCC wastes some: there as written, not over x or y, both loaded once. */
    #if defined(__GNUC__) && !defined(__clang__) && defined(__FMA__) && !defined(__AVX512F__)
      #define VOLTA_PLUS32(sum, x, y) __asm__("vfmadd231ps %2, %1, %0" : "+x"(sum) : "x"(x), "x"(y))
      #define VOLTA_PLUS64(sum, x, y) __asm__("vfmadd231pd %2, %1, %0" : "+x"(sum) : "x"(x), "x"(y))
      #define VOLTA_FOUR_STEPS _Pragma("GCC unroll 4")       /* of a tile's loop: what counts them would take a sixth of its time */
    #else
      #define VOLTA_PLUS32(sum, x, y) sum = VOLTA_MADD32(x, y, sum)
      #define VOLTA_PLUS64(sum, x, y) sum = VOLTA_MADD64(x, y, sum)
      #define VOLTA_FOUR_STEPS
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
    #elif defined(__FMA__) && defined(__AVX2__)
    #define VOLTA_MASKED 0                              /* for loads alone: a masked store takes as long as a line of whole ones */
    static inline volta_v32 volta_part32(const float* x, int n) {
        if (n == VOLTA_LANES32) return *(const volta_v32*)x;
        return (volta_v32)_mm256_maskload_ps(x, VOLTA_FIRST(n, float));
    }
    static inline volta_v64 volta_part64(const double* x, int n) {
        if (n == VOLTA_LANES64) return *(const volta_v64*)x;
        return (volta_v64)_mm256_maskload_pd(x, VOLTA_FIRST(n, double));
    }
    static inline void volta_put32(float* out, volta_v32 x, int n) {
        __m128 part = _mm256_castps256_ps128((__m256)x);
        if (n == VOLTA_LANES32) { *(volta_v32*)out = x; return; }
        if (n & 4) { _mm_storeu_ps(out, part); out += 4; part = _mm256_extractf128_ps((__m256)x, 1); }
        if (n & 2) { _mm_storel_pi((__m64*)out, part); out += 2; part = _mm_movehl_ps(part, part); }
        if (n & 1) _mm_store_ss(out, part);
    }
    static inline void volta_put64(double* out, volta_v64 x, int n) {
        __m128d part = _mm256_castpd256_pd128((__m256d)x);
        if (n == VOLTA_LANES64) { *(volta_v64*)out = x; return; }
        if (n & 2) { _mm_storeu_pd(out, part); out += 2; part = _mm256_extractf128_pd((__m256d)x, 1); }
        if (n & 1) _mm_store_sd(out, part);
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
    #elif defined(__FMA__)
    static inline float volta_total32(volta_v32 x) {
        __m128 half = _mm_add_ps(_mm256_castps256_ps128((__m256)x), _mm256_extractf128_ps((__m256)x, 1));
        half = _mm_add_ps(half, _mm_movehl_ps(half, half));
        return _mm_cvtss_f32(_mm_add_ss(half, _mm_movehdup_ps(half)));
    }
    static inline double volta_total64(volta_v64 x) {
        __m128d half = _mm_add_pd(_mm256_castpd256_pd128((__m256d)x), _mm256_extractf128_pd((__m256d)x, 1));
        return _mm_cvtsd_f64(_mm_add_sd(half, _mm_unpackhi_pd(half, half)));
    }
    #else
    VOLTA_TOTAL_OF(32, float, VOLTA_LANES32)
    VOLTA_TOTAL_OF(64, double, VOLTA_LANES64)
    #endif

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
    const int BROAD "VOLTA_BROAD"
    const int LANES32 "VOLTA_LANES32"
    const int LANES64 "VOLTA_LANES64"
    const bint MASKED "VOLTA_MASKED"                    # whether `multiply` reads no more of b than its columns
    void padded32 "volta_padded32"(float* out, const float* x, Py_ssize_t n, Py_ssize_t full) noexcept nogil
    void padded64 "volta_padded64"(double* out, const double* x, Py_ssize_t n, Py_ssize_t full) noexcept nogil
    void run32 "volta_run32"(float* out, const float* x, Py_ssize_t n) noexcept nogil
    void run64 "volta_run64"(double* out, const double* x, Py_ssize_t n) noexcept nogil
    void zero32 "volta_zero32"(float* out, Py_ssize_t n) noexcept nogil
    void zero64 "volta_zero64"(double* out, Py_ssize_t n) noexcept nogil


cdef inline int lanes(real* kind) noexcept nogil:
    """Elements of one vector. The argument only names the type."""
    if real is float:
        return LANES32
    else:
        return LANES64


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
