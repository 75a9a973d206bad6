// index_chain: index_add along the chains that index_link made: a row adds only the entries that name it, in their order.
//
// Bindings: 0 g (read), 1 index, 2 links, 3 heads (read), 4 out (read_write).
// Launch:   x = ceil(count / 256) workgroups of 256; a thread makes one V; count, inner and g_offset are in V's.
// Sums:     in A, in the order of k.

alias V = f32;
alias A = f32;

struct Params {
    count: u32, inner: u32, entries: u32, size: u32,
    g_offset: u32, index_offset: u32,
}
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read> g: array<V>;
@group(0) @binding(1) var<storage, read> index: array<i32>;
@group(0) @binding(2) var<storage, read> links: array<u32>;
@group(0) @binding(3) var<storage, read> heads: array<u32>;
@group(0) @binding(4) var<storage, read_write> out: array<V>;

fn finish(v: A) -> V { return V(v); }

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) wid: vec3<u32>, @builtin(num_workgroups) ngroups: vec3<u32>,
        @builtin(local_invocation_index) local: u32) {
    let i = group_index(wid, ngroups) * 256u + local;
    if (i >= p.count) {
        return;
    }
    let line = i / p.inner;
    let outer = line / p.size;
    let row = line - outer * p.size;
    let start = p.g_offset + outer * p.entries * p.inner + i - line * p.inner;
    var total = A();
    var k = heads[row];
    // A head is this row's only if it is marked as one and its entry names the row.
    var valid = k < p.entries;
    if (valid) {
        let entry = clamp(index[p.index_offset + k], 0, i32(p.size) - 1);
        valid = u32(entry) == row && (links[k] & 0x80000000u) != 0u;
    }
    if (valid) {
        loop {
            total += A(g[start + k * p.inner]);
            k = links[k] & 0x7fffffffu;
            if (k >= p.entries) {
                break;
            }
        }
    }
    out[i] = finish(total);
}
