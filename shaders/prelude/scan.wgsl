// prelude/scan: sums along the threads of a workgroup. No bindings, no entry point; a file that uses `running_sum` declares `alias Sum` and
// THREADS, a multiple of 16.

var<workgroup> thread_sums: array<Sum, THREADS>;
var<workgroup> group_sums: array<Sum, THREADS / 16u>;

struct RunningSum {
    before: Sum,            // of the values of the threads before this one
    all: Sum,
}

// Each thread adds up what the others of its sixteen have, then the sums of the sixteens.
fn running_sum(local: u32, value: Sum) -> RunningSum {
    thread_sums[local] = value;
    workgroupBarrier();
    let first = local & ~15u;
    var sum = RunningSum();
    for (var i = 0u; i < 15u; i++) {
        sum.before += select(Sum(), thread_sums[first + i], first + i < local);
    }
    if (local % 16u == 15u) {
        group_sums[local / 16u] = sum.before + value;
    }
    workgroupBarrier();
    for (var i = 0u; i < THREADS / 16u; i++) {
        sum.all += group_sums[i];
        sum.before += select(Sum(), group_sums[i], i < local / 16u);
    }
    return sum;
}

// Where number i lies in workgroup memory, so that threads that read several in a row each fall on different banks of it.
fn banked(i: u32) -> u32 { return i + (i >> 5u); }
