// prelude/rows: sums and maxima of what the threads of a row have. No bindings, no entry point; a file that uses them declares LANES, how
// many neighbouring threads of a workgroup of at most 256 a row has, a power of two, and S, the type of what they have.

const ROW_PART: u32 = min(LANES, select(16u, 8u, LANES < 128u));
var<workgroup> row_values: array<S, 256>;
var<workgroup> row_parts: array<S, 256u / ROW_PART>;

// Each thread adds up what the others of its part have, then the sums of the parts: two barriers, where a tree has one for each level.
fn row_total(thread: u32, value: S) -> S {
    row_values[thread] = value;
    workgroupBarrier();
    var sum = S();
    for (var i = 0u; i < ROW_PART; i++) { sum += row_values[thread / ROW_PART * ROW_PART + i]; }
    if (thread % ROW_PART == 0u) { row_parts[thread / ROW_PART] = sum; }
    workgroupBarrier();
    sum = S();
    for (var i = 0u; i < LANES / ROW_PART; i++) { sum += row_parts[thread / LANES * (LANES / ROW_PART) + i]; }
    return sum;
}

// The same with the largest; what was read before is not in the way of `row_total` after it.
fn row_most(thread: u32, value: S) -> S {
    row_values[thread] = value;
    workgroupBarrier();
    var most = value;
    for (var i = 0u; i < ROW_PART; i++) { most = max(most, row_values[thread / ROW_PART * ROW_PART + i]); }
    if (thread % ROW_PART == 0u) { row_parts[thread / ROW_PART] = most; }
    workgroupBarrier();
    for (var i = 0u; i < LANES / ROW_PART; i++) { most = max(most, row_parts[thread / LANES * (LANES / ROW_PART) + i]); }
    return most;
}
