# The gradient of softmax of a row of float16 or bfloat16, widened in registers in two passes: through lines of float32 a row took up to
# three times as long where it came from far away. Sums: as sums.pxd has them. Threads: none. Sizes: any. Builds without vectors for it do
# nothing.
from libc.stdint cimport uint16_t
from volta._kernels.cpu cimport half_lines, half_terms          # for what the C below takes of them

cdef extern from * nogil:
    """
    #ifdef VOLTA_HALF_OPERATIONS
      #define VOLTA_DOT_OF_HALF(AT) VOLTA_FAR_##AT(0, x) * VOLTA_FAR_##AT(0, y)
      #define VOLTA_DOT_OF_BRAIN(AT) VOLTA_FAR_##AT(1, x) * VOLTA_FAR_##AT(1, y)
      VOLTA_BLOCK_SUM(volta_dot_of_half, float, VOLTA_TWO(const uint16_t *x, const uint16_t *y), VOLTA_DOT_OF_HALF)
      VOLTA_BLOCK_SUM(volta_dot_of_brain, float, VOLTA_TWO(const uint16_t *x, const uint16_t *y), VOLTA_DOT_OF_BRAIN)
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
          const float total = (float)(brain ? volta_dot_of_brain(g, y, n) : volta_dot_of_half(g, y, n));
          memcpy(rest[0], g + whole, left);
          memcpy(rest[1], y + whole, left);
          volta_half_slope(brain, out, g, y, total, whole);
          if (left) volta_half_slope(brain, rest[2], rest[0], rest[1], total, HALF_TURN);
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
