// index_reduce: out[outer, j, inner] = x there, times src[outer, k, inner] for every k with index[outer, k, inner] == j.
//
// SORTED: the entries of each place have been put together by sorting. Else each output goes through all entries of its line.
//
// Bindings: 0 x, 1 src, 2 places of the sorted entries, or the index, 3 starts of each place's entries, absent unless SORTED (read),
//           4 out (read_write).
// Launch:   x = ceil(count / 256) workgroups of 256; a thread makes one element.
// Sums:     products in A, in the order of k.

alias V = f32;
alias A = f32;
const SORTED: bool = true;

struct Params {
    count: u32, inner: u32, entries: u32, size: u32,
    x_offset: u32, src_offset: u32, index_offset: u32,
}
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read> x: array<V>;
@group(0) @binding(1) var<storage, read> src: array<V>;
@group(0) @binding(2) var<storage, read> places: array<i32>;
@group(0) @binding(3) var<storage, read> starts: array<u32>;
@group(0) @binding(4) var<storage, read_write> out: array<V>;

fn finish(v: A) -> V { return V(v); }

@compute @workgroup_size(256)
fn main(grid: Grid, @builtin(local_invocation_index) local: u32) {
    let i = group_of(grid) * 256u + local;
    if (i >= p.count) {
        return;
    }
    var total = A(x[p.x_offset + i]);
    if (SORTED) {
        let end = starts[i + 1u];
        for (var k = starts[i]; k < end; k++) {
            total = total * A(src[p.src_offset + u32(places[k])]);
        }
    } else {
        let line = i / p.inner;
        let outer = line / p.size;
        let place = i32(line - outer * p.size);
        var at = outer * p.entries * p.inner + i - line * p.inner;
        for (var k = 0u; k < p.entries; k++) {
            if (clamp(places[p.index_offset + at], 0, i32(p.size) - 1) == place) {
                total = total * A(src[p.src_offset + at]);
            }
            at += p.inner;
        }
    }
    out[i] = finish(total);
}
