// sample_input: out[n, c, element] = sum of weight * g[n, c, place] over the places that take the element, which sorting has put together.
//
// Bindings: 0 g, 1 entries in the order of the elements, 2 starts of these, 3 weights of the entries (read), 4 out (read_write).
// Launch:   x = blocks * ceil(channels / 4) workgroups of 256; a thread makes one element of up to 4 channels.
// Sums:     in f32, in the order of the places.

const COUNT: u32 = 4u; // entries of a place

struct Params {
    plane: u32, channels: u32, places: u32, count: u32,
    blocks: u32, g_offset: u32,
}
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read> g: array<f32>;
@group(0) @binding(1) var<storage, read> entries: array<u32>;
@group(0) @binding(2) var<storage, read> starts: array<u32>;
@group(0) @binding(3) var<storage, read> weights: array<f32>;
@group(0) @binding(4) var<storage, read_write> out: array<f32>;

@compute @workgroup_size(256)
fn main(launch: Grid, @builtin(local_invocation_index) local: u32) {
    let group = group_of(launch);
    let block = group / p.blocks;
    let i = (group - block * p.blocks) * 256u + local;
    let channel = block * 4u;
    if (i >= p.count || channel >= p.channels) {
        return;
    }
    let image = i / p.plane;
    let first = image * p.channels + channel;
    let some = min(p.channels - channel, 4u);
    var total = vec4<f32>(0.0);
    for (var k = starts[i]; k < starts[i + 1u]; k++) {
        let entry = entries[k];
        let weight = weights[entry];
        let source = p.g_offset + first * p.places + entry / COUNT - image * p.places;
        total.x += weight * g[source];
        for (var c = 1u; c < some; c++) {
            total[c] += weight * g[source + c * p.places];
        }
    }
    for (var c = 0u; c < some; c++) {
        out[(first + c) * p.plane + i - image * p.plane] = total[c];
    }
}
