// index_keys: the row of the output that each entry is added to, for sorting.
//
// FULL: index has the shape [outer, entries, inner] and a row is one element of out[outer, size, inner] (scatter_add).
//
// Bindings: 0 index (read), 1 keys (read_write).
// Launch:   x = ceil(count / 256) workgroups of 256.
// Sums:     none.

const FULL: bool = true;

struct Params {
    count: u32, inner: u32, entries: u32, size: u32,
    index_offset: u32,
}
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read> index: array<i32>;
@group(0) @binding(1) var<storage, read_write> keys: array<u32>;

@compute @workgroup_size(256)
fn main(grid: Grid, @builtin(local_invocation_index) local: u32) {
    let k = group_of(grid) * 256u + local;
    if (k >= p.count) {
        return;
    }
    var row = u32(clamp(index[p.index_offset + k], 0, i32(p.size) - 1));
    if (FULL) {
        let line = k / p.inner;
        row = (line / p.entries * p.size + row) * p.inner + k - line * p.inner;
    }
    keys[k] = row;
}
