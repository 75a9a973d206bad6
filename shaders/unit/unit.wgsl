// unit: x divided by its length along a dimension, or by eps where that is more, and the lengths; with GRAD the gradient of x by g.
//
// A workgroup of 256 threads takes 256 / LANES rows with LANES threads each, a power of two. With ADJACENT the lanes of a row are
// neighbours (rows that are contiguous; a V has four elements of a row, or one), else the rows are (a V has four rows, or one).
//
// Bindings: 0 x, 1 g, 2 sizes_in (read; the last two absent without GRAD), 3 out, 4 sizes (read_write; sizes absent with GRAD).
// Launch:   x = ceil(rows / (256 / LANES)).
// Sums:     float32: a serial run per thread and element of V, then of threads; fixed order.

alias V = vec4<f32>;
alias S = f32;                  // the lengths of V's rows: V where the rows are neighbours
const LANES: u32 = 64u;
const ADJACENT: bool = true;
const GRAD: bool = false;
fn fold(v: V) -> V { return V((v.x + v.y) + (v.z + v.w)); }     // of a row alone
fn size_of(v: V) -> S { return v.x; }
fn limited(v: V) -> V { return V(max_nan(v.x, p.eps), max_nan(v.y, p.eps), max_nan(v.z, p.eps), max_nan(v.w, p.eps)); }

struct Params {
    kept: u32,                  // rows
    inner: u32,
    outer_stride: u32,          // strides in V's, the same for all
    stride: u32,
    count: u32,                 // V's of a row
    x_offset: u32,
    g_offset: u32,
    size_offset: u32,
    eps: f32,
}
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read> x: array<V>;
@group(0) @binding(1) var<storage, read> g: array<V>;
@group(0) @binding(2) var<storage, read> sizes_in: array<S>;
@group(0) @binding(3) var<storage, read_write> out: array<V>;
@group(0) @binding(4) var<storage, read_write> sizes: array<S>;

const ROWS: u32 = 256u / LANES;
var<workgroup> sums: array<V, 256>;

@compute @workgroup_size(256)
fn main(grid: Grid, @builtin(local_invocation_index) thread: u32) {
    var lane = thread / ROWS;
    var slot = thread % ROWS;
    if (ADJACENT) { lane = thread % LANES; slot = thread / LANES; }
    let row = group_of(grid) * ROWS + slot;
    let count = select(0u, p.count, row < p.kept);
    let safe = min(row, p.kept - 1u);
    let at = (safe / p.inner) * p.outer_stride + safe % p.inner;
    var sum = V(0.0);
    for (var i = lane; i < count; i += LANES) {
        let one = x[p.x_offset + at + i * p.stride];
        if (GRAD) { sum += one * g[p.g_offset + at + i * p.stride]; } else { sum += one * one; }
    }
    let place = lane * ROWS + slot;
    sums[place] = sum;
    for (var half = LANES / 2u; half > 0u; half = half / 2u) {
        workgroupBarrier();
        if (lane < half) {
            sum += sums[place + half * ROWS];
            sums[place] = sum;
        }
    }
    workgroupBarrier();
    sum = fold(sums[slot]);
    if (GRAD) {
        let size = V(sizes_in[p.size_offset + safe]);
        let scale = V(1.0) / limited(size);
        // Of a length below eps the quotient is by eps.
        let along = select(V(0.0), sum * scale, (size >= V(p.eps)) & (size > V(0.0))) * scale;
        for (var i = lane; i < count; i += LANES) {
            let k = at + i * p.stride;
            out[k] = (g[p.g_offset + k] - x[p.x_offset + k] * along) * scale;
        }
        return;
    }
    let size = sqrt(sum);
    let scale = V(1.0) / limited(size);
    for (var i = lane; i < count; i += LANES) {
        let k = at + i * p.stride;
        out[k] = x[p.x_offset + k] * scale;
    }
    if (lane == 0u && count > 0u) { sizes[row] = size_of(size); }
}
