// index_partition: the entries of a scattered addition, put together by the bucket of their places.
//
// Eight places side by side are one block, and blocks go to buckets in turn, so that a few places that many entries name are in several
// buckets. `count` counts the entries of each bucket; sort_scan makes of that where a bucket begins; `split` moves the entries, each behind
// those of its bucket that came before it, in no particular order, and leaves where a bucket ends.
// DIRECT: there are more buckets than workgroup memory counts.
//
// Bindings: 0 g, 1 index (read), 2 ends of buckets, zeros before `count`, 3 entries (read_write): place in the bucket, bits of g.
// Launch:   x = ceil(total / (THREADS * ITEMS)) workgroups of THREADS.
// Sums:     integers: exact in any order.

alias V = f32;
const THREADS: u32 = 256u;
const ITEMS: u32 = 16u;
const BUCKETS: u32 = 1024u;             // a power of two
const DIRECT: bool = false;
fn bits(v: V) -> u32 { return bitcast<u32>(v); }

struct Params {
    total: u32, inner: u32, entries: u32, size: u32,
    g_offset: u32, index_offset: u32,
    shift: u32,                         // of the buckets' number
}
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read> g: array<V>;
@group(0) @binding(1) var<storage, read> index: array<i32>;
@group(0) @binding(2) var<storage, read_write> ends: array<atomic<u32>>;
@group(0) @binding(3) var<storage, read_write> found: array<vec2<u32>>;

var<workgroup> counts: array<atomic<u32>, select(BUCKETS, 1u, DIRECT)>;

fn place(k: u32) -> u32 {
    return place_of(k, u32(clamp(index[p.index_offset + k], 0, i32(p.size) - 1)), p.inner, p.entries, p.size);
}

fn bucket_of(place: u32) -> u32 { return (place >> 3u) & ((1u << p.shift) - 1u); }

// The places of this thread's entries, which the workgroup counts.
fn look(first: u32, local: u32) -> array<u32, ITEMS> {
    var places: array<u32, ITEMS>;
    for (var j = 0u; j < ITEMS; j++) {
        let k = first + j * THREADS + local;
        if (k < p.total) { places[j] = place(k); }
    }
    if (DIRECT) { return places; }
    for (var b = local; b < BUCKETS; b += THREADS) { atomicStore(&counts[b], 0u); }
    workgroupBarrier();
    for (var j = 0u; j < ITEMS; j++) {
        if (first + j * THREADS + local < p.total) { atomicAdd(&counts[bucket_of(places[j])], 1u); }
    }
    workgroupBarrier();
    return places;
}

@compute @workgroup_size(THREADS)
fn count(grid: Grid, @builtin(local_invocation_index) local: u32) {
    let first = group_of(grid) * THREADS * ITEMS;
    let places = look(first, local);
    if (DIRECT) {
        for (var j = 0u; j < ITEMS; j++) {
            if (first + j * THREADS + local < p.total) { atomicAdd(&ends[bucket_of(places[j])], 1u); }
        }
        return;
    }
    for (var b = local; b < BUCKETS; b += THREADS) {
        let own = atomicLoad(&counts[b]);
        if (own > 0u) { atomicAdd(&ends[b], own); }
    }
}

@compute @workgroup_size(THREADS)
fn split(grid: Grid, @builtin(local_invocation_index) local: u32) {
    let first = group_of(grid) * THREADS * ITEMS;
    let places = look(first, local);
    if (!DIRECT) {
        for (var b = local; b < BUCKETS; b += THREADS) {
            let own = atomicLoad(&counts[b]);
            if (own > 0u) { atomicStore(&counts[b], atomicAdd(&ends[b], own)); }
        }
        workgroupBarrier();
    }
    for (var j = 0u; j < ITEMS; j++) {
        let k = first + j * THREADS + local;
        if (k < p.total) {
            let bucket = bucket_of(places[j]);
            var to = 0u;
            if (DIRECT) { to = atomicAdd(&ends[bucket], 1u); } else { to = atomicAdd(&counts[bucket], 1u); }
            found[to] = vec2<u32>((((places[j] >> 3u) >> p.shift) << 3u) | (places[j] & 7u), bits(g[p.g_offset + k]));
        }
    }
}
