# The scalar functions of float64, in the form of scalar.pxd: exp, exp2, expm1, tanh, sigmoid, logarithms, sin, cos and erf without
# branches, to 2.3 units in the last place; the rest calls the C library. Polynomials are near-minimax fits.
from volta._kernels.cpu cimport bits

cdef extern from * nogil:
    """
    #ifndef VOLTA_DOUBLES
    #define VOLTA_DOUBLES
    /* As in float32: exp(r) - 1 of x = n ln 2 + r, by 13 terms, of which the rest is 4e-18; exp within 1 unit in the last place. */
    VOLTA_INLINE double volta_exp_reduced64(double x, int64_t *n) {
        double t = VOLTA_FMA64(x, 1.4426950408889634, VOLTA_ROUNDER64), k = t - VOLTA_ROUNDER64;
        double r = VOLTA_FMA64(k, -1.90821492927058770002e-10, VOLTA_FMA64(k, -6.93147180369123816490e-01, x));
        double p = 1.6059043836821613e-10;
        p = VOLTA_FMA64(p, r, 2.08767569878681e-09); p = VOLTA_FMA64(p, r, 2.505210838544172e-08);
        p = VOLTA_FMA64(p, r, 2.755731922398589e-07); p = VOLTA_FMA64(p, r, 2.7557319223985893e-06);
        p = VOLTA_FMA64(p, r, 2.48015873015873e-05); p = VOLTA_FMA64(p, r, 0.0001984126984126984);
        p = VOLTA_FMA64(p, r, 0.001388888888888889); p = VOLTA_FMA64(p, r, 0.008333333333333333);
        p = VOLTA_FMA64(p, r, 0.041666666666666664); p = VOLTA_FMA64(p, r, 0.16666666666666666); p = VOLTA_FMA64(p, r, 0.5);
        *n = volta_bits64(t) - volta_bits64(VOLTA_ROUNDER64);
        return VOLTA_FMA64(p, r * r, r);
    }
    VOLTA_INLINE double exp_f64(double x) {
        int64_t n, half;
        double c = x < -746.0 ? -746.0 : x, p;
        c = c > 710.0 ? 710.0 : c;
        p = 1.0 + volta_exp_reduced64(c, &n);
        half = n >> 1;
        return p * volta_double((half + 1023) << 52) * volta_double((n - half + 1023) << 52);
    }
    VOLTA_INLINE double volta_expm1_within64(double x) {                 /* from -50 to 710 */
        int64_t n;
        double p = volta_exp_reduced64(x, &n), half = volta_double((n + 1022) << 52);
        return 2.0 * VOLTA_FMA64(p, half, half - 0.5);
    }
    VOLTA_INLINE double expm1_f64(double x) {
        double c = x < -50.0 ? -50.0 : x;
        c = c > 710.0 ? 710.0 : c;
        return volta_pick64(fabs(x) < 1e-30, x, volta_expm1_within64(c));
    }
    VOLTA_INLINE double tanh_f64(double x) {
        double a = fabs(x), m = volta_expm1_within64(2.0 * (a > 20.0 ? 20.0 : a)), y = m / (m + 2.0);
        y = volta_double((volta_bits64(y) & INT64_MAX) | (volta_bits64(x) & INT64_MIN));
        return volta_pick64(a < 1e-30, x, y);
    }
    VOLTA_INLINE double exp2_f64(double x) {
        double c = x < -1076.0 ? -1076.0 : x, t, r, p = 1.3691488853904128e-12;
        int64_t n, half;
        c = c > 1025.0 ? 1025.0 : c;
        t = c + VOLTA_ROUNDER64;
        r = c - (t - VOLTA_ROUNDER64);
        p = VOLTA_FMA64(p, r, 2.5678435993488206e-11); p = VOLTA_FMA64(p, r, 4.4455382718708116e-10);
        p = VOLTA_FMA64(p, r, 7.054911620801123e-09); p = VOLTA_FMA64(p, r, 1.01780860092397e-07);
        p = VOLTA_FMA64(p, r, 1.321548679014431e-06); p = VOLTA_FMA64(p, r, 1.5252733804059841e-05);
        p = VOLTA_FMA64(p, r, 0.0001540353039338161); p = VOLTA_FMA64(p, r, 0.0013333558146428443);
        p = VOLTA_FMA64(p, r, 0.009618129107628477); p = VOLTA_FMA64(p, r, 0.05550410866482158);
        p = VOLTA_FMA64(p, r, 0.24022650695910072); p = VOLTA_FMA64(p, r, 0.6931471805599453);
        p = VOLTA_FMA64(p, r, 1.0);
        n = volta_bits64(t) - volta_bits64(VOLTA_ROUNDER64);
        half = n >> 1;
        return p * volta_double((half + 1023) << 52) * volta_double((n - half + 1023) << 52);
    }
    /* x = 2**e (1 + f), as in float32. */
    VOLTA_INLINE double volta_split64(double x, double *e) {
        double scaled = x < 2.2250738585072014e-308 ? x * 18014398509481984.0 : x;
        int64_t bits = volta_bits64(scaled), n = (int64_t)((uint64_t)(bits - 0x3fe6a09e667f3bcd + ((int64_t)1023 << 52)) >> 52) - 1023;
        *e = volta_double(volta_bits64(VOLTA_ROUNDER64) + n) - VOLTA_ROUNDER64 - (x < 2.2250738585072014e-308 ? 54.0 : 0.0);
        return volta_double(bits - (int64_t)((uint64_t)n << 52)) - 1.0;
    }
    /* log(1 + f) = f - f**2 / 2 + s (f**2 / 2 + R(s**2)), with s = f / (2 + f) */
    VOLTA_INLINE double volta_log_within64(double x) {                   /* positive and finite */
        double e, f = volta_split64(x, &e), s = f / (2.0 + f), z = s * s, half = 0.5 * f * f, p = 0.14804540255816784;
        p = VOLTA_FMA64(p, z, 0.15313236897707522); p = VOLTA_FMA64(p, z, 0.18183594275718093);
        p = VOLTA_FMA64(p, z, 0.2222219803473838); p = VOLTA_FMA64(p, z, 0.28571428747241007);
        p = VOLTA_FMA64(p, z, 0.3999999999939477); p = VOLTA_FMA64(p, z, 0.6666666666666737);
        p = VOLTA_FMA64(s, VOLTA_FMA64(p, z, half), e * 1.90821492927058770002e-10);
        return VOLTA_FMA64(e, 6.93147180369123816490e-01, -(half - p - f));
    }
    VOLTA_INLINE double volta_log_special64(double x, double y) {
        y = volta_pick64(x < 0.0, NAN, y);
        y = volta_pick64(x == 0.0, -INFINITY, y);
        return volta_pick64(x < INFINITY, y, x);
    }
    VOLTA_INLINE double log_f64(double x) { return volta_log_special64(x, volta_log_within64(x)); }
    VOLTA_INLINE double log1p_f64(double x) {
        double u = 1.0 + x, y = volta_log_special64(u, volta_log_within64(u) + (x - (u - 1.0)) / u);
        return volta_pick64(fabs(x) < 1e-17, x, y);
    }
    /* Of log(1 + f) = high + low, where high ends in 32 zeros, so that its product with the first part of 1 / log(2) or 1 / log(10) is
       exact: that of other bases, exact for their powers. Source: the forms of FreeBSD's e_log2.c and e_log10.c. */
    VOLTA_INLINE double volta_log_parts64(double x, double *e, double *low) {
        double f = volta_split64(x, e), s = f / (2.0 + f), z = s * s, half = 0.5 * f * f, p = 0.14804540255816784, high;
        p = VOLTA_FMA64(p, z, 0.15313236897707522); p = VOLTA_FMA64(p, z, 0.18183594275718093);
        p = VOLTA_FMA64(p, z, 0.2222219803473838); p = VOLTA_FMA64(p, z, 0.28571428747241007);
        p = VOLTA_FMA64(p, z, 0.3999999999939477); p = VOLTA_FMA64(p, z, 0.6666666666666737);
        high = volta_double(volta_bits64(f - half) & (int64_t)0xffffffff00000000);
        *low = ((f - high) - half) + s * VOLTA_FMA64(p, z, half);
        return high;
    }
    VOLTA_INLINE double log2_f64(double x) {
        double e, low, high = volta_log_parts64(x, &e, &low), whole = high * 1.44269504072144627571, y = e + whole;
        double rest = (low + high) * 1.67517131648865118353e-10 + low * 1.44269504072144627571;
        return volta_log_special64(x, y + (rest + ((e - y) + whole)));
    }
    VOLTA_INLINE double log10_f64(double x) {
        double e, low, high = volta_log_parts64(x, &e, &low), whole = high * 4.34294481878168880939e-01;
        double two = e * 3.01029995663611771306e-01, y = two + whole;
        double rest = (low + high) * 2.50829467116452752298e-11 + low * 4.34294481878168880939e-01 + e * 3.69423907715893078616e-13;
        return volta_log_special64(x, y + (rest + ((two - y) + whole)));
    }
    /* x = q pi / 2 + r + low for |x| <= VOLTA_TRIG_LIMIT64: q times the first two parts of pi / 2, of 33 bits each, is exact. */
    #define VOLTA_TRIG_LIMIT64 1e6
    VOLTA_INLINE double volta_trig64(double x, int64_t quarter) {
        double t = VOLTA_FMA64(x, 0.63661977236758134, VOLTA_ROUNDER64), k = t - VOLTA_ROUNDER64;
        double a = x - k * 1.57079632673412561417, u = k * 6.07710050630396597660e-11, b = a - u;
        double v = k * 2.02226624879595063154e-21, r = b - v, low = (a - b - u) + (b - r - v), z = r * r, w = 1.0 - 0.5 * z;
        int64_t q = volta_bits64(t) + quarter;
        double s = 1.5896812194386014e-10, c = -1.1359683745193145e-11;
        s = VOLTA_FMA64(s, z, -2.5050758365266067e-08); s = VOLTA_FMA64(s, z, 2.755731369332278e-06);
        s = VOLTA_FMA64(s, z, -0.00019841269829811684); s = VOLTA_FMA64(s, z, 0.00833333333332242);
        s = VOLTA_FMA64(s, z, -0.16666666666666632);
        s = r + VOLTA_FMA64(s, z * r, low * w);
        c = VOLTA_FMA64(c, z, 2.087572397761566e-09); c = VOLTA_FMA64(c, z, -2.755731435749667e-07);
        c = VOLTA_FMA64(c, z, 2.480158728949925e-05); c = VOLTA_FMA64(c, z, -0.0013888888888874146);
        c = VOLTA_FMA64(c, z, 0.0416666666666666);
        c = w + (((1.0 - w) - 0.5 * z) + VOLTA_FMA64(c, z * z, -r * low));
        s = volta_pick64((int)(q & 1), c, s);
        return volta_double(volta_bits64(s) ^ (int64_t)((uint64_t)(q & 2) << 62));
    }
    VOLTA_INLINE double sin_f64(double x) { double y = volta_trig64(x, 0); return volta_pick64(x == 0.0, x, y); }
    VOLTA_INLINE double cos_f64(double x) { return volta_trig64(x, 1); }
    VOLTA_INLINE int trig_rare_f64(double x) { return fabs(x) > VOLTA_TRIG_LIMIT64; }
    /* |x| < 1: x P(x**2); else 1 - exp(-Q(|x|)), Q = -log erfc. */
    VOLTA_INLINE double erf_f64(double x) {
        double z = x * x, a = fabs(x), p = 5.960587992507017e-11, q = -1.036845577517283e-12;
        p = VOLTA_FMA64(p, z, -1.1374896422004742e-09); p = VOLTA_FMA64(p, z, 1.4660312891667109e-08);
        p = VOLTA_FMA64(p, z, -1.6350393792227056e-07); p = VOLTA_FMA64(p, z, 1.6461008240773284e-06);
        p = VOLTA_FMA64(p, z, -1.4925595756886935e-05); p = VOLTA_FMA64(p, z, 0.00012055331132296201);
        p = VOLTA_FMA64(p, z, -0.0008548326981406771); p = VOLTA_FMA64(p, z, 0.0052239776248280915);
        p = VOLTA_FMA64(p, z, -0.02686617064507784); p = VOLTA_FMA64(p, z, 0.11283791670954885);
        p = VOLTA_FMA64(p, z, -0.3761263890318375); p = VOLTA_FMA64(p, z, 1.1283791670955126);
        double c = a > 6.0 ? 6.0 : a;
        q = VOLTA_FMA64(q, c, 4.742513025486686e-11); q = VOLTA_FMA64(q, c, -1.0152632740135154e-09);
        q = VOLTA_FMA64(q, c, 1.3500834000744813e-08); q = VOLTA_FMA64(q, c, -1.2465314906865812e-07);
        q = VOLTA_FMA64(q, c, 8.441072920698104e-07); q = VOLTA_FMA64(q, c, -4.2967242635453e-06);
        q = VOLTA_FMA64(q, c, 1.640312819531343e-05); q = VOLTA_FMA64(q, c, -4.471726134507332e-05);
        q = VOLTA_FMA64(q, c, 6.963017052088765e-05); q = VOLTA_FMA64(q, c, 4.6175160555633497e-05);
        q = VOLTA_FMA64(q, c, -0.0006431517615191463); q = VOLTA_FMA64(q, c, 0.0017712900838841355);
        q = VOLTA_FMA64(q, c, -0.0002825545723909906); q = VOLTA_FMA64(q, c, -0.019076733223006282);
        q = VOLTA_FMA64(q, c, 0.10274653119114617); q = VOLTA_FMA64(q, c, 0.6366287424783248);
        q = VOLTA_FMA64(q, c, 1.1283772740547697); q = VOLTA_FMA64(q, c, 1.8522227473329302e-07);
        double large = volta_double((volta_bits64(1.0 - exp_f64(-q)) & INT64_MAX) | (volta_bits64(x) & INT64_MIN));
        return volta_pick64(a < 1.0, p * x, large);
    }
    #if defined(__FMA__) || defined(__ARM_FEATURE_FMA)
    /* |x|**y by a logarithm and a product of two doubles each, whose errors are below those of the last rounding. With s = f / (2 + f),
       log(1 + f) = 2 s + s**3 (2/3 + s**2 P(s**2)). */
    VOLTA_INLINE double volta_pow_positive64(double a, double y) {
        double e, f = volta_split64(a, &e), d = 2.0 + f, s = f / d, low = (VOLTA_FMA64(-s, d, f) - s * (f - (d - 2.0))) / d;
        double z = s * s, p = 0.10775601089388141;
        p = VOLTA_FMA64(p, z, 0.10454866026728715); p = VOLTA_FMA64(p, z, 0.1176687865598926);
        p = VOLTA_FMA64(p, z, 0.13333295011900106); p = VOLTA_FMA64(p, z, 0.1538461578064774);
        p = VOLTA_FMA64(p, z, 0.18181818179522571); p = VOLTA_FMA64(p, z, 0.22222222222228882);
        p = VOLTA_FMA64(p, z, 0.28571428571428564); p = VOLTA_FMA64(p, z, 0.4);
        p *= z;
        double q = 0.66666666666666663 + p, q_low = (0.66666666666666663 - q) + p + 3.7007434154171886e-17;
        double u = s * z, u_low = VOLTA_FMA64(s, z, -u) + s * (VOLTA_FMA64(s, s, -z) + 2.0 * s * low) + low * z;
        double v = u * q, v_low = VOLTA_FMA64(u, q, -v) + (u * q_low + u_low * q);
        double m = 2.0 * s + v, m_low = (2.0 * s - m) + v + (2.0 * low + v_low);
        double whole = e * 6.93147180369123816490e-01, l = whole + m, l_low = (whole - l) + m + (m_low + e * 1.90821492927058770002e-10);
        l = volta_pick64(a == 0.0, -INFINITY, volta_pick64(a < INFINITY, l, a));
        double g = y * l, g_low = VOLTA_FMA64(y, l, -g) + y * l_low, t = g + g_low, r, t_low = g_low - (t - g);
        t = volta_pick64(fabs(g) < 800.0, t, volta_pick64(l == 0.0, 0.0, g));      /* below: infinite or NaN times 0 */
        t_low = volta_pick64(fabs(g) < 746.0, t_low, 0.0);
        t = t < -746.0 ? -746.0 : t;
        t = t > 710.0 ? 710.0 : t;
        int64_t n, half;
        r = volta_exp_reduced64(t, &n);
        r = 1.0 + (VOLTA_FMA64(r, t_low, r) + t_low);
        half = n >> 1;
        return r * volta_double((half + 1023) << 52) * volta_double((n - half + 1023) << 52);
    }
    VOLTA_INLINE double pow_f64(double x, double y) {                      /* as pow_f32 */
        double v = volta_pow_positive64(fabs(x), y), small = volta_pick64(fabs(y) < 9007199254740992.0, y, 0.0);
        double whole = trunc(small), half = 0.5 * whole;                     /* AVX2 has no conversion to integers of 64 bits */
        int64_t bits = volta_bits64(x), fraction = -(int64_t)(small != whole), odd = -(int64_t)(half != trunc(half));
        int64_t negative = -(int64_t)((uint64_t)bits - 0x8000000000000001u < 0x7fefffffffffffffu);
        int64_t sign = bits & INT64_MIN & odd & ~fraction;
        v = volta_double((volta_bits64(v) ^ sign) | (fraction & negative & 0x7ff8000000000000));
        v = volta_pick64(y != y, NAN, v);
        return volta_pick64((x == 1.0) | (y == 0.0), 1.0, v);
    }
    #else
    VOLTA_INLINE double pow_f64(double x, double y) { return pow(x, y); }
    #endif
    VOLTA_INLINE double normal_cdf_f64(double x, double *bell) {
        *bell = exp_f64(-0.5 * x * x);
        return 0.5 * (1 + erf_f64(x * 0.70710678118654752));
    }
    VOLTA_INLINE double sigmoid_f64(double x) { double e = exp_f64(-fabs(x)); return (x < 0 ? e : 1) / (1 + e); }
    #endif
    """
    int trig_rare_f64(double x) noexcept nogil
    double any_sin "sin"(double x) noexcept nogil
    double any_cos "cos"(double x) noexcept nogil
    double pick_f64 "volta_pick64"(int condition, double a, double b)
    double exp_f64(double x), expm1_f64(double x), exp2_f64(double x), log_f64(double x), log2_f64(double x), log10_f64(double x)
    double log1p_f64(double x)
    double sin_f64(double x), cos_f64(double x), tanh_f64(double x), erf_f64(double x), sigmoid_f64(double x), pow_f64(double a, double b)
