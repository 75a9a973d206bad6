// Derivatives of softmax and log_softmax by their outputs y: y (g - sum(g y)), and g - e^y sum(g).
// A workgroup of 256 threads takes 256 / LANES rows with LANES threads each; LANES is a power of two. With ADJACENT the lanes
// of a row are neighbours (softmax over the last dim; E holds four elements of a row, or one), else the rows are (E holds
// four rows, or one). Launch: x = ceil(rows / (256 / LANES)). float32 throughout; trees of fixed order in workgroup memory.
alias E = vec4<f32>;            // in memory
alias V = vec4<f32>;            // in arithmetic
const LANES: u32 = 256u;
const ADJACENT: bool = true;
const ITEMS: u32 = 8u;          // units that a thread keeps in registers
const FITS: bool = true;        // a row fits LANES * ITEMS units; else it is read twice
const LOG: bool = false;        // log_softmax
fn fold_sum(v: V) -> V { return V((v.x + v.y) + (v.z + v.w)); }
struct Params {
    kept: u32,                  // rows
    inner: u32,
    outer_stride: u32,          // strides in units of E, the same for all buffers
    stride: u32,
    count: u32,                 // units of a row
    g_offset: u32,
    y_offset: u32,
}
var<immediate> p: Params;

@group(0) @binding(0) var<storage, read> g: array<E>;
@group(0) @binding(1) var<storage, read> y: array<E>;
@group(0) @binding(2) var<storage, read_write> out: array<E>;

const ROWS: u32 = 256u / LANES;

var<workgroup> sums: array<V, 256>;

fn row_sum(place: u32, lane: u32, value: V) -> V {
    var v = value;
    sums[place] = v;
    for (var half = LANES / 2u; half > 0u; half = half / 2u) {
        workgroupBarrier();
        if (lane < half) { v = v + sums[place + half * ROWS]; sums[place] = v; }
    }
    workgroupBarrier();
    return fold_sum(sums[place - lane * ROWS]);
}

fn term(g: V, y: V) -> V {
    if (LOG) { return g; }
    return g * y;
}

fn finish(g: V, y: V, sum: V) -> E {
    if (LOG) { return E(g - exp(y) * sum); }
    return E(y * (g - sum));
}

@compute @workgroup_size(256)
fn main(grid: Grid, @builtin(local_invocation_index) thread: u32) {
    var lane = thread / ROWS;
    var slot = thread % ROWS;
    if (ADJACENT) { lane = thread % LANES; slot = thread / LANES; }
    let row = group_of(grid) * ROWS + slot;
    let count = select(0u, p.count, row < p.kept);
    let at = (row / p.inner) * p.outer_stride + row % p.inner + lane * p.stride;
    let step = LANES * p.stride;
    let place = lane * ROWS + slot;
    var sum = V(0.0);
    if (FITS) {
        var gs: array<V, ITEMS>;
        var ys: array<V, ITEMS>;
        for (var i = 0u; i < ITEMS; i++) {
            if (lane + i * LANES < count) {
                gs[i] = V(g[p.g_offset + at + i * step]);
                ys[i] = V(y[p.y_offset + at + i * step]);
                sum += term(gs[i], ys[i]);
            }
        }
        sum = row_sum(place, lane, sum);
        for (var i = 0u; i < ITEMS; i++) {
            if (lane + i * LANES < count) { out[at + i * step] = finish(gs[i], ys[i], sum); }
        }
        return;
    }
    for (var i = 0u; lane + i * LANES < count; i++) {
        sum += term(V(g[p.g_offset + at + i * step]), V(y[p.y_offset + at + i * step]));
    }
    sum = row_sum(place, lane, sum);
    for (var i = 0u; lane + i * LANES < count; i++) {
        out[at + i * step] = finish(V(g[p.g_offset + at + i * step]), V(y[p.y_offset + at + i * step]), sum);
    }
}
