// ctc_grad: dx[t, n, c] = g[n] * (exp(x) - the probability of class c at step t among the alignments of sequence n); 0 behind its end.
//
// All classes are written as if no alignment met them; then the thread that has the first state of a class takes those of its states away,
// along the links between them; all threads together those of the blank.
//
// Bindings: 0 g[N], 1 x[T, N, C], 2 labels[N, S], 3 inputs[N], 4 lengths[N], 5 loss[N], 6 alphas, 7 betas, 8 links, by ctc_ends (read);
//           9 dx (read_write).
// Launch:   x = T * N workgroups of 256.
// Sums:     in f32, over the states in their order; of the blank by threads, then parts.

const LANES: u32 = 256u;
const EACH: u32 = 4u;                   // classes of a thread that are on their way at once
const REPEATED: u32 = 0x80000000u;
alias S = f32;

struct Params {
    steps: u32, batch: u32, classes: u32, most: u32, blank: u32,
    g_offset: u32, x_offset: u32, labels_offset: u32, inputs_offset: u32, lengths_offset: u32, loss_offset: u32, alphas_offset: u32,
}
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read> g: array<f32>;
@group(0) @binding(1) var<storage, read> x: array<f32>;
@group(0) @binding(2) var<storage, read> labels: array<i32>;
@group(0) @binding(3) var<storage, read> inputs: array<i32>;
@group(0) @binding(4) var<storage, read> lengths: array<i32>;
@group(0) @binding(5) var<storage, read> loss: array<f32>;
@group(0) @binding(6) var<storage, read> alphas: array<f32>;
@group(0) @binding(7) var<storage, read> betas: array<f32>;
@group(0) @binding(8) var<storage, read> links: array<u32>;
@group(0) @binding(9) var<storage, read_write> dx: array<f32>;

fn state(n: u32, s: u32) -> u32 {
    return ctc_state(labels[p.labels_offset + n * p.most + min(s / 2u, max(p.most, 1u) - 1u)], s, p.classes, p.blank);
}

// The share of the alignments that are in the state s.
fn share(row: u32, s: u32, total: f32) -> f32 {
    let a = alphas[p.alphas_offset + row + s];
    let b = betas[row + s];
    if (a > -3.4e38 && b > -3.4e38) { return exp_accurate(a + b + total); }
    return 0.0;
}

@compute @workgroup_size(256)
fn main(grid: Grid, @builtin(local_invocation_index) local: u32) {
    let group = min(group_of(grid), p.steps * p.batch - 1u);    // those beyond repeat the last one, to no effect
    let n = group % p.batch;
    let t = group / p.batch;
    let begin = group * p.classes;
    let length = u32(clamp(lengths[p.lengths_offset + n], 0, i32(p.most)));
    let live = t < u32(clamp(inputs[p.inputs_offset + n], 0, i32(p.steps)));
    let total = loss[p.loss_offset + n];
    let scale = g[p.g_offset + n];
    for (var first = local; first < p.classes; first += EACH * 256u) {
        var found: array<f32, EACH>;
        for (var j = 0u; j < EACH; j++) { found[j] = x[p.x_offset + begin + min(first + j * 256u, p.classes - 1u)]; }
        for (var j = 0u; j < EACH; j++) {
            let c = first + j * 256u;
            var slope = 0.0;
            if (live && is_nan(total)) { slope = nan(); } else if (live && !is_nan(found[j])) { slope = scale * exp_accurate(found[j]); }
            if (c < p.classes) { dx[begin + c] = slope; }
        }
    }
    let row = (n * p.steps + t) * (2u * p.most + 1u);
    let met = live && total < 3.4e38;
    var blanks = 0.0;
    for (var s = local; met && s < 2u * length + 1u; s += 256u) {
        if (state(n, s) == p.blank) { blanks += share(row, s, total); }
    }
    blanks = row_total(local, blanks);
    storageBarrier();
    if (!met) { return; }
    if (local == 0u) { dx[begin + p.blank] -= scale * blanks; }
    for (var j = local; j < length; j += 256u) {
        if (links[n * p.most + j] >= REPEATED) { continue; }
        let at = begin + state(n, 2u * j + 1u);
        var found = dx[at];
        for (var i = j; i < length; i = links[n * p.most + i] & ~REPEATED) { found -= scale * share(row, 2u * i + 1u, total); }
        dx[at] = found;
    }
}
