// index_last: for each place, 1 + the last entry of index[K] that names it. A maximum of integers has one result in any order.
//
// Bindings: 0 index (read), 1 last (read_write), zeros before the launch.
// Launch:   x = ceil(K / 256) workgroups of 256.
// Sums:     none.

struct Params {
    entries: u32, size: u32, index_offset: u32,
}
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read> index: array<i32>;
@group(0) @binding(1) var<storage, read_write> last: array<atomic<i32>>;

@compute @workgroup_size(256)
fn main(grid: Grid, @builtin(local_invocation_index) local: u32) {
    let k = group_of(grid) * 256u + local;
    if (k < p.entries) {
        atomicMax(&last[clamp(index[p.index_offset + k], 0, i32(p.size) - 1)], i32(k) + 1);
    }
}
