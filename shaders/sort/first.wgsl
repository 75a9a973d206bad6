// sort_first: of each line of at most TILE elements of x[outer, length, inner] the first `kept`, in order.
//
// A bitonic network over (key, place in the line) sorts runs of RUN elements; then of every two runs the RUN lower elements stay, until
// there is one. Places differ, so that equal keys stay in order.
//
// Bindings: 0 x (read), 1 values, 2 indices (read_write), both [outer, kept, inner].
// Launch:   x = lines workgroups of 256.
// Sums:     none.

alias E = f32;
const TILE: u32 = 2048u;
const RUN: u32 = 16u;
fn key(x: E) -> u32 { return bitcast<u32>(x); }

struct Params {
    lines: u32, length: u32, inner: u32, kept: u32,
    x_offset: u32,
}
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read> x: array<E>;
@group(0) @binding(1) var<storage, read_write> values: array<E>;
@group(0) @binding(2) var<storage, read_write> indices: array<i32>;

const PAIRS: u32 = (TILE / 2u + 255u) / 256u;           // of a thread, at most
var<workgroup> keys: array<u32, TILE>;
var<workgroup> places: array<u32, TILE>;

// Where element i of the line begins, of lines with so many elements.
fn at(line: u32, i: u32, length: u32) -> u32 {
    return (line / p.inner * length + i) * p.inner + line % p.inner;
}

fn behind(low: u32, high: u32) -> bool {
    return keys[low] > keys[high] || (keys[low] == keys[high] && places[low] > places[high]);
}

// Compares the elements `reach` apart among the first `live`; runs of `size` rise and fall in turns.
fn compare(local: u32, live: u32, size: u32, reach: u32) {
    for (var pair = local; pair < live / 2u; pair += 256u) {
        let low = 2u * pair - (pair & (reach - 1u));
        let high = low + reach;
        if (behind(low, high) == ((low & size) == 0u)) {
            let a = keys[low];
            let i = places[low];
            keys[low] = keys[high];
            keys[high] = a;
            places[low] = places[high];
            places[high] = i;
        }
    }
}

@compute @workgroup_size(256)
fn main(grid: Grid, @builtin(local_invocation_index) local: u32) {
    let line = group_of(grid);
    if (line >= p.lines) {
        return;
    }
    for (var e = local; e < TILE; e += 256u) {
        var rank = 0xffffffffu;
        if (e < p.length) {
            rank = key(x[p.x_offset + at(line, e, p.length)]);
        }
        keys[e] = rank;
        places[e] = e;
    }
    workgroupBarrier();
    for (var size = 2u; size <= RUN; size <<= 1u) {
        for (var reach = size >> 1u; reach > 0u; reach >>= 1u) {
            compare(local, TILE, size, reach);
            workgroupBarrier();
        }
    }
    for (var live = TILE >> 1u; live >= RUN; live >>= 1u) {
        var lower: array<vec2<u32>, PAIRS>;
        for (var j = 0u; j < PAIRS; j++) {
            let to = local + 256u * j;
            if (to < live) {
                let low = 2u * to - (to & (RUN - 1u));
                let chosen = select(low, low + RUN, behind(low, low + RUN));
                lower[j] = vec2<u32>(keys[chosen], places[chosen]);
            }
        }
        workgroupBarrier();
        for (var j = 0u; j < PAIRS; j++) {
            let to = local + 256u * j;
            if (to < live) {
                keys[to] = lower[j].x;
                places[to] = lower[j].y;
            }
        }
        workgroupBarrier();
        for (var reach = RUN >> 1u; reach > 0u; reach >>= 1u) {
            compare(local, live, RUN, reach);
            workgroupBarrier();
        }
    }
    for (var r = local; r < p.kept; r += 256u) {
        let to = at(line, r, p.kept);
        values[to] = x[p.x_offset + at(line, places[r], p.length)];
        indices[to] = i32(places[r]);
    }
}
