# Normalised rows of float16, widened in registers in three passes: through lines of float32 a row took up to twice as long where it
# came from far away. Sums: as sums.pxd has them. Threads: none. Builds without vectors for it do nothing.
from libc.stdint cimport uint16_t
from volta._kernels.cpu cimport half_lines, half_terms          # for what the C below takes of them

cdef extern from * nogil:
    """
    #include <math.h>
    #ifdef VOLTA_HALF_OPERATIONS
      #define VOLTA_AWAY_OF_HALF(AT) (VOLTA_FAR_##AT(0, x) - pivot)
      #define VOLTA_SQUARE_OF_HALF(AT) (VOLTA_NEAR_##AT(0, x) - mean) * (VOLTA_NEAR_##AT(0, x) - mean)
      VOLTA_BLOCK_SUM(volta_away_of_half, float, VOLTA_TWO(const uint16_t *x, float pivot), VOLTA_AWAY_OF_HALF)
      VOLTA_BLOCK_SUM(volta_squares_of_half, float, VOLTA_TWO(const uint16_t *x, float mean), VOLTA_SQUARE_OF_HALF)
      static void volta_half_norm(const uint16_t *x, const float *w, const float *b, Py_ssize_t n, double eps, int centred, uint16_t *out,
                                  float *mean, float *rstd) {
          const Py_ssize_t whole = n & -HALF_TURN;
          const float first = volta_from_half(*x);
          volta_hf a[HALF_PARTS];
          Py_ssize_t i;
          *mean = centred ? (float)(first + volta_away_of_half(x, first, n) / (double)n) : 0;
          *rstd = (float)(1.0 / sqrt(volta_squares_of_half(x, *mean, n) / (double)n + eps));
          for (i = 0; i < whole; i += HALF_TURN) {
              volta_half_take(0, a, x + i);
              _Pragma("GCC unroll 4") for (int k = 0; k < HALF_PARTS; k++) {
                  const Py_ssize_t at = i + k * HALF_LANES;
                  a[k] = (a[k] - *mean) * *rstd * VOLTA_HV(loadu_ps)(w + at) + VOLTA_HV(loadu_ps)(b + at);
              }
              volta_half_put(0, out + i, a);
          }
          for (; i < n; i++) out[i] = volta_to_half((volta_from_half(x[i]) - *mean) * *rstd * w[i] + b[i]);
      }
      enum { HALF_NORM = 1 };
    #else
      static void volta_half_norm(const uint16_t *x, const float *w, const float *b, Py_ssize_t n, double eps, int centred, uint16_t *out,
                                  float *mean, float *rstd) {}
      enum { HALF_NORM = 0 };
    #endif
    """
    const bint HALF_NORM                        # whether there is one
    # A row of at least one element. OUT: out, its mean (0 unless `centred`) and one over its deviation.
    void half_norm "volta_half_norm"(const uint16_t* x, const float* w, const float* b, Py_ssize_t n, double eps, bint centred,
                                     uint16_t* out, float* mean, float* rstd) noexcept nogil
