// pool: out[plane, o] = the largest (MAX) or the average of the window of output o in x[plane, depth, height, width].
//
// A window is `kernel` elements a dimension with steps of the dilation, or with ADAPTIVE from floor(o * n / m) to ceil((o + 1) * n / m).
// The first of equal maxima counts, the last NaN wins over all numbers, and padding never does; index is the place in the plane, -1 of a
// window of padding alone.
//
// Bindings: 0 x (read), 1 out, 2 index (read_write; absent without PLACED).
// Launch:   x = ceil(count / 256) workgroups of 256; a thread makes an output in each of PLANES planes, for which it finds the window once;
//           or x = ceil(count * LANES / 256), where LANES threads share a window and PLANES is 1.
// Sums:     in f32, serial, or of every LANES-th element, then in pairs.

const MAX: bool = true;
const PLACED: bool = true;              // the places of maxima are wanted
const ADAPTIVE: bool = false;
const VOLUME: bool = true;              // more than one plane of depth, in or out
const COUNT_PADDING: bool = true;       // an average divides by the padding too
const KERNEL_Z: u32 = 1u;
const KERNEL_Y: u32 = 2u;
const KERNEL_X: u32 = 2u;
const PLANES: u32 = 4u;
const LANES: u32 = 1u;                  // a power of two

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

const NONE: u32 = 0xffffffffu;
struct Found { best: f32, place: u32, sum: f32, }       // place: NONE where there was no element
var<workgroup> found: array<Found, select(256u, 1u, LANES == 1u)>;

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
    let given = group_of(grid) * (256u / LANES) + local / LANES;
    let at = min(given, p.count - 1u);
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
    if (LANES == 1u) {
        for (var k = 0u; k < PLANES; k++) {
            let plane = block * PLANES + k;
            if (given < p.count && plane < p.planes) {
                put(pool(plane, wz, wy, wx), plane * p.outs.w + at - block * p.outs.w, divisor);
            }
        }
    } else {
        found[local] = pool_shared(block, local % LANES, wz, wy, wx);
        for (var step = LANES / 2u; step > 0u; step /= 2u) {
            workgroupBarrier();
            if (local % LANES < step) { found[local] = both(found[local], found[local + step]); }
        }
        if (local % LANES == 0u && given < p.count) { put(found[local], at, divisor); }
    }
}

fn put(found: Found, at: u32, divisor: f32) {
    if (MAX) {
        out[at] = found.best;
        if (PLACED) { index[at] = i32(found.place); }
    } else {
        out[at] = found.sum / divisor;
    }
}

// With one more element, which comes behind those before.
fn with_one(found: Found, value: f32, place: u32) -> Found {
    if (!MAX) { return Found(0.0, 0u, found.sum + value); }
    if (found.place == NONE || value > found.best || is_nan(value)) { return Found(value, place, 0.0); }
    return found;
}

// Of two parts of a window, whose elements may lie between each other's.
fn both(a: Found, b: Found) -> Found {
    if (!MAX) { return Found(0.0, 0u, a.sum + b.sum); }
    if (a.place == NONE || b.place == NONE) {
        if (a.place == NONE) { return b; }
        return a;
    }
    let later = a.place < b.place;
    var second = b.best > a.best || (b.best == a.best && !later);
    if (is_nan(a.best) || is_nan(b.best)) { second = is_nan(b.best) && (later || !is_nan(a.best)); }
    if (second) { return b; }
    return a;
}

fn pool(plane: u32, wz: vec2<u32>, wy: vec2<u32>, wx: vec2<u32>) -> Found {
    let nz = select(KERNEL_Z, wz.y, ADAPTIVE);
    let ny = select(KERNEL_Y, wy.y, ADAPTIVE);
    let nx = select(KERNEL_X, wx.y, ADAPTIVE);
    let start = p.x_offset + plane * p.size.w;
    var found = Found(-inf(), NONE, 0.0);
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
                found = with_one(found, x[start + row + across], row + across);
            }
        }
    }
    return found;
}

// The same of every LANES-th element from number `lane` on.
fn pool_shared(plane: u32, lane: u32, wz: vec2<u32>, wy: vec2<u32>, wx: vec2<u32>) -> Found {
    let start = p.x_offset + plane * p.size.w;
    var found = Found(-inf(), NONE, 0.0);
    for (var e = lane; e < wz.y * wy.y * wx.y; e += LANES) {
        let row = e / wx.y;
        let place = vec3<u32>(row / wy.y, row % wy.y, e - row * wx.y) * p.dilation.xyz + vec3<u32>(wz.x, wy.x, wx.x);
        if ((!VOLUME || place.x < p.size.x) && place.y < p.size.y && place.z < p.size.z) {
            let at = (place.x * p.size.y + place.y) * p.size.z + place.z;
            found = with_one(found, x[start + at], at);
        }
    }
    return found;
}
