// Elementwise kernels of three tensor operands: out[i] = op(a[i], b[i], c[i], out[i]).
// Launch: 256 threads a workgroup, ITEMS vectors (of 4 elements) a thread; x = ceil(vectors / (256 * ITEMS)).
// Layouts by *_KIND, in units that Params' strides and offsets count in:
//   0  vectors: neighbours along the innermost dim, aligned to 4 elements; units of 4 elements
//   1  one value for all elements of a vector (stride 0 along the innermost dim); units of an element
//   2  element by element, any strides; units of an element. Then all operands count in elements, and so do the sizes.
// float16 is widened to float32 for the arithmetic. `out` is read only where READS_OUT says so (in-place operations).
alias T = f32;                  // type of the operation's operands
alias A = f32;                  // a in memory
alias X = f32;                  // a in arithmetic
alias B = f32;                  // b in memory
alias Y = f32;                  // b in arithmetic
alias C = f32;                  // c in memory
alias Z = f32;                  // c in arithmetic
alias O = f32;                  // out in memory
alias R = f32;                  // out in arithmetic
const RANK: u32 = 1u;
const A_KIND: u32 = 0u;
const B_KIND: u32 = 0u;
const C_KIND: u32 = 0u;
const SINGLE: bool = false;     // some operand has kind 2
const READS_OUT: bool = false;
const ITEMS: u32 = 1u;
fn op(x: X, y: Y, z: Z, o: R) -> R { return x + y + z; }
fn stored(r: R) -> O { return O(r); }

struct Params {
    n0: vec4<u32>, n1: vec4<u32>,       // sizes, innermost first; rank 7 at most: n1.z is o_offset, n1.w the number of elements,
                                        // a1.w, b1.w and c1.w are the offsets of a, b and c
    a0: vec4<u32>, a1: vec4<u32>,
    b0: vec4<u32>, b1: vec4<u32>,
    c0: vec4<u32>, c1: vec4<u32>,
}
var<immediate> p: Params;

@group(0) @binding(0) var<storage, read> a: array<vec4<A>>;
@group(0) @binding(1) var<storage, read> b: array<vec4<B>>;
@group(0) @binding(2) var<storage, read> c: array<vec4<C>>;
@group(0) @binding(3) var<storage, read_write> out: array<vec4<O>>;

fn read_out(at: u32) -> R { if (READS_OUT) { return R(out[at >> 2u][at & 3u]); } return R(); }

fn vector_a(at: u32) -> vec4<X> {
    if (A_KIND == 0u) { return vec4<X>(a[at]); }
    return vec4<X>(X(a[at >> 2u][at & 3u]));
}

fn vector_b(at: u32) -> vec4<Y> {
    if (B_KIND == 0u) { return vec4<Y>(b[at]); }
    return vec4<Y>(Y(b[at >> 2u][at & 3u]));
}

fn vector_c(at: u32) -> vec4<Z> {
    if (C_KIND == 0u) { return vec4<Z>(c[at]); }
    return vec4<Z>(Z(c[at >> 2u][at & 3u]));
}

fn whole_vector(v: u32) {
    let k = coordinates(v, RANK, p.n0, p.n1);
    let x = vector_a(position(k, RANK, p.a0, p.a1) + p.a1.w);
    let y = vector_b(position(k, RANK, p.b0, p.b1) + p.b1.w);
    let z = vector_c(position(k, RANK, p.c0, p.c1) + p.c1.w);
    let at = v + p.n1.z;
    var o = vec4<R>();
    if (READS_OUT) { o = vec4<R>(out[at]); }
    let r = vec4<O>(stored(op(x.x, y.x, z.x, o.x)), stored(op(x.y, y.y, z.y, o.y)),
                    stored(op(x.z, y.z, z.z, o.z)), stored(op(x.w, y.w, z.w, o.w)));
    let left = p.n1.w - 4u * v;
    if (left >= 4u) { out[at] = r; return; }
    out[at].x = r.x;
    if (left > 1u) { out[at].y = r.y; }
    if (left > 2u) { out[at].z = r.z; }
}

fn single_elements(v: u32) {
    let end = min(4u * v + 4u, p.n1.w);
    var k = coordinates(4u * v, RANK, p.n0, p.n1);
    for (var i = 4u * v; i < end; i++) {
        let a_at = position(k, RANK, p.a0, p.a1) + p.a1.w;
        let b_at = position(k, RANK, p.b0, p.b1) + p.b1.w;
        let c_at = position(k, RANK, p.c0, p.c1) + p.c1.w;
        let at = i + p.n1.z;
        out[at >> 2u][at & 3u] = stored(op(X(a[a_at >> 2u][a_at & 3u]), Y(b[b_at >> 2u][b_at & 3u]), Z(c[c_at >> 2u][c_at & 3u]), read_out(at)));
        k.lo.x += 1u;
        if (RANK > 1u && k.lo.x == p.n0.x) { k = coordinates(i + 1u, RANK, p.n0, p.n1); }
    }
}

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) thread: u32) {
    var v = group_index(group, groups) * (256u * ITEMS) + thread;
    let vectors = (p.n1.w + 3u) / 4u;
    for (var item = 0u; item < ITEMS; item++) {
        if (v < vectors) {
            if (SINGLE) { single_elements(v); } else { whole_vector(v); }
        }
        v += 256u;
    }
}
