// pool: out[plane, o] = the largest (MAX) or the average of the window of output o in x[plane, depth, height, width].
//
// A window is `kernel` elements a dimension with steps of the dilation, or with ADAPTIVE from floor(o * n / m) to ceil((o + 1) * n / m).
// The first of equal maxima counts, the last NaN wins over all numbers, and padding never does; index is the place in the plane, -1 of a
// window of padding alone.
//
// Bindings: 0 x (read), 1 out, 2 index (read_write; absent without PLACED).
// Launch:   x = ceil(count / 256) workgroups of 256; a thread makes an output in each of PLANES planes, for which it finds the window once.
// Sums:     serial in f32.

const MAX: bool = true;
const PLACED: bool = true;              // the places of maxima are wanted
const ADAPTIVE: bool = false;
const VOLUME: bool = true;              // more than one plane of depth, in or out
const COUNT_PADDING: bool = true;       // an average divides by the padding too
const KERNEL_Z: u32 = 1u;
const KERNEL_Y: u32 = 2u;
const KERNEL_X: u32 = 2u;
const PLANES: u32 = 4u;

struct Params {
    size: vec4<u32>,                    // depth, height, width, and their product
    outs: vec4<u32>,
    stride: vec4<u32>,
    padding: vec4<u32>,
    dilation: vec4<u32>,
    count: u32, planes: u32, x_offset: u32,
    divisor: f32,                       // of averages, where it is not 0
}
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(1) var<storage, read_write> out: array<f32>;
@group(0) @binding(2) var<storage, read_write> index: array<i32>;

// The first element of a window along an axis, which wraps to a large number where it is padding, and how many follow.
fn window(o: u32, axis: u32, kernel: u32) -> vec2<u32> {
    if (ADAPTIVE) {
        let first = mul_div(o, p.size[axis], p.outs[axis]);
        return vec2<u32>(first, mul_div_up(o + 1u, p.size[axis], p.outs[axis]) - first);
    }
    return vec2<u32>(o * p.stride[axis] - p.padding[axis], kernel);
}

// What an average divides by along an axis.
fn span(w: vec2<u32>, axis: u32) -> f32 {
    if (ADAPTIVE) { return f32(w.y); }
    let first = i32(w.x);
    let end = first + i32(w.y);
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
    let block = at / p.outs.w;
    var o = at - block * p.outs.w;
    var wz = vec2<u32>(0u, 1u);
    if (VOLUME) {
        let oz = o / (p.outs.y * p.outs.z);
        wz = window(oz, 0u, KERNEL_Z);
        o -= oz * (p.outs.y * p.outs.z);
    }
    let oy = o / p.outs.z;
    let wy = window(oy, 1u, KERNEL_Y);
    let wx = window(o - oy * p.outs.z, 2u, KERNEL_X);
    var divisor = p.divisor;
    if (!MAX && divisor == 0.0) {
        divisor = span(wy, 1u) * span(wx, 2u);
        if (VOLUME) { divisor *= span(wz, 0u); }
    }
    for (var k = 0u; k < PLANES; k++) {
        let plane = block * PLANES + k;
        if (plane < p.planes) { pool(plane, plane * p.outs.w + at - block * p.outs.w, wz, wy, wx, divisor); }
    }
}

fn pool(plane: u32, at: u32, wz: vec2<u32>, wy: vec2<u32>, wx: vec2<u32>, divisor: f32) {
    let nz = select(KERNEL_Z, wz.y, ADAPTIVE);
    let ny = select(KERNEL_Y, wy.y, ADAPTIVE);
    let nx = select(KERNEL_X, wx.y, ADAPTIVE);
    let start = p.x_offset + plane * p.size.w;
    var best = -inf();
    var place = 0xffffffffu;
    var sum = 0.0;
    for (var kz = 0u; kz < nz; kz++) {
        let z = wz.x + kz * p.dilation.x;
        if (VOLUME && z >= p.size.x) { continue; }
        for (var ky = 0u; ky < ny; ky++) {
            let y = wy.x + ky * p.dilation.y;
            if (y >= p.size.y) { continue; }
            let row = (z * p.size.y + y) * p.size.z;
            for (var kx = 0u; kx < nx; kx++) {
                let across = wx.x + kx * p.dilation.z;
                if (across >= p.size.z) { continue; }
                let value = x[start + row + across];
                if (MAX) {
                    if (place == 0xffffffffu || value > best || is_nan(value)) {
                        best = value;
                        place = row + across;
                    }
                } else {
                    sum += value;
                }
            }
        }
    }
    if (MAX) {
        out[at] = best;
        if (PLACED) { index[at] = i32(place); }
    } else {
        out[at] = sum / divisor;
    }
}
