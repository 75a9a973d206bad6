// index_accumulate: the sums of the entries of each place, of a line or of a bucket of places, in workgroup memory.
//
// Floats are added exactly, and so with one result in any order: as integers of 64 bits, whose unit is 2^-34 of the least power of two
// above all magnitudes that go to the place.
// LINES: out[line, j] = the sum of g[line, k] over the k with index[line, k] == j. Else the entries of buckets come from index_partition.
//
// Bindings: 0 g, 1 index, or the entries, 2 ends of buckets, any buffer with LINES (read), 3 out (read_write).
// Launch:   x = lines or buckets workgroups of THREADS.
// Sums:     in integers: exact, but for what is below the unit; one rounding to f32.

alias V = f32;
alias I = i32;                          // of the index, or vec2<u32> of an entry: place in the bucket, and bits
alias A = f32;
alias O = f32;
const LINES: bool = true;
const FLOAT: bool = true;
const THREADS: u32 = 256u;
const PLACES: u32 = 1024u;              // at most
const EACH: u32 = 4u;                   // entries of a thread that are on their way at once
const NONE: u32 = 0xffffffffu;
const INFINITE: u32 = 0x7f800000u;

struct Params {
    groups: u32, entries: u32, size: u32,       // size: places of a line, or of all buckets
    g_offset: u32, index_offset: u32,
    shift: u32,                         // of the number of buckets
}
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read> g: array<V>;
@group(0) @binding(1) var<storage, read> index: array<I>;
@group(0) @binding(2) var<storage, read> ends: array<u32>;
@group(0) @binding(3) var<storage, read_write> out: array<O>;

var<workgroup> tops: array<atomic<u32>, select(1u, PLACES, FLOAT)>;     // largest magnitude, as bits
var<workgroup> lows: array<atomic<u32>, PLACES>;
var<workgroup> highs: array<atomic<u32>, select(1u, PLACES, FLOAT)>;

fn finish(v: A) -> O { return O(v); }
fn bits(v: V) -> u32 { return bitcast<u32>(v); }
fn named(i: u32, line: u32) -> vec2<u32> { return vec2<u32>(u32(clamp(index[p.index_offset + i], 0, i32(p.size) - 1)), bits(g[p.g_offset + i])); }

// The part of `one` that is of a place whose largest magnitude is `top`, in its unit.
fn add(place: u32, one: u32, top: u32) {
    let magnitude = one & 0x7fffffffu;
    if (top >= INFINITE) {              // which infinities, 1 and 2, and 4 for NaN
        if (magnitude >= INFINITE) { atomicOr(&lows[place], select(1u << (one >> 31u), 4u, magnitude > INFINITE)); }
        return;
    }
    let down = max(top >> 23u, 1u) - max(magnitude >> 23u, 1u);
    let mantissa = (magnitude & 0x7fffffu) | select(0u, 0x800000u, magnitude >= 0x800000u);
    var low = mantissa << 10u;          // and 2 bits above it
    var high = mantissa >> 22u;
    if (down > 0u) {
        low = select((low >> min(down, 31u)) | (high << (32u - min(down, 31u))), select(0u, high >> (down & 31u), down < 34u), down > 31u);
        high = select(0u, high >> 1u, down == 1u);
    }
    if (one >> 31u == 1u) {
        low = 0u - low;
        high = ~high + select(0u, 1u, low == 0u);
    }
    let before = atomicAdd(&lows[place], low);
    let more = high + select(0u, 1u, before + low < low);
    if (more > 0u) { atomicAdd(&highs[place], more); }
}

fn sum_of(place: u32) -> f32 {
    let top = atomicLoad(&tops[place]);
    var low = atomicLoad(&lows[place]);
    if (top >= INFINITE) { return select(select(nan(), -inf(), low == 2u), inf(), low == 1u); }
    var high = atomicLoad(&highs[place]);
    let negative = high >> 31u == 1u;
    if (negative) {
        low = 0u - low;
        high = ~high + select(0u, 1u, low == 0u);
    }
    let magnitude = f32(high) * 4294967296.0 + f32(low);
    let exponent = i32(max(top >> 23u, 1u)) - 160;
    let half = exponent / 2;
    let scaled = magnitude * bitcast<f32>(u32(half + 127) << 23u) * bitcast<f32>(u32(exponent - half + 127) << 23u);
    return select(scaled, -scaled, negative);
}

@compute @workgroup_size(THREADS)
fn main(grid: Grid, @builtin(local_invocation_index) local: u32) {
    let group = group_of(grid);
    if (group >= p.groups) {
        return;
    }
    for (var j = local; j < PLACES; j += THREADS) {
        atomicStore(&lows[j], 0u);
        if (FLOAT) {
            atomicStore(&tops[j], 0u);
            atomicStore(&highs[j], 0u);
        }
    }
    var start = group * p.entries;
    var end = start + p.entries;
    if (!LINES) {
        start = 0u;
        if (group > 0u) { start = ends[group - 1u]; }
        end = ends[group];
    }
    workgroupBarrier();
    for (var turn = select(1u, 0u, FLOAT); turn < 2u; turn++) {
        for (var first = start; first < end; first += THREADS * EACH) {
            var ones: array<vec2<u32>, EACH>;
            for (var j = 0u; j < EACH; j++) {
                let k = first + j * THREADS + local;
                ones[j].x = NONE;
                if (k < end) { ones[j] = named(k, group); }
            }
            for (var j = 0u; j < EACH; j++) {
                if (ones[j].x != NONE) {
                    if (!FLOAT) {
                        atomicAdd(&lows[ones[j].x], ones[j].y);
                    } else if (turn == 0u) {
                        atomicMax(&tops[ones[j].x], ones[j].y & 0x7fffffffu);
                    } else {
                        add(ones[j].x, ones[j].y, atomicLoad(&tops[ones[j].x]));
                    }
                }
            }
        }
        workgroupBarrier();
    }
    for (var j = local; j < PLACES; j += THREADS) {
        var to = group * p.size + j;
        var there = j < p.size;
        if (!LINES) {
            to = ((((j >> 3u) << p.shift) + group) << 3u) | (j & 7u);
            there = to < p.size;
        }
        if (there) {
            if (FLOAT) { out[to] = finish(A(sum_of(j))); } else { out[to] = finish(bitcast<A>(atomicLoad(&lows[j]))); }
        }
    }
}
