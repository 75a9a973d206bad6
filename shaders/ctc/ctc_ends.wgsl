// ctc_ends: of each sequence the logarithms betas[n, t, s] of the probabilities of the rest of alignments behind state s at step t.
//
// Bindings: 0 x[T, N, C], 1 labels[N, S], 2 inputs[N], 3 lengths[N] (read); 4 betas[N, T, 2 S + 1] (read_write).
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
@group(0) @binding(4) var<storage, read_write> betas: array<f32>;

fn state(n: u32, s: u32) -> u32 { return ctc_state(labels[p.labels_offset + n * p.most + min(s / 2u, p.most - 1u)], s, p.classes, p.blank); }

// NaN of what no alignment ends with is not seen.
fn behind(rest: f32, here: f32) -> f32 {
    if (rest < -3.4e38) { return rest; }
    return rest + here;
}

@compute @workgroup_size(256)
fn main(grid: Grid, @builtin(local_invocation_index) local: u32) {
    let n = min(group_of(grid), p.batch - 1u);
    let width = 2u * p.most + 1u;
    let count = 2u * u32(clamp(lengths[p.lengths_offset + n], 0, i32(p.most))) + 1u;
    let used = u32(clamp(inputs[p.inputs_offset + n], 0, i32(p.steps)));
    for (var back = 0u; back < p.steps; back++) {
        let t = p.steps - 1u - back;
        let row = (n * p.steps + t) * width;
        for (var s = local; s < width; s += 256u) {
            var found = -inf();
            if (t + 1u == used && s < count) {
                found = select(-inf(), 0.0, s + 2u >= count);
            } else if (t + 1u < used && s < count) {
                let at = p.x_offset + ((t + 1u) * p.batch + n) * p.classes;
                let next = row + width + s;
                let label = state(n, s);
                var first = -inf();
                if (s + 1u < count) { first = behind(betas[next + 1u], x[at + state(n, s + 1u)]); }
                var second = -inf();
                if (s + 2u < count && state(n, s + 2u) != p.blank && state(n, s + 2u) != label) {
                    second = behind(betas[next + 2u], x[at + state(n, s + 2u)]);
                }
                found = ctc_joined(behind(betas[next], x[at + label]), first, second);
            }
            betas[row + s] = found;
        }
        storageBarrier();
    }
}
