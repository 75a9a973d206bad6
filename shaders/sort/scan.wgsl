// sort_scan: counts[line, digit, tile] become the numbers of keys before, which say where the keys of a digit and tile go.
//
// A workgroup has 4096 counts. TOTALS: gives what they come to, for the workgroups behind it, in place of the scan.
//
// Bindings: 0 totals of workgroups (read_write where TOTALS), 1 counts (read_write).
// Launch:   x = ceil(count / 4096) workgroups of 256.
// Sums:     integers: exact in any order.

alias Sum = u32;
const THREADS: u32 = 256u;
const TOTALS: bool = false;
const ITEMS: u32 = 16u;

struct Params {
    count: u32,
}
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read_write> totals: array<u32>;
@group(0) @binding(1) var<storage, read_write> counts: array<u32>;

@compute @workgroup_size(256)
fn main(grid: Grid, @builtin(local_invocation_index) local: u32) {
    let group = group_of(grid);
    let first = (group * THREADS + local) * ITEMS;
    if (group * THREADS * ITEMS >= p.count) {
        return;
    }
    var sums: array<u32, ITEMS>;
    var total = 0u;
    for (var j = 0u; j < ITEMS; j++) {
        sums[j] = total;
        if (first + j < p.count) {
            total += counts[first + j];
        }
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
    let before = sum.before + running_sum(local, passed).all;
    for (var j = 0u; j < ITEMS; j++) {
        if (first + j < p.count) {
            counts[first + j] = before + sums[j];
        }
    }
}
