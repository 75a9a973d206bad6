// prelude/split: a stable sort of a workgroup's items by four bits. No bindings, no entry point; a file that uses it declares
// THREADS and ITEMS, of a thread. Item number local * ITEMS + j is item j of thread `local`.

const COUNTERS: u32 = 8u;                               // of a thread: of two digits each, 16 bits wide
var<workgroup> exchanged: array<u32, THREADS * max(ITEMS, COUNTERS) / 32u * 33u>;

// Puts the items into `exchanged`, item number i at banked(i), in the order of the digit at bit `shift`; equal digits stay in order.
fn split_by_digit(local: u32, items: ptr<function, array<u32, ITEMS>>, shift: u32) {
    var ranks: array<u32, ITEMS>;
    workgroupBarrier();
    for (var d = 0u; d < COUNTERS; d++) {
        exchanged[banked(d * THREADS + local)] = 0u;
    }
    for (var j = 0u; j < ITEMS; j++) {
        let digit = ((*items)[j] >> shift) & 15u;
        let at = banked((digit & 7u) * THREADS + local);
        let high = (digit >> 3u) * 16u;
        let counted = exchanged[at];
        ranks[j] = (counted >> high) & 0xffffu;
        exchanged[at] = counted + (1u << high);
    }
    workgroupBarrier();
    var total = 0u;
    for (var d = 0u; d < COUNTERS; d++) {
        total += exchanged[banked(local * COUNTERS + d)];
    }
    let sum = running_sum(local, total);
    var before = sum.before + (sum.all << 16u);         // digits from 8 on come behind all others
    for (var d = 0u; d < COUNTERS; d++) {
        let counted = exchanged[banked(local * COUNTERS + d)];
        exchanged[banked(local * COUNTERS + d)] = before;
        before += counted;
    }
    workgroupBarrier();
    for (var j = 0u; j < ITEMS; j++) {
        let digit = ((*items)[j] >> shift) & 15u;
        ranks[j] += (exchanged[banked((digit & 7u) * THREADS + local)] >> ((digit >> 3u) * 16u)) & 0xffffu;
    }
    workgroupBarrier();
    for (var j = 0u; j < ITEMS; j++) {
        exchanged[banked(ranks[j])] = (*items)[j];
    }
    workgroupBarrier();
}
