// norm_normalise: out = (x - mean) * rstd * weight + bias per channel of x[N, C, inner]; also writes mean[C] and rstd[C].
//
// SUMS without APPLIES: parts[channel, block] = (count, mean less origin, sum of squared deviations) of a block of each channel.
// APPLIES without SUMS: each workgroup first merges its channel's `splits` parts, which is cheaper than a dispatch of its own.
// Both: a workgroup does a whole small channel.
//
// A channel's values are N runs of `inner`; block b is [b * chunk, (b + 1) * chunk) of them, counted in V's. The origin is one of the
// channel's values: means are kept as distances from it, so that a mean far from 0 costs no digits. Each thread sums deviations from
// the first value that it meets: since that is one of its own values, the correction can never be more than about its number of
// values times the result. Threads, and later parts, are merged by Chan's formula.
//
// Bindings: 0 x, 1 weight, 2 bias (read; absent without HAS_WEIGHT, HAS_BIAS), 3 parts[C, splits] (absent with both), 4 out,
//           5 mean, 6 rstd (read_write).
// Launch:   x = ceil(C / COLUMNS) * blocks workgroups of 256.
// Sums:     in f32: a serial run per thread and element of V, then a tree; a tree over at most 256 parts; fixed order.
// Source:   Chan, Golub, LeVeque, "Updating formulae and a pairwise algorithm for computing sample variances", 1979, eq. 2.1.

alias V = vec4<f32>;
const WIDTH: u32 = 4u;
const SUMS: bool = true;
const APPLIES: bool = true;
const COLUMNS: u32 = 1u;                // channels of a workgroup: several where inner is 1, side by side in memory
const LANES: u32 = 256u / COLUMNS;      // threads of a channel
const HAS_WEIGHT: bool = true;
const HAS_BIAS: bool = true;

struct Params {
    channels: u32, inner: u32, total: u32, chunk: u32,
    blocks: u32, splits: u32, x_offset: u32, weight_offset: u32,
    bias_offset: u32, eps: f32,
}
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read> x: array<V>;
@group(0) @binding(1) var<storage, read> weight: array<f32>;
@group(0) @binding(2) var<storage, read> bias: array<f32>;
@group(0) @binding(3) var<storage, read_write> parts: array<vec4<f32>>;
@group(0) @binding(4) var<storage, read_write> out: array<V>;
@group(0) @binding(5) var<storage, read_write> mean: array<f32>;
@group(0) @binding(6) var<storage, read_write> rstd: array<f32>;

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

// The moments of every LANES-th V of a channel in start .. end.
fn share_of(channel: u32, origin: f32, start: u32, end: u32) -> vec3<f32> {
    var count = 0.0;
    var pivot = V(0.0);
    var sum = V(0.0);
    var squares = V(0.0);
    for (var i = start; i < end; i += LANES) {
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
    if (count == 0.0) {
        return vec3<f32>(0.0);
    }
    let average = sum / count;
    let means = vec4<f32>(average + (pivot - origin));
    let rests = vec4<f32>(squares - average * sum);
    let first = vec3<f32>(count, means.x, rests.x);
    if (WIDTH == 1u) {
        return first;
    }
    return merge_moments(merge_moments(first, vec3<f32>(count, means.y, rests.y)),
                 merge_moments(vec3<f32>(count, means.z, rests.z), vec3<f32>(count, means.w, rests.w)));
}

@compute @workgroup_size(256)
fn main(grid: Grid, @builtin(local_invocation_index) local: u32) {
    let group = group_of(grid);
    let block = group % p.blocks;
    let channel = group / p.blocks * COLUMNS + local % COLUMNS;
    let lane = local / COLUMNS;
    let start = block * p.chunk + lane;
    let end = select(min((block + 1u) * p.chunk, p.total), 0u, channel >= p.channels);
    let origin = origin_of(min(channel, p.channels - 1u));
    tree[local] = vec3<f32>(0.0);
    if (SUMS) {
        tree[local] = share_of(channel, origin, start, end);
    } else if (lane < p.splits && channel < p.channels) {
        tree[local] = parts[channel * p.splits + lane].xyz;
    }
    workgroupBarrier();
    for (var half = LANES / 2u; half > 0u; half >>= 1u) {
        if (lane < half && (SUMS || half < p.splits * 2u)) {
            tree[local] = merge_moments(tree[local], tree[local + half * COLUMNS]);
        }
        workgroupBarrier();
    }
    if (channel >= p.channels) {
        return;
    }
    if (!APPLIES) {
        if (lane == 0u) {
            parts[channel * p.blocks + block] = vec4<f32>(tree[local], 0.0);
        }
        return;
    }
    let total = tree[local % COLUMNS];
    let center = total.y;
    let scale = 1.0 / sqrt(deviations(total) / total.x + p.eps);
    if (block == 0u && lane == 0u) {
        mean[channel] = origin + center;
        rstd[channel] = scale;
    }
    var slope = scale;
    var shift = 0.0;
    if (HAS_WEIGHT) {
        slope *= weight[p.weight_offset + channel];
    }
    if (HAS_BIAS) {
        shift = bias[p.bias_offset + channel];
    }
    for (var i = start; i < end; i += LANES) {
        let image = i / p.inner;
        let at = (image * p.channels + channel) * p.inner + i - image * p.inner;
        out[at] = ((x[p.x_offset + at] - origin) - center) * slope + shift;
    }
}
