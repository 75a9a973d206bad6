// prelude/scan: sums along the threads of a workgroup of 256. No bindings, no entry point; a file that uses it declares `alias Sum`.

var<workgroup> running_sums: array<Sum, 256>;

// The sum of the values of this thread and of those before it, each adding what lies 1, 2, 4, ... before it; `running_sums` has all threads'.
fn running_sum(local: u32, value: Sum) -> Sum {
    var total = value;
    running_sums[local] = total;
    workgroupBarrier();
    for (var reach = 1u; reach < 256u; reach <<= 1u) {
        var before = Sum();
        if (local >= reach) {
            before = running_sums[local - reach];
        }
        workgroupBarrier();
        total += before;
        running_sums[local] = total;
        workgroupBarrier();
    }
    return total;
}
