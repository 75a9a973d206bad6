// index_product: out[outer, j, inner] = x there, times every src[outer, k, inner] with index[outer, k, inner] == j.
//
// A thread goes through the entries of one column, and has the products of its places in workgroup memory.
//
// Bindings: 0 x, 1 src, 2 index (read), 3 out (read_write).
// Launch:   x = ceil(columns / COLUMNS) workgroups of COLUMNS; a column is an (outer, inner).
// Sums:     products in A, in the order of k.

alias V = f32;
alias A = f32;
const COLUMNS: u32 = 8u;
const PLACES: u32 = 4096u;              // of COLUMNS columns
const AHEAD: u32 = 32u;                 // entries that are on their way while as many are multiplied

struct Params {
    columns: u32, inner: u32, entries: u32, size: u32,
    x_offset: u32, src_offset: u32, index_offset: u32,
}
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read> x: array<V>;
@group(0) @binding(1) var<storage, read> src: array<V>;
@group(0) @binding(2) var<storage, read> index: array<i32>;
@group(0) @binding(3) var<storage, read_write> out: array<V>;

var<workgroup> products: array<A, PLACES>;

fn finish(v: A) -> V { return V(v); }

@compute @workgroup_size(COLUMNS)
fn main(grid: Grid, @builtin(local_invocation_index) local: u32) {
    let column = group_of(grid) * COLUMNS + local;
    if (column >= p.columns) {
        return;
    }
    let outer = column / p.inner;
    let inside = column - outer * p.inner;
    let first = outer * p.size * p.inner + inside;
    for (var j = 0u; j < p.size; j++) { products[j * COLUMNS + local] = A(x[p.x_offset + first + j * p.inner]); }
    let start = outer * p.entries * p.inner + inside;
    var places: array<u32, AHEAD>;
    var factors: array<A, AHEAD>;
    for (var k = 0u; k < p.entries + AHEAD; k += AHEAD) {
        var next_places: array<u32, AHEAD>;
        var next_factors: array<A, AHEAD>;
        for (var j = 0u; j < AHEAD; j++) {
            let at = start + min(k + j, p.entries - 1u) * p.inner;
            next_places[j] = u32(clamp(index[p.index_offset + at], 0, i32(p.size) - 1)) * COLUMNS + local;
            next_factors[j] = A(src[p.src_offset + at]);
        }
        for (var j = 0u; j < AHEAD; j++) {          // those of the round before
            if (k > 0u && k - AHEAD + j < p.entries) { products[places[j]] = products[places[j]] * factors[j]; }
        }
        places = next_places;
        factors = next_factors;
    }
    for (var j = 0u; j < p.size; j++) { out[first + j * p.inner] = finish(products[j * COLUMNS + local]); }
}
