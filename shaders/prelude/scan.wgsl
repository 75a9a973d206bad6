// prelude/scan: sums along the threads of a workgroup. No bindings, no entry point; a file that uses `running_sum` declares THREADS, a
// multiple of 64.

var<workgroup> thread_sums: array<vec4<u32>, THREADS / 4u>;
var<workgroup> group_sums: array<vec4<u32>, THREADS / 64u>;

struct RunningSum {
    before: u32,            // of the values of the threads before this one
    all: u32,
}

// Each thread adds up what the others of its sixteen have, then the sums of the sixteens.
fn running_sum(local: u32, value: u32) -> RunningSum {
    thread_sums[local / 4u][local % 4u] = value;
    workgroupBarrier();
    var sum = RunningSum();
    for (var i = 0u; i < 4u; i++) {
        sum.before += sum_below(thread_sums[local / 16u * 4u + i], 4u * i, local % 16u);
    }
    if (local % 16u == 15u) {
        group_sums[local / 64u][local / 16u % 4u] = sum.before + value;
    }
    workgroupBarrier();
    for (var i = 0u; i < THREADS / 64u; i++) {
        sum.all += sum_below(group_sums[i], 0u, 4u);
        sum.before += sum_below(group_sums[i], 4u * i, local / 16u);
    }
    return sum;
}

// The sum of those of the values, which have the numbers from `first` on, that come before number `end`.
fn sum_below(values: vec4<u32>, first: u32, end: u32) -> u32 {
    let kept = select(vec4<u32>(), values, vec4<u32>(first) + vec4<u32>(0u, 1u, 2u, 3u) < vec4<u32>(end));
    return kept.x + kept.y + kept.z + kept.w;
}

// Where number i lies in workgroup memory, so that threads that read several in a row each fall on different banks of it.
fn banked(i: u32) -> u32 { return i + (i >> 5u); }
