// sort_scatter: moves each key, and its place in the line, behind the line's keys of lower digits and the equal ones before it.
//
// Stable: keys of one digit keep their order, so that passes from the lowest digit up sort, and equal keys stay in the order of the input.
// A tile is sorted by its digit in workgroup memory first, two bits at a time, so that keys of a digit are written side by side.
// FIRST: the first pass, in which the places are the positions themselves.
//
// Bindings: 0 keys, 1 places, 2 counts and 3 totals of sort_scan (read), 4 sorted keys, 5 their places (read_write).
// Launch:   x = groups = lines * tiles workgroups of 256, tiles = ceil(length / 2048).
// Sums:     integers.

const FIRST: bool = false;
const ITEMS: u32 = 8u;

struct Params {
    groups: u32, length: u32, tiles: u32, shift: u32,
}
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read> keys: array<u32>;
@group(0) @binding(1) var<storage, read> places: array<u32>;
@group(0) @binding(2) var<storage, read> counts: array<u32>;
@group(0) @binding(3) var<storage, read> totals: array<u32>;
@group(0) @binding(4) var<storage, read_write> sorted: array<u32>;
@group(0) @binding(5) var<storage, read_write> sorted_places: array<u32>;

var<workgroup> tile: array<u32, 2048>;                  // digit << 16 | position in the tile
var<workgroup> sums: array<vec2<u32>, 256>;             // of threads: counts of the four values of two bits, 16 bits each
var<workgroup> bases: array<u32, 256>;                  // where in the line the keys of a digit go
var<workgroup> starts: array<u32, 256>;                 // where in the tile they begin

fn one(value: u32) -> vec2<u32> {
    let count = 1u << (16u * (value & 1u));
    return select(vec2<u32>(count, 0u), vec2<u32>(0u, count), value > 1u);
}

fn count_of(counted: vec2<u32>, value: u32) -> u32 {
    return (select(counted.x, counted.y, value > 1u) >> (16u * (value & 1u))) & 0xffffu;
}

@compute @workgroup_size(256)
fn main(grid: Grid, @builtin(local_invocation_index) local: u32) {
    let group = group_of(grid);
    if (group >= p.groups) {
        return;
    }
    let line = group / p.tiles;
    let first = line * p.length + group % p.tiles * 2048u;
    let size = min(2048u, p.length - group % p.tiles * 2048u);
    let total = totals[line * 256u + local];
    bases[local] = total;
    workgroupBarrier();
    for (var reach = 1u; reach < 256u; reach *= 2u) {
        var other = 0u;
        if (local >= reach) {
            other = bases[local - reach];
        }
        workgroupBarrier();
        bases[local] += other;
        workgroupBarrier();
    }
    bases[local] += counts[(line * 256u + local) * p.tiles + group % p.tiles] - total;
    for (var k = local; k < 2048u; k += 256u) {         // what is beyond the line sorts behind all
        var digit = 255u;
        if (k < size) {
            digit = (keys[first + k] >> p.shift) & 255u;
        }
        tile[k] = (digit << 16u) | k;
    }
    workgroupBarrier();
    for (var bit = 16u; bit < 24u; bit += 2u) {
        var own: array<u32, ITEMS>;
        var counted = vec2<u32>(0u, 0u);
        for (var j = 0u; j < ITEMS; j++) {
            own[j] = tile[local * ITEMS + j];
            counted += one((own[j] >> bit) & 3u);
        }
        sums[local] = counted;
        workgroupBarrier();
        for (var reach = 1u; reach < 256u; reach *= 2u) {
            var other = vec2<u32>(0u, 0u);
            if (local >= reach) {
                other = sums[local - reach];
            }
            workgroupBarrier();
            sums[local] += other;
            workgroupBarrier();
        }
        let all = sums[255];
        var next = sums[local] - counted;               // plus what all lower values take
        let lower = vec2<u32>(all.x & 0xffffu, (all.x & 0xffffu) + (all.x >> 16u));
        next += vec2<u32>(lower.x << 16u, lower.y | ((lower.y + (all.y & 0xffffu)) << 16u));
        for (var j = 0u; j < ITEMS; j++) {
            let value = (own[j] >> bit) & 3u;
            tile[count_of(next, value)] = own[j];
            next += one(value);
        }
        workgroupBarrier();
    }
    for (var k = local; k < size; k += 256u) {
        let digit = tile[k] >> 16u;
        if (k == 0u || digit != tile[max(k, 1u) - 1u] >> 16u) {
            starts[digit] = k;
        }
    }
    workgroupBarrier();
    for (var k = local; k < size; k += 256u) {
        let digit = tile[k] >> 16u;
        let from_place = first + (tile[k] & 0xffffu);
        let to = line * p.length + bases[digit] + k - starts[digit];
        sorted[to] = keys[from_place];
        sorted_places[to] = select(places[select(from_place, 0u, FIRST)], from_place - line * p.length, FIRST);
    }
}
