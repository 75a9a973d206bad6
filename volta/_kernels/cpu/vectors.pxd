# Functions of float32 lines in vectors of AVX-512, which has instructions that compilers make no use of by themselves (scaling by powers
# of two, least and greatest, reciprocals). Each returns how many of the n elements it has done: all, or none in other builds (but
# for erf, which AVX2 has too), where loops over the functions of scalar.pxd do them. As accurate as those. `out` may be x.
from volta._kernels.cpu cimport scalar, vector_lanes            # the latter for what the C below takes of it

cdef extern from * nogil:
    """
    #ifndef VOLTA_VECTORS
    #define VOLTA_VECTORS
    #if defined(__AVX2__) && defined(__FMA__) && defined(__GNUC__)
      #include <immintrin.h>
      /* Degree 5 about the multiples of 17 / 64: of erf, but of erf(x) / x about 0. From 4 on it is 1. */
      static const float volta_erf_places[6][16] = {
          {1.12837911f, 0.292823225f, 0.547528446f, 0.740236998f, 0.867058277f, 0.939653337f, 0.975797713f, 0.99145031f, 0.997345984f,
           0.999277413f, 0.999827683f, 0.999964058f, 0.999993443f, 0.999998987f, 0.999999881f, 1.0f},
          {0.0f, 1.05150831f, 0.850913882f, 0.59796232f, 0.364902914f, 0.193373099f, 0.088987723f, 0.0355614461f, 0.0123408195f,
           0.00371898082f, 0.000973238493f, 0.000221171984f, 4.36472146e-05f, 7.47995227e-06f, 1.11315887e-06f, 1.43857278e-07f},
          {-0.3761217f, -0.279299557f, -0.45203954f, -0.47649762f, -0.387711167f, -0.256827533f, -0.141826943f, -0.0661228895f,
           -0.0262239315f, -0.00889014918f, -0.00258479663f, -0.000646064698f, -0.000139063835f, -2.58115178e-05f, -4.13540101e-06f,
           -5.72369288e-07f},
          {0.0f, -0.301038116f, -0.123539746f, 0.0538153648f, 0.15298973f, 0.162938148f, 0.121027246f, 0.070111379f, 0.0330379158f,
           0.0129298242f, 0.00425329618f, 0.00118496025f, 0.000281033164f, 5.69475123e-05f, 9.88619286e-06f, 1.4733796e-06f},
          {0.112129904f, 0.131972462f, 0.182216793f, 0.136841878f, 0.0482385084f, -0.0220045578f, -0.0487514324f, -0.043015819f,
           -0.0264082681f, -0.012573312f, -0.00484292815f, -0.00154180569f, -0.000410858454f, -9.23921034e-05f, -1.76318663e-05f,
           -2.86713862e-06f},
          {0.0f, 0.0757131428f, -0.00169186667f, -0.0593556315f, -0.0658942163f, -0.0368685909f, -0.00514718657f, 0.0108949011f,
           0.0124375802f, 0.00807198137f, 0.00383163989f, 0.00143093406f, 0.000434371876f, 0.000109118635f, 2.29382695e-05f,
           4.06528807e-06f}};
    #endif
    #if defined(__AVX512F__) && defined(__AVX512DQ__) && defined(__GNUC__)
      #define VOLTA_IN_VECTORS 1
      typedef __m512 volta_v;
      #define V_SET(c) _mm512_set1_ps(c)
      #define V_ADD(a, b) _mm512_add_ps(a, b)
      #define V_SUB(a, b) _mm512_sub_ps(a, b)
      #define V_MUL(a, b) _mm512_mul_ps(a, b)
      #define V_FMA(a, b, c) _mm512_fmadd_ps(a, b, c)
      #define V_NEG_FMA(a, b, c) _mm512_fnmadd_ps(a, b, c)              /* c - a * b */
      #define V_MAX(c, x) _mm512_max_ps(c, x)                           /* a NaN in x stays */
      #define V_MIN(c, x) _mm512_min_ps(c, x)
      #define V_ABS(x) _mm512_abs_ps(x)
      #define V_SCALE(p, n) _mm512_scalef_ps(p, n)                      /* p * 2**n, right when denormal or infinite */
      #define V_AT(t, table) _mm512_permutexvar_ps(_mm512_castps_si512(t), table)         /* by the lowest four bits of t */
      #define V_NEGATIVE(x) _mm512_movepi32_mask(_mm512_castps_si512(x))
      #define V_PICK(k, a, b) _mm512_mask_mov_ps(b, k, a)               /* k ? a : b */
      #define V_WITH_SIGN(magnitude, sign) _mm512_castsi512_ps(_mm512_ternarylogic_epi32(_mm512_set1_epi32(0x7fffffff),        \\
          _mm512_castps_si512(magnitude), _mm512_castps_si512(sign), 0xca))

      /* a / d, for d from 1e-37 to 1e37 */
      VOLTA_INLINE volta_v v_ratio(volta_v a, volta_v d) {
          volta_v y = _mm512_rcp14_ps(d), q = V_MUL(a, y);
          return V_FMA(V_NEG_FMA(q, d, a), y, q);
      }
      /* exp(r) - 1 for |r| <= ln 2 / 2 */
      VOLTA_INLINE volta_v v_exp_reduced(volta_v r) {
          volta_v p = V_SET(1.38145976e-3f);
          p = V_FMA(p, r, V_SET(8.36871658e-3f));
          p = V_FMA(p, r, V_SET(4.1668389e-2f));
          p = V_FMA(p, r, V_SET(0.166665211f));
          p = V_FMA(p, r, V_SET(0.49999994f));
          return V_FMA(p, V_MUL(r, r), r);
      }
      VOLTA_INLINE volta_v v_exp_within(volta_v c) {                    /* from -104 to 89 */
          volta_v k = V_SUB(V_FMA(c, V_SET(1.44269504f), V_SET(VOLTA_ROUNDER)), V_SET(VOLTA_ROUNDER));
          volta_v r = V_FMA(k, V_SET(2.12194440e-4f), V_FMA(k, V_SET(-0.693359375f), c));
          return V_SCALE(V_ADD(V_SET(1), v_exp_reduced(r)), k);
      }
      VOLTA_INLINE volta_v v_exp_below(volta_v x) { return v_exp_within(V_MAX(V_SET(-104), x)); }         /* for x up to 89 */
      VOLTA_INLINE volta_v v_exp(volta_v x) { return v_exp_below(V_MIN(V_SET(89), x)); }
      /* 2 (2**(k - 1) (exp(r) - 1) + 2**(k - 1) - 1 / 2), which is finite as long as the result is; what is next to 0 stays. */
      VOLTA_INLINE volta_v v_expm1(volta_v x) {
          volta_v c = V_MAX(V_SET(-104), V_MIN(V_SET(89), x));
          volta_v k = V_SUB(V_FMA(c, V_SET(1.44269504f), V_SET(VOLTA_ROUNDER)), V_SET(VOLTA_ROUNDER));
          volta_v p = v_exp_reduced(V_FMA(k, V_SET(2.12194440e-4f), V_FMA(k, V_SET(-0.693359375f), c))), half = V_SCALE(V_SET(0.5f), k);
          volta_v m = V_FMA(p, half, V_SUB(half, V_SET(0.5f)));
          return V_PICK(_mm512_cmp_ps_mask(V_ABS(x), V_SET(1e-30f), _CMP_LT_OQ), x, V_ADD(m, m));
      }
      VOLTA_INLINE volta_v v_elu(volta_v x, float alpha, float inner) {
          volta_v m = V_MUL(v_expm1(V_MUL(x, V_SET(inner))), V_SET(alpha));
          return V_PICK(_mm512_cmp_ps_mask(x, V_SET(0), _CMP_GT_OQ), x, m);
      }
      VOLTA_INLINE volta_v v_exp2(volta_v x) {                          /* as exp2_f32 */
          volta_v c = V_MAX(V_SET(-151), V_MIN(V_SET(129), x)), k = V_SUB(V_ADD(c, V_SET(VOLTA_ROUNDER)), V_SET(VOLTA_ROUNDER));
          volta_v r = V_SUB(c, k), p = V_SET(1.52982211e-5f);
          p = V_FMA(p, r, V_SET(1.54626105e-4f));
          p = V_FMA(p, r, V_SET(1.33334997e-3f));
          p = V_FMA(p, r, V_SET(9.61805414e-3f));
          p = V_FMA(p, r, V_SET(5.55041097e-2f));
          p = V_FMA(p, r, V_SET(2.40226507e-1f));
          p = V_FMA(p, r, V_SET(6.93147182e-1f));
          return V_SCALE(V_FMA(p, r, V_SET(1)), k);
      }
      /* x = 2**e (1 + f) as volta_split; of 0 and infinity e is infinite and f 0, of what is negative or NaN f is NaN. */
      VOLTA_INLINE volta_v v_split(volta_v x, volta_v *e) {
          volta_v m = _mm512_getmant_ps(x, _MM_MANT_NORM_1_2, _MM_MANT_SIGN_nan), k = _mm512_getexp_ps(x);
          __mmask16 above = _mm512_cmp_ps_mask(m, V_SET(1.41421354f), _CMP_GE_OQ);
          *e = _mm512_mask_add_ps(k, above, k, V_SET(1));
          return V_SUB(_mm512_mask_mul_ps(m, above, m, V_SET(0.5f)), V_SET(1));
      }
      VOLTA_INLINE volta_v v_log_tail(volta_v f) {                      /* log(1 + f) - f, as volta_log_tail */
          volta_v p = V_SET(6.97161183e-2f);
          p = V_FMA(p, f, V_SET(-1.14797339e-1f));
          p = V_FMA(p, f, V_SET(1.16854198e-1f));
          p = V_FMA(p, f, V_SET(-1.24256872e-1f));
          p = V_FMA(p, f, V_SET(1.42490581e-1f));
          p = V_FMA(p, f, V_SET(-1.66678026e-1f));
          p = V_FMA(p, f, V_SET(2.00007156e-1f));
          p = V_FMA(p, f, V_SET(-2.49999970e-1f));
          p = V_FMA(p, f, V_SET(3.33333313e-1f));
          return V_MUL(V_FMA(p, f, V_SET(-0.5f)), V_MUL(f, f));
      }
      VOLTA_INLINE volta_v v_log(volta_v x) {                           /* both parts of ln 2 are positive: infinities stay */
          volta_v e, f = v_split(x, &e);
          return V_FMA(e, V_SET(0.693145752f), V_ADD(V_FMA(e, V_SET(1.42860677e-6f), v_log_tail(f)), f));
      }
      /* log(1 + exp(-|x|)): what 1 + e leaves of e comes back. */
      VOLTA_INLINE volta_v v_soft_tail(volta_v x) {
          volta_v e = v_exp_below(V_WITH_SIGN(x, V_SET(-1))), u = V_ADD(V_SET(1), e);
          return V_ADD(v_log(u), v_ratio(V_SUB(e, V_SUB(u, V_SET(1))), u));
      }
      VOLTA_INLINE volta_v v_softplus(volta_v x, float beta, float threshold) {
          volta_v z = V_MUL(x, V_SET(beta)), y = _mm512_div_ps(V_ADD(V_MAX(V_SET(0), z), v_soft_tail(z)), V_SET(beta));
          return V_PICK(_mm512_cmp_ps_mask(z, V_SET(threshold), _CMP_GT_OQ), x, y);
      }
      VOLTA_INLINE volta_v v_logistic_loss(volta_v x, volta_v target) {
          volta_v side = _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(x, V_SET(0), _CMP_GT_OQ), V_SET(1));
          volta_v lost = _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(x, V_SET(0), _CMP_LT_OQ) & _mm512_cmp_ps_mask(target, V_SET(1), _CMP_LE_OQ),
                                             x);                        /* -infinity makes NaN, as in PyTorch */
          return V_FMA(x, V_SUB(side, target), V_FMA(lost, V_SET(0), v_soft_tail(x)));
      }
      VOLTA_INLINE volta_v v_log2(volta_v x) {                          /* as log2_f32 */
          volta_v e, f = v_split(x, &e), tail = v_log_tail(f), low = V_FMA(f, V_SET(0.442695041f), V_MUL(tail, V_SET(0.442695041f)));
          return V_ADD(V_ADD(V_ADD(low, tail), f), e);
      }
      /* The root is as exact as the instruction's, which takes as long as ten others; that is left what is near the ends, or negative. */
      VOLTA_INLINE volta_v v_sqrt(volta_v x) {
          volta_v y = _mm512_rsqrt14_ps(x), g = V_MUL(x, y), h = V_MUL(y, V_SET(0.5f)), r = V_NEG_FMA(g, h, V_SET(0.5f));
          g = V_FMA(g, r, g);
          h = V_FMA(h, r, h);
          g = V_FMA(V_NEG_FMA(g, g, x), h, g);
          __mmask16 far = _mm512_cmpge_epu32_mask(_mm512_sub_epi32(_mm512_castps_si512(x), _mm512_set1_epi32(0x10000000)),
                                                  _mm512_set1_epi32(0x60000000));
          return __builtin_expect(far != 0, 0) ? _mm512_mask_sqrt_ps(g, far, x) : g;
      }
      VOLTA_INLINE volta_v v_sigmoid(volta_v x) {
          volta_v e = v_exp_below(V_WITH_SIGN(x, V_SET(-1)));
          return v_ratio(V_PICK(V_NEGATIVE(x), e, V_SET(1)), V_ADD(V_SET(1), e));
      }
      VOLTA_INLINE volta_v v_silu(volta_v x) { return V_MUL(x, v_sigmoid(x)); }
      /* Degree 4 about 32 places, by the exponent and three bits of |x| + 5/8: those places whose tanh is next to a float. From 9.1 on it
         is 1. The places are the table's last row. */
      static const float volta_tanh_near[192] = {-0.024763817f, -0.023488611f, -0.0179067012f, -0.0123198442f, -0.00807814114f,
          -0.00513035059f, -0.00317583932f, -0.00196807715f, -0.00094682601f, -0.000349869399f, -0.000130399232f, -4.78317124e-05f,
          -1.75340065e-05f, -6.42537543e-06f, -2.36915412e-06f, -8.70103634e-07f, -2.04072265e-07f, -3.56874317e-08f, 0.0159636345f,
          0.0608796552f, 0.0971066281f, 0.127218574f, 0.149808422f, 0.164075032f, 0.169614732f, 0.153325021f, 0.11967729f, 0.0800524428f,
          0.0433416031f, 0.0143860327f, -0.00560883386f, -0.0176136233f, 0.0892275274f, 0.0642891005f, 0.0425906368f, 0.0265177153f,
          0.0173884165f, 0.0110859498f, 0.00623676833f, 0.00411044434f, 0.00187021226f, 0.000660782622f, 0.000277673826f, 9.69096727e-05f,
          3.41950217e-05f, 1.17240852e-05f, 4.51153801e-06f, 1.6079041e-06f, 4.22530007e-07f, 8.11243694e-08f, -0.333910823f,
          -0.321714789f, -0.301853806f, -0.274230689f, -0.239221379f, -0.198244959f, -0.137907878f, -0.0577602759f, 0.00887250714f,
          0.0621275082f, 0.0947402865f, 0.108998291f, 0.110390395f, 0.104898646f, -0.167488247f, -0.109780744f, -0.0688021705f,
          -0.0414581485f, -0.0267372858f, -0.0168813057f, -0.00941805821f, -0.00618574908f, -0.00277087977f, -0.000978559139f,
          -0.000411654531f, -0.000143159981f, -5.05190765e-05f, -1.73832086e-05f, -6.67054928e-06f, -2.38160897e-06f, -5.95824645e-07f,
          -1.19372046e-07f, 5.94144831e-06f, -0.0922413096f, -0.151026025f, -0.204260647f, -0.252921164f, -0.2956191f, -0.340818942f,
          -0.37642476f, -0.384644777f, -0.369982034f, -0.338149369f, -0.297820866f, -0.256612629f, -0.220031753f, 0.185595229f,
          0.11681246f, 0.071396634f, 0.0423675403f, 0.0271058474f, 0.0170249101f, 0.00946400594f, 0.00620444724f, 0.00277536525f,
          0.00097978767f, 0.000411421934f, 0.000143142184f, 5.05369208e-05f, 1.74031302e-05f, 6.67484164e-06f, 2.38399366e-06f,
          5.94413905e-07f, 1.19009371e-07f, 1.0f, 0.991342247f, 0.976058424f, 0.954173863f, 0.925282657f, 0.889563799f, 0.832328141f,
          0.744043231f, 0.652745843f, 0.554027379f, 0.460282147f, 0.377455562f, 0.30861342f, 0.254907191f, 0.902443886f, 0.939780474f,
          0.963640511f, 0.978586853f, 0.986353874f, 0.991450965f, 0.995256722f, 0.996892929f, 0.998611152f, 0.999509931f, 0.999794245f,
          0.999928415f, 0.999974728f, 0.999991298f, 0.999996662f, 0.999998808f, 0.999999702f, 0.99999994f, 0.0f, 0.0930467471f,
          0.154730469f, 0.21407038f, 0.273344666f, 0.332319379f, 0.409477532f, 0.505921841f, 0.58928287f, 0.66781199f, 0.734655082f,
          0.789014935f, 0.831496656f, 0.863187611f, 1.48523343f, 1.73616672f, 1.99455011f, 2.26306653f, 2.49030018f, 2.72540021f,
          3.02089977f, 3.23283362f, 3.63586664f, 4.15693283f, 4.5909338f, 5.11886692f, 5.63946629f, 6.17253304f, 6.65166616f, 7.16646624f,
          7.85966682f, 8.66500092f, 0.0f, 0.0933166742f, 0.155983344f, 0.217433348f, 0.28047502f, 0.345433325f, 0.434983343f, 0.557233393f,
          0.67656672f, 0.806783378f, 0.938766658f, 1.06881654f, 1.19296658f, 1.30571675f};
      #define V_OF_32(at, table) _mm512_permutex2var_ps(_mm512_loadu_ps(table), at, _mm512_loadu_ps((table) + 16))
      VOLTA_INLINE volta_v v_tanh(volta_v x) {
          volta_v a = V_MIN(V_SET(9.1f), V_ABS(x)), r, p;
          const __m512i at = _mm512_srli_epi32(_mm512_castps_si512(V_ADD(a, V_SET(0.625f))), 20);
          int i;
          r = V_SUB(a, V_OF_32(at, volta_tanh_near + 160));
          p = V_OF_32(at, volta_tanh_near);
          VOLTA_UNROLL_WHOLE
          for (i = 1; i < 5; i++) p = V_FMA(p, r, V_OF_32(at, volta_tanh_near + 32 * i));
          return V_WITH_SIGN(p, x);
      }
      VOLTA_INLINE volta_v v_erf(volta_v x) {
          volta_v a = V_MIN(V_SET(4), V_ABS(x)), t = V_FMA(a, V_SET(3.7647059f), V_SET(VOLTA_ROUNDER));
          volta_v r = V_FMA(V_SUB(t, V_SET(VOLTA_ROUNDER)), V_SET(-0.265625f), a), p = V_AT(t, _mm512_loadu_ps(volta_erf_places[5]));
          int i;
          VOLTA_UNROLL_WHOLE
          for (i = 4; i >= 0; i--) p = V_FMA(p, r, V_AT(t, _mm512_loadu_ps(volta_erf_places[i])));
          return V_PICK(_mm512_cmp_ps_mask(t, V_SET(VOLTA_ROUNDER), _CMP_EQ_OQ), V_MUL(p, x), V_WITH_SIGN(p, x));
      }
      /* Lanes k again, by a function in double. */
      static __attribute__((noinline)) volta_v volta_again(volta_v y, volta_v x, __mmask16 k, double (*function)(double)) {
          float in[16], out[16];
          int i;
          _mm512_storeu_ps(in, x);
          _mm512_storeu_ps(out, y);
          for (i = 0; i < 16; i++) if (k >> i & 1) out[i] = (float)function(in[i]);
          return _mm512_loadu_ps(out);
      }
      /* As volta_trig. */
      VOLTA_INLINE volta_v v_trig(volta_v x, int quarter, double (*function)(double)) {
          volta_v t = V_FMA(x, V_SET(0.636619772f), V_SET(VOLTA_ROUNDER)), k = V_SUB(t, V_SET(VOLTA_ROUNDER));
          volta_v r = V_FMA(k, V_SET(1.71512451e-15f), V_FMA(k, V_SET(4.37113883e-8f), V_FMA(k, V_SET(-1.57079637f), x)));
          volta_v z = V_MUL(r, r), s = V_SET(2.72438115e-6f), c = V_SET(-2.72958573e-7f);
          __m512i q = _mm512_add_epi32(_mm512_castps_si512(t), _mm512_set1_epi32(quarter));
          __mmask16 far = _mm512_cmp_ps_mask(V_ABS(x), V_SET(VOLTA_TRIG_LIMIT), _CMP_GT_OQ);
          s = V_FMA(s, z, V_SET(-1.98400390e-4f));
          s = V_FMA(s, z, V_SET(8.33333191e-3f));
          s = V_FMA(s, z, V_SET(-1.66666672e-1f));
          s = V_FMA(s, V_MUL(z, r), r);
          c = V_FMA(c, z, V_SET(2.48005599e-5f));
          c = V_FMA(c, z, V_SET(-1.38888881e-3f));
          c = V_FMA(c, z, V_SET(4.16666679e-2f));
          c = V_FMA(c, V_MUL(z, z), V_FMA(V_SET(-0.5f), z, V_SET(1)));
          s = V_PICK(_mm512_test_epi32_mask(q, _mm512_set1_epi32(1)), c, s);
          q = _mm512_slli_epi32(_mm512_and_epi32(q, _mm512_set1_epi32(2)), 30);
          s = _mm512_castsi512_ps(_mm512_xor_epi32(_mm512_castps_si512(s), q));
          return __builtin_expect(far != 0, 0) ? volta_again(s, x, far, function) : s;
      }
      VOLTA_INLINE volta_v v_sin(volta_v x) {
          return V_PICK(_mm512_cmp_ps_mask(x, V_SET(0), _CMP_EQ_OQ), x, v_trig(x, 0, sin));
      }
      VOLTA_INLINE volta_v v_cos(volta_v x) { return v_trig(x, 1, cos); }
      VOLTA_INLINE volta_v v_erfc(volta_v x) {                          /* as erfc_f32 */
          volta_v a = V_MIN(V_SET(14), V_ABS(x)), high = _mm512_and_ps(a, _mm512_castsi512_ps(_mm512_set1_epi32(0xfffff000)));
          volta_v rest = V_MUL(V_SUB(high, a), V_ADD(high, a)), t = v_ratio(V_SET(1), V_FMA(V_SET(0.5f), a, V_SET(1)));
          volta_v p = V_SET(-5.9124596e-2f), e;
          p = V_FMA(p, t, V_SET(0.2848470f));
          p = V_FMA(p, t, V_SET(-0.4877645f));
          p = V_FMA(p, t, V_SET(0.27871478f));
          p = V_FMA(p, t, V_SET(-2.7073052e-2f));
          p = V_FMA(p, t, V_SET(0.20287675f));
          p = V_FMA(p, t, V_SET(0.24305561f));
          p = V_FMA(p, t, V_SET(0.28238195f));
          p = V_FMA(p, t, V_SET(0.28208604f));
          e = V_FMA(rest, V_FMA(rest, V_SET(0.0416666667f), V_SET(0.166666667f)), V_SET(0.5f));
          e = V_FMA(rest, V_FMA(rest, e, V_SET(1)), V_SET(1));
          p = V_MUL(v_exp_below(V_MUL(V_SUB(V_SET(0), high), high)), V_MUL(e, V_MUL(t, p)));
          return V_PICK(V_NEGATIVE(x), V_SUB(V_SET(2), p), p);
      }
      /* The normal distribution's share beyond a: as normal_cdf_f32. */
      static __attribute__((noinline)) volta_v volta_tail(volta_v a) {
          a = V_MIN(V_SET(14.4f), a);
          volta_v square = V_MUL(a, a), e = v_exp_within(V_MUL(V_SET(-0.5f), square));
          e = V_FMA(V_MUL(e, V_SET(0.5f)), V_NEG_FMA(a, a, square), e);           /* what the square has lost */
          volta_v t = v_ratio(V_SET(1), V_FMA(a, V_SET(0.265165043f), V_SET(1))), p = V_SET(0.0307697821f);
          p = V_FMA(p, t, V_SET(-0.143667221f));
          p = V_FMA(p, t, V_SET(0.216203377f));
          p = V_FMA(p, t, V_SET(-0.114710853f));
          p = V_FMA(p, t, V_SET(0.13686493f));
          p = V_FMA(p, t, V_SET(0.0607514866f));
          p = V_FMA(p, t, V_SET(0.102656968f));
          p = V_FMA(p, t, V_SET(0.105324797f));
          return V_MUL(V_MUL(V_FMA(p, t, V_SET(0.105806738f)), t), e);
      }
      /* The same of degree 6 about the multiples of 17 / 64, up to 4.1. */
      VOLTA_INLINE volta_v v_gelu(volta_v x) {
          const volta_v c6 = _mm512_setr_ps(5.96119935e-06f, -0.022057429f, 0.010200927f, -0.00301812869f, 0.00862487778f, -0.00557501661f,
                                        0.00201289658f, -0.0038587763f, -0.00194413075f, -0.00106370868f, 7.50562031e-05f,
                                        5.9359536e-05f, 0.000153114568f, 0.000188272723f, 0.00013452016f, 8.53992897e-05f);
          const volta_v c5 = _mm512_setr_ps(-0.00993700139f, -0.00825834647f, -0.0039942679f, 0.000970002788f, 0.00470089819f,
                                        0.00612966716f,
                                        0.00539255282f, 0.00341506745f, 0.00129323988f, -0.00025371107f, -0.0010130835f,
                                        -0.00114444143f, -0.000935187563f, -0.000630824652f, -0.000368335022f, -0.00019043553f);
          const volta_v c4 = _mm512_setr_ps(-1.47226999e-07f, -0.0117415627f, -0.0210602563f, -0.022621572f, -0.0190081131f, -0.0111194281f,
                                        -0.00351479137f, 0.00258578919f, 0.00562195992f, 0.00620480906f, 0.0052489494f,
                                        0.00376520981f, 0.0023604189f, 0.00131879328f, 0.000665007974f, 0.000304468995f);
          const volta_v c3 = _mm512_setr_ps(0.0664900616f, 0.059656661f, 0.041443903f, 0.0176665951f, -0.0048739058f, -0.0210266411f,
                                        -0.0287558902f, -0.0290050879f, -0.0244459324f, -0.017998429f, -0.011825107f,
                                        -0.00701643946f, -0.00378802186f, -0.00187009212f, -0.000847226765f, -0.000353141979f);
          const volta_v c2 = _mm512_setr_ps(8.11699041e-10f, 0.0511413179f, 0.0920244902f, 0.115710713f, 0.120524965f, 0.109668851f,
                                        0.0892774537f, 0.0658422634f, 0.0443283394f, 0.0273762792f, 0.0155608589f,
                                        0.00815979019f, 0.0039543896f, 0.00177342619f, 0.000736758404f, 0.000283775531f);
          const volta_v c1 = _mm512_setr_ps(-0.398942292f, -0.385113627f, -0.346437871f, -0.290415257f, -0.226866931f, -0.165150762f,
                                        -0.112033419f, -0.0708226636f, -0.0417209864f, -0.0229031127f, -0.0117163425f,
                                        -0.00558531005f, -0.00248119072f, -0.0010271424f, -0.000396240473f, -0.000142444158f);
          const volta_v c0 = _mm512_setr_ps(0.5f, 0.39526403f, 0.29762277f, 0.212761819f, 0.144004375f, 0.0920684114f,
                                        0.0554960184f, 0.031487003f, 0.0167933069f, 0.00840986148f, 0.00395075046f,
                                        0.00173965574f, 0.000717542309f, 0.000277066079f, 0.000100105543f, 3.38289792e-05f);
          volta_v a = V_ABS(x), t = V_FMA(a, V_SET(3.7647059f), V_SET(VOLTA_ROUNDER));
          volta_v r = V_FMA(V_SUB(t, V_SET(VOLTA_ROUNDER)), V_SET(-0.265625f), a), p = V_AT(t, c6);
          __mmask16 far = _mm512_cmp_ps_mask(a, V_SET(4.1f), _CMP_NLE_UQ);
          p = V_FMA(p, r, V_AT(t, c5));
          p = V_FMA(p, r, V_AT(t, c4));
          p = V_FMA(p, r, V_AT(t, c3));
          p = V_FMA(p, r, V_AT(t, c2));
          p = V_FMA(p, r, V_AT(t, c1));
          p = V_FMA(p, r, V_AT(t, c0));
          if (__builtin_expect(far != 0, 0)) p = V_PICK(far, volta_tail(a), p);
          return V_MUL(x, V_PICK(V_NEGATIVE(x), p, V_SUB(V_SET(1), p)));
      }
      #define VOLTA_LINE(NAME, ARGUMENTS, TERM)                                                                       \\
        static inline Py_ssize_t NAME(float *out, const float *x, ARGUMENTS Py_ssize_t n) {                           \\
            Py_ssize_t i = 0;                                                                                         \\
            volta_v v;                                                                                                \\
            for (; i + 32 <= n; i += 16) {                                                                            \\
                volta_v w;                                                                                            \\
                v = _mm512_loadu_ps(x + i);                                                                           \\
                w = TERM;                                                                                             \\
                _mm512_storeu_ps(out + i, w);                                                                         \\
                i += 16;                                                                                              \\
                v = _mm512_loadu_ps(x + i);                                                                           \\
                w = TERM;                                                                                             \\
                _mm512_storeu_ps(out + i, w);                                                                         \\
            }                                                                                                         \\
            for (; i + 16 <= n; i += 16) {                                                                            \\
                v = _mm512_loadu_ps(x + i);                                                                           \\
                _mm512_storeu_ps(out + i, TERM);                                                                      \\
            }                                                                                                         \\
            if (i < n) {                                                                                              \\
                v = _mm512_maskz_loadu_ps((__mmask16)((1u << (n - i)) - 1), x + i);                                   \\
                _mm512_mask_storeu_ps(out + i, (__mmask16)((1u << (n - i)) - 1), TERM);                               \\
            }                                                                                                         \\
            return n;                                                                                                 \\
        }
      /* out = exp(x - shift), unless out is NULL, and the sum in *total. */
      static inline Py_ssize_t volta_exp_sum_line(float *out, const float *x, float shift, double *total, Py_ssize_t n) {
          Py_ssize_t i = 0, stop;
          volta_v s = V_SET(shift);
          while (i < n) {
              volta_v v, w, a = V_SET(0), b = a;
              stop = n - i < 1024 ? n : i + 1024;
              for (; i + 32 <= stop; i += 32) {
                  v = v_exp(V_SUB(_mm512_loadu_ps(x + i), s));
                  w = v_exp(V_SUB(_mm512_loadu_ps(x + i + 16), s));
                  if (out) { _mm512_storeu_ps(out + i, v); _mm512_storeu_ps(out + i + 16, w); }
                  a = V_ADD(a, v);
                  b = V_ADD(b, w);
              }
              for (; i < stop; i += 16) {
                  __mmask16 k = stop - i < 16 ? (__mmask16)((1u << (stop - i)) - 1) : (__mmask16)0xffff;
                  v = v_exp(_mm512_maskz_sub_ps(k, _mm512_maskz_loadu_ps(k, x + i), s));
                  if (out) _mm512_mask_storeu_ps(out + i, k, v);
                  a = _mm512_mask_add_ps(a, k, a, v);
              }
              *total += _mm512_reduce_add_ps(V_ADD(a, b));
              i = stop;
          }
          return n;
      }
    #else
      #define VOLTA_LINE(NAME, ARGUMENTS, TERM)                                                                       \\
        static inline Py_ssize_t NAME(float *out, const float *x, ARGUMENTS Py_ssize_t n) { return 0; }
      static inline Py_ssize_t volta_exp_sum_line(float *out, const float *x, float shift, double *total, Py_ssize_t n) { return 0; }
    #endif
    #if defined(__AVX2__) && defined(__FMA__) && defined(__GNUC__) && !defined(VOLTA_IN_VECTORS)
      /* erf takes its polynomials from tables there too: half the time of both formulas of erf_f32. */
      VOLTA_INLINE __m256 volta_erf_eight(__m256 x) {
          const __m256 minus = _mm256_set1_ps(-0.0f), round = _mm256_set1_ps(VOLTA_ROUNDER), sign = _mm256_and_ps(minus, x);
          const __m256 a = _mm256_min_ps(_mm256_set1_ps(4), _mm256_andnot_ps(minus, x));             /* a NaN stays */
          const __m256 t = _mm256_fmadd_ps(a, _mm256_set1_ps(3.7647059f), round);
          const __m256 r = _mm256_fmadd_ps(_mm256_sub_ps(t, round), _mm256_set1_ps(-0.265625f), a);
          const __m256i at = _mm256_castps_si256(t);                        /* by its lowest four bits */
          const __m256 second = _mm256_castsi256_ps(_mm256_slli_epi32(at, 28));
          __m256 p = _mm256_setzero_ps();
          int i;
          VOLTA_UNROLL_WHOLE
          for (i = 5; i >= 0; i--)
              p = _mm256_fmadd_ps(p, r, _mm256_blendv_ps(_mm256_permutevar8x32_ps(_mm256_loadu_ps(volta_erf_places[i]), at),
                                                         _mm256_permutevar8x32_ps(_mm256_loadu_ps(volta_erf_places[i] + 8), at), second));
          return _mm256_blendv_ps(_mm256_or_ps(p, sign), _mm256_mul_ps(p, x), _mm256_cmp_ps(t, round, _CMP_EQ_OQ));
      }
      static inline Py_ssize_t volta_erf_line(float *out, const float *x, Py_ssize_t n) {
          Py_ssize_t i = 0;
          for (; i + 8 <= n; i += 8) _mm256_storeu_ps(out + i, volta_erf_eight(_mm256_loadu_ps(x + i)));
          if (i < n) {
              const __m256i some = VOLTA_FIRST(n - i, float);
              _mm256_maskstore_ps(out + i, some, volta_erf_eight(_mm256_maskload_ps(x + i, some)));
          }
          return n;
      }
    #else
      VOLTA_LINE(volta_erf_line, , v_erf(v))
    #endif
    #define VOLTA_SHIFT float shift,
    VOLTA_LINE(volta_exp_line, , v_exp(v))
    VOLTA_LINE(volta_exp_away_line, VOLTA_SHIFT, v_exp(V_SUB(v, V_SET(shift))))
    #define VOLTA_TWO_SHIFTS float shift, float second,
    VOLTA_LINE(volta_away_twice_line, VOLTA_TWO_SHIFTS, V_SUB(V_SUB(v, V_SET(shift)), V_SET(second)))
    VOLTA_LINE(volta_times_line, VOLTA_SHIFT, V_MUL(v, V_SET(shift)))
    #define VOLTA_SHIFTS const float *shift,
    VOLTA_LINE(volta_exp_each_line, VOLTA_SHIFTS, v_exp(V_SUB(v, _mm512_loadu_ps(shift + i))))
    VOLTA_LINE(volta_sigmoid_line, , v_sigmoid(v))
    #define VOLTA_FACTORS const float *factor,
    VOLTA_LINE(volta_gated_line, VOLTA_FACTORS, V_MUL(_mm512_maskz_loadu_ps((__mmask16)(n - i < 16 ? (1u << (n - i)) - 1 : 0xffff), \
                                                                            factor + i), v_sigmoid(v)))
    VOLTA_LINE(volta_silu_line, , v_silu(v))
    VOLTA_LINE(volta_tanh_line, , v_tanh(v))
    VOLTA_LINE(volta_gelu_line, , v_gelu(v))
    VOLTA_LINE(volta_expm1_line, , v_expm1(v))
    #define VOLTA_TWO_NUMBERS float alpha, float inner,
    VOLTA_LINE(volta_elu_line, VOLTA_TWO_NUMBERS, v_elu(v, alpha, inner))
    VOLTA_LINE(volta_selu_line, , V_MUL(v_elu(v, 1.6732632423543772f, 1), V_SET(1.0507009873554805f)))
    VOLTA_LINE(volta_softplus_line, VOLTA_TWO_NUMBERS, v_softplus(v, alpha, inner))
    VOLTA_LINE(volta_logsigmoid_line, , V_SUB(V_MIN(V_SET(0), v), v_soft_tail(v)))
    #define VOLTA_TARGET const float *target,
    VOLTA_LINE(volta_logistic_loss_line, VOLTA_TARGET, v_logistic_loss(v, _mm512_maskz_loadu_ps(                                   \\
        (__mmask16)(n - i < 16 ? (1u << (n - i)) - 1 : 0xffff), target + i)))
    VOLTA_LINE(volta_erfc_line, , v_erfc(v))
    VOLTA_LINE(volta_logit_line, , v_log(_mm512_div_ps(v, V_SUB(V_SET(1), v))))
    VOLTA_LINE(volta_sin_line, , v_sin(v))
    VOLTA_LINE(volta_cos_line, , v_cos(v))
    VOLTA_LINE(volta_exp2_line, , v_exp2(v))
    VOLTA_LINE(volta_log_line, , v_log(v))
    VOLTA_LINE(volta_log2_line, , v_log2(v))
    VOLTA_LINE(volta_log10_line, , V_MUL(v_log2(v), V_SET(0.30103f)))
    VOLTA_LINE(volta_sqrt_line, , v_sqrt(v))
    #endif
    """
    # Several in a line, by their arguments.
    Py_ssize_t exp_line "volta_exp_line"(float* out, const float* x, Py_ssize_t n)
    Py_ssize_t sigmoid_line "volta_sigmoid_line"(float* out, const float* x, Py_ssize_t n)
    Py_ssize_t gated_line "volta_gated_line"(float* out, const float* x, const float* factor, Py_ssize_t n)    # factor * sigmoid(x)
    Py_ssize_t silu_line "volta_silu_line"(float* out, const float* x, Py_ssize_t n)
    Py_ssize_t tanh_line "volta_tanh_line"(float* out, const float* x, Py_ssize_t n)
    Py_ssize_t erf_line "volta_erf_line"(float* out, const float* x, Py_ssize_t n)
    Py_ssize_t gelu_line "volta_gelu_line"(float* out, const float* x, Py_ssize_t n)
    Py_ssize_t expm1_line "volta_expm1_line"(float* out, const float* x, Py_ssize_t n)
    Py_ssize_t elu_line "volta_elu_line"(float* out, const float* x, float alpha, float inner, Py_ssize_t n)
    Py_ssize_t selu_line "volta_selu_line"(float* out, const float* x, Py_ssize_t n)
    Py_ssize_t softplus_line "volta_softplus_line"(float* out, const float* x, float beta, float threshold, Py_ssize_t n)
    Py_ssize_t logsigmoid_line "volta_logsigmoid_line"(float* out, const float* x, Py_ssize_t n)
    Py_ssize_t logistic_loss_line "volta_logistic_loss_line"(float* out, const float* x, const float* target, Py_ssize_t n)
    Py_ssize_t erfc_line "volta_erfc_line"(float* out, const float* x, Py_ssize_t n)
    Py_ssize_t logit_line "volta_logit_line"(float* out, const float* x, Py_ssize_t n)
    Py_ssize_t sin_line "volta_sin_line"(float* out, const float* x, Py_ssize_t n)
    Py_ssize_t cos_line "volta_cos_line"(float* out, const float* x, Py_ssize_t n)
    Py_ssize_t exp2_line "volta_exp2_line"(float* out, const float* x, Py_ssize_t n)
    Py_ssize_t log_line "volta_log_line"(float* out, const float* x, Py_ssize_t n)
    Py_ssize_t log2_line "volta_log2_line"(float* out, const float* x, Py_ssize_t n)
    Py_ssize_t log10_line "volta_log10_line"(float* out, const float* x, Py_ssize_t n)
    Py_ssize_t sqrt_line "volta_sqrt_line"(float* out, const float* x, Py_ssize_t n)
    Py_ssize_t exp_away_line "volta_exp_away_line"(float* out, const float* x, float shift, Py_ssize_t n)   # exp(x - shift)
    Py_ssize_t away_twice_line "volta_away_twice_line"(float* out, const float* x, float shift, float second, Py_ssize_t n)
    Py_ssize_t times_line "volta_times_line"(float* out, const float* x, float factor, Py_ssize_t n)
    Py_ssize_t exp_sum_line "volta_exp_sum_line"(float* out, const float* x, float shift, double* total, Py_ssize_t n)
    # exp(x - shift[i]); memory of `shift` to a multiple of 16
    Py_ssize_t exp_each_line "volta_exp_each_line"(float* out, const float* x, const float* shift, Py_ssize_t n)
