// recurrent_grad: one step back through a recurrence, for the rows that run in it.
//
// A workgroup has 8 rows and 8 columns of the state, each of which has 4 threads, which share the product of the later step's gradients
// with the weight; the first of them computes the gates' gradients then. LAST: what reaches the states before rows that begin with the
// later step.
//
// Bindings: 0 weight, transposed, 1 saved, 2 g_out, 3 g_hidden (read), 4 dx, 5 dgates, 6 dh0, 7 carried (read_write; begins as g_cell where
//           there is one).
// Launch:   x = ceil(rows / 8) * ceil(size / 8) workgroups of 256.
// Sums:     in f32, four for each product; fixed order.

alias W = vec4<f32>;
const MODE: u32 = 0u;               // LSTM, GRU, tanh, relu
const GATES: u32 = 4u;
const SAVED: u32 = 7u;
const LAST: bool = false;
const HAS_OUT: bool = true;
const HAS_HIDDEN: bool = true;
const HAS_CELL: bool = true;
fn four(at: u32, k: u32) -> vec4<f32> { return weight[p.weight_offset + (at + k) / 4u]; }

struct Params {
    first: u32, rows: u32,          // of this step,
    later: u32, running: u32,       // and of the later one; rows beyond these end here
    size: u32, begin: u32,          // LAST: the first row that begins
    weight_offset: u32, saved_offset: u32, out_offset: u32, hidden_offset: u32,
}
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read> weight: array<W>;
@group(0) @binding(1) var<storage, read> saved: array<f32>;
@group(0) @binding(2) var<storage, read> g_out: array<f32>;
@group(0) @binding(3) var<storage, read> g_hidden: array<f32>;
@group(0) @binding(4) var<storage, read_write> dx: array<f32>;
@group(0) @binding(5) var<storage, read_write> dgates: array<f32>;
@group(0) @binding(6) var<storage, read_write> dh0: array<f32>;
@group(0) @binding(7) var<storage, read_write> carried: array<f32>;

const DEPTH: u32 = 16u;             // vec4's of the gradients that are staged at a time
var<workgroup> slopes: array<vec4<f32>, 128>;
var<workgroup> sums: array<f32, 256>;

fn slope(row: u32, k: u32) -> f32 {
    if (row >= min(p.rows, p.running) || k >= GATES * p.size) { return 0.0; }
    let at = (p.later + row) * GATES * p.size + k;
    if (MODE == 1u) { return dgates[at]; }
    return dx[at];
}

@compute @workgroup_size(256)
fn main(grid: Grid, @builtin(local_invocation_index) thread: u32) {
    let columns = (p.size + 7u) / 8u;
    let group = group_of(grid);
    let first_row = group / columns * 8u;
    let lane = thread % 4u;
    let column = group % columns * 8u + thread / 4u % 8u;
    let row = first_row + thread / 32u;
    let depth = GATES * p.size;
    let from_weight = min(column, p.size - 1u) * depth;
    var sum = 0.0;
    for (var start = 0u; start < depth; start += 4u * DEPTH) {
        if (thread < 128u) {
            let r = first_row + thread / DEPTH;
            let k = start + thread % DEPTH * 4u;
            slopes[thread] = vec4<f32>(slope(r, k), slope(r, k + 1u), slope(r, k + 2u), slope(r, k + 3u));
        }
        workgroupBarrier();
        for (var i = lane; i < DEPTH; i += 4u) {
            let k = start + 4u * i;
            if (k < depth) { sum += dot(slopes[thread / 32u * DEPTH + i], four(from_weight, k)); }
        }
        workgroupBarrier();
    }
    sums[thread] = sum;
    workgroupBarrier();
    if (lane > 0u || row >= p.rows || column >= p.size) { return; }
    let n = p.size;
    let at = row * n + column;
    var dh = 0.0;
    if (row < p.running) {
        dh = (sums[thread] + sums[thread + 1u]) + (sums[thread + 2u] + sums[thread + 3u]);
        if (MODE == 1u) { dh += carried[at]; }
    } else if (HAS_HIDDEN) {
        dh = g_hidden[p.hidden_offset + at];
    }
    if (LAST) {
        if (row >= p.begin) { dh0[at] = dh; }
        return;
    }
    if (HAS_OUT) { dh += g_out[p.out_offset + (p.first + row) * n + column]; }
    let kept = p.saved_offset + (p.first + row) * SAVED * n + column;
    let to = (p.first + row) * depth + column;
    if (MODE == 0u) {
        let i = saved[kept];
        let f = saved[kept + n];
        let g = saved[kept + 2u * n];
        let o = saved[kept + 3u * n];
        let t = saved[kept + 4u * n];
        var dc = dh * o * (1.0 - t * t);
        if (HAS_CELL || row < p.running) { dc += carried[at]; }
        dx[to] = dc * g * i * (1.0 - i);
        dx[to + n] = dc * saved[kept + 5u * n] * f * (1.0 - f);
        dx[to + 2u * n] = dc * i * (1.0 - g * g);
        dx[to + 3u * n] = dh * t * o * (1.0 - o);
        carried[at] = dc * f;
    } else if (MODE == 1u) {
        let r = saved[kept];
        let z = saved[kept + n];
        let m = saved[kept + 2u * n];
        let d = dh * (1.0 - z) * (1.0 - m * m);
        let of_r = d * saved[kept + 3u * n] * r * (1.0 - r);
        let of_z = dh * (saved[kept + 4u * n] - m) * z * (1.0 - z);
        dx[to] = of_r;
        dx[to + n] = of_z;
        dx[to + 2u * n] = d;
        dgates[to] = of_r;
        dgates[to + n] = of_z;
        dgates[to + 2u * n] = d * r;
        carried[at] = dh * z;
    } else {
        let y = saved[kept];
        if (MODE == 2u) { dx[to] = dh * (1.0 - y * y); } else { dx[to] = select(dh, 0.0, y <= 0.0); }
    }
}
