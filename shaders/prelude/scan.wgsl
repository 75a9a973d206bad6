// prelude/scan: sums along the threads of a workgroup. No bindings, no entry point; a file that uses `running_sum` declares THREADS, a
// multiple of 64.

// Numbers, not vectors of four: some compilers store a component by storing its vector, over what other threads stored in it.
var<workgroup> thread_sums: array<u32, THREADS>;
var<workgroup> group_sums: array<u32, THREADS / 16u>;

struct RunningSum {
    before: u32,            // of the values of the threads before this one
    all: u32,
}

// Each thread adds up what the others of its sixteen have, then the sums of the sixteens.
fn running_sum(local: u32, value: u32) -> RunningSum {
    thread_sums[local] = value;
    workgroupBarrier();
    var sum = RunningSum();
    let first = local / 16u * 16u;
    for (var i = 0u; i < 16u; i += 4u) {
        let four = vec4<u32>(thread_sums[first + i], thread_sums[first + i + 1u], thread_sums[first + i + 2u], thread_sums[first + i + 3u]);
        sum.before += sum_below(four, i, local % 16u);
    }
    if (local % 16u == 15u) {
        group_sums[local / 16u] = sum.before + value;
    }
    workgroupBarrier();
    for (var i = 0u; i < THREADS / 16u; i += 4u) {
        let four = vec4<u32>(group_sums[i], group_sums[i + 1u], group_sums[i + 2u], group_sums[i + 3u]);
        sum.all += sum_below(four, 0u, 4u);
        sum.before += sum_below(four, i, local / 16u);
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
