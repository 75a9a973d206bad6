// prelude/inverse: inverse trigonometric and hyperbolic functions, the inverse of erf and what else the normal distribution has.
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

// erfc(x) e^(x^2), for negative x by its reflection; x is cut as in exp_minus_square.
fn erfcx_accurate(x: f32) -> f32 {
    let a = abs(x);
    let z = 0.5 / (a * a);
    let tail = select(erfc_factor(a), 0.564189584 / a * (1.0 - z * (1.0 - 3.0 * z * (1.0 - 5.0 * z))), a > 10.0);
    let high = bitcast<f32>(bitcast<u32>(a) & 0xfffff000u);
    let square = 2.0 * exp_accurate(high * high) * (1.0 + expm1_accurate(min((a - high) * (a + high), 1.0)));
    return select(select(tail, select(square - tail, inf(), a > 10.0), x < 0.0), x, is_nan(x));
}

fn log_ndtr_accurate(x: f32) -> f32 {
    let t = x * -0.707106781;
    if (x < -1.0) { return log_accurate(0.5 * erfcx_accurate(t)) - 0.5 * x * x; }
    return select(log1p_accurate(-0.5 * erfc_accurate(-t)), x, is_nan(x));
}

fn log_ndtr_slope(x: f32) -> f32 { // the density over ndtr(x)
    let right = 0.398942280 * exp_accurate(x * x * -0.5) / normal_cdf(x);
    let slope = select(right, 0.797884561 / erfcx_accurate(x * -0.707106781), x < 0.0);
    return select(slope, nan(), is_nan(x) || (is_inf(x) && is_negative(x)));
}

// By erfinv; in the tails Newton's steps for the logarithm, from sqrt(-2 log p), which is too far out.
fn ndtri_accurate(p: f32) -> f32 {
    if (!(p > 0.0 && p < 1.0)) { return select(nan(), select(inf(), -inf(), p == 0.0), p == 0.0 || p == 1.0); }
    let q = select(1.0 - p, p, p < 0.5);
    if (q > 0.1) { return 1.41421356 * erfinv_accurate(2.0 * p - 1.0); }
    let goal = log_accurate(q);
    var x = -sqrt(-2.0 * goal);
    for (var i = 0u; i < 5u; i++) {
        x -= (log_ndtr_accurate(x) - goal) * 1.25331414 * erfcx_accurate(x * -0.707106781);
    }
    return select(-x, x, p < 0.5);
}

fn entr_accurate(x: f32) -> f32 {
    return select(select(select(0.0, -inf(), x < 0.0), -x * log_accurate(x), x > 0.0), x, is_nan(x));
}

// sin(a) / a of a = pi * x, which is rounded first, as PyTorch does.
fn sinc_accurate(x: f32) -> f32 {
    let a = rounded_first(x * 3.14159265, x);
    return select(sin_accurate(a) / a, 1.0, !is_nan(a) && a == 0.0);
}

// Its derivative by x; near 0, where that is a difference of nearly equal numbers, its series, and where z underflows 0, as in PyTorch.
fn sinc_slope(x: f32) -> f32 {
    let a = rounded_first(x * 3.14159265, x);
    let z = a * a;
    if (z == 0.0) { return 0.0; }
    if (z < 0.25) {
        return 3.14159265 * a * (z * (0.0333333333 - z * (0.00119047619 - z * (2.20458554e-5 - z * 2.50521084e-7))) - 0.333333333);
    }
    return (cos_accurate(a) - sin_accurate(a) / a) / x;
}
