// conv_im2col: columns[(c * kh + ky) * kw + kx, position] = x[n, c, oy * stride + ky * dilation - padding, ...], 0 outside.
//
// Positions count (n, oy, ox) in row-major order; the dispatch makes `count` of them from `first`, so that a batch can be
// done in pieces. Rows of columns are `row` words of 4 positions; the places after `count` in the last word are 0.
// BY_IMAGE: each image has its own matrix, one after the other; then `row` is of one image, which is whole words long.
//
// Bindings: 0 x (read, any strides), 1 columns (read_write).
// Launch:   x = C * (kh / taps) * blocks workgroups of 256; a thread makes one word in `taps` kernel rows of one channel.
// Sums:     none.
//
// The position is taken apart once per thread and then serves all taps, since integer division is what costs here.

const BY_IMAGE: bool = false;

struct Params {
    x_offset: u32, x_image: u32, x_channel: u32, x_row: u32,
    x_column: u32, height: u32, width: u32, out_height: u32,
    out_width: u32, kernel_height: u32, kernel_width: u32, stride_y: u32,
    stride_x: u32, padding_y: u32, padding_x: u32, dilation_y: u32,
    dilation_x: u32, first: u32, count: u32, row: u32,
    taps: u32, blocks: u32, channels: u32, words: u32,
}
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(1) var<storage, read_write> columns: array<vec4<f32>>;

@compute @workgroup_size(256)
fn main(grid: Grid, @builtin(local_invocation_index) local: u32) {
    let group = group_of(grid);
    let rest = group / p.blocks;
    let word = (group - rest * p.blocks) * 256u + local;
    let parts = p.kernel_height / p.taps;
    let channel = rest / parts;
    let first_y = (rest - channel * parts) * p.taps;
    // A folded grid has spare workgroups at its end.
    if (word >= p.words || channel >= p.channels) {
        return;
    }
    let position = p.first + word * 4u;
    let line = position / p.out_width;
    var ox = position - line * p.out_width;
    var image = line / p.out_height;
    var oy = line - image * p.out_height;
    var start: vec4<u32>;
    var top: vec4<i32>;
    var left: vec4<i32>;
    for (var j = 0u; j < 4u; j++) {
        start[j] = p.x_offset + image * p.x_image + channel * p.x_channel;
        // Far outside any image: such a place reads 0.
        top[j] = select(-0x40000000, i32(oy * p.stride_y) - i32(p.padding_y), word * 4u + j < p.count);
        left[j] = i32(ox * p.stride_x) - i32(p.padding_x);
        ox += 1u;
        if (ox == p.out_width) {
            ox = 0u;
            oy += 1u;
            if (oy == p.out_height) {
                oy = 0u;
                image += 1u;
            }
        }
    }
    let size_y = vec4<u32>(p.height);
    let size_x = vec4<u32>(p.width);
    var at_row = (channel * p.kernel_height + first_y) * p.kernel_width * p.row;
    if (BY_IMAGE) {
        let nth = word / p.row;
        at_row += nth * p.channels * p.kernel_height * p.kernel_width * p.row + word - nth * p.row;
    } else {
        at_row += word;
    }
    for (var ky = first_y; ky < first_y + p.taps; ky++) {
        let y = vec4<u32>(top + vec4<i32>(i32(ky * p.dilation_y)));
        let in_y = y < size_y;
        let at_y = start + y * p.x_row;
        for (var kx = 0u; kx < p.kernel_width; kx++) {
            let across = vec4<u32>(left + vec4<i32>(i32(kx * p.dilation_x)));
            let inside = in_y & (across < size_x);
            let at = select(vec4<u32>(p.x_offset), at_y + across * p.x_column, inside);
            let value = vec4<f32>(x[at.x], x[at.y], x[at.z], x[at.w]);
            columns[at_row] = select(vec4<f32>(0.0), value, inside);
            at_row += p.row;
        }
    }
}
