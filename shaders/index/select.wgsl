// index_select: out[outer, k, inner] = x[outer, index[k], inner]; also gather.
//
// FULL: index has out's shape (gather), else index[k] serves every outer and inner.
//
// Bindings: 0 x (read), 1 index (read), 2 out (read_write).
// Launch:   x = ceil(count / (256 * EACH)) workgroups of 256; count, inner and x_offset are in V's.
// Windows:  count V's of out from `first` on, from x_count V's of x from x_first on; others are left alone.
// Sums:     none. Copies bits: V is of u32 for every type of 32 bits.

alias V = vec4<u32>;
const FULL: bool = false;
const WINDOWED: bool = false;
const EACH: u32 = 1u;                                   // V's of a thread, 256 apart: all are on their way before the first is written
const NONE: u32 = 0xffffffffu;

struct Params {
    count: u32, inner: u32, entries: u32, size: u32,
    x_offset: u32, index_offset: u32, first: u32, x_first: u32, x_count: u32,
}
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read> x: array<V>;
@group(0) @binding(1) var<storage, read> index: array<i32>;
@group(0) @binding(2) var<storage, read_write> out: array<V>;

@compute @workgroup_size(256)
fn main(grid: Grid, @builtin(local_invocation_index) local: u32) {
    let begin = group_of(grid) * 256u * EACH + local;
    var sources: array<u32, EACH>;
    for (var j = 0u; j < EACH; j++) {
        let i = begin + j * 256u;
        sources[j] = NONE;
        if (i < p.count) {
            let at = select(i, i + p.first, WINDOWED);
            let line = at / p.inner;
            let outer = line / p.entries;
            let entry = select(line - outer * p.entries, i, FULL);
            let place = u32(clamp(index[p.index_offset + entry], 0, i32(p.size) - 1));
            let source = (outer * p.size + place) * p.inner + at - line * p.inner;
            sources[j] = select(source, select(NONE, source - p.x_first, source - p.x_first < p.x_count), WINDOWED);
        }
    }
    var copied: array<V, EACH>;
    for (var j = 0u; j < EACH; j++) {
        if (sources[j] != NONE) {
            copied[j] = x[p.x_offset + sources[j]];
        }
    }
    for (var j = 0u; j < EACH; j++) {
        if (sources[j] != NONE) {
            out[begin + j * 256u] = copied[j];
        }
    }
}
