# Orthogonal polynomials, in the forms of scalar.pxd: the three-term recurrences that all of them have. float32 goes
# through float64, with overflow where float32 has it.
from volta._kernels.cpu cimport special

cdef extern from * nogil:
    """
    #ifndef VOLTA_POLYNOMIAL
    #define VOLTA_POLYNOMIAL
    #include <float.h>
    enum { CHEBYSHEV, HERMITE_H, HERMITE_HE, LAGUERRE, LEGENDRE };
    /* The polynomial of degree trunc(n), 0 for one that is negative, NaN or beyond int64, NaN for one beyond `most`: from 1 and `first` on
       by P[k + 1] = (slope P[k] - weight P[k - 1]) / scale. Values beyond `limit` are infinite. */
    static double volta_polynomial(int kind, double x, double n, double first, double most, double limit) {
        double p = 1, q = first, next, k;
        n = trunc(n);
        if (!(n >= 0 && n < 9.223372036854775808e18)) return 0;
        if (n == 0) return 1;
        if (n > most) return NAN;
        for (k = 1; k < n && q == q; k++) {
            switch (kind) {
                case CHEBYSHEV: next = 2 * x * q - p; break;
                case HERMITE_H: next = 2 * (x * q - k * p); break;
                case HERMITE_HE: next = x * q - k * p; break;
                case LAGUERRE: next = ((2 * k + 1 - x) * q - k * p) / (k + 1); break;
                default: next = ((2 * k + 1) * x * q - k * p) / (k + 1);
            }
            p = q;
            q = fabs(next) > limit ? copysign(INFINITY, next) : next;
        }
        return q;
    }
    #define VOLTA_POLYNOMIAL_OF(name, kind, argument, first, most)                                                     \
        VOLTA_INLINE double name##_f64(double a, double n) {                                                            \
            double x = argument; return volta_polynomial(kind, x, n, first, most, INFINITY); }                          \
        VOLTA_INLINE float name##_f32(float a, float n) {                                                               \
            double x = argument; return (float)volta_polynomial(kind, x, n, first, most, FLT_MAX); }
    #define VOLTA_CHEBYSHEV(letter, first)                                                                             \
        VOLTA_POLYNOMIAL_OF(chebyshev_polynomial_##letter, CHEBYSHEV, a, first, 1e5)                                   \
        VOLTA_POLYNOMIAL_OF(shifted_chebyshev_polynomial_##letter, CHEBYSHEV, 2 * a - 1, first, 1e5)
    VOLTA_CHEBYSHEV(t, x) VOLTA_CHEBYSHEV(u, 2 * x) VOLTA_CHEBYSHEV(v, 2 * x - 1) VOLTA_CHEBYSHEV(w, 2 * x + 1)
    VOLTA_POLYNOMIAL_OF(hermite_polynomial_h, HERMITE_H, a, 2 * x, 512) VOLTA_POLYNOMIAL_OF(hermite_polynomial_he, HERMITE_HE, a, x, 512)
    VOLTA_POLYNOMIAL_OF(laguerre_polynomial_l, LAGUERRE, a, 1 - x, 1e5) VOLTA_POLYNOMIAL_OF(legendre_polynomial_p, LEGENDRE, a, x, 1e5)
    #endif
    """
    float chebyshev_polynomial_t_f32(float a, float n), chebyshev_polynomial_u_f32(float a, float n)
    float chebyshev_polynomial_v_f32(float a, float n), chebyshev_polynomial_w_f32(float a, float n)
    float shifted_chebyshev_polynomial_t_f32(float a, float n), shifted_chebyshev_polynomial_u_f32(float a, float n)
    float shifted_chebyshev_polynomial_v_f32(float a, float n), shifted_chebyshev_polynomial_w_f32(float a, float n)
    float hermite_polynomial_h_f32(float a, float n), hermite_polynomial_he_f32(float a, float n)
    float laguerre_polynomial_l_f32(float a, float n), legendre_polynomial_p_f32(float a, float n)
    double chebyshev_polynomial_t_f64(double a, double n), chebyshev_polynomial_u_f64(double a, double n)
    double chebyshev_polynomial_v_f64(double a, double n), chebyshev_polynomial_w_f64(double a, double n)
    double shifted_chebyshev_polynomial_t_f64(double a, double n), shifted_chebyshev_polynomial_u_f64(double a, double n)
    double shifted_chebyshev_polynomial_v_f64(double a, double n), shifted_chebyshev_polynomial_w_f64(double a, double n)
    double hermite_polynomial_h_f64(double a, double n), hermite_polynomial_he_f64(double a, double n)
    double laguerre_polynomial_l_f64(double a, double n), legendre_polynomial_p_f64(double a, double n)
