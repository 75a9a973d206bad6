// pool_grad: dx[plane, i] = the sum of g[plane, o] over the windows that element i is in: of those whose maximum it is (MAX), or of
// g[plane, o] divided as the average was. Windows are those of pool.
//
// Bindings: 0 g, 1 index (read; absent without MAX), 2 dx (read_write).
// Launch:   x = ceil(count / 256) workgroups of 256; a thread makes an element in each of PLANES planes of dx.
// Sums:     serial in f32, in the order of o.

const MAX: bool = true;
const ADAPTIVE: bool = false;
const VOLUME: bool = true;
const COUNT_PADDING: bool = true;
const STRIDE_Z: u32 = 1u;
const STRIDE_Y: u32 = 2u;
const STRIDE_X: u32 = 2u;
const PLANES: u32 = 4u;

struct Params {
    size: vec4<u32>,                    // depth, height, width, and their product
    outs: vec4<u32>,
    padding: vec4<u32>,
    reach: vec4<u32>,                   // dilation * (kernel - 1)
    count: u32, planes: u32, g_offset: u32, index_offset: u32,
    divisor: f32,                       // of averages, where it is not 0
}
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read> g: array<f32>;
@group(0) @binding(1) var<storage, read> index: array<i32>;
@group(0) @binding(2) var<storage, read_write> dx: array<f32>;

fn first_of(o: u32, axis: u32) -> u32 { return mul_div(o, p.size[axis], p.outs[axis]); }
fn end_of(o: u32, axis: u32) -> u32 { return mul_div_up(o + 1u, p.size[axis], p.outs[axis]); }

// The outputs whose windows reach element i along an axis: [first, end).
fn windows(i: u32, axis: u32, stride: u32) -> vec2<u32> {
    let outs = p.outs[axis];
    if (ADAPTIVE) {
        var first = min(u32(f32(i) * f32(outs) / f32(p.size[axis])), outs - 1u);
        while (first > 0u && end_of(first - 1u, axis) > i) { first--; }
        while (first + 1u < outs && end_of(first, axis) <= i) { first++; }
        var end = first + 1u;
        while (end < outs && first_of(end, axis) <= i) { end++; }
        return vec2<u32>(first, end);
    }
    let seen = i + p.padding[axis];
    let reach = p.reach[axis];
    let first = select(0u, (seen - reach + stride - 1u) / stride, seen > reach);
    return vec2<u32>(first, min(seen / stride + 1u, outs));
}

// What the average of output o divides by along an axis.
fn span(o: u32, axis: u32, stride: u32) -> f32 {
    if (ADAPTIVE) { return f32(end_of(o, axis) - first_of(o, axis)); }
    let first = i32(o * stride) - i32(p.padding[axis]);
    let end = first + i32(p.reach[axis]) + 1;
    let n = i32(p.size[axis]);
    if (COUNT_PADDING) { return f32(min(end, n + i32(p.padding[axis])) - first); }
    return f32(min(end, n) - max(first, 0));
}

@compute @workgroup_size(256)
fn main(grid: Grid, @builtin(local_invocation_index) local: u32) {
    let at = group_of(grid) * 256u + local;
    if (at >= p.count) {
        return;
    }
    let block = at / p.size.w;
    let mine = at - block * p.size.w;
    var i = mine;
    var wz = vec2<u32>(0u, 1u);
    if (VOLUME) {
        let z = i / (p.size.y * p.size.z);
        wz = windows(z, 0u, STRIDE_Z);
        i -= z * (p.size.y * p.size.z);
    }
    let y = i / p.size.z;
    let wy = windows(y, 1u, STRIDE_Y);
    let wx = windows(i - y * p.size.z, 2u, STRIDE_X);
    var sums: array<f32, PLANES>;
    for (var oz = wz.x; oz < wz.y; oz++) {
        for (var oy = wy.x; oy < wy.y; oy++) {
            for (var ox = wx.x; ox < wx.y; ox++) {
                var divisor = p.divisor;
                if (!MAX && divisor == 0.0) {
                    divisor = span(oy, 1u, STRIDE_Y) * span(ox, 2u, STRIDE_X);
                    if (VOLUME) { divisor *= span(oz, 0u, STRIDE_Z); }
                }
                let o = (oz * p.outs.y + oy) * p.outs.z + ox;
                for (var k = 0u; k < PLANES; k++) {
                    // Beyond the last plane that plane is read again.
                    let from_plane = min(block * PLANES + k, p.planes - 1u) * p.outs.w + o;
                    if (!MAX) {
                        sums[k] += g[p.g_offset + from_plane] / divisor;
                    } else if (index[p.index_offset + from_plane] == i32(mine)) {
                        sums[k] += g[p.g_offset + from_plane];
                    }
                }
            }
        }
    }
    for (var k = 0u; k < PLANES; k++) {
        let plane = block * PLANES + k;
        if (plane < p.planes) { dx[plane * p.size.w + mine] = sums[k]; }
    }
}
