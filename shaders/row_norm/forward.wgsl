// row_norm: out = (x - mean) * rstd * weight + bias of rows of x; also writes mean and rstd of each row.
//
// A workgroup takes THREADS / LANES rows with LANES neighbouring threads each, powers of two. Row r uses the weights of r % groups.
// With PER_RUN a weight belongs to `run` V's, else each element has its own.
//
// Bindings: 0 x, 1 weight, 2 bias (read; absent without HAS_WEIGHT, HAS_BIAS), 3 out, 4 mean, 5 rstd (read_write).
// Launch:   x = ceil(rows / (THREADS / LANES)) workgroups of THREADS.
// Sums:     in f32: a serial run per thread and element of V, then of threads; fixed order. The variance is a second pass over registers,
//           or, of rows that are read twice, of deviations that are merged by Chan's formula.

alias V = vec4<f32>;
alias S = f32;
alias W = vec4<f32>;            // of weight and bias: a V, or with PER_RUN an element
const WIDTH: u32 = 4u;
const THREADS: u32 = 64u;        // at most 256
const LANES: u32 = 64u;
const ITEMS: u32 = 3u;          // V's of a thread
const FITS: bool = true;        // they stay in registers; else a row is read twice
const PER_RUN: bool = false;
const CENTRED: bool = true;
const HAS_WEIGHT: bool = true;
const HAS_BIAS: bool = true;

struct Params {
    rows: u32, count: u32,      // V's of a row
    groups: u32, columns: u32,  // weights of a row, in W's
    run: u32, x_offset: u32, weight_offset: u32, bias_offset: u32,
    eps: f32,
}
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read> x: array<V>;
@group(0) @binding(1) var<storage, read> weight: array<W>;
@group(0) @binding(2) var<storage, read> bias: array<W>;
@group(0) @binding(3) var<storage, read_write> out: array<V>;
@group(0) @binding(4) var<storage, read_write> mean: array<f32>;
@group(0) @binding(5) var<storage, read_write> rstd: array<f32>;

var<workgroup> tree: array<vec3<f32>, THREADS>;

// A scalar V fills all four places of a vec4, of which the first is used.
fn fold(value: V) -> f32 {
    let v = vec4<f32>(value);
    if (WIDTH == 1u) { return v.x; }
    return (v.x + v.y) + (v.z + v.w);
}

// (count, mean, sum of squared deviations) of a thread's share of a row, about the first value that it meets.
fn share_of(start: u32, lane: u32, count: u32) -> vec3<f32> {
    if (lane >= count) { return vec3<f32>(0.0); }
    let pivot = x[start + lane];
    var n = 0.0;
    var sum = V(0.0);
    var squares = V(0.0);
    for (var i = lane; i < count; i += LANES) {
        let away = x[start + i] - pivot;
        sum += away;
        squares += away * away;
        n += 1.0;
    }
    let average = sum / n;
    let means = vec4<f32>(average + pivot);
    let rests = vec4<f32>(squares - average * sum);
    let first = vec3<f32>(n, means.x, rests.x);
    if (WIDTH == 1u) { return first; }
    return merge_moments(merge_moments(first, vec3<f32>(n, means.y, rests.y)),
                 merge_moments(vec3<f32>(n, means.z, rests.z), vec3<f32>(n, means.w, rests.w)));
}

fn finish(value: V, center: f32, scale: f32, column: u32, i: u32) -> V {
    var result = (value - center) * scale;
    var at = column + i;
    if (PER_RUN) { at = column + i / p.run; }
    if (HAS_WEIGHT) { result = result * V(weight[p.weight_offset + at]); }
    if (HAS_BIAS) { result = result + V(bias[p.bias_offset + at]); }
    return result;
}

@compute @workgroup_size(THREADS)
fn main(grid: Grid, @builtin(local_invocation_index) thread: u32) {
    let lane = thread % LANES;
    let row = group_of(grid) * (THREADS / LANES) + thread / LANES;
    let count = select(0u, p.count, row < p.rows);
    let start = p.x_offset + min(row, p.rows - 1u) * p.count;
    let column = (row % p.groups) * p.columns;
    let per_value = 1.0 / f32(p.count * WIDTH);
    var center = 0.0;
    if (FITS) {
        var v: array<V, ITEMS>;
        var sum = V(0.0);
        var pivot = 0.0;                    // the first element: about it the mean of equal ones is exact
        if (CENTRED) { pivot = vec4<f32>(x[start]).x; }
        for (var i = 0u; i < ITEMS; i++) { v[i] = x[start + min(lane + i * LANES, p.count - 1u)]; }     // without branches: all at once
        for (var i = 0u; i < ITEMS; i++) { sum += select(V(0.0), v[i] - pivot, lane + i * LANES < count); }
        if (CENTRED) { center = pivot + row_total(thread, fold(sum)) * per_value; }
        var squares = V(0.0);
        for (var i = 0u; i < ITEMS; i++) {
            let away = select(V(0.0), v[i] - center, lane + i * LANES < count);
            squares += away * away;
        }
        let scale = 1.0 / sqrt(row_total(thread, fold(squares)) * per_value + p.eps);
        for (var i = 0u; i < ITEMS; i++) { v[i] = finish(v[i], center, scale, column, min(lane + i * LANES, p.count - 1u)); }
        for (var i = 0u; i < ITEMS; i++) {
            if (lane + i * LANES < count) { out[row * p.count + lane + i * LANES] = v[i]; }
        }
        if (lane == 0u && count > 0u) { mean[row] = center; rstd[row] = scale; }
        return;
    }
    tree[thread] = share_of(start, lane, count);
    for (var half = LANES / 2u; half > 0u; half = half / 2u) {
        workgroupBarrier();
        if (lane < half) { tree[thread] = merge_moments(tree[thread], tree[thread + half]); }
    }
    workgroupBarrier();
    let moments = tree[thread - lane];
    var square = deviations(moments) * per_value;
    if (CENTRED) { center = moments.y; } else { square += moments.y * moments.y; }
    let scale = 1.0 / sqrt(square + p.eps);
    for (var i = lane; i < count; i += LANES) {
        out[row * p.count + i] = finish(x[start + i], center, scale, column, i);
    }
    if (lane == 0u && count > 0u) { mean[row] = center; rstd[row] = scale; }
}
