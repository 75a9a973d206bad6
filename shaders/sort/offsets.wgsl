// sort_offsets: counts[line, digit, tile] become the numbers of keys before, of all lines, as by sort_scan; where it is known how often
// each digit occurs in a line.
//
// Bindings: 0 totals[line, digit] (read), 1 counts (read_write).
// Launch:   x = lines * 256 workgroups of 256: one for each digit of a line.
// Sums:     integers.

const THREADS: u32 = 256u;

struct Params {
    groups: u32, length: u32, tiles: u32, totals_offset: u32,
}
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read> totals: array<u32>;
@group(0) @binding(1) var<storage, read_write> counts: array<u32>;

@compute @workgroup_size(256)
fn main(grid: Grid, @builtin(local_invocation_index) local: u32) {
    let group = min(group_of(grid), p.groups - 1u);
    let line = group / 256u;
    let lower = select(0u, totals[p.totals_offset + line * 256u + local], local < group % 256u);
    var before = line * p.length + running_sum(local, lower).all;
    workgroupBarrier();
    for (var first = 0u; first < p.tiles; first += THREADS) {
        let at = group * p.tiles + first + local;
        var count = 0u;
        if (first + local < p.tiles) { count = counts[at]; }
        let sum = running_sum(local, count);
        if (first + local < p.tiles && group == group_of(grid)) { counts[at] = before + sum.before; }
        before += sum.all;
        workgroupBarrier();
    }
}
