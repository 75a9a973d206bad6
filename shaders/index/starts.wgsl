// index_starts: starts[i] = how many of the sorted keys are below row first + i: where that row's entries begin.
//
// LINES: the keys are of several lines of `entries`, each of which has `rows` starts.
//
// Bindings: 0 sorted keys (read), 1 starts (read_write).
// Launch:   x = ceil(count / 256) workgroups of 256; a thread makes one start by bisection.
// Sums:     none.

const LINES: bool = false;

struct Params {
    count: u32, first: u32, entries: u32, rows: u32,
}
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read> keys: array<u32>;
@group(0) @binding(1) var<storage, read_write> starts: array<u32>;

@compute @workgroup_size(256)
fn main(grid: Grid, @builtin(local_invocation_index) local: u32) {
    let i = group_of(grid) * 256u + local;
    if (i >= p.count) {
        return;
    }
    let line = select(0u, i / max(p.rows, 1u), LINES);
    let row = p.first + i - line * p.rows;
    var low = line * p.entries;
    var high = low + p.entries;
    while (low < high) {
        let middle = low + (high - low) / 2u;
        if (keys[middle] < row) {
            low = middle + 1u;
        } else {
            high = middle;
        }
    }
    starts[i] = low;
}
