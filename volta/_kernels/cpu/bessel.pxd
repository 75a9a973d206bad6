# Bessel and Airy functions, in the forms of scalar.pxd.
#
# J and Y are the C library's. The other integrands decay twice exponentially, or as a Gaussian, so that the trapezoidal rule with 16 or
# 45 points is right to a few units in the last place of float64; float32 goes through that.
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

    /* The modified function I of order 0 or 1, times exp(-|x|) if scaled: its series, or from 20 on the asymptotic one. */
    static double volta_bessel_i(double x, int order, int scaled) {
        double a = fabs(x), z = 0.25 * a * a, term = order && a < 20 ? 0.5 * a : 1, sum = term, e = scaled ? 1 : exp(0.5 * a);
        int k;
        if (a < 20) {
            for (k = 1; term > sum * 1e-17; k++) sum += term *= z / ((double)k * (k + order));
            if (scaled) sum *= exp(-a);
        } else {
            for (k = 1; k <= 30; k++) sum += term *= ((2 * k - 1) * (2 * k - 1) - 4 * order) / (8 * a * k);
            sum = e * (sum / sqrt(2 * VOLTA_PI) / sqrt(a)) * e;
        }
        return x != x ? x : order ? copysign(sum, x) : sum;
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
