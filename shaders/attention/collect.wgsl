// attention_collect: dq as the sum of its copies, and dv and dk of their parts, which workgroups of attention.wgsl made of different keys
// or queries.
//
// Bindings: 0 copies[COPIES, B, L, H, 4 W], 1 parts[PARTS, ...] (read), 2 dq[B, L, H, 4 W], 3 both: dv and behind it dk (read_write).
// Launch:   x = ceil((count + rest) / 256) workgroups of 256; a thread makes a V. What is one alone has count or rest 0.
// Sums:     in f32, in the order of the copies or parts.

alias F = vec4<f32>;            // of results in memory
const COPIES: u32 = 2u;
const PARTS: u32 = 1u;
const CAUSAL: bool = false;     // copy i begins with key i * TILE_R, and with the tile of queries that it meets first
const TILE_R: u32 = 64u;
const TILE_C: u32 = 64u;

struct Params { count: u32, rest: u32, line: u32, queries: u32, }
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read> copies: array<vec4<f32>>;
@group(0) @binding(1) var<storage, read> parts: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read_write> dq: array<F>;
@group(0) @binding(3) var<storage, read_write> both: array<F>;

@compute @workgroup_size(256)
fn main(grid: Grid, @builtin(local_invocation_index) local: u32) {
    let i = group_of(grid) * 256u + local;
    if (i < p.count) {
        let row = i / p.line % p.queries;
        var sum = copies[i];
        for (var copy = 1u; copy < COPIES; copy += 1u) {
            if (!CAUSAL || copy * TILE_R / TILE_C * TILE_C <= row) { sum += copies[copy * p.count + i]; }
        }
        dq[i] = F(sum);
    } else if (i < p.count + p.rest) {
        let at = i - p.count;
        var sum = parts[at];
        for (var part = 1u; part < PARTS; part += 1u) { sum += parts[part * p.rest + at]; }
        both[at] = F(sum);
    }
}
