// sort_scatter: moves each key, and its place in the line, behind the line's keys of lower digits and the equal ones before it.
//
// Stable: keys of one digit keep their order, so that passes from the lowest digit up sort, and equal keys stay in the order of the input.
// A tile is sorted by its digit in workgroup memory first, so that keys of a digit are written side by side.
// FIRST: the first pass, in which the places are the positions themselves. The last pass of elements gives these in place of their keys,
// the first `kept` of each line.
//
// Bindings: 0 keys, 1 places, 2 starts, by sort_scan, 3 x, the elements (read), 4 sorted keys, 5 their places (read_write).
// Launch:   x = groups = lines * tiles workgroups of THREADS, tiles = ceil(length / (THREADS * ITEMS)).
// Sums:     integers.

alias E = u32;
alias O = u32;
alias I = u32;
const FIRST: bool = false;
const THREADS: u32 = 256u;
const ITEMS: u32 = 8u;
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

var<workgroup> bases: array<u32, 256>;                  // where in the line the keys of a digit go, less where they are in the tile

@compute @workgroup_size(THREADS)
fn main(grid: Grid, @builtin(local_invocation_index) local: u32) {
    let group = group_of(grid);
    if (group >= p.groups) {
        return;
    }
    let line = group / p.tiles;
    let first = group % p.tiles * THREADS * ITEMS;
    let start = line * p.length + first;
    let size = min(THREADS * ITEMS, p.length - first);
    for (var digit = local; digit < 256u; digit += THREADS) {
        bases[digit] = starts[(line * 256u + digit) * p.tiles + group % p.tiles] - line * p.length;
    }
    var own: array<u32, ITEMS>;
    for (var j = 0u; j < ITEMS; j++) {
        let k = j * THREADS + local;
        own[j] = 0xffffffffu;                           // what is beyond the line sorts behind all
        if (k < size) { own[j] = key(keys[p.keys_offset + start + k]); }
    }
    for (var j = 0u; j < ITEMS; j++) {
        let k = j * THREADS + local;
        exchanged[banked(k)] = (((own[j] >> p.shift) & 255u) << 16u) | k;
    }
    workgroupBarrier();
    var items: array<u32, ITEMS>;
    for (var bit = 16u; bit < 24u; bit += 4u) {
        for (var j = 0u; j < ITEMS; j++) {
            items[j] = exchanged[banked(local * ITEMS + j)];
        }
        split_by_digit(local, &items, bit);
    }
    for (var j = 0u; j < ITEMS; j++) {
        let k = j * THREADS + local;
        items[j] = exchanged[banked(k)];
        if (k < size && (k == 0u || items[j] >> 16u != exchanged[banked(max(k, 1u) - 1u)] >> 16u)) {
            bases[items[j] >> 16u] -= k;
        }
    }
    workgroupBarrier();
    for (var j = 0u; j < ITEMS; j++) {
        exchanged[banked(j * THREADS + local)] = own[j];
    }
    workgroupBarrier();
    var ranks: array<u32, ITEMS>;
    for (var j = 0u; j < ITEMS; j++) {
        ranks[j] = exchanged[banked(items[j] & 0xffffu)];
    }
    workgroupBarrier();
    for (var j = 0u; j < ITEMS; j++) {
        let k = j * THREADS + local;
        var place = first + k;
        if (!FIRST && k < size) {
            place = places[start + k];
        }
        exchanged[banked(k)] = place;
    }
    workgroupBarrier();
    for (var j = 0u; j < ITEMS; j++) {
        let k = j * THREADS + local;
        let to = bases[items[j] >> 16u] + k;
        if (k < size && to < p.kept) {
            let place = exchanged[banked(items[j] & 0xffffu)];
            var found = value(ranks[j]);
            if (ambiguous(ranks[j])) {
                found = x[p.x_offset + line * p.length + place];
            }
            sorted[line * p.kept + to] = found;
            sorted_places[line * p.kept + to] = I(place);
        }
    }
}
