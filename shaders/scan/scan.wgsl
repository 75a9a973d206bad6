// scan: the results of combining x[0] to x[i] along one dimension of x seen as [outer, length, inner].
//
// A workgroup has 256 / LANES neighbouring lines, each of which has LANES threads, and goes along a part of them, ITEMS * LANES elements
// at a time: each thread combines ITEMS elements, and those of the threads before it, on top of what was passed.
// ADJACENT: neighbouring threads have neighbours of a line (inner is 1), which they read and write by way of workgroup memory, so that
// neighbouring threads touch neighbouring elements; else neighbouring lines.
// TOTALS: gives what a part comes to, out[part, line], in place of the scan, combined in another order unless ORDERED, as combining needs
// where it does not commute; CARRIED: a part begins with what those before it come to. Then the last parts come first, as caches still
// hold what was read last.
//
// S is what is staged and stored of a running value: narrow(v), last(a, b) of two combined, widen(s) back again.
//
// Bindings: 0 x, 1 totals of parts, absent unless CARRIED (read), 2 out (read_write).
// Launch:   x = ceil(lines / (256 / LANES)) * parts workgroups of 256.
// Sums:     in V, in an order that follows from the shape.

alias E = f32;
alias V = f32;
alias S = f32;
alias O = f32;
const LANES: u32 = 256u;
const ITEMS: u32 = 8u;
const ADJACENT: bool = true;
const TOTALS: bool = false;
const CARRIED: bool = false;
const ORDERED: bool = false;
const ONCE: bool = false;       // whether a part is one step: there is no next one to fetch for
const FUSED: bool = true;
fn initial() -> V { return 0.0; }
fn enter(x: E, i: u32) -> S { return f32(x); }
fn combine(a: V, b: V) -> V { return a + b; }
fn next_of(a: V, b: S) -> V { return combine(a, widen(b)); }
fn last(a: V, b: V) -> S { return narrow(combine(a, b)); }
fn narrow(v: V) -> S { return v; }
fn widen(s: S) -> V { return s; }
fn leave(s: S) -> O { return s; }
fn leave_total(v: V) -> O { return leave(narrow(v)); }

struct Params {
    lines: u32, length: u32, inner: u32, x_offset: u32,
    part: u32, parts: u32, zero: u32,
}
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read> x: array<E>;
@group(0) @binding(1) var<storage, read> part_totals: array<V>;
@group(0) @binding(2) var<storage, read_write> out: array<O>;

const COLUMNS: u32 = 256u / LANES;
const NEXT: u32 = select(COLUMNS, 1u, ADJACENT);        // from a thread to the next one of its line
const NEAR: u32 = min(LANES, 16u);                      // threads of a line that look at each other
var<workgroup> totals: array<V, 256>;
var<workgroup> near_totals: array<V, 256u / NEAR>;
var<workgroup> staged: array<S, select(1u, 8u * ITEMS * 33u, ADJACENT)>;

fn load(start: u32, i: u32, stop: u32) -> S {
    let at = min(i, max(stop, 1u) - 1u);                // without a branch, so that all reads are on their way at once
    return select(narrow(initial()), enter(x[p.x_offset + start + select(at * p.inner, at, ADJACENT)], i), i < stop);
}

fn store(start: u32, i: u32, stop: u32, v: S) {
    if (i < stop) {
        out[start + select(i * p.inner, i, ADJACENT)] = leave(v);
    }
}

// Where element j * LANES on from that of a thread is staged. IN: next, the distance, or of short lines the place without gaps.
fn across_at(first: u32, next: u32, j: u32) -> u32 {
    if (LANES >= 32u) { return first + j * next; }
    return banked(next + j * LANES);
}

// Element j of those that a thread reads in a step.
fn own_place(lane: u32, j: u32) -> u32 { return select(lane * ITEMS + j, j * LANES + lane, ADJACENT); }

// What the threads of a line have, combined in their order.
fn of_line(local: u32, lane: u32, own: V) -> V {
    totals[local] = own;
    for (var near = 1u; near < LANES; near <<= 1u) {
        workgroupBarrier();
        if (lane % (2u * near) == 0u) {
            totals[local] = combine(totals[local], totals[local + near * NEXT]);
        }
    }
    workgroupBarrier();
    let all = totals[local - lane * NEXT];
    workgroupBarrier();
    return all;
}

@compute @workgroup_size(256)
fn main(grid: Grid, @builtin(local_invocation_index) local: u32) {
    let group = group_of(grid);
    let part = select(group % p.parts, p.parts - 1u - group % p.parts, CARRIED);
    if (group / p.parts * COLUMNS >= p.lines) {
        return;
    }
    let column = select(local % COLUMNS, local / LANES, ADJACENT);
    let lane = select(local / COLUMNS, local % LANES, ADJACENT);
    let line = group / p.parts * COLUMNS + column;
    let safe = min(line, p.lines - 1u);
    let start = safe / p.inner * p.length * p.inner + safe % p.inner;
    let end = min(p.length, (part + 1u) * p.part);
    let stop = select(0u, end, line < p.lines);
    let lane_0 = local - lane * NEXT;
    if (TOTALS) {
        var total = initial();
        for (var first = part * p.part; first < end; first += ITEMS * LANES) {
            var v: array<S, ITEMS>;                     // all are on their way before the first is added
            for (var j = 0u; j < ITEMS; j++) {
                v[j] = load(start, first + select(j * LANES + lane, lane * ITEMS + j, ORDERED), stop);
            }
            var sum = select(next_of(total, v[0]), widen(v[0]), ORDERED);
            for (var j = 1u; j < ITEMS; j++) {
                sum = next_of(sum, v[j]);
            }
            if (ORDERED) {
                total = combine(total, of_line(local, lane, sum));
            } else {
                total = sum;
            }
        }
        if (!ORDERED) { total = of_line(local, lane, total); }
        if (lane == 0u && line < p.lines) {
            out[part * p.lines + line] = leave_total(total);
        }
        return;
    }
    var passed = initial();
    if (CARRIED) {
        let each = (part + LANES - 1u) / LANES;
        for (var i = lane * each; i < min(part, (lane + 1u) * each); i++) { passed = combine(passed, part_totals[i * p.lines + safe]); }
        passed = of_line(local, lane, passed);
    }
    let own = banked((column * LANES + lane) * ITEMS);          // these lie side by side, whatever is left free between banks
    let across = banked(column * LANES * ITEMS + lane);
    let next = select(column * LANES * ITEMS + lane, LANES + LANES / 32u, LANES >= 32u);
    var upcoming: array<S, ITEMS>;                      // the elements of the next step, on their way during this one
    for (var j = 0u; j < ITEMS; j++) { upcoming[j] = load(start, part * p.part + own_place(lane, j), stop); }
    for (var first = part * p.part; first < end; first += ITEMS * LANES) {
        var v: array<V, ITEMS>;
        var own_elements: array<S, ITEMS>;
        if (ADJACENT) {
            for (var j = 0u; j < ITEMS; j++) { staged[across_at(across, next, j)] = upcoming[j]; }
            workgroupBarrier();
        }
        for (var j = 0u; j < ITEMS; j++) {
            if (ADJACENT) {
                own_elements[j] = staged[own + j];
            } else {
                own_elements[j] = upcoming[j];
            }
            if (!ONCE) { upcoming[j] = load(start, first + ITEMS * LANES + own_place(lane, j), stop); }
        }
        v[0] = widen(own_elements[0]);
        for (var j = 1u; j < ITEMS; j++) { v[j] = next_of(v[j - 1u], own_elements[j]); }
        totals[local] = v[ITEMS - 1u];
        workgroupBarrier();
        var before = initial();                         // of the threads near this one
        let near = lane / NEAR * NEAR;
        for (var i = 0u; i < NEAR - 1u; i++) {
            if (near + i < lane) {
                before = combine(before, totals[lane_0 + (near + i) * NEXT]);
            }
        }
        if (lane % NEAR == NEAR - 1u) {
            near_totals[column * (LANES / NEAR) + lane / NEAR] = combine(before, v[ITEMS - 1u]);
        }
        workgroupBarrier();
        var ahead = passed;
        for (var i = 0u; i < LANES / NEAR; i++) {
            passed = combine(passed, near_totals[column * (LANES / NEAR) + i]);
            if ((i + 1u) * NEAR <= lane) {
                ahead = passed;
            }
        }
        before = combine(ahead, before);
        for (var j = 0u; j < ITEMS; j++) {
            if (ADJACENT) {
                staged[own + j] = last(before, v[j]);
            } else {
                store(start, first + lane * ITEMS + j, stop, last(before, v[j]));
            }
        }
        if (ADJACENT) {
            workgroupBarrier();
            for (var j = 0u; j < ITEMS; j++) {
                store(start, first + j * LANES + lane, stop, staged[across_at(across, next, j)]);
            }
        }
        if (ONCE) { break; }
    }
}
