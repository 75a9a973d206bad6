// counts: how many elements of x lie in each of as many equal parts of [low, high]; WHOLE: how many are each integer.
//
// Bindings: 0 x, 1 low, 2 high, absent with WHOLE, and with NUMBERS, where the parameters have them (read), 3 out, zeros before
//           (read_write).
// Launch:   workgroups of THREADS, which take the elements in turn.
// Sums:     integers, in workgroup memory first: exact in any order.

alias E = f32;
const WHOLE: bool = false;
const NUMBERS: bool = false;
const THREADS: u32 = 256u;
const BINS: u32 = 1024u;                // at most
const EACH: u32 = 4u;                   // elements of a thread that are on their way at once
const NONE: u32 = 0xffffffffu;

struct Params {
    count: u32, bins: u32, stride: u32, // elements, parts, threads
    x_offset: u32, low_offset: u32, high_offset: u32,
    low: f32, high: f32,
}
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read> x: array<E>;
@group(0) @binding(1) var<storage, read> low: array<E>;
@group(0) @binding(2) var<storage, read> high: array<E>;
@group(0) @binding(3) var<storage, read_write> out: array<atomic<u32>>;

var<workgroup> counts: array<atomic<u32>, BINS>;

// The part that an element lies in; the last one has its upper edge too. NONE where it is in none.
fn part_of(v: E, first: f32, last: f32) -> u32 {
    if (WHOLE) { return u32(v); }
    let at = f32(v);
    if (!(at >= first && at <= last)) { return NONE; }
    return min(u32((at - first) * f32(p.bins) / (last - first)), p.bins - 1u);
}

@compute @workgroup_size(THREADS)
fn main(grid: Grid, @builtin(local_invocation_index) local: u32) {
    for (var b = local; b < BINS; b += THREADS) { atomicStore(&counts[b], 0u); }
    workgroupBarrier();
    var first = p.low;
    var last = p.high;
    if (!NUMBERS && !WHOLE) {
        first = f32(low[p.low_offset]);
        last = f32(high[p.high_offset]);
    }
    for (var i = group_of(grid) * THREADS + local; i < p.count; i += EACH * p.stride) {
        var found: array<E, EACH>;
        for (var k = 0u; k < EACH; k++) { found[k] = x[p.x_offset + min(i + k * p.stride, p.count - 1u)]; }
        for (var k = 0u; k < EACH; k++) {
            let part = part_of(found[k], first, last);
            if (i + k * p.stride < p.count && part < p.bins) { atomicAdd(&counts[part], 1u); }
        }
    }
    workgroupBarrier();
    for (var b = local; b < p.bins; b += THREADS) {
        let counted = atomicLoad(&counts[b]);
        if (counted > 0u) { atomicAdd(&out[b], counted); }
    }
}
