// conv_col2im: x[n, c, iy, ix] = sum over the taps (ky, kx) whose window covers (iy, ix) of columns[(c, ky, kx), window].
//
// The transpose of conv_im2col as a gather: every input pixel adds up its windows, in the order of ky, then kx. A dispatch
// sees the `count` positions from `first`; where an image began in an earlier piece the sum goes on from what x holds.
// BY_IMAGE: each image has its own matrix of columns, one after the other, and the piece is whole images.
//
// Bindings: 0 columns (read), 1 x (read_write, contiguous).
// Launch:   x = ceil(pixels / 256) workgroups of 256; a thread makes one pixel of the images from `image`.
// Sums:     in f32, fixed order.

const STRIDED: bool = true;
const BY_IMAGE: bool = false;

struct Params {
    pixels: u32, image: u32, channels: u32, height: u32,
    width: u32, out_height: u32, out_width: u32, kernel_height: u32,
    kernel_width: u32, stride_y: u32, stride_x: u32, padding_y: u32,
    padding_x: u32, dilation_y: u32, dilation_x: u32, first: u32,
    count: u32, row: u32, offset: u32,
}
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read> columns: array<f32>;
@group(0) @binding(1) var<storage, read_write> x: array<f32>;

// The window whose tap at `tap` covers place `at` of the padded image; a large number where none does.
fn window(at: u32, tap: u32, stride: u32) -> u32 {
    let start = at - tap;
    let nth = select(start, start / stride, STRIDED);
    return select(nth, 0xffffffffu, at < tap || (STRIDED && nth * stride != start));
}

@compute @workgroup_size(256)
fn main(grid: Grid, @builtin(local_invocation_index) local: u32) {
    let pixel = group_of(grid) * 256u + local;
    if (pixel >= p.pixels) {
        return;
    }
    let line = pixel / p.width;
    let ix = pixel - line * p.width;
    let plane = line / p.height;
    let iy = line - plane * p.height;
    let image = plane / p.channels;
    let channel = plane - image * p.channels;
    let at_x = p.image * p.channels * p.height * p.width + pixel;
    let first_of_image = (p.image + image) * p.out_height * p.out_width;
    var total = 0.0;
    if (first_of_image < p.first) {
        total = x[at_x];
    }
    let kernel_row = channel * p.kernel_height;
    let image_size = p.channels * p.kernel_height * p.kernel_width * p.row;
    for (var ky = 0u; ky < p.kernel_height; ky++) {
        let oy = window(iy + p.padding_y, ky * p.dilation_y, p.stride_y);
        if (oy >= p.out_height) {
            continue;
        }
        for (var kx = 0u; kx < p.kernel_width; kx++) {
            let ox = window(ix + p.padding_x, kx * p.dilation_x, p.stride_x);
            if (ox >= p.out_width) {
                continue;
            }
            let row = ((kernel_row + ky) * p.kernel_width + kx) * p.row;
            let place = oy * p.out_width + ox;
            let position = first_of_image + place - p.first;
            if (BY_IMAGE) {
                total += columns[p.offset + image * image_size + row + place];
            } else if (position < p.count) {
                total += columns[p.offset + row + position];
            }
        }
    }
    x[at_x] = total;
}
