// prelude/numbers: grid, products, NaN and infinity, integer and exact division, wide products, orders.
//
// No bindings, no entry point. Names here must not be declared again by a file, which gets the declarations that it uses.
// WGSL lets compilers assume that NaN and infinity do not occur: `a != b` is false for NaN, max, min, clamp and sign
// drop NaN, `v - v` folds to 0, and constants may not be NaN or infinite. Whatever must be right tests bits.

// ---- Grid. The runtime folds a grid of more than 65,535 workgroups along x into y; this undoes it. Guard the result:
// ---- a folded grid may have more workgroups than were asked for.

fn group_index(group: vec3<u32>, groups: vec3<u32>) -> u32 {
    return group.y * groups.x + group.x;
}

// What an entry point takes for it. Apart from the thread's own number, so that compilers see the same value in all of a workgroup.
struct Grid { @builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32> }

fn group_of(grid: Grid) -> u32 { return group_index(grid.group, grid.groups); }

// ---- Products.

// sum + a * b, for every other n from the last element to the first: then one factor of two products in turn is the same, which is not
// read from the registers again (some processors seem to read two numbers of the three in the time of a product).
fn add_product(n: u32, a: vec4<f32>, b: vec4<f32>, sum: vec4<f32>) -> vec4<f32> {
    if (n % 2u == 1u) { return fma(a.wzyx, b.wzyx, sum.wzyx).wzyx; }
    return fma(a, b, sum);
}

// ---- Products that lose nothing: of numbers x[0] + x[1], where [1] is what was rounded off (a product of thousands of numbers near 1 has
// ---- else an error of a thousandth). A file that uses them declares FUSED, whether fma rounds once. `zero` is 0 that no compiler knows,
// ---- so that products are rounded before what they lost is asked for.

fn rounded_product(x: vec4<f32>, y: vec4<f32>, zero: u32) -> vec4<f32> {
    return bitcast<vec4<f32>>(bitcast<vec4<u32>>(x * y) | vec4<u32>(zero));
}

// x * y - product. Without fma by parts of 12 bits, whose products are exact; near the ends of the range it is 0 then.
fn rest_of(x: vec4<f32>, y: vec4<f32>, product: vec4<f32>) -> vec4<f32> {
    if (FUSED) { return fma(x, y, -product); }
    let a = bitcast<vec4<f32>>(bitcast<vec4<u32>>(x) & vec4<u32>(0xfffff000u));
    let b = bitcast<vec4<f32>>(bitcast<vec4<u32>>(y) & vec4<u32>(0xfffff000u));
    let c = x - a;
    let d = y - b;
    let rest = (((a * b - product) + a * d) + c * b) + c * d;
    let known = (bitcast<vec4<u32>>(product) & vec4<u32>(0x7fffffffu)) - vec4<u32>(0x0d800000u) < vec4<u32>(0x72000000u);
    return select(vec4<f32>(), rest, known);
}

fn exact_products(x: mat2x4<f32>, y: mat2x4<f32>, zero: u32) -> mat2x4<f32> {
    let product = rounded_product(x[0], y[0], zero);
    return mat2x4<f32>(product, fma(x[1], y[0] + y[1], fma(x[0], y[1], rest_of(x[0], y[0], product))));
}

fn exact_product(x: vec2<f32>, y: vec2<f32>, zero: u32) -> vec2<f32> {
    let product = exact_products(mat2x4<f32>(vec4<f32>(x.x), vec4<f32>(x.y)), mat2x4<f32>(vec4<f32>(y.x), vec4<f32>(y.y)), zero);
    return vec2<f32>(product[0].x, product[1].x);
}

// Of numbers that have no rest yet.
fn exact_first_products(x: vec4<f32>, y: vec4<f32>, zero: u32) -> mat2x4<f32> {
    let product = rounded_product(x, y, zero);
    return mat2x4<f32>(product, rest_of(x, y, product));
}

fn exact_first_product(x: f32, y: f32, zero: u32) -> vec2<f32> {
    let product = exact_first_products(vec4<f32>(x), vec4<f32>(y), zero);
    return vec2<f32>(product[0].x, product[1].x);
}

// Of x and a number without a rest.
fn exact_next_product(x: vec2<f32>, y: f32, zero: u32) -> vec2<f32> {
    let product = rounded_product(vec4<f32>(x.x), vec4<f32>(y), zero);
    return vec2<f32>(product.x, fma(x.y, y, rest_of(vec4<f32>(x.x), vec4<f32>(y), product).x));
}

fn product_of_four(x: mat2x4<f32>, zero: u32) -> vec2<f32> {
    let four = transpose(x);
    return exact_product(exact_product(four[0], four[1], zero), exact_product(four[2], four[3], zero), zero);
}

// What they come to: -0, infinities and NaN as they are.
fn with_rests(x: mat2x4<f32>) -> vec4<f32> {
    let known = (bitcast<vec4<u32>>(x[1]) & vec4<u32>(0x7fffffffu)) - vec4<u32>(1u) < vec4<u32>(0x7f7fffffu);
    return select(x[0], x[0] + x[1], known);
}

fn with_rest(x: vec2<f32>) -> f32 { return with_rests(mat2x4<f32>(vec4<f32>(x.x), vec4<f32>(x.y))).x; }

// What two come to together, rounded once.
fn last_product(x: vec2<f32>, y: vec2<f32>) -> f32 {
    let rest = fma(x.x, y.y, x.y * y.x);
    return select(x.x * y.x, fma(x.x, y.x, rest), (bitcast<u32>(rest) & 0x7fffffffu) - 1u < 0x7f7fffffu);
}

// ---- Such products one after another, from the first factor on: what finite factors alone bring beyond the range has 1 in place of a
// ---- rest, so that 0 before them stays 0, as if they had been taken one by one.

fn of_finite(x: vec2<f32>) -> bool { return is_finite(x.x) || x.y == 1.0; }

fn running_product(x: vec2<f32>, y: vec2<f32>, product: vec2<f32>) -> vec2<f32> {
    if (is_finite(product.x)) { return product; }
    if (!of_finite(x) || !of_finite(y)) { return vec2<f32>(product.x, 0.0); }
    if (x.x == 0.0) { return vec2<f32>(select(x.x, -x.x, is_negative(y.x)), 0.0); }
    return vec2<f32>(product.x, 1.0);
}

// ---- NaN and infinity.

fn is_nan(x: f32) -> bool {
    return (bitcast<u32>(x) & 0x7fffffffu) > 0x7f800000u;
}

fn is_inf(x: f32) -> bool {
    return (bitcast<u32>(x) & 0x7fffffffu) == 0x7f800000u;
}

fn is_finite(x: f32) -> bool {
    return (bitcast<u32>(x) & 0x7f800000u) != 0x7f800000u;
}

fn is_negative(x: f32) -> bool { // sign bit: true for -0.0
    return (bitcast<u32>(x) >> 31u) != 0u;
}

fn nan() -> f32 {
    return bitcast<f32>(0x7fc00000u);
}

fn inf() -> f32 {
    return bitcast<f32>(0x7f800000u);
}

// torch.maximum and torch.minimum: NaN where either is NaN.
fn max_nan(a: f32, b: f32) -> f32 {
    return select(select(b, a, a > b), select(b, a, is_nan(a)), is_nan(a) || is_nan(b));
}

fn min_nan(a: f32, b: f32) -> f32 {
    return select(select(b, a, a < b), select(b, a, is_nan(a)), is_nan(a) || is_nan(b));
}

// By bits: drivers turn select(x, 0.0, x < 0.0) into max(x, 0.0), which drops NaN.
fn relu_nan(x: f32) -> f32 {
    let bits = bitcast<u32>(x);
    return select(x, 0.0, bits > 0x80000000u && bits <= 0xff800000u);
}

// ---- Division as Python and torch do it: the quotient is rounded down, the remainder has the divisor's sign. Integers divided by 0
// ---- give 0, which no implementation does by itself.

fn floor_div_i32(a: i32, b: i32) -> i32 {
    let q = a / b;
    return select(select(q, q - 1, q * b != a && (a < 0) != (b < 0)), 0, b == 0);
}

// The remainder with the sign of a. (SPIR-V leaves its own undefined for negative operands; NVIDIA gives 0 there.)
fn fmod_i32(a: i32, b: i32) -> i32 { return select(a - a / b * b, 0, b == 0); }

fn remainder_u32(a: u32, b: u32) -> u32 { return select(a % b, 0u, b == 0u); }

fn remainder_i32(a: i32, b: i32) -> i32 {
    let r = fmod_i32(a, b);
    return select(r, r + b, r != 0 && (r < 0) != (b < 0));
}

// (mantissa, biased exponent) of |x|, so that |x| = mantissa * 2^(exponent - 150); denormals included.
fn split_bits(x: f32) -> vec2<u32> {
    let e = (bitcast<u32>(x) >> 23u) & 0xffu;
    return vec2<u32>((bitcast<u32>(x) & 0x7fffffu) | select(0u, 0x800000u, e != 0u), max(e, 1u));
}

// mantissa * 2^(exponent - 150) for a mantissa below 2^24: the inverse of split_bits.
fn join_bits(mantissa: u32, exponent: u32) -> f32 {
    let shift = min(countLeadingZeros(mantissa) - 8u, exponent - 1u);
    let m = mantissa << shift;
    return bitcast<f32>(select(m, (m & 0x7fffffu) | ((exponent - shift) << 23u), m >= 0x800000u));
}

// C's fmod, exact: long division of the mantissas in integers, 8 bits of the quotient at a time.
fn fmod_accurate(x: f32, y: f32) -> f32 {
    let zero = (bitcast<u32>(y) & 0x7fffffffu) == 0u;
    if (!is_finite(x) || is_nan(y) || zero) { return nan(); }
    let a = split_bits(x);
    let b = split_bits(y);
    if (is_inf(y) || a.y < b.y) { return x; }
    var r = a.x % b.x;
    var gap = a.y - b.y;
    for (var i = 0u; i < 32u; i++) {
        if (gap == 0u || r == 0u) { break; }
        let step = min(gap, 8u);
        r = (r << step) % b.x;
        gap -= step;
    }
    let size = select(join_bits(max(r, 1u), b.y), 0.0, r == 0u);
    return bitcast<f32>(bitcast<u32>(size) | (bitcast<u32>(x) & 0x80000000u));
}

fn remainder_f32(x: f32, y: f32) -> f32 {
    let r = fmod_accurate(x, y);
    let other_sign = ((bitcast<u32>(r) ^ bitcast<u32>(y)) >> 31u) != 0u;
    return select(r, r + y, other_sign && (bitcast<u32>(r) & 0x7fffffffu) != 0u && !is_nan(r));
}

// x / y. WGSL promises nothing for |y| > 2^126, where drivers multiply by a reciprocal that has become a denormal: divisors from 2^124 on
// are taken down by their exponents' bits, since a factor in both operands is one that a compiler may cancel.
fn div_f32(x: f32, y: f32) -> f32 {
    let bits = bitcast<u32>(y);
    let exponent = (bits >> 23u) & 0xffu;
    let huge = exponent > 250u && exponent < 255u;
    return select(x, x * 0.0625, huge) / select(y, bitcast<f32>(bits - 0x2000000u), huge);
}

// x, rounded to a float, which a compiler may leave out of a sum: it does not know that the bit from w * w, its sign, is 0.
fn rounded_first(x: f32, w: f32) -> f32 { return bitcast<f32>(bitcast<u32>(x) | (bitcast<u32>(w * w) >> 31u)); }

// x / y, rounded to a float, then towards 0. A GPU's quotient may be off in its last bits, so near a whole number the exact remainder
// says on which side it is: below that number by less than half of the step there it is rounded to it.
fn trunc_quotient(x: f32, y: f32) -> f32 {
    let q = div_f32(x, y);
    if (!(abs(q) > 0.5 && abs(q) < 16777216.0) || abs(q - round(q)) > 1e-6 * abs(q)) { return trunc(q); }
    let rest = abs(fmod_accurate(x, y));
    let down = round(div_f32(abs(x) - rest, abs(y)));
    let half_step = 0.5 * (down + 1.0 - bitcast<f32>(bitcast<u32>(down + 1.0) - 1u));
    return select(down, down + 1.0, abs(y) - rest < abs(y) * half_step) * select(1.0, -1.0, q < 0.0);
}

fn floor_div_f32(x: f32, y: f32) -> f32 {
    if (y == 0.0) { return select(x / y, nan(), is_nan(x) || x == 0.0); }
    let r = fmod_accurate(x, y);
    if (is_nan(r)) { return r; }
    let q = div_f32(x - r, y) - select(0.0, 1.0, r != 0.0 && (r < 0.0) != (y < 0.0));
    let down = floor(q);
    return select(down, down + 1.0, q - down > 0.5);
}

// a * b / c rounded down, for a <= c and b, c < 2^31, where the product may be wider than a word.
fn mul_div(a: u32, b: u32, c: u32) -> u32 {
    let whole = b / c;
    let rest = b - whole * c;
    if (c < 0x10000u) { return a * whole + a * rest / c; }
    var quotient = 0u;
    var left = 0u;
    for (var bit = 0x80000000u; bit > 0u; bit >>= 1u) {
        left *= 2u;
        quotient *= 2u;
        if (left >= c) { left -= c; quotient++; }
        if ((a & bit) != 0u) { left += rest; }
        if (left >= c) { left -= c; quotient++; }
    }
    return a * whole + quotient;
}

// The same rounded up.
fn mul_div_up(a: u32, b: u32, c: u32) -> u32 {
    let down = mul_div(a, b, c);
    return select(down + 1u, down, down * c == a * b);
}

// (low, high) word of a * b; WGSL has no wide product.
fn multiply_wide(a: u32, b: u32) -> vec2<u32> {
    let low = (a & 0xffffu) * (b & 0xffffu);
    let middle = (a >> 16u) * (b & 0xffffu) + (low >> 16u);
    let cross = (a & 0xffffu) * (b >> 16u) + (middle & 0xffffu);
    return vec2<u32>((cross << 16u) | (low & 0xffffu), (a >> 16u) * (b >> 16u) + (middle >> 16u) + (cross >> 16u));
}

// ---- Orders and integer powers: what several families share.

// y <= 0 by bits: false for NaN, whatever a driver makes of comparisons.
fn not_positive(y: f32) -> bool {
    let bits = bitcast<u32>(y);
    return bits - 1u >= 0x7fffffffu && bits <= 0xff800000u;
}

// Order of float32 as that of i32: NaN is above everything, -0 just below +0.
fn order_max(x: f32) -> i32 {
    let bits = bitcast<i32>(x);
    return select(bits ^ ((bits >> 31u) & 0x7fffffff), 0x7fffffff, is_nan(x));
}

// The same with NaN below everything.
fn order_min(x: f32) -> i32 {
    let bits = bitcast<i32>(x);
    return select(bits ^ ((bits >> 31u) & 0x7fffffff), -0x7fffffff - 1, is_nan(x));
}

// The float of an order (either NaN gives a NaN).
fn from_order(order: i32) -> f32 { return bitcast<f32>(order ^ ((order >> 31u) & 0x7fffffff)); }

// By repeated squaring; a negative power gives 0 but for the bases 1 and -1.
fn power_i32(x: i32, y: i32) -> i32 {
    if (y < 0) { return select(select(0, select(1, -1, (y & 1) == 1), x == -1), 1, x == 1); }
    var value = 1;
    var base = x;
    var left = y;
    while (left > 0) {
        if ((left & 1) == 1) { value *= base; }
        base *= base;
        left = left >> 1u;
    }
    return value;
}

// (count, mean, sum of squares about the mean) of two parts together.
fn merge_moments(a: vec3<f32>, b: vec3<f32>) -> vec3<f32> {
    let count = a.x + b.x;
    let apart = b.y - a.y;
    let share = b.x / max(count, 1.0);
    return vec3<f32>(count, a.y + apart * share, a.z + b.z + apart * apart * (a.x * share));
}

// The sum of squared deviations, of which merging may have made NaN where squares were beyond float32.
fn deviations(m: vec3<f32>) -> f32 { return select(m.z, inf(), is_nan(m.z) && is_finite(m.y)); }

// ---- Bits: neighbours, parts and shifts of numbers, common divisors.

// The next number from x towards y, in integers, which keep denormals.
fn neighbour(x: f32, y: f32) -> f32 {
    if (is_nan(x) || is_nan(y)) { return nan(); }
    let bits = bitcast<u32>(x);
    let other = bitcast<u32>(y);
    if (((bits | other) & 0x7fffffffu) == 0u || bits == other) { return y; }
    if ((bits & 0x7fffffffu) == 0u) { return bitcast<f32>((other & 0x80000000u) | 1u); }
    let away = (order_max(x) < order_max(y)) == !is_negative(x);
    return bitcast<f32>(bits + select(0xffffffffu, 1u, away));
}

fn power_of_2(n: i32) -> f32 { return bitcast<f32>((n + 127) << 23u); }

// x * 2^n without the part of n after the point, in up to three steps, of which the last alone may leave the range of numbers downwards.
fn times_power(x: f32, n: f32) -> f32 {
    if (is_nan(n)) { return nan(); }
    let whole = i32(clamp(n, -300.0, 300.0));
    let near = clamp(whole, -100, 100);
    let half = (whole - near) / 2;
    return x * power_of_2(half) * power_of_2(whole - near - half) * power_of_2(near);
}

// x = m * 2^e with 1/2 <= |m| < 1, denormals included: (bits of m, e); 0, NaN and infinity are their own m, with e = 0.
fn mantissa_and_exponent(x: f32) -> vec2<i32> {
    let bits = bitcast<u32>(x);
    if ((bits & 0x7fffffffu) == 0u || !is_finite(x)) { return vec2<i32>(bitcast<i32>(bits), 0); }
    let parts = split_bits(x);
    let shift = countLeadingZeros(parts.x) - 8u;
    return vec2<i32>(bitcast<i32>((bits & 0x80000000u) | 0x3f000000u | ((parts.x << shift) & 0x7fffffu)), i32(parts.y) - i32(shift) - 126);
}

fn shift_left(x: u32, y: i32, width: i32) -> u32 { return select(x << (u32(y) & 31u), 0u, y < 0 || y >= width); }

fn shift_right(x: i32, y: i32) -> i32 { return x >> select(u32(y), 31u, y < 0 || y > 31); }

fn size_i32(x: i32) -> u32 { return select(u32(x), 0u - u32(x), x < 0); }

// Euclid's algorithm, which takes 46 divisions at most.
fn gcd_u32(x: u32, y: u32) -> u32 {
    var a = x;
    var b = y;
    for (var i = 0u; i < 48u; i++) {
        if (b == 0u) { break; }
        let rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

fn lcm_u32(x: u32, y: u32) -> u32 {
    let divisor = gcd_u32(x, y);
    return select(x / divisor * y, 0u, divisor == 0u);
}
