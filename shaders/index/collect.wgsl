// index_collect: out[outer, row, inner] = sum of g[outer, k, inner] over the entries k with index[k] == row, where entries are few: a
// workgroup looks at all of them, and keeps those of its ROWS rows in workgroup memory, in their order.
//
// BASED: out is added to, where there are entries.
//
// Bindings: 0 g, 1 index (read), 2 out (read_write).
// Launch:   x = groups = outers * blocks of ROWS rows * strips of COLUMNS workgroups of THREADS; inner and offsets are in V's.
// Sums:     in A, in the order of k; where a workgroup has many entries, each of its SLICES adds up a part of them, and the parts are
//           added.

alias V = f32;
alias A = f32;
alias O = f32;
const BASED: bool = false;
const THREADS: u32 = 256u;
const COLUMNS: u32 = 64u;               // powers of two, whose product with SLICES is THREADS
const ROWS: u32 = 1u;
const SLICES: u32 = THREADS / COLUMNS / ROWS;
const MOST: u32 = 1024u;                // entries at most, a multiple of THREADS
const ITEMS: u32 = MOST / THREADS;
const MANY: u32 = 64u;                  // entries of a workgroup from which slices share them
const AHEAD: u32 = 4u;                  // of a row, which are on their way at once

struct Params {
    groups: u32, inner: u32, entries: u32, size: u32,
    strips: u32, blocks: u32,
    g_offset: u32, index_offset: u32, out_offset: u32,
}
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read> g: array<V>;
@group(0) @binding(1) var<storage, read> index: array<i32>;
@group(0) @binding(2) var<storage, read_write> out: array<O>;

var<workgroup> listed: array<u32, MOST>;                // entries, and in the upper half which of the rows they name
var<workgroup> parts: array<A, select(1u, THREADS, SLICES > 1u)>;
var<workgroup> named: array<u32, select(1u, THREADS, SLICES > 1u)>;

fn finish(v: A) -> O { return O(v); }

// How many entries name rows from `first` on; they are listed.
fn collect(local: u32, first: u32) -> u32 {
    var rows: array<u32, ITEMS>;
    for (var j = 0u; j < ITEMS; j++) {
        rows[j] = u32(clamp(index[p.index_offset + min(local * ITEMS + j, p.entries - 1u)], 0, i32(p.size) - 1)) - first;
    }
    var count = 0u;
    for (var j = 0u; j < ITEMS; j++) {
        if (local * ITEMS + j >= p.entries) { rows[j] = ROWS; }
        if (rows[j] < ROWS) { count++; }
    }
    let sum = running_sum(local, count);
    var to = sum.before;
    for (var j = 0u; j < ITEMS; j++) {
        if (rows[j] < ROWS) {
            listed[to] = (local * ITEMS + j) | (rows[j] << 16u);
            to++;
        }
    }
    workgroupBarrier();
    return sum.all;
}

@compute @workgroup_size(THREADS)
fn main(grid: Grid, @builtin(local_invocation_index) local: u32) {
    let group = min(group_of(grid), p.groups - 1u);     // those beyond repeat the last one, but for writing
    let outer = group / p.strips / p.blocks;
    let first = group / p.strips % p.blocks * ROWS;
    let column = group % p.strips * COLUMNS + local % COLUMNS;
    let own = local / COLUMNS % ROWS;
    let slice = local / (COLUMNS * ROWS);
    let all = collect(local, first);
    var begin = 0u;
    var end = select(0u, all, slice == 0u);
    if (SLICES > 1u && all >= MANY) {
        begin = slice * all / SLICES;
        end = (slice + 1u) * all / SLICES;
    }
    let start = p.g_offset + outer * p.entries * p.inner + min(column, p.inner - 1u);
    var total = A();
    var count = 0u;
    if (ROWS == 1u) {
        for (var k = begin; k < end; k += AHEAD) {
            var found: array<A, AHEAD>;
            for (var j = 0u; j < AHEAD; j++) { found[j] = A(g[start + (listed[min(k + j, end - 1u)] & 0xffffu) * p.inner]); }
            for (var j = 0u; j < AHEAD; j++) {
                if (k + j < end) { total += found[j]; }
            }
        }
        count = all;
    } else {
        for (var k = begin; k < end; k++) {
            let entry = listed[k];
            if (entry >> 16u == own) {
                total += A(g[start + (entry & 0xffffu) * p.inner]);
                count++;
            }
        }
    }
    if (SLICES > 1u) {
        parts[local] = total;
        named[local] = count;
        workgroupBarrier();
        for (var s = 1u; s < SLICES && all >= MANY && slice == 0u; s++) {
            total += parts[local + s * COLUMNS * ROWS];
            count += named[local + s * COLUMNS * ROWS];
        }
    }
    if (slice > 0u || column >= p.inner || first + own >= p.size || group_of(grid) >= p.groups || (BASED && count == 0u)) {
        return;
    }
    let into = p.out_offset + (outer * p.size + first + own) * p.inner + column;
    if (BASED) { total = A(out[into]) + total; }
    out[into] = finish(total);
}
