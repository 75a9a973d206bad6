// overlap: the gradient of a volume from what each slice of the output's gives to the slices that it saw.
//
// parts[N, outs, C, KERNEL, area] belongs, by element k of the window of slice o, to slice o * stride + k * dilation - padding of
// x[N, C, depth, area]. A thread makes one V of x.
//
// Bindings: 0 parts (read), 1 x (read_write).
// Launch:   x = ceil(count / 256) workgroups of 256.
// Sums:     float32, along the window.

alias V = vec4<f32>;
const KERNEL: u32 = 3u;

struct Params {
    count: u32, channels: u32, depth: u32, area: u32,       // V's of x, and of a slice
    outs: u32, stride: u32, padding: u32, dilation: u32,
    offset: u32,
}
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read> parts: array<V>;
@group(0) @binding(1) var<storage, read_write> x: array<V>;

@compute @workgroup_size(256)
fn main(grid: Grid, @builtin(local_invocation_index) local: u32) {
    let i = group_of(grid) * 256u + local;
    if (i >= p.count) {
        return;
    }
    let slice = i / p.area;
    let plane = slice / p.depth;
    let image = plane / p.channels;
    let channel = plane - image * p.channels;
    let z = slice - plane * p.depth + p.padding;
    var total = V(0.0);
    for (var k = 0u; k < KERNEL; k++) {
        let from_here = z - k * p.dilation;                 // wraps to a large number before the first slice
        let o = from_here / p.stride;
        if (z >= k * p.dilation && o * p.stride == from_here && o < p.outs) {
            total += parts[p.offset + (((image * p.outs + o) * p.channels + channel) * KERNEL + k) * p.area + i - slice * p.area];
        }
    }
    x[i] = total;
}
