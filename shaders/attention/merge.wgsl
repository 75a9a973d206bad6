// attention_merge: the result of some keys each, which workgroups of attention.wgsl made, as that of all of them.
//
// Bindings: 0 parts[PARTS, B, L, H, 4 W], 1 stats_of_parts[PARTS, B, H, L] (read), 2 out[B, L, H, 4 W], 3 stats[B, H, L] (read_write).
// Launch:   x = ceil(B * L * H * W / 256) workgroups of 256; a thread makes a V.
// Sums:     in f32, in the order of the parts. The stats of no key are (+inf, 0), and its part counts nothing.

alias F = vec4<f32>;            // of out in memory
const PARTS: u32 = 2u;

struct Params { count: u32, width: u32, heads: u32, queries: u32, rows: u32, }
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read> parts: array<vec4<f32>>;
@group(0) @binding(1) var<storage, read> stats_of_parts: array<vec2<f32>>;
@group(0) @binding(2) var<storage, read_write> out: array<F>;
@group(0) @binding(3) var<storage, read_write> stats: array<vec2<f32>>;

@compute @workgroup_size(256)
fn main(grid: Grid, @builtin(local_invocation_index) local: u32) {
    let i = group_of(grid) * 256u + local;
    if (i >= p.count) { return; }
    let line = i / p.width;
    let head = line % p.heads;
    let query = line / p.heads % p.queries;
    let row = (line / p.heads / p.queries * p.heads + head) * p.queries + query;
    var best = -3.0e38;
    for (var n = 0u; n < PARTS; n += 1u) {
        let one = stats_of_parts[n * p.rows + row];
        if (!(one.y == 0.0)) { best = max(best, one.x); }
    }
    var total = 0.0;
    var sum = vec4<f32>();
    for (var n = 0u; n < PARTS; n += 1u) {
        let one = stats_of_parts[n * p.rows + row];
        if (!(one.y == 0.0)) {
            let factor = exp2(one.x - best) / one.y;
            total += factor;
            sum += factor * parts[n * p.count + i];
        }
    }
    let none = total == 0.0;
    let part = select(1.0 / total, 0.0, none);
    out[i] = F(sum * part);
    if (i % p.width == 0u) { stats[row] = vec2<f32>(select(best, inf(), none), part); }
}
