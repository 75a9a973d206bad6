// prelude/distance: pairs of rows, and what their elements differ by. No bindings, no entry point.

// The number of the pair i < j of n rows, where those of a row come one behind another.
fn pair_number(i: u32, j: u32, n: u32) -> u32 { return i * (2u * n - i - 1u) / 2u + j - i - 1u; }

// -1, 0, 1 or NaN.
fn sign_or_nan(d: f32) -> f32 { return select(select(select(0.0, 1.0, d > 0.0), -1.0, d < 0.0), d, is_nan(d)); }

// How many a difference counts by p = 0: 1, or 0 for none, NaN for NaN.
fn one_if_any(d: f32) -> f32 { return select(select(1.0, 0.0, d == 0.0), d, is_nan(d)); }

// 1 where the difference is the largest, whose size is given, else 0; NaN where both are infinite, as in PyTorch.
fn is_largest(d: f32, size: f32) -> f32 {
    if (is_nan(d) || is_nan(size) || (is_inf(d) && is_inf(size))) { return nan(); }
    return select(0.0, 1.0, abs(d) == size);
}
