// sort_unsort: g[outer, entries, inner] written at the places of index in out[outer, size, inner].
//
// Bindings: 0 g, 1 index (read), 2 out (read_write).
// Launch:   x = ceil(count / 256) workgroups of 256.
// Sums:     none; no place of a line is named twice.

alias E = u32;

struct Params {
    count: u32, inner: u32, entries: u32, size: u32,
    g_offset: u32, index_offset: u32,
}
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read> g: array<E>;
@group(0) @binding(1) var<storage, read> index: array<i32>;
@group(0) @binding(2) var<storage, read_write> out: array<E>;

@compute @workgroup_size(256)
fn main(grid: Grid, @builtin(local_invocation_index) local: u32) {
    let k = group_of(grid) * 256u + local;
    if (k >= p.count) {
        return;
    }
    let row = u32(clamp(index[p.index_offset + k], 0, i32(p.size) - 1));
    out[(k / (p.entries * p.inner) * p.size + row) * p.inner + k % p.inner] = g[p.g_offset + k];
}
