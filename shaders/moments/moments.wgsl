// var: (variance, mean) over one dimension of three, or parts (count, mean, sum of squared deviations) of it, which a second pass merges.
//
// A workgroup of 256 threads takes 256 / LANES kept positions with LANES threads each, as reduce does. Each thread sums deviations from the
// first value that it meets; threads, and later parts, are merged by Chan's formula; those of whole rows about the row's mean.
//
// Bindings: 0 a (read), 1 out, 2 mean (read_write; mean any spare buffer unless LAST).
// Launch:   x = ceil(kept / (256 / LANES)) * splits workgroups of 256; LANES is a power of two.
// Sums:     in f32: a serial run per thread and element of V, then a tree; fixed order.

alias E = vec4<f32>;            // loaded: a V, or of parts vec4
alias V = vec4<f32>;            // four neighbours of a row, four neighbouring columns, or one element
alias S = f32;
alias O = f32;                  // written: a variance, or unless LAST a part
const WIDTH: u32 = 4u;
const LANES: u32 = 256u;
const ADJACENT: bool = true;    // rows
const RAW: bool = true;         // else a holds parts
const LAST: bool = true;

struct Params {
    kept: u32, inner: u32,      // positions; kept = outer * inner
    outer_stride: u32, inner_stride: u32, reduce_stride: u32, offset: u32,      // in units of E
    count: u32, part: u32,      // reduced units, and those of a split
    scale: f32,                 // 1 / divisor
}
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read> a: array<E>;
@group(0) @binding(1) var<storage, read_write> out: array<O>;
@group(0) @binding(2) var<storage, read_write> mean: array<f32>;

const KEPT: u32 = 256u / LANES;

var<workgroup> counts: array<f32, 256>;
var<workgroup> means: array<V, 256>;
var<workgroup> rests: array<V, 256>;

struct Moments { count: f32, mean: V, rest: V }

fn merged(a: Moments, b: Moments) -> Moments {
    let count = a.count + b.count;
    let apart = b.mean - a.mean;
    let share = b.count / max(count, 1.0);
    return Moments(count, a.mean + apart * share, a.rest + b.rest + apart * apart * (a.count * share));
}

// Of raw elements; the mean counts from `origin`.
fn raw(first: u32, end: u32, base: u32, origin: V) -> Moments {
    if (first >= end) { return Moments(0.0, V(0.0), V(0.0)); }
    let pivot = value(a[base + first * p.reduce_stride]);
    var sum = V(0.0);
    var squares = V(0.0);
    var n = 0.0;
    var r = first;
    while (r + 3u * LANES < end) {
        let x0 = value(a[base + r * p.reduce_stride]) - pivot;
        let x1 = value(a[base + (r + LANES) * p.reduce_stride]) - pivot;
        let x2 = value(a[base + (r + 2u * LANES) * p.reduce_stride]) - pivot;
        let x3 = value(a[base + (r + 3u * LANES) * p.reduce_stride]) - pivot;
        sum += (x0 + x1) + (x2 + x3);
        squares += (x0 * x0 + x1 * x1) + (x2 * x2 + x3 * x3);
        n += 4.0;
        r += 4u * LANES;
    }
    if (r < end) {                              // up to three more, likewise on their way at once
        let x0 = value(a[base + r * p.reduce_stride]) - pivot;
        let x1 = value(a[base + min(r + LANES, end - 1u) * p.reduce_stride]) - pivot;
        let x2 = value(a[base + min(r + 2u * LANES, end - 1u) * p.reduce_stride]) - pivot;
        sum += x0;
        squares += x0 * x0;
        n += 1.0;
        if (r + LANES < end) {
            sum += x1;
            squares += x1 * x1;
            n += 1.0;
        }
        if (r + 2u * LANES < end) {
            sum += x2;
            squares += x2 * x2;
            n += 1.0;
        }
    }
    let average = sum / n;
    return Moments(n, pivot - origin + average, squares - average * sum);
}

fn folded(v: V) -> f32 {
    let all = vec4<f32>(v);
    return select((all.x + all.y) + (all.z + all.w), all.x, WIDTH == 1u);
}

fn value(x: E) -> V { return x; }

// A part as the moments of a scalar V.
fn part(x: vec4<f32>) -> Moments { return Moments(x.x, V(x.y), V(x.z)); }

fn parts(first: u32, end: u32, base: u32) -> Moments {
    var found = Moments(0.0, V(0.0), V(0.0));
    for (var r = first; r < end; r += LANES) {
        found = merged(found, part(vec4<f32>(a[base + r * p.reduce_stride])));
    }
    return found;
}

// (count, mean, rest) of the element c of V; of a row all elements as one.
fn of_element(m: Moments, c: u32) -> vec3<f32> {
    let centers = vec4<f32>(m.mean);
    let left = vec4<f32>(m.rest);
    if (WIDTH == 1u || !ADJACENT) { return vec3<f32>(m.count, centers[c], left[c]); }
    return merge_moments(merge_moments(vec3<f32>(m.count, centers.x, left.x), vec3<f32>(m.count, centers.y, left.y)),
                         merge_moments(vec3<f32>(m.count, centers.z, left.z), vec3<f32>(m.count, centers.w, left.w)));
}

@compute @workgroup_size(256)
fn main(grid: Grid, @builtin(local_invocation_index) thread: u32) {
    var lane = thread / KEPT;
    var slot = thread % KEPT;
    if (ADJACENT) { lane = thread % LANES; slot = thread / LANES; }
    let blocks = (p.kept + KEPT - 1u) / KEPT;
    let index = group_of(grid);
    let split = index / blocks;
    let kept = (index % blocks) * KEPT + slot;
    let start = split * p.part;
    let inside = kept < p.kept && start < p.count;
    var found = Moments(0.0, V(0.0), V(0.0));
    var origin = V(0.0);
    if (inside) {
        let end = min(start + p.part, p.count);
        let base = p.offset + (kept / p.inner) * p.outer_stride + (kept % p.inner) * p.inner_stride;
        if (ADJACENT && RAW && LAST) { origin = V(vec4<f32>(value(a[base])).x); }
        if (RAW) { found = raw(start + lane, end, base, origin); } else { found = parts(start + lane, end, base); }
    }
    if (ADJACENT && RAW && LAST) {              // about the whole row's mean, the shares of its threads add up
        let center = row_total(thread, found.count * folded(found.mean)) / f32(p.count * WIDTH);
        let away = found.mean - center;
        let rest = row_total(thread, folded(found.rest + away * away * found.count));
        if (lane == 0u && inside) {
            out[kept] = leave(vec3<f32>(0.0, center, rest));
            mean[kept] = known(vec4<f32>(origin).x + center);
        }
        return;
    }
    let place = lane * KEPT + slot;
    counts[place] = found.count;
    means[place] = found.mean;
    rests[place] = found.rest;
    for (var half = LANES / 2u; half > 0u; half = half / 2u) {
        workgroupBarrier();
        if (lane < half) {
            let other = place + half * KEPT;
            found = merged(found, Moments(counts[other], means[other], rests[other]));
            counts[place] = found.count;
            means[place] = found.mean;
            rests[place] = found.rest;
        }
    }
    if (lane > 0u || !inside) { return; }
    let elements = select(1u, WIDTH, !ADJACENT);
    for (var c = 0u; c < elements; c++) {
        let m = of_element(found, c);
        let at = (split * p.kept + kept) * elements + c;
        out[at] = leave(m);
        if (LAST) { mean[at] = known(m.y); }
    }
}

// Infinite elements leave an infinite mean or NaN, by their order: NaN then.
fn known(mean: f32) -> f32 { return select(mean, nan(), is_inf(mean)); }

fn leave(m: vec3<f32>) -> O { return deviations(m) * p.scale; }
