// conv_depthwise_weight: the gradient of weight[O, 1, KH, KW], of g[N, O, oh, ow] and x[N, C, H, W], each of the C channels having O / C
// outputs. A workgroup adds up a part of an output's positions; with several parts, `merge` adds these.
//
// Bindings: 0 g, 1 x (read), 2 sums[parts, O, KH, KW] (read_write), 3 out, read and written by `merge` alone (read_write).
// Launch:   x = O * parts workgroups of 256; merge: ceil(O * KH * KW / 256).
// Sums:     in f32: of a thread's positions, then a tree, then by parts; fixed order.

const KH: u32 = 3u;
const KW: u32 = 3u;
const TAPS: u32 = KH * KW;
const STRIDE_Y: u32 = 1u;
const STRIDE_X: u32 = 1u;
const DILATION_Y: u32 = 1u;
const DILATION_X: u32 = 1u;

struct Params {
    channels: u32, repeat: u32, total: u32, chunk: u32, // channels of g; outputs of a channel of x; positions of one, and of a part
    parts: u32, height: u32, width: u32, out_width: u32,
    length: u32, padding_y: i32, padding_x: i32, g_offset: u32,
    x_offset: u32,
}
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read> g: array<f32>;
@group(0) @binding(1) var<storage, read> x: array<f32>;
@group(0) @binding(2) var<storage, read_write> sums: array<f32>;
@group(0) @binding(3) var<storage, read_write> out: array<f32>;

var<workgroup> tree: array<f32, 256>;

@compute @workgroup_size(256)
fn main(grid: Grid, @builtin(local_invocation_index) local: u32) {
    let group = group_of(grid);
    let part = group / p.channels;
    let channel = group - part * p.channels;
    let end = select(0u, min((part + 1u) * p.chunk, p.total), part < p.parts);
    var found: array<f32, TAPS>;
    for (var k = 0u; k < TAPS; k++) { found[k] = 0.0; }
    for (var i = part * p.chunk + local; i < end; i += 256u) {
        let image = i / p.length;
        let at = i - image * p.length;
        let row = at / p.out_width;
        let slope = g[p.g_offset + (image * p.channels + channel) * p.length + at];
        let plane = p.x_offset + (image * (p.channels / p.repeat) + channel / p.repeat) * p.height * p.width;
        let y0 = i32(row * STRIDE_Y) - p.padding_y;
        let x0 = i32((at - row * p.out_width) * STRIDE_X) - p.padding_x;
        for (var ky = 0u; ky < KH; ky++) {
            let y = y0 + i32(ky * DILATION_Y);
            let begin = plane + u32(clamp(y, 0, i32(p.height) - 1)) * p.width;
            for (var kx = 0u; kx < KW; kx++) {
                let column = x0 + i32(kx * DILATION_X);
                let inside = y >= 0 && y < i32(p.height) && column >= 0 && column < i32(p.width);
                let value = select(0.0, x[begin + u32(clamp(column, 0, i32(p.width) - 1))], inside);
                found[ky * KW + kx] = fma(slope, value, found[ky * KW + kx]);
            }
        }
    }
    for (var k = 0u; k < TAPS; k++) {
        tree[local] = found[k];
        for (var half = 128u; half > 0u; half >>= 1u) {
            workgroupBarrier();
            if (local < half) { tree[local] += tree[local + half]; }
        }
        if (local == 0u && part < p.parts) { sums[group * TAPS + k] = tree[0]; }
        workgroupBarrier();
    }
}

@compute @workgroup_size(256)
fn merge(grid: Grid, @builtin(local_invocation_index) local: u32) {
    let i = group_of(grid) * 256u + local;
    if (i >= p.channels * TAPS) {
        return;
    }
    var sum = 0.0;
    for (var part = 0u; part < p.parts; part++) { sum += sums[part * p.channels * TAPS + i]; }
    out[i] = sum;
}
