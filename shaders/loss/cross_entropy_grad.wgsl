// loss_cross_entropy_grad: dx[n, j] = g[n] * (softmax[n, j] - (j == target[n])), 0 where target is ignored. A row of dx takes `width`.
// With smoothing, the label has `hot` instead of the one, and all others have `rest`.
//
// Bindings: 0 g, 1 softmax, 2 target (read), 3 dx (read_write).
// Launch:   x = ceil(N / (256 / LANES)) workgroups of 256; LANES neighbouring threads share a row, of which each takes four elements at a
//           time.
// Sums:     none.

alias E = vec4<f32>;                // of softmax and dx: f32 where their rows are no multiples of four
const LANES: u32 = 4u;

struct Params {
    rows: u32, classes: u32, g_offset: u32, g_stride: u32,
    softmax_offset: u32, softmax_stride: u32, target_offset: u32, ignore: i32,
    width: u32, hot: f32, rest: f32,
}
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read> g: array<f32>;
@group(0) @binding(1) var<storage, read> softmax: array<E>;
@group(0) @binding(2) var<storage, read> labels: array<i32>;
@group(0) @binding(3) var<storage, read_write> dx: array<E>;

fn word(at: u32, room: u32) -> vec4<f32> { return softmax[at / 4u]; }
fn put(at: u32, room: u32, v: vec4<f32>) { dx[at / 4u] = v; }

@compute @workgroup_size(256)
fn main(grid: Grid, @builtin(local_invocation_index) local: u32) {
    let row = group_of(grid) * (256u / LANES) + local / LANES;
    if (row >= p.rows) {
        return;
    }
    let label = labels[p.target_offset + row];
    let counts = label != p.ignore;
    let at = u32(clamp(label, 0, i32(p.classes) - 1));
    let slope = g[p.g_offset + row * p.g_stride];
    for (var j = 4u * (local % LANES); j < p.classes; j += 4u * LANES) {
        let ones = select(vec4<f32>(p.rest), vec4<f32>(p.hot), vec4<u32>(j) + vec4<u32>(0u, 1u, 2u, 3u) == vec4<u32>(at));
        let value = slope * (word(p.softmax_offset + row * p.softmax_stride + j, p.classes - j) - ones);
        put(row * p.width + j, p.classes - j, select(vec4<f32>(), value, counts));
    }
}
