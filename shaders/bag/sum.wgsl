// bag_sum: the sums, with MEAN the means, of the rows of weight[rows, width] that each bag of indices names.
//
// LISTED: a bag is what lies from its offset to the next one, or the end; else each has `each` indices. SCALED: rows are multiplied by
// scales[n]. The row `padding` does not count; a negative one is none.
//
// Bindings: 0 weight, 1 index, 2 offsets, 3 scales (read; absent unless LISTED, SCALED), 4 out (read_write).
// Launch:   x = ceil(bags * width / 256) workgroups of 256; a thread has one element.
// Sums:     f32, in the order of the indices.

const LISTED: bool = false;
const SCALED: bool = false;
const MEAN: bool = false;

struct Params {
    count: u32, width: u32, rows: u32, entries: u32, each: u32, starts: u32, padding: i32,
    weight_offset: u32, index_offset: u32, offsets_offset: u32, scales_offset: u32,
}
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read> weight: array<f32>;
@group(0) @binding(1) var<storage, read> index: array<i32>;
@group(0) @binding(2) var<storage, read> offsets: array<i32>;
@group(0) @binding(3) var<storage, read> scales: array<f32>;
@group(0) @binding(4) var<storage, read_write> out: array<f32>;

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
    var total = 0.0;
    var counted = 0u;
    for (var k = first; k < last; k++) {
        let row = clamp(index[p.index_offset + k], 0, i32(p.rows) - 1);
        if (row == p.padding) { continue; }
        var v = weight[p.weight_offset + u32(row) * p.width + column];
        if (SCALED) { v *= scales[p.scales_offset + k]; }
        total += v;
        counted++;
    }
    if (MEAN && counted > 1u) { total /= f32(counted); }
    out[i] = total;
}
