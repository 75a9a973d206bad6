// index_select: out[outer, k, inner] = x[outer, index[k], inner]; also gather.
//
// FULL: index has out's shape (gather), else index[k] serves every outer and inner.
//
// Bindings: 0 x (read), 1 index (read), 2 out (read_write).
// Launch:   x = ceil(count / 256) workgroups of 256; a thread copies one V; count, inner and x_offset are in V's.
// Windows:  count V's of out from `first` on, from x_count V's of x from x_first on; others are left alone.
// Sums:     none. Copies bits: V is of u32 for every type of 32 bits.

alias V = vec4<u32>;
const FULL: bool = false;
const WINDOWED: bool = false;

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
    let i = group_of(grid) * 256u + local;
    if (i >= p.count) {
        return;
    }
    let at = select(i, i + p.first, WINDOWED);
    let line = at / p.inner;
    let outer = line / p.entries;
    let entry = select(line - outer * p.entries, i, FULL);
    let place = u32(clamp(index[p.index_offset + entry], 0, i32(p.size) - 1));
    var source = (outer * p.size + place) * p.inner + at - line * p.inner;
    if (WINDOWED) {
        source -= p.x_first;
        if (source >= p.x_count) {
            return;
        }
    }
    out[i] = x[p.x_offset + source];
}
