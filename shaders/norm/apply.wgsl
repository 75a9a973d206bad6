// norm_apply: out = (x - mean) * rstd * weight + bias per channel of x[N, C, inner]; also writes mean[C] and rstd[C].
//
// Each workgroup first merges the channel's parts, which norm_stats made: that is cheaper than a dispatch of its own.
// WHOLE: a workgroup does a whole small channel and takes the statistics itself, as norm_stats would; parts is a spare buffer.
//
// Bindings: 0 x, 1 parts[C, splits], 2 weight, 3 bias (all read; any buffer without HAS_WEIGHT, HAS_BIAS),
//           4 out, 5 mean, 6 rstd (read_write).
// Launch:   x = C * blocks workgroups of 256; a workgroup makes `chunk` V's of one channel.
// Sums:     in f32, a tree over at most 256 parts.

alias V = vec4<f32>;
const WIDTH: u32 = 4u;
const WHOLE: bool = false;
const HAS_WEIGHT: bool = true;
const HAS_BIAS: bool = true;

struct Params {
    channels: u32, inner: u32, total: u32, chunk: u32,
    blocks: u32, splits: u32, x_offset: u32, weight_offset: u32,
    bias_offset: u32, eps: f32,
}
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read> x: array<V>;
@group(0) @binding(1) var<storage, read> parts: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read> weight: array<f32>;
@group(0) @binding(3) var<storage, read> bias: array<f32>;
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

// What norm_stats gives for all of a channel and this thread's share of it.
fn share_of(channel: u32, origin: f32, local: u32) -> vec3<f32> {
    var count = 0.0;
    var pivot = V(0.0);
    var sum = V(0.0);
    var squares = V(0.0);
    for (var i = local; i < p.total; i += 256u) {
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
    let channel = group / p.blocks;
    let block = group - channel * p.blocks;
    let origin = origin_of(min(channel, p.channels - 1u));
    tree[local] = vec3<f32>(0.0);
    if (WHOLE) {
        tree[local] = share_of(min(channel, p.channels - 1u), origin, local);
    } else if (local < p.splits && channel < p.channels) {
        tree[local] = parts[channel * p.splits + local].xyz;
    }
    workgroupBarrier();
    for (var half = 128u; half > 0u; half >>= 1u) {
        if (local < half && (WHOLE || half < p.splits * 2u)) {
            tree[local] = merge_moments(tree[local], tree[local + half]);
        }
        workgroupBarrier();
    }
    if (channel >= p.channels) {
        return;
    }
    let center = tree[0].y;
    let scale = 1.0 / sqrt(tree[0].z / tree[0].x + p.eps);
    if (block == 0u && local == 0u) {
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
    let end = min((block + 1u) * p.chunk, p.total);
    for (var i = block * p.chunk + local; i < end; i += 256u) {
        let image = i / p.inner;
        let at = (image * p.channels + channel) * p.inner + i - image * p.inner;
        out[at] = ((x[p.x_offset + at] - origin) - center) * slope + shift;
    }
}
