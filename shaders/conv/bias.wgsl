// conv_bias: out[n, o, l] += bias[o], in place.
//
// Bindings: 0 bias (read), 1 out (read_write).
// Launch:   x = ceil(count / 256) workgroups of 256; a thread does one V; count and length are in V's.
// Sums:     none.

alias V = vec4<f32>;

struct Params {
    count: u32, length: u32, channels: u32, bias_offset: u32,
}
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read> bias: array<f32>;
@group(0) @binding(1) var<storage, read_write> out: array<V>;

@compute @workgroup_size(256)
fn main(grid: Grid, @builtin(local_invocation_index) local: u32) {
    let i = group_of(grid) * 256u + local;
    if (i < p.count) {
        out[i] += V(bias[p.bias_offset + i / p.length % p.channels]);
    }
}
