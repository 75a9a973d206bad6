// extend: out[plane, o] = x[plane, i]; along each of three axes i is o less what comes before the first element, or what MODE says of a
// place beyond the edge.
//
// CONSTANT: `value` is there. REFLECT: the neighbours, mirrored at the edge. REPLICATE: the edge. CIRCULAR: the other end.
//
// Bindings: 0 x (read), 1 out (read_write).
// Launch:   x = ceil(count / 256) workgroups of 256; a thread makes an element in each of PLANES planes, for which it finds the place once.
// Sums:     none. Copies bits: E is u32 for every type of 32 bits.

alias E = u32;
const CONSTANT: u32 = 0u;
const REFLECT: u32 = 1u;
const REPLICATE: u32 = 2u;
const CIRCULAR: u32 = 3u;
const MODE: u32 = CONSTANT;
const VOLUME: bool = true;              // more than one plane of depth, in or out
const PLANES: u32 = 4u;

struct Params {
    size: vec4<u32>,                    // of x: depth, height, width, and their product
    outs: vec4<u32>,
    before: vec4<i32>,
    count: u32, planes: u32, x_offset: u32,
    value: u32,
}
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read> x: array<E>;
@group(0) @binding(1) var<storage, read_write> out: array<E>;

fn value() -> E { return bitcast<E>(p.value); }

// The element that output o takes along an axis; p.size[axis] or more where there is none.
fn source(o: u32, axis: u32) -> u32 {
    let n = i32(p.size[axis]);
    let i = i32(o) - p.before[axis];
    if (MODE == REFLECT) { return u32(min(abs(i), 2 * (n - 1) - i)); }
    if (MODE == REPLICATE) { return u32(clamp(i, 0, n - 1)); }
    if (MODE == CIRCULAR) { return u32(select(i, select(i - n, i + n, i < 0), i < 0 || i >= n)); }
    return u32(i);
}

@compute @workgroup_size(256)
fn main(grid: Grid, @builtin(local_invocation_index) local: u32) {
    let at = group_of(grid) * 256u + local;
    if (at >= p.count) {
        return;
    }
    let block = at / p.outs.w;
    let mine = at - block * p.outs.w;
    var o = mine;
    var z = 0u;
    if (VOLUME) {
        let oz = o / (p.outs.y * p.outs.z);
        z = source(oz, 0u);
        o -= oz * (p.outs.y * p.outs.z);
    }
    let oy = o / p.outs.z;
    let y = source(oy, 1u);
    let across = source(o - oy * p.outs.z, 2u);
    let inside = MODE != CONSTANT || (z < p.size.x && y < p.size.y && across < p.size.z);
    let from_plane = p.x_offset + (z * p.size.y + y) * p.size.z + across;
    var found: array<E, PLANES>;        // all are on their way before the first is written
    for (var k = 0u; k < PLANES; k++) {
        found[k] = value();
        if (inside) { found[k] = x[from_plane + min(block * PLANES + k, p.planes - 1u) * p.size.w]; }
    }
    for (var k = 0u; k < PLANES; k++) {
        let plane = block * PLANES + k;
        if (plane < p.planes) { out[plane * p.outs.w + mine] = found[k]; }
    }
}
