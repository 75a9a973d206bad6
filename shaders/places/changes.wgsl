// places_changes: 1 where an element of x, the first too, differs from the one before it, else 0. A NaN differs from all.
//
// Bindings: 0 x (read), 1 out (read_write).
// Launch:   x = ceil(size / 1024) workgroups of 256; a thread makes four neighbours.

alias E = f32;

struct Params { size: u32, x_offset: u32 }
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read> x: array<E>;
@group(0) @binding(1) var<storage, read_write> out: array<vec4<u32>>;

@compute @workgroup_size(256)
fn main(grid: Grid, @builtin(local_invocation_index) local: u32) {
    let first = 4u * (group_of(grid) * 256u + local);
    if (first >= p.size) {
        return;
    }
    let at = p.x_offset + min(vec4<u32>(first) + vec4<u32>(0u, 1u, 2u, 3u), vec4<u32>(p.size - 1u));
    let before = x[p.x_offset + max(first, 1u) - 1u];
    let found = vec4<E>(x[at.x], x[at.y], x[at.z], x[at.w]);
    let same = found == vec4<E>(before, found.xyz);
    var changed = select(vec4<u32>(1u), vec4<u32>(), same);
    if (first == 0u) { changed.x = 1u; }
    let left = p.size - first;
    if (left > 3u) {
        out[first / 4u] = changed;
        return;
    }
    out[first / 4u].x = changed.x;
    if (left > 1u) { out[first / 4u].y = changed.y; }
    if (left > 2u) { out[first / 4u].z = changed.z; }
}
