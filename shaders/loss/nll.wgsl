// loss_nll: of each label -x[n, label, s], or x[n, s] itself where it is PICKED, times the label's weight, 0 where it is ignored; reduced,
// their sum, and with MEAN that divided by the sum of the weights that count, which is `total`.
//
// STAGE 0: nothing is reduced. 1: (sum, weights) of each workgroup's labels go to parts. 2: one workgroup takes all. 3: it takes the parts.
//
// Bindings: 0 x, 1 labels, 2 weight (read; absent unless WEIGHTED), 3 out, 4 total, 5 parts (read_write; parts absent unless STAGE
//           is 1 or 3).
// Launch:   x = ceil(count / (THREADS * EACH)) workgroups of THREADS, one where STAGE > 1.
// Sums:     in f32: a serial run per thread, then a tree; fixed order.

const PICKED: bool = false;
const WEIGHTED: bool = false;
const MEAN: bool = true;
const STAGE: u32 = 0u;
const THREADS: u32 = 256u;
const EACH: u32 = 4u;                   // labels of a thread that are on their way at once

struct Params {
    count: u32, classes: u32, inner: u32,
    x_offset: u32, labels_offset: u32, weight_offset: u32,
    ignore: i32, parts: u32,
}
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(1) var<storage, read> labels: array<i32>;
@group(0) @binding(2) var<storage, read> weight: array<f32>;
@group(0) @binding(3) var<storage, read_write> out: array<f32>;
@group(0) @binding(4) var<storage, read_write> total: array<f32>;
@group(0) @binding(5) var<storage, read_write> parts: array<vec2<f32>>;

var<workgroup> sums: array<vec2<f32>, THREADS>;

// (loss, weight) of the labels of this thread from `first` on, 0 behind the last one; without branches, so that all reads are on their way
// at once.
fn losses(first: u32) -> array<vec2<f32>, EACH> {
    var named: array<i32, EACH>;
    for (var j = 0u; j < EACH; j++) { named[j] = labels[p.labels_offset + min(first + j * THREADS, p.count - 1u)]; }
    var found: array<vec2<f32>, EACH>;
    for (var j = 0u; j < EACH; j++) {
        let i = min(first + j * THREADS, p.count - 1u);
        let label = u32(clamp(named[j], 0, i32(p.classes) - 1));
        var at = i;
        if (!PICKED) {
            let row = i / p.inner;
            at = (row * p.classes + label) * p.inner + i - row * p.inner;
        }
        found[j] = vec2<f32>(select(-1.0, 1.0, PICKED) * x[p.x_offset + at], 1.0);
        if (WEIGHTED) { found[j] = vec2<f32>(found[j].x, 1.0) * weight[p.weight_offset + label]; }
    }
    for (var j = 0u; j < EACH; j++) {
        if (named[j] < 0 || named[j] >= i32(p.classes)) { found[j] = vec2<f32>(nan(), found[j].y); }    // the host could not see it
        if (named[j] == p.ignore || first + j * THREADS >= p.count) { found[j] = vec2<f32>(0.0); }
    }
    return found;
}

@compute @workgroup_size(THREADS)
fn main(grid: Grid, @builtin(local_invocation_index) local: u32) {
    let group = group_of(grid);
    let first = group * THREADS * EACH + local;
    if (STAGE == 0u) {
        let found = losses(first);
        for (var j = 0u; j < EACH; j++) {
            if (first + j * THREADS < p.count) { out[first + j * THREADS] = found[j].x; }
        }
        return;
    }
    var sum = vec2<f32>(0.0);
    if (STAGE == 3u) {
        for (var i = local; i < p.parts; i += THREADS) { sum += parts[i]; }
    } else {
        let end = select(p.count, min(p.count, (group + 1u) * THREADS * EACH), STAGE == 1u);
        for (var i = first; i < end; i += THREADS * EACH) {
            let found = losses(i);
            for (var j = 0u; j < EACH; j++) { sum += found[j]; }
        }
    }
    sums[local] = sum;
    for (var half = THREADS / 2u; half > 0u; half = half / 2u) {
        workgroupBarrier();
        if (local < half) { sums[local] += sums[local + half]; }
    }
    if (local > 0u) {
        return;
    }
    sum = sums[0];
    if (STAGE == 1u) {
        if (group < p.parts) { parts[group] = sum; }
        return;
    }
    if (MEAN) {
        total[0] = sum.y;
        sum.x = select(sum.x / sum.y, nan(), sum.y == 0.0);
    }
    out[0] = sum.x;
}
