// conv_depthwise: out[N, O, oh, ow] = x[N, C, H, W] * weight[O, 1, KH, KW] + bias[O], each of the C channels having O / C outputs.
//
// BACK: the gradient of x instead, of steps of 1: x is that of out, of O channels, and out has C; the weights are turned round.
// APART: that of other steps; then a thread makes one element.
//
// Bindings: 0 x, 1 weight, 2 bias, absent without HAS_BIAS (read), 3 out (read_write).
// Launch:   x = ceil(count / 256) workgroups of 256; a thread makes EACH neighbours of a row.
// Sums:     in f32, in the order of the taps, of BACK by outputs of the channel. Weights meet the zeros around x, but not those of BACK.

const KH: u32 = 3u;
const KW: u32 = 3u;
const STRIDE_Y: u32 = 1u;
const STRIDE_X: u32 = 1u;
const DILATION_Y: u32 = 1u;
const DILATION_X: u32 = 1u;
const EACH: u32 = 4u;
const HAS_BIAS: bool = false;
const BACK: bool = false;
const APART: bool = false;
const SPAN: u32 = (EACH - 1u) * STRIDE_X + (KW - 1u) * DILATION_X + 1u;         // elements of a row of x that EACH outputs see

struct Params {
    count: u32, channels: u32, repeat: u32, words: u32, // threads; channels of out; outputs of a channel; threads of a row of out
    height: u32, width: u32, out_height: u32, out_width: u32,
    padding_y: i32, padding_x: i32, x_offset: u32, weight_offset: u32,
    bias_offset: u32,
}
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(1) var<storage, read> weight: array<f32>;
@group(0) @binding(2) var<storage, read> bias: array<f32>;
@group(0) @binding(3) var<storage, read_write> out: array<f32>;

fn inside(y: i32, at: i32) -> bool { return y >= 0 && y < i32(p.height) && at >= 0 && at < i32(p.width); }

// x where there is some, else 0. IN: plane, the first element of an image's channel.
fn seen(plane: u32, y: i32, at: i32) -> f32 {
    let place = u32(clamp(y, 0, i32(p.height) - 1)) * p.width + u32(clamp(at, 0, i32(p.width) - 1));
    return select(0.0, x[plane + place], inside(y, at));
}

@compute @workgroup_size(256)
fn main(grid: Grid, @builtin(local_invocation_index) local: u32) {
    let i = group_of(grid) * 256u + local;
    if (i >= p.count) {
        return;
    }
    let line = i / p.words;
    let column = (i - line * p.words) * EACH;
    let image = line / p.out_height;
    let row = line - image * p.out_height;
    let channel = image % p.channels;
    var sums: array<f32, EACH>;
    for (var j = 0u; j < EACH; j++) { sums[j] = 0.0; }
    let several = select(1u, p.repeat, BACK);
    for (var r = 0u; r < several; r++) {
        let source = select(image / p.channels * (p.channels / p.repeat) + channel / p.repeat, image * p.repeat + r, BACK);
        let plane = p.x_offset + source * p.height * p.width;
        let taps = p.weight_offset + select(channel, channel * p.repeat + r, BACK) * KH * KW;
        for (var ky = 0u; ky < KH; ky++) {
            if (APART) {
                let y = i32(row) + p.padding_y - i32(ky * DILATION_Y);
                for (var kx = 0u; kx < KW; kx++) {
                    let at = i32(column) + p.padding_x - i32(kx * DILATION_X);
                    let place = vec2<i32>(y / i32(STRIDE_Y), at / i32(STRIDE_X));
                    let met = y >= 0 && at >= 0 && all(place * vec2<i32>(i32(STRIDE_Y), i32(STRIDE_X)) == vec2<i32>(y, at));
                    let product = seen(plane, place.x, place.y) * weight[taps + ky * KW + kx];
                    sums[0] += select(0.0, product, met && inside(place.x, place.y));
                }
                continue;
            }
            let y = i32(row * STRIDE_Y + ky * DILATION_Y) - p.padding_y;
            var values: array<f32, SPAN>;
            for (var j = 0u; j < SPAN; j++) { values[j] = seen(plane, y, i32(column * STRIDE_X + j) - p.padding_x); }
            for (var kx = 0u; kx < KW; kx++) {
                let tap = weight[taps + select(ky * KW + kx, (KH - 1u - ky) * KW + KW - 1u - kx, BACK)];
                for (var j = 0u; j < EACH; j++) {
                    let at = j * STRIDE_X + kx * DILATION_X;
                    let sum = fma(values[at], tap, sums[j]);
                    sums[j] = select(sums[j], sum, !BACK || inside(y, i32(column * STRIDE_X + at) - p.padding_x));
                }
            }
        }
    }
    var shift = 0.0;
    if (HAS_BIAS) { shift = bias[p.bias_offset + channel]; }
    let begin = line * p.out_width + column;
    for (var j = 0u; j < EACH; j++) {
        if (column + j < p.out_width) { out[begin + j] = sums[j] + shift; }
    }
}
