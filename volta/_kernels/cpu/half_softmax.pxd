# The gradient of softmax of a row of float16 or bfloat16, widened in registers in two passes: through lines of float32 a row took up to
# three times as long where it came from far away. Threads: none. Sizes: any. Builds without vectors for it do nothing.
from libc.stdint cimport uint16_t
from volta._kernels.cpu cimport fetch, half_lines               # for what the C below takes of them

cdef extern from * nogil:
    """
    #ifdef VOLTA_HALF_OPERATIONS
      enum { SUMMED = 1024 };                                                 /* elements that are summed in float32 */
      VOLTA_INLINE double volta_half_dot(int brain, const uint16_t *g, const uint16_t *y, Py_ssize_t n, Py_ssize_t ahead) {
          volta_hf sum[HALF_PARTS] = {{0}}, a[HALF_PARTS], b[HALF_PARTS];
          double total = 0;
          for (Py_ssize_t i = 0; i < n; i += HALF_TURN) {
              VOLTA_FETCH(g + i + ahead);
              VOLTA_FETCH(y + i + ahead);
              volta_half_take(brain, a, g + i);
              volta_half_take(brain, b, y + i);
              _Pragma("GCC unroll 4") for (int k = 0; k < HALF_PARTS; k++) sum[k] += a[k] * b[k];
          }
          for (int k = 1; k < HALF_PARTS; k++) sum[0] += sum[k];
          for (int k = 0; k < HALF_LANES; k++) total += sum[0][k];
          return total;
      }
      VOLTA_INLINE void volta_half_slope(int brain, uint16_t *out, const uint16_t *g, const uint16_t *y, float total, Py_ssize_t n) {
          volta_hf a[HALF_PARTS], b[HALF_PARTS];
          for (Py_ssize_t i = 0; i < n; i += HALF_TURN) {
              volta_half_take(brain, a, g + i);
              volta_half_take(brain, b, y + i);
              _Pragma("GCC unroll 4") for (int k = 0; k < HALF_PARTS; k++) a[k] = b[k] * (a[k] - total);
              volta_half_put(brain, out + i, a);
          }
      }
      VOLTA_INLINE void volta_half_softmax_row(int brain, uint16_t *out, const uint16_t *g, const uint16_t *y, Py_ssize_t n) {
          const Py_ssize_t whole = n & -HALF_TURN, left = (n - whole) * sizeof *g;
          uint16_t rest[3][HALF_TURN] = {{0}};
          double total = 0;
          memcpy(rest[0], g + whole, left);
          memcpy(rest[1], y + whole, left);
          for (Py_ssize_t i = 0; i < whole; i += SUMMED)
              total += volta_half_dot(brain, g + i, y + i, whole - i < SUMMED ? whole - i : SUMMED, n);
          total += volta_half_dot(brain, rest[0], rest[1], left ? HALF_TURN : 0, 0);
          volta_half_slope(brain, out, g, y, (float)total, whole);
          if (left) volta_half_slope(brain, rest[2], rest[0], rest[1], (float)total, HALF_TURN);
          memcpy(out + whole, rest[2], left);
      }
      static void volta_half_softmax(int brain, uint16_t *out, const uint16_t *g, const uint16_t *y, Py_ssize_t n) {
          if (brain) volta_half_softmax_row(1, out, g, y, n); else volta_half_softmax_row(0, out, g, y, n);
      }
      enum { HALF_SOFTMAX = 1 };
    #else
      static void volta_half_softmax(int brain, uint16_t *out, const uint16_t *g, const uint16_t *y, Py_ssize_t n) {}
      enum { HALF_SOFTMAX = 0 };
    #endif
    """
    const bint HALF_SOFTMAX                     # whether there is one
    # out = y * (g - sum(g * y))
    void half_softmax_grad "volta_half_softmax"(bint brain, uint16_t* out, const uint16_t* g, const uint16_t* y,
                                                Py_ssize_t n) noexcept nogil
