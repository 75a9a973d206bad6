// sample_forward: out[n, c, place] = sum of x[n, c] over the elements that the place takes, each weighed; formulas: ops/records/sample.py.
//
// Bindings: 0 x, 1 grid[n, place, RANK], 2 direction, looked at where DIRECTED (read), 3 out (read_write); all contiguous.
// Launch:   x = blocks * ceil(channels / EACH) workgroups of 256; a thread makes one place of up to EACH channels, four at a time, whose
//           weights are found once.
// Sums:     in f32, in the order of the elements.

const MODE: u32 = 1u;
const PADDING: u32 = 0u;
const ALIGNED: bool = false;
const RANK: u32 = 2u;
const DIRECTED: bool = false;
const COUNT: u32 = 1u << (MODE * RANK);
const EACH: u32 = 4u;

struct Params {
    width: u32, height: u32, depth: u32, channels: u32,
    places: u32, count: u32, blocks: u32, x_offset: u32,
    grid_offset: u32, direction_offset: u32,
}
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(1) var<storage, read> grid: array<f32>;
@group(0) @binding(2) var<storage, read> direction: array<f32>;
@group(0) @binding(3) var<storage, read_write> out: array<f32>;

@compute @workgroup_size(256)
fn main(launch: Grid, @builtin(local_invocation_index) local: u32) {
    let group = group_of(launch);
    let block = group / p.blocks;
    let i = (group - block * p.blocks) * 256u + local;
    if (i >= p.count || block * EACH >= p.channels) {
        return;
    }
    let size = vec3<u32>(p.width, p.height, p.depth);
    let plane = size.x * size.y * size.z;
    let image = i / p.places;
    let taps = taps_at(MODE, PADDING, ALIGNED, RANK == 3u, grid_at(i), size);
    let along = direction_at(i);
    if (COUNT == 4u) { // channel by channel: threads side by side then look at one plane
        let none = vec3<u32>(0u);
        let at = vec4<i32>(tap_element(MODE, taps, tap_of(MODE, 0u), size), tap_element(MODE, taps, tap_of(MODE, 1u), size),
                           tap_element(MODE, taps, tap_of(MODE, 2u), size), tap_element(MODE, taps, tap_of(MODE, 3u), size));
        let weight = vec4<f32>(tap_weighed(MODE, taps, tap_of(MODE, 0u), none, DIRECTED, along),
                               tap_weighed(MODE, taps, tap_of(MODE, 1u), none, DIRECTED, along),
                               tap_weighed(MODE, taps, tap_of(MODE, 2u), none, DIRECTED, along),
                               tap_weighed(MODE, taps, tap_of(MODE, 3u), none, DIRECTED, along));
        let inside = at >= vec4<i32>(0);
        let first = image * p.channels + block * EACH;
        var source = vec4<u32>(max(at, vec4<i32>(0))) + p.x_offset + first * plane;
        var made = first * p.places + i - image * p.places;
        for (var c = min(EACH, p.channels - block * EACH); c > 0u; c--) {
            let v = select(vec4<f32>(0.0), vec4<f32>(x[source.x], x[source.y], x[source.z], x[source.w]), inside);
            out[made] = weight.x * v.x + weight.y * v.y + weight.z * v.z + weight.w * v.w;
            source += plane;
            made += p.places;
        }
        return;
    }
    for (var channel = block * EACH; channel < min(block * EACH + EACH, p.channels); channel += 4u) {
        let first = image * p.channels + channel;
        let some = min(p.channels - channel, 4u);
        var total = vec4<f32>(0.0);
        for (var k = 0u; k < COUNT; k++) {
            let tap = tap_of(MODE, k);
            let at = tap_element(MODE, taps, tap, size);
            let weight = tap_weighed(MODE, taps, tap, vec3<u32>(0u), DIRECTED, along);
            let source = p.x_offset + first * plane + u32(max(at, 0));
            total.x += weight * select(0.0, x[source], at >= 0);
            if (some == 4u) {
                total.y += weight * select(0.0, x[source + plane], at >= 0);
                total.z += weight * select(0.0, x[source + 2u * plane], at >= 0);
                total.w += weight * select(0.0, x[source + 3u * plane], at >= 0);
            } else if (some > 1u) {
                total.y += weight * select(0.0, x[source + plane], at >= 0);
                total.z += weight * select(0.0, x[source + (some - 1u) * plane], at >= 0);
            }
        }
        let made = first * p.places + i - image * p.places;
        out[made] = total.x;
        if (some > 1u) {
            out[made + p.places] = total.y;
        }
        if (some > 2u) {
            out[made + 2u * p.places] = total.z;
        }
        if (some > 3u) {
            out[made + 3u * p.places] = total.w;
        }
    }
}
