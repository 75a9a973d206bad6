# Scalar functions beyond those of scalar.pxd, in its forms: inverse and hyperbolic functions, error functions, integers, bits, and
# activations.
#
# float32: straight-line code to 4 units in the last place, but for those of VOLTA_NARROW, which go through float64. float64: the C
# library where it has the function; else series and recurrences to about 1e-14, roots excepted (absolutely there).
from libc.stdint cimport int32_t, int64_t, uint8_t
from volta._kernels.cpu.scalar cimport exp_f32

cdef extern from * nogil:
    """
    #ifndef VOLTA_SPECIAL
    #define VOLTA_SPECIAL
    #define VOLTA_PI 3.14159265358979324
    #define VOLTA_PICK64(condition, a, b) ((condition) ? (a) : (b))
    /* float32 by way of float64. */
    #define VOLTA_NARROW(name) VOLTA_INLINE float name##_f32(float x) { return (float)name##_f64(x); }
    #define VOLTA_NARROW2(name) VOLTA_INLINE float name##_f32(float a, float b) { return (float)name##_f64(a, b); }

    /* (asin(s) - s) / s**3 for z = s**2 <= 1/4. */
    VOLTA_INLINE float volta_asin_tail(float z) {
        float p = 3.36908475e-2f;
        p = VOLTA_FMA(p, z, 1.71492379e-2f);
        p = VOLTA_FMA(p, z, 3.11006624e-2f);
        p = VOLTA_FMA(p, z, 4.45994027e-2f);
        p = VOLTA_FMA(p, z, 7.50009418e-2f);
        return VOLTA_FMA(p, z, 0.166666657f);
    }
    /* asin(|x|) where |x| <= 1/2, else asin(sqrt((1 - |x|) / 2)), which is half of acos(|x|). */
    VOLTA_INLINE float volta_asin_part(float x) {
        float a = fabsf(x), z = a > 0.5f ? 0.5f * (1.0f - a) : a * a, s = a > 0.5f ? sqrtf(z) : a;
        return VOLTA_FMA(s * z, volta_asin_tail(z), s);
    }
    VOLTA_INLINE float asin_f32(float x) {
        float r = volta_asin_part(x);
        return volta_with_sign(volta_pick(fabsf(x) > 0.5f, 1.57079637f - (2.0f * r + 4.37113883e-8f), r), x);
    }
    VOLTA_INLINE float acos_f32(float x) {
        float r = volta_asin_part(x), twice = 2.0f * r;
        float large = volta_pick(x < 0.0f, 3.14159274f - (twice + 8.74227766e-8f), twice);
        return volta_pick(fabsf(x) > 0.5f, large, 1.57079637f - (volta_with_sign(r, x) + 4.37113883e-8f));
    }
    /* atan(t) for 0 <= t <= 1. */
    VOLTA_INLINE float volta_atan_unit(float t) {
        float z = t * t, p = -2.38699722e-3f;
        p = VOLTA_FMA(p, z, 1.35077713e-2f);
        p = VOLTA_FMA(p, z, -3.58715393e-2f);
        p = VOLTA_FMA(p, z, 6.25016913e-2f);
        p = VOLTA_FMA(p, z, -8.65688026e-2f);
        p = VOLTA_FMA(p, z, 0.110337645f);
        p = VOLTA_FMA(p, z, -0.142785683f);
        p = VOLTA_FMA(p, z, 0.199997395f);
        p = VOLTA_FMA(p, z, -0.333333313f);
        return VOLTA_FMA(t * z, p, t);
    }
    VOLTA_INLINE float atan_f32(float x) {
        float a = fabsf(x), r = volta_atan_unit(a > 1.0f ? 1.0f / a : a);
        return volta_with_sign(volta_pick(a > 1.0f, 1.57079637f - r, r), x);
    }
    VOLTA_INLINE float atan2_f32(float y, float x) {
        float b = fabsf(y), a = fabsf(x), t = b > a ? a / b : b / a;
        t = volta_pick((a == 0.0f) & (b == 0.0f), 0.0f, volta_pick((a == INFINITY) & (b == INFINITY), 1.0f, t));
        float r = volta_atan_unit(t);
        r = volta_pick(b > a, 1.57079637f - r, r);
        return volta_with_sign(volta_pick(volta_bits(x) < 0, 3.14159274f - r, r), y);
    }

    /* exp(a) / 2 for a >= 0, which overflows later than exp(a). */
    VOLTA_INLINE float volta_half_exp(float a) {
        int32_t n;
        float p = 1.0f + volta_exp_reduced(a > 90.0f ? 90.0f : a, &n);
        return volta_scaled(p, n - 1);
    }
    VOLTA_INLINE float sinh_f32(float x) {
        float a = fabsf(x), h = volta_half_exp(a), m = expm1_f32(a > 1.0f ? 1.0f : a);
        return volta_with_sign(volta_pick(a > 1.0f, h - 0.25f / h, 0.5f * (m + m / (m + 1.0f))), x);
    }
    VOLTA_INLINE float cosh_f32(float x) { float h = volta_half_exp(fabsf(x)); return h + 0.25f / h; }
    /* From 1e8 on, the root is the argument itself, and log(2 a) is wanted. */
    VOLTA_INLINE float volta_log_twice(float a, float s) { return log1p_f32(a > 1e8f ? a : s) + (a > 1e8f ? 0.693147181f : 0.0f); }
    VOLTA_INLINE float asinh_f32(float x) {
        float a = fabsf(x);
        return volta_with_sign(volta_log_twice(a, a + a * a / (1.0f + sqrtf(VOLTA_FMA(a, a, 1.0f)))), x);
    }
    VOLTA_INLINE float acosh_f32(float x) {
        float t = x - 1.0f;
        return volta_pick(x < 1.0f, NAN, volta_log_twice(x, t + sqrtf(t * (x + 1.0f))));
    }
    VOLTA_INLINE float atanh_f32(float x) {
        float a = fabsf(x);
        return volta_with_sign(0.5f * log1p_f32(2.0f * a / (1.0f - a)), x);
    }

    /* erfcx(a), a >= 0: t P(t), t = 1 / (1 + a / 2). */
    VOLTA_INLINE float volta_erfcx_right(float a) {
        float t = 1.0f / VOLTA_FMA(0.5f, a, 1.0f), v = t - 0.5f, p = 0.045351338f;
        p = VOLTA_FMA(p, v, -0.018823354f); p = VOLTA_FMA(p, v, -0.078008085f); p = VOLTA_FMA(p, v, 0.05517312f);
        p = VOLTA_FMA(p, v, 0.09816621f); p = VOLTA_FMA(p, v, -0.103799455f); p = VOLTA_FMA(p, v, -0.17205298f);
        p = VOLTA_FMA(p, v, 0.14577399f); p = VOLTA_FMA(p, v, 0.5589438f); p = VOLTA_FMA(p, v, 0.6871606f);
        return t * VOLTA_FMA(p, v, 0.51079136f);
    }
    /* exp(scale a**2) for a >= 0 and a power of two (or its negative), times c: a is cut to 12 bits, whose square is exact. */
    VOLTA_INLINE float volta_bell(float a, float scale, float c) {
        float high = volta_float(volta_bits(a) & (int32_t)0xfffff000), rest = (a - high) * (a + high) * scale;
        float e = 1.0f + rest * (1.0f + rest * (0.5f + rest * (0.166666667f + rest * 0.0416666667f)));
        return exp_f32(high * high * scale) * (e * c);
    }
    VOLTA_INLINE float erfc_f32(float x) {
        float a = fabsf(x) > 14.0f ? 14.0f : fabsf(x), tail = volta_bell(a, -1.0f, volta_erfcx_right(a));
        return volta_pick(x < 0.0f, 2.0f - tail, tail);
    }
    VOLTA_INLINE float erfcx_f32(float x) {
        float a = fabsf(x), c = volta_erfcx_right(a);
        return volta_pick(x < 0.0f, volta_bell(a > 10.0f ? 10.0f : a, 1.0f, 2.0f) - c, c);
    }
    VOLTA_INLINE float ndtr_f32(float x) {
        float a = fabsf(x), tail = volta_bell(a > 16.0f ? 16.0f : a, -0.5f, 0.5f * volta_erfcx_right(a * 0.707106781f));
        return volta_pick(x < 0.0f, tail, 1.0f - tail);
    }
    /* Below 0 log(erfcx / 2) - x**2 / 2, else log(1 - q), which gets back what 1 - q leaves of q. */
    VOLTA_INLINE float log_ndtr_f32(float x) {
        float a = fabsf(x), c = 0.5f * volta_erfcx_right(a * 0.707106781f), q = volta_bell(a > 16.0f ? 16.0f : a, -0.5f, c), u = 1.0f - q;
        float rest = volta_pick(x < 0.0f, -0.5f * x * x, ((1.0f - u) - q) / u);
        return volta_pick((x >= 0.0f) & (u == 1.0f), -q, log_f32(volta_pick(x < 0.0f, c, u)) + rest);
    }
    /* x P(w) with w = -log(1 - x**2), beyond 5 x Q(sqrt(w)). Source: Giles, "Approximating the erfinv function", 2012 (the form). */
    VOLTA_INLINE float volta_erfinv_small(float v) {
        float p = -8.93192631e-9f;
        p = VOLTA_FMA(p, v, 2.33359678e-8f);
        p = VOLTA_FMA(p, v, 4.68131361e-7f);
        p = VOLTA_FMA(p, v, -3.46398519e-6f);
        p = VOLTA_FMA(p, v, -4.97241990e-6f);
        p = VOLTA_FMA(p, v, 2.18349393e-4f);
        p = VOLTA_FMA(p, v, -1.25272642e-3f);
        p = VOLTA_FMA(p, v, -4.17739293e-3f);
        p = VOLTA_FMA(p, v, 0.246640280f);
        return VOLTA_FMA(p, v, 1.50140941f);
    }
    VOLTA_INLINE float erfinv_f32(float x) {
        float w = -log_f32((1.0f - x) * (1.0f + x)), s = sqrtf(w) - 3.0f, q = 1.02817765e-4f;
        q = VOLTA_FMA(q, s, -2.95500970e-4f);
        q = VOLTA_FMA(q, s, -3.90836649e-5f);
        q = VOLTA_FMA(q, s, 1.46697636e-3f);
        q = VOLTA_FMA(q, s, -3.60624189e-3f);
        q = VOLTA_FMA(q, s, 5.69426967e-3f);
        q = VOLTA_FMA(q, s, -7.63542810e-3f);
        q = VOLTA_FMA(q, s, 9.44435969e-3f);
        q = VOLTA_FMA(q, s, 1.00167489f);
        q = VOLTA_FMA(q, s, 2.83297682f);
        return x * volta_pick(w < 5.0f, volta_erfinv_small(w - 2.5f), q);
    }
    /* As in float32, where s = sqrt(w) is above 2.5 or above 4 by a polynomial of s each; `w` is right up to 37. */
    static const double volta_erfinv_first[25] = {
        1.6536545626831027, 0.24015818242558834, -0.006033670871426851, -0.0007407025341546431, 0.00018673420801981186,
        -1.3882523393957483e-05, -1.3654691758785656e-06, 4.23478816822246e-07, -2.907039127564132e-08, -4.1126604371632185e-09,
        1.051223377050429e-09, -5.414303283919504e-11, -1.2978805369932565e-11, 2.6305268312595183e-12, -8.07192593899004e-14,
        -4.0020031087558496e-14, 6.521333511502239e-15, -3.94018812230432e-17, -1.2215637192404172e-16, 1.5510787009902526e-17,
        6.075050702072414e-19, -3.4734793888538036e-19, 1.999259988861535e-20, 3.194015548136271e-21, -3.5932028927020693e-22};
    static const double volta_erfinv_middle[19] = {
        3.103992908595546, 1.0054693812197586, 0.005151688706142393, -0.0035584956987684212, 0.0023282351653089416,
        -0.001576851056396294, 0.0009038975358985536, -0.0003502538147599342, 3.548785920592782e-05, 5.909918569139344e-05,
        -4.450818059948759e-05, 1.3060249559126397e-05, 1.9431107633923565e-06, -3.6019678688236446e-06, 1.4798630078045366e-06,
        -5.584710665761538e-08, -2.2878183209259477e-07, 8.759390020755066e-08, -4.120396778016156e-09};
    static const double volta_erfinv_last[19] = {
        4.950934853078874, 1.0102665645022928, -0.00019885886862061304, -0.00018651301738574884, 6.68000683630884e-05,
        -1.7162631567675043e-05, 3.88993882349677e-06, -8.310813001778875e-07, 1.791327882957284e-07, -4.539856268524588e-08,
        1.654931676263084e-08, -8.22010329142241e-09, 4.277572247019225e-09, -1.9640952445435668e-09, 8.179136708428283e-10,
        -3.326568550350351e-10, 7.822500290466688e-11, 1.8673916618898205e-11, -1.1544864042267892e-11};
    VOLTA_INLINE double volta_poly64(const double *c, int n, double z) {
        double p = c[n - 1];
        int k;
        VOLTA_UNROLL_WHOLE for (k = n - 2; k >= 0; k--) p = VOLTA_FMA64(p, z, c[k]);
        return p;
    }
    VOLTA_INLINE double volta_erfinv_ratio64(double w) {                 /* erfinv(x) / x, w = -log(1 - x**2) */
        double root = sqrt(w), p = volta_poly64(volta_erfinv_first, 25, w - 3.125), q = volta_poly64(volta_erfinv_middle, 19, root - 3.27);
        return volta_pick64(w < 6.25, p, volta_pick64(w < 16.0, q, volta_poly64(volta_erfinv_last, 19, root - 5.1)));
    }
    VOLTA_INLINE double erfinv_f64(double x) {
        double y = x * volta_erfinv_ratio64(-volta_log_within64((1.0 - x) * (1.0 + x)));
        return volta_pick64(fabs(x) < 1.0, y, volta_pick64(fabs(x) == 1.0, x * INFINITY, NAN));
    }
    /* As in float32: x is cut to 27 bits, whose square is exact. */
    VOLTA_INLINE double volta_erfcx_right64(double a) {
        double t = 1.0 / VOLTA_FMA64(0.5, a, 1.0), v = t - 0.5, p = 0.08432814131145937;
        p = VOLTA_FMA64(p, v, -0.03603647511390573); p = VOLTA_FMA64(p, v, -0.1690776572021167);
        p = VOLTA_FMA64(p, v, 0.11165093309305937); p = VOLTA_FMA64(p, v, 0.12581149095923486);
        p = VOLTA_FMA64(p, v, -0.14662446089893005); p = VOLTA_FMA64(p, v, -0.003447679743699563);
        p = VOLTA_FMA64(p, v, 0.09389095788282173); p = VOLTA_FMA64(p, v, -0.07440704043635754);
        p = VOLTA_FMA64(p, v, -0.0018577028883158871); p = VOLTA_FMA64(p, v, 0.06551509793445721);
        p = VOLTA_FMA64(p, v, -0.05946573556415488); p = VOLTA_FMA64(p, v, -0.009211113290619886);
        p = VOLTA_FMA64(p, v, 0.06600904038275555); p = VOLTA_FMA64(p, v, -0.044434498232544126);
        p = VOLTA_FMA64(p, v, -0.03496702008038658); p = VOLTA_FMA64(p, v, 0.07396904765463881);
        p = VOLTA_FMA64(p, v, -0.0087991501617529); p = VOLTA_FMA64(p, v, -0.0848734091614569);
        p = VOLTA_FMA64(p, v, 0.05358694967267938); p = VOLTA_FMA64(p, v, 0.09889958589799788);
        p = VOLTA_FMA64(p, v, -0.10366696110896045); p = VOLTA_FMA64(p, v, -0.1720852951158914);
        p = VOLTA_FMA64(p, v, 0.14576892602769134); p = VOLTA_FMA64(p, v, 0.5589441851121094);
        p = VOLTA_FMA64(p, v, 0.6871606844138102); p = VOLTA_FMA64(p, v, 0.5107913526210115);
        return t * p;
    }
    VOLTA_INLINE double volta_bell64(double a, double scale, double c) {
        double high = volta_double(volta_bits64(a) & (int64_t)0xfffffffff8000000), rest = (a - high) * (a + high) * scale;
        return exp_f64(high * high * scale) * VOLTA_FMA64(c, rest * VOLTA_FMA64(rest, 0.5 + rest * 0.16666666666666667, 1.0), c);
    }
    VOLTA_INLINE double erfc_f64(double x) {
        double a = fabs(x) > 27.5 ? 27.5 : fabs(x), tail = volta_bell64(a, -1.0, volta_erfcx_right64(a));
        return volta_pick64(x < 0.0, 2.0 - tail, tail);
    }
    VOLTA_INLINE double erfcx_f64(double x) {
        double a = fabs(x), c = volta_erfcx_right64(a);
        return volta_pick64(x < 0.0, volta_bell64(a > 27.0 ? 27.0 : a, 1.0, 2.0) - c, c);
    }
    VOLTA_INLINE double ndtr_f64(double x) {
        double a = fabs(x), tail = volta_bell64(a > 39.0 ? 39.0 : a, -0.5, 0.5 * volta_erfcx_right64(a * 0.707106781186547524));
        return volta_pick64(x < 0.0, tail, 1.0 - tail);
    }
    VOLTA_INLINE double log_ndtr_f64(double x) {
        double a = fabs(x), c = 0.5 * volta_erfcx_right64(a * 0.707106781186547524);
        double q = volta_bell64(a > 39.0 ? 39.0 : a, -0.5, c), u = 1.0 - q;
        double rest = volta_pick64(x < 0.0, -0.5 * x * x, ((1.0 - u) - q) / u);
        return volta_pick64((x >= 0.0) & (u == 1.0), -q, log_f64(volta_pick64(x < 0.0, c, u)) + rest);
    }
    /* By erfinv of 2 p - 1; below 2e-17 Newton's steps for the logarithm, from sqrt(-2 log p), which is too far out. */
    VOLTA_INLINE double ndtri_f64(double p) {
        double d = p - 0.5;
        return 2.82842712474619010 * d * volta_erfinv_ratio64(-volta_log_within64(volta_pick64(fabs(d) < 0.25, 1.0 - 4.0 * d * d,
                                                                                               4.0 * p * (1.0 - p))));
    }
    VOLTA_INLINE int ndtri_rare_f64(double p) { return !((p > 2e-17) & (p < 1)); }
    static double ndtri_far_f64(double p) {
        double goal = log(p), x = -sqrt(-2 * goal);
        int i;
        if (!(p > 0 && p < 1)) return p == 0 ? -INFINITY : p == 1 ? INFINITY : NAN;
        for (i = 0; i < 6; i++) x -= (log_ndtr_f64(x) - goal) * 1.25331413731550025 * erfcx_f64(x * -0.707106781186547524);
        return x;
    }
    /* The density over ndtr(x). */
    #define VOLTA_HAZARD(T, s, RIGHT, BELL, PICK)                                                                      \
        VOLTA_INLINE T hazard_##s(T x) {                                                                               \
            T a = abs_##s(x), c = RIGHT(a * (T)0.707106781186547524), e = BELL(a > 39 ? 39 : a, (T)-0.5, 1);           \
            T y = PICK(x < 0, (T)0.797884560802865356, (T)0.398942280401432678 * e) / PICK(x < 0, c, 1 - (T)0.5 * e * c);  \
            return PICK(x == -INFINITY, NAN, y);                                                                       \
        }
    VOLTA_HAZARD(float, f32, volta_erfcx_right, volta_bell, volta_pick)
    VOLTA_HAZARD(double, f64, volta_erfcx_right64, volta_bell64, volta_pick64)

    VOLTA_INLINE double volta_signed64(double magnitude, double sign) {
        return volta_double((volta_bits64(magnitude) & INT64_MAX) | (volta_bits64(sign) & INT64_MIN));
    }
    /* As in float32: s and z of |x| <= 1, and (asin(s) - s) / s. Source: the rational function of FreeBSD's e_asin.c. */
    VOLTA_INLINE double volta_asin_part64(double x, double *s, double *z) {
        double a = fabs(x), p = 3.47933107596021167570e-05, q = 7.70381505559019352791e-02;
        *z = a > 0.5 ? 0.5 * (1.0 - a) : a * a;
        *s = a > 0.5 ? sqrt(*z) : a;
        p = VOLTA_FMA64(p, *z, 7.91534994289814532176e-04); p = VOLTA_FMA64(p, *z, -4.00555345006794114027e-02);
        p = VOLTA_FMA64(p, *z, 2.01212532134862925881e-01); p = VOLTA_FMA64(p, *z, -3.25565818622400915405e-01);
        p = VOLTA_FMA64(p, *z, 1.66666666666666657415e-01);
        q = VOLTA_FMA64(q, *z, -6.88283971605453293030e-01); q = VOLTA_FMA64(q, *z, 2.02094576023350569471e+00);
        q = VOLTA_FMA64(q, *z, -2.40339491173441421878e+00); q = VOLTA_FMA64(q, *z, 1.0);
        return *z * p / q;
    }
    /* asin(|x|) = pi / 2 - 2 asin(s): s is cut to 32 bits, whose square is exact, and the rest of the root is added. */
    VOLTA_INLINE double asin_f64(double x) {
        double s, z, r = volta_asin_part64(x, &s, &z), cut = volta_double(volta_bits64(s) & (int64_t)0xffffffff00000000);
        double rest = (z - cut * cut) / (s + cut);
        double large = 7.85398163397448278999e-01 - ((2.0 * s * r - (6.12323399573676603587e-17 - 2.0 * rest))
                                                     - (7.85398163397448278999e-01 - 2.0 * cut));
        large = volta_pick64(fabs(x) == 1.0, 1.57079632679489656, large);
        return volta_signed64(volta_pick64(fabs(x) > 0.5, large, VOLTA_FMA64(s, r, s)), x);
    }
    VOLTA_INLINE double acos_f64(double x) {
        double s, z, r = volta_asin_part64(x, &s, &z), cut = volta_double(volta_bits64(s) & (int64_t)0xffffffff00000000);
        double rest = (z - cut * cut) / (s + cut), near = 2.0 * (cut + (r * s + volta_pick64(s == 0.0, 0.0, rest)));
        double far = 3.14159265358979312 - 2.0 * (s + (r * s - 6.12323399573676603587e-17));
        double small = 1.57079632679489656 - (x - (6.12323399573676603587e-17 - x * r));
        return volta_pick64(fabs(x) > 0.5, volta_pick64(x < 0.0, far, near), small);
    }
    /* atan(b / a) for a, b >= 0: by b / a up to tan(pi / 8) and more, else by a rotation of pi / 4 or pi / 2.
       Source: the rational function of Cephes' atan.c. */
    VOLTA_INLINE double volta_atan_quotient64(double b, double a) {
        double steep = b > 2.41421356237309504880 * a ? 2.0 : b > 0.66 * a ? 1.0 : 0.0;
        double above = steep == 2.0 ? -a : steep == 1.0 ? b - a : b, below = steep == 2.0 ? b : steep == 1.0 ? b + a : a;
        double t = above / below, z = t * t, p = -8.750608600031904122785e-1, q = z + 2.485846490142306297962e1;
        p = VOLTA_FMA64(p, z, -1.615753718733365076637e1); p = VOLTA_FMA64(p, z, -7.500855792314704667340e1);
        p = VOLTA_FMA64(p, z, -1.228866684490136173410e2); p = VOLTA_FMA64(p, z, -6.485021904942025371773e1);
        q = VOLTA_FMA64(q, z, 1.650270098316988542046e2); q = VOLTA_FMA64(q, z, 4.328810604912902668951e2);
        q = VOLTA_FMA64(q, z, 4.853903996359136964868e2); q = VOLTA_FMA64(q, z, 1.945506571482613964425e2);
        return steep * 0.785398163397448279 + (VOLTA_FMA64(t, z * p / q, t) + steep * 3.061616997868383018e-17);
    }
    VOLTA_INLINE double atan_f64(double x) { return volta_signed64(volta_atan_quotient64(fabs(x), 1.0), x); }
    VOLTA_INLINE double atan2_f64(double y, double x) {
        double b = fabs(y), a = fabs(x), most = b > a ? b : a, scale = most > 1e300 ? 0.0625 : most < 1e-290 ? 18014398509481984.0 : 1.0;
        int high = b == INFINITY, far = a == INFINITY, none = (a == 0.0) & (b == 0.0);
        double above = high ? 1.0 : far ? 0.0 : b * scale, below = far | none ? 1.0 : high ? 0.0 : a * scale;
        double r = volta_atan_quotient64(above, below);
        r = volta_pick64(volta_bits64(x) < 0, 3.14159265358979312 - (r - 1.22464679914735320717e-16), r);
        return volta_pick64((x != x) | (y != y), NAN, volta_signed64(r, y));
    }
    VOLTA_INLINE double volta_half_exp64(double a) {                     /* a >= 0 */
        int64_t n, half;
        double p = 1.0 + volta_exp_reduced64(a > 711.0 ? 711.0 : a, &n);
        n -= 1;
        half = n >> 1;
        return p * volta_double((half + 1023) << 52) * volta_double((n - half + 1023) << 52);
    }
    VOLTA_INLINE double sinh_f64(double x) {
        double a = fabs(x), h = volta_half_exp64(a), m = expm1_f64(a > 1.0 ? 1.0 : a);
        return volta_signed64(volta_pick64(a > 1.0, h - 0.25 / h, 0.5 * (m + m / (m + 1.0))), x);
    }
    VOLTA_INLINE double cosh_f64(double x) { double h = volta_half_exp64(fabs(x)); return h + 0.25 / h; }
    VOLTA_INLINE double asinh_f64(double x) { return asinh(x); }
    VOLTA_INLINE double acosh_f64(double x) { return acosh(x); }
    VOLTA_INLINE double atanh_f64(double x) {
        double a = fabs(x);
        return volta_signed64(0.5 * log1p_f64(2.0 * a / (1.0 - a)), x);
    }
    VOLTA_INLINE double hypot_f64(double a, double b) {
    #if defined(__FMA__) || defined(__ARM_FEATURE_FMA)
        return sqrt(VOLTA_FMA64(a, a, b * b));
    #else
        return hypot(a, b);
    #endif
    }
    VOLTA_INLINE int hypot_rare_f64(double a, double b) {               /* whose squares are no numbers, or rounded */
        double most = fabs(a) > fabs(b) ? fabs(a) : fabs(b);
        return !(((most < 1e150) & (most > 1e-140)) | ((a == 0.0) & (b == 0.0))) | (a != a) | (b != b);
    }
    VOLTA_INLINE double hypot_far_f64(double a, double b) { return hypot(a, b); }
    VOLTA_INLINE float hypot_f32(float a, float b) {
        float y = (float)sqrt((double)a * a + (double)b * b);
        return volta_pick((fabsf(a) == INFINITY) | (fabsf(b) == INFINITY), INFINITY, y);
    }
    VOLTA_INLINE double nextafter_f64(double a, double b) {
        int64_t i = volta_bits64(a);
        double y = volta_double(i + ((a < b) == (i >= 0) ? 1 : -1));
        y = volta_pick64(a == 0.0, volta_signed64(volta_double(1), b), y);
        return volta_pick64((a != a) | (b != b), NAN, volta_pick64(a == b, b, y));
    }
    VOLTA_INLINE float nextafter_f32(float a, float b) {
        int32_t i = volta_bits(a);
        float y = volta_float(i + ((a < b) == (i >= 0) ? 1 : -1));
        y = volta_pick(a == 0.0f, volta_with_sign(volta_float(1), b), y);
        return volta_pick((a != a) | (b != b), NAN, volta_pick(a == b, b, y));
    }
    /* a * 2**trunc(b): in up to three steps, of which the last alone may leave the range of numbers downwards, and be rounded. */
    VOLTA_INLINE float ldexp_f32(float a, float b) {
        float n = b < -300 ? -300 : b > 300 ? 300 : b == b ? truncf(b) : 0, near = n < -100 ? -100 : n > 100 ? 100 : n;
        float half = truncf(0.5f * (n - near)), rest = n - near - half;
        #define VOLTA_POWER(n) volta_float(((int32_t)(n) + 127) << 23)
        return b == b ? a * VOLTA_POWER(half) * VOLTA_POWER(rest) * VOLTA_POWER(near) : NAN;
        #undef VOLTA_POWER
    }
    VOLTA_INLINE double ldexp_f64(double a, double b) {
        double n = b < -2100 ? -2100 : b > 2100 ? 2100 : b == b ? trunc(b) : 0, near = n < -700 ? -700 : n > 700 ? 700 : n;
        double half = trunc(0.5 * (n - near)), rest = n - near - half;
        #define VOLTA_POWER(n) volta_double(((int64_t)(n) + 1023) << 52)
        return b == b ? a * VOLTA_POWER(half) * VOLTA_POWER(rest) * VOLTA_POWER(near) : NAN;
        #undef VOLTA_POWER
    }
    VOLTA_INLINE uint8_t signbit_f32(float x) { return volta_bits(x) < 0; }
    VOLTA_INLINE uint8_t signbit_f64(double x) { return volta_bits64(x) < 0; }

    /* x = m 2**e with |m| in [0.5, 1): the bits of x, of a denormal those of a multiple; 0, NaN and infinity are their mantissas. */
    VOLTA_INLINE float volta_normal(float x) { return volta_pick(fabsf(x) < 1.17549435e-38f, x * 33554432.0f, x); }
    VOLTA_INLINE double volta_normal64(double x) { return volta_pick64(fabs(x) < 2.2250738585072014e-308, x * 18014398509481984.0, x); }
    VOLTA_INLINE float frexp_mantissa_f32(float x) {
        float m = volta_float((volta_bits(volta_normal(x)) & (int32_t)0x807fffff) | 0x3f000000);
        return volta_pick((fabsf(x) < INFINITY) & (x != 0.0f), m, x);
    }
    VOLTA_INLINE double frexp_mantissa_f64(double x) {
        double m = volta_double((volta_bits64(volta_normal64(x)) & (int64_t)0x800fffffffffffff) | 0x3fe0000000000000);
        return volta_pick64((fabs(x) < INFINITY) & (x != 0.0), m, x);
    }
    VOLTA_INLINE float frexp_exponent_f32(float x) {
        int32_t e = (volta_bits(volta_normal(x)) >> 23 & 0xff) - (fabsf(x) < 1.17549435e-38f ? 151 : 126);
        return volta_pick((fabsf(x) < INFINITY) & (x != 0.0f), (float)e, 0.0f);
    }
    VOLTA_INLINE double frexp_exponent_f64(double x) {
        int64_t e = (volta_bits64(volta_normal64(x)) >> 52 & 0x7ff) - (fabs(x) < 2.2250738585072014e-308 ? 1076 : 1022);
        return volta_pick64((fabs(x) < INFINITY) & (x != 0.0), (double)e, 0.0);
    }

    #define VOLTA_SPECIAL_FLOAT(T, s, F, PICK)                                                                         \
        VOLTA_INLINE T copysign_##s(T a, T b) { return copysign##F(a, b); }                                            \
        VOLTA_INLINE T logaddexp_##s(T a, T b) {                                                                       \
            T m = maximum_##s(a, b), d = a == b ? 0 : fabs##F(a - b);                                                  \
            return m + log1p_##s(exp_##s(-d));                                                                         \
        }                                                                                                              \
        VOLTA_INLINE T logaddexp2_##s(T a, T b) {                                                                      \
            T m = maximum_##s(a, b), d = a == b ? 0 : fabs##F(a - b);                                                  \
            return m + (T)1.44269504088896341 * log1p_##s(exp2_##s(-d));                                               \
        }                                                                                                              \
        VOLTA_INLINE T elu_##s(T x, T alpha, T inner) {                                                                \
            return PICK(x > 0, x, alpha * expm1_##s((x > 0 ? 0 : x) * inner));                                         \
        }                                                                                                              \
        VOLTA_INLINE T elu_grad_##s(T g, T x, T alpha, T inner) {                                                      \
            return PICK(x <= 0, g * (alpha * inner * exp_##s((x > 0 ? 0 : x) * inner)), g);                            \
        }                                                                                                              \
        VOLTA_INLINE T logsigmoid_##s(T x) { return (x > 0 ? 0 : x) - log1p_##s(exp_##s(-fabs##F(x))); }               \
        VOLTA_INLINE T softplus_##s(T x, T beta, T threshold) {                                                        \
            T z = x * beta;                                                                                            \
            return PICK(z > threshold, x, ((z > 0 ? z : 0) + log1p_##s(exp_##s(-fabs##F(z)))) / beta);                 \
        }                                                                                                              \
        VOLTA_INLINE T softplus_grad_##s(T g, T x, T beta, T threshold) {                                              \
            T z = x * beta;                                                                                            \
            return PICK(z > threshold, g, g * sigmoid_##s(z));                                                         \
        }                                                                                                              \
        VOLTA_INLINE T hardtanh_##s(T x, T low, T high) {                                                              \
            T m = high < x ? high : x;                             /* the processor's minimum */                       \
            return x < low ? low : m;                                                                                  \
        }                                                                                                              \
        VOLTA_INLINE T nan_to_num_##s(T x, T none, T most) {                                                           \
            T m = hardtanh_##s(x, -most, most);                                                                        \
            return x != x ? none : m;                                                                                  \
        }                                                                                                              \
        VOLTA_INLINE T hardsigmoid_##s(T x) { return hardtanh_##s(x + 3, 0, 6) * (T)0.16666666666666667; }             \
        VOLTA_INLINE T hardswish_##s(T x) { return x * hardsigmoid_##s(x); }                                           \
        VOLTA_INLINE T hardswish_grad_##s(T g, T x) { return x <= -3 ? 0 : x < 3 ? g * (x * (T)0.33333333333333333 + (T)0.5) : g; } \
        /* tanh(log(1 + e)) = n / (n + 2) with n = e (e + 2) */                                                        \
        VOLTA_INLINE T mish_##s(T x) {                                                                                 \
            T e = exp_##s(x > 40 ? 40 : x), n = e * (e + 2);                                                           \
            return x * (n / (n + 2));                                                                                  \
        }                                                                                                              \
        VOLTA_INLINE T mish_grad_##s(T g, T x) {                                                                       \
            T e = exp_##s(x > 40 ? 40 : x), n = e * (e + 2), t = n / (n + 2), steep = e / (1 + e) * (2 / (n + 2)) * (1 + t); \
            return g * (t + x * PICK(x > 40, 0, steep));                                                               \
        }
    VOLTA_SPECIAL_FLOAT(float, f32, f, volta_pick)
    VOLTA_SPECIAL_FLOAT(double, f64, , VOLTA_PICK64)

    /* By halves and differences, which take a cycle where a division takes twenty. */
    VOLTA_INLINE uint64_t volta_gcd(uint64_t x, uint64_t y) {
    #if defined(__GNUC__)
        uint64_t less;
        int common;
        if (x == 0 || y == 0) return x | y;
        common = __builtin_ctzll(x | y);
        x >>= __builtin_ctzll(x);
        do {
            y >>= __builtin_ctzll(y);
            less = x < y ? x : y;
            y = x < y ? y - x : x - y;
            x = less;
        } while (y);
        return x << common;
    #else
        uint64_t rest;
        for (; y; x = y, y = rest) rest = x % y;
        return x;
    #endif
    }

    /* U is the unsigned type. Sizes wrap as the type does. */
    #define VOLTA_SPECIAL_INTEGER(T, U, s)                                                                             \
        VOLTA_INLINE uint8_t signbit_##s(T x) { return x < 0; }                                                        \
        VOLTA_INLINE T gcd_##s(T a, T b) {                                                                             \
            return (T)volta_gcd(a < 0 ? (U)(0 - (U)a) : (U)a, b < 0 ? (U)(0 - (U)b) : (U)b);                           \
        }                                                                                                              \
        VOLTA_INLINE T lcm_##s(T a, T b) {                                                                             \
            T g = gcd_##s(a, b), y = g == 0 ? 0 : (T)((U)(a / g) * (U)b);                                              \
            return y < 0 ? (T)(0 - (U)y) : y;                                                                          \
        }
    VOLTA_SPECIAL_INTEGER(int32_t, uint32_t, i32)
    VOLTA_SPECIAL_INTEGER(int64_t, uint64_t, i64)
    VOLTA_SPECIAL_INTEGER(uint8_t, uint8_t, u8)
    #endif
    """
    float asin_f32(float x), acos_f32(float x), atan_f32(float x), sinh_f32(float x), cosh_f32(float x), asinh_f32(float x)
    float acosh_f32(float x), atanh_f32(float x), erfc_f32(float x), erfinv_f32(float x), erfcx_f32(float x), ndtr_f32(float x)
    float hazard_f32(float x), log_ndtr_f32(float x), frexp_mantissa_f32(float x), frexp_exponent_f32(float x), logsigmoid_f32(float x)
    float hardsigmoid_f32(float x), hardswish_f32(float x), mish_f32(float x)
    float atan2_f32(float a, float b), hypot_f32(float a, float b), copysign_f32(float a, float b), nextafter_f32(float a, float b)
    float logaddexp_f32(float a, float b), logaddexp2_f32(float a, float b), ldexp_f32(float a, float b)
    float hardswish_grad_f32(float a, float b), mish_grad_f32(float a, float b), elu_f32(float a, float b, float c)
    float hardtanh_f32(float a, float b, float c), nan_to_num_f32(float a, float b, float c)
    float softplus_f32(float a, float b, float c), elu_grad_f32(float a, float b, float c, float d)
    float softplus_grad_f32(float a, float b, float c, float d)
    double asin_f64(double x), acos_f64(double x), atan_f64(double x), sinh_f64(double x), cosh_f64(double x), asinh_f64(double x)
    int ndtri_rare_f64(double p), hypot_rare_f64(double a, double b)
    double hazard_f64(double x), ndtri_far_f64(double p), hypot_far_f64(double a, double b)
    double acosh_f64(double x), atanh_f64(double x), erfc_f64(double x), erfinv_f64(double x), erfcx_f64(double x), ndtr_f64(double x)
    double log_ndtr_f64(double x), ndtri_f64(double x), frexp_mantissa_f64(double x), frexp_exponent_f64(double x), logsigmoid_f64(double x)
    double hardsigmoid_f64(double x), hardswish_f64(double x), mish_f64(double x)
    double atan2_f64(double a, double b), hypot_f64(double a, double b), copysign_f64(double a, double b), nextafter_f64(double a, double b)
    double logaddexp_f64(double a, double b), logaddexp2_f64(double a, double b), ldexp_f64(double a, double b)
    double hardswish_grad_f64(double a, double b), mish_grad_f64(double a, double b), elu_f64(double a, double b, double c)
    double hardtanh_f64(double a, double b, double c), nan_to_num_f64(double a, double b, double c)
    double softplus_f64(double a, double b, double c)
    double elu_grad_f64(double a, double b, double c, double d)
    double softplus_grad_f64(double a, double b, double c, double d)
    uint8_t signbit_f32(float x), signbit_f64(double x), signbit_i32(int32_t x), signbit_i64(int64_t x), signbit_u8(uint8_t x)
    int32_t gcd_i32(int32_t a, int32_t b), lcm_i32(int32_t a, int32_t b)
    int64_t gcd_i64(int64_t a, int64_t b), lcm_i64(int64_t a, int64_t b)
    uint8_t gcd_u8(uint8_t a, uint8_t b), lcm_u8(uint8_t a, uint8_t b)
