// sort_scan: counts[line, digit, tile] become the numbers of keys before, which say where the keys of a digit and tile go.
//
// A workgroup has 2048 counts. TOTALS: gives what they come to, for the workgroups behind it, in place of the scan.
//
// Bindings: 0 totals of workgroups (read_write where TOTALS), 1 counts (read_write).
// Launch:   x = ceil(count / 2048) workgroups of 256.
// Sums:     integers: exact in any order.

const THREADS: u32 = 256u;
const TOTALS: bool = false;
const ITEMS: u32 = 8u;

struct Params {
    count: u32,
}
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read_write> totals: array<u32>;
@group(0) @binding(1) var<storage, read_write> counts: array<u32>;

var<workgroup> staged: array<u32, THREADS * ITEMS / 32u * 33u>;

@compute @workgroup_size(256)
fn main(grid: Grid, @builtin(local_invocation_index) local: u32) {
    let group = group_of(grid);
    let first = group * THREADS * ITEMS;
    if (first >= p.count) {
        return;
    }
    for (var k = local; k < THREADS * ITEMS; k += THREADS) {
        staged[banked(k)] = 0u;
        if (first + k < p.count) {
            staged[banked(k)] = counts[first + k];
        }
    }
    workgroupBarrier();
    var total = 0u;
    for (var j = 0u; j < ITEMS; j++) {
        total += staged[banked(local * ITEMS + j)];
    }
    let sum = running_sum(local, total);
    if (TOTALS) {
        if (local == 0u) {
            totals[group] = sum.all;
        }
        return;
    }
    var passed = 0u;
    for (var i = local; i < group; i += THREADS) {
        passed += totals[i];
    }
    var before = sum.before + running_sum(local, passed).all;
    for (var j = 0u; j < ITEMS; j++) {
        let count = staged[banked(local * ITEMS + j)];
        staged[banked(local * ITEMS + j)] = before;
        before += count;
    }
    workgroupBarrier();
    for (var k = local; k < THREADS * ITEMS && first + k < p.count; k += THREADS) {
        counts[first + k] = staged[banked(k)];
    }
}
