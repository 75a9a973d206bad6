// prelude/special: exponentials, logarithms, angles, erf, powers, and the slopes of activations.
//
// No bindings, no entry point; NaN and infinity as in prelude/numbers.

// ---- Functions with at most a few ulp of error. Drivers' exp and log are 28 and 78 ulp off, tanh is wrong near 0.

const LN2_HIGH: f32 = 0.693359375; // few bits, so that a multiple up to 2^11 is exact
const LN2_LOW: f32 = -2.12194440e-4;
const LN2: f32 = 0.69314718;
const LOG2_E: f32 = 1.44269504;

// p * 2^k for |k| <= 252, in two steps, as 2^k itself may overflow.
fn scale_by_power(p: f32, k: i32) -> f32 {
    let half = k / 2;
    return p * bitcast<f32>(u32(half + 127) << 23u) * bitcast<f32>(u32(k - half + 127) << 23u);
}

// (e^r - 1) / r for |r| <= 0.36.
fn exp_tail(r: f32) -> f32 {
    return 1.0 + r * (0.5 + r * (0.16666667 + r * (0.041666667 + r * (8.3333333e-3 + r * (1.3888889e-3 + r * 1.9841270e-4)))));
}

fn exp_accurate(x: f32) -> f32 {
    let bounded = clamp(x, -104.0, 89.0);
    let k = round(bounded * LOG2_E);
    let r = (bounded - k * LN2_HIGH) - k * LN2_LOW;
    let y = scale_by_power(1.0 + r * exp_tail(r), i32(k));
    return select(select(select(y, 0.0, x < -104.0), inf(), x > 88.72284), x, is_nan(x));
}

// e^x for x <= 0, 0 where it would be denormal; NaN gives any number.
fn exp_nonpositive(x: f32) -> f32 {
    let bounded = max(x, -88.0);            // k is -127 there, and the power of two 0
    let k = round(bounded * LOG2_E);
    let r = (bounded - k * LN2_HIGH) - k * LN2_LOW;
    return (1.0 + r * exp_tail(r)) * bitcast<f32>(u32(i32(k) + 127) << 23u);
}

fn exp2_accurate(x: f32) -> f32 {
    let bounded = clamp(x, -151.0, 129.0);
    let k = round(bounded);
    let r = (bounded - k) * LN2;
    let y = scale_by_power(1.0 + r * exp_tail(r), i32(k));
    return select(select(select(y, 0.0, x < -151.0), inf(), x >= 128.0), x, is_nan(x));
}

fn expm1_accurate(x: f32) -> f32 {
    return select(exp_accurate(x) - 1.0, x * exp_tail(x), abs(x) < 0.35);
}

// |x| = m * 2^e with m in [0.70, 1.42), for x finite and not 0: (m, e). Integer steps keep denormals, which arithmetic,
// abs() included, may flush.
fn split_power(x: f32) -> vec2<f32> {
    var bits = bitcast<u32>(x) & 0x7fffffffu;
    var e = -127;
    if (bits < 0x00800000u) {
        bits = bitcast<u32>(f32(bits));
        e = -127 - 149;
    }
    let up = select(0u, 1u, (bits & 0x7fffffu) > 0x3504f3u);
    e += i32(bits >> 23u) + i32(up);
    return vec2<f32>(bitcast<f32>((bits & 0x7fffffu) | ((127u - up) << 23u)), f32(e));
}

// ln(1 + f) for f in [-0.30, 0.42], as 2 atanh(f / (f + 2)).
fn log_near_one(f: f32) -> f32 {
    let s = f / (2.0 + f);
    let z = s * s;
    let tail = z * (0.66666667 + z * (0.4 + z * (0.28571429 + z * 0.22222222)));
    return f - s * (f - tail);
}

// What ln, log2 and log10 give where x is no positive finite number; `y` elsewhere.
fn log_special(x: f32, y: f32) -> f32 {
    let bits = bitcast<u32>(x);
    if ((bits & 0x7fffffffu) == 0u) { return -inf(); }
    if (bits > 0x80000000u && !is_nan(x)) { return nan(); }
    return select(y, x, bits >= 0x7f800000u);
}

fn log_accurate(x: f32) -> f32 {
    let p = split_power(x);
    return log_special(x, p.y * LN2_HIGH + (log_near_one(p.x - 1.0) + p.y * LN2_LOW));
}

fn log2_accurate(x: f32) -> f32 {
    let p = split_power(x);
    return log_special(x, p.y + log_near_one(p.x - 1.0) * LOG2_E);
}

fn log1p_accurate(x: f32) -> f32 {
    return select(log_accurate(1.0 + x), log_near_one(x), x > -0.29 && x < 0.41);
}

// e / (e + 2) with e = e^(2|x|) - 1; beyond 10 the result is 1.
fn tanh_accurate(x: f32) -> f32 {
    let twice = 2.0 * min(abs(x), 10.0);
    let k = round(twice * LOG2_E);
    let r = (twice - k * LN2_HIGH) - k * LN2_LOW;
    let power = bitcast<f32>(u32(i32(k) + 127) << 23u);
    let e = power * (r * exp_tail(r)) + (power - 1.0);
    let y = e / (e + 2.0);
    return select(bitcast<f32>(bitcast<u32>(y) | (bitcast<u32>(x) & 0x80000000u)), x, is_nan(x));
}

fn sigmoid_accurate(x: f32) -> f32 {
    let e = exp_nonpositive(-abs(x));
    return select(select(e, 1.0, x >= 0.0) / (1.0 + e), x, is_nan(x));
}

// e^(-x^2) for |x| <= 14: x is cut to 12 bits, whose square is exact, as the rounding of x * x would cost 81 times as much.
fn exp_minus_square(x: f32) -> f32 {
    let high = bitcast<f32>(bitcast<u32>(x) & 0xfffff000u);
    let rest = (high - x) * (high + x);     // at most x^2 / 1024
    return exp_nonpositive(-high * high) * (1.0 + rest * (1.0 + rest * (0.5 + rest * (0.16666667 + rest * 0.041666667))));
}

// (1 - erf(x)) / e^(-x^2) for x >= 0: t P(t) with t = 1 / (1 + x / 2), P fitted on [0, 10.2] to 4.3e-8.
fn erfc_factor(x: f32) -> f32 {
    let t = 1.0 / (1.0 + 0.5 * x);
    return t * (0.28208604 + t * (0.28238195 + t * (0.24305561 + t * (0.20287675 + t * (-0.027073052 + t * (0.27871478
        + t * (-0.4877645 + t * (0.2848470 + t * -0.059124596))))))));
}

// 1 - erf(x) for x >= 0; 0 from where e^(-x^2) is.
fn erfc_tail(x: f32) -> f32 {
    return exp_minus_square(min(x, 14.0)) * erfc_factor(x);
}

// erf(x) / x for |x| <= 1, by its series.
fn erf_series(z: f32) -> f32 {
    return 1.12837917 + z * (-0.376126389 + z * (0.112837917 + z * (-0.0268661706 + z * (5.22397763e-3 + z * (-8.54832702e-4
        + z * (1.20553330e-4 + z * (-1.49256504e-5 + z * (1.64621144e-6 + z * -1.63658447e-7))))))));
}

fn erf_accurate(x: f32) -> f32 {
    let a = abs(x);
    let large = 1.0 - erfc_tail(a);
    return select(select(select(large, -large, x < 0.0), x * erf_series(x * x), a < 1.0), x, is_nan(x));
}

// The standard normal distribution function, and e^(-x^2 / 2), which its derivative is a multiple of. NaN gives any numbers.
fn normal(x: f32) -> vec2<f32> {
    let a = min(abs(x) * 0.70710678, 14.0);
    let e = exp_minus_square(a);
    let tail = 0.5 * e * erfc_factor(a);
    return vec2<f32>(select(1.0 - tail, tail, x < 0.0), e);
}

// The factor of gelu(x) = x * normal_cdf(x).
fn normal_cdf(x: f32) -> f32 { return normal(x).x; }

// Word i of the fraction bits of 2/pi; word -1 is the zero before them.
fn two_over_pi(i: u32) -> u32 {
    switch i {
        case 0u: { return 0xa2f9836eu; }
        case 1u: { return 0x4e441529u; }
        case 2u: { return 0xfc2757d1u; }
        case 3u: { return 0xf534ddc0u; }
        case 4u: { return 0xdb629599u; }
        case 5u: { return 0x3c439041u; }
        case 6u: { return 0xfe5163abu; }
        default: { return 0u; }
    }
}

// reduce_angle for |x| >= 2^16: x = m * 2^e, and m times the 96 bits of 2^e * 2/pi from weight 2 down, modulo 4, in integers.
// Source: Payne and Hanek, "Radian reduction for trigonometric functions", 1983.
fn reduce_large_angle(x: f32) -> vec2<f32> {
    let bits = bitcast<u32>(x);
    let m = (bits & 0x7fffffu) | 0x800000u;
    let first = ((bits >> 23u) & 0xffu) - 120u; // e + 30: the first bit, counted from 32 zeros before the table
    let word = first >> 5u;
    let shift = first & 31u;
    let w0 = two_over_pi(word - 1u);
    let w1 = two_over_pi(word);
    let w2 = two_over_pi(word + 1u);
    let w3 = two_over_pi(word + 2u);
    let up = 32u - shift;
    let y0 = select((w0 << shift) | (w1 >> up), w0, shift == 0u);
    let y1 = select((w1 << shift) | (w2 >> up), w1, shift == 0u);
    let y2 = select((w2 << shift) | (w3 >> up), w2, shift == 0u);
    let middle = multiply_wide(m, y1);
    let low = multiply_wide(m, y2).y;
    let p1 = middle.x + low;
    let p0 = m * y0 + middle.y + select(0u, 1u, p1 < low);
    let fraction = vec2<u32>((p0 << 2u) | (p1 >> 30u), p1 << 2u); // of a quarter turn, in 64 bits
    let over = fraction.x >= 0x80000000u;
    let high = select(fraction.x, ~fraction.x, over);
    let rest = select(fraction.y, ~fraction.y, over);
    let size = (f32(high) + f32(rest) * 2.3283064e-10) * 3.6572952e-10; // pi/2 * 2^-32
    let quadrant = ((p0 >> 30u) + select(0u, 1u, over)) & 3u;
    let r = select(size, -size, over);
    return select(vec2<f32>(r, f32(quadrant)), vec2<f32>(-r, f32((4u - quadrant) & 3u)), x < 0.0);
}

// x less the nearest multiple of pi/2, and that multiple mod 4: (r, quadrant).
fn reduce_angle(x: f32) -> vec2<f32> {
    if (abs(x) >= 65536.0) { return reduce_large_angle(x); }
    let k = round(x * 0.63661977);
    // pi/2 in pieces of 8 bits: k times a piece is exact up to 2^16, fused or not.
    let r = (((x - k * 1.5703125) - k * 0.0004825592041015625) - k * 1.2665987014770508e-06) - k * 9.9209358e-10;
    return vec2<f32>(r, k - 4.0 * floor(k * 0.25));
}

fn sin_small(r: f32) -> f32 {
    let z = r * r;
    return r + r * z * (-0.16666667 + z * (8.3333333e-3 + z * (-1.9841270e-4 + z * 2.7557319e-6)));
}

fn cos_small(r: f32) -> f32 {
    let z = r * r;
    return 1.0 + z * (-0.5 + z * (0.041666667 + z * (-1.3888889e-3 + z * (2.4801587e-5 - z * 2.7557319e-7))));
}

// sin(x + turns * pi / 2).
fn sin_turned(x: f32, turns: f32) -> f32 {
    let p = reduce_angle(x);
    let quadrant = u32(p.y + turns) & 3u;
    let y = select(sin_small(p.x), cos_small(p.x), (quadrant & 1u) == 1u);
    let reduced = select(y, -y, quadrant > 1u);
    return select(reduced, nan(), !is_finite(x));
}

fn sin_accurate(x: f32) -> f32 {
    return sin_turned(x, 0.0);
}

fn cos_accurate(x: f32) -> f32 {
    return sin_turned(x, 1.0);
}

// x to the n-th for 0 <= n <= 64, by squaring.
fn power_by_squaring(x: f32, n: u32) -> f32 {
    var left = n;
    var square = x;
    var result = 1.0;
    for (var i = 0u; i < 7u; i++) {
        if ((left & 1u) == 1u) { result *= square; }
        square *= square;
        left >>= 1u;
    }
    return result;
}

// torch.pow: 1 for y = 0 and for x = 1, NaN for a negative base with a fractional exponent, C's pow for zeros and infinities.
fn pow_torch(x: f32, y: f32) -> f32 {
    if (y == 3.0) { return x * x * x; }         // the commonest exponent that is no op of its own
    if (y == 0.0 || x == 1.0) { return 1.0; }
    if (is_nan(x) || is_nan(y)) { return nan(); }
    let a = abs(x);
    if (abs(y) > 1.0e10) {          // saturates; infinite or an even integer
        if (a == 1.0) { return 1.0; }
        return select(0.0, inf(), (a > 1.0) == (y > 0.0));
    }
    let whole = floor(y) == y;
    let odd = whole && abs(y) < 16777216.0 && (u32(abs(y)) & 1u) == 1u;
    let negative = is_negative(x) && odd;
    if ((bitcast<u32>(x) & 0x7fffffffu) == 0u || is_inf(x)) {
        let y_up = (a > 1.0) == (y > 0.0); // towards infinity rather than 0
        let size = select(0.0, inf(), y_up);
        return select(size, -size, negative);
    }
    if (x < 0.0 && !whole) { return nan(); }
    var size: f32;
    if (whole && abs(y) <= 64.0) {
        size = power_by_squaring(a, u32(abs(y)));
        if (y < 0.0) {
            // A power that overflowed or is denormal has no usable reciprocal.
            size = select(1.0 / size, exp2_accurate(y * log2_accurate(a)), size > 1.0e38 || size < 1.2e-38);
        }
    } else {
        // The exponent in two parts: its whole part, exact, scales; the rest keeps its low bits.
        let p = split_power(x);
        let l = log_near_one(p.x - 1.0) * LOG2_E;
        let high = bitcast<f32>(bitcast<u32>(l) & 0xfffff000u);
        let y_high = bitcast<f32>(bitcast<u32>(y) & 0xfffff000u);
        let main = y_high * p.y;
        let main_whole = round(main);
        let rest = (main - main_whole) + (y - y_high) * p.y + (y_high * high + ((y - y_high) * high + y * (l - high)));
        size = power_parts(main_whole, rest);
    }
    return select(size, -size, negative);
}

// 2^(whole + rest).
fn power_parts(whole: f32, rest: f32) -> f32 {
    let k = round(rest);
    let total = clamp(whole + k, -1000.0, 1000.0);
    if (total > 129.0) { return inf(); }
    if (total < -152.0) { return 0.0; }
    let r = (rest - k) * LN2;
    return scale_by_power(1.0 + r * exp_tail(r), i32(total));
}

fn sqrt_nan(x: f32) -> f32 {
    return select(sqrt(x), nan(), x < 0.0 || is_nan(x));
}

// ---- Slopes of activations.

fn gelu_slope(x: f32) -> f32 {
    let n = normal(x);
    return n.x + x * (0.39894228 * n.y);
}

// 0.5 (1 + tanh(u)) is sigmoid(2 u).
fn gelu_tanh_factor(x: f32) -> f32 {
    return sigmoid_accurate(1.5957691 * (x + 0.044715 * x * x * x));
}

fn gelu_tanh_slope(x: f32) -> f32 {
    let s = gelu_tanh_factor(x);
    return s + x * (s * (1.0 - s) * (1.5957691 * (1.0 + 0.134145 * x * x)));
}

fn silu_slope(x: f32) -> f32 {
    let s = sigmoid_accurate(x);
    return s * (1.0 + x * (1.0 - s));
}

// log(1 + e^-d) for d >= 0.
fn log1p_exp(d: f32) -> f32 { return log1p_accurate(exp_nonpositive(-d)); }

// log(1 + e^x).
fn softplus_accurate(x: f32) -> f32 {
    return select(select(x, 0.0, is_negative(x)) + log1p_exp(abs(x)), x, is_nan(x));
}

// log(e^x + e^y).
fn logaddexp_accurate(x: f32, y: f32) -> f32 {
    let m = max_nan(x, y);
    return select(m + log1p_exp(abs(x - y)), m, !is_finite(m));
}

fn logaddexp2_accurate(x: f32, y: f32) -> f32 {
    let m = max_nan(x, y);
    let more = select(LOG2_E * log1p_exp(LN2 * abs(x - y)), 1.0, x == y);
    return select(m + more, m, !is_finite(m));
}

// Whether x > 0 by bits: false for NaN.
fn is_positive(x: f32) -> bool {
    return bitcast<u32>(x) - 1u < 0x7f800000u;
}

// Whether x > limit: false for NaN.
fn exceeds(x: f32, limit: f32) -> bool {
    return !is_nan(x) && x > limit;
}

fn hardswish_slope(x: f32) -> f32 {
    return select(select(x / 3.0 + 0.5, 0.0, x <= -3.0), 1.0, is_nan(x) || x >= 3.0);
}

// tanh(log(1 + e^x)) = n / (n + 2) with n = e^x (e^x + 2), and the slope of x times it.
fn mish_parts(x: f32) -> vec2<f32> {
    let e = exp_accurate(min(x, 40.0));
    let n = e * (e + 2.0);
    let t = n / (n + 2.0);
    let steep = select(e / (1.0 + e) * (2.0 / (n + 2.0)) * (1.0 + t), 0.0, x > 40.0);
    return select(vec2<f32>(t, t + x * steep), vec2<f32>(nan()), vec2<bool>(is_nan(x)));
}

// The loss of a logit on the side that it is far from, log(1 + exp(-|x|)); NaN of -inf and a target
// of at most 1, where PyTorch's formula is inf - inf.
fn far_side_loss(x: f32, y: f32) -> f32 {
    return log1p_accurate(exp_accurate(-abs(x))) + select(0.0, nan(), x < 0.0 && is_inf(x) && y <= 1.0);
}
