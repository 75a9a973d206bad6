// matmul_pad: a matrix copied with room after each line up to a multiple of four elements, which then holds any value.
//
// Bindings: 0 a (read), 1 out (read_write).
// Launch:   x = ceil(count / 256) workgroups of 256; a thread writes one vec4. Copies bits: S is u32 for every type of 32 bits.

alias S = u32;

struct Params { offset: u32, batch: u32, inner_batch: u32, inner: u32, stride: u32, rows: u32, words: u32, count: u32, last: u32, }
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read> a: array<S>;
@group(0) @binding(1) var<storage, read_write> out: array<vec4<S>>;

@compute @workgroup_size(256)
fn main(grid: Grid, @builtin(local_invocation_index) local: u32) {
    let i = group_of(grid) * 256u + local;
    if (i >= p.count) { return; }
    let line = i / p.words;
    let matrix = line / p.rows;
    let outer = matrix / p.inner;
    let base = p.offset + outer * p.batch + (matrix - outer * p.inner) * p.inner_batch;
    let at = base + (line - matrix * p.rows) * p.stride + 4u * (i - line * p.words);
    out[i] = vec4<S>(a[min(at, p.last)], a[min(at + 1u, p.last)], a[min(at + 2u, p.last)], a[min(at + 3u, p.last)]);
}
