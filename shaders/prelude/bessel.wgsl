// prelude/bessel: Bessel and Airy functions.
//
// No bindings, no entry point; NaN and infinity as in prelude/numbers. The integrands of K and Ai decay twice exponentially, or as a
// Gaussian, so that the trapezoidal rule with a few points is right to the last places.

// The modified function I of order 0 or 1, times e^-|x| if scaled, by its series, or from 8 on the asymptotic one.
fn bessel_i(x: f32, order: f32, scaled: bool) -> f32 {
    if (is_nan(x)) { return x; }
    if (is_inf(x)) { return select(nan(), select(0.0, with_sign(0.0, x), order == 1.0), scaled); }
    let a = abs(x);
    var term = select(1.0, 0.5 * a, a < 8.0 && order == 1.0);
    var sum = term;
    if (a < 8.0) {
        for (var k = 1.0; k < 20.0; k += 1.0) {
            term *= 0.25 * a * a / (k * (k + order));
            sum += term;
        }
        sum *= select(1.0, exp_nonpositive(-a), scaled);
    } else {
        for (var k = 1.0; k < 13.0; k += 1.0) {
            term *= ((2.0 * k - 1.0) * (2.0 * k - 1.0) - 4.0 * order) / (8.0 * a * k);
            sum += term;
        }
        let e = select(exp_accurate(0.5 * a), 1.0, scaled);
        sum = (e * (sum / (2.50662827 * sqrt(a)))) * e;
    }
    return select(sum, -sum, order == 1.0 && x < 0.0);
}

// The modified function K of order 0 or 1, times e^x if scaled: its series below 2, else the integral of
// e^(x - x cosh(t)) cosh(order t) over t > 0.
fn bessel_k(x: f32, order: f32, scaled: bool) -> f32 {
    if (is_nan(x) || x < 0.0) { return nan(); }
    if (x < 1.17549435e-38) { return inf(); }
    if (is_inf(x)) { return 0.0; }
    var sum = 0.0;
    if (x < 2.0) {
        let l = log_accurate(0.5 * x);
        let first = order == 0.0;
        var term = select(0.5 * x, 1.0, first);
        var psi = -0.577215665;
        for (var k = 1.0; k < 12.0; k += 1.0) {
            sum += term * select(l - psi - 0.5 / k, psi - l, first);
            term *= 0.25 * x * x / (k * (k + order));
            psi += 1.0 / k;
        }
        return (sum + select(1.0 / x, 0.0, first)) * select(1.0, exp_accurate(x), scaled);
    }
    let h = min(0.5, 1.0 / sqrt(x));
    for (var k = 0.0; k < 8.0; k += 1.0) {
        let s = sinh_accurate(0.5 * h * k);
        sum += select(h, 0.5 * h, k == 0.0) * exp_nonpositive(-(x * s) * (s + s)) * (1.0 + order * 2.0 * s * s);
    }
    return sum * select(exp_accurate(-x), 1.0, scaled);
}

// cos and sin of x - (pi / 4 + order pi / 2) times sqrt(2): the argument is reduced before the turn.
fn bessel_wave(x: f32, order: f32) -> vec2<f32> {
    let s = sin_accurate(x);
    let c = cos_accurate(x);
    return select(vec2<f32>(s - c, -s - c), vec2<f32>(c + s, s - c), order == 0.0);
}

// (J, Y) of order 0 or 1 for x >= 8, by Hankel's asymptotic series.
fn bessel_far(x: f32, order: f32) -> vec2<f32> {
    var term = 1.0;
    var p = 1.0;
    var q = 0.0;
    for (var k = 1.0; k < 12.0; k += 2.0) {
        let odd = 2.0 * k - 1.0;
        term *= (4.0 * order - odd * odd) / (8.0 * x * k);
        q += term;
        term *= -(4.0 * order - (odd + 2.0) * (odd + 2.0)) / (8.0 * x * (k + 1.0));
        p += term;
    }
    let w = bessel_wave(x, order);
    return vec2<f32>(p * w.x - q * w.y, p * w.y + q * w.x) * (0.564189584 / sqrt(x));
}

// J0 and J1(x) / x for |x| <= 8, fitted in t = x^2 / 32 - 1 to 3e-9.
fn bessel_j0_near(t: f32) -> f32 {
    return 0.0458296649 + t * (0.930301218 + t * (-0.648469281 + t * (-0.808088219 + t * (1.03837943 + t * (-0.50747134
        + t * (0.145989042 + t * (-0.0284651943 + t * (0.00405763805 + t * (-0.000451057911 + t * 3.89136123e-5)))))))));
}

fn bessel_j1_near(t: f32) -> f32 {
    return -0.058143828 + t * (0.0810586591 + t * (0.151516652 + t * (-0.259594839 + t * (0.158583763 + t * (-0.0547459631
        + t * (0.0124568222 + t * (-0.00202870852 + t * (0.000249476821 + t * (-2.43762625e-5 + t * 1.88619449e-6)))))))));
}

fn bessel_j(x: f32, order: f32) -> f32 {
    if (!is_finite(x)) { return nan(); }
    let a = abs(x);
    let t = a * a / 32.0 - 1.0;
    var y = 0.0;
    if (a > 8.0) { y = bessel_far(a, order).x; } else if (order == 0.0) { y = bessel_j0_near(t); } else { y = a * bessel_j1_near(t); }
    return select(y, -y, order == 1.0 && is_negative(x));
}

// Beside the terms with a logarithm and a pole, polynomials as for J, fitted to 2e-8.
fn bessel_y(x: f32, order: f32) -> f32 {
    if (!is_finite(x) || x < 0.0) { return nan(); }
    if (x == 0.0) { return -inf(); }
    if (x > 8.0) { return bessel_far(x, order).y; }
    let t = x * x / 32.0 - 1.0;
    let l = 0.636619772 * log_accurate(x);
    if (order == 0.0) {
        let rest = -0.382250654 + t * (-0.828435833 + t * (1.64709648 + t * (0.144125171 + t * (-1.07754766 + t * (0.672183531
            + t * (-0.21895786 + t * (0.0463523095 + t * (-0.00702485142 + t * (0.000820871299 + t * -7.36839461e-5)))))))));
        return l * bessel_j0_near(t) + rest;
    }
    let rest = 0.0707598588 + t * (-0.243377428 + t * (0.0233675716 + t * (0.235072041 + t * (-0.196398396 + t * (0.0785481575
        + t * (-0.0196287727 + t * (0.00342183217 + t * (-0.000443781013 + t * (4.53319409e-5 + t * -3.63729147e-6)))))))));
    return x * (l * bessel_j1_near(t) + rest) - 0.636619772 / x;
}

// Ai: its series near 0, else an integral over t > 0: of cos(t^3 / 3) e^(-sqrt(x) t^2), with sqrt(x) turned by 30 degrees for x < 0,
// where the phase is lost below -1e10. Source: Gil, Segura and Temme, ACM TOMS 28 (2002), p. 325.
fn airy_ai_accurate(x: f32) -> f32 {
    if (!is_finite(x) || x < -1.0e10) { return nan(); }
    let a = abs(x);
    var sum = 0.0;
    if (a < 1.0) {
        var f = 0.355028054;
        var g = -0.258819404 * x;
        let cube = x * x * x;
        for (var k = 1.0; k < 16.0; k += 3.0) {
            sum += f + g;
            f *= cube / ((k + 1.0) * (k + 2.0));
            g *= cube / ((k + 2.0) * (k + 3.0));
        }
        return sum;
    }
    let root = sqrt(a);
    let zeta = a * root / 1.5;
    let phase = airy_phase(a, root);
    let h = 0.25 / sqrt(root);
    for (var k = 0.0; k < 22.0; k += 1.0) {
        let t = h * k;
        let s = root * t * t;
        let weight = select(h, 0.5 * h, k == 0.0) * cos_accurate(t * t * t / 3.0);
        if (x > 0.0) { sum += weight * exp_nonpositive(-s); } else {
            let turn = 0.5 * s - 1.04719755;
            sum += 2.0 * weight * exp_nonpositive(-0.866025404 * s) * (phase.x * cos_accurate(turn) - phase.y * sin_accurate(turn));
        }
    }
    return sum * 0.318309886 * select(1.0, exp_accurate(-zeta), x > 0.0);
}

// Cosine and sine of a * root / 1.5, the root of a being known to 36 bits: products of halves of 12 bits are exact.
fn airy_phase(a: f32, root: f32) -> vec2<f32> {
    let a1 = upper_half(a);
    let r1 = upper_half(root);
    let r2 = (a - r1 * r1) / (root + r1);
    let product = a1 * r1;
    let first = upper_half(product / 1.5);
    let rest = ((product - first * 1.5) + ((a - a1) * r1 + a * r2)) / 1.5;
    let c = vec2<f32>(cos_accurate(first), sin_accurate(first));
    let d = vec2<f32>(cos_accurate(rest), sin_accurate(rest));
    return vec2<f32>(c.x * d.x - c.y * d.y, c.x * d.y + c.y * d.x);
}

fn upper_half(x: f32) -> f32 { return bitcast<f32>(bitcast<u32>(x) & 0xfffff000u); }

fn spherical_bessel(x: f32) -> f32 {
    if (is_inf(x)) { return 0.0; }
    return select(sin_accurate(x) / x, 1.0, !is_nan(x) && x == 0.0);
}
