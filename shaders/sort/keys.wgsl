// sort_keys: the elements of x[outer, length, inner] as unsigned integers in their order, line by line.
//
// Bindings: 0 x (read), 1 keys (read_write).
// Launch:   x = ceil(count / 256) workgroups of 256.
// Sums:     none.

alias E = f32;
fn key(x: E) -> u32 { return bitcast<u32>(x); }

struct Params {
    count: u32, length: u32, inner: u32, x_offset: u32,
}
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read> x: array<E>;
@group(0) @binding(1) var<storage, read_write> keys: array<u32>;

@compute @workgroup_size(256)
fn main(grid: Grid, @builtin(local_invocation_index) local: u32) {
    let k = group_of(grid) * 256u + local;
    if (k >= p.count) {
        return;
    }
    let line = k / p.length;
    keys[k] = key(x[p.x_offset + (line / p.inner * p.length + k % p.length) * p.inner + line % p.inner]);
}
