// sort_rank: what sort_nth gives, of short lines: each element counts those of its line that come before it.
//
// Bindings: 0 x (read), 1 values, 2 indices (read_write), one for each line.
// Launch:   x = ceil(count / 256) workgroups of 256; a thread has one element.
// Sums:     integers.

alias E = f32;
const MEDIAN: bool = false;
const SKIP: bool = false;
fn key(x: E) -> u32 { return bitcast<u32>(x); }
fn missing(x: E) -> bool { return is_nan(f32(x)); }

struct Params {
    count: u32, length: u32, inner: u32, place: u32, x_offset: u32,
}
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read> x: array<E>;
@group(0) @binding(1) var<storage, read_write> values: array<E>;
@group(0) @binding(2) var<storage, read_write> indices: array<i32>;

@compute @workgroup_size(256)
fn main(grid: Grid, @builtin(local_invocation_index) local: u32) {
    let i = group_of(grid) * 256u + local;
    if (i >= p.count) {
        return;
    }
    let outer = i / (p.length * p.inner);
    let own = i / p.inner % p.length;
    let line = outer * p.inner + i % p.inner;
    let start = p.x_offset + outer * p.length * p.inner + i % p.inner;
    let mine = key(x[start + own * p.inner]);
    var before = 0u;
    var numbers = 0u;
    for (var k = 0u; k < p.length; k++) {
        let other = x[start + k * p.inner];
        let order = key(other);
        before += select(0u, 1u, order < mine || (order == mine && k < own));
        numbers += select(1u, 0u, MEDIAN && missing(other));
    }
    var place = p.place;
    if (MEDIAN) { place = select(numbers, (max(numbers, 1u) - 1u) / 2u, SKIP || numbers == p.length); }
    if (before == place) {
        values[line] = x[start + own * p.inner];
        indices[line] = i32(own);
    }
}
