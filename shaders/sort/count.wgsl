// sort_count: how often each digit occurs among the keys of a tile; the first of a radix pass's dispatches.
//
// A tile lies within a line of keys. counts[line, digit, tile], for sort_scan.
//
// TOTALS: also how often in the line.
//
// Bindings: 0 keys (read), 1 counts, 2 totals[line, digit], zero at first, any buffer without TOTALS (read_write).
// Launch:   x = lines * tiles workgroups of 256, tiles = ceil(length / TILE).
// Sums:     integers: exact in any order.

alias E = u32;
const TILE: u32 = 4096u;
const TOTALS: bool = false;
fn key(x: E) -> u32 { return x; }

struct Params {
    groups: u32, length: u32, tiles: u32, shift: u32,
    keys_offset: u32, totals_offset: u32,
}
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read> keys: array<E>;
@group(0) @binding(1) var<storage, read_write> counts: array<u32>;
@group(0) @binding(2) var<storage, read_write> totals: array<atomic<u32>>;

var<workgroup> histogram: array<atomic<u32>, 256>;

@compute @workgroup_size(256)
fn main(grid: Grid, @builtin(local_invocation_index) local: u32) {
    let group = group_of(grid);
    if (group >= p.groups) {
        return;
    }
    let line = group / p.tiles;
    let first = group % p.tiles * TILE;
    let stop = min(first + TILE, p.length);
    atomicStore(&histogram[local], 0u);
    workgroupBarrier();
    var own: array<E, TILE / 256u>;                     // all are on their way before the first is counted
    for (var j = 0u; j < TILE / 256u; j++) {
        if (first + j * 256u + local < stop) {
            own[j] = keys[p.keys_offset + line * p.length + first + j * 256u + local];
        }
    }
    for (var j = 0u; j < TILE / 256u; j++) {
        if (first + j * 256u + local < stop) {
            atomicAdd(&histogram[(key(own[j]) >> p.shift) & 255u], 1u);
        }
    }
    workgroupBarrier();
    let count = atomicLoad(&histogram[local]);
    counts[(line * 256u + local) * p.tiles + group % p.tiles] = count;
    if (TOTALS && count > 0u) { atomicAdd(&totals[p.totals_offset + line * 256u + local], count); }
}
