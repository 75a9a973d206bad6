// sort_middle: the element that comes at `place` in the order of each of few long lines of x[lines, length], and its index; its MEDIAN: of
// the numbers with SKIP, else the first NaN where there is one. Of equal elements the one that a stable sort puts there.
//
// `histogram`, once for each eight bits of the keys from the highest down, counts the keys that begin as the wanted one does, and the first
// time those that are missing; `count` how many equal it in each chunk; `find` writes it, by the chunk that has it.
//
// Bindings: 0 x (read), 1 histograms[pass, line, digit], then missing[line], zero at first, 2 chunks[line, chunk], 3 values, 4 indices, one
//           for each line (read_write).
// Launch:   x = lines * chunks workgroups of 256, which have ROWS rows of 256 elements each.
// Sums:     integers: exact in any order.

alias E = f32;
const THREADS: u32 = 256u;
const ROWS: u32 = 32u;
const PASSES: u32 = 4u;
const MEDIAN: bool = false;
const SKIP: bool = false;
fn key(x: E) -> u32 { return bitcast<u32>(x); }
fn missing(x: E) -> bool { return is_nan(f32(x)); }

struct Params {
    lines: u32, length: u32, place: u32, chunks: u32,
    pass_number: u32, x_offset: u32,                    // passes that are done: as a constant it would be compiled once for each
}
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read> x: array<E>;
@group(0) @binding(1) var<storage, read_write> histograms: array<atomic<u32>>;
@group(0) @binding(2) var<storage, read_write> equal: array<u32>;
@group(0) @binding(3) var<storage, read_write> values: array<E>;
@group(0) @binding(4) var<storage, read_write> indices: array<i32>;

const AHEAD: u32 = 8u;
var<workgroup> counted: array<atomic<u32>, 256>;
var<workgroup> absent: atomic<u32>;
var<workgroup> chosen: vec2<u32>;

// The elements at k and at every 256th behind it, all of which are on their way before the first is looked at.
fn ahead(line: u32, k: u32) -> array<E, AHEAD> {
    var own: array<E, AHEAD>;
    for (var j = 0u; j < AHEAD; j++) { own[j] = x[p.x_offset + line * p.length + min(k + j * 256u, p.length - 1u)]; }
    return own;
}

fn wanted_place(line: u32) -> u32 {
    if (!MEDIAN) { return p.place; }
    let numbers = p.length - atomicLoad(&histograms[PASSES * p.lines * 256u + line]);
    return select(numbers, (max(numbers, 1u) - 1u) / 2u, SKIP || numbers == p.length);
}

// (how the wanted key begins, its place among those that begin so), after so many passes.
fn narrowed(local: u32, line: u32, passes: u32) -> vec2<u32> {
    var begins = 0u;
    var place = wanted_place(line);
    for (var done = 0u; done < passes; done++) {
        let count = atomicLoad(&histograms[(done * p.lines + line) * 256u + local]);
        let before = running_sum(local, count).before;
        if (before <= place && place - before < count) { chosen = vec2<u32>(local, before); }
        workgroupBarrier();
        begins = (begins << 8u) | chosen.x;
        place -= chosen.y;
    }
    return vec2<u32>(begins, place);
}

@compute @workgroup_size(256)
fn histogram(grid: Grid, @builtin(local_invocation_index) local: u32) {
    let group = min(group_of(grid), p.lines * p.chunks - 1u);
    let line = group / p.chunks;
    let first = group % p.chunks * ROWS * 256u;
    let stop = select(0u, min(first + ROWS * 256u, p.length), group == group_of(grid));
    let shift = 8u * (PASSES - 1u - p.pass_number);
    let found = narrowed(local, line, p.pass_number);
    atomicStore(&counted[local], 0u);
    if (local == 0u) { atomicStore(&absent, 0u); }
    workgroupBarrier();
    var none = 0u;
    for (var k = first + local; k < stop; k += 256u * AHEAD) {
        let own = ahead(line, k);
        for (var j = 0u; j < AHEAD; j++) {
            let rank = key(own[j]) >> shift;
            if (k + j * 256u < stop && (p.pass_number == 0u || rank >> 8u == found.x)) {
                atomicAdd(&counted[rank & 255u], 1u);
                if (MEDIAN && p.pass_number == 0u && missing(own[j])) { none++; }
            }
        }
    }
    if (none > 0u) { atomicAdd(&absent, none); }
    workgroupBarrier();
    let count = atomicLoad(&counted[local]);
    if (count > 0u) { atomicAdd(&histograms[(p.pass_number * p.lines + line) * 256u + local], count); }
    if (local == 0u && atomicLoad(&absent) > 0u) { atomicAdd(&histograms[PASSES * p.lines * 256u + line], atomicLoad(&absent)); }
}

@compute @workgroup_size(256)
fn count(grid: Grid, @builtin(local_invocation_index) local: u32) {
    let group = min(group_of(grid), p.lines * p.chunks - 1u);
    let line = group / p.chunks;
    let first = group % p.chunks * ROWS * 256u;
    let stop = min(first + ROWS * 256u, p.length);
    let wanted = narrowed(local, line, p.pass_number).x;
    var number = 0u;
    for (var k = first + local; k < stop; k += 256u * AHEAD) {
        let own = ahead(line, k);
        for (var j = 0u; j < AHEAD; j++) { number += select(0u, 1u, k + j * 256u < stop && key(own[j]) == wanted); }
    }
    let all = running_sum(local, number).all;
    if (local == 0u) { equal[group] = all; }
}

@compute @workgroup_size(256)
fn find(grid: Grid, @builtin(local_invocation_index) local: u32) {
    let group = min(group_of(grid), p.lines * p.chunks - 1u);
    let line = group / p.chunks;
    let found = narrowed(local, line, p.pass_number);
    var passed = 0u;
    for (var i = line * p.chunks + local; i < group; i += THREADS) { passed += equal[i]; }
    let before = running_sum(local, passed).all;
    let left = found.y - before;
    let here = before <= found.y && left < equal[group] && group == group_of(grid);
    // Neighbours, so that equal keys are counted in their order; of the one chunk that has the element.
    let first = min((group % p.chunks * 256u + local) * ROWS, p.length);
    let last = select(first, min(first + ROWS, p.length), here);
    var number = 0u;
    for (var k = first; k < last; k++) { number += select(0u, 1u, key(x[p.x_offset + line * p.length + k]) == found.x); }
    var rank = running_sum(local, number).before;
    for (var k = first; k < last; k++) {
        let v = x[p.x_offset + line * p.length + k];
        if (key(v) != found.x) { continue; }
        if (rank == left) {
            values[line] = v;
            indices[line] = i32(k);
        }
        rank++;
    }
}
