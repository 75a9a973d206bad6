// matmul_reduce: out = the sum of `splits` partial products (+ bias), the second pass of a matmul split along k.
//
// Bindings: 0 partial (read; SPLITS copies of out, one after the other), 1 bias (read; unused with BIAS = 0),
//           2 out (read_write).
// Launch:   x = ceil(count / 256) workgroups of 256; a thread adds one word. Sums in T, in the order of the splits.
// WORD:     4 where the size of out is a multiple of 4, else 1; count is in words, n in elements.

alias T = f32;                  // in arithmetic, and partial in memory
alias S = f32;                  // bias in memory
alias R = f32;                  // out in memory

const WORD: u32 = 4u;
const SPLITS: u32 = 2u;         // known, so that all are on their way at once
const BIAS: u32 = 0u;

struct Params { bias_offset: u32, count: u32, n: u32, }
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read> partial: array<vec4<T>>;
@group(0) @binding(1) var<storage, read> bias: array<S>;
@group(0) @binding(2) var<storage, read_write> out: array<vec4<R>>;

fn stored(v: vec4<T>) -> vec4<R> { return vec4<R>(v); }

fn load(i: u32) -> vec4<T> {
    if (WORD == 4u) { return partial[i]; }
    return vec4<T>(partial[i / 4u][i % 4u]);
}

@compute @workgroup_size(256)
fn main(grid: Grid, @builtin(local_invocation_index) local: u32) {
    let i = group_of(grid) * 256u + local;
    if (i >= p.count) { return; }
    var sum = load(i);
    for (var s = 1u; s < SPLITS; s += 1u) { sum += load(s * p.count + i); }
    if (BIAS == 1u) {
        for (var c = 0u; c < WORD; c += 1u) { sum[c] += T(bias[p.bias_offset + (i * WORD + c) % p.n]); }
    }
    if (WORD == 4u) {
        out[i] = stored(sum);
    } else {
        out[i / 4u][i % 4u] = stored(sum).x;
    }
}
