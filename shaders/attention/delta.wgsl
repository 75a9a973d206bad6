// attention_delta: what backward needs of each row: its stats, and the sum of g * out.
//
// Bindings: 0 g[B, H, L, 4 W], 1 out[B, H, L, 4 W] (any strides, in V's), 2 stats[B, H, L, 2] (read), 3 of_rows[B, H, L] (read_write).
// Launch:   x = ceil(B * L * H * LANES / 256) workgroups of 256; LANES threads make a row.
// Sums:     in f32, a thread's in four lanes, then those of the threads in order.

alias V = vec4<f32>;
alias E = vec4<f32>;            // of g and out in memory,
alias C = f32;                  // of stats
const W: u32 = 16u;
const LANES: u32 = 16u;

struct Params {
    g_offset: u32, g_batch: u32, g_row: u32, g_head: u32,
    out_offset: u32, out_batch: u32, out_row: u32, out_head: u32,
    stats_offset: u32, heads: u32, queries: u32, count: u32,
}
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read> g: array<E>;
@group(0) @binding(1) var<storage, read> out: array<E>;
@group(0) @binding(2) var<storage, read> stats: array<C>;
@group(0) @binding(3) var<storage, read_write> of_rows: array<V>;

var<workgroup> parts: array<f32, 256>;

@compute @workgroup_size(256)
fn main(grid: Grid, @builtin(local_invocation_index) local: u32) {
    let i = group_of(grid) * (256u / LANES) + local / LANES;
    let head = i % p.heads;
    let row = i / p.heads % p.queries;
    let batch = i / p.heads / p.queries;
    let base = p.g_offset + batch * p.g_batch + row * p.g_row + head * p.g_head;
    let out_base = p.out_offset + batch * p.out_batch + row * p.out_row + head * p.out_head;
    var sum = V();
    for (var e = local % LANES; e < W && i < p.count; e += LANES) { sum = fma(V(g[base + e]), V(out[out_base + e]), sum); }
    parts[local] = (sum.x + sum.y) + (sum.z + sum.w);
    workgroupBarrier();
    if (local % LANES != 0u || i >= p.count) { return; }
    var total = 0.0;
    for (var t = 0u; t < LANES; t += 1u) { total += parts[local + t]; }
    let at = (batch * p.heads + head) * p.queries + row;
    let first = p.stats_offset + 2u * at;
    of_rows[at] = V(f32(stats[first]), f32(stats[first + 1u]), total, 0.0);
}
