# Functions of float64 lines in vectors of AVX-512, as vectors.pxd has those of float32: each returns how many of the n elements it has
# done: all or, in other builds (but for erf, which AVX2 has too), none. Within 2 units in the last place; tables of sixteen numbers lie in
# registers. Polynomials are near-minimax fits.
from volta._kernels.cpu cimport doubles, gamma_vectors, vector_lanes   # the last for what the C below takes of it

cdef extern from * nogil:
    """
    #ifndef VOLTA_DOUBLE_VECTORS
    #define VOLTA_DOUBLE_VECTORS
    #if defined(__AVX2__) && defined(__FMA__) && defined(__GNUC__) && !defined(VOLTA_IN_VECTORS)
      #define VOLTA_ERF_FOUR 1
    #endif
    #if defined(VOLTA_IN_VECTORS) || VOLTA_ERF_FOUR
      /* Degree 14 about the multiples of 25 / 64: of erf, but of erf(x) / x about 0. From 6 on it is 1. */
      static const double volta_erf_near[240] = {-1.4691691964993661e-05, -3.5304325661631125e-05, 2.4595170757438934e-05,
          5.368734826314622e-06, -1.271524397797258e-05, 2.9870636666721603e-06, 2.1193877098385247e-06, -8.955419149731215e-07,
          -1.7892425500802812e-07, 8.969670162477787e-08, 1.5914387362051704e-08, -3.1198992689852258e-09, -1.08489408731126e-09,
          -1.2760094931719906e-10, -8.169448246272665e-12, -3.211390149562914e-13, 0.0, -4.0616634788030915e-05, -6.460845633508515e-05,
          5.362661424640845e-05, 6.336928127987822e-06, -1.8359670863813745e-05, 2.178903122225345e-06, 2.8834526652990794e-06,
          -3.9631162952911375e-07, -2.8269140604894677e-07, 2.6228905372419223e-09, 1.5068392487362104e-08, 2.8560800022625354e-09,
          2.624671240407574e-10, 1.4272201504267215e-11, 4.947414307891676e-13, 0.0001205399533260864, 0.0002894423942707748,
          -0.0001348688926874182, -0.00010964455349718755, 8.736669015919538e-05, 1.5872804573577687e-05, -2.191559456246622e-05,
          -1.6382982076225546e-06, 2.7287064492683835e-06, 3.845974369728567e-07, -1.3445419157177485e-07, -4.6093988529017126e-08,
          -6.109334045598665e-09, -4.54785650789025e-10, -2.1124155057896276e-11, -6.429266128339682e-13, 0.0, 0.00017164848644830698,
          0.0005786045441299875, -0.00024769302624388196, -0.0001919594370251458, 9.788661358231799e-05, 3.963627485435673e-05,
          -1.559028114688221e-05, -6.3665463189137965e-06, 5.223537600106066e-07, 5.456049235048615e-07, 1.0913781160490766e-07,
          1.1318481952158887e-08, 7.13055149369377e-10, 2.907936103600154e-11, 7.941243871159736e-13, -0.0008548323123003773,
          -0.0019843045631875327, 0.00039304251430762575, 0.0010429996324306042, -0.0002467769549244395, -0.000315051464210445,
          4.247400555840339e-05, 5.7699927714856404e-05, 3.873535530899434e-06, -4.557758986224706e-06, -1.456821813628008e-06,
          -2.1164537471244713e-07, -1.8049618529688262e-08, -9.82921126985044e-10, -3.5614446188185484e-11, -8.795985907883495e-13, 0.0,
          -0.00018806473487369943, -0.003877372517938986, 0.000155982881182462, 0.0016014239565941188, 8.543436642133451e-05,
          -0.0003527842411645238, -8.002813305483989e-05, 2.545068659199196e-05, 1.4611938633372798e-05, 2.9891916167384486e-06,
          3.4351028978827906e-07, 2.4823633771790157e-08, 1.185730482811607e-09, 3.848970909877639e-11, 8.640544312309564e-13,
          0.005223977619347752, 0.011244364637793988, 0.0011969793510243894, -0.006072516159248339, -0.001426880378471296,
          0.001584442314290443, 0.0006912759870284333, -7.838166850705976e-05, -0.00011126364014435183, -3.215398120791135e-05,
          -4.941479179537875e-06, -4.700176821613814e-07, -2.9376452259554403e-08, -1.2449694689310668e-09, -3.646706193981562e-11,
          -7.477665894310342e-13, 0.0, -0.004052607095414388, 0.01887204809799487, 0.0073306272330281325, -0.005687891654462282,
          -0.003976076490685554, -3.731430447417856e-05, 0.0006565159323707259, 0.0002664810506275042, 5.4042981376336886e-05,
          6.687178821781684e-06, 5.414981036337675e-07, 2.970984955362475e-08, 1.127293241008632e-09, 2.997722770505363e-11,
          5.638907749786773e-13, -0.026866170645082354, -0.050626810466676615, -0.022786989103105205, 0.018316066853165933,
          0.017027327562261826, 0.0016660059948816973, -0.0031239232957202506, -0.0017285730932903955, -0.00045231517761660405,
          -7.160875325988808e-05, -7.415188040744134e-06, -5.211254303068933e-07, -2.5385634745481405e-08, -8.687686580348023e-10,
          -2.1081402322291747e-11, -3.6514775589488787e-13, 0.0, 0.04075226709864914, -0.05789979981314295, -0.05654560327303016,
          -0.008037094259932966, 0.01279481968681011, 0.008942754362706088, 0.0029145135468786987, 0.0005769615014780492,
          7.511890614603541e-05, 6.672543025240575e-06, 4.127609659664851e-07, 1.801282220460712e-08, 5.594265488443342e-10,
          1.2442280437093174e-11, 1.9910092084711208e-13, 0.11283791670955108, 0.16995197133130396, 0.1419939823914424,
          0.014145222844828392, -0.04815502863181384, -0.037484875231778354, -0.01448476331311894, -0.0034795671248341866,
          -0.0005575739490749184, -6.157955580175916e-05, -4.773821338642793e-06, -2.6275748086217596e-07, -1.0347749759496652e-08,
          -2.93164953447754e-10, -5.999392071694612e-12, -8.895458273460865e-14, 0.0, -0.22435754206319408, 0.04508893438660354,
          0.16638343354763782, 0.127113290516243, 0.05496746362687257, 0.015455704144382706, 0.0029708766530259496,
          0.0004000197828977451, 3.825781399991662e-05, 2.6218427204312698e-06, 1.29511514210293e-07, 4.630695347407237e-09,
          1.2021588156064929e-10, 2.271299485665308e-12, 3.128796044570854e-14, -0.37612638903183754, -0.37839641669126073,
          -0.47882054215862785, -0.33490654781744106, -0.15345668875200388, -0.04858286539901839, -0.010882169943238292,
          -0.00174653489767421, -0.00020237088510847805, -1.7011523609901446e-05, -1.040895674093966e-06, -4.6469738847078873e-08,
          -1.516327383189978e-09, -3.621205001951527e-11, -6.335773813081418e-13, -8.128091795686682e-15, 0.0, 0.9686948267296275,
          0.6128902939630436, 0.28578692080421636, 0.09821228080128248, 0.024874427084297417, 0.004643059175781671,
          0.0006387327625779968, 6.475868323471299e-05, 4.838833382371966e-06, 2.664692925680544e-07, 1.0814775586229268e-08,
          3.2348317508056257e-10, 7.130988311540771e-12, 1.1585414972533512e-13, 1.3871943331492499e-15, 1.1283791670955126,
          0.41934428209280167, 0.7307772924108472, 0.9025374279448654, 0.9728746138209335, 0.994257542299925, 0.999082135181434,
          0.9998898131503006, 0.9999901032653747, 0.9999993368112867, 0.9999999669144919, 0.9999999987731819, 0.999999999966232,
          0.9999999999993108, 0.9999999999999896, 0.9999999999999999};
    #endif
    #if defined(VOLTA_IN_VECTORS)
      #define W_NEG_FMA(a, b, c) _mm512_fnmadd_pd(a, b, c)              /* c - a * b */
      #define W_MAX(c, x) _mm512_max_pd(c, x)                           /* a NaN in x stays */
      #define W_MIN(c, x) _mm512_min_pd(c, x)
      #define W_ABS(x) _mm512_abs_pd(x)
      #define W_WITH_SIGN(magnitude, sign) _mm512_castsi512_pd(_mm512_ternarylogic_epi64(_mm512_set1_epi64(INT64_MAX),         \\
          _mm512_castpd_si512(magnitude), _mm512_castpd_si512(sign), 0xca))
      #define W_OF_16(at, table) _mm512_permutex2var_pd(_mm512_loadu_pd(table), at, _mm512_loadu_pd((table) + 8))

      /* exp(c) = 2**(k / 16) (1 + p), k the nearest integer to 16 c / log(2). The table has the bits of 2**(j / 16) less j where k / 16 is
         added to the exponent; beyond 708, where exponents end, by scaling. */
      static const int64_t volta_sixteenths[16] = {0x3ff0000000000000, 0x3fefb5586cf9890f, 0x3fef72b83c7d517b, 0x3fef387a6e756238,
          0x3fef06fe0a31b715, 0x3feedea64c123422, 0x3feebfdad5362a27, 0x3feeab07dd485429, 0x3feea09e667f3bcd, 0x3feea11473eb0187,
          0x3feeace5422aa0db, 0x3feec49182a3f090, 0x3feee89f995ad3ad, 0x3fef199bdd85529c, 0x3fef5818dcfba487, 0x3fefa4afa2a490da};
      #define VOLTA_SIXTEENTHS(at, k) _mm512_castsi512_pd(_mm512_add_epi64(_mm512_permutex2var_epi64(                                   \\
          _mm512_loadu_si512(volta_sixteenths), at, _mm512_loadu_si512(volta_sixteenths + 8)), _mm512_slli_epi64(k, 48)))
      VOLTA_INLINE volta_w d_exp_rest(volta_w c, volta_w *t) {              /* c - k log(2) / 16; OUT: t, whose lowest bits are k */
          volta_w k;
          *t = W_FMA(c, W_SET(23.083120654223414), W_SET(VOLTA_ROUNDER64));
          k = W_SUB(*t, W_SET(VOLTA_ROUNDER64));
          return W_NEG_FMA(k, W_SET(4.650385693757748e-12), W_NEG_FMA(k, W_SET(0.043321698780346196), c));
      }
      VOLTA_INLINE volta_w d_exp_less(volta_w r) {                          /* exp(r) - 1 */
          volta_w p = W_SET(0.00019841528482545526);
          p = W_FMA(p, r, W_SET(0.0013889063475643034)); p = W_FMA(p, r, W_SET(0.008333333332612675));
          p = W_FMA(p, r, W_SET(0.04166666666359424)); p = W_FMA(p, r, W_SET(0.1666666666666667)); p = W_FMA(p, r, W_SET(0.5));
          return W_FMA(p, W_MUL(r, r), r);
      }
      VOLTA_INLINE volta_w d_exp_reduced(volta_w c, volta_w *t) { return d_exp_less(d_exp_rest(c, t)); }
      static __attribute__((noinline)) volta_w d_exp_far(volta_w x) {
          volta_w c = W_MAX(W_SET(-746.0), W_MIN(W_SET(710.0), x)), t, p = d_exp_reduced(c, &t), power;
          const __m512i at = _mm512_castpd_si512(t);
          power = VOLTA_SIXTEENTHS(at, _mm512_and_epi64(at, _mm512_set1_epi64(15)));
          return _mm512_scalef_pd(W_FMA(power, p, power), W_MUL(W_SUB(t, W_SET(VOLTA_ROUNDER64)), W_SET(0.0625)));   /* takes the floor */
      }
      VOLTA_INLINE volta_w d_exp(volta_w x) {
          volta_w t, p, power;
          if (__builtin_expect(_mm512_cmp_pd_mask(W_ABS(x), W_SET(708), _CMP_NLE_UQ), 0)) return d_exp_far(x);
          p = d_exp_reduced(x, &t);
          power = VOLTA_SIXTEENTHS(_mm512_castpd_si512(t), _mm512_castpd_si512(t));
          return W_FMA(power, p, power);
      }
      VOLTA_INLINE volta_w d_sigmoid(volta_w x) {
          volta_w e = d_exp(W_SUB(W_SET(0), W_ABS(x)));
          return _mm512_div_pd(W_PICK(_mm512_movepi64_mask(_mm512_castpd_si512(x)), e, W_SET(1)), W_ADD(W_SET(1), e));
      }

      /* x = 2**e m with m from 3/4 to 3/2, and m = (1 + f) / r of the table by its first four bits; -1/32 <= f < 1/16. Of what is 0 or
         infinite e is infinite, of what is negative or NaN f is NaN. log(x) = e log(2) - log(r) + log(1 + f), of which the first two,
         but for a factor next to 1, add without rounding: each r is where -log(r) is nearest to a multiple of 2**-42. Where m < 1, e is one
         less than 2's exponent, which the table of logarithms makes up for. */
      static const double volta_log_inverses[16] = {1.0, 0.9150327010883414, 0.8654970904960511, 0.821052631469299, 0.7809524098243484,
          0.7445887120503029, 0.7114624486114225, 0.6811594456862766, 1.3066666994915044, 1.2553846623731582, 1.207977254845555,
          1.1640211262435425, 1.1231526589331515, 1.0850574357725218, 1.0494623486868278, 1.0};
      static const double volta_log_of[16] = {0.0, 0.08879547545086552, 0.14445126601674474, 0.1971680650444796, 0.24724106592304906,
          0.294923277408202, 0.340432640622339, 0.3839588656030628, 0.4256677903046011, 0.46570515105588584, 0.5041999099947816,
          0.541266681721595, 0.577007575544485, 0.6115142587726723, 0.6448691964019417, 0.6931471805598903};
      static const double volta_log_tails[10] = {-0.5, 0.33333333333333376, -0.25000000000018174, 0.1999999999980953, -0.16666666590130597,
          0.14285713842652514, -0.12500104591721953, 0.11112868129847008, -0.09961767832849687, 0.07922051730045795};
      static const double volta_log2_inverses[16] = {1.0, 0.9150327025924874, 0.8654970264986609, 0.8210526114154091, 0.7809523922173922,
          0.7445887784764036, 0.7114624372383914, 0.68115939928276, 1.30666664253861, 1.2553845768398797, 1.2079771546032745,
          1.1640210978785408, 1.123152755238441, 1.0850574587924227, 1.0494623466531792, 1.0};
      static const double volta_log2_of[16] = {0.0, 0.12810478971482553, 0.20839923180960795, 0.28445342489862924, 0.3566934922375822,
          0.4254842210541483, 0.49114050544471866, 0.5539356495935408, 0.6141088730205411, 0.6718706102401484, 0.7274068294861991,
          0.7808827926739923, 0.832445844088852, 0.882228557956978, 0.9303495944668612, 1.0};
      static const double volta_log2_tails[10] = {-0.7213475204444817, 0.4808983469629884, -0.3606737602225031, 0.2885390081750448,
          -0.2404491723773118, 0.20609928516353598, -0.1803383890507062, 0.16032479740983285, -0.14371793050939438, 0.11429104744602901};
      static const double volta_log10_inverses[16] = {1.0, 0.9150326895908364, 0.865497092414238, 0.8210526357978194, 0.7809523611349892,
          0.7445887134240815, 0.7114624722353529, 0.6811594000774944, 1.306666730697383, 1.2553846621024805, 1.2079771645450497,
          1.1640211921740544, 1.123152673946709, 1.085057438041775, 1.0494623713124056, 1.0};
      static const double volta_log10_of[16] = {0.0, 0.038563390463252745, 0.06273438677249032, 0.08562900036679366, 0.1073754577068371,
          0.1280835511619216, 0.14784800286139443, 0.1667512456885447, 0.18486516208139392, 0.20225317739112825, 0.21897127115187232,
          0.23506910851119756, 0.25059120026998016, 0.2655772672818557, 0.28006312418369816, 0.30102999566395283};
      static const double volta_log10_tails[10] = {-0.2171472409516259, 0.14476482730108411, -0.10857362047589189, 0.08685889637982316,
          -0.07238241331815004, 0.06204206691912886, -0.054287264473983445, 0.04826257306911065, -0.043263407998079345,
          0.03440503351710998};
      /* OUT: e; at, the table's place; z, f*f; tail, (log(1 + f) - f) / z times the base's factor. Even and odd powers apart wait less. */
      VOLTA_INLINE volta_w d_log_parts(volta_w x, const double *inverses, const double *c, volta_w *e, __m512i *at, volta_w *square,
                                       volta_w *tail) {
          volta_w m = _mm512_getmant_pd(x, _MM_MANT_NORM_p75_1p5, _MM_MANT_SIGN_nan), f, p = W_SET(c[8]), q = W_SET(c[9]), z;
          int i;
          *at = _mm512_srli_epi64(_mm512_castpd_si512(m), 48);
          *e = _mm512_getexp_pd(x);
          f = W_FMA(m, W_OF_16(*at, inverses), W_SET(-1));
          *square = z = W_MUL(f, f);
          VOLTA_UNROLL_WHOLE
          for (i = 6; i >= 0; i -= 2) p = W_FMA(p, z, W_SET(c[i])), q = W_FMA(q, z, W_SET(c[i + 1]));
          *tail = W_FMA(q, f, p);
          return f;
      }
      VOLTA_INLINE volta_w d_log_pair(volta_w x, volta_w *rest) {        /* log(x) is their sum, of which the first has at most 53 bits */
          __m512i at;
          volta_w e, tail, z, f = d_log_parts(x, volta_log_inverses, volta_log_tails, &e, &at, &z, &tail);
          volta_w high = W_FMA(e, W_SET(0.6931471805598903), W_OF_16(at, volta_log_of));
          *rest = W_ADD(f, W_FMA(tail, z, W_MUL(high, W_SET(7.931826274280476e-14))));
          return high;
      }
      VOLTA_INLINE volta_w d_log(volta_w x) {
          volta_w rest, high = d_log_pair(x, &rest);
          return W_ADD(high, rest);
      }
      VOLTA_INLINE volta_w d_log2(volta_w x) {
          __m512i at;
          volta_w e, tail, z, f = d_log_parts(x, volta_log2_inverses, volta_log2_tails, &e, &at, &z, &tail);
          volta_w low = W_FMA(tail, z, W_MUL(f, W_SET(2.0355273740931033e-17)));
          return W_ADD(W_ADD(e, W_OF_16(at, volta_log2_of)), W_FMA(f, W_SET(1.4426950408889634), low));
      }
      VOLTA_INLINE volta_w d_log10(volta_w x) {
          __m512i at;
          volta_w e, tail, z, f = d_log_parts(x, volta_log10_inverses, volta_log10_tails, &e, &at, &z, &tail);
          volta_w high = W_FMA(e, W_SET(0.30102999566395283), W_OF_16(at, volta_log10_of));
          volta_w low = W_FMA(tail, z, W_FMA(f, W_SET(1.098319650216765e-17), W_MUL(high, W_SET(9.422115722550027e-14))));
          return W_ADD(high, W_FMA(f, W_SET(0.4342944819032518), low));
      }

      /* sin of x = k pi / 16 + r + low, for |x| <= VOLTA_TRIG_LIMIT64: of pi / 16 the first part has 33 bits, so that the first product is
         exact; what is rounded off by the second one is in `low`. `turn` is added to k. */
      static const double volta_sines[16] = {0.0, 0.19509032201612828, 0.3826834323650898, 0.5555702330196022, 0.7071067811865476,
          0.8314696123025452, 0.9238795325112867, 0.9807852804032304, 1.0, 0.9807852804032304, 0.9238795325112867, 0.8314696123025452,
          0.7071067811865476, 0.5555702330196022, 0.3826834323650898, 0.19509032201612828};
      static const double volta_sines_low[16] = {0.0, -7.991079068461731e-18, -1.0050772696461588e-17, 4.709410940561677e-17,
          -4.833646656726457e-17, 1.4073856984728024e-18, 1.7645047084336677e-17, 1.8546939997825006e-17, 0.0, 1.8546939997825006e-17,
          1.7645047084336677e-17, 1.4073856984728024e-18, -4.833646656726457e-17, 4.709410940561677e-17, -1.0050772696461588e-17,
          -7.991079068461731e-18};
      static const double volta_cosines[16] = {1.0, 0.9807852804032304, 0.9238795325112867, 0.8314696123025452, 0.7071067811865476,
          0.5555702330196022, 0.3826834323650898, 0.19509032201612828, 0.0, -0.19509032201612828, -0.3826834323650898, -0.5555702330196022,
          -0.7071067811865476, -0.8314696123025452, -0.9238795325112867, -0.9807852804032304};
      static __attribute__((noinline)) volta_w d_again(volta_w y, volta_w x, __mmask8 which, double (*function)(double)) {
          double in[8], out[8];
          int i;
          _mm512_storeu_pd(in, x);
          _mm512_storeu_pd(out, y);
          for (i = 0; i < 8; i++) if (which >> i & 1) out[i] = function(in[i]);
          return _mm512_loadu_pd(out);
      }
      static const double volta_cosines_low[16] = {0.0, 1.8546939997825006e-17, 1.7645047084336677e-17, 1.4073856984728024e-18,
          -4.833646656726457e-17, 4.709410940561677e-17, -1.0050772696461588e-17, -7.991079068461731e-18, 0.0, 7.991079068461731e-18,
          1.0050772696461588e-17, -4.709410940561677e-17, 4.833646656726457e-17, -1.4073856984728024e-18, -1.7645047084336677e-17,
          -1.8546939997825006e-17};
      /* k, in its lowest bits. OUT: r; s, sin(r) - r; c, cos(r) - 1. */
      VOLTA_INLINE __m512i d_angle(volta_w x, volta_w *r, volta_w *s, volta_w *c) {
          volta_w t = W_FMA(x, W_SET(5.092958178940651), W_SET(VOLTA_ROUNDER64)), k = W_SUB(t, W_SET(VOLTA_ROUNDER64)), z, low;
          volta_w a = W_NEG_FMA(k, W_SET(0.1963495408417657), x), h = W_MUL(k, W_SET(7.59637563313274e-12));
          volta_w p = W_SET(2.7552489499658335e-06), q = W_SET(2.479627469063046e-05);
          *r = W_SUB(a, h);
          low = W_ADD(W_NEG_FMA(k, W_SET(7.59637563313274e-12), h), W_SUB(W_SUB(a, *r), h));
          low = W_NEG_FMA(k, W_SET(4.401949831479e-28), low);
          z = W_MUL(*r, *r);
          p = W_FMA(p, z, W_SET(-0.00019841269550281728)); p = W_FMA(p, z, W_SET(0.008333333333327723));
          p = W_FMA(p, z, W_SET(-0.16666666666666666));
          q = W_FMA(q, z, W_SET(-0.0013888888568808976)); q = W_FMA(q, z, W_SET(0.04166666666660496)); q = W_FMA(q, z, W_SET(-0.5));
          *s = W_FMA(p, W_MUL(*r, z), low);
          *c = W_MUL(q, z);
          return _mm512_castpd_si512(t);
      }
      #define VOLTA_FAR(x) _mm512_cmp_pd_mask(W_ABS(x), W_SET(VOLTA_TRIG_LIMIT64), _CMP_GT_OQ)
      VOLTA_INLINE volta_w d_trig(volta_w x, int turn, double (*function)(double)) {
          volta_w r, s, c, y;
          const __m512i at = _mm512_add_epi64(d_angle(x, &r, &s, &c), _mm512_set1_epi64(turn));
          volta_w sine = W_OF_16(at, volta_sines), cosine = W_OF_16(at, volta_cosines);
          __mmask8 far = VOLTA_FAR(x);
          y = W_ADD(sine, W_FMA(cosine, r, W_FMA(cosine, s, W_FMA(sine, c, W_OF_16(at, volta_sines_low)))));
          y = _mm512_castsi512_pd(_mm512_xor_epi64(_mm512_castpd_si512(y),
                                                   _mm512_slli_epi64(_mm512_and_epi64(at, _mm512_set1_epi64(16)), 59)));
          return __builtin_expect(far != 0, 0) ? d_again(y, x, far, function) : y;
      }
      VOLTA_INLINE volta_w d_sin(volta_w x) { return W_PICK(_mm512_cmp_pd_mask(x, W_SET(0), _CMP_EQ_OQ), x, d_trig(x, 0, sin)); }
      VOLTA_INLINE volta_w d_cos(volta_w x) { return d_trig(x, 8, cos); }
      VOLTA_INLINE volta_w d_tan(volta_w x) {
          volta_w r, s, c, y, q, above, below;
          const __m512i at = d_angle(x, &r, &s, &c);
          volta_w sine = W_OF_16(at, volta_sines), cosine = W_OF_16(at, volta_cosines);
          __mmask8 far = VOLTA_FAR(x);
          above = W_ADD(sine, W_FMA(cosine, r, W_FMA(cosine, s, W_FMA(sine, c, W_OF_16(at, volta_sines_low)))));
          below = W_ADD(cosine, W_NEG_FMA(sine, r, W_NEG_FMA(sine, s, W_FMA(cosine, c, W_OF_16(at, volta_cosines_low)))));
          y = _mm512_rcp14_pd(below);
          y = W_FMA(y, W_NEG_FMA(below, y, W_SET(1)), y);
          y = W_FMA(y, W_NEG_FMA(below, y, W_SET(1)), y);
          q = W_MUL(above, y);
          q = W_FMA(y, W_NEG_FMA(below, q, above), q);
          q = W_PICK(_mm512_cmp_pd_mask(x, W_SET(0), _CMP_EQ_OQ), x, q);
          return __builtin_expect(far != 0, 0) ? d_again(q, x, far, tan) : q;
      }

      /* As v_sqrt; OUT: half, 1 / (2 sqrt(x)). Of 0 both are NaN, where it is not near the ends by the instruction. */
      VOLTA_INLINE volta_w d_root(volta_w x, volta_w *half) {
          volta_w y = _mm512_rsqrt14_pd(x), g = W_MUL(x, y), h = W_MUL(y, W_SET(0.5)), r = W_NEG_FMA(g, h, W_SET(0.5));
          g = W_FMA(g, r, g);
          h = W_FMA(h, r, h);
          r = W_NEG_FMA(g, h, W_SET(0.5));
          g = W_FMA(g, r, g);
          h = W_FMA(h, r, h);
          *half = h;
          return W_FMA(W_NEG_FMA(g, g, x), h, g);
      }
      VOLTA_INLINE volta_w d_sqrt(volta_w x) {
          volta_w h, g = d_root(x, &h);
          __mmask8 far = _mm512_cmpge_epu64_mask(_mm512_sub_epi64(_mm512_castpd_si512(x), _mm512_set1_epi64(0x1000000000000000)),
                                                 _mm512_set1_epi64(0x6000000000000000));
          return __builtin_expect(far != 0, 0) ? _mm512_mask_sqrt_pd(g, far, x) : g;
      }

      /* asin(r) / r - 1 for r = sqrt(z), z = x**2 or, beyond 1/2 (`above`), (1 - |x|) / 2. OUT: s, the root to 27 bits, of which it has
         29, so that sums with it are exact; more, of what is beyond 1/2, what two roots are more than two s; else 0. */
      VOLTA_INLINE volta_w d_asin_parts(volta_w a, __mmask8 *above, volta_w *s, volta_w *more) {
          static const double c[12] = {0.16666666666665383, 0.07500000000343011, 0.04464285682350239, 0.030381959330568947,
              0.022371753538209763, 0.0173597708933913, 0.01388460050098058, 0.012173266483694135, 0.006510906666690156,
              0.019573765641073115, -0.01629386068407985, 0.03195882427675099};
          volta_w u = W_NEG_FMA(W_SET(0.5), a, W_SET(0.5)), y = W_MIN(W_SET(1e200), _mm512_rsqrt14_pd(u)), g = W_MUL(u, y), z, w;
          volta_w p = W_SET(c[10]), q = W_SET(c[11]), r = W_NEG_FMA(g, W_MUL(y, W_SET(0.5)), W_SET(0.5));
          int i;
          *above = _mm512_cmp_pd_mask(a, W_SET(0.5), _CMP_GT_OQ);
          *s = g = _mm512_castsi512_pd(_mm512_and_epi64(_mm512_castpd_si512(W_FMA(g, r, g)), _mm512_set1_epi64(-(1 << 24))));
          *more = _mm512_maskz_mul_pd(*above, W_NEG_FMA(g, g, u), W_FMA(y, r, y));
          z = W_PICK(*above, u, W_MUL(a, a));
          w = W_MUL(z, z);
          VOLTA_UNROLL_WHOLE
          for (i = 8; i >= 0; i -= 2) p = W_FMA(p, w, W_SET(c[i])), q = W_FMA(q, w, W_SET(c[i + 1]));
          return W_MUL(W_FMA(q, z, p), z);
      }
      VOLTA_INLINE volta_w d_asin(volta_w x) {                           /* beyond 1/2 pi / 2 - 2 asin(root), but for the sign */
          __mmask8 above;
          volta_w a = W_ABS(x), s, more, r = d_asin_parts(a, &above, &s, &more), twice = _mm512_mask_add_pd(a, above, s, s);
          volta_w q = _mm512_mask_sub_pd(twice, above, twice, W_SET(1.5707963267948966)), low;
          low = W_ADD(more, _mm512_maskz_mov_pd(above, W_SET(-6.123233995736766e-17)));
          return W_WITH_SIGN(W_ADD(q, W_FMA(W_ADD(twice, more), r, low)), x);
      }
      VOLTA_INLINE volta_w d_acos(volta_w x) {
          __mmask8 above;
          volta_w s, more, r = d_asin_parts(W_ABS(x), &above, &s, &more), near, far;
          s = W_ADD(s, s);
          more = W_FMA(W_ADD(s, more), r, more);
          near = W_ADD(s, more), far = W_ADD(s, W_SUB(more, W_SET(1.2246467991473532e-16)));
          far = W_PICK(_mm512_movepi64_mask(_mm512_castpd_si512(x)), W_SUB(W_SET(3.141592653589793), far), near);
          near = W_SUB(W_SET(1.5707963267948966), W_SUB(x, W_NEG_FMA(x, r, W_SET(6.123233995736766e-17))));
          return W_PICK(above, far, near);
      }

      /* atan(q) = atan(c) + atan((q - c) / (1 + q c)) for q = |x| or, beyond 1, 1 / |x|, and c the nearest multiple of 1/8. */
      static const double volta_angles[16] = {0.0, 0.12435499454676144, 0.24497866312686414, 0.35877067027057225, 0.4636476090008061,
          0.5585993153435624, 0.6435011087932844, 0.7188299996216245, 0.7853981633974483, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0};
      static const double volta_angles_low[16] = {0.0, -3.1253241424539383e-18, 1.0698755618734451e-17, -2.4623815582638635e-17,
          2.2698777452961687e-17, -5.4556305485916264e-18, 1.5834785051444286e-17, -2.1478388444456983e-17, 3.061616997868383e-17, 0.0,
          0.0, 0.0, 0.0, 0.0, 0.0, 0.0};
      VOLTA_INLINE volta_w d_atan(volta_w x) {
          volta_w a = W_MIN(W_SET(1e18), W_ABS(x)), above, below, t, c, u, z, p = W_SET(0.07602973674489244), high, low, q;
          __mmask8 steep = _mm512_cmp_pd_mask(a, W_SET(1), _CMP_GT_OQ);
          above = W_PICK(steep, W_SET(1), a);
          below = W_PICK(steep, a, W_SET(1));
          t = W_FMA(W_MUL(above, _mm512_rcp14_pd(below)), W_SET(8), W_SET(VOLTA_ROUNDER64));
          c = W_MUL(W_SUB(t, W_SET(VOLTA_ROUNDER64)), W_SET(0.125));
          u = _mm512_div_pd(W_NEG_FMA(c, below, above), W_FMA(c, above, below));
          z = W_MUL(u, u);
          p = W_FMA(p, z, W_SET(-0.09090457924803515)); p = W_FMA(p, z, W_SET(0.11111110059576959));
          p = W_FMA(p, z, W_SET(-0.142857142846059)); p = W_FMA(p, z, W_SET(0.19999999999999574));
          p = W_FMA(p, z, W_SET(-0.3333333333333333));
          high = W_OF_16(_mm512_castpd_si512(t), volta_angles);
          low = W_ADD(W_FMA(W_MUL(u, z), p, u), W_OF_16(_mm512_castpd_si512(t), volta_angles_low));
          q = W_SUB(W_SET(1.5707963267948966), high);
          q = W_ADD(q, W_SUB(W_ADD(W_SUB(W_SUB(W_SET(1.5707963267948966), q), high), W_SET(6.123233995736766e-17)), low));
          return W_WITH_SIGN(W_PICK(steep, q, W_ADD(high, low)), x);
      }

      VOLTA_INLINE volta_w d_erf(volta_w x) {
          volta_w a = W_MIN(W_SET(6), W_ABS(x)), t = W_FMA(a, W_SET(2.56), W_SET(VOLTA_ROUNDER64)), k = W_SUB(t, W_SET(VOLTA_ROUNDER64));
          volta_w p, r;
          const __m512i at = _mm512_castpd_si512(t);
          int i;
          r = W_NEG_FMA(k, W_SET(0.390625), a);
          p = W_OF_16(at, volta_erf_near);
          VOLTA_UNROLL_WHOLE
          for (i = 1; i <= 14; i++) p = W_FMA(p, r, W_OF_16(at, volta_erf_near + 16 * i));
          p = _mm512_mask_mul_pd(p, _mm512_cmp_pd_mask(k, W_SET(0), _CMP_EQ_OQ), p, r);
          return W_WITH_SIGN(W_MIN(W_SET(1), p), x);
      }
      #define VOLTA_LINE64(NAME, ARGUMENTS, TERM)                                                                     \\
      static inline Py_ssize_t NAME(double *out, const double *x, ARGUMENTS Py_ssize_t n) {                           \\
          Py_ssize_t i;                                                                                               \\
          for (i = 0; i + 8 <= n; i += 8) {                                                                          \\
              const volta_w v = _mm512_loadu_pd(x + i);                                                               \\
              _mm512_storeu_pd(out + i, TERM);                                                                        \\
          }                                                                                                          \\
          if (i < n) {                                                                                               \\
              const __mmask8 some = (__mmask8)((1u << (n - i)) - 1);                                                  \\
              const volta_w v = _mm512_mask_loadu_pd(W_SET(0.5), some, x + i);                                        \\
              _mm512_mask_storeu_pd(out + i, some, TERM);                                                             \\
          }                                                                                                          \\
          return n;                                                                                                   \\
      }
    #else
      #define VOLTA_LINE64(NAME, ARGUMENTS, TERM)                                                                     \\
      static inline Py_ssize_t NAME(double *out, const double *x, ARGUMENTS Py_ssize_t n) { return 0; }
    #endif
    VOLTA_LINE64(volta_exp_line64, , d_exp(v))
    VOLTA_LINE64(volta_sigmoid_line64, , d_sigmoid(v))
    VOLTA_LINE64(volta_log_line64, , d_log(v))
    VOLTA_LINE64(volta_log2_line64, , d_log2(v))
    VOLTA_LINE64(volta_logit_line64, , d_log(_mm512_div_pd(v, W_SUB(W_SET(1), v))))
    VOLTA_LINE64(volta_log10_line64, , d_log10(v))
    VOLTA_LINE64(volta_sqrt_line64, , d_sqrt(v))
    VOLTA_LINE64(volta_asin_line64, , d_asin(v))
    VOLTA_LINE64(volta_acos_line64, , d_acos(v))
    VOLTA_LINE64(volta_atan_line64, , d_atan(v))
    #if VOLTA_ERF_FOUR
      /* As d_erf, with numbers of the table one by one: two thirds of the time of both formulas of erf_f64. */
      VOLTA_INLINE __m256d volta_erf_four(__m256d x) {
          const __m256d minus = _mm256_set1_pd(-0.0), round = _mm256_set1_pd(VOLTA_ROUNDER64);
          const __m256d a = _mm256_min_pd(_mm256_set1_pd(6), _mm256_andnot_pd(minus, x));            /* a NaN stays */
          const __m256d t = _mm256_fmadd_pd(a, _mm256_set1_pd(2.56), round), k = _mm256_sub_pd(t, round);
          const __m256d r = _mm256_fnmadd_pd(k, _mm256_set1_pd(0.390625), a);
          const double *row = volta_erf_near;
          int64_t at[4];
          __m256d p;
          int i;
          _mm256_storeu_si256((__m256i *)at, _mm256_and_si256(_mm256_castpd_si256(t), _mm256_set1_epi64x(15)));
          p = _mm256_setr_pd(row[at[0]], row[at[1]], row[at[2]], row[at[3]]);
          VOLTA_UNROLL_WHOLE
          for (i = 1; i <= 14; i++) {
              row += 16;
              p = _mm256_fmadd_pd(p, r, _mm256_setr_pd(row[at[0]], row[at[1]], row[at[2]], row[at[3]]));
          }
          p = _mm256_blendv_pd(p, _mm256_mul_pd(p, r), _mm256_cmp_pd(k, _mm256_setzero_pd(), _CMP_EQ_OQ));
          return _mm256_or_pd(_mm256_min_pd(_mm256_set1_pd(1), p), _mm256_and_pd(minus, x));
      }
      static inline Py_ssize_t volta_erf_line64(double *out, const double *x, Py_ssize_t n) {
          Py_ssize_t i = 0;
          for (; i + 4 <= n; i += 4) _mm256_storeu_pd(out + i, volta_erf_four(_mm256_loadu_pd(x + i)));
          if (i < n) {
              const __m256i some = VOLTA_FIRST(n - i, double);
              _mm256_maskstore_pd(out + i, some, volta_erf_four(_mm256_maskload_pd(x + i, some)));
          }
          return n;
      }
    #else
      VOLTA_LINE64(volta_erf_line64, , d_erf(v))
    #endif
    VOLTA_LINE64(volta_sin_line64, , d_sin(v))
    VOLTA_LINE64(volta_cos_line64, , d_cos(v))
    VOLTA_LINE64(volta_tan_line64, , d_tan(v))
    #endif
    """
    Py_ssize_t exp_line64 "volta_exp_line64"(double* out, const double* x, Py_ssize_t n)
    Py_ssize_t sigmoid_line64 "volta_sigmoid_line64"(double* out, const double* x, Py_ssize_t n)
    Py_ssize_t log_line64 "volta_log_line64"(double* out, const double* x, Py_ssize_t n)
    Py_ssize_t log2_line64 "volta_log2_line64"(double* out, const double* x, Py_ssize_t n)
    Py_ssize_t logit_line64 "volta_logit_line64"(double* out, const double* x, Py_ssize_t n)
    Py_ssize_t log10_line64 "volta_log10_line64"(double* out, const double* x, Py_ssize_t n)
    Py_ssize_t sqrt_line64 "volta_sqrt_line64"(double* out, const double* x, Py_ssize_t n)
    Py_ssize_t asin_line64 "volta_asin_line64"(double* out, const double* x, Py_ssize_t n)
    Py_ssize_t acos_line64 "volta_acos_line64"(double* out, const double* x, Py_ssize_t n)
    Py_ssize_t atan_line64 "volta_atan_line64"(double* out, const double* x, Py_ssize_t n)
    Py_ssize_t sin_line64 "volta_sin_line64"(double* out, const double* x, Py_ssize_t n)
    Py_ssize_t cos_line64 "volta_cos_line64"(double* out, const double* x, Py_ssize_t n)
    Py_ssize_t tan_line64 "volta_tan_line64"(double* out, const double* x, Py_ssize_t n)
    Py_ssize_t erf_line64 "volta_erf_line64"(double* out, const double* x, Py_ssize_t n)
