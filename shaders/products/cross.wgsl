// cross: out = a x b of vectors of 3 elements, `inner` elements apart.
//
// Bindings: 0 a, 1 b (read), 2 out (read_write).
// Launch:   x = ceil(count / 256) workgroups of 256; a thread makes an element, so that neighbours write neighbours.
// Sums:     a difference of two products in C.

alias E = f32;                          // in memory
alias C = f32;                          // in arithmetic

struct Params {
    count: u32, inner: u32,
    a_offset: u32, b_offset: u32,
}
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read> a: array<E>;
@group(0) @binding(1) var<storage, read> b: array<E>;
@group(0) @binding(2) var<storage, read_write> out: array<E>;

fn finish(v: C) -> E { return E(v); }

@compute @workgroup_size(256)
fn main(grid: Grid, @builtin(local_invocation_index) local: u32) {
    let i = group_of(grid) * 256u + local;
    if (i >= p.count) {
        return;
    }
    let line = i / p.inner;
    let axis = line % 3u;
    let start = i - axis * p.inner;
    let next = start + select(axis + 1u, 0u, axis == 2u) * p.inner;
    let last = start + select(axis - 1u, 2u, axis == 0u) * p.inner;
    out[i] = finish(C(a[p.a_offset + next]) * C(b[p.b_offset + last]) - C(a[p.a_offset + last]) * C(b[p.b_offset + next]));
}
