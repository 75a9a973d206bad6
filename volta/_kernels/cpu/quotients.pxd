# Remainders of floats in loops that compilers vectorise; the C library's fmod takes bits one after another. Those of float32 go by way of
# double.
#
# While |a| < 2**28 |b|, the quotient in double is cut off right: a true quotient that is no integer is further from one (2**-24, by the
# bits of b) than an error of rounding (2**-26), and what is left, a - q b, needs no more bits than a double has.
cdef extern from *:
    """
    #include <float.h>
    #include <math.h>
    #if defined(_MSC_VER)
      #define VOLTA_QUOTIENT static __forceinline
    #else
      #define VOLTA_QUOTIENT static inline __attribute__((always_inline, unused))
    #endif
    VOLTA_QUOTIENT int far_f32(float a, float b) { return !(fabsf(a) < 268435456.0f * fabsf(b)) | (fabsf(b) > FLT_MAX); }
    VOLTA_QUOTIENT float fmod_near_f32(float a, float b) {
        const double x = a, y = b, q = (double)(int)(x / y);
        return copysignf((float)(x - q * y), a);
    }
    VOLTA_QUOTIENT float remainder_near_f32(float a, float b) {
        const float m = fmod_near_f32(a, b);
        return (m != 0) & ((b < 0) != (m < 0)) ? m + b : m;
    }
    VOLTA_QUOTIENT float floor_divide_near_f32(float a, float b) {
        const float m = fmod_near_f32(a, b), d = (a - m) / b - ((m != 0) & ((b < 0) != (m < 0)) ? 1.0f : 0.0f), f = floorf(d);
        return d == 0 ? copysignf(0, a / b) : d - f > 0.5f ? f + 1 : f;
    }
    #if defined(__FMA__) || defined(__ARM_FEATURE_FMA)
      /* The quotient is cut off right or, where it was rounded up to an integer, one too far; a fused product tells which, exactly. */
      VOLTA_QUOTIENT int far_f64(double a, double b) { return !(fabs(a) < 4503599627370496.0 * fabs(b)) | (fabs(b) > DBL_MAX); }
      VOLTA_QUOTIENT double fmod_near_f64(double a, double b) {
          const double r = __builtin_fma(-trunc(a / b), b, a);
          return copysign((r != 0) & ((r < 0) != (a < 0)) ? r + copysign(b, a) : r, a);
      }
    #else
      VOLTA_QUOTIENT int far_f64(double a, double b) { (void)a; (void)b; return 0; }
      VOLTA_QUOTIENT double fmod_near_f64(double a, double b) { return fmod(a, b); }
    #endif
    VOLTA_QUOTIENT double remainder_near_f64(double a, double b) {
        const double m = fmod_near_f64(a, b);
        return (m != 0) & ((b < 0) != (m < 0)) ? m + b : m;
    }
    VOLTA_QUOTIENT double floor_divide_near_f64(double a, double b) {
        const double m = fmod_near_f64(a, b), d = (a - m) / b - ((m != 0) & ((b < 0) != (m < 0)) ? 1.0 : 0.0), f = floor(d);
        const double y = d == 0 ? copysign(0, a / b) : d - f > 0.5 ? f + 1 : f;
        return b == 0 ? a / b : y;
    }
    """
    int far_f32(float a, float b) noexcept nogil
    float fmod_near_f32(float a, float b) noexcept nogil
    float remainder_near_f32(float a, float b) noexcept nogil
    float floor_divide_near_f32(float a, float b) noexcept nogil
    int far_f64(double a, double b) noexcept nogil
    double fmod_near_f64(double a, double b) noexcept nogil
    double remainder_near_f64(double a, double b) noexcept nogil
    double floor_divide_near_f64(double a, double b) noexcept nogil
