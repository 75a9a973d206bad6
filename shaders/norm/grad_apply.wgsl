// norm_grad_apply: dx = weight * rstd * (g - mean(g) - xhat * mean(g * xhat)), xhat = (x - mean) * rstd, per channel;
// also writes dweight[C] = sum of g * xhat and dbias[C] = sum of g, from the parts that norm_grad_stats made.
// WHOLE: a workgroup does a whole small channel and takes the sums itself; parts is a spare buffer.
//
// Bindings: 0 g, 1 x, 2 parts[C, splits], 3 weight, 4 mean, 5 rstd (read; weight any buffer without HAS_WEIGHT),
//           6 dx, 7 dweight, 8 dbias (read_write).
// Launch:   x = C * blocks workgroups of 256; a workgroup makes `chunk` V's of one channel.
// Sums:     in f32, a tree over at most 256 parts.

alias V = vec4<f32>;
const WIDTH: u32 = 4u;
const WHOLE: bool = false;
const HAS_WEIGHT: bool = true;

struct Params {
    channels: u32, inner: u32, total: u32, chunk: u32,
    blocks: u32, splits: u32, g_offset: u32, x_offset: u32,
    weight_offset: u32, mean_offset: u32, rstd_offset: u32, per_value: f32,
}
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read> g: array<V>;
@group(0) @binding(1) var<storage, read> x: array<V>;
@group(0) @binding(2) var<storage, read> parts: array<vec2<f32>>;
@group(0) @binding(3) var<storage, read> weight: array<f32>;
@group(0) @binding(4) var<storage, read> mean: array<f32>;
@group(0) @binding(5) var<storage, read> rstd: array<f32>;
@group(0) @binding(6) var<storage, read_write> dx: array<V>;
@group(0) @binding(7) var<storage, read_write> dweight: array<f32>;
@group(0) @binding(8) var<storage, read_write> dbias: array<f32>;

var<workgroup> tree: array<vec2<f32>, 256>;

// What norm_grad_stats gives for all of a channel and this thread's share of it.
fn share_of(channel: u32, local: u32) -> vec2<f32> {
    let center = mean[p.mean_offset + channel];
    var sum = V(0.0);
    var product = V(0.0);
    for (var i = local; i < p.total; i += 256u) {
        let image = i / p.inner;
        let at = (image * p.channels + channel) * p.inner + i - image * p.inner;
        let slope = g[p.g_offset + at];
        sum += slope;
        product += slope * (x[p.x_offset + at] - center);
    }
    let sums = vec4<f32>(sum);
    let products = vec4<f32>(product) * rstd[p.rstd_offset + channel];
    if (WIDTH == 1u) {
        return vec2<f32>(sums.x, products.x);
    }
    return vec2<f32>((sums.x + sums.y) + (sums.z + sums.w), (products.x + products.y) + (products.z + products.w));
}

@compute @workgroup_size(256)
fn main(grid: Grid, @builtin(local_invocation_index) local: u32) {
    let group = group_of(grid);
    let channel = group / p.blocks;
    let block = group - channel * p.blocks;
    tree[local] = vec2<f32>(0.0);
    if (WHOLE) {
        tree[local] = share_of(min(channel, p.channels - 1u), local);
    } else if (local < p.splits && channel < p.channels) {
        tree[local] = parts[channel * p.splits + local];
    }
    workgroupBarrier();
    for (var half = 128u; half > 0u; half >>= 1u) {
        if (local < half && (WHOLE || half < p.splits * 2u)) {
            tree[local] += tree[local + half];
        }
        workgroupBarrier();
    }
    if (channel >= p.channels) {
        return;
    }
    let sums = tree[0];
    if (block == 0u && local == 0u) {
        dbias[channel] = sums.x;
        dweight[channel] = sums.y;
    }
    let center = mean[p.mean_offset + channel];
    let scale = rstd[p.rstd_offset + channel];
    var slope = scale;
    if (HAS_WEIGHT) {
        slope *= weight[p.weight_offset + channel];
    }
    let level = sums.x * p.per_value;
    let tilt = scale * sums.y * p.per_value;
    let end = min((block + 1u) * p.chunk, p.total);
    for (var i = block * p.chunk + local; i < end; i += 256u) {
        let image = i / p.inner;
        let at = (image * p.channels + channel) * p.inner + i - image * p.inner;
        dx[at] = slope * (g[p.g_offset + at] - level - (x[p.x_offset + at] - center) * tilt);
    }
}
