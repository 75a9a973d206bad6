// windowed: out[o, j, i] = sum over k of weights[k, j] * x[o, places[k, j], i]. windowed_bytes: the same of bytes, by weights in integers
// times 2**bits, rounded up from the half, from 0 to 255.
//
// Bindings: 0 x, 1 places, 2 weights (read), 3 out (read_write); all contiguous.
// Launch:   x = blocks * ceil(outer / 4) workgroups of 256; a thread makes one place of up to 4 lines, for which it reads the tables once.
// Sums:     in S, in the order of k.

alias T = f32;  // of x and out
alias S = f32;  // of weights and sums

struct Params {
    x_offset: u32, places_offset: u32, weights_offset: u32, outer: u32,
    n: u32, inner: u32, length: u32, taps: u32,
    blocks: u32, bits: u32,
}
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read> x: array<T>;
@group(0) @binding(1) var<storage, read> places: array<i32>;
@group(0) @binding(2) var<storage, read> weights: array<S>;
@group(0) @binding(3) var<storage, read_write> out: array<T>;

fn start() -> S { return S(); }
fn result(total: S) -> T { return total; }

@compute @workgroup_size(256)
fn main(grid: Grid, @builtin(local_invocation_index) thread: u32) {
    let group = group_of(grid);
    let block = group / p.blocks;
    let at = (group - block * p.blocks) * 256u + thread;
    let j = at / p.inner;
    let first = block * 4u;
    if (j >= p.length || first >= p.outer) {
        return;
    }
    let lines = min(vec4<u32>(first) + vec4<u32>(0u, 1u, 2u, 3u), vec4<u32>(p.outer - 1u)) * (p.n * p.inner)
        + vec4<u32>(p.x_offset + at - j * p.inner);
    var total = vec4<S>(start());
    for (var k = 0u; k < p.taps; k++) {
        let entry = k * p.length + j;
        let source = lines + vec4<u32>(min(u32(places[p.places_offset + entry]), p.n - 1u) * p.inner);
        total += weights[p.weights_offset + entry] * vec4<S>(vec4<T>(x[source.x], x[source.y], x[source.z], x[source.w]));
    }
    for (var line = 0u; line < 4u; line++) {
        if (first + line < p.outer) { out[(first + line) * p.length * p.inner + at] = result(total[line]); }
    }
}
