// row_norm_runs: (sum of g, sum of g * (x - mean) * rstd) of each run of elements that share a weight.
//
// Bindings: 0 g, 1 x, 2 mean, 3 rstd (read), 4 parts[run] (read_write).
// Launch:   x = ceil(runs / (256 / LANES)) workgroups of 256; LANES neighbouring threads, a power of two, take a run.
// Sums:     in f32: a serial run per thread and element of V, then of threads; fixed order.

alias V = vec4<f32>;
alias S = vec2<f32>;
const WIDTH: u32 = 4u;
const LANES: u32 = 64u;

struct Params {
    runs: u32, count: u32,      // V's of a run
    channels: u32,              // runs of a row
    g_offset: u32, x_offset: u32, mean_offset: u32, rstd_offset: u32,
}
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read> g: array<V>;
@group(0) @binding(1) var<storage, read> x: array<V>;
@group(0) @binding(2) var<storage, read> mean: array<f32>;
@group(0) @binding(3) var<storage, read> rstd: array<f32>;
@group(0) @binding(4) var<storage, read_write> parts: array<vec2<f32>>;

@compute @workgroup_size(256)
fn main(grid: Grid, @builtin(local_invocation_index) thread: u32) {
    let lane = thread % LANES;
    let run = group_of(grid) * (256u / LANES) + thread / LANES;
    let row = min(run, p.runs - 1u) / p.channels;
    let center = mean[p.mean_offset + row];
    let count = select(0u, p.count, run < p.runs);
    var sum = V(0.0);
    var product = V(0.0);
    for (var i = lane; i < count; i += LANES) {
        let slope = g[p.g_offset + run * p.count + i];
        sum += slope;
        product += slope * (x[p.x_offset + run * p.count + i] - center);
    }
    // A scalar V fills all four places, of which the first is used.
    let a = vec4<f32>(sum);
    let b = vec4<f32>(product);
    var mine = vec2<f32>(a.x, b.x);
    if (WIDTH == 4u) { mine = vec2<f32>((a.x + a.y) + (a.z + a.w), (b.x + b.y) + (b.z + b.w)); }
    mine = row_total(thread, mine);
    if (lane == 0u && count > 0u) { parts[run] = vec2<f32>(mine.x, mine.y * rstd[p.rstd_offset + row]); }
}
