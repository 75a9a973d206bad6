// conv_lines: out[n, o, l] = sum over c and t of weight(o, c, t) * x[n, c, l + t - padding] (+ bias[o]); a workgroup makes TILE_O channels
// of TILE_L neighbours of one line, without columns: what a thread read of a line serves all taps, in registers.
//
// TURNED: the gradient of x, of steps of 1: x is that of out, of more padding, and weight(o, c, t) = w[c, o, TAPS - 1 - t].
//
// Bindings: 0 x, 1 weight, 2 bias, absent without HAS_BIAS (read), 3 out (read_write, contiguous).
// Launch:   x = images * tiles_o * tiles_l workgroups of THREADS; a thread owns two blocks of four channels at eight neighbours.
// Sums:     in f32, by channels, then taps; fixed order.
//
// Each step, the workgroup copies CHANNELS channels of the weight, [channel, tap][o], and of the line with what its windows reach beyond
// the tile, into workgroup memory. (To fetch the next step's values before this step's are used took a tenth longer.) Vectors of the line
// with even numbers lie before those with odd ones, so that the threads of a warp, which each read three in a row, meet no bank twice. What
// a thread does with a channel is written out: a loop that the driver leaves a loop would put the sums into memory.
// Lines of out that are no whole vectors go through workgroup memory, so that neighbours are written together.

alias X = vec4<f32>;                // what x and the weight are read by: an f32 where it is not by fours
alias W = vec4<f32>;
alias O = vec4<f32>;                // and what out is written by
const TAPS: u32 = 3u;               // 2 to 5
const TILE_O: u32 = 128u;
const X_WORD: u32 = 4u;
const W_WORD: u32 = 4u;             // 4 only with WHOLE
const OUT_WORD: u32 = 4u;
const WHOLE: bool = false;          // outputs are a multiple of four, and channels of CHANNELS
const HAS_BIAS: bool = false;
const TURNED: bool = false;
const CHANNELS: u32 = 8u;

const TILE_L: u32 = 128u;
const WARPS_L: u32 = TILE_L / 64u;  // a warp has four threads along o, eight along l
const BLOCKS_O: u32 = TILE_O / 8u;  // threads along o
const THREADS: u32 = BLOCKS_O * TILE_L / 8u;
const ROWS_W: u32 = CHANNELS * TAPS;
const UNITS_W: u32 = (ROWS_W * TILE_O / 4u + THREADS - 1u) / THREADS;       // vectors of a step that a thread fetches
const UNITS_X: u32 = (CHANNELS * TILE_L / 4u + THREADS - 1u) / THREADS;
const STRIDE_W: u32 = TILE_O / 4u + 1u;
const STRIDE_X: u32 = TILE_L / 4u + 2u;
const ODD: u32 = TILE_L / 8u + 1u;
const START_X: u32 = ROWS_W * STRIDE_W;
const SIZE: u32 = START_X + CHANNELS * STRIDE_X;
const STRIDE_OUT: u32 = TILE_L / 4u + 1u;
const SHARED: u32 = max(SIZE, select(0u, 2u * BLOCKS_O * STRIDE_OUT, OUT_WORD == 1u));

struct Params {
    x_offset: u32, weight_offset: u32, bias_offset: u32, images: u32,
    channels: u32, outputs: u32, length: u32, out_length: u32, // length of lines of x, and of out
    padding: u32, x_image: u32, x_channel: u32, weight_row: u32, // strides of x; of weight's o and c
    weight_channel: u32, tiles_o: u32, tiles_l: u32,
}
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read> x: array<X>;
@group(0) @binding(1) var<storage, read> weight: array<W>;
@group(0) @binding(2) var<storage, read> bias: array<f32>;
@group(0) @binding(3) var<storage, read_write> out: array<O>;

var<workgroup> tiles: array<vec4<f32>, SHARED>;

var<private> acc: array<vec4<f32>, 16>;     // of channel c of block b: 8b + 2c and the next
var<private> step_w: array<vec4<f32>, max(UNITS_W, 4u)>;
var<private> step_x: array<vec4<f32>, UNITS_X>;
var<private> beyond: vec4<f32>;             // the last vector of the line of one channel
var<private> at_w: array<u32, UNITS_W>;
var<private> v0: vec4<f32>;                 // the twelve values that a thread's windows see
var<private> v1: vec4<f32>;
var<private> v2: vec4<f32>;

fn word_x(i: u32) -> vec4<f32> { return vec4<f32>(x[i]); }
fn word_w(i: u32) -> vec4<f32> { return vec4<f32>(weight[i]); }

// Four values of a channel's line from place `at` of the tile, that begins at `first` of the line.
fn line(base: u32, first: i32, at: u32, there: bool) -> vec4<f32> {
    let begin = first + i32(at);
    if (X_WORD == 4u) {
        let inside = there && begin >= 0 && begin < i32(p.length);
        return select(vec4<f32>(0.0), word_x((base + u32(clamp(begin, 0, i32(p.length) - 4))) / 4u), vec4<bool>(inside));
    }
    let place = vec4<i32>(begin) + vec4<i32>(0, 1, 2, 3);
    let inside = (place >= vec4<i32>(0)) & (place < vec4<i32>(i32(p.length))) & vec4<bool>(there);
    let i = vec4<u32>(base) + vec4<u32>(clamp(place, vec4<i32>(0), vec4<i32>(i32(p.length) - 1)));
    return select(vec4<f32>(0.0), vec4<f32>(word_x(i.x).x, word_x(i.y).x, word_x(i.z).x, word_x(i.w).x), inside);
}

// The first channels of a step are fetched by the last threads, as the first ones are busy with the weight.
fn fetch_x(image: u32, first: i32, c0: u32, lane: u32) {
    for (var i = 0u; i < UNITS_X; i++) {
        let u = THREADS - 1u - lane + i * THREADS;
        let c = c0 + u / (TILE_L / 4u);
        if (u < CHANNELS * TILE_L / 4u) {
            step_x[i] = line(image + min(c, p.channels - 1u) * p.x_channel, first, u % (TILE_L / 4u) * 4u, WHOLE || c < p.channels);
        }
    }
    if (lane >= THREADS - CHANNELS) {
        let c = c0 + THREADS - 1u - lane;
        beyond = line(image + min(c, p.channels - 1u) * p.x_channel, first, TILE_L, WHOLE || c < p.channels);
    }
}

// Where the vector `v` of a channel's line lies in its part of the tile.
fn parity(v: u32) -> u32 { return (v & 1u) * ODD + (v >> 1u); }

// Four channels of the weight at a tap and channel; by fours, at four of these.
fn fetch_w(row0: u32, c0: u32, lane: u32) {
    if (W_WORD == 4u) {
        if (lane < ROWS_W * TILE_O / 16u) {
            let at = at_w[0] + c0 * p.weight_channel / 4u;
            for (var r = 0u; r < 4u; r++) { step_w[r] = word_w(at + r * (p.weight_row / 4u)); }
        }
        return;
    }
    for (var i = 0u; i < UNITS_W; i++) {
        let u = lane + i * THREADS;
        let kk = u % ROWS_W;
        let room = p.outputs - 1u - min(row0 + u / ROWS_W * 4u, p.outputs - 1u);
        let there = WHOLE || c0 + kk / TAPS < p.channels;
        let at = at_w[i] + select(0u, c0, there) * p.weight_channel;
        let read = vec4<f32>(word_w(at).x, word_w(at + select(min(1u, room), 1u, WHOLE) * p.weight_row).x,
                             word_w(at + select(min(2u, room), 2u, WHOLE) * p.weight_row).x,
                             word_w(at + select(min(3u, room), 3u, WHOLE) * p.weight_row).x);
        step_w[i] = select(vec4<f32>(0.0), read, vec4<bool>(there));
    }
}

// Where a unit of the weight lies: its first row and its row of a step.
fn aim(row0: u32, lane: u32) {
    for (var i = 0u; i < UNITS_W; i++) {
        let u = lane + i * THREADS;
        let rows = ROWS_W / W_WORD;
        let row = min(row0 + u / rows * 4u, p.outputs - select(1u, 4u, WHOLE));
        let kk = u % rows * W_WORD;
        let t = select(kk % TAPS, TAPS - 1u - kk % TAPS, TURNED);
        let place = select(min(kk / TAPS, p.channels - 1u) * p.weight_channel + t, kk, W_WORD == 4u);
        at_w[i] = (p.weight_offset + row * p.weight_row + place) / W_WORD;
    }
}

fn stash(lane: u32) {
    if (W_WORD == 4u) {
        if (lane < ROWS_W * TILE_O / 16u) {
            let to = lane % (ROWS_W / 4u) * 4u * STRIDE_W + lane / (ROWS_W / 4u);
            tiles[to] = vec4<f32>(step_w[0].x, step_w[1].x, step_w[2].x, step_w[3].x);
            tiles[to + STRIDE_W] = vec4<f32>(step_w[0].y, step_w[1].y, step_w[2].y, step_w[3].y);
            tiles[to + 2u * STRIDE_W] = vec4<f32>(step_w[0].z, step_w[1].z, step_w[2].z, step_w[3].z);
            tiles[to + 3u * STRIDE_W] = vec4<f32>(step_w[0].w, step_w[1].w, step_w[2].w, step_w[3].w);
        }
    } else {
        for (var i = 0u; i < UNITS_W; i++) {
            let u = lane + i * THREADS;
            if (u < ROWS_W * TILE_O / 4u) { tiles[u % ROWS_W * STRIDE_W + u / ROWS_W] = step_w[i]; }
        }
    }
    for (var i = 0u; i < UNITS_X; i++) {
        let u = THREADS - 1u - lane + i * THREADS;
        if (u < CHANNELS * TILE_L / 4u) { tiles[START_X + u / (TILE_L / 4u) * STRIDE_X + parity(u % (TILE_L / 4u))] = step_x[i]; }
    }
    if (lane >= THREADS - CHANNELS) { tiles[START_X + (THREADS - 1u - lane) * STRIDE_X + parity(TILE_L / 4u)] = beyond; }
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
    v0 = vec4<f32>(v0.yzw, v1.x);
    v1 = vec4<f32>(v1.yzw, v2.x);
    v2 = vec4<f32>(v2.yzw, 0.0);
}

fn channel(c: u32, from_w: u32, from_x: u32) {
    let at = from_w + c * TAPS * STRIDE_W;
    let at_x = from_x + c * STRIDE_X;
    v0 = tiles[at_x];
    v1 = tiles[at_x + ODD];
    v2 = tiles[at_x + 1u];
    tap(at);
    tap(at + STRIDE_W);
    if (TAPS > 2u) { tap(at + 2u * STRIDE_W); }
    if (TAPS > 3u) { tap(at + 3u * STRIDE_W); }
    if (TAPS > 4u) { tap(at + 4u * STRIDE_W); }
}

fn multiply(from_w: u32, from_x: u32) {
    for (var c = 0u; c < CHANNELS; c++) { channel(c, from_w, from_x); }
}

fn shift_of(row: u32) -> f32 {
    if (HAS_BIAS) { return bias[p.bias_offset + min(row, p.outputs - 1u)]; }
    return 0.0;
}

// Of each block's four channels the one at c: whole vectors are written as they are; others by their neighbours in a row.
fn finish(c: u32, base: u32, row0: u32, first: u32, o4: u32, l8: u32, lane: u32,
          s0: vec4<f32>, s1: vec4<f32>, s2: vec4<f32>, s3: vec4<f32>) {
    let row = row0 + 4u * o4 + c;
    let low = vec4<f32>(shift_of(row));
    let high = vec4<f32>(shift_of(row + 4u * BLOCKS_O));
    if (OUT_WORD == 4u) {
        write(base, row, first + l8 * 8u, s0 + low);
        write(base, row, first + l8 * 8u + 4u, s1 + low);
        write(base, row + 4u * BLOCKS_O, first + l8 * 8u, s2 + high);
        write(base, row + 4u * BLOCKS_O, first + l8 * 8u + 4u, s3 + high);
        return;
    }
    let to = o4 * STRIDE_OUT + 2u * l8;
    tiles[to] = s0 + low;
    tiles[to + 1u] = s1 + low;
    tiles[to + BLOCKS_O * STRIDE_OUT] = s2 + high;
    tiles[to + BLOCKS_O * STRIDE_OUT + 1u] = s3 + high;
    workgroupBarrier();
    for (var i = lane; i < 2u * BLOCKS_O * TILE_L; i += THREADS) {
        let r = i / TILE_L;
        let at = i % TILE_L;
        let v = tiles[r * STRIDE_OUT + at / 4u][at % 4u];
        let o = row0 + 4u * r + c;
        if (o < p.outputs && first + at < p.out_length) { put(base + o * p.out_length + first + at, v); }
    }
    workgroupBarrier();
}

fn write(base: u32, row: u32, at: u32, v: vec4<f32>) {
    if (row < p.outputs && at < p.out_length) { put_four((base + row * p.out_length + at) / 4u, v); }
}

fn put(i: u32, v: f32) { out[i] = O(v); }
fn put_four(i: u32, v: vec4<f32>) { out[i] = v; }                   // of single elements: never

@compute @workgroup_size(THREADS)
fn main(grid: Grid, @builtin(local_invocation_index) lane: u32) {
    let group = min(group_of(grid), p.images * p.tiles_o * p.tiles_l - 1u);     // those beyond repeat the last one
    let image = group / (p.tiles_o * p.tiles_l);
    let first = group % p.tiles_l * TILE_L;
    let row0 = group / p.tiles_l % p.tiles_o * TILE_O;
    let from_image = p.x_offset + image * p.x_image;
    let begin = i32(first) - i32(p.padding);
    aim(row0, lane);
    // As in matmul.wgsl: neighbouring lanes share a place and lanes two apart channels, so that most reads of a warp are broadcasts.
    let seat = lane % 32u;
    let warp = lane / 32u;
    let o4 = warp / WARPS_L * 4u + seat / 16u * 2u + seat % 2u;
    let l8 = warp % WARPS_L * 8u + seat / 2u % 8u;
    for (var i = 0u; i < 16u; i++) { acc[i] = vec4<f32>(0.0); }

    let count = (p.channels + CHANNELS - 1u) / CHANNELS;
    for (var step = 0u; step < count; step++) {
        fetch_w(row0, step * CHANNELS, lane);
        fetch_x(from_image, begin, step * CHANNELS, lane);
        stash(lane);
        workgroupBarrier();
        multiply(o4, START_X + l8);
        workgroupBarrier();
    }

    let base = image * p.outputs * p.out_length;
    finish(0u, base, row0, first, o4, l8, lane, acc[0], acc[1], acc[8], acc[9]);
    finish(1u, base, row0, first, o4, l8, lane, acc[2], acc[3], acc[10], acc[11]);
    finish(2u, base, row0, first, o4, l8, lane, acc[4], acc[5], acc[12], acc[13]);
    finish(3u, base, row0, first, o4, l8, lane, acc[6], acc[7], acc[14], acc[15]);
}
