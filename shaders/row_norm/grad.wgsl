// row_norm_grad: dx = rstd * (h - mean(h) - xhat * mean(h * xhat)) of rows, h = g * weight, xhat = (x - mean) * rstd; with ARRIVED, what is
// there of it already is added.
//
// Rows and weights are those of row_norm. With SUMS a workgroup, which takes every `blocks`-th block of rows, also adds up (g, g * xhat) of
// each column in registers, and leaves them in parts[workgroup, column].
//
// Bindings: 0 g, 1 x, 2 weight, 3 mean, 4 rstd, 5 arrived (read; weight absent without HAS_WEIGHT, arrived without ARRIVED), 6 dx,
//           7 parts (read_write; parts absent without SUMS).
// Launch:   x = blocks workgroups of THREADS; one takes THREADS / LANES rows at a time, `turns` times.
// Sums:     in f32: a serial run per thread and element of V, then of threads; fixed order.

alias V = vec4<f32>;
alias S = vec2<f32>;
alias W = vec4<f32>;            // of weight: a V, or with PER_RUN an element
const WIDTH: u32 = 4u;
const THREADS: u32 = 64u;        // at most 256
const LANES: u32 = 64u;
const ITEMS: u32 = 3u;          // V's of a thread
const FITS: bool = true;        // they stay in registers; else a row is read twice
const SUMS: bool = true;        // needs FITS
const PER_RUN: bool = false;
const CENTRED: bool = true;
const HAS_WEIGHT: bool = true;
const ARRIVED: bool = true;

struct Params {
    rows: u32, count: u32,      // V's of a row
    groups: u32, columns: u32,  // weights of a row, in W's
    run: u32, blocks: u32, turns: u32, g_offset: u32,
    x_offset: u32, weight_offset: u32, mean_offset: u32, rstd_offset: u32,
    arrived_offset: u32,
}
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read> g: array<V>;
@group(0) @binding(1) var<storage, read> x: array<V>;
@group(0) @binding(2) var<storage, read> weight: array<W>;
@group(0) @binding(3) var<storage, read> mean: array<f32>;
@group(0) @binding(4) var<storage, read> rstd: array<f32>;
@group(0) @binding(5) var<storage, read> arrived: array<V>;
@group(0) @binding(6) var<storage, read_write> dx: array<V>;
@group(0) @binding(7) var<storage, read_write> parts: array<vec2<f32>>;

const ROWS: u32 = THREADS / LANES;

var<workgroup> left: array<V, THREADS>;
var<workgroup> right: array<V, THREADS>;

fn fold(value: V) -> f32 {
    let v = vec4<f32>(value);
    if (WIDTH == 1u) { return v.x; }
    return (v.x + v.y) + (v.z + v.w);
}

fn weighted(slope: V, column: u32, i: u32) -> V {
    if (!HAS_WEIGHT) { return slope; }
    if (PER_RUN) { return slope * V(weight[p.weight_offset + column + i / p.run]); }
    return slope * V(weight[p.weight_offset + column + i]);
}

fn before(at: u32) -> V {
    if (ARRIVED) { return arrived[p.arrived_offset + at]; }
    return V(0.0);
}

fn finish(h: V, normal: V, scale: f32, sums: vec2<f32>) -> V {
    let per_value = 1.0 / f32(p.count * WIDTH);
    if (CENTRED) { return scale * (h - sums.x * per_value - normal * (sums.y * per_value)); }
    return scale * (h - normal * (sums.y * per_value));
}

@compute @workgroup_size(THREADS)
fn main(grid: Grid, @builtin(local_invocation_index) thread: u32) {
    let group = group_of(grid);
    let lane = thread % LANES;
    var bias_sums: array<V, ITEMS>;
    var weight_sums: array<V, ITEMS>;
    for (var turn = 0u; turn < p.turns; turn++) {
        let row = (turn * p.blocks + group) * ROWS + thread / LANES;
        let count = select(0u, p.count, row < p.rows && group < p.blocks);
        let safe = min(row, p.rows - 1u);
        let center = mean[p.mean_offset + safe];
        let scale = rstd[p.rstd_offset + safe];
        let column = (safe % p.groups) * p.columns;
        let start = safe * p.count;
        var sum = V(0.0);
        var product = V(0.0);
        if (FITS) {
            var slopes: array<V, ITEMS>;
            var normals: array<V, ITEMS>;
            var added: array<V, ITEMS>;
            for (var i = 0u; i < ITEMS; i++) {                  // without branches: all are on their way at once
                let at = start + min(lane + i * LANES, p.count - 1u);
                slopes[i] = g[p.g_offset + at];
                normals[i] = x[p.x_offset + at];
                added[i] = before(at);
            }
            for (var i = 0u; i < ITEMS; i++) {
                let inside = lane + i * LANES < count;
                let slope = select(V(0.0), slopes[i], inside);
                normals[i] = select(V(0.0), (normals[i] - center) * scale, inside);
                if (SUMS) { bias_sums[i] += slope; weight_sums[i] += slope * normals[i]; }
                slopes[i] = weighted(slope, column, min(lane + i * LANES, p.count - 1u));
                sum += slopes[i];
                product += slopes[i] * normals[i];
            }
            let total = row_total(thread, vec2<f32>(fold(sum), fold(product)));
            for (var i = 0u; i < ITEMS; i++) {
                let at = lane + i * LANES;
                if (at < count) { dx[start + at] = added[i] + finish(slopes[i], normals[i], scale, total); }
            }
        } else {
            for (var at = lane; at < count; at += LANES) {
                let h = weighted(g[p.g_offset + start + at], column, at);
                sum += h;
                product += h * (x[p.x_offset + start + at] - center) * scale;
            }
            let total = row_total(thread, vec2<f32>(fold(sum), fold(product)));
            for (var at = lane; at < count; at += LANES) {
                dx[start + at] = before(start + at) + finish(weighted(g[p.g_offset + start + at], column, at),
                                                             (x[p.x_offset + start + at] - center) * scale, scale, total);
            }
        }
    }
    if (SUMS) {
        for (var i = 0u; i < ITEMS; i++) {
            left[thread] = bias_sums[i];
            right[thread] = weight_sums[i];
            for (var half = ROWS / 2u; half > 0u; half = half / 2u) {
                workgroupBarrier();
                if (thread < half * LANES) {
                    left[thread] += left[thread + half * LANES];
                    right[thread] += right[thread + half * LANES];
                }
            }
            workgroupBarrier();
            let at = lane + i * LANES;
            if (thread < LANES && at < p.count && group < p.blocks) {
                let a = vec4<f32>(left[thread]);
                let b = vec4<f32>(right[thread]);
                let place = (group * p.count + at) * WIDTH;
                parts[place] = vec2<f32>(a.x, b.x);
                if (WIDTH == 4u) {
                    parts[place + 1u] = vec2<f32>(a.y, b.y);
                    parts[place + 2u] = vec2<f32>(a.z, b.z);
                    parts[place + 3u] = vec2<f32>(a.w, b.w);
                }
            }
            workgroupBarrier();
        }
    }
}
