// loss_cross_entropy: of a row of x[N, C] loss[n] = logsumexp(x[n]) - x[n, target[n]], 0 where it is ignored; KEEP: softmax(x[n]) too.
// SMOOTH: of a part `smoothing`, the mean of x[n] takes the place of x[n, target[n]].
//
// LANES neighbouring threads share a row, of which each takes four elements at a time, two times four on their way at once: they find the
// maximum and the sum of exp(x - maximum so far) in one go, and write the softmax in another, which begins where the last one ended. A
// NaN in a row, a row of -inf only and a row with +inf give NaN, as in PyTorch. A row of the softmax takes `width`.
//
// Bindings: 0 x (read), 1 target (read), 2 loss (read_write), 3 softmax (read_write; absent without KEEP).
// Launch:   x = ceil(N / (256 / LANES)) workgroups of 256.
// Sums:     in f32: a serial run per thread, then a tree; fixed order.

alias E = vec4<f32>;                // of softmax: f32 where width is no multiple of four
const LANES: u32 = 4u;
const KEEP: bool = true;
const SMOOTH: bool = false;

struct Params {
    rows: u32, classes: u32, x_offset: u32, target_offset: u32,
    ignore: i32, width: u32, smoothing: f32,
}
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(1) var<storage, read> labels: array<i32>;
@group(0) @binding(2) var<storage, read_write> loss: array<f32>;
@group(0) @binding(3) var<storage, read_write> softmax: array<E>;

var<workgroup> tree: array<f32, 256>;
var<private> top: f32;              // the highest so far
var<private> total: f32;            // of exp(x - top)
var<private> is_number: bool;       // no NaN so far
var<private> pivot: f32;            // an element of the row,
var<private> above: f32;            // and the sum of x - pivot

fn put(at: u32, room: u32, v: vec4<f32>) { softmax[at / 4u] = v; }

fn columns_of(j: u32) -> vec4<u32> { return vec4<u32>(4u * j) + vec4<u32>(0u, 1u, 2u, 3u); }

// Elements 4 * j and after; -inf beyond the row.
fn word(start: u32, j: u32) -> vec4<f32> {
    let columns = columns_of(j);
    let at = start + min(columns, vec4<u32>(p.classes - 1u));
    return select(vec4<f32>(-inf()), vec4<f32>(x[at.x], x[at.y], x[at.z], x[at.w]), columns < vec4<u32>(p.classes));
}

fn exps(v: vec4<f32>, base: f32) -> vec4<f32> {
    return vec4<f32>(exp_nonpositive(v.x - base), exp_nonpositive(v.y - base), exp_nonpositive(v.z - base), exp_nonpositive(v.w - base));
}

fn count(v: vec4<f32>, j: u32) {
    if (SMOOTH) { above += dot(select(vec4<f32>(), v - pivot, columns_of(j) < vec4<u32>(p.classes)), vec4<f32>(1.0)); }
    is_number = is_number && all((bitcast<vec4<u32>>(v) & vec4<u32>(0x7fffffffu)) <= vec4<u32>(0x7f800000u));
    let higher = max(top, max(max(v.x, v.y), max(v.z, v.w)));
    let base = select(higher, 0.0, is_inf(higher));         // so far -inf only: exp(-inf - 0) is 0
    let e = exps(v, base);
    total = total * exp_nonpositive(top - base) + (e.x + e.y + e.z + e.w);
    top = higher;
}

@compute @workgroup_size(256)
fn main(grid: Grid, @builtin(local_invocation_index) local: u32) {
    let row = group_of(grid) * (256u / LANES) + local / LANES;
    let lane = local % LANES;
    // Rows past the end do as the last one does, up to the store: barriers need them.
    let start = p.x_offset + min(row, p.rows - 1u) * p.classes;
    let words = (p.classes + 3u) / 4u;
    let middle = (words + 1u) / 2u;
    top = -inf();
    total = 0.0;
    is_number = true;
    pivot = select(0.0, x[start], SMOOTH && is_finite(x[start]));
    above = 0.0;
    for (var j = lane; j < middle; j += LANES) {
        let first = word(start, j);
        let second = word(start, j + middle);
        count(first, j);
        count(second, j + middle);
    }
    tree[local] = select(nan(), top, is_number);
    workgroupBarrier();
    for (var half = LANES / 2u; half > 0u; half >>= 1u) {
        if (lane < half) {
            tree[local] = max_nan(tree[local], tree[local + half]);
        }
        workgroupBarrier();
    }
    let highest = tree[local - lane];
    workgroupBarrier();
    tree[local] = total * exp_nonpositive(top - highest);
    workgroupBarrier();
    for (var half = LANES / 2u; half > 0u; half >>= 1u) {
        if (lane < half) {
            tree[local] += tree[local + half];
        }
        workgroupBarrier();
    }
    if (SMOOTH) {
        let sum = tree[local - lane];
        workgroupBarrier();
        tree[local] = above;
        workgroupBarrier();
        for (var half = LANES / 2u; half > 0u; half >>= 1u) {
            if (lane < half) {
                tree[local] += tree[local + half];
            }
            workgroupBarrier();
        }
        above = tree[local - lane];
        workgroupBarrier();
        if (lane == 0u) { tree[local] = sum; }
        workgroupBarrier();
    }
    if (row >= p.rows) {
        return;
    }
    total = select(tree[local - lane], nan(), !is_finite(highest));
    if (KEEP) {
        let scale = 1.0 / total;
        for (var i = lane; i < middle; i += LANES) {
            let j = middle - 1u - i;
            let first = word(start, j);
            let second = word(start, j + middle);
            put(row * p.width + 4u * j, p.width - 4u * j, exps(first, highest) * scale);
            if (j + middle < words) { put(row * p.width + 4u * (j + middle), p.width - 4u * (j + middle), exps(second, highest) * scale); }
        }
    }
    if (lane == 0u) {
        let label = labels[p.target_offset + row];
        var value = 0.0;
        if (label != p.ignore) {
            let below = highest - x[start + u32(clamp(label, 0, i32(p.classes) - 1))];
            value = log_accurate(total) + below;
            if (SMOOTH) {
                let mean = (highest - pivot) - above / f32(p.classes);
                value = log_accurate(total) + (1.0 - p.smoothing) * below + p.smoothing * mean;
            }
            if (label < 0 || label >= i32(p.classes)) { value = nan(); }     // the host could not see it: make it visible
        }
        loss[row] = value;
    }
}
