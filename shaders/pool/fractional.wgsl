// fractional: the largest of each window that begins at a random step, and its place in the plane. Of equal elements the first wins, of
// NaN the last.
//
// A thread makes one output. RANK 2 or 3; the samples of a plane are RANK numbers, of two the width's first.
//
// Bindings: 0 x, 1 samples (read), 2 out, 3 index (read_write).
// Launch:   x = ceil(count / 256) workgroups of 256.
// Sums:     none.

const RANK: u32 = 2u;

struct Params {
    size: vec4<u32>,            // depth, height, width, and their product
    outs: vec4<u32>,
    kernel: vec4<u32>,
    step: vec4<f32>,            // of the windows of each axis
    count: u32, x_offset: u32, samples_offset: u32,
}
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(1) var<storage, read> samples: array<f32>;
@group(0) @binding(2) var<storage, read_write> out: array<f32>;
@group(0) @binding(3) var<storage, read_write> index: array<i32>;

// Where window o of an axis begins.
fn start(plane: u32, o: u32, axis: u32) -> u32 {
    let last = p.size[axis] - p.kernel[axis];
    if (o + 1u >= p.outs[axis]) { return last; }
    let sample = samples[p.samples_offset + plane * RANK + select(2u - axis, axis, RANK == 3u)];
    let first = i32((f32(o) + sample) * p.step[axis]) - i32(sample * p.step[axis]);
    return u32(clamp(first, 0, i32(last)));
}

@compute @workgroup_size(256)
fn main(grid: Grid, @builtin(local_invocation_index) local: u32) {
    let i = group_of(grid) * 256u + local;
    if (i >= p.count) {
        return;
    }
    let plane = i / p.outs.w;
    let o = i - plane * p.outs.w;
    let line = o / p.outs.z;
    var z = 0u;
    if (RANK == 3u) { z = start(plane, line / p.outs.y, 0u); }
    let y = start(plane, line % p.outs.y, 1u);
    let first = (z * p.size.y + y) * p.size.z + start(plane, o - line * p.outs.z, 2u);
    let base = p.x_offset + plane * p.size.w;
    var best = -inf();
    var place = first;
    for (var kz = 0u; kz < p.kernel.x; kz++) {
        for (var ky = 0u; ky < p.kernel.y; ky++) {
            let row = first + (kz * p.size.y + ky) * p.size.z;
            for (var kx = 0u; kx < p.kernel.z; kx++) {
                let value = x[base + row + kx];
                if (value > best || is_nan(value)) {
                    best = value;
                    place = row + kx;
                }
            }
        }
    }
    out[i] = best;
    index[i] = i32(place);
}
