// sort_search: where each value belongs in its sorted line: before equal elements, or with RIGHT behind them.
//
// SHARED: one line serves all values. Nothing compares with NaN, which is behind everything.
//
// Bindings: 0 sorted[line, length], 1 values[line, each] (read), 2 out (read_write).
// Launch:   x = ceil(count / 256) workgroups of 256.
// Sums:     none.

alias E = f32;
const RIGHT: bool = false;
const SHARED: bool = true;
fn unordered(x: E) -> bool { return is_nan(f32(x)); }

struct Params {
    count: u32, length: u32, each: u32, sorted_offset: u32,
    values_offset: u32,
}
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read> sorted: array<E>;
@group(0) @binding(1) var<storage, read> values: array<E>;
@group(0) @binding(2) var<storage, read_write> out: array<i32>;

@compute @workgroup_size(256)
fn main(grid: Grid, @builtin(local_invocation_index) local: u32) {
    let k = group_of(grid) * 256u + local;
    if (k >= p.count) {
        return;
    }
    let value = values[p.values_offset + k];
    let start = p.sorted_offset + select(k / p.each * p.length, 0u, SHARED);
    var low = 0u;
    var high = p.length;
    while (low < high) {
        let middle = low + (high - low) / 2u;
        let element = sorted[start + middle];
        if (unordered(element) || unordered(value) || element < value || (RIGHT && element == value)) {
            low = middle + 1u;
        } else {
            high = middle;
        }
    }
    out[k] = i32(low);
}
