# Scalar functions of the gamma family, in the forms of scalar.pxd: log-gamma, digamma, zeta, the incomplete gamma functions.
#
# float32 goes through float64, which is right to about 1e-13, roots excepted (absolutely there). No loop is longer than 2,000 steps.
from volta._kernels.cpu cimport special

cdef extern from * nogil:
    """
    #ifndef VOLTA_GAMMA
    #define VOLTA_GAMMA
    VOLTA_INLINE double lgamma_f64(double x) { return lgamma(x); }
    static double digamma_f64(double x) {
        double y = 0, r, z;
        if (x == 0) return copysign(INFINITY, -x);
        if (x < 0) {
            r = x - rint(x);
            if (r == 0) return NAN;
            y = -VOLTA_PI / tan(VOLTA_PI * r);
            x = 1 - x;
        }
        for (; x < 10; x += 1) y -= 1 / x;
        z = 1 / (x * x);
        return y + (log(x) - 0.5 / x - z * (1 / 12. - z * (1 / 120. - z * (1 / 252. - z * (1 / 240. - z * (1 / 132. - z * (
            691 / 32760. - z / 12)))))));
    }
    #if VOLTA_WIDE == 32                            /* wider ones: gamma_vectors.pxd */
      /* Those of float32 without branches. Below 1/2 from the other side, where y = 1 - x; below 8 from z = y + 8. OUT: of y (y + 1) ...
         (y + 7), which is 1 from 8 on, the product and its derivative; s, sin(pi x), and c, cos(pi x), less their signs, which are one. */
      VOLTA_INLINE double volta_from_eight(double x, double *product, double *slope, double *s, double *c) {
          double y = x < 0.5 ? 1 - x : x, p = y < 8 ? y : 1, d = y < 8, r = (x - rint(x)) * VOLTA_PI, w = r * r, sum = 0, even = 0;
          static const double odds[10] = {-1.9572941063391263e-20, 8.22063524662433e-18, -2.8114572543455206e-15, 7.647163731819816e-13,
                                          -1.6059043836821613e-10, 2.505210838544172e-08, -2.7557319223985893e-06, 0.0001984126984126984,
                                          -0.008333333333333333, 0.16666666666666666};
          static const double evens[10] = {-4.110317623312165e-19, 1.5619206968586225e-16, -4.779477332387385e-14, 1.1470745597729725e-11,
                                           -2.08767569878681e-09, 2.755731922398589e-07, -2.48015873015873e-05, 0.001388888888888889,
                                           -0.041666666666666664, 0.5};
          int k;
          VOLTA_UNROLL_WHOLE for (k = 1; k < 8; k++) d = y < 8 ? VOLTA_FMA64(d, y + k, p) : 0, p = y < 8 ? p * (y + k) : 1;
          VOLTA_UNROLL_WHOLE for (k = 0; k < 10; k++) sum = VOLTA_FMA64(sum, w, odds[k]), even = VOLTA_FMA64(even, w, evens[k]);
          *product = p;
          *slope = d;
          *s = VOLTA_FMA64(-sum, w * r, r);
          *c = VOLTA_FMA64(-even, w, 1.0);
          return y < 8 ? y + 8 : y;
      }
      VOLTA_INLINE float lgamma_f32(float x) {
          double product, slope, s, c, z = volta_from_eight(x, &product, &slope, &s, &c), w = 1 / z, v = w * w, series, side;
          series = w * (1 / 12. - v * (1 / 360. - v * (1 / 1260. - v * (1 / 1680. - v * (1 / 1188. - v * (691 / 360360. - v / 156))))));
          series += VOLTA_FMA64(z - 0.5, volta_log_within64(z), 0.91893853320467274) - z;
          side = log_f64(x < 0.5f ? VOLTA_PI * product / fabs(s) : product);
          series = (x == 1) | (x == 2) ? side : series;
          return (float)volta_pick64(fabsf(x) < INFINITY, x < 0.5f ? side - series : series - side, fabs((double)x));
      }
      VOLTA_INLINE float digamma_f32(float x) {
          double product, slope, s, c, z = volta_from_eight(x, &product, &slope, &s, &c), w = 1 / z, v = w * w, y;
          y = v * (1 / 12. - v * (1 / 120. - v * (1 / 252. - v * (1 / 240. - v * (1 / 132. - v * (691 / 32760. - v / 12))))));
          y = log_f64(z) - 0.5 * w - y - slope / product;
          y = volta_pick64(x < 0.5f, y - VOLTA_PI * c / s, y);
          y = volta_pick64((s == 0) & (x < 0.5f), NAN, y);
          return (float)volta_pick64(x == 0, copysign(INFINITY, -x), y);
      }
    #else
      VOLTA_INLINE float lgamma_f32(float x) { return lgammaf(x); }
      VOLTA_NARROW(digamma)
    #endif
    /* The sum of (q + k)**-s over k >= 0, for q >= 0: ten terms and the Euler-Maclaurin formula. */
    static double volta_zeta(double s, double q) {
        static const double bernoulli[8] = {1 / 12., -1 / 720., 1 / 30240., -1 / 1209600., 1 / 47900160., -691 / 1307674368000.,
                                            1 / 74724249600., -3617 / 10670622842880000.};
        double sum = 0, term;
        int k;
        for (k = 0; k < 10; k++, q += 1) sum += pow(q, -s);
        if (pow(q, -s) == 0) return sum;
        sum += pow(q, 1 - s) / (s - 1) + 0.5 * pow(q, -s);
        term = s * pow(q, -s - 1);
        for (k = 0; k < 8; k++) {
            sum += bernoulli[k] * term;
            term *= (s + 2 * k + 1) / q * ((s + 2 * k + 2) / q);
        }
        return sum;
    }
    /* zeta(2, q), the derivative of digamma, where no square vanishes: as digamma, the terms before its series as one fraction. */
    VOLTA_INLINE int zeta_rare(double s, double q) { return !((s == 2) & (q > 1e-30) & (q < 1e30)); }
    VOLTA_INLINE double volta_trigamma(double q) {
        double c = q < 8 ? q : 1, y = q < 8 ? q + 8 : q, sum, z, p[8], s[4];
        int k;
        VOLTA_UNROLL_WHOLE for (k = 0; k < 8; k++) p[k] = (c + k) * (c + k);
        VOLTA_UNROLL_WHOLE for (k = 0; k < 4; k++) s[k] = p[2 * k] + p[2 * k + 1], p[k] = p[2 * k] * p[2 * k + 1];
        VOLTA_UNROLL_WHOLE for (k = 0; k < 2; k++) s[k] = s[2 * k] * p[2 * k + 1] + s[2 * k + 1] * p[2 * k], p[k] = p[2 * k] * p[2 * k + 1];
        sum = volta_pick64(q < 8, (s[0] * p[1] + s[1] * p[0]) / (p[0] * p[1]), 0);
        z = 1 / (y * y);
        return sum + 1 / y + 0.5 * z + z / y * (1 / 6. - z * (1 / 30. - z * (1 / 42. - z * (1 / 30. - z * (5 / 66. - z * (
            691 / 2730. - z * (7 / 6. - z * (3617 / 510.))))))));
    }
    /* Below 0, for whole s: a sum over all integers less that from the other side. */
    static double zeta_f64(double s, double q) {
        double f, sign;
        if (!zeta_rare(s, q)) return volta_trigamma(q);
        f = q - floor(q);
        sign = fmod(s, 2) == 1 ? -1 : 1;
        if (s == 1) return INFINITY;
        if (s < 1) return NAN;
        if (q <= 0 && q == floor(q)) return INFINITY;
        if (s != s || q != q || q == INFINITY || (s == INFINITY && q > 1) || (q < 0 && s != floor(s))) return NAN;
        return q > 0 ? volta_zeta(s, q) : volta_zeta(s, f) + sign * (volta_zeta(s, 1 - f) - volta_zeta(s, 1 - q));
    }

    /* m - log(x / a) with m = x / a - 1, exact near 0: with s = m / (2 + m), log(1 + m) = 2 (s + s**3 / 3 + s**5 / 5 + ...). */
    static double volta_log_gap(double x, double a) {
        double m = (x - a) / a, s = m / (2 + m), z = s * s, sum = 0;
        int k;
        if (!(fabs(m) < 0.5)) return m - log(x / a);
        for (k = 27; k > 1; k -= 2) sum = 1.0 / k + z * sum;
        return s * (m - 2 * z * sum);
    }
    /* log(Gamma(1 + a)) for a > -1/2: to 1/2 by a near-minimax rational function, since 1 + a would be rounded. */
    static double volta_lgamma_after(double a) {
        static const double p[9] = {-0.5772156649015329, -1.5280144326698208, -0.963719628899137, 0.7933171148175178, 1.3739822084975484,
                                    0.7191230494458446, 0.16641301437061842, 0.015716157346511505, 0.00039818198769203764};
        static const double q[9] = {1.0, 4.072102697515845, 6.777716645309988, 5.92513223668279, 2.906985069933449, 0.7911132014049239,
                                    0.11000267483869715, 0.006395313251979754, 8.994918704522698e-05};
        double above = p[8], below = q[8];
        int k;
        if (!(a < 0.5)) return lgamma(1 + a);
        VOLTA_UNROLL_WHOLE for (k = 7; k >= 0; k--) above = VOLTA_FMA64(above, a, p[k]), below = VOLTA_FMA64(below, a, q[k]);
        return a * above / below;
    }
    /* log(Gamma(1 + a)) less its leading terms a log(a) - a + log(2 pi a) / 2. */
    static double volta_stirling(double a) {
        double z = 1 / (a * a);
        if (a < 15) return volta_lgamma_after(a) - (a * (log(a) - 1) + 0.5 * log(2 * VOLTA_PI * a));
        return (1 / 12. - z * (1 / 360. - z * (1 / 1260. - z * (1 / 1680. - z * (1 / 1188. - z * (691 / 360360.)))))) / a;
    }
    /* x**a exp(-x) / Gamma(a + 1). */
    static double volta_gamma_weight(double a, double x) {
        if (a < 15) return exp(a * log(x) - x - volta_lgamma_after(a));
        return exp(-a * volta_log_gap(x, a) - volta_stirling(a)) / sqrt(2 * VOLTA_PI * a);
    }
    static double volta_gamma_series(double a, double x, double tiny) {         /* up to terms of that part of the sum */
        double term = 1, sum = 1, n = a;
        int k;
        for (k = 0; k < 2000 && term > sum * tiny; k++) sum += term *= x / (n += 1);
        return volta_gamma_weight(a, x) * sum;
    }
    /* The upper function by Legendre's continued fraction, of which above / below is what k terms give, and gap / (below last_below) the
       difference from k - 1. */
    static double volta_gamma_fraction(double a, double x, double tiny) {
        double b = x + 1 - a, above = 1, below = b, last_above = 0, last_below = 1, gap = 1, weight = a * volta_gamma_weight(a, x), n, next;
        int k;
        if (weight == 0) return 0;
        for (k = 1; k < 2000 && fabs(gap) > 10 * tiny * fabs(above * last_below); k++) {
            n = k * (a - k);
            b += 2;
            next = b * above + n * last_above, last_above = above, above = next;
            next = b * below + n * last_below, last_below = below, below = next;
            gap *= n;
            if (fabs(below) > 1e70) {
                above *= 1e-70, last_above *= 1e-70, below *= 1e-70, last_below *= 1e-70;
                gap *= 1e-70, gap *= 1e-70;
            }
        }
        return weight * above / below;
    }
    /* The upper function for small a and x: 1 - x**a / Gamma(1 + a), and the rest of the series, without cancellation. */
    static double volta_gamma_small(double a, double x) {
        double power = a * log(x) - volta_lgamma_after(a), term = 1, sum = 0;
        int k;
        for (k = 1; k < 60; k++) sum += (term *= -x / k) / (a + k);
        return -expm1(power) - a * exp(power) * sum;
    }
    /* The lower (sign -1) or upper (1) function for large a near x. Source: Temme, SIAM J. Math. Anal. 10 (1979), p. 757. */
    static double volta_gamma_uniform(double a, double x, double sign) {
        static const double c[4][13] = {
            {-1 / 3., 1 / 12., -2 / 135., 1 / 864., 1 / 2835., -1.787551440329218e-4, 3.919263178522438e-5, -2.185448510679992e-6,
             -1.854062210715160e-6, 8.296711340953086e-7, -1.766595273682608e-7, 6.707853543401499e-9, 1.026180978424031e-8},
            {-1 / 540., -1 / 288., 2.645502645502646e-3, -9.902263374485597e-4, 2.057613168724280e-4, -4.018775720164609e-7,
             -1.809855033448998e-5, 7.649160916081111e-6, -1.612090089456345e-6, 4.647127802807434e-9, 1.378633446915721e-7},
            {4.133597883597884e-3, -2.681327160493827e-3, 7.716049382716049e-4, 2.009387860082305e-6, -1.073665322636516e-4,
             5.292344882912013e-5, -1.276063518861873e-5},
            {6.494341563786008e-4, 2.294720936213992e-4, -4.691894943952557e-4, 2.677206320628389e-4}};
        double gap = volta_log_gap(x, a), eta = copysign(sqrt(2 * gap), x - a), rest = 0, sum;
        int k, n;
        for (k = 3; k >= 0; k--) {
            for (sum = 0, n = 12; n >= 0; n--) sum = c[k][n] + eta * sum;
            rest = sum + rest / a;
        }
        return 0.5 * erfc(sign * eta * sqrt(0.5 * a)) + sign * exp(-a * gap) / sqrt(2 * VOLTA_PI * a) * rest;
    }
    /* What both functions give without computing: -1 where they must be computed, else the lower one. */
    static double volta_gamma_edge(double a, double x) {
        if (a < 0 || x < 0) return NAN;
        if (a == 0) return x > 0 ? 1 : NAN;
        if (x == 0) return 0;
        if (a == INFINITY) return x == INFINITY ? NAN : 0;
        return x == INFINITY ? 1 : a != a || x != x ? NAN : -1;
    }
    VOLTA_INLINE int volta_gamma_is_near(double a, double x) { return a > 1000 && fabs(x - a) < 0.3 * a; }
    static double volta_igamma(double a, double x, double tiny) {
        double edge = volta_gamma_edge(a, x);
        if (edge != -1) return edge;
        if (volta_gamma_is_near(a, x)) return volta_gamma_uniform(a, x, -1);
        return x > 1 && x > a ? 1 - volta_gamma_fraction(a, x, tiny) : volta_gamma_series(a, x, tiny);
    }
    static double volta_igammac(double a, double x, double tiny) {
        double edge = volta_gamma_edge(a, x);
        if (edge != -1) return 1 - edge;
        if (volta_gamma_is_near(a, x)) return volta_gamma_uniform(a, x, 1);
        if (x > 1.1) return x > a ? volta_gamma_fraction(a, x, tiny) : 1 - volta_gamma_series(a, x, tiny);
        return a < (x > 0.5 ? 1.1 * x : -0.4 / log(x)) ? volta_gamma_small(a, x) : 1 - volta_gamma_series(a, x, tiny);
    }
    #define VOLTA_GAMMA_OF(name)                                                                                       \
        VOLTA_INLINE double name##_f64(double a, double x) { return volta_##name(a, x, 1e-17); }                        \
        VOLTA_INLINE float name##_f32(float a, float x) { return (float)volta_##name(a, x, 1e-10); }
    VOLTA_GAMMA_OF(igamma) VOLTA_GAMMA_OF(igammac)
    #endif
    """
    float lgamma_f32(float x), digamma_f32(float x), igamma_f32(float a, float b), igammac_f32(float a, float b)
    double lgamma_f64(double x), digamma_f64(double x), zeta_f64(double a, double b), igamma_f64(double a, double b)
    int zeta_rare(double s, double q)
    double volta_trigamma(double q), igammac_f64(double a, double b), volta_stirling(double a), volta_log_gap(double x, double a)
