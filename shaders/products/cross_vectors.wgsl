// cross_vectors: out = a x b of vectors of 3 elements, by whole vec4s: `packed` of vectors whose elements lie side by side, four to a
// thread, `apart` of vectors whose elements are `inner` vec4s apart.
//
// Bindings: 0 a, 1 b (read), 2 out (read_write).
// Launch:   x = ceil(count / 256) workgroups of 256; a thread makes three vec4s; all counts are in vec4s, `count` in threes of them.
// Sums:     a difference of two products in C.

alias E = f32;                          // in memory
alias C = f32;                          // in arithmetic

struct Params {
    count: u32, inner: u32,
    a_offset: u32, b_offset: u32,
}
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read> a: array<vec4<E>>;
@group(0) @binding(1) var<storage, read> b: array<vec4<E>>;
@group(0) @binding(2) var<storage, read_write> out: array<vec4<E>>;

fn finish(v: vec4<C>) -> vec4<E> { return vec4<E>(v); }

fn product(x: vec3<C>, y: vec3<C>) -> vec3<C> { return x.yzx * y.zxy - x.zxy * y.yzx; }

@compute @workgroup_size(256)
fn packed(grid: Grid, @builtin(local_invocation_index) local: u32) {
    let i = group_of(grid) * 256u + local;
    if (i >= p.count) {
        return;
    }
    let first = array<vec4<C>, 3>(vec4<C>(a[p.a_offset + 3u * i]), vec4<C>(a[p.a_offset + 3u * i + 1u]),
        vec4<C>(a[p.a_offset + 3u * i + 2u]));
    let second = array<vec4<C>, 3>(vec4<C>(b[p.b_offset + 3u * i]), vec4<C>(b[p.b_offset + 3u * i + 1u]),
        vec4<C>(b[p.b_offset + 3u * i + 2u]));
    let v = product(first[0].xyz, second[0].xyz);
    let w = product(vec3<C>(first[0].w, first[1].xy), vec3<C>(second[0].w, second[1].xy));
    let x = product(vec3<C>(first[1].zw, first[2].x), vec3<C>(second[1].zw, second[2].x));
    let y = product(first[2].yzw, second[2].yzw);
    out[3u * i] = finish(vec4<C>(v, w.x));
    out[3u * i + 1u] = finish(vec4<C>(w.yz, x.xy));
    out[3u * i + 2u] = finish(vec4<C>(x.z, y));
}

@compute @workgroup_size(256)
fn apart(grid: Grid, @builtin(local_invocation_index) local: u32) {
    let i = group_of(grid) * 256u + local;
    if (i >= p.count) {
        return;
    }
    let line = i / p.inner;
    let start = i + 2u * line * p.inner;
    var x: array<vec4<C>, 3>;
    var y: array<vec4<C>, 3>;
    for (var k = 0u; k < 3u; k++) {
        x[k] = vec4<C>(a[p.a_offset + start + k * p.inner]);
        y[k] = vec4<C>(b[p.b_offset + start + k * p.inner]);
    }
    out[start] = finish(x[1] * y[2] - x[2] * y[1]);
    out[start + p.inner] = finish(x[2] * y[0] - x[0] * y[2]);
    out[start + 2u * p.inner] = finish(x[0] * y[1] - x[1] * y[0]);
}
