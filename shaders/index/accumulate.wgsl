// index_accumulate: the sums of the entries of each place, of some columns or of a bucket of places, in workgroup memory.
//
// Floats are added exactly, and so with one result in any order: as integers of 64 bits, whose unit is 2^-34 of the least power of two
// above all magnitudes that go to the place. The largest of these are found first, where the sums come then; of them exponents are kept.
// Up to 2^14 entries of a workgroup are added as two numbers of 17 bits each, which have room for as many; more with a carry.
// LINES: out[outer, j, inner] = the sum of g[outer, k, inner] over the k with index[outer, k, inner] == j, without FULL index[k] == j. A
// workgroup has WINDOW of the places of COLUMNS neighbouring columns; it looks at all their entries and skips those of other places.
// Else the entries of buckets come from index_partition.
// BLOCKS: those of a bucket are side by side in each of its blocks, of which LANES threads read one; else all of them are.
// All atomics' results are looked at: of others, drivers were seen to ask first whether all threads of a warp name one place, which took
// longer than the atomics. Entries of blocks that are not there are zeros for one of 32 places behind the others.
// STRIP: the places of a bucket are in so many neighbouring columns, which are a part; else all places are one line.
// BASED: what `base` has is added to the sums; it is read first of all, so that nobody waits for it.
//
// Bindings: 0 g, 1 index, or the entries, 2 ends of buckets, or of blocks, absent with LINES, 3 base, absent unless BASED (read),
//           4 out (read_write).
// Launch:   x = outers * strips of COLUMNS * windows workgroups of THREADS, or as many as there are buckets.
// Sums:     in integers: exact, but for what is below the unit; one rounding to f32.

alias V = f32;
// Of the index; vec2<u32> of an entry, place in the bucket and bits; u32 of blocks: bits, then places.
alias I = i32;
alias A = f32;
alias O = f32;
const LINES: bool = true;
const FULL: bool = true;
const COLUMNS: u32 = 1u;                // a power of two
const WINDOW: u32 = 1024u;
const BLOCKS: bool = false;
const BLOCK: u32 = 4096u;               // entries of a block
const LANES: u32 = 4u;
const STRIP: u32 = 0u;
const EVEN: u32 = 64u;                  // entries of a bucket in a block from which all threads read them
const FLOAT: bool = true;
const BASED: bool = false;
const THREADS: u32 = 256u;
const PLACES: u32 = 1024u;              // at most
const EACH: u32 = 4u;                   // entries of a thread that are on their way at once
const NONE: u32 = 0xffffffffu;
const OWN: u32 = (PLACES + THREADS - 1u) / THREADS;
const INFINITE: u32 = 0x7f800000u;
const ENDLESS: u32 = 255u;
const FEW: u32 = 16384u;                // entries that two numbers of 17 bits have room for
const KEPT: u32 = 4u;                   // blocks of a thread of which it keeps the first two entries
const WORDS: u32 = PLACES + select(0u, 32u, BLOCKS);

struct Params {
    groups: u32, entries: u32, size: u32,       // entries (of BLOCKS their number) and places of a column, or of all buckets
    g_offset: u32, index_offset: u32,
    shift: u32,                         // of the number of buckets
    base_offset: u32,
    inner: u32, strips: u32, windows: u32,
    behind: u32,                        // where the places of blocks' entries begin
}
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read> g: array<V>;
@group(0) @binding(1) var<storage, read> index: array<I>;
@group(0) @binding(2) var<storage, read> ends: array<u32>;
@group(0) @binding(3) var<storage, read> base: array<O>;
@group(0) @binding(4) var<storage, read_write> out: array<O>;

var<workgroup> exponents: array<u32, select(1u, (WORDS + 127u) / 128u * 32u, FLOAT)>;   // of the largest magnitude, of four places each
var<workgroup> lows: array<atomic<u32>, WORDS + select(0u, 2u, BLOCKS)>;                // first the bits of that
var<workgroup> highs: array<atomic<u32>, select(1u, WORDS, FLOAT)>;
var<private> seen: u32;                                                 // bits of atomics' results

const ALL: u32 = select(0u, WORDS, BLOCKS);                             // entries of the bucket
const UNEVEN: u32 = select(0u, WORDS + 1u, BLOCKS);                     // whether a block has more than EVEN of them

fn finish(v: A) -> O { return O(v); }
fn base_at(i: u32) -> O { return base[i]; }                             // in place: what out has
fn at_out(i: u32) -> u32 { return i; }
fn bits(v: V) -> u32 { return bitcast<u32>(v); }
fn named(i: u32) -> vec2<u32> { return vec2<u32>(); }                   // of buckets
fn row_at(at: u32) -> u32 { return u32(clamp(index[p.index_offset + at], 0, i32(p.size) - 1)); }
fn value_at(at: u32) -> u32 { return bits(g[p.g_offset + at]); }

// The columns and the places of a workgroup: outer, first column, first place.
fn part_of(group: u32) -> vec3<u32> {
    let strip = group / p.windows;
    return vec3<u32>(strip / p.strips, strip % p.strips * COLUMNS, group % p.windows * WINDOW);
}

// 2^exponent of magnitudes that may be beyond those of a factor.
fn scaled(v: f32, exponent: i32) -> f32 {
    let half = exponent >> 1u;
    return v * bitcast<f32>(u32(half + 127) << 23u) * bitcast<f32>(u32(exponent - half + 127) << 23u);
}

// The exponent of the largest magnitude of a place; that of infinity and NaN is ENDLESS.
fn exponent_of(place: u32) -> u32 { return exponents[place / 128u * 32u + place % 32u] >> (place / 32u % 4u * 8u) & 255u; }

// Keeps the exponents of all largest magnitudes, and clears these.
fn keep_exponents(local: u32) {
    workgroupBarrier();
    for (var j = local; j < (WORDS + 127u) / 128u * 32u; j += THREADS) {
        var word = 0u;
        for (var c = 0u; c < 4u; c++) {
            let place = j / 32u * 128u + c * 32u + j % 32u;
            if (place < WORDS) {
                word |= atomicLoad(&lows[place]) >> 23u << (8u * c);
                atomicStore(&lows[place], 0u);
            }
        }
        exponents[j] = word;
    }
    workgroupBarrier();
}

// Puts `one` into the sum of a place in the place's unit. IN: exponent, of the place.
fn add(place: u32, one: u32, exponent: u32, few: bool) {
    let magnitude = one & 0x7fffffffu;
    if (exponent == ENDLESS) {              // which infinities, 1 and 2, and 4 for NaN
        if (magnitude >= INFINITE) { seen |= atomicOr(&lows[place], select(1u << (one >> 31u), 4u, magnitude > INFINITE)); }
        return;
    }
    let v = scaled(bitcast<f32>(one), 160 - i32(max(exponent, 1u)));
    let upper = i32(v * (1.0 / 131072.0));
    let lower = i32(round(v - f32(upper) * 131072.0));
    if (few) {
        seen |= atomicAdd(&lows[place], bitcast<u32>(lower));
        seen |= atomicAdd(&highs[place], bitcast<u32>(upper));
        return;
    }
    let low = (bitcast<u32>(upper) << 17u) + bitcast<u32>(lower);
    let high = (upper >> 15u) + (lower >> 31u) + select(0, 1, low < bitcast<u32>(lower));
    seen |= atomicAdd(&highs[place], bitcast<u32>(high) + select(0u, 1u, atomicAdd(&lows[place], low) + low < low));
}

fn sum_of(place: u32, few: bool) -> f32 {
    let exponent = exponent_of(place);
    let low = atomicLoad(&lows[place]);
    if (exponent == ENDLESS) { return select(select(nan(), -inf(), low == 2u), inf(), low == 1u); }
    let high = bitcast<i32>(atomicLoad(&highs[place]));
    var sum = f32(high) * 131072.0 + f32(bitcast<i32>(low));
    if (!few) {                         // of what is negative the opposite, so that nothing is lost between the words
        let opposite = select(low, 0u - low, high < 0);
        let upper = select(high, select(~high, -high, low == 0u), high < 0);
        sum = (f32(upper) * 4294967296.0 + f32(opposite)) * select(1.0, -1.0, high < 0);
    }
    return scaled(sum, i32(max(exponent, 1u)) - 160);
}

// Entries of this thread from `first` on, 'NONE' where there are no more or they are of other places; without branches, so that all reads
// are on their way at once.
fn entries_at(first: u32, end: u32, group: u32) -> array<vec2<u32>, EACH> {
    var found: array<vec2<u32>, EACH>;
    if (LINES) {
        let own = part_of(group);
        for (var j = 0u; j < EACH; j++) {
            let k = min((first + j * THREADS) / COLUMNS, p.entries - 1u);
            let at = (own.x * p.entries + k) * p.inner + min(own.y + (first + j * THREADS) % COLUMNS, p.inner - 1u);
            found[j] = vec2<u32>(row_at(select(k, at, FULL)) - own.z, at);
        }
        for (var j = 0u; j < EACH; j++) {
            let column = (first + j * THREADS) % COLUMNS;
            found[j].x = select(NONE, found[j].x * COLUMNS + column, found[j].x < WINDOW &&
                    own.y + column < p.inner && first + j * THREADS < end);
            if (found[j].x != NONE) { found[j].y = value_at(found[j].y); }
        }
        return found;
    }
    for (var j = 0u; j < EACH; j++) { found[j] = named(min(first + j * THREADS, max(end, 1u) - 1u)); }
    for (var j = 0u; j < EACH; j++) {
        if (first + j * THREADS >= end) { found[j].x = NONE; }
    }
    return found;
}

fn visit(entry: vec2<u32>, adding: bool, few: bool) {
    if (!adding) { seen |= atomicMax(&lows[entry.x], entry.y & 0x7fffffffu); } else if (FLOAT) {
        add(entry.x, entry.y, exponent_of(entry.x), few);
    } else {
        seen |= atomicAdd(&lows[entry.x], entry.y);
    }
}

fn compare(entries: array<vec2<u32>, EACH>) {
    for (var j = 0u; j < EACH; j++) {
        if (entries[j].x != NONE) { visit(entries[j], false, false); }
    }
}

fn add_all(entries: array<vec2<u32>, EACH>, few: bool) {
    for (var j = 0u; j < EACH; j++) {
        if (entries[j].x != NONE) { visit(entries[j], true, few); }
    }
}

// Where the entries of the bucket in a block begin and end.
fn span_of(block: u32, group: u32) -> vec2<u32> {
    let ends_here = ends[group * p.entries + min(block, p.entries - 1u)];
    let first = ((group >> p.shift) * p.entries + block) * BLOCK;
    return select(vec2<u32>(), vec2<u32>(first) + vec2<u32>(ends_here & 0xffffu, ends_here >> 16u), block < p.entries);
}

// The entries of blocks beyond those that are kept: what is behind the first 2 * LANES of a block, and the blocks behind the first ones.
fn visit_others(local: u32, group: u32, adding: bool, few: bool, long: bool) {
    for (var s = 0u; s * (THREADS / LANES) < p.entries; s++) {
        let span = span_of(s * (THREADS / LANES) + local / LANES, group);
        let last = min(span.y, span.x + EVEN);
        for (var at = span.x + local % LANES + select(0u, 2u * LANES, s < KEPT); at < last; at += LANES) { visit(named(at), adding, few); }
    }
    for (var block = 0u; long && block < p.entries; block++) {
        let span = span_of(block, group);
        for (var at = span.x + EVEN + local; at < span.y; at += THREADS) { visit(named(at), adding, few); }
    }
}

fn spans_of(local: u32, group: u32) -> array<vec2<u32>, KEPT> {
    var spans: array<vec2<u32>, KEPT>;
    for (var s = 0u; s < KEPT; s++) { spans[s] = span_of(s * (THREADS / LANES) + local / LANES, group); }
    return spans;
}

fn sum_blocks(local: u32, group: u32, spans: array<vec2<u32>, KEPT>) -> bool {
    var kept: array<vec2<u32>, 2u * KEPT>;
    for (var j = 0u; j < 2u * KEPT; j++) {
        let at = spans[j / 2u].x + local % LANES + (j & 1u) * LANES;
        kept[j] = named(min(at, max(spans[j / 2u].y, 1u) - 1u));            // beside the others
        if (at >= spans[j / 2u].y) { kept[j] = vec2<u32>(PLACES + (local & 31u), 0u); }
    }
    var total = 0u;
    var longest = 0u;
    for (var s = 0u; s < KEPT; s++) { total += spans[s].y - spans[s].x; longest = max(longest, spans[s].y - spans[s].x); }
    for (var s = KEPT; s * (THREADS / LANES) < p.entries; s++) {
        let span = span_of(s * (THREADS / LANES) + local / LANES, group);
        total += span.y - span.x;
        longest = max(longest, span.y - span.x);
    }
    workgroupBarrier();
    if (local % LANES == 0u) { atomicAdd(&lows[ALL], total); }
    if (longest > EVEN) { atomicStore(&lows[UNEVEN], 1u); }
    if (FLOAT) {
        for (var j = 0u; j < 2u * KEPT; j++) { visit(kept[j], false, false); }
    }
    workgroupBarrier();
    let few = atomicLoad(&lows[ALL]) <= FEW;
    let long = atomicLoad(&lows[UNEVEN]) > 0u;
    let more = longest > 2u * LANES || KEPT * (THREADS / LANES) < p.entries || long;
    if (FLOAT) {
        if (more) { visit_others(local, group, false, few, long); }
        keep_exponents(local);
    }
    if (FLOAT) {
        var largest: array<u32, 2u * KEPT>;
        for (var j = 0u; j < 2u * KEPT; j++) { largest[j] = exponent_of(kept[j].x); }
        for (var j = 0u; j < 2u * KEPT; j++) { add(kept[j].x, kept[j].y, largest[j], few); }
    } else {
        for (var j = 0u; j < 2u * KEPT; j++) { visit(kept[j], true, few); }
    }
    if (more) { visit_others(local, group, true, few, long); }
    return few;
}

// The same of entries that are side by side.
fn sum_line(local: u32, group: u32) -> bool {
    var start = 0u;
    var end = p.entries * COLUMNS;
    if (!LINES) {
        if (group > 0u) { start = ends[group - 1u]; }
        end = ends[group];
    }
    let few = end - start <= FEW;
    let kept = entries_at(start + local, end, group);
    workgroupBarrier();
    if (FLOAT) {
        compare(kept);
        for (var first = start + THREADS * EACH; first < end; first += THREADS * EACH) { compare(entries_at(first + local, end, group)); }
        keep_exponents(local);
    }
    add_all(kept, few);
    for (var first = start + THREADS * EACH; first < end; first += THREADS * EACH) { add_all(entries_at(first + local, end, group), few); }
    return few;
}

// Where place j of a workgroup is in `out`; NONE where it has no such place.
fn to_of(group: u32, j: u32) -> u32 {
    if (LINES) {
        let own = part_of(group);
        let row = own.z + j / COLUMNS;
        let column = own.y + j % COLUMNS;
        return select(NONE, (own.x * p.size + row) * p.inner + column, j < PLACES && row < p.size && column < p.inner);
    }
    let to = ((((j >> 3u) << p.shift) + (group & ((1u << p.shift) - 1u))) << 3u) | (j & 7u);
    if (STRIP == 0u) { return select(NONE, to, j < PLACES && to < p.size); }
    let part = group >> p.shift;
    let column = part % p.strips * STRIP + to % max(STRIP, 1u);
    let row = to / max(STRIP, 1u);
    return select(NONE, (part / p.strips * p.size + row) * p.inner + column, j < PLACES && row < p.size && column < p.inner);
}

@compute @workgroup_size(THREADS)
fn main(grid: Grid, @builtin(local_invocation_index) local: u32) {
    let group = group_of(grid);
    if (group >= p.groups) {
        return;
    }
    var held: array<O, OWN>;
    for (var i = 0u; i < OWN && BASED; i++) {
        let to = to_of(group, local + i * THREADS);
        held[i] = base_at(p.base_offset + select(to, 0u, to == NONE));
    }
    var spans: array<vec2<u32>, KEPT>;
    if (BLOCKS) { spans = spans_of(local, group); }
    for (var j = local; j < WORDS; j += THREADS) {
        atomicStore(&lows[j], 0u);
        if (FLOAT) { atomicStore(&highs[j], 0u); }
    }
    if (BLOCKS && local == 0u) {
        atomicStore(&lows[ALL], 0u);
        atomicStore(&lows[UNEVEN], 0u);
    }
    var few = false;
    if (BLOCKS) { few = sum_blocks(local, group, spans); } else { few = sum_line(local, group); }
    workgroupBarrier();
    for (var i = 0u; i < OWN; i++) {
        let j = local + i * THREADS;
        let to = to_of(group, j);
        if (to != NONE) {
            var sum = A();
            if (FLOAT) { sum = A(sum_of(j, few)); } else { sum = bitcast<A>(atomicLoad(&lows[j])); }
            if (BASED) { sum += A(held[i]); }
            out[at_out(to)] = finish(sum);
        }
    }
    workgroupBarrier();
    if (seen == NONE) { atomicStore(&lows[0], seen); }                  // which nobody reads any more
}
