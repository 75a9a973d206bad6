// index_best: what index_extreme gives, of any number of places: `start` fills the results so far with x, `compare` goes through the
// entries, and `finish` makes elements of results that are orders of floats.
//
// Bindings: 0 x, 1 src, 2 index (read), 3 best, which of integers is the result, 4 out, absent but in `finish` (read_write).
// Launch:   x = ceil(count / 256) workgroups of 256, count being the places, or in `compare` the entries.
// Sums:     none.

alias V = f32;
const LARGEST: bool = true;

struct Params {
    count: u32, inner: u32, entries: u32, size: u32,
    x_offset: u32, src_offset: u32, index_offset: u32,
}
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read> x: array<V>;
@group(0) @binding(1) var<storage, read> src: array<V>;
@group(0) @binding(2) var<storage, read> index: array<i32>;
@group(0) @binding(3) var<storage, read_write> best: array<atomic<i32>>;
@group(0) @binding(4) var<storage, read_write> out: array<V>;

fn key(v: V) -> i32 { return order_max(f32(v)); }
fn value(order: i32) -> V { return V(from_order(order)); }

@compute @workgroup_size(256)
fn start(grid: Grid, @builtin(local_invocation_index) local: u32) {
    let i = group_of(grid) * 256u + local;
    if (i < p.count) { atomicStore(&best[i], key(x[p.x_offset + i])); }
}

@compute @workgroup_size(256)
fn compare(grid: Grid, @builtin(local_invocation_index) local: u32) {
    let k = group_of(grid) * 256u + local;
    if (k >= p.count) {
        return;
    }
    let order = key(src[p.src_offset + k]);
    let to = place_of(k, u32(clamp(index[p.index_offset + k], 0, i32(p.size) - 1)), p.inner, p.entries, p.size);
    if (LARGEST) { atomicMax(&best[to], order); } else { atomicMin(&best[to], order); }
}

@compute @workgroup_size(256)
fn finish(grid: Grid, @builtin(local_invocation_index) local: u32) {
    let i = group_of(grid) * 256u + local;
    if (i < p.count) { out[i] = value(atomicLoad(&best[i])); }
}
