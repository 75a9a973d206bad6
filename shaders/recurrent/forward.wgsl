// recurrent: one step of a recurrence for the rows that still run.
//
// A workgroup has 8 rows and 8 columns of the state, each of which has 4 threads, which share the product of the state before with the
// weight; the first of them computes the gates then. The state before lies in `out`, or in h0 for rows that begin here.
//
// Bindings: 0 x, 1 weight, 2 bias, 3 h0 (read), 4 out, 5 hidden, 6 cell, 7 saved (read_write; cell begins as c0 where there is one).
// Launch:   x = ceil(rows / 8) * ceil(size / 8) workgroups of 256.
// Sums:     in f32, four for each product; fixed order.

alias W = vec4<f32>;
const MODE: u32 = 0u;               // LSTM, GRU, tanh, relu
const GATES: u32 = 4u;
const SAVED: u32 = 7u;
const HAS_BIAS: bool = true;
const HAS_H0: bool = true;
const HAS_C0: bool = true;
fn four(at: u32, k: u32) -> vec4<f32> { return weight[p.weight_offset + (at + k) / 4u]; }

struct Params {
    first: u32, rows: u32,          // of this step,
    before: u32, running: u32,      // and of the one before; rows beyond these begin here
    size: u32,
    x_offset: u32, weight_offset: u32, bias_offset: u32, h0_offset: u32,
}
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(1) var<storage, read> weight: array<W>;
@group(0) @binding(2) var<storage, read> bias: array<f32>;
@group(0) @binding(3) var<storage, read> h0: array<f32>;
@group(0) @binding(4) var<storage, read_write> out: array<f32>;
@group(0) @binding(5) var<storage, read_write> hidden: array<f32>;
@group(0) @binding(6) var<storage, read_write> cell: array<f32>;
@group(0) @binding(7) var<storage, read_write> saved: array<f32>;

const DEPTH: u32 = 16u;             // vec4's of the state that are staged at a time
var<workgroup> states: array<vec4<f32>, 128>;
var<workgroup> sums: array<vec4<f32>, 256>;

fn state(row: u32, k: u32) -> f32 {
    if (row >= p.rows || k >= p.size) { return 0.0; }
    if (row < p.running) { return out[(p.before + row) * p.size + k]; }
    if (HAS_H0) { return h0[p.h0_offset + row * p.size + k]; }
    return 0.0;
}

fn bias_at(i: u32) -> f32 {
    if (HAS_BIAS) { return bias[p.bias_offset + i]; }
    return 0.0;
}

@compute @workgroup_size(256)
fn main(grid: Grid, @builtin(local_invocation_index) thread: u32) {
    let columns = (p.size + 7u) / 8u;
    let group = group_of(grid);
    let first_row = group / columns * 8u;
    let lane = thread % 4u;
    let column = group % columns * 8u + thread / 4u % 8u;
    let row = first_row + thread / 32u;
    let from_weight = min(column, p.size - 1u) * p.size;
    let gate = p.size * p.size;
    var sum = vec4<f32>(0.0);
    for (var start = 0u; start < p.size; start += 4u * DEPTH) {
        if (thread < 128u) {
            let r = first_row + thread / DEPTH;
            let k = start + thread % DEPTH * 4u;
            states[thread] = vec4<f32>(state(r, k), state(r, k + 1u), state(r, k + 2u), state(r, k + 3u));
        }
        workgroupBarrier();
        for (var i = lane; i < DEPTH; i += 4u) {
            let k = start + 4u * i;
            if (k < p.size) {
                let h = states[thread / 32u * DEPTH + i];
                sum.x += dot(h, four(from_weight, k));
                if (GATES > 1u) {
                    sum.y += dot(h, four(from_weight + gate, k));
                    sum.z += dot(h, four(from_weight + 2u * gate, k));
                }
                if (GATES > 3u) { sum.w += dot(h, four(from_weight + 3u * gate, k)); }
            }
        }
        workgroupBarrier();
    }
    sums[thread] = sum;
    workgroupBarrier();
    if (lane > 0u || row >= p.rows || column >= p.size) { return; }
    var y = (sums[thread] + sums[thread + 1u]) + (sums[thread + 2u] + sums[thread + 3u]);
    let n = p.size;
    let from_x = p.x_offset + (p.first + row) * GATES * n + column;
    let to = (p.first + row) * SAVED * n + column;
    let at = row * n + column;
    let h = state(row, column);
    y.x += bias_at(column);
    var result = 0.0;
    saved[to + (SAVED - 1u) * n] = h;
    if (MODE == 0u) {
        y += vec4<f32>(0.0, bias_at(n + column), bias_at(2u * n + column), bias_at(3u * n + column));
        var c = 0.0;
        if (HAS_C0 || row < p.running) { c = cell[at]; }
        let i = sigmoid_accurate(x[from_x] + y.x);
        let f = sigmoid_accurate(x[from_x + n] + y.y);
        let g = tanh_accurate(x[from_x + 2u * n] + y.z);
        let o = sigmoid_accurate(x[from_x + 3u * n] + y.w);
        let next = f * c + i * g;
        let t = tanh_accurate(next);
        cell[at] = next;
        result = o * t;
        saved[to] = i;
        saved[to + n] = f;
        saved[to + 2u * n] = g;
        saved[to + 3u * n] = o;
        saved[to + 4u * n] = t;
        saved[to + 5u * n] = c;
    } else if (MODE == 1u) {
        let r = sigmoid_accurate(x[from_x] + y.x);
        let z = sigmoid_accurate(x[from_x + n] + (y.y + bias_at(n + column)));
        let v = y.z + bias_at(2u * n + column);
        let m = tanh_accurate(x[from_x + 2u * n] + r * v);
        result = m + z * (h - m);
        saved[to] = r;
        saved[to + n] = z;
        saved[to + 2u * n] = m;
        saved[to + 3u * n] = v;
    } else {
        if (MODE == 2u) { result = tanh_accurate(x[from_x] + y.x); } else { result = relu_nan(x[from_x] + y.x); }
        saved[to] = result;
    }
    out[(p.first + row) * n + column] = result;
    hidden[at] = result;
}
