# Lines of float16 and bfloat16 that are widened, computed and rounded in registers: through buffers of float32, cheap operations took twice
# as long, since moving numbers is most of what they do.
#
# One loop serves all operations, and asks at every 32 elements which one it is: the processor foresees the answer, and the compiler takes
# as long for all of them as for ten loops of their own. To add an operation, add a line to VOLTA_HALF_OPERATIONS, with the formula that it
# has in elementwise_*.pyx.in. Threads: none. Sizes: any. Where there are no vectors for it, no operation is here.
from libc.stdint cimport uint16_t
from volta._kernels.cpu cimport bits                            # for what the C below takes of them
from volta._kernels.cpu.scalar cimport float_to_brain           # its header, too

cdef extern from * nogil:
    """
    #if defined(__GNUC__) && defined(__F16C__) && (VOLTA_WIDE == 32 || defined(__AVX512BW__))
      typedef float volta_hf __attribute__((vector_size(VOLTA_WIDE)));
      typedef int32_t volta_hi __attribute__((vector_size(VOLTA_WIDE)));
      typedef int32_t volta_hu __attribute__((vector_size(VOLTA_WIDE), aligned(2), may_alias));
      typedef long long volta_hl __attribute__((vector_size(VOLTA_WIDE / 2)));
      typedef long long volta_hh __attribute__((vector_size(VOLTA_WIDE / 2), aligned(2), may_alias));
      enum { HALF_LANES = VOLTA_WIDE / 4, HALF_PARTS = 128 / VOLTA_WIDE, HALF_TURN = 32 };
      #if VOLTA_WIDE == 64
        #define VOLTA_HV(name) _mm512_##name
        #define VOLTA_ROUNDED(a, mode) _mm512_roundscale_ps(a, mode)
        #define VOLTA_ANY_NONE(a, b) (_mm512_cmp_ps_mask(a, b, _CMP_UNORD_Q) != 0)
        #define VOLTA_ODD_OF(a, b) (volta_hi)_mm512_mask_mov_epi16((__m512i)(a), 0xaaaaaaaa, (__m512i)(b))
        VOLTA_INLINE volta_hf volta_hpick(volta_hi m, volta_hf a, volta_hf b) { return (volta_hf)((m & (volta_hi)a) | (~m & (volta_hi)b)); }
      #else
        #define VOLTA_HV(name) _mm256_##name
        #define VOLTA_ROUNDED(a, mode) _mm256_round_ps(a, mode)
        #define VOLTA_ANY_NONE(a, b) _mm256_movemask_ps(_mm256_cmp_ps(a, b, _CMP_UNORD_Q))
        #define VOLTA_ODD_OF(a, b) (volta_hi)_mm256_blend_epi16((__m256i)(a), (__m256i)(b), 0xaa)
        VOLTA_INLINE volta_hf volta_hpick(volta_hi m, volta_hf a, volta_hf b) { return _mm256_blendv_ps(b, a, (volta_hf)m); }
      #endif
      #define VOLTA_UNLESS(condition, a) ((volta_hf)((volta_hi)(a) & ~(condition)))
      #define VOLTA_BOUNDED(x, low, high) volta_hpick((x) < (low), low, volta_hpick((x) > (high), high, x))
      #define VOLTA_SIXTHS(x) (VOLTA_BOUNDED(x + 3.0f, VOLTA_HV(setzero_ps)(), VOLTA_HV(set1_ps)(6.0f)) * 0.16666666666666667f)
      #define VOLTA_LARGER(a, b) volta_hpick(a != a, a, VOLTA_HV(max_ps)(a, b))             /* the processor's maximum is a > b ? a : b */
      #define VOLTA_SMALLER(a, b) volta_hpick(a != a, a, VOLTA_HV(min_ps)(a, b))
      #define VOLTA_HALF_OPERATIONS(OF)                                                                                     \\
          OF(relu, VOLTA_UNLESS(a <= 0.0f, a))                                                                              \\
          OF(sqrt, VOLTA_HV(sqrt_ps)(a))                                                                                    \\
          OF(root, VOLTA_HV(sqrt_ps)(a))                                                                                    \\
          OF(rsqrt, 1.0f / VOLTA_HV(sqrt_ps)(a))                                                                            \\
          OF(reciprocal, 1.0f / a)                                                                                          \\
          OF(cube, a * a * a)                                                                                               \\
          OF(inverse_square, 1.0f / (a * a))                                                                                \\
          OF(floor, VOLTA_ROUNDED(a, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC))                                            \\
          OF(ceil, VOLTA_ROUNDED(a, _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC))                                             \\
          OF(round, VOLTA_ROUNDED(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC))                                        \\
          OF(trunc, VOLTA_ROUNDED(a, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC))                                               \\
          OF(hardsigmoid, VOLTA_SIXTHS(a))                                                                                  \\
          OF(hardswish, a * VOLTA_SIXTHS(a))                                                                                \\
          OF(softsign, a / (1.0f + (volta_hf)((volta_hi)a & 0x7fffffff)))                                                   \\
          OF(add, a + b)                                                                                                    \\
          OF(sub, a - b)                                                                                                    \\
          OF(mul, a * b)                                                                                                    \\
          OF(div, a / b)                                                                                                    \\
          OF(maximum, VOLTA_LARGER(a, b))                                                                                   \\
          OF(minimum, VOLTA_SMALLER(a, b))                                                                                  \\
          OF(clamp_min, VOLTA_LARGER(a, b))                                                                                 \\
          OF(clamp_max, VOLTA_SMALLER(a, b))                                                                                \\
          OF(squared_difference, (a - b) * (a - b))                                                                         \\
          OF(leaky_relu, volta_hpick(a > 0.0f, a, a * b))                                                                   \\
          OF(relu_grad, VOLTA_UNLESS(b <= 0.0f, a))                                                                         \\
          OF(sigmoid_grad, a * (1.0f - b) * b)                                                                              \\
          OF(tanh_grad, a * (1.0f - b * b))                                                                                 \\
          OF(sqrt_grad, a * 0.5f / b)                                                                                       \\
          OF(reciprocal_grad, -a * b * b)                                                                                   \\
          OF(hardswish_grad, VOLTA_UNLESS(b <= -3.0f, volta_hpick(b < 3.0f, a * (b * 0.33333333333333333f + 0.5f), a)))     \\
          OF(mulacc, a * b + c)                                                                                             \\
          OF(lerp, volta_hpick(((volta_hf)((volta_hi)c & 0x7fffffff)) < 0.5f, a + c * (b - a), b + (c - 1.0f) * (b - a)))   \\
          OF(nan_to_num, volta_hpick(a != a, b, VOLTA_HV(min_ps)(c, VOLTA_HV(max_ps)(-c, a))))                              \\
          OF(hardtanh, VOLTA_BOUNDED(a, b, c))                                                                                \\
          OF(clamp, volta_hpick((b != b) | (c != c), b + c, VOLTA_HV(min_ps)(c, VOLTA_HV(max_ps)(b, a))))                   \\
          OF(leaky_relu_grad, volta_hpick(b > 0.0f, a, a * c))                                                              \\
          OF(squared_difference_grad, 2.0f * a * (b - c))                                                                   \\
          OF(add_product, a + d * b * c)                                                                                    \\
          OF(add_quotient, a + d * b / c)                                                                                   \\
          OF(hardtanh_grad, VOLTA_UNLESS((b <= c) | (b >= d), a))                                                           \\
          OF(clamp_grad, VOLTA_UNLESS(~((b >= c) & (b <= d)), a))
      #define VOLTA_HALF_NAMED(name, formula) #name,
      static const char *const volta_half_names[] = {VOLTA_HALF_OPERATIONS(VOLTA_HALF_NAMED)};
      enum { HALF_OPERATIONS = sizeof(volta_half_names) / sizeof(*volta_half_names) };
      #define VOLTA_HALF_NUMBER(name, formula) HALF_##name,
      enum { VOLTA_HALF_OPERATIONS(VOLTA_HALF_NUMBER) };

      /* Of 32 elements, bfloat16's by their parity, which stay in their halves of 32 bits. */
      VOLTA_INLINE void volta_half_take(int brain, volta_hf *x, const uint16_t *from) {
          _Pragma("GCC unroll 4") for (int k = 0; k < HALF_PARTS; k++) {
              if (!brain) { x[k] = VOLTA_HV(cvtph_ps)((volta_hl)*(const volta_hh *)(from + k * HALF_LANES)); continue; }
              const volta_hi both = *(const volta_hu *)(from + (k & -2) * HALF_LANES);
              x[k] = (volta_hf)(k & 1 ? both & (int32_t)0xffff0000 : both << 16);
          }
      }
      VOLTA_INLINE volta_hi volta_half_up(volta_hf x) { const volta_hi word = (volta_hi)x; return word + (word >> 16 & 1) + 0x7fff; }
      VOLTA_INLINE void volta_half_put(int brain, uint16_t *to, volta_hf *x) {
          _Pragma("GCC unroll 4") for (int k = 0; k < HALF_PARTS; k += brain ? 2 : 1) {
              if (!brain) { *(volta_hh *)(to + k * HALF_LANES) = (volta_hl)VOLTA_HV(cvtps_ph)(x[k], 0); continue; }
              if (__builtin_expect(VOLTA_ANY_NONE(x[k], x[k + 1]), 0))
                  for (int i = k; i < k + 2; i++) x[i] = volta_hpick(x[i] != x[i], (volta_hf)((volta_hi){0} + 0x7fc00000), x[i]);
              *(volta_hu *)(to + k * HALF_LANES) = VOLTA_ODD_OF(volta_half_up(x[k]) >> 16, volta_half_up(x[k + 1]));
          }
      }
      VOLTA_INLINE void volta_half_turns(int brain, int operation, uint16_t *out, const uint16_t *const *at, Py_ssize_t n, int given) {
          const uint16_t *pa = at[0], *pb = at[1], *pc = at[2], *pd = at[3];
          volta_hf x[4][HALF_PARTS], y[HALF_PARTS];
          for (int k = 0; k < 4; k++) {
              const volta_hf all = VOLTA_HV(set1_ps)(given >> k & 1 && at[k] ? *(const float *)at[k] : 0);
              _Pragma("GCC unroll 4") for (int j = 0; j < HALF_PARTS; j++) x[k][j] = all;
          }
          for (Py_ssize_t i = 0; i < n; i += HALF_TURN) {
              __asm__("" : "+r"(operation), "+r"(given));                     /* for each operation its own loop takes as long to compile */
              if (!(given & 1)) volta_half_take(brain, x[0], pa + i);
              if (!(given & 2)) volta_half_take(brain, x[1], pb + i);
              if (!(given & 4)) volta_half_take(brain, x[2], pc + i);
              if (!(given & 8)) volta_half_take(brain, x[3], pd + i);
              #define VOLTA_HALF_CASE(name, formula)                                                                        \\
                  case HALF_##name:                                                                                         \\
                      _Pragma("GCC unroll 4") for (int j = 0; j < HALF_PARTS; j++) {                                        \\
                          const volta_hf a = x[0][j], b = x[1][j], c = x[2][j], d = x[3][j];                                \\
                          (void)a, (void)b, (void)c, (void)d;                                                               \\
                          y[j] = formula;                                                                                   \\
                      }                                                                                                     \\
                      break;
              switch (operation) { VOLTA_HALF_OPERATIONS(VOLTA_HALF_CASE) default: __builtin_unreachable(); }
              volta_half_put(brain, out + i, y);
          }
      }
      static void volta_half_line(int operation, int brain, uint16_t *out, char *const *at, Py_ssize_t n, int given) {
          const uint16_t *p[4] = {(const uint16_t *)at[0], (const uint16_t *)at[1], (const uint16_t *)at[2], (const uint16_t *)at[3]};
          uint16_t rest[5][HALF_TURN];
          int k;
          while (n > 0) {
              const Py_ssize_t whole = n & -HALF_TURN;
              if (whole == 0) {
                  memset(rest, 0, sizeof rest);
                  for (k = 0; k < 4; k++) if (!(given >> k & 1)) p[k] = (const uint16_t *)memcpy(rest[k], p[k], n * 2);
              }
              if (brain) volta_half_turns(1, operation, whole ? out : rest[4], p, whole ? whole : HALF_TURN, given);
              else volta_half_turns(0, operation, whole ? out : rest[4], p, whole ? whole : HALF_TURN, given);
              if (whole == 0) { memcpy(out, rest[4], n * 2); return; }
              for (k = 0; k < 4; k++) if (!(given >> k & 1)) p[k] += whole;
              out += whole;
              n -= whole;
          }
      }
      static int volta_half_operation(const char *name) {
          int i = 0;
          while (i < HALF_OPERATIONS && strcmp(name, volta_half_names[i]) != 0) i++;
          return i < HALF_OPERATIONS ? i : -1;
      }
    #else
      static void volta_half_line(int operation, int brain, uint16_t *out, char *const *at, Py_ssize_t n, int given) {}
      static int volta_half_operation(const char *name) { return -1; }
    #endif
    """
    # The number of an operation here, or -1.
    int half_operation "volta_half_operation"(const char* name)
    # OUT: out, float16 or (`brain`) bfloat16. IN: at, n elements each, or one float32 where the bits of `given` say so; NULL, with its bit
    # set, where there is no operand.
    void half_line "volta_half_line"(int operation, bint brain, uint16_t* out, char** at, Py_ssize_t n, int given)
