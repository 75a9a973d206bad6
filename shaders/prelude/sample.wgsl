// prelude/sample: what a place of a grid takes along one axis. The formulas are those of ops/records/sample.py.
//
// MODE: 0 nearest, 1 bilinear, 2 bicubic. PADDING: 0 zeros, 1 border, 2 reflection.

struct Coordinate {
    elements: vec4<i32>, // -1 outside
    beyond: f32,         // of the place, from an element
    slope: f32,          // of the place in elements, by the grid
}

struct Moved {
    place: f32,
    slope: f32,
}

// A place moved into the image, 0 for NaN.
fn moved_place(padding: u32, aligned: bool, place: f32, size: f32) -> Moved {
    if (padding == 0u) {
        return Moved(place, 1.0);
    }
    var x = place;
    var slope = 1.0;
    if (padding == 2u) {
        let low = select(-0.5, 0.0, aligned);
        let span = select(size, size - 1.0, aligned);
        slope = select(1.0, -1.0, x < low);
        x = abs(x - low);
        let turns = select(0.0, floor(x / span), span > 0.0);
        x -= turns * span;
        if (turns - 2.0 * floor(turns * 0.5) != 0.0) {
            x = span - x;
            slope = -slope;
        }
        x += low;
    }
    let inside = is_finite(place) && x > 0.0 && x < size - 1.0;
    let beyond = x >= size - 1.0 && !is_nan(place) && (padding == 1u || is_finite(place));
    return Moved(select(select(0.0, size - 1.0, beyond), x, inside), select(0.0, slope, inside));
}

fn element_of(place: f32, size: u32) -> i32 {
    let inside = is_finite(place) && place >= 0.0 && place <= f32(size - 1u);
    return select(-1, clamp(i32(place), 0, i32(size) - 1), inside);
}

fn moved_element(padding: u32, aligned: bool, place: f32, size: u32) -> i32 {
    return element_of(round(moved_place(padding, aligned, place, f32(size)).place), size);
}

fn coordinate(mode: u32, padding: u32, aligned: bool, at: f32, size: u32) -> Coordinate {
    let slope = 0.5 * f32(select(size, size - 1u, aligned));
    let place = (at + 1.0) * slope - select(0.5, 0.0, aligned);
    if (mode == 2u) {
        let first = floor(place);
        let elements = vec4<i32>(moved_element(padding, aligned, first - 1.0, size), moved_element(padding, aligned, first, size),
                                 moved_element(padding, aligned, first + 1.0, size), moved_element(padding, aligned, first + 2.0, size));
        return Coordinate(elements, select(nan(), place - first, is_finite(place)), slope);
    }
    let moved = moved_place(padding, aligned, place, f32(size));
    if (mode == 0u) {
        return Coordinate(vec4<i32>(element_of(round(moved.place), size), -1, -1, -1), 0.0, 0.0);
    }
    let first = floor(moved.place);
    return Coordinate(vec4<i32>(element_of(first, size), element_of(first + 1.0, size), -1, -1),
                      select(nan(), moved.place - first, is_finite(moved.place)), slope * moved.slope);
}

// The first element of those that lie side by side, of two counted from -1 on, of four from -3; -1 where none is inside.
fn cell_of(mode: u32, c: Coordinate) -> i32 {
    if (mode == 0u) {
        return c.elements.x;
    }
    if (mode == 2u) {
        let firsts = c.elements + vec4<i32>(3, 2, 1, 0);
        let upper = select(select(-1, firsts.w, c.elements.w >= 0), firsts.z, c.elements.z >= 0);
        return select(select(upper, firsts.y, c.elements.y >= 0), firsts.x, c.elements.x >= 0);
    }
    return select(select(-1, c.elements.x + 1, c.elements.x >= 0), c.elements.y, c.elements.y >= 0);
}

// What the elements weigh (order 0), and two derivatives of that; of volumes, elements outside nothing.
fn coordinate_weights(mode: u32, volume: bool, c: Coordinate) -> mat3x4<f32> {
    let t = c.beyond;
    let none = vec4<f32>(0.0);
    var found = mat3x4<f32>(vec4<f32>(1.0, 0.0, 0.0, 0.0), none, none);
    if (mode == 1u) {
        found = mat3x4<f32>(vec4<f32>(1.0 - t, t, 0.0, 0.0), c.slope * vec4<f32>(-1.0, 1.0, 0.0, 0.0), none);
    } else if (mode == 2u) {
        let c1 = vec4<f32>(-0.75, 0.0, 0.75, 0.0);
        let c2 = vec4<f32>(1.5, -2.25, 1.5, -0.75);
        let c3 = vec4<f32>(-0.75, 1.25, -1.25, 0.75);
        found = mat3x4<f32>(vec4<f32>(0.0, 1.0, 0.0, 0.0) + t * (c1 + t * (c2 + t * c3)),
                            c.slope * (c1 + t * (2.0 * c2 + t * (3.0 * c3))), c.slope * c.slope * (2.0 * c2 + t * (6.0 * c3)));
    }
    if (volume) {
        let outside = c.elements < vec4<i32>(0);
        found = mat3x4<f32>(select(found[0], none, outside), select(found[1], none, outside), select(found[2], none, outside));
    }
    return found;
}

// What a place takes: by coordinate, elements, and weights by [order][element].
struct Taps3 {
    x: Coordinate,
    y: Coordinate,
    z: Coordinate,
    weights_x: mat3x4<f32>,
    weights_y: mat3x4<f32>,
    weights_z: mat3x4<f32>,
}

fn taps_at(mode: u32, padding: u32, aligned: bool, volume: bool, at: vec3<f32>, size: vec3<u32>) -> Taps3 {
    let x = coordinate(mode, padding, aligned, at.x, size.x);
    let y = coordinate(mode, padding, aligned, at.y, size.y);
    var z = Coordinate(vec4<i32>(0), 0.0, 0.0);
    var weights_z = coordinate_weights(0u, false, z);
    if (volume) {
        z = coordinate(mode, padding, aligned, at.z, size.z);
        weights_z = coordinate_weights(mode, true, z);
    }
    return Taps3(x, y, z, coordinate_weights(mode, volume, x), coordinate_weights(mode, volume, y), weights_z);
}

// Of a place's elements, by number: which it is of each coordinate.
fn tap_of(mode: u32, tap: u32) -> vec3<u32> {
    let most = (1u << mode) - 1u;
    return vec3<u32>(tap & most, (tap >> mode) & most, tap >> (2u * mode));
}

// v[k], without what an index that varies costs: memory.
fn pick_element(mode: u32, v: vec4<i32>, k: u32) -> i32 {
    let low = select(v.x, v.y, (k & 1u) == 1u);
    return select(low, select(v.z, v.w, (k & 1u) == 1u), mode == 2u && k > 1u);
}

fn pick_weight(mode: u32, m: mat3x4<f32>, order: u32, k: u32) -> f32 {
    var v = m[0];
    if (order == 1u) {
        v = m[1];
    } else if (order == 2u) {
        v = m[2];
    }
    let low = select(v.x, v.y, (k & 1u) == 1u);
    return select(low, select(v.z, v.w, (k & 1u) == 1u), mode == 2u && k > 1u);
}

// Its number in the image, -1 outside.
fn tap_element(mode: u32, taps: Taps3, tap: vec3<u32>, size: vec3<u32>) -> i32 {
    let x = pick_element(mode, taps.x.elements, tap.x);
    let y = pick_element(mode, taps.y.elements, tap.y);
    let z = pick_element(mode, taps.z.elements, tap.z);
    return select((z * i32(size.y) + y) * i32(size.x) + x, -1, x < 0 || y < 0 || z < 0);
}

fn tap_product(mode: u32, taps: Taps3, tap: vec3<u32>, orders: vec3<u32>) -> f32 {
    return pick_weight(mode, taps.weights_x, orders.x, tap.x) * pick_weight(mode, taps.weights_y, orders.y, tap.y)
         * pick_weight(mode, taps.weights_z, orders.z, tap.z);
}

// Its weight, derived as often as `orders` say; of `directed`, along a direction once more.
fn tap_weighed(mode: u32, taps: Taps3, tap: vec3<u32>, orders: vec3<u32>, directed: bool, direction: vec3<f32>) -> f32 {
    if (!directed) {
        return tap_product(mode, taps, tap, orders);
    }
    return direction.x * tap_product(mode, taps, tap, orders + vec3<u32>(1u, 0u, 0u))
         + direction.y * tap_product(mode, taps, tap, orders + vec3<u32>(0u, 1u, 0u))
         + direction.z * tap_product(mode, taps, tap, orders + vec3<u32>(0u, 0u, 1u));
}

// Place i of the grid, and the direction at it: of files with a grid, a direction, their offsets, RANK and DIRECTED.
fn grid_at(i: u32) -> vec3<f32> {
    let k = p.grid_offset + i * RANK;
    return vec3<f32>(grid[k], grid[k + 1u], select(0.0, grid[k + RANK - 1u], RANK == 3u));
}

fn direction_at(i: u32) -> vec3<f32> {
    let k = select(p.grid_offset, p.direction_offset, DIRECTED) + i * RANK;
    return vec3<f32>(direction[k], direction[k + 1u], select(0.0, direction[k + RANK - 1u], RANK == 3u));
}
