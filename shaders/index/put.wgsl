// index_put: writes the values of the entries of an index at the places that these name, each place being `inner` elements of out.
//
// RAW: the keys are the index itself; else they are those of index_keys, 0xffffffff for an entry that another one overrules.
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
const FILL: bool = false;
const WINDOWED: bool = false;

struct Params {
    n0: vec4<u32>, n1: vec4<u32>,       // sizes of out, innermost first
    o0: vec4<u32>, o1: vec4<u32>,       // its strides
    count: u32, inner: u32, size: u32, first: u32,
    values_offset: u32, index_offset: u32, out_offset: u32,
    window: u32, window_count: u32,
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

@compute @workgroup_size(256)
fn main(grid: Grid, @builtin(local_invocation_index) local: u32) {
    let i = group_of(grid) * 256u + local;
    if (i >= p.count) {
        return;
    }
    let entry = (p.first + i) / p.inner;
    var place = keys[p.index_offset + entry];
    if (RAW) {
        place = u32(clamp(bitcast<i32>(place), 0, i32(p.size) - 1));
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
