// distances_grad: the gradient of x1 by g, that of the distances `size` of its rows from those of x2.
//
// A workgroup has 256 / COLUMNS rows of x1 and COLUMNS elements of each, a thread one; it goes along a part of the rows of x2, STEP at a
// time, for which the scale of each pair, the same for all elements, is worked out once.
// PAIRS: as in distances.
//
// Bindings: 0 g, 1 x1, 2 x2, 3 size (read), 4 out[parts, batch, n, m] (read_write).
// Launch:   x = parts * batch * ceil(n / ROWS) * ceil(m / COLUMNS) workgroups of 256.
// Sums:     float32, in the order of the rows; those of parts are left to be added.

const COLUMNS: u32 = 4u;
const PAIRS: bool = false;
fn scale_of(g: f32, size: f32) -> f32 { return select(g / size, 0.0, size == 0.0); }
fn slope(d: f32, size: f32, scale: f32) -> f32 { return scale * d; }

struct Params {
    batch: u32, n: u32, r: u32, m: u32,
    g_offset: u32, x1_offset: u32, x2_offset: u32, size_offset: u32,
    part: u32, parts: u32,
    power: f32,
}
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read> g: array<f32>;
@group(0) @binding(1) var<storage, read> x1: array<f32>;
@group(0) @binding(2) var<storage, read> x2: array<f32>;
@group(0) @binding(3) var<storage, read> sizes: array<f32>;
@group(0) @binding(4) var<storage, read_write> out: array<f32>;

const ROWS: u32 = 256u / COLUMNS;
const STEP: u32 = 16u;
var<workgroup> scales: array<f32, ROWS * STEP>;
var<workgroup> lengths: array<f32, ROWS * STEP>;

@compute @workgroup_size(256)
fn main(grid: Grid, @builtin(local_invocation_index) local: u32) {
    let across = (p.m + COLUMNS - 1u) / COLUMNS;
    let down = (p.n + ROWS - 1u) / ROWS;
    let group = group_of(grid);
    let part = group / (across * down * p.batch);
    if (part >= p.parts) {
        return;
    }
    let batch = group / (across * down) % p.batch;
    let first_i = group / across % down * ROWS;
    let row = local / COLUMNS;
    let i = first_i + row;
    let k = group % across * COLUMNS + local % COLUMNS;
    let inside = i < p.n && k < p.m;
    let own = (batch * p.n + i) * p.m + k;
    let each = select(p.n * p.r, p.n * (p.n - 1u) / 2u, PAIRS);
    let here = x1[p.x1_offset + select(0u, own, inside)];
    var total = 0.0;
    let end = min(p.r, (part + 1u) * p.part);
    for (var start = part * p.part; start < end; start += STEP) {
        for (var t = local; t < ROWS * STEP; t += 256u) {
            let a = first_i + t / STEP;
            let b = start + t % STEP;
            scales[t] = 0.0;
            lengths[t] = 0.0;
            if (a < p.n && b < end && !(PAIRS && a == b)) {
                let at = batch * each + select(a * p.r + b, pair_number(min(a, b), max(a, b), p.n), PAIRS);
                lengths[t] = sizes[p.size_offset + at];
                scales[t] = scale_of(g[p.g_offset + at], lengths[t]);
            }
        }
        workgroupBarrier();
        if (inside) {
            for (var b = 0u; b < min(STEP, end - start); b++) {
                if (!PAIRS || start + b != i) {
                    let d = here - x2[p.x2_offset + (batch * p.r + start + b) * p.m + k];
                    total += slope(d, lengths[row * STEP + b], scales[row * STEP + b]);
                }
            }
        }
        workgroupBarrier();
    }
    if (inside) { out[part * p.batch * p.n * p.m + own] = total; }
}
