// sort_line: the first `kept` in order of each line of x[lines, length], which has at most THREADS * ITEMS elements, in workgroup memory.
//
// A radix sort by four bits at a time. An item is a place in the line, with as many bits of its key above it as there is room for; when
// these are in order, the next ones take their place, from the line as it is read again.
//
// RUNS: lines of `whole` elements are sorted by runs of `length`, which stay where they are, for sort_merge.
//
// Bindings: 0 x (read), 1 values, 2 indices (read_write), both [lines, kept].
// Launch:   x = lines * RUNS workgroups of THREADS.
// Sums:     integers.

alias E = f32;
const THREADS: u32 = 256u;
const ITEMS: u32 = 8u;
const BITS: u32 = 32u;
const RUNS: u32 = 1u;
const PLACE_BITS: u32 = 11u;                            // enough for THREADS * ITEMS
fn key(x: E) -> u32 { return bitcast<u32>(x); }
fn bits(x: E) -> u32 { return bitcast<u32>(x); }
fn element(b: u32) -> E { return bitcast<f32>(b); }

struct Params {
    lines: u32, length: u32, kept: u32, x_offset: u32, whole: u32,
}
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read> x: array<E>;
@group(0) @binding(1) var<storage, read_write> values: array<E>;
@group(0) @binding(2) var<storage, read_write> indices: array<i32>;

const PLACE: u32 = (1u << PLACE_BITS) - 1u;

@compute @workgroup_size(THREADS)
fn main(grid: Grid, @builtin(local_invocation_index) local: u32) {
    let line = group_of(grid) / RUNS;
    if (line >= p.lines) {
        return;
    }
    let first = group_of(grid) % RUNS * p.length;
    let length = min(p.length, p.whole - min(first, p.whole));
    let start = p.x_offset + line * p.whole + first;
    var items: array<u32, ITEMS>;
    for (var j = 0u; j < ITEMS; j++) {
        items[j] = local * ITEMS + j;
    }
    for (var low = 0u; low < BITS; low += 32u - PLACE_BITS) {
        for (var j = 0u; j < ITEMS; j++) {
            let k = j * THREADS + local;
            var rank = 0xffffffffu;                     // behind all, since its place is
            if (k < length) {
                rank = key(x[start + k]);
            }
            exchanged[banked(k)] = rank;
        }
        workgroupBarrier();
        for (var j = 0u; j < ITEMS; j++) {
            items[j] |= (exchanged[banked(items[j])] >> low) << PLACE_BITS;
        }
        for (var bit = PLACE_BITS; bit < min(32u, PLACE_BITS + BITS - low); bit += 4u) {
            split_by_digit(local, &items, bit);
            for (var j = 0u; j < ITEMS; j++) {
                items[j] = exchanged[banked(local * ITEMS + j)];
            }
        }
        for (var j = 0u; j < ITEMS; j++) {
            items[j] &= PLACE;
        }
        workgroupBarrier();
    }
    for (var j = 0u; j < ITEMS; j++) {
        exchanged[banked(local * ITEMS + j)] = items[j];
    }
    workgroupBarrier();
    for (var j = 0u; j < ITEMS; j++) {
        items[j] = exchanged[banked(j * THREADS + local)];
    }
    workgroupBarrier();
    for (var j = 0u; j < ITEMS; j++) {
        let k = j * THREADS + local;
        if (k < length) {
            exchanged[banked(k)] = bits(x[start + k]);
        }
    }
    workgroupBarrier();
    for (var j = 0u; j < ITEMS; j++) {
        let k = j * THREADS + local;
        if (k < min(p.kept, length)) {
            let to = select(line * p.kept, line * p.whole + first, RUNS > 1u) + k;
            values[to] = element(exchanged[banked(items[j])]);
            indices[to] = i32(first + items[j]);
        }
    }
}
