// sort_scatter: moves each key, and its place in the line, behind the line's keys of lower digits and the equal ones before it.
//
// Stable: keys of one digit keep their order, so that passes from the lowest digit up sort, and equal keys stay in the order of the input.
// A tile is sorted by its digit in workgroup memory first, so that keys of a digit are written side by side.
// FIRST: the first pass, in which the places are the positions themselves. The last pass of elements gives these in place of their keys, the
// first `kept` of each line.
//
// Bindings: 0 keys, 1 places, 2 starts, by sort_scan, 3 x, the elements (read), 4 sorted keys, 5 their places (read_write).
// Launch:   x = groups = lines * tiles workgroups of 256, tiles = ceil(length / (256 * ITEMS)).
// Sums:     integers.

alias E = u32;
alias O = u32;
alias I = u32;
const FIRST: bool = false;
const THREADS: u32 = 256u;
const ITEMS: u32 = 16u;
fn key(x: E) -> u32 { return x; }
fn value(k: u32) -> O { return k; }
fn ambiguous(k: u32) -> bool { return false; }

struct Params {
    groups: u32, length: u32, tiles: u32, shift: u32,
    kept: u32, keys_offset: u32, x_offset: u32,
}
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read> keys: array<E>;
@group(0) @binding(1) var<storage, read> places: array<u32>;
@group(0) @binding(2) var<storage, read> starts: array<u32>;
@group(0) @binding(3) var<storage, read> x: array<O>;
@group(0) @binding(4) var<storage, read_write> sorted: array<O>;
@group(0) @binding(5) var<storage, read_write> sorted_places: array<I>;

const TILE: u32 = THREADS * ITEMS;
var<workgroup> tile: array<u32, TILE>;                  // keys, and then places, in the order of the input
var<workgroup> bases: array<u32, 256>;                  // where in the line the keys of a digit go, less where they are in the tile

@compute @workgroup_size(256)
fn main(grid: Grid, @builtin(local_invocation_index) local: u32) {
    let group = group_of(grid);
    if (group >= p.groups) {
        return;
    }
    let line = group / p.tiles;
    let first = group % p.tiles * TILE;
    let start = line * p.length + first;
    let size = min(TILE, p.length - first);
    bases[local] = starts[(line * 256u + local) * p.tiles + group % p.tiles] - line * p.length;
    for (var j = 0u; j < ITEMS; j++) {
        let k = j * THREADS + local;
        var digit = 255u;                               // what is beyond the line sorts behind all
        if (k < size) {
            let rank = key(keys[p.keys_offset + start + k]);
            digit = (rank >> p.shift) & 255u;
            tile[k] = rank;
        }
        exchanged[banked(k)] = (digit << 16u) | k;
    }
    workgroupBarrier();
    for (var bit = 16u; bit < 24u; bit += 4u) {
        var items: array<u32, ITEMS>;
        for (var j = 0u; j < ITEMS; j++) {
            items[j] = exchanged[banked(local * ITEMS + j)];
        }
        split_by_digit(local, &items, bit);
    }
    var ranks: array<u32, ITEMS>;
    for (var j = 0u; j < ITEMS; j++) {
        let k = j * THREADS + local;
        let item = exchanged[banked(k)];
        ranks[j] = tile[item & 0xffffu];
        if (k < size && (k == 0u || item >> 16u != exchanged[banked(max(k, 1u) - 1u)] >> 16u)) {
            bases[item >> 16u] -= k;
        }
    }
    workgroupBarrier();
    for (var j = 0u; j < ITEMS; j++) {
        let k = j * THREADS + local;
        tile[k] = first + k;
        if (!FIRST && k < size) {
            tile[k] = places[start + k];
        }
    }
    workgroupBarrier();
    for (var j = 0u; j < ITEMS; j++) {
        let k = j * THREADS + local;
        let item = exchanged[banked(k)];
        let to = bases[item >> 16u] + k;
        if (k < size && to < p.kept) {
            let place = tile[item & 0xffffu];
            var found = value(ranks[j]);
            if (ambiguous(ranks[j])) {
                found = x[p.x_offset + line * p.length + place];
            }
            sorted[line * p.kept + to] = found;
            sorted_places[line * p.kept + to] = I(place);
        }
    }
}
