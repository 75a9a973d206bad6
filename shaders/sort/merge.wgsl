// sort_merge: the first `kept` in order of each line of [lines, length], whose runs of `run` elements are in order: an element goes behind
// those of its own run before it, those of earlier runs that are not behind it, and those of later ones that are before it.
//
// Bindings: 0 sorted runs, 1 their places in the line (read), 2 values, 3 indices, both [lines, kept] (read_write).
// Launch:   x = ceil(count / 256) workgroups of 256; a thread places one element, by bisection of all runs at once.
// Sums:     integers.

alias E = f32;
const RUNS: u32 = 16u;
const STEPS: u32 = 13u;                 // of bisection: 2^STEPS is more than a run has
fn key(x: E) -> u32 { return bitcast<u32>(x); }

struct Params {
    count: u32, length: u32, run: u32, kept: u32,
}
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read> sorted: array<E>;
@group(0) @binding(1) var<storage, read> places: array<i32>;
@group(0) @binding(2) var<storage, read_write> values: array<E>;
@group(0) @binding(3) var<storage, read_write> indices: array<i32>;

@compute @workgroup_size(256)
fn main(grid: Grid, @builtin(local_invocation_index) local: u32) {
    let i = group_of(grid) * 256u + local;
    if (i >= p.count) {
        return;
    }
    let line = i / p.length;
    let start = line * p.length;
    let own = (i - start) / p.run;
    let value = sorted[i];
    let rank = key(value);
    var before: array<u32, RUNS>;       // how many of a run are known to come before
    for (var r = 0u; r < RUNS; r++) { before[r] = 0u; }
    for (var step = STEPS; step > 0u; step--) {
        let reach = 1u << (step - 1u);
        for (var r = 0u; r < RUNS; r++) {
            let size = min(p.run, p.length - min(r * p.run, p.length));
            let at = before[r] + reach;
            let other = key(sorted[start + min(r * p.run + at, p.length) - 1u]);
            if (at <= size && (other < rank || (other == rank && r < own))) { before[r] = at; }
        }
    }
    var to = i - start - own * p.run;
    for (var r = 0u; r < RUNS; r++) { to += select(before[r], 0u, r == own); }
    if (to < p.kept) {
        values[line * p.kept + to] = value;
        indices[line * p.kept + to] = places[i];
    }
}
