// The gated linear unit of a, [lines, 2, units]: the first half of a line times the sigmoid of the second; with GRAD the gradient of both
// halves for g, [lines, units]. A thread takes a unit of a half. Launch: x = ceil(lines * units / 256).
alias V = vec4<f32>;
const GRAD: bool = false;
struct Params {
    count: u32,                 // lines * units
    units: u32,                 // V's of a half
    a_offset: u32,              // in V's
    g_offset: u32,
}
var<immediate> p: Params;

@group(0) @binding(0) var<storage, read> a: array<V>;
@group(0) @binding(1) var<storage, read> g: array<V>;           // absent without GRAD
@group(0) @binding(2) var<storage, read_write> out: array<V>;

fn sigmoid_of(v: V) -> V { return V(sigmoid_accurate(v.x), sigmoid_accurate(v.y), sigmoid_accurate(v.z), sigmoid_accurate(v.w)); }

@compute @workgroup_size(256)
fn main(grid: Grid, @builtin(local_invocation_index) thread: u32) {
    let i = group_of(grid) * 256u + thread;
    if (i >= p.count) { return; }
    let first = i / p.units * 2u * p.units + i % p.units;       // of the line's two halves
    let x = a[p.a_offset + first];
    let s = sigmoid_of(a[p.a_offset + first + p.units]);
    if (GRAD) {
        let d = g[p.g_offset + i];
        out[first] = d * s;
        out[first + p.units] = d * x * (s * (1.0 - s));
    } else {
        out[i] = x * s;
    }
}
