// loss_nll_grad: dx[n, c, s] = -g * weight[label] where c is the label of (n, s), else 0, and 0 where it is ignored; PICKED: dx[n, s],
// without the sign. With MEAN it is divided by `total`.
//
// Bindings: 0 g, 1 labels, 2 weight, 3 total (read; weight absent unless WEIGHTED, total unless MEAN), 4 dx (read_write).
// Launch:   x = ceil(count / 1024) workgroups of 256; a thread writes four elements side by side.
// Sums:     none.

const PICKED: bool = false;
const WEIGHTED: bool = false;
const MEAN: bool = true;

struct Params {
    count: u32, classes: u32, inner: u32, // elements of dx
    g_offset: u32, g_step: u32,         // 0 where there is one g for all
    labels_offset: u32, weight_offset: u32, total_offset: u32,
    ignore: i32,
}
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read> g: array<f32>;
@group(0) @binding(1) var<storage, read> labels: array<i32>;
@group(0) @binding(2) var<storage, read> weight: array<f32>;
@group(0) @binding(3) var<storage, read> total: array<f32>;
@group(0) @binding(4) var<storage, read_write> dx: array<vec4<f32>>;

// Of what the label of entry i says, where it is `column`.
fn slope(i: u32, column: u32) -> f32 {
    let label = labels[p.labels_offset + i];
    let nearest = u32(clamp(label, 0, i32(p.classes) - 1));
    if (label == p.ignore || !PICKED && nearest != column) { return 0.0; }
    var value = g[p.g_offset + i * p.g_step];
    if (WEIGHTED) { value *= weight[p.weight_offset + nearest]; }
    if (MEAN) { value /= total[p.total_offset]; }
    return select(-value, value, PICKED);
}

@compute @workgroup_size(256)
fn main(grid: Grid, @builtin(local_invocation_index) local: u32) {
    let start = 4u * (group_of(grid) * 256u + local);
    if (start >= p.count) {
        return;
    }
    var found: array<f32, 4>;
    let line = start / p.inner;
    var inner = start - line * p.inner;
    var row = line / p.classes;
    var column = line - row * p.classes;
    for (var k = 0u; k < 4u; k++) {
        if (start + k < p.count) {
            if (PICKED) { found[k] = slope(start + k, 0u); } else { found[k] = slope(row * p.inner + inner, column); }
        }
        inner++;
        if (inner == p.inner) {
            inner = 0u;
            column++;
        }
        if (column == p.classes) {
            column = 0u;
            row++;
        }
    }
    let values = vec4<f32>(found[0], found[1], found[2], found[3]);
    let left = p.count - start;
    if (left > 3u) {
        dx[start / 4u] = values;
        return;
    }
    dx[start / 4u].x = values.x;
    if (left > 1u) { dx[start / 4u].y = values.y; }
    if (left > 2u) { dx[start / 4u].z = values.z; }
}
