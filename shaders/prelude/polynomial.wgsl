// prelude/polynomial: orthogonal polynomials by the three-term recurrences that all of them have. No bindings, no entry point.

const CHEBYSHEV: u32 = 0u;
const HERMITE_H: u32 = 1u;
const HERMITE_HE: u32 = 2u;
const LAGUERRE: u32 = 3u;
const LEGENDRE: u32 = 4u;

// The polynomial of degree trunc(n), 0 for one that is negative, NaN or beyond int64, NaN for one beyond 10^5 (Hermite: 512): from 1 and
// `first` on by P[k + 1] = (slope P[k] - weight P[k - 1]) / scale.
fn polynomial(kind: u32, x: f32, n: f32, first: f32) -> f32 {
    if (is_nan(n) || abs(n) >= 9.223372e18 || n <= -1.0) { return 0.0; }
    if (n < 1.0) { return 1.0; }
    if (n >= select(100001.0, 513.0, kind == HERMITE_H || kind == HERMITE_HE)) { return nan(); }
    var p = 1.0;
    var q = first;
    let degree = u32(n);
    for (var i = 1u; i < degree; i++) {
        let k = f32(i);
        var next = 2.0 * x * q - p;
        if (kind == HERMITE_H) { next = 2.0 * (x * q - k * p); }
        if (kind == HERMITE_HE) { next = x * q - k * p; }
        if (kind == LAGUERRE) { next = ((2.0 * k + 1.0 - x) * q - k * p) / (k + 1.0); }
        if (kind == LEGENDRE) { next = ((2.0 * k + 1.0) * x * q - k * p) / (k + 1.0); }
        p = q;
        q = next;
        if (is_nan(q)) { break; }
    }
    return q;
}
