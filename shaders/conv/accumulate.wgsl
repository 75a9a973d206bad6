// conv_accumulate: total += part, for gradients that are made in pieces.
//
// Bindings: 0 part (read), 1 total (read_write).
// Launch:   x = ceil(count / 256) workgroups of 256; a thread adds one element.
// Sums:     in f32, in the order of the pieces.

struct Params {
    count: u32,
}
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read> part: array<f32>;
@group(0) @binding(1) var<storage, read_write> total: array<f32>;

@compute @workgroup_size(256)
fn main(grid: Grid, @builtin(local_invocation_index) local: u32) {
    let i = group_of(grid) * 256u + local;
    if (i < p.count) {
        total[i] += part[i];
    }
}
