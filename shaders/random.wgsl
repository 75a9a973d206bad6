// random: draws and dropout from Philox 4x32-10, with the layout that volta/random.py fixes for every device.
//
// KIND 0 uniform, 1 normal, 2 randint, 3 dropout. Thread i makes elements 4 i .. 4 i + 3 from counter offset + i; the places
// after the last element fall into the padding of a whole vec4, which every new buffer has.
//
// Bindings: 0 x (read; dropout's input, else a spare buffer), 1 out (read_write, offset 0).
// Launch:   x = ceil(count / 1024) workgroups of 256; `quads` = ceil(count / 4).
// Sums:     none.
// Source:   Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC11. The logarithm, sine and cosine are Cephes'
//           single precision polynomials: those of the hardware differ between adapters and are up to 60 ulp off.

alias T = f32;
const KIND: u32 = 0u;

struct Params {
    quads: u32, x_offset: u32, seed_low: u32, seed_high: u32,
    offset_low: u32, offset_high: u32, low: u32, span: u32,
    zero: u32,
}
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read> x: array<vec4<f32>>;
@group(0) @binding(1) var<storage, read_write> out: array<vec4<T>>;

// WGSL has no 64-bit product: its high word from 16-bit halves.
fn high_product(a: u32, b: u32) -> u32 {
    let a_low = a & 0xffffu;
    let a_high = a >> 16u;
    let b_low = b & 0xffffu;
    let b_high = b >> 16u;
    let cross = a_high * b_low + ((a_low * b_low) >> 16u);
    return a_high * b_high + (cross >> 16u) + ((a_low * b_high + (cross & 0xffffu)) >> 16u);
}

fn philox(start: vec4<u32>, seed: vec2<u32>) -> vec4<u32> {
    var counter = start;
    var key = seed;
    for (var round = 0u; round < 10u; round++) {
        let high0 = high_product(0xd2511f53u, counter.x);
        let high1 = high_product(0xcd9e8d57u, counter.z);
        counter = vec4<u32>(high1 ^ counter.y ^ key.x, 0xcd9e8d57u * counter.z,
                            high0 ^ counter.w ^ key.y, 0xd2511f53u * counter.x);
        key += vec2<u32>(0x9e3779b9u, 0xbb67ae85u);
    }
    return counter;
}

// Keeps a product from being fused with the sum after it: the compiler cannot know that `zero` is 0.
fn rounded(v: vec4<f32>) -> vec4<f32> {
    return bitcast<vec4<f32>>(bitcast<vec4<u32>>(v) ^ vec4<u32>(p.zero));
}

// ln v for normal v > 0.
fn natural_log(v: f32) -> f32 {
    // Mantissa in sqrt(1/2) .. sqrt(2).
    let bits = bitcast<u32>(v) + (0x3f800000u - 0x3f3504f3u);
    let exponent = f32(i32(bits >> 23u) - 127);
    let m = bitcast<f32>((bits & 0x007fffffu) + 0x3f3504f3u) - 1.0;
    let square = m * m;
    var tail = 7.0376836292e-2 * m - 1.1514610310e-1;
    tail = tail * m + 1.1676998740e-1;
    tail = tail * m - 1.2420140846e-1;
    tail = tail * m + 1.4249322787e-1;
    tail = tail * m - 1.6668057665e-1;
    tail = tail * m + 2.0000714765e-1;
    tail = tail * m - 2.4999993993e-1;
    tail = tail * m + 3.3333331174e-1;
    tail = tail * m * square - 2.12194440e-4 * exponent - 0.5 * square;
    return m + tail + 0.693359375 * exponent;
}

// (cos, sin) of 2 pi turn, for turn in 0 .. 1: the reduction to an eighth of a turn is exact.
fn circle(turn: f32) -> vec2<f32> {
    let quarter = floor(turn * 4.0 + 0.5);
    let angle = (turn * 4.0 - quarter) * 1.5707963267948966;
    let z = angle * angle;
    let s = ((-1.9515295891e-4 * z + 8.3321608736e-3) * z - 1.6666654611e-1) * z * angle + angle;
    let c = ((2.443315711809948e-5 * z - 1.388731625493765e-3) * z + 4.166664568298827e-2) * z * z - 0.5 * z + 1.0;
    switch u32(quarter) & 3u {
        case 1u: {
            return vec2<f32>(-s, c);
        }
        case 2u: {
            return vec2<f32>(-c, -s);
        }
        case 3u: {
            return vec2<f32>(s, -c);
        }
        default: {
            return vec2<f32>(c, s);
        }
    }
}

fn normals(u: vec4<f32>) -> vec4<f32> {
    let r0 = sqrt(-2.0 * natural_log(1.0 - u.x));
    let r1 = sqrt(-2.0 * natural_log(1.0 - u.z));
    return vec4<f32>(r0 * circle(u.y), r1 * circle(u.w));
}

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) wid: vec3<u32>, @builtin(num_workgroups) ngroups: vec3<u32>,
        @builtin(local_invocation_index) local: u32) {
    let i = group_index(wid, ngroups) * 256u + local;
    if (i >= p.quads) {
        return;
    }
    let counter = p.offset_low + i;
    let carry = select(0u, 1u, counter < i);
    let bits = philox(vec4<u32>(counter, p.offset_high + carry, 0u, 0u), vec2<u32>(p.seed_low, p.seed_high));
    let u = vec4<f32>(bits >> vec4<u32>(8u)) * 5.9604644775390625e-8;
    let low = bitcast<f32>(p.low);
    let span = bitcast<f32>(p.span);
    if (KIND == 0u) {
        out[i] = vec4<T>(low + rounded(span * u));
    } else if (KIND == 1u) {
        out[i] = vec4<T>(low + rounded(span * normals(u)));
    } else if (KIND == 2u) {
        // A span of 2^32 arrives as 0.
        var shifted = bits;
        if (p.span != 0u) {
            shifted = vec4<u32>(high_product(bits.x, p.span), high_product(bits.y, p.span),
                                high_product(bits.z, p.span), high_product(bits.w, p.span));
        }
        out[i] = vec4<T>(bitcast<vec4<i32>>(shifted + vec4<u32>(p.low)));
    } else {
        // low is p, span is 1 / (1 - p). A dropped NaN stays NaN, so the factor is multiplied and not selected.
        out[i] = vec4<T>(x[p.x_offset + i] * select(vec4<f32>(0.0), vec4<f32>(span), u >= vec4<f32>(low)));
    }
}
