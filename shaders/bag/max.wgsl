// bag_max: the largest, in each column, of the rows of weight[rows, width] that each bag of indices names, and which row has it.
//
// LISTED: a bag is what lies from its offset to the next one, or the end; else each has `each` indices. The row `padding` does not count; a
// negative one is none. The first of equal ones counts; a NaN that comes first is never exceeded. A bag of none gives 0 and the row -1.
//
// Bindings: 0 weight, 1 index, 2 offsets (read; absent unless LISTED), 3 out, 4 taken (read_write).
// Launch:   x = ceil(bags * width / 256) workgroups of 256; a thread has one element.
// Sums:     none.

const LISTED: bool = false;
const AHEAD: u32 = 4u;                  // rows that are on their way at once

struct Params {
    count: u32, width: u32, rows: u32, entries: u32, each: u32, starts: u32, padding: i32,
    weight_offset: u32, index_offset: u32, offsets_offset: u32,
}
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read> weight: array<f32>;
@group(0) @binding(1) var<storage, read> index: array<i32>;
@group(0) @binding(2) var<storage, read> offsets: array<i32>;
@group(0) @binding(3) var<storage, read_write> out: array<f32>;
@group(0) @binding(4) var<storage, read_write> taken: array<i32>;

fn start(bag: u32) -> u32 { return u32(clamp(offsets[p.offsets_offset + bag], 0, i32(p.entries))); }

@compute @workgroup_size(256)
fn main(grid: Grid, @builtin(local_invocation_index) local: u32) {
    let i = group_of(grid) * 256u + local;
    if (i >= p.count) {
        return;
    }
    let bag = i / p.width;
    let column = i - bag * p.width;
    var first = bag * p.each;
    var last = first + p.each;
    if (LISTED) {
        first = start(bag);
        last = p.entries;
        if (bag + 1u < p.starts) { last = start(bag + 1u); }
    }
    var largest = 0.0;
    var row = -1;
    for (var k = first; k < last; k += AHEAD) {
        var rows: array<i32, AHEAD>;
        var found: array<f32, AHEAD>;
        for (var j = 0u; j < AHEAD; j++) { rows[j] = clamp(index[p.index_offset + min(k + j, last - 1u)], 0, i32(p.rows) - 1); }
        for (var j = 0u; j < AHEAD; j++) { found[j] = weight[p.weight_offset + u32(rows[j]) * p.width + column]; }
        for (var j = 0u; j < AHEAD; j++) {
            if (k + j < last && rows[j] != p.padding && (row < 0 || found[j] > largest)) {
                largest = found[j];
                row = rows[j];
            }
        }
    }
    out[i] = largest;
    taken[i] = row;
}
