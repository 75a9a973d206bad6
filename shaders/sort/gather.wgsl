// sort_gather: the elements of x[outer, length, inner] at the places that sorting its lines gave, the first `kept` of each.
//
// Bindings: 0 x, 1 places[line, length] (read), 2 values, 3 indices (read_write), both [outer, kept, inner].
// Launch:   x = ceil(count / 256) workgroups of 256.
// Sums:     none.

alias E = f32;

struct Params {
    count: u32, length: u32, inner: u32, kept: u32,
    x_offset: u32,
}
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read> x: array<E>;
@group(0) @binding(1) var<storage, read> places: array<u32>;
@group(0) @binding(2) var<storage, read_write> values: array<E>;
@group(0) @binding(3) var<storage, read_write> indices: array<i32>;

@compute @workgroup_size(256)
fn main(grid: Grid, @builtin(local_invocation_index) local: u32) {
    let k = group_of(grid) * 256u + local;
    if (k >= p.count) {
        return;
    }
    let outer = k / (p.kept * p.inner);
    let column = k % p.inner;
    let place = places[(outer * p.inner + column) * p.length + k / p.inner % p.kept];
    values[k] = x[p.x_offset + (outer * p.length + place) * p.inner + column];
    indices[k] = i32(place);
}
