// resample_forward: out[plane, oz, oy, ox] = sum of x over the taps of oz, oy and ox, each weighed; formulas: ops/records/resample.py.
//
// Bindings: 0 x (read), 1 out (read_write); both contiguous.
// Launch:   x = blocks * ceil(planes / 4) workgroups of 256; a thread makes one place of up to 4 planes, whose taps are found once.
// Sums:     in f32: along a row, then the rows.

const MODE: u32 = 2u;
const ALIGNED: bool = false;
const ROUNDED: bool = false; // weights are parts of 1 / unit

struct Params {
    x_offset: u32, planes: u32, depth: u32, height: u32,
    width: u32, out_depth: u32, out_height: u32, out_width: u32,
    blocks: u32, scale_z: f32, scale_y: f32, scale_x: f32,
    unit_z: f32, unit_y: f32, unit_x: f32,
}
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(1) var<storage, read_write> out: array<f32>;

// One of each of four planes, read at once: nobody waits for one before asking for the next.
fn elements(planes: vec4<u32>, at: u32) -> vec4<f32> {
    return vec4<f32>(x[planes.x + at], x[planes.y + at], x[planes.z + at], x[planes.w + at]);
}

@compute @workgroup_size(256)
fn main(grid: Grid, @builtin(local_invocation_index) local: u32) {
    let group = group_of(grid);
    let block = group / p.blocks;
    let place = (group - block * p.blocks) * 256u + local;
    let line = place / p.out_width;
    let oz = line / p.out_height;
    let first_plane = block * 4u;
    if (oz >= p.out_depth || first_plane >= p.planes) {
        return;
    }
    var z = taps_of(MODE, ALIGNED, oz, p.depth, p.out_depth, p.scale_z);
    var y = taps_of(MODE, ALIGNED, line - oz * p.out_height, p.height, p.out_height, p.scale_y);
    var w = taps_of(MODE, ALIGNED, place - line * p.out_width, p.width, p.out_width, p.scale_x);
    if (ROUNDED) {
        z = rounded_taps(z, p.depth, p.unit_z);
        y = rounded_taps(y, p.height, p.unit_y);
        w = rounded_taps(w, p.width, p.unit_x);
    }
    let size = p.depth * p.height * p.width;
    let out_size = p.out_depth * p.out_height * p.out_width;
    let planes = min(vec4<u32>(first_plane) + vec4<u32>(0u, 1u, 2u, 3u), vec4<u32>(p.planes - 1u)) * size + vec4<u32>(p.x_offset);
    var total = vec4<f32>();
    if (MODE < 2u) {
        total = elements(planes, (tap_source(z, 0u, p.depth) * p.height + tap_source(y, 0u, p.height)) * p.width +
            tap_source(w, 0u, p.width));
    }
    for (var i = 0u; MODE > 1u && i < z.count; i++) {
        for (var j = 0u; j < y.count; j++) {
            let start = (tap_source(z, i, p.depth) * p.height + tap_source(y, j, p.height)) * p.width;
            var row = tap_weight(w, 0u) * elements(planes, start + tap_source(w, 0u, p.width));
            for (var k = 1u; k < w.count; k++) {
                row += tap_weight(w, k) * elements(planes, start + tap_source(w, k, p.width));
            }
            total += tap_weight(z, i) * tap_weight(y, j) * row;
        }
    }
    for (var k = 0u; k < 4u; k++) {
        if (first_plane + k < p.planes) { out[(first_plane + k) * out_size + place] = total[k]; }
    }
}
