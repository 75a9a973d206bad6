// sort_count: how often each digit occurs among the 256 keys of a tile; the first of a radix pass's three dispatches.
//
// counts[digit * tiles + tile], for sort_scan.
//
// Bindings: 0 keys (read), 1 counts (read_write).
// Launch:   x = tiles = ceil(count / 256) workgroups of 256.
// Sums:     integers: exact in any order.

struct Params {
    count: u32, tiles: u32, shift: u32,
}
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read> keys: array<u32>;
@group(0) @binding(1) var<storage, read_write> counts: array<u32>;

var<workgroup> histogram: array<atomic<u32>, 256>;

@compute @workgroup_size(256)
fn main(grid: Grid, @builtin(local_invocation_index) local: u32) {
    let tile = group_of(grid);
    let k = tile * 256u + local;
    atomicStore(&histogram[local], 0u);
    workgroupBarrier();
    if (k < p.count) {
        atomicAdd(&histogram[(keys[k] >> p.shift) & 255u], 1u);
    }
    workgroupBarrier();
    if (tile < p.tiles) {
        counts[local * p.tiles + tile] = atomicLoad(&histogram[local]);
    }
}
