// index_replace: out = x, with src[outer, k, inner] at out[outer, j, inner] where index[outer, k, inner] == j; of several k the last one.
//
// LINES: inner is 1, and the last entries of a line are found in workgroup memory. Else index_last has found them.
//
// Bindings: 0 x, 1 src, 2 index, or the last entries (read), 3 out (read_write).
// Launch:   LINES: x = lines workgroups of 256; else ceil(count / 1024), of which a thread makes four elements, 256 apart.
// Sums:     none. Copies bits: V is of u32 for every type of 32 bits.

alias V = u32;
const LINES: bool = true;
const PLACES: u32 = 1024u;              // of a line, at most
const EACH: u32 = 4u;                   // elements that are on their way at once

struct Params {
    count: u32,                         // lines, or elements
    entries: u32, size: u32,
    x_offset: u32, src_offset: u32, index_offset: u32,
}
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read> x: array<V>;
@group(0) @binding(1) var<storage, read> src: array<V>;
@group(0) @binding(2) var<storage, read> index: array<i32>;
@group(0) @binding(3) var<storage, read_write> out: array<V>;

var<workgroup> last: array<atomic<u32>, select(1u, PLACES, LINES)>;

fn element(i: u32, entry: u32, line: u32) -> V {
    if (entry > 0u) { return src[p.src_offset + line * p.entries + entry - 1u]; }
    return x[p.x_offset + i];
}

@compute @workgroup_size(256)
fn main(grid: Grid, @builtin(local_invocation_index) local: u32) {
    let group = group_of(grid);
    if (!LINES) {
        var found: array<V, EACH>;
        for (var j = 0u; j < EACH; j++) {
            let i = (group * EACH + j) * 256u + local;
            if (i < p.count) { found[j] = element(i, u32(index[i]), 0u); }
        }
        for (var j = 0u; j < EACH; j++) {
            let i = (group * EACH + j) * 256u + local;
            if (i < p.count) { out[i] = found[j]; }
        }
        return;
    }
    if (group >= p.count) {
        return;
    }
    for (var j = local; j < p.size; j += 256u) { atomicStore(&last[j], 0u); }
    workgroupBarrier();
    for (var k = local; k < p.entries; k += 256u) {
        atomicMax(&last[clamp(index[p.index_offset + group * p.entries + k], 0, i32(p.size) - 1)], k + 1u);
    }
    workgroupBarrier();
    for (var j = local; j < p.size; j += 256u) {
        out[group * p.size + j] = element(group * p.size + j, atomicLoad(&last[j]), group);
    }
}
