// sample_input: out[n, c, element] = sum of weight * g[n, c, place] over the places that take the element, which sorting by keys.wgsl has
// put together: those of the element itself, or BY_CELL of the cells from which it is reached. LINES: each image's by themselves.
//
// Bindings: 0 g, 1 places (but for BY_CELL their entries) in the order of the keys, 2 starts of these, 3 weights (read), 4 out
// (read_write).
// Launch:   x = blocks * ceil(channels / 4) workgroups of 256; a thread makes one element of up to 4 channels.
// Sums:     in f32, cell by cell in the order of the places.

const MODE: u32 = 1u;
const RANK: u32 = 2u;
const COUNT: u32 = 1u << (MODE * RANK);
const BY_CELL: bool = true;
const LINES: bool = false;
const CELLS: u32 = select(1u, COUNT, BY_CELL);
const MORE: u32 = select(0u, (1u << MODE) - 1u, BY_CELL);

struct Params {
    width: u32, height: u32, depth: u32, channels: u32,
    places: u32, count: u32, blocks: u32, g_offset: u32,
}
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read> g: array<f32>;
@group(0) @binding(1) var<storage, read> sorted: array<u32>;
@group(0) @binding(2) var<storage, read> starts: array<u32>;
@group(0) @binding(3) var<storage, read> weights: array<f32>;
@group(0) @binding(4) var<storage, read_write> out: array<f32>;

// Of the k-th in the order of the keys, what it adds to up to four channels.
fn term(k: u32, tap: u32, first: u32, image: u32, some: u32) -> vec4<f32> {
    let entry = sorted[k] + select(0u, image * p.places * select(COUNT, 1u, BY_CELL), LINES);
    let place = select(entry / COUNT, entry, BY_CELL);
    let weight = weights[select(entry, entry * COUNT + tap, BY_CELL)];
    let source = p.g_offset + first * p.places + place - image * p.places;
    let second = source + select(0u, p.places, some > 1u);
    let third = second + select(0u, p.places, some > 2u);
    return weight * vec4<f32>(g[source], g[second], g[third], g[third + select(0u, p.places, some > 3u)]);
}

@compute @workgroup_size(256)
fn main(launch: Grid, @builtin(local_invocation_index) local: u32) {
    let group = group_of(launch);
    let block = group / p.blocks;
    let i = (group - block * p.blocks) * 256u + local;
    let channel = block * 4u;
    if (i >= p.count || channel >= p.channels) {
        return;
    }
    let line = i / p.width;
    let x = i - line * p.width;
    let plane = line / p.height;
    let y = line - plane * p.height;
    let image = plane / p.depth;
    let z = plane - image * p.depth;
    let more_z = select(0u, MORE, RANK == 3u);
    let cells = (p.depth + more_z) * (p.height + MORE) * (p.width + MORE) + select(0u, 1u, LINES);
    let first = image * p.channels + channel;
    let some = min(p.channels - channel, 4u);
    var total = vec4<f32>(0.0);
    for (var tap = 0u; tap < CELLS; tap++) {
        let own = tap_of(MODE, select(0u, tap, BY_CELL));
        let in_image = ((z + more_z - own.z) * (p.height + MORE) + y + MORE - own.y) * (p.width + MORE) + x + MORE - own.x;
        let cell = image * cells + in_image;
        let end = starts[cell + 1u];
        var k = starts[cell];
        for (; k + 4u <= end; k += 4u) { // what is read for four, before it is added: runs may be long
            let a = term(k, tap, first, image, some);
            let b = term(k + 1u, tap, first, image, some);
            let c = term(k + 2u, tap, first, image, some);
            let d = term(k + 3u, tap, first, image, some);
            total = (((total + a) + b) + c) + d;
        }
        for (; k < end; k++) {
            total += term(k, tap, first, image, some);
        }
    }
    let size = p.width * p.height * p.depth;
    let made = first * size + i - image * size;
    out[made] = total.x;
    if (some > 1u) {
        out[made + size] = total.y;
    }
    if (some > 2u) {
        out[made + 2u * size] = total.z;
    }
    if (some > 3u) {
        out[made + 3u * size] = total.w;
    }
}
