# Bessel and Airy functions, in the forms of scalar.pxd.
#
# Polynomials and rational functions without branches, for the arguments whose sines those of doubles.pxd are; beyond, J and Y are the C
# library's, and Airy's an integral. Near-minimax fits, right to a few units in the last place of float64; float32 goes through that.
from volta._kernels.cpu cimport special

cdef extern from * nogil:
    """
    #ifndef VOLTA_BESSEL
    #define VOLTA_BESSEL
    static const double volta_bessel_near_j[2][15] = {{
        0.0011434937743762545, -6.624357154624037e-05, 1.5269952779230138e-06, -1.957821852540931e-08, 1.6190720285413593e-10,
        -9.409614027212692e-13, 4.0670226557558414e-15, -1.3612234095637556e-17, 3.636923197969725e-20, -7.94347831694969e-23,
        1.4456426684472427e-25, -2.2269610053939612e-28, 2.942379327593022e-31, -3.3835148869933634e-34, 3.3933650010689543e-37}, {
        0.00019498936985895625, -8.42975858348865e-06, 1.5488297655634642e-07, -1.6503916134904498e-09, 1.1675046589866266e-11,
        -5.927960622055104e-14, 2.2747761204391907e-16, -6.845780457887608e-19, 1.6615147338037168e-21, -3.324468173610557e-24,
        5.581964951451497e-27, -7.981201446650425e-30, 9.838598710893146e-33, -1.0599222186906092e-35, 1.0003099489260801e-38}};
    static const double volta_bessel_near_y[2][17] = {{
        -0.382250654459425, -0.025888621573764335, 0.0016084926551509244, 4.398386343170921e-06, -1.0276295984474178e-06,
        2.0032437990402218e-08, -2.0392003558735958e-10, 1.3494586944980292e-12, -6.389874267616093e-15, 2.291240565346129e-17,
        -6.465532005379263e-20, 1.476962666167703e-22, -2.7916105485492112e-25, 4.442755575760332e-28, -6.0397413593306155e-31,
        7.1275009065013e-34, -7.311009700435112e-37}, {
        0.07075985882118005, -0.007605544712247848, 2.2819894258782797e-05, 7.173830934652635e-06, -1.8730010852747369e-07,
        2.3409089214332497e-09, -1.8280704350303325e-11, 9.960759023433928e-14, -4.0364952247863336e-16, 1.2697208298522968e-18,
        -3.1983303777692308e-21, 6.607195463109877e-24, -1.1408688683157444e-26, 1.6722972914145461e-29, -2.108055595374712e-32,
        2.3187529317258707e-35, -2.22899827239453e-38}};
    static const double volta_bessel_phase[4][11] = {{
        0.9999999999999999, -0.07031249999782462, 0.11215209392266684, -0.5724955141730534, 6.070820128918049,
        -108.95693157914438, 2808.9062141776367, -84070.83694213124, 2272648.786533264, -43058878.97794305, 398038622.4849955}, {
        -0.1249999999999989, 0.07324218748284937, -0.22710795679479298, 1.727680690760997, -24.354853733884067, 542.812257639393,
        -16389.150571464106, 542765.6843746469, -15551537.873749996, 304464604.8503796, -2869048638.621218}, {
        1.0000000000000002, 0.11718749999768488, -0.1441955505892419, 0.6765863040302622, -6.880487494730637, 120.47080125832083,
        -3058.81556303409, 90753.95896785367, -2441902.1994702965, 46150988.89066434, -426027891.9441563}, {
        0.37499999999999883, -0.10253906248179359, 0.27757639885895224, -1.9934820547935326, 27.22158724083682,
        -594.8056297472172, 17738.44618257478, -583306.4960635215, 16649740.35263558, -325294961.32211465, 3061726717.990744}};
    static const double volta_bessel_near_k[4][11] = {{
        1.0, 1.0, 0.25, 0.02777777777777773, 0.0017361111111114864, 6.944444444269423e-05, 1.9290123507659856e-06,
        3.9367589400828614e-08, 6.151300979699649e-10, 7.585619862375622e-12, 7.946838646831418e-14}, {
        1.0, 0.5, 0.08333333333333333, 0.006944444444444441, 0.0003472222222222534, 1.1574074073928633e-05,
        2.7557319266260927e-07, 4.920949072636555e-09, 6.834747060373562e-11, 7.58704190871966e-13, 7.197180282927018e-15}, {
        -0.5772156649015329, 0.42278433509846713, 0.23069608377461678, 0.03489215745643879, 0.002614787618806127,
        0.00011848039363681674, 3.6126241156401086e-06, 7.935094200353768e-08, 1.316776465276116e-09, 1.707930784071455e-11,
        1.8721710403792348e-13}, {
        0.03860783245076643, -0.16819608377461678, -0.04539379174021391, -0.004795547459832635, -0.0002788398729916708,
        -1.0355619222997e-05, -2.6788647904847954e-07, -5.11321402817399e-09, -7.505239333197637e-11, -8.731098654252118e-13,
        -8.639587253278085e-15}};
    static const double volta_bessel_far_k[4][9] = {{
        1.2533141373155003, 20.715542178062584, 127.63666152207661, 373.8985898754134, 551.0677766429059, 398.33671281529564,
        127.11328729427068, 13.923675383597315, 0.24348398833067866}, {
        1.0, 16.65361127253669, 103.85071052995514, 310.2115361285238, 472.27050469987375, 361.01440106038234, 127.62517993435682,
        17.256765671637147, 0.5507702159212945}, {
        1.2533141373155003, 20.46914790418386, 125.63838509988958, 372.488724355623, 572.1985582397515, 454.78027379515413,
        175.8923018691515, 28.235423187449435, 1.2244857869128343}, {
        1.0, 15.957017085538645, 94.37823380832685, 263.578588435845, 367.2743519159873, 248.368292194127, 73.07271688152593,
        7.184764638075435, 0.10060944145428853}};
    static const double volta_bessel_roots[2][4] = {{
        5.783185962946784, 4.123247343506204e-16, 30.471262343662087, -2.366534485750659e-16}, {
        14.681970642123893, -9.858177825793294e-17, 49.2184563216946, 5.086354069436341e-16}};    /* squared, and what that leaves */
    /* J or, if second, Y of order 0 or 1: below 8 polynomials of x**2 - 32, of J times its two roots, of Y what is left of log(x) J; from
       there on waves, whose size and phase are polynomials of 1 / x**2. In absolute terms exact to the last place of the largest values. */
    VOLTA_INLINE double volta_bessel_jy(double x, int order, int second) {
        double a = fabs(x), c = a < 8 ? a : 8, z = VOLTA_FMA64(c, c, -32.0), t = 1 / (a < 8 ? 8 : a), u = t * t, p, q;
        double sine = sin_f64(a), cosine = cos_f64(a);
        double near = volta_poly64(volta_bessel_near_j[order], 15, z);
        near *= (VOLTA_FMA64(c, c, -volta_bessel_roots[order][0]) - volta_bessel_roots[order][1])
              * (VOLTA_FMA64(c, c, -volta_bessel_roots[order][2]) - volta_bessel_roots[order][3]);
        near = volta_pick64(a < 1e-8, order ? 0.5 * c : 1, order ? c * near : near);
        if (second) {
            p = volta_poly64(volta_bessel_near_y[order], 17, z);
            near = (order ? c * p : p) + 0.63661977236758134 * (volta_log_within64(c) * near - (order ? 1 / c : 0));
        }
        p = volta_poly64(volta_bessel_phase[2 * order], 11, u);
        q = volta_poly64(volta_bessel_phase[2 * order + 1], 11, u) * t;
        p = (second ? p * (order ? -sine - cosine : sine - cosine) + q * (order ? sine - cosine : sine + cosine)
             : p * (order ? sine - cosine : sine + cosine) + q * (order ? sine + cosine : cosine - sine)) * sqrt(t * 0.318309886183790672);
        p = volta_pick64(a < 8, near, p);
        if (second) return volta_pick64(x > 0, p, volta_pick64(x == 0, -INFINITY, NAN));
        return order ? volta_double(volta_bits64(p) ^ (volta_bits64(x) & INT64_MIN)) : p;
    }
    #define VOLTA_BESSEL_JY(name, letter, order, second)                                                               \
        VOLTA_INLINE double name##_f64(double x) { return volta_bessel_jy(x, order, second); }                          \
        static double name##_far(double x) { return fabs(x) < INFINITY ? letter##order(x) : NAN; }
    VOLTA_BESSEL_JY(bessel_j0, j, 0, 0) VOLTA_BESSEL_JY(bessel_j1, j, 1, 0)
    VOLTA_BESSEL_JY(bessel_y0, y, 0, 1) VOLTA_BESSEL_JY(bessel_y1, y, 1, 1)

    /* The modified function I of order 0 or 1, times exp(-|x|) if scaled: near-minimax polynomials of x**2 / 4 below 16, of order 1 times
       |x| / 2, else of 1 / |x|, times exp(|x|) / sqrt(|x|). */
    static const double volta_bessel_near[2][21] = {{
        1.0, 0.9999999999999996, 0.2500000000000023, 0.0277777777777736, 0.0017361111111148532,
        6.944444444251832e-05, 1.929012346305672e-06, 3.936759875410482e-08, 6.15118753861276e-10,
        7.59405605180487e-12, 7.594078267909481e-14, 6.275956024479313e-16, 4.358995231648951e-18,
        2.5766795149413333e-20, 1.3222110918088766e-22, 5.707171360028016e-25, 2.517149221693416e-27,
        5.060016845059844e-30, 4.903545751109133e-32, -7.268923069679957e-35, 6.112948718032876e-37}, {
        1.0, 0.49999999999999994, 0.08333333333333365, 0.006944444444443953, 0.00034722222222261,
        1.1574074073895004e-05, 2.7557319229287483e-07, 4.92094985073075e-09, 6.834652738737479e-11,
        7.594056814570138e-13, 6.903702198447825e-15, 5.2299914867467526e-17, 3.352959449307296e-19,
        1.8408382744753915e-21, 8.80637726526913e-24, 3.58198306588582e-26, 1.4606881212889308e-28,
        3.002636136175898e-31, 2.4561947398271426e-33, -3.1417722448814004e-36, 2.8216489918565583e-38}};
    static const double volta_bessel_far[2][12] = {{
        0.39894228040143265, 0.04986778505030219, 0.028050629006462918, 0.029219428536910712, 0.04473888530088119,
        0.09088369789827778, 0.2135171506418393, 1.2004708015754375, -9.00045984988179, 171.08193526597032,
        -1282.2456966997322, 5236.4950154962135}, {
        0.3989422804014327, -0.14960335515066772, -0.04675104839523301, -0.04090719205252334, -0.057522174838829244,
        -0.11103463151543132, -0.2541425597418159, -1.3376169222421177, 9.37700815531937, -182.20133022612907,
        1360.8215483463628, -5581.2026879391215}};
    VOLTA_INLINE double volta_bessel_i(double x, int order, int scaled) {
        double a = fabs(x), c = a < 16 ? a : 16, z = 0.25 * c * c, t = 1 / a, e = exp_f64(scaled ? -a : 0.5 * a);
        double p = volta_bessel_near[order][20], q = volta_bessel_far[order][11];
        int k;
        VOLTA_UNROLL_WHOLE for (k = 19; k >= 0; k--) p = VOLTA_FMA64(p, z, volta_bessel_near[order][k]);
        VOLTA_UNROLL_WHOLE for (k = 10; k >= 0; k--) q = VOLTA_FMA64(q, t, volta_bessel_far[order][k]);
        p = (order ? 0.5 * c * p : p) * (scaled ? e : 1);
        q = q * sqrt(t) * (scaled ? 1 : e) * (scaled ? 1 : e);
        p = volta_pick64(a < 16, p, q);
        return order ? volta_double((volta_bits64(p) & INT64_MAX) | (volta_bits64(x) & INT64_MIN)) : p;
    }
    /* The modified function K of order 0 or 1, times exp(x) if scaled: below 2 by I and polynomials of x**2 / 4, else exp(-x) / sqrt(x)
       times a rational function of 1 / x. */
    VOLTA_INLINE double volta_bessel_k(double x, int order, int scaled) {
        double c = x < 2 ? x : 2, z = 0.25 * c * c, t = 1 / (x < 2 ? 2 : x), l = volta_log_within64(0.5 * c), p, q;
        double e = exp_f64(x < 2 ? (scaled ? x : 0) : (scaled ? 0 : -x));
        p = volta_poly64(volta_bessel_near_k[2 + order], 11, z);
        q = volta_poly64(volta_bessel_near_k[order], 11, z) * l;
        p = order ? 1 / c + c * VOLTA_FMA64(0.5, q, p) : p - q;
        q = volta_poly64(volta_bessel_far_k[2 * order], 9, t) / volta_poly64(volta_bessel_far_k[2 * order + 1], 9, t) * sqrt(t);
        return volta_pick64(x > 0, volta_pick64(x < 2, p, q) * e, volta_pick64(x == 0, INFINITY, NAN));
    }
    static const double volta_airy_near[31] = {
        0.4642565777488694, 0.30918696720241035, -0.34819243331165206, 7.935449087662185e-05, 0.06928963476415718,
        -0.01741557325240352, -0.003461836588511005, 0.002271737967697599, -0.0002182646137459007, -9.540893807429083e-05,
        2.887927654019305e-05, -6.83192771696425e-07, -1.050968585425583e-06, 1.9169271936861607e-07, 4.908024335582364e-09,
        -6.373842079750412e-09, 7.680437697355503e-10, 5.319289591903532e-11, -2.4594246716009407e-11, 2.012693752417065e-12,
        2.3701519390613487e-13, -6.578562641111501e-14, 3.594671791078031e-15, 6.678619811677802e-16, -1.298264447237825e-16,
        3.978516003515527e-18, 1.3975806519141678e-18, -1.7626838248087039e-19, -1.2591050023824186e-21, 1.5699662098389788e-21,
        -8.144560159134675e-23};
    static const double volta_airy_right[2][10] = {{
        1.0, 17.03079435074511, 110.53940565637814, 352.34514045141526, 593.5405771278149, 530.5464363150137, 240.1378392569867,
        49.257170203606385, 3.613129674849296, 0.049862233641927156}, {
        1.0, 17.10023879518953, 111.68978875172705, 359.5043773340665, 614.9507686995368, 563.2754200419571, 265.33250264842457,
        58.26374829045038, 4.856180914142899, 0.09153435432749019}};
    static const double volta_airy_left[4][7] = {{
        1.0, 146.7972591906574, 6740.94352063474, 117389.90765210202, 748872.8238527417, 1404279.5694170385, 384833.79068849527}, {
        1.0, 146.8343926783117, 6746.33834455211, 117632.24943123346, 752891.734803848, 1427026.2812890715, 414582.40178173315}, {
        -0.06944444444444443, -11.44288364499617, -598.6534220848739, -12110.953651927975, -92015.31868610311, -210586.0105790091,
        -64887.758395486715}, {
        1.0, 165.32462453938388, 8709.3865620933, 178898.88273283272, 1410247.3163833972, 3589597.631236555, 1784312.6880535258}};
    /* Ai: a polynomial from -4.5 to 1.5; else exp(-zeta), or a wave of zeta, zeta = 2/3 |x|**1.5, times rational functions of 1 / zeta. */
    VOLTA_INLINE double airy_ai_f64(double x) {
        double a = x > 1.5 ? x : x < -4.5 ? -x : 4.5, root = sqrt(a), zeta = a * root / 1.5, t = 1 / zeta, u = t * t, p, q;
        double near = volta_poly64(volta_airy_near, 31, (x < -4.5 ? -4.5 : x > 1.5 ? 1.5 : x) + 1.5);
        double sine = sin_f64(zeta), cosine = cos_f64(zeta);
        double right = volta_poly64(volta_airy_right[0], 10, t) / volta_poly64(volta_airy_right[1], 10, t);
        p = volta_poly64(volta_airy_left[0], 7, u) / volta_poly64(volta_airy_left[1], 7, u) * (sine + cosine);
        q = volta_poly64(volta_airy_left[2], 7, u) / volta_poly64(volta_airy_left[3], 7, u) * (cosine - sine) * t;
        p = volta_pick64(x > 0, right * exp_f64(-zeta) * 0.282094791773878143, (p + q) * 0.398942280401432678) / sqrt(root);
        return volta_pick64((x > 1.5) | (x < -4.5), p, near);
    }
    /* The same as an integral over t > 0, for x <= -1e4: of cos(t**3 / 3) exp(-sqrt(x) t**2), sqrt(x) turned by 30 degrees. The phase is
       lost below -1e10. Source: Gil, Segura and Temme, ACM TOMS 28 (2002), p. 325. */
    static double airy_ai_far(double x) {
        double root = sqrt(-x), zeta = -x * root / 1.5, h = 0.15 / sqrt(root), sum = 0;
        int k;
        if (!(x >= -1e10 && x < INFINITY)) return NAN;
        for (k = 0; k < 45; k++) {
            double t = h * k, s = root * t * t;
            sum += (k ? h : 0.5 * h) * cos(t * t * t / 3) * 2 * exp(-0.866025403784438647 * s) * cos(zeta + 0.5 * s - VOLTA_PI / 3);
        }
        return sum / VOLTA_PI;
    }
    VOLTA_INLINE int airy_ai_rare(double x) { return (x < -1e4) | (x == INFINITY); }
    VOLTA_INLINE double spherical_bessel_j0_f64(double x) { double w = x == 0 ? 1 : x, y = sin_f64(w) / w; return x == 0 ? 1 : y; }
    VOLTA_INLINE float spherical_bessel_j0_f32(float x) { float w = x == 0 ? 1 : x, y = sin_f32(w) / w; return x == 0 ? 1 : y; }
    static double spherical_bessel_j0_far(double x) { return fabs(x) == INFINITY ? 0 : sin(x) / x; }
    #define VOLTA_BESSEL_IK(i, k, order, scaled)                                                                       \
        VOLTA_INLINE double i##_f64(double x) { return volta_bessel_i(x, order, scaled); }                             \
        VOLTA_INLINE double k##_f64(double x) { return volta_bessel_k(x, order, scaled); }
    VOLTA_BESSEL_IK(i0, modified_bessel_k0, 0, 0) VOLTA_BESSEL_IK(i1, modified_bessel_k1, 1, 0)
    VOLTA_BESSEL_IK(i0e, scaled_modified_bessel_k0, 0, 1) VOLTA_BESSEL_IK(i1e, scaled_modified_bessel_k1, 1, 1)
    #endif
    """
    float spherical_bessel_j0_f32(float x)
    double bessel_j0_f64(double x), bessel_j1_f64(double x), bessel_y0_f64(double x), bessel_y1_f64(double x), airy_ai_f64(double x)
    double spherical_bessel_j0_f64(double x), i0_f64(double x), i1_f64(double x), i0e_f64(double x), i1e_f64(double x)
    double modified_bessel_k0_f64(double x), modified_bessel_k1_f64(double x), scaled_modified_bessel_k0_f64(double x)
    double scaled_modified_bessel_k1_f64(double x), bessel_j0_far(double x), bessel_j1_far(double x), bessel_y0_far(double x)
    double bessel_y1_far(double x), airy_ai_far(double x), spherical_bessel_j0_far(double x)
    int airy_ai_rare(double x)
