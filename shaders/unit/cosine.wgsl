// cosine: of the angles between the rows of a and those of b, and the squares of their lengths with eps added; with GRAD the gradient of a.
//
// A row has LANES neighbouring threads, a power of two; with GRAD every V of all rows has one.
//
// Bindings: 0 a, 1 b, 2 g, 3 cosines, 4 squares_a, 5 squares_b (read; the last four absent without GRAD), 6 out, 7 aa, 8 bb (read_write;
//           the last two absent with GRAD, whose results are vectors).
// Launch:   x = ceil(rows / (256 / LANES)), or ceil(rows * count / 256) with GRAD.
// Sums:     float32: a serial run per thread and element of V, then of threads; fixed order, the same for all three.

alias V = vec4<f32>;
alias O = f32;
const LANES: u32 = 64u;
const GRAD: bool = false;
fn fold(v: V) -> f32 { return (v.x + v.y) + (v.z + v.w); }
fn number(v: f32) -> O { return v; }     // of a row; without meaning with GRAD
fn vector(v: V) -> O { return O(); }     // the other way round

struct Params {
    rows: u32,
    count: u32,                 // V's of a row
    a_offset: u32,
    b_offset: u32,
    g_offset: u32,
    cosine_offset: u32,
    square_a_offset: u32,
    square_b_offset: u32,
    eps: f32,
}
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read> a: array<V>;
@group(0) @binding(1) var<storage, read> b: array<V>;
@group(0) @binding(2) var<storage, read> g: array<f32>;
@group(0) @binding(3) var<storage, read> cosines: array<f32>;
@group(0) @binding(4) var<storage, read> squares_a: array<f32>;
@group(0) @binding(5) var<storage, read> squares_b: array<f32>;
@group(0) @binding(6) var<storage, read_write> out: array<O>;
@group(0) @binding(7) var<storage, read_write> aa: array<f32>;
@group(0) @binding(8) var<storage, read_write> bb: array<f32>;

var<workgroup> sums: array<vec3<f32>, 256>;

fn gradient(i: u32) -> V {
    let row = i / p.count;
    let slope = g[p.g_offset + row];
    let square = squares_a[p.square_a_offset + row];
    let along = div_f32(slope * cosines[p.cosine_offset + row], square);
    return b[p.b_offset + i] * div_f32(slope, sqrt(square * squares_b[p.square_b_offset + row])) - a[p.a_offset + i] * along;
}

@compute @workgroup_size(256)
fn main(grid: Grid, @builtin(local_invocation_index) thread: u32) {
    if (GRAD) {
        let i = group_of(grid) * 256u + thread;
        if (i < p.rows * p.count) { out[i] = vector(gradient(i)); }
        return;
    }
    let lane = thread % LANES;
    let row = group_of(grid) * (256u / LANES) + thread / LANES;
    let count = select(0u, p.count, row < p.rows);
    var aa_sum = V(0.0);
    var ab_sum = V(0.0);
    var bb_sum = V(0.0);
    for (var i = lane; i < count; i += LANES) {
        let x = a[p.a_offset + row * p.count + i];
        let y = b[p.b_offset + row * p.count + i];
        aa_sum += x * x;
        ab_sum += x * y;
        bb_sum += y * y;
    }
    var sum = vec3<f32>(fold(aa_sum), fold(ab_sum), fold(bb_sum));
    sums[thread] = sum;
    for (var half = LANES / 2u; half > 0u; half = half / 2u) {
        workgroupBarrier();
        if (lane < half) {
            sum += sums[thread + half];
            sums[thread] = sum;
        }
    }
    if (lane == 0u && row < p.rows) {
        aa[row] = sum.x + p.eps;
        bb[row] = sum.z + p.eps;
        out[row] = number(div_f32(sum.y, sqrt((sum.x + p.eps) * (sum.z + p.eps))));
    }
}
