# Bessel and Airy functions, in the forms of scalar.pxd.
#
# J and Y are the C library's, I polynomials without branches. The integrands of the others decay twice exponentially, or as a Gaussian, so
# that the trapezoidal rule with 16 or 45 points is right to a few units in the last place of float64; float32 goes through that.
from volta._kernels.cpu cimport special

cdef extern from * nogil:
    """
    #ifndef VOLTA_BESSEL
    #define VOLTA_BESSEL
    #define VOLTA_EULER 0.577215664901532861
    #define VOLTA_BESSEL_JY(name)                                                                                      \
        VOLTA_INLINE double bessel_##name##_f64(double x) { return fabs(x) < INFINITY ? name(x) : NAN; }
    VOLTA_BESSEL_JY(j0) VOLTA_BESSEL_JY(j1)
    #undef VOLTA_BESSEL_JY
    #define VOLTA_BESSEL_JY(name)                                                                                      \
        VOLTA_INLINE double bessel_##name##_f64(double x) { return x > 0 && x < INFINITY ? name(x) : x == 0 ? -INFINITY : NAN; }
    VOLTA_BESSEL_JY(y0) VOLTA_BESSEL_JY(y1)

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
        VOLTA_UNROLL for (k = 19; k >= 0; k--) p = VOLTA_FMA64(p, z, volta_bessel_near[order][k]);
        VOLTA_UNROLL for (k = 10; k >= 0; k--) q = VOLTA_FMA64(q, t, volta_bessel_far[order][k]);
        p = (order ? 0.5 * c * p : p) * (scaled ? e : 1);
        q = q / sqrt(a) * (scaled ? 1 : e) * (scaled ? 1 : e);
        p = volta_pick64(a < 16, p, q);
        return order ? volta_double((volta_bits64(p) & INT64_MAX) | (volta_bits64(x) & INT64_MIN)) : p;
    }
    /* The modified function K of order 0 or 1, times exp(x) if scaled: its series below 2, else the integral of
       exp(x - x cosh(t)) cosh(order t) over t > 0. */
    static double volta_bessel_k(double x, int order, int scaled) {
        double sum = 0, term = order ? 0.5 * x : 1, z = 0.25 * x * x, h = x < 8 ? 0.25 : 0.7 / sqrt(x), psi = -VOLTA_EULER;
        int k;
        if (!(x > 0) || x == INFINITY) return x == 0 ? INFINITY : x > 0 ? 0 : NAN;
        if (x < 2) {
            for (k = 1; k < 20; k++) {
                sum += term * (order ? log(0.5 * x) - psi - 0.5 / k : psi - log(0.5 * x));
                term *= z / ((double)k * (k + order));
                psi += 1.0 / k;
            }
            return (order ? 1 / x + sum : sum) * (scaled ? exp(x) : 1);
        }
        for (k = 0; k < 16; k++) {
            double s = sinh(0.5 * h * k);
            sum += (k ? h : 0.5 * h) * exp(-2 * (x * s) * s) * (1 + 2 * order * s * s);
        }
        return scaled ? sum : sum * exp(-x);
    }
    /* Ai: its series near 0, else an integral over t > 0: of cos(t**3 / 3) exp(-sqrt(x) t**2), with sqrt(x) turned by 30 degrees for
       x < 0, where the phase is lost below -1e10. Source: Gil, Segura and Temme, ACM TOMS 28 (2002), p. 325. */
    static double airy_ai_f64(double x) {
        double a = fabs(x), root = sqrt(a), zeta = a * root / 1.5, h = 0.15 / sqrt(root), sum = 0;
        double f = 0.355028053887817239, g = -0.258819403792806798 * x;
        int k;
        if (!(x >= -1e10 && x < INFINITY)) return NAN;
        if (a < 1) {
            for (k = 1; k < 36; k += 3) {
                sum += f + g;
                f *= a * x * x / ((k + 1) * (k + 2)) * (x < 0 ? -1 : 1);
                g *= a * x * x / ((k + 2) * (k + 3)) * (x < 0 ? -1 : 1);
            }
            return sum;
        }
        for (k = 0; k < 45; k++) {
            double t = h * k, s = root * t * t, weight = (k ? h : 0.5 * h) * cos(t * t * t / 3);
            sum += weight * (x > 0 ? exp(-s) : 2 * exp(-0.866025403784438647 * s) * cos(zeta + 0.5 * s - VOLTA_PI / 3));
        }
        return sum / VOLTA_PI * (x > 0 ? exp(-zeta) : 1);
    }
    VOLTA_INLINE double spherical_bessel_j0_f64(double x) { return fabs(x) == INFINITY ? 0 : x == 0 ? 1 : sin(x) / x; }
    #define VOLTA_BESSEL_IK(i, k, order, scaled)                                                                       \
        VOLTA_INLINE double i##_f64(double x) { return volta_bessel_i(x, order, scaled); }                             \
        VOLTA_INLINE double k##_f64(double x) { return volta_bessel_k(x, order, scaled); }                             \
        VOLTA_NARROW(i) VOLTA_NARROW(k)
    VOLTA_BESSEL_IK(i0, modified_bessel_k0, 0, 0) VOLTA_BESSEL_IK(i1, modified_bessel_k1, 1, 0)
    VOLTA_BESSEL_IK(i0e, scaled_modified_bessel_k0, 0, 1) VOLTA_BESSEL_IK(i1e, scaled_modified_bessel_k1, 1, 1)
    VOLTA_NARROW(bessel_j0) VOLTA_NARROW(bessel_j1) VOLTA_NARROW(bessel_y0) VOLTA_NARROW(bessel_y1)
    VOLTA_NARROW(airy_ai) VOLTA_NARROW(spherical_bessel_j0)
    #endif
    """
    float bessel_j0_f32(float x), bessel_j1_f32(float x), bessel_y0_f32(float x), bessel_y1_f32(float x), airy_ai_f32(float x)
    float spherical_bessel_j0_f32(float x), i0_f32(float x), i1_f32(float x), i0e_f32(float x), i1e_f32(float x)
    float modified_bessel_k0_f32(float x), modified_bessel_k1_f32(float x), scaled_modified_bessel_k0_f32(float x)
    float scaled_modified_bessel_k1_f32(float x)
    double bessel_j0_f64(double x), bessel_j1_f64(double x), bessel_y0_f64(double x), bessel_y1_f64(double x), airy_ai_f64(double x)
    double spherical_bessel_j0_f64(double x), i0_f64(double x), i1_f64(double x), i0e_f64(double x), i1e_f64(double x)
    double modified_bessel_k0_f64(double x), modified_bessel_k1_f64(double x), scaled_modified_bessel_k0_f64(double x)
    double scaled_modified_bessel_k1_f64(double x)
