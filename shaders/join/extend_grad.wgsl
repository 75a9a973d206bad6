// extend_grad: dx[plane, i] = the sum of g[plane, o] over the outputs that `extend` makes of element i.
//
// Bindings: 0 g (read), 1 dx (read_write).
// Launch:   x = ceil(count / 256) workgroups of 256; a thread makes an element in each of PLANES planes.
// Sums:     serial in A, in a fixed order.

alias E = f32;
alias A = f32;
const REFLECT: u32 = 1u;
const REPLICATE: u32 = 2u;
const CIRCULAR: u32 = 3u;
const MODE: u32 = REFLECT;
const VOLUME: bool = true;
const PLANES: u32 = 4u;

struct Params {
    size: vec4<u32>,                    // of dx: depth, height, width, and their product
    outs: vec4<u32>,
    before: vec4<i32>,
    count: u32, planes: u32, g_offset: u32,
}
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read> g: array<E>;
@group(0) @binding(1) var<storage, read_write> dx: array<E>;

// The outputs that may take element i along an axis: (first, how many), of which `taker` names each.
fn takers(i: i32, axis: u32) -> vec2<i32> {
    if (MODE != REPLICATE) { return vec2<i32>(0, 3); }
    let first = max(select(i + p.before[axis], 0, i == 0), 0);
    let end = min(select(i + p.before[axis] + 1, i32(p.outs[axis]), i + 1 == i32(p.size[axis])), i32(p.outs[axis]));
    return vec2<i32>(first, end - first);
}

// One of them; p.outs[axis] or more where it is none.
fn taker(i: i32, axis: u32, first: i32, k: i32) -> u32 {
    let n = i32(p.size[axis]);
    let before = p.before[axis];
    if (MODE == REPLICATE) { return u32(first + k); }
    if (MODE == CIRCULAR) { return u32(before + i + select(k, -1, k == 2) * n); }
    if (k == 1) { return u32(select(before - i, -1, i == 0)); }
    if (k == 2) { return u32(select(before + 2 * (n - 1) - i, -1, i == n - 1)); }
    return u32(before + i);
}

@compute @workgroup_size(256)
fn main(grid: Grid, @builtin(local_invocation_index) local: u32) {
    let at = group_of(grid) * 256u + local;
    if (at >= p.count) {
        return;
    }
    let block = at / p.size.w;
    let mine = at - block * p.size.w;
    let plane_of = p.size.y * p.size.z;
    let z = select(0u, mine / plane_of, VOLUME);
    let y = (mine - z * plane_of) / p.size.z;
    let across = mine - z * plane_of - y * p.size.z;
    var of_z = vec2<i32>(0, 1);
    if (VOLUME) { of_z = takers(i32(z), 0u); }
    let of_y = takers(i32(y), 1u);
    let of_x = takers(i32(across), 2u);
    var sums: array<A, PLANES>;
    for (var a = 0; a < of_z.y; a++) {
        let oz = select(0u, taker(i32(z), 0u, of_z.x, a), VOLUME);
        if (oz >= p.outs.x) { continue; }
        for (var b = 0; b < of_y.y; b++) {
            let oy = taker(i32(y), 1u, of_y.x, b);
            if (oy >= p.outs.y) { continue; }
            for (var c = 0; c < of_x.y; c++) {
                let ox = taker(i32(across), 2u, of_x.x, c);
                if (ox >= p.outs.z) { continue; }
                let o = p.g_offset + (oz * p.outs.y + oy) * p.outs.z + ox;
                for (var k = 0u; k < PLANES; k++) {
                    // Beyond the last plane that plane is read again.
                    sums[k] += A(g[o + min(block * PLANES + k, p.planes - 1u) * p.outs.w]);
                }
            }
        }
    }
    for (var k = 0u; k < PLANES; k++) {
        let plane = block * PLANES + k;
        if (plane < p.planes) { dx[plane * p.size.w + mine] = E(sums[k]); }
    }
}
