// scan_wide: the scan of long lines side by side, by vectors of four elements; F are four running values, R four results.
//
// A workgroup goes along a part of a line, ITEMS * 256 vectors at a time, of which a thread has those that are 256 apart. What vectors come
// to goes through workgroup memory: there a thread has neighbours, combines them, and leaves in place of each what is before it.
// TOTALS, CARRIED: as in scan.
//
// Bindings: 0 x, 1 totals of parts, absent unless CARRIED (read), 2 out (read_write).
// Launch:   x = lines * parts workgroups of 256; length and part count vectors.
// Sums:     in V, in an order that follows from the shape.

alias N = f32;
alias E = vec4<f32>;
alias V = f32;
alias F = vec4<f32>;
alias S = f32;
alias R = vec4<f32>;
alias O = vec4<f32>;
const FUSED: bool = true;
const ITEMS: u32 = 4u;
const TOTALS: bool = false;
const CARRIED: bool = false;
fn initial() -> V { return 0.0; }
fn enter(x: N) -> V { return x; }
fn combine(a: V, b: V) -> V { return a + b; }
fn next_of(a: V, b: N) -> V { return combine(a, enter(b)); }
fn last(a: V, b: V) -> S { return combine(a, b); }
fn leave(v: R) -> O { return O(v); }
fn leave_total(v: V) -> O { return O(v); }

struct Params {
    lines: u32, length: u32, x_offset: u32,
    part: u32, parts: u32, zero: u32,
}
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read> x: array<E>;
@group(0) @binding(1) var<storage, read> part_totals: array<V>;
@group(0) @binding(2) var<storage, read_write> out: array<O>;

const STEP: u32 = 256u * ITEMS;
var<workgroup> staged: array<V, STEP + STEP / 32u>;
var<workgroup> totals: array<V, 256>;
var<workgroup> near_totals: array<V, 16>;

fn load(start: u32, i: u32, stop: u32) -> E {       // without a branch, so that all reads are on their way at once
    return x[p.x_offset + start + min(i, stop - 1u)];
}

fn running(x: E) -> F {
    let one = enter(x.x);
    let two = next_of(one, x.y);
    let three = next_of(two, x.z);
    return F(one, two, three, next_of(three, x.w));
}

// What vector i, whose running values are v, comes to.
fn in_all(v: F, i: u32, stop: u32) -> V { return select(initial(), v[3], i < stop); }

// What all threads have, combined.
fn of_all(local: u32, own: V) -> V {
    totals[local] = own;
    for (var half = 128u; half > 0u; half >>= 1u) {
        workgroupBarrier();
        if (local < half) { totals[local] = combine(totals[local], totals[local + half]); }
    }
    workgroupBarrier();
    let all = totals[0];
    workgroupBarrier();
    return all;
}

@compute @workgroup_size(256)
fn main(grid: Grid, @builtin(local_invocation_index) local: u32) {
    let group = group_of(grid);
    let line = group / p.parts;
    if (line >= p.lines) {
        return;
    }
    let part = select(group % p.parts, p.parts - 1u - group % p.parts, CARRIED);
    let start = line * p.length;
    let stop = min(p.length, (part + 1u) * p.part);
    if (TOTALS) {
        var total = initial();
        for (var first = part * p.part + local; first < stop; first += STEP) {
            var v: array<E, ITEMS>;
            for (var j = 0u; j < ITEMS; j++) { v[j] = load(start, first + j * 256u, stop); }
            for (var j = 0u; j < ITEMS; j++) { total = combine(total, in_all(running(v[j]), first + j * 256u, stop)); }
        }
        total = of_all(local, total);
        if (local == 0u) { out[part * p.lines + line] = leave_total(total); }
        return;
    }
    var passed = initial();
    if (CARRIED) {
        for (var i = local; i < part; i += 256u) { passed = combine(passed, part_totals[i * p.lines + line]); }
        passed = of_all(local, passed);
    }
    var upcoming: array<E, ITEMS>;                // the vectors of the next step, on their way during this one
    for (var j = 0u; j < ITEMS; j++) { upcoming[j] = load(start, part * p.part + j * 256u + local, stop); }
    for (var first = part * p.part; first < stop; first += STEP) {
        var v: array<F, ITEMS>;
        for (var j = 0u; j < ITEMS; j++) {
            v[j] = running(upcoming[j]);
            staged[banked(j * 256u + local)] = in_all(v[j], first + j * 256u + local, stop);
            upcoming[j] = load(start, first + STEP + j * 256u + local, stop);
        }
        workgroupBarrier();
        var before: array<V, ITEMS>;                    // of neighbouring vectors, at first from this thread's first one on
        var sum = initial();
        for (var j = 0u; j < ITEMS; j++) {
            before[j] = sum;
            sum = combine(sum, staged[banked(local * ITEMS + j)]);
        }
        totals[local] = sum;
        workgroupBarrier();
        var near = initial();
        for (var i = 0u; i < 15u; i++) { near = combine(near, select(initial(), totals[local / 16u * 16u + i], i < local % 16u)); }
        if (local % 16u == 15u) { near_totals[local / 16u] = combine(near, sum); }
        workgroupBarrier();
        var ahead = passed;
        for (var i = 0u; i < 16u; i++) {
            if (i == local / 16u) { ahead = passed; }
            passed = combine(passed, near_totals[i]);
        }
        ahead = combine(ahead, near);
        for (var j = 0u; j < ITEMS; j++) { staged[banked(local * ITEMS + j)] = combine(ahead, before[j]); }
        workgroupBarrier();
        for (var j = 0u; j < ITEMS; j++) {
            let i = first + j * 256u + local;
            let ahead_here = staged[banked(j * 256u + local)];
            if (i < stop) {
                out[start + i] = leave(R(last(ahead_here, v[j][0]), last(ahead_here, v[j][1]), last(ahead_here, v[j][2]),
                                         last(ahead_here, v[j][3])));
            }
        }
    }
}
