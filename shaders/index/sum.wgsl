// index_sum: out[outer, row, inner] = sum of g[outer, k, inner] over the entries k of the row, which sorting has put together.
//
// BASED: out is added to, where there are entries.
// CHUNKS: instead of a row's, the sum of each 256 sorted entries that are of one row; other chunks stay undefined. `size` counts them.
// PARTS: in a row of many entries, 256 of them are one addition, of their chunk's sum; else a row of all would be one thread's.
//
// Bindings: 0 g, 1 places of the sorted entries, 2 starts, with CHUNKS the sorted keys, 3 sums of chunks where PARTS (read),
//           4 out (read_write).
// Launch:   x = ceil(count / 256) workgroups of 256; a thread makes one V; count, inner and offsets are in V's.
// Sums:     in A, in the order of k; with PARTS chunk by chunk.

alias V = f32;
alias A = f32;
alias O = f32;
const CHUNKS: bool = false;
const PARTS: bool = false;
const BASED: bool = false;

struct Params {
    count: u32, inner: u32, entries: u32, size: u32,
    g_offset: u32, chunks: u32, out_offset: u32,
}
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read> g: array<V>;
@group(0) @binding(1) var<storage, read> places: array<u32>;
@group(0) @binding(2) var<storage, read> starts: array<u32>;
@group(0) @binding(3) var<storage, read> sums: array<A>;
@group(0) @binding(4) var<storage, read_write> out: array<O>;

fn finish(v: A) -> O { return O(v); }

@compute @workgroup_size(256)
fn main(grid: Grid, @builtin(local_invocation_index) local: u32) {
    let i = group_of(grid) * 256u + local;
    if (i >= p.count) {
        return;
    }
    let line = i / p.inner;
    let outer = line / p.size;
    let row = line - outer * p.size;
    let start = p.g_offset + outer * p.entries * p.inner + i - line * p.inner;
    var total = A();
    var k = row * 256u;
    var end = k + 256u;
    if (!CHUNKS) {
        k = starts[row];
        end = starts[row + 1u];
        if (BASED && k == end) { return; }
    } else if (starts[k] != starts[k + 255u]) {
        return;
    }
    if (PARTS && end - k >= 512u) {
        let whole = (k + 255u) / 256u;
        for (; k < whole * 256u; k++) {
            total += A(g[start + places[k] * p.inner]);
        }
        for (var c = whole; c < end / 256u; c++) {
            total += sums[(outer * p.chunks + c) * p.inner + i - line * p.inner];
        }
        k = end / 256u * 256u;
    }
    for (; k < end; k++) {
        total += A(g[start + places[k] * p.inner]);
    }
    let into = p.out_offset + i;
    if (BASED) { total = A(out[into]) + total; }
    out[into] = finish(total);
}
