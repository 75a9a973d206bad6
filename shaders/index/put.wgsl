// index_put: writes the values of the entries of an index at the places that these name, each place being `inner` elements of out.
//
// RAW: the keys are the index itself. FIND: they are, and of several entries for one place the last one counts, for which each workgroup
// compares its own with all later ones. Else they are those of index_keys, 0xffffffff for an entry that another one overrules.
// FILL: all entries have the one value.
//
// Bindings: 0 values, 1 keys (read), 2 out (read_write).
// Launch:   x = ceil(count / 256) workgroups of 256; a thread writes one V; all but index_offset and size are in V's.
// Windows:  count V's of the values from `first` on; those of out from window on, window_count of them; others are left alone.
// Sums:     none. Copies bits: V is of u32 for every type of 32 bits.

alias V = vec4<u32>;
alias S = vec4<u32>;            // of values: a V, or with FILL an element
const RANK: u32 = 1u;
const RAW: bool = false;
const FIND: bool = false;
const FILL: bool = false;
const WINDOWED: bool = false;

struct Params {
    n0: vec4<u32>, n1: vec4<u32>,       // sizes of out, innermost first
    o0: vec4<u32>, o1: vec4<u32>,       // its strides
    count: u32, inner: u32, size: u32, first: u32,
    values_offset: u32, index_offset: u32, out_offset: u32,
    window: u32, window_count: u32,
    entries: u32,                       // with FIND all of them
}
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read> values: array<S>;
@group(0) @binding(1) var<storage, read> keys: array<u32>;
@group(0) @binding(2) var<storage, read_write> out: array<V>;

// Where an element of out lies. Strides count modulo 2^32, so that negative ones work.
fn position(element: u32) -> u32 {
    var rest = element;
    var at = p.out_offset;
    for (var d = 0u; d + 1u < RANK; d++) {
        let sizes = select(p.n0, p.n1, d > 3u);
        let strides = select(p.o0, p.o1, d > 3u);
        let quotient = rest / sizes[d & 3u];
        at += (rest - quotient * sizes[d & 3u]) * strides[d & 3u];
        rest = quotient;
    }
    let outermost = select(p.o0, p.o1, RANK > 4u);
    return at + rest * outermost[(RANK - 1u) & 3u];
}

var<workgroup> own: array<u32, select(1u, 256u, FIND)>;             // places of this workgroup's entries
var<workgroup> overruled: array<atomic<u32>, select(1u, 256u, FIND)>;

fn named(entry: u32) -> u32 { return u32(clamp(bitcast<i32>(keys[p.index_offset + entry]), 0, i32(p.size) - 1)); }

// Marks those of the entries from `begin` on, up to `end`, that name the place of a later one.
fn compare(local: u32, begin: u32, end: u32) {
    let count = end + 1u - begin;
    own[local] = 0xffffffffu;
    atomicStore(&overruled[local], 0u);
    if (local < count) { own[local] = named(begin + local); }
    workgroupBarrier();
    for (var other = begin + 1u + local; other < p.entries; other += 256u) {
        let place = named(other);
        for (var k = 0u; k < min(count, other - begin); k += 8u) {         // eight reads of memory that do not wait for each other
            var same = false;
            for (var j = 0u; j < 8u; j++) { same = same | (own[(k + j) & 255u] == place); }
            for (var j = k; same && j < min(k + 8u, other - begin); j++) {
                if (own[j] == place) { atomicStore(&overruled[j], 1u); }
            }
        }
    }
    workgroupBarrier();
}

@compute @workgroup_size(256)
fn main(grid: Grid, @builtin(local_invocation_index) local: u32) {
    let start = min(group_of(grid) * 256u, p.count - 1u);
    let i = group_of(grid) * 256u + local;
    let begin = (p.first + start) / p.inner;
    if (FIND) { compare(local, begin, (p.first + min(start + 255u, p.count - 1u)) / p.inner); }
    if (i >= p.count) {
        return;
    }
    let entry = (p.first + i) / p.inner;
    var place = 0u;
    if (RAW || FIND) { place = named(entry); } else { place = keys[p.index_offset + entry]; }
    if (FIND) {
        if (atomicLoad(&overruled[entry - begin]) > 0u) { return; }
    } else if (place == 0xffffffffu) {
        return;
    }
    let element = place * p.inner + p.first + i - entry * p.inner;
    var at = position(element);
    if (WINDOWED) {
        at -= p.window;
        if (at >= p.window_count) {
            return;
        }
    }
    out[at] = V(values[select(p.values_offset + i, p.values_offset, FILL)]);
}
