# Running sums and products of a float32 line, in double: four elements folded with those before them in a register, and all of them with
# what has passed, so that but one of four operations waits for the one before. The order depends on the elements and the length alone.
from volta._kernels.cpu cimport bits     # for what the C below takes of it

cdef extern from * nogil:
    """
    #if defined(__AVX2__) && defined(__GNUC__)
      #include <immintrin.h>
      #include <math.h>
      /* Whether a product of 16 elements may be beyond 1e64, or below 1e-64. */
      VOLTA_INLINE int volta_wild(const float* x) {
          const __m256 bare = _mm256_castsi256_ps(_mm256_set1_epi32(0x7fffffff));
          const __m256 most = _mm256_set1_ps(1e4f), least = _mm256_set1_ps(1e-4f);
          __m256 wild = _mm256_setzero_ps();
          int k;
          for (k = 0; k < 16; k += 8) {
              const __m256 size = _mm256_and_ps(_mm256_loadu_ps(x + k), bare);
              const __m256 some = _mm256_cmp_ps(size, _mm256_setzero_ps(), _CMP_NEQ_OQ);
              wild = _mm256_or_ps(wild, _mm256_cmp_ps(size, most, _CMP_GT_OQ));
              wild = _mm256_or_ps(wild, _mm256_and_ps(some, _mm256_cmp_ps(size, least, _CMP_LT_OQ)));
          }
          return _mm256_movemask_ps(wild);
      }
      /* Whether r alone decides, 0, an infinity or NaN (a product of four floats is neither in double), or no product on the way is so. */
      #define VOLTA_ROOM(r, x) (r == 0 || !isfinite(r) || (fabs(r) > 1e-240 && fabs(r) < 1e240 && !volta_wild(x)))
      #define VOLTA_ALWAYS(r, x) 1
      #define VOLTA_SCAN_LINE(NAME, FOLD, SIGN, NEUTRAL, SAFE) \\
      static Py_ssize_t NAME(const float* x, float* out, Py_ssize_t n) { \\
          const __m256d neutral = _mm256_set1_pd(NEUTRAL); \\
          double passed = NEUTRAL; \\
          Py_ssize_t i = 0, k; \\
          while (i < n) \\
              if (i + 16 <= n && SAFE(passed, x + i)) { \\
                  __m256d carry = _mm256_set1_pd(passed); \\
                  _Pragma("GCC unroll 4") for (k = 0; k < 4; k++, i += 4) { \\
                      __m256d v = _mm256_cvtps_pd(_mm_loadu_ps(x + i)); \\
                      v = FOLD(v, _mm256_unpacklo_pd(neutral, v)); \\
                      v = FOLD(v, _mm256_blend_pd(neutral, _mm256_permute4x64_pd(v, 0x55), 0xc)); \\
                      _mm_storeu_ps(out + i, _mm256_cvtpd_ps(FOLD(v, carry))); \\
                      carry = FOLD(carry, _mm256_permute4x64_pd(v, 0xff)); \\
                  } \\
                  passed = _mm256_cvtsd_f64(carry); \\
              } else \\
                  for (k = i + 16 < n ? i + 16 : n; i < k; i++) out[i] = (float)(passed = passed SIGN (double)x[i]); \\
          return n; \\
      }
      VOLTA_SCAN_LINE(volta_cumsum_line, _mm256_add_pd, +, 0, VOLTA_ALWAYS)
      VOLTA_SCAN_LINE(volta_cumprod_line, _mm256_mul_pd, *, 1, VOLTA_ROOM)
    #else
      #define volta_cumsum_line(x, out, n) 0
      #define volta_cumprod_line(x, out, n) 0
    #endif
    """
    # How many of the n elements are done: all, or none in other builds
    Py_ssize_t cumsum_line "volta_cumsum_line"(const float* x, float* out, Py_ssize_t n)
    Py_ssize_t cumprod_line "volta_cumprod_line"(const float* x, float* out, Py_ssize_t n)
