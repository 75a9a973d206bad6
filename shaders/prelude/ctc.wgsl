// The class of a state of blank, label, blank, label, ..., blank.
fn ctc_state(label: i32, s: u32, classes: u32, blank: u32) -> u32 {
    return select(blank, u32(clamp(label, 0, i32(classes) - 1)), s % 2u == 1u);
}

// The logarithm of the sum of three exponentials, -inf of three -inf, NaN of NaN.
fn ctc_joined(a: f32, b: f32, c: f32) -> f32 {
    let most = max(max(a, b), c);
    let sum = split_power(exp_nonpositive(a - most) + exp_nonpositive(b - most) + exp_nonpositive(c - most));
    let found = most + (sum.y * LN2_HIGH + (log_near_one(sum.x - 1.0) + sum.y * LN2_LOW));
    if (is_nan(a) || is_nan(b) || is_nan(c) || most > 3.4e38) { return nan(); }
    return select(found, -inf(), most < -3.4e38);
}
