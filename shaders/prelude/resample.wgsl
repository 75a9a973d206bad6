// prelude/resample: which sources an output of a resampled axis takes, and from which outputs a source is reached.
//
// The formulas are those of ops/records/resample.py. MODE: 0 nearest, 1 nearest-exact, 2 linear, 3 cubic, 4 area.

struct Taps {
    first: i32,
    count: u32,
    weights: vec4<f32>, // of area only the first, which is that of all
}

// floor(o * n / size) without overflow: the guess is off by little, so that what is left over fits although the products wrap.
fn scaled_floor(o: u32, n: u32, size: u32) -> u32 {
    let guess = u32(f32(o) * (f32(n) / f32(size)));
    return u32(i32(guess) + floor_div_i32(i32(o * n - guess * size), i32(size)));
}

fn taps_of(mode: u32, aligned: bool, o: u32, size: u32, length: u32, scale: f32) -> Taps {
    if (size == length && scale == 1.0) {
        return Taps(i32(o), 1u, vec4<f32>(1.0));
    }
    if (mode == 4u) {
        let first = scaled_floor(o, size, length);
        let count = scaled_floor(o + 1u, size, length) - first;
        let stop = first + count;
        let more = select(1u, 0u, (o + 1u) * size == stop * length);
        return Taps(i32(first), count + more, vec4<f32>(1.0 / f32(count + more)));
    }
    if (mode < 2u) {
        let place = select(f32(o), f32(o) + 0.5, mode == 1u) * scale;
        return Taps(i32(min(u32(place), size - 1u)), 1u, vec4<f32>(1.0));
    }
    var place = scale * f32(o);
    if (!aligned) {
        place = scale * (f32(o) + 0.5) - 0.5;
    }
    if (mode == 2u) {
        place = max(place, 0.0);
    }
    let first = floor(place);
    let t = place - first;
    let u = 1.0 - t;
    if (mode == 2u) {
        return Taps(i32(first), 2u, vec4<f32>(u, t, 0.0, 0.0));
    }
    return Taps(i32(first) - 1, 4u, vec4<f32>(-0.75 * t * u * u, 1.0 + t * t * (1.25 * t - 2.25), 1.0 + u * u * (1.25 * u - 2.25),
                                             -0.75 * t * t * u));
}

// The weights of each element together, rounded to whole parts of 1 / unit.
fn rounded_taps(taps: Taps, size: u32, unit: f32) -> Taps {
    var weights = taps.weights;
    for (var k = min(taps.count, 4u) - 1u; k > 0u; k--) {
        if (tap_source(taps, k, size) == tap_source(taps, k - 1u, size)) {
            weights[k - 1u] += weights[k];
            weights[k] = 0.0;
        }
    }
    return Taps(taps.first, taps.count, sign(weights) * floor(abs(weights) * unit + 0.5) / unit);
}

fn tap_source(taps: Taps, k: u32, size: u32) -> u32 {
    return u32(clamp(taps.first + i32(k), 0, i32(size) - 1));
}

fn tap_weight(taps: Taps, k: u32) -> f32 {
    return taps.weights[min(k, 3u)];
}

// What source i weighs among the taps.
fn weight_from(taps: Taps, i: u32, size: u32) -> f32 {
    var total = 0.0;
    for (var k = 0u; k < min(taps.count, 4u); k++) {
        total += select(0.0, taps.weights[k], tap_source(taps, k, size) == i);
    }
    let beyond = i32(i) - taps.first;
    return select(total, taps.weights.x, taps.count > 4u && beyond >= 0 && beyond < i32(taps.count));
}

// The outputs [x, y) among which are all that take source i.
fn outputs_of(mode: u32, aligned: bool, i: u32, size: u32, length: u32, scale: f32) -> vec2<u32> {
    if (size == length && scale == 1.0) {
        return vec2<u32>(i, i + 1u);
    }
    // Positions scale * (o + center) from which source i is reached.
    let reach = select(select(0.0, 1.0, mode == 2u), 2.0, mode == 3u);
    let half = select(0.0, 0.5, mode == 1u || ((mode == 2u || mode == 3u) && !aligned));
    let shift = select(0.0, half, mode > 1u);
    let low = (f32(i) + shift - reach) / scale - half - select(0.0, 1.0, mode == 4u);
    let high = (f32(i) + shift + max(reach, 1.0)) / scale - half;
    let first = select(u32(clamp(floor(low), 0.0, f32(length))), 0u, i == 0u || !(scale > 0.0));
    let stop = select(u32(clamp(ceil(high) + 1.0, 0.0, f32(length))), length, i + 1u == size || !(scale > 0.0));
    return vec2<u32>(first, stop);
}
