// sort_line: the first `kept` in order of each line of x[lines, length], which has at most THREADS * ITEMS elements, in workgroup memory.
//
// A radix sort by four bits at a time. An item is a place in the line, below the digit that counts; as soon as the PLACE_BITS lowest bits of
// the keys are in order, all others stand above the place.
//
// Bindings: 0 x (read), 1 values, 2 indices (read_write), both [lines, kept].
// Launch:   x = lines workgroups of THREADS.
// Sums:     integers.

alias E = f32;
const THREADS: u32 = 256u;
const ITEMS: u32 = 16u;
const BITS: u32 = 32u;
const PLACE_BITS: u32 = 12u;                            // a multiple of 4, enough for THREADS * ITEMS
fn key(x: E) -> u32 { return bitcast<u32>(x); }
fn value(k: u32) -> E { return bitcast<f32>(k); }
fn ambiguous(k: u32) -> bool { return false; }

struct Params {
    lines: u32, length: u32, kept: u32, x_offset: u32,
}
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read> x: array<E>;
@group(0) @binding(1) var<storage, read_write> values: array<E>;
@group(0) @binding(2) var<storage, read_write> indices: array<i32>;

const PLACE: u32 = (1u << PLACE_BITS) - 1u;
var<workgroup> keys: array<u32, THREADS * ITEMS / 32u * 33u>;

@compute @workgroup_size(THREADS)
fn main(grid: Grid, @builtin(local_invocation_index) local: u32) {
    let line = group_of(grid);
    if (line >= p.lines) {
        return;
    }
    let start = p.x_offset + line * p.length;
    for (var j = 0u; j < ITEMS; j++) {
        let k = j * THREADS + local;
        var rank = 0xffffffffu;                         // behind all, since its place is
        if (k < p.length) {
            rank = key(x[start + k]);
        }
        keys[banked(k)] = rank;
        exchanged[banked(k)] = k;
    }
    workgroupBarrier();
    for (var bit = 0u; bit < BITS; bit += 4u) {
        var items: array<u32, ITEMS>;
        for (var j = 0u; j < ITEMS; j++) {
            items[j] = exchanged[banked(local * ITEMS + j)];
            if (bit <= PLACE_BITS) {
                let place = items[j] & PLACE;
                let rank = keys[banked(place)];
                items[j] = place | select(((rank >> bit) & 15u) << 28u, rank & ~PLACE, bit == PLACE_BITS);
            }
        }
        split_by_digit(local, &items, select(bit, 28u, bit < PLACE_BITS));
    }
    for (var k = local; k < p.kept; k += THREADS) {
        let place = exchanged[banked(k)] & PLACE;
        let rank = keys[banked(place)];
        var found = value(rank);
        if (ambiguous(rank)) {
            found = x[start + place];
        }
        values[line * p.kept + k] = found;
        indices[line * p.kept + k] = i32(place);
    }
}
