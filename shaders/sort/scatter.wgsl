// sort_scatter: moves each key, and its place in the input, behind the keys of lower digits and the equal ones before it.
//
// Stable: keys of one digit keep their order, so that passes from the lowest digit up sort, and equal keys stay in the order
// of the input. A key's rank within its tile comes from looking at the 256 keys of the tile.
// FIRST: the first pass, in which the places are the positions themselves.
//
// Bindings: 0 keys, 1 places, 2 counts and 3 totals of sort_scan (read), 4 sorted keys, 5 their places (read_write).
// Launch:   x = tiles = ceil(count / 256) workgroups of 256.
// Sums:     integers.

const FIRST: bool = false;

struct Params {
    count: u32, tiles: u32, shift: u32,
}
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read> keys: array<u32>;
@group(0) @binding(1) var<storage, read> places: array<u32>;
@group(0) @binding(2) var<storage, read> counts: array<u32>;
@group(0) @binding(3) var<storage, read> totals: array<u32>;
@group(0) @binding(4) var<storage, read_write> sorted: array<u32>;
@group(0) @binding(5) var<storage, read_write> sorted_places: array<u32>;

alias Sum = u32;
var<workgroup> digits: array<u32, 256>;

@compute @workgroup_size(256)
fn main(grid: Grid, @builtin(local_invocation_index) local: u32) {
    let tile = group_of(grid);
    let k = tile * 256u + local;
    var key = 0u;
    var digit = 256u;
    if (k < p.count) {
        key = keys[k];
        digit = (key >> p.shift) & 255u;
    }
    digits[local] = digit;
    _ = running_sum(local, totals[local]);
    var rank = 0u;
    for (var j = 0u; j < 256u; j++) {
        rank += select(0u, 1u, j < local && digits[j] == digit);
    }
    if (k < p.count) {
        let target_place = running_sums[digit] - totals[digit] + counts[digit * p.tiles + tile] + rank;
        sorted[target_place] = key;
        sorted_places[target_place] = select(places[select(k, 0u, FIRST)], k, FIRST);
    }
}
