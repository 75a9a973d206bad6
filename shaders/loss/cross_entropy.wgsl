// loss_cross_entropy: of a row of x[N, C] loss[n] = logsumexp(x[n]) - x[n, target[n]], 0 where it is ignored; KEEP: softmax(x[n]) too.
//
// LANES neighbouring threads share a row: they find its maximum, then the sum of exp(x - maximum). Each has four reads on their way at
// once. A NaN in a row, a row of -inf only and a row with +inf give NaN, as in PyTorch.
//
// Bindings: 0 x (read), 1 target (read), 2 loss (read_write), 3 softmax[N, C] (read_write; any buffer without KEEP).
// Launch:   x = ceil(N / (256 / LANES)) workgroups of 256.
// Sums:     in f32: a serial run per thread, then a tree; fixed order.

const LANES: u32 = 4u;
const KEEP: bool = true;

struct Params {
    rows: u32, classes: u32, x_offset: u32, target_offset: u32,
    ignore: i32,
}
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(1) var<storage, read> labels: array<i32>;
@group(0) @binding(2) var<storage, read_write> loss: array<f32>;
@group(0) @binding(3) var<storage, read_write> softmax: array<f32>;

var<workgroup> tree: array<f32, 256>;

// Four elements of the row from `start` on, LANES apart from element j on; the last one again for those beyond it.
fn four(start: u32, j: u32) -> vec4<f32> {
    let at = min(vec4<u32>(j) + vec4<u32>(0u, 1u, 2u, 3u) * LANES, vec4<u32>(p.classes - 1u)) + start;
    return vec4<f32>(x[at.x], x[at.y], x[at.z], x[at.w]);
}

@compute @workgroup_size(256)
fn main(grid: Grid, @builtin(local_invocation_index) local: u32) {
    let row = group_of(grid) * (256u / LANES) + local / LANES;
    let lane = local % LANES;
    // Rows past the end do as the last one does, up to the store: barriers need them.
    let start = p.x_offset + min(row, p.rows - 1u) * p.classes;
    var top = x[start];
    for (var j = lane; j < p.classes; j += 4u * LANES) {
        let value = four(start, j);
        top = max_nan(max_nan(top, max_nan(value.x, value.y)), max_nan(value.z, value.w));
    }
    tree[local] = top;
    workgroupBarrier();
    for (var half = LANES / 2u; half > 0u; half >>= 1u) {
        if (lane < half) {
            tree[local] = max_nan(tree[local], tree[local + half]);
        }
        workgroupBarrier();
    }
    top = tree[local - lane];
    workgroupBarrier();
    var total = 0.0;
    for (var j = lane; j < p.classes; j += 4u * LANES) {
        let value = four(start, j);
        for (var c = 0u; c < 4u; c += 1u) {
            if (j + c * LANES < p.classes) { total += exp_accurate(value[c] - top); }
        }
    }
    tree[local] = total;
    workgroupBarrier();
    for (var half = LANES / 2u; half > 0u; half >>= 1u) {
        if (lane < half) {
            tree[local] += tree[local + half];
        }
        workgroupBarrier();
    }
    if (row >= p.rows) {
        return;
    }
    total = tree[local - lane];
    if (KEEP) {
        for (var j = lane; j < p.classes; j += 4u * LANES) {
            let value = four(start, j);
            for (var c = 0u; c < 4u; c += 1u) {
                if (j + c * LANES < p.classes) { softmax[row * p.classes + j + c * LANES] = exp_accurate(value[c] - top) / total; }
            }
        }
    }
    if (lane == 0u) {
        let label = labels[p.target_offset + row];
        var value = 0.0;
        if (label != p.ignore) {
            value = log_accurate(total) + (top - x[start + u32(clamp(label, 0, i32(p.classes) - 1))]);
            if (label < 0 || label >= i32(p.classes)) { value = nan(); }     // the host could not see it: make it visible
        }
        loss[row] = value;
    }
}
