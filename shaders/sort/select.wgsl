// sort_select: of each line of x[lines, length] the first `kept` in order, equal ones as they come, and all in the order of the line.
//
// `histogram`, once for each eight bits of the keys from the highest down, counts the keys that begin as the last one wanted does; `count`
// how many are to be had from each 256 elements (a row), which sort_scan adds up; `take` writes these. A workgroup has ROWS rows of a line.
//
// Bindings: 0 x (read), 1 histograms[pass, line, digit], zero at first, 2 rows[below or equal, line, row], 3 values, 4 places, both
//           [lines, kept] (read_write).
// Launch:   x = lines * chunks workgroups of 256, chunks = ceil(length / (256 * ROWS)).
// Sums:     integers: exact in any order.

alias E = f32;
alias Sum = u32;
const THREADS: u32 = 256u;
const ROWS: u32 = 32u;
const PASSES: u32 = 4u;
fn key(x: E) -> u32 { return bitcast<u32>(x); }

struct Params {
    lines: u32, length: u32, kept: u32, chunks: u32,
    pass_number: u32, x_offset: u32,
}
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read> x: array<E>;
@group(0) @binding(1) var<storage, read_write> histograms: array<atomic<u32>>;
@group(0) @binding(2) var<storage, read_write> rows: array<u32>;
@group(0) @binding(3) var<storage, read_write> values: array<E>;
@group(0) @binding(4) var<storage, read_write> places: array<i32>;

var<workgroup> counted: array<atomic<u32>, 256>;
var<workgroup> chosen: vec2<u32>;

// (how the last key wanted begins, how many of those that begin so are wanted), after so many passes.
fn narrowed(local: u32, line: u32, passes: u32) -> vec2<u32> {
    var begins = 0u;
    var wanted = p.kept;
    for (var done = 0u; done < passes; done++) {
        let count = atomicLoad(&histograms[(done * p.lines + line) * 256u + local]);
        let before = running_sum(local, count).before;
        if (before < wanted && wanted <= before + count) {
            chosen = vec2<u32>(local, before);
        }
        workgroupBarrier();
        begins = (begins << 8u) | chosen.x;
        wanted -= chosen.y;
    }
    return vec2<u32>(begins, wanted);
}

@compute @workgroup_size(256)
fn histogram(grid: Grid, @builtin(local_invocation_index) local: u32) {
    let group = group_of(grid);
    let line = group / p.chunks;
    if (line >= p.lines) {
        return;
    }
    let first = group % p.chunks * ROWS * 256u;
    let stop = min(first + ROWS * 256u, p.length);
    let shift = 8u * (PASSES - 1u - p.pass_number);
    let found = narrowed(local, line, p.pass_number);
    atomicStore(&counted[local], 0u);
    workgroupBarrier();
    for (var k = first + local; k < stop; k += 256u) {
        let rank = key(x[p.x_offset + line * p.length + k]) >> shift;
        if (p.pass_number == 0u || rank >> 8u == found.x) {
            atomicAdd(&counted[rank & 255u], 1u);
        }
    }
    workgroupBarrier();
    let count = atomicLoad(&counted[local]);
    if (count > 0u) {
        atomicAdd(&histograms[(p.pass_number * p.lines + line) * 256u + local], count);
    }
}

@compute @workgroup_size(256)
fn count(grid: Grid, @builtin(local_invocation_index) local: u32) {
    let group = group_of(grid);
    let line = group / p.chunks;
    if (line >= p.lines) {
        return;
    }
    let in_line = (p.length + 255u) / 256u;
    let first = group % p.chunks * ROWS;
    let last = narrowed(local, line, PASSES).x;
    atomicStore(&counted[local], 0u);
    workgroupBarrier();
    for (var j = 0u; j < ROWS; j++) {
        let k = (first + j) * 256u + local;
        if (k < p.length) {
            let rank = key(x[p.x_offset + line * p.length + k]);
            if (rank <= last) {
                atomicAdd(&counted[j], select(1u, 0x10000u, rank == last));
            }
        }
    }
    workgroupBarrier();
    if (local < ROWS && first + local < in_line) {
        let found = atomicLoad(&counted[local]);
        rows[line * in_line + first + local] = found & 0xffffu;
        rows[(p.lines + line) * in_line + first + local] = found >> 16u;
    }
}

@compute @workgroup_size(256)
fn take(grid: Grid, @builtin(local_invocation_index) local: u32) {
    let group = group_of(grid);
    let line = group / p.chunks;
    if (line >= p.lines) {
        return;
    }
    let in_line = (p.length + 255u) / 256u;
    let first = group % p.chunks * ROWS;
    let found = narrowed(local, line, PASSES);
    for (var row = first; row < min(first + ROWS, in_line); row++) {
        let k = row * 256u + local;
        var one = 0u;                                   // a key below the last, or equal to it
        if (k < p.length) {
            let rank = key(x[p.x_offset + line * p.length + k]);
            one = select(select(0u, 0x10000u, rank == found.x), 1u, rank < found.x);
        }
        let before = running_sum(local, one).before;
        let equal_line = (p.lines + line) * in_line;
        let below = rows[line * in_line + row] - rows[line * in_line] + (before & 0xffffu);
        let equal = rows[equal_line + row] - rows[equal_line] + (before >> 16u);
        if (one == 1u || (one > 1u && equal < found.y)) {
            let to = line * p.kept + below + min(equal, found.y);
            values[to] = x[p.x_offset + line * p.length + k];
            places[to] = i32(k);
        }
    }
}
