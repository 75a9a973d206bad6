// loss_multi_margin_grad: dx[n, j] = g[n] * weight[label] / C where margin - x[label] + x[j] is above 0 (SQUARED: times twice that), else
// 0; of the label minus the sum of the others.
//
// Bindings: 0 g, 1 x, 2 target, 3 weight (read; absent unless WEIGHTED), 4 dx (read_write).
// Launch:   x = ceil(N / (256 / LANES)) workgroups of 256; LANES neighbouring threads share a row.
// Sums:     in f32: a serial run per thread, then by `row_total`; fixed order.

alias E = vec4<f32>;                // of x and dx: f32 where rows are no multiples of four
alias S = f32;
const WIDTH: u32 = 4u;              // elements of an E
const LANES: u32 = 4u;
const WEIGHTED: bool = false;
const SQUARED: bool = false;

struct Params {
    rows: u32, words: u32, margin: f32, // E of a row
    g_offset: u32, g_stride: u32, x_offset: u32, target_offset: u32, weight_offset: u32,
}
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read> g: array<f32>;
@group(0) @binding(1) var<storage, read> x: array<E>;
@group(0) @binding(2) var<storage, read> labels: array<i32>;
@group(0) @binding(3) var<storage, read> weight: array<f32>;
@group(0) @binding(4) var<storage, read_write> dx: array<E>;

fn element(at: u32, c: u32) -> f32 { return x[at][c]; }
fn put(at: u32, v: vec4<f32>) { dx[at] = v; }

fn slopes(terms: vec4<f32>) -> vec4<f32> {
    return select(select(vec4<f32>(), vec4<f32>(1.0), terms > vec4<f32>()), 2.0 * terms, SQUARED);
}

// An infinite weight of nothing is nothing.
fn scaled(slope: vec4<f32>, scale: f32) -> vec4<f32> { return select(slope * scale, vec4<f32>(), slope == vec4<f32>()); }

@compute @workgroup_size(256)
fn main(grid: Grid, @builtin(local_invocation_index) local: u32) {
    let row = group_of(grid) * (256u / LANES) + local / LANES;
    let lane = local % LANES;
    // Rows past the end do as the last one does, but for the stores: barriers need them.
    let nearest = min(row, p.rows - 1u);
    let start = p.x_offset + nearest * p.words;
    let label = u32(clamp(labels[p.target_offset + nearest], 0, i32(p.words * WIDTH) - 1));
    let far = p.margin - element(start + label / WIDTH, label % WIDTH);
    var scale = g[p.g_offset + nearest * p.g_stride] / f32(p.words * WIDTH);
    if (WEIGHTED) { scale *= weight[p.weight_offset + label]; }
    var sum = 0.0;
    var own = vec4<f32>();              // of the word that has the label, which is written last, by the thread that had it
    for (var j = lane; j < p.words; j += LANES) {
        let found = slopes(margin_terms(vec4<f32>(x[start + j]), far, WIDTH, label - j * WIDTH));
        sum += (found.x + found.y) + (found.z + found.w);
        if (j == label / WIDTH) { own = found; } else if (row < p.rows) { put(row * p.words + j, scaled(found, scale)); }
    }
    sum = row_total(local, sum);
    if (lane == label / WIDTH % LANES && row < p.rows) {
        let hot = vec4<u32>(label % WIDTH) == vec4<u32>(0u, 1u, 2u, 3u);
        put(row * p.words + label / WIDTH, scaled(select(own, vec4<f32>(-sum), hot), scale));
    }
}
