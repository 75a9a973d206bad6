// matvec: out[o] = sum over k of matrix[o, k] * vector[k] (+ bias), batched: a matmul whose M or N is 1.
//
// Bindings: 0 matrix (read), 1 vector (read), 2 bias (read; unused with BIAS = 0), 3 out (read_write).
// Launch:   x = splits * batch * blocks workgroups of 256; a workgroup computes OUTPUTS outputs, blocks cover them all.
// Sums:     in T; a thread adds every LANES-th word along k, then the LANES threads of an output add in a fixed tree.
//
// ALONG_K = 1: the matrix has unit stride along k. LANES threads share one output and read words side by side.
// ALONG_K = 0: unit stride along the outputs. A thread owns WORD outputs; LANES threads take every LANES-th k.
// WORD = 4 where the unit-stride extent, the other strides and the offset are multiples of 4, else 1.
// With splits > 1 a workgroup sums only k_chunk of K, into its own copy of out; reduce.wgsl adds the copies.

alias T = f32;                  // in arithmetic
alias S = f32;                  // matrix, vector and bias in memory
alias R = f32;                  // out in memory
alias T4 = vec4<T>;
alias W = S;                    // of the vector: vec4<S> where its elements lie side by side and WORD is 4

const ALONG_K: u32 = 1u;
const WORD: u32 = 4u;
const LANES: u32 = 32u;
const BIAS: u32 = 0u;
const THREADS: u32 = 256u;
const TEAMS: u32 = THREADS / LANES;
const OWNED: u32 = select(WORD, 1u, ALONG_K == 1u);

struct Params {
    matrix_offset: u32, vector_offset: u32, bias_offset: u32, bias_stride: u32,
    outer: u32, k: u32, batch: u32, blocks: u32,
    matrix_stride: u32, vector_stride: u32, matrix_batch: u32, vector_batch: u32,
    k_chunk: u32, groups: u32,
    inner: u32, matrix_inner: u32, vector_inner: u32,   // of a batch of two dimensions the last, and what is along it
}
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read> matrix: array<vec4<S>>;
@group(0) @binding(1) var<storage, read> vector: array<W>;
@group(0) @binding(2) var<storage, read> bias: array<S>;
@group(0) @binding(3) var<storage, read_write> out: array<R>;

var<workgroup> sums: array<T4, THREADS>;

fn mad(x: T4, y: T4, z: T4) -> T4 { return fma(x, y, z); }

fn stored(v: T) -> R { return R(v); }

fn load(i: u32) -> T4 {
    if (WORD == 4u) { return T4(matrix[i / 4u]); }
    return T4(T(matrix[i / 4u][i % 4u]), T(), T(), T());
}

// WORD elements of the vector, `step` apart.
fn apart(i: u32, step: u32) -> T4 {
    if (WORD == 1u) { return T4(single(i), T(), T(), T()); }
    return T4(single(i), single(i + step), single(i + 2u * step), single(i + 3u * step));
}

fn gather(i: u32, step: u32) -> T4 { return apart(i, step); }
fn single(i: u32) -> T { return T(vector[i]); }

fn store(i: u32, o: u32, sum: T) {
    if (BIAS == 1u) {
        out[i] = stored(sum + T(bias[p.bias_offset + o * p.bias_stride]));
    } else {
        out[i] = stored(sum);
    }
}

@compute @workgroup_size(THREADS)
fn main(grid: Grid, @builtin(local_invocation_index) local: u32) {
    let group = group_of(grid);
    if (group >= p.groups) { return; }
    let product = group / p.blocks;
    let split = product / p.batch;
    let k_begin = min(split * p.k_chunk, p.k);
    let k_end = min(p.k, k_begin + p.k_chunk);
    let outer = product % p.batch / p.inner;
    let inner = product % p.batch - outer * p.inner;
    let m0 = p.matrix_offset + outer * p.matrix_batch + inner * p.matrix_inner;
    let v0 = p.vector_offset + outer * p.vector_batch + inner * p.vector_inner;

    // Threads that read neighbouring words are neighbours: lanes of one output along k, else teams along the outputs.
    let lane = select(local / TEAMS, local % LANES, ALONG_K == 1u);
    let team = select(local % TEAMS, local / LANES, ALONG_K == 1u);
    let first = (group % p.blocks * TEAMS + team) * OWNED;
    var sum: T4;
    if (first < p.outer) {
        if (ALONG_K == 1u) {
            let row = m0 + first * p.matrix_stride;
            let step = LANES * WORD;
            var k = k_begin + lane * WORD;
            for (; k + 3u * step < k_end; k += 4u * step) {         // all are on their way before the first is added
                let a = array<T4, 4>(load(row + k), load(row + k + step), load(row + k + 2u * step), load(row + k + 3u * step));
                var b: array<T4, 4>;
                for (var j = 0u; j < 4u; j++) { b[j] = gather(v0 + (k + j * step) * p.vector_stride, p.vector_stride); }
                for (var j = 0u; j < 4u; j++) { sum = mad(a[j], b[j], sum); }
            }
            for (; k < k_end; k += step) {
                sum = mad(load(row + k), gather(v0 + k * p.vector_stride, p.vector_stride), sum);
            }
        } else {
            for (var k = k_begin + lane; k < k_end; k += LANES) {
                sum = mad(load(m0 + k * p.matrix_stride + first), T4(single(v0 + k * p.vector_stride)), sum);
            }
        }
    }

    sums[lane * TEAMS + team] = sum;
    for (var half = LANES / 2u; half > 0u; half /= 2u) {
        workgroupBarrier();
        if (lane < half) { sums[lane * TEAMS + team] += sums[(lane + half) * TEAMS + team]; }
    }
    if (lane > 0u || first >= p.outer) { return; }
    let total = sums[team];
    let at = product * p.outer + first;
    if (ALONG_K == 1u) {
        store(at, first, (total.x + total.y) + (total.z + total.w));
    } else {
        for (var c = 0u; c < WORD; c += 1u) { store(at + c, first + c, total[c]); }
    }
}
