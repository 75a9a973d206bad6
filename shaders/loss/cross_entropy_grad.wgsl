// loss_cross_entropy_grad: dx[n, j] = g[n] * (softmax[n, j] - (j == target[n])), 0 where target is ignored. A row of dx takes `width`.
//
// Bindings: 0 g, 1 softmax, 2 target (read), 3 dx (read_write).
// Launch:   x = ceil(N / (256 / LANES)) workgroups of 256; LANES neighbouring threads share a row, with four reads on their way each.
// Sums:     none.

const LANES: u32 = 4u;

struct Params {
    rows: u32, classes: u32, g_offset: u32, g_stride: u32,
    softmax_offset: u32, target_offset: u32, ignore: i32, width: u32,
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
    let start = p.softmax_offset + row * p.classes;
    let label = labels[p.target_offset + row];
    let counts = label != p.ignore;
    let hot = u32(clamp(label, 0, i32(p.classes) - 1));
    let slope = g[p.g_offset + row * p.g_stride];
    for (var j = local % LANES; j < p.classes; j += 4u * LANES) {
        let columns = vec4<u32>(j) + vec4<u32>(0u, 1u, 2u, 3u) * LANES;
        let at = min(columns, vec4<u32>(p.classes - 1u)) + start;
        let shares = vec4<f32>(softmax[at.x], softmax[at.y], softmax[at.z], softmax[at.w]);
        let values = slope * (shares - select(vec4<f32>(), vec4<f32>(1.0), columns == vec4<u32>(hot)));
        for (var c = 0u; c < 4u; c += 1u) {
            if (columns[c] < p.classes) { dx[row * p.width + columns[c]] = select(0.0, values[c], counts); }
        }
    }
}
