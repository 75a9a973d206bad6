// index_copy: out[outer, index[k], inner] = values[outer, k, inner]; of several k that name a place the last one counts.
//
// Each workgroup finds the last entries of all places, in workgroup memory, for many elements; RAW: any entry counts. FILL: all entries
// have the one value.
//
// Bindings: 0 values, 1 index (read), 2 out (read_write).
// Launch:   x = ceil(count / chunk) workgroups of 256; count, inner, chunk and the offsets but for index_offset are in V's.
// Sums:     none. Copies bits: V is of u32 for every type of 32 bits.

alias V = u32;
alias S = u32;                          // of values: a V, or with FILL an element
const FILL: bool = false;
const RAW: bool = false;
const PLACES: u32 = 1024u;              // at most
const EACH: u32 = 4u;                   // elements of a thread that are on their way at once

struct Params {
    count: u32, inner: u32, entries: u32, size: u32,
    chunk: u32,
    values_offset: u32, index_offset: u32, out_offset: u32,
}
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read> values: array<S>;
@group(0) @binding(1) var<storage, read> index: array<i32>;
@group(0) @binding(2) var<storage, read_write> out: array<V>;

var<workgroup> last: array<atomic<u32>, select(PLACES, 1u, RAW)>;

fn named(k: u32) -> u32 { return u32(clamp(index[p.index_offset + k], 0, i32(p.size) - 1)); }

@compute @workgroup_size(256)
fn main(grid: Grid, @builtin(local_invocation_index) local: u32) {
    let begin = min(group_of(grid) * p.chunk, p.count);
    let end = min(begin + p.chunk, p.count);
    if (!RAW) {
        for (var j = local; j < p.size; j += 256u) { atomicStore(&last[j], 0u); }
        workgroupBarrier();
        for (var k = local; k < p.entries; k += 256u) { atomicMax(&last[named(k)], k + 1u); }
        workgroupBarrier();
    }
    for (var first = begin + local; first < end; first += EACH * 256u) {
        var found: array<V, EACH>;
        for (var e = 0u; e < EACH; e++) { found[e] = V(values[p.values_offset + select(min(first + e * 256u, end - 1u), 0u, FILL)]); }
        for (var e = 0u; e < EACH; e++) {
            let i = first + e * 256u;
            let line = i / p.inner;
            let outer = line / p.entries;
            let k = line - outer * p.entries;
            let place = named(k);
            if (i < end && (RAW || atomicLoad(&last[place]) == k + 1u)) {
                out[p.out_offset + (outer * p.size + place) * p.inner + i - line * p.inner] = found[e];
            }
        }
    }
}
