# exp of float32 lines in vectors of AVX2, as vectors.pxd has it for AVX-512: loops over exp_f32, whose formula this is, take a third
# longer, since compilers make no instructions of its bounds. Each returns how many of the n elements it has done: all, or none in other
# builds. `out` may be x.
from volta._kernels.cpu cimport bits, vector_lanes              # for what the C below takes of them
from volta._kernels.cpu.vectors cimport exp_line

cdef extern from * nogil:
    """
    #ifndef VOLTA_EXP_LINES
    #define VOLTA_EXP_LINES
    #if defined(__AVX2__) && defined(__FMA__) && defined(__GNUC__) && VOLTA_WIDE == 32
      /* exp(c) by its power of two, which is in the lowest bits of t. */
      VOLTA_INLINE __m256 volta_exp8_unscaled(__m256 c, __m256i *t) {
          const __m256 rounded = _mm256_fmadd_ps(c, _mm256_set1_ps(1.44269504f), _mm256_set1_ps(VOLTA_ROUNDER));
          const __m256 k = _mm256_sub_ps(rounded, _mm256_set1_ps(VOLTA_ROUNDER));
          const __m256 r = _mm256_fmadd_ps(k, _mm256_set1_ps(2.12194440e-4f), _mm256_fmadd_ps(k, _mm256_set1_ps(-0.693359375f), c));
          __m256 p = _mm256_set1_ps(1.98919806e-4f);
          p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.39345415e-3f));
          p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(8.33331049e-3f));
          p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(4.16664556e-2f));
          p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.66666672e-1f));
          p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(0.5f));
          *t = _mm256_castps_si256(rounded);
          return _mm256_add_ps(_mm256_set1_ps(1), _mm256_fmadd_ps(p, _mm256_mul_ps(r, r), r));
      }
      #define VOLTA_TIMES8(p, bits) _mm256_mul_ps(p, _mm256_castsi256_ps(bits))
      VOLTA_INLINE __m256 volta_exp8(__m256 x) {                        /* a NaN passes both bounds */
          const __m256i one = _mm256_castps_si256(_mm256_set1_ps(1));
          __m256i t, half;
          const __m256 p = volta_exp8_unscaled(_mm256_min_ps(_mm256_set1_ps(89), _mm256_max_ps(_mm256_set1_ps(-104), x)), &t);
          half = _mm256_slli_epi32(_mm256_srai_epi32(t, 1), 23);
          t = _mm256_sub_epi32(_mm256_slli_epi32(t, 23), half);
          return VOLTA_TIMES8(VOLTA_TIMES8(p, _mm256_add_epi32(half, one)), _mm256_add_epi32(t, one));
      }
      VOLTA_INLINE __m256 volta_exp8_below(__m256 x) {                  /* for x up to 43, or NaN */
          __m256i t;
          const __m256 p = volta_exp8_unscaled(_mm256_max_ps(_mm256_set1_ps(-104), x), &t);
          return _mm256_mul_ps(VOLTA_TIMES8(p, _mm256_add_epi32(_mm256_slli_epi32(t, 23), _mm256_castps_si256(_mm256_set1_ps(0x1p64f)))),
                               _mm256_set1_ps(0x1p-64f));
      }
      /* The last vector, which reaches back over others, is read before they are written. */
      #define VOLTA_LAST8(x) (n >= 8 ? _mm256_loadu_ps((x) + n - 8) : _mm256_maskload_ps(x, VOLTA_FIRST(n, float)))
      #define VOLTA_PUT_LAST8(out, y) \\
          if (n >= 8) _mm256_storeu_ps((out) + n - 8, y); \\
          else _mm256_maskstore_ps(out, VOLTA_FIRST(n, float), y);
      #define VOLTA_EXP_LINE(NAME, SHIFT, AT, LAST) \\
      static inline Py_ssize_t NAME(float *out, const float *x, SHIFT, Py_ssize_t n) { \\
          const __m256 last = _mm256_sub_ps(VOLTA_LAST8(x), LAST); \\
          Py_ssize_t i = 0; \\
          for (; i + 8 <= n; i += 8) _mm256_storeu_ps(out + i, volta_exp8(_mm256_sub_ps(_mm256_loadu_ps(x + i), AT))); \\
          if (i < n) { VOLTA_PUT_LAST8(out, volta_exp8(last)) } \\
          return n; \\
      }
      VOLTA_EXP_LINE(volta_exp_away_line8, float shift, _mm256_set1_ps(shift), _mm256_set1_ps(shift))
      VOLTA_EXP_LINE(volta_exp_each_line8, const float *shift, _mm256_loadu_ps(shift + i), VOLTA_LAST8(shift))
      static inline Py_ssize_t volta_exp_sum_line8(float *out, const float *x, float shift, double *total, Py_ssize_t n) {
          const __m256 s = _mm256_set1_ps(shift), last = _mm256_sub_ps(VOLTA_LAST8(x), s);
          Py_ssize_t i = 0, stop;
          while (i < n) {
              __m256 v, w, a = _mm256_setzero_ps(), b = a;
              __m128 q;
              stop = n - i < 1024 ? n : i + 1024;
              for (; i + 16 <= stop; i += 16) {
                  v = volta_exp8_below(_mm256_sub_ps(_mm256_loadu_ps(x + i), s));
                  w = volta_exp8_below(_mm256_sub_ps(_mm256_loadu_ps(x + i + 8), s));
                  if (out) { _mm256_storeu_ps(out + i, v); _mm256_storeu_ps(out + i + 8, w); }
                  a = _mm256_add_ps(a, v);
                  b = _mm256_add_ps(b, w);
              }
              if (i + 8 <= stop) {
                  v = volta_exp8_below(_mm256_sub_ps(_mm256_loadu_ps(x + i), s));
                  if (out) _mm256_storeu_ps(out + i, v);
                  a = _mm256_add_ps(a, v);
                  i += 8;
              }
              if (i < stop) {                                           /* the end of the line */
                  v = volta_exp8_below(last);
                  if (out) { VOLTA_PUT_LAST8(out, v) }
                  b = _mm256_add_ps(b, n >= 8 ? _mm256_andnot_ps(_mm256_castsi256_ps(VOLTA_FIRST(8 - (n - i), float)), v)
                                              : _mm256_and_ps(_mm256_castsi256_ps(VOLTA_FIRST(n, float)), v));
                  i = stop;
              }
              a = _mm256_add_ps(a, b);
              q = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
              q = _mm_add_ps(q, _mm_movehl_ps(q, q));
              *total += _mm_cvtss_f32(_mm_add_ss(q, _mm_movehdup_ps(q)));
          }
          return n;
      }
    #else
      #define volta_exp_away_line8 volta_exp_away_line
      #define volta_exp_each_line8 volta_exp_each_line
      #define volta_exp_sum_line8 volta_exp_sum_line
    #endif
    #endif
    """
    Py_ssize_t exp_away_line "volta_exp_away_line8"(float* out, const float* x, float shift, Py_ssize_t n)
    # IN: x - shift up to 43, or NaN. OUT: out, unless it is NULL; total, to which the sum is added
    Py_ssize_t exp_sum_line "volta_exp_sum_line8"(float* out, const float* x, float shift, double* total, Py_ssize_t n)
    # exp(x - shift[i]); memory of `shift` to a multiple of 16
    Py_ssize_t exp_each_line "volta_exp_each_line8"(float* out, const float* x, const float* shift, Py_ssize_t n)
