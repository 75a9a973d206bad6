// ctc: of each sequence the logarithms alphas[n, t, s] of the probabilities of the beginnings of alignments that end in state s at step t,
// and the loss. States are blank, label, blank, label, ..., blank; what no alignment meets is -inf.
//
// Bindings: 0 x[T, N, C], 1 labels[N, S], 2 inputs[N], 3 lengths[N] (read); 4 loss[N], 5 alphas[N, T, 2 S + 1] (read_write).
// Launch:   x = N workgroups of 256, which share the states of a sequence.
// Sums:     in f32, of three terms, about the largest.

struct Params {
    steps: u32, batch: u32, classes: u32, most: u32, blank: u32,
    x_offset: u32, labels_offset: u32, inputs_offset: u32, lengths_offset: u32,
}
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(1) var<storage, read> labels: array<i32>;
@group(0) @binding(2) var<storage, read> inputs: array<i32>;
@group(0) @binding(3) var<storage, read> lengths: array<i32>;
@group(0) @binding(4) var<storage, read_write> loss: array<f32>;
@group(0) @binding(5) var<storage, read_write> alphas: array<f32>;

fn state(n: u32, s: u32) -> u32 { return ctc_state(labels[p.labels_offset + n * p.most + s / 2u], s, p.classes, p.blank); }

@compute @workgroup_size(256)
fn main(grid: Grid, @builtin(local_invocation_index) local: u32) {
    let n = min(group_of(grid), p.batch - 1u);
    let width = 2u * p.most + 1u;
    let count = 2u * u32(clamp(lengths[p.lengths_offset + n], 0, i32(p.most))) + 1u;
    let used = u32(clamp(inputs[p.inputs_offset + n], 0, i32(p.steps)));
    for (var t = 0u; t < p.steps; t++) {
        let row = (n * p.steps + t) * width;
        for (var s = local; s < width; s += 256u) {
            var found = -inf();
            if (t < used && s < count) {
                let label = select(p.blank, state(n, min(s, width - 2u)), s % 2u == 1u);
                let here = x[p.x_offset + (t * p.batch + n) * p.classes + label];
                if (t > 0u) {
                    let before = row - width + s;
                    var second = -inf();
                    if (s > 1u && label != p.blank && label != state(n, s - 2u)) { second = alphas[before - 2u]; }
                    var first = -inf();
                    if (s > 0u) { first = alphas[before - 1u]; }
                    found = ctc_joined(alphas[before], first, second) + here;
                } else if (s < 2u) {
                    found = here;
                }
            }
            alphas[row + s] = found;
        }
        storageBarrier();
    }
    if (local > 0u) { return; }
    var total = select(-inf(), 0.0, count == 1u);
    if (used > 0u) {
        let last = (n * p.steps + used - 1u) * width + count - 1u;
        total = alphas[last];
        if (count > 1u) { total = ctc_joined(total, alphas[last - 1u], -inf()); }
    }
    loss[n] = -total;
}
