# Sums of float16 and bfloat16 in float32, as sums.pxd has them, with elements that are widened in registers: through a buffer they took up
# to twice as long. Threads: none. Sizes: the caller's. Builds without vectors for it take nothing.
from libc.stdint cimport uint16_t
from volta._kernels.cpu.scalar cimport half_to_float            # its header

cdef extern from * nogil:
    """
    #if defined(__GNUC__) && defined(__AVX2__) && defined(__F16C__)
      VOLTA_INLINE __m256 volta_half_at(int brain, const uint16_t *x) {
          const __m128i words = _mm_loadu_si128((const __m128i *)x);
          return brain ? _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(words), 16)) : _mm256_cvtph_ps(words);
      }
      VOLTA_INLINE double volta_half_block_of(int brain, const uint16_t *x) {
          __m256 v[8];
          __m128 q;
          int i, k;
          for (k = 0; k < 8; k++) v[k] = _mm256_setzero_ps();
          for (i = 0; i < 1024; i += 64)
              _Pragma("GCC unroll 8") for (k = 0; k < 8; k++) v[k] = _mm256_add_ps(v[k], volta_half_at(brain, x + i + 8 * k));
          for (k = 0; k < 2; k++) v[k] = _mm256_add_ps(_mm256_add_ps(v[k], v[2 + k]), _mm256_add_ps(v[4 + k], v[6 + k]));
          v[0] = _mm256_add_ps(v[0], v[1]);
          q = _mm_add_ps(_mm256_castps256_ps128(v[0]), _mm256_extractf128_ps(v[0], 1));
          return (double)(q[0] + q[2]) + (double)(q[1] + q[3]);
      }
      static double volta_half_block(int brain, const uint16_t *x) {
          return brain ? volta_half_block_of(1, x) : volta_half_block_of(0, x);
      }
      /* Columns j on, as long as there are `count` vectors: up to 16 rows. */
      VOLTA_INLINE Py_ssize_t volta_half_strips(int brain, int count, double *acc, const char *x, Py_ssize_t step, Py_ssize_t rows,
                                                Py_ssize_t j, Py_ssize_t n) {
          for (; j + 8 * count <= n; j += 8 * count) {
              const char *at = x + 2 * j;
              __m256 v[8];
              Py_ssize_t r;
              int k;
              _Pragma("GCC unroll 8") for (k = 0; k < count; k++) v[k] = volta_half_at(brain, (const uint16_t *)at + 8 * k);
              _Pragma("GCC unroll 1") for (r = 1; r < rows; r++) {
                  at += step;
                  _Pragma("GCC unroll 8")
                  for (k = 0; k < count; k++) v[k] = _mm256_add_ps(v[k], volta_half_at(brain, (const uint16_t *)at + 8 * k));
              }
              for (k = 0; k < 8 * count; k += 4)
                  _mm256_storeu_pd(acc + j + k, _mm256_add_pd(_mm256_loadu_pd(acc + j + k), _mm256_cvtps_pd(((const __m128 *)v)[k / 4])));
          }
          return j;
      }
      VOLTA_INLINE void volta_half_columns_of(int brain, double *acc, const char *x, Py_ssize_t step, Py_ssize_t rows, Py_ssize_t n) {
          Py_ssize_t j;
          for (; rows > 0; rows -= 16, x += 16 * step) {
              const Py_ssize_t some = rows < 16 ? rows : 16;
              j = volta_half_strips(brain, 8, acc, x, step, some, 0, n);
              j = volta_half_strips(brain, 4, acc, x, step, some, j, n);
              volta_half_strips(brain, 1, acc, x, step, some, j, n);
          }
      }
      static Py_ssize_t volta_half_columns(int brain, double *acc, const char *x, Py_ssize_t step, Py_ssize_t rows, Py_ssize_t n) {
          if (n < 32) return 0;                         /* one or two vectors would wait for each sum */
          if (brain) volta_half_columns_of(1, acc, x, step, rows, n); else volta_half_columns_of(0, acc, x, step, rows, n);
          return n & -8;
      }
      enum { HALF_SUMS = 1 };
    #else
      static double volta_half_block(int brain, const uint16_t *x) { return 0; }
      static Py_ssize_t volta_half_columns(int brain, double *acc, const char *x, Py_ssize_t step, Py_ssize_t rows,
                                           Py_ssize_t n) { return 0; }
      enum { HALF_SUMS = 0 };
    #endif
    """
    const bint HALF_SUMS                        # whether there are such sums
    # The sum of 1,024 (`folds.BLOCK`) neighbouring elements.
    double half_block "volta_half_block"(bint brain, const uint16_t* x) noexcept nogil
    # acc[j] += the sum over `rows` rows, `step` bytes apart, of their elements j, for as many of the n columns as it takes, which it gives.
    Py_ssize_t half_columns "volta_half_columns"(bint brain, double* acc, const char* x, Py_ssize_t step, Py_ssize_t rows,
                                                 Py_ssize_t n) noexcept nogil
