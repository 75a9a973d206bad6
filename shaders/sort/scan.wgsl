// sort_scan: counts[line, digit, tile] becomes the number of the digit's keys in earlier tiles, totals[line, digit] that in all.
//
// Bindings: 0 counts (read_write), 1 totals (read_write).
// Launch:   x = runs = 256 * lines workgroups of 256, one for each digit of a line.
// Sums:     integers: exact in any order.

struct Params {
    runs: u32, tiles: u32,
}
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read_write> counts: array<u32>;
@group(0) @binding(1) var<storage, read_write> totals: array<u32>;

alias Sum = u32;

@compute @workgroup_size(256)
fn main(grid: Grid, @builtin(local_invocation_index) local: u32) {
    let run = group_of(grid);
    if (run >= p.runs) {
        return;
    }
    var before = 0u;
    for (var base = 0u; base < p.tiles; base += 256u) {
        let at = run * p.tiles + base + local;
        var count = 0u;
        if (base + local < p.tiles) {
            count = counts[at];
        }
        workgroupBarrier();
        let total = running_sum(local, count);
        if (base + local < p.tiles) {
            counts[at] = before + total - count;
        }
        before += running_sums[255];
    }
    if (local == 0u) {
        totals[run] = before;
    }
}
