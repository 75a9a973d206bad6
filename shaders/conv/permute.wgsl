// conv_permute: copies between images [N, O, L] and the matrix [O, positions] that a product takes or gives.
//
// TO_MATRIX: matrix[o, position - first] = images[n, o, l], 0 in the places after `count` of the last word of a row.
// Else:      images[n, o, l] = matrix[o, position - first] + bias[o], where HAS_BIAS. position = n * L + l.
//
// Bindings: 0 source (read), 1 bias (read; absent without HAS_BIAS), 2 destination (read_write).
// Launch:   x = ceil(O * row / 256) workgroups of 256; a thread copies one V. Sizes along a row count V's.
// Sums:     none.

alias V = vec4<f32>;
const TO_MATRIX: bool = false;
const HAS_BIAS: bool = false;

struct Params {
    channels: u32, length: u32, row: u32, first: u32,
    count: u32, source_offset: u32, bias_offset: u32,
}
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read> source: array<V>;
@group(0) @binding(1) var<storage, read> bias: array<f32>;
@group(0) @binding(2) var<storage, read_write> destination: array<V>;

@compute @workgroup_size(256)
fn main(grid: Grid, @builtin(local_invocation_index) local: u32) {
    let at = group_of(grid) * 256u + local;
    let channel = at / p.row;
    let column = at - channel * p.row;
    if (channel >= p.channels) {
        return;
    }
    let position = p.first + column;
    let image = position / p.length;
    let at_image = (image * p.channels + channel) * p.length + position - image * p.length;
    if (TO_MATRIX) {
        var value = V(0.0);
        if (column < p.count) {
            value = source[p.source_offset + at_image];
        }
        destination[at] = value;
    } else if (column < p.count) {
        var value = source[at];
        if (HAS_BIAS) {
            value += V(bias[p.bias_offset + channel]);
        }
        destination[at_image] = value;
    }
}
