# Functions of float32 lines in vectors of AVX-512, which has instructions that compilers make no use of by themselves (scaling by powers
# of two, least and greatest, reciprocals). Each returns how many of the n elements it has done: all, or none in other builds, where loops
# over the functions of scalar.pxd do them. As accurate as those. `out` may be x.
from volta._kernels.cpu cimport scalar

cdef extern from * nogil:
    """
    #ifndef VOLTA_VECTORS
    #define VOLTA_VECTORS
    #if defined(__AVX512F__) && defined(__AVX512DQ__) && defined(__GNUC__)
      #include <immintrin.h>
      #define VOLTA_IN_VECTORS 1
      typedef __m512 volta_v;
      #define V_SET(c) _mm512_set1_ps(c)
      #define V_ADD(a, b) _mm512_add_ps(a, b)
      #define V_SUB(a, b) _mm512_sub_ps(a, b)
      #define V_MUL(a, b) _mm512_mul_ps(a, b)
      #define V_FMA(a, b, c) _mm512_fmadd_ps(a, b, c)
      #define V_NEG_FMA(a, b, c) _mm512_fnmadd_ps(a, b, c)              /* c - a * b */
      #define V_MAX(c, x) _mm512_max_ps(c, x)                           /* a NaN in x stays */
      #define V_MIN(c, x) _mm512_min_ps(c, x)
      #define V_ABS(x) _mm512_abs_ps(x)
      #define V_SCALE(p, n) _mm512_scalef_ps(p, n)                      /* p * 2**n, right when denormal or infinite */
      #define V_NEGATIVE(x) _mm512_movepi32_mask(_mm512_castps_si512(x))
      #define V_PICK(k, a, b) _mm512_mask_mov_ps(b, k, a)               /* k ? a : b */
      #define V_WITH_SIGN(magnitude, sign) _mm512_castsi512_ps(_mm512_ternarylogic_epi32(_mm512_set1_epi32(0x7fffffff),        \\
          _mm512_castps_si512(magnitude), _mm512_castps_si512(sign), 0xca))

      /* a / d, for d from 1e-37 to 1e37 */
      VOLTA_INLINE volta_v v_ratio(volta_v a, volta_v d) {
          volta_v y = _mm512_rcp14_ps(d), q = V_MUL(a, y);
          return V_FMA(V_NEG_FMA(q, d, a), y, q);
      }
      /* exp(r) - 1 for |r| <= ln 2 / 2 */
      VOLTA_INLINE volta_v v_exp_reduced(volta_v r) {
          volta_v p = V_SET(1.38145976e-3f);
          p = V_FMA(p, r, V_SET(8.36871658e-3f));
          p = V_FMA(p, r, V_SET(4.1668389e-2f));
          p = V_FMA(p, r, V_SET(0.166665211f));
          p = V_FMA(p, r, V_SET(0.49999994f));
          return V_FMA(p, V_MUL(r, r), r);
      }
      VOLTA_INLINE volta_v v_exp_below(volta_v x) {                     /* for x up to 89 */
          volta_v c = V_MAX(V_SET(-104), x), k = V_SUB(V_FMA(c, V_SET(1.44269504f), V_SET(VOLTA_ROUNDER)), V_SET(VOLTA_ROUNDER));
          volta_v r = V_FMA(k, V_SET(2.12194440e-4f), V_FMA(k, V_SET(-0.693359375f), c));
          return V_SCALE(V_ADD(V_SET(1), v_exp_reduced(r)), k);
      }
      VOLTA_INLINE volta_v v_exp(volta_v x) { return v_exp_below(V_MIN(V_SET(89), x)); }
      VOLTA_INLINE volta_v v_sigmoid(volta_v x) {
          volta_v e = v_exp_below(V_WITH_SIGN(x, V_SET(-1)));
          return v_ratio(V_PICK(V_NEGATIVE(x), e, V_SET(1)), V_ADD(V_SET(1), e));
      }
      VOLTA_INLINE volta_v v_silu(volta_v x) { return V_MUL(x, v_sigmoid(x)); }
      /* m / (m + 2), m = exp(2 |x|) - 1. Where k ln 2 is inexact, m is large and its errors are small in the ratio. */
      VOLTA_INLINE volta_v v_tanh(volta_v x) {
          volta_v a = V_MIN(V_SET(10), V_ABS(x)), c = V_ADD(a, a), t = V_FMA(c, V_SET(1.44269504f), V_SET(VOLTA_ROUNDER));
          volta_v p = v_exp_reduced(V_FMA(V_SUB(t, V_SET(VOLTA_ROUNDER)), V_SET(-0.693147182f), c));
          volta_v scale = _mm512_castsi512_ps(_mm512_add_epi32(_mm512_slli_epi32(_mm512_castps_si512(t), 23),
                                                               _mm512_castps_si512(V_SET(1))));
          volta_v m = V_FMA(p, scale, V_SUB(scale, V_SET(1)));
          return V_WITH_SIGN(v_ratio(m, V_ADD(m, V_SET(2))), x);
      }
      VOLTA_INLINE volta_v v_erf(volta_v x) {
          volta_v z = V_MUL(x, x), a = V_ABS(x), c = V_MIN(V_SET(4), a), p = V_SET(7.87587487e-5f), q = V_SET(-1.62267918e-6f);
          p = V_FMA(p, z, V_SET(-8.01686430e-4f));
          p = V_FMA(p, z, V_SET(5.18908724e-3f));
          p = V_FMA(p, z, V_SET(-2.68542115e-2f));
          p = V_FMA(p, z, V_SET(1.12835944e-1f));
          p = V_FMA(p, z, V_SET(-3.76126260e-1f));
          p = V_FMA(p, z, V_SET(1.12837911f));
          q = V_FMA(q, c, V_SET(4.57862479e-5f));
          q = V_FMA(q, c, V_SET(-5.94631769e-4f));
          q = V_FMA(q, c, V_SET(4.74993512e-3f));
          q = V_FMA(q, c, V_SET(-2.63950545e-2f));
          q = V_FMA(q, c, V_SET(1.10036284e-1f));
          q = V_FMA(q, c, V_SET(6.31870747e-1f));
          q = V_FMA(q, c, V_SET(1.13020804f));
          q = V_FMA(q, c, V_SET(-3.13977100e-4f));
          volta_v large = V_WITH_SIGN(V_SUB(V_SET(1), v_exp_below(V_SUB(V_SET(0), q))), x);
          return V_PICK(_mm512_cmp_ps_mask(a, V_SET(1), _CMP_LT_OQ), V_MUL(p, x), large);
      }
      VOLTA_INLINE volta_v v_gelu(volta_v x) {
          volta_v e = v_exp_below(V_MUL(V_MUL(V_SET(-0.5f), x), x));
          volta_v t = v_ratio(V_SET(1), V_MIN(V_SET(1e30f), V_FMA(V_ABS(x), V_SET(0.265165043f), V_SET(1)))), p = V_SET(0.0307697821f);
          p = V_FMA(p, t, V_SET(-0.143667221f));
          p = V_FMA(p, t, V_SET(0.216203377f));
          p = V_FMA(p, t, V_SET(-0.114710853f));
          p = V_FMA(p, t, V_SET(0.13686493f));
          p = V_FMA(p, t, V_SET(0.0607514866f));
          p = V_FMA(p, t, V_SET(0.102656968f));
          p = V_FMA(p, t, V_SET(0.105324797f));
          p = V_MUL(V_MUL(V_FMA(p, t, V_SET(0.105806738f)), t), e);
          return V_MUL(x, V_PICK(V_NEGATIVE(x), p, V_SUB(V_SET(1), p)));
      }
      #define VOLTA_LINE(NAME, ARGUMENTS, TERM)                                                                       \\
        static inline Py_ssize_t NAME(float *out, const float *x, ARGUMENTS Py_ssize_t n) {                           \\
            Py_ssize_t i = 0;                                                                                         \\
            volta_v v;                                                                                                \\
            for (; i + 16 <= n; i += 16) {                                                                            \\
                v = _mm512_loadu_ps(x + i);                                                                           \\
                _mm512_storeu_ps(out + i, TERM);                                                                      \\
            }                                                                                                         \\
            if (i < n) {                                                                                              \\
                v = _mm512_maskz_loadu_ps((__mmask16)((1u << (n - i)) - 1), x + i);                                   \\
                _mm512_mask_storeu_ps(out + i, (__mmask16)((1u << (n - i)) - 1), TERM);                               \\
            }                                                                                                         \\
            return n;                                                                                                 \\
        }
      /* out = exp(x - shift), unless out is NULL, and the sum in *total. */
      static inline Py_ssize_t volta_exp_sum_line(float *out, const float *x, float shift, double *total, Py_ssize_t n) {
          Py_ssize_t i = 0, stop;
          volta_v s = V_SET(shift);
          while (i < n) {
              volta_v v, w, a = V_SET(0), b = a;
              stop = n - i < 1024 ? n : i + 1024;
              for (; i + 32 <= stop; i += 32) {
                  v = v_exp(V_SUB(_mm512_loadu_ps(x + i), s));
                  w = v_exp(V_SUB(_mm512_loadu_ps(x + i + 16), s));
                  if (out) { _mm512_storeu_ps(out + i, v); _mm512_storeu_ps(out + i + 16, w); }
                  a = V_ADD(a, v);
                  b = V_ADD(b, w);
              }
              for (; i < stop; i += 16) {
                  __mmask16 k = stop - i < 16 ? (__mmask16)((1u << (stop - i)) - 1) : (__mmask16)0xffff;
                  v = v_exp(_mm512_maskz_sub_ps(k, _mm512_maskz_loadu_ps(k, x + i), s));
                  if (out) _mm512_mask_storeu_ps(out + i, k, v);
                  a = _mm512_mask_add_ps(a, k, a, v);
              }
              *total += _mm512_reduce_add_ps(V_ADD(a, b));
              i = stop;
          }
          return n;
      }
    #else
      #define VOLTA_LINE(NAME, ARGUMENTS, TERM)                                                                       \\
        static inline Py_ssize_t NAME(float *out, const float *x, ARGUMENTS Py_ssize_t n) { return 0; }
      static inline Py_ssize_t volta_exp_sum_line(float *out, const float *x, float shift, double *total, Py_ssize_t n) { return 0; }
    #endif
    #define VOLTA_SHIFT float shift,
    VOLTA_LINE(volta_exp_line, , v_exp(v))
    VOLTA_LINE(volta_exp_away_line, VOLTA_SHIFT, v_exp(V_SUB(v, V_SET(shift))))
    #define VOLTA_SHIFTS const float *shift,
    VOLTA_LINE(volta_exp_each_line, VOLTA_SHIFTS, v_exp(V_SUB(v, _mm512_loadu_ps(shift + i))))
    VOLTA_LINE(volta_sigmoid_line, , v_sigmoid(v))
    VOLTA_LINE(volta_silu_line, , v_silu(v))
    VOLTA_LINE(volta_tanh_line, , v_tanh(v))
    VOLTA_LINE(volta_erf_line, , v_erf(v))
    VOLTA_LINE(volta_gelu_line, , v_gelu(v))
    #endif
    """
    # Several in a line, by their arguments.
    Py_ssize_t exp_line "volta_exp_line"(float* out, const float* x, Py_ssize_t n)
    Py_ssize_t sigmoid_line "volta_sigmoid_line"(float* out, const float* x, Py_ssize_t n)
    Py_ssize_t silu_line "volta_silu_line"(float* out, const float* x, Py_ssize_t n)
    Py_ssize_t tanh_line "volta_tanh_line"(float* out, const float* x, Py_ssize_t n)
    Py_ssize_t erf_line "volta_erf_line"(float* out, const float* x, Py_ssize_t n)
    Py_ssize_t gelu_line "volta_gelu_line"(float* out, const float* x, Py_ssize_t n)
    Py_ssize_t exp_away_line "volta_exp_away_line"(float* out, const float* x, float shift, Py_ssize_t n)   # exp(x - shift)
    Py_ssize_t exp_sum_line "volta_exp_sum_line"(float* out, const float* x, float shift, double* total, Py_ssize_t n)
    # exp(x - shift[i]); memory of `shift` to a multiple of 16
    Py_ssize_t exp_each_line "volta_exp_each_line"(float* out, const float* x, const float* shift, Py_ssize_t n)
