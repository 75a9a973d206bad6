// windowed_grad: x[o, i, e] = sum over the k and j with places[k, j] = i of weights[k, j] * g[o, j, e]; the transpose of windows.wgsl.
//
// places[k, j] is min(places[0, j] + k, places[taps - 1, j]), and both ends grow with j: an element is in a run of windows, in each once,
// but for the last of a window, which may be repeated.
//
// Bindings: 0 g, 1 places, 2 weights (read), 3 x (read_write); all contiguous.
// Launch:   x = blocks * ceil(outer / 4) workgroups of 256; a thread makes one element of up to 4 lines, for which it reads the tables
//           once.
// Sums:     in T, in the order of j.

alias T = f32;

struct Params {
    g_offset: u32, places_offset: u32, weights_offset: u32, outer: u32,
    n: u32, inner: u32, length: u32, taps: u32,
    blocks: u32,
}
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read> g: array<T>;
@group(0) @binding(1) var<storage, read> places: array<i32>;
@group(0) @binding(2) var<storage, read> weights: array<T>;
@group(0) @binding(3) var<storage, read_write> x: array<T>;

// The first window whose place k is this one or a later one.
fn first_reaching(k: u32, place: i32) -> u32 {
    var low = 0u;
    var high = p.length;
    while (low < high) {
        let middle = (low + high) / 2u;
        if (places[p.places_offset + k * p.length + middle] < place) { low = middle + 1u; } else { high = middle; }
    }
    return low;
}

@compute @workgroup_size(256)
fn main(grid: Grid, @builtin(local_invocation_index) thread: u32) {
    let group = group_of(grid);
    let block = group / p.blocks;
    let at = (group - block * p.blocks) * 256u + thread;
    let place = i32(at / p.inner);
    let first = block * 4u;
    if (u32(place) >= p.n || first >= p.outer) {
        return;
    }
    let lines = min(vec4<u32>(first) + vec4<u32>(0u, 1u, 2u, 3u), vec4<u32>(p.outer - 1u)) * (p.length * p.inner)
        + vec4<u32>(p.g_offset + at - u32(place) * p.inner);
    var total = vec4<T>();
    let stop = first_reaching(0u, place + 1);
    for (var j = first_reaching(p.taps - 1u, place); j < stop; j++) {
        var weight = T();
        for (var k = u32(place - places[p.places_offset + j]); k < p.taps && places[p.places_offset + k * p.length + j] == place; k++) {
            weight += weights[p.weights_offset + k * p.length + j];
        }
        let source = lines + vec4<u32>(j * p.inner);
        total += weight * vec4<T>(g[source.x], g[source.y], g[source.z], g[source.w]);
    }
    for (var line = 0u; line < 4u; line++) {
        if (first + line < p.outer) { x[(first + line) * p.n * p.inner + at] = total[line]; }
    }
}
