// index_gather: out[outer, k, inner] = x[outer, index[outer, k, inner], inner], four neighbours of index and out at a time.
//
// Bindings: 0 x, 1 index (read), 2 out (read_write).
// Launch:   x = ceil(count / (256 * EACH)) workgroups of 256; count is in fours.
// Sums:     none. Copies bits: E is u32 for every type of 32 bits.

alias E = u32;
alias V = vec4<u32>;
const STEP: u32 = 1u;                                   // between the columns of the four; 0 where there is one column
const ALONE: bool = false;                              // there is one outer
const LEFT: u32 = 0u;                                   // of the last four those that are there, where not all; then there is one line
const EACH: u32 = 2u;                                   // fours of a thread, 256 apart: all are on their way before the first is written

struct Params {
    count: u32, columns: u32, entries: u32,             // of a line its fours; lines of an outer
    inner: u32, size: u32, x_offset: u32, index_offset: u32,
}
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read> x: array<E>;
@group(0) @binding(1) var<storage, read> index: array<vec4<i32>>;
@group(0) @binding(2) var<storage, read_write> out: array<V>;

@compute @workgroup_size(256)
fn main(grid: Grid, @builtin(local_invocation_index) local: u32) {
    let begin = group_of(grid) * 256u * EACH + local;
    var rows: array<vec4<i32>, EACH>;
    for (var j = 0u; j < EACH; j++) { rows[j] = index[p.index_offset + min(begin + j * 256u, p.count - 1u)]; }
    var found: array<V, EACH>;
    for (var j = 0u; j < EACH; j++) {
        let at = min(begin + j * 256u, p.count - 1u);
        let line = at / p.columns;
        var first = p.x_offset + (at - line * p.columns) * 4u * STEP;
        if (!ALONE) { first += line / p.entries * p.size * p.inner; }
        let places = vec4<u32>(clamp(rows[j], vec4<i32>(0), vec4<i32>(i32(p.size) - 1))) * p.inner + first +
            vec4<u32>(0u, 1u, 2u, 3u) * STEP;
        found[j] = V(x[places.x], x[places.y], x[places.z], x[places.w]);
    }
    for (var j = 0u; j < EACH; j++) {
        let at = begin + j * 256u;
        if (LEFT > 0u && at == p.count - 1u) {
            out[at].x = found[j].x;
            if (LEFT > 1u) { out[at].y = found[j].y; }
            if (LEFT > 2u) { out[at].z = found[j].z; }
        } else if (at < p.count) { out[at] = found[j]; }
    }
}
