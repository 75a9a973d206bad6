// index_last: for each place, 1 + the last entry of index[K] that names it. A maximum of integers has one result in any order.
//
// FULL: index has the shape [outer, entries, inner], and a place is one element of [outer, size, inner].
//
// Bindings: 0 index (read), 1 last (read_write), zeros before the launch.
// Launch:   x = ceil(K / 256) workgroups of 256.
// Sums:     none.

const FULL: bool = false;

struct Params {
    count: u32, inner: u32, entries: u32, size: u32,
    index_offset: u32,
}
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read> index: array<i32>;
@group(0) @binding(1) var<storage, read_write> last: array<atomic<i32>>;

@compute @workgroup_size(256)
fn main(grid: Grid, @builtin(local_invocation_index) local: u32) {
    let k = group_of(grid) * 256u + local;
    if (k >= p.count) {
        return;
    }
    var place = u32(clamp(index[p.index_offset + k], 0, i32(p.size) - 1));
    if (FULL) { place = place_of(k, place, p.inner, p.entries, p.size); }
    atomicMax(&last[place], i32(k) + 1);
}
