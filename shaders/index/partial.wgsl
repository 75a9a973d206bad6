// index_partial: sums of 256 sorted entries where all of them are of one row, for index_sum: rows of very many entries.
//
// Bindings: 0 g, 1 sorted keys, 2 their places (read), 3 sums[outer, chunk, inner] (read_write); chunks of several rows stay undefined.
// Launch:   x = ceil(count / 256) workgroups of 256; a thread makes one A; count, inner and g_offset are in V's.
// Sums:     in A, in the order of k.

alias V = f32;
alias A = f32;

struct Params {
    count: u32, inner: u32, entries: u32, chunks: u32,
    g_offset: u32,
}
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read> g: array<V>;
@group(0) @binding(1) var<storage, read> keys: array<u32>;
@group(0) @binding(2) var<storage, read> places: array<u32>;
@group(0) @binding(3) var<storage, read_write> sums: array<A>;

@compute @workgroup_size(256)
fn main(grid: Grid, @builtin(local_invocation_index) local: u32) {
    let i = group_of(grid) * 256u + local;
    if (i >= p.count) {
        return;
    }
    let line = i / p.inner;
    let outer = line / p.chunks;
    let first = (line - outer * p.chunks) * 256u;
    if (keys[first] != keys[first + 255u]) {
        return;
    }
    let start = p.g_offset + outer * p.entries * p.inner + i - line * p.inner;
    var total = A();
    for (var k = first; k < first + 256u; k++) {
        total += A(g[start + places[k] * p.inner]);
    }
    sums[i] = total;
}
