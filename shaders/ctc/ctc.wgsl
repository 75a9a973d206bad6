// ctc: of each sequence the logarithms alphas[n, t, s] of the probabilities of the beginnings of alignments that end in state s at step t,
// and the loss. States are blank, label, blank, label, ..., blank; what no alignment meets is -inf.
//
// What a step hands to the next lies in workgroup memory, unless SHARED is off, where that cannot hold two rows of states; what the classes
// of the next steps have is read while steps are computed.
//
// Bindings: 0 x[T, N, C], 1 labels[N, S], 2 inputs[N], 3 lengths[N] (read); 4 loss[N], 5 alphas[N, T, 2 S + 1] (read_write).
// Launch:   x = N workgroups of THREADS, which share the states of a sequence.
// Sums:     in f32, of three terms, about the largest.

const THREADS: u32 = 256u;
const EACH: u32 = 2u;                   // states of a thread
const SHARED: bool = true;
const AHEAD: u32 = 4u;                  // steps
const WIDTH: u32 = THREADS * EACH + 2u; // of a row: two that no alignment meets lie before the states

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

var<workgroup> rows: array<f32, select(1u, 2u * WIDTH, SHARED)>;
var<private> classes: array<u32, EACH>;
var<private> next: array<f32, AHEAD * EACH>;

fn state(n: u32, s: u32) -> u32 {
    return ctc_state(labels[p.labels_offset + n * p.most + min(s / 2u, max(p.most, 1u) - 1u)], s, p.classes, p.blank);
}

fn fetch(n: u32, first: u32) {
    for (var j = 0u; j < AHEAD; j++) {
        for (var i = 0u; i < EACH; i++) {
            next[j * EACH + i] = x[p.x_offset + (min(first + j, p.steps - 1u) * p.batch + n) * p.classes + classes[i]];
        }
    }
}

// What the step before found of the state `back` before s; `row` is where the states of this step begin in alphas.
fn earlier(t: u32, row: u32, s: u32, back: u32) -> f32 {
    if (SHARED) { return rows[(t + 1u) % 2u * WIDTH + s + 2u - back]; }
    return select(-inf(), alphas[row - min(2u * p.most + 1u, row) + max(s, back) - back], s >= back);
}

@compute @workgroup_size(THREADS)
fn main(grid: Grid, @builtin(local_invocation_index) local: u32) {
    let n = min(group_of(grid), p.batch - 1u);
    let width = 2u * p.most + 1u;
    let count = 2u * u32(clamp(lengths[p.lengths_offset + n], 0, i32(p.most))) + 1u;
    let used = u32(clamp(inputs[p.inputs_offset + n], 0, i32(p.steps)));
    var jumps: array<bool, EACH>;
    for (var i = 0u; i < EACH; i++) {
        let s = local + i * THREADS;
        classes[i] = state(n, s);
        jumps[i] = s > 1u && classes[i] != state(n, max(s, 2u) - 2u);
    }
    for (var s = local; SHARED && s < 2u * WIDTH; s += THREADS) { rows[s] = -inf(); }
    fetch(n, 0u);
    workgroupBarrier();
    for (var first = 0u; first < p.steps; first += AHEAD) {
        let here = next;
        fetch(n, first + AHEAD);
        for (var j = 0u; j < AHEAD; j++) {
            let t = first + j;
            let row = (n * p.steps + t) * width;
            for (var i = 0u; i < EACH; i++) {
                let s = local + i * THREADS;
                var found = -inf();
                if (t == 0u && s < min(count, 2u) && used > 0u) {
                    found = here[i];
                } else if (t > 0u && t < used && s < count) {
                    var second = -inf();
                    if (jumps[i]) { second = earlier(t, row, s, 2u); }
                    found = ctc_joined(earlier(t, row, s, 0u), earlier(t, row, s, 1u), second) + here[j * EACH + i];
                }
                if (SHARED) { rows[t % 2u * WIDTH + s + 2u] = found; }
                if (s < width && t < p.steps) { alphas[row + s] = found; }
            }
            if (SHARED) { workgroupBarrier(); } else { storageBarrier(); }
        }
    }
    storageBarrier();
    if (local > 0u) { return; }
    var total = select(-inf(), 0.0, count == 1u);
    if (used > 0u) {
        let last = (n * p.steps + used - 1u) * width + count - 1u;
        total = alphas[last];
        if (count > 1u) { total = ctc_joined(total, alphas[last - 1u], -inf()); }
    }
    loss[n] = -total;
}
