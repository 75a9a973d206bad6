// row_norm_sums: dbias and dweight, the first and second of parts[part, column], added over the parts.
//
// Bindings: 0 parts (read), 1 dweight, 2 dbias (read_write).
// Launch:   x = ceil(columns / 8) workgroups of 256: 8 columns, 32 threads for each.
// Sums:     in f32: a serial run per thread, then a tree; fixed order.

struct Params { columns: u32, parts: u32 }
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read> parts: array<vec2<f32>>;
@group(0) @binding(1) var<storage, read_write> dweight: array<f32>;
@group(0) @binding(2) var<storage, read_write> dbias: array<f32>;

var<workgroup> sums: array<vec2<f32>, 256>;

@compute @workgroup_size(256)
fn main(grid: Grid, @builtin(local_invocation_index) thread: u32) {
    let column = group_of(grid) * 8u + thread % 8u;
    var sum = vec2<f32>(0.0);
    if (column < p.columns) {
        for (var part = thread / 8u; part < p.parts; part += 32u) {
            sum += parts[part * p.columns + column];
        }
    }
    sums[thread] = sum;
    for (var half = 128u; half >= 8u; half = half / 2u) {
        workgroupBarrier();
        if (thread < half) { sums[thread] += sums[thread + half]; }
    }
    workgroupBarrier();
    if (thread < 8u && column < p.columns) {
        dbias[column] = sums[thread].x;
        dweight[column] = sums[thread].y;
    }
}
