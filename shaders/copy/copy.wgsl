// Transposing copy: out[batch, r, c] = a[batch, c, r], both reads and writes along their own fast dimension.
// Launch: 256 threads a workgroup, one tile of 32 x 32; x = batches * row_tiles * column_tiles.
// In `a` the rows are neighbours (stride 1 or -1), in `out` the columns. Up to four batch dimensions of any strides; negative ones wrap, as
// what they are added to does.
alias A = f32;                  // a in memory
alias X = f32;                  // a in arithmetic
alias O = f32;                  // out in memory
alias R = f32;                  // out in arithmetic
fn op(x0: X) -> R { return x0; }
fn stored(r: R) -> O { return O(r); }

struct Params {
    n: vec4<u32>,               // batch sizes, innermost first, 1 where unused
    a_batch: vec4<u32>,         // strides, in elements
    o_batch: vec4<u32>,
    rows: u32,
    columns: u32,
    a_row: u32,
    a_column: u32,              // distance of two columns in a
    o_row: u32,                 // distance of two rows in out
    a_offset: u32,
    o_offset: u32,
    row_tiles: u32,
    column_tiles: u32,
}
var<immediate> p: Params;

@group(0) @binding(0) var<storage, read> a: array<A>;
@group(0) @binding(1) var<storage, read_write> out: array<O>;

// Rows of 33, so that a column's elements lie in different banks.
var<workgroup> tile: array<O, 1056>;

@compute @workgroup_size(32, 8)
fn main(grid: Grid, @builtin(local_invocation_id) thread: vec3<u32>) {
    var rest = group_of(grid);
    let column = 32u * (rest % p.column_tiles);
    rest = rest / p.column_tiles;
    let row = 32u * (rest % p.row_tiles);
    rest = rest / p.row_tiles;
    var batch = vec4<u32>(0u);
    batch.x = rest % p.n.x;
    rest = rest / p.n.x;
    batch.y = rest % p.n.y;
    rest = rest / p.n.y;
    batch.z = rest % p.n.z;
    batch.w = rest / p.n.z;
    let outside = batch.w >= p.n.w;             // workgroups that folding the grid added
    let a_base = p.a_offset + dot(batch, p.a_batch) + (row + thread.x) * p.a_row;
    for (var i = thread.y; i < 32u; i += 8u) {
        if (!outside && row + thread.x < p.rows && column + i < p.columns) {
            tile[i * 33u + thread.x] = stored(op(X(a[a_base + (column + i) * p.a_column])));
        }
    }
    workgroupBarrier();
    let o_base = p.o_offset + dot(batch, p.o_batch) + column + thread.x;
    for (var i = thread.y; i < 32u; i += 8u) {
        if (!outside && row + i < p.rows && column + thread.x < p.columns) {
            out[o_base + (row + i) * p.o_row] = tile[thread.x * 33u + i];
        }
    }
}
