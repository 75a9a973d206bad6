// index_lines: out[line, j] = sum over the k with index[line, k] == j of g[line, k], for lines of at most THREADS * ITEMS entries.
//
// The entries of a line are sorted by their index in workgroup memory, so that the first one of an index adds up all of them.
//
// Bindings: 0 g, 1 index (read), 2 out (read_write), zero at first.
// Launch:   x = lines workgroups of THREADS.
// Sums:     in A, in the order of k.

alias V = f32;
alias A = f32;
alias O = f32;
const THREADS: u32 = 64u;
const ITEMS: u32 = 16u;                                 // at most 4096 entries
const BITS: u32 = 20u;                                  // of an index, at most

struct Params {
    lines: u32, entries: u32, size: u32,
    g_offset: u32, index_offset: u32,
}
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read> g: array<V>;
@group(0) @binding(1) var<storage, read> index: array<i32>;
@group(0) @binding(2) var<storage, read_write> out: array<O>;

fn finish(v: A) -> O { return O(v); }

// Index << 12 | entry, in order.
fn entry(k: u32) -> u32 { return exchanged[banked(k)]; }

@compute @workgroup_size(THREADS)
fn main(grid: Grid, @builtin(local_invocation_index) local: u32) {
    let line = group_of(grid);
    if (line >= p.lines) {
        return;
    }
    let start = line * p.entries;
    for (var j = 0u; j < ITEMS; j++) {
        let k = j * THREADS + local;
        var one = 0xffffffffu;                          // behind all
        if (k < p.entries) {
            one = (u32(clamp(index[p.index_offset + start + k], 0, i32(p.size) - 1)) << 12u) | k;
        }
        exchanged[banked(k)] = one;
    }
    workgroupBarrier();
    for (var bit = 12u; bit < 12u + BITS; bit += 4u) {
        var items: array<u32, ITEMS>;
        for (var j = 0u; j < ITEMS; j++) {
            items[j] = entry(local * ITEMS + j);
        }
        split_by_digit(local, &items, bit);
    }
    for (var k = local; k < p.entries; k += THREADS) {
        let row = entry(k) >> 12u;
        if (k == 0u || entry(max(k, 1u) - 1u) >> 12u != row) {
            var total = A();
            for (var i = k; i < p.entries && entry(min(i, p.entries - 1u)) >> 12u == row; i++) {
                total += A(g[p.g_offset + start + (entry(i) & 4095u)]);
            }
            out[line * p.size + row] = finish(total);
        }
    }
}
