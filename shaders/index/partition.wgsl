// index_partition: the entries of a scattered addition to `window` places from `base` on, put together by the bucket of their places.
//
// Eight places side by side are one block, and blocks go to buckets in turn, so that a few places that many entries name are in several
// buckets. `count` counts the entries of each bucket; sort_scan makes of that where buckets begin; `split` moves the entries there, in no
// particular order, and leaves where buckets end. A workgroup asks for room for all its entries of a bucket at once, and first puts them
// together in workgroup memory, so that those of a bucket are written side by side.
//
// Bindings: 0 g, 1 index (read), 2 starts of buckets, zeros before `count`, 3 entries (read_write): place in the bucket, bits of g.
// Launch:   x = ceil(total / (THREADS * ITEMS)) workgroups of THREADS, a multiple of 64 that divides BUCKETS.
// Sums:     integers: exact in any order.

alias V = f32;
const THREADS: u32 = 256u;
const ITEMS: u32 = 16u;
const BUCKETS: u32 = 1024u;             // a power of two
const NONE: u32 = 0xffffffffu;
const OWNED: u32 = BUCKETS / THREADS;
fn bits(v: V) -> u32 { return bitcast<u32>(v); }

struct Params {
    total: u32, inner: u32, entries: u32, size: u32,
    g_offset: u32, index_offset: u32,
    base: u32, window: u32,
}
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read> g: array<V>;
@group(0) @binding(1) var<storage, read> index: array<i32>;
@group(0) @binding(2) var<storage, read_write> starts: array<atomic<u32>>;
@group(0) @binding(3) var<storage, read_write> found: array<vec2<u32>>;

var<workgroup> counts: array<atomic<u32>, BUCKETS>;
var<workgroup> shifts: array<u32, BUCKETS>;         // of a bucket, from the places of its entries here to those in all
var<workgroup> places_here: array<u32, THREADS * ITEMS>;
var<workgroup> bits_here: array<u32, THREADS * ITEMS>;

// What entry k names, from `base` on; 'NONE' outside the window.
fn place(k: u32) -> u32 {
    if (k >= p.total) { return NONE; }
    let at = place_of(k, u32(clamp(index[p.index_offset + k], 0, i32(p.size) - 1)), p.inner, p.entries, p.size) - p.base;
    return select(NONE, at, at < p.window);
}

fn bucket_of(place: u32) -> u32 { return (place >> 3u) % BUCKETS; }
fn entry(place: u32, bits: u32) -> vec2<u32> { return vec2<u32>((((place >> 3u) / BUCKETS) << 3u) | (place & 7u), bits); }

@compute @workgroup_size(THREADS)
fn count(grid: Grid, @builtin(local_invocation_index) local: u32) {
    let first = group_of(grid) * THREADS * ITEMS + local;
    for (var b = local; b < BUCKETS; b += THREADS) { atomicStore(&counts[b], 0u); }
    workgroupBarrier();
    for (var j = 0u; j < ITEMS; j++) {
        let at = place(first + j * THREADS);
        if (at != NONE) { atomicAdd(&counts[bucket_of(at)], 1u); }
    }
    workgroupBarrier();
    for (var b = local; b < BUCKETS; b += THREADS) {
        let counted = atomicLoad(&counts[b]);
        if (counted > 0u) { atomicAdd(&starts[b], counted); }
    }
}

@compute @workgroup_size(THREADS)
fn split(grid: Grid, @builtin(local_invocation_index) local: u32) {
    let first = group_of(grid) * THREADS * ITEMS + local;
    var places: array<u32, ITEMS>;
    var values: array<u32, ITEMS>;
    for (var j = 0u; j < ITEMS; j++) {
        places[j] = place(first + j * THREADS);
        if (places[j] != NONE) { values[j] = bits(g[p.g_offset + first + j * THREADS]); }
    }
    for (var b = local; b < BUCKETS; b += THREADS) { atomicStore(&counts[b], 0u); }
    workgroupBarrier();
    var ranks: array<u32, ITEMS>;                       // among the entries of a bucket here
    for (var j = 0u; j < ITEMS; j++) {
        if (places[j] != NONE) { ranks[j] = atomicAdd(&counts[bucket_of(places[j])], 1u); }
    }
    workgroupBarrier();
    var own: array<u32, OWNED>;                         // buckets of this thread, side by side
    var room: array<u32, OWNED>;
    var total = 0u;
    for (var i = 0u; i < OWNED; i++) {
        let b = local * OWNED + i;
        own[i] = atomicLoad(&counts[b]);
        if (own[i] > 0u) { room[i] = atomicAdd(&starts[b], own[i]); }
        total += own[i];
    }
    let sum = running_sum(local, total);
    var before = sum.before;
    for (var i = 0u; i < OWNED; i++) {
        let b = local * OWNED + i;
        atomicStore(&counts[b], before);
        shifts[b] = room[i] - before;
        before += own[i];
    }
    workgroupBarrier();
    for (var j = 0u; j < ITEMS; j++) {
        if (places[j] != NONE) {
            let to = atomicLoad(&counts[bucket_of(places[j])]) + ranks[j];
            places_here[to] = places[j];
            bits_here[to] = values[j];
        }
    }
    workgroupBarrier();
    for (var k = local; k < sum.all; k += THREADS) {
        let place = places_here[k];
        found[shifts[bucket_of(place)] + k] = entry(place, bits_here[k]);
    }
}
