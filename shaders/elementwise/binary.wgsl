// Elementwise kernels of two tensor operands: out[i] = op(a[i], b[i], out[i]).
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
alias O = f32;                  // out in memory
alias R = f32;                  // out in arithmetic
const RANK: u32 = 1u;
const A_KIND: u32 = 0u;
const B_KIND: u32 = 0u;
const SINGLE: bool = false;     // some operand has kind 2
const READS_OUT: bool = false;
const ITEMS: u32 = 1u;
fn op(x: X, y: Y, o: R) -> R { return x + y; }
fn stored(r: R) -> O { return O(r); }

struct Params {
    n0: vec4<u32>, n1: vec4<u32>,       // sizes, innermost first
    a0: vec4<u32>, a1: vec4<u32>,
    b0: vec4<u32>, b1: vec4<u32>,
    count: u32,                         // elements
    a_offset: u32,
    b_offset: u32,
    o_offset: u32,
    s0: u32, s1: u32,                   // number operands, as bits of their type
}
var<immediate> p: Params;

@group(0) @binding(0) var<storage, read> a: array<vec4<A>>;
@group(0) @binding(1) var<storage, read> b: array<vec4<B>>;
@group(0) @binding(2) var<storage, read_write> out: array<vec4<O>>;

fn read_out(at: u32) -> R { if (READS_OUT) { return R(out[at >> 2u][at & 3u]); } return R(); }

fn vector_a(at: u32) -> vec4<X> {
    if (A_KIND == 0u) { return vec4<X>(a[at]); }
    return vec4<X>(X(a[at >> 2u][at & 3u]));
}

fn vector_b(at: u32) -> vec4<Y> {
    if (B_KIND == 0u) { return vec4<Y>(b[at]); }
    return vec4<Y>(Y(b[at >> 2u][at & 3u]));
}

fn whole_vector(v: u32) {
    let k = coordinates(v, RANK, p.n0, p.n1);
    let x = vector_a(position(k, RANK, p.a0, p.a1) + p.a_offset);
    let y = vector_b(position(k, RANK, p.b0, p.b1) + p.b_offset);
    let at = v + p.o_offset;
    var o = vec4<R>();
    if (READS_OUT) { o = vec4<R>(out[at]); }
    let r = vec4<O>(stored(op(x.x, y.x, o.x)), stored(op(x.y, y.y, o.y)),
                    stored(op(x.z, y.z, o.z)), stored(op(x.w, y.w, o.w)));
    let left = p.count - 4u * v;
    if (left >= 4u) { out[at] = r; return; }
    out[at].x = r.x;
    if (left > 1u) { out[at].y = r.y; }
    if (left > 2u) { out[at].z = r.z; }
}

fn single_elements(v: u32) {
    let end = min(4u * v + 4u, p.count);
    var k = coordinates(4u * v, RANK, p.n0, p.n1);
    for (var i = 4u * v; i < end; i++) {
        let a_at = position(k, RANK, p.a0, p.a1) + p.a_offset;
        let b_at = position(k, RANK, p.b0, p.b1) + p.b_offset;
        let at = i + p.o_offset;
        out[at >> 2u][at & 3u] = stored(op(X(a[a_at >> 2u][a_at & 3u]), Y(b[b_at >> 2u][b_at & 3u]), read_out(at)));
        k.lo.x += 1u;
        if (RANK > 1u && k.lo.x == p.n0.x) { k = coordinates(i + 1u, RANK, p.n0, p.n1); }
    }
}

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) thread: u32) {
    var v = group_index(group, groups) * (256u * ITEMS) + thread;
    let vectors = (p.count + 3u) / 4u;
    for (var item = 0u; item < ITEMS; item++) {
        if (v < vectors) {
            if (SINGLE) { single_elements(v); } else { whole_vector(v); }
        }
        v += 256u;
    }
}
