// Reductions: out[split, kept] = leave(combine over the split's part of enter(a[kept, r])).
// A workgroup of 256 threads takes 256 / LANES kept positions with LANES threads each: a serial part per thread, then a tree
// over the lanes in workgroup memory. Order of the sums is fixed by the launch; floats are summed in float32.
// With ADJACENT the lanes of one position are neighbours (rows: the reduced dim is contiguous), else the positions are
// (columns). Launch: x = ceil(kept / (256 / LANES)), y = splits; LANES is a power of two.
// E is what is loaded at once: for rows four neighbours of a row, for columns four neighbouring columns, or one element.
alias E = vec4<f32>;            // loaded
alias V = vec4<f32>;            // accumulated
alias W = vec4<u32>;            // as wide as V, for bit tests
alias O = f32;                  // written
const LANES: u32 = 256u;
const ADJACENT: bool = true;
fn initial() -> V { return V(0.0); }
fn enter(x: E, r: u32) -> V { return V(x); }
fn combine(x: V, y: V) -> V { return x + y; }
fn two(x: E, y: E, r: u32, s: u32) -> V { return combine(enter(x, r), enter(y, s)); }
fn leave(x: V) -> O { return O(x.x + x.y + x.z + x.w); }
const FUSED: bool = true;

struct Params {
    kept: u32,                  // positions; kept = outer * inner
    inner: u32,
    outer_stride: u32,          // strides in units of E
    inner_stride: u32,
    reduce_stride: u32,
    offset: u32,
    count: u32,                 // reduced units
    part: u32,                  // units of a split
    first: u32,                 // index of the first reduced unit
    out_offset: u32,
    number: f32,                // for `leave`
    zero: u32,
}
var<immediate> p: Params;

@group(0) @binding(0) var<storage, read> a: array<E>;
@group(0) @binding(1) var<storage, read_write> out: array<O>;

const KEPT: u32 = 256u / LANES;

var<workgroup> sums: array<V, 256>;

@compute @workgroup_size(256)
fn main(grid: Grid, @builtin(local_invocation_index) thread: u32) {
    var lane = thread / KEPT;
    var slot = thread % KEPT;
    if (ADJACENT) { lane = thread % LANES; slot = thread / LANES; }
    // Splits follow one another along the folded grid.
    let blocks = (p.kept + KEPT - 1u) / KEPT;
    let index = group_of(grid);
    let split = index / blocks;
    let kept = (index % blocks) * KEPT + slot;
    let start = split * p.part;
    var acc = initial();
    if (kept < p.kept && start < p.count) {
        let end = min(start + p.part, p.count);
        let base = p.offset + (kept / p.inner) * p.outer_stride + (kept % p.inner) * p.inner_stride;
        var r = start + lane;
        while (r + 3u * LANES < end) {
            let x0 = a[base + r * p.reduce_stride];
            let x1 = a[base + (r + LANES) * p.reduce_stride];
            let x2 = a[base + (r + 2u * LANES) * p.reduce_stride];
            let x3 = a[base + (r + 3u * LANES) * p.reduce_stride];
            acc = combine(acc, combine(two(x0, x1, p.first + r, p.first + r + LANES),
                                       two(x2, x3, p.first + r + 2u * LANES, p.first + r + 3u * LANES)));
            r += 4u * LANES;
        }
        if (r < end) {                          // up to three more, all of which are on their way before the first is added
            let x0 = a[base + r * p.reduce_stride];
            let x1 = a[base + min(r + LANES, end - 1u) * p.reduce_stride];
            let x2 = a[base + min(r + 2u * LANES, end - 1u) * p.reduce_stride];
            acc = combine(acc, enter(x0, p.first + r));
            if (r + LANES < end) { acc = combine(acc, enter(x1, p.first + r + LANES)); }
            if (r + 2u * LANES < end) { acc = combine(acc, enter(x2, p.first + r + 2u * LANES)); }
        }
    }
    let place = lane * KEPT + slot;
    sums[place] = acc;
    for (var half = LANES / 2u; half > 0u; half = half / 2u) {
        workgroupBarrier();
        if (lane < half) {
            acc = combine(acc, sums[place + half * KEPT]);
            sums[place] = acc;
        }
    }
    if (lane == 0u && kept < p.kept && start < p.count) { out[p.out_offset + split * p.kept + kept] = leave(acc); }
}
