// index_partition: the entries of a scattered addition, put together by the bucket of their places.
//
// Eight places side by side are one stretch, and stretches go to buckets in turn, so that a few places that many entries name are in
// several buckets. `block`: a workgroup puts its THREADS * ITEMS entries together in workgroup memory and leaves them side by side where
// they are, and for each bucket where its own begin and end among them: nobody waits for what others have counted.
// STRIP: the entries of so many neighbouring columns of one line are a part, which has buckets and blocks of its own; else all are one
// part. Where there are more buckets than workgroup memory counts (DIRECT), each entry is counted and moved by itself: `count` counts the
// entries of each bucket, sort_scan makes of that where buckets begin, `spread` moves the entries there, in no particular order, and leaves
// where buckets end.
//
// Bindings: 0 g, 1 index (read), 2 ends (read_write): of buckets, zeros before `count`; or of each block in turn for each bucket, as
//           begin | end << 16; 3 entries (read_write): place in the bucket, bits of g; or, of blocks, bits of all, then places of two each.
// Launch:   x = parts * blocks of THREADS * ITEMS entries workgroups of THREADS, a power of two from 64 on.
// Sums:     integers: exact in any order.

alias V = f32;
alias F = vec2<u32>;                    // of `found`: u32 for blocks
alias G = f32;                          // WIDE elements
alias I = i32;                          // and of the index
const WIDE: u32 = 1u;                   // 4 where both lie in fours, as do the columns of a strip
const THREADS: u32 = 256u;
const ITEMS: u32 = 16u;
const BUCKETS: u32 = 1024u;             // a power of two
const DIRECT: bool = false;
const ALONE: bool = false;              // there is one line of places
const STRIP: u32 = 0u;
const WIDTH: u32 = max(STRIP, 1u);
const NONE: u32 = 0xffffffffu;
const OWNED: u32 = max(BUCKETS / THREADS, 1u);
const COUNTS: u32 = OWNED * THREADS;    // those beyond BUCKETS stay 0
fn put(i: u32, entry: vec2<u32>) { found[i] = entry; }
fn put_word(i: u32, word: u32) { }      // of blocks
fn bits(v: V) -> u32 { return bitcast<u32>(v); }
fn value_in(four: G, c: u32) -> V { return four; }
fn row_in(four: I, c: u32) -> i32 { return four; }
fn column(k: u32) -> u32 { return k % p.inner; }

struct Params {
    total: u32, inner: u32, entries: u32, size: u32,            // total: entries of a part
    g_offset: u32, index_offset: u32,
    shift: u32,                         // of the buckets' number
    blocks: u32, parts: u32, strips: u32,                       // blocks of a part, strips of a line
}
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read> g: array<G>;
@group(0) @binding(1) var<storage, read> index: array<I>;
@group(0) @binding(2) var<storage, read_write> ends: array<atomic<u32>>;
@group(0) @binding(3) var<storage, read_write> found: array<F>;

var<workgroup> counts: array<atomic<u32>, select(COUNTS, 1u, DIRECT)>;
var<workgroup> words: array<u32, select(THREADS * ITEMS, 1u, DIRECT)>;

fn bucket_of(place: u32) -> u32 { return (place >> 3u) & ((1u << p.shift) - 1u); }
fn place_in(place: u32) -> u32 { return (((place >> 3u) >> p.shift) << 3u) | (place & 7u); }            // the bucket
fn one(place: u32) -> u32 { return select(1u, 0u, place == NONE); }

// Where entries k .. k + WIDE of a part, or the last ones, lie in g.
fn source_of(k: u32, part: u32) -> u32 {
    if (STRIP == 0u) { return min(k, p.total - WIDE) / WIDE; }
    let row = part / p.strips * p.entries + min(k / WIDTH, p.entries - 1u);
    return (row * p.inner + min(part % p.strips * STRIP + k % WIDTH, p.inner - WIDE)) / WIDE;
}

// The entry that number j of a thread is. IN: first, of the workgroup.
fn number_of(first: u32, local: u32, j: u32) -> u32 { return first + (local + j / WIDE * THREADS) * WIDE + j % WIDE; }

// The place that entry k names by `row`, among those of its part.
fn named_by(k: u32, row: u32, part: u32) -> u32 {
    if (STRIP == 0u) { return (select(k / (p.inner * p.entries), 0u, ALONE) * p.size + row) * p.inner + column(k); }
    return select(NONE, row * STRIP + k % WIDTH, part % p.strips * STRIP + k % WIDTH < p.inner);
}

// What the entries of a thread name, 'NONE' behind the last one; without branches, so that all reads are on their way at once.
fn places_from(first: u32, local: u32, part: u32) -> array<u32, ITEMS> {
    var read: array<I, ITEMS / WIDE>;
    var places: array<u32, ITEMS>;
    for (var j = 0u; j < ITEMS / WIDE; j++) { read[j] = index[p.index_offset + source_of(number_of(first, local, j * WIDE), part)]; }
    for (var j = 0u; j < ITEMS; j++) {
        let row = u32(clamp(row_in(read[j / WIDE], j % WIDE), 0, i32(p.size) - 1));
        let k = number_of(first, local, j);
        places[j] = select(NONE, named_by(k, row, part), k < p.total);
    }
    return places;
}

fn values_from(first: u32, local: u32, part: u32) -> array<u32, ITEMS> {
    var read: array<G, ITEMS / WIDE>;
    var values: array<u32, ITEMS>;
    for (var j = 0u; j < ITEMS / WIDE; j++) { read[j] = g[p.g_offset + source_of(number_of(first, local, j * WIDE), part)]; }
    for (var j = 0u; j < ITEMS; j++) { values[j] = bits(value_in(read[j / WIDE], j % WIDE)); }
    return values;
}

@compute @workgroup_size(THREADS)
fn count(grid: Grid, @builtin(local_invocation_index) local: u32) {
    let places = places_from(group_of(grid) * THREADS * ITEMS, local, 0u);
    for (var j = 0u; j < ITEMS; j++) { atomicAdd(&ends[bucket_of(places[j])], one(places[j])); }
}

@compute @workgroup_size(THREADS)
fn spread(grid: Grid, @builtin(local_invocation_index) local: u32) {
    let first = group_of(grid) * THREADS * ITEMS;
    var values = values_from(first, local, 0u);
    let places = places_from(first, local, 0u);
    var ranks: array<u32, ITEMS>;
    for (var j = 0u; j < ITEMS; j++) { ranks[j] = atomicAdd(&ends[bucket_of(places[j])], one(places[j])); }
    for (var j = 0u; j < ITEMS; j++) {
        if (places[j] != NONE) { put(ranks[j], vec2<u32>(place_in(places[j]), values[j])); }
    }
}

@compute @workgroup_size(THREADS)
fn block(grid: Grid, @builtin(local_invocation_index) local: u32) {
    let group = group_of(grid);
    let part = group % p.parts;         // neighbours read neighbours: a few columns are less than one access
    let block = group / p.parts;
    let is_there = group < p.parts * p.blocks;
    let first = block * THREADS * ITEMS;
    let values = values_from(first, local, part);
    let places = places_from(first, local, part);
    var ranks: array<u32, ITEMS>;                       // among the entries of a bucket here
    for (var b = local; b < COUNTS; b += THREADS) { atomicStore(&counts[b], 0u); }
    workgroupBarrier();
    for (var j = 0u; j < ITEMS; j++) { ranks[j] = atomicAdd(&counts[bucket_of(places[j])], one(places[j])); }
    workgroupBarrier();
    var own: array<u32, OWNED>;                         // buckets of this thread, side by side
    var total = 0u;
    for (var i = 0u; i < OWNED; i++) {
        own[i] = atomicLoad(&counts[local * OWNED + i]);
        total += own[i];
    }
    let sum = running_sum(local, total);
    var before = sum.before;
    for (var i = 0u; i < OWNED; i++) {
        atomicStore(&counts[local * OWNED + i], before);
        let to = ((part << p.shift) + local * OWNED + i) * p.blocks + block;
        if (is_there && local * OWNED + i < BUCKETS) { atomicStore(&ends[to], before | ((before + own[i]) << 16u)); }
        before += own[i];
    }
    workgroupBarrier();
    for (var j = 0u; j < ITEMS; j++) {
        if (places[j] != NONE) {
            ranks[j] += atomicLoad(&counts[bucket_of(places[j])]);
            words[ranks[j]] = values[j];
        }
    }
    workgroupBarrier();
    let base = (part * p.blocks + block) * (THREADS * ITEMS);
    let all = select(0u, sum.all, is_there);
    for (var k = local; k < all; k += THREADS) { put_word(base + k, words[k]); }
    workgroupBarrier();
    for (var j = 0u; j < ITEMS; j++) {
        if (places[j] != NONE) { words[ranks[j]] = place_in(places[j]); }
    }
    workgroupBarrier();
    let behind = p.parts * p.blocks * (THREADS * ITEMS) + base / 2u;
    for (var k = local; 2u * k < all; k += THREADS) { put_word(behind + k, words[2u * k] | (words[2u * k + 1u] << 16u)); }
}
