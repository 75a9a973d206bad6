// places: where the elements of x are other than 0; CHANGES: other than the one before, as the first one is. `count` gives how many each
// block of 1024 * ROUNDS elements has, and 0 for those behind the last; of these numbers, or their running sums with RUNNING, `write` makes
// where a block begins, and writes the places in order; VALUES: the elements of values there.
//
// Bindings: 0 x, 1 values, absent without VALUES (read), 2 starts, 3 out (read_write), absent for `count`.
// Launch:   x = as many workgroups of 256 as starts has numbers, of `write` blocks; a thread looks at four neighbours in each of ROUNDS
//           rounds.
// Sums:     of integers.

alias V = vec4<f32>;
alias E = vec4<f32>;                    // V, or an element, where x does not begin at a multiple of four
alias O = i32;                          // of out: i32, or what has the bits of values
const ROUNDS: u32 = 4u;                 // at most 4
const THREADS: u32 = 256u;
const RANK: u32 = 1u;                   // rows of out: the place along each dimension
const CHANGES: bool = false;
const RUNNING: bool = false;
const VALUES: bool = false;

struct Params {
    n0: vec4<u32>, n1: vec4<u32>,       // sizes, innermost first
    size: u32, x_offset: u32, starts_offset: u32, values_offset: u32,
    count: u32,                         // columns of out
    starts_count: u32,
}
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read> x: array<E>;
@group(0) @binding(1) var<storage, read> values: array<O>;
@group(0) @binding(2) var<storage, read_write> starts: array<u32>;
@group(0) @binding(3) var<storage, read_write> out: array<O>;

fn fetched(v: u32) -> V { return x[p.x_offset + v]; }

fn four(v: u32) -> vec4<bool> {
    let e = fetched(v);
    if (!CHANGES) { return !(e == V()); }
    var same = e == V(fetched(max(v, 1u) - 1u).w, e.xyz);
    if (v == 0u) { same.x = false; }
    return !same;
}

// Bit c: whether element c of vector v is there and not 0.
fn found(v: u32) -> u32 {
    if (4u * v >= p.size) { return 0u; }
    let bits = select(vec4<u32>(), vec4<u32>(1u, 2u, 4u, 8u), four(v));
    return (bits.x | bits.y | bits.z | bits.w) & ((1u << min(p.size - 4u * v, 4u)) - 1u);
}

fn write_place(element: u32, column: u32) {
    if (column >= p.count) { return; }
    if (VALUES) {
        out[column] = values[p.values_offset + element];
        return;
    }
    var rest = element;
    for (var d = 0u; d + 1u < RANK; d++) {
        let n = select(p.n0, p.n1, d > 3u)[d & 3u];
        let quotient = rest / n;
        out[(RANK - 1u - d) * p.count + column] = O(rest - quotient * n);
        rest = quotient;
    }
    out[column] = O(rest);
}

@compute @workgroup_size(256)
fn count(grid: Grid, @builtin(local_invocation_index) local: u32) {
    let group = group_of(grid);
    var bits = 0u;
    for (var r = 0u; r < ROUNDS; r++) { bits |= found((group * ROUNDS + r) * THREADS + local) << (4u * r); }
    let sum = running_sum(local, countOneBits(bits));
    if (local == 0u && group < p.starts_count) { starts[group] = sum.all; }
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
    if (!RUNNING) {
        for (var i = local; i < min(group, p.starts_count); i += THREADS) { column += starts[p.starts_offset + i]; }
        workgroupBarrier();
        column = running_sum(local, column).all;
    } else if (group < p.starts_count) { column = starts[p.starts_offset + group]; }
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
