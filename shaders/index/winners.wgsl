// index_winners: keys[k] = the place that entry k names, 0xffffffff where a later entry names it too.
//
// METHOD 0: each entry is compared with all later ones. 1: helper holds 1 + the last entry of each place. 2: index holds the places in
//   ascending order, helper the entries that they come from, those of one place in their order.
//
// Bindings: 0 index, 1 helper (read), 2 keys (read_write).
// Launch:   x = ceil(entries / 256) workgroups of 256.
// Sums:     none.

const METHOD: u32 = 0u;

struct Params {
    entries: u32, size: u32, index_offset: u32,
}
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read> index: array<i32>;
@group(0) @binding(1) var<storage, read> helper: array<u32>;
@group(0) @binding(2) var<storage, read_write> keys: array<u32>;

fn place(k: u32) -> u32 {
    return u32(clamp(index[p.index_offset + k], 0, i32(p.size) - 1));
}

@compute @workgroup_size(256)
fn main(grid: Grid, @builtin(local_invocation_index) local: u32) {
    let k = group_of(grid) * 256u + local;
    if (k >= p.entries) {
        return;
    }
    let own = place(k);
    var entry = k;
    var last = true;
    if (METHOD == 0u) {
        for (var other = k + 1u; other < p.entries; other++) {
            last = last && place(other) != own;
        }
    } else if (METHOD == 1u) {
        last = helper[own] == k + 1u;
    } else {
        entry = helper[k];
        last = k + 1u == p.entries || place(min(k + 1u, p.entries - 1u)) != own;
    }
    keys[entry] = select(0xffffffffu, own, last);
}
