// sort_nth: the element that comes at `place` in the order of each line of x[outer, length, inner], and its index; its MEDIAN: of the
// numbers with SKIP, else the first NaN where there is one.
//
// Of equal elements the one that a stable sort puts there. The key is found by eight bits at a time, from the upper ones down: how many
// keys have the bits that are known and each of the next ones.
//
// Bindings: 0 x (read), 1 values, 2 indices (read_write), one for each line.
// Launch:   x = lines workgroups of 256.
// Sums:     integers.

alias E = f32;
const THREADS: u32 = 256u;
const BITS: u32 = 32u;
const AHEAD: u32 = 1u;                                  // elements of a thread that are on their way at once
const MEDIAN: bool = false;
const SKIP: bool = false;
fn key(x: E) -> u32 { return bitcast<u32>(x); }
fn missing(x: E) -> bool { return is_nan(f32(x)); }

struct Params {
    lines: u32, length: u32, inner: u32, place: u32, x_offset: u32,
}
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read> x: array<E>;
@group(0) @binding(1) var<storage, read_write> values: array<E>;
@group(0) @binding(2) var<storage, read_write> indices: array<i32>;

var<workgroup> counts: array<atomic<u32>, 256>;
var<workgroup> chosen: vec2<u32>;                       // digit, and the place among the keys that have it

// Which place of a line has its median.
fn median(local: u32, start: u32) -> u32 {
    var count = 0u;
    for (var first = local; first < p.length; first += AHEAD * THREADS) {
        for (var j = 0u; j < AHEAD; j++) {
            let i = first + j * THREADS;
            count += select(0u, 1u, !missing(x[start + min(i, p.length - 1u) * p.inner]) && i < p.length);
        }
    }
    let numbers = running_sum(local, count).all;
    workgroupBarrier();
    if (SKIP || numbers == p.length) { return (max(numbers, 1u) - 1u) / 2u; }
    return numbers;
}

@compute @workgroup_size(THREADS)
fn main(grid: Grid, @builtin(local_invocation_index) local: u32) {
    let line = min(group_of(grid), p.lines - 1u);
    let start = p.x_offset + line / p.inner * p.length * p.inner + line % p.inner;
    var place = p.place;
    if (MEDIAN) { place = median(local, start); }
    var known = 0u;
    var mask = 0u;
    for (var above = (BITS + 7u) / 8u * 8u; above > 0u; above -= 8u) {
        let shift = above - 8u;
        atomicStore(&counts[local], 0u);
        workgroupBarrier();
        for (var first = local; first < p.length; first += AHEAD * THREADS) {
            var keys: array<u32, AHEAD>;
            for (var j = 0u; j < AHEAD; j++) { keys[j] = key(x[start + min(first + j * THREADS, p.length - 1u) * p.inner]); }
            for (var j = 0u; j < AHEAD; j++) {
                if ((keys[j] & mask) == known && first + j * THREADS < p.length) { atomicAdd(&counts[(keys[j] >> shift) & 255u], 1u); }
            }
        }
        workgroupBarrier();
        let count = atomicLoad(&counts[local]);
        let before = running_sum(local, count).before;
        if (before <= place && place - before < count) { chosen = vec2<u32>(local, place - before); }
        workgroupBarrier();
        let found = chosen;
        place = found.y;
        known |= found.x << shift;
        mask |= 255u << shift;
    }
    let each = (p.length + THREADS - 1u) / THREADS;     // neighbours, so that equal keys are counted in their order
    let first = min(local * each, p.length);
    let last = min(first + each, p.length);
    var count = 0u;
    for (var i = first; i < last; i++) { count += select(0u, 1u, key(x[start + i * p.inner]) == known); }
    let before = running_sum(local, count).before;
    if (before > place || place - before >= count || group_of(grid) >= p.lines) {
        return;
    }
    var left = place - before;
    for (var i = first; i < last; i++) {
        let v = x[start + i * p.inner];
        if (key(v) == known) {
            if (left == 0u) {
                values[line] = v;
                indices[line] = i32(i);
                return;
            }
            left--;
        }
    }
}
