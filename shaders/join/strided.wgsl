// join_strided: up to four tensors of any strides, one after another along a dimension, as a new one.
//
// Up to two dimensions lie outside the joined one, up to two inside. Bindings: 0 to 3 the tensors (read; those that are missing are the
// first), 4 out (read_write). Launch: x = ceil(count / 256) workgroups of 256; a thread writes one element, as bits.

alias E = u32;

struct Params {
    ends: vec4<u32>,            // of the tensors along the joined dimension
    offsets: vec4<u32>,
    outer: vec4<u32>, outer_last: vec4<u32>, joined: vec4<u32>, inner: vec4<u32>, inner_last: vec4<u32>,     // strides of each tensor
    outer_size: u32, inside: u32, inner_size: u32,      // of the last outer dimension, of all inner ones, and of the last
    count: u32,
}
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read> a: array<E>;
@group(0) @binding(1) var<storage, read> b: array<E>;
@group(0) @binding(2) var<storage, read> c: array<E>;
@group(0) @binding(3) var<storage, read> d: array<E>;
@group(0) @binding(4) var<storage, read_write> out: array<E>;

@compute @workgroup_size(256)
fn main(grid: Grid, @builtin(local_invocation_index) local: u32) {
    let i = group_of(grid) * 256u + local;
    if (i >= p.count) { return; }
    let line = i / p.inside;
    let within = i - line * p.inside;
    let before = line / p.ends.w;
    let place = line - before * p.ends.w;
    let t = u32(place >= p.ends.x) + u32(place >= p.ends.y) + u32(place >= p.ends.z);
    let start = select(0u, p.ends[max(t, 1u) - 1u], t > 0u);
    let row = within / p.inner_size;
    let at = p.offsets[t] + before / p.outer_size * p.outer[t] + before % p.outer_size * p.outer_last[t] + (place - start) * p.joined[t]
        + row * p.inner[t] + (within - row * p.inner_size) * p.inner_last[t];
    switch t {
        case 0u: { out[i] = a[at]; }
        case 1u: { out[i] = b[at]; }
        case 2u: { out[i] = c[at]; }
        default: { out[i] = d[at]; }
    }
}
