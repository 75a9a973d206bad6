# Sums, differences and products of two lines, four vectors at a time: those of the first are touched before any of the second.
#
# Where one line comes from memory and the other is a row that all repeat, which stays in the nearest cache, a processor that meets both in
# turns asks memory for less at a time, and takes up to a half longer. The order is the compiler's unless it has to hold the vectors.
# Threads: none. Sizes: the caller's. Each gives how many elements it has computed, whole fours; where the build has no such vectors, none.
from volta._kernels.cpu.bits cimport WIDE_BYTES         # for what the C below takes of it

cdef extern from * nogil:
    """
    #if defined(__GNUC__) && VOLTA_WIDE >= 32
      #define VOLTA_HOLD_FOUR(x, y, z, w) __asm__ volatile("" : : "v"(x), "v"(y), "v"(z), "v"(w))
      #define VOLTA_FOUR(NAME, T, V, OP)                                                                                               \\
      static inline Py_ssize_t NAME(T *out, const T *a, const T *b, Py_ssize_t n) {                                                    \\
          const Py_ssize_t width = VOLTA_WIDE / sizeof(T), fours = n / (4 * width);                                                    \\
          Py_ssize_t i;                                                                                                                \\
          for (i = 0; i < fours; i++) {                                                                                                \\
              const V *p = (const V *)a + 4 * i, *q = (const V *)b + 4 * i;                                                            \\
              V *to = (V *)out + 4 * i, x = p[0], y = p[1], z = p[2], w = p[3];                                                        \\
              VOLTA_HOLD_FOUR(x, y, z, w);                                                                                             \\
              x = x OP q[0], y = y OP q[1], z = z OP q[2], w = w OP q[3];                                                              \\
              VOLTA_HOLD_FOUR(x, y, z, w);                                                                                             \\
              to[0] = x, to[1] = y, to[2] = z, to[3] = w;                                                                              \\
          }                                                                                                                            \\
          return fours * 4 * width;                                                                                                    \\
      }
    #else
      #define VOLTA_FOUR(NAME, T, V, OP) static inline Py_ssize_t NAME(T *out, const T *a, const T *b, Py_ssize_t n) { return 0; }
    #endif
    #if defined(__GNUC__)
      typedef float volta_four32 __attribute__((vector_size(VOLTA_WIDE), aligned(4), may_alias));
      typedef double volta_four64 __attribute__((vector_size(VOLTA_WIDE), aligned(8), may_alias));
    #endif
    VOLTA_FOUR(volta_add_line, float, volta_four32, +)
    VOLTA_FOUR(volta_sub_line, float, volta_four32, -)
    VOLTA_FOUR(volta_mul_line, float, volta_four32, *)
    VOLTA_FOUR(volta_add_line64, double, volta_four64, +)
    VOLTA_FOUR(volta_sub_line64, double, volta_four64, -)
    VOLTA_FOUR(volta_mul_line64, double, volta_four64, *)
    """
    Py_ssize_t add_line "volta_add_line"(float* out, const float* a, const float* b, Py_ssize_t n)
    Py_ssize_t sub_line "volta_sub_line"(float* out, const float* a, const float* b, Py_ssize_t n)
    Py_ssize_t mul_line "volta_mul_line"(float* out, const float* a, const float* b, Py_ssize_t n)
    Py_ssize_t add_line64 "volta_add_line64"(double* out, const double* a, const double* b, Py_ssize_t n)
    Py_ssize_t sub_line64 "volta_sub_line64"(double* out, const double* a, const double* b, Py_ssize_t n)
    Py_ssize_t mul_line64 "volta_mul_line64"(double* out, const double* a, const double* b, Py_ssize_t n)
