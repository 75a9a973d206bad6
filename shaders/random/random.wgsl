// random: draws and dropout from Philox 4x32-10, with the layout that volta/random.py fixes for every device.
//
// KIND 0 uniform, 1 normal, 2 integers, 3 dropout, 4 bernoulli, 5 exponential, 6 geometric, 7 cauchy, 8 log_normal, 9 chances, which out
// holds. Thread i makes elements 4 i .. 4 i + 3 from counter offset + i; the places after the last element fall into the padding of a whole
// vec4, which every new buffer has. Where out begins within a vec4 or the memory of others ends its last, V is T, and `own` and `store` are
// specialised, too. But for dropout, x_offset is where out begins, in Vs.
//
// Bindings: 0 x (read; dropout's input, else absent), 1 out (read_write).
// Launch:   x = ceil(count / 1024) workgroups of 256.
// Sums:     none.
//
// Normal numbers use the prelude's logarithm, sine and cosine: those of the hardware differ between adapters.

alias T = f32;
alias V = vec4<T>;
const KIND: u32 = 0u;

struct Params {
    count: u32, x_offset: u32, seed_low: u32, seed_high: u32,
    offset_low: u32, offset_high: u32, low: u32, span: u32,
    zero: u32,
}
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read> x: array<vec4<f32>>;
@group(0) @binding(1) var<storage, read_write> out: array<V>;

// Keeps a product from being fused with the sum after it: the compiler cannot know that `zero` is 0.
fn rounded(v: vec4<f32>) -> vec4<f32> {
    return bitcast<vec4<f32>>(bitcast<vec4<u32>>(v) ^ vec4<u32>(p.zero));
}

// (cos, sin) of 2 pi turn, for turn in 0 .. 1: the reduction to an eighth of a turn is exact.
fn circle(turn: f32) -> vec2<f32> {
    let quarter = floor(turn * 4.0 + 0.5);
    let angle = (turn * 4.0 - quarter) * 1.5707963267948966;
    let s = sin_small(angle);
    let c = cos_small(angle);
    let turned = select(vec2<f32>(c, s), vec2<f32>(-s, c), (u32(quarter) & 1u) == 1u);
    return select(turned, -turned, (u32(quarter) & 2u) == 2u);
}

fn normals(u: vec4<f32>) -> vec4<f32> {
    let r0 = sqrt(-2.0 * log_accurate(1.0 - u.x));
    let r1 = sqrt(-2.0 * log_accurate(1.0 - u.z));
    return vec4<f32>(r0 * circle(u.y), r1 * circle(u.w));
}

fn logarithms(u: vec4<f32>) -> vec4<f32> {
    return vec4<f32>(log_accurate(1.0 - u.x), log_accurate(1.0 - u.y), log_accurate(1.0 - u.z), log_accurate(1.0 - u.w));
}

fn exponentials(x: vec4<f32>) -> vec4<f32> {
    return vec4<f32>(exp_accurate(x.x), exp_accurate(x.y), exp_accurate(x.z), exp_accurate(x.w));
}

// tan of angles, by the functions that the CPU takes, too.
fn tangents(x: vec4<f32>) -> vec4<f32> {
    return vec4<f32>(sin_accurate(x.x), sin_accurate(x.y), sin_accurate(x.z), sin_accurate(x.w))
        / vec4<f32>(cos_accurate(x.x), cos_accurate(x.y), cos_accurate(x.z), cos_accurate(x.w));
}

// Of [low, low + span) as bits of 32-bit integers; a span of 2^32 arrives as 0.
fn integers(bits: vec4<u32>) -> vec4<i32> {
    var shifted = bits;
    if (p.span != 0u) {
        shifted = vec4<u32>(multiply_wide(bits.x, p.span).y, multiply_wide(bits.y, p.span).y,
                            multiply_wide(bits.z, p.span).y, multiply_wide(bits.w, p.span).y);
    }
    return bitcast<vec4<i32>>(shifted + vec4<u32>(p.low));
}

// The four elements i of out, and these written.
fn own(i: u32) -> vec4<f32> { return vec4<f32>(out[p.x_offset + i]); }
fn store(i: u32, v: vec4<T>) { out[select(p.x_offset, 0u, KIND == 3u) + i] = v; }

@compute @workgroup_size(256)
fn main(grid: Grid, @builtin(local_invocation_index) local: u32) {
    let i = group_of(grid) * 256u + local;
    if (i >= (p.count + 3u) / 4u) {
        return;
    }
    let bits = random_words(vec2<u32>(p.seed_low, p.seed_high), vec2<u32>(p.offset_low, p.offset_high), i);
    let u = vec4<f32>(uniform_from_bits(bits.x), uniform_from_bits(bits.y), uniform_from_bits(bits.z), uniform_from_bits(bits.w));
    let low = bitcast<f32>(p.low);
    let span = bitcast<f32>(p.span);
    if (KIND == 0u) {
        store(i, vec4<T>(low + rounded(span * u)));
    } else if (KIND == 1u) {
        store(i, vec4<T>(low + rounded(span * normals(u))));
    } else if (KIND == 2u) {
        store(i, vec4<T>(integers(bits)));
    } else if (KIND == 3u) {
        // low is p, span is 1 / (1 - p). A dropped NaN stays NaN, so the factor is multiplied and not selected.
        store(i, vec4<T>(x[p.x_offset + i] * select(vec4<f32>(0.0), vec4<f32>(span), u >= vec4<f32>(low))));
    } else if (KIND == 4u) {
        store(i, vec4<T>(select(vec4<f32>(0.0), vec4<f32>(1.0), u < vec4<f32>(low))));
    } else if (KIND == 5u) {
        store(i, vec4<T>(low * logarithms(u)));
    } else if (KIND == 6u) {
        store(i, vec4<T>(max(ceil(logarithms(u) / low), vec4<f32>(1.0))));
    } else if (KIND == 7u) {
        store(i, vec4<T>(low + rounded(span * tangents((u - vec4<f32>(0.5)) * 3.1415927410125732))));
    } else if (KIND == 8u) {
        store(i, vec4<T>(exponentials(low + rounded(span * normals(u)))));
    } else {
        store(i, vec4<T>(select(vec4<f32>(0.0), vec4<f32>(1.0), u < own(i))));
    }
}
