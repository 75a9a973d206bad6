// prelude/gamma: log-gamma, digamma, zeta and the incomplete gamma functions.
//
// No bindings, no entry point; NaN and infinity as in prelude/numbers. No loop is longer than 128 steps.

// ln |Gamma(2 + t)| for |t| <= 1/2.
fn lgamma_near_two(t: f32) -> f32 {
    return t * (0.422784328 + t * (0.322467029 + t * (-0.0673522949 + t * (0.0205816254 + t * (-0.00738592073 + t * (0.00287886872
        + t * (-0.00118748483 + t * (0.000570251257 + t * -0.000250562036))))))));
}

// For x > 0: near 2 by a polynomial, to which recurrences lead, from 8 on by Stirling's series. One logarithm serves all, of which the
// threads that run together then wait for one alone.
fn lgamma_positive(x: f32) -> f32 {
    var y = x;
    var product = 1.0;
    for (var i = 0u; i < 6u; i++) {
        let above = y >= 2.5 && x < 8.0;
        y -= select(0.0, 1.0, above);
        product *= select(1.0, y, above);
    }
    let low = x < 1.5;                              // from there on downwards, by what the recurrence divides by
    let t = select(y - 2.0, select(x - 1.0, x, x < 0.5), low);
    product = select(product, select(x, x * (1.0 + x), x < 0.5), low);
    let far = x >= 8.0;
    let l = log_accurate(select(product, x, far));
    let z = 1.0 / x;
    let tail = z * (0.083333333 + z * z * (-0.0027777778 + z * z * 7.9365079e-4));
    let series = (x - 0.5) * (l - 1.0) + (0.41893853 + tail);
    return select(lgamma_near_two(t) + select(l, -l, low), series, far);
}

fn lgamma_accurate(x: f32) -> f32 {
    if (is_nan(x)) { return x; }
    if (is_inf(x) || (x <= 0.0 && floor(x) == x)) { return inf(); }
    let a = abs(x);
    let positive = lgamma_positive(a);
    if (x > 0.0) { return positive; }
    if (a < 1.0e-7) { return -log_accurate(a); }
    let r = abs(x - round(x));                      // of |sin(pi x)|, less than half a turn
    let sine = select(sin_small(3.14159265 * r), cos_small(3.14159265 * (0.5 - r)), r > 0.25);
    return 1.1447299 - log_accurate(sine * a) - positive;
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
    if (last == 0.0) { return sum; }
    let square = a * a;
    let tail = 0.083333333 - (s + 1.0) * (s + 2.0) / square * (0.0013888889 - (s + 3.0) * (s + 4.0) / square * 3.3068783e-5);
    return sum + last * (a / (s - 1.0) + 0.5 + s / a * tail);
}

// Below 0, for whole s: a sum over all integers less that from the other side.
fn zeta_accurate(s: f32, q: f32) -> f32 {
    if (s == 1.0 && !is_nan(s)) { return inf(); }
    if (s < 1.0 && !is_nan(s)) { return nan(); }
    let f = q - floor(q);
    if (q <= 0.0 && !is_nan(q) && (f == 0.0 || is_inf(q))) { return inf(); }
    if (is_nan(s) || is_nan(q) || is_inf(q) || (is_inf(s) && q > 1.0) || (q < 0.0 && floor(s) != s)) { return nan(); }
    if (q > 1.0e17) { return 0.0; }
    if (q > 0.0) { return zeta_positive(s, q); }
    let other = zeta_positive(s, ceil(q) - q) - zeta_positive(s, 1.0 - q);      // 1 - f would have been rounded twice
    return zeta_positive(s, f) + select(other, -other, s < 16777216.0 && (u32(s) & 1u) == 1u);
}

// ---- The incomplete gamma functions: series, continued fraction, and Temme's expansion for large a near x.

// m - ln(x / a) with m = x / a - 1, exact near 0: with s = m / (2 + m), ln(1 + m) = 2 (s + s^3 / 3 + s^5 / 5 + ...).
fn log_gap(x: f32, a: f32) -> f32 {
    let m = (x - a) / a;
    if (abs(m) > 0.5) { return m - log_accurate(x / a); }
    let s = m / (2.0 + m);
    let z = s * s;
    let sum = 0.33333333 + z * (0.2 + z * (0.14285714 + z * (0.11111111 + z * (0.090909091 + z * 0.076923077))));
    return s * (m - 2.0 * z * sum);
}

// ln Gamma(1 + a) for a > -1/2.
fn lgamma_after(a: f32) -> f32 {
    return select(lgamma_positive(1.0 + a), lgamma_near_two(a) - log1p_accurate(a), a < 0.5);
}

// ln Gamma(1 + a) less its leading terms a ln(a) - a + ln(2 pi a) / 2, for a >= 1.
fn stirling(a: f32) -> f32 {
    let z = 1.0 / (a * a);
    return (0.083333333 - z * (2.7777778e-3 - z * (7.9365079e-4 - z * (5.9523810e-4 - z * 8.4175084e-4)))) / a;
}

// x^a e^-x / Gamma(a + 1).
fn gamma_weight(a: f32, x: f32) -> f32 {
    if (a < 3.0) { return exp_accurate(a * log_accurate(x) - x - lgamma_after(a)); }
    return exp_accurate(-a * log_gap(x, a) - stirling(a)) / (2.50662827 * sqrt(a));
}

fn gamma_series(a: f32, x: f32) -> f32 {
    var term = 1.0;
    var sum = 1.0;
    for (var k = 1.0; k < 128.0; k += 1.0) {
        term *= x / (a + k);
        sum += term;
        if (term < sum * 1.0e-8) { break; }
    }
    return gamma_weight(a, x) * sum;
}

// The upper function by Legendre's continued fraction, by Lentz's method.
fn gamma_fraction(a: f32, x: f32) -> f32 {
    let weight = a * gamma_weight(a, x);
    if (weight == 0.0) { return 0.0; }
    var b = x + 1.0 - a;
    var d = 1.0 / b;
    var c = 1.0e30;
    var h = d;
    for (var k = 1.0; k < 128.0; k += 1.0) {
        let n = k * (a - k);
        b += 2.0;
        d = 1.0 / (n * d + b);
        c = b + n / c;
        h *= c * d;
        if (abs(c * d - 1.0) < 1.0e-7) { break; }
    }
    return weight * h;
}

// The upper function for small a and x: 1 - x^a / Gamma(1 + a), and the rest of the series, without cancellation.
fn gamma_small(a: f32, x: f32) -> f32 {
    let power = a * log_accurate(x) - lgamma_after(a);
    var term = 1.0;
    var sum = 0.0;
    for (var k = 1.0; k < 16.0; k += 1.0) {
        term *= -x / k;
        sum += term / (a + k);
    }
    return -expm1_accurate(power) - a * exp_accurate(power) * sum;
}

// The lower (sign -1) or upper (1) function for large a near x. Source: Temme, SIAM J. Math. Anal. 10 (1979), p. 757.
fn gamma_uniform(a: f32, x: f32, sign: f32) -> f32 {
    let gap = log_gap(x, a);
    let eta = with_sign(sqrt(2.0 * gap), x - a);
    let c0 = -0.33333333 + eta * (0.083333333 + eta * (-0.014814815 + eta * (1.1574074e-3 + eta * (3.5273369e-4 + eta * (-1.7875514e-4
        + eta * 3.9192632e-5)))));
    let c1 = -1.8518519e-3 + eta * (-3.4722222e-3 + eta * (2.6455026e-3 + eta * -9.9022634e-4));
    let rest = sign * exp_accurate(-a * gap) / (2.50662827 * sqrt(a)) * (c0 + c1 / a);
    return 0.5 * erfc_accurate(sign * eta * sqrt(0.5 * a)) + rest;
}

// The lower (sign -1) or upper (1) function.
fn incomplete_gamma(a: f32, x: f32, sign: f32) -> f32 {
    let a_nan = is_nan(a);
    let x_nan = is_nan(x);
    if ((a < 0.0 && !a_nan) || (x < 0.0 && !x_nan)) { return nan(); }
    if (a == 0.0 && !a_nan && (x_nan || x == 0.0)) { return nan(); }
    let is_upper = sign > 0.0;
    if (a == 0.0 && !a_nan) { return select(1.0, 0.0, is_upper); }
    if (x == 0.0 && !x_nan) { return select(0.0, 1.0, is_upper); }
    if (is_inf(a) && is_inf(x)) { return nan(); }
    if (is_inf(a)) { return select(0.0, 1.0, is_upper); }
    if (is_inf(x)) { return select(1.0, 0.0, is_upper); }
    if (a_nan || x_nan) { return nan(); }
    if (a > 100.0 && abs(x - a) < 0.3 * a) { return gamma_uniform(a, x, sign); }
    if (x > 1.1 && x > a) {
        let upper = gamma_fraction(a, x);
        return select(1.0 - upper, upper, is_upper);
    }
    if (is_upper && x <= 1.1 && a < select(-0.4 / log_accurate(x), 1.1 * x, x > 0.5)) { return gamma_small(a, x); }
    let lower = gamma_series(a, x);
    return select(lower, 1.0 - lower, is_upper);
}
