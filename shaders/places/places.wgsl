// places: where the elements of x are other than 0. `count` gives how many each block of 1024 * ROUNDS elements has, and 0 for the one
// behind the last, so that their running sums say where the places of a block begin; `write` then writes them in order.
//
// Bindings: 0 x (read), 1 starts, 2 out (read_write), which `count` does not look at.
// Launch:   x = blocks workgroups of 256, `count` one more; a thread looks at four neighbours in each of ROUNDS rounds.
// Sums:     of integers.

alias E = vec4<f32>;                    // or an element, where x does not begin at a multiple of four
const ROUNDS: u32 = 4u;                 // at most 4
const THREADS: u32 = 256u;
const RANK: u32 = 1u;                   // rows of out: the place along each dimension

struct Params {
    n0: vec4<u32>, n1: vec4<u32>,       // sizes, innermost first
    size: u32, x_offset: u32, starts_offset: u32,
    count: u32,                         // columns of out
}
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read> x: array<E>;
@group(0) @binding(1) var<storage, read_write> starts: array<u32>;
@group(0) @binding(2) var<storage, read_write> out: array<i32>;

fn four(v: u32) -> vec4<bool> { return !(x[p.x_offset + v] == E()); }

// Bit c: whether element c of vector v is there and not 0.
fn found(v: u32) -> u32 {
    if (4u * v >= p.size) { return 0u; }
    let bits = select(vec4<u32>(), vec4<u32>(1u, 2u, 4u, 8u), four(v));
    return (bits.x | bits.y | bits.z | bits.w) & ((1u << min(p.size - 4u * v, 4u)) - 1u);
}

fn write_place(element: u32, column: u32) {
    if (column >= p.count) { return; }
    var rest = element;
    for (var d = 0u; d + 1u < RANK; d++) {
        let n = select(p.n0, p.n1, d > 3u)[d & 3u];
        let quotient = rest / n;
        out[(RANK - 1u - d) * p.count + column] = i32(rest - quotient * n);
        rest = quotient;
    }
    out[column] = i32(rest);
}

@compute @workgroup_size(256)
fn count(grid: Grid, @builtin(local_invocation_index) local: u32) {
    let group = group_of(grid);
    var bits = 0u;
    for (var r = 0u; r < ROUNDS; r++) { bits |= found((group * ROUNDS + r) * THREADS + local) << (4u * r); }
    let sum = running_sum(local, countOneBits(bits));
    if (local == 0u && group * ROUNDS * 4u * THREADS < p.size + ROUNDS * 4u * THREADS) { starts[group] = sum.all; }
}

@compute @workgroup_size(256)
fn write(grid: Grid, @builtin(local_invocation_index) local: u32) {
    let group = group_of(grid);
    var bits: array<u32, ROUNDS>;
    var low = 0u;                       // counts of the first two rounds, 16 bits each, and of the others
    var high = 0u;
    for (var r = 0u; r < ROUNDS; r++) {
        bits[r] = found((group * ROUNDS + r) * THREADS + local);
        let counted = countOneBits(bits[r]) << (16u * (r & 1u));
        if (r < 2u) { low += counted; } else { high += counted; }
    }
    let lows = running_sum(local, low);
    workgroupBarrier();
    let highs = running_sum(local, high);
    var column = 0u;
    if (group * ROUNDS * 4u * THREADS < p.size) { column = starts[p.starts_offset + group]; }
    for (var r = 0u; r < ROUNDS; r++) {
        let shift = 16u * (r & 1u);
        let before = (select(highs.before, lows.before, r < 2u) >> shift) & 0xffffu;
        let first = 4u * ((group * ROUNDS + r) * THREADS + local);
        var at = column + before;
        for (var c = 0u; c < 4u; c++) {
            if (((bits[r] >> c) & 1u) != 0u) {
                write_place(first + c, at);
                at += 1u;
            }
        }
        column += (select(highs.all, lows.all, r < 2u) >> shift) & 0xffffu;
    }
}
