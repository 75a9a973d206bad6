// prelude/counts: Poisson and binomial numbers. Each element draws from its own Philox stream, whose key are 24 bits each of two uniform
// numbers. No bindings, no entry point.

fn two_uniform(key: vec2<u32>, counter: u32) -> vec2<f32> {
    let words = philox(key, vec4<u32>(counter, 0u, 0u, 0u));
    return vec2<f32>(uniform_from_bits(words.x), uniform_from_bits(words.y));
}

// -ln of the chance that a Poisson number of this mean is k.
fn surprise(k: f32, mean: f32) -> f32 {
    if (k == 0.0) { return mean; }
    return k * log_gap(mean, k) + stirling(k) + 0.5 * log_accurate(6.2831853 * k);
}

// By inversion, for means below 10.
fn count_below_ten(n: f32, chance: f32, mean: f32, start: f32) -> f32 {
    let is_poisson = n < 0.0;
    let odds = chance / (1.0 - chance);
    var share = select(exp_accurate(n * log1p_accurate(-chance)), exp_accurate(-mean), is_poisson);
    var x = start;
    var k = 0.0;
    for (var i = 0u; i < 200u; i++) {
        if (x < share) { break; }
        x -= share;
        share *= select((n - k) / (k + 1.0) * odds, mean / (k + 1.0), is_poisson);
        k += 1.0;
    }
    return select(min(k, n), k, is_poisson);
}

// A binomial number of n trials, of chance p each; with n = -1 a Poisson number of mean p. From a mean of 10 on by transformed rejection,
// of which 64 attempts fail less than once in 10^50. Source: Hormann, J. Stat. Comput. Simul. 46 (1993), algorithm BTRS; Poisson is its
// limit.
fn count_of(trials: f32, p: f32, u: f32, v: f32) -> f32 {
    if (is_nan(trials) || is_nan(p) || p < 0.0) { return nan(); }
    let is_poisson = trials == -1.0;
    let n = floor(trials);
    let is_turned = !is_poisson && p > 0.5;
    let chance = select(select(p, 1.0 - p, is_turned), 0.0, is_poisson);
    let mean = select(n * chance, p, is_poisson);
    if (is_inf(mean)) { return mean; }
    let key = vec2<u32>(u32(u * 16777216.0), u32(v * 16777216.0));
    if (mean < 10.0) {
        let k = count_below_ten(n, chance, mean, two_uniform(key, 0u).x);
        return select(k, n - k, is_turned);
    }
    let spread = sqrt(mean * (1.0 - chance));
    let b = 1.15 + 2.53 * spread;
    let a = -0.0873 + 0.0248 * b + 0.01 * chance;
    let alpha = (2.83 + 5.1 / b) * spread;
    let m = floor(select((n + 1.0) * chance, mean, is_poisson));
    var result = m;
    for (var attempt = 1u; attempt <= 64u; attempt++) {
        let drawn = two_uniform(key, attempt);
        let x = drawn.x - 0.5;
        let s = 0.5 - abs(x);
        if (s <= 0.0) { continue; }
        let k = floor((2.0 * a / s + b) * x + mean + 0.5);
        if (s >= 0.07 && drawn.y <= 0.92 - 4.2 / b) { result = k; break; }
        if (k < 0.0 || (!is_poisson && k > n)) { continue; }
        var y = log_accurate(drawn.y * alpha / (a / (s * s) + b)) + surprise(k, mean) - surprise(m, mean);
        if (!is_poisson) { y += surprise(n - k, n - mean) - surprise(n - m, n - mean); }
        if (y <= 0.0) { result = k; break; }
    }
    return select(result, n - result, is_turned);
}

// Without trials or a chance 0, with certainty all of them, as PyTorch gives it beside NaN and infinity, too.
fn binomial_number(n: f32, p: f32, u: f32, v: f32) -> f32 {
    if ((!is_nan(n) && n <= 0.0) || (!is_nan(p) && p <= 0.0)) { return 0.0; }
    if (!is_nan(p) && p >= 1.0) { return n; }
    return count_of(n, p, u, v);
}
