# Sums over lines of float16 and bfloat16 that are widened in registers, in the order of sums.pxd: what sums.pxd's macros read is named by
# their argument, to which these macros give the beginning of their names. FAR_ ones ask for what lies n elements ahead. Builds without
# vectors of half_lines.pxd have none.
from volta._kernels.cpu cimport fetch, half_lines, sums         # for what the C below takes of them

cdef extern from * nogil:
    """
    #ifdef VOLTA_HALF_OPERATIONS
      VOLTA_INLINE volta_hf volta_half_wide(int brain, const uint16_t *x) {
          const volta_hl words = (volta_hl)*(const volta_hh *)x;
          return brain ? (volta_hf)VOLTA_HV(slli_epi32)(VOLTA_HV(cvtepu16_epi32)(words), 16) : (volta_hf)VOLTA_HV(cvtph_ps)(words);
      }
      VOLTA_INLINE volta_hf volta_half_left(int brain, const uint16_t *x, Py_ssize_t n) {
          uint16_t some[HALF_LANES] = {0};
          memcpy(some, x, n * sizeof *x);
          return volta_half_wide(brain, some);
      }
      #define VOLTA_NEAR_VOLTA_LANES_AT(brain, p) (N)volta_half_wide(brain, p + i + k * LANES)
      #define VOLTA_NEAR_VOLTA_NEXT_AT(brain, p) (N)volta_half_wide(brain, p + i)
      #define VOLTA_NEAR_VOLTA_LEFT_float(brain, p) (N)volta_half_left(brain, p + i, n - i)
      #define VOLTA_NEAR_VOLTA_ONE_AT(brain, p) volta_half_left(brain, p + i, 1)[0]
      #define VOLTA_FAR_VOLTA_LANES_AT(brain, p) \\
          ({ if (k * LANES % 32 == 0) VOLTA_FETCH(p + i + k * LANES + n); VOLTA_NEAR_VOLTA_LANES_AT(brain, p); })
      #define VOLTA_FAR_VOLTA_NEXT_AT VOLTA_NEAR_VOLTA_NEXT_AT
      #define VOLTA_FAR_VOLTA_LEFT_float VOLTA_NEAR_VOLTA_LEFT_float
      #define VOLTA_FAR_VOLTA_ONE_AT VOLTA_NEAR_VOLTA_ONE_AT
    #endif
    """
