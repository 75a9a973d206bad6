// conv_lines: out[n, o, l] = sum over c and t of weight(o, c, t) * x[n, c, l + t - padding] (+ bias[o]); a workgroup makes TILE_O channels of
// TILE_L neighbours of one line, without columns: what a thread read of a line serves all taps, in registers.
//
// TURNED: the gradient of x, of steps of 1: x is that of out, and weight(o, c, t) = w[c, o, TAPS - 1 - t].
//
// Bindings: 0 x, 1 weight, 2 bias, absent without HAS_BIAS (read), 3 out (read_write, contiguous).
// Launch:   x = images * tiles_o * tiles_l workgroups of THREADS; a thread owns two blocks of four channels at eight neighbours.
// Sums:     in f32, by channels, then taps; fixed order.
//
// Each step, the workgroup copies CHANNELS channels of the weight, [channel, tap][o], and of the line with what its windows reach beyond
// the tile, into workgroup memory. The next step's values are fetched into registers before this step's are used. Vectors of the line
// with even numbers lie before those with odd ones, so that the threads of a warp, which each read three in a row, meet no bank twice. What a
// thread does with a channel is written out: a loop that the driver leaves a loop would put the sums into memory.

const TAPS: u32 = 3u;               // 2 to 5
const TILE_O: u32 = 128u;
const OUT_WORD: u32 = 4u;           // 4 where lines of out are whole vectors, else 1
const WHOLE: bool = false;          // outputs are a multiple of four, and channels of CHANNELS
const HAS_BIAS: bool = false;
const TURNED: bool = false;

const WIDE: bool = false;
const CHANNELS: u32 = 8u;
const TILE_L: u32 = 128u;
const SPAN: u32 = select(8u, 16u, WIDE);    // neighbours of a thread
const WARPS_L: u32 = TILE_L / SPAN / 8u;    // a warp has four threads along o, eight along l
const BLOCKS_O: u32 = TILE_O / 8u;  // threads along o
const THREADS: u32 = BLOCKS_O * (TILE_L / SPAN);
const UNITS_W: u32 = CHANNELS * TAPS * TILE_O / 4u / THREADS;
const UNITS_X: u32 = CHANNELS * TILE_L / 4u / THREADS;
const STRIDE_W: u32 = TILE_O / 4u + 1u;
const ODD: u32 = TILE_L / SPAN + 1u;
const STRIDE_X: u32 = ODD * SPAN / 4u;
const START_X: u32 = CHANNELS * TAPS * STRIDE_W;

struct Params {
    x_offset: u32, weight_offset: u32, bias_offset: u32, images: u32,
    channels: u32, outputs: u32, length: u32, out_length: u32, // length of lines of x, and of out
    padding: u32, x_image: u32, x_channel: u32, weight_row: u32, // strides of x; of weight's o and c
    weight_channel: u32, tiles_o: u32, tiles_l: u32,
}
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(1) var<storage, read> weight: array<f32>;
@group(0) @binding(2) var<storage, read> bias: array<f32>;
@group(0) @binding(3) var<storage, read_write> out: array<vec4<f32>>;

var<workgroup> tiles: array<vec4<f32>, START_X + CHANNELS * STRIDE_X>;

var<private> acc: array<vec4<f32>, 32>;     // of channel c of block b: 8b + 2c and the next
var<private> next_w: array<vec4<f32>, UNITS_W>;
var<private> next_x: array<vec4<f32>, UNITS_X>;
var<private> beyond: vec4<f32>;             // the last vector of the line of one channel
var<private> at_w: array<u32, UNITS_W>;
var<private> v0: vec4<f32>;                 // the twelve values that a thread's windows see
var<private> v1: vec4<f32>;
var<private> v2: vec4<f32>;
var<private> v3: vec4<f32>;
var<private> v4: vec4<f32>;

// Four values of a channel's line from place `at` of the tile, that begins at `first` of the line.
fn line(base: u32, first: i32, at: u32, there: bool) -> vec4<f32> {
    let place = vec4<i32>(first + i32(at)) + vec4<i32>(0, 1, 2, 3);
    let inside = (place >= vec4<i32>(0)) & (place < vec4<i32>(i32(p.length))) & vec4<bool>(there);
    let i = vec4<u32>(base) + vec4<u32>(clamp(place, vec4<i32>(0), vec4<i32>(i32(p.length) - 1)));
    return select(vec4<f32>(0.0), vec4<f32>(x[i.x], x[i.y], x[i.z], x[i.w]), inside);
}

fn fetch_x(image: u32, first: i32, c0: u32, lane: u32) {
    for (var i = 0u; i < UNITS_X; i++) {
        let u = lane + i * THREADS;
        let c = c0 + u / (TILE_L / 4u);
        next_x[i] = line(image + min(c, p.channels - 1u) * p.x_channel, first, u % (TILE_L / 4u) * 4u, c < p.channels);
    }
    if (lane < CHANNELS) {
        let c = c0 + lane;
        beyond = line(image + min(c, p.channels - 1u) * p.x_channel, first, TILE_L, c < p.channels);
    }
}

// Where the vector `v` of a channel's line lies in its part of the tile.
fn parity(v: u32) -> u32 { return v % (SPAN / 4u) * ODD + v / (SPAN / 4u); }

fn stash(lane: u32) {
    for (var i = 0u; i < UNITS_W; i++) {
        let u = lane + i * THREADS;
        tiles[u % (CHANNELS * TAPS) * STRIDE_W + u / (CHANNELS * TAPS)] = next_w[i];
    }
    for (var i = 0u; i < UNITS_X; i++) {
        let u = lane + i * THREADS;
        tiles[START_X + u / (TILE_L / 4u) * STRIDE_X + parity(u % (TILE_L / 4u))] = next_x[i];
    }
    if (lane < CHANNELS) { tiles[START_X + lane * STRIDE_X + parity(TILE_L / 4u)] = beyond; }
}

// Four channels of the weight at a tap and channel, o apart by rows; `room` is how many rows there are beyond the first.
fn fetch_w(row0: u32, c0: u32, lane: u32) {
    for (var i = 0u; i < UNITS_W; i++) {
        if (WHOLE) {
            let at = at_w[i] + c0 * p.weight_channel;
            next_w[i] = vec4<f32>(weight[at], weight[at + p.weight_row], weight[at + 2u * p.weight_row], weight[at + 3u * p.weight_row]);
            continue;
        }
        let u = lane + i * THREADS;
        let kk = u % (CHANNELS * TAPS);
        let room = p.outputs - 1u - min(row0 + u / (CHANNELS * TAPS) * 4u, p.outputs - 1u);
        let there = c0 + kk / TAPS < p.channels;
        let at = at_w[i] + select(0u, c0, there) * p.weight_channel;
        let read = vec4<f32>(weight[at], weight[at + min(1u, room) * p.weight_row], weight[at + min(2u, room) * p.weight_row],
                             weight[at + min(3u, room) * p.weight_row]);
        next_w[i] = select(vec4<f32>(0.0), read, vec4<bool>(there));
    }
}

// The products of one tap; the window then moves on by one.
fn tap(at: u32) {
    let w0 = tiles[at];
    let w1 = tiles[at + BLOCKS_O];
    acc[0] = fma(vec4<f32>(w0.x), v0, acc[0]);
    acc[1] = fma(vec4<f32>(w0.x), v1, acc[1]);
    acc[2] = fma(vec4<f32>(w0.y), v0, acc[2]);
    acc[3] = fma(vec4<f32>(w0.y), v1, acc[3]);
    acc[4] = fma(vec4<f32>(w0.z), v0, acc[4]);
    acc[5] = fma(vec4<f32>(w0.z), v1, acc[5]);
    acc[6] = fma(vec4<f32>(w0.w), v0, acc[6]);
    acc[7] = fma(vec4<f32>(w0.w), v1, acc[7]);
    acc[8] = fma(vec4<f32>(w1.x), v0, acc[8]);
    acc[9] = fma(vec4<f32>(w1.x), v1, acc[9]);
    acc[10] = fma(vec4<f32>(w1.y), v0, acc[10]);
    acc[11] = fma(vec4<f32>(w1.y), v1, acc[11]);
    acc[12] = fma(vec4<f32>(w1.z), v0, acc[12]);
    acc[13] = fma(vec4<f32>(w1.z), v1, acc[13]);
    acc[14] = fma(vec4<f32>(w1.w), v0, acc[14]);
    acc[15] = fma(vec4<f32>(w1.w), v1, acc[15]);
    if (WIDE) {
        acc[16] = fma(vec4<f32>(w0.x), v2, acc[16]);
        acc[17] = fma(vec4<f32>(w0.x), v3, acc[17]);
        acc[18] = fma(vec4<f32>(w0.y), v2, acc[18]);
        acc[19] = fma(vec4<f32>(w0.y), v3, acc[19]);
        acc[20] = fma(vec4<f32>(w0.z), v2, acc[20]);
        acc[21] = fma(vec4<f32>(w0.z), v3, acc[21]);
        acc[22] = fma(vec4<f32>(w0.w), v2, acc[22]);
        acc[23] = fma(vec4<f32>(w0.w), v3, acc[23]);
        acc[24] = fma(vec4<f32>(w1.x), v2, acc[24]);
        acc[25] = fma(vec4<f32>(w1.x), v3, acc[25]);
        acc[26] = fma(vec4<f32>(w1.y), v2, acc[26]);
        acc[27] = fma(vec4<f32>(w1.y), v3, acc[27]);
        acc[28] = fma(vec4<f32>(w1.z), v2, acc[28]);
        acc[29] = fma(vec4<f32>(w1.z), v3, acc[29]);
        acc[30] = fma(vec4<f32>(w1.w), v2, acc[30]);
        acc[31] = fma(vec4<f32>(w1.w), v3, acc[31]);
    }
    v0 = vec4<f32>(v0.yzw, v1.x);
    v1 = vec4<f32>(v1.yzw, v2.x);
    v2 = vec4<f32>(v2.yzw, v3.x);
    v3 = vec4<f32>(v3.yzw, v4.x);
    v4 = vec4<f32>(v4.yzw, 0.0);
}

fn multiply(from_w: u32, from_x: u32) {
    for (var c = 0u; c < CHANNELS; c++) {
        let at = from_w + c * TAPS * STRIDE_W;
        let at_x = from_x + c * STRIDE_X;
        v0 = tiles[at_x];
        v1 = tiles[at_x + ODD];
        if (WIDE) {
            v2 = tiles[at_x + 2u * ODD];
            v3 = tiles[at_x + 3u * ODD];
            v4 = tiles[at_x + 1u];
        } else { v2 = tiles[at_x + 1u]; }
        tap(at);
        tap(at + STRIDE_W);
        if (TAPS > 2u) { tap(at + 2u * STRIDE_W); }
        if (TAPS > 3u) { tap(at + 3u * STRIDE_W); }
        if (TAPS > 4u) { tap(at + 4u * STRIDE_W); }
    }
}

fn store(base: u32, row: u32, at: u32, sum: vec4<f32>) {
    if (row >= p.outputs || at >= p.out_length) { return; }
    var v = sum;
    if (HAS_BIAS) { v += vec4<f32>(bias[p.bias_offset + row]); }
    let i = base + row * p.out_length + at;
    if (OUT_WORD == 4u) {
        out[i / 4u] = v;
    } else {
        for (var j = 0u; j < 4u; j++) {
            if (at + j < p.out_length) { out[(i + j) / 4u][(i + j) % 4u] = v[j]; }
        }
    }
}

@compute @workgroup_size(THREADS)
fn main(grid: Grid, @builtin(local_invocation_index) lane: u32) {
    let group = group_of(grid);
    let image = group / (p.tiles_o * p.tiles_l);
    if (image >= p.images) { return; }
    let first = group % p.tiles_l * TILE_L;
    let row0 = group / p.tiles_l % p.tiles_o * TILE_O;
    let from_image = p.x_offset + image * p.x_image;
    let begin = i32(first) - i32(p.padding);
    for (var i = 0u; i < UNITS_W; i++) {
        let u = lane + i * THREADS;
        let kk = u % (CHANNELS * TAPS);
        let t = select(kk % TAPS, TAPS - 1u - kk % TAPS, TURNED);
        at_w[i] = p.weight_offset + min(row0 + u / (CHANNELS * TAPS) * 4u, p.outputs - select(1u, 4u, WHOLE)) * p.weight_row
                  + min(kk / TAPS, p.channels - 1u) * p.weight_channel + t;
    }
    // As in matmul.wgsl: neighbouring lanes share a place and lanes two apart channels, so that most reads of a warp are broadcasts.
    let seat = lane % 32u;
    let warp = lane / 32u;
    let o4 = warp / WARPS_L * 4u + seat / 16u * 2u + seat % 2u;
    let l8 = warp % WARPS_L * 8u + seat / 2u % 8u;
    for (var i = 0u; i < select(16u, 32u, WIDE); i++) { acc[i] = vec4<f32>(0.0); }

    fetch_w(row0, 0u, lane);
    fetch_x(from_image, begin, 0u, lane);
    stash(lane);
    workgroupBarrier();
    let count = (p.channels + CHANNELS - 1u) / CHANNELS;
    for (var step = 0u; step < count; step++) {
        let next = min(step + 1u, count - 1u) * CHANNELS;       // without a branch: the last step is fetched twice
        fetch_w(row0, next, lane);
        fetch_x(from_image, begin, next, lane);
        multiply(o4, START_X + l8);
        workgroupBarrier();
        stash(lane);
        workgroupBarrier();
    }

    let base = image * p.outputs * p.out_length;
    let at = first + l8 * SPAN;
    for (var c = 0u; c < 4u; c++) {
        for (var j = 0u; j < 2u; j++) {
            store(base, row0 + 4u * o4 + c, at + 4u * j, acc[2u * c + j]);
            store(base, row0 + 4u * (o4 + BLOCKS_O) + c, at + 4u * j, acc[8u + 2u * c + j]);
            if (WIDE) {
                store(base, row0 + 4u * o4 + c, at + 4u * j + 8u, acc[16u + 2u * c + j]);
                store(base, row0 + 4u * (o4 + BLOCKS_O) + c, at + 4u * j + 8u, acc[24u + 2u * c + j]);
            }
        }
    }
}
