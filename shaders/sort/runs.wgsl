// sort_runs: of each sorted line of x[outer, length, inner] where its longest run of equal elements ends, the first one of several.
//
// Bindings: 0 x (read), 1 out (read_write), one for each line.
// Launch:   x = ceil(lines / (256 / LANES)) workgroups of 256; LANES threads, a power of two, take a line.
// Sums:     integers. A NaN equals none.

alias E = f32;
const LANES: u32 = 64u;
fn equal(x: E, y: E) -> bool { return x == y; }

struct Params {
    lines: u32, length: u32, inner: u32, x_offset: u32,
}
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read> x: array<E>;
@group(0) @binding(1) var<storage, read_write> out: array<i32>;

var<workgroup> sizes: array<u32, 256>;
var<workgroup> starts: array<u32, 256>;

@compute @workgroup_size(256)
fn main(grid: Grid, @builtin(local_invocation_index) local: u32) {
    let lane = local % LANES;
    let line = group_of(grid) * (256u / LANES) + local / LANES;
    let length = select(0u, p.length, line < p.lines);
    let start = p.x_offset + line / p.inner * p.length * p.inner + line % p.inner;
    var most = 0u;
    var found = 0u;
    for (var i = lane; i + most < length; i += LANES) {
        let v = x[start + i * p.inner];
        if ((i > 0u && equal(x[start + (max(i, 1u) - 1u) * p.inner], v)) ||
            (most > 0u && !equal(x[start + (i + most) * p.inner], v))) { continue; }
        var low = i + max(most, 1u);                    // the first that may be another one
        var high = length;
        while (low < high) {
            let middle = low + (high - low) / 2u;
            if (equal(x[start + middle * p.inner], v)) { low = middle + 1u; } else { high = middle; }
        }
        if (low - i > most) {
            most = low - i;
            found = i;
        }
    }
    sizes[local] = most;
    starts[local] = found;
    for (var half = LANES / 2u; half > 0u; half /= 2u) {
        workgroupBarrier();
        if (lane < half && (sizes[local + half] > sizes[local] ||
            (sizes[local + half] == sizes[local] && starts[local + half] < starts[local]))) {
            sizes[local] = sizes[local + half];
            starts[local] = starts[local + half];
        }
    }
    if (lane == 0u && line < p.lines) { out[line] = i32(starts[local] + sizes[local]) - 1; }
}
