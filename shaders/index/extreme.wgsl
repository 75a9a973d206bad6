// index_extreme: out[outer, j, inner] = the largest, or least, of x there and every src[outer, k, inner] with index[outer, k, inner] == j,
// in any order, since extremes of integers have one result; floats are compared as integers of their order, of which NaN is the last.
//
// A workgroup has COLUMNS neighbouring columns of one outer, whose places are in its memory; index_best is for more places.
//
// Bindings: 0 x, 1 src, 2 index (read), 3 out (read_write).
// Launch:   x = groups = outers * ceil(inner / COLUMNS) workgroups of THREADS.
// Sums:     none.

alias V = f32;
const LARGEST: bool = true;
const COLUMNS: u32 = 8u;                // a power of two
const THREADS: u32 = 256u;
const PLACES: u32 = 4096u;              // of COLUMNS columns

struct Params {
    groups: u32, inner: u32, entries: u32, size: u32, strips: u32,
    x_offset: u32, src_offset: u32, index_offset: u32,
}
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read> x: array<V>;
@group(0) @binding(1) var<storage, read> src: array<V>;
@group(0) @binding(2) var<storage, read> index: array<i32>;
@group(0) @binding(3) var<storage, read_write> out: array<V>;

var<workgroup> here: array<atomic<i32>, PLACES>;

fn key(v: V) -> i32 { return order_max(f32(v)); }
fn value(order: i32) -> V { return V(from_order(order)); }

@compute @workgroup_size(THREADS)
fn main(grid: Grid, @builtin(local_invocation_index) local: u32) {
    let group = group_of(grid);
    if (group >= p.groups) {
        return;
    }
    let outer = group / p.strips;
    let column = local % COLUMNS;
    let inside = group % p.strips * COLUMNS + column;
    let first = outer * p.size * p.inner + inside;
    for (var j = local / COLUMNS; j < p.size && inside < p.inner; j += THREADS / COLUMNS) {
        atomicStore(&here[j * COLUMNS + column], key(x[p.x_offset + first + j * p.inner]));
    }
    workgroupBarrier();
    let entry = outer * p.entries * p.inner + inside;
    for (var k = local / COLUMNS; k < p.entries && inside < p.inner; k += THREADS / COLUMNS) {
        let order = key(src[p.src_offset + entry + k * p.inner]);
        let to = u32(clamp(index[p.index_offset + entry + k * p.inner], 0, i32(p.size) - 1)) * COLUMNS + column;
        if (LARGEST) { atomicMax(&here[to], order); } else { atomicMin(&here[to], order); }
    }
    workgroupBarrier();
    for (var j = local / COLUMNS; j < p.size && inside < p.inner; j += THREADS / COLUMNS) {
        out[first + j * p.inner] = value(atomicLoad(&here[j * COLUMNS + column]));
    }
}
