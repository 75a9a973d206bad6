// sample_keys: of each place what it takes, for sorting, and the weights of the elements.
//
// BY_CELL: the elements of a place lie side by side, and it is sorted by its cell, which is the first of them, counted from -1 on, in an
// image that is larger by one for "bilinear", from -3 on and by three for "bicubic". Else, of the modes of "bicubic" that move each element
// into the image, they are sorted one by one.
//
// Bindings: 0 grid[n, place, RANK], 1 direction, looked at where DIRECTED (read), 2 keys[n, place(, COUNT)], numbers among the cells or
//           elements of all images, of LINES among those of each, `outside` where there is none; 3 weights[n, place, COUNT] (read_write).
// Launch:   x = ceil(count / 256) workgroups of 256; a thread makes those of one place.
// Sums:     none.

const MODE: u32 = 1u;
const PADDING: u32 = 0u;
const ALIGNED: bool = false;
const RANK: u32 = 2u;
const DIRECTED: bool = false;
const BY_CELL: bool = true;
const LINES: bool = false;
const MORE: u32 = (1u << MODE) - 1u;    // cells beyond the elements of an axis
const COUNT: u32 = 1u << (MODE * RANK);

struct Params {
    width: u32, height: u32, depth: u32, places: u32,
    count: u32, outside: u32, grid_offset: u32, direction_offset: u32,
}
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read> grid: array<f32>;
@group(0) @binding(1) var<storage, read> direction: array<f32>;
@group(0) @binding(2) var<storage, read_write> keys: array<u32>;
@group(0) @binding(3) var<storage, read_write> weights: array<f32>;

@compute @workgroup_size(256)
fn main(launch: Grid, @builtin(local_invocation_index) local: u32) {
    let i = group_of(launch) * 256u + local;
    if (i >= p.count) {
        return;
    }
    let size = vec3<u32>(p.width, p.height, p.depth);
    let image = select(i / p.places, 0u, LINES);
    let taps = taps_at(MODE, PADDING, ALIGNED, RANK == 3u, grid_at(i), size);
    let along = direction_at(i);
    for (var k = 0u; k < COUNT; k++) {
        let tap = tap_of(MODE, k);
        let at = tap_element(MODE, taps, tap, size);
        if (!BY_CELL) {
            keys[i * COUNT + k] = select(p.outside, image * size.x * size.y * size.z + u32(max(at, 0)), at >= 0);
        }
        weights[i * COUNT + k] = tap_weighed(MODE, taps, tap, vec3<u32>(0u), DIRECTED, along);
    }
    if (BY_CELL) {
        let x = cell_of(MODE, taps.x);
        let y = cell_of(MODE, taps.y);
        let z = select(0, cell_of(MODE, taps.z), RANK == 3u);
        let cells = size + vec3<u32>(MORE, MORE, select(0u, MORE, RANK == 3u));
        let cell = (u32(max(z, 0)) * cells.y + u32(max(y, 0))) * cells.x + u32(max(x, 0));
        keys[i] = select(p.outside, image * cells.x * cells.y * cells.z + cell, x >= 0 && y >= 0 && z >= 0);
    }
}
