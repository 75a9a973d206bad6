// softmax and log_softmax of a; with ONE logsumexp, a number of each row; with GRAD derivatives of a gradient a by the outputs y of the
// former: y (a - sum(a y)), and a - e^y sum(a).
// A workgroup of 256 threads takes 256 / LANES rows with LANES threads each; LANES is a power of two. With ADJACENT the lanes
// of a row are neighbours (softmax over the last dim; E holds four elements of a row, or one), else the rows are (E holds
// four rows, or one). Launch: x = ceil(rows / (256 / LANES)). float32 throughout, in a fixed order.
alias E = vec4<f32>;            // in memory
alias V = vec4<f32>;            // in arithmetic
const GRAD: bool = false;
const LANES: u32 = 256u;
const ADJACENT: bool = true;
const ITEMS: u32 = 8u;          // units that a thread keeps in registers
const FITS: bool = true;        // a row fits LANES * ITEMS units; else it is read twice
const LOG: bool = false;        // log_softmax, logsumexp
const ONE: bool = false;        // logsumexp
alias S = f32;
alias O = E;                    // a result in memory: with ONE and ADJACENT a number
fn put(i: u32, v: E) { out[i] = v; }                            // with ONE nothing
fn put_one(i: u32, v: V) { return; }                            // with ONE what is put
fn fold_max(v: V) -> V { return V(max(max(v.x, v.y), max(v.z, v.w))); }
fn fold_sum(v: V) -> V { return V((v.x + v.y) + (v.z + v.w)); }
fn log_each(v: V) -> V { return V(log_accurate(v.x), log_accurate(v.y), log_accurate(v.z), log_accurate(v.w)); }
struct Params {
    kept: u32,                  // rows
    inner: u32,
    outer_stride: u32,          // strides in units of E, the same for all buffers
    stride: u32,
    count: u32,                 // units of a row
    a_offset: u32,
    y_offset: u32,
}
var<immediate> p: Params;

@group(0) @binding(0) var<storage, read> a: array<E>;
@group(0) @binding(1) var<storage, read> y: array<E>;       // absent without GRAD
@group(0) @binding(2) var<storage, read_write> out: array<O>;

const ROWS: u32 = 256u / LANES;
const LOWEST: f32 = -3.4028234e38;      // finite, so that a row of -inf alone divides 0 by 0
const HIGHEST: f32 = 3.4028234e38;

var<workgroup> tops: array<V, 256>;
var<workgroup> sums: array<V, 256>;

fn first(v: V) -> f32 { return vec4<f32>(v).x; }

// What a thread of a row has is folded into a number first where the threads are neighbours.
fn row_max(thread: u32, lane: u32, value: V) -> V {
    if (ADJACENT) { return V(row_most(thread, first(fold_max(value)))); }
    var v = value;
    tops[thread] = v;
    for (var half = LANES / 2u; half > 0u; half = half / 2u) {
        workgroupBarrier();
        if (lane < half) { v = max(v, tops[thread + half * ROWS]); tops[thread] = v; }
    }
    workgroupBarrier();
    return fold_max(tops[thread - lane * ROWS]);
}

// The sum of a row, of which softmax's logarithm needs the logarithm.
fn row_sum(thread: u32, lane: u32, value: V) -> V {
    var v = value;
    if (ADJACENT) {
        v = V(row_total(thread, first(fold_sum(value))));
    } else {
        sums[thread] = v;
        for (var half = LANES / 2u; half > 0u; half = half / 2u) {
            workgroupBarrier();
            if (lane < half) { v = v + sums[thread + half * ROWS]; sums[thread] = v; }
        }
        workgroupBarrier();
        v = fold_sum(sums[thread - lane * ROWS]);
    }
    if (LOG && !GRAD) { return log_each(v); }
    return v;
}

fn term(g: V, y: V) -> V {
    if (LOG) { return g; }
    return g * y;
}

// x is the gradient; without GRAD e^(element - top), or with LOG element - top.
fn finish(x: V, y: V, sum: V) -> E {
    if (GRAD && LOG) { return E(x - exp(y) * sum); }
    if (GRAD) { return E(y * (x - sum)); }
    if (LOG) { return E(x - sum); }
    return E(x / sum);
}

@compute @workgroup_size(256)
fn main(grid: Grid, @builtin(local_invocation_index) thread: u32) {
    var lane = thread / ROWS;
    var slot = thread % ROWS;
    if (ADJACENT) { lane = thread % LANES; slot = thread / LANES; }
    let row = group_of(grid) * ROWS + slot;
    let count = select(0u, p.count, row < p.kept);
    let safe = min(row, p.kept - 1u);
    let at = (safe / p.inner) * p.outer_stride + safe % p.inner + lane * p.stride;
    let step = LANES * p.stride;
    var top = V(LOWEST);
    var sum = V(0.0);
    if (FITS) {
        var xs: array<V, ITEMS>;
        var ys: array<V, ITEMS>;
        for (var i = 0u; i < ITEMS; i++) {
            let from_here = at + (min(lane + i * LANES, p.count - 1u) - lane) * p.stride;      // without branches: all at once
            xs[i] = V(a[p.a_offset + from_here]);
            if (GRAD) { ys[i] = V(y[p.y_offset + from_here]); }
        }
        for (var i = 0u; i < ITEMS; i++) {
            if (lane + i * LANES < count) {
                if (GRAD) { sum += term(xs[i], ys[i]); } else { top = max(top, xs[i]); }
            }
        }
        if (!GRAD) {
            top = row_max(thread, lane, top);
            if (ONE) { top = min(top, V(HIGHEST)); }            // the exponential of an infinity less that is infinite, and no NaN
            for (var i = 0u; i < ITEMS; i++) {
                if (lane + i * LANES < count) {
                    let below = xs[i] - top;
                    let e = exp(below);
                    sum += e;
                    if (LOG) { xs[i] = below; } else { xs[i] = e; }
                }
            }
        }
        sum = row_sum(thread, lane, sum);
        if (ONE) {
            if (lane == 0u && count > 0u) { put_one(row, sum + top); }
            return;
        }
        for (var i = 0u; i < ITEMS; i++) {
            if (lane + i * LANES < count) { put(at + i * step, finish(xs[i], ys[i], sum)); }
        }
        return;
    }
    for (var i = 0u; lane + i * LANES < count; i++) {
        let x = V(a[p.a_offset + at + i * step]);
        if (GRAD) {
            sum += term(x, V(y[p.y_offset + at + i * step]));
        } else {
            var higher = max(top, x);
            if (ONE) { higher = min(higher, V(HIGHEST)); }
            sum = sum * exp(top - higher) + exp(x - higher);
            top = higher;
        }
    }
    if (!GRAD) {
        let all_top = row_max(thread, lane, top);
        sum *= exp(top - all_top);
        top = all_top;
    }
    sum = row_sum(thread, lane, sum);
    if (ONE) {
        if (lane == 0u && count > 0u) { put_one(row, sum + top); }
        return;
    }
    for (var i = 0u; lane + i * LANES < count; i++) {
        let x = V(a[p.a_offset + at + i * step]);
        if (GRAD) {
            put(at + i * step, finish(x, V(y[p.y_offset + at + i * step]), sum));
        } else if (LOG) {
            put(at + i * step, finish(x - top, V(), sum));
        } else {
            put(at + i * step, finish(exp(x - top), V(), sum));
        }
    }
}
