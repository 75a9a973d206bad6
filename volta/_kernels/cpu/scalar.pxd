# The scalar functions behind the loops: name_f32 and name_f64, name_i32, name_i64 and name_u8 where integers have it.
#
# The float32 functions are straight-line code (selects, no branches, no calls), so that a plain loop over one becomes
# vector code; they are accurate to 4 units in the last place or better and right for NaN, infinities, signed zeros,
# denormals and overflow. Those of float64 are in doubles.pxd.
# Polynomials are near-minimax (Chebyshev) fits over the reduced range. Integer division never traps: divisors are checked before a loop,
# and zero gives zero here.
from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t
from volta._kernels.cpu cimport bits, doubles

cdef extern from * nogil:
    """
    #ifndef VOLTA_SCALAR
    #define VOLTA_SCALAR
    #if defined(__F16C__) || (defined(_MSC_VER) && defined(__AVX2__))
      #include <immintrin.h>
      #define VOLTA_F16C 1
    #endif
    /* Pointers for loops that write: elements are read before the same element is written, never after. */
    #define VOLTA_POINTERS(T, s) typedef T *__restrict s##_out; typedef const T *__restrict s##_in;
    VOLTA_POINTERS(float, f32) VOLTA_POINTERS(double, f64) VOLTA_POINTERS(int32_t, i32)
    VOLTA_POINTERS(int64_t, i64) VOLTA_POINTERS(uint8_t, u8) VOLTA_POINTERS(uint16_t, u16)
    VOLTA_POINTERS(int8_t, i8) VOLTA_POINTERS(int16_t, i16)

    /* x = n ln 2 + r, |r| <= ln 2 / 2; gives exp(r) - 1. */
    VOLTA_INLINE float volta_exp_reduced(float x, int32_t *n) {
        float t = VOLTA_FMA(x, 1.44269504f, VOLTA_ROUNDER), k = t - VOLTA_ROUNDER;
        float r = VOLTA_FMA(k, 2.12194440e-4f, VOLTA_FMA(k, -0.693359375f, x));
        float p = 1.98919806e-4f;
        p = VOLTA_FMA(p, r, 1.39345415e-3f); p = VOLTA_FMA(p, r, 8.33331049e-3f); p = VOLTA_FMA(p, r, 4.16664556e-2f);
        p = VOLTA_FMA(p, r, 1.66666672e-1f); p = VOLTA_FMA(p, r, 0.5f);
        *n = volta_bits(t) - volta_bits(VOLTA_ROUNDER);
        return VOLTA_FMA(p, r * r, r);
    }
    /* p * 2**n in two steps, so that results may be denormal or infinite. */
    VOLTA_INLINE float volta_scaled(float p, int32_t n) {
        int32_t half = n >> 1;
        return p * volta_float((half + 127) << 23) * volta_float((n - half + 127) << 23);
    }
    VOLTA_INLINE float exp_f32(float x) {
        int32_t n;
        float c = x < -104.0f ? -104.0f : x;
        c = c > 89.0f ? 89.0f : c;
        float p = 1.0f + volta_exp_reduced(c, &n);
        return volta_scaled(p, n);
    }
    VOLTA_INLINE float expm1_f32(float x) {
        int32_t n;
        float c = x < -20.0f ? -20.0f : x;
        c = c > 89.0f ? 89.0f : c;
        float p = volta_exp_reduced(c, &n), half = volta_float((n + 126) << 23);
        float y = 2.0f * VOLTA_FMA(p, half, half - 0.5f);
        return volta_pick(fabsf(x) < 1e-30f, x, y);
    }
    VOLTA_INLINE float exp2_f32(float x) {
        float c = x < -151.0f ? -151.0f : x;
        c = c > 129.0f ? 129.0f : c;
        float t = c + VOLTA_ROUNDER, r = c - (t - VOLTA_ROUNDER);
        float p = 1.52982211e-5f;
        p = VOLTA_FMA(p, r, 1.54626105e-4f); p = VOLTA_FMA(p, r, 1.33334997e-3f); p = VOLTA_FMA(p, r, 9.61805414e-3f);
        p = VOLTA_FMA(p, r, 5.55041097e-2f); p = VOLTA_FMA(p, r, 2.40226507e-1f); p = VOLTA_FMA(p, r, 6.93147182e-1f);
        return volta_scaled(VOLTA_FMA(p, r, 1.0f), volta_bits(t) - volta_bits(VOLTA_ROUNDER));
    }

    /* x = 2**e (1 + f) with 1 + f in [sqrt(1/2), sqrt(2)), for positive finite x. */
    VOLTA_INLINE float volta_split(float x, float *e) {
        float scaled = x < 1.17549435e-38f ? x * 8388608.0f : x;
        float shift = x < 1.17549435e-38f ? 23.0f : 0.0f;
        int32_t bits = volta_bits(scaled), n = (bits - 0x3f3504f3) >> 23;
        *e = (float)n - shift;
        return volta_float(bits - (int32_t)((uint32_t)n << 23)) - 1.0f;
    }
    /* log(1 + f) - f */
    VOLTA_INLINE float volta_log_tail(float f) {
        float p = 6.97161183e-2f;
        p = VOLTA_FMA(p, f, -1.14797339e-1f); p = VOLTA_FMA(p, f, 1.16854198e-1f); p = VOLTA_FMA(p, f, -1.24256872e-1f);
        p = VOLTA_FMA(p, f, 1.42490581e-1f); p = VOLTA_FMA(p, f, -1.66678026e-1f); p = VOLTA_FMA(p, f, 2.00007156e-1f);
        p = VOLTA_FMA(p, f, -2.49999970e-1f); p = VOLTA_FMA(p, f, 3.33333313e-1f);
        return VOLTA_FMA(p, f, -0.5f) * (f * f);
    }
    VOLTA_INLINE float volta_log_special(float x, float y) {
        y = volta_pick(x < 0.0f, NAN, y);
        y = volta_pick(x == 0.0f, -INFINITY, y);
        return volta_pick(x < INFINITY, y, x);     /* +inf and NaN are their own logarithm */
    }
    VOLTA_INLINE float log_f32(float x) {
        float e, f = volta_split(x, &e);
        float y = VOLTA_FMA(e, 0.693359375f, VOLTA_FMA(e, -2.12194440e-4f, volta_log_tail(f)) + f);
        return volta_log_special(x, y);
    }
    VOLTA_INLINE float log2_f32(float x) {
        float e, f = volta_split(x, &e), tail = volta_log_tail(f);
        float y = tail * 0.442695041f + f * 0.442695041f + tail + f + e;   /* log2(e) = 1 + 0.4427 */
        return volta_log_special(x, y);
    }
    VOLTA_INLINE float log10_f32(float x) { return log2_f32(x) * 0.301029996f; }
    VOLTA_INLINE float log1p_f32(float x) {
        float u = 1.0f + x, e, f = volta_split(u, &e);
        float y = volta_log_tail(f) + (x - (u - 1.0f)) / u - e * 2.12194440e-4f + f + e * 0.693359375f;
        y = volta_log_special(u, y);
        return volta_pick(fabsf(x) < 1e-8f, x, y);
    }

    /* x = q pi / 2 + r for |x| <= VOLTA_TRIG_LIMIT: by three parts of pi / 2, of which a fused product rounds once, else in double. */
    #define VOLTA_TRIG_LIMIT 1e5f
    #define PI_f32 3.14159265f
    #define PI_f64 3.14159265358979324
    VOLTA_INLINE float volta_trig(float x, int32_t quarter) {
    #if defined(__FMA__) || defined(__ARM_FEATURE_FMA)
        float t = VOLTA_FMA(x, 0.636619772f, VOLTA_ROUNDER), k = t - VOLTA_ROUNDER;
        float r = VOLTA_FMA(k, 1.71512451e-15f, VOLTA_FMA(k, 4.37113883e-8f, VOLTA_FMA(k, -1.57079637f, x))), z = r * r;
        int32_t q = volta_bits(t) + quarter;
    #else
        double t = VOLTA_FMA64(x, 0.63661977236758134, VOLTA_ROUNDER64), k = t - VOLTA_ROUNDER64;
        float r = (float)VOLTA_FMA64(k, -6.07710050650619224932e-11, VOLTA_FMA64(k, -1.57079632673412561417, x)), z = r * r;
        int32_t q = (int32_t)volta_bits64(t) + quarter;
    #endif
        float s = 2.72438115e-6f;
        s = VOLTA_FMA(s, z, -1.98400390e-4f); s = VOLTA_FMA(s, z, 8.33333191e-3f); s = VOLTA_FMA(s, z, -1.66666672e-1f);
        s = VOLTA_FMA(s, z * r, r);
        float c = -2.72958573e-7f;
        c = VOLTA_FMA(c, z, 2.48005599e-5f); c = VOLTA_FMA(c, z, -1.38888881e-3f); c = VOLTA_FMA(c, z, 4.16666679e-2f);
        c = VOLTA_FMA(c, z * z, VOLTA_FMA(-0.5f, z, 1.0f));
        float y = volta_pick(q & 1, c, s);
        return volta_float(volta_bits(y) ^ (int32_t)((uint32_t)(q & 2) << 30));
    }
    VOLTA_INLINE float sin_f32(float x) { float y = volta_trig(x, 0); return volta_pick(x == 0.0f, x, y); }
    VOLTA_INLINE float cos_f32(float x) { return volta_trig(x, 1); }
    VOLTA_INLINE int trig_rare_f32(float x) { return fabsf(x) > VOLTA_TRIG_LIMIT; }

    VOLTA_INLINE float tanh_f32(float x) {
        float a = fabsf(x), m = expm1_f32(a > 10.0f ? 20.0f : 2.0f * a);
        return volta_with_sign(m / (m + 2.0f), x);
    }
    VOLTA_INLINE float sigmoid_f32(float x) {
        float e = exp_f32(-fabsf(x));
        return volta_pick(x < 0.0f, e, 1.0f) / (1.0f + e);
    }
    /* |x| < 1: x P(x**2); else 1 - exp(-Q(|x|)), Q = -log erfc. */
    VOLTA_INLINE float erf_f32(float x) {
        float z = x * x, a = fabsf(x), p = 7.87587487e-5f, q = -1.62267918e-6f;
        p = VOLTA_FMA(p, z, -8.01686430e-4f); p = VOLTA_FMA(p, z, 5.18908724e-3f); p = VOLTA_FMA(p, z, -2.68542115e-2f);
        p = VOLTA_FMA(p, z, 1.12835944e-1f); p = VOLTA_FMA(p, z, -3.76126260e-1f); p = VOLTA_FMA(p, z, 1.12837911f);
        float c = a > 4.0f ? 4.0f : a;
        q = VOLTA_FMA(q, c, 4.57862479e-5f); q = VOLTA_FMA(q, c, -5.94631769e-4f); q = VOLTA_FMA(q, c, 4.74993512e-3f);
        q = VOLTA_FMA(q, c, -2.63950545e-2f); q = VOLTA_FMA(q, c, 1.10036284e-1f); q = VOLTA_FMA(q, c, 6.31870747e-1f);
        q = VOLTA_FMA(q, c, 1.13020804f); q = VOLTA_FMA(q, c, -3.13977100e-4f);
        float large = volta_with_sign(1.0f - exp_f32(-q), x);
        return volta_pick(a < 1.0f, p * x, large);
    }

    /* The normal distribution's share below x, and exp(-x**2 / 2): t P(t) times that, with t = 1 / (1 + 0.375 |x| / sqrt 2), is the
       share beyond |x|, without cancellation. */
    VOLTA_INLINE float normal_cdf_f32(float x, float *bell) {
        float e = exp_f32(-0.5f * x * x), t = 1.0f / VOLTA_FMA(fabsf(x), 0.265165043f, 1.0f), p = 0.0307697821f;
        p = VOLTA_FMA(p, t, -0.143667221f); p = VOLTA_FMA(p, t, 0.216203377f); p = VOLTA_FMA(p, t, -0.114710853f);
        p = VOLTA_FMA(p, t, 0.13686493f); p = VOLTA_FMA(p, t, 0.0607514866f); p = VOLTA_FMA(p, t, 0.102656968f);
        p = VOLTA_FMA(p, t, 0.105324797f);
        p = VOLTA_FMA(p, t, 0.105806738f) * t * e;
        *bell = e;
        return volta_pick(x < 0.0f, p, 1.0f - p);
    }

    /* |x|**y through double: a relative error of about 1e-12 before the last rounding. */
    VOLTA_INLINE float volta_pow_positive(float a, float y) {
        float e, f = volta_split(a, &e);
        double s = f / (2.0 + f), z = s * s, p = 0.2431378046690069;
        p = VOLTA_FMA64(p, z, 0.26142622173862223); p = VOLTA_FMA64(p, z, 0.32061693320147355);
        p = VOLTA_FMA64(p, z, 0.41219839452951484); p = VOLTA_FMA64(p, z, 0.5770780172926201);
        p = VOLTA_FMA64(p, z, 0.961796693924232); p = VOLTA_FMA64(p, z, 2.885390081777927);
        float special = a == 0.0f ? -INFINITY : 0.0f;
        special = a < INFINITY ? special : a;
        double l = VOLTA_FMA64(p, s, e) + special;
        double t = y * l;
        t = l == 0.0 ? 0.0 : t;
        t = t < -200.0 ? -200.0 : t;
        t = t > 200.0 ? 200.0 : t;
        double k = t + VOLTA_ROUNDER64, r = t - (k - VOLTA_ROUNDER64), v = 1.0205905413765595e-07;
        v = VOLTA_FMA64(v, r, 1.325964524488711e-06); v = VOLTA_FMA64(v, r, 1.5252672924850737e-05);
        v = VOLTA_FMA64(v, r, 0.0001540343375125101); v = VOLTA_FMA64(v, r, 0.0013333558200794592);
        v = VOLTA_FMA64(v, r, 0.009618129193934313); v = VOLTA_FMA64(v, r, 0.05550410866465167);
        v = VOLTA_FMA64(v, r, 0.2402265069564034); v = VOLTA_FMA64(v, r, 0.6931471805599462); v = VOLTA_FMA64(v, r, 1.0);
        int64_t n = volta_bits64(k) - volta_bits64(VOLTA_ROUNDER64);
        return (float)(v * volta_double((int64_t)((uint64_t)(n + 1023) << 52)));
    }
    VOLTA_INLINE float pow_f32(float x, float y) {
        /* From 2**24 on, every y is an even integer. */
        float v = volta_pow_positive(fabsf(x), y), small = volta_pick(fabsf(y) < 16777216.0f, y, 0.0f);
        int32_t n = (int32_t)small;
        int32_t bits = volta_bits(x), fraction = -(small != (float)n);
        int32_t negative = -((uint32_t)bits - 0x80000001u < 0x7f7fffffu);           /* and finite, not -0 */
        int32_t sign = bits & (int32_t)((uint32_t)n << 31) & ~fraction;
        v = volta_float((volta_bits(v) ^ sign) | (fraction & negative & 0x7fc00000));
        v = volta_pick(y != y, NAN, v);                        /* a NaN x has given NaN already */
        return volta_pick((x == 1.0f) | (y == 0.0f), 1.0f, v);
    }

    /* What float32 and float64 write alike; F is the suffix of the C library's function. */
    #define VOLTA_FLOAT(T, s, F)                                                                                       \
        VOLTA_INLINE T sqrt_##s(T x) { return sqrt##F(x); }                                                            \
        VOLTA_INLINE T abs_##s(T x) { return fabs##F(x); }                                                             \
        VOLTA_INLINE T floor_##s(T x) { return floor##F(x); }                                                          \
        VOLTA_INLINE T ceil_##s(T x) { return ceil##F(x); }                                                            \
        VOLTA_INLINE T round_##s(T x) { return rint##F(x); }                                                           \
        VOLTA_INLINE T trunc_##s(T x) { return trunc##F(x); }                                                          \
        VOLTA_INLINE T relu_##s(T x) { return x <= 0 ? 0 : x; }                                                        \
        VOLTA_INLINE T sign_##s(T x) { return (x > 0 ? (T)1 : (T)0) - (x < 0 ? (T)1 : (T)0); }                         \
        VOLTA_INLINE T maximum_##s(T a, T b) { T m = a > b ? a : b; return a != a ? a : m; }                           \
        VOLTA_INLINE T minimum_##s(T a, T b) { T m = a < b ? a : b; return a != a ? a : m; }                           \
        VOLTA_INLINE T clamp_##s(T x, T low, T high) {             /* NaN of any NaN */                                   \
            T m = low > x ? low : x;                                                                                   \
            m = high < m ? high : m;                                                                                   \
            return low != low || high != high ? low + high : m;                                                        \
        }                                                                                                              \
        VOLTA_INLINE T gelu_##s(T x) { T bell; return x * normal_cdf_##s(x, &bell); }                                  \
        VOLTA_INLINE T gelu_grad_##s(T g, T x) {                                                                       \
            T bell, cdf = normal_cdf_##s(x, &bell);                                                                    \
            return g * (cdf + x * (T)0.39894228040143268 * bell);                                                      \
        }                                                                                                              \
        /* 0.5 (1 + tanh(u)) = sigmoid(2 u), without its cancellation */                                               \
        VOLTA_INLINE T gelu_tanh_##s(T x) {                                                                            \
            return x * sigmoid_##s(x * ((T)1.5957691216057308 + (T)0.071354816272600246 * x * x));                     \
        }                                                                                                              \
        VOLTA_INLINE T gelu_tanh_grad_##s(T g, T x) {                                                                  \
            T v = sigmoid_##s(x * ((T)1.5957691216057308 + (T)0.071354816272600246 * x * x));                          \
            return g * (v + x * v * (1 - v) * ((T)1.5957691216057308 + (T)0.21406444881780074 * x * x));               \
        }                                                                                                              \
        VOLTA_INLINE T silu_##s(T x) { return x * sigmoid_##s(x); }                                                    \
        VOLTA_INLINE T silu_grad_##s(T g, T x) { T v = sigmoid_##s(x); return g * v * (1 + x * (1 - v)); }             \
        /* sin(a) / a for a = pi x, and its derivative by x: near 0, where that is a difference of nearly equal numbers, its series. */ \
        VOLTA_INLINE T sinc_##s(T x) {                                                                                 \
            T a = x * PI_##s, w = a == 0 ? 1 : a, y = sin_##s(w) / w;                                                  \
            return a == 0 ? 1 : y;                                                                                     \
        }                                                                                                              \
        VOLTA_INLINE T sinc_slope_##s(T x) {                                                                           \
            T a = x * PI_##s, z = a * a, p = (T)(-1 / 93405312000.0), w = z < (T)0.25 ? 1 : a;                         \
            T far = (cos_##s(w) - sin_##s(w) / w) / (z < (T)0.25 ? 1 : x);                                             \
            p = p * z + (T)(1 / 518918400.0); p = p * z - (T)(1 / 3991680.0); p = p * z + (T)(1 / 45360.0);            \
            p = p * z - (T)(1 / 840.0); p = p * z + (T)(1 / 30.0); p = p * z - (T)(1 / 3.0);                           \
            return z < (T)0.25 ? (z == 0 ? 0 : PI_##s * a * p) : far;          /* where the square underflows it is 0, as in PyTorch */ \
        }                                                                                                              \
        VOLTA_INLINE T fmod_##s(T a, T b) { return fmod##F(a, b); }                                                    \
        VOLTA_INLINE T remainder_##s(T a, T b) {                                                                       \
            T m = fmod##F(a, b);                                                                                       \
            return (m != 0) & ((b < 0) != (m < 0)) ? m + b : m;                                                        \
        }                                                                                                              \
        VOLTA_INLINE T floor_divide_##s(T a, T b) {                                                                    \
            T m = fmod##F(a, b), d = (a - m) / b, f;                                                                   \
            if (b == 0) return a / b;                                                                                  \
            if ((m != 0) & ((b < 0) != (m < 0))) d -= 1;                                                               \
            if (d == 0) return copysign##F(0, a / b);                                                                  \
            f = floor##F(d);                                                                                           \
            return d - f > (T)0.5 ? f + 1 : f;                                                                         \
        }
    VOLTA_FLOAT(float, f32, f)
    VOLTA_FLOAT(double, f64, )

    VOLTA_INLINE int32_t quotient_i32(int32_t a, int32_t b) { return (int32_t)((double)a / (double)b); }
    VOLTA_INLINE uint8_t quotient_u8(uint8_t a, uint8_t b) { return (uint8_t)((double)a / (double)b); }
    /* int64 to floats and back. AVX2 has no instructions for these, compilers take them out of vectors then; by the bits of doubles: of all
       integers, of those within 2^51, and of those within 2^51 as doubles. */
    #if defined(__AVX2__) && !defined(__AVX512DQ__)
      VOLTA_INLINE double volta_double_of(int64_t x) {
          const uint64_t bits = (uint64_t)x ^ (uint64_t)1 << 63;                                 /* x + 2^63 */
          const double high = volta_double((int64_t)(bits >> 32 | 0x4530000000000000));
          return high - 19342822341709703277445120.0 + volta_double((int64_t)((bits & 0xffffffff) | 0x4330000000000000));
      }
      VOLTA_INLINE double volta_near_double(int64_t x) { return volta_double(x + volta_bits64(VOLTA_ROUNDER64)) - VOLTA_ROUNDER64; }
      VOLTA_INLINE int64_t volta_near_whole(double x) { return volta_bits64(trunc(x) + VOLTA_ROUNDER64) - volta_bits64(VOLTA_ROUNDER64); }
      /* Of what a double would round before a float does, the bits that it has no room for become one. */
      VOLTA_INLINE float volta_float_of(int64_t x) {
          const int64_t kept = (x & ~(int64_t)0x7ff) | ((x & 0x7ff) != 0 ? 0x400 : 0), far = x < 0 ? ~x : x;
          return (float)volta_double_of(far >> 53 != 0 ? kept : x);
      }
    #else
      VOLTA_INLINE double volta_double_of(int64_t x) { return (double)x; }
      VOLTA_INLINE double volta_near_double(int64_t x) { return (double)x; }
      VOLTA_INLINE int64_t volta_near_whole(double x) { return (int64_t)x; }
      VOLTA_INLINE float volta_float_of(int64_t x) { return (float)x; }
    #endif
    VOLTA_INLINE int64_t quotient_i64(int64_t a, int64_t b) { return volta_near_whole(volta_near_double(a) / volta_near_double(b)); }

    #define VOLTA_INTEGER(T, s)                                                                                        \
        VOLTA_INLINE T abs_##s(T x) { return (T)(x < 0 ? -x : x); }                                                    \
        VOLTA_INLINE T relu_##s(T x) { return x < 0 ? 0 : x; }                                                         \
        VOLTA_INLINE T sign_##s(T x) { return (T)((T)(x > 0) - (T)(x < 0)); }                                          \
        VOLTA_INLINE T maximum_##s(T a, T b) { return a > b ? a : b; }                                                 \
        VOLTA_INLINE T minimum_##s(T a, T b) { return a < b ? a : b; }                                                 \
        VOLTA_INLINE T clamp_##s(T x, T low, T high) { return minimum_##s(maximum_##s(x, low), high); }                \
        VOLTA_INLINE T fmod_##s(T a, T b) { return b == 0 || (b == (T)-1 && (T)-1 < 0) ? 0 : a % b; }                  \
        VOLTA_INLINE T remainder_##s(T a, T b) {                                                                       \
            T m = fmod_##s(a, b);                                                                                      \
            return m != 0 && (b < 0) != (m < 0) ? (T)(m + b) : m;                                                      \
        }                                                                                                              \
        VOLTA_INLINE T floor_divide_##s(T a, T b) {                                                                    \
            if (b == 0) return 0;                                                                                      \
            if (b == (T)-1 && (T)-1 < 0) return (T)-a;              /* the least integer / -1 would trap */            \
            return (T)(a / b - (a % b != 0 && (a < 0) != (b < 0)));                                                    \
        }                                                                                                              \
        /* Quotients by way of double, which vectors have: cut off exactly while both are within 2^51, since the next integer is\
           further away than an error of rounding. 0 where b is 0. */                                                  \
        VOLTA_INLINE T divisor_##s(T b) { return (b == 0) | (b == (T)-1) ? 1 : b; }                                    \
        VOLTA_INLINE T fmod_by_double_##s(T a, T b) { T d = divisor_##s(b); return a - quotient_##s(a, d) * d; }\
        VOLTA_INLINE T remainder_by_double_##s(T a, T b) {                                                             \
            T m = fmod_by_double_##s(a, b);                                                                            \
            return m + ((m != 0) & ((b < 0) != (m < 0)) ? b : 0);                                                      \
        }                                                                                                              \
        VOLTA_INLINE T divide_by_double_##s(T a, T b, int floored) {                                                   \
            T d = divisor_##s(b), q = quotient_##s(a, d), m = a - q * d;                                       \
            q -= floored & (m != 0) & ((d < 0) != (m < 0));                                                            \
            return b == 0 ? 0 : b == (T)-1 ? (T)(0 - (uint64_t)a) : q;                                                 \
        }                                                                                                              \
        VOLTA_INLINE T pow_##s(T a, T b) {                                                                             \
            uint64_t base = (uint64_t)a, y = 1, n = (uint64_t)b;                                                       \
            if (b < 0) return a == 1 ? 1 : a == (T)-1 ? (T)(b & 1 ? -1 : 1) : 0;                                       \
            for (; n; n >>= 1, base *= base) if (n & 1) y *= base;                                                     \
            return (T)y;                                                                                               \
        }
    VOLTA_INTEGER(int32_t, i32)
    VOLTA_INTEGER(int64_t, i64)
    VOLTA_INTEGER(uint8_t, u8)
    VOLTA_INLINE int beyond_double(int64_t a) { return (uint64_t)a + ((uint64_t)1 << 51) > (uint64_t)1 << 52; }

    VOLTA_INLINE float volta_from_half(uint16_t h) {
    #ifdef VOLTA_F16C
        return _mm_cvtss_f32(_mm_cvtph_ps(_mm_cvtsi32_si128(h)));
    #else
        uint32_t sign = (uint32_t)(h & 0x8000) << 16, rest = h & 0x7fff;
        float x;
        if (rest >= 0x7c00) x = volta_float((int32_t)(0x7f800000 | (rest & 0x3ff) << 13));
        else if (rest >= 0x400) x = volta_float((int32_t)((rest << 13) + 0x38000000));
        else x = (float)rest * 5.9604644775390625e-8f;         /* denormal: units of 2**-24 */
        return volta_float(volta_bits(x) | (int32_t)sign);
    #endif
    }
    VOLTA_INLINE uint16_t volta_to_half(float x) {
    #ifdef VOLTA_F16C
        return (uint16_t)_mm_cvtsi128_si32(_mm_cvtps_ph(_mm_set_ss(x), 0));
    #else
        uint32_t bits = (uint32_t)volta_bits(x), sign = bits >> 16 & 0x8000, rest = bits & 0x7fffffff;
        if (rest > 0x7f800000) return (uint16_t)(sign | 0x7e00);
        if (rest >= 0x477ff000) return (uint16_t)(sign | 0x7c00);                   /* rounds to 65536 or more */
        if (rest < 0x38800000)                                 /* denormal: the addition rounds at 2**-24 */
            return (uint16_t)(sign | (uint32_t)(volta_bits(volta_float((int32_t)rest) + 0.5f) - 0x3f000000));
        rest += 0xfff + (rest >> 13 & 1);                      /* nearest, ties to even */
        return (uint16_t)(sign | ((rest - 0x38000000) >> 13));
    #endif
    }
    VOLTA_INLINE void half_to_float(float *out, const uint16_t *x, Py_ssize_t n) {
        Py_ssize_t i = 0;
    #ifdef __AVX512F__
        for (; i + 16 <= n; i += 16) _mm512_storeu_ps(out + i, _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(x + i))));
    #endif
    #ifdef VOLTA_F16C
        VOLTA_BY_FOUR
        for (; i + 8 <= n; i += 8) _mm256_storeu_ps(out + i, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(x + i))));
    #endif
        for (; i < n; i++) out[i] = volta_from_half(x[i]);
    }
    VOLTA_INLINE void float_to_half(uint16_t *out, const float *x, Py_ssize_t n) {
        Py_ssize_t i = 0;
    #ifdef __AVX512F__
        for (; i + 16 <= n; i += 16) _mm256_storeu_si256((__m256i *)(out + i), _mm512_cvtps_ph(_mm512_loadu_ps(x + i), 0));
    #endif
    #ifdef VOLTA_F16C
        VOLTA_BY_FOUR
        for (; i + 8 <= n; i += 8) _mm_storeu_si128((__m128i *)(out + i), _mm256_cvtps_ph(_mm256_loadu_ps(x + i), 0));
    #endif
        for (; i < n; i++) out[i] = volta_to_half(x[i]);
    }

    /* bfloat16: the upper half of a float32. GCC makes vectors of AVX2 of these loops that wait for each other. */
    #define VOLTA_BRAIN_LINES (defined(__GNUC__) && VOLTA_WIDE == 32)
    VOLTA_INLINE uint16_t volta_to_brain(float x) {
        uint32_t bits = (uint32_t)volta_bits(x);
        return (bits & 0x7fffffff) > 0x7f800000 ? 0x7fc0 : (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);    /* ties to even */
    }
    VOLTA_INLINE void brain_to_float(float *out, const uint16_t *x, Py_ssize_t n) {
        Py_ssize_t i = 0;
    #if VOLTA_BRAIN_LINES
        VOLTA_BY_FOUR
        for (; i + 8 <= n; i += 8)
            _mm256_storeu_si256((__m256i *)(out + i),
                                _mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)(x + i))), 16));
    #endif
        for (; i < n; i++) out[i] = volta_float((int32_t)((uint32_t)x[i] << 16));
    }
    #if VOLTA_BRAIN_LINES
      VOLTA_INLINE __m256i volta_to_brains(__m256 x) {                       /* of what is no NaN */
          const __m256i bits = _mm256_castps_si256(x), odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
          return _mm256_srli_epi32(_mm256_add_epi32(_mm256_add_epi32(bits, odd), _mm256_set1_epi32(0x7fff)), 16);
      }
    #endif
    VOLTA_INLINE void float_to_brain(uint16_t *out, const float *x, Py_ssize_t n) {
        Py_ssize_t i = 0, k;
    #if VOLTA_BRAIN_LINES
        for (; i + 16 <= n; i += 16) {
            const __m256 a = _mm256_loadu_ps(x + i), b = _mm256_loadu_ps(x + i + 8);
            if (__builtin_expect(_mm256_movemask_ps(_mm256_cmp_ps(a, b, _CMP_UNORD_Q)), 0))
                for (k = i; k < i + 16; k++) out[k] = volta_to_brain(x[k]);
            else                                                             /* packed in turns of four, then in order */
                _mm256_storeu_si256((__m256i *)(out + i),
                                    _mm256_permute4x64_epi64(_mm256_packus_epi32(volta_to_brains(a), volta_to_brains(b)), 0xd8));
        }
    #endif
        for (k = i; k < n; k++) out[k] = volta_to_brain(x[k]);
    }
    #endif
    """
    ctypedef float* f32_out
    ctypedef double* f64_out
    ctypedef int32_t* i32_out
    ctypedef int64_t* i64_out
    ctypedef uint8_t* u8_out
    ctypedef uint16_t* u16_out
    ctypedef int8_t* i8_out
    ctypedef int16_t* i16_out
    ctypedef const float* f32_in
    ctypedef const double* f64_in
    ctypedef const int32_t* i32_in
    ctypedef const int64_t* i64_in
    ctypedef const uint8_t* u8_in
    ctypedef const uint16_t* u16_in
    ctypedef const int8_t* i8_in
    ctypedef const int16_t* i16_in

    # Several in a line, by the types of results and arguments.
    const float NAN_F32 "NAN"
    void half_to_float(float* out, const uint16_t* x, Py_ssize_t n) noexcept nogil
    void float_to_half(uint16_t* out, const float* x, Py_ssize_t n) noexcept nogil
    float volta_from_half(uint16_t h) noexcept nogil
    uint16_t volta_to_half(float x) noexcept nogil
    void brain_to_float(float* out, const uint16_t* x, Py_ssize_t n) noexcept nogil
    void float_to_brain(uint16_t* out, const float* x, Py_ssize_t n) noexcept nogil
    uint16_t volta_to_brain(float x) noexcept nogil
    float volta_float_of(int64_t x) noexcept nogil
    double volta_double_of(int64_t x) noexcept nogil
    int trig_rare_f32(float x) noexcept nogil
    float PI_f32
    double PI_f64
    float exp_f32(float x), expm1_f32(float x), exp2_f32(float x), log_f32(float x), log2_f32(float x), log10_f32(float x)
    float log1p_f32(float x)
    float sin_f32(float x), cos_f32(float x), tanh_f32(float x), erf_f32(float x), sigmoid_f32(float x), sqrt_f32(float x)
    float abs_f32(float x), floor_f32(float x), ceil_f32(float x), round_f32(float x), trunc_f32(float x), relu_f32(float x)
    float sign_f32(float x), gelu_f32(float x), gelu_tanh_f32(float x), silu_f32(float x)
    float pow_f32(float a, float b), maximum_f32(float a, float b), minimum_f32(float a, float b), fmod_f32(float a, float b)
    float clamp_f32(float x, float low, float high)
    float remainder_f32(float a, float b), floor_divide_f32(float a, float b), gelu_grad_f32(float a, float b)
    float gelu_tanh_grad_f32(float a, float b), silu_grad_f32(float a, float b), sinc_f32(float x), sinc_slope_f32(float x)
    float pick_f32 "volta_pick"(int condition, float a, float b)
    double sqrt_f64(double x)
    double abs_f64(double x), floor_f64(double x), ceil_f64(double x), round_f64(double x), trunc_f64(double x), relu_f64(double x)
    double sign_f64(double x), gelu_f64(double x), gelu_tanh_f64(double x), silu_f64(double x)
    double maximum_f64(double a, double b), minimum_f64(double a, double b)
    double clamp_f64(double x, double low, double high)
    double fmod_f64(double a, double b), remainder_f64(double a, double b), floor_divide_f64(double a, double b)
    double gelu_grad_f64(double a, double b), gelu_tanh_grad_f64(double a, double b), silu_grad_f64(double a, double b)
    double sinc_f64(double x), sinc_slope_f64(double x)
    int32_t abs_i32(int32_t x), relu_i32(int32_t x), sign_i32(int32_t x)
    int32_t pow_i32(int32_t a, int32_t b), maximum_i32(int32_t a, int32_t b), minimum_i32(int32_t a, int32_t b)
    int32_t clamp_i32(int32_t x, int32_t low, int32_t high)
    int32_t fmod_i32(int32_t a, int32_t b), remainder_i32(int32_t a, int32_t b), floor_divide_i32(int32_t a, int32_t b)
    int32_t fmod_by_double_i32(int32_t a, int32_t b), remainder_by_double_i32(int32_t a, int32_t b)
    int32_t divide_by_double_i32(int32_t a, int32_t b, int floored)
    int64_t abs_i64(int64_t x), relu_i64(int64_t x), sign_i64(int64_t x)
    int64_t pow_i64(int64_t a, int64_t b), maximum_i64(int64_t a, int64_t b), minimum_i64(int64_t a, int64_t b)
    int64_t clamp_i64(int64_t x, int64_t low, int64_t high)
    int64_t fmod_i64(int64_t a, int64_t b), remainder_i64(int64_t a, int64_t b), floor_divide_i64(int64_t a, int64_t b)
    int64_t fmod_by_double_i64(int64_t a, int64_t b), remainder_by_double_i64(int64_t a, int64_t b)
    int64_t divide_by_double_i64(int64_t a, int64_t b, int floored)
    int beyond_double(int64_t a) noexcept nogil
    uint8_t abs_u8(uint8_t x), relu_u8(uint8_t x), sign_u8(uint8_t x)
    uint8_t pow_u8(uint8_t a, uint8_t b), maximum_u8(uint8_t a, uint8_t b), minimum_u8(uint8_t a, uint8_t b)
    uint8_t clamp_u8(uint8_t x, uint8_t low, uint8_t high)
    uint8_t fmod_u8(uint8_t a, uint8_t b), remainder_u8(uint8_t a, uint8_t b), floor_divide_u8(uint8_t a, uint8_t b)
