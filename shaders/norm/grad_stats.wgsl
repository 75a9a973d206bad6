// norm_grad_stats: (sum of g, sum of g * (x - mean) * rstd) of parts of each channel of x[N, C, inner].
//
// Parts are those of norm_stats.
//
// Bindings: 0 g, 1 x, 2 mean, 3 rstd (read), 4 parts[C, splits] (read_write).
// Launch:   x = C * splits workgroups of 256.
// Sums:     in f32: a serial run per thread and element of V, then a tree; fixed order.

alias V = vec4<f32>;
const WIDTH: u32 = 4u;

struct Params {
    channels: u32, inner: u32, total: u32, chunk: u32,
    splits: u32, g_offset: u32, x_offset: u32, mean_offset: u32,
    rstd_offset: u32,
}
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read> g: array<V>;
@group(0) @binding(1) var<storage, read> x: array<V>;
@group(0) @binding(2) var<storage, read> mean: array<f32>;
@group(0) @binding(3) var<storage, read> rstd: array<f32>;
@group(0) @binding(4) var<storage, read_write> parts: array<vec2<f32>>;

var<workgroup> tree: array<vec2<f32>, 256>;

@compute @workgroup_size(256)
fn main(grid: Grid, @builtin(local_invocation_index) local: u32) {
    let group = group_of(grid);
    let channel = group / p.splits;
    let start = (group - channel * p.splits) * p.chunk;
    let end = select(min(start + p.chunk, p.total), 0u, channel >= p.channels);
    let center = mean[p.mean_offset + min(channel, p.channels - 1u)];
    var sum = V(0.0);
    var product = V(0.0);
    for (var i = start + local; i < end; i += 256u) {
        let image = i / p.inner;
        let at = (image * p.channels + channel) * p.inner + i - image * p.inner;
        let slope = g[p.g_offset + at];
        sum += slope;
        product += slope * (x[p.x_offset + at] - center);
    }
    // A scalar V fills all four places, of which the first is used.
    let sums = vec4<f32>(sum);
    let products = vec4<f32>(product);
    var mine = vec2<f32>(sums.x, products.x);
    if (WIDTH == 4u) {
        mine = vec2<f32>((sums.x + sums.y) + (sums.z + sums.w), (products.x + products.y) + (products.z + products.w));
    }
    tree[local] = mine;
    workgroupBarrier();
    for (var half = 128u; half > 0u; half >>= 1u) {
        if (local < half) {
            tree[local] += tree[local + half];
        }
        workgroupBarrier();
    }
    if (local == 0u && channel < p.channels) {
        parts[group] = vec2<f32>(tree[0].x, tree[0].y * rstd[p.rstd_offset + channel]);
    }
}
