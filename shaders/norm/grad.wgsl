// norm_grad: dx = weight * rstd * (g - mean(g) - xhat * mean(g * xhat)), xhat = (x - mean) * rstd, per channel;
// also writes dweight[C] = sum of g * xhat and dbias[C] = sum of g. GIVEN: the statistics are not x's: dx = weight * rstd * g; in the
// place of rstd lie variances.
//
// SUMS, APPLIES and blocks as in norm_normalise; parts[C, splits] are (sum of g, sum of g * xhat, mean, 0), and lie in place of dweight
// where they are written, of mean where they are read.
//
// Bindings: 0 g, 1 x, 2 weight, 3 mean or parts, 4 rstd (read; weight absent without HAS_WEIGHT), 5 dx, 6 dweight or parts, 7 dbias
//           (read_write).
// Launch:   x = ceil(C / COLUMNS) * blocks workgroups of 256.
// Sums:     in f32: a serial run per thread and element of V, then a tree; a tree over at most 256 parts; fixed order.

alias V = vec4<f32>;
const WIDTH: u32 = 4u;
const SUMS: bool = true;
const APPLIES: bool = true;
const COLUMNS: u32 = 1u;                // channels of a workgroup: several where inner is 1, side by side in memory
const LANES: u32 = 256u / COLUMNS;      // threads of a channel
const HAS_WEIGHT: bool = true;
const GIVEN: bool = false;

struct Params {
    channels: u32, inner: u32, total: u32, chunk: u32,
    blocks: u32, splits: u32, g_offset: u32, x_offset: u32,
    weight_offset: u32, mean_offset: u32, rstd_offset: u32, per_value: f32,
    eps: f32,
}
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read> g: array<V>;
@group(0) @binding(1) var<storage, read> x: array<V>;
@group(0) @binding(2) var<storage, read> weight: array<f32>;
@group(0) @binding(3) var<storage, read> mean: array<f32>;
@group(0) @binding(4) var<storage, read> rstd: array<f32>;
@group(0) @binding(5) var<storage, read_write> dx: array<V>;
@group(0) @binding(6) var<storage, read_write> dweight: array<f32>;
@group(0) @binding(7) var<storage, read_write> dbias: array<f32>;

var<workgroup> tree: array<vec2<f32>, 256>;

// (sum of g, sum of g * (x - center)) of every LANES-th V of a channel in start .. end.
fn share_of(channel: u32, center: f32, start: u32, end: u32) -> vec2<f32> {
    var sum = V(0.0);
    var product = V(0.0);
    for (var i = start; i < end; i += LANES) {
        let image = i / p.inner;
        let at = (image * p.channels + channel) * p.inner + i - image * p.inner;
        let slope = g[p.g_offset + at];
        sum += slope;
        product += slope * (x[p.x_offset + at] - center);
    }
    // A scalar V fills all four places, of which the first is used.
    let sums = vec4<f32>(sum);
    let products = vec4<f32>(product);
    if (WIDTH == 1u) {
        return vec2<f32>(sums.x, products.x);
    }
    return vec2<f32>((sums.x + sums.y) + (sums.z + sums.w), (products.x + products.y) + (products.z + products.w));
}

@compute @workgroup_size(256)
fn main(grid: Grid, @builtin(local_invocation_index) local: u32) {
    let group = group_of(grid);
    let block = group % p.blocks;
    let channel = group / p.blocks * COLUMNS + local % COLUMNS;
    let lane = local / COLUMNS;
    let start = block * p.chunk + lane;
    let end = select(min((block + 1u) * p.chunk, p.total), 0u, channel >= p.channels);
    let center = mean[select(4u * p.splits * min(channel, p.channels - 1u) + 2u, p.mean_offset + min(channel, p.channels - 1u), SUMS)];
    var scale = rstd[p.rstd_offset + min(channel, p.channels - 1u)];
    if (GIVEN) { scale = 1.0 / sqrt(scale + p.eps); }
    tree[local] = vec2<f32>(0.0);
    if (SUMS) {
        tree[local] = share_of(channel, center, start, end);
    } else if (lane < p.splits && channel < p.channels) {
        let part = 4u * (channel * p.splits + lane);
        tree[local] = vec2<f32>(mean[part], mean[part + 1u]);
    }
    workgroupBarrier();
    for (var half = LANES / 2u; half > 0u; half >>= 1u) {
        if (lane < half && (SUMS || half < p.splits * 2u)) {
            tree[local] += tree[local + half * COLUMNS];
        }
        workgroupBarrier();
    }
    if (channel >= p.channels) {
        return;
    }
    var sums = tree[local % COLUMNS];
    if (SUMS) {
        sums.y *= scale;
    }
    if (!APPLIES) {
        if (lane == 0u) {
            let part = 4u * (channel * p.blocks + block);
            dweight[part] = sums.x;
            dweight[part + 1u] = sums.y;
            dweight[part + 2u] = center;
        }
        return;
    }
    if (block == 0u && lane == 0u) {
        dbias[channel] = sums.x;
        dweight[channel] = sums.y;
    }
    var slope = scale;
    if (HAS_WEIGHT) {
        slope *= weight[p.weight_offset + channel];
    }
    let level = sums.x * p.per_value;
    let tilt = scale * sums.y * p.per_value;
    for (var i = start; i < end; i += LANES) {
        let image = i / p.inner;
        let at = (image * p.channels + channel) * p.inner + i - image * p.inner;
        if (GIVEN) {
            dx[at] = slope * g[p.g_offset + at];
        } else {
            dx[at] = slope * (g[p.g_offset + at] - level - (x[p.x_offset + at] - center) * tilt);
        }
    }
}
