// loss_cross_entropy_grad: dx[n, j] = g[n] * (softmax[n, j] - (j == target[n])), 0 where target is ignored.
//
// Bindings: 0 g, 1 softmax, 2 target (read), 3 dx (read_write).
// Launch:   x = ceil(N / (256 / LANES)) workgroups of 256; LANES neighbouring threads share a row.
// Sums:     none.

const LANES: u32 = 4u;

struct Params {
    rows: u32, classes: u32, g_offset: u32, g_stride: u32,
    softmax_offset: u32, target_offset: u32, ignore: i32,
}
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read> g: array<f32>;
@group(0) @binding(1) var<storage, read> softmax: array<f32>;
@group(0) @binding(2) var<storage, read> labels: array<i32>;
@group(0) @binding(3) var<storage, read_write> dx: array<f32>;

@compute @workgroup_size(256)
fn main(grid: Grid, @builtin(local_invocation_index) local: u32) {
    let row = group_of(grid) * (256u / LANES) + local / LANES;
    if (row >= p.rows) {
        return;
    }
    let start = row * p.classes;
    let label = labels[p.target_offset + row];
    let counts = label != p.ignore;
    let hot = u32(clamp(label, 0, i32(p.classes) - 1));
    let slope = g[p.g_offset + row * p.g_stride];
    for (var j = local % LANES; j < p.classes; j += LANES) {
        var value = 0.0;
        if (counts) {
            value = slope * (softmax[p.softmax_offset + start + j] - select(0.0, 1.0, j == hot));
        }
        dx[start + j] = value;
    }
}
