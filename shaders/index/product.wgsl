// index_product: out[outer, j, inner] = x there, times every src[outer, k, inner] with index[outer, k, inner] == j.
//
// A workgroup counts the entries of each place of some neighbouring columns, lists them place by place in workgroup memory, and each
// place's thread multiplies those of its list, the next one each time; of a long list it goes through all entries instead.
//
// Bindings: 0 x, 1 src, 2 index (read), 3 out (read_write).
// Launch:   x = groups = outers * strips of COLUMNS workgroups of THREADS, a multiple of 64.
// Sums:     products in A, in the order of k.

alias V = f32;
alias A = f32;
const COLUMNS: u32 = 2u;                // a power of two
const PLACES: u32 = 2048u;              // of COLUMNS columns
const ENTRIES: u32 = 4096u;             // and of these
const THREADS: u32 = 256u;
const LONG: u32 = 32u;                  // entries of a list that is long
const NONE: u32 = 0xffffffffu;
const OWN: u32 = (PLACES + THREADS - 1u) / THREADS;
const ITEMS: u32 = (ENTRIES + THREADS - 1u) / THREADS;

struct Params {
    groups: u32, inner: u32, entries: u32, size: u32, strips: u32,
    x_offset: u32, src_offset: u32, index_offset: u32,
}
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read> x: array<V>;
@group(0) @binding(1) var<storage, read> src: array<V>;
@group(0) @binding(2) var<storage, read> index: array<i32>;
@group(0) @binding(3) var<storage, read_write> out: array<V>;

var<workgroup> counts: array<atomic<u32>, PLACES>;      // then where lists begin
var<workgroup> lists: array<u32, ENTRIES>;

fn finish(v: A) -> V { return V(v); }
fn row_at(at: u32) -> u32 { return u32(clamp(index[p.index_offset + at], 0, i32(p.size) - 1)); }

// `one` times the entries of a row, whose list is given. IN: start, the column's first entry.
fn multiplied(one: A, begin: u32, count: u32, start: u32, row: u32) -> A {
    var product = one;
    if (count > LONG) {
        for (var k = 0u; k < p.entries; k++) {
            if (row_at(start + k * p.inner) == row) { product = product * A(src[p.src_offset + start + k * p.inner]); }
        }
        return product;
    }
    var least = 0u;                     // of the entries that are still to come
    for (var n = 0u; n < count; n++) {
        var next = NONE;
        for (var i = 0u; i < count; i++) { next = select(next, min(next, lists[begin + i]), lists[begin + i] >= least); }
        product = product * A(src[p.src_offset + start + next * p.inner]);
        least = next + 1u;
    }
    return product;
}

@compute @workgroup_size(THREADS)
fn main(grid: Grid, @builtin(local_invocation_index) local: u32) {
    let group = group_of(grid);
    if (group >= p.groups) {
        return;
    }
    let outer = group / p.strips;
    let first = group % p.strips * COLUMNS;
    var places: array<u32, ITEMS>;
    for (var j = 0u; j < ITEMS; j++) {                  // without branches, so that all reads are on their way at once
        let e = local + j * THREADS;
        places[j] = row_at((outer * p.entries + min(e / COLUMNS, p.entries - 1u)) * p.inner + min(first + e % COLUMNS, p.inner - 1u));
    }
    for (var j = local; j < PLACES; j += THREADS) { atomicStore(&counts[j], 0u); }
    workgroupBarrier();
    var ranks: array<u32, ITEMS>;
    for (var j = 0u; j < ITEMS; j++) {
        let e = local + j * THREADS;
        places[j] = select(NONE, places[j] * COLUMNS + e % COLUMNS, e / COLUMNS < p.entries && first + e % COLUMNS < p.inner);
        if (places[j] != NONE) { ranks[j] = atomicAdd(&counts[places[j]], 1u); }
    }
    workgroupBarrier();
    var own: array<u32, OWN>;                           // entries of each place of this thread
    var total = 0u;
    for (var i = 0u; i < OWN; i++) {
        own[i] = 0u;
        if (local + i * THREADS < PLACES) { own[i] = atomicLoad(&counts[local + i * THREADS]); }
        total += own[i];
    }
    let before = running_sum(local, total).before;
    var begin = before;
    for (var i = 0u; i < OWN; i++) {
        if (local + i * THREADS < PLACES) { atomicStore(&counts[local + i * THREADS], begin); }
        begin += own[i];
    }
    workgroupBarrier();
    for (var j = 0u; j < ITEMS; j++) {
        if (places[j] != NONE) { lists[atomicLoad(&counts[places[j]]) + ranks[j]] = (local + j * THREADS) / COLUMNS; }
    }
    workgroupBarrier();
    begin = before;
    for (var i = 0u; i < OWN; i++) {
        let row = (local + i * THREADS) / COLUMNS;
        let column = first + (local + i * THREADS) % COLUMNS;
        if (row < p.size && column < p.inner) {
            let at = (outer * p.size + row) * p.inner + column;
            out[at] = finish(multiplied(A(x[p.x_offset + at]), begin, own[i], outer * p.entries * p.inner + column, row));
        }
        begin += own[i];
    }
}
