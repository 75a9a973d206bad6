# Normalised rows of float16, widened in registers in three passes: through lines of float32 a row took up to twice as long where it
# came from far away. Sums: float32 lanes over SUMMED elements, added in double. Threads: none. Builds without vectors for it do nothing.
from libc.stdint cimport uint16_t
from volta._kernels.cpu cimport fetch, half_lines               # for what the C below takes of them

cdef extern from * nogil:
    """
    #include <math.h>
    #ifdef VOLTA_HALF_OPERATIONS
      enum { SUMMED = 1024 };
      /* The sum of x - away, or of its squares. IN: a number of elements that turns divide. */
      VOLTA_INLINE double volta_half_away(const uint16_t *x, float away, int squares, Py_ssize_t n, Py_ssize_t ahead) {
          double total = 0;
          for (Py_ssize_t i = 0; i < n;) {
              const Py_ssize_t stop = n - i < SUMMED ? n : i + SUMMED;
              volta_hf sum[HALF_PARTS] = {{0}}, a[HALF_PARTS];
              for (; i < stop; i += HALF_TURN) {
                  if (ahead) VOLTA_FETCH(x + i + ahead);
                  volta_half_take(0, a, x + i);
                  _Pragma("GCC unroll 4") for (int k = 0; k < HALF_PARTS; k++) a[k] -= away, sum[k] += squares ? a[k] * a[k] : a[k];
              }
              for (int k = 1; k < HALF_PARTS; k++) sum[0] += sum[k];
              for (int k = 0; k < HALF_LANES; k++) total += sum[0][k];
          }
          return total;
      }
      static void volta_half_norm(const uint16_t *x, const float *w, const float *b, Py_ssize_t n, double eps, int centred, uint16_t *out,
                                  float *mean, float *rstd) {
          const Py_ssize_t whole = n & -HALF_TURN;
          const float first = volta_from_half(*x);
          double sum = 0;
          volta_hf a[HALF_PARTS];
          Py_ssize_t i;
          *mean = 0;
          if (centred) {
              sum = volta_half_away(x, first, 0, whole, n);
              for (i = whole; i < n; i++) sum += volta_from_half(x[i]) - first;
              *mean = (float)(first + sum / (double)n);
          }
          sum = volta_half_away(x, *mean, 1, whole, 0);
          for (i = whole; i < n; i++) sum += (volta_from_half(x[i]) - *mean) * (volta_from_half(x[i]) - *mean);
          *rstd = (float)(1.0 / sqrt(sum / (double)n + eps));
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
