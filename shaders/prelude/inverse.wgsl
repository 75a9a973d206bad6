// prelude/inverse: inverse trigonometric and hyperbolic functions, the inverse of erf, gamma and Bessel functions.
//
// No bindings, no entry point; NaN and infinity as in prelude/numbers.

fn with_sign(size: f32, sign: f32) -> f32 {
    return bitcast<f32>((bitcast<u32>(size) & 0x7fffffffu) | (bitcast<u32>(sign) & 0x80000000u));
}

// asin(|x|) where |x| <= 1/2, else asin(sqrt((1 - |x|) / 2)), which is half of acos(|x|).
fn asin_part(x: f32) -> f32 {
    let a = abs(x);
    let z = select(a * a, max(0.5 * (1.0 - a), 0.0), a > 0.5);
    let s = select(a, sqrt(z), a > 0.5);
    let tail = 0.166666657 + z * (0.0750009418 + z * (0.0445994027 + z * (0.0311006624 + z * (0.0171492379 + z * 0.0336908475))));
    return s + s * z * tail;
}

fn asin_accurate(x: f32) -> f32 {
    let r = asin_part(x);
    let y = with_sign(select(r, 1.57079637 - (2.0 * r + 4.37113883e-8), abs(x) > 0.5), x);
    return select(y, nan(), is_nan(x) || abs(x) > 1.0);
}

fn acos_accurate(x: f32) -> f32 {
    let r = asin_part(x);
    let large = select(2.0 * r, 3.14159274 - (2.0 * r + 8.74227766e-8), x < 0.0);
    let y = select(1.57079637 - (with_sign(r, x) + 4.37113883e-8), large, abs(x) > 0.5);
    return select(y, nan(), is_nan(x) || abs(x) > 1.0);
}

// atan(t) for 0 <= t <= 1.
fn atan_unit(t: f32) -> f32 {
    let z = t * t;
    let tail = -0.333333313 + z * (0.199997395 + z * (-0.142785683 + z * (0.110337645 + z * (-0.0865688026 + z * (0.0625016913
        + z * (-0.0358715393 + z * (0.0135077713 + z * -0.00238699722)))))));
    return t + t * z * tail;
}

fn atan_accurate(x: f32) -> f32 {
    let a = abs(x);
    let r = atan_unit(select(a, div_f32(1.0, max(a, 1.0)), a > 1.0));
    return select(with_sign(select(r, 1.57079637 - r, a > 1.0), x), x, is_nan(x));
}

fn atan2_accurate(y: f32, x: f32) -> f32 {
    if (is_nan(x) || is_nan(y)) { return nan(); }
    let a = abs(x);
    let b = abs(y);
    let largest = max(a, b);
    var t = 0.0;
    if (is_inf(a) && is_inf(b)) {
        t = 1.0;
    } else if (largest >= 1.17549435e-38) {     // below, arithmetic takes both for 0
        t = div_f32(min(a, b), largest);
    }
    var r = atan_unit(t);
    r = select(r, 1.57079637 - r, b > a);
    return with_sign(select(r, 3.14159274 - r, is_negative(x)), y);
}

// The square root of a^2 + b^2; large and small ones are scaled.
fn hypot_accurate(a: f32, b: f32) -> f32 {
    if (is_inf(a) || is_inf(b)) { return inf(); }
    if (is_nan(a) || is_nan(b)) { return nan(); }
    let largest = max(abs(a), abs(b));
    let up = select(select(1.0, 7.8886091e-31, largest > 1.0e18), 1.2676506e30, largest < 1.0e-18);       // 2^-100 and 2^100
    let down = select(select(1.0, 1.2676506e30, largest > 1.0e18), 7.8886091e-31, largest < 1.0e-18);
    return sqrt((a * up) * (a * up) + (b * up) * (b * up)) * down;
}

// e^a / 2 for a >= 0, which overflows later than e^a.
fn half_exp(a: f32) -> f32 {
    let e = exp_accurate(0.5 * a);
    return (0.5 * e) * e;
}

fn sinh_accurate(x: f32) -> f32 {
    let a = abs(x);
    let h = half_exp(a);
    let m = expm1_accurate(min(a, 1.0));
    let y = select(0.5 * (m + m / (m + 1.0)), h - 0.25 / h, a > 1.0);
    return select(with_sign(y, x), x, is_nan(x) || is_inf(x));
}

fn cosh_accurate(x: f32) -> f32 {
    let h = half_exp(abs(x));
    return select(select(h + 0.25 / h, inf(), is_inf(x)), nan(), is_nan(x));
}

// log(2 a) for a > 10^8, else log(1 + s).
fn log_twice(a: f32, s: f32) -> f32 {
    return select(log1p_accurate(s), log_accurate(a) + LN2, a > 1.0e8);
}

fn asinh_accurate(x: f32) -> f32 {
    let a = abs(x);
    let bounded = min(a, 1.0e9);
    let y = log_twice(a, bounded + bounded * bounded / (1.0 + sqrt(1.0 + bounded * bounded)));
    return select(with_sign(y, x), x, is_nan(x) || is_inf(x));
}

fn acosh_accurate(x: f32) -> f32 {
    let t = clamp(x, 1.0, 1.0e9) - 1.0;
    return select(log_twice(x, t + sqrt(t * (t + 2.0))), nan(), is_nan(x) || x < 1.0);
}

fn atanh_accurate(x: f32) -> f32 {
    let a = abs(x);
    if (is_nan(x) || a > 1.0) { return nan(); }
    if (a == 1.0) { return with_sign(inf(), x); }
    return with_sign(0.5 * log1p_accurate(2.0 * a / (1.0 - a)), x);
}

fn erfc_accurate(x: f32) -> f32 {
    let tail = erfc_tail(abs(x));
    return select(select(tail, 2.0 - tail, x < 0.0), x, is_nan(x));
}

// x P(w) with w = -log(1 - x^2), beyond 5 x Q(sqrt(w)). Source: Giles, "Approximating the erfinv function", 2012 (the form).
fn erfinv_accurate(x: f32) -> f32 {
    if (is_nan(x) || abs(x) > 1.0) { return nan(); }
    if (abs(x) == 1.0) { return with_sign(inf(), x); }
    let w = -log_accurate((1.0 - x) * (1.0 + x));
    if (w < 5.0) {
        let v = w - 2.5;
        return x * (1.50140941 + v * (0.246640280 + v * (-4.17739293e-3 + v * (-1.25272642e-3 + v * (2.18349393e-4 + v * (-4.97241990e-6
            + v * (-3.46398519e-6 + v * (4.68131361e-7 + v * (2.33359678e-8 + v * -8.93192631e-9)))))))));
    }
    let s = sqrt(w) - 3.0;
    return x * (2.83297682 + s * (1.00167489 + s * (9.44435969e-3 + s * (-7.63542810e-3 + s * (5.69426967e-3 + s * (-3.60624189e-3
        + s * (1.46697636e-3 + s * (-3.90836649e-5 + s * (-2.95500970e-4 + s * 1.02817765e-4)))))))));
}

// ---- Gamma functions.

// sin(pi x); x less the nearest integer is exact.
fn sin_pi(x: f32) -> f32 {
    let r = x - round(x);
    return sin_accurate(3.14159265 * r);
}

// ln |Gamma(2 + t)| for |t| <= 1/2.
fn lgamma_near_two(t: f32) -> f32 {
    return t * (0.422784328 + t * (0.322467029 + t * (-0.0673522949 + t * (0.0205816254 + t * (-0.00738592073 + t * (0.00287886872
        + t * (-0.00118748483 + t * (0.000570251257 + t * -0.000250562036))))))));
}

// For x > 0: near 2 by a polynomial, to which recurrences lead, from 8 on by Stirling's series.
fn lgamma_positive(x: f32) -> f32 {
    if (x >= 8.0) {
        let z = 1.0 / x;
        let tail = z * (0.083333333 + z * z * (-0.0027777778 + z * z * 7.9365079e-4));
        return (x - 0.5) * (log_accurate(x) - 1.0) + (0.41893853 + tail);
    }
    if (x < 0.5) { return (lgamma_near_two(x) - log1p_accurate(x)) - log_accurate(x); }
    if (x < 1.5) { return lgamma_near_two(x - 1.0) - log_accurate(x); }
    var y = x;
    var product = 1.0;
    for (var i = 0u; i < 7u; i++) {
        if (y < 2.5) { break; }
        y -= 1.0;
        product *= y;
    }
    return lgamma_near_two(y - 2.0) + log_accurate(product);
}

fn lgamma_accurate(x: f32) -> f32 {
    if (is_nan(x)) { return x; }
    if (is_inf(x) || (x <= 0.0 && floor(x) == x)) { return inf(); }
    if (x > 4.0e36) { return x * (log_accurate(x) - 1.0); }
    if (x > 0.0) { return lgamma_positive(x); }
    let a = -x;
    if (a < 1.0e-7) { return -log_accurate(a); }
    return 1.1447299 - log_accurate(abs(sin_pi(x))) - (log_accurate(a) + lgamma_positive(a));
}

// On [1, 2] a polynomial beside the root, to which the recurrence leads, from 8 on the asymptotic series.
fn digamma_accurate(x: f32) -> f32 {
    if (is_nan(x)) { return x; }
    if ((bitcast<u32>(x) & 0x7fffffffu) == 0u) { return with_sign(inf(), -x); }
    if (is_inf(x)) { return select(x, nan(), x < 0.0); }
    var y = x;
    var sum = 0.0;
    if (x < 0.0) {
        let r = x - round(x);
        if (r == 0.0 && x < -0.5) { return nan(); }
        sum = -3.14159265 * with_sign(sin_accurate(3.14159265 * (0.5 - abs(r))), r) / sin_accurate(3.14159265 * abs(r));
        y = 1.0 - x;
    }
    if (y >= 8.0) {
        let z = 1.0 / y;
        return sum + (log_accurate(y) - (0.5 * z + z * z * (0.083333333 - z * z * (0.0083333333 - z * z * 0.003968254))));
    }
    if (y < 1.0) {
        sum -= 1.0 / y;
        y += 1.0;
    }
    for (var i = 0u; i < 7u; i++) {
        if (y <= 2.0) { break; }
        y -= 1.0;
        sum += 1.0 / y;
    }
    let t = y - 1.5;
    let p = 0.951055884 + t * (-0.423627496 + t * (0.240542531 + t * (-0.148398861
        + t * (0.0949846879 + t * (-0.0620559789 + t * (0.0408500284 + t * (-0.0257868841 + t * (0.0171149895 + t * (-0.0163736194
        + t * 0.0109025883)))))))));
    return sum + ((y - 1.46163213) * p - 1.24381499e-8 * p);    // the root in two parts
}

// The sum of (q + k)^-s over k >= 0 for q > 0 and s > 1: eight terms and the Euler-Maclaurin formula.
fn zeta_positive(s: f32, q: f32) -> f32 {
    var sum = 0.0;
    var a = q;
    for (var k = 0u; k < 8u; k++) {
        sum += pow_torch(a, -s);
        a += 1.0;
    }
    let last = pow_torch(a, -s);
    let square = a * a;
    let tail = 0.083333333 - (s + 1.0) * (s + 2.0) / square * (0.0013888889 - (s + 3.0) * (s + 4.0) / square * 3.3068783e-5);
    return sum + last * (a / (s - 1.0) + 0.5 + s / a * tail);
}

// Below 0, for whole s: a sum over all integers less that from the other side.
fn zeta_accurate(s: f32, q: f32) -> f32 {
    if (is_nan(s) || is_nan(q) || (is_inf(q) && q < 0.0)) { return nan(); }
    if (q > 1.0e17) { return 0.0; }
    let f = q - floor(q);
    if (q <= 0.0 && f == 0.0) { return inf(); }
    if (q > 0.0) { return zeta_positive(s, q); }
    let other = zeta_positive(s, 1.0 - f) - zeta_positive(s, 1.0 - q);
    return zeta_positive(s, f) + select(other, -other, (u32(s) & 1u) == 1u);
}

// ---- The modified Bessel function of order 0 or 1, by its series, or from 8 on the asymptotic one.

fn bessel_i(x: f32, order: f32) -> f32 {
    if (is_nan(x) || is_inf(x)) { return nan(); }
    let a = abs(x);
    var term = select(1.0, 0.5 * a, a < 8.0 && order == 1.0);
    var sum = term;
    if (a < 8.0) {
        for (var k = 1.0; k < 20.0; k += 1.0) {
            term *= 0.25 * a * a / (k * (k + order));
            sum += term;
        }
    } else {
        for (var k = 1.0; k < 13.0; k += 1.0) {
            term *= ((2.0 * k - 1.0) * (2.0 * k - 1.0) - 4.0 * order) / (8.0 * a * k);
            sum += term;
        }
        let e = exp_accurate(0.5 * a);
        sum = (e * (sum / (2.50662827 * sqrt(a)))) * e;
    }
    return select(sum, -sum, order == 1.0 && x < 0.0);
}
