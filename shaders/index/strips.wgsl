// index_strips: out[outer, k, inner] = x[outer, index[outer, k, inner], inner]. A workgroup takes some neighbouring columns of many k, so
// that what it reads of x, which is little, stays in the cache next to it.
//
// Bindings: 0 x, 1 index (read), 2 out (read_write).
// Launch:   x = groups = outers * parts * strips workgroups of THREADS.
// Sums:     none. Copies bits: E is u32 for every type of 32 bits.

alias E = u32;
const THREADS: u32 = 1024u;
const COLUMNS: u32 = 8u;                                // of a strip: those of one access to memory
const EACH: u32 = 8u;                                   // elements of a thread that are on their way at once
const STEP: u32 = THREADS / COLUMNS;

struct Params {
    groups: u32, strips: u32, parts: u32, rows: u32,    // rows of a part
    inner: u32, entries: u32, size: u32, x_offset: u32, index_offset: u32,
}
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read> x: array<E>;
@group(0) @binding(1) var<storage, read> index: array<i32>;
@group(0) @binding(2) var<storage, read_write> out: array<E>;

@compute @workgroup_size(THREADS)
fn main(grid: Grid, @builtin(local_invocation_index) local: u32) {
    let group = group_of(grid);
    let column = group % p.strips * COLUMNS + local % COLUMNS;
    if (group >= p.groups || column >= p.inner) {
        return;
    }
    let part = group / p.strips % p.parts;
    let outer = group / p.strips / p.parts;
    let end = min((part + 1u) * p.rows, p.entries);
    let source = p.x_offset + outer * p.size * p.inner + column;
    let begin = outer * p.entries * p.inner + column;
    for (var row = part * p.rows + local / COLUMNS; row < end; row += EACH * STEP) {
        var places: array<u32, EACH>;
        for (var j = 0u; j < EACH; j++) {
            places[j] = u32(clamp(index[p.index_offset + begin + min(row + j * STEP, end - 1u) * p.inner], 0, i32(p.size) - 1));
        }
        var found: array<E, EACH>;
        for (var j = 0u; j < EACH; j++) { found[j] = x[source + places[j] * p.inner]; }
        for (var j = 0u; j < EACH; j++) {
            if (row + j * STEP < end) { out[begin + (row + j * STEP) * p.inner] = found[j]; }
        }
    }
}
