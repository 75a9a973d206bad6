// index_add: out[outer, j, inner] = sum over the k with index == j of g[outer, k, inner]; also scatter_add. BASED: out is added to.
//
// A gather: each output goes through all entries of its line in their order. Right for few entries; sorting (index_sum) is for many.
// FULL: index has g's shape (scatter_add), else index[k] serves every outer and inner.
//
// Bindings: 0 g (read), 1 index (read), 2 out (read_write).
// Launch:   x = ceil(count / 256) workgroups of 256; a thread makes one V; count, inner, g_offset, out_offset and
//           first, the place of out's first V, are in V's.
// Sums:     in A, in the order of k.

alias V = f32;
alias A = f32;
alias O = f32;
const FULL: bool = true;
const BASED: bool = false;

struct Params {
    count: u32, inner: u32, entries: u32, size: u32,
    g_offset: u32, index_offset: u32, first: u32, out_offset: u32,
}
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read> g: array<V>;
@group(0) @binding(1) var<storage, read> index: array<i32>;
@group(0) @binding(2) var<storage, read_write> out: array<O>;

fn finish(v: A) -> O { return O(v); }

@compute @workgroup_size(256)
fn main(grid: Grid, @builtin(local_invocation_index) local: u32) {
    let i = group_of(grid) * 256u + local;
    if (i >= p.count) {
        return;
    }
    let here = i + p.first;
    let line = here / p.inner;
    let outer = line / p.size;
    let place = i32(line - outer * p.size);
    let last = i32(p.size) - 1;
    var at = outer * p.entries * p.inner + here - line * p.inner;
    var total = A();
    for (var k = 0u; k < p.entries; k++) {
        let entry = index[p.index_offset + select(k, at, FULL)];
        if (clamp(entry, 0, last) == place) {
            total += A(g[p.g_offset + at]);
        }
        at += p.inner;
    }
    let into = p.out_offset + i;
    if (BASED) { total = A(out[into]) + total; }
    out[into] = finish(total);
}
