// cat: lines of up to four tensors one after another in the lines of out, from `first` on.
//
// Bindings: 0 a, 1 b, 2 c, 3 d (read; absent where there are fewer), 4 out (read_write).
// Launch:   x = ceil(count / (256 * EACH)) workgroups of 256; all counts are in E's.
// Sums:     none. Copies bits: E is of u32 for every type of 32 bits.

alias E = vec4<u32>;
const LINES: bool = true;               // more than one
const EACH: u32 = 1u;                   // E's of a thread, 256 apart: all are on their way before the first is written

struct Params {
    ends: vec4<u32>,                    // of the tensors' lines, put together; those of the last one for what is not there
    offsets: vec4<u32>,
    strides: vec4<u32>,                 // of the tensors' lines
    count: u32, line: u32,              // elements, and of a line all together
    out_line: u32, first: u32,
}
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read> a: array<E>;
@group(0) @binding(1) var<storage, read> b: array<E>;
@group(0) @binding(2) var<storage, read> c: array<E>;
@group(0) @binding(3) var<storage, read> d: array<E>;
@group(0) @binding(4) var<storage, read_write> out: array<E>;

fn element(line: u32, at: u32) -> E {
    if (at < p.ends.x) { return a[p.offsets.x + line * p.strides.x + at]; }
    if (at < p.ends.y) { return b[p.offsets.y + line * p.strides.y + at - p.ends.x]; }
    if (at < p.ends.z) { return c[p.offsets.z + line * p.strides.z + at - p.ends.y]; }
    return d[p.offsets.w + line * p.strides.w + at - p.ends.z];
}

fn line_of(i: u32) -> u32 {
    if (LINES) { return i / p.line; }
    return 0u;
}

@compute @workgroup_size(256)
fn main(grid: Grid, @builtin(local_invocation_index) local: u32) {
    let start = group_of(grid) * 256u * EACH + local;
    if (start >= p.count) {
        return;
    }
    var found: array<E, EACH>;
    for (var k = 0u; k < EACH; k++) {
        let i = min(start + k * 256u, p.count - 1u);
        found[k] = element(line_of(i), i - line_of(i) * p.line);
    }
    for (var k = 0u; k < EACH; k++) {
        let i = start + k * 256u;
        if (i < p.count) { out[line_of(i) * (p.out_line - p.line) + p.first + i] = found[k]; }
    }
}
