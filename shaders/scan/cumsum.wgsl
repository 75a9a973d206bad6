// scan_cumsum: out[i] = x[0] + ... + x[i] along one dimension of x seen as [outer, length, inner].
//
// A workgroup has a line. It goes along it 256 elements at a time: a scan in workgroup memory, on top of the sum of the elements passed.
//
// Bindings: 0 x (read), 1 out (read_write).
// Launch:   x = outer * inner workgroups of 256.
// Sums:     in f32, in a fixed order.

struct Params {
    lines: u32, length: u32, inner: u32, x_offset: u32,
}
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(1) var<storage, read_write> out: array<f32>;

alias Sum = f32;

@compute @workgroup_size(256)
fn main(grid: Grid, @builtin(local_invocation_index) local: u32) {
    let line = group_of(grid);
    if (line >= p.lines) {
        return;
    }
    let start = line / p.inner * p.length * p.inner + line % p.inner;
    var passed = 0.0;
    for (var first = 0u; first < p.length; first += 256u) {
        let i = first + local;
        var total = 0.0;
        if (i < p.length) {
            total = x[p.x_offset + start + i * p.inner];
        }
        total = running_sum(local, total);
        if (i < p.length) {
            out[start + i * p.inner] = passed + total;
        }
        passed += running_sums[255];
        workgroupBarrier();
    }
}
