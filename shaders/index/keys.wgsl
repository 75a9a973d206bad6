// index_keys: keys[k] = the place that entry k names; where METHOD is not ANY, 0xffffffff if a later entry names it too.
//
// METHOD ANY: for sorting. FULL: index has the shape [outer, entries, inner], and a place is one element of out[outer, size, inner].
// TABLE: helper holds 1 + the last entry of each place. SORTED: index holds the
//   places in ascending order, helper the entries that they come from, those of one place in their order.
//
// Bindings: 0 index, 1 helper (read), 2 keys (read_write).
// Launch:   x = ceil(count / 256) workgroups of 256.
// Sums:     none.

const ANY: u32 = 0u;
const TABLE: u32 = 1u;
const SORTED: u32 = 2u;
const METHOD: u32 = ANY;
const FULL: bool = false;

struct Params {
    count: u32, inner: u32, entries: u32, size: u32,
    index_offset: u32,
}
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read> index: array<i32>;
@group(0) @binding(1) var<storage, read> helper: array<u32>;
@group(0) @binding(2) var<storage, read_write> keys: array<u32>;

fn place(k: u32) -> u32 {
    let row = u32(clamp(index[p.index_offset + k], 0, i32(p.size) - 1));
    if (!FULL) {
        return row;
    }
    return place_of(k, row, p.inner, p.entries, p.size);
}

@compute @workgroup_size(256)
fn main(grid: Grid, @builtin(local_invocation_index) local: u32) {
    let k = group_of(grid) * 256u + local;
    if (k >= p.count) {
        return;
    }
    let own = place(k);
    var entry = k;
    var last = true;
    if (METHOD == TABLE) {
        last = helper[own] == k + 1u;
    } else if (METHOD == SORTED) {
        entry = helper[k];
        last = k + 1u == p.count || place(min(k + 1u, p.count - 1u)) != own;
    }
    keys[entry] = select(0xffffffffu, own, last);
}
