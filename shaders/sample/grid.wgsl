// sample_grid: out[n, place, d] = derivative by the grid: of each element that the place takes the sum over c of g[n, c, place] * x[n, c],
// times the derivative of its weight.
//
// Bindings: 0 g, 1 x, 2 grid[n, place, RANK], 3 direction, looked at where DIRECTED (read), 4 out (read_write); all contiguous.
// Launch:   x = ceil(count / 32) workgroups of 256: 32 places by 8 runs of channels.
// Sums:     in f32: each eighth channel, then these; fixed order.

const MODE: u32 = 1u;
const PADDING: u32 = 0u;
const ALIGNED: bool = false;
const RANK: u32 = 2u;
const DIRECTED: bool = false;
const COUNT: u32 = 1u << (MODE * RANK);

struct Params {
    width: u32, height: u32, depth: u32, channels: u32,
    places: u32, count: u32, g_offset: u32, x_offset: u32,
    grid_offset: u32, direction_offset: u32,
}
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read> g: array<f32>;
@group(0) @binding(1) var<storage, read> x: array<f32>;
@group(0) @binding(2) var<storage, read> grid: array<f32>;
@group(0) @binding(3) var<storage, read> direction: array<f32>;
@group(0) @binding(4) var<storage, read_write> out: array<f32>;
var<workgroup> parts: array<vec3<f32>, 256>;

@compute @workgroup_size(256)
fn main(launch: Grid, @builtin(local_invocation_index) local: u32) {
    let i = group_of(launch) * 32u + (local & 31u);
    let size = vec3<u32>(p.width, p.height, p.depth);
    let plane = size.x * size.y * size.z;
    var total = vec3<f32>(0.0);
    if (i < p.count) {
        let image = i / p.places;
        let taps = taps_at(MODE, PADDING, ALIGNED, RANK == 3u, grid_at(i), size);
        let along = direction_at(i);
        let g_first = p.g_offset + image * p.channels * p.places + i - image * p.places;
        let x_first = p.x_offset + image * p.channels * plane;
        for (var k = 0u; k < COUNT; k += 4u) { // four elements at a time; of "nearest", whose derivative is 0, none is asked for
            let at = vec4<i32>(tap_element(MODE, taps, tap_of(MODE, k), size), tap_element(MODE, taps, tap_of(MODE, k + 1u), size),
                               tap_element(MODE, taps, tap_of(MODE, k + 2u), size), tap_element(MODE, taps, tap_of(MODE, k + 3u), size));
            let inside = at >= vec4<i32>(0);
            let source = vec4<u32>(max(at, vec4<i32>(0))) + x_first;
            var sum = vec4<f32>(0.0);
            for (var c = local >> 5u; c < p.channels; c += 8u) {
                let from_channel = source + c * plane;
                let v = vec4<f32>(x[from_channel.x], x[from_channel.y], x[from_channel.z], x[from_channel.w]);
                sum += g[g_first + c * p.places] * select(vec4<f32>(0.0), v, inside);
            }
            for (var e = 0u; e < 4u; e++) {
                let tap = tap_of(MODE, k + e);
                let part = pick_weight(2u, mat3x4<f32>(sum, sum, sum), 0u, e);
                total.x += part * tap_weighed(MODE, taps, tap, vec3<u32>(1u, 0u, 0u), DIRECTED, along);
                total.y += part * tap_weighed(MODE, taps, tap, vec3<u32>(0u, 1u, 0u), DIRECTED, along);
                if (RANK == 3u) {
                    total.z += part * tap_weighed(MODE, taps, tap, vec3<u32>(0u, 0u, 1u), DIRECTED, along);
                }
            }
        }
    }
    parts[local] = total;
    workgroupBarrier();
    if (local < 32u && i < p.count) {
        for (var part = 1u; part < 8u; part++) {
            total += parts[part * 32u + local];
        }
        for (var d = 0u; d < RANK; d++) {
            out[i * RANK + d] = total[d];
        }
    }
}
