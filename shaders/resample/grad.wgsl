// resample_grad: x[plane, iz, iy, ix] = sum of g over the outputs whose taps reach there, each weighed; the transpose of forward.wgsl.
//
// A gather, in the order of the outputs: along each axis a source is reached from a run of outputs only.
//
// Bindings: 0 g (read), 1 x (read_write); both contiguous.
// Launch:   x = blocks * ceil(planes / 4) workgroups of 256; a thread makes one place of up to 4 planes.
// Sums:     in f32, fixed order.

const MODE: u32 = 2u;
const ALIGNED: bool = false;

struct Params {
    g_offset: u32, planes: u32, depth: u32, height: u32,
    width: u32, out_depth: u32, out_height: u32, out_width: u32,
    blocks: u32, scale_z: f32, scale_y: f32, scale_x: f32,
}
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read> g: array<f32>;
@group(0) @binding(1) var<storage, read_write> x: array<f32>;

@compute @workgroup_size(256)
fn main(grid: Grid, @builtin(local_invocation_index) local: u32) {
    let group = group_of(grid);
    let block = group / p.blocks;
    let place = (group - block * p.blocks) * 256u + local;
    let line = place / p.width;
    let iz = line / p.height;
    let iy = line - iz * p.height;
    let ix = place - line * p.width;
    let first_plane = block * 4u;
    if (iz >= p.depth || first_plane >= p.planes) {
        return;
    }
    let z = outputs_of(MODE, ALIGNED, iz, p.depth, p.out_depth, p.scale_z);
    let y = outputs_of(MODE, ALIGNED, iy, p.height, p.out_height, p.scale_y);
    let w = outputs_of(MODE, ALIGNED, ix, p.width, p.out_width, p.scale_x);
    let size = p.depth * p.height * p.width;
    let out_size = p.out_depth * p.out_height * p.out_width;
    let planes = min(4u, p.planes - first_plane);
    let start = p.g_offset + first_plane * out_size;
    var total = vec4<f32>(0.0);
    for (var oz = z.x; oz < z.y; oz++) {
        let weight_z = weight_from(taps_of(MODE, ALIGNED, oz, p.depth, p.out_depth, p.scale_z), iz, p.depth);
        for (var oy = y.x; oy < y.y; oy++) {
            let weight_y = weight_z * weight_from(taps_of(MODE, ALIGNED, oy, p.height, p.out_height, p.scale_y), iy, p.height);
            if (weight_y == 0.0) {
                continue;
            }
            for (var ox = w.x; ox < w.y; ox++) {
                let weight = weight_y * weight_from(taps_of(MODE, ALIGNED, ox, p.width, p.out_width, p.scale_x), ix, p.width);
                if (weight == 0.0) {
                    continue;
                }
                let at = start + (oz * p.out_height + oy) * p.out_width + ox;
                total.x += weight * g[at];
                for (var plane = 1u; plane < planes; plane++) {
                    total[plane] += weight * g[at + plane * out_size];
                }
            }
        }
    }
    for (var plane = 0u; plane < planes; plane++) {
        x[(first_plane + plane) * size + place] = total[plane];
    }
}
