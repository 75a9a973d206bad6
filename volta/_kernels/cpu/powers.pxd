# Exponentials of attention's scores, which are in units of log 2: powers of two, and what is computed beside them.
#
# Layout: rows of `vectors` (1, 2 or 3) vectors. Threads: none. Sizes: the caller's.

from volta._kernels.cpu.doubles cimport exp2_f64            # its declarations come with it
from volta._kernels.cpu.real cimport real
from volta._kernels.cpu.tile cimport LANES32          # for what the C below takes of it

cdef extern from *:
    """
    #if defined(_MSC_VER)
      #define VOLTA_R __restrict
      #define VOLTA_ONCE __declspec(noinline)
    #else
      #define VOLTA_R __restrict__
      #define VOLTA_ONCE __attribute__((noinline))
    #endif
    /* 2**x within 1 ulp, 0 below 2**-126: shorter than exp2_f32. */
    VOLTA_INLINE float volta_power32(float x) {
        float c = x < -127.0f ? -127.0f : x;
        c = c > 128.0f ? 128.0f : c;
        float t = c + VOLTA_ROUNDER, r = c - (t - VOLTA_ROUNDER), p = 1.53533621e-4f;
        p = VOLTA_FMA(p, r, 1.33988746e-3f);
        p = VOLTA_FMA(p, r, 9.61843736e-3f);
        p = VOLTA_FMA(p, r, 5.55033247e-2f);
        p = VOLTA_FMA(p, r, 2.40226479e-1f);
        p = VOLTA_FMA(p, r, 6.93147203e-1f);
        p = VOLTA_FMA(p, r, 1.0f);
        return p * volta_float((int32_t)((uint32_t)(volta_bits(t) + 127) << 23));
    }
    #define volta_power64(x) exp2_f64(x)

    /* Powers of scores[n][WIDTH], in rows of `wide`, in their place, against the largest so far; OUT: factor, of what was summed before. */
    #define VOLTA_SOFTEN(NAME, T, S, WIDTH)                                                                         \\
    static VOLTA_ONCE void NAME(Py_ssize_t n, Py_ssize_t wide, T* VOLTA_R scores, T* VOLTA_R top, T* VOLTA_R total, T* VOLTA_R factor) { \\
        T best[WIDTH], sums[WIDTH];                                                                                 \\
        Py_ssize_t i; int j;                                                                                        \\
        for (j = 0; j < WIDTH; j++) { best[j] = top[j]; sums[j] = 0; }                                              \\
        for (i = 0; i < n; i++)                                                                                     \\
            for (j = 0; j < WIDTH; j++) best[j] = scores[i * wide + j] > best[j] ? scores[i * wide + j] : best[j];  \\
        for (i = 0; i < n; i++)                                                                                     \\
            for (j = 0; j < WIDTH; j++) {                                                                           \\
                T p = volta_power##S(scores[i * wide + j] - best[j]);                                               \\
                scores[i * wide + j] = p;                                                                           \\
                sums[j] += p;                                                                                       \\
            }                                                                                                       \\
        for (j = 0; j < WIDTH; j++) {                                                                               \\
            factor[j] = volta_power##S(top[j] - best[j]);                                                           \\
            total[j] = total[j] * factor[j] + sums[j];                                                              \\
            top[j] = best[j];                                                                                       \\
        }                                                                                                           \\
    }
    /* Probabilities in the place of scores[n][WIDTH], in rows of `wide`, and the gradients of scores in that of the products of g and v.
       IN: stats, of each row the greatest score and one over the sum of the powers against it. */
    #define VOLTA_SLOPES(NAME, T, S, WIDTH)                                                                         \\
    static void NAME(Py_ssize_t n, Py_ssize_t wide, Py_ssize_t line, const T* VOLTA_R stats, const T* VOLTA_R delta, \\
                     T* VOLTA_R scores, T* VOLTA_R slopes) {                                                        \\
        Py_ssize_t i; int j;                                                                                        \\
        for (i = 0; i < n; i++) {                                                                                   \\
            const T top = stats[2 * i], part = stats[2 * i + 1], d = delta[i];                                      \\
            for (j = 0; j < WIDTH; j++) {                                                                           \\
                T p = volta_power##S(scores[i * wide + j] - top) * part;                                            \\
                scores[i * wide + j] = p;                                                                           \\
                slopes[i * line + j] = p * (slopes[i * line + j] - d);                                              \\
            }                                                                                                       \\
        }                                                                                                           \\
    }
    #define VOLTA_WIDTHS(NAME, MACRO, T, S, LANES)                                                                  \\
        MACRO(NAME##_1, T, S, LANES) MACRO(NAME##_2, T, S, 2 * LANES) MACRO(NAME##_3, T, S, 3 * LANES)
    VOLTA_WIDTHS(volta_soften32, VOLTA_SOFTEN, float, 32, VOLTA_LANES32)
    VOLTA_WIDTHS(volta_soften64, VOLTA_SOFTEN, double, 64, VOLTA_LANES64)
    VOLTA_WIDTHS(volta_slopes32, VOLTA_SLOPES, float, 32, VOLTA_LANES32)
    VOLTA_WIDTHS(volta_slopes64, VOLTA_SLOPES, double, 64, VOLTA_LANES64)
    #define VOLTA_OF_WIDTH(name, vectors) ((vectors) == 3 ? name##_3 : (vectors) == 2 ? name##_2 : name##_1)
    #define volta_soften32(vectors, ...) VOLTA_OF_WIDTH(volta_soften32, vectors)(__VA_ARGS__)
    #define volta_soften64(vectors, ...) VOLTA_OF_WIDTH(volta_soften64, vectors)(__VA_ARGS__)
    #define volta_slopes32(vectors, ...) VOLTA_OF_WIDTH(volta_slopes32, vectors)(__VA_ARGS__)
    #define volta_slopes64(vectors, ...) VOLTA_OF_WIDTH(volta_slopes64, vectors)(__VA_ARGS__)
    """
    void soften32 "volta_soften32"(Py_ssize_t vectors, Py_ssize_t n, Py_ssize_t wide, float* scores, float* top, float* total,
                                   float* factor) noexcept nogil
    void soften64 "volta_soften64"(Py_ssize_t vectors, Py_ssize_t n, Py_ssize_t wide, double* scores, double* top, double* total,
                                   double* factor) noexcept nogil
    void slopes32 "volta_slopes32"(Py_ssize_t vectors, Py_ssize_t n, Py_ssize_t wide, Py_ssize_t line,
                                   const float* stats, const float* delta, float* scores, float* slopes) noexcept nogil
    void slopes64 "volta_slopes64"(Py_ssize_t vectors, Py_ssize_t n, Py_ssize_t wide, Py_ssize_t line,
                                   const double* stats, const double* delta, double* scores, double* slopes) noexcept nogil


cdef inline void soften(Py_ssize_t vectors, Py_ssize_t n, Py_ssize_t wide, real* scores, real* top, real* total,
                        real* factor) noexcept nogil:
    """Powers of n rows of scores, `wide` apart, in their place, against the largest so far; OUT: factor, of what was summed before."""
    if real is float:
        soften32(vectors, n, wide, scores, top, total, factor)
    else:
        soften64(vectors, n, wide, scores, top, total, factor)


cdef inline void slopes(Py_ssize_t vectors, Py_ssize_t n, Py_ssize_t wide, Py_ssize_t line, const real* stats,
                        const real* delta, real* scores, real* products) noexcept nogil:
    """Probabilities in the place of n rows of scores, `wide` apart, and their gradients in that of products of g and v, `line` apart."""
    if real is float:
        slopes32(vectors, n, wide, line, stats, delta, scores, products)
    else:
        slopes64(vectors, n, wide, line, stats, delta, scores, products)
