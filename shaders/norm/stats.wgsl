// norm_stats: (count, mean less origin, sum of squared deviations) of parts of each channel of x[N, C, inner].
//
// The origin is one of the channel's values: means are kept as distances from it, so that a mean far from 0 costs no digits.
//
// A channel's values are N runs of `inner`; part s of `splits` is [s * chunk, (s + 1) * chunk) of them, counted in V's.
// Each thread sums deviations from the first value that it meets: since that is one of its own values, the correction
// can never be more than about its number of values times the result.
// Threads, and later parts, are merged by Chan's formula.
//
// Bindings: 0 x (read), 1 parts[C, splits] (read_write).
// Launch:   x = C * splits workgroups of 256.
// Sums:     in f32: a serial run per thread and element of V, then a tree; fixed order.
// Source:   Chan, Golub, LeVeque, "Updating formulae and a pairwise algorithm for computing sample variances", 1979, eq. 2.1.

alias V = vec4<f32>;
const WIDTH: u32 = 4u;

struct Params {
    channels: u32, inner: u32, total: u32, chunk: u32,
    splits: u32, x_offset: u32,
}
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read> x: array<V>;
@group(0) @binding(1) var<storage, read_write> parts: array<vec4<f32>>;

var<workgroup> tree: array<vec3<f32>, 256>;

// The middle one of the channel's first, central and last value.
fn origin_of(channel: u32) -> f32 {
    let first = p.x_offset + channel * p.inner;
    let image = p.channels * p.inner;
    let last = p.total / p.inner - 1u;
    // A scalar V fills all four places of a vec4, of which the first is used.
    let a = vec4<f32>(x[first]).x;
    let b = vec4<f32>(x[first + last / 2u * image + p.inner / 2u]).x;
    let c = vec4<f32>(x[first + last * image + p.inner - 1u]).x;
    return max(min(a, b), min(max(a, b), c));
}

@compute @workgroup_size(256)
fn main(grid: Grid, @builtin(local_invocation_index) local: u32) {
    let group = group_of(grid);
    let channel = group / p.splits;
    let start = (group - channel * p.splits) * p.chunk;
    let end = select(min(start + p.chunk, p.total), 0u, channel >= p.channels);
    let origin = origin_of(min(channel, p.channels - 1u));
    var count = 0.0;
    var pivot = V(0.0);
    var sum = V(0.0);
    var squares = V(0.0);
    for (var i = start + local; i < end; i += 256u) {
        let image = i / p.inner;
        let value = x[p.x_offset + (image * p.channels + channel) * p.inner + i - image * p.inner];
        if (count == 0.0) {
            pivot = value;
        }
        let away = value - pivot;
        sum += away;
        squares += away * away;
        count += 1.0;
    }
    var mine = vec3<f32>(0.0);
    if (count > 0.0) {
        let average = sum / count;
        let means = vec4<f32>(average + (pivot - origin));
        let rests = vec4<f32>(squares - average * sum);
        mine = vec3<f32>(count, means.x, rests.x);
        if (WIDTH == 4u) {
            mine = merge_moments(merge_moments(mine, vec3<f32>(count, means.y, rests.y)),
                         merge_moments(vec3<f32>(count, means.z, rests.z), vec3<f32>(count, means.w, rests.w)));
        }
    }
    tree[local] = mine;
    workgroupBarrier();
    for (var half = 128u; half > 0u; half >>= 1u) {
        if (local < half) {
            tree[local] = merge_moments(tree[local], tree[local + half]);
        }
        workgroupBarrier();
    }
    if (local == 0u && channel < p.channels) {
        parts[group] = vec4<f32>(tree[0], 0.0);
    }
}
