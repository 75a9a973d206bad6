// scan: the results of combining x[0] to x[i] along one dimension of x seen as [outer, length, inner].
//
// A workgroup has 256 / LANES neighbouring lines, each of which has LANES threads, and goes along a part of them, 4 * LANES elements at a
// time: each thread combines 4 elements, a scan in workgroup memory combines those of the threads before it, on top of what was passed.
// ADJACENT: neighbouring threads have neighbours of a line (inner is 1), else neighbouring lines.
// TOTALS: gives what a part comes to, out[part, line], in place of the scan; CARRIED: a part begins with what a scan of these says.
//
// Bindings: 0 x, 1 carried (read), 2 out (read_write).
// Launch:   x = ceil(lines / (256 / LANES)) * parts workgroups of 256.
// Sums:     in V, in an order that follows from the shape.

alias E = f32;
alias V = f32;
alias O = f32;
const LANES: u32 = 256u;
const ADJACENT: bool = true;
const TOTALS: bool = false;
const CARRIED: bool = false;
fn initial() -> V { return 0.0; }
fn enter(x: E, i: u32) -> V { return f32(x); }
fn combine(a: V, b: V) -> V { return a + b; }
fn leave(v: V) -> O { return v; }

struct Params {
    lines: u32, length: u32, inner: u32, x_offset: u32,
    part: u32, parts: u32,
}
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read> x: array<E>;
@group(0) @binding(1) var<storage, read> carried: array<V>;
@group(0) @binding(2) var<storage, read_write> out: array<O>;

const COLUMNS: u32 = 256u / LANES;
const NEXT: u32 = select(COLUMNS, 1u, ADJACENT);        // from a thread to the next one of its line
var<workgroup> totals: array<V, 256>;

fn load(start: u32, i: u32, stop: u32) -> V {
    if (i < stop) {
        return enter(x[p.x_offset + start + i * p.inner], i);
    }
    return initial();
}

fn store(start: u32, i: u32, stop: u32, v: V) {
    if (i < stop) {
        out[start + i * p.inner] = leave(v);
    }
}

@compute @workgroup_size(256)
fn main(grid: Grid, @builtin(local_invocation_index) local: u32) {
    let group = group_of(grid);
    let part = group % p.parts;
    if (group / p.parts * COLUMNS >= p.lines) {
        return;
    }
    let column = select(local % COLUMNS, local / LANES, ADJACENT);
    let lane = select(local / COLUMNS, local % LANES, ADJACENT);
    let line = group / p.parts * COLUMNS + column;
    let start = line / p.inner * p.length * p.inner + line % p.inner;
    let end = min(p.length, (part + 1u) * p.part);
    let stop = select(0u, end, line < p.lines);
    var passed = initial();
    if (CARRIED && part > 0u && line < p.lines) {
        passed = carried[(part - 1u) * p.lines + line];
    }
    for (var first = part * p.part; first < end; first += 4u * LANES) {
        let i = first + 4u * lane;
        let v0 = load(start, i, stop);
        let v1 = combine(v0, load(start, i + 1u, stop));
        let v2 = combine(v1, load(start, i + 2u, stop));
        let v3 = combine(v2, load(start, i + 3u, stop));
        var total = v3;
        totals[local] = total;
        workgroupBarrier();
        for (var reach = 1u; reach < LANES; reach <<= 1u) {
            var before = initial();
            if (lane >= reach) {
                before = totals[local - reach * NEXT];
            }
            workgroupBarrier();
            total = combine(before, total);
            totals[local] = total;
            workgroupBarrier();
        }
        if (!TOTALS) {
            var before = passed;
            if (lane > 0u) {
                before = combine(passed, totals[local - NEXT]);
            }
            store(start, i, stop, combine(before, v0));
            store(start, i + 1u, stop, combine(before, v1));
            store(start, i + 2u, stop, combine(before, v2));
            store(start, i + 3u, stop, combine(before, v3));
        }
        passed = combine(passed, totals[local + (LANES - 1u - lane) * NEXT]);
        workgroupBarrier();
    }
    if (TOTALS && lane == 0u && line < p.lines) {
        out[part * p.lines + line] = leave(passed);
    }
}
