// loss_multi_margin: of a row of x[N, C] the sum over all classes but the label of max(0, margin - x[label] + x[j]), or of its square,
// divided by C and times the label's weight. A term that is NaN counts as 0, as in PyTorch.
//
// Bindings: 0 x, 1 target, 2 weight (read; absent unless WEIGHTED), 3 loss (read_write).
// Launch:   x = ceil(N / (256 / LANES)) workgroups of 256; LANES neighbouring threads share a row.
// Sums:     in f32: a serial run per thread, then by `row_total`; fixed order.

alias E = vec4<f32>;                // of x: f32 where rows are no multiples of four
alias S = f32;
const WIDTH: u32 = 4u;              // elements of an E
const LANES: u32 = 4u;
const WEIGHTED: bool = false;
const SQUARED: bool = false;

struct Params {
    rows: u32, words: u32, margin: f32, // E of a row
    x_offset: u32, target_offset: u32, weight_offset: u32,
}
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read> x: array<E>;
@group(0) @binding(1) var<storage, read> labels: array<i32>;
@group(0) @binding(2) var<storage, read> weight: array<f32>;
@group(0) @binding(3) var<storage, read_write> loss: array<f32>;

fn element(at: u32, c: u32) -> f32 { return x[at][c]; }

@compute @workgroup_size(256)
fn main(grid: Grid, @builtin(local_invocation_index) local: u32) {
    let row = group_of(grid) * (256u / LANES) + local / LANES;
    let lane = local % LANES;
    // Rows past the end do as the last one does, up to the store: barriers need them.
    let nearest = min(row, p.rows - 1u);
    let start = p.x_offset + nearest * p.words;
    let label = u32(clamp(labels[p.target_offset + nearest], 0, i32(p.words * WIDTH) - 1));
    let far = p.margin - element(start + label / WIDTH, label % WIDTH);
    var sum = 0.0;
    for (var j = lane; j < p.words; j += LANES) {
        let terms = margin_terms(vec4<f32>(x[start + j]), far, WIDTH, label - j * WIDTH);
        let counted = select(terms, terms * terms, SQUARED);
        sum += (counted.x + counted.y) + (counted.z + counted.w);
    }
    sum = row_total(local, sum) / f32(p.words * WIDTH);
    if (lane > 0u || row >= p.rows) {
        return;
    }
    if (WEIGHTED && sum > 0.0) { sum *= weight[p.weight_offset + label]; }   // an infinite weight of nothing is nothing
    loss[row] = sum;
}
