// sort_short: sorts lines of at most SIZE elements, in workgroup memory: x[outer, length, inner] along its length.
//
// A bitonic network over (key, place in the line), 256 threads to TILE elements, of which each SIZE in a row are a line. Places differ, so
// that equal keys stay in order.
//
// Bindings: 0 x (read), 1 values, 2 indices (read_write), both [outer, kept, inner].
// Launch:   x = ceil(lines / (TILE / SIZE)) workgroups of 256.
// Sums:     none.

alias E = f32;
const SIZE: u32 = 512u;
const TILE: u32 = 512u;
fn key(x: E) -> u32 { return bitcast<u32>(x); }

struct Params {
    lines: u32, length: u32, inner: u32, kept: u32,
    x_offset: u32,
}
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read> x: array<E>;
@group(0) @binding(1) var<storage, read_write> values: array<E>;
@group(0) @binding(2) var<storage, read_write> indices: array<i32>;

var<workgroup> keys: array<u32, TILE>;
var<workgroup> places: array<u32, TILE>;

// Where element i of the line begins, of lines with so many elements.
fn at(line: u32, i: u32, length: u32) -> u32 {
    return (line / p.inner * length + i) * p.inner + line % p.inner;
}

@compute @workgroup_size(256)
fn main(grid: Grid, @builtin(local_invocation_index) local: u32) {
    let first = group_of(grid) * (TILE / SIZE);
    for (var e = local; e < TILE; e += 256u) {
        let line = first + e / SIZE;
        var rank = 0xffffffffu;
        if (line < p.lines && e % SIZE < p.length) {
            rank = key(x[p.x_offset + at(line, e % SIZE, p.length)]);
        }
        keys[e] = rank;
        places[e] = e % SIZE;
    }
    workgroupBarrier();
    for (var size = 2u; size <= SIZE; size <<= 1u) {
        for (var reach = size >> 1u; reach > 0u; reach >>= 1u) {
            for (var pair = local; pair < TILE / 2u; pair += 256u) {
                let low = 2u * pair - (pair & (reach - 1u));
                let high = low + reach;
                let a = keys[low];
                let b = keys[high];
                let i = places[low];
                let j = places[high];
                let upwards = size == SIZE || (low & size) == 0u;
                if ((a > b || (a == b && i > j)) == upwards) {
                    keys[low] = b;
                    keys[high] = a;
                    places[low] = j;
                    places[high] = i;
                }
            }
            workgroupBarrier();
        }
    }
    for (var e = local; e < TILE; e += 256u) {
        let line = first + e / SIZE;
        if (line < p.lines && e % SIZE < p.kept) {
            let to = at(line, e % SIZE, p.kept);
            values[to] = x[p.x_offset + at(line, places[e], p.length)];
            indices[to] = i32(places[e]);
        }
    }
}
