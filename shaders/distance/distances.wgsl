// distances: the norms of what rows of x1 and x2 differ by.
//
// A workgroup has SIDE * EACH rows of x1 and as many of x2, of which a thread has EACH by EACH pairs; STEP elements of the rows lie in
// workgroup memory at a time.
// PAIRS: of the pairs i < j of x1's rows alone, one behind another; the workgroups below the diagonal have nothing to do.
//
// Bindings: 0 x1[batch, n, m], 1 x2[batch, r, m] (read), 2 out (read_write).
// Launch:   x = batch * ceil(n / (SIDE * EACH)) * ceil(r / (SIDE * EACH)) workgroups of 256.
// Sums:     float32, in steps, whose sums are added up.

const EACH: u32 = 1u;
const PAIRS: bool = false;
fn join(a: f32, b: f32) -> f32 { return a + b; }
fn enter(d: f32) -> f32 { return d * d; }
fn leave(v: f32) -> f32 { return sqrt(v); }

struct Params {
    batch: u32, n: u32, r: u32, m: u32,
    x1_offset: u32, x2_offset: u32,
    power: f32, root: f32,
}
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read> x1: array<f32>;
@group(0) @binding(1) var<storage, read> x2: array<f32>;
@group(0) @binding(2) var<storage, read_write> out: array<f32>;

const SIDE: u32 = 16u;
const STEP: u32 = 16u;
const ROWS: u32 = SIDE * EACH;
const LINE: u32 = STEP + 1u;                        // so that threads beside each other read different banks
var<workgroup> rows_1: array<f32, ROWS * LINE>;
var<workgroup> rows_2: array<f32, ROWS * LINE>;

@compute @workgroup_size(256)
fn main(grid: Grid, @builtin(local_invocation_index) local: u32) {
    let across = (p.r + ROWS - 1u) / ROWS;
    let down = (p.n + ROWS - 1u) / ROWS;
    let group = group_of(grid);
    let batch = group / (across * down);
    let first_i = group / across % down * ROWS;
    let first_j = group % across * ROWS;
    if (batch >= p.batch || (PAIRS && first_j + ROWS <= first_i)) {
        return;
    }
    let row = local / SIDE;
    let column = local % SIDE;
    var total: array<f32, EACH * EACH>;
    for (var k = 0u; k < EACH * EACH; k++) { total[k] = 0.0; }
    for (var start = 0u; start < p.m; start += STEP) {
        for (var k = local; k < ROWS * STEP; k += 256u) {
            let i = min(first_i + k / STEP, p.n - 1u);
            let j = min(first_j + k / STEP, p.r - 1u);
            let at = min(start + k % STEP, p.m - 1u);
            rows_1[k / STEP * LINE + k % STEP] = x1[p.x1_offset + (batch * p.n + i) * p.m + at];
            rows_2[k / STEP * LINE + k % STEP] = x2[p.x2_offset + (batch * p.r + j) * p.m + at];
        }
        workgroupBarrier();
        let count = min(STEP, p.m - start);
        var some: array<f32, EACH * EACH>;
        for (var k = 0u; k < EACH * EACH; k++) { some[k] = 0.0; }
        for (var e = 0u; e < count; e++) {
            for (var a = 0u; a < EACH; a++) {
                let one = rows_1[(row + a * SIDE) * LINE + e];
                for (var b = 0u; b < EACH; b++) {
                    some[a * EACH + b] = join(some[a * EACH + b], enter(one - rows_2[(column + b * SIDE) * LINE + e]));
                }
            }
        }
        for (var k = 0u; k < EACH * EACH; k++) { total[k] = join(total[k], some[k]); }
        workgroupBarrier();
    }
    for (var a = 0u; a < EACH; a++) {
        let i = first_i + row + a * SIDE;
        for (var b = 0u; b < EACH; b++) {
            let j = first_j + column + b * SIDE;
            if (i < p.n && j < p.r && (!PAIRS || i < j)) {
                let distance = leave(total[a * EACH + b]);
                if (PAIRS) {
                    out[batch * (p.n * (p.n - 1u) / 2u) + pair_number(i, j, p.n)] = distance;
                } else {
                    out[(batch * p.n + i) * p.r + j] = distance;
                }
            }
        }
    }
}
