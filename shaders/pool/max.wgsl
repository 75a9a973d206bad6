// pool_max: out[n, c, oy, ox] = the largest x of the window, index = its place in height * width.
//
// The first of equal values wins, a NaN wins over all numbers (the first NaN, where there are several), and padding never
// does. A window of -inf only gives the index of its first pixel.
//
// Bindings: 0 x (read, any strides), 1 out (read_write), 2 index (read_write).
// Launch:   x = ceil(count / 256) workgroups of 256; a thread makes one output.
// Sums:     none.

const KERNEL_HEIGHT: u32 = 2u;
const KERNEL_WIDTH: u32 = 2u;

struct Params {
    count: u32, channels: u32, height: u32, width: u32,
    out_height: u32, out_width: u32, x_offset: u32, x_image: u32,
    x_channel: u32, x_row: u32, x_column: u32, stride_y: u32,
    stride_x: u32, padding_y: u32, padding_x: u32, dilation_y: u32,
    dilation_x: u32,
}
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(1) var<storage, read_write> out: array<f32>;
@group(0) @binding(2) var<storage, read_write> index: array<i32>;

@compute @workgroup_size(256)
fn main(grid: Grid, @builtin(local_invocation_index) local: u32) {
    let at = group_of(grid) * 256u + local;
    if (at >= p.count) {
        return;
    }
    let line = at / p.out_width;
    let ox = at - line * p.out_width;
    let plane = line / p.out_height;
    let oy = line - plane * p.out_height;
    let image = plane / p.channels;
    let start = p.x_offset + image * p.x_image + (plane - image * p.channels) * p.x_channel;
    var best = 0.0;
    var place = 0xffffffffu;
    for (var ky = 0u; ky < KERNEL_HEIGHT; ky++) {
        // Above the image wraps to a large number.
        let y = oy * p.stride_y + ky * p.dilation_y - p.padding_y;
        if (y >= p.height) {
            continue;
        }
        for (var kx = 0u; kx < KERNEL_WIDTH; kx++) {
            let across = ox * p.stride_x + kx * p.dilation_x - p.padding_x;
            if (across >= p.width) {
                continue;
            }
            let value = x[start + y * p.x_row + across * p.x_column];
            if (place == 0xffffffffu || beats_max(value, best)) {
                best = value;
                place = y * p.width + across;
            }
        }
    }
    out[at] = best;
    index[at] = i32(place);
}
