// ctc_ends: of each sequence the logarithms betas[n, t, s] of the probabilities of the rest of alignments behind state s at step t; and
// links[n, j], where the label j comes next, S or more where it does not, plus REPEATED where it came before or is the blank.
//
// As in ctc, workgroup memory has what a step hands to the one before it, with what that step's classes add.
//
// Bindings: 0 x[T, N, C], 1 labels[N, S], 2 inputs[N], 3 lengths[N] (read); 4 betas[N, T, 2 S + 1], 5 links[N, S] (read_write).
// Launch:   x = N workgroups of THREADS, which share the states of a sequence.
// Sums:     in f32, of three terms, about the largest.

const THREADS: u32 = 256u;
const EACH: u32 = 2u;                   // states of a thread
const SHARED: bool = true;
const AHEAD: u32 = 4u;                  // steps
const WIDTH: u32 = THREADS * EACH + 2u; // of a row: two that no alignment meets lie behind the states
const REPEATED: u32 = 0x80000000u;

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
@group(0) @binding(5) var<storage, read_write> links: array<u32>;

var<workgroup> rows: array<f32, select(1u, 2u * WIDTH, SHARED)>;
var<private> classes: array<u32, EACH>;
var<private> next: array<f32, AHEAD * EACH>;

fn state(n: u32, s: u32) -> u32 {
    return ctc_state(labels[p.labels_offset + n * p.most + min(s / 2u, max(p.most, 1u) - 1u)], s, p.classes, p.blank);
}

// NaN of what no alignment ends with is not seen.
fn behind(rest: f32, here: f32) -> f32 {
    if (rest < -3.4e38) { return rest; }
    return rest + here;
}

// Of the steps from `last` on backwards.
fn fetch(n: u32, last: u32) {
    for (var j = 0u; j < AHEAD; j++) {
        for (var i = 0u; i < EACH; i++) {
            next[j * EACH + i] = x[p.x_offset + ((last - min(j, last)) * p.batch + n) * p.classes + classes[i]];
        }
    }
}

// What the step behind t adds to the state s; `row` is where the states of t begin in betas.
fn later(t: u32, n: u32, row: u32, s: u32) -> f32 {
    if (SHARED) { return rows[(t + 1u) % 2u * WIDTH + s]; }
    if (s > 2u * p.most) { return -inf(); }
    return behind(betas[row + 2u * p.most + 1u + s], x[p.x_offset + ((t + 1u) * p.batch + n) * p.classes + state(n, s)]);
}

fn link(n: u32, j: u32, count: u32) -> u32 {
    let own = state(n, 2u * j + 1u);
    var found = count;
    var seen = own == p.blank;
    for (var i = count; i > 0u; i--) {
        if (state(n, 2u * i - 1u) == own) {
            if (i - 1u > j) { found = i - 1u; }
            seen = seen || i - 1u < j;
        }
    }
    return found | select(0u, REPEATED, seen);
}

@compute @workgroup_size(THREADS)
fn main(grid: Grid, @builtin(local_invocation_index) local: u32) {
    let n = min(group_of(grid), p.batch - 1u);
    let width = 2u * p.most + 1u;
    let length = u32(clamp(lengths[p.lengths_offset + n], 0, i32(p.most)));
    let count = 2u * length + 1u;
    let used = u32(clamp(inputs[p.inputs_offset + n], 0, i32(p.steps)));
    var jumps: array<bool, EACH>;
    for (var i = 0u; i < EACH; i++) {
        let s = local + i * THREADS;
        classes[i] = state(n, s);
        let second = state(n, s + 2u);
        jumps[i] = s + 2u < count && second != classes[i];
    }
    fetch(n, p.steps - 1u);
    for (var s = local; SHARED && s < 2u * WIDTH; s += THREADS) { rows[s] = -inf(); }
    for (var j = local; j < length; j += THREADS) { links[n * p.most + j] = link(n, j, length); }
    workgroupBarrier();
    for (var first = 0u; first < p.steps; first += AHEAD) {
        let here = next;
        let more = p.steps - 1u - min(first + AHEAD, p.steps - 1u);
        fetch(n, more);
        for (var j = 0u; j < AHEAD; j++) {
            let back = first + j;
            let t = p.steps - 1u - min(back, p.steps - 1u);
            let row = (n * p.steps + t) * width;
            for (var i = 0u; i < EACH; i++) {
                let s = local + i * THREADS;
                var found = -inf();
                if (t + 1u == used && s < count) {
                    found = select(-inf(), 0.0, s + 2u >= count);
                } else if (t + 1u < used && s < count) {
                    var second = -inf();
                    if (jumps[i]) { second = later(t, n, row, s + 2u); }
                    found = ctc_joined(later(t, n, row, s), later(t, n, row, s + 1u), second);
                }
                if (back >= p.steps) { continue; }
                if (SHARED) { rows[t % 2u * WIDTH + s] = behind(found, here[j * EACH + i]); }
                if (s < width) { betas[row + s] = found; }
            }
            if (SHARED) { workgroupBarrier(); } else { storageBarrier(); }
        }
    }
}
