// matmul: out = op(A) @ op(B) (+ bias), batched; one workgroup computes one TILE_M x TILE_N tile of one product.
//
// Bindings: 0 a (read), 1 b (read), 2 bias (read; unused with BIAS = 0), 3 out (read_write).
// Launch:   x = splits * batch * tiles_m * tiles_n workgroups of THREADS.
// Sums:     in T, along k in a fixed order; SLICES partial sums per workgroup are added in slice order.
//
// Each step, the workgroup copies TILE_K columns of A and rows of B into workgroup memory, both stored [k][outer], so
// that a thread reads four rows or columns at once. The next step's values are fetched into registers before this
// step's are used. With SLICES > 1 the threads form groups that share the tile and take a part of its k each. With
// splits > 1 a workgroup sums only k_chunk of K, into its own copy of out; reduce.wgsl adds the copies.
//
// A_ALONG_K, B_ALONG_K: 1 where the operand has unit stride along k, 0 where along m or n (its outer index).
// Of an operand along k, a thread reads four rows or columns at one k, so that what it stores are whole vectors: some compilers store a
// component by storing its vector. A_WORD, B_WORD: 4 where another operand's unit-stride extent, stride and offset are multiples of 4, so
// that loads are vec4; else 1. OUT_WORD: 4 where n is a multiple of 4. Rows and columns past the edge read the last valid one and are not
// stored; k past the end reads as 0 (GUARD_K = 0 where TILE_K divides every range of k).
//
// With WINDOWS, column n of B is a window of an image, [channels, z, y, x], that belongs to one place of the output, and row k a channel
// and tap of it: it lies at `places` of n plus `taps` of k. Nothing is guarded: the image has its padding around it.
//
// Loops are left to the driver: measured, texts with the loops unrolled are no faster at the best tiles. NVIDIA's unrolls up to 512
// products of a thread, so that a longer step or a larger block of a thread costs a third. Modules must be trusted ones: bounded loops cost
// a factor of ten.

alias T = f32;                  // in arithmetic
alias S = f32;                  // a, b and bias in memory
alias R = f32;                  // out in memory
alias T4 = vec4<T>;
alias A = vec4<S>;              // what a and b are read by: an S where it is not by fours
alias B = vec4<S>;

// Tile sizes; a thread owns ROWS x COLS blocks of 4 x 4; LANES_M x LANES_N threads of a warp lie side by side.
const TILE_M: u32 = 64u;
const TILE_N: u32 = 64u;
const TILE_K: u32 = 16u;
const ROWS: u32 = 2u;
const COLS: u32 = 2u;
const LANES_M: u32 = 4u;
const LANES_N: u32 = 8u;
const SLICES: u32 = 1u;
const BUFFERS: u32 = 2u;
const A_ALONG_K: u32 = 0u;
const B_ALONG_K: u32 = 0u;
const A_WORD: u32 = 4u;
const B_WORD: u32 = 4u;
const OUT_WORD: u32 = 4u;
const BIAS: u32 = 0u;
const GUARD_K: u32 = 1u;
const WINDOWS: u32 = 0u;
const TAPS_X: u32 = 1u;
const TAPS_Y: u32 = 1u;
const TAPS_Z: u32 = 1u;

const SLICE_THREADS: u32 = (TILE_M / (4u * ROWS)) * (TILE_N / (4u * COLS));
const THREADS: u32 = SLICE_THREADS * SLICES;
const SLICE_K: u32 = TILE_K / SLICES;
const WARPS_N: u32 = TILE_N / (4u * COLS * LANES_N);
const SUMS: u32 = 4u * ROWS * COLS;
const UNITS_A: u32 = TILE_M * TILE_K / 4u / THREADS;
const UNITS_B: u32 = TILE_N * TILE_K / 4u / THREADS;
// Places of a unit's values: one where they are read at once, or by a_stride from the first, which is faster where A alone is along k.
const STRIDED_A: bool = A_WORD == 1u && A_ALONG_K == 1u && B_ALONG_K == 0u && WINDOWS == 0u;
const EACH_A: u32 = select(4u, 1u, A_WORD == 4u || STRIDED_A);
const EACH_B: u32 = select(4u, 1u, B_WORD == 4u);
const STRIDE_A: u32 = TILE_M / 4u + A_ALONG_K;
const STRIDE_B: u32 = TILE_N / 4u + B_ALONG_K;
const SIZE_A: u32 = TILE_K * STRIDE_A;
const SIZE_B: u32 = TILE_K * STRIDE_B;
// The tiles and, after them in time, four sums of every thread share the workgroup memory.
const TILES: u32 = BUFFERS * (SIZE_A + SIZE_B);
const SHARED: u32 = select(TILES, max(TILES, THREADS * 4u), SLICES > 1u);
const START_B: u32 = BUFFERS * SIZE_A;

struct Params {
    a_offset: u32, b_offset: u32, bias_offset: u32,
    m: u32, n: u32, k: u32, batch: u32,
    a_stride: u32, b_stride: u32, a_batch: u32, b_batch: u32,
    tiles_m: u32, tiles_n: u32, k_chunk: u32, groups: u32,
    inner: u32, a_inner: u32, b_inner: u32,     // of a batch of two dimensions the last, and what is along it
    taps: vec4<u32>,            // WINDOWS: from a tap to the next, along z, y and x; width of the output
    places: vec4<u32>,          // from a place of the output to the next, likewise; its height * width
}
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read> a: array<A>;
@group(0) @binding(1) var<storage, read> b: array<B>;
@group(0) @binding(2) var<storage, read> bias: array<S>;
@group(0) @binding(3) var<storage, read_write> out: array<vec4<R>>;

var<workgroup> tiles: array<T4, SHARED>;

var<private> acc: array<T4, SUMS>;
var<private> next_a: array<T4, UNITS_A>;
var<private> next_b: array<T4, UNITS_B>;
var<private> at_a: array<u32, UNITS_A * EACH_A>;
var<private> at_b: array<u32, UNITS_B * EACH_B>;
var<private> step_a: u32;
var<private> step_b: u32;
var<private> lane: u32;
var<private> row0: u32;
var<private> col0: u32;
var<private> k_begin: u32;
var<private> k_end: u32;

fn mad(x: T, y: T4, z: T4) -> T4 { return fma(T4(x), y, z); }
fn stored(v: T4) -> vec4<R> { return vec4<R>(v); }
fn word_a(i: u32) -> T4 { return T4(a[i]); }
fn word_b(i: u32) -> T4 { return T4(b[i]); }

// The four values of unit i, `further` words after the first step's; `room` is how many rows there are beyond the first.
fn read_a(i: u32, further: u32, room: u32) -> T4 {
    if (A_WORD == 4u) { return word_a(at_a[i] + further); }
    if (STRIDED_A) {
        let at = at_a[i] + further;
        return T4(word_a(at).x, word_a(at + min(1u, room) * p.a_stride).x,
                  word_a(at + min(2u, room) * p.a_stride).x, word_a(at + min(3u, room) * p.a_stride).x);
    }
    return T4(word_a(at_a[4u * i] + further).x, word_a(at_a[4u * i + 1u] + further).x,
              word_a(at_a[4u * i + 2u] + further).x, word_a(at_a[4u * i + 3u] + further).x);
}

fn read_b(i: u32, further: u32) -> T4 {
    if (B_WORD == 4u) { return word_b(at_b[i] + further); }
    return T4(word_b(at_b[4u * i] + further).x, word_b(at_b[4u * i + 1u] + further).x,
              word_b(at_b[4u * i + 2u] + further).x, word_b(at_b[4u * i + 3u] + further).x);
}

fn store(row: u32, col: u32, base: u32, sum: T4) {
    if (row >= p.m || col >= p.n) { return; }
    var v = sum;
    if (BIAS == 1u) {
        for (var c = 0u; c < 4u; c += 1u) { v[c] += T(bias[p.bias_offset + min(col + c, p.n - 1u)]); }
    }
    let i = base + row * p.n + col;
    if (OUT_WORD == 4u) {
        out[i / 4u] = stored(v);
    } else {
        let last = stored(v);
        for (var c = 0u; c < 4u; c += 1u) {
            if (col + c < p.n) { out[(i + c) / 4u][(i + c) % 4u] = last[c]; }
        }
    }
}

// Where unit i of this thread lies in a tile: x the first of four outer indices, y the k index.
fn spot(i: u32, along_k: u32, tile: u32) -> vec2<u32> {
    let u = lane + i * THREADS;
    if (along_k == 1u) { return vec2<u32>(u / TILE_K * 4u, u % TILE_K); }
    return vec2<u32>(u % (tile / 4u) * 4u, u / (tile / 4u));
}

// Which row and column group of its warp's tile a lane owns. Neighbouring lanes share a column and lanes two apart a
// row, so that most of a warp's vec4 reads of workgroup memory are broadcasts.
fn seat(l: u32) -> vec2<u32> { return vec2<u32>(l / (2u * LANES_N) * 2u + l % 2u, l / 2u % LANES_N); }

// Where the tap of row k lies in a window, and where the window of column n does.
fn tap(k: u32) -> u32 {
    let line = k / TAPS_X;
    let plane = line / TAPS_Y;
    return plane / TAPS_Z * p.b_stride + dot(vec3<u32>(plane % TAPS_Z, line % TAPS_Y, k % TAPS_X), p.taps.xyz);
}

fn window(n: u32) -> u32 {
    let in_plane = n % p.places.w;
    return dot(vec3<u32>(n / p.places.w, in_plane / p.taps.w, in_plane % p.taps.w), p.places.xyz);
}

// Where the value of column n lies in the first step, whose row k it belongs to.
fn place_b(n: u32, k: u32) -> u32 {
    if (WINDOWS == 1u) { return window(n); }
    return select(n / B_WORD, n * p.b_stride, B_ALONG_K == 1u) + k * step_b;
}

fn fetch_a(k0: u32) {
    if ((!STRIDED_A || row0 + TILE_M <= p.m) && (GUARD_K == 0u || k0 + TILE_K <= k_end)) {
        for (var i = 0u; i < UNITS_A; i += 1u) { next_a[i] = read_a(i, k0 * step_a, 3u); }
        return;
    }
    for (var i = 0u; i < UNITS_A; i += 1u) {
        let s = spot(i, A_ALONG_K, TILE_M);
        let room = p.m - 1u - min(row0 + s.x, p.m - 1u);
        let v = read_a(i, (min(k0 + s.y, k_end - 1u) - s.y) * step_a, room);
        next_a[i] = select(T4(), v, vec4<bool>(k0 + s.y < k_end));
    }
}

// How far the row `first` + k of B lies beyond the row `first`, or with WINDOWS its tap.
fn further_b(k: u32, first: u32) -> u32 {
    if (WINDOWS == 1u) { return tap(first + k); }
    return k * step_b;
}

fn fetch_b(k0: u32) {
    if (GUARD_K == 0u || k0 + TILE_K <= k_end) {
        for (var i = 0u; i < UNITS_B; i += 1u) {
            let k = spot(i, B_ALONG_K, TILE_N).y;
            next_b[i] = read_b(i, further_b(k0, k));
        }
        return;
    }
    for (var i = 0u; i < UNITS_B; i += 1u) {
        let k = spot(i, B_ALONG_K, TILE_N).y;
        let v = read_b(i, further_b(min(k0 + k, k_end - 1u) - k, k));
        next_b[i] = select(T4(), v, vec4<bool>(k0 + k < k_end));
    }
}

fn stash_a(buffer: u32) {
    for (var i = 0u; i < UNITS_A; i += 1u) {
        let s = spot(i, A_ALONG_K, TILE_M);
        tiles[buffer * SIZE_A + s.y * STRIDE_A + s.x / 4u] = next_a[i];
    }
}

fn stash_b(buffer: u32) {
    for (var i = 0u; i < UNITS_B; i += 1u) {
        let s = spot(i, B_ALONG_K, TILE_N);
        tiles[START_B + buffer * SIZE_B + s.y * STRIDE_B + s.x / 4u] = next_b[i];
    }
}

fn multiply(a_at: u32, b_at: u32) {
    for (var k = 0u; k < SLICE_K; k += 1u) {
        var x: array<T4, ROWS>;
        var y: array<T4, COLS>;
        for (var i = 0u; i < ROWS; i += 1u) { x[i] = tiles[a_at + k * STRIDE_A + i * LANES_M]; }
        for (var j = 0u; j < COLS; j += 1u) { y[j] = tiles[b_at + k * STRIDE_B + j * LANES_N]; }
        for (var i = 0u; i < ROWS; i += 1u) {
            for (var c = 0u; c < 4u; c += 1u) {
                for (var j = 0u; j < COLS; j += 1u) {
                    acc[(i * 4u + c) * COLS + j] = mad(x[i][c], y[j], acc[(i * 4u + c) * COLS + j]);
                }
            }
        }
    }
}

@compute @workgroup_size(THREADS)
fn main(grid: Grid, @builtin(local_invocation_index) local: u32) {
    let group = group_of(grid);
    if (group >= p.groups) { return; }
    lane = local;
    col0 = (group % p.tiles_n) * TILE_N;
    row0 = (group / p.tiles_n) % p.tiles_m * TILE_M;
    let product = group / (p.tiles_n * p.tiles_m);
    let split = product / p.batch;
    k_begin = min(split * p.k_chunk, p.k);
    k_end = min(p.k, k_begin + p.k_chunk);
    let outer = product % p.batch / p.inner;
    let inner = product % p.batch - outer * p.inner;
    let a0 = (p.a_offset + outer * p.a_batch + inner * p.a_inner) / A_WORD;
    let b0 = (p.b_offset + outer * p.b_batch + inner * p.b_inner) / B_WORD;
    step_a = select(p.a_stride / A_WORD, 1u, A_ALONG_K == 1u);
    step_b = select(p.b_stride / B_WORD, 1u, B_ALONG_K == 1u);
    for (var i = 0u; i < UNITS_A; i += 1u) {
        let s = spot(i, A_ALONG_K, TILE_M);
        for (var c = 0u; c < EACH_A; c += 1u) {
            let row = min(row0 + s.x + c, p.m - 1u);
            at_a[i * EACH_A + c] = a0 + select(row / A_WORD, row * p.a_stride, A_ALONG_K == 1u) + s.y * step_a;
        }
    }
    for (var i = 0u; i < UNITS_B; i += 1u) {
        let s = spot(i, B_ALONG_K, TILE_N);
        for (var c = 0u; c < EACH_B; c += 1u) {
            let col = min(col0 + s.x + c, p.n - 1u);
            at_b[i * EACH_B + c] = b0 + place_b(col, s.y);
        }
    }
    let member = lane % SLICE_THREADS;
    let cell = seat(member % (LANES_M * LANES_N));
    let warp = member / (LANES_M * LANES_N);
    let row4 = warp / WARPS_N * (LANES_M * ROWS) + cell.x;
    let col4 = warp % WARPS_N * (LANES_N * COLS) + cell.y;
    let slice = lane / SLICE_THREADS;
    let from_a = slice * SLICE_K * STRIDE_A + row4;
    let from_b = slice * SLICE_K * STRIDE_B + col4;

    let count = (k_end - k_begin + TILE_K - 1u) / TILE_K;
    if (count > 0u) {
        fetch_a(k_begin);
        fetch_b(k_begin);
        stash_a(0u);
        stash_b(0u);
    }
    workgroupBarrier();
    for (var tile = 0u; tile < count; tile += 1u) {
        let now = tile % BUFFERS;
        let then = (tile + 1u) % BUFFERS;
        let next = k_begin + min(tile + 1u, count - 1u) * TILE_K;       // without a branch: the last step is fetched twice
        fetch_a(next);
        fetch_b(next);
        multiply(now * SIZE_A + from_a, START_B + now * SIZE_B + from_b);
        if (BUFFERS == 1u) { workgroupBarrier(); }
        stash_a(then);
        stash_b(then);
        workgroupBarrier();
    }

    let base = product * p.m * p.n;
    if (SLICES == 1u) {
        for (var i = 0u; i < ROWS; i += 1u) {
            for (var c = 0u; c < 4u; c += 1u) {
                for (var j = 0u; j < COLS; j += 1u) {
                    let row = row0 + (row4 + i * LANES_M) * 4u + c;
                    store(row, col0 + (col4 + j * LANES_N) * 4u, base, acc[(i * 4u + c) * COLS + j]);
                }
            }
        }
        return;
    }
    // The barrier that ended the last step also frees the tiles. Four sums of every thread at a time go through workgroup
    // memory; each thread then adds one over all slices.
    for (var r = 0u; r < SUMS; r += 4u) {
        for (var c = 0u; c < 4u; c += 1u) { tiles[c * THREADS + lane] = acc[r + c]; }
        workgroupBarrier();
        for (var o = lane; o < 4u * SLICE_THREADS; o += THREADS) {
            let c = o / SLICE_THREADS;
            let owner = o % SLICE_THREADS;
            var sum = tiles[c * THREADS + owner];
            for (var s = 1u; s < SLICES; s += 1u) { sum += tiles[c * THREADS + owner + s * SLICE_THREADS]; }
            let at = seat(owner % (LANES_M * LANES_N));
            let group_of = owner / (LANES_M * LANES_N);
            let row = group_of / WARPS_N * (LANES_M * ROWS) + at.x + (r + c) / (4u * COLS) * LANES_M;
            let col = group_of % WARPS_N * (LANES_N * COLS) + at.y + (r + c) % COLS * LANES_N;
            store(row0 + row * 4u + (r + c) / COLS % 4u, col0 + col * 4u, base, sum);
        }
        workgroupBarrier();
    }
}
