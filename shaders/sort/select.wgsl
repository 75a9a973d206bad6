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
const THREADS: u32 = 256u;
const ROWS: u32 = 32u;                                  // at most 32, a multiple of AHEAD
const PASSES: u32 = 4u;
fn key(x: E) -> u32 { return bitcast<u32>(x); }

struct Params {
    lines: u32, length: u32, kept: u32, chunks: u32,
    pass_number: u32, x_offset: u32,                    // passes that are done: as a constant it would be compiled once for each
}
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read> x: array<E>;
@group(0) @binding(1) var<storage, read_write> histograms: array<atomic<u32>>;
@group(0) @binding(2) var<storage, read_write> rows: array<u32>;
@group(0) @binding(3) var<storage, read_write> values: array<E>;
@group(0) @binding(4) var<storage, read_write> places: array<i32>;

const AHEAD: u32 = 8u;
var<workgroup> counted: array<atomic<u32>, 256>;
var<workgroup> marked: array<atomic<u32>, 16u * ROWS>;  // keys below the last one, a bit each, and then those equal to it
var<workgroup> chosen: vec2<u32>;

// The elements at k and at every 256th behind it, all of which are on their way before the first is looked at.
fn ahead(line: u32, k: u32) -> array<E, AHEAD> {
    var own: array<E, AHEAD>;
    for (var j = 0u; j < AHEAD; j++) {
        if (k + j * 256u < p.length) {
            own[j] = x[p.x_offset + line * p.length + k + j * 256u];
        }
    }
    return own;
}

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
    for (var k = first + local; k < stop; k += 256u * AHEAD) {
        let own = ahead(line, k);
        for (var j = 0u; j < AHEAD; j++) {
            let rank = key(own[j]) >> shift;
            if (k + j * 256u < stop && (p.pass_number == 0u || rank >> 8u == found.x)) {
                atomicAdd(&counted[rank & 255u], 1u);
            }
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
    let last = narrowed(local, line, p.pass_number).x;
    atomicStore(&counted[local], 0u);
    workgroupBarrier();
    for (var row = 0u; row < ROWS; row += AHEAD) {
        let k = (first + row) * 256u + local;
        let own = ahead(line, k);
        for (var j = 0u; j < AHEAD; j++) {
            let rank = key(own[j]);
            if (k + j * 256u < p.length && rank <= last) {
                atomicAdd(&counted[row + j], select(1u, 0x10000u, rank == last));
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

// How many of a row's marks are those of threads before this one.
fn marked_before(first: u32, local: u32) -> u32 {
    var sum = countOneBits(atomicLoad(&marked[first + local / 32u]) & ((1u << (local % 32u)) - 1u));
    for (var word = 0u; word < local / 32u; word++) {
        sum += countOneBits(atomicLoad(&marked[first + word]));
    }
    return sum;
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
    let found = narrowed(local, line, p.pass_number);
    for (var word = local; word < 16u * ROWS; word += 256u) {
        atomicStore(&marked[word], 0u);
    }
    workgroupBarrier();
    var mine = 0u;                                      // of the rows, a bit each
    var equal = 0u;
    for (var row = 0u; row < ROWS; row += AHEAD) {
        let k = (first + row) * 256u + local;
        let own = ahead(line, k);
        for (var j = 0u; j < AHEAD; j++) {
            let rank = key(own[j]);
            if (k + j * 256u < p.length && rank <= found.x) {
                mine |= 1u << (row + j);
                equal |= select(0u, 1u << (row + j), rank == found.x);
                atomicOr(&marked[select(0u, 8u * ROWS, rank == found.x) + (row + j) * 8u + local / 32u], 1u << (local % 32u));
            }
        }
    }
    workgroupBarrier();
    for (; mine != 0u; mine &= mine - 1u) {
        let row = firstTrailingBit(mine);
        let below_at = line * in_line;
        let equal_at = (p.lines + line) * in_line;
        let below_before = rows[below_at + first + row] - rows[below_at] + marked_before(row * 8u, local);
        let equal_before = rows[equal_at + first + row] - rows[equal_at] + marked_before((ROWS + row) * 8u, local);
        if (((equal >> row) & 1u) == 0u || equal_before < found.y) {
            let k = (first + row) * 256u + local;
            let to = line * p.kept + below_before + min(equal_before, found.y);
            values[to] = x[p.x_offset + line * p.length + k];
            places[to] = i32(k);
        }
    }
}
