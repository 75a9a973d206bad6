// index_link: chains the entries of index[K] that name the same row, in their order, for index_chain.
//
// links[k] = the next entry of k's row (0x7fffffff: none), with the top bit set where k is its row's first entry;
// heads[row] = that first entry. Rows that no entry names keep what the buffer held: index_chain checks a head by its entry.
// Every entry looks at all others: K^2 comparisons, which for K up to 100,000 cost less than sorting would in dispatches.
//
// Bindings: 0 index (read), 1 links (read_write), 2 heads (read_write).
// Launch:   x = ceil(K / 256) workgroups of 256.
// Sums:     none.

struct Params {
    entries: u32, size: u32, index_offset: u32,
}
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read> index: array<i32>;
@group(0) @binding(1) var<storage, read_write> links: array<u32>;
@group(0) @binding(2) var<storage, read_write> heads: array<u32>;

var<workgroup> tile: array<i32, 256>;

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) wid: vec3<u32>, @builtin(num_workgroups) ngroups: vec3<u32>,
        @builtin(local_invocation_index) local: u32) {
    let k = group_index(wid, ngroups) * 256u + local;
    let last = i32(p.size) - 1;
    let mine = clamp(index[p.index_offset + min(k, p.entries - 1u)], 0, last);
    var next = 0x7fffffffu;
    var first = true;
    for (var base = 0u; base < p.entries; base += 256u) {
        workgroupBarrier();
        tile[local] = -1;
        if (base + local < p.entries) {
            tile[local] = clamp(index[p.index_offset + base + local], 0, last);
        }
        workgroupBarrier();
        for (var j = 0u; j < 256u; j++) {
            let other = base + j;
            if (tile[j] == mine) {
                first = first && other >= k;
                next = select(next, min(next, other), other > k);
            }
        }
    }
    if (k < p.entries) {
        links[k] = select(next, next | 0x80000000u, first);
        if (first) {
            heads[u32(mine)] = k;
        }
    }
}
